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

from typing import Any, NamedTuple

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
    """One nominal row: its next states (ascending) and probabilities, from ``start`` on.

    If these are intervals, also their ends, from ``base`` on, and the largest probability of an outcome that was never
    seen.
    """

    next_state: Ints
    probability: Floats
    start: int
    lower: Floats
    upper: Floats
    base: int
    elsewhere: float


class RowLimits(NamedTuple):
    """The limits of rows of the set, by outcome, with one item more, for *elsewhere*; ``slack`` is by level."""

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
    row: Nominal, n: int, pair: int, step: Observed, kind: int, limits: RowLimits, at: Any, scratch: RowScratch
) -> int:
    """Write the limits of a row of the set, from ``at`` on; returns how the row is found: one of the four ways.

    The row of the observed pair is the point mass at the outcome. If the outcome was not recorded, rows are nominal.

    The nested caps: ``level[j]`` is 0 for o, 1, 2, … for outcomes with larger r, -1 for outcomes that cannot happen.
    ``slack[k]`` is A(k) / p_o for k = 0 (the level of o) and each higher level. ``low[o]`` is the least probability of
    o, and ``high`` is q / p_o. For the others ``low[j]`` is the part of x_j that the cap of their own level does not
    limit; -1 if that cap does not limit them.
    """
    q_next, probability, first, lower, upper, base, elsewhere = row
    p_next, p_probability, outcome, observed, p_o = step
    low, high, level, slack = limits
    _, _, _, p, by_ratio, keys = scratch
    is_known = pair == observed and outcome >= 0
    how, o, overlap, seen = _BOX, -1, False, 0
    nothing = np.int64(0)  # a literal would be a type of its own: sorting is compiled for each
    if is_known:
        how = _FIXED
    elif kind == INTERVALS:
        how = _TAIL
        low[at + n], high[at + n] = 0.0, elsewhere
    elif outcome < 0:
        how = _FIXED
    elif kind != NOTHING:  # p_j of each outcome of q, by merging; where o is in q; and whether the supports overlap
        for j in range(n):
            state = q_next[first + j]
            while seen < p_next.size and p_next[seen] < state:
                seen += 1
            p[j] = 0.0
            if seen < p_next.size and p_next[seen] == state:
                p[j] = p_probability[seen]
                overlap = True
            if state == outcome:
                o = j
        if kind == STABILITY and overlap and p_o > _TOO_RARE:
            how = _STABLE
    q_o = probability[first + o] if o >= 0 else 0.0
    r_o, above, beside = q_o / p_o, nothing, 0.0
    for j in range(n):
        q = probability[first + j]
        lowest, highest = 0.0, q / p_o
        highest = min(highest, 1.0)
        if how == _FIXED:
            lowest = q
            if is_known:
                lowest = 1.0 if q_next[first + j] == outcome else 0.0
        elif how == _TAIL:
            lowest, highest = lower[base + j], upper[base + j]
        elif how == _STABLE:
            lowest = (q - p[j]) / p_o if q > p[j] else -1.0
            level[at + j] = 0 if j == o else -1
            slack[at + j] = 0.0
            if j != o and (p[j] == 0.0 or q * (1.0 - _SAME_RATIO) > r_o * p[j]):
                by_ratio[above] = j
                keys[j] = -(p[j] / q)  # descending p / q is ascending r
                above += 1
            elif o >= 0 and q >= r_o * p[j] * (1.0 - _SAME_RATIO):
                beside += q - p[j]
        elif overlap:  # the published sets: stability at the observed outcome, and monotonicity
            if j == o:
                lowest = q if kind == PUBLISHED_MONOTONICITY else 0.0
            elif p[j] > 0.0:
                if q_o * p[j] >= q * p_o * (1.0 - _SAME_RATIO):
                    highest = 0.0
                elif kind == PUBLISHED_MONOTONICITY and highest > q:
                    highest = q
        low[at + j], high[at + j] = lowest, highest
    if how != _STABLE:
        return how
    slack[at + n] = 0.0
    sort_by(keys, by_ratio, nothing, above)
    count, last = 0, np.inf
    for i in range(above):
        j = by_ratio[i]
        if count == 0 or -keys[j] < last * (1.0 - _SAME_RATIO):
            count += 1
            last = -keys[j]
        level[at + j] = count
        slack[at + count - 1] += probability[first + j] - p[j]
    for k in range(count - 1, -1, -1):
        slack[at + k] += slack[at + k + 1]
    if o >= 0:
        least = slack[at] + beside
        least = (q_o - least) / p_o if least > 0.0 else q_o / p_o
        low[at + o] = min(1.0, max(0.0, least))
    for k in range(count + 1):
        slack[at + k] = slack[at + k] / p_o if slack[at + k] > 0.0 else 0.0
    return how


@piece
def width(how: int, n: int) -> int:
    """How many outcomes a row of n has, with *elsewhere* where it has one."""
    return n + 1 if how == _TAIL else n


@piece
def can_happen(how: int, limits: RowLimits, j: int) -> bool:
    """Whether some row of the set leads to an outcome."""
    if how == _FIXED:
        return bool(limits.low[j] > 0.0)
    if how == _STABLE:
        return bool(limits.level[j] >= 0)
    return bool(limits.high[j] > 0.0)


@kernel
def fill_row(
    how: int, limits: RowLimits, at: Any, n: int, order: Ints, first: Any, sign: float, chance: float,
    scratch: RowScratch,
) -> None:  # fmt: skip
    """Write the extreme row to ``scratch.x``: for outcomes in the given order (``sign`` = 1), or its reverse (-1).

    Its limits begin at ``at``, the order of its outcomes at ``first``. Outcomes are raised from their lower limits in
    order, each as far as all limits allow. Of a row with a tail, the first outcomes are then kept, up to a probability
    of ``chance`` in all, and rescaled to a row.
    """
    low, high, level, slack = limits
    _, x, _, _, _, left = scratch
    rest, levels = 1.0, 0
    for j in range(n):
        x[j] = low[at + j]
        if how == _STABLE:
            if level[at + j] != 0:
                x[j] = 0.0
            levels = max(levels, level[at + j])
        rest -= x[j]
    if how == _FIXED:
        return
    if how == _STABLE:
        for k in range(levels + 1):
            left[k] = slack[at + k]
    for i in range(n):
        if rest <= 0.0:
            break
        j = order[first + i] if sign > 0.0 else order[first + n - 1 - i]
        more = high[at + j] - x[j]
        more = min(more, rest)
        k = level[at + j] if how == _STABLE else 0
        if k < 0:
            continue
        for lower in range(k):
            more = min(more, left[lower])
        grows = k > 0 and low[at + j] >= 0.0
        if grows and low[at + j] + left[k] < more:
            more = low[at + j] + left[k]
        if more <= 0.0:
            continue
        x[j] += more
        rest -= more
        for lower in range(k):
            left[lower] -= more
        if grows and more > low[at + j]:
            left[k] -= more - low[at + j]
    for turn in range(2 if how == _TAIL else 1):
        if turn == 1:
            rest = 1.0
            for i in range(n):
                j = order[first + i] if sign > 0.0 else order[first + n - 1 - i]
                x[j] /= chance
                x[j] = min(x[j], rest)
                rest -= x[j]
        i = n - 1
        while i >= 0 and rest > 0.0:  # what rounding left over is added to the last outcome with a positive probability
            j = order[first + i] if sign > 0.0 else order[first + n - 1 - i]
            if x[j] > 0.0:
                x[j] += rest
                rest = 0.0
            i -= 1


@piece
def extreme_row(
    row: Nominal,
    value: Floats,
    first: int,
    n: int,
    pair: int,
    step: Observed,
    kind: int,
    sign: float,
    limits: RowLimits,
    scratch: RowScratch,
) -> float:
    """The smallest (``sign`` = 1) or largest (-1) mean of a value over the set; its row is in ``scratch.x``.

    ``value`` has that of its n outcomes from ``first`` on. *Elsewhere* is worth 0.
    """
    nothing = np.int64(0)
    order, x, values, _, _, _ = scratch
    how = limit_row(row, n, pair, step, kind, limits, nothing, scratch)
    wide = width(how, n)
    for j in range(wide):
        order[j] = j
        values[j] = value[first + j] if j < n else 0.0
    sort_by(values, order, nothing, wide)
    fill_row(how, limits, nothing, wide, order, nothing, sign, step.chance, scratch)
    return expectation(n, x, values)


@piece
def expectation(n: int, x: Floats, value: Floats) -> float:
    """Σ x·value over outcomes with x > 0."""
    total = 0.0
    for j in range(n):
        if x[j] > 0.0:
            total += x[j] * value[j]
    return total
