"""The ends of the records of a log: returns and last states; and up to which time each episode is asked about.

`tether.conditioning.horizon` says what it means. In a log an episode that ended early is by default asked about up to
the length of the longest one; in a learned model until it ends under usual practice. An episode whose record was cut
is asked about up to its last step, unless a horizon is given.
"""

from __future__ import annotations

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints
from tether.auditing.answering import PreparedQuestion
from tether.logs.cohort import Cohort
from tether.mdp import MDP
from tether.observation.changes import absorbing
from tether.observation.earned import earned
from tether.observation.indices import path_of

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


def logged_returns(mdp: MDP, cohort: Cohort) -> Floats:
    """The return of each episode by the log's own rewards; an unknown one counts as 0. NaN if there are none."""
    if cohort.reward is None:
        return np.full(len(cohort), np.nan)
    unknown = np.isnan(cohort.reward)
    total = _returns(mdp, cohort, np.where(unknown, 0.0, cohort.reward))
    owner = np.repeat(np.arange(len(cohort)), np.diff(cohort.start))
    total[np.bincount(owner, ~unknown, minlength=len(cohort)) == 0] = np.nan
    if mdp.final_reward is not None:
        for i in np.flatnonzero(last_states(cohort) == -1).tolist():
            seen = cohort.observation(i)
            by_log = earned(mdp, seen, path_of(mdp, seen))
            total[i] = np.nan if by_log is None else by_log.logged
    return total


def last_states(cohort: Cohort) -> Ints:
    """The last state of each episode, -1 if it was not recorded, -2 if there is no episode."""
    last = np.full(len(cohort), -2, dtype=np.int64)
    there = np.flatnonzero(np.diff(cohort.start) > 0)
    last[there] = cohort.next_state[cohort.start[there + 1] - 1]
    return last


def _returns(mdp: MDP, cohort: Cohort, each: Floats) -> Floats:
    """Discounted sums, step by step from the first one."""
    steps, total = np.diff(cohort.start), np.zeros(len(cohort))
    for t in range(int(steps.max(initial=0))):
        here = np.flatnonzero(steps > t)
        total[here] += mdp.discount**t * each[cohort.start[here] + t]
    if mdp.final_reward is not None:
        last = last_states(cohort)
        ended = np.flatnonzero(last >= 0)
        power = np.array([mdp.discount ** int(T) for T in steps[ended]])
        total[ended] = total[ended] + power * mdp.final_reward[last[ended]]
    return total
