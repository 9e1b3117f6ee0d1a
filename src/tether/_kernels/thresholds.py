"""κ: the smallest k at which each pair is allowed. It is computed with two primitives over the rows of a layer.

- `gather_nodes` goes backward: for each pair it takes the smallest distance and the largest κ of its successors;
- `spread` goes forward: for each pair it passes on to its successors the k from which on it leads to them.

Arrays over nodes are flat over [run, state]. Those of `gather_nodes` have two numbers of 16 bits per node in one of 32
bits, the first in the lower half, so one read gets both. Arrays over pairs are in the order of the nodes; the pairs of
a node begin at ``offsets[node]``.
"""

from __future__ import annotations

import numba
import numpy as np

from tether._foundation.arrays import Ints
from tether._kernels.jit import kernel, parallel_kernel, part_of_kernel
from tether._kernels.layer import LayerNodes, LayerRows
from tether._kernels.memory import AHEAD, FETCH_FROM, Index, prefetch_node
from tether._kernels.sorting import is_in, lower_bound, seek

FAR = 1 << 14
"""More than any horizon: it stands for ∞ in arrays of small integers."""

ZERO, ONE = np.uint64(0), np.uint64(1)  # unsigned, because a signed index is tested for being negative each time

AT_ONCE = np.uint64(16)
"""How many successors are read before checking whether the others can change the result."""

HALF, LOWER = np.int32(16), np.int32(0xFFFF)


@part_of_kernel
def _extremes(
    next_state: Ints, start: Index, stop: Index, after: Ints, base: Index, least: int, most: int
) -> tuple[int, int]:
    """The smallest first and the largest second number of a row's successors.

    The loop stops early once the first is at most ``least`` and the second at least ``most``: no more can change.
    """
    smallest, largest = np.int32(FAR), np.int32(0)
    while start < stop:
        pause = min(start + AT_ONCE, stop)
        for i in range(start, pause):
            both = after[base + np.uint64(next_state[i])]
            smallest = min(smallest, both & LOWER)
            largest = max(largest, both >> HALF)
        start = pause
        if smallest <= least and largest >= most:
            break
    return int(smallest), int(largest)


@kernel
def gather_nodes(
    nodes: LayerNodes,
    rows: LayerRows,
    offsets: Ints,
    cap: int,
    most: int,
    after: Ints,
    before: Ints,
    kappa: Ints,
    low_node: int,
    high_node: int,
) -> None:
    """Distances and thresholds of some nodes of a layer from those of the next.

        distance(pair) = 1 if it is influenced, else 1 + min over its successors' distances
        κ(pair)        = max(κ(pair) as given, min(distance(pair), cap), max over its successors' κ)

    A node has the smallest of the numbers of its pairs. ``after`` and ``before`` are (distance, κ) of the nodes of the
    next layer and of this one, ``kappa`` is the κ of pairs. No κ of the next layer exceeds ``most``. A row is not read
    further once ``most`` and a distance of 1 were found. If a distance of the next layer may be 0, ``most`` must
    therefore be a number that no κ has.
    """
    states, runs, with_runs, n_states = nodes
    pair_start, row_start, next_state = rows.pair_start, rows.row_start, rows.next_state
    edited, edit_start, edit_next = rows.edited, rows.edit_start, rows.edit_next
    influenced = rows.influenced
    one_run = np.uint64(n_states)
    fetch = after.size * 4 >= FETCH_FROM
    least = 1 if cap > 0 else FAR  # with cap = 0 distances are not used
    e = lower_bound(edited, pair_start[states[low_node]]) if low_node < high_node else 0
    for node in range(np.uint64(low_node), np.uint64(high_node)):
        s = np.uint64(states[node])
        begin, end = np.uint64(pair_start[s]), np.uint64(pair_start[s + ONE])
        if fetch and node + np.uint64(AHEAD) < np.uint64(high_node):
            ahead = np.uint64(states[node + np.uint64(AHEAD)])
            prefetch_node(ahead, pair_start, row_start, next_state, after, ONE)
        run = np.uint64(runs[node]) if with_runs else ZERO
        nearest, lowest = FAR, FAR
        to = np.uint64(offsets[node])
        e = seek(edited, e, np.int64(begin))
        any_edited = e < edited.size and np.uint64(edited[e]) < end
        for x in range(begin, end):
            if any_edited:
                e = seek(edited, e, np.int64(x))
            is_edited = any_edited and e < edited.size and np.uint64(edited[e]) == x
            is_influenced = is_edited and is_in(influenced, np.int64(x))
            base = (run + ONE) * one_run if with_runs and not is_influenced else ZERO
            if is_edited:
                first, beyond = np.uint64(edit_start[e]), np.uint64(edit_start[e + 1])
                near, worst = _extremes(edit_next, first, beyond, after, base, least, most)
            else:
                first, beyond = np.uint64(row_start[x]), np.uint64(row_start[x + ONE])
                near, worst = _extremes(next_state, first, beyond, after, base, least, most)
            distance = 1 if is_influenced else min(near + 1, FAR)
            worst = max(worst, kappa[to], min(distance, cap))
            kappa[to] = worst
            to += ONE
            nearest, lowest = min(nearest, distance), min(lowest, worst)
        before[run * one_run + s] = np.int32(nearest) | np.int32(lowest) << HALF


@parallel_kernel
def gather_all_nodes(
    nodes: LayerNodes,
    rows: LayerRows,
    offsets: Ints,
    cap: int,
    most: int,
    after: Ints,
    before: Ints,
    kappa: Ints,
    chunks: int,
) -> None:
    """All nodes of a layer in pieces, on all cores; the result does not depend on how many cores there are."""
    size = nodes.states.size
    for chunk in numba.prange(chunks):
        low, high = chunk * size // chunks, (chunk + 1) * size // chunks
        gather_nodes(nodes, rows, offsets, cap, most, after, before, kappa, low, high)


@part_of_kernel
def _raise(next_state: Ints, start: Index, stop: Index, out: Ints, base: Index, value: int) -> None:
    """Raise the numbers of the successors of a row to at least ``value``."""
    for i in range(start, stop):
        j = base + np.uint64(next_state[i])
        out[j] = max(out[j], value)


@kernel
def spread(
    nodes: LayerNodes, rows: LayerRows, offsets: Ints, reach: Ints, kappa: Ints, up_to: int, met: Ints, out: Ints
) -> None:
    """out(successor) = FAR - k, for the smallest k at which some pair leads to it.

    A pair leads to its successors from k = max(reach of its node, κ of the pair) on. If no pair leads to a node for
    k ≤ ``up_to``, its number stays. If ``reach`` is empty, every node is reached. Each k at which a pair comes into
    reach is marked in ``met``; its last item is for all larger k. Runs that are too long for ``out`` count as its
    longest run.
    """
    states, runs, with_runs, n_states = nodes
    pair_start, row_start, next_state = rows.pair_start, rows.row_start, rows.next_state
    edited, edit_start, edit_next = rows.edited, rows.edit_start, rows.edit_next
    influenced = rows.influenced
    longest, beyond = out.size // n_states - 1, met.size - 1
    e = i = 0
    for node in range(states.size):
        s = np.uint64(states[node])
        of_node = reach[node] if reach.size > 0 else np.int16(0)
        to = np.uint64(offsets[node])
        for x in range(np.uint64(pair_start[s]), np.uint64(pair_start[s + ONE])):
            from_k = max(of_node, kappa[to])
            to += ONE
            met[min(from_k, beyond)] = 1
            if from_k > up_to:
                continue
            e = seek(edited, e, np.int64(x))
            base = ZERO
            if with_runs:
                i = seek(influenced, i, np.int64(x))
                if not (i < influenced.size and influenced[i] == np.int64(x)):
                    base = np.uint64(min(runs[node] + 1, longest) * n_states)
            if e < edited.size and edited[e] == np.int64(x):
                successor, start, stop = edit_next, np.uint64(edit_start[e]), np.uint64(edit_start[e + 1])
            else:
                successor, start, stop = next_state, np.uint64(row_start[x]), np.uint64(row_start[x + ONE])
            _raise(successor, start, stop, out, base, FAR - from_k)
