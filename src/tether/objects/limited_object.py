"""`LimitedPlan`: the questions about a plan with a limit on whole paths."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Self

from tether.objects.history_plan import HistoryPlan
from tether.plan.limited import LimitedPlanRecord

if TYPE_CHECKING:
    from tether.evaluation.certificate import Certificate
    from tether.evaluation.plan_risk import Risk
    from tether.explanation.limited_explanation import LimitedExplanation


class LimitedPlan(LimitedPlanRecord, HistoryPlan):
    __doc__ = LimitedPlanRecord.__doc__

    @classmethod
    def over(cls, record: LimitedPlanRecord) -> Self:
        """The questions about a record of a lower folder."""
        return cls(**{one.name: getattr(record, one.name) for one in fields(record)})

    def certify(self, gamma: float = 1.0, practice: Any = None) -> Certificate:
        """What holds for the plan under every causal model of this episode; see `tether.certify`.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.grid_world()
        >>> plan = tether.counterfactual(case.mdp, case.path).plan(m=6, budget=9)
        >>> plan.certify().verdict
        'holds'
        """
        from tether.evaluation.certificate import certificate_of

        return certificate_of(self.cf, self, gamma=gamma, practice=practice)

    @property
    def about_episode(self) -> float:
        """How much of the plan is about this episode; as of `Plan.about_episode`.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.grid_world()
        >>> plan = tether.counterfactual(case.mdp, case.path).plan(m=6, budget=9)
        >>> round(plan.about_episode, 4)
        0.0036
        """
        from tether.evaluation.tailoring import about_limited

        return about_limited(self)

    @property
    def risk(self) -> Risk | None:
        """How likely a replay is to end worse, or better, than what happened; None if something follows the record.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.grid_world()
        >>> tether.counterfactual(case.mdp, case.path).plan(m=6, budget=9).risk
        <Risk: worse 0, better 1>
        """
        from tether.evaluation.plan_risk import risk_of_limited

        return risk_of_limited(self)

    def explain(self, *, certificate: bool = True) -> LimitedExplanation:
        """The plan beside what happened, step by step and in sentences.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.grid_world()
        >>> plan = tether.counterfactual(case.mdp, case.path).plan(k=8, m=6, lost=0.01)
        >>> print(plan.explain().verdicts(str).about.sentences[1])
        The plan loses touch with the episode with a chance of under 1 %.
        """
        from tether.explanation.limited_explanation import explain_limited

        return explain_limited(self, certificate)
