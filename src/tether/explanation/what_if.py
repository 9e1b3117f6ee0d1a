"""What if: other actions at some steps, or the best from some step on; exactly what would have followed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.markup import facts, paragraphs
from tether._foundation.rounding import gain_of
from tether._foundation.words import average, number
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.evaluation.evaluate import Evaluation
from tether.evaluation.instead import Instead, make_instead
from tether.explanation.sentences import policy_sentences
from tether.explanation.steps import ExplainedStep, explained_steps
from tether.influence.one_step import Influence
from tether.influence.rules import Rule
from tether.model.properties import Property
from tether.plan.best_values import observed_value
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
        return facts(rows) + paragraphs(self.sentences(str))


def what_if(
    cf: CounterfactualRecord, actions: Any, best_from: Any, rule: Any, influence: Any, objective: Any = None
) -> WhatIf:
    """What would have followed; see `CounterfactualMDP.what_if`."""
    tied = tether(cf, rule, influence, objective)
    cf = tied.cf
    policy = make_instead(cf, actions, best_from, tied.objective)
    outlook, observed = policy.evaluate(tied.influence), observed_value(policy.world)
    return WhatIf(cf, policy, outlook, observed, tied.rule, tied.influence, tied.objective)
