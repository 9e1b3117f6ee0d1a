"""Mistake or luck: what could be known when it was decided, and what chance did, step by step, for many episodes.

Let V_t and Q_t be the values of the *plain* model over the steps left: of its best policy, or of any policy that
decisions are judged against. For an observed step (s_t, a_t, s_{t+1}) with reward r_t,

    mistake  e_t = V_t(s_t) - Q_t(s_t, a_t)                  needs only the model and s_t: it could be known at t
    luck     l_t = r_t + γ·V_{t+1}(s_{t+1}) - Q_t(s_t, a_t)  0 on average; 0 if the outcome was not recorded

    observed return = V_0(s_0) - Σ γ^t·e_t + Σ γ^t·l_t

The sum telescopes, so this is exact, and no causal model is needed. Against the best policy no mistake is negative;
against another one, e_t < 0 is a decision that was better than that policy.

An episode is judged up to a horizon H ≥ T (`horizons`). After its last recorded step it is worth V_T(s_T). With a
property instead of the return, an episode rests where the property is decided (`tether.plan.objective`); from there on
there is neither mistake nor luck. With ``minimise`` less is better: mistakes are then what was paid too much, luck is
what was saved, and the observed value is expected + mistakes - luck.

In a learned model a difference between two actions may be an error of estimation. There a mistake is *claimed* only if
its probability is at least `SURE`, by the advantages of usual practice (`tether.model.practice`), which are drawn
towards 0 as far as the log demands: with advantages A and standard deviations σ, the probability that the best action b
is better than what was done, a, is Φ((A_b - A_a) / (σ_a + σ_b)). The sum is the largest standard deviation that the
difference can have, whatever the correlation is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints
from tether._foundation.checks import whole_number
from tether.conditioning.edited_rows import spans
from tether.errors import QueryError
from tether.model.model_record import ModelRecord
from tether.model.properties import Decided
from tether.observation.changes import nothing_left, nothing_to_change
from tether.observation.path import Observation
from tether.plan.standard import LayerValues, Standard, check_finite

SURE = 0.95
"""In a learned model a decision is called a mistake if that is at least so likely."""

_ROUNDING = 1e-11
"""Differences up to this share of the numbers that were added up are rounding, and count as 0."""

_NO_ACTION = -1


class Steps(Protocol):
    """Steps of many episodes, as `Batch` and `tether.logs.cohort.Cohort` have them."""

    @property
    def start(self) -> Ints: ...
    @property
    def state(self) -> Ints: ...
    @property
    def pair(self) -> Ints: ...
    @property
    def next_state(self) -> Ints: ...
    @property
    def reward(self) -> Floats | None: ...


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Episodes in a model's indices.

    Attributes
    ----------
    start : array (episodes + 1,)
        Episode i has the steps ``start[i] … start[i + 1] - 1``.
    state, pair, next_state : array (steps,)
        ``next_state`` is -1 for a last outcome that was not recorded.
    reward : array (steps,) or None
        By the log, NaN if unknown.
    """

    start: Ints
    state: Ints
    pair: Ints
    next_state: Ints
    reward: Floats | None = None

    @classmethod
    def of(cls, seen: Observation) -> Batch:
        """A batch of one episode."""
        reward = None
        if seen.rewards is not None:
            reward = np.array([np.nan if one is None else one for one in seen.rewards])
        return cls(np.array([0, seen.T]), seen.states[:-1], seen.pairs, seen.states[1:], reward)


@dataclass(frozen=True, slots=True, eq=False)
class StepReviews:
    """What is found for each step of a batch; arrays (steps,).

    Attributes
    ----------
    t : array
    weight : array
        γ^t: what 1 at this step adds to the return.
    expected : array
        V_t(s_t).
    mistake, luck : array
        e_t and l_t, not discounted; exactly 0 where they are no more than rounding.
    best : array
        The best pair in s_t, the observed one if none is better. Against a policy: the pair that it takes most likely.
    ended : array of bool
        Whether nothing was left to decide: the state is absorbing, or the property was decided.
    probability : array
        How likely it is that the mistake is one: 1 in a model that was given, less in a learned one; 0 without a
        mistake.
    """

    t: Ints
    weight: Floats
    expected: Floats
    mistake: Floats
    luck: Floats
    best: Ints
    ended: Flags
    probability: Floats

    @property
    def cost(self) -> Floats:
        """What each mistake cost of the return (discounted)."""
        return self.weight * self.mistake

    @property
    def is_claimed(self) -> Flags:
        """Which steps are called mistakes: in a learned model only those beyond what estimation can produce."""
        found: Flags = (self.mistake > 0) & (self.probability >= SURE)
        return found


@dataclass(frozen=True, eq=False)
class BatchReview:
    """What is found for each episode of a batch; arrays (episodes,), NaN for an episode without steps.

    Attributes
    ----------
    start : array (episodes + 1,)
        Episode i has the steps ``start[i] … start[i + 1] - 1`` of ``steps``.
    horizon : array
    expected : array
        V_0(s_0).
    mistakes, luck : array
        Σ γ^t·e_t and Σ γ^t·l_t.
    claimed : array
        The part of ``mistakes`` that is claimed: all of it in a model that was given.
    observed : array
        The return of the episode by the model's rewards, with V_T(s_T) for what comes after its last step.
    unlike : array
        The return by the log's own rewards less the one by the model's; 0 for a property, and without such rewards.
    steps : StepReviews
    """

    start: Ints
    horizon: Ints
    expected: Floats
    mistakes: Floats
    claimed: Floats
    luck: Floats
    observed: Floats
    unlike: Floats
    steps: StepReviews

    @cached_property
    def largest(self) -> Ints:
        """For each episode, the step whose claimed mistake cost most; the first of equals, -1 if there is none.

        It indexes the arrays of ``steps``.
        """
        cost = np.where(self.steps.is_claimed, self.steps.cost, 0.0)
        owner = np.repeat(np.arange(self.start.size - 1), np.diff(self.start))
        order = np.lexsort((-cost, owner))
        found = np.full(self.start.size - 1, -1)
        some = np.flatnonzero(np.diff(self.start))
        first = order[self.start[some]]
        found[some] = np.where(cost[first] > 0, first, -1)
        return found


def horizons(mdp: ModelRecord, steps: Steps, horizon: Any = None, longest: int | None = None) -> Ints:
    """Up to which time each episode is judged.

    ``horizon`` is that of all episodes. By default an episode is judged up to its own length. One that ended in an
    absorbing state is judged up to the horizon of the model, or up to the ``longest`` episode of its log, by default of
    this batch: nobody could know that it would end early. A learned model without a horizon knows the longest episode
    of its log; nobody could know either that a record would stop, so there an episode without an end is judged so, too.
    """
    lengths = np.diff(steps.start)
    most = int(lengths.max(initial=1))
    if horizon is not None:
        wanted = whole_number("horizon", horizon, most)
        if mdp.horizon is not None and wanted > mdp.horizon:
            raise QueryError(f"the horizon {wanted:,} is more than that of the model ({mdp.horizon:,})")
        return np.full(lengths.size, wanted)
    found = lengths.copy()
    some = np.flatnonzero(lengths)
    last = steps.next_state[steps.start[some + 1] - 1]
    some, last = some[last >= 0], last[last >= 0]
    latest = max(most if longest is None else longest, mdp.horizon or 0)
    if mdp.counts is not None and mdp.horizon is None:
        latest = max(latest, mdp.counts.longest)
    else:
        some = some[nothing_to_change(mdp.form, last, _NO_ACTION)]
    found[some] = np.maximum(found[some], latest)
    return found


def review_batch(standard: Standard, batch: Steps, horizon: Ints | None = None) -> BatchReview:
    """Mistake and luck of every step of a batch of episodes.

    ``horizon`` has a time for each episode, by default those of `horizons`. Time and memory are those of solving the
    plain model once, for the states that these episodes could reach, and of one pass over the steps; where values
    depend on more than the steps left (rewards or policies that depend on time), of once for each distinct horizon.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> batch = Batch.of(tether.counterfactual(grid.mdp, grid.path).observation)
    >>> found = review_batch(Standard(grid.mdp), batch)
    >>> found.steps.mistake[:4].round(3).tolist(), round(float(found.expected[0]), 3)
    ([44.439, 22.201, 1257.751, 0.0], 540.775)
    """
    horizon = horizons(standard.mdp, batch) if horizon is None else horizon
    lengths = np.diff(batch.start)
    owner = np.repeat(np.arange(lengths.size), lengths)
    t = np.arange(owner.size) - batch.start[owner]
    found = _Columns.empty(owner.size)
    rest = _at_rest(standard.world[1], batch, owner)
    used = np.unique(horizon[lengths > 0])
    groups = [used] if standard.by_steps_left and used.size else np.split(used, used.size) if used.size else []
    for group in groups:
        of_table = standard.kept[0].t if standard.kept else int(group[-1])
        latest = of_table if standard.by_steps_left and of_table >= group[-1] else int(group[-1])
        some = np.flatnonzero(np.isin(horizon[owner], group))
        _review_group(standard, batch, rest, some, (latest - horizon[owner] + t)[some], t, latest, found)
    return _summed(standard, batch, horizon, owner, t, found)


class _Columns(NamedTuple):
    """Per step, in the direction in which more is better: V, e, l, r_t, r_t + γ·V_{t+1}; and `StepReviews.best`."""

    value: Floats
    mistake: Floats
    luck: Floats
    reward: Floats
    reached: Floats
    best: Ints
    ended: Flags

    @classmethod
    def empty(cls, n: int) -> _Columns:
        value, mistake, luck, reward, reached = np.zeros((5, n))
        return cls(value, mistake, luck, reward, reached, np.full(n, -1), np.zeros(n, dtype=bool))


def _at_rest(decided: Decided | None, batch: Steps, owner: Ints) -> Ints:
    """For each step, the state in which the episode rests because the property is decided; -1 before that."""
    rest = np.full(owner.size, -1)
    if decided is None or owner.size == 0:
        return rest
    at = np.where(decided.ended[batch.state], np.arange(owner.size), -1)
    deciding = np.flatnonzero(at >= 0)
    first = deciding[np.flatnonzero(np.diff(owner[deciding], prepend=-1))]  # the first of each episode
    of_episode = np.full(int(owner[-1]) + 1, -1)
    of_episode[owner[first]] = first
    since = of_episode[owner]
    over = (since >= 0) & (np.arange(owner.size) >= since)
    rest[over] = batch.state[since[over]]
    return rest


def _review_group(
    standard: Standard, batch: Steps, rest: Ints, some: Ints, at: Ints, t: Ints, latest: int, found: _Columns
) -> None:
    """Review the steps ``some``, whose values are those at time ``at`` of a horizon ``latest``; fills ``found``."""
    live = rest[some] < 0
    state = np.where(live, batch.state[some], rest[some])
    order = np.argsort(at, kind="stable")
    cuts = np.searchsorted(at[order], np.arange(latest + 1))
    begins = t[some] == 0

    def of_time(time: int, which: Any) -> Ints:
        steps = order[cuts[time] : cuts[time + 1]]
        kept: Ints = steps[which[steps]]
        return kept

    entering = [np.unique(state[of_time(time, begins)]) for time in range(latest)]
    observed = [np.unique(batch.pair[some[of_time(time, live)]]) for time in range(latest)]
    after: Floats | None = None
    with np.errstate(invalid="ignore"):  # 0·∞ where no action is available; reported below
        for layer in standard.layers(latest, entering, observed):
            if after is not None:
                steps = of_time(layer.t, np.ones(some.size, dtype=bool))
                found.value[some[steps]] = found.reached[some[steps]] = layer.table[state[steps], 1]
                found.ended[some[steps]] = True
                alive = some[of_time(layer.t, live)]
                if alive.size:
                    _review_steps(standard, batch, layer, after, alive, found)
            after = layer.table


def _review_steps(
    standard: Standard, batch: Steps, layer: LayerValues, after: Floats, at: Ints, found: _Columns
) -> None:
    """Review the steps ``at`` of one time: before them V is that of ``layer``, after them ``after``."""
    world, sign = standard.world[0], -1.0 if standard.minimise else 1.0
    form, gamma, rewards = world.form, world.discount, world.rewards.at(layer.t)
    state, next_state = batch.state[at], batch.next_state[at]
    pairs, of_pair = np.unique(batch.pair[at], return_inverse=True)
    owner, entry = spans(form.row_start[pairs], form.row_start[pairs + 1])
    chance, ends = form.probability[entry], form.next_state[entry].astype(np.int64)

    def mean(numbers: Floats) -> Floats:
        summed: Floats = np.bincount(owner, chance * numbers, minlength=pairs.size).astype(np.float64, copy=False)
        return summed

    by_entry = world.rewards.by_entry
    earned = sign * (mean(rewards[entry]) if by_entry else rewards[pairs])
    q = (earned + gamma * mean(after[ends, 1]))[of_pair]
    size = (np.abs(earned) + gamma * mean(after[ends, 0]))[of_pair]
    value, own_size = layer.table[state, 1], layer.table[state, 0]
    check_finite(standard.mdp, layer.t, state, value + q)
    reward, reached = earned[of_pair], q.copy()
    seen = np.flatnonzero(next_state >= 0)
    if by_entry:
        keys = owner * world.n_states + ends  # ascending: rows are
        hit = np.searchsorted(keys, of_pair[seen] * world.n_states + next_state[seen])
        reward[seen] = sign * rewards[entry[hit]]
    reached[seen] = reward[seen] + gamma * after[next_state[seen], 1]
    rounding = _ROUNDING * np.maximum(size, own_size)
    ended = nothing_left(form, layer.t, state)
    mistake, luck = value - q, reached - q
    if standard.is_best:
        mistake = np.maximum(mistake, 0.0)
    mistake[ended | (np.abs(mistake) <= rounding)] = 0.0
    luck[ended | (np.abs(luck) <= rounding)] = 0.0
    best = layer.taken(state)
    if standard.is_best:
        best = np.where(mistake > 0, best, batch.pair[at])
    found.mistake[at], found.luck[at] = mistake, luck
    found.reward[at], found.reached[at] = reward, reached
    found.best[at], found.ended[at] = np.where(ended, -1, best), ended


def _summed(standard: Standard, batch: Steps, horizon: Ints, owner: Ints, t: Ints, found: _Columns) -> BatchReview:
    """The sums of each episode, in the direction that was asked for."""
    n, sign = horizon.size, -1.0 if standard.minimise else 1.0
    weight: Floats = np.power(standard.world[0].discount, t.astype(np.float64))
    some = np.flatnonzero(np.diff(batch.start))
    first, last = batch.start[some], batch.start[some + 1] - 1

    def total(of_steps: Floats) -> Floats:
        summed = np.full(n, np.nan)
        summed[some] = np.bincount(owner, weight * of_steps, minlength=n)[some]
        return summed

    until_last = found.reward.copy()
    until_last[last] = found.reached[last]
    expected, unlike = np.full(n, np.nan), np.zeros(n)
    expected[some] = sign * found.value[first]
    if batch.reward is not None and standard.objective is None and owner.size:
        logged = np.where(np.isnan(batch.reward), 0.0, batch.reward) - sign * found.reward
        has_any = np.bincount(owner, ~np.isnan(batch.reward), minlength=n) > 0
        unlike = np.where(has_any, total(logged), 0.0)
    chance = _probability(standard, batch.pair, found)
    steps = StepReviews(t, weight, sign * found.value, found.mistake, found.luck, found.best, found.ended, chance)
    claimed = total(np.where(steps.is_claimed, found.mistake, 0.0))
    totals = total(found.mistake), claimed, total(found.luck), sign * total(until_last)
    return BatchReview(batch.start, horizon, expected, *totals, unlike, steps)


def _probability(standard: Standard, pair: Ints, found: _Columns) -> Floats:
    """How likely it is that each mistake is one; see the head of this file."""
    bad = np.flatnonzero(found.mistake > 0)
    chance = np.zeros(found.mistake.size)
    if standard.mdp.counts is None or bad.size == 0:
        chance[bad] = 1.0
    else:
        chance[bad] = _shown_better(standard, None if standard.is_usual else found.best[bad], pair[bad])
    return chance


def _shown_better(standard: Standard, best: Ints | None, done: Ints) -> Floats:
    """How surely the log of a learned model shows that pairs are better than what was done; None: usual practice."""
    mean, sd, _ = standard.advantages
    apart, unsure = 0.0 - mean[done], sd[done]
    if best is not None:
        apart, unsure = mean[best] + apart, sd[best] + unsure
    return chance_above(apart, unsure)


def chance_above(apart: Floats, unsure: Floats) -> Floats:
    """How likely differences are to be above 0, from their means and standard deviations."""
    from scipy.special import ndtr

    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = np.where(unsure > 0, ndtr(apart / unsure), np.where(apart == 0, 0.5, apart > 0))
    return found


def probability_better(standard: Standard, pair: int, done: int, advantage: float) -> float:
    """How likely a pair is to be better than what was done, given that the model says how much it is."""
    if standard.mdp.counts is None:
        return float(advantage > 0)
    return float(_shown_better(standard, np.array([pair]), np.array([done]))[0])
