"""All that a policy can do under some causal model of a set: the nodes it visits and the rows it takes, computed once.

A model of the set may lead to a state that a plan never meets under Gumbel-max. There the plan takes the observed
action: it changes nothing without reason. If that is not available, every action is followed, and the worst (best)
counts.

A node is (state, changes left, run of uninfluenced steps). More changes left than steps left mean the same as one
change per step, so such nodes are merged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats, Ints, distinct, places_among, positions, read_only
from tether.conditioning.counterfactual_record import check_not_stuck
from tether.conditioning.edited_rows import EditedRows, nominal_start, spans
from tether.conditioning.layers import replay
from tether.conditioning.model_sets import ModelSet, worth_elsewhere
from tether.core.chain import Taken, Visits
from tether.errors import QueryError
from tether.evaluation.evaluate import own_rest, policy_for, visit
from tether.influence.one_step import influenced_pairs
from tether.model.form import Form, pair_states
from tether.model.properties import Property
from tether.observation.changes import is_change, pairs_with
from tether.plan.best_values import final_rewards
from tether.plan.limited import LimitedPlanRecord
from tether.plan.objective import asked_set
from tether.plan.plan_record import PlanRecord
from tether.plan.policy import array_decider, decider
from tether.plan.robust_record import RobustPlanRecord
from tether.plan.walks import or_rest

if TYPE_CHECKING:
    from tether.core.robust import RowsTaken


@dataclass(frozen=True, slots=True, eq=False)
class Followed:
    """All nodes that a policy can visit under some model of a set, and the rows it takes there; layer by layer.

    Attributes
    ----------
    node_start, first : array (T + 2,), (T + 1,)
        Where the nodes and the rows of each layer begin.
    last_states, last_worth : array
        The states of the last layer's nodes, and what they are worth: the final reward, and what follows the record.
    undecided : array, by node
        Marks nodes that a plan does not know and where the observed action is not available: every action is followed
        there, and the worst (best) counts.
    starts, pairs, source, share, changes : array, by row
        Where the row's entries begin, its pair, the node that takes it, with what probability, and the changes left.
    entries, there, reward, gumbel : array, by entry
        The entry of the model; the node it leads to, -1 if no model of the set leads there; its reward; and
        its probability under Gumbel-max.
    """

    models: ModelSet
    node_start: Ints
    first: Ints
    last_states: Ints
    last_worth: Floats
    undecided: Ints
    starts: Ints
    pairs: Ints
    source: Ints
    share: Floats
    changes: Ints
    entries: Ints
    there: Ints
    reward: Floats
    gumbel: Floats

    @property
    def longest(self) -> int:
        """The length of the longest row."""
        return int(np.diff(self.starts).max(initial=1))

    def limited(self, models: ModelSet) -> RowsTaken:
        """The rows with their limits, as kernels take them, for the set they were followed for or a subset of it."""
        from tether._kernels.sets import limits_for, row_scratch_for
        from tether.core.robust import RowsTaken, limit_rows

        form = models.gumbel.mdp.form
        limits, how = limits_for(self.entries.size, self.pairs.size), np.empty(self.pairs.size, np.int64)
        rows = read_only(form.next_state[self.entries]), read_only(form.probability[self.entries]), self.pairs
        chance, scratch = np.empty(self.pairs.size), row_scratch_for(self.longest)
        size = np.diff(self.starts) + 1
        order = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
        for t, (begin, end) in enumerate(zip(self.first[:-1].tolist(), self.first[1:].tolist(), strict=True)):
            at = models.at(t, scaled=False)
            chance[begin:end] = at.step.chance
            limit_rows(self.starts, *rows, begin, end, at, self.entries, how, limits, scratch)
            if models.confounding is not None:
                pairs, lengths = self.pairs[begin:end], np.diff(self.starts[begin : end + 1])
                other = np.repeat(pairs != models.confounding.observed[t], lengths)  # the observed row is known
                before = np.repeat(np.arange(begin, end), lengths)[other]  # limits have one item more for each row
                some = self.starts[begin] + np.flatnonzero(other) + before
                for ends, ratio in zip(limits[:2], models.confounding.ratios(t, pairs), strict=True):
                    ends[some] *= np.repeat(ratio, lengths)[other]
        return RowsTaken(
            self.starts,
            self.source,
            self.share,
            self.gumbel,
            self.there,
            self.reward,
            order,
            how,
            chance,
            limits,
            *self._elsewhere(models),
        )

    def _elsewhere(self, models: ModelSet) -> tuple[Floats, Floats]:
        """What *elsewhere* is worth at worst and at best, by row."""
        mdp, T = models.gumbel.mdp, self.first.size - 1
        time = np.repeat(np.arange(T), np.diff(self.first))
        least, most = (one[time] for one in worth_elsewhere(models, T))
        if not mdp.rewards.by_entry:
            of_pair = self.reward[self.starts[:-1]] if self.pairs.size else np.empty(0)
            least, most = least + of_pair, most + of_pair
        return least, most


def follow(base: ModelSet, policy: Any, objective: Property | None = None, minimise: bool = False) -> Followed:
    """Follow a plan or policy wherever some model of the set can lead, until the objective is decided."""
    is_plan = isinstance(policy, PlanRecord | LimitedPlanRecord)
    models = asked_set(base, objective, minimise, None if is_plan else own_rest(policy))
    cf = models.gumbel
    start, ended = int(cf.observation.states[0]), cf.graph.ended
    if not isinstance(policy, PlanRecord | LimitedPlanRecord):
        given = array_decider(cf.mdp, policy) or decider(
            cf.mdp, policy_for(base.gumbel, cf, policy, objective, minimise)
        )

        def as_given(t: int, visits: Visits, _met: Any) -> tuple[Taken, Any]:
            taken = given(t, visits) if ended is None else or_rest(cf.mdp, t, visits, given, ended.mask)
            return taken, np.zeros(visits.size, dtype=bool)

        return walk(models, visit(start), as_given)
    if isinstance(policy, LimitedPlanRecord):
        return _limited(models, policy)
    if policy.cf.mdp is not base.gumbel.mdp or policy.cf.path != cf.path:
        raise QueryError("this plan was made for another model or another path")
    if policy.objective not in (None, objective):
        raise QueryError(
            f"this plan was made for {policy.objective} and ends where that is decided: it says nothing about "
            f"{objective or 'the return'}"
        )
    known = by_choices(policy)

    def as_planned(t: int, visits: Visits, met: Any) -> tuple[Taken, Any]:
        pairs = known(t, visits)
        if not isinstance(policy, RobustPlanRecord):  # a robust plan has an action wherever its set can lead
            pairs = np.where(met, pairs, -1)
        return or_as_observed(models, t, visits, pairs, policy)

    first = Visits(*(np.array([one]) for one in (start, min(policy.m, cf.T), 0)))
    return walk(models, first, as_planned)


def _limited(models: ModelSet, plan: LimitedPlanRecord) -> Followed:
    """A plan with a limit on whole paths; nodes remember, as their run, the number and 1 of the node of the plan.

    Where Gumbel-max does not lead from a node, the plan goes on as from any node that remembers the same.
    """
    layers = [list(layer.values()) for layer in plan.nodes]
    number = [{key: i + 1 for i, key in enumerate(layer)} for layer in plan.nodes]
    next_state, at = models.gumbel.mdp.form.next_state, dict[int, Ints]()

    def as_planned(t: int, visits: Visits, met: Any) -> tuple[Taken, Any]:
        at[t] = np.where(met, visits.runs - 1, -1)
        nodes = [layers[t][i] if i >= 0 else None for i in at[t].tolist()]
        pairs = np.array([-1 if node is None else node.pair for node in nodes], np.int64)
        taken, undecided = or_as_observed(models, t, visits, pairs)
        left = [-1 if node is None else min((key.left for key in node.after.values()), default=0) for node in nodes]
        after = np.array(left, np.int64)[taken.source]
        return replace(taken, changes=np.where(after >= 0, after, taken.changes)), undecided

    def onward(t: int, _visits: Visits, taken: Taken, owner: Ints, entries: Ints) -> Ints:
        runs, found = np.zeros(owner.size, np.int64), at.pop(t)[taken.source][owner]
        for i in np.flatnonzero(found >= 0).tolist():
            after, state = layers[t][int(found[i])].after, int(next_state[entries[i]])
            key = after.get(state) or next(iter(after.values()))._replace(state=state)
            runs[i] = number[t + 1].get(key, 0)
        return runs

    start = next(iter(plan.nodes[0]))
    first = Visits(*(np.array([one]) for one in (start.state, min(start.left, models.gumbel.T), 1)))
    return walk(models, first, as_planned, onward)


Decide = Callable[[int, Visits, Any], tuple[Taken, Any]]
Onward = Callable[[int, Visits, Taken, Ints, Ints], Ints]


def walk(models: ModelSet, start: Visits, decide: Decide, onward: Onward | None = None) -> Followed:
    """Layer by layer; ``decide`` also receives which nodes Gumbel-max leads to.

    ``onward`` says which run each entry leads to, from the row that owns it; by default that of its row.
    """
    cf, mdp = models.gumbel, models.gumbel.mdp
    form = mdp.form
    visits, met = start, np.ones(start.size, dtype=bool)
    node_start, first, parts = [0, start.size], [0], []
    undecided = []
    for t in range(cf.T):
        check_not_stuck(mdp, t, visits.states)
        decided, open_nodes = decide(t, visits, met)
        pairs = decided.pairs
        owner, entries = spans(form.row_start[pairs], form.row_start[pairs + 1])
        gumbel = _gumbel(models, t, pairs, owner, entries)
        possible = _possible(models, t, pairs, owner, entries)
        changes = np.minimum(decided.changes, cf.T - t - 1)[owner]
        runs = decided.runs[owner] if onward is None else onward(t, visits, decided, owner, entries)
        visits, there = _merged(form.next_state[entries].astype(np.int64), changes, runs, possible, mdp.n_states)
        reached = met[decided.source]
        met = np.zeros(visits.size, dtype=bool)
        met[there[reached[owner] & (gumbel > 0.0)]] = True
        rewards = mdp.rewards.at(t)
        reward = rewards[entries] if mdp.rewards.by_entry else rewards[pairs[owner]]
        there = np.where(possible, there + node_start[-1], -1)
        by_row = pairs, decided.source + node_start[-2], decided.probability, decided.changes
        parts.append((*by_row, entries, there, reward, gumbel))
        undecided.append(open_nodes)
        node_start.append(node_start[-1] + visits.size)
        first.append(first[-1] + pairs.size)
    pairs, *rest = (np.concatenate(part) for part in zip(*parts, strict=True))
    undecided.append(np.zeros(visits.size, dtype=bool))
    marks = np.concatenate(undecided).astype(np.uint8)
    starts = nominal_start(form, pairs)
    worth = final_rewards(mdp)[visits.states]
    return Followed(
        models, np.array(node_start), np.array(first), visits.states, worth, marks, starts, pairs, *rest
    )  # fmt: skip


def _possible(models: ModelSet, t: int, pairs: Ints, owner: Ints, entries: Ints) -> Any:
    """Which entries some model of the set can lead to; see `ModelSet.possible`."""
    cf, form = models.gumbel, models.gumbel.mdp.form
    possible = np.ones(entries.size, dtype=bool)
    if models.assume != "nothing":
        edits = cf.graph.layers[t].edits
        at = edits.locate(pairs)
        edited = np.flatnonzero(at >= 0)
        if edited.size:
            possible[(at >= 0)[owner]] = False
            _put(form, edits, at[edited], edited, nominal_start(form, pairs), pairs, possible)
    elif models.steps[t].outcome >= 0:
        own = np.flatnonzero((pairs == models.steps[t].pair)[owner])
        possible[own] = form.next_state[entries[own]] == models.steps[t].outcome
    return possible


def _gumbel(models: ModelSet, t: int, pairs: Ints, owner: Ints, entries: Ints) -> Floats:
    """Probabilities of the pairs' rows under Gumbel-max, entry for entry of the nominal ones."""
    mdp = models.gumbel.mdp
    form, layer, posterior = mdp.form, models.gumbel.graph.layers[t], models.gumbel.posteriors[t]
    found = form.probability[entries]
    if posterior is None:
        return found
    starts, at = nominal_start(form, pairs), layer.edits.locate(pairs)
    states = pair_states(form.pair_start, pairs)
    place = np.minimum(places_among(layer.states, states), layer.states.size - 1)
    beyond = layer.states[place] != states if layer.states.size else np.ones(states.size, dtype=bool)  # not stored
    for edits, which in ((layer.edits, at >= 0), (None, beyond)):
        rows = np.flatnonzero(which)
        if rows.size:
            known = replay(mdp, posterior, np.unique(pairs[rows])) if edits is None else edits
            found[which[owner]] = 0.0
            _put(form, known, known.locate(pairs[rows]), rows, starts, pairs, found)
    return found


def _put(form: Form, edits: EditedRows, at: Ints, which: Ints, starts: Ints, pairs: Ints, into: Any) -> None:
    """Write edited rows over the entries of the rows ``which``: their probabilities, or only that they are possible."""
    owner, entry, probability = edits.expand(form, at)
    row = which[owner]
    into[starts[row] + entry - form.row_start[pairs[row]]] = probability if into.dtype == np.float64 else True


def _merged(states: Ints, changes: Ints, runs: Ints, possible: Any, n_states: int) -> tuple[Visits, Ints]:
    """The different nodes that some entries lead to; and for each entry, which of them it leads to."""
    width, height = int(changes.max(initial=0)) + 1, int(runs.max(initial=0)) + 1
    key = (states * width + changes) * height + runs
    size, there = n_states * width * height, np.full(key.size, -1)
    nodes = distinct(key[possible], size)
    there[possible] = positions(nodes, key[possible], size)
    return Visits(nodes // (width * height), nodes // height % width, nodes % height), there


def by_choices(plan: PlanRecord) -> Callable[[int, Visits], Ints]:
    """The pair that a plan chose for each node that it knows; -1 for other nodes."""

    def known(t: int, visits: Visits) -> Ints:
        nodes, choice = plan.nodes[t], plan.choices[t]
        have, wanted = nodes.states.astype(np.int64), visits.states.astype(np.int64)
        if nodes.runs.size:
            width = max(plan.T + 2, int(visits.runs.max(initial=0)) + 1)
            have, wanted = have * width + nodes.runs, wanted * width + visits.runs
        if have.size == 0:
            return np.full(wanted.size, -1, dtype=np.int64)
        at = np.minimum(np.searchsorted(have, wanted), have.size - 1)
        local = choice[at, np.minimum(visits.changes, choice.shape[1] - 1)].astype(np.int64)
        return np.where((have[at] == wanted) & (local >= 0), plan.cf.mdp.form.pair_start[visits.states] + local, -1)

    return known


def or_as_observed(
    models: ModelSet, t: int, visits: Visits, pairs: Ints, plan: PlanRecord | None = None
) -> tuple[Taken, Any]:
    """The chosen pairs; the observed action where there is none; every action where that is not available."""
    cf = models.gumbel
    mdp, action = cf.mdp, int(cf.observation.actions[t])
    unknown = np.flatnonzero(pairs < 0)
    pairs[unknown] = pairs_with(mdp.form, visits.states[unknown], action)
    open_nodes = pairs < 0
    owner, chosen = np.arange(visits.size), pairs
    if open_nodes.any():
        begin = np.where(open_nodes, mdp.form.pair_start[visits.states], pairs)
        end = np.where(open_nodes, mdp.form.pair_start[visits.states + 1], pairs + 1)
        owner, chosen = spans(begin, end)
    share = 1.0 / np.bincount(owner, minlength=visits.size)[owner]
    changed = is_change(mdp.form, visits.states[owner], chosen, action)
    changes = np.maximum(visits.changes[owner] - changed, 0)
    runs = np.zeros(owner.size, np.int64)
    if plan is not None and plan.rule == "assured":
        # The plan's own test of influence was not computed for nodes that Gumbel-max cannot lead to.
        beyond = influenced_pairs(models.possible.graph, t, plan.influence)
        influenced = np.union1d(plan.influenced[t], beyond)
        runs = np.where(np.isin(chosen, influenced), 0, visits.runs[owner] + 1)
    return Taken(owner, chosen, share, changes, runs), open_nodes
