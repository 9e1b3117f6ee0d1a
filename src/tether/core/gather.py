"""One layer of κ, the smallest k at which each pair is allowed, from the next layer; and what each k reaches.

    distance(pair) = 1 if it is influenced, else 1 + min over its successors' distances
    κ(pair)        = max(own threshold of the rule, max over its successors' κ)
    κ(node)        = min over its pairs

A node without pairs ends a path: κ = 1, and no influence follows. The rules are in `tether.core.thresholds`.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from tether._foundation.arrays import Ints
from tether._kernels.jit import kernel, parallel_kernel
from tether._kernels.order import first_from
from tether._kernels.parallel import CHUNKS, use_cores
from tether._kernels.scratch import scratch_array
from tether.core.batch import Edits, Layer, Model, Nodes
from tether.core.slots import enter, slots_for, successor

FAR = 1 << 14
"""More than any horizon: it stands for ∞ in arrays of small integers."""

_AT_ONCE = np.uint64(16)
"""How many successors are read before checking whether the others can change the result."""

_HALF, _LOWER = np.int32(16), np.int32(0xFFFF)
_FAR, _NEAR = np.int32(FAR), np.int32(0)


def gather(
    model: Model, layer: Layer, after: Nodes, near_after: Ints, kappa_after: Ints, own: Ints, cap: Ints
) -> tuple[Ints, Ints]:
    """Distances and κ of the nodes of a layer, from those of the next layer; ``own`` becomes the κ of the pairs.

    ``own`` has the threshold of each pair by a rule. If ``cap`` is not empty, the distance is the rule's threshold, up
    to the ``cap`` of its episode.
    """
    near, kappa = np.empty(layer.size, np.int16), np.empty(layer.size, np.int16)
    levels = scratch_array(model.n_states, np.int32, touched=after.states.size)
    arrays = near_after, kappa_after, own, cap, levels, near, kappa
    if after.first.size == 2 and use_cores(layer.size):
        _enter_levels(after, 0, near_after, kappa_after, levels)
        cuts = np.linspace(0, layer.size, CHUNKS + 1).astype(np.int64)
        _gather_chunks(model, layer.nodes, layer.edits, after, *arrays, cuts, False)
    else:
        _gather_nodes(model, layer.nodes, layer.edits, after, *arrays, 0, layer.size, True)
    return near, kappa


@kernel
def _enter_levels(after: Nodes, b: int, near: Ints, kappa: Ints, levels: Ints) -> None:
    """Enter distance and κ of the nodes of an episode by state: one number of 32 bits, one read for both."""
    first, state, _, _ = after
    for node in range(first[b], first[b + 1]):
        levels[state[node]] = np.int32(near[node]) | np.int32(kappa[node]) << _HALF


@kernel
def _gather_nodes(
    model: Model, nodes: Nodes, edits: Edits, after: Nodes, near_after: Ints, kappa_after: Ints, own: Ints, caps: Ints,
    levels: Ints, near: Ints, kappa: Ints, low: int, high: int, enters: bool,
) -> None:  # fmt: skip
    """Distances and κ of the nodes ``low … high - 1``; ``enters``: those of their successors are entered first."""
    # Records are unpacked first: reading a field within a loop would count references there.
    pair_start, _, row_start, next_state, _ = model
    node_first, state, _, offset = nodes
    position, row, influenced, edit_start, edit_next, _ = edits
    n_edits = position.size
    e = first_from(position, 0, n_edits, offset[low]) if low < high else 0
    for b in range(node_first.size - 1):
        if enters:
            _enter_levels(after, b, near_after, kappa_after, levels)
        cap = caps[b] if caps.size > 0 else 0
        most = cap - 1 if cap > 0 else FAR
        for node in range(max(low, node_first[b]), min(high, node_first[b + 1])):
            begin, end = offset[node], offset[node + 1]
            if begin == end:
                near[node], kappa[node] = FAR, 1
                continue
            first = pair_start[state[node]]
            nearest, lowest = np.int64(FAR), np.int64(FAR)
            # Items are chosen in the loop over a row, not arrays before it: these would count references, as a call
            # with arrays would. The loop stops once the distance is at most 1 and κ at least `most`.
            for at in range(begin, end):
                closest, worst = _FAR, _NEAR
                while e < n_edits and position[e] < at:
                    e += 1
                is_edited = e < n_edits and position[e] == at
                is_influenced = is_edited and influenced[e] > 0
                r = row[e] if is_edited else first + at - begin
                start, end_of = (edit_start[r], edit_start[r + 1]) if is_edited else (row_start[r], row_start[r + 1])
                i, stop = np.uint64(start), np.uint64(end_of)
                while i < stop:
                    pause = min(i + _AT_ONCE, stop)
                    for j in range(i, pause):
                        both = levels[np.uint64(edit_next[j] if is_edited else next_state[j])]
                        closest, worst = min(closest, both & _LOWER), max(worst, both >> _HALF)
                    if closest <= 1 and worst >= most:
                        break  # no more can change
                    i = pause
                distance: Any = np.int64(1) if is_influenced else min(np.int64(closest) + 1, FAR)
                of_pair = max(np.int64(own[at]), min(distance, cap))
                of_pair = max(of_pair, np.int64(worst))
                own[at] = of_pair
                nearest, lowest = min(nearest, distance), min(lowest, of_pair)
            near[node], kappa[node] = nearest, lowest


@parallel_kernel
def _gather_chunks(
    model: Model, nodes: Nodes, edits: Edits, after: Nodes, near_after: Ints, kappa_after: Ints, own: Ints, caps: Ints,
    levels: Ints, near: Ints, kappa: Ints, cuts: Ints, enters: bool,
) -> None:  # fmt: skip
    for c in numba.prange(cuts.size - 1):
        _gather_nodes(
            model, nodes, edits, after, near_after, kappa_after, own, caps, levels, near, kappa, cuts[c],
            cuts[c + 1], enters,
        )  # fmt: skip


def spread(model: Model, layer: Layer, after: Nodes, reach: Ints, kappa: Ints) -> Ints:
    """The smallest k at which each node of the next layer is reached; `FAR` if none reaches it.

    A pair leads to its successors from k = max(``reach`` of its node, its κ) on.
    """
    out = np.full(after.states.size, FAR, np.int16)
    slots = slots_for(after, model.n_states)
    _spread(model, layer.nodes, layer.edits, after, reach, kappa, slots, out)
    return out


@kernel
def _spread(
    model: Model, nodes: Nodes, edits: Edits, after: Nodes, reach: Ints, kappa: Ints, slots: Ints, out: Ints
) -> None:
    pair_start, _, row_start, next_state, _ = model
    node_first, states, runs, offsets = nodes
    position, row, influenced, edit_start, edit_next, _ = edits
    n_states, e, zero = pair_start.size - 1, 0, np.int64(0)
    longest = slots.size - n_states
    for b in range(node_first.size - 1):
        enter(after, b, n_states, slots)
        for node in range(node_first[b], node_first[b + 1]):
            begin, first = offsets[node], pair_start[states[node]]
            for at in range(begin, offsets[node + 1]):
                from_k = max(np.int64(reach[node]), np.int64(kappa[at]))
                while e < position.size and position[e] < at:
                    e += 1
                is_edited = e < position.size and position[e] == at
                base = zero
                if runs.size > 0 and not (is_edited and influenced[e] > 0):
                    base = (runs[node] + 1) * n_states
                if from_k >= FAR or (base > 0 and base > longest):
                    continue
                r = row[e] if is_edited else first + at - begin
                start, stop = (edit_start[r], edit_start[r + 1]) if is_edited else (row_start[r], row_start[r + 1])
                for i in range(start, stop):
                    j = successor(slots, base, edit_next[i] if is_edited else next_state[i])
                    out[j] = min(np.int64(out[j]), from_k)
