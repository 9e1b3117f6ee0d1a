"""A model as one of stormpy's, in memory. stormpy is an extra, ``pip install 'tether[storm]'``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from tether._foundation.arrays import Flags, Floats
from tether.errors import Problem, QueryError, TetherError
from tether.model.form import Form, Rewards
from tether.model.model_record import ModelRecord
from tether.model.names import Names

_NOT_IN_LABELS = re.compile(r'[\s"]')
_NOT_IN_ACTIONS = re.compile(r"[^\w.#+-]")
_TEXT = re.compile(r"[^\s&=!\[\]\"]([^&=\[\]\n\r]*[^\s&=\[\]])?")

_TOO_LONG = 10**18
"""A whole number with more than 18 digits is read as text."""


def load_stormpy(what: str, instead: str = "", refuse: Callable[[Problem], TetherError] = QueryError) -> Any:
    """stormpy, or an error that says what needs it, and what to do without it."""
    try:
        import stormpy
        import stormpy.io
    except ImportError as error:
        fix = "pip install 'tether[storm]'" + (f"; or {instead}" if instead else "")
        raise refuse(Problem(f"{what} needs stormpy, which is not installed", fix=fix)) from error
    return stormpy


def stormpy_of(mdp: ModelRecord) -> Any:
    """A sparse MDP of stormpy with the same order of states and of their actions; see `MDP.to_stormpy`."""
    if mdp.rewards.horizon is not None:
        raise QueryError("the rewards of this model depend on time, which Storm does not hold; use MDP.save")
    storm, form = load_stormpy("a model of stormpy"), _with_loops(mdp.form, mdp.n_actions)
    labels = storm.models.StateLabeling(mdp.n_states)
    for name, some in label_states(mdp).items():
        labels.add_label(name)
        for state in some:
            labels.add_label_to_state(name, state)
    names, choices = names_for_storm(mdp.actions), storm.models.ChoiceLabeling(form.pair_action.size)
    for name in names:
        choices.add_label(name)
    for pair, action in enumerate(form.pair_action.tolist()):
        choices.add_label_to_choice(names[action], pair)
    made = storm.models.SparseModelComponents(
        transition_matrix=_matrix(storm, form, form.probability, np.ones(form.next_state.size, bool)),
        state_labeling=labels,
        reward_models={"reward": _rewards(storm, form)},
    )
    made.choice_labeling = choices
    named = _named_states(storm, mdp.states)
    if named is not None:
        made.state_valuations = named
    return storm.models.SparseMdp(made)


def _named_states(storm: Any, states: Names) -> Any:
    """The names of states as values of variables; None where Storm's files hold none, or a variable has two types."""
    found = written_values(states)
    if found is None or any(len(set(map(type, column))) > 1 for column in zip(*found[1], strict=True)):
        return None
    manager = storm.expressions.ExpressionManager()
    kinds, variables = storm.models.ValuationDescriptionBuilder(manager), []
    for name, column in zip(found[0], zip(*found[1], strict=True), strict=True):
        if isinstance(column[0], bool):
            variables.append(manager.declare_boolean_variable(name))
            kinds.add_boolean_variable(variables[-1])
        elif isinstance(column[0], int):
            variables.append(manager.declare_integer_variable(name))
            kinds.add_integer_variable(variables[-1], min(column), max(column))
        else:
            variables.append(manager.declare_string_variable(name))
            kinds.add_string_variable(variables[-1])
    values = storm.models.Valuations(kinds.build_class_description(), manager, len(states))
    for state, row in enumerate(found[1]):
        for variable, value in zip(variables, row, strict=True):
            values.write_value(state, variable, value)
    return values


def names_for_storm(actions: Iterable[Any]) -> list[str]:
    """Names of actions as Storm's files hold them: ``_`` replaces what would end a name.

    >>> names_for_storm(["go left", "go_left", 3])
    ['go_left_2', 'go_left', '3']
    """
    return distinct_names(actions, _NOT_IN_ACTIONS)


def distinct_names(labels: Iterable[Any], not_allowed: re.Pattern[str]) -> list[str]:
    r"""Names in which characters that are not allowed become ``_``; a name that is already used gets a number.

    >>> distinct_names(["a b", "a_b", 3], re.compile(r"\W"))
    ['a_b_2', 'a_b', '3']
    """
    labels = list(labels)
    as_they_are = {label for label in labels if isinstance(label, str) and not not_allowed.search(label)}
    taken: set[str] = set()
    names = []
    for label in labels:
        wanted = not_allowed.sub("_", str(label)) or "_"
        name, n = wanted, 1
        while name in taken or (name in as_they_are and name != label):
            n += 1
            name = f"{wanted}_{n}"
        taken.add(name)
        names.append(name)
    return names


def label_states(mdp: ModelRecord) -> dict[str, list[int]]:
    """The states of each label, by index: ``init`` first, the first state if the model does not say which.

    Spaces and quotes in the name of a label become ``_``. A terminal state, which is a label by itself, is included if
    its name is a text, because the file may have only the index of the state.
    """
    sets = {name: indices.tolist() for name, indices in mdp.label_sets.items()}
    words = [mdp.states[s] for s in mdp.form.terminal.tolist()]
    sets |= {word: mdp.labels[word].indices.tolist() for word in words if isinstance(word, str) and word not in sets}
    initial = sets.pop("init", None) or [0]
    names = distinct_names(["init", *sets], _NOT_IN_LABELS)
    return dict(zip(names, [initial, *sets.values()], strict=True))


def written_values(states: Names) -> tuple[tuple[str, ...], list[tuple[Any, ...]]] | None:
    """The variables that names of states are, and their values; None for 0 … n-1, or if they were not read again."""
    if isinstance(states[:0], range):
        return None
    values = valuations(states, (bool, int, str))
    if values is None:
        return None
    for text in {value for row in values[1] for value in row if isinstance(value, str)}:
        if not _TEXT.fullmatch(text) or text in ("true", "false") or re.fullmatch(r"-?[0-9]+", text):
            return None
    if any(abs(value) >= _TOO_LONG for row in values[1] for value in row if isinstance(value, int)):
        return None
    return values


def valuations(labels: Names, kinds: tuple[type, ...]) -> tuple[tuple[str, ...], list[tuple[Any, ...]]] | None:
    """Names as values of variables, if all are such, of the given kinds: the variables, and the values of each name.

    Values of tuples without names are called v0, v1, …, a single one is called state.
    """
    if not len(labels):
        return None
    sample = labels[0]
    if not isinstance(sample, tuple):
        if any(type(label) not in kinds for label in labels):
            return None
        return ("state",), [(label,) for label in labels]
    names = tuple(getattr(sample, "_fields", ())) or tuple(f"v{i}" for i in range(len(sample)))
    for label in labels:
        if not isinstance(label, tuple) or len(label) != len(sample) or any(type(v) not in kinds for v in label):
            return None
    return (names, [tuple(label) for label in labels]) if sample else None


def _with_loops(form: Form, n_actions: int) -> Form:
    """A form in which every state has an action, as Storm needs it: a state without absorbs under each of them."""
    counts = np.diff(form.pair_start)
    ends = np.flatnonzero(counts == 0)
    if not ends.size:
        return form
    at_pair = np.repeat(form.pair_start[ends], n_actions)
    at_entry = form.row_start[at_pair]
    values = np.insert(form.rewards.values, at_entry if form.rewards.by_entry else at_pair, 0.0)
    return replace(
        form,
        pair_start=np.cumsum([0, *np.where(counts == 0, n_actions, counts)]),
        pair_action=np.insert(form.pair_action, at_pair, np.tile(np.arange(n_actions), ends.size)),
        row_start=np.cumsum([0, *np.insert(np.diff(form.row_start), at_pair, 1)]),
        next_state=np.insert(form.next_state, at_entry, np.repeat(ends, n_actions)),
        probability=np.insert(form.probability, at_entry, 1.0),
        rewards=Rewards(values, form.rewards.by_entry),
    )


def _rewards(storm: Any, form: Form) -> Any:
    """Rewards of actions, or of transitions where they depend on the next state."""
    values = form.rewards.values
    if not form.rewards.by_entry:
        return storm.models.SparseRewardModel(optional_state_action_reward_vector=values.tolist())
    return storm.models.SparseRewardModel(optional_transition_reward_matrix=_matrix(storm, form, values, values != 0))


def _matrix(storm: Any, form: Form, values: Floats, kept: Flags) -> Any:
    n, pairs = form.pair_start.size - 1, form.pair_action.size
    builder = storm.datastructures.SparseMatrixBuilder(pairs, n, int(kept.sum()), True, True, n)
    pair_start, row_start = form.pair_start.tolist(), form.row_start.tolist()
    entries = list(zip(form.next_state.tolist(), values.tolist(), kept.tolist(), strict=True))
    for s in range(n):
        builder.new_row_group(pair_start[s])
        for pair in range(pair_start[s], pair_start[s + 1]):
            for target, value, is_kept in entries[row_start[pair] : row_start[pair + 1]]:
                if is_kept:
                    builder.add_next_value(pair, target, value)
    return builder.build()
