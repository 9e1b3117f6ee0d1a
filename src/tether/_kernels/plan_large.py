"""Backward induction on large layers, for one k and m = 2 or 3.

The same as `tether._kernels.plan`, bit by bit. A node has four numbers here: its size, and V for up to three c. They
stay in registers, which takes more than a third off the time. The general kernel keeps the numbers of a node in memory,
as they can be many.
"""

from __future__ import annotations

import numba
import numpy as np

from tether._kernels.four_sums import four_sums
from tether._kernels.jit import kernel, parallel_kernel, part_of_kernel
from tether._kernels.layer import LayerNodes, LayerRows
from tether._kernels.memory import AHEAD, FETCH_FROM, prefetch_node
from tether._kernels.plan import (
    FOUR,
    ONE,
    ROUNDING,
    THREE,
    TWO,
    ZERO,
    Limits,
    Objective,
    Values,
    find_pair,
    is_absorbing,
)
from tether._kernels.sorting import lower_bound, seek

__all__ = ["plan_few_numbers"]


@part_of_kernel
def _finite(value: float) -> float:
    """The size of a value; 0 of what is not allowed."""
    return abs(value) if abs(value) < np.inf else 0.0


@kernel
def _plan_some(
    nodes: LayerNodes, rows: LayerRows, limits: Limits, goal: Objective, values: Values, low_node: int, high_node: int
) -> None:
    """V_t(node, c) for c = 0, 1, 2 and the size of each of some nodes; see `tether._kernels.plan.plan_nodes`."""
    states = nodes.states
    pair_start, pair_action, row_start, next_state, probability = (
        rows.pair_start, rows.pair_action, rows.row_start, rows.next_state, rows.probability,
    )  # fmt: skip
    edited, edit_start, edit_next, edit_probability = (
        rows.edited, rows.edit_start, rows.edit_next, rows.edit_probability,
    )  # fmt: skip
    kappa, pair_offset, index_of_k = limits.kappa, limits.pair_offset, limits.index_of_k
    reward, edit_reward, discount, observed = goal
    after, before, choice = values.after, values.before, values.choice
    columns, columns_after, largest_kappa = values.columns, values.columns_after, index_of_k.size - 1
    fetch = after.size * 8 >= FETCH_FROM
    e = lower_bound(edited, pair_start[states[low_node]]) if low_node < high_node else 0
    for node in range(np.uint64(low_node), np.uint64(high_node)):
        s = np.uint64(states[node])
        begin, end = np.uint64(pair_start[s]), np.uint64(pair_start[s + ONE])
        if fetch and node + np.uint64(AHEAD) < np.uint64(high_node):
            ahead = np.uint64(states[node + np.uint64(AHEAD)])
            prefetch_node(ahead, pair_start, row_start, next_state, after, FOUR)
        kappa_at = np.uint64(pair_offset[node]) if kappa.size > 0 else ZERO
        at_observed = find_pair(pair_action, begin, end, observed)
        all_free = at_observed == end and is_absorbing(s, begin, end, row_start, next_state)
        size, best_0, best_1, best_2 = 0.0, -np.inf, -np.inf, -np.inf
        chosen_0, chosen_1, chosen_2 = np.int64(-1), np.int64(-1), np.int64(-1)
        e = seek(edited, e, np.int64(begin))
        any_edited = e < edited.size and np.uint64(edited[e]) < end
        for turn in range(end - begin + ONE):
            x = at_observed if turn == ZERO else begin + turn - ONE
            if x == end or (turn > ZERO and x == at_observed):
                continue
            if kappa.size > 0 and index_of_k[min(kappa[kappa_at + x - begin], largest_kappa)] > 0:
                continue
            if any_edited:
                e = seek(edited, e, np.int64(x))
            if any_edited and e < edited.size and np.uint64(edited[e]) == x:
                gain, start, stop = edit_reward[e], np.uint64(edit_start[e]), np.uint64(edit_start[e + 1])
                rest, at_0, at_1, at_2 = four_sums(edit_next, edit_probability, start, stop, after, ZERO, FOUR)
            else:
                gain, start, stop = reward[x], np.uint64(row_start[x]), np.uint64(row_start[x + ONE])
                rest, at_0, at_1, at_2 = four_sums(next_state, probability, start, stop, after, ZERO, FOUR)
            # Where there are more changes than steps, the last of them is of no use.
            at_1 = at_0 if columns_after < 2 else at_1
            at_2 = at_1 if columns_after < 3 else at_2
            size = max(size, abs(gain) + discount * rest)
            tie, action, free = ROUNDING * size, np.int64(x - begin), x == at_observed or all_free
            value_0 = gain + discount * at_0 if free else -np.inf
            value_1 = gain + discount * (at_1 if free else at_0)
            value_2 = gain + discount * (at_2 if free else at_1)
            better_0, better_1, better_2 = value_0 > best_0 + tie, value_1 > best_1 + tie, value_2 > best_2 + tie
            best_0, chosen_0 = value_0 if better_0 else best_0, action if better_0 else chosen_0
            best_1, chosen_1 = value_1 if better_1 else best_1, action if better_1 else chosen_1
            best_2, chosen_2 = value_2 if better_2 else best_2, action if better_2 else chosen_2
        best_2 = best_2 if columns == 3 else best_1
        to = s * FOUR
        before[to] = size + max(_finite(best_0), _finite(best_1), _finite(best_2))
        before[to + ONE] = best_0
        before[to + TWO] = best_1
        before[to + THREE] = best_2
        if choice.shape[0] > 0:
            choice[node, 0] = chosen_0
            choice[node, 1] = chosen_1
            if columns == 3:
                choice[node, 2] = chosen_2


@parallel_kernel
def plan_few_numbers(
    nodes: LayerNodes, rows: LayerRows, limits: Limits, goal: Objective, values: Values, chunks: int
) -> None:
    """All nodes of a layer in pieces, on all cores; the result does not depend on how many."""
    size = nodes.states.size
    for chunk in numba.prange(chunks):
        _plan_some(nodes, rows, limits, goal, values, chunk * size // chunks, (chunk + 1) * size // chunks)
