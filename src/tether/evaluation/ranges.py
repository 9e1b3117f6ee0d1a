"""What a given policy is worth over a whole set of causal models: the worst, the best, the model that is worst for it.

The same recursion as for robust plans (`tether.plan.robust`), with the policy's own actions π, over all that it can
visit under some model of the set:

    W_t(s) = Σ_a π(a|s) · min (max) over x in X of Σ_j x_j·(R(s,a,j) + γ·W_{t+1}(j))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._types import Floats, Ints
from tether.counterfactual.conditioned import CounterfactualMDP, counterfactual
from tether.counterfactual.given import GivenRows
from tether.counterfactual.layers import expand, replay
from tether.counterfactual.rows import Rows, nominal_start, spans
from tether.counterfactual.sets import ModelSet
from tether.errors import QueryError
from tether.evaluation.evaluate import visit
from tether.evaluation.policy import array_decider, decider, make_policy
from tether.observation.changes import nothing_to_change
from tether.plan.chain import Chain, Taken, Visits, build_chain, collect
from tether.plan.plan import Plan
from tether.plan.robust import RobustPlan

__all__ = ["breakdown", "by_choices", "range_of", "worst_model"]

_STEPS = 60
"""Halvings of the interval in which the breakdown point lies: to the last bit."""


@dataclass(frozen=True, slots=True, eq=False)
class _Followed:
    """All that a policy can visit under some model of the set.

    ``undecided[t]`` marks the nodes that a plan does not know and where the observed action is not available: there
    every action is taken, and the worst (best) counts.
    """

    chain: Chain
    undecided: tuple[Ints, ...]


def range_of(models: ModelSet, policy: Any) -> tuple[float, float]:
    """(worst, best) expected return of a plan or policy over the set; see `Robust.range`."""
    followed = _follow(models, policy)
    worst, _ = _value(models, followed, _extreme(models, 1.0), 1.0)
    best, _ = _value(models, followed, _extreme(models, -1.0), -1.0)
    return worst, best


def breakdown(models: ModelSet, policy: Any, observed: float) -> float:
    """The breakdown point of a plan or policy: how far from Gumbel-max the truth may be before nothing is gained.

    The smallest ε at which (1 - ε)·(Gumbel-max row) + ε·(worst row of the set), used at every step, brings its value
    down to the observed return; 1 if none does, 0 if there is no gain to begin with.
    """
    followed = _follow(models, policy)

    def value(share: float) -> float:
        return _value(models, followed, _mixed(models, share), 1.0)[0]

    rounding = 1e-12 * max(1.0, abs(observed))
    if value(0.0) <= observed + rounding:
        return 0.0
    if value(1.0) > observed + rounding:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if value(middle) > observed + rounding else (low, middle)
    return high


def worst_model(models: ModelSet, policy: Any) -> CounterfactualMDP:
    """The model of the set that is worst for a plan or policy; see `Robust.worst_model`.

    Where a plan takes one pair with different numbers of changes left, the row is the worst for the largest of them.
    """
    followed = _follow(models, policy)
    _, found = _value(models, followed, _extreme(models, 1.0), 1.0)
    form, rows = models.possible.mdp.form, []
    for decided, probability in zip(followed.chain.taken, found, strict=True):
        order = np.lexsort((-decided.changes, decided.pairs))
        pairs, first = np.unique(decided.pairs[order], return_index=True)
        starts = nominal_start(form, decided.pairs)
        _, item = spans(starts[order[first]], starts[order[first] + 1])
        _, entry = spans(form.row_start[pairs], form.row_start[pairs + 1])
        distance = np.abs(probability[item] - form.probability[entry])
        strength = 0.5 * np.add.reduceat(distance, nominal_start(form, pairs)[:-1])
        rows.append(Rows.from_entries(form, pairs, probability[item], strength))
    mechanism = GivenRows(tuple(rows), models.member)
    return counterfactual(models.possible.mdp, models.possible.path, mechanism=mechanism)


Expect = Callable[[int, Ints, Floats], tuple[Floats, Floats]]
"""(time, pairs, value of each outcome, entry for entry) to the expectation of each pair's row, and the rows."""


def _extreme(models: ModelSet, sign: float) -> Expect:
    return lambda t, pairs, value: models.extremes(t, pairs, value, sign)


def _mixed(models: ModelSet, share: float) -> Expect:
    """Gumbel-max, and to some share the worst model."""
    mdp = models.possible.mdp

    def expect(t: int, pairs: Ints, value: Floats) -> tuple[Floats, Floats]:
        worst, _ = models.extremes(t, pairs, value, 1.0)
        rows = replay(mdp, models.gumbel.posteriors[t], np.unique(pairs))
        owner, entry, probability = expand(mdp, rows, pairs)
        at = nominal_start(mdp.form, pairs)[owner] + entry - mdp.form.row_start[pairs[owner]]
        gumbel = collect(owner, probability * value[at], pairs.size)
        return (1.0 - share) * gumbel + share * worst, np.empty(0)

    return expect


def _value(models: ModelSet, followed: _Followed, expect: Expect, sign: float) -> tuple[float, list[Floats]]:
    """Expected return from s_0 under the rows that ``expect`` finds, and these rows, decision by decision."""
    mdp, chain = models.possible.mdp, followed.chain
    form = mdp.form
    after = np.zeros(chain.visits[-1].size) if mdp.final_reward is None else mdp.final_reward[chain.visits[-1].states]
    found = []
    for t in range(chain.T - 1, -1, -1):
        decided = chain.taken[t]
        pairs = decided.pairs
        owner, entries = spans(form.row_start[pairs], form.row_start[pairs + 1])
        there = _places(chain.visits[t + 1], form.next_state[entries], decided.changes[owner], decided.runs[owner])
        value = mdp.discount * np.where(there >= 0, after[there], 0.0)  # where no model leads, nothing is read
        rewards = mdp.rewards.at(t)
        if mdp.rewards.by_entry:
            value = value + rewards[entries]
        expected, rows = expect(t, pairs, value)
        found.append(rows)
        if not mdp.rewards.by_entry:
            expected = expected + rewards[pairs]
        before = collect(decided.source, decided.probability * expected, chain.visits[t].size)
        for node in np.flatnonzero(followed.undecided[t]):
            mine = expected[decided.source == node]
            before[node] = mine.min() if sign > 0 else mine.max()
        after = before
    return float(after[0]), found[::-1]


def _places(visits: Visits, states: Ints, changes: Ints, runs: Ints) -> Ints:
    """Position of each (state, changes left, run) among the nodes of a layer; -1 where it is none of them."""
    width, height = int(visits.changes.max(initial=0)) + 2, int(visits.runs.max(initial=0)) + 2

    def key(state: Ints, change: Ints, run: Ints) -> Ints:
        # What lies beyond all changes and runs there are is no node: one number more stands for it.
        bounded = np.minimum(run, height - 1) * width + np.clip(change, -1, width - 2) % width
        keys: Ints = bounded.astype(np.int64) + state.astype(np.int64) * (width * height)
        return keys

    have = key(visits.states, visits.changes, visits.runs)
    order = np.argsort(have, kind="stable")
    wanted = key(states, changes, runs)
    at = np.minimum(np.searchsorted(have[order], wanted), order.size - 1)
    place = order[at]
    return np.where((have[place] == wanted), place, -1)


def _follow(models: ModelSet, policy: Any) -> _Followed:
    """Follow a plan or policy through all that some model of the set can do."""
    cf = models.possible
    start = int(cf.observation.states[0])
    undecided: list[Ints] = []
    if isinstance(policy, Plan):
        if policy.cf.mdp is not cf.mdp or policy.cf.path != cf.path:
            raise QueryError("this plan was made for another model or another path")
        known = by_choices(policy) if isinstance(policy, RobustPlan) else _by_visits(policy)
        first = Visits(*(np.array([one]) for one in (start, policy.m, 0)))

        def decide(t: int, visits: Visits) -> Taken:
            decided, open_nodes = _or_as_observed(models, t, visits, known(t, visits), policy)
            undecided.append(open_nodes)
            return decided
    else:
        first = visit(start)
        given = array_decider(cf.mdp, policy) or decider(cf.mdp, make_policy(cf.mdp, policy, cf.T, cf.path))

        def decide(t: int, visits: Visits) -> Taken:
            undecided.append(np.zeros(visits.size, dtype=bool))
            return given(t, visits)

    chain = build_chain(cf.mdp, lambda t: cf.graph.layers[t].edits, first, decide, cf.T)
    return _Followed(chain, tuple(undecided))


def _by_visits(plan: Plan) -> Callable[[int, Visits], Ints]:
    """The pair that a plan takes in the nodes that it can visit under Gumbel-max; -1 in others."""

    def known(t: int, visits: Visits) -> Ints:
        at = _places(plan.chain.visits[t], visits.states, visits.changes, visits.runs)
        return np.where(at >= 0, plan.chain.taken[t].pairs[at], -1)

    return known


def by_choices(plan: Plan) -> Callable[[int, Visits], Ints]:
    """The pair that a plan takes in all that it was made for, visited or not; -1 in others.

    Of a robust plan that is all that some model of its set can lead to.
    """

    def known(t: int, visits: Visits) -> Ints:
        nodes, choice = plan.nodes[t], plan.choices[t]
        runs = np.zeros(nodes.size, np.int64) if nodes.runs is None else nodes.runs.astype(np.int64)
        there = Visits(nodes.states, np.zeros(nodes.size, np.int64), runs)
        at = _places(there, visits.states, np.zeros_like(visits.changes), visits.runs)
        local = choice[at, np.minimum(visits.changes, choice.shape[1] - 1)].astype(np.int64)
        return np.where((at >= 0) & (local >= 0), plan.cf.mdp.form.pair_start[visits.states] + local, -1)

    return known


def _or_as_observed(models: ModelSet, t: int, visits: Visits, pairs: Ints, plan: Plan) -> tuple[Taken, Ints]:
    """The pairs known, the observed action elsewhere, and every action where that is not available."""
    cf = models.possible
    mdp, action = cf.mdp, int(cf.observation.actions[t])
    source, taken = [], []
    open_nodes = np.zeros(visits.size, dtype=bool)
    for node in np.flatnonzero(pairs < 0):
        pairs[node] = mdp.find_pair(int(visits.states[node]), action)
        open_nodes[node] = pairs[node] < 0
    source.append(np.flatnonzero(~open_nodes))
    taken.append(pairs[~open_nodes])
    for node in np.flatnonzero(open_nodes):
        state = int(visits.states[node])
        every = np.arange(mdp.form.pair_start[state], mdp.form.pair_start[state + 1])
        source.append(np.full(every.size, node))
        taken.append(every)
    owner, chosen = np.concatenate(source).astype(np.int64), np.concatenate(taken).astype(np.int64)
    order = np.argsort(owner, kind="stable")
    owner, chosen = owner[order], chosen[order]
    share = 1.0 / np.bincount(owner, minlength=visits.size)[owner]
    counts = (mdp.form.pair_action[chosen] != action) & ~nothing_to_change(mdp.form, visits.states[owner], action)
    changes = np.maximum(visits.changes[owner] - counts, 0)
    runs = np.zeros(owner.size, np.int64)
    if plan.rule == "assured":
        meeting = cf.tether(plan.rule, plan.influence).thresholds(plan.k).influenced[t]
        runs = np.where(np.isin(chosen, meeting), 0, visits.runs[owner] + 1)
    return Taken(owner, chosen, share, changes, runs), open_nodes
