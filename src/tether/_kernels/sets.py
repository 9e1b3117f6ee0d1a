"""Extreme rows of a set of causal models: the counterfactual row with the smallest, or largest, expectation.

p is the observed row of a step, o its outcome, and q the nominal row in question. A set of causal models
(`tether.conditioning.model_sets`) gives q a set X of counterfactual rows x. An extreme row of X is found greedily: go
through the outcomes in the order of their values, and give each as much probability as the limits allow. The limits do
not depend on the values: `limit_row` finds them once, `fill_row` then finds the extreme row for any order.

If X is a box (`NOTHING` and the two published sets) the limits are low_j ≤ x_j ≤ high_j. For `STABILITY`, let
r_j = q_j / p_j (∞ if p_j = 0), and let levels be the distinct r, ascending. Mass stays, or moves to a larger r:

    A(k) = P(levels ≤ k) - Q(levels ≤ k)                     the mass that must have moved to levels > k
    x_j = 0 unless j = o or r_j > r_o;  x_j ≤ q_j / p_o;  x_o ≥ (q_o - A(l - 1)) / p_o,  l the level of o
    for each level k ≥ l:
    x(levels > k) + Σ_{j in level k, j ≠ o} (x_j - (q_j - p_j)⁺ / p_o)⁺ [if r_k > 1]  ≤  A(k) / p_o

These are nested caps. A(k) is summed from the top, Σ_{levels > k} (q_j - p_j), so that small A(k) do not cancel.

If the probabilities themselves are intervals (`INTERVALS`), the extreme row is a tail of the extreme row of the
intervals. The tail has probability ``chance``: the smallest probability that the observed outcome can have had. Such a
row has one outcome more, *elsewhere* (`tether.model.confidence`), after the others; its value is given.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._kernels.jit import kernel, piece
from tether._kernels.order import sort_by

NOTHING, STABILITY, PUBLISHED_STABILITY, PUBLISHED_MONOTONICITY, INTERVALS = range(5)

_FIXED, _BOX, _STABLE, _TAIL = range(4)
"""How a row is found: it is known; within a box; within nested caps; as a tail of a row within a box."""

_SAME_RATIO = 1e-14
"""Ratios with a smaller relative difference are equal, as in `tether.core.gumbel`."""


_TOO_RARE = 1e-6
"""If the observed outcome was less probable than this, the nested caps are lost in rounding. Stability at the observed
outcome alone is then used: a larger set, so every guarantee for it also holds for the smaller one."""


class Observed(NamedTuple):
    """The observed step: its row (next states ascending), its outcome (-1 if not recorded) and its pair.

    ``chance`` is the probability of the outcome; if probabilities are intervals, the smallest one it can have had.
    """

    next_state: Ints
    probability: Floats
    outcome: int
    pair: int
    chance: float


class Nominal(NamedTuple):
    """One nominal row: its next states (ascending) and probabilities.

    If these are intervals, also their ends, and the largest probability of an outcome that was never seen.
    """

    next_state: Ints
    probability: Floats
    lower: Floats
    upper: Floats
    elsewhere: float


class RowLimits(NamedTuple):
    """The limits of a row of the set, by outcome, with one item more, for *elsewhere*; ``slack`` is by level."""

    low: Floats
    high: Floats
    level: Ints
    slack: Floats


class RowScratch(NamedTuple):
    """Scratch for one row, as long as the longest. ``x`` is the row found; ``order`` sorts its outcomes by value."""

    order: Ints
    x: Floats
    value: Floats
    p: Floats
    by_ratio: Ints
    left: Floats


def row_scratch_for(longest: int) -> RowScratch:
    """Scratch for rows of at most ``longest`` outcomes."""
    n = longest + 1
    return RowScratch(np.empty(n, np.int64), np.empty(n), np.empty(n), np.empty(n), np.empty(n, np.int64), np.empty(n))


def limits_for(entries: int, rows: int = 1) -> RowLimits:
    """Arrays for the limits of ``rows`` rows with ``entries`` outcomes in all; a row has one item more."""
    n = entries + rows
    return RowLimits(np.empty(n), np.empty(n), np.empty(n, np.int64), np.empty(n))


@kernel
def limit_row(
    row: Nominal, n: int, pair: int, step: Observed, kind: int, limits: RowLimits, scratch: RowScratch
) -> int:
    """The limits of a row of the set; returns how the row is found: one of the four ways.

    The row of the observed pair is the point mass at the outcome. If the outcome was not recorded, rows are nominal.
    """
    q_next, q, low, high = row.next_state, row.probability, limits.low, limits.high
    if pair == step.pair and step.outcome >= 0:
        for j in range(n):
            low[j] = 1.0 if q_next[j] == step.outcome else 0.0
        return _FIXED
    if kind == INTERVALS:
        for j in range(n):
            low[j], high[j] = row.lower[j], row.upper[j]
        low[n], high[n] = 0.0, row.elsewhere
        return _TAIL
    if step.outcome < 0:
        for j in range(n):
            low[j] = q[j]
        return _FIXED
    p_o = step.chance
    if kind == NOTHING:
        for j in range(n):
            low[j], high[j] = 0.0, min(1.0, q[j] / p_o)
        return _BOX
    o, overlap = _match(q_next, n, step.next_state, step.probability, step.outcome, scratch.p)
    if kind == STABILITY and overlap and p_o > _TOO_RARE:
        _nested(q, n, o, p_o, limits, scratch)
        return _STABLE
    _box(q, n, o, p_o, overlap, kind == PUBLISHED_MONOTONICITY, limits, scratch.p)
    return _BOX


@piece
def _match(q_next: Ints, n: int, p_next: Ints, p_probability: Floats, outcome: int, p: Floats) -> tuple[int, bool]:
    """p_j of each outcome of q, by merging; returns the index of o in q (-1: none) and whether the supports overlap."""
    at, o, overlap = 0, -1, False
    for j in range(n):
        while at < p_next.size and p_next[at] < q_next[j]:
            at += 1
        p[j] = 0.0
        if at < p_next.size and p_next[at] == q_next[j]:
            p[j] = p_probability[at]
            overlap = True
        if q_next[j] == outcome:
            o = j
    return o, overlap


@piece
def _box(q: Floats, n: int, o: int, p_o: float, overlap: bool, monotone: bool, limits: RowLimits, p: Floats) -> None:
    """The published sets: stability at the observed outcome; if ``monotone``, also monotonicity."""
    low, high = limits.low, limits.high
    q_o = q[o] if o >= 0 else 0.0
    for j in range(n):
        low[j], high[j] = 0.0, min(1.0, q[j] / p_o)
        if not overlap:
            continue
        if j == o:
            if monotone:
                low[j] = q[j]
        elif p[j] > 0.0:
            if q_o * p[j] >= q[j] * p_o * (1.0 - _SAME_RATIO):
                high[j] = 0.0
            elif monotone:
                high[j] = min(high[j], q[j])


@piece
def _nested(q: Floats, n: int, o: int, p_o: float, limits: RowLimits, scratch: RowScratch) -> None:
    """The nested caps of counterfactual stability.

    ``level[j]`` is 0 for o, 1, 2, … for outcomes with larger r, -1 for outcomes that cannot happen. ``slack[k]`` is
    A(k) / p_o for k = 0 (the level of o) and each higher level. ``low[o]`` is the least probability of o, and ``high``
    is q / p_o. For the others ``low[j]`` is the part of x_j that the cap of their own level does not limit; -1 if that
    cap does not limit them.
    """
    low, high, level, slack = limits.low, limits.high, limits.level, limits.slack
    p, by_ratio = scratch.p, scratch.by_ratio
    r_o = q[o] / p_o if o >= 0 else 0.0
    above, beside = 0, 0.0
    for j in range(n):
        level[j] = 0 if j == o else -1
        high[j] = min(1.0, q[j] / p_o)
        low[j] = (q[j] - p[j]) / p_o if q[j] > p[j] else -1.0
        if j != o and (p[j] == 0.0 or q[j] * (1.0 - _SAME_RATIO) > r_o * p[j]):
            by_ratio[above] = j
            above += 1
            continue
        if o >= 0 and q[j] >= r_o * p[j] * (1.0 - _SAME_RATIO):
            beside += q[j] - p[j]
    # Descending p / q is ascending r. `slack` has the keys for the sorting.
    for i in range(above):
        j = by_ratio[i]
        slack[j] = -(p[j] / q[j])
    sort_by(slack, by_ratio[:above])
    count, last = 0, np.inf
    for i in range(above):
        j = by_ratio[i]
        ratio = p[j] / q[j]
        if count == 0 or ratio < last * (1.0 - _SAME_RATIO):
            count += 1
            last = ratio
        level[j] = count
    for k in range(count + 1):
        slack[k] = 0.0
    for i in range(above):
        j = by_ratio[i]
        slack[level[j] - 1] += q[j] - p[j]
    for k in range(count - 1, -1, -1):
        slack[k] += slack[k + 1]
    if o >= 0:
        low[o] = min(1.0, max(0.0, (q[o] - max(0.0, slack[0] + beside)) / p_o))
    for k in range(count + 1):
        slack[k] = max(0.0, slack[k]) / p_o


@kernel
def width(how: int, n: int) -> int:
    """How many outcomes a row of n has, with *elsewhere* where it has one."""
    return n + 1 if how == _TAIL else n


@kernel
def can_happen(how: int, limits: RowLimits, j: int) -> bool:
    """Whether some row of the set leads to an outcome."""
    if how == _FIXED:
        return bool(limits.low[j] > 0.0)
    if how == _STABLE:
        return bool(limits.level[j] >= 0)
    return bool(limits.high[j] > 0.0)


@kernel
def fill_row(how: int, limits: RowLimits, n: int, order: Ints, sign: float, chance: float, scratch: RowScratch) -> None:
    """Write the extreme row to ``scratch.x``: for outcomes in the given order (``sign`` = 1), or its reverse (-1)."""
    x, low = scratch.x, limits.low
    if how == _FIXED:
        for j in range(n):
            x[j] = low[j]
    elif how == _STABLE:
        _fill_nested(limits, n, order, sign, scratch)
    else:
        _fill_box(limits, n, order, sign, x)
        if how == _TAIL:
            _keep_tail(n, order, sign, chance, x)


@piece
def _fill_box(limits: RowLimits, n: int, order: Ints, sign: float, x: Floats) -> None:
    """Start from the lower limits; then raise outcomes in order, each up to its upper limit."""
    low, high = limits.low, limits.high
    rest = 1.0
    for j in range(n):
        x[j] = low[j]
        rest -= low[j]
    for i in range(n):
        if rest <= 0.0:
            return
        j = order[i] if sign > 0.0 else order[n - 1 - i]
        more = min(high[j] - low[j], rest)
        if more > 0.0:
            x[j] += more
            rest -= more
    _give_rest(n, rest, order, sign, x)


@piece
def _keep_tail(n: int, order: Ints, sign: float, chance: float, x: Floats) -> None:
    """Keep the first outcomes in order, up to a probability of ``chance`` in all, and rescale them to a row."""
    rest = 1.0
    for i in range(n):
        j = order[i] if sign > 0.0 else order[n - 1 - i]
        x[j] = min(x[j] / chance, rest)
        rest = max(0.0, rest - x[j])
    _give_rest(n, rest, order, sign, x)


@kernel
def _give_rest(n: int, rest: float, order: Ints, sign: float, x: Floats) -> None:
    """Add what rounding left over to the last outcome with a positive probability."""
    if rest > 0.0:
        for i in range(n - 1, -1, -1):
            j = order[i] if sign > 0.0 else order[n - 1 - i]
            if x[j] > 0.0:
                x[j] += rest
                return


@piece
def _fill_nested(limits: RowLimits, n: int, order: Ints, sign: float, scratch: RowScratch) -> None:
    """Give each outcome, in order, as much as all caps allow."""
    low, high, level, x, left = limits.low, limits.high, limits.level, scratch.x, scratch.left
    rest, levels = 1.0, 0
    for j in range(n):
        x[j] = 0.0
        levels = max(levels, level[j])
        if level[j] == 0:
            x[j] = low[j]
            rest -= low[j]
    for k in range(levels + 1):
        left[k] = limits.slack[k]
    for i in range(n):
        if rest <= 0.0:
            break
        j = order[i] if sign > 0.0 else order[n - 1 - i]
        k = level[j]
        if k < 0:
            continue
        more = min(high[j] - x[j], rest)
        for lower in range(k):
            more = min(more, left[lower])
        grows = k > 0 and low[j] >= 0.0
        if grows:
            more = min(more, low[j] + left[k])
        if more <= 0.0:
            continue
        x[j] += more
        rest -= more
        for lower in range(k):
            left[lower] -= more
        if grows and more > low[j]:
            left[k] -= more - low[j]
    _give_rest(n, rest, order, sign, x)


@kernel
def extreme_row(
    row: Nominal,
    value: Floats,
    n: int,
    pair: int,
    step: Observed,
    kind: int,
    sign: float,
    limits: RowLimits,
    scratch: RowScratch,
) -> float:
    """The smallest (``sign`` = 1) or largest (-1) mean of ``value`` over the set; its row is in ``scratch.x``.

    *Elsewhere* is worth 0.
    """
    how = limit_row(row, n, pair, step, kind, limits, scratch)
    wide = width(how, n)
    for j in range(wide):
        scratch.order[j] = j
        scratch.value[j] = value[j] if j < n else 0.0
    sort_by(scratch.value, scratch.order[:wide])
    fill_row(how, limits, wide, scratch.order, sign, step.chance, scratch)
    return expectation(n, scratch.x, value)


@kernel
def expectation(n: int, x: Floats, value: Floats) -> float:
    """Σ x·value over outcomes with x > 0."""
    total = 0.0
    for j in range(n):
        if x[j] > 0.0:
            total += x[j] * value[j]
    return total
