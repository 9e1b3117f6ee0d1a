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

from typing import NamedTuple

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._kernels.jit import kernel
from tether._kernels.order import first_from, sort_by
from tether.core.batch import Model

_SAME_RATIO = 1e-14
"""Ratios p_j / q_j with a smaller relative difference are equal: rows are normalised in floating point.

Otherwise rounding could break a tie with r_o, and give an impossible outcome a probability of 1e-17."""

_HUGE = 1e308
"""Beyond this r_o counts as infinite: D(r_o) might overflow."""

_SMALLEST = 5e-324
"""The least probability of an outcome that can happen: underflow must not make it impossible."""


@kernel
def _add(total: float, low: float, x: float) -> tuple[float, float]:
    """Add ``x`` to a compensated sum (Neumaier); its value is ``total + low``."""
    moved = total + x
    if total >= x:
        return moved, low + ((total - moved) + x)
    return moved, low + ((x - moved) + total)


@kernel
def _can_win(p: float, q: float, p_o: float, q_o: float) -> bool:
    """Whether r = p / q < p_o / q_o = r_o beyond rounding, for p > 0 and an r_o that is infinite or overflows.

    The inverse ratios are compared: q / p cannot underflow, because p ≤ 1.
    """
    return q_o == 0.0 or q / p * (1.0 - _SAME_RATIO) > q_o / p_o


@kernel
def _bound(p_o: float, q_o: float) -> float:
    """The bound below which r_j must be for j to win; if it is ∞, `_can_win` decides."""
    r_o = p_o / q_o if q_o > 0.0 else np.inf
    return r_o * (1.0 - _SAME_RATIO)


@kernel
def _possible(
    next_state: Ints, probability: Floats, low: int, high: int, weight: Floats, is_certain: bool, o: int, p_o: float
) -> int:
    """How many outcomes of a row stay possible; -1 if the row is not influenced.

    ``is_certain``: the observed row has one outcome. ``o``: the entry of the observed outcome, -1 if q_o = 0.
    """
    if is_certain or high - low == 1:  # p_o == 1.0 does not say so: beside an outcome of 1e-300, p_o rounds to 1
        return -1
    q_o = probability[o] if o >= 0 else 0.0
    possible = 0
    overlap = 0
    bound = _bound(p_o, q_o)
    if bound < np.inf:  # then o ≥ 0: o itself is possible and is counted apart, because r_o > bound
        for e in range(low, high):
            p, q = weight[next_state[e]], probability[e]
            possible += int(p / q < bound)
        return possible + 1
    lowest, highest = np.inf, 0.0
    for e in range(low, high):
        p, q = weight[next_state[e]], probability[e]
        if p == 0.0:
            possible += 1
            continue
        overlap += 1
        r = p / q
        lowest, highest = min(lowest, r), max(highest, r)
        if e == o or _can_win(p, q, p_o, q_o):
            possible += 1
    if o < 0 and overlap == 0:
        return -1
    # A ratio that overflows differs from the others: no row has only outcomes of 1e-310.
    if o < 0 and overlap == high - low and highest < np.inf and highest - lowest <= _SAME_RATIO * highest:
        return -1
    return possible


@kernel
def _row(
    next_state: Ints,
    probability: Floats,
    low: int,
    high: int,
    weight: Floats,
    o: int,
    p_o: float,
    begin: int,
    out_next: Ints,
    out: Floats,
    ratio: Floats,
    item: Ints,
    height: Floats,
) -> float:
    """Write one counterfactual row from ``begin`` on; returns its total variation to the nominal row.

    ``ratio``, ``item`` and ``height`` are scratch, at least as long as the row.
    """
    q_o = probability[o] if o >= 0 else 0.0
    ratio_o = p_o / q_o if o >= 0 else np.inf
    bound = _bound(p_o, q_o)
    # Outcomes with 0 < r_j < r_o are collected. Those outside the support of p have r_j = 0: -q_j is written for now.
    base, base_low = 0.0, 0.0
    end = begin
    n = 0
    at_o = -1
    for e in range(low, high):
        p, q = weight[next_state[e]], probability[e]
        if p == 0.0:
            base, base_low = _add(base, base_low, q)
            out[end] = -q
        elif e == o:
            at_o = end
        elif p / q < bound or (bound == np.inf and _can_win(p, q, p_o, q_o)):
            if p / q < np.inf:
                ratio[end - begin] = p / q
                item[n] = end - begin
                n += 1
                out[end] = q
            else:  # its probability is about q_j² / p_j, which underflows
                out[end] = _SMALLEST
        else:
            continue
        out_next[end] = next_state[e]
        end += 1
    sort_by(ratio, item[:n])
    # D at each r_j, from left to right: 1 - Σ p_i + r_j·Σ q_i over all i with r_i ≤ r_j.
    slope, slope_low = base + base_low, 0.0
    gone, gone_low = 0.0, 0.0
    for i in range(n):
        place = begin + item[i]
        slope, slope_low = _add(slope, slope_low, out[place])
        gone, gone_low = _add(gone, gone_low, weight[out_next[place]])
        height[i] = (1.0 - (gone + gone_low)) + (slope + slope_low) * ratio[item[i]]
    if ratio_o < _HUGE:
        right, rest = ratio_o, 0.0
        height_right = (1.0 - (gone + gone_low)) + (slope + slope_low) * ratio_o
        out[at_o] = max(1.0 / height_right, _SMALLEST)
    else:
        # Beyond the last r_j the slope of D is Σ q = 1, and the tail of F is 1 / D.
        right = ratio[item[n - 1]] if n > 0 else 0.0
        height_right = height[n - 1] if n > 0 else 1.0
        rest = 1.0 / height_right
        if o >= 0:  # q_o is so small that D(r_o) overflows
            out[at_o] = q_o
    # q_j·(F(r_o) - F(r_j)), from right to left; then F(r_o) - F(0).
    rest_low = 0.0
    for i in range(n - 1, -1, -1):
        place, left = begin + item[i], ratio[item[i]]
        rest, rest_low = _add(rest, rest_low, (right - left) / height[i] / height_right)
        right, height_right = left, height[i]
        out[place] = max(out[place] * (rest + rest_low), _SMALLEST)
    rest, rest_low = _add(rest, rest_low, right / height_right)
    total, total_low = 0.0, 0.0
    for i in range(begin, end):
        if out[i] < 0.0:
            out[i] = max(-out[i] * (rest + rest_low), _SMALLEST)
        total, total_low = _add(total, total_low, out[i])
    total += total_low
    distance = 0.0
    i = begin
    for e in range(low, high):
        if i < end and out_next[i] == next_state[e]:
            if out[i] > _SMALLEST:
                out[i] /= total
            distance += abs(out[i] - probability[e])
            i += 1
        else:
            distance += probability[e]
    return 0.5 * distance


@kernel
def row_of_pair(
    row_start: Ints, nominal_next: Ints, nominal: Floats, pair: int, outcome: int, is_certain: bool, weight: Floats,
    begin: int, next_state: Ints, probability: Floats, ratio: Floats, item: Ints, height: Floats,
) -> tuple[int, float]:  # fmt: skip
    """Write the counterfactual row of a pair from ``begin`` on; returns how many outcomes it has, and its strength.

    ``weight`` has the observed row by state, ``is_certain`` says that it has one outcome; the last three are scratch.
    """
    low, high = row_start[pair], row_start[pair + 1]
    possible, o, p_o = -1, -1, 0.0
    if outcome >= 0:
        o, p_o = low + first_from(nominal_next[low:high], outcome), weight[outcome]
        o = o if o < high and nominal_next[o] == outcome else -1
        possible = _possible(nominal_next, nominal, low, high, weight, is_certain, o, p_o)
    if possible < 0:
        for e in range(low, high):
            next_state[begin + e - low] = nominal_next[e]
            probability[begin + e - low] = nominal[e]
        return high - low, 0.0
    strength = _row(
        nominal_next, nominal, low, high, weight, o, p_o, begin, next_state, probability, ratio, item, height
    )
    return possible, strength


class Seen(NamedTuple):
    """Observed rows, one after the other: row w leads to ``next_state[start[w]:start[w + 1]]``."""

    start: Ints
    next_state: Ints
    probability: Floats


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
    ratio, height, item = np.empty(longest), np.empty(longest), np.empty(longest, np.int64)
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


@kernel
def _set_weights(seen: Seen, which: int, weight: Floats, factor: float) -> None:
    for e in range(seen.start[which], seen.start[which + 1]):
        weight[seen.next_state[e]] = factor * seen.probability[e]


def rows_given(model: Model, seen: Seen, which: Ints, outcome: Ints, pairs: Ints) -> tuple[Ints, Ints, Floats, Floats]:
    """Counterfactual rows of ``pairs``: where each begins, next states, probabilities, and strengths."""
    size = int(np.sum(model.row_start[pairs + 1] - model.row_start[pairs]))
    start, strength = np.empty(pairs.size + 1, np.int64), np.empty(pairs.size)
    next_state, probability = np.empty(size, np.int32), np.empty(size)
    gumbel_rows(model, seen, which, outcome, pairs, np.zeros(model.n_states), start, next_state, probability, strength)
    end = int(start[-1])
    return start, next_state[:end], probability[:end], strength
