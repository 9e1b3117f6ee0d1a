"""How a return is distributed: every value with its probability; quantiles, chances, and the mean of the worst.

Exact: a forward pass over (node, return so far), as `tether.core.risk` does it. Returns that differ by a thousandth of
a rounding are one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tether._foundation.arrays import Floats, read_only
from tether._foundation.arrow import Tabular
from tether._foundation.checks import finite_number
from tether._foundation.markup import html_table
from tether._foundation.rounding import rounding_of
from tether._foundation.words import counted
from tether.errors import Problem, QueryError

if TYPE_CHECKING:
    import pyarrow

    from tether.evaluation.evaluate import Evaluation

_MOST, _MOST_IN_SENTENCES = 500_000, 20_000
"""How many (node, return) there may be at one time; and where only a sentence needs them."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReturnDistribution(Tabular):
    """The values that a return can have, ascending, and their probabilities.

    Attributes
    ----------
    values, probabilities : array

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> found = tether.counterfactual(case.mdp, case.path).plan(k=7, m=4).evaluate().return_distribution()
    >>> found
    <ReturnDistribution: 8 values, -15 … -4, mean -11.28>
    >>> found.quantile(0.05), found.chance(at_most=-15), round(found.cvar(0.1), 3)
    (-15.0, 0.2222222222222222, -15.0)
    """

    values: Floats
    probabilities: Floats

    @classmethod
    def of(cls, values: Floats, mass: Floats) -> Self:
        """The distribution of some values, each with its probability; equal ones are taken together."""
        order = np.argsort(values, kind="stable")
        values, mass = values[order], mass[order]
        close = 1e-3 * rounding_of(float(np.abs(values).max()))
        first = np.flatnonzero(np.diff(values, prepend=-np.inf) > close)
        return cls(read_only(values[first]), read_only(np.add.reduceat(mass, first)))

    @property
    def mean(self) -> float:
        """The expected return."""
        return float(self.values @ self.probabilities)

    @property
    def std(self) -> float:
        """The standard deviation."""
        return float(np.sqrt(self.probabilities @ (self.values - self.mean) ** 2))

    def chance(self, *, at_most: float | None = None, at_least: float | None = None) -> float:
        """The probability of a return that is at most, or at least, a number; or of both."""
        if at_most is None and at_least is None:
            raise QueryError("a chance needs at_most= or at_least=, or both")
        within = np.ones(self.values.size, bool)
        for limit, sign in ((at_most, 1.0), (at_least, -1.0)):
            if limit is not None:
                number = finite_number("at_most" if sign > 0 else "at_least", limit)
                within &= sign * (self.values - number) <= rounding_of(number)
        return float(self.probabilities[within].sum())

    def quantile(self, share: float) -> float:
        """The smallest value such that at least ``share`` of the returns are at most that; 0.5 is the median."""
        share = _share(share, 0.0)
        total = np.cumsum(self.probabilities)
        return float(self.values[min(int(np.searchsorted(total, share - 1e-12)), self.values.size - 1)])

    def cvar(self, share: float, *, largest: bool = False) -> float:
        """The mean of the lowest ``share`` of the returns: the conditional value at risk, CVaR.

        ``largest``: of the largest ones, which are the worst where less is better.
        """
        share = _share(share, np.nextafter(0.0, 1.0))
        order = slice(None, None, -1 if largest else 1)
        before = np.concatenate(([0.0], np.cumsum(self.probabilities[order])))[:-1]
        used = np.clip(share - before, 0.0, self.probabilities[order])
        return float(self.values[order] @ used / used.sum())

    def to_arrow(self) -> pyarrow.Table:
        """One row per value: value, probability, and the probability of at most that."""
        import pyarrow as pa

        total = np.minimum(np.cumsum(self.probabilities), 1.0)
        return pa.table({"value": self.values, "probability": self.probabilities, "at_most": total})

    def __repr__(self) -> str:
        low, high = self.values[0], self.values[-1]
        return (
            f"<ReturnDistribution: {counted(self.values.size, 'value')}, {low:.4g} … {high:.4g}, mean {self.mean:.4g}>"
        )

    def _repr_html_(self) -> str:
        shares = [(f"{share:.0%}", f"{self.quantile(share):.6g}") for share in (0.05, 0.25, 0.5, 0.75, 0.95)]
        return html_table(("at most, in", "return"), [("mean", f"{self.mean:.6g}"), *shares])


def _share(share: Any, least: float) -> float:
    number = finite_number("share", share)
    if not least <= number <= 1.0:
        raise QueryError(Problem(f"a share is a number from 0 to 1, not {share!r}", value=share))
    return number


def distribution_of(outlook: Evaluation, most: int = _MOST) -> ReturnDistribution:
    """How the return of an evaluated policy is distributed; an error if there are more than ``most`` different ones."""
    from tether.core.risk import merged, onward

    chain, discount = outlook.whole, outlook.mdp.discount
    at = np.arange(chain.visits[0].size)
    earned, mass = np.zeros(at.size), np.full(at.size, 1.0 / at.size)
    for t, link in enumerate(chain.links):
        at, earned, mass = onward(link, at, earned, mass, discount**t)
        at, earned, mass = merged(at, earned, mass, rounding_of(earned))
        if at.size > most:
            message = f"there are more than {most:,} different returns at t = {t + 1}; they are not listed one by one"
            fix = "draw some: cf.sample(policy, n).return_distribution()"
            raise QueryError(Problem(message, time=t + 1, place=f"t = {t + 1}", fix=fix))
    final = 0.0 if outlook.last is None else outlook.last[chain.visits[-1].states[at]]
    return ReturnDistribution.of(earned + discount**chain.T * final, mass)


def middle_half(outlook: Evaluation) -> tuple[float, float] | None:
    """Between which returns half of the replays are; None if it takes long to know.

    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> middle_half(tether.counterfactual(case.mdp, case.path).plan(k=7, m=4).evaluate())
    (-14.0, -8.0)
    """
    if outlook.std <= rounding_of(outlook.mean):
        return outlook.mean, outlook.mean
    if outlook.at_its_mean:
        return None
    try:
        found = distribution_of(outlook, _MOST_IN_SENTENCES)
    except QueryError:
        return None
    return found.quantile(0.25), found.quantile(0.75)


def of_half(low: str, high: str) -> str:
    """What half of the replays earn, in words.

    >>> of_half("-14", "-8"), of_half("-37", "-37")
    ('half of the replays between -14 and -8', 'at least half of the replays: -37')
    """
    return f"at least half of the replays: {low}" if low == high else f"half of the replays between {low} and {high}"
