"""The value of a plan in another model than the one it was made for, followed without changes.

The other model has the same rows with other probabilities; or it is several such models side by side
(`tether.learning.worlds`), and the plan is followed in each. Other things can happen there: an outcome that the
observation rules out under one set of probabilities may be possible under another. So a plan may reach a state that
it does not know. There it takes the observed action, or if that is not available, the action that is best in the
model it was made for (`MDP.solve`). The probability of reaching such a state is computed too.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tether._foundation.arrays import Floats, Ints, summed
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.core.chain import Chain, Taken, Visits
from tether.influence.one_step import influenced_pairs
from tether.model.form import all_pair_states
from tether.observation.changes import is_change
from tether.plan.plan_record import PlanRecord
from tether.plan.solution import Solution, solve
from tether.plan.walks import build_chain


class Follower:
    """Follows plans for several k, made for one counterfactual MDP, with several numbers of changes allowed."""

    def __init__(self, plans: list[PlanRecord], ms: list[int]) -> None:
        self.plans, self.ms = plans, ms
        self.made_for = plans[0].cf
        self._width = max(ms) + 1  # the "changes" of a node encode the plan, too: plan · width + changes left

    def follow(self, cf: CounterfactualRecord) -> tuple[Floats, Floats]:
        """Expected return of each plan with each number of changes in each world, and how likely it leaves the plan.

        Two arrays (worlds, plans, numbers of changes).
        """
        chain, lost = self.walk(cf)
        values, off = expected_return(cf, chain, lost)
        shape = (cf.graph.copies, len(self.plans), len(self.ms))
        return values.reshape(shape), off.reshape(shape)

    def walk(self, cf: CounterfactualRecord) -> tuple[Chain, list[Ints]]:
        """The chain of all plans and numbers of changes, side by side; and which nodes of a step are off the plan."""
        starts = cf.graph.states_of_copies(int(cf.observation.states[0]))
        plan_and_changes = (np.arange(len(self.plans))[:, None] * self._width + np.array(self.ms)).reshape(-1)
        n = starts.size * plan_and_changes.size
        states, minds = np.repeat(starts, plan_and_changes.size), np.tile(plan_and_changes, starts.size)
        first = Visits(states, minds, np.zeros(n, np.int64))
        lost: list[Ints] = []

        def decide(t: int, visits: Visits) -> Taken:
            decided, off = self._decide(cf, t, visits)
            lost.append(off)
            return decided

        return build_chain(cf.mdp, lambda t: cf.graph.layers[t].edits, first, decide, cf.T), lost

    def _decide(self, cf: CounterfactualRecord, t: int, visits: Visits) -> tuple[Taken, Ints]:
        form = cf.mdp.form
        world, states = np.divmod(visits.states, self.made_for.mdp.n_states)
        which, changes = np.divmod(visits.changes, self._width)
        pairs = np.empty(visits.size, dtype=np.int64)
        off = np.zeros(visits.size, dtype=bool)
        for i, plan in enumerate(self.plans):
            mine = np.flatnonzero(which == i)
            local = _choice(plan, t, states[mine], changes[mine], visits.runs[mine])
            pairs[mine] = form.pair_start[visits.states[mine]] + local
            off[mine] = local < 0
        pairs[off] = self._otherwise(t, states[off]) + world[off] * self.made_for.mdp.n_pairs
        rests = np.zeros(visits.size, dtype=bool) if cf.graph.ended is None else cf.graph.ended.mask[visits.states]
        pairs[rests], off[rests] = form.pair_start[visits.states[rests]], False  # the plan has ended
        changed = is_change(form, visits.states, pairs, int(cf.observation.actions[t])) & ~rests
        left = which * self._width + np.maximum(changes - changed, 0)
        runs = np.zeros(visits.size, dtype=np.int64)
        if self.plans[0].rule == "assured":
            influenced = influenced_pairs(cf.graph, t, self.plans[0].influence)
            runs = np.where(np.isin(pairs, influenced), 0, visits.runs + 1)
        return Taken.for_certain(pairs, left, runs), off

    def _otherwise(self, t: int, states: Ints) -> Ints:
        """Pairs to take in states that a plan does not know."""
        if states.size == 0:
            return np.empty(0, dtype=np.int64)
        wanted = states * self.made_for.mdp.n_actions + self.made_for.observation.actions[t]
        pairs: Ints = np.minimum(np.searchsorted(self._pair_keys, wanted), self._pair_keys.size - 1)
        missing = np.flatnonzero(self._pair_keys[pairs] != wanted)
        if missing.size:
            alone = states[missing]
            pairs[missing] = self.made_for.mdp.form.pair_start[alone] + self._solution.choices[t, alone]
        return pairs

    @cached_property
    def _pair_keys(self) -> Ints:
        mdp = self.made_for.mdp
        owner = all_pair_states(mdp.form.pair_start)
        keys: Ints = owner * mdp.n_actions + mdp.form.pair_action
        return keys

    @cached_property
    def _solution(self) -> Solution:
        plan = self.plans[0]
        return solve(self.made_for.mdp, self.made_for.T, plan.objective, plan.minimise)


def _choice(plan: PlanRecord, t: int, states: Ints, changes: Ints, runs: Ints) -> Ints:
    """The number of the chosen pair among those of each state, -1 if the plan does not know the state."""
    nodes, choice = plan.nodes[t], plan.choices[t]
    width = max(plan.T + 2, int(runs.max(initial=0)) + 1)
    own = np.zeros(nodes.size, np.int64) if nodes.runs.size == 0 else nodes.runs.astype(np.int64)
    known, wanted = nodes.states.astype(np.int64) * width + own, states * width + runs
    if known.size == 0:
        return np.full(wanted.size, -1, dtype=np.int64)
    at = np.minimum(np.searchsorted(known, wanted), known.size - 1)
    chosen = choice[at, np.minimum(changes, choice.shape[1] - 1)].astype(np.int64)
    return np.where(known[at] == wanted, chosen, -1)


def expected_return(cf: CounterfactualRecord, chain: Chain, lost: list[Ints]) -> tuple[Floats, Floats]:
    """Expected return from each node of the first layer, and the probability of ever reaching a node of ``lost``."""
    mdp, last = cf.mdp, chain.visits[-1]
    value = np.zeros(last.size) if mdp.final_reward is None else mdp.final_reward[last.states]
    off = np.zeros(last.size)
    for link, here, off_here in zip(reversed(chain.links), reversed(chain.visits[:-1]), reversed(lost), strict=True):
        worth = link.probability * (link.reward + mdp.discount * value[link.target])
        value = summed(link.source, worth, here.size)
        off = np.where(off_here, 1.0, summed(link.source, link.probability * off[link.target], here.size))
    return value, np.minimum(off, 1.0)
