"""All that a policy can do under some causal model of a set: a chain, and the rows that it takes, made once.

Where a model of the set leads to a state that a plan never meets under Gumbel-max, the plan goes on with the observed
action: it changes nothing without reason. Where that is not available every action is followed, and the worst (best) of
them counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._types import Floats, Ints
from tether.counterfactual.layers import expand, replay
from tether.counterfactual.rows import nominal_start, spans
from tether.counterfactual.sets import ModelSet
from tether.errors import QueryError
from tether.evaluation.evaluate import visit
from tether.evaluation.policy import array_decider, decider, make_policy
from tether.model.mdp import MDP
from tether.observation.changes import nothing_to_change
from tether.plan.chain import Chain, Taken, Visits, build_chain
from tether.plan.plan import Plan
from tether.plan.robust import RobustPlan

if TYPE_CHECKING:
    from tether._kernels.robust import RowsTaken

__all__ = ["Followed", "by_choices", "follow"]


@dataclass(frozen=True, slots=True, eq=False)
class Followed:
    """All that a policy can visit under some model of the set, and the rows it takes there, step by step.

    ``undecided[t]`` marks the nodes that a plan does not know and where the observed action is not available: there
    every action is taken, and the worst (best) counts.
    """

    chain: Chain
    undecided: tuple[Ints, ...]
    taken: tuple[RowsTaken, ...]


def follow(models: ModelSet, policy: Any) -> Followed:
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
    return _prepared(models, chain, undecided)


def _by_visits(plan: Plan) -> Callable[[int, Visits], Ints]:
    """The pair that a plan takes in the nodes that it can visit under Gumbel-max; -1 in others."""

    def known(t: int, visits: Visits) -> Ints:
        at = _places(plan.chain.visits[t], visits.states, visits.changes, visits.runs)
        return np.where(at >= 0, plan.chain.taken[t].pairs[at], -1)

    return known


def by_choices(plan: Plan) -> Callable[[int, Visits], Ints]:
    """The pair that a robust plan takes in all that some model of its set can lead to; -1 in others."""

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
    unknown = np.flatnonzero(pairs < 0)
    pairs[unknown] = _pairs_of(mdp, visits.states[unknown], action)
    open_nodes = pairs < 0
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


def _pairs_of(mdp: MDP, states: Ints, action: int) -> Ints:
    """The pair of each state and one action; -1 where it is not available."""
    owner, pairs = spans(mdp.form.pair_start[states], mdp.form.pair_start[states + 1])
    here = mdp.form.pair_action[pairs] == action
    found = np.full(states.size, -1, dtype=np.int64)
    found[owner[here]] = pairs[here]
    return found


def _prepared(models: ModelSet, chain: Chain, undecided: list[Ints]) -> Followed:
    """A chain with the rows that it takes, as kernels take them: looked up once, whatever the causal model."""
    from tether._kernels.robust import RowsTaken

    mdp = models.possible.mdp
    form, taken = mdp.form, []
    for t, decided in enumerate(chain.taken):
        pairs = decided.pairs
        owner, entries = spans(form.row_start[pairs], form.row_start[pairs + 1])
        next_state, starts = form.next_state[entries], nominal_start(form, pairs)
        there = _places(chain.visits[t + 1], next_state, decided.changes[owner], decided.runs[owner])
        rewards = mdp.rewards.at(t)
        reward = rewards[entries] if mdp.rewards.by_entry else rewards[pairs[owner]]
        gumbel = _gumbel(models, t, pairs, starts, entries.size)
        taken.append(RowsTaken(starts, next_state, form.probability[entries], gumbel, there, reward, pairs))
    return Followed(chain, tuple(undecided), tuple(taken))


def _gumbel(models: ModelSet, t: int, pairs: Ints, starts: Ints, size: int) -> Floats:
    """Probabilities of the pairs' rows under Gumbel-max, entry for entry of the nominal ones."""
    mdp = models.possible.mdp
    rows = replay(mdp, models.gumbel.posteriors[t], np.unique(pairs))
    owner, entry, probability = expand(mdp, rows, pairs)
    found = np.zeros(size)
    found[starts[owner] + entry - mdp.form.row_start[pairs[owner]]] = probability
    return found


def _places(visits: Visits, states: Ints, changes: Ints, runs: Ints) -> Ints:
    """Position of each (state, changes left, run) among the nodes of a layer; -1 where it is none of them."""
    width, height = int(visits.changes.max(initial=0)) + 2, int(visits.runs.max(initial=0)) + 2

    def key(state: Ints, change: Ints, run: Ints) -> Ints:
        # What lies beyond all changes and runs there are is no node: one number more stands for it.
        bounded = np.minimum(run, height - 1) * width + np.clip(change, -1, width - 1) % width
        keys: Ints = bounded.astype(np.int64) + state.astype(np.int64) * (width * height)
        return keys

    have = key(visits.states, visits.changes, visits.runs)
    order = np.argsort(have, kind="stable")
    wanted = key(states, changes, runs)
    at = np.minimum(np.searchsorted(have[order], wanted), order.size - 1)
    place = order[at]
    return np.where((have[place] == wanted), place, -1)
