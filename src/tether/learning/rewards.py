"""The rewards of a log: what an empty reward counts as, and mean rewards of transitions and pairs.

An empty reward is not filled in silently. If only the last steps of episodes have rewards, the others are 0: the log
rewards an outcome. If only some of the others are empty, an empty one may mean 0 or "not known". The two lead to
different models; the user has to say which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.words import counted
from tether.errors import Problem, QueryError
from tether.learning.kinds import Kinds
from tether.learning.prior import Transitions

__all__ = ["Earnings", "fill_empty", "mean_rewards"]


def fill_empty(log: Kinds, asked: str | None) -> tuple[Floats | None, Literal["", "last", "zero", "mean"]]:
    """The rewards of the log, with 0 for empty ones if they count as 0; and what empty ones count as."""
    if asked not in (None, "zero", "mean"):
        raise QueryError(Problem(f"empty_rewards must be 'zero' or 'mean', not {asked!r}", value=asked))
    if log.reward is None:
        return None, ""
    empty = np.isnan(log.reward)
    if not empty.any():
        return log.reward, ""
    if asked == "mean":
        return log.reward, "mean"
    if asked is None and not np.all(empty | log.last):
        raise QueryError(_which_empty(log, empty))
    return np.where(empty, 0.0, log.reward), "last" if asked is None else "zero"


def _which_empty(log: Kinds, empty: Any) -> Problem:
    """The question that only the user can answer, with an example of each kind."""
    first, given = int(np.argmax(empty)), int(np.argmax(~empty & ~log.last))
    (one, t), (other, u) = log.example(first), log.example(given)
    message = (
        f"the reward is empty in {counted(int(log.times[empty].sum()), 'step')} of {log.n_steps:,} (first: episode "
        f"{one!r}, step {t}), but not in all steps before the last of an episode (first: episode {other!r}, step {u})"
    )
    fix = "say what an empty reward counts: empty_rewards='zero', or empty_rewards='mean' for the mean of the same "
    fix += "transition"
    return Problem(message, state=log.states[int(log.state[first])], time=t, fix=fix, argument="empty_rewards")


@dataclass(frozen=True, slots=True, eq=False)
class Earnings:
    """The rewards of steps, NaN if unknown: by pair (state · actions + action) and outcome, -1 if there is none.

    ``times`` is how often each occurs.
    """

    pair: Ints
    outcome: Ints
    reward: Floats
    times: Ints


def mean_rewards(table: Transitions, earned: Earnings, n_states: int, by_pair: bool) -> Floats:
    """Mean reward of each transition; the mean of its pair with ``by_pair``, or if the transition has no reward."""
    given = ~np.isnan(earned.reward)
    pair, outcome, reward, times = (
        column[given] for column in (earned.pair, earned.outcome, earned.reward, earned.times)
    )
    first = np.flatnonzero(np.diff(table.pair, prepend=-1))
    owner = np.repeat(np.arange(first.size), np.diff(first, append=table.pair.size))
    of_pair = _means(np.searchsorted(table.pair[first], pair), reward, times, first.size)
    of_pair = np.where(np.isnan(of_pair), 0.0, of_pair)[owner]
    if by_pair:
        return of_pair
    known = outcome >= 0
    at = np.searchsorted(table.pair * n_states + table.outcome, pair[known] * n_states + outcome[known])
    of_transition = _means(at, reward[known], times[known], table.pair.size)
    return np.where(np.isnan(of_transition), of_pair, of_transition)


def _means(group: Ints, values: Floats, times: Ints, size: int) -> Floats:
    """Mean by group, NaN for a group without values; exact if all values of a group are the same."""
    lowest = np.full(size, np.inf)
    np.minimum.at(lowest, group, values)
    with np.errstate(over="ignore", invalid="ignore"):  # a mean that is not finite is reported with its place
        sums = np.bincount(group, (values - lowest[group]) * times, minlength=size)
        above = sums / np.bincount(group, times, minlength=size)
        return np.where(np.isinf(lowest), np.nan, lowest + above)
