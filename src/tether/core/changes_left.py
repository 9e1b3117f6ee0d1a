"""How many changes can be left at each node: what a plan with m changes cannot reach need not be planned."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tether._foundation.arrays import Ints
from tether._kernels.jit import kernel
from tether._kernels.order import first_from
from tether.core.batch import Edits, Layer, Model, Nodes, Steps
from tether.core.plan import find_pair, is_absorbing
from tether.core.slots import enter, slots_for, successor


def changes_left(model: Model, steps: Steps, layers: list[Layer], m: int) -> list[Ints]:
    """For each layer, the most of m changes that can be left at each node; -1 where no plan with m changes gets."""
    found = [np.full(layers[0].size, m, np.int16)]
    for t, (layer, after) in enumerate(pairwise(layers)):
        left = np.full(after.size, -1, np.int16)
        slots = slots_for(after.nodes, model.n_states)
        observed = steps.item(steps.action, t)
        _changes_left(model, layer.nodes, layer.edits, after.nodes, slots, observed, found[-1], left)
        found.append(left)
    return found


@kernel
def _changes_left(
    model: Model, nodes: Nodes, edits: Edits, after: Nodes, slots: Ints, observed: Ints, left: Ints, left_after: Ints
) -> None:
    pair_start, _, row_start, next_state, _ = model
    node_first, state, run, offset = nodes
    position, row, influenced, edit_start, edit_next, _ = edits
    n_states = pair_start.size - 1
    for b in range(node_first.size - 1):
        enter(after, b, n_states, slots)
        for node in range(node_first[b], node_first[b + 1]):
            begin, end, first = offset[node], offset[node + 1], pair_start[state[node]]
            if left[node] < 0 or begin == end:
                continue
            e, at_observed = first_from(position, 0, position.size, begin), find_pair(model, state[node], observed[b])
            is_free = observed[b] < 0 or (at_observed < 0 and is_absorbing(model, state[node]))
            for at in range(begin, end):
                if left[node] == 0 and at_observed >= 0 and at - begin != at_observed:
                    continue
                then = left[node] - (0 if is_free or at - begin == at_observed else 1)
                if then < 0:
                    continue
                while e < position.size and position[e] < at:
                    e += 1
                is_edited = e < position.size and position[e] == at
                base = 0
                if run.size > 0 and not (is_edited and influenced[e] > 0):
                    base = (run[node] + 1) * n_states
                    if base + n_states > slots.size:
                        continue  # such a run is longer than any k of interest
                x = row[e] if is_edited else first + at - begin
                start, stop = (edit_start[x], edit_start[x + 1]) if is_edited else (row_start[x], row_start[x + 1])
                for i in range(start, stop):
                    j = successor(slots, base, edit_next[i] if is_edited else next_state[i])
                    left_after[j] = max(left_after[j], then)
