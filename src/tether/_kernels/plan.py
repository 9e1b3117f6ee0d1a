"""Backward induction: one layer of V_t(s, c), for some numbers c of changes left and for several k at once.

Numbers of a node (run, state) lie side by side, from ``(run·S + state)·width`` on: all c for the first k,
then all c for the next. Where choices are kept (for a single k), the first number of a node is its *size*, which bounds
what rounding can have done to its values: all that was added up on the way to them. Actions are tied if they differ
by less.

Nothing is read where nothing was written: a pair is taken for k only if its successors are allowed for k.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from tether._kernels.jit import kernel, parallel_kernel
from tether._kernels.layer import LayerNodes, LayerRows
from tether._kernels.memory import AHEAD, FETCH_FROM, Index, prefetch, prefetch_successors
from tether._kernels.sorting import lower_bound, seek
from tether._types import Floats, Ints

ROUNDING = 8 * 2.0**-52
"""Values that differ by less than this, relative to all that was added up on the way to them, are tied."""

# Unsigned indices: a signed one is tested for being negative each time.
ZERO, ONE = np.uint64(0), np.uint64(1)

_CACHE_LINE = 16
"""Numbers to keep between what two threads write: two lines of 64 bytes."""


class Objective(NamedTuple):
    """What a step is worth: expected rewards by pair and by edited row, γ; and what counts as a change.

    ``observed`` is the action that is no change; where it is negative no action is one. In states marked in ``free``
    no action is one either.
    """

    reward: Floats
    edit_reward: Floats
    discount: float
    observed: int
    free: Ints


class Limits(NamedTuple):
    """What is allowed, for each of several k.

    Pair x of a node is allowed for the k of index ``index_of_k[κ]`` and beyond (its last item stands for any larger
    κ), its κ standing in ``kappa`` from ``pair_offset`` on; all are where ``kappa`` is empty. A node matters from
    the k of index ``first_k`` on.
    """

    kappa: Ints
    pair_offset: Ints
    index_of_k: Ints
    first_k: Ints
    n_ks: int


class Values(NamedTuple):
    """V of the next layer and of this one, with their numbers of columns c; and the choices.

    Beyond its last column V of the next layer does not change any more. ``sized`` is 1 where nodes have a size, else 0.
    ``choice[node, c]``, if it has rows, is the number of the chosen pair among those of the state, -1 where none is
    allowed (the value is then -∞).
    """

    after: Floats
    columns_after: int
    before: Floats
    columns: int
    sized: int
    choice: Ints


@kernel
def _find(pair_action: Ints, begin: Index, end: Index, action: int) -> Index:
    """The pair of a state with an action, or ``end``."""
    for x in range(begin, end):
        if pair_action[x] == action:
            return x
    return end


@kernel
def _add_up(
    next_state: Ints,
    probability: Floats,
    start: Index,
    stop: Index,
    after: Floats,
    base: Index,
    width: Index,
    low: Index,
    high: Index,
    total: Floats,
) -> None:
    """Expectation under a row of each of the numbers ``low`` … ``high`` - 1 of its successors."""
    for c in range(low, high):
        total[c] = 0.0
    for i in range(start, stop):
        p, there = probability[i], base + np.uint64(next_state[i]) * width
        for c in range(low, high):
            total[c] += p * after[there + c]


@kernel
def _improve(best: Floats, at: Index, total: Floats, source: Index, n: Index, gain: float, discount: float) -> None:
    """The larger of what was found before and ``gain + γ·total``, for ``n`` columns."""
    for c in range(n):
        value = gain + discount * total[source + c]
        best[at + c] = value if value > best[at + c] else best[at + c]


@kernel
def _choose(
    best: Floats,
    at: Index,
    total: Floats,
    source: Index,
    n: Index,
    gain: float,
    discount: float,
    tie: float,
    choice: Ints,
    node: Index,
    number: Index,
) -> None:
    """The same where choices are kept: what is better by less than ``tie`` is not chosen."""
    for c in range(n):
        value = gain + discount * total[source + c]
        if value > best[at + c] + tie:
            best[at + c] = value
            choice[node, at + c] = number


@kernel
def plan_nodes(
    nodes: LayerNodes,
    rows: LayerRows,
    limits: Limits,
    goal: Objective,
    values: Values,
    low_node: int,
    high_node: int,
    total: Floats,
    best: Floats,
) -> None:
    """V_t(node, c) = max over allowed a of R + γ·Σ P_cf·V_{t+1}(s', c - [a ≠ a_t]), for each k; for some nodes.

    In each node the observed action is tried first, then the others in their order: ties change nothing. Column c
    looks at column c of the next layer if the action is no change, else at c - 1; with no change left only the
    observed action counts. ``total`` and ``best`` are scratch for the numbers of one node.
    """
    states, runs, with_runs, n_states = nodes
    pair_start, pair_action, row_start, next_state, probability = (
        rows.pair_start, rows.pair_action, rows.row_start, rows.next_state, rows.probability,
    )  # fmt: skip
    edited, edit_start, edit_next, edit_probability = (
        rows.edited, rows.edit_start, rows.edit_next, rows.edit_probability,
    )  # fmt: skip
    influenced = rows.influenced
    kappa, pair_offset, index_of_k, first_k, n_ks = limits
    reward, edit_reward, discount, observed, free = goal
    after, before, choice = values.after, values.before, values.choice
    sized, columns, columns_after = np.uint64(values.sized), np.uint64(values.columns), np.uint64(values.columns_after)
    width, width_after = sized + np.uint64(n_ks) * columns, sized + np.uint64(n_ks) * columns_after
    one_run = np.uint64(n_states) * width_after
    keeps = choice.shape[0] > 0
    without_changes = observed >= 0 and columns == ONE
    largest_kappa = index_of_k.size - 1
    fetch = after.size * 8 >= FETCH_FROM
    e = i = 0
    if low_node < high_node:
        e = lower_bound(edited, pair_start[states[low_node]])
        i = lower_bound(influenced, pair_start[states[low_node]])
    for node in range(np.uint64(low_node), np.uint64(high_node)):
        s = np.uint64(states[node])
        if fetch and node + np.uint64(AHEAD) < np.uint64(high_node):
            ahead = np.uint64(states[node + np.uint64(AHEAD)])
            if without_changes:
                last = np.uint64(pair_start[ahead + ONE])
                x = _find(pair_action, np.uint64(pair_start[ahead]), last, observed)
                if x < last:
                    for entry in range(np.uint64(row_start[x]), np.uint64(row_start[x + ONE])):
                        prefetch(after, np.uint64(next_state[entry]) * width_after)
            else:
                prefetch_successors(ahead, pair_start, row_start, next_state, after, width_after)
        run = np.uint64(runs[node]) if with_runs else ZERO
        first = first_k[node] if first_k.size > 0 else 0
        kappa_at = np.uint64(pair_offset[node]) if kappa.size > 0 else ZERO
        begin, end = np.uint64(pair_start[s]), np.uint64(pair_start[s + ONE])
        at_observed = _find(pair_action, begin, end, observed)
        all_free = observed < 0 or (at_observed == end and free[s] != 0)
        size = 0.0
        for c in range(width - sized):
            best[c] = -np.inf
        if keeps:
            for c in range(columns):
                choice[node, c] = -1
        for turn in range(end - begin + ONE):
            x = at_observed if turn == ZERO else begin + turn - ONE
            if x == end or (turn > ZERO and x == at_observed):
                continue
            is_change = x != at_observed and not all_free
            from_k = first
            if kappa.size > 0:
                from_k = max(from_k, index_of_k[np.uint64(min(kappa[kappa_at + x - begin], largest_kappa))])
            if from_k >= n_ks or (is_change and without_changes):
                continue
            base = ZERO
            if with_runs:
                i = seek(influenced, i, x)
                if not (i < influenced.size and influenced[i] == x):
                    base = (run + ONE) * one_run
            shift = ONE if is_change else ZERO
            low = ZERO if sized else np.uint64(from_k) * columns_after
            high = width_after - columns_after + min(columns - shift, columns_after)
            e = seek(edited, e, x)
            if e < edited.size and edited[e] == x:
                gain = edit_reward[e]
                start, stop = np.uint64(edit_start[e]), np.uint64(edit_start[e + 1])
                _add_up(edit_next, edit_probability, start, stop, after, base, width_after, low, high, total)
            else:
                gain = reward[x]
                start, stop = np.uint64(row_start[x]), np.uint64(row_start[x + ONE])
                _add_up(next_state, probability, start, stop, after, base, width_after, low, high, total)
            if sized:
                size = max(size, abs(gain) + discount * total[0])
            for ki in range(np.uint64(from_k), np.uint64(n_ks)):
                at, source = ki * columns + shift, sized + ki * columns_after
                n = min(columns - shift, columns_after)
                rest = columns - shift - n  # where there are more changes than steps, the last of them is of no use
                if keeps:
                    tie, number = ROUNDING * size, x - begin
                    _choose(best, at, total, source, n, gain, discount, tie, choice, node, number)
                    if rest > ZERO:
                        last_column = source + n - ONE
                        _choose(best, at + n, total, last_column, ONE, gain, discount, tie, choice, node, number)
                else:
                    _improve(best, at, total, source, n, gain, discount)
                    if rest > ZERO:
                        _improve(best, at + n, total, source + n - ONE, ONE, gain, discount)
        to = (run * np.uint64(n_states) + s) * width
        largest = 0.0
        for c in range(width - sized):
            before[to + sized + c] = best[c]
            if largest < abs(best[c]) < np.inf:
                largest = abs(best[c])
        if sized:
            before[to] = size + largest


def scratch_for(width: int, chunks: int) -> Floats:
    """Scratch for nodes of so many numbers, twice, for some pieces of a layer side by side."""
    return np.empty((chunks, 2, width + _CACHE_LINE))  # no two threads write to one cache line


@parallel_kernel
def plan_all_nodes(
    nodes: LayerNodes, rows: LayerRows, limits: Limits, goal: Objective, values: Values, scratch: Floats
) -> None:
    """All nodes of a layer in pieces, on all cores; the result does not depend on how many."""
    size, chunks = nodes.states.size, scratch.shape[0]
    for chunk in numba.prange(chunks):
        low, high = chunk * size // chunks, (chunk + 1) * size // chunks
        plan_nodes(nodes, rows, limits, goal, values, low, high, scratch[chunk, 0], scratch[chunk, 1])
