"""Where the successors of a row are among the nodes of the next layer.

A row names states. The numbers of a layer are by node. So for one episode after the other the nodes of the next layer
are entered in a table by state (and run); only the nodes of that episode are looked up. If a layer has every state of
the model once, the table is not needed and empty.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._foundation.arrays import Ints
from tether._kernels.jit import kernel
from tether._kernels.scratch import scratch_array
from tether.core.batch import Nodes


def slots_for(after: Nodes, n_states: int) -> Ints:
    """A table for the nodes of the next layer; empty if a node is found by its state."""
    if after.first.size == 2 and after.runs.size == 0 and after.states.size == n_states:
        return np.empty(0, np.int32)
    runs = int(after.runs.max(initial=0)) + 1
    return scratch_array(runs * n_states, np.int32)


@kernel
def enter(after: Nodes, b: int, n_states: int, slots: Ints) -> None:
    """Enter the nodes of episode ``b``."""
    if slots.size == 0:
        return
    first, state, runs, _ = after
    for node in range(first[b], first[b + 1]):
        run = runs[node] if runs.size > 0 else 0
        slots[run * n_states + state[node]] = node


@kernel
def successor(slots: Ints, base: Any, state: Any) -> Any:
    """The node of a state; ``base`` is its run times the number of states."""
    at = np.uint64(base) + np.uint64(state)  # unsigned: no test for negative indices
    return at if slots.size == 0 else np.uint64(slots[at])
