"""Certificates: does a gain hold under every causal model, only under stable ones, or only under Gumbel-max?

Here and everywhere, "every causal model" means every one that agrees with the MDP and with the observed episode. The
MDP itself is taken as right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from tether._foundation.markup import html_table
from tether._foundation.rounding import gain_of, rounding_of
from tether._foundation.words import counted, number, percent
from tether.conditioning.sampled import SampledGumbelMax
from tether.conditioning.sets import Assumption, has_copies, model_set
from tether.errors import QueryError
from tether.evaluation.ranges import Range, ranges_with_breakdown
from tether.model.properties import Property, make_property
from tether.plan.backward import observed_value
from tether.plan.objective import asked
from tether.plan.plan import Plan

if TYPE_CHECKING:
    from tether.conditioning.conditioned import CounterfactualMDP

__all__ = [
    "EVERY_MODEL",
    "MOST_NODES",
    "VERDICTS",
    "Certificate",
    "Certified",
    "certify",
    "verdict_number",
    "why_uncertified",
]

Verdict = Literal["holds", "holds if stable", "never worse", "never worse if stable", "could do harm"]

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

MOST_NODES = 20_000
"""How many states over time a plan can reach for its certificate to take about half a second. Other causal models can
lead to many more."""

EVERY_MODEL = "every causal model that agrees with the model and the episode"

_SENTENCES: dict[Verdict, str] = {
    "holds": "The gain holds under every causal model.",
    "holds if stable": "The gain holds under every causal model that is counterfactually stable, not under every one.",
    "never worse": "Never worse than what was done, under every causal model; but no gain is guaranteed: it rests on "
    "Gumbel-max.",
    "never worse if stable": "Never worse than what was done under any counterfactually stable causal model, but no "
    "gain is guaranteed; under other causal models it could do harm.",
    "could do harm": "It rests on the causal model: under others it could do harm.",
}


@dataclass(frozen=True, slots=True)
class Certified:
    """What is guaranteed for a plan or policy under one assumption.

    Attributes
    ----------
    assume : str
    worst, best : float
        The range of its expected return over the causal models that meet the assumption.
    gain : float
        The guaranteed gain: the worst case less the observed return.
    breakdown : float
        How far from Gumbel-max, towards the worst model of the set, the truth may be before nothing is gained: 0 to 1.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> one = tether.counterfactual(case.mdp, case.path).plan(k=6, m=4).certify().nothing
    >>> one.assume, round(one.gain, 2), one.breakdown
    ('nothing', 11.21, 1.0)
    """

    assume: Assumption
    worst: float
    best: float
    gain: float
    breakdown: float


@dataclass(frozen=True, slots=True, repr=False)
class Certificate:
    """What holds for a plan or policy under every causal model; made by `tether.certify` and `Plan.certify`.

    "Every causal model" means every one that agrees with the MDP and with the observed episode. The MDP itself is taken
    as right.

    Attributes
    ----------
    value : float
        Its expected return under Gumbel-max.
    observed_value : float
    nothing, stability : Certified
        What is guaranteed under every causal model, and under every one that is counterfactually stable.
    verdict : str
        "holds", "holds if stable", "never worse", "never worse if stable" or "could do harm"; "never worse" also if
        nothing can change at all.
    objective, minimise
        What the plan was made for.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> tether.counterfactual(case.mdp, case.path).plan(k=6, m=4).certify()
    <Certificate: holds: from -26.79 to -17.01, observed -38, breakdown 1>
    """

    value: float
    observed_value: float
    nothing: Certified
    stability: Certified
    verdict: Verdict
    objective: Property | None = None
    minimise: bool = False

    @property
    def gain(self) -> float:
        """The gain that is guaranteed under every causal model; below 0 if the plan could do harm."""
        return self.nothing.gain

    @property
    def is_certain(self) -> bool:
        """Whether every causal model gives the observed return, as it does if nothing changes."""
        off = max(abs(self.nothing.best - self.observed_value), abs(self.gain))
        return off <= rounding_of(self.observed_value)

    @property
    def _value_is(self) -> str:
        return "return" if self.objective is None else f"chance that {self.objective.in_words}"

    @property
    def sentence(self) -> str:
        """The verdict, with the numbers.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> cf = tether.counterfactual(case.mdp, case.path)
        >>> print(cf.plan(k=3, m=1).certify().sentence)  # doctest: +NORMALIZE_WHITESPACE
        The gain holds under every causal model.
        The return is from -37.12 to -37.01 over all that agree with the model and the episode; observed -38.
        """
        if self.is_certain:
            if self.objective is not None:
                return f"Under {EVERY_MODEL}, the {self._value_is} stays {number(self.observed_value)}."
            return f"{EVERY_MODEL[0].upper()}{EVERY_MODEL[1:]} gives the observed return."
        every, stable = self.nothing, self.stability
        text = f"The {self._value_is} is {_span(every)} over all that agree with the model and the episode"
        if _span(every) != _span(stable):
            text += f", {_span(stable)} over the stable ones"
        text += f"; observed {number(self.observed_value)}."
        return " ".join([self._verdict(), text, *self._breakdown()])

    def _verdict(self) -> str:
        """The verdict in a sentence; a different one if Gumbel-max itself expects a loss."""
        rounding = rounding_of(self.observed_value)
        sign = -1.0 if self.minimise else 1.0
        if sign * (self.nothing.best - self.observed_value) < -rounding:
            return "Worse than what was done, under every causal model."
        if sign * (self.value - self.observed_value) < -rounding:
            return "Gumbel-max expects it to be worse than what was done; another causal model can make it better."
        return _SENTENCES[self.verdict]

    def _breakdown(self) -> list[str]:
        """How far from Gumbel-max the truth may be before nothing is gained; empty if something is always gained."""
        point = self.nothing.breakdown
        if point in (0.0, 1.0) or point > 0.995:
            return []
        return [f"Nothing is gained any more at {percent(point)} of the way from Gumbel-max to the worst of them."]

    def __str__(self) -> str:
        return self.sentence

    def __repr__(self) -> str:
        return (
            f"<Certificate: {self.verdict}: from {self.nothing.worst:.4g} to {self.nothing.best:.4g}, "
            f"observed {self.observed_value:.4g}, breakdown {self.nothing.breakdown:.3g}>"
        )

    def _repr_html_(self) -> str:
        head = ("assuming", "worst", "Gumbel-max", "best", "guaranteed gain", "breakdown")
        rows = [
            (one.assume, *(f"{x:.6g}" for x in (one.worst, self.value, one.best, one.gain)), f"{one.breakdown:.3g}")
            for one in (self.nothing, self.stability)
        ]
        return html_table(head, rows)


def certify(
    cf: CounterfactualMDP, policy: Any, *, objective: Property | None = None, minimise: bool = False
) -> Certificate:
    """What holds for a plan or policy under every causal model of an episode.

    Parameters
    ----------
    cf : CounterfactualMDP
        The model and the observed episode. Every causal model that agrees with both counts, whatever its mechanism is.
    policy : Plan or policy
        A plan for the same episode, or a policy as `CounterfactualMDP.evaluate` takes it. A policy must have an action
        in every state that some causal model can lead to.
    objective, minimise
        How the policy is judged: by the probability of a property instead of the return, and whether less is better.
        A plan is judged by its own objective.

    Returns
    -------
    Certificate
        Its range under every causal model, and under every one that is counterfactually stable; the guaranteed gain,
        the breakdown point, and a verdict.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> cf = tether.counterfactual(case.mdp, case.path)
    >>> tether.certify(cf, "random").verdict
    'holds'
    >>> print(tether.certify(cf, "observed"))
    Every causal model that agrees with the model and the episode gives the observed return.
    >>> tether.certify(cf, "random", objective=tether.reach("over")).verdict
    'holds'
    """
    if isinstance(policy, Plan):
        if objective is not None or minimise:
            raise QueryError("a plan is judged by its own objective: leave out objective= and minimise=")
        objective, minimise = policy.objective, policy.minimise
    objective = make_property(objective)
    observed, sets = observed_value(asked(cf, objective)), (model_set(cf, "nothing"), model_set(cf, "stability"))
    every, stable = ranges_with_breakdown(sets, policy, observed, objective, minimise)
    certified = _certified("nothing", every, observed, minimise), _certified("stability", stable, observed, minimise)
    verdict = VERDICTS[int(verdict_number(*(one.gain for one in certified)))]
    return Certificate(every.value, observed, *certified, verdict, objective, minimise)


def _certified(assume: Assumption, one: Range, observed: float, minimise: bool) -> Certified:
    return Certified(assume, one.worst, one.best, gain_of(one.worst, observed, minimise), one.breakdown)


def why_uncertified(plan: Plan) -> str:
    """Why the certificate of a plan is left out of explanations, in a sentence; empty if it is not left out.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> sampled = tether.counterfactual(case.mdp, case.path, mechanism=tether.SampledGumbelMax(100, rng=1))
    >>> print(why_uncertified(sampled.plan(k=3, m=1)))
    Other causal models were not considered: the rows of this one are sampled. `tether certify` considers them.
    """
    if has_copies(plan.cf):
        return "Other causal models were not considered: the plan depends on whether its property was already decided."
    if isinstance(plan.cf.mechanism, SampledGumbelMax):
        reason = "the rows of this one are sampled"
    else:
        nodes = sum(visits.size for visits in plan.chain.visits)
        if nodes <= MOST_NODES:
            return ""
        reason = f"the plan can reach {counted(nodes, 'state')} over time"
    return f"Other causal models were not considered: {reason}. `tether certify` considers them."


def _span(one: Certified) -> str:
    worst, best = number(one.worst), number(one.best)
    return worst if worst == best else f"from {worst} to {best}"


def verdict_number(every: Any, stable: Any) -> Any:
    """The verdict from the guaranteed gains under every causal model and under every stable one; for one plan or many.

    >>> VERDICTS[verdict_number(0.0, 2.5)]
    'holds if stable'
    """
    return np.select((every > 0.0, stable > 0.0, every == 0.0, stable == 0.0), range(4), 4)
