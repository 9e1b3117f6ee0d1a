"""One layer of plans for several hidden types: the vectors of values, one number for each type, that policies can have.

    G_t(s, c) = ∪_a ⊕_j diag(P_1(j), P_2(j), …)·(R + γ·G_{t+1}(j, c - [a ≠ a_t]))      ⊕: the Minkowski sum

Vectors that are best for no belief are left out; see `tether.plan.hidden_types`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints
from tether._kernels.best_somewhere import best_somewhere
from tether._kernels.jit import kernel

_SAME = 1e-12
"""Values that differ by less than this, in proportion, are equal."""

_FREE = 1e-14
"""What may be lost at a node, in proportion: it is only rounding."""

_FEW = 256
"""Up to so many vectors of two types none is left out for being as good as its neighbours up to rounding."""

MANY = 1 << 30
"""Where so many vectors of two types may be kept, none is left out."""


class StepRows(NamedTuple):
    """The rows of all pairs at one step, side by side for all types: ``probability`` and ``reward`` have a column each.

    A pair that is not ``allowed`` is not taken. ``differs`` says that it is a change.
    """

    pair_start: Ints
    row_start: Ints
    next_state: Ints
    probability: Floats
    reward: Floats
    allowed: Flags
    differs: Flags


class Vectors(NamedTuple):
    """The vectors of a layer: node i with c changes left has those from ``start[i * columns + c]`` to the next start.

    Those of two types are in the order of the belief for which they are best, those for the second type first.
    ``place`` says which node a state is, -1 for none. ``pair`` is what is taken; ``back[back_start[v]:]`` has, for each
    entry of its row, the number of the vector of the next state, -1 where no type leads there.
    """

    place: Ints
    columns: int
    start: Ints
    values: Floats
    pair: Ints
    back_start: Ints
    back: Ints


@kernel
def _hull(values: Floats) -> Ints:
    """Two types: the vectors that are best for some belief, in the order of these beliefs; of equal ones the first.

    Each is a line over the chance b of the first type, v_2 + b·(v_1 - v_2); lines are added from the flattest on.
    """
    n = values.shape[0]
    largest = 1.0
    for i in range(n):
        largest = max(largest, abs(values[i, 0]), abs(values[i, 1]))
    near = _SAME * largest
    slope = values[:, 0] - values[:, 1]
    order = np.argsort(slope, kind="mergesort")
    kept, size = np.empty(n, np.int64), 0
    passed = np.zeros(n)  # from which b on each is the best
    for i in order:
        before = 0.0
        skipped = False
        while size:
            top = kept[size - 1]
            steeper = slope[i] - slope[top]
            if steeper <= near:
                if values[i, 1] <= values[top, 1] + near:
                    skipped = True
                    break
                size -= 1
                continue
            before = (values[top, 1] - values[i, 1]) / steeper
            if before <= (passed[size - 1] + _SAME if size > 1 else near / steeper):
                size -= 1
                before = 0.0
                continue
            break
        if skipped or (size and before >= 1.0):
            continue
        kept[size], passed[size] = i, before
        size += 1
    return kept[:size].copy()


@kernel
def _thinned(values: Floats, most: int) -> tuple[Ints, float]:
    """Some vectors of a hull, with at most ``most``, and how much is lost by that for the worst belief.

    A vector is left out if its neighbours are as good up to rounding; if too many are left, up to ten times more, and
    so on. Only what is more than rounding counts as lost.
    """
    n = values.shape[0]
    largest = 1.0
    for i in range(n):
        largest = max(largest, abs(values[i, 0]), abs(values[i, 1]))
    allowed = _FREE * largest
    while True:
        kept, size, lost = np.empty(n, np.int64), 0, 0.0
        i = 0
        while i < n:
            kept[size] = i
            size += 1
            step, worst = 1, 0.0
            while i + step + 1 < n:  # may the vectors between i and i + step + 1 be left out?
                gap = _gap(values, i, i + step + 1)
                if gap > allowed:
                    break
                worst = gap
                step += 1
            lost = max(lost, worst)
            i += step
        if size <= most:
            return kept[:size].copy(), lost if allowed > _FREE * largest else 0.0
        allowed *= 10.0


@kernel
def _gap(values: Floats, low: int, high: int) -> float:
    """How much the vectors between two are better than both, where these two are equal."""
    rise = values[high, 0] - values[low, 0]
    fall = values[low, 1] - values[high, 1]
    b = fall / (rise + fall)
    height = b * values[low, 0] + (1.0 - b) * values[low, 1]
    gap = 0.0
    for i in range(low + 1, high):
        gap = max(gap, b * values[i, 0] + (1.0 - b) * values[i, 1] - height)
    return gap


@kernel
def _pruned(values: Floats, most: int) -> tuple[Ints, float]:
    """The vectors that are kept, and how much leaving out others may lose; infinite if that is not known."""
    if values.shape[0] <= 1:
        return np.arange(values.shape[0]), 0.0
    if values.shape[1] == 1:
        best = 0
        for i in range(1, values.shape[0]):
            if values[i, 0] > values[best, 0] + _SAME * max(1.0, abs(values[best, 0])):
                best = i
        return np.array([best]), 0.0
    if values.shape[1] == 2:
        kept = _hull(values)
        if most == MANY or kept.size <= min(_FEW, most):
            return kept, 0.0
        few, lost = _thinned(values[kept], most)
        return kept[few], lost
    return best_somewhere(values, most)


@kernel
def _of_pair_of_two(
    pair: int, changes: int, rows: StepRows, after: Vectors, discount: float, most: int
) -> tuple[Floats, Ints, float]:
    """`_of_pair` for two types: the hull of a Minkowski sum has the edges of all hulls, in the order of their slopes.

    Vectors are in the order of the belief for which they are best. An edge from v to w is passed where the chance of
    the first type is b = (v_2 - w_2) / (v_2 - w_2 + w_1 - v_1).
    """
    first, last = rows.row_start[pair], rows.row_start[pair + 1]
    empty = np.empty((0, 2)), np.empty((0, last - first), np.int64), 0.0
    number = np.full(last - first, -1)
    point = rows.reward[pair].copy()
    size = 0
    for e in range(first, last):
        one, two = discount * rows.probability[e, 0], discount * rows.probability[e, 1]
        if rows.probability[e, 0] <= 0.0 and rows.probability[e, 1] <= 0.0:
            continue
        cell = after.place[rows.next_state[e]] * after.columns + min(changes, after.columns - 1)
        begin, end = after.start[cell], after.start[cell + 1]
        if begin == end:
            return empty
        number[e - first] = 0
        size += end - begin - 1
        point[0] += one * after.values[begin, 0]
        point[1] += two * after.values[begin, 1]
    passed, owner, step = np.empty(size), np.empty(size, np.int64), np.empty((size, 2))
    n = 0
    for e in range(first, last):
        if number[e - first] < 0:
            continue
        one, two = discount * rows.probability[e, 0], discount * rows.probability[e, 1]
        cell = after.place[rows.next_state[e]] * after.columns + min(changes, after.columns - 1)
        for v in range(after.start[cell] + 1, after.start[cell + 1]):
            more = one * (after.values[v, 0] - after.values[v - 1, 0])
            less = two * (after.values[v - 1, 1] - after.values[v, 1])
            if more + less <= 0.0:
                continue
            passed[n], owner[n], step[n, 0], step[n, 1] = less / (more + less), e - first, more, -less
            n += 1
    order = np.argsort(passed[:n], kind="mergesort")
    values, after_edges = np.empty((n + 1, 2)), np.empty(n + 1, np.int64)
    size = 0
    for i in range(n + 1):
        b = passed[order[i]] if i < n else 2.0
        before = passed[order[i - 1]] if i > 0 else 0.0
        if b > before + _SAME:  # a vertex: the edges so far are those that are passed before b
            values[size], after_edges[size] = point, i
            size += 1
        if i == n or b >= 1.0 - _SAME:
            break
        point += step[order[i]]
    kept, lost = np.arange(size), 0.0
    if most < MANY and size > min(_FEW, most):
        kept, lost = _thinned(values[:size], most)
    back = np.empty((kept.size, last - first), np.int64)
    passed_by = 0
    for v in range(kept.size):
        while passed_by < after_edges[kept[v]]:
            number[owner[order[passed_by]]] += 1
            passed_by += 1
        back[v] = number
    return values[kept], back, lost


@kernel
def _of_pair(
    pair: int, changes: int, rows: StepRows, after: Vectors, discount: float, most: int
) -> tuple[Floats, Ints, float]:
    """The vectors of one pair, and their numbers by entry; none if some next state has none."""
    types = after.values.shape[1]
    if types == 2:
        return _of_pair_of_two(pair, changes, rows, after, discount, most)
    first, last = rows.row_start[pair], rows.row_start[pair + 1]
    values, back = np.empty((1, types)), np.full((1, last - first), -1)
    values[0] = rows.reward[pair]
    lost = 0.0
    for e in range(first, last):
        met = False
        for z in range(types):
            met = met or rows.probability[e, z] > 0.0
        if not met:
            continue
        node = after.place[rows.next_state[e]]
        cell = node * after.columns + min(changes, after.columns - 1)
        some = after.values[after.start[cell] : after.start[cell + 1]]
        if some.shape[0] == 0:
            return np.empty((0, types)), np.empty((0, last - first), np.int64), lost
        n = values.shape[0] * some.shape[0]
        sums, numbers = np.empty((n, types)), np.empty((n, 2), np.int64)
        for i in range(values.shape[0]):
            for j in range(some.shape[0]):
                at = i * some.shape[0] + j
                numbers[at, 0], numbers[at, 1] = i, j
                for z in range(types):
                    sums[at, z] = values[i, z] + discount * rows.probability[e, z] * some[j, z]
        kept, cut = _pruned(sums, most)
        lost += cut
        values, onward = sums[kept], np.empty((kept.size, last - first), np.int64)
        for i in range(kept.size):
            onward[i] = back[numbers[kept[i], 0]]
            onward[i, e - first] = numbers[kept[i], 1]
        back = onward
    return values, back, lost


@kernel
def layer_of_vectors(
    states: Ints,
    place: Ints,
    columns: int,
    seen: int,
    observed: Ints,
    rows: StepRows,
    after: Vectors,
    discount: float,
    most: int,
) -> tuple[Vectors, float]:
    """The vectors of a layer, and how much leaving out some may lose; ``observed`` has a pair for each state.

    Plans with all changes left are met in the state ``seen`` alone (-1: anywhere). The observed pair comes first: of
    equal vectors the first is kept.
    """
    types = after.values.shape[1]
    start = np.zeros(states.size * columns + 1, np.int64)
    size, room, room_back, size_back = 0, 64, 256, 0
    found, taken = np.empty((room, types)), np.empty(room, np.int64)
    back_start, back = np.zeros(room + 1, np.int64), np.empty(room_back, np.int64)
    lost = 0.0
    for i in range(states.size):
        s = states[i]
        for c in range(columns):
            cell = i * columns + c
            start[cell + 1] = start[cell]
            if columns > 1 and c == columns - 1 and seen >= 0 and s != seen:
                continue
            begin, end = rows.pair_start[s], rows.pair_start[s + 1]
            own = np.empty((0, types))
            own_pair = np.empty(0, np.int64)
            own_row = np.empty((0, 2), np.int64)
            at_pair = 0.0
            backs = [np.empty((0, 0), np.int64) for _ in range(0)]
            for step in range(end - begin + 1):
                pair = observed[s] if step == 0 else begin + step - 1
                if pair < 0 or (step > 0 and pair == observed[s]) or not rows.allowed[pair]:
                    continue
                left = c - (1 if rows.differs[pair] else 0)
                if left < 0:
                    continue
                values, numbers, cut = _of_pair(pair, left, rows, after, discount, most)
                at_pair = max(at_pair, cut)
                if values.shape[0] == 0:
                    continue
                own = np.concatenate((own, values))
                own_pair = np.concatenate((own_pair, np.full(values.shape[0], pair)))
                row_of = np.full((values.shape[0], 2), len(backs))
                row_of[:, 1] = np.arange(values.shape[0])
                own_row = np.concatenate((own_row, row_of))
                backs.append(numbers)
            kept, cut = _pruned(own, most)
            lost = max(lost, at_pair + cut)
            for v in kept:
                row = backs[own_row[v, 0]][own_row[v, 1]]
                if size == room:
                    room *= 2
                    found = np.concatenate((found, np.empty((size, types))))
                    taken = np.concatenate((taken, np.empty(size, np.int64)))
                    back_start = np.concatenate((back_start, np.zeros(size, np.int64)))
                while size_back + row.size > room_back:
                    back = np.concatenate((back, np.empty(room_back, np.int64)))
                    room_back *= 2
                found[size], taken[size] = own[v], own_pair[v]
                back[size_back : size_back + row.size] = row
                size, size_back = size + 1, size_back + row.size
                back_start[size] = size_back
            start[cell + 1] = size
    return Vectors(place, columns, start, found[:size], taken[:size], back_start[: size + 1], back[:size_back]), lost
