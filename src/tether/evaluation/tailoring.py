"""How tailored a policy is to the observed episode: exact, over all that can happen under it.

The expected strength of each step, the probability that it is influenced, and the distribution of the longest run of
uninfluenced steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats, Ints, summed
from tether._foundation.markup import html_table
from tether._foundation.words import average
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.core.chain import Chain, Link
from tether.observation.changes import is_change
from tether.plan.limited import Key, LimitedPlanRecord
from tether.plan.plan_record import PlanRecord


@dataclass(frozen=True, eq=False, repr=False)
class Tailoring:
    """How much of a policy's future is still about the observed episode.

    Attributes
    ----------
    strength : array (T,)
        Expected total variation between the counterfactual and the nominal row taken at each step.
    influenced : array (T,)
        Probability that the pair taken at each step is one-step influenced.
    about_episode : float
        How much of it is about this episode: the mean strength of the steps from the first change on, 0 to 1. Before
        it, what was done is repeated. 1 if nothing is changed.

    Examples
    --------
    >>> import tether
    >>> patient = tether.cases.sepsis()
    >>> tether.counterfactual(patient.mdp, patient.path).plan(k=9, m=3).evaluate().tailoring
    <Tailoring: 2.41 of 10 steps influenced, longest uninfluenced run 8 (probability 0.82)>
    """

    strength: Floats
    influenced: Floats
    chain: Chain
    flags: tuple[Ints, ...]
    about_episode: float

    @property
    def expected_influenced_steps(self) -> float:
        """Expected number of influenced steps, of `expected_steps`."""
        return float(self.influenced.sum())

    @property
    def expected_steps(self) -> float:
        """Expected number of steps: T, or fewer where the property that is asked for is decided before T."""
        return float(self._taken.sum())

    def mean_strength(self, since: int = 0) -> float:
        """Mean strength of the steps from ``since`` on: their expected total, per step that is expected to be taken.

        No step is taken after the property that is asked for is decided (see `expected_steps`).

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> about = tether.counterfactual(case.mdp, case.path).plan(k=3, m=1).evaluate().tailoring
        >>> round(about.mean_strength(), 3)
        0.381
        """
        steps = float(self._taken[since:].sum())
        return float(self.strength[since:].sum()) / steps if steps > 0 else 0.0

    @cached_property
    def _taken(self) -> Floats:
        """Probability that each step is taken: that nothing was decided before it."""
        ended, T = self.chain.ended, self.chain.T
        if ended is None:
            return np.ones(T)
        visits = zip(self.chain.visits[:T], self.chain.occupancy(), strict=False)
        return np.array([chance[~ended[here.states]].sum() for here, chance in visits])

    @cached_property
    def longest_run(self) -> int:
        """The longest run of uninfluenced steps that can happen."""
        longest, run = 0, np.zeros(self.chain.visits[0].size, dtype=np.int64)
        for link, flags, after in zip(self.chain.links, self.flags, self.chain.visits[1:], strict=True):
            onward = np.where(flags, 0, run[link.source] + 1)
            run = np.zeros(after.size, dtype=np.int64)
            np.maximum.at(run, link.target, onward)
            longest = max(longest, int(onward.max(initial=0)))
        return longest

    @cached_property
    def longest_run_probability(self) -> float:
        """Probability that a run of that length happens."""
        return self._some_run(self.longest_run) if self.longest_run else 1.0

    @cached_property
    def run_at_least(self) -> Floats:
        """Probability that the longest run of uninfluenced steps is at least 0, 1, …, T."""
        chance = np.zeros(self.chain.T + 1)
        chance[0] = 1.0
        for length in range(1, self.chain.T + 1):
            chance[length] = self._some_run(length)
            if chance[length] == 0.0:
                break
        return chance

    def _some_run(self, length: int) -> float:
        """P(some run of uninfluenced steps reaches ``length``): a forward pass that takes out the mass that reaches it.

        Column j of ``mass``, counted from the right, is the probability of having just passed j uninfluenced steps. A
        new column on the right makes all runs longer by one.
        """
        done = 0.0
        mass = np.full((self.chain.visits[0].size, 1), 1.0 / self.chain.visits[0].size)
        for (influenced, others), after in zip(self._steps, self.chain.visits[1:], strict=True):
            fresh = influenced.collect(mass.sum(axis=1, keepdims=True), after.size)
            if mass.shape[1] == length:
                done += float(np.sum(mass[others.source, 0] * others.probability))
                mass = mass[:, 1:]
            mass = np.concatenate((others.collect(mass, after.size), fresh), axis=1)
        return min(done, 1.0)

    @cached_property
    def _steps(self) -> list[tuple[_Moves, _Moves]]:
        """The links of each step, those of influenced pairs and the others."""
        both = zip(self.chain.links, self.flags, strict=True)
        return [(_Moves.of(link, flags), _Moves.of(link, ~flags)) for link, flags in both]

    def __repr__(self) -> str:
        return (
            f"<Tailoring: {self.expected_influenced_steps:.2f} of {average(self.expected_steps)} steps influenced, "
            f"longest uninfluenced run {self.longest_run} (probability {self.longest_run_probability:.3g})>"
        )

    def _repr_html_(self) -> str:
        rows = [
            (t, f"{a:.4g}", f"{b:.4g}") for t, (a, b) in enumerate(zip(self.influenced, self.strength, strict=True))
        ]
        return html_table(("t", "probability of influence", "expected strength"), rows)


def tailoring_of(
    cf: CounterfactualRecord, chain: Chain, occupancy: list[Floats], influenced: tuple[Ints, ...]
) -> Tailoring:
    """How much of a chain is still about the observed episode; ``influenced`` are the influenced pairs of each step."""
    strength, share, flags = np.empty(chain.T), np.empty(chain.T), []
    for t, decided in enumerate(chain.taken):
        weight = occupancy[t][decided.source] * decided.probability
        edits = cf.graph.layers[t].edits
        at = edits.locate(decided.pairs)
        found = at >= 0
        strength[t] = np.sum(weight[found] * edits.strengths(at[found]))
        flag = np.isin(decided.pairs, influenced[t])
        share[t] = weight[flag].sum()
        # An episode that has ended takes no steps: a run of uninfluenced steps ends there.
        flags.append((flag | chain.at_rest(t))[chain.links[t].decision])
    return Tailoring(strength, share, chain, tuple(flags), about_chain(cf, chain))


def about_chain(cf: CounterfactualRecord, chain: Chain) -> float:
    """How much of what is done is about the episode, from the first change on (`tether.core.about`).

    It is 1 if nothing is changed. Of each node the probability is followed that something was changed before it.
    """
    from tether.core.about import Strengths, about_episode

    found, unchanged = [], chain.occupancy()[0]
    changed_before = np.zeros(unchanged.size)
    for t, (decided, link) in enumerate(zip(chain.taken, chain.links, strict=True)):
        edits, source = cf.graph.layers[t].edits, decided.source
        strength, at = np.zeros(source.size), edits.locate(decided.pairs)
        strength[at >= 0] = edits.strengths(at[at >= 0])
        states, done = chain.visits[t].states[source], int(cf.observation.actions[t])
        changes = is_change(cf.mdp.form, states, decided.pairs, done) & ~chain.at_rest(t)
        mass = (changed_before[source] + changes * unchanged[source]) * decided.probability
        found.append(Strengths(np.zeros(source.size, np.int64), mass, strength, ~chain.at_rest(t)))
        changes_here, after = changes[link.decision], chain.visits[t + 1].size
        stays = unchanged[link.source] * link.probability
        goes_on = changed_before[link.source] * link.probability + changes_here * stays
        unchanged = summed(link.target, ~changes_here * stays, after)
        changed_before = summed(link.target, goes_on, after)
    return float(about_episode(1, found)[0])


def about_limited(plan: LimitedPlanRecord) -> float:
    """How much of a plan with a limit on whole paths is about its episode; 1 if it changes nothing."""
    cf, moved, taken = plan.cf, 0.0, 0.0
    over = None if plan.objective is None else plan.objective.on(cf.mdp).ended
    changed = dict.fromkeys(plan.nodes[0], 0.0)  # of each node, how likely it is met after a change
    for t, layer in enumerate(plan.nodes[:-1]):
        after: dict[Key, float] = {}
        for key, where in layer.items():
            if over is not None and over[key.state]:
                continue
            mass = where.chance if plan.is_change(t, key, where) else changed[key]
            at = cf.mdp.states[key.state], cf.mdp.actions[int(cf.mdp.form.pair_action[where.pair])]
            taken += mass
            moved += mass * cf.strength(t, *at)
            for name, chance in zip(*cf.row(t, *at), strict=True):
                node = where.after[cf.mdp.state_index(name)]
                after[node] = after.get(node, 0.0) + mass * float(chance)
        changed = dict.fromkeys(plan.nodes[t + 1], 0.0) | after
    return min(moved / taken, 1.0) if taken > 0.0 else 1.0


def about_plan(plan: PlanRecord) -> float:
    """How much of a plan is about its episode; 1 if it changes nothing."""
    return about_chain(plan.asked, plan.chain)


@dataclass(frozen=True, slots=True, eq=False)
class _Moves:
    """Some links of a step, in the order of their targets."""

    source: Ints
    probability: Floats
    targets: Ints
    first: Ints

    @classmethod
    def of(cls, link: Link, which: Any) -> _Moves:
        chosen = np.flatnonzero(which)
        chosen = chosen[np.argsort(link.target[chosen], kind="stable")]
        targets, first = np.unique(link.target[chosen], return_index=True)
        return cls(link.source[chosen], link.probability[chosen], targets, first)

    def collect(self, mass: Floats, size: int) -> Floats:
        """How much of ``mass``, one row per node, arrives at each of the ``size`` next nodes."""
        onward = np.zeros((size, mass.shape[1]))
        if self.targets.size and mass.shape[1]:
            onward[self.targets] = np.add.reduceat(mass[self.source] * self.probability[:, None], self.first, axis=0)
        return onward
