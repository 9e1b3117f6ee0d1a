"""Returns of all episodes of a batch by the rewards of their log, and the states in which they end."""

from __future__ import annotations

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether.logs.cohort import Cohort
from tether.mdp import MDP
from tether.observation.earned import earned
from tether.observation.indices import path_of

__all__ = ["last_states", "logged_returns"]


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
