"""A plan as a policy of another model: a finer or a coarser one, one with other probabilities, or the plain one.

The other model's states are translated into those of the plan, and actions are found by name. Where the plan says
nothing (a state that it never meets, an action that is not available there), what was recorded is done; where that is
not available either, each available action is equally likely. How many changes are left is remembered on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._foundation.arrays import Ints
from tether._foundation.markup import facts
from tether.core.chain import Decide, Taken, Visits
from tether.errors import Problem, QueryError
from tether.influence.one_step import influenced_pairs
from tether.model.model_record import ModelRecord
from tether.model.product import memory_of
from tether.plan.plan_record import PlanRecord


@dataclass(frozen=True, slots=True, eq=False)
class LiftedPlan:
    """A plan that is followed in another model; made by `Plan.on`.

    Attributes
    ----------
    plan : Plan
    lift : callable or None
        The plan's state for a state of the other model; None: they have the same names.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.grid_world()
    >>> plan = tether.counterfactual(case.mdp, case.path).plan(k=6, m=2)
    >>> for_anyone = case.mdp.evaluate(plan.on(case.mdp), plan.T, start=0)
    >>> round(for_anyone.value, 1), round(plan.value, 1)
    (0.7, 4.2)
    """

    plan: PlanRecord
    lift: Callable[[Any], Any] | None = None

    def _repr_html_(self) -> str:
        return facts([("plan", self.plan), ("states", "of the same names" if self.lift is None else "translated")])

    def first(self, state: int) -> Visits:
        """The node in which it starts."""
        return Visits(np.array([state]), np.array([self.plan.m]), np.zeros(1, np.int64))

    def decide(self, mdp: ModelRecord, graph: Any = None) -> Decide:
        """What it does in a model, as a chain takes it; ``graph`` is that of an episode, if there is one."""
        recorded = [self._number(mdp, action) for action in self.plan.cf.path.actions]

        def decide(t: int, visits: Visits) -> Taken:
            if t >= self.plan.T:
                message = f"the plan has {self.plan.T} steps; it says nothing about t = {t}"
                raise QueryError(Problem(message, time=t, place=f"t = {t}"))
            source, pairs, share = [], [], []
            for i, (s, changes, run) in enumerate(zip(visits.states, visits.changes, visits.runs, strict=True)):
                chosen = self._pairs(mdp, t, int(s), int(changes), int(run), recorded[t])
                source += [i] * len(chosen)
                pairs += chosen
                share += [1.0 / len(chosen)] * len(chosen)
            node, taken = np.array(source), np.array(pairs)
            changed = mdp.form.pair_action[taken] != recorded[t]
            left = np.maximum(visits.changes[node] - changed, 0)
            runs = np.zeros(node.size, np.int64)
            if self.plan.rule == "assured":
                influenced: Ints = np.empty(0, np.int64)
                if graph is not None:
                    influenced = influenced_pairs(graph, t, self.plan.influence)
                runs = np.where(np.isin(taken, influenced), 0, visits.runs[node] + 1)
            return Taken(node, taken, np.array(share), left, runs)

        return decide

    def _pairs(self, mdp: ModelRecord, t: int, s: int, changes: int, run: int, recorded: int) -> list[int]:
        state = self._name(mdp, s) if self.lift is None else self.lift(self._name(mdp, s))
        advised = None
        if state in self.plan.cf.mdp.states:
            advised = self.plan.action(t, state, changes, uninfluenced=run)
        for action in ([] if advised is None else [self._number(mdp, advised)]) + [recorded]:
            pair = mdp.find_pair(s, action) if action >= 0 else -1
            if pair >= 0:
                return [pair]
        every = list(range(int(mdp.form.pair_start[s]), int(mdp.form.pair_start[s + 1])))
        if not every:
            raise QueryError(Problem(f"state {mdp.states[s]!r} has no available action", mdp.states[s], time=t))
        return every

    def _name(self, mdp: ModelRecord, s: int) -> Any:
        """The name of a state of the other model; without what remains of a formula that the plan was not asked for."""
        theirs, own = memory_of(mdp), memory_of(self.plan.cf.mdp)
        if own is not None and (theirs is None or theirs.tree != own.tree) and self.lift is None:
            what = f"the plan was made for {self.plan.objective}: what it advises depends on what remains of that"
            raise QueryError(Problem(what, fix="evaluate it for the same objective"))
        return mdp.states[s] if theirs is None or own is not None else theirs.mdp.states[int(theirs.state[s])]

    def _number(self, mdp: ModelRecord, action: Any) -> int:
        return mdp.actions.find(action)
