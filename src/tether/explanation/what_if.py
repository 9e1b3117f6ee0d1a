"""What if: other actions at some steps, or the best from some step on; exactly what would have followed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tether._foundation.arrays import Ints, places_among
from tether._foundation.markup import facts, paragraphs
from tether._foundation.rounding import gain_of
from tether._foundation.words import average, number
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.conditioning.edited_rows import spans
from tether.core.chain import Taken, Visits
from tether.errors import QueryError
from tether.evaluation.evaluate import Evaluation, evaluate_decider
from tether.explanation.sentences import policy_sentences
from tether.explanation.steps import ExplainedStep, explained_steps
from tether.influence.one_step import Influence
from tether.influence.rules import Rule
from tether.model.properties import Property, make_property
from tether.plan.best_values import observed_value
from tether.plan.objective import asked
from tether.plan.plan_record import PlanRecord
from tether.plan.tether_record import tether

if TYPE_CHECKING:
    from tether.evaluation.certificate import Certificate


@dataclass(frozen=True, eq=False, repr=False)
class WhatIf:
    """What would have followed from other actions at some steps; made by `CounterfactualMDP.what_if`.

    Attributes
    ----------
    policy : callable
        The action at time t in a state: the chosen one, or else the observed one. A policy as
        `CounterfactualMDP.evaluate` takes it.
    outlook : Evaluation
        The evaluation of this policy, exact.
    observed_value : float
    rule, influence
        What `needed_k` means.
    objective : Property or None
        The property that was asked for, in place of the return.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> cf = tether.counterfactual(grid.mdp, grid.path)
    >>> asked = cf.what_if({2: "left"}, best_from=3)
    >>> asked
    <WhatIf: value 282.6, observed -897, 6.31 changed, k ≥ 6>
    >>> asked.value == cf.evaluate(asked.policy).value
    True
    """

    cf: CounterfactualRecord
    policy: Instead
    outlook: Evaluation
    observed_value: float
    rule: Rule
    influence: Influence
    objective: Property | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        actions = {t: self.cf.mdp.actions[a] for t, a in self.policy.actions.items()}
        asked = self.cf, actions, self.policy.best_from, self.rule, self.influence, self.objective
        return what_if, asked  # what follows is found again

    @property
    def value(self) -> float:
        """Expected return; or the probability that the property holds, if one was asked for."""
        return self.outlook.value

    @property
    def gain(self) -> float:
        """What is gained over the observed episode."""
        return gain_of(self.value, self.observed_value)

    @property
    def changes(self) -> float:
        """Expected number of actions that differ from the observed ones."""
        assert self.outlook.changed is not None
        return float(self.outlook.changed.sum())

    @cached_property
    def steps(self) -> tuple[ExplainedStep, ...]:
        """What happened against what would have been, step by step."""
        return explained_steps(self.cf, self.outlook, world=self.policy.world)

    @cached_property
    def needed_k(self) -> int:
        """The shortest tether that allows all of it; T + 1 if no tether does.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> cf = tether.counterfactual(case.mdp, case.path)
        >>> cf.what_if({5: "V_I"}).needed_k, cf.what_if({0: "V_I"}).needed_k
        (3, 8)
        """
        tailoring, chain, form = self.outlook.tailoring, self.outlook.chain, self.cf.mdp.form
        assert tailoring is not None
        if self.rule == "assured":
            return tailoring.longest_run + 1
        found = tether(self.cf, self.rule, self.influence, self.objective).thresholds()
        needed, ended = 1, self.policy.world.graph.ended
        for t, taken in enumerate(chain.taken):
            states, pairs = chain.visits[t].states[taken.source], taken.pairs
            if ended is not None:  # after the property is decided, no tether limits anything
                states, pairs = states[~ended.mask[states]], pairs[~ended.mask[states]]
            first = found.offsets[t][np.searchsorted(found.nodes[t].states, states)]
            needed = max(needed, int(found.kappa[t][first + pairs - form.pair_start[states]].max(initial=1)))
        return min(needed, self.cf.T + 1)

    @cached_property
    def certificate(self) -> Certificate | None:
        """The range of its return over every causal model of this episode; None if a property was asked for.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.counterfactual(case.mdp, case.path).what_if({5: "V_I"}).certificate.verdict
        'holds'
        """
        from tether.evaluation.certificate import certificate_of

        return certificate_of(self.cf, self.policy) if self.objective is None else None

    def outcomes(self) -> dict[str, float]:
        """Probability of each outcome at the end; see `Evaluation.outcomes`."""
        return self.outlook.outcomes()

    def sentences(self, name: Callable[[Any], str] = repr) -> list[str]:
        """What is done instead, what follows, how much of it is about this episode; ``name`` turns a name into text.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> print(tether.counterfactual(case.mdp, case.path).what_if({5: "V_I"}).sentences()[0])
        At step 5 'V_I' instead of 'NIL'; everything else as observed.
        """
        follows = policy_sentences(self.cf, self.outlook, self.steps, self.observed_value, self.objective)
        return [self._choices(name), *follows, self._tether()]

    def _choices(self, name: Callable[[Any], str]) -> str:
        actions, cf = self.cf.mdp.actions, self.cf
        best = self.policy.best_from
        parts = [
            f"at step {t} {name(actions[a])} instead of {name(cf.path.actions[t])}"
            for t, a in self.policy.actions.items()
            if (best is None or t < best) and actions[a] != cf.path.actions[t]
        ]
        if best is not None:
            parts.append(f"from step {best} on the best actions, without a tether and with any number of changes")
        if not parts:
            return "Everything as observed."
        listed = "; ".join(parts)
        rest = "" if best == 0 else "; everything else as observed"
        return f"{listed[0].upper()}{listed[1:]}{rest}."

    def _tether(self) -> str:
        k, T = self.needed_k, self.cf.T
        if k > T:
            return f"No tether allows this (k = {T + 1} is none): it leaves the influence of the observation for good."
        return f"A tether of length k = {k} allows this, no shorter one does." if k > 1 else "Any tether allows this."

    def __str__(self) -> str:
        return "\n".join(self.sentences(str))

    def __repr__(self) -> str:
        return (
            f"<WhatIf: value {self.value:.4g}, observed {self.observed_value:.4g}, {average(self.changes)} changed, "
            f"k ≥ {self.needed_k}>"
        )

    def _repr_html_(self) -> str:
        rows = [
            ("value", number(self.value)),
            ("observed", number(self.observed_value)),
            ("changes", average(self.changes)),
            ("allowed", f"k ≥ {self.needed_k}"),
        ]
        return paragraphs(self.sentences(str)) + facts(rows)


def what_if(
    cf: CounterfactualRecord, actions: Any, best_from: Any, rule: Any, influence: Any, objective: Any = None
) -> WhatIf:
    """What would have followed; see `CounterfactualMDP.what_if`."""
    tied = tether(cf, rule, influence, objective)
    cf = tied.cf
    policy = make_instead(cf, actions, best_from, tied.objective)
    outlook, observed = policy.evaluate(tied.influence), observed_value(policy.world)
    return WhatIf(cf, policy, outlook, observed, tied.rule, tied.influence, tied.objective)


# ---- The policy of a what-if ---------------------------------------------------------------------------------------
# A policy of single choices: other actions at some steps, the observed ones elsewhere, or the best from some step on.
#
# If a chosen action is not available, the observed one is taken. If that is not available either, the best one is
# taken. "Best" means without a tether and with any number of changes. It depends on time and state alone, and so does
# the whole policy.


@dataclass(frozen=True, eq=False)
class Instead:
    """What to do instead: actions by time, and the time from which the best is done. A function of time and state.

    Examples
    --------
    >>> import tether
    >>> from tether.explanation.what_if import make_instead
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
        """Evaluate the policy exactly, layer by layer."""

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
