"""Nodes of a layer, and the layer's rows, as kernels take them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tether._foundation.arrays import Ints
from tether._kernels.parallel import CHUNKS, use_cores
from tether.counterfactual.layers import Graph
from tether.counterfactual.rows import Rows
from tether.model.mdp import MDP

if TYPE_CHECKING:
    from tether._kernels.layer import LayerNodes, LayerRows

__all__ = ["Nodes", "gather_layer", "layer_rows", "nominal_rows", "pair_offsets", "run_count"]

_NONE = np.empty(0, np.int64)
_NONE.flags.writeable = False


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """Nodes of a layer: states, ascending; with the run of uninfluenced steps where the rule remembers it."""

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

    def pair_offsets(self, pair_start: Ints) -> Ints:
        """Where the pairs of each node begin in an array over all pairs of the layer."""
        counts = pair_start[self.states + 1] - pair_start[self.states]
        return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))

    def places(self, n_states: int) -> Ints:
        """Where each node lies in an array over [run, state], flattened."""
        return self.states if self.runs is None else self.runs.astype(np.int64) * n_states + self.states

    def arguments(self, n_states: int) -> LayerNodes:
        """The nodes as kernels take them."""
        from tether._kernels.layer import LayerNodes

        runs = np.empty(0, np.int32) if self.runs is None else self.runs
        return LayerNodes(_read_only(self.states), _read_only(runs), self.runs is not None, n_states)


def _read_only(array: Ints) -> Ints:
    """The same array as kernels are compiled for: they take one that may be written to for another kind."""
    view = array.view()
    view.flags.writeable = False
    return view


def pair_offsets(layers: tuple[Nodes, ...], pair_start: Ints) -> tuple[Ints, ...]:
    """`Nodes.pair_offsets` of each of some layers; found once for layers that have the same states."""
    found: list[Ints] = []
    for before, layer in zip((None, *layers), layers, strict=False):
        same = before is not None and before.states is layer.states
        found.append(found[-1] if same else layer.pair_offsets(pair_start))
    return tuple(found)


def run_count(nodes: tuple[Nodes, ...]) -> int:
    """How many runs an array over [run, state] must hold: one more than occur, to close it off; or one."""
    longest = [int(layer.runs.max(initial=0)) for layer in nodes if layer.runs is not None]
    return max(longest) + 2 if longest else 1


def layer_rows(graph: Graph, t: int, influenced: Ints = _NONE) -> LayerRows:
    """The rows of a layer, nominal and edited, as kernels take them."""
    return _rows(graph.mdp, graph.layers[t].edits, influenced)


def nominal_rows(mdp: MDP) -> LayerRows:
    """The rows of the model, none of them edited, as kernels take them."""
    return _rows(mdp, Rows.none(), _NONE)


def _rows(mdp: MDP, edits: Rows, influenced: Ints) -> LayerRows:
    from tether._kernels.layer import LayerRows

    form = mdp.form
    model = form.pair_start, form.pair_action, form.row_start, form.next_state, form.probability
    return LayerRows(*model, edits.pairs, edits.start, edits.next_state, edits.probability, influenced)


def gather_layer(
    nodes: LayerNodes, rows: LayerRows, offsets: Ints, cap: int, most: int, after: Ints, before: Ints, kappa: Ints
) -> None:
    """Distances and κ of a layer from those of the next; see `tether._kernels.thresholds.gather_nodes`."""
    from tether._kernels.thresholds import gather_all_nodes, gather_nodes

    arrays = after.reshape(-1), before.reshape(-1), kappa
    if not use_cores(nodes.states.size):
        gather_nodes(nodes, rows, offsets, cap, most, *arrays, 0, nodes.states.size)
    else:
        gather_all_nodes(nodes, rows, offsets, cap, most, *arrays, CHUNKS)
