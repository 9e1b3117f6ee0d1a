"""The comonotone coupling of two rows: outcomes are put in one order, and one uniform number decides both."""

from __future__ import annotations

from tether._foundation.arrays import Floats, Ints
from tether._kernels.jit import kernel

_NEAR = 1e-14
"""Cumulated probabilities this close are equal: rounding must not move a boundary and make new outcomes possible."""

_POINT = 1e-12
"""An interval of uniform numbers shorter than this counts as one number."""


@kernel
def _overlap(below: float, above: float, probability: float, low: float, high: float) -> float:
    """The length of the overlap of ``low … high`` with ``below … above``, which is ``probability`` long."""
    left = low if abs(below - low) <= _NEAR else below
    left = high if abs(left - high) <= _NEAR else left
    right = low if abs(above - low) <= _NEAR else above
    right = high if abs(right - high) <= _NEAR else right
    if left >= low and right <= high:
        return probability if left < high and right > low else 0.0  # all of it, even if it is tiny
    return max(0.0, min(right, high) - max(left, low))


@kernel
def _holder(entry: Ints, first: int, last: int, probability: Floats, is_outcome: Ints, point: float) -> int:
    """The position in ``entry[first:last]`` of the outcome of one uniform number; at a tie, of the observed outcome."""
    below = 0.0
    found = last - 1
    for n in range(first, last):
        above = below + probability[entry[n]]
        if is_outcome[entry[n]] and abs(below - point) <= _POINT and abs(above - point) <= _POINT:
            return n
        if found == last - 1 and below <= point < above:
            found = n
        below = above
    return found


@kernel
def comonotone_rows(
    start: Ints, probability: Floats, is_outcome: Ints, entry: Ints, low: float, high: float, out: Floats
) -> None:
    """For rows whose items are ``start[i] … start[i + 1] - 1``, the outcome given a uniform number in ``low … high``.

    ``entry`` lists the items of each row in the order of outcomes; the other arrays are by item. ``is_outcome`` marks
    the observed outcome.
    """
    for i in range(start.size - 1):
        first, last = start[i], start[i + 1]
        if high - low < _POINT:
            for n in range(first, last):
                out[entry[n]] = 0.0
            out[entry[_holder(entry, first, last, probability, is_outcome, low)]] = 1.0
            continue
        below = 0.0
        total = 0.0
        for n in range(first, last):
            x = entry[n]
            above = 1.0 if n == last - 1 else min(below + probability[x], 1.0)
            out[x] = _overlap(below, above, probability[x], low, high)
            total += out[x]
            below = above
        for n in range(first, last):
            out[entry[n]] /= total
