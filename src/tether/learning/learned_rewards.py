"""The rewards of a log: what an empty reward counts as, and mean rewards of transitions and pairs, apart or pooled.

An empty reward is not filled in silently. If only the last steps of episodes have rewards, the others are 0: the log
rewards an outcome. If only some of the others are empty, an empty one may mean 0 or "not known". The two lead to
different models; the user has to say which.

Where rewards of the same transition vary, their means differ between actions by chance too. A pooled mean reward is
drawn towards the mean of the same state and outcome over all actions: with the spread σ_s of rewards within a state's
transitions, differences are taken as N(0, σ_s²·(ρ + c)), and ρ has the largest likelihood, as for rows
(`tether.model.pooling`). Rewards that never vary within a transition are known, and not drawn anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from tether._foundation.arrays import Floats, Ints, summed
from tether._foundation.words import counted
from tether.errors import Problem, QueryError
from tether.learning.kinds import Kinds
from tether.learning.prior import Transitions
from tether.model.pooling import most_likely_share

_LARGEST = 1e6
"""With a larger ratio of the variance between actions to that within transitions, rewards are not drawn together."""

_ROUNDING = 1e-12
"""Rewards vary if their spread is above this, relative to the largest."""


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


class PooledRewards(NamedTuple):
    """Mean reward of each transition; the ratio ρ of variances they were pooled with, and the spread of rewards."""

    mean: Floats
    rho: float
    spread: float


@np.errstate(over="ignore", invalid="ignore")  # a mean that is not finite is reported with its place
def pooled_rewards(table: Transitions, earned: Earnings, n_states: int, n_actions: int, by_pair: bool) -> PooledRewards:
    """Mean rewards of transitions, or of pairs, drawn towards those of all actions; see the head of this file.

    A transition without a reward has the mean of the same state and outcome over all actions; if there is none
    either, the mean of its pair; else 0.
    """
    given = ~np.isnan(earned.reward) & (by_pair | (earned.outcome >= 0))
    pair, outcome, reward, times = (
        column[given] for column in (earned.pair, earned.outcome, earned.reward, earned.times)
    )
    pairs, of_pair = np.unique(table.pair, return_inverse=True)
    if by_pair:
        unit, n_units, state = np.searchsorted(pairs, pair), pairs.size, pairs // n_actions
        group = state
    else:
        unit = np.searchsorted(table.pair * n_states + table.outcome, pair * n_states + outcome)
        n_units, state = table.pair.size, table.pair // n_actions
        group = np.unique(state * n_states + table.outcome, return_inverse=True)[1]
    own, n = _means(unit, reward, times, n_units), summed(unit, times, n_units)
    shared = _means(group[unit], reward, times, int(group.max()) + 1)[group]
    squares = summed(state[unit], times * (reward - own[unit]) ** 2, n_states)
    mean, rho, spread = _drawn_together(own, shared, n, summed(group, n, int(group.max()) + 1)[group], squares, state)
    if by_pair:
        return PooledRewards(np.where(np.isnan(mean), 0.0, mean)[of_pair], rho, spread)
    earned_by_pair = _means(np.searchsorted(pairs, pair), reward, times, pairs.size)[of_pair]
    mean = np.where(np.isnan(mean), np.where(np.isnan(earned_by_pair), 0.0, earned_by_pair), mean)
    return PooledRewards(mean, rho, spread)


def _drawn_together(
    own: Floats, shared: Floats, n: Floats, n_shared: Floats, squares: Floats, state: Ints
) -> tuple[Floats, float, float]:
    """Means drawn towards shared ones, NaN if there is neither; with the ratio ρ and the spread of rewards."""
    free = summed(state, np.maximum(n - 1, 0), squares.size)
    spread = float(squares.sum() / max(free.sum(), 1))
    largest = float(np.nanmax(np.abs(own), initial=0.0))
    if spread <= (_ROUNDING * largest) ** 2:
        return np.where(n > 0, own, shared), 0.0, 0.0
    # One pseudo-observation of the spread of all keeps a state in which it is 0 by accident from being certain.
    variance = ((squares + spread) / (free + 1))[state]
    several = (n > 0) & (n < n_shared)
    chance = (1.0 - n / np.maximum(n_shared, 1)) / np.maximum(n, 1)
    difference = np.where(several, own - shared, 0.0)
    rho = most_likely_share((difference**2 / variance)[several], chance[several], _LARGEST)
    if rho == 0:
        return shared, 0.0, float(np.sqrt(spread))
    return np.where(n > 0, shared + rho / (rho + chance) * difference, shared), rho, float(np.sqrt(spread))
