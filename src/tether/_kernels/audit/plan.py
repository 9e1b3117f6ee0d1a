"""The best plan of an episode within k and m: backward induction over its layers."""

from __future__ import annotations

import numpy as np

from tether._foundation.arrays import Ints
from tether._kernels.audit.arrays import Batch, Model, Planning, RowPool
from tether._kernels.audit.search import find_observed, row_of_pair, rows_of_state
from tether._kernels.jit import kernel, part_of_kernel
from tether._kernels.plan import ROUNDING

ALLOWED, NEAR = 1, 2
"""Flags of a node: some pair is allowed; influence is met within k - 1 steps."""


@part_of_kernel
def columns_at(m: int, T: int, t: int) -> int:
    """For how many c (changes left) V is kept at time t."""
    return 1 if t == T else min(m, T - t + 1)


@part_of_kernel
def is_pair_allowed(next_state: Ints, low: int, high: int, flag: Ints, after: int, is_edited: bool) -> bool:
    """Whether all successors have an allowed pair, and influence is met within k: here, or from some successor on."""
    every, some = ALLOWED, NEAR if is_edited else 0
    for i in range(low, high):
        one = flag[after + next_state[i]]
        every &= one
        some |= one
    return every != 0 and some >= NEAR


@part_of_kernel
def plan_layer(
    model: Model, pool: RowPool, planning: Planning, t: int, T: int, k: int, m: int, sized: int, high_row: int,
    action: int,
) -> None:  # fmt: skip
    """One layer from the next: which of its nodes have an allowed pair, and V with c < m changes left."""
    n_states = model.pair_start.size - 1
    here, there = (t % 2) * n_states, ((t + 1) % 2) * n_states
    value, choice = planning.value, planning.choice
    columns, columns_after = columns_at(m, T, t), columns_at(m, T, t + 1)
    width = sized + m + 1  # how many numbers a state has: its size, and V for each c
    v_here, v_there = here * width, there * width
    ends_soon = t + k > T
    best, total = planning.numbers[: m + 2], planning.numbers[m + 2 : 2 * m + 4]
    for n in range(planning.layer_start[2 * t], planning.layer_start[2 * t + 1]):
        s = planning.layer[n]
        begin, end = model.pair_start[s], model.pair_start[s + 1]
        first_row = planning.edited[t * n_states + s] - 1
        last_row = rows_of_state(first_row, high_row, end - begin)
        at_observed = find_observed(model.pair_start, model.pair_action, s, action)
        all_free = at_observed < 0 and model.absorbing[s] > 0
        is_okay, size = ends_soon, 0.0  # if the end is within k, every pair is allowed from here on
        for c in range(columns):
            best[c] = -np.inf
            choice[(t * n_states + s) * (m + 1) + c] = -1
        for turn in range(end - begin + 1):
            x = at_observed if turn == 0 else begin + turn - 1
            if x < 0 or (turn > 0 and x == at_observed):
                continue
            shift = 0 if x == at_observed or all_free else 1
            if is_okay and columns <= shift:  # no other pair can change the numbers of this node
                break
            is_edited, successor, chance, gain, low, high = row_of_pair(model, pool, first_row, last_row, x)
            if not ends_soon:
                if not is_pair_allowed(successor, low, high, planning.flag, there, is_edited):
                    continue
                is_okay = True
            if columns <= shift:
                continue
            if sized > 0:
                total[m + 1] = 0.0
                for i in range(low, high):
                    total[m + 1] += chance[i] * value[v_there + successor[i] * width]
                size = max(size, abs(gain) + model.discount * total[m + 1])
            for c in range(columns_after):
                one = 0.0
                for i in range(low, high):
                    one += chance[i] * value[v_there + successor[i] * width + sized + c]
                total[c] = one
            tie = ROUNDING * size
            for c in range(columns - shift):
                found = gain + model.discount * total[min(c, columns_after - 1)]
                if found > best[c + shift] + tie:
                    best[c + shift] = found
                    choice[(t * n_states + s) * (m + 1) + c + shift] = x - begin
        planning.flag[here + s] = (ALLOWED if is_okay else 0) | (NEAR if planning.distance[t * n_states + s] < k else 0)
        largest = 0.0
        for c in range(columns):
            value[v_here + s * width + sized + c] = best[c]
            if largest < abs(best[c]) < np.inf:
                largest = abs(best[c])
        if sized > 0:
            value[v_here + s * width] = size + largest


@part_of_kernel
def plan_observed(
    model: Model, pool: RowPool, planning: Planning, t: int, T: int, k: int, m: int, sized: int, low_row: int,
    high_row: int, s: int, observed: int, known: bool, value_after: float,
) -> float:  # fmt: skip
    """V_t(s_t, m), with all changes left on the observed path; its choice is kept."""
    n_states = model.pair_start.size - 1
    there = ((t + 1) % 2) * n_states
    columns_after = columns_at(m, T, t + 1)
    width = sized + m + 1
    v_there = there * width
    begin, end = model.pair_start[s], model.pair_start[s + 1]
    values = planning.by_pair
    best, largest = -np.inf, 0.0
    for x in range(begin, end):
        values[x - begin] = -np.inf
        if m == 0 and x != observed:
            continue
        is_edited, successor, chance, gain, low, high = row_of_pair(model, pool, low_row, high_row, x)
        if t + k <= T and not is_pair_allowed(successor, low, high, planning.flag, there, is_edited):
            continue
        rest, size = 0.0, 0.0
        if known and x == observed:
            rest, size = value_after, abs(value_after)
        elif columns_after > 0:
            for i in range(low, high):
                after = planning.value[v_there + successor[i] * width + sized + columns_after - 1]
                rest += chance[i] * after
                size += chance[i] * (abs(after) if np.isfinite(after) else 0.0)
        found = gain + model.discount * rest
        if np.isnan(found):
            found = -np.inf
        values[x - begin] = found
        best = max(best, found)
        largest = max(largest, abs(gain) + model.discount * size)
    tie = ROUNDING * (T - t) * largest
    chosen = observed - begin
    if not values[chosen] >= best - tie:
        for x in range(end - begin):
            if values[x] >= best - tie:
                chosen = x
                break
    planning.choice[(t * n_states + s) * (m + 1) + m] = chosen
    value: float = values[chosen]
    return value


@kernel
def plan_episode(
    model: Model, pool: RowPool, planning: Planning, batch: Batch, first: int, T: int, k: int, m: int, keep: bool
) -> float:
    """The value of the best plan of one episode within k and m ≤ T; its choices are in ``planning``."""
    n_states = model.pair_start.size - 1
    sized = 1 if keep and m > 1 else 0
    width = sized + m + 1
    here = (T % 2) * n_states
    for n in range(planning.layer_start[2 * T], planning.layer_start[2 * T + 1]):
        s = planning.layer[n]
        planning.flag[here + s] = ALLOWED
        planning.value[(here + s) * width + sized] = model.final[s]
        if sized > 0:
            planning.value[(here + s) * width] = abs(model.final[s])
    found, known = 0.0, False
    for t in range(T - 1, -1, -1):
        at = batch.transition[first + t]
        low_row, high_row = batch.row_end[at], batch.row_end[at + 1]
        if m > 0 or k <= T:
            plan_layer(model, pool, planning, t, T, k, m, sized, high_row, batch.action[first + t])
        if m <= T - t:
            s, x = batch.state[first + t], batch.pair[first + t]
            found = plan_observed(model, pool, planning, t, T, k, m, sized, low_row, high_row, s, x, known, found)
            known = True
    return found
