"""How sure the probabilities of a learned model are: simultaneous intervals from the counts behind it.

An outcome was seen x of n times. The interval of Clopper and Pearson contains every probability p for which neither "x
or more" nor "x or fewer" is less likely than α / 2. It contains the truth with a probability of at least 1 - α,
whatever the truth is. A model has many probabilities. For all of its intervals to hold at once, the error is divided
evenly among them (Bonferroni):

    α = (1 - confidence) / (number of intervals)

A row with two outcomes is one interval, because the other is its complement; a row with a single outcome has none.

The possible outcomes of a pair are those of the model: any other outcome counts as impossible. An outcome that is
possible in the model but was never seen (`tether.learn` with ``support=``) has an interval from 0. How often a pair was
seen is taken as given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether.errors import QueryError
from tether.model.mdp import MDP

__all__ = ["Intervals", "clopper_pearson", "row_intervals"]

_TINY = 1e-300

_CLOSE = 1e-12
"""The relative tolerance of the ends of an interval."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Intervals:
    """Simultaneous intervals of all probabilities of a learned model; made by `row_intervals`.

    Attributes
    ----------
    lower, upper : array
        The ends, in the order of the model's entries. The model's own probabilities lie within; if a prior has moved
        one outside, the interval is widened.
    confidence : float
        The joint level: with at least this confidence all intervals hold at once.
    count : int
        How many intervals share the error, 1 - confidence.
    method : str

    Examples
    --------
    >>> import tether
    >>> from tether.model.confidence import row_intervals
    >>> paths = [tether.Path(["sick", end], ["treat"]) for end in ["well"] * 8 + ["dead"] * 2]
    >>> found = row_intervals(tether.learn(paths), 0.95)
    >>> found
    <Intervals: 1 interval by Clopper-Pearson, 95 % joint confidence (Bonferroni)>
    >>> found.lower[:2].round(4), found.upper[:2].round(4)
    (array([0.4439, 0.0252]), array([0.9748, 0.5561]))
    """

    lower: Floats
    upper: Floats
    confidence: float
    count: int
    method: str = "Clopper-Pearson, Bonferroni"

    @property
    def level(self) -> float:
        """The confidence of each single interval."""
        return 1.0 - (1.0 - self.confidence) / max(1, self.count)

    def __repr__(self) -> str:
        many = "1 interval" if self.count == 1 else f"{self.count:,} intervals"
        return f"<Intervals: {many} by Clopper-Pearson, {100 * self.confidence:g} % joint confidence (Bonferroni)>"


def row_intervals(mdp: MDP, confidence: float) -> Intervals:
    """Simultaneous intervals of all probabilities of a learned model."""
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0.0 < confidence < 1.0:
        raise QueryError(f"confidence must be a number above 0 and below 1, such as 0.95, not {confidence!r}")
    if mdp.counts is None:
        raise QueryError(
            "this model was not learned from episodes, so it is unknown how sure its probabilities are; leave out "
            "confidence=, or learn a model: tether.learn(episodes)"
        )
    form, seen = mdp.form, mdp.counts.transitions
    lengths = np.diff(form.row_start)
    if seen.size != form.probability.size:
        raise QueryError(f"the model has {form.probability.size:,} transitions, but counts for {seen.size:,}")
    several = lengths > 1
    count = int(np.where(lengths == 2, 1, lengths)[several].sum())
    lower, upper = form.probability.copy(), form.probability.copy()
    uncertain = np.flatnonzero(np.repeat(several, lengths))
    if uncertain.size:
        trials = np.repeat(np.add.reduceat(seen, form.row_start[:-1]), lengths)[uncertain]
        ends = clopper_pearson(seen[uncertain], trials, (1.0 - confidence) / count)
        lower[uncertain] = np.minimum(lower[uncertain], ends[0])
        upper[uncertain] = np.maximum(upper[uncertain], ends[1])
    for array in (lower, upper):
        array.flags.writeable = False
    return Intervals(lower, upper, float(confidence), count)


def clopper_pearson(seen: Ints, trials: Ints, alpha: float) -> tuple[Floats, Floats]:
    """The interval of each probability, with confidence 1 - ``alpha``, for an outcome ``seen`` in some of ``trials``.

    Examples
    --------
    >>> import numpy as np
    >>> low, high = clopper_pearson(np.array([0, 2, 10]), np.array([10, 10, 10]), 0.05)
    >>> low.round(4), high.round(4)
    (array([0.    , 0.0252, 0.6915]), array([0.3085, 0.5561, 1.    ]))
    """
    times, of = np.unique(np.stack((seen, trials)), axis=1, return_inverse=True)
    of = of.reshape(-1)
    low = _at_least(times[0], times[1], alpha / 2)
    high = 1.0 - _at_least(times[1] - times[0], times[1], alpha / 2)
    return low[of], high[of]


def _at_least(seen: Ints, trials: Ints, chance: float) -> Floats:
    """The p for which P(Bin(trials, p) ≥ seen) = chance."""
    found = np.zeros(seen.size)
    always = (seen == trials) & (trials > 0)
    found[always] = chance ** (1.0 / trials[always])
    some = np.flatnonzero((seen > 0) & (seen < trials))
    if some.size:
        found[some] = _solve(seen[some].astype(float), (trials - seen)[some] + 1.0, chance)
    return found


def _solve(a: Floats, b: Floats, chance: float) -> Floats:
    """Where the incomplete beta function I_p(a, b) is ``chance``: by Newton's method for its logarithm."""
    lgamma = np.frompyfunc(math.lgamma, 1, 1)
    scale = np.asarray(lgamma(a + b) - lgamma(a) - lgamma(b), dtype=float)
    low, high, found = np.zeros(a.size), np.ones(a.size), 0.5 * a / (a + b)
    left = np.arange(a.size)
    for _ in range(100):
        p = found[left]
        density = a[left] * np.log(p) + b[left] * np.log1p(-p) + scale[left]  # of p, times p·(1 - p), as a logarithm
        tail = _log_tail(p, a[left], b[left], density)
        beyond = tail - math.log(chance)
        high[left], low[left] = np.where(beyond > 0, p, high[left]), np.where(beyond > 0, low[left], p)
        with np.errstate(over="ignore"):
            new = p - beyond * np.exp(np.minimum(tail - density, 700.0)) * p * (1.0 - p)
        inside = (new > low[left]) & (new < high[left])
        found[left] = np.where(inside, new, 0.5 * (low[left] + high[left]))
        left = left[np.abs(found[left] - p) > _CLOSE * p]
        if left.size == 0:
            break
    return found


def _log_tail(p: Floats, a: Floats, b: Floats, density: Floats) -> Floats:
    """The logarithm of I_p(a, b), by the continued fraction that converges fast on its side of the mean."""
    swap = p > (a + 1.0) / (a + b + 2.0)
    first, second, x = np.where(swap, b, a), np.where(swap, a, b), np.where(swap, 1.0 - p, p)
    near = density - np.log(first) + np.log(_fraction(x, first, second))
    with np.errstate(divide="ignore"):
        return np.where(swap, np.log1p(-np.exp(np.minimum(near, 0.0))), near)


def _fraction(x: Floats, a: Floats, b: Floats) -> Floats:
    """The continued fraction of the incomplete beta function, from the front (Lentz)."""
    c = np.ones(x.size)
    d = 1.0 / _off_zero(1.0 - (a + b) * x / (a + 1.0))
    value = d.copy()
    for i in range(1, 10_000):
        even = i * (b - i) * x / ((a + 2 * i - 1) * (a + 2 * i))
        d, c = 1.0 / _off_zero(1.0 + even * d), _off_zero(1.0 + even / c)
        value *= d * c
        odd = -(a + i) * (a + b + i) * x / ((a + 2 * i) * (a + 2 * i + 1))
        d, c = 1.0 / _off_zero(1.0 + odd * d), _off_zero(1.0 + odd / c)
        value *= d * c
        if np.all(np.abs(d * c - 1.0) < 1e-14):
            break
    return value


def _off_zero(x: Floats) -> Floats:
    return np.where(np.abs(x) < _TINY, _TINY, x)
