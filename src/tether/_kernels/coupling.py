"""Couplings of two rows, computed in differences: what is tiny is never added to what is large.

Rows are given as floating-point numbers and taken at their word: each is divided by its exact sum. A sum of differences
is kept as an *expansion*: floating-point numbers of which each is smaller than the last place of the next, and which
together are the exact sum (Shewchuk 1997). With L and U the sums of a row p below and above a boundary, and l and u how
much more another row has below and above its own boundary, the second boundary lies (l·U - u·L) above the first one,
relative to the exact sums of both.

Rows that were normalised in floating point are equal up to rounding where they should be equal. What a coupling owes to
such a difference alone is left out (`_DUST`), if the result changes by less than `_NOTICED`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._kernels.jit import kernel

_DUST = 1e-14
"""Differences of probabilities this small, relative to the probabilities, may be due to rounding."""

_NOTICED = 1e-12
"""What is left out changes no probability of a result by more."""

_PARTS = 64
"""More numbers than the expansion of any sum has: 2,098 binary places, 53 in each number."""


@kernel
def _add(parts: Floats, n: int, x: float) -> int:
    """Add ``x`` to the expansion ``parts[:n]``, exactly; returns its new length."""
    kept = 0
    for i in range(n):
        y = parts[i]
        if abs(x) < abs(y):
            x, y = y, x
        total = x + y
        lost = y - (total - x)
        parts[kept] = lost  # without a branch around it, which would count references
        kept += lost != 0.0
        x = total
    parts[kept] = x
    return kept + (x != 0.0)


@kernel
def _rounded(parts: Floats, n: int) -> float:
    """The number that an expansion is."""
    total = 0.0
    for i in range(n):  # the smallest come first
        total += parts[i]
    return total


@kernel
def _gaps(
    probability: Floats, entry: Ints, first: int, last: int, below: Floats, above: Floats, parts: Floats, out: Floats
) -> None:
    """How far the boundaries of a row lie above the one of another row with ``below`` and ``above`` on its two sides.

    ``out[i]`` is for the boundary below ``entry[first + i]``; its last item for the end of the row.
    """
    lower, upper, n = 0.0, 0.0, 0
    for x in above:
        upper += x
        n = _add(parts, n, -x)
    for x in below:
        lower += x
    out[last - first] = -_rounded(parts, n) * lower
    for i in range(last - 1, first - 1, -1):
        n = _add(parts, n, probability[entry[i]])
        out[i - first] = -_rounded(parts, n) * lower
    n = 0
    for x in below:
        n = _add(parts, n, -x)
    out[0] += _rounded(parts, n) * upper
    for i in range(first, last):
        n = _add(parts, n, probability[entry[i]])
        out[i + 1 - first] += _rounded(parts, n) * upper


class CouplingScratch(NamedTuple):
    """Room for the kernels: the parts of an exact sum, and numbers for the boundaries of the longest row."""

    parts: Floats
    from_low: Floats
    from_high: Floats


def coupling_scratch_for(longest: int) -> CouplingScratch:
    """Room for rows of so many outcomes."""
    return CouplingScratch(np.empty(_PARTS), np.empty(longest + 1), np.empty(longest + 1))


@kernel
def comonotone_row(
    probability: Floats, order: Ints, observed: Floats, at: int, out: Floats, scratch: CouplingScratch
) -> None:
    """The outcome of a row, given that one uniform number made the observed row have its outcome ``at``.

    ``order`` lists the items of the row in the order of outcomes; those of the ``observed`` row are in that order.
    """
    parts, from_low, from_high = scratch
    chance, size = observed[at], order.size
    _gaps(probability, order, 0, size, observed[:at], observed[at:], parts, from_low)
    _gaps(probability, order, 0, size, observed[: at + 1], observed[at + 1 :], parts, from_high)
    total = 0.0
    for n in range(size):
        x = order[n]
        out[x] = 0.0
        if from_low[n + 1] <= 0.0 or from_high[n] >= 0.0:
            continue
        if from_low[n] >= 0.0 and from_high[n + 1] <= 0.0:
            out[x] = probability[x]
        elif from_low[n] <= 0.0 and from_high[n + 1] >= 0.0:
            out[x] = chance
        else:
            out[x] = from_low[n + 1] if from_low[n] < 0.0 else -from_high[n]
            if out[x] <= _DUST * probability[x] and out[x] <= _NOTICED * chance:
                out[x] = 0.0
        total += out[x]
    for x in range(size):
        out[x] /= total


@kernel
def maximal_row(
    probability: Floats, given: Floats, at: int, observed: Floats, chance: float, out: Floats, scratch: CouplingScratch
) -> None:
    """A row under the maximal coupling with the ``observed`` row, which had an outcome of ``chance``.

    ``given`` has the observed row's probability of each outcome of the row; the observed outcome is its item ``at``, -1
    if it has no such outcome.
    """
    parts, _, _ = scratch
    n = 0
    for p in observed:
        n = _add(parts, n, -p)
    for q in probability:
        n = _add(parts, n, q)
    more = _rounded(parts, n)  # how much larger the sum of this row is: both should be 1
    moved, total = 1.0, 0.0  # what does not repeat the outcome; and what this row has beyond the observed one
    for x in range(probability.size):
        out[x] = (probability[x] - given[x]) - given[x] * more
        if x == at:
            moved = max(0.0, -out[x] / chance)
            moved = 0.0 if moved <= _DUST else min(moved, 1.0)
        total += max(out[x], 0.0)
    kept = 0.0
    for x in range(probability.size):
        if x == at or out[x] <= 0.0 or (out[x] <= _DUST * given[x] and out[x] <= _NOTICED * total):
            out[x] = 0.0
        kept += out[x]
    for x in range(probability.size):
        if kept == 0.0:  # the two rows are equal; without the outcome, up to what is too small to be a number
            out[x] = probability[x]
            if at >= 0:
                out[x] = 1.0 if x == at else 0.0
        elif x == at:
            out[x] = 1.0 if moved == 0.0 else min(1.0, probability[x] / chance)
        else:
            out[x] = moved * (out[x] / kept)
