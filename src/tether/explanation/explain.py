"""Explanation: what happened against what the plan would have done, step by step and in sentences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrow import Tabular
from tether._foundation.markup import html_table, paragraphs
from tether._foundation.words import strength_in_words
from tether.evaluation.evaluate import Evaluation, chance_of_changes, evaluate_plan, evaluate_policy
from tether.evaluation.plain import best_for_anyone
from tether.explanation.about_episode import left_to_chance
from tether.explanation.evidence import Evidence, default_draws, evidence_of
from tether.explanation.outcomes import Outcomes, outcomes_of
from tether.explanation.sentences import Answer, answer
from tether.explanation.steps import ElsewhereChange, ExplainedStep, changes_elsewhere, explained_steps
from tether.plan.limits import Beyond, beyond
from tether.plan.plan import Plan

if TYPE_CHECKING:
    import pyarrow

    from tether.evaluation.certificate import Certificate
    from tether.learning.uncertainty import PlanUncertainty

__all__ = ["Explanation", "explain"]


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Tabular):
    """A plan put beside what happened.

    Attributes
    ----------
    plan : Plan
    outlook : Evaluation
        The plan, evaluated exactly.
    steps : tuple of ExplainedStep
        t = 0 … T.
    with_certificate : bool
        Whether the sentences include the certificate: what holds under every causal model.
    draws : int
        For a learned model: how many models, of those that its log leaves possible, are drawn; 0 for none.
    rng : int or numpy Generator
        For the draws. The same seed gives the same models.
    progress : callable or None
        ``progress(done, draws)`` is called after each draw.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> explanation = tether.counterfactual(case.mdp, case.path).plan(k=3, m=1).explain()
    >>> for sentence in explanation.sentences():  # doctest: +NORMALIZE_WHITESPACE
    ...     print(sentence)
    Change 1 action: at t = 5 'V_I' instead of 'NIL'.
    The expected return is -37.11 (± 0.3143) instead of -38: a gain of 0.8889.
    From the changed step on the observation moves no probability: from there the answer holds for anyone.
    5 of the 7 steps are influenced (the test that k counts); the longest stretch without is 2 steps, fewer than k = 3.
    The gain holds under every causal model.
    The return is from -37.12 to -37.01 over all that agree with the model and the episode; observed -38.
    """

    plan: Plan
    outlook: Evaluation
    steps: tuple[ExplainedStep, ...]
    with_certificate: bool = True
    draws: int = 0
    rng: Any = 0
    progress: Callable[[int, int], None] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the evaluation of the plan, which is computed again, and without ``progress``, which is gone by then.
        return _told_again, (self.plan, self.steps, self.with_certificate, self.draws, self.rng)

    @property
    def changes(self) -> tuple[ExplainedStep, ...]:
        """The steps in which the plan may change the action."""
        return tuple(step for step in self.steps if step.changed > 0)

    @cached_property
    def elsewhere(self) -> tuple[ElsewhereChange, ...]:
        """For a robust plan: its changes where only other causal models than Gumbel-max lead."""
        return changes_elsewhere(self.plan)

    @property
    def logged_return(self) -> float | None:
        """Return of the observed path by its own rewards (`tether.records.Earned`); None for a path without rewards."""
        return self.plan.logged_return

    @cached_property
    def beyond(self) -> Beyond:
        """What a longer tether, or more changes, would add; computed when asked for, by one sweep."""
        return beyond(self.plan)

    @cached_property
    def outcomes(self) -> Outcomes:
        """How the episode ended, and how it would have ended under the plan and under the policy best for anyone.

        Computed when first used: the plain model is solved for it.
        """
        seen = evaluate_policy(self.plan.cf, "observed", objective=self.plan.objective)
        return outcomes_of({"observed": seen, "plan": self.outlook, "optimal": self.optimal})

    @cached_property
    def optimal(self) -> Evaluation:
        """The policy that is best for anyone in the plain model, in this episode; computed when asked for."""
        plan = self.plan
        return best_for_anyone(plan.cf, plan.objective, plan.minimise)

    @cached_property
    def certificate(self) -> Certificate | None:
        """What holds under every causal model of this episode; None if it is left out, see ``uncertified``.

        It is computed when first used.

        Examples
        --------
        >>> import tether
        >>> patient = tether.cases.sepsis()
        >>> explanation = tether.counterfactual(patient.mdp, patient.path).plan(k=9, m=2).explain()
        >>> explanation.certificate.verdict, explanation.uncertified
        ('never worse', '')
        """
        return self.plan.certify() if self.with_certificate and not self.uncertified else None

    @cached_property
    def uncertified(self) -> str:
        """Why there is no certificate, in a sentence, if the plan is too large for one; otherwise empty."""
        from tether.evaluation.certificate import why_uncertified

        return why_uncertified(self.plan) if self.with_certificate else ""

    @cached_property
    def evidence(self) -> tuple[Evidence, ...]:
        """For a learned model: how often each advised action is in its log. Empty for another model."""
        return evidence_of(self)

    @cached_property
    def uncertainty(self) -> PlanUncertainty | None:
        """The value of the plan in models that the log leaves possible; None if no models are drawn.

        They are drawn when this is first used.

        Examples
        --------
        >>> import tether
        >>> seen = [("treat", "well")] * 8 + [("treat", "dead")] * 2 + [("wait", "dead")] * 3
        >>> mdp = tether.learn([tether.Path(["sick", after], [did]) for did, after in seen], prior=1)
        >>> mdp = mdp.with_objective(final_reward={"well": 1.0})
        >>> plan = tether.counterfactual(mdp, tether.Path(["sick", "dead"], ["wait"])).plan(k=2, m=1)
        >>> plan.explain(draws=50).uncertainty.draws, plan.explain(draws=0).uncertainty
        (50, None)
        """
        return self.plan.uncertainty(self.draws, rng=self.rng, progress=self.progress) if self.draws else None

    @cached_property
    def advised_states(self) -> dict[int, Any]:
        """By time: the state in which the plan most often takes the other action of a changed step."""
        return {step.t: _advised_state(self, step.t, step.instead) for step in self.changes}

    def answer(self, name: Callable[[Any], str] = repr) -> Answer:
        """The answer in its four parts; ``name`` turns a name into text.

        Examples
        --------
        >>> import tether
        >>> patient = tether.cases.sepsis()
        >>> answer = tether.counterfactual(patient.mdp, patient.path).plan(k=9, m=2).explain().answer(str)
        >>> answer.follows[0]
        'Died by t = 10: 85 % instead of certain; discharged: 3 % instead of 0 %.'
        """
        return answer(self, name)

    def sentences(self, name: Callable[[Any], str] = repr) -> list[str]:
        """All sentences: what to do differently, what follows, how much of it is about this episode, how sure it is."""
        return self.answer(name).sentences()

    def __str__(self) -> str:
        return "\n".join(self.sentences(str))

    def __repr__(self) -> str:
        many = len({step.t for step in self.changes} | {one.t for one in self.elsewhere})
        return f"<Explanation: k = {self.plan.k}, m = {self.plan.m}, {many} of {self.plan.T} steps change>"

    def to_arrow(self) -> pyarrow.Table:
        """The steps as an Arrow table, one row each, with the fields of `ExplainedStep` as columns.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> table = tether.counterfactual(case.mdp, case.path).plan(k=3, m=1).explain().to_arrow()
        >>> table.column("changed").to_pylist()
        [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]
        """
        from tether.explanation.arrow import explanation_table

        return explanation_table(self)

    def _repr_html_(self) -> str:
        luck = left_to_chance(self.plan.asked, self.plan.chain)  # without it there is nothing to influence
        head: tuple[str, ...] = ("t", "observed", "done", "likeliest", "probability", "plan", "changed", "gain")
        rows = []
        for step in self.steps:
            seen = ("" if one is None else one for one in (step.observed_state, step.observed_action))
            last = step.observed_action is None
            done, changed = "" if step.action is None else step.action, "" if last else f"{step.changed:.3g}"
            influence = () if not luck else (strength_in_words(step.strength), f"{step.influenced:.3g}")
            rows.append(
                (
                    step.t,
                    *seen,
                    step.state,
                    f"{step.state_probability:.3g}",
                    done,
                    changed,
                    f"{step.gain:.4g}",
                    *(("",) * len(influence) if last else influence),
                )
            )
        head = (*head, "strength", "influenced") if luck else head
        return html_table(head, rows) + paragraphs(self.sentences(str))


def explain(
    plan: Plan,
    group: Callable[[Any], Any] | None = None,
    *,
    certificate: bool = True,
    draws: int | None = None,
    rng: Any = 0,
    progress: Callable[[int, int], None] | None = None,
    outlook: Evaluation | None = None,
) -> Explanation:
    """Put a plan beside what happened; see `Plan.explain`. ``outlook`` is its evaluation, if it is already known."""
    outlook, many = outlook or evaluate_plan(plan), default_draws(plan, draws)
    steps = explained_steps(plan.cf, outlook, group, world=plan.asked)
    if plan.minimise:  # less is a gain
        steps = tuple(replace(step, gain=0.0 - step.gain) for step in steps)
    return Explanation(plan, outlook, steps, certificate, many, rng, progress)


def _told_again(plan: Plan, steps: tuple[ExplainedStep, ...], certificate: bool, draws: int, rng: Any) -> Explanation:
    """An explanation that was pickled."""
    return Explanation(plan, evaluate_plan(plan), steps, certificate, draws, rng)


def _advised_state(explanation: Explanation, t: int, action: Any) -> Any:
    """The state in which a plan most often takes another action than the observed one at t."""
    outlook = explanation.outlook
    decided, visits = outlook.chain.taken[t], outlook.chain.visits[t]
    takes = outlook.mdp.form.pair_action[decided.pairs] == outlook.mdp.actions.find(action)
    states, index = np.unique(visits.states, return_inverse=True)
    chance = chance_of_changes(explanation.plan.asked, outlook.chain, t, outlook.occupancy[t]) * takes
    weight = np.bincount(index.reshape(-1)[decided.source], chance)
    return outlook.mdp.states[int(states[int(np.argmax(weight))])]
