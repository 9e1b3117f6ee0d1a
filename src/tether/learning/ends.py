"""Outcomes of a log as states: the last action of an episode that died leads to the terminal state "died"."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from tether._foundation.arrays import Ints
from tether.errors import ModelError, Problem
from tether.model.names import Names, make_names
from tether.observation.episodes import Episodes

__all__ = ["check_no_state", "with_ends"]


def with_ends(log: Episodes) -> Episodes:
    """The log with the outcome of an episode in place of its last state, if the log has outcomes.

    No action is taken in a last state, so no decision is lost. And episodes that ended differently may have the same
    last state.

    Examples
    --------
    >>> import tether
    >>> from tether.learning.ends import with_ends
    >>> log = tether.Episodes.from_columns(
    ...     [1, 1, 2], [0, 1, 0], ["sick", "calm", "sick"], ["wait", None, "wait"], outcome=["died", "died", "survived"]
    ... )
    >>> with_ends(log)[1].states, with_ends(log)[2].states
    (('sick', 'died'), ('sick', 'survived'))
    """
    if log.outcomes is None or log.outcome is None:
        return log
    ended = np.flatnonzero(log.outcome >= 0)
    check_no_state(log.outcomes, log.states, log.state)
    # The states of the codes, then those of the outcomes.
    names = list(dict.fromkeys([*log.states, *log.outcomes]))
    place = {name: i for i, name in enumerate(names)}
    to_state = np.array([place[name] for name in log.outcomes], dtype=np.int64)
    after = log.next_state.astype(np.int64)
    after[log.start[1:][ended] - 1] = to_state[log.outcome[ended]]
    used = np.unique(np.concatenate((log.state, after[after >= 0])))
    renumber = np.full(len(names) + 1, -1, dtype=np.int64)  # the last place is for outcomes that were not recorded
    renumber[used] = np.arange(used.size)
    states = make_names([names[int(i)] for i in used], None, "state")
    return replace(log, states=states, state=renumber[log.state], next_state=renumber[after])


def check_no_state(outcomes: Iterable[Any], states: Names, acted_in: Ints) -> None:
    """Refuse an outcome with the name of a state in which an action was taken."""
    done = set(np.unique(acted_in).tolist())
    for outcome in outcomes:
        if states.find(outcome) in done:
            what = f"the outcome {outcome!r} has the name of a state of the log in which an action was taken"
            fix = "rename one of the two, or leave the outcomes out: columns={'outcome': ''}"
            raise ModelError(Problem(what, state=outcome, value=outcome, fix=fix, argument="outcome"))
