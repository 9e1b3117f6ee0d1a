"""What PRISM's and Storm's explicit files have in common: transitions by index, and how they become a model.

Both list transitions by state, choice in that state, and next state. A choice is named by its action name
if it has one, else by its index. If two choices of a state have the same name, as in a probabilistic
automaton, the second is called ``a#2``. A name that is a whole number becomes a number. A state without
choices is a deadlock, and becomes absorbing, as in both tools.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.problems import Complaints
from tether._foundation.words import counted
from tether.errors import FileError, Problem, QueryError
from tether.io.files import File
from tether.io.plaintext import quoted
from tether.mdp import MDP
from tether.model.form import ROUNDED
from tether.model.from_table import form_from_codes
from tether.model.labels import LabelSets
from tether.model.names import make_names

TOLERANCE = 1e-5
"""How far from 1 the sum of a row may be by default. Many of these files have six digits: three thirds are 0.999999."""

NO_LABEL = -1
"""The label of a choice that has none."""

_ISOLATED = 1_000
_LOOPS = 5_000_000


@dataclass(frozen=True, slots=True, eq=False)
class SortedTransitions:
    """Transitions by index, one row each, sorted by state, choice and next state, none twice.

    Attributes
    ----------
    state, choice, next_state, line : array (rows,)
        ``line`` is its line in the file.
    probability : array (rows,)
    pair : array (rows,)
        Pairs of state and choice, numbered in order: the pair of each row.
    first : array (pairs,)
        The first row of each pair.
    label : array (pairs,)
        The index in ``names`` of each pair's action name, or `NO_LABEL`.
    names : sequence of str
    """

    state: Ints
    choice: Ints
    next_state: Ints
    line: Ints
    probability: Floats
    pair: Ints
    first: Ints
    label: Ints
    names: Sequence[str]


def sort_transitions(
    state: Ints,
    choice: Ints,
    next_state: Ints,
    probability: Floats,
    label: Ints,
    line: Ints,
    names: Sequence[str],
    complaints: Complaints,
) -> SortedTransitions:
    """Sort the rows of a file, and add up rows of the same transition."""
    order = np.lexsort((next_state, choice, state))
    if not np.array_equal(order, np.arange(order.size)):
        state, choice, next_state = state[order], choice[order], next_state[order]
        probability, label, line = probability[order], label[order], line[order]
    new_pair = _changes(state) | _changes(choice)
    first = np.flatnonzero(new_pair)
    pair = np.cumsum(new_pair) - 1

    def two_labels(row: int) -> str:
        before = first[pair[row]]
        said, said_before = (quoted(names[label[at]]) if label[at] >= 0 else "missing" for at in (row, before))
        return (
            f"the action name of state {state[row]}, choice {choice[row]} is {said} here, but {said_before} in line "
            f"{line[before]:,}; a choice has one name, on each of its lines"
        )

    complaints.add_each(np.flatnonzero(label != label[first][pair]), two_labels, lines=line)
    label = label[first]
    new_row = new_pair | _changes(next_state)
    if not new_row.all():
        kept = np.flatnonzero(new_row)
        with np.errstate(over="ignore"):  # a sum of inf is noted like any other
            probability = np.add.reduceat(probability, kept)
        state, choice, next_state, line, pair = (given[kept] for given in (state, choice, next_state, line, pair))
        first = np.flatnonzero(_changes(pair))
    return SortedTransitions(state, choice, next_state, line, probability, pair, first, label, names)


def _changes(values: Ints) -> Ints:
    changes = np.ones(values.size, dtype=bool)
    changes[1:] = values[1:] != values[:-1]
    return changes


def check_rows(rows: SortedTransitions, complaints: Complaints, tolerance: float, hint: str = "") -> None:
    """Note each choice whose probabilities do not sum to 1."""
    if not (isinstance(tolerance, int | float) and 0 <= tolerance < np.inf):
        raise QueryError(f"tolerance must be a number ≥ 0, not {tolerance!r}")
    with np.errstate(over="ignore"):
        sums = np.add.reduceat(rows.probability, rows.first) if rows.first.size else np.empty(0)

    def wrong_sum(pair: int) -> Problem:
        row = rows.first[pair]
        text = f"the probabilities of state {rows.state[row]}, choice {rows.choice[row]} sum to {sums[pair]:.9g}, not 1"
        if not abs(sums[pair] - 1.0) < ROUNDED:
            return Problem(text + hint, value=float(sums[pair]))
        fix = f"if they were rounded: tolerance={10.0 ** np.ceil(np.log10(abs(sums[pair] - 1.0))):g}"
        return Problem(text, value=float(sums[pair]), fix=fix, argument="tolerance")

    bad = np.flatnonzero(~(np.abs(sums - 1.0) <= tolerance))
    complaints.add_each(bad, wrong_sum, lines=rows.line[rows.first])


def check_size(n_states: int, rows: SortedTransitions, complaints: Complaints, line: int | None = None) -> None:
    """Note a declared number of states that is unlikely, given the transitions, before memory is used for them."""
    left = int(np.count_nonzero(_changes(rows.state)))
    if n_states - left <= max(_ISOLATED, left):
        return  # the states with choices alone are enough; they are sorted and fast to count
    mentioned = np.union1d(rows.state, rows.next_state).size
    if n_states - mentioned > max(_ISOLATED, mentioned):
        complaints.add(
            f"{counted(n_states, 'state')} are declared, but the transitions are about {mentioned:,} of them; "
            "correct the number, or restore the missing lines",
            line=line,
        )


def build(
    file: File,
    rows: SortedTransitions,
    n_states: int,
    states: Sequence[Any] | None,
    reward: Floats | None,
    state_reward: Floats | None,
    labels: Mapping[str, Collection[int]],
    tolerance: float,
) -> MDP:
    """The model: actions named, deadlocks absorbing, labels by index. Rows and sizes were checked before.

    ``reward`` is the reward of each row, ``state_reward`` that of a state alone: a deadlock earns it at every step.
    """
    codes, action_names = _actions(rows)
    n_actions = len(action_names)
    has_choice = np.zeros(n_states, dtype=bool)
    has_choice[rows.state] = True
    deadlocks = np.flatnonzero(~has_choice)
    name = os.fspath(file)
    if not n_actions:
        raise FileError(Problem("the model is empty: it has no transitions", file=name))
    if deadlocks.size * n_actions > _LOOPS:
        message = f"{counted(deadlocks.size, 'state')} without choices would absorb under each of "
        message += f"{counted(n_actions, 'action')}, which is too much; give each a choice that leads back to it"
        raise FileError(Problem(message, file=name))
    loops = np.repeat(deadlocks, n_actions)  # under every action: observed actions after the end are no changes
    if reward is not None:
        reward = np.concatenate((reward, np.zeros(loops.size) if state_reward is None else state_reward[loops]))
    state_names, actions = make_names(states, n_states, "state"), make_names(action_names, None, "action")
    form = form_from_codes(
        state_names,
        actions,
        np.concatenate((rows.state, loops)),
        np.concatenate((codes[rows.pair], np.tile(np.arange(n_actions), deadlocks.size))),
        np.concatenate((rows.next_state, loops)),
        np.concatenate((rows.probability, np.ones(loops.size))),
        reward,
        tolerance=tolerance,
    )
    # A file declares ``deadlock`` even if there are none; other labels are kept, also labels without states.
    sets = {label: sorted(having) for label, having in labels.items() if having or label != "deadlock"}
    return MDP(state_names, actions, form, label_sets=LabelSets(sets))


def _actions(rows: SortedTransitions) -> tuple[Ints, list[Any]]:
    """The action of each pair, and the labels of actions."""
    state, choice = rows.state[rows.first], rows.choice[rows.first]
    # One code per label: "1" and the index 1 of a choice without a label are the same.
    codes_of: dict[Any, int] = {}
    spelled = [int(name) if _is_whole(name) else name for name in rows.names]
    of_name = np.array([codes_of.setdefault(name, len(codes_of)) for name in spelled], dtype=np.int64)
    named = rows.label != NO_LABEL
    bare = np.unique(choice[~named])
    of_bare = np.array([codes_of.setdefault(int(k), len(codes_of)) for k in bare], dtype=np.int64)
    codes = np.empty(state.size, dtype=np.int64)
    codes[named] = of_name[rows.label[named]]
    codes[~named] = of_bare[np.searchsorted(bare, choice[~named])]
    _rename_repeated(state, codes, codes_of)
    return _in_order(codes, list(codes_of))


def _rename_repeated(state: Ints, codes: Ints, codes_of: dict[Any, int]) -> None:
    """Call, in place, the second choice of a state with the same label ``a#2``, the third ``a#3``."""
    order = np.lexsort((codes, state))
    same = ~(_changes(state[order]) | _changes(codes[order]))
    repeated = np.sort(order[same])
    if not repeated.size:
        return
    labels = list(codes_of)
    concerned = np.isin(state, state[repeated])
    taken = set(zip(state[concerned].tolist(), codes[concerned].tolist(), strict=True))
    reached: dict[tuple[int, int], int] = {}
    for pair in repeated.tolist():
        key = (int(state[pair]), int(codes[pair]))
        n = reached.get(key, 1) + 1
        while (key[0], codes_of.setdefault(f"{labels[key[1]]}#{n}", len(codes_of))) in taken:
            n += 1
        reached[key] = n
        codes[pair] = codes_of[f"{labels[key[1]]}#{n}"]
        taken.add((key[0], int(codes[pair])))


def _in_order(codes: Ints, labels: list[Any]) -> tuple[Ints, list[Any]]:
    """Keep the labels that are used: whole numbers ascend, others stay as they first appear."""
    used, first = np.unique(codes, return_index=True)
    order = used[np.argsort(first)].tolist()
    if all(type(labels[code]) is int for code in order):
        order.sort(key=lambda code: labels[code])
    place = np.zeros(len(labels), dtype=np.int64)
    place[order] = np.arange(len(order))
    return place[codes], [labels[code] for code in order]


def _is_whole(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) <= 18 and (name == "0" or name[0] != "0")
