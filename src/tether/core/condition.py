"""Conditioning: what the episodes of a batch can reach, layer by layer, with the rows that each observed step edits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tether._foundation.arrays import Flags, Ints
from tether._kernels.jit import kernel
from tether.core.batch import NO_EDITS, NO_RUNS, Edits, Layer, Model, Nodes, Steps, starts
from tether.core.rows import Rows, Touched


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
    stamp, layers = np.zeros(model.n_states, np.int64), []
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
        first, state = successors(model, layer, stamp)
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


def successors(model: Model, layer: Layer, stamp: Ints) -> tuple[Ints, Ints]:
    """The states that the nodes of a layer can lead to, ascending for each episode; and where each episode begins.

    ``stamp`` is scratch by state, with increasing numbers.
    """
    state = layer.nodes.states.astype(np.int64)
    going = np.flatnonzero(np.diff(layer.nodes.offsets))
    reads = model.row_start[model.pair_start[state[going] + 1]] - model.row_start[model.pair_start[state[going]]]
    episodes = layer.nodes.first.size - 1
    out = np.empty(min(int(reads.sum()), episodes * model.n_states), np.int32)
    first = np.empty(episodes + 1, np.int64)
    n = _successors(model, layer.nodes, layer.edits, stamp, first, out)
    return first, out[:n].copy()


@kernel
def _successors(model: Model, nodes: Nodes, edits: Edits, stamp: Ints, first: Ints, out: Ints) -> int:
    # Records are unpacked first: reading a field within a loop would count references there.
    pair_start, _, row_start, next_state, _ = model
    node_first, state, _, offset = nodes
    position, row, _, edit_start, edit_next, _ = edits
    n, e, n_states, n_edits = 0, 0, stamp.size, position.size
    clock = stamp.max()
    for b in range(node_first.size - 1):
        clock += 1
        first[b] = n
        for node in range(node_first[b], node_first[b + 1]):
            begin, end = offset[node], offset[node + 1]
            if begin == end:
                continue
            low = pair_start[state[node]]
            if e == n_edits or position[e] >= end:
                for i in range(row_start[low], row_start[low + end - begin]):
                    j = next_state[i]
                    if stamp[j] != clock:
                        stamp[j] = clock
                        out[n] = j
                        n += 1
                continue
            for at in range(begin, end):
                if e < n_edits and position[e] == at:
                    for i in range(edit_start[row[e]], edit_start[row[e] + 1]):
                        j = edit_next[i]
                        if stamp[j] != clock:
                            stamp[j] = clock
                            out[n] = j
                            n += 1
                    e += 1
                    continue
                x = low + at - begin
                for i in range(row_start[x], row_start[x + 1]):
                    j = next_state[i]
                    if stamp[j] != clock:
                        stamp[j] = clock
                        out[n] = j
                        n += 1
        if 16 * (n - first[b]) < n_states:
            out[first[b] : n].sort()
        else:
            n = first[b]
            for j in range(n_states):
                if stamp[j] == clock:
                    out[n] = j
                    n += 1
    first[node_first.size - 1] = n
    return n
