"""What if only one action had been different? For every step and every action, by one backward pass.

On the counterfactual MDP, without a tether, with c changes left (`tether.plan.best_values`):

    V_t(s, c) = max over a of R + γ·Σ_j P_cf,t(j|s,a)·V_{t+1}(j, c - [a ≠ a_t])

and W_t(s) = V_t(s, 0) is the value of the observed actions from s at t on. It has no value if an observed action is not
available later, unless the state is absorbing: there no action counts as a change
(`tether.observation.changes`). With the observed return before t,

    D_t(a) = (observed return before t) + γ^t·(R(s_t, a) + γ·Σ_j P_cf,t(j|s_t, a)·W_{t+1}(j))

is the value if only the action at t had been a. The same formula with V_{t+1}(j, m - [a ≠ a_t]) lets at most m actions
change in all. With a = a_t no change is used: the observed outcome is certain, and the best value is the best value at
t + 1. The probability of an event at the end is one more column, which follows the observed actions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tether._foundation.arrays import Floats, Ints, distinct, positions
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.conditioning.edited_rows import spans
from tether.conditioning.layers import expand
from tether.evaluation.outcomes import Outcome
from tether.observation.changes import nothing_to_change
from tether.observation.earned import model_return, step_rewards
from tether.plan.afterwards import chances_after

_NONE = np.iinfo(np.int64).max
"""Stands for "nowhere" among places (time · states + state) where an observed action is missing."""


@dataclass(frozen=True, slots=True, eq=False)
class Alternatives:
    """What each action of one observed step would have led to, action by action; NaN where there is no value.

    Attributes
    ----------
    pairs : array
        The pairs of the observed state.
    value : array
        D_t(a): the value if only this action had been different.
    best : array
        The best value with this action, and at most m changed actions in all.
    missed : array
        Probability that the observed outcome would not have happened if only this action had been different.
    missing_at, missing_in : array
        Time and state at which an observed action would first not be available; -1 if there is none.
    """

    pairs: Ints
    value: Floats
    best: Floats
    missed: Floats
    missing_at: Ints
    missing_in: Ints


@dataclass(frozen=True, slots=True, eq=False)
class _After:
    """For the states of one time: V by state and c, the probability to miss the outcome, missing places.

    ``known`` says where V has a value; elsewhere ``value`` is not read.
    """

    states: Ints
    value: Floats
    known: Ints
    missed: Floats
    missing: Ints


@dataclass(frozen=True, slots=True, eq=False)
class _Ahead:
    """Expectations over the next state, for some pairs of one time: V, and the probability to miss the outcome, by c.

    ``known`` and ``missing`` are as in `_After`.
    """

    value: Floats
    known: Ints
    missed: Floats
    missing: Ints


def alternatives(cf: CounterfactualRecord, m: int, outcome: Outcome | None) -> tuple[Alternatives, ...]:
    """For each step, what each action available there would have led to; ``m`` is at least 1."""
    mdp, seen = cf.mdp, cf.observation
    observed = model_return(mdp, seen)
    before = np.cumsum([0.0, *(mdp.discount**t * r for t, r in enumerate(step_rewards(mdp, seen)))])
    layers = _layers(cf, m)
    after = _last(cf, layers[-1], m, outcome)
    found: list[Alternatives] = []
    for t in range(cf.T - 1, -1, -1):
        pairs = _pairs_of(cf, seen.states[t : t + 1])
        ahead = _look_ahead(cf, t, pairs, after)
        at = int(np.flatnonzero(pairs == seen.pairs[t])[0])
        value, best = (
            np.where(ahead.known[:, c], before[t] + mdp.discount**t * ahead.value[:, c], np.nan) for c in (0, m - 1)
        )
        missed = np.where(ahead.known[:, 0] & (outcome is not None), ahead.missed, np.nan)
        value[at] = observed  # the same up to rounding
        best[at] = np.nanmax(found[-1].best) if found else observed  # no change yet: the observed outcome is certain
        none = ahead.missing == _NONE
        places = np.where(none, 0, ahead.missing)
        found.append(
            Alternatives(
                pairs,
                value,
                best,
                missed,
                np.where(none, -1, places // mdp.n_states),
                np.where(none, -1, places % mdp.n_states),
            )
        )
        if t:
            after = _step_back(cf, t, layers[t], after)
    return tuple(reversed(found))


def decided_from(cf: CounterfactualRecord, outcome: Outcome) -> int:
    """The first time t from which no action, at t or later, could have led to another outcome under any causal model.

    Any other action than the observed one may lead to each outcome that the plain model has for it. T if there is none.
    """
    seen = cf.observation
    for t in range(cf.T - 1, -1, -1):
        states = seen.states[t : t + 1]
        for u in range(t, cf.T):
            pairs, outcome_then = _pairs_of(cf, states), int(seen.states[u + 1])
            own = int(seen.pairs[u]) if outcome_then >= 0 else -1
            states = np.union1d(_led_to(cf, pairs[pairs != own]), [outcome_then] if own in pairs else [])
            states = states.astype(np.int64)
        if np.any(_missed(cf, outcome, states)[states] > 0):
            return t + 1
    return 0


def one_could_differ(cf: CounterfactualRecord, outcome: Outcome) -> bool:
    """Whether another action at one step, with nothing else changed, leads to another outcome under some causal model.

    Any other action than the observed one may lead to each outcome that the plain model has for it. Where an observed
    action is not available later, nothing is said.
    """
    seen = cf.observation
    for t in range(cf.T):
        other = _pairs_of(cf, seen.states[t : t + 1])
        states = _led_to(cf, other[other != seen.pairs[t]])
        for u in range(t + 1, cf.T):
            pairs, own = _as_observed(cf, u, states)[0], int(seen.pairs[u])
            is_own = (pairs == own) & (seen.states[u + 1] >= 0)
            states = np.union1d(_led_to(cf, pairs[~is_own]), seen.states[u + 1 : u + 2] if is_own.any() else [])
            states = states.astype(np.int64)
        if np.any(_missed(cf, outcome, states)[states] > 0):
            return True
    return False


def _led_to(cf: CounterfactualRecord, pairs: Ints) -> Ints:
    """The states that pairs lead to in the plain model."""
    _, entry, _ = expand(cf.mdp, None, pairs)
    return np.unique(cf.mdp.form.next_state[entry]).astype(np.int64)


def _pairs_of(cf: CounterfactualRecord, states: Ints) -> Ints:
    start = cf.mdp.form.pair_start
    return spans(start[states], start[np.asarray(states, np.int64) + 1])[1]


def _layers(cf: CounterfactualRecord, m: int) -> list[Ints]:
    """The states that matter at each time: those that a change in an observed state can lead to, now or later."""
    if m > 1:
        return _all_layers(cf)
    layers = [np.empty(0, np.int64)]
    for t in range(cf.T):
        led_to = []
        for pairs in (_pairs_of(cf, cf.observation.states[t : t + 1]), _as_observed(cf, t, layers[-1])[0]):
            _, entry, _ = expand(cf.mdp, cf.graph.layers[t].edits, pairs)
            led_to.append(cf.mdp.form.next_state[entry])
        layers.append(distinct(np.concatenate(led_to), cf.mdp.n_states))
    return layers


def _all_layers(cf: CounterfactualRecord) -> list[Ints]:
    """All states of each time; those in which an objective is decided (`Graph.ended`) stay from then on."""
    graph = cf.graph
    if graph.ended is None:
        return [graph.states(t) for t in range(cf.T + 1)]
    layers, over = [], graph.states(0)[:0]
    for t in range(cf.T + 1):
        over = np.union1d(over, graph.ended.states[t]) if t < cf.T else over
        layers.append(np.union1d(graph.states(t), over).astype(np.int64))
    return layers


def _as_observed(cf: CounterfactualRecord, t: int, states: Ints) -> tuple[Ints, Ints]:
    """Pairs that change nothing at time t, and which pairs of ``states`` they are."""
    form, action = cf.mdp.form, int(cf.observation.actions[t])
    owner, pairs = spans(form.pair_start[states], form.pair_start[np.asarray(states, np.int64) + 1])
    unchanged = (form.pair_action[pairs] == action) | nothing_to_change(form, states, action)[owner]
    return pairs[unchanged], unchanged


def _last(cf: CounterfactualRecord, states: Ints, m: int, outcome: Outcome | None) -> _After:
    final = np.zeros(states.size) if cf.mdp.final_reward is None else cf.mdp.final_reward[states]
    missed = np.zeros(states.size) if outcome is None else _missed(cf, outcome, states)[states]
    known = np.ones((states.size, m), dtype=bool)
    return _After(states, np.repeat(final[:, None], m, axis=1), known, missed, np.full(states.size, _NONE))


def _missed(cf: CounterfactualRecord, outcome: Outcome, states: Ints) -> Floats:
    """For each state at T, the probability that an episode does not end in the outcome; valid for ``states``."""
    missed = np.ones(cf.mdp.n_states)
    missed[outcome.states] = 0.0
    return chances_after(cf, missed, states)


def _look_ahead(cf: CounterfactualRecord, t: int, pairs: Ints, after: _After) -> _Ahead:
    """Expectations for some pairs at time t: their reward, and the values of the states they lead to."""
    mdp = cf.mdp
    owner, entry, probability = expand(mdp, cf.graph.layers[t].edits, pairs)
    to = positions(after.states, mdp.form.next_state[entry], mdp.n_states)
    first = np.flatnonzero(np.diff(owner, prepend=-1))  # no row is empty
    rewards = mdp.rewards.at(t)
    onward = mdp.discount * np.where(after.known[to], after.value[to], 0.0)
    if mdp.rewards.by_entry:
        onward = onward + rewards[entry][:, None]
    value = np.add.reduceat(probability[:, None] * onward, first)
    if not mdp.rewards.by_entry:
        value = value + rewards[pairs][:, None]
    known = np.logical_and.reduceat(after.known[to], first)
    missed = np.minimum(1.0, np.add.reduceat(probability * after.missed[to], first))
    return _Ahead(value, known, missed, np.minimum.reduceat(after.missing[to], first))


def _step_back(cf: CounterfactualRecord, t: int, states: Ints, after: _After) -> _After:
    """V of the states of time t, from V of the time after."""
    mdp, n_columns = cf.mdp, after.value.shape[1]
    form = mdp.form
    owner, pairs = spans(form.pair_start[states], form.pair_start[np.asarray(states, np.int64) + 1])
    _, unchanged = _as_observed(cf, t, states)
    if n_columns == 1:  # no change is left: only pairs that change nothing are needed
        owner, pairs, unchanged = owner[unchanged], pairs[unchanged], unchanged[unchanged]
    value = np.full((states.size, n_columns), -np.inf)
    known = np.zeros((states.size, n_columns), dtype=bool)
    missed, missing = np.zeros(states.size), t * mdp.n_states + np.asarray(states, np.int64)
    if pairs.size:
        ahead = _look_ahead(cf, t, pairs, after)
        for c in range(n_columns):
            column = np.where(unchanged, c, c - 1)
            usable = (column >= 0) & ahead.known[np.arange(pairs.size), np.maximum(column, 0)]
            np.maximum.at(value[:, c], owner[usable], ahead.value[usable, column[usable]])
            known[owner[usable], c] = True
        missed[owner[unchanged]] = ahead.missed[unchanged]
        missing[owner[unchanged]] = ahead.missing[unchanged]
    return _After(states, value, known, missed, missing)
