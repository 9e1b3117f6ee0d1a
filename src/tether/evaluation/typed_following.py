"""A plan for hidden types, followed wherever some causal model of one type leads.

A node remembers which vector the plan follows there. Where an outcome is possible for no type under Gumbel-max, it
follows the vector that is best for the posterior. Nodes that Gumbel-max does not lead to at all are unknown to it: it
takes the observed action there; if that is not available, every action is followed, and the worst (best) counts.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import lru_cache
from typing import Any, Self

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints
from tether.conditioning.model_sets import ModelSet
from tether.core.chain import Taken, Visits
from tether.evaluation.following import Followed, follow, or_as_observed, walk
from tether.evaluation.ranges import PolicyValues, related_range
from tether.model.properties import Property
from tether.plan.objective import asked_set
from tether.plan.typed_plan import TypedPlanRecord


class TypeFollowed:
    """A plan or policy followed under the causal models of one type; ``models`` are those without the property."""

    def __init__(self, models: ModelSet, followed: Followed, objective: Property | None) -> None:
        self.models, self.followed, self.objective = models, followed, objective

    @classmethod
    def of_plan(cls, models: ModelSet, plan: TypedPlanRecord) -> Self:
        """A plan for hidden types."""
        followed = _follow(asked_set(models, plan.objective, plan.minimise), plan)
        return cls(models, followed, plan.objective)

    @classmethod
    def of_policy(cls, models: ModelSet, policy: Any, objective: Property | None, minimise: bool) -> Self:
        """A policy of the state, which does not see the type."""
        return cls(models, follow(models, policy, objective, minimise), objective)

    @property
    def value(self) -> float:
        """Its value under Gumbel-max."""
        return PolicyValues(asked_set(self.models, self.objective), self.followed).at(0.0)[0]

    def extreme(self, gamma: float, share: Floats, side: float) -> float:
        """The smallest (``side`` = 1) or largest (-1) value, with hidden causes up to ``gamma``."""
        models = asked_set(self.models.confounded(gamma, share), self.objective)
        return PolicyValues(models, self.followed).at(1.0, side)[0]

    def related(self, observed: float) -> tuple[float, float]:
        """The smallest and the largest value if the luck of different steps may be related in any way."""
        return related_range(self.models, self.followed, self.objective, observed)


def _follow(models: ModelSet, plan: TypedPlanRecord) -> Followed:
    """Nodes remember, as their run, the number of their vector and 1; 0 where the plan does not know the node."""
    values, form = plan.vectors, models.gumbel.mdp.form
    place = values.rows.places(form)

    shares = plan.cf.shares

    def cells(t: int, states: Ints, changes: Ints) -> Ints:
        layer = values.layers[t]
        return np.where(
            layer.place[states] >= 0, layer.place[states] * layer.columns + np.minimum(changes, layer.columns - 1), -1
        )

    @lru_cache(maxsize=2)
    def likely(t: int) -> Ints:
        """For each node of a layer, and for none at the end, the number and 1 of the vector best for the posterior."""
        start, worth = values.layers[t].start, values.layers[t].values @ shares
        best = [int(np.argmax(worth[i:j])) + 1 if j > i else 0 for i, j in itertools.pairwise(start.tolist())]
        return np.array([*best, 0])

    followed: dict[int, Ints] = {}

    def decide(t: int, visits: Visits, met: Flags) -> tuple[Taken, Flags]:
        layer = values.layers[t]
        known = met & (visits.runs > 0)
        first = layer.start[np.maximum(cells(t, visits.states, visits.changes), 0)]
        followed[t] = np.where(known, first + visits.runs - 1, -1)
        pairs = np.where(known, layer.pair[np.where(known, followed[t], 0)], -1)
        taken, undecided = or_as_observed(models, t, visits, pairs)
        left = np.maximum(visits.changes[taken.source] - values.changed(t)[taken.pairs], 0)
        return replace(taken, changes=left), undecided

    def onward(t: int, _visits: Visits, taken: Taken, owner: Ints, entries: Ints) -> Ints:
        layer, found = values.layers[t], followed.pop(t)[taken.source][owner]
        left = np.minimum(taken.changes, values.T - t - 1)[owner]
        runs = likely(t + 1)[cells(t + 1, form.next_state[entries], left)]
        known = np.flatnonzero(found >= 0)
        begin = values.rows.row_start[taken.pairs[owner[known]]]
        after = layer.back[layer.back_start[found[known]] + place[entries[known]] - begin]
        runs[known] = np.where(after >= 0, after + 1, runs[known])
        return runs

    start = Visits(*(np.array([one]) for one in (values.start, min(plan.m, values.T), plan.root + 1)))
    return walk(models, start, decide, onward)
