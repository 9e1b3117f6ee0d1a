"""Conditioning: what the episodes of a batch can reach, layer by layer, with the rows that each observed step edits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tether._foundation.arrays import Flags, Ints
from tether._kernels.jit import kernel, piece
from tether._kernels.scratch import scratch_array
from tether.core.batch import NO_EDITS, NO_RUNS, Edits, Layer, Model, Nodes, Steps, starts
from tether.core.rows import Rows, Touched

_FEW = 1 << 18
"""For so many states of all episodes nobody counts how many can follow at most."""


class Conditioned(NamedTuple):
    """The layers t = 0 … T of a batch; and the nodes that have no action although their episode goes on.

    ``stuck`` has (t, episode, state) of each such node.
    """

    layers: list[Layer]
    stuck: list[tuple[int, int, int]]


def condition(model: Model, steps: Steps, rows: Rows, ended: Flags | None = None) -> Conditioned:
    """Expand a batch from the first states of its episodes to their ends.

    ``ended`` marks the states that end a path (after t = 0), because a property is decided there.
    """
    T, stuck = steps.longest, []
    transition, of_each = rows.transitions(steps)
    touched = Touched.of(model, steps)
    seen, layers = scratch_array(model.n_states, np.uint8), []
    first, state = np.arange(len(steps) + 1), steps.state[steps.start[:-1]].astype(np.int32)
    for t in range(T + 1):
        goes_on = steps.lengths > t
        nodes = make_nodes(model, first, state, goes_on, ended if t else None)
        episode = np.repeat(np.arange(len(steps)), np.diff(first))
        empty = np.flatnonzero((np.diff(nodes.offsets) == 0) & goes_on[episode])
        if empty.size:
            over = np.zeros(empty.size, np.bool_) if ended is None or t == 0 else ended[state[empty]]
            stuck += [(t, int(episode[i]), int(state[i])) for i in empty[~over]]
        if t == T:
            layers.append(Layer(nodes, NO_EDITS))
            break
        here = steps.item(transition, t)
        layer = Layer(nodes, rows.edits(nodes, here, of_each, touched))
        layers.append(layer)
        first, state = successors(model, layer.nodes, layer.edits, seen)
    return Conditioned(layers, stuck)


def make_nodes(model: Model, first: Ints, state: Ints, goes_on: Flags, ended: Flags | None) -> Nodes:
    """Nodes without runs; those of episodes that are over, and of states that end a path, have no pairs."""
    count = model.pair_start[state.astype(np.int64) + 1] - model.pair_start[state]
    count[~np.repeat(goes_on, np.diff(first))] = 0
    if ended is not None:
        count[ended[state]] = 0
    return read_only_nodes(Nodes(first, state, NO_RUNS, starts(count)))


def read_only_nodes(nodes: Nodes) -> Nodes:
    """The nodes, with arrays that cannot be written to: kernels are compiled for one kind of array."""
    for array in nodes:
        array.flags.writeable = False
    return nodes


def successors(model: Model, nodes: Nodes, edits: Edits, seen: Ints) -> tuple[Ints, Ints]:
    """The states that the nodes of a layer can lead to, ascending for each episode; and where each episode begins.

    ``seen`` is scratch, one byte by state, all 0 before and after.
    """
    episodes = nodes.first.size - 1
    first, most = np.empty(episodes + 1, np.int64), episodes * model.n_states
    if most > _FEW:
        state = nodes.states[np.flatnonzero(np.diff(nodes.offsets))].astype(np.int64)
        reads = model.row_start[model.pair_start[state + 1]] - model.row_start[model.pair_start[state]]
        most = min(most, int(reads.sum()))
    out = np.empty(most, np.int32)
    n, in_order = _successors(model, nodes, edits, seen, first, out)
    if in_order:
        return first, out[:n].copy()
    before = np.repeat(np.arange(episodes) * model.n_states, np.diff(first))
    keys = before + out[:n]
    keys.sort()
    return first, (keys - before).astype(np.int32)


@kernel
def _successors(model: Model, nodes: Nodes, edits: Edits, seen: Ints, first: Ints, out: Ints) -> tuple[int, bool]:
    """How many there are, and whether those of each episode are in order: a few are not (NumPy sorts them faster)."""
    # Records are unpacked first: reading a field within a loop would count references there.
    pair_start, _, row_start, next_state, _ = model
    node_first, state, _, offset = nodes
    position, row, _, edit_start, edit_next, _ = edits
    n, e, n_states, n_edits = 0, 0, seen.size, position.size
    in_order = True
    for b in range(node_first.size - 1):
        first[b] = n
        for node in range(node_first[b], node_first[b + 1]):
            begin, end = offset[node], offset[node + 1]
            if begin == end:
                continue
            low = pair_start[state[node]]
            if e == n_edits or position[e] >= end:
                n = _collect(next_state, row_start[low], row_start[low + end - begin], seen, out, n)
                continue
            for at in range(begin, end):
                if e < n_edits and position[e] == at:
                    n = _collect(edit_next, edit_start[row[e]], edit_start[row[e] + 1], seen, out, n)
                    e += 1
                    continue
                x = low + at - begin
                n = _collect(next_state, row_start[x], row_start[x + 1], seen, out, n)
        if 16 * (n - first[b]) < n_states:
            for i in range(first[b], n):
                seen[out[i]] = 0
            in_order = False
        else:
            n = first[b]
            for j in range(n_states):
                if seen[j] != 0:
                    seen[j] = 0
                    out[n] = j
                    n += 1
    first[node_first.size - 1] = n
    return n, in_order


@piece
def _collect(next_state: Ints, low: int, high: int, seen: Ints, out: Ints, n: int) -> int:
    """Add the states of some entries that were not seen yet; returns how many there are then."""
    for i in range(low, high):
        j = next_state[i]
        if seen[j] == 0:
            seen[j] = 1
            out[n] = j
            n += 1
    return n
