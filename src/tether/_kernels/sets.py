"""Extreme rows of a set of causal models: the counterfactual row with the smallest, or largest, expectation.

p is the observed row of a step and o its outcome, q the nominal row that is asked about. A set of causal models
(`tether.counterfactual.sets`) gives q a set X of counterfactual rows x. An extreme row of X is found greedily: go
through the outcomes in the order of their values, and give each as much probability as the limits leave.

Where X is a box (`NOTHING` and the two published sets) the limits are floor_j ≤ x_j ≤ cap_j. For `STABILITY`, with
r_j = q_j / p_j (∞ where p_j = 0) and levels the distinct r, ascending, mass moves only to strictly larger r, or stays:

    A(k) = P(levels ≤ k) - Q(levels ≤ k)                     what must have moved beyond level k
    x_j = 0 unless j = o or r_j > r_o;  x_j ≤ q_j / p_o;  x_o ≥ (q_o - A(l - 1)) / p_o,  l the level of o
    for each level k ≥ l:
    x(levels > k) + Σ_{j in level k, j ≠ o} (x_j - (q_j - p_j)⁺ / p_o)⁺ [where r_k > 1]  ≤  A(k) / p_o

These are nested caps. A(k) is summed from the top, Σ_{levels > k} (q_j - p_j): nothing cancels where little is left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tether._kernels.jit import kernel
from tether._types import Floats, Ints

NOTHING, STABILITY, PUBLISHED_STABILITY, PUBLISHED_MONOTONICITY = range(4)

_SAME_RATIO = 1e-14
"""Ratios this close, relatively, are equal, as in `tether._kernels.gumbel`: rows are normalised in floating point."""


_TOO_RARE = 1e-6
"""Where what was observed was less likely than this, the nested caps are lost in rounding. Stability at the observed
outcome alone is then used: a wider set, so that what holds in it still holds."""


class Observed(NamedTuple):
    """The observed step: its row (next states ascending), its outcome (-1 where not recorded) and its pair."""

    next_state: Ints
    probability: Floats
    outcome: int
    pair: int


class RowScratch(NamedTuple):
    """Room for one row: as long as the longest. ``x`` is the row that was found."""

    order: Ints
    x: Floats
    p: Floats
    cap: Floats
    floor: Floats
    level: Ints
    by_ratio: Ints
    slack: Floats


def scratch_for(longest: int) -> RowScratch:
    """Room for rows of so many outcomes."""
    n = longest + 1
    ints = (np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64))
    floats = [np.empty(n) for _ in range(5)]
    return RowScratch(ints[0], floats[0], floats[1], floats[2], floats[3], ints[1], ints[2], floats[4])


@kernel
def _sort(keys: Floats, order: Ints, n: int, sign: float) -> None:
    """Sort ``order[:n]`` by ``sign·keys``. Most rows are short, and are sorted by insertion."""
    if n <= 48:
        for i in range(1, n):
            item = order[i]
            key = sign * keys[item]
            j = i - 1
            while j >= 0 and sign * keys[order[j]] > key:
                order[j + 1] = order[j]
                j -= 1
            order[j + 1] = item
        return
    for start in range(n // 2 - 1, -1, -1):
        _sift(keys, order, start, n, sign)
    for end in range(n - 1, 0, -1):
        order[0], order[end] = order[end], order[0]
        _sift(keys, order, 0, end, sign)


@kernel
def _sift(keys: Floats, order: Ints, start: int, end: int, sign: float) -> None:
    root = start
    while 2 * root + 1 < end:
        child = 2 * root + 1
        if child + 1 < end and sign * keys[order[child]] < sign * keys[order[child + 1]]:
            child += 1
        if sign * keys[order[root]] >= sign * keys[order[child]]:
            return
        order[root], order[child] = order[child], order[root]
        root = child


@kernel
def _match(
    q_next: Ints, n: int, p_next: Ints, p_probability: Floats, outcome: int, p: Floats
) -> tuple[int, float, bool]:
    """p_j of each outcome of q, by merging; where o is in q (-1: nowhere), p_o, and whether the supports overlap."""
    at, o, overlap, p_o = 0, -1, False, 1.0
    for i in range(p_next.size):
        if p_next[i] == outcome:
            p_o = p_probability[i]
    for j in range(n):
        while at < p_next.size and p_next[at] < q_next[j]:
            at += 1
        p[j] = 0.0
        if at < p_next.size and p_next[at] == q_next[j]:
            p[j] = p_probability[at]
            overlap = True
        if q_next[j] == outcome:
            o = j
    return o, p_o, overlap


@kernel
def _box(q: Floats, n: int, o: int, p_o: float, overlap: bool, kind: int, room: RowScratch) -> None:
    """Floors and caps of the box-shaped sets."""
    p, cap, floor = room.p, room.cap, room.floor
    for j in range(n):
        floor[j] = 0.0
        cap[j] = min(1.0, q[j] / p_o)
        if kind == NOTHING or not overlap:
            continue
        if kind == PUBLISHED_MONOTONICITY:
            if j == o:
                floor[j] = q[j]
            elif p[j] > 0.0:
                cap[j] = min(cap[j], q[j])
        elif j != o and p[j] > 0.0 and (q[o] if o >= 0 else 0.0) * p[j] >= q[j] * p_o * (1.0 - _SAME_RATIO):
            cap[j] = 0.0


@kernel
def _fill_box(n: int, room: RowScratch) -> None:
    """Start from the floors and pour the rest in the given order, up to the caps."""
    order, x, cap, floor = room.order, room.x, room.cap, room.floor
    rest = 1.0
    for j in range(n):
        x[j] = floor[j]
        rest -= floor[j]
    for i in range(n):
        j = order[i]
        more = min(cap[j] - floor[j], rest)
        if more > 0.0:
            x[j] += more
            rest -= more
    _give_rest(n, rest, cap, order, x)


@kernel
def _give_rest(n: int, rest: float, cap: Floats, order: Ints, x: Floats) -> None:
    """What rounding left over goes to the last outcome that has any."""
    if rest > 0.0:
        for i in range(n - 1, -1, -1):
            if x[order[i]] > 0.0:
                x[order[i]] += rest
                return


@kernel
def _levels(q: Floats, n: int, o: int, p_o: float, room: RowScratch) -> float:
    """Levels above that of o: ``level[j]`` is 0 for o and what lies with or below it, else 1, 2, …. Returns A(l - 1).

    ``slack[k]`` becomes A(k) / p_o for k = 0 (the level of o) and each level above.
    """
    p, level, by_ratio, slack = room.p, room.level, room.by_ratio, room.slack
    r_o = q[o] / p_o if o >= 0 else 0.0
    above, beside = 0, 0.0
    for j in range(n):
        level[j] = 0
        if j != o and (p[j] == 0.0 or q[j] * (1.0 - _SAME_RATIO) > r_o * p[j]):
            by_ratio[above] = j
            above += 1
            continue
        if o >= 0 and q[j] >= r_o * p[j] * (1.0 - _SAME_RATIO):
            beside += q[j] - p[j]
    # Descending p / q is ascending r. The keys lie in `slack` while they are sorted.
    for i in range(above):
        j = by_ratio[i]
        slack[j] = p[j] / q[j]
    _sort(slack, by_ratio, above, -1.0)
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
    below = max(0.0, slack[0] + beside) if o >= 0 else 0.0
    for k in range(count + 1):
        slack[k] = max(0.0, slack[k]) / p_o
    return below


@kernel
def _fill_stable(q: Floats, n: int, o: int, p_o: float, room: RowScratch) -> None:
    """The nested caps of counterfactual stability, in the given order."""
    order, x, p, level, slack = room.order, room.x, room.p, room.level, room.slack
    below = _levels(q, n, o, p_o, room)
    for j in range(n):
        x[j] = 0.0
    rest = 1.0
    if o >= 0:
        x[o] = min(1.0, max(0.0, (q[o] - below) / p_o))
        rest -= x[o]
    for i in range(n):
        j = order[i]
        if rest <= 0.0:
            break
        if j == o:
            more = min(min(1.0, q[o] / p_o) - x[o], rest)
            if more > 0.0:
                x[o] += more
                rest -= more
            continue
        k = level[j]
        if k == 0:
            continue
        more = min(q[j] / p_o, rest)
        for lower in range(k):
            more = min(more, slack[lower])
        unlimited = max(0.0, q[j] - p[j]) / p_o
        grows = q[j] > p[j]
        if grows:
            more = min(more, unlimited + slack[k])
        if more <= 0.0:
            continue
        x[j] = more
        rest -= more
        for lower in range(k):
            slack[lower] -= more
        if grows and more > unlimited:
            slack[k] -= more - unlimited
    _give_rest(n, rest, room.cap, order, x)


@kernel
def extreme_row(
    q_next: Ints,
    q: Floats,
    value: Floats,
    n: int,
    pair: int,
    observed: Observed,
    kind: int,
    sign: float,
    room: RowScratch,
) -> float:
    """The smallest (``sign`` = 1) or largest (-1) expectation of ``value`` over the set; its row is in ``room.x``.

    The observed pair itself is the point mass at the outcome; where the outcome was not recorded the row is nominal.
    """
    x, order = room.x, room.order
    if observed.outcome < 0:
        for j in range(n):
            x[j] = q[j]
    elif pair == observed.pair:
        for j in range(n):
            x[j] = 1.0 if q_next[j] == observed.outcome else 0.0
    else:
        o, p_o, overlap = _match(q_next, n, observed.next_state, observed.probability, observed.outcome, room.p)
        for j in range(n):
            order[j] = j
        _sort(value, order, n, sign)
        if kind == STABILITY and overlap and p_o > _TOO_RARE:
            _fill_stable(q, n, o, p_o, room)
        else:
            _box(q, n, o, p_o, overlap, PUBLISHED_STABILITY if kind == STABILITY else kind, room)
            _fill_box(n, room)
    total = 0.0
    for j in range(n):
        if x[j] > 0.0:
            total += x[j] * value[j]
    return total
