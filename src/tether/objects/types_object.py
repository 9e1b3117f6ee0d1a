"""`TypedCounterfactual` and `TypedPlan`: the questions about an individual whose type was never recorded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tether._foundation.markup import Displayed, facts, shown_here
from tether._foundation.words import percent
from tether.influence.one_step import GivenInfluence as Influence
from tether.influence.rules import GivenRule as Rule
from tether.objects.counterfactual_object import CounterfactualMDP
from tether.objects.history_plan import HistoryPlan
from tether.plan.typed_plan import TypedPlanRecord, TypedSweep, advisable_for, typed_sweep
from tether.plan.typed_record import TypedRecord

if TYPE_CHECKING:
    from tether.evaluation.plan_risk import Risk
    from tether.evaluation.typed_certificate import TypedCertificate
    from tether.evaluation.typed_evaluation import TypedEvaluation
    from tether.explanation.typed_decisions import TypedDecisions
    from tether.explanation.typed_explanation import TypedExplanation
    from tether.explanation.typed_review import TypedReview
    from tether.explorer.notebook import Inline
    from tether.model.properties import Property


class TypedPlan(TypedPlanRecord, HistoryPlan):
    __doc__ = TypedPlanRecord.__doc__

    def certify(self, gamma: float = 1.0, practice: Any = None) -> TypedCertificate:
        """The worst and the best value over every causal model of each type: Σ_z ρ_z·(that of type z).

        ``gamma`` and ``practice`` are those of `Plan.certify`: hidden causes come anew at each step, within each type,
        and those who acted are taken not to have seen the type. Without ``practice`` it is that of the types
        (`tether.Types`), or the usual practice of the log from which they were learned; of other types every action
        counts as equally frequent. Where only other causal models than Gumbel-max lead, the plan takes the observed
        action; if that is not available, the worst (best) of all counts.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.hidden_diabetes()
        >>> found = tether.counterfactual(case.types, case.paths["unclear"]).plan(m=2).certify()
        >>> round(found.worst, 1), round(found.best, 1), found.verdict
        (-611.3, 930.0, 'holds')
        """
        from tether.evaluation.typed_certificate import typed_certificate

        return typed_certificate(self, gamma, practice)

    def evaluate(self) -> TypedEvaluation:
        """What the plan leads to, for each type and on average.

        Examples
        --------
        >>> import tether
        >>> mdp = tether.cases.grid_world().mdp
        >>> types = tether.Types({"one": mdp, "same": mdp}, prior={"one": 0.5, "same": 0.5})
        >>> outlook = tether.counterfactual(types, tether.cases.grid_world().path).plan(m=1).evaluate()
        >>> round(outlook.value, 3), len(outlook.distribution(3))
        (-10.242, 4)
        """
        from tether.evaluation.typed_evaluation import evaluate_typed_plan

        return evaluate_typed_plan(self)

    @property
    def risk(self) -> Risk:
        """How likely a replay is to end worse, or better, than what happened: the mean over the types.

        Where types earn different rewards, a replay is compared with what the episode earned as of its type.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.hidden_diabetes()
        >>> tether.counterfactual(case.types, case.paths["unclear"]).plan(m=1).risk
        <Risk: worse 0, better 1>
        """
        from tether.evaluation.typed_certificate import risk_of_typed

        return risk_of_typed(self)

    def _picture(self) -> str:
        from tether.views.report.drawings import draw_types

        picture = draw_types(self.cf.posterior_over_time, f"types{id(self)}")
        return shown_here(picture.caption, picture.svg)

    def explain(self, *, certificate: bool = True) -> TypedExplanation:
        """The plan beside what happened, step by step and in sentences.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.hidden_diabetes()
        >>> cf = tether.counterfactual(case.types, case.paths["unclear"])
        >>> print(cf.plan(m=1).explain().verdicts(str).about.sentences[0])
        By what happened, the type is not diabetic with a chance of 57 %; before it was 80 %.
        """
        from tether.explanation.typed_explanation import explain_typed

        return explain_typed(self, certificate)


@dataclass(frozen=True, eq=False, repr=False)
class TypedCounterfactual(TypedRecord, Displayed):
    __doc__ = TypedRecord.__doc__

    def _repr_html_(self) -> str:
        said = [(f"type {name}", f"{percent(share)} after the episode") for name, share in self.posterior.items()]
        return facts([("path", self.path), *said])

    @cached_property
    def by_type(self) -> dict[str, CounterfactualMDP]:
        """The counterfactual MDP of each type that the episode leaves possible."""
        return {name: CounterfactualMDP.over(found) for name, found in super().by_type.items()}

    def plan(
        self,
        k: int | None = None,
        m: int = 1,
        *,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        objective: Property | None = None,
        minimise: bool = False,
        above: float = 0.0,
        only: Any = None,
        never: Any = None,
    ) -> TypedPlan:
        """The best plan for somebody who sees states, not the type, and may learn the type on the way.

        A pair is allowed if it is allowed within ``k`` for every type that is likelier than ``above`` after the
        episode; by default there is no tether. With one or two types, and with m = 1, the plan is the best; otherwise
        ``plan.exact`` says so. The other arguments, ``only`` and ``never`` too, are those of `CounterfactualMDP.plan`;
        the rule `assured` counts the steps of one type, and is refused. Of types learned with ``minimum=``, actions
        that the log of such a type has too rarely are not advised.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.hidden_diabetes()
        >>> cf = tether.counterfactual(case.types, case.paths["unclear"])
        >>> plan = cf.plan(m=1)
        >>> plan.action(case.paths["unclear"].states[:1]), plan.exact
        ('ventilation + vasopressors', True)
        """
        return TypedPlan.of(self, k, m, rule, influence, objective, minimise, above, advisable_for(self, only, never))

    def sweep(
        self,
        ks: Iterable[int] | None = None,
        ms: Iterable[int] | None = None,
        *,
        rule: Rule = "definition",
        influence: str | Influence = "support",
        objective: Property | None = None,
        minimise: bool = False,
        above: float = 0.0,
        only: Any = None,
        never: Any = None,
    ) -> TypedSweep:
        r"""The value of `plan` for every k = 1 … T + 1 and m = 0 … T, or for the given ones.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> types = tether.Types({"any": case.mdp}, prior={"any": 1.0})
        >>> print(tether.counterfactual(types, case.path).sweep(ks=[3, 8], ms=[1, 2]))
         k \ m        1        2
             3   -37.11   -37.11
             8       -1       -1
        """
        about: Any = {"rule": rule, "influence": influence, "objective": objective}
        about |= {"minimise": minimise, "above": above, "advisable": advisable_for(self, only, never)}
        return typed_sweep(self, ks, ms, about)

    def evaluate(
        self, policy: Any, *, influence: str | Influence = "support", objective: Property | None = None
    ) -> TypedEvaluation:
        """Exactly what to expect under a policy that does not see the type, for each type and on average.

        ``"optimal"`` stands for the best policy of each type: what somebody who knows the type would do. A plan of
        these types is evaluated by `TypedPlan.evaluate`.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> types = tether.Types({"any": case.mdp}, prior={"any": 1.0})
        >>> tether.counterfactual(types, case.path).evaluate("observed").value
        -38.0
        """
        from tether.evaluation.typed_evaluation import evaluate_typed

        return evaluate_typed(self, policy, influence, objective)

    def decisions(self, objective: Property | None = None, *, minimise: bool = False) -> TypedDecisions:
        """Which decisions mattered: for every step and action, what would have followed had only it been different.

        The numbers average over what the episode says of the type. The best of them is the plan for m = 1.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> types = tether.Types({"any": case.mdp}, prior={"any": 1.0})
        >>> [(row.action, row.value) for row in tether.counterfactual(types, case.path).decisions().at(0)[:2]]
        [('NIL', -38.0), ('V_I', -1.0)]
        """
        from tether.explanation.typed_decisions import typed_decisions

        return typed_decisions(self, objective, minimise)

    def review(self, *, objective: Property | None = None, minimise: bool = False) -> TypedReview:
        """Mistake or luck, judged by the best for somebody who does not see the type and learns it on the way.

        What could be known at a step is the states so far, and what they say of the type. No causal model is needed.
        With more than two types it is an error if there are too many ways to act to be sure which is the best.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> types = tether.Types({"any": case.mdp}, prior={"any": 1.0})
        >>> tether.counterfactual(types, case.path).review()
        <Review: expected -1, mistakes 35.86, luck -1.141, observed -38>
        """
        from tether.explanation.typed_review import review_typed

        return review_typed(self, objective, minimise)

    def explore(self, type: str | None = None, height: int = 800) -> Inline:
        """A page on which other limits can be tried: the best plan for somebody who does not see the type.

        It links to the explorer of each type: what would be known if the type were. With ``type`` it is that explorer
        alone.

        Examples
        --------
        >>> import tether
        >>> toy = tether.cases.toy()
        >>> types = tether.Types({"any": toy.mdp}, prior={"any": 1.0})
        >>> page = tether.counterfactual(types, toy.path).explore()
        >>> page.address[:17]
        'http://127.0.0.1:'
        >>> page.stop()
        """
        from tether.errors import Problem, QueryError
        from tether.explorer.notebook import explore, explore_types

        if type is None:
            return explore_types(self, height)
        if type not in self.by_type:
            listed = ", ".join(map(repr, self.by_type))
            raise QueryError(Problem(f"the episode leaves the types {listed} possible, not {type!r}", value=type))
        return explore(self.by_type[type], height)
