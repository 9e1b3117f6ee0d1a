"""The exact counterfactual row under Gumbel-max: no sampling.

Gumbel-max is an exponential race: with E_i = exp(-G_i) ~ Exp(1) the outcome is argmin E_i / p_i.
Given that o won at time M, E_o = p_o·M and, by memorylessness, E_i = p_i·M + E'_i with fresh E'_i.
The counterfactual outcome is argmin E_i / q_i, and M integrates out. With

    r_j  = p_j / q_j
    D(r) = Σ_j max(p_j, q_j·r)                 piecewise linear, D(0) = 1
    F(r) = ∫_0^r D(x)^-2 dx                    a piece [r1, r2] contributes (r2 - r1) / (D(r1)·D(r2))

    P_cf(o)     = 1 / D(r_o)                   0 if q_o = 0
    P_cf(j ≠ o) = q_j · max(0, F(r_o) - F(r_j))

How it is computed. Only j with r_j < r_o can win, so only these are sorted. The differences
F(r_o) - F(r_j) are summed from r_o downwards: all terms are positive, so nothing cancels.
D(r) = 1 + Σ_{r_j < r} (q_j·r - p_j) is at least 1, so an absolute error in its parts is at most as
large a relative error in D. Sums are compensated (Neumaier): they stay accurate for rows of 100,000 outcomes.
A row stays nominal, bit for bit, if the observation does not influence it: if p_o = 1, if q is a point
mass, or if q_o = 0 and p_j / q_j is the same for every outcome of q (0 for disjoint supports).

``weight`` has the observed row by state: p_j, and 0 for every state outside its support.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._kernels.jit import kernel, piece
from tether._kernels.order import first_from, sort_by
from tether.core.batch import Model, Seen

_SAME_RATIO = 1e-14
"""Ratios p_j / q_j with a smaller relative difference are equal: rows are normalised in floating point.

Otherwise rounding could break a tie with r_o, and give an impossible outcome a probability of 1e-17."""

_HUGE = 1e308
"""Beyond this r_o counts as infinite: D(r_o) might overflow."""

_SMALLEST = 5e-324
"""The least probability of an outcome that can happen: underflow must not make it impossible."""


@kernel
def _add(sums: Floats, which: Any, x: float) -> None:
    """Add ``x`` to a compensated sum (Neumaier): its value is ``sums[which] + sums[which + 1]``."""
    total = sums[which]
    moved = total + x
    sums[which] = moved
    if total >= x:
        sums[which + 1] += (total - moved) + x
    else:
        sums[which + 1] += (x - moved) + total


_BASE, _SLOPE, _GONE, _REST, _TOTAL = np.arange(0, 10, 2)  # not literals: `_add` would be compiled for each
SUMS = 10
"""The first items of ``height`` are the five compensated sums; the heights follow."""


@kernel
def row_of_pair(
    row_start: Ints, nominal_next: Ints, nominal: Floats, pair: int, outcome: int, is_certain: bool, weight: Floats,
    begin: Any, next_state: Ints, probability: Floats, ratio: Floats, item: Ints, height: Floats,
) -> tuple[int, float]:  # fmt: skip
    """Write the counterfactual row of a pair from ``begin`` on; returns how many outcomes it has, and its strength.

    ``weight`` has the observed row by state, ``is_certain`` says that it has one outcome. The last three are scratch,
    at least as long as the row, ``height`` by `SUMS` longer. Strength is the total variation to the nominal row.
    """
    low, high = row_start[pair], row_start[pair + 1]
    o, p_o, q_o = high, 0.0, 0.0  # the entry of the observed outcome; ``high`` if q_o = 0
    # p_o == 1.0 does not say that the row is certain: beside an outcome of 1e-300, p_o rounds to 1.
    influenced = outcome >= 0 and not is_certain and high - low > 1
    if influenced:
        o, p_o = first_from(nominal_next, low, high, outcome), weight[outcome]
        if o < high and nominal_next[o] == outcome:
            q_o = nominal[o]
        else:
            o = high
    ratio_o = p_o / q_o if q_o > 0.0 else np.inf
    bound = ratio_o * (1.0 - _SAME_RATIO)  # below it r_j must be for j to win; if it is ∞, inverse ratios are compared
    # Outcomes with 0 < r_j < r_o are collected. Those outside the support of p have r_j = 0: -q_j is written for now.
    sums = height
    for i in range(SUMS):
        sums[i] = 0.0
    n, nothing = np.int64(0), np.int64(0)  # as literals they would be types of their own: sorting is compiled for each
    end, at_o, overlap, lowest, highest = begin, begin, 0, np.inf, 0.0
    for e in range(low, high if influenced else low):
        p, q = weight[nominal_next[e]], nominal[e]
        r = p / q
        if p == 0.0:
            _add(sums, _BASE, q)
            probability[end] = -q
        else:
            overlap += 1
            lowest, highest = min(lowest, r), max(highest, r)
            if e == o:
                at_o = end
            # Beyond rounding, for an r_o that is infinite or overflows: q / p cannot underflow, because p ≤ 1.
            elif r < bound or (bound == np.inf and (q_o == 0.0 or q / p * (1.0 - _SAME_RATIO) > q_o / p_o)):
                probability[end] = _SMALLEST  # for a ratio that overflows: it is about q_j² / p_j, which underflows
                if r < np.inf:
                    ratio[end - begin] = r
                    item[n] = end - begin
                    n += 1
                    probability[end] = q
            else:
                continue
        next_state[end] = nominal_next[e]
        end += 1
    # A ratio that overflows differs from the others: no row has only outcomes of 1e-310.
    same = overlap == high - low and highest < np.inf and highest - lowest <= _SAME_RATIO * highest
    if not influenced or (o == high and (overlap == 0 or same)):
        for e in range(low, high):
            next_state[begin + e - low] = nominal_next[e]
            probability[begin + e - low] = nominal[e]
        return high - low, 0.0
    sort_by(ratio, item, nothing, n)
    # D at each r_j, from left to right: 1 - Σ p_i + r_j·Σ q_i over all i with r_i ≤ r_j.
    sums[_SLOPE] = sums[_BASE] + sums[_BASE + 1]
    for i in range(n):
        place = begin + item[i]
        _add(sums, _SLOPE, probability[place])
        _add(sums, _GONE, weight[next_state[place]])
        height[SUMS + i] = (1.0 - (sums[_GONE] + sums[_GONE + 1])) + (sums[_SLOPE] + sums[_SLOPE + 1]) * ratio[item[i]]
    if ratio_o < _HUGE:
        right = ratio_o
        height_right = (1.0 - (sums[_GONE] + sums[_GONE + 1])) + (sums[_SLOPE] + sums[_SLOPE + 1]) * ratio_o
        probability[at_o] = max(1.0 / height_right, _SMALLEST)
    else:
        # Beyond the last r_j the slope of D is Σ q = 1, and the tail of F is 1 / D.
        right = ratio[item[n - 1]] if n > 0 else 0.0
        height_right = height[SUMS + n - 1] if n > 0 else 1.0
        sums[_REST] = 1.0 / height_right
        if o < high:  # q_o is so small that D(r_o) overflows
            probability[at_o] = q_o
    # q_j·(F(r_o) - F(r_j)), from right to left; then F(r_o) - F(0).
    for i in range(n - 1, -1, -1):
        place, left = begin + item[i], ratio[item[i]]
        _add(sums, _REST, (right - left) / height[SUMS + i] / height_right)
        right, height_right = left, height[SUMS + i]
        probability[place] = max(probability[place] * (sums[_REST] + sums[_REST + 1]), _SMALLEST)
    _add(sums, _REST, right / height_right)
    for i in range(begin, end):
        if probability[i] < 0.0:
            probability[i] = max(-probability[i] * (sums[_REST] + sums[_REST + 1]), _SMALLEST)
        _add(sums, _TOTAL, probability[i])
    total, distance, i = sums[_TOTAL] + sums[_TOTAL + 1], 0.0, begin
    for e in range(low, high):
        if i < end and next_state[i] == nominal_next[e]:
            if probability[i] > _SMALLEST:
                probability[i] /= total
            distance += abs(probability[i] - nominal[e])
            i += 1
        else:
            distance += nominal[e]
    return end - begin, 0.5 * distance


@kernel
def gumbel_rows(
    model: Model,
    seen: Seen,
    which: Ints,
    outcome: Ints,
    pairs: Ints,
    weight: Floats,
    start: Ints,
    next_state: Ints,
    probability: Floats,
    strength: Floats,
) -> None:
    """Write the counterfactual row of ``pairs[i]``, given that the observed row ``which[i]`` led to ``outcome[i]``.

    Row i goes to ``start[i] … start[i + 1] - 1`` of ``next_state`` and ``probability``, its total variation to the
    nominal row to ``strength[i]``. An outcome of -1 was not recorded: the row stays nominal. ``weight`` is scratch by
    state, all 0 before and after; items with the same observed row should be side by side.
    """
    _, _, row_start, nominal_next, nominal = model
    longest = 0
    for x in pairs:
        longest = max(longest, row_start[x + 1] - row_start[x])
    ratio, height, item = np.empty(longest), np.empty(SUMS + longest), np.empty(longest, np.int64)
    start[0] = 0
    for i in range(pairs.size):
        if i == 0 or which[i] != which[i - 1]:
            _set_weights(seen, which[i], weight, 1.0)
        is_certain = seen.start[which[i] + 1] - seen.start[which[i]] == 1
        count, strength[i] = row_of_pair(
            row_start, nominal_next, nominal, pairs[i], outcome[i], is_certain, weight, start[i], next_state,
            probability, ratio, item, height,
        )  # fmt: skip
        start[i + 1] = start[i] + count
        if i == pairs.size - 1 or which[i] != which[i + 1]:
            _set_weights(seen, which[i], weight, 0.0)


@piece
def _set_weights(seen: Seen, which: int, weight: Floats, factor: float) -> None:
    for e in range(seen.start[which], seen.start[which + 1]):
        weight[seen.next_state[e]] = factor * seen.probability[e]
