"""The exact counterfactual row under Gumbel-max: no sampling.

Gumbel-max is an exponential race: with E_i = exp(-G_i) ~ Exp(1) the outcome is argmin E_i / p_i.
Given that o won at time M, E_o = p_o·M and, by memorylessness, E_i = p_i·M + E'_i with fresh E'_i.
The counterfactual outcome is argmin E_i / q_i, and M integrates out. With

    r_j  = p_j / q_j
    D(r) = Σ_j max(p_j, q_j·r)                 piecewise linear, D(0) = 1
    F(r) = ∫_0^r D(x)^-2 dx                    a piece [r1, r2] contributes (r2 - r1) / (D(r1)·D(r2))

    P_cf(o)     = 1 / D(r_o)                   0 where q_o = 0
    P_cf(j ≠ o) = q_j · max(0, F(r_o) - F(r_j))

How it is computed. Only j with r_j < r_o can win, so only these are sorted, and the differences
F(r_o) - F(r_j) are summed from r_o downwards: positive terms only, nothing cancels.
D(r) = 1 + Σ_{r_j < r} (q_j·r - p_j) is at least 1, so an absolute error in its parts is a relative
one in D. Sums are compensated (Neumaier), to hold for rows of 100,000 outcomes.
A row stays bit for bit nominal where the observation says nothing about it: p_o = 1, q a point
mass, or q_o = 0 and p_j / q_j the same for every outcome of q (0 for disjoint supports).
"""

from __future__ import annotations

import numpy as np

from tether._kernels.jit import kernel
from tether._kernels.sorting import lower_bound, sort_by_key
from tether._types import Floats, Ints

_SAME_RATIO = 1e-14
"""Ratios p_j / q_j this close, relatively, are equal: they come from rows normalised in floating point.

A tie with r_o that rounding broke would make an impossible outcome possible, with probability 1e-17."""

_HUGE = 1e308
"""Beyond this r_o counts as infinite: D(r_o) might overflow."""

_SMALLEST = 5e-324
"""An outcome that can happen never gets probability 0 by underflow: what is possible is structure."""


@kernel
def _find(sorted_values: Ints, value: int) -> int:
    """Position of ``value``, or -1."""
    at = lower_bound(sorted_values, value)
    return at if at < sorted_values.size and sorted_values[at] == value else -1


@kernel
def meets(row: Ints, support: Ints) -> bool:
    """Whether two sorted lists of states have one in common."""
    if row[row.size - 1] < support[0] or support[support.size - 1] < row[0]:
        return False
    for j in row:  # noqa: SIM110 - numba compiles no generators
        if _find(support, j) >= 0:
            return True
    return False


@kernel
def which_meet(pairs: Ints, row_start: Ints, next_state: Ints, support: Ints, out: Ints) -> int:
    """Collect in ``out`` the pairs whose row meets ``support``; return how many."""
    n = 0
    for x in pairs:
        if meets(next_state[row_start[x] : row_start[x + 1]], support):
            out[n] = x
            n += 1
    return n


@kernel
def _add(total: float, low: float, x: float) -> tuple[float, float]:
    """Add ``x`` to a compensated sum (Neumaier); its value is ``total + low``."""
    moved = total + x
    if total >= x:
        return moved, low + ((total - moved) + x)
    return moved, low + ((x - moved) + total)


@kernel
def _rivals(
    q_next: Ints, q: Floats, p_next: Ints, p: Floats, o: int, ratio_o: float, out: Floats, ratio: Floats, item: Ints
) -> tuple[int, float, bool]:
    """Collect the outcomes that may win instead of ``o``.

    Those that p excludes have r_j = 0: they are marked by -1 in ``out``. Those with 0 < r_j < r_o go to
    ``ratio`` and ``item``. Returns how many these are, the total q of the former, and whether r_j is the
    same for every outcome of q.
    """
    base, base_low = 0.0, 0.0
    n = 0
    overlap = 0
    lowest, highest = np.inf, 0.0
    for e in range(q.size):
        at = _find(p_next, q_next[e])
        if at < 0:
            base, base_low = _add(base, base_low, q[e])
            out[e] = -1.0
            continue
        overlap += 1
        r = p[at] / q[e]
        lowest, highest = min(lowest, r), max(highest, r)
        out[e] = 0.0
        if e != o and r < ratio_o * (1.0 - _SAME_RATIO):
            ratio[n] = r
            item[n] = e
            n += 1
        elif o < 0:  # q_j is so small that p_j / q_j overflows
            out[e] = _SMALLEST
    same = overlap == 0 or (overlap == q.size and highest - lowest <= _SAME_RATIO * highest)
    return n, base + base_low, same


@kernel
def _heights(
    q_next: Ints, q: Floats, p_next: Ints, p: Floats, base: float, ratio: Floats, item: Ints, n: int, height: Floats
) -> tuple[float, float]:
    """D at each r_j, left to right; returns level and slope of D beyond the last: D(r) = level + slope·r."""
    slope, slope_low = base, 0.0
    gone, gone_low = 0.0, 0.0
    for i in range(n):
        e = item[i]
        slope, slope_low = _add(slope, slope_low, q[e])
        gone, gone_low = _add(gone, gone_low, p[_find(p_next, q_next[e])])
        height[i] = (1.0 - (gone + gone_low)) + (slope + slope_low) * ratio[i]
    return 1.0 - (gone + gone_low), slope + slope_low


@kernel
def _shares(
    q: Floats,
    tail: float,
    right: float,
    height_right: float,
    ratio: Floats,
    item: Ints,
    n: int,
    height: Floats,
    out: Floats,
) -> float:
    """q_j · (F(r_o) - F(r_j)) for each rival, right to left, into ``out``; returns F(r_o).

    ``tail`` is what F gains beyond ``right``, where D is ``height_right``.
    """
    rest, rest_low = tail, 0.0
    for i in range(n - 1, -2, -1):
        left = ratio[i] if i >= 0 else 0.0
        height_left = height[i] if i >= 0 else 1.0
        rest, rest_low = _add(rest, rest_low, (right - left) / height_left / height_right)
        right, height_right = left, height_left
        if i >= 0:
            out[item[i]] = max(q[item[i]] * (rest + rest_low), _SMALLEST)
    return rest + rest_low


@kernel
def _finish(q: Floats, weight: float, out: Floats) -> float:
    """Fill in the outcomes that p excludes, make the row sum to 1, and return its TV to ``q``."""
    total, low = 0.0, 0.0
    for e in range(q.size):
        if out[e] < 0.0:
            out[e] = max(q[e] * weight, _SMALLEST)
        total, low = _add(total, low, out[e])
    total += low
    distance = 0.0
    for e in range(q.size):
        if out[e] > _SMALLEST:
            out[e] /= total
        distance += abs(out[e] - q[e])
    return 0.5 * distance


@kernel
def _row(
    q_next: Ints,
    q: Floats,
    p_next: Ints,
    p: Floats,
    outcome: int,
    out: Floats,
    ratio: Floats,
    item: Ints,
    height: Floats,
) -> float:
    """One counterfactual row, written to ``out`` entry for entry of ``q``; returns its TV to ``q``.

    ``ratio``, ``item`` and ``height`` are scratch, at least as long as the row.
    """
    o = _find(q_next, outcome)
    p_o = p[_find(p_next, outcome)]
    if q.size == 1 or p.size == 1:  # not p_o == 1.0: beside an outcome of 1e-300 it may only round to 1
        out[:] = q
        return 0.0
    ratio_o = np.inf if o < 0 else p_o / q[o]
    n, base, same = _rivals(q_next, q, p_next, p, o, ratio_o, out, ratio, item)
    if o < 0 and same:
        out[:] = q
        return 0.0
    sort_by_key(ratio, item, n)
    level, slope = _heights(q_next, q, p_next, p, base, ratio, item, n, height)
    if ratio_o < _HUGE:
        height_o = level + slope * ratio_o
        out[o] = max(1.0 / height_o, _SMALLEST)
        weight = _shares(q, 0.0, ratio_o, height_o, ratio, item, n, height, out)
    else:
        if o >= 0:  # q_o is so small that D(r_o) overflows
            out[o] = q[o]
        last = ratio[n - 1] if n > 0 else 0.0
        height_last = height[n - 1] if n > 0 else 1.0
        # Beyond the last r_j the slope of D is Σ q = 1, and the tail of F is 1 / D.
        weight = _shares(q, 1.0 / height_last, last, height_last, ratio, item, n, height, out)
    return _finish(q, weight, out)


@kernel
def gumbel_rows(
    pairs: Ints,
    row_start: Ints,
    next_state: Ints,
    probability: Floats,
    p_next: Ints,
    p: Floats,
    outcome: int,
    out_start: Ints,
    out: Floats,
    strength: Floats,
    ratio: Floats,
    item: Ints,
    height: Floats,
) -> None:
    """Counterfactual rows of ``pairs`` given that the row ``p`` over ``p_next`` led to ``outcome``.

    Row i goes to ``out[out_start[i]:out_start[i + 1]]``, entry for entry of the nominal row, and its
    total variation to the nominal row to ``strength[i]``.
    """
    for i in range(pairs.size):
        low, high = row_start[pairs[i]], row_start[pairs[i] + 1]
        strength[i] = _row(
            next_state[low:high],
            probability[low:high],
            p_next,
            p,
            outcome,
            out[out_start[i] : out_start[i + 1]],
            ratio,
            item,
            height,
        )
