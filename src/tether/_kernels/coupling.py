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

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints
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
        if lost != 0.0:
            parts[kept] = lost
            kept += 1
        x = total
    if x != 0.0:
        parts[kept] = x
        kept += 1
    return kept


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


@kernel
def comonotone_rows(
    start: Ints, probability: Floats, entry: Ints, below: Floats, chance: float, above: Floats, out: Floats
) -> None:
    """The outcome of each row, given that one uniform number made the observed row have an outcome of ``chance``.

    The items of row i are ``start[i] … start[i + 1] - 1``; ``entry`` lists them in the order of outcomes. ``below`` and
    ``above`` are the other probabilities of the observed row, those of lower and of higher outcomes.
    """
    longest = 0
    for i in range(start.size - 1):
        longest = max(longest, start[i + 1] - start[i])
    parts = np.empty(_PARTS)
    from_low, from_high = np.empty(longest + 1), np.empty(longest + 1)
    up_to_it, from_it = np.append(below, chance), np.append(above, chance)
    for i in range(start.size - 1):
        first, last = start[i], start[i + 1]
        _gaps(probability, entry, first, last, below, from_it, parts, from_low)
        _gaps(probability, entry, first, last, up_to_it, above, parts, from_high)
        total = 0.0
        for n in range(first, last):
            x, at = entry[n], n - first
            out[x] = 0.0
            if from_low[at + 1] <= 0.0 or from_high[at] >= 0.0:
                continue
            if from_low[at] >= 0.0 and from_high[at + 1] <= 0.0:
                out[x] = probability[x]
            elif from_low[at] <= 0.0 and from_high[at + 1] >= 0.0:
                out[x] = chance
            else:
                out[x] = from_low[at + 1] if from_low[at] < 0.0 else -from_high[at]
                if out[x] <= _DUST * probability[x] and out[x] <= _NOTICED * chance:
                    out[x] = 0.0
            total += out[x]
        for n in range(first, last):
            out[entry[n]] /= total


@kernel
def maximal_rows(
    start: Ints, probability: Floats, observed: Floats, is_outcome: Flags, row: Floats, chance: float, out: Floats
) -> None:
    """Each row under the maximal coupling with the observed ``row``, which had an outcome of ``chance``.

    The items of row i are ``start[i] … start[i + 1] - 1``; ``observed`` has the observed row's probability of each, and
    ``is_outcome`` marks the observed outcome.
    """
    parts = np.empty(_PARTS)
    for i in range(start.size - 1):
        first, last, n = start[i], start[i + 1], 0
        for p in row:
            n = _add(parts, n, -p)
        for x in range(first, last):
            n = _add(parts, n, probability[x])
        more = _rounded(parts, n)  # how much larger the sum of this row is: both should be 1
        moved, total = 1.0, 0.0  # what does not repeat the outcome; and what this row has beyond the observed one
        for x in range(first, last):
            out[x] = (probability[x] - observed[x]) - observed[x] * more
            if is_outcome[x]:
                moved = max(0.0, -out[x] / chance)
                moved = 0.0 if moved <= _DUST else min(moved, 1.0)
            total += max(out[x], 0.0)
        kept, has_outcome = 0.0, False
        for x in range(first, last):
            if is_outcome[x] or out[x] <= 0.0 or (out[x] <= _DUST * observed[x] and out[x] <= _NOTICED * total):
                out[x] = 0.0
            has_outcome |= is_outcome[x]
            kept += out[x]
        for x in range(first, last):
            if kept == 0.0:  # the two rows are equal; without the outcome, up to what is too small to be a number
                out[x] = is_outcome[x] if has_outcome else probability[x]
            else:
                repeats = 1.0 if moved == 0.0 else min(1.0, probability[x] / chance)
                out[x] = repeats if is_outcome[x] else moved * (out[x] / kept)
