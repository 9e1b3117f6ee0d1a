"""A policy of single choices: other actions at some steps, the observed ones elsewhere, or the best from some step on.

If a chosen action is not available, the observed one is taken. If that is not available either, the best one is taken.
"Best" means without a tether and with any number of changes. It depends on time and state alone, and so does the whole
policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from tether._foundation.arrays import Ints, places_among
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.conditioning.edited_rows import spans
from tether.core.chain import Taken, Visits
from tether.errors import QueryError
from tether.evaluation.evaluate import Evaluation, evaluate_decider
from tether.influence.one_step import Influence
from tether.model.properties import Property, make_property
from tether.plan.objective import asked
from tether.plan.plan_record import PlanRecord
from tether.plan.tether_record import tether


@dataclass(frozen=True, eq=False)
class Instead:
    """What to do instead: actions by time, and the time from which the best is done. A function of time and state.

    Examples
    --------
    >>> import tether
    >>> from tether.evaluation.instead import make_instead
    >>> case = tether.cases.epidemic()
    >>> cf = tether.counterfactual(case.mdp, case.path)
    >>> vaccinate = make_instead(cf, {5: "V_I"}, None)
    >>> vaccinate(5, case.path.states[5]), round(cf.evaluate(vaccinate).value, 3)
    ('V_I', -37.111)
    """

    cf: CounterfactualRecord
    actions: Mapping[int, int]
    best_from: int | None
    objective: Property | None = None
    needs_record: ClassVar[bool] = True

    @property
    def world(self) -> CounterfactualRecord:
        """The counterfactual MDP in which the values are returns."""
        return asked(self.cf, self.objective)

    def __call__(self, t: int, state: Any) -> Any:
        """The action at time t in a state; also in states that only another causal model leads to."""
        mdp = self.cf.mdp
        pair = int(self.pairs(t, np.array([mdp.state_index(state)]))[0])
        return mdp.actions[int(mdp.form.pair_action[pair])]

    def pairs(self, t: int, states: Ints) -> Ints:
        """The pair that is taken at time t in each of ``states``."""
        observed = int(self.cf.observation.actions[t])
        if self.best_from is not None and t >= self.best_from:
            pairs = self._best(t, states)
        else:
            pairs = self._with_action(states, self.actions.get(t, observed))
        pairs = np.where(pairs >= 0, pairs, self._with_action(states, observed))
        missing = np.flatnonzero(pairs < 0)
        if missing.size:
            best = self._best(t, states[missing])  # -1 where Gumbel-max never leads: there the first available action
            pairs[missing] = np.where(best >= 0, best, self.cf.mdp.form.pair_start[states[missing]])
        return pairs

    def evaluate(self, influence: Influence) -> Evaluation:
        """Its exact evaluation, layer by layer."""

        def decide(t: int, visits: Visits) -> Taken:
            return Taken.for_certain(self.pairs(t, visits.states))

        return evaluate_decider(self.world, decide, influence)

    @cached_property
    def _unlimited(self) -> PlanRecord:
        return tether(self.cf, objective=self.objective).plan(self.cf.T + 1, self.cf.T)

    def _best(self, t: int, states: Ints) -> Ints:
        """The best pair in each of ``states``; -1 in a state that Gumbel-max does not lead to."""
        nodes, choice = self._unlimited.nodes[t], self._unlimited.choices[t]
        at = np.minimum(places_among(nodes.states, states), nodes.size - 1)
        known = nodes.states[at] == states
        # A plan has all its changes left only on the observed path; elsewhere one change fewer means no limit, too.
        local = np.where(choice[at, -1] >= 0, choice[at, -1], choice[at, -2]).astype(np.int64)
        return np.where(known, self.cf.mdp.form.pair_start[states] + local, -1)

    def _with_action(self, states: Ints, action: int) -> Ints:
        """The pair of each state and one action; -1 where it is not available."""
        form = self.cf.mdp.form
        owner, pairs = spans(form.pair_start[states], form.pair_start[states + 1])
        here = form.pair_action[pairs] == action
        found = np.full(states.size, -1, dtype=np.int64)
        found[owner[here]] = pairs[here]
        return found


def make_instead(cf: CounterfactualRecord, actions: Any, best_from: Any, objective: Any = None) -> Instead:
    """The policy of some choices, checked: ``actions`` maps times to actions of the model."""
    if not isinstance(actions, Mapping):
        raise QueryError(f"actions must map times to actions, as in {{3: 'treat'}}, not {actions!r}")
    chosen = {}
    for t, action in actions.items():
        time, a = cf.time(t), cf.mdp.actions.find(action)
        if a < 0:
            raise QueryError(cf.mdp.actions.missing(action, "action", time=time, place=f"t = {time}"))
        chosen[time] = a
    start = None if best_from is None else cf.time(best_from)
    return Instead(cf, dict(sorted(chosen.items())), start, make_property(objective))
