"""A graph as the engine takes it: a batch of one episode, or of one for each copy of a model side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tether._foundation.arrays import Flags, Ints
from tether.conditioning.edited_rows import Rows, nominal_start
from tether.conditioning.layers import Graph
from tether.conditioning.on_demand import RowsOnDemand, stretches
from tether.core.batch import NO_EDITS, NO_RUNS, Edits, Layer, Nodes, Reached, Steps, starts
from tether.model.form import Form, pair_states


def steps_of(graph: Graph) -> Steps:
    """The observed steps, once for each copy of the model."""
    seen, n = graph.observation, graph.copies
    S, P = graph.mdp.n_states // n, graph.mdp.n_pairs // n
    shift = np.arange(n)[:, None]
    states = np.where(seen.states < 0, -1, seen.states + shift * S).astype(np.int64)
    columns = states[:, :-1], np.tile(seen.actions, n), seen.pairs + shift * P, states[:, 1:]
    # In a graph with copies the support of a step lists the outcomes of all copies, one after another.
    supports = [layer.observed.next_state.reshape(n, -1) for layer in graph.layers]
    begin = starts(np.tile([one.shape[1] for one in supports], n))
    support = np.concatenate([one[copy] for copy in range(n) for one in supports])
    state, action, pair, outcome = (np.asarray(one, np.int64).reshape(-1) for one in columns)
    return Steps(np.arange(n + 1) * graph.T, state, action, pair, outcome, begin, support)


def ended_of(graph: Graph) -> Flags | None:
    """Which states end a path before T; None if none does."""
    return None if graph.ended is None else graph.ended.mask


def layers_of(graph: Graph, influenced: tuple[Ints, ...]) -> list[Reached]:
    """The layers t = 0 … T; ``influenced`` are the influenced pairs of each step, ascending."""
    layers: list[Reached] = []
    kept: tuple[Ints, Nodes] | None = None  # layers with the same states share the arrays of their nodes
    for t in range(graph.T):
        states = graph.states(t)
        if kept is None or kept[0] is not states or (graph.ended is not None and graph.ended.states[t].size):
            kept = states, _nodes(graph, t, states)
        layers.append(_layer(graph, t, kept[1], influenced[t]))
    last = graph.states(graph.T)
    nodes = Nodes(_first(graph, last), last, NO_RUNS, np.zeros(last.size + 1, np.int64))
    return [*layers, Layer(nodes, NO_EDITS)]


def _nodes(graph: Graph, t: int, states: Ints) -> Nodes:
    form, is_over = graph.mdp.form, None
    if graph.ended is not None and graph.ended.states[t].size and t:
        states = np.union1d(states, graph.ended.states[t]).astype(np.int32)
        is_over = graph.ended.mask[states]
    count = form.pair_start[states.astype(np.int64) + 1] - form.pair_start[states]
    if is_over is not None:
        count[is_over] = 0
    return Nodes(_first(graph, states), states, NO_RUNS, starts(count))


def _first(graph: Graph, states: Ints) -> Ints:
    """Where the states of each copy begin."""
    return np.searchsorted(states, np.arange(graph.copies + 1) * (graph.mdp.n_states // graph.copies)).astype(np.int64)


def _layer(graph: Graph, t: int, nodes: Nodes, influenced: Ints) -> Reached:
    edits, pair_start = graph.layers[t].edits, graph.mdp.form.pair_start
    state = pair_states(pair_start, edits.pairs)
    node = np.minimum(np.searchsorted(nodes.states, state), nodes.size - 1)
    there = (nodes.states[node] == state) & (nodes.offsets[node] < nodes.offsets[node + 1])
    position = nodes.offsets[node] + edits.pairs - pair_start[state]
    is_influenced = np.zeros(edits.pairs.size, np.uint8)
    is_influenced[np.searchsorted(edits.pairs, influenced)] = 1  # all of them are edited
    if isinstance(edits, RowsOnDemand):
        return LayerInParts(nodes, (position, is_influenced), graph.mdp.form, edits)
    rows, row = edits.rows(), np.flatnonzero(there)
    numbers = None if row.size == position.size else row
    arrays = rows.start, rows.next_state, rows.probability
    return Layer(nodes, Edits(position[row], row, is_influenced[row], *arrays), numbers)


@dataclass(frozen=True, eq=False)
class LayerInParts(Reached):
    """A layer of one episode whose edited rows are made when they are needed, a part of its nodes at a time."""

    edited: tuple[Ints, Ints]
    form: Form
    rows: RowsOnDemand

    @property
    def position(self) -> Ints:
        """The edited pairs, by position among the pairs, ascending."""
        return self.edited[0]

    @property
    def influenced(self) -> Ints:
        """Which of the edited pairs are influenced."""
        return self.edited[1]

    def parts(self, wanted: Ints | None = None) -> Iterator[tuple[slice, Ints, Layer]]:
        """The layer in parts, each with its rows made; see `Reached.parts`."""
        at = np.arange(self.position.size) if wanted is None else wanted
        node = self.node_of(self.position[at])
        first_of_node = np.flatnonzero(np.diff(node, prepend=-1))
        begin = np.append(first_of_node, at.size)
        cuts = list(stretches(nominal_start(self.form, self.rows.pairs[at])[begin])) or [(0, 0)]
        low_node = 0
        for low, high in cuts:
            is_last = high == cuts[-1][1]
            high_node = self.size if is_last else int(node[begin[high]])
            some = at[begin[low] : begin[high]]
            yield slice(low_node, high_node), some, self._part(low_node, high_node, some)
            low_node = high_node

    def _part(self, low: int, high: int, some: Ints) -> Layer:
        nodes, rows = self.nodes, self.rows.rows(some)
        offsets = nodes.offsets[low : high + 1] - nodes.offsets[low]
        position = self.position[some] - nodes.offsets[low]
        cut = Nodes(np.array([0, high - low]), nodes.states[low:high].copy(), NO_RUNS, offsets)
        return Layer(cut, _edits(position, self.influenced[some], rows))

    def whole(self) -> Layer:
        """The layer with all its rows made at once."""
        return Layer(self.nodes, _edits(self.position, self.influenced, self.rows.rows()))

    def uniform(self, near: Ints, kappa: Ints) -> Reached:
        """A layer with short rows that have the same κ, if all nodes of the next layer have the same numbers.

        Then it does not matter which of them a row leads to. For influenced pairs their distances do not matter.
        """
        all_influenced = bool(np.all(self.influenced))
        if near.size == 0 or np.ptp(kappa) > 0 or not (all_influenced or np.ptp(near) == 0):
            return self
        n, row_start = self.position.size, self.form.row_start
        first = self.form.next_state[row_start[self.rows.pairs]]  # any successor: all have the same numbers
        return Layer(
            self.nodes, Edits(self.position, np.arange(n), self.influenced, np.arange(n + 1), first, np.ones(n))
        )


def _edits(position: Ints, influenced: Ints, rows: Rows) -> Edits:
    """Edited pairs whose rows are made in their order."""
    return Edits(position, np.arange(position.size), influenced, rows.start, rows.next_state, rows.probability)
