"""One layer of the graph as kernels take it: its nodes, and the rows of its pairs.

Nodes are states, or, where the rule remembers it, (state, run) with the number of uninfluenced steps
just passed; they come in ascending order. A row is that of the model, or the edited one of a pair that
the observed step changes. Both hold only outcomes that can happen.

Kernels unpack these records first: reading a field in an inner loop would count references there.
"""

from __future__ import annotations

from typing import NamedTuple

from tether._foundation.arrays import Floats, Ints


class LayerNodes(NamedTuple):
    """Nodes of a layer; ``runs`` is empty where the rule remembers none."""

    states: Ints
    runs: Ints
    with_runs: bool
    n_states: int


class LayerRows(NamedTuple):
    """Rows of a layer: those of the model, the edited ones, and which pairs are influenced (ascending)."""

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
