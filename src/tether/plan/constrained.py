"""The best plan whose probability of a property stays within a limit.

It is the most valuable supported point of value against the property (`tether.plan.pareto`) within the limit. Only the
two neighbours around the limit are searched for: between a plan beyond it and a plan within it, solve at the price at
which both are worth the same, and continue with the half that contains the limit.

A plan decides by time and state, not by a draw. If one of two plans is drawn before the episode, the limit can be met
exactly, and this mixture is worth more than the plan within the limit. It is given beside the plan.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tether._foundation.markup import facts
from tether._foundation.words import number, percent
from tether.errors import Problem, QueryError
from tether.model.properties import Property

if TYPE_CHECKING:
    from tether.plan.pareto import Point
    from tether.plan.plan_record import PlanRecord
    from tether.plan.tether_record import TetherRecord

_CLOSE = 1e-12
"""Probabilities that differ by less are the same."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Mixture:
    """Two plans, one of which is drawn before the episode: together they meet a limit exactly.

    Attributes
    ----------
    plans : (Plan, Plan)
        The one beyond the limit and the one within it.
    weights : (float, float)
        With what probability each is followed.
    value, probability : float
        The value of the mixture, and its probability of the property, which is the limit.

    Examples
    --------
    >>> import tether
    >>> patient = tether.cases.sepsis()
    >>> cf = tether.counterfactual(patient.mdp, patient.path)
    >>> cf.plan(k=9, m=3, subject_to=(tether.reach("died"), 0.78)).constraint.mixture
    <Mixture: 0.698 and 0.302, value -3722, probability 0.78>
    """

    plans: tuple[PlanRecord, PlanRecord]
    weights: tuple[float, float]
    value: float
    probability: float

    def __repr__(self) -> str:
        first, second = self.weights
        return f"<Mixture: {first:.3g} and {second:.3g}, value {self.value:.4g}, probability {self.probability:.4g}>"

    def _repr_html_(self) -> str:
        first, second = self.weights
        text = f"{first:.3g} and {second:.3g}"
        return facts([("weights", text), ("value", f"{self.value:.6g}"), ("probability", f"{self.probability:.6g}")])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Constraint:
    """The limit that a plan keeps to.

    Attributes
    ----------
    objective : Property
        What is limited.
    limit : float
        How large its probability may be.
    probability : float
        How large it is under the plan.
    mixture : Mixture or None
        Two plans that meet the limit exactly and are worth more, if one of them is drawn; None if the plan is as good.

    Examples
    --------
    >>> import tether
    >>> patient = tether.cases.sepsis()
    >>> cf = tether.counterfactual(patient.mdp, patient.path)
    >>> cf.plan(k=9, m=3, subject_to=(tether.reach("died"), 0.78)).constraint
    <Constraint: reach died at most 0.78, with the plan 0.7796>
    """

    objective: Property
    limit: float
    probability: float
    mixture: Mixture | None

    def sentences(self) -> list[str]:
        """The limit, how the plan keeps to it, and what a mixture of two plans would add."""
        sentences = [
            f"Asked for: a chance of at most {percent(self.limit)} ({number(self.limit)}) that "
            f"{self.objective.in_words}. With this plan it is {percent(self.probability)} ({number(self.probability)})."
        ]
        if self.mixture is not None:
            beyond, within = self.mixture.plans
            weight = self.mixture.weights[0]
            sentences.append(
                "Only a mixture of two plans would meet the limit exactly: another plan, worth "
                f"{number(beyond.value)}, drawn with probability {number(weight)}, and otherwise this one, worth "
                f"{number(within.value)}. "
                f"Together they are worth {number(self.mixture.value)}."
            )
        return sentences

    def __repr__(self) -> str:
        return f"<Constraint: {self.objective} at most {self.limit:.4g}, with the plan {self.probability:.4g}>"

    def _repr_html_(self) -> str:
        rows = [("at most", f"{self.limit:.6g}"), (str(self.objective), f"{self.probability:.6g}")]
        return facts(rows if self.mixture is None else [*rows, ("mixture", repr(self.mixture))])


def constrained(question: TetherRecord, k: int, m: int, subject_to: Any, longest: int | None = None) -> PlanRecord:
    """The best plan within k and m that keeps the probability of a property within a limit.

    With ``longest``, where no plan within k does, within the shortest tether from k to ``longest`` that has one: what a
    tether allows, a longer one allows.
    """
    from tether.plan.pareto import against_property

    objective, limit = _checked(subject_to)

    def around(k: int) -> tuple[Any, Point, Point | None]:
        search = against_property(question, k, m, objective)
        return search, *search.around(-limit - _CLOSE)

    search, beyond, within = around(k)
    if within is None and longest is not None and k < longest:
        short, k = k, longest
        search, beyond, within = around(k)
        while within is not None and k - short > 1:
            middle = (short + k) // 2
            tried = around(middle)
            if tried[2] is None:
                short = middle
            else:
                k, (search, beyond, within) = middle, tried
    if within is None:
        raise QueryError(_out_of_reach(question.cf.T, k, m, objective, limit, search.shown(beyond.measure)))
    probability = search.shown(within.measure)
    mixture = None
    if beyond is not within and limit - probability > _CLOSE:
        mixture = _mixture(beyond, within, search.shown(beyond.measure), probability, limit)
    return replace(within.plan, constraint=Constraint(objective, limit, probability, mixture))


def _out_of_reach(T: int, k: int, m: int, objective: Property, limit: float, least: float) -> Problem:
    """That no plan keeps to a limit, and what could."""
    what = f"no plan within k = {k} and m = {m} keeps the chance that {objective.in_words} at or below {limit:g}: the "
    what += f"smallest that is possible is {least:.6g}"
    wider = [*(["a longer tether (k)"] if k <= T else []), *(["more changes (m)"] if m < T else [])]
    fix = f"allow a larger chance, or {' or '.join(wider)}" if wider else "allow a larger chance"
    return Problem(what, value=limit, fix=fix)


def _mixture(beyond: Point, within: Point, above: float, below: float, limit: float) -> Mixture:
    weight = (limit - below) / (above - below)
    value = weight * beyond.plan.value + (1.0 - weight) * within.plan.value
    return Mixture((beyond.plan, within.plan), (weight, 1.0 - weight), value, limit)


def _checked(subject_to: Any) -> tuple[Property, float]:
    if not (isinstance(subject_to, tuple) and len(subject_to) == 2 and isinstance(subject_to[0], Property)):
        raise QueryError(f"subject_to takes a property and a limit, (tether.reach('died'), 0.1), not {subject_to!r}")
    objective, limit = subject_to
    is_number = isinstance(limit, int | float) or getattr(limit, "ndim", None) == 0
    if isinstance(limit, bool) or not is_number or not 0.0 <= limit <= 1.0:
        message = f"subject_to: the limit is a probability, from 0 to 1, not {limit!r}"
        raise QueryError(Problem(message, value=limit))
    return objective, float(limit)
