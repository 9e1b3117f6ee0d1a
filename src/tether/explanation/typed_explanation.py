"""A plan for an individual whose type was never recorded, beside what happened: step by step and in sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tether._foundation.words import number, percent
from tether.evaluation.plan_risk import Risk
from tether.evaluation.typed_certificate import TypedCertificate, risk_of_typed, typed_certificate
from tether.explanation.history_explanation import HistoryExplanation, HistoryStep
from tether.explanation.typed_review import TypedReview, review_where_known
from tether.plan.typed_plan import TypedPlanRecord

if TYPE_CHECKING:
    import pyarrow

    from tether.model.model_record import ModelRecord


@dataclass(frozen=True, slots=True)
class TypedStep(HistoryStep):
    """One step of an episode beside a plan.

    Attributes
    ----------
    t, state, action, planned_state, planned, chance, changed
        As of `tether.records.HistoryStep`.
    luck, of_type : float
        How much the episode changes what is to be expected of ``planned`` (`TypedCounterfactual.strength`).
    types : mapping of name to float
        What the episode up to this step says of the type.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> types = tether.Types({"any": case.mdp}, prior={"any": 1.0})
    >>> step = tether.counterfactual(types, case.path).plan(k=8, m=1).explain().steps[0]
    >>> step.action, step.planned, step.changed
    ('NIL', 'V_I', 1.0)
    """

    luck: float
    of_type: float
    types: Mapping[str, float]


@dataclass(frozen=True, eq=False, repr=False)
class TypedExplanation(HistoryExplanation):
    """What should have been done for somebody whose type was never recorded; made by `TypedPlan.explain`.

    Attributes
    ----------
    plan : TypedPlan
    certificate : TypedCertificate or None
        What holds under other causal models; None if it was not asked for.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> types = tether.Types({"any": case.mdp}, prior={"any": 1.0})
    >>> found = tether.counterfactual(types, case.path).plan(k=8, m=1).explain()
    >>> found.changes[0].t, found.changes[0].planned
    (0, 'V_I')
    >>> print(found.sentences(str)[2])
    With at most 1 change: V_I instead of NIL at step 0. It could be known at the time that it was better.
    """

    plan: TypedPlanRecord
    certificate: TypedCertificate | None

    @cached_property
    def steps(self) -> tuple[TypedStep, ...]:
        """The steps, one after the other."""
        plan, cf, found = self.plan, self.plan.cf, []
        mdp = plan.vectors.models[0]
        for t in range(cf.T):
            nodes = [(float(mass @ cf.shares), node) for node, mass in plan.occupancy[t].items()]
            total = sum(chance for chance, _ in nodes)
            differs = plan.vectors.differs(t)
            changed = sum(
                chance * bool(differs[mdp.find_pair(node.state, plan.vectors.choice(t, *node).action)])
                for chance, node in nodes
            )
            chance, node = max(nodes, key=lambda one: (one[0], -one[1].state))
            state, action = mdp.states[node.state], mdp.actions[plan.vectors.choice(t, *node).action]
            luck, of_type = (cf.strength(t, state, action, which) for which in ("luck", "type"))
            types = {name: float(shares[t]) for name, shares in cf.posterior_over_time.items()}
            numbers = chance / total, changed / total, luck, of_type
            found.append(TypedStep(t, cf.path.states[t], cf.path.actions[t], state, action, *numbers, types))
        return tuple(found)

    @cached_property
    def review(self) -> TypedReview | None:
        """What could be known at the time; None if those who acted saw the type, or with too many ways to act."""
        return review_where_known(self.plan.cf, self.plan.objective, self.plan.minimise)

    @cached_property
    def risk(self) -> Risk:
        """How likely a replay is to end worse, or better, than what happened."""
        return risk_of_typed(self.plan)

    @property
    def _limit_in_words(self) -> str:
        return "" if self.plan.advisable is None else f" ({self.plan.advisable})"

    @property
    def _unreviewed(self) -> str:
        if self.plan.cf.types.own_practice is not None:
            return "Those who acted saw the type."
        return "There are too many ways to act to be sure which is the best."

    @property
    def _values_by_type(self) -> Mapping[str, float]:
        return self.plan.values

    @property
    def _known_then(self) -> str:
        step = self.changes[0]
        return "" if self.review is None else self.review.known_then(step.t, step.planned)

    @property
    def moved(self) -> float:
        """The part of the probability that the episode moves at the first change; 1 if there is none."""
        if not self.changes:
            return 1.0
        step = self.changes[0]
        return self.plan.cf.strength(step.t, step.planned_state, step.planned)

    def _about(self, name: Callable[[Any], str]) -> Iterator[str]:
        """What the episode says of the type, and how much it moves."""
        cf = self.plan.cf
        likely, after = max(cf.posterior.items(), key=lambda one: one[1])
        before = cf.types.prior(cf.path.states[0])[likely]
        chance = f"with a chance of {percent(after)}; before it was {percent(before)}"
        yield f"By what happened, the type is {likely} {chance}."
        if self.changes:
            step = self.changes[0]
            yield (
                f"At step {step.t}, the luck of this episode moves {percent(step.luck)} of what is to be expected of "
                f"{name(step.planned)}; what it says of the type moves {percent(step.of_type)}."
            )

    def _sure(self) -> Iterator[str]:
        """For which chances of the types the advice stays the same; other causal models."""
        yield self._interval()
        yield self._bracket()
        if self.certificate is not None:
            yield str(self.certificate)
        yield from self.plan.cf.types.rests_on()

    def _warnings(self) -> Sequence[str]:
        return self.plan.cf.types.rests_on()

    def _certified(self) -> str | None:
        if self.certificate is None:
            return None
        verdict = self.certificate.verdict
        return "could do harm" if verdict in ("open", "fails") else verdict

    def _interval(self) -> str:
        """For which chances before the episode the advice stays the same."""
        found = self.plan.prior_intervals
        if not found:
            return ""
        first = next(iter(found))
        limited = {name: ends for name, ends in found.items() if ends[0] > 0.0 or ends[1] < 1.0}
        if not limited:
            return "The advice is the same, however frequent each type is."
        if len(found) == 2:
            limited = {first: found[first]}
        parts = [f"{name} is from {percent(low)} to {percent(high)} likely" for name, (low, high) in limited.items()]
        others = "" if len(found) == 2 else " (each alone; the others keep their proportions)"
        return f"The advice is the same if, before the episode, {', or '.join(parts)}{others}."

    def _bracket(self) -> str:
        if self.plan.exact:
            return ""
        return (
            "This may not be the best plan: there are too many ways to act to compare all. The best is between "
            f"{number(self.plan.value)} and {number(self.plan.best_possible)}."
        )

    @property
    def _models(self) -> Sequence[ModelRecord]:
        return self.plan.vectors.models

    def to_arrow(self) -> pyarrow.Table:
        """One row per step, with the fields of a step, and how likely each type is."""
        table = super().to_arrow()
        for name in self.plan.cf.types.models:
            table = table.append_column(f"P({name})", [[step.types[name] for step in self.steps]])
        return table


def explain_typed(plan: TypedPlanRecord, certificate: bool = True) -> TypedExplanation:
    """A plan beside what happened."""
    found = typed_certificate(plan) if certificate else None
    return TypedExplanation(plan, found)


_REVIEWED = ("expected", "mistakes", "claimed", "luck", "observed", "steps")


def typed_data(explanation: TypedExplanation) -> dict[str, Any]:
    """The answer as plain data, for JSON."""
    plan, cf, review = explanation.plan, explanation.plan.cf, explanation.review
    return {
        "sentences": explanation.sentences(str),
        "review": None if review is None else {name: getattr(review, name) for name in _REVIEWED},
        "risk": explanation.risk,
        "k": plan.k,
        "m": plan.m,
        "value": plan.value,
        "observed_value": plan.observed_value,
        "gain": plan.gain,
        "advisable": None if plan.advisable is None else str(plan.advisable),
        "exact": plan.exact,
        "best_possible": plan.best_possible,
        "values": plan.values,
        "prior": cf.types.prior(cf.path.states[0]),
        "posterior": cf.posterior,
        "prior_intervals": {name: list(ends) for name, ends in plan.prior_intervals.items()},
        "verdict": None if explanation.certificate is None else explanation.certificate.verdict,
        "certificate": explanation.certificate,
        "steps": explanation.steps,
    }
