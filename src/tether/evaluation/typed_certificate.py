"""What a plan for hidden types is worth, whatever the causal model of each type is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tether._foundation.markup import Displayed
from tether._foundation.rounding import rounding_of
from tether._foundation.words import number
from tether.conditioning.model_sets import UNRELATED_LUCK
from tether.errors import QueryError
from tether.plan.hidden_types import worst_and_best
from tether.plan.typed_plan import TypedPlanRecord, worlds

__all__ = ["TypedCertificate", "typed_certificate"]


@dataclass(frozen=True, slots=True)
class TypedCertificate(Displayed):
    """The worst and the best expected return of a plan over every causal model of each type.

    Attributes
    ----------
    worst, best : float
        Σ_z ρ_z·(that of type z), in which the luck of one step says nothing about the luck of another, given the type.
    value, observed_value : float
        Under Gumbel-max, and of what was done.
    by_type : mapping of name to (worst, best)

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> types = tether.Types({"any": case.mdp}, prior={"any": 1.0})
    >>> found = tether.counterfactual(types, case.path).plan(k=8, m=1).certify()
    >>> found.worst, found.best, found.verdict
    (-1.0, -1.0, 'holds')
    """

    worst: float
    best: float
    value: float
    observed_value: float
    by_type: dict[str, tuple[float, float]]
    minimise: bool = False

    @property
    def verdict(self) -> str:
        """``"holds"`` if even the worst is a gain, ``"fails"`` if not even the best is, otherwise ``"open"``."""
        margin, sign = rounding_of(self.observed_value), -1.0 if self.minimise else 1.0
        if sign * (self.worst - self.observed_value) > margin:
            return "holds"
        return "open" if sign * (self.best - self.observed_value) > margin else "fails"

    def __str__(self) -> str:
        low, high = sorted((self.worst, self.best))
        span = number(low) if number(low) == number(high) else f"from {number(low)} to {number(high)}"
        what = {
            "holds": "It is expected to do better than what happened",
            "open": "Whether it is expected to do better than what happened depends on the causal model",
            "fails": "It is not expected to do better than what happened",
        }[self.verdict]
        over = f"every causal model of each type {UNRELATED_LUCK}"
        return f"{what}: over {over}, the expected return is {span}; observed {number(self.observed_value)}."


def typed_certificate(plan: TypedPlanRecord) -> TypedCertificate:
    """The certificate of a plan for a return."""
    if plan.objective is not None:
        raise QueryError("plans for a property have no certificate: ask for a return")
    found = worlds(plan.cf, None, plan.minimise)
    ends = [worst_and_best(plan.vectors, one, plan.root, plan.m) for one in found]
    worst, best = (plan.sign * float(np.dot(plan.cf.shares, side)) for side in zip(*ends, strict=True))
    of_type = {
        name: (plan.sign * low, plan.sign * high) for name, (low, high) in zip(plan.cf.possible, ends, strict=True)
    }
    return TypedCertificate(worst, best, plan.value, plan.observed_value, of_type, plan.minimise)
