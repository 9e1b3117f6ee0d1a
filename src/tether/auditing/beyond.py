"""What follows the records of a log: up to which time each episode is asked about, and what its last states are worth.

`tether.conditioning.horizon` says what it means. In a log an episode that ended early is by default asked about up to
the length of the longest one; in a learned model until it ends under usual practice. An episode whose record was cut
is asked about up to its last step, unless a horizon is given.
"""

from __future__ import annotations

import numpy as np

from tether._foundation.arrays import Flags, Ints
from tether.auditing.answering import PreparedQuestion
from tether.auditing.batch_returns import last_states
from tether.logs.cohort import Cohort
from tether.observation.changes import absorbing

__all__ = ["horizons_of", "up_to_their_ends"]

_NOTHING, _TO_THE_END = -1, 0
"""For an episode that is not asked about after its record; for one that usual practice brings to its end."""


def horizons_of(asked: PreparedQuestion, cohort: Cohort) -> Ints:
    """H of each episode; -1 if nothing is asked about after the record, 0 if usual practice goes on to the end."""
    question, mdp, steps = asked.question, asked.mdp, np.diff(cohort.start)
    if question.horizon is not None:
        return np.full(len(cohort), question.horizon)
    if mdp.counts is not None and mdp.horizon is None:
        return np.full(len(cohort), _TO_THE_END)
    last, until = last_states(cohort), max(question.longest, mdp.horizon or 0)
    ended = (last >= 0) & _absorbing(asked)[np.maximum(last, 0)] & (steps < until)
    return np.where(ended, until, _NOTHING)


def up_to_their_ends(asked: PreparedQuestion, cohort: Cohort) -> Cohort:
    """The episodes without what their records have after an absorbing state, where more is asked about."""
    over = _absorbing(asked)[cohort.state]
    if not over.any():
        return cohort
    beyond = horizons_of(asked, cohort) != _NOTHING
    steps = np.diff(cohort.start)
    owner = np.repeat(np.arange(len(cohort)), steps)
    first = np.arange(owner.size) == cohort.start[owner]
    return cohort.keeping(~(over & beyond[owner]) | first)


def _absorbing(asked: PreparedQuestion) -> Flags:
    flags: Flags = asked.once("absorbing", lambda: absorbing(asked.mdp.form, np.arange(asked.mdp.n_states)))
    return flags
