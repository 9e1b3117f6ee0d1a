"""Traces of PRISM's simulator (``prism model.nm -simpath 20 trace.txt``) as observed paths.

One line per state: the action that led to it, the number of the step, the values of the variables and, with
``rewards=true``, the rewards of the state and of the step that leaves it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from tether._foundation.problems import Complaints, Source
from tether.errors import Problem
from tether.io.files import file_error
from tether.io.names_as_text import find_index
from tether.io.valuations import read_value, valuation_class
from tether.mdp import MDP

_HEADER = re.compile(r"action([ \t,])(?:probability\1)?step(?:\1|\r|$)")
_NOT_VARIABLES = re.compile(r"(?:state|transition)_reward[0-9]*|time_in_state")


def is_trace(text: str) -> bool:
    r"""Whether a text begins as a trace does, whatever separates its columns.

    >>> is_trace("action step x\n- 0 1\n"), is_trace("t,state,action\n0,sick,wait\n")
    (True, False)
    """
    return _HEADER.match(text.partition("\n")[0]) is not None


def read_trace(
    name: str, text: str, mdp: MDP | None
) -> tuple[list[Any], list[Any], list[float | None] | None, list[int], Source]:
    """States, actions, rewards and numbers of the steps of a trace.

    Variables are matched with those of the model by their names, in whatever order it has them. Rewards are taken if
    the trace has one reward structure: that of the state and that of the step that leaves it, together.
    """
    lines = [line.rstrip("\r\n") for line in text.splitlines()]
    numbered = [i for i, line in enumerate(lines) if line.strip() and i]
    header = _HEADER.match(lines[0].rstrip())
    assert header is not None
    separator = header[1]
    columns = lines[0].rstrip().split(separator)
    source = Source(name, find_lines=lambda: np.array([i + 1 for i in numbered], dtype=np.int64))
    complaints = Complaints(source)
    rows = [lines[i].rstrip().split(separator) for i in numbered]
    if not rows:
        raise file_error(name, Problem("this trace has no states", expectation="a line for each"))
    for i, row in enumerate(rows):
        if len(row) != len(columns):
            complaints.add(f"{len(row)} cells", row=i, expectation=f"{len(columns)}, as in the first line")
    complaints.raise_any()
    first = columns.index("step") + 1
    of_state = [i for i in range(first, len(columns)) if not _NOT_VARIABLES.fullmatch(columns[i])]
    if not of_state:
        raise file_error(name, Problem("this trace has no variables", fix="export it without vars="))
    make, order = _state_of([columns[i] for i in of_state], mdp)
    states: list[Any] = []
    steps: list[int] = []
    for i, row in enumerate(rows):
        try:
            states.append(make([read_value(row[of_state[j]]) for j in order]))
            steps.append(int(row[first - 1]))
        except ValueError as error:
            what = f"found {str(error)!r}" if str(error) in row else f"found {row[first - 1]!r}"
            complaints.add(what, row=i, expectation="whole numbers, true or false")
    rewards = _rewards(columns, rows, complaints)
    complaints.raise_any()
    words = [row[0].strip("[]") for row in rows[1:]]
    return states, words if mdp is None else _meant(mdp, states, words), rewards, steps, source


def _state_of(variables: Sequence[str], mdp: MDP | None) -> tuple[Any, list[int]]:
    """What makes a state of values, and in which order it takes those of the trace."""
    known = list(getattr(mdp.states[0], "_fields", ())) if mdp is not None else []
    names = known if sorted(known) == sorted(variables) else list(variables)
    return valuation_class(names), [variables.index(name) for name in names]


def _rewards(
    columns: Sequence[str], rows: Sequence[Sequence[str]], complaints: Complaints
) -> list[float | None] | None:
    """What each step earned; None without rewards, or with several reward structures."""
    if "state_reward" not in columns or "transition_reward" not in columns:
        return None
    of_state, of_step = columns.index("state_reward"), columns.index("transition_reward")
    found: list[float | None] = []
    for i, row in enumerate(rows[:-1]):  # nothing leaves the last state
        try:
            found.append(float(row[of_state]) + float(row[of_step]))
        except ValueError:
            complaints.add(f"the rewards are {row[of_state]!r} and {row[of_step]!r}", row=i, expectation="numbers")
    return found


def _meant(mdp: MDP, states: Sequence[Any], words: Sequence[str]) -> list[Any]:
    """The actions of the model; for a word that is none, the only action that can lead to the next state.

    For a command without a label, PRISM writes a word that no exported model has.
    """
    places = [find_index(mdp.states, state) for state in states]
    actions: list[Any] = list(words)
    for t, word in enumerate(words):
        if places[t] < 0 or places[t + 1] < 0 or find_index(mdp.actions, word) >= 0:
            continue
        state, after = mdp.states[places[t]], mdp.states[places[t + 1]]
        possible = [action for action in mdp.actions_in(state) if after in mdp.row(state, action)[0]]
        if len(possible) == 1:
            actions[t] = possible[0]
    return actions
