"""Nodes of a layer, and the layer's rows, as kernels take them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tether._foundation.arrays import Ints, read_only
from tether._kernels.parallel import CHUNKS, use_cores
from tether.conditioning.layers import Graph
from tether.conditioning.on_demand import stretches
from tether.conditioning.rows import EditedRows, Rows, nominal_start
from tether.model.form import pair_states
from tether.model.mdp import MDP

if TYPE_CHECKING:
    from tether._kernels.layer import LayerNodes, LayerRows

__all__ = [
    "LayerPart",
    "Nodes",
    "gather_layer",
    "layer_parts",
    "layer_rows",
    "nodes_of",
    "nominal_rows",
    "pair_offsets",
    "run_count",
]

_NONE = np.empty(0, np.int64)
_NONE.flags.writeable = False


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes of a layer: states, ascending; with the run of uninfluenced steps, if the rule remembers it."""

    states: Ints
    runs: Ints | None = None

    @property
    def size(self) -> int:
        """How many nodes."""
        return int(self.states.size)

    def only(self, which: Ints) -> Nodes:
        """Some of the nodes, by position, ascending."""
        if which.size == self.size:
            return self
        return Nodes(self.states[which], None if self.runs is None else self.runs[which])

    def cut(self, first: int, last: int) -> Nodes:
        """The nodes from one position up to another."""
        if first == 0 and last == self.size:
            return self
        return Nodes(self.states[first:last], None if self.runs is None else self.runs[first:last])

    def pair_offsets(self, pair_start: Ints) -> Ints:
        """Where the pairs of each node begin in an array over all pairs of the layer."""
        counts = pair_start[self.states + 1] - pair_start[self.states]
        return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))

    def places(self, n_states: int) -> Ints:
        """The index of each node in a flat array over [run, state]."""
        return self.states if self.runs is None else self.runs.astype(np.int64) * n_states + self.states

    def arguments(self, n_states: int) -> LayerNodes:
        """The nodes as kernels take them."""
        from tether._kernels.layer import LayerNodes

        return LayerNodes(*self._arrays, self.runs is not None, n_states)

    @cached_property
    def _arrays(self) -> tuple[Ints, Ints]:
        """States and runs as kernels take them; kept, because several passes over a layer need them."""
        runs = np.empty(0, np.int32) if self.runs is None else self.runs
        return read_only(self.states), read_only(runs)


def nodes_of(graph: Graph) -> tuple[Nodes, ...]:
    """The states of each layer as its nodes, t = 0 … T; the same nodes for layers that have the same states."""
    nodes: list[Nodes] = []
    for t in range(graph.T + 1):
        states = graph.states(t)
        nodes.append(nodes[-1] if nodes and nodes[-1].states is states else Nodes(states))
    return tuple(nodes)


def pair_offsets(layers: tuple[Nodes, ...], pair_start: Ints) -> tuple[Ints, ...]:
    """`Nodes.pair_offsets` of each of some layers; computed once for layers that have the same states."""
    offsets: list[Ints] = []
    for before, layer in zip((None, *layers), layers, strict=False):
        offsets.append(offsets[-1] if layer is before else layer.pair_offsets(pair_start))
    return tuple(offsets)


def run_count(nodes: tuple[Nodes, ...]) -> int:
    """How many runs an array over [run, state] has: one more than occur, for runs that are too long; 1 without runs."""
    longest = [int(layer.runs.max(initial=0)) for layer in nodes if layer.runs is not None]
    return max(longest) + 2 if longest else 1


def layer_rows(graph: Graph, t: int, influenced: Ints = _NONE) -> LayerRows:
    """The rows of a layer, nominal and edited, as kernels take them; all at once."""
    return _rows(graph.mdp, graph.layers[t].edits.rows(), influenced)


class LayerPart(NamedTuple):
    """Some nodes of a layer, from position ``first`` up to ``last``, with the edited rows of their pairs.

    ``at`` are the positions of these rows among the edited ones of the layer. ``layer`` and ``rows`` are the nodes and
    the rows as kernels take them.
    """

    first: int
    last: int
    at: Ints | slice
    edits: Rows
    layer: LayerNodes
    rows: LayerRows

    @property
    def nodes(self) -> slice:
        """The nodes, by position."""
        return slice(self.first, self.last)


def layer_parts(
    graph: Graph,
    t: int,
    nodes: Nodes,
    influenced: Ints = _NONE,
    *,
    needed: Ints | None = None,
    edits: EditedRows | None = None,
) -> Iterator[LayerPart]:
    """The nodes of a layer with their rows: all at once, or in parts if edited rows are computed when needed.

    ``needed`` are the positions of the edited rows that are needed; by default all. ``edits`` are used instead of the
    layer's own edited rows, if given.
    """
    edits, form = graph.layers[t].edits if edits is None else edits, graph.mdp.form
    if isinstance(edits, Rows):
        layer, rows = nodes.arguments(graph.mdp.n_states), _rows(graph.mdp, edits, influenced)
        yield LayerPart(0, nodes.size, slice(None), edits, layer, rows)
        return
    states = pair_states(form.pair_start, edits.pairs)
    wanted = np.flatnonzero(np.isin(states, nodes.states)) if needed is None else needed
    first_of_state = np.flatnonzero(np.diff(states[wanted], prepend=-1))
    start = nominal_start(form, edits.pairs[wanted])
    begin = np.append(first_of_state, wanted.size)
    first = 0
    cuts = list(stretches(start[begin])) or [(0, 0)]
    for low, high in cuts:
        is_last = high == cuts[-1][1]
        last = nodes.size if is_last else int(np.searchsorted(nodes.states, states[wanted[begin[high]]]))
        at = wanted[begin[low] : begin[high]]
        edited = edits.rows(at)
        layer = nodes.cut(first, last).arguments(graph.mdp.n_states)
        yield LayerPart(first, last, at, edited, layer, _rows(graph.mdp, edited, influenced))
        first = last


def nominal_rows(mdp: MDP, influenced: Ints = _NONE) -> LayerRows:
    """The rows of the model, none of them edited, as kernels take them."""
    return _rows(mdp, Rows.none(), influenced)


def _rows(mdp: MDP, edits: Rows, influenced: Ints) -> LayerRows:
    from tether._kernels.layer import LayerRows

    form = mdp.form
    model = form.pair_start, form.pair_action, form.row_start, form.next_state, form.probability
    return LayerRows(*model, edits.pairs, edits.start, edits.next_state, edits.probability, influenced)


def gather_layer(
    nodes: LayerNodes, rows: LayerRows, offsets: Ints, cap: int, most: int, after: Ints, before: Ints, kappa: Ints
) -> None:
    """Distances and κ of a layer from those of the next; see `tether._kernels.thresholds.gather_nodes`.

    ``after`` and ``before`` have two numbers of 16 bits per node. The kernel reads them as one number of 32 bits: the
    first is the lower half on every machine that numba compiles for.
    """
    from tether._kernels.thresholds import gather_all_nodes, gather_nodes

    arrays = after.reshape(-1).view(np.int32), before.reshape(-1).view(np.int32), kappa
    if not use_cores(nodes.states.size):
        gather_nodes(nodes, rows, offsets, cap, most, *arrays, 0, nodes.states.size)
    else:
        gather_all_nodes(nodes, rows, offsets, cap, most, *arrays, CHUNKS)
