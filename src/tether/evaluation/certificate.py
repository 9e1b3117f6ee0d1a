"""Certificates: does a plan's gain hold under every causal model, only under stable ones, or only under Gumbel-max?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tether._html import grid
from tether._words import number
from tether.counterfactual.sets import Assumption, model_set
from tether.evaluation.ranges import breakdown, range_of
from tether.plan.plan import Plan

__all__ = ["Certificate", "Certified", "certify"]

Verdict = Literal["holds", "holds if stable", "never worse", "never worse if stable", "could do harm"]

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
    """What one assumption guarantees of a plan.

    Attributes
    ----------
    assume : str
    worst, best : float
        The range of its expected return over the set.
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
    """What holds of a plan whatever the causal model is; made by `Plan.certify`.

    Attributes
    ----------
    value : float
        Its expected return under Gumbel-max.
    observed_value : float
    nothing, stability : Certified
        What is guaranteed under every causal model, and under every one that is counterfactually stable.
    verdict : str
        "holds", "holds if stable", "never worse", "never worse if stable" or "could do harm".

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

    @property
    def gain(self) -> float:
        """The gain that is guaranteed under every causal model; below 0 where the plan could do harm."""
        return self.nothing.gain

    @property
    def sentence(self) -> str:
        """The verdict, with the numbers."""
        every, stable = self.nothing, self.stability
        numbers = f"Its return is from {number(every.worst)} to {number(every.best)} over all causal models"
        if (every.worst, every.best) != (stable.worst, stable.best):
            numbers += f", from {number(stable.worst)} to {number(stable.best)} over the stable ones"
        numbers += f"; {number(self.value)} under Gumbel-max, {number(self.observed_value)} observed."
        if every.breakdown < 1:
            share = f"{every.breakdown:.0%}"
            numbers += f" At {share} of the way from Gumbel-max to the worst model nothing is gained any more."
        return f"{_SENTENCES[self.verdict]} {numbers}"

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
        return grid(head, rows)


def certify(plan: Plan) -> Certificate:
    """What holds of a plan whatever the causal model is; see `Plan.certify`."""
    observed = plan.observed_value
    certified = {}
    for assume in ("nothing", "stability"):
        models = model_set(plan.cf, assume)
        worst, best = range_of(models, plan)
        point = breakdown(models, plan, observed)
        certified[assume] = Certified(models.assume, worst, best, worst - observed, point)
    value = plan.evaluate().value
    return Certificate(value, observed, certified["nothing"], certified["stability"], _verdict(certified, observed))


def _verdict(certified: dict[str, Certified], observed: float) -> Verdict:
    rounding = 1e-9 * max(1.0, abs(observed))
    every, stable = certified["nothing"].gain, certified["stability"].gain
    if every > rounding:
        return "holds"
    if stable > rounding:
        return "holds if stable"
    if every >= -rounding:
        return "never worse"
    return "never worse if stable" if stable >= -rounding else "could do harm"
