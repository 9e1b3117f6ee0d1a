"""One layer of the graph as kernels take it: its nodes, and the rows of its pairs.

Nodes are states. If the rule remembers runs, a node is (state, run): the run is the number of uninfluenced steps just
passed. Nodes are in ascending order. A pair has the row of the model, or an edited row if the observed step changes it.
Both have only outcomes that can happen.

Kernels unpack these records first: reading a field in an inner loop would count references there.
"""

from __future__ import annotations

from typing import NamedTuple

from tether._foundation.arrays import Floats, Ints


class LayerNodes(NamedTuple):
    """Nodes of a layer; ``runs`` is empty if the rule remembers none."""

    states: Ints
    runs: Ints
    with_runs: bool
    n_states: int


class LayerRows(NamedTuple):
    """Rows of a layer: the rows of the model, the edited rows, and the influenced pairs (ascending)."""

    pair_start: Ints
    pair_action: Ints
    row_start: Ints
    next_state: Ints
    probability: Floats
    edited: Ints
    edit_start: Ints
    edit_next: Ints
    edit_probability: Floats
    influenced: Ints
