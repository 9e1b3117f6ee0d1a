"""The states that an episode can reach at each time, and their distance from influence."""

from __future__ import annotations

from tether._foundation.arrays import Ints
from tether._kernels.audit.arrays import Batch, Model, Planning, RowPool
from tether._kernels.jit import kernel, part_of_kernel
from tether._kernels.thresholds import FAR


@kernel
def find_layers(model: Model, stamp: Ints, layer: Ints, bounds: Ints, start: int, T: int) -> bool:
    """The states that ``start`` can lead to in 0 … T steps, with any actions.

    The states of time t are ``layer[bounds[2t]:bounds[2t + 1]]``. If a layer contains all states of the layer before,
    so do all later ones. They then begin at the same place and only grow, so only new states are followed.

    The last item of ``stamp``, after those of the states, is the number of the last layer. Returns False if some state
    before T has no action.
    """
    layer[0] = start
    bounds[0], bounds[1] = 0, 1
    grows = False
    mark = stamp[stamp.size - 1]
    for t in range(T):
        low, high = bounds[2 * t], bounds[2 * t + 1]
        first = low
        if grows:
            first = bounds[2 * t - 1] if bounds[2 * t - 2] == low else low
        else:
            mark += 1
            stamp[stamp.size - 1] = mark
        n = high
        for i in range(first, high):
            s = layer[i]
            if model.pair_start[s] == model.pair_start[s + 1]:
                return False
            for j in range(model.after_start[s], model.after_start[s + 1]):
                after = model.after_state[j]
                if stamp[after] != mark:
                    stamp[after] = mark
                    layer[n] = after
                    n += 1
        bounds[2 * t + 2], bounds[2 * t + 3] = low if grows else high, n
        if not grows:
            grows = True
            for i in range(low, high):
                if stamp[layer[i]] != mark:
                    grows = False
                    break
    return True


@kernel
def find_distances(
    model: Model, pool: RowPool, planning: Planning, batch: Batch, first: int, T: int, is_needed: bool
) -> None:
    """Where the edited rows of each state of each layer begin; and, if needed, its distance from influence.

    A state with an edited row is at distance 1, any other one step further than the nearest state that it leads to.
    """
    n_states = model.pair_start.size - 1
    layer, bounds, distance, edited = planning.layer, planning.layer_start, planning.distance, planning.edited
    for i in range(bounds[2 * T], bounds[2 * T + 1]):
        distance[T * n_states + layer[i]] = FAR
    for t in range(T - 1, -1, -1):
        here, there = t * n_states, (t + 1) * n_states
        at = batch.transition[first + t]
        for row in range(batch.row_end[at + 1] - 1, batch.row_end[at] - 1, -1):
            edited[here + pool.state[row]] = row + 1
        if not is_needed:
            continue
        for i in range(bounds[2 * t], bounds[2 * t + 1]):
            s = layer[i]
            nearest = FAR - 1
            if edited[here + s] > 0:
                nearest = 0
            else:
                for j in range(model.after_start[s], model.after_start[s + 1]):
                    one = distance[there + model.after_state[j]]
                    if one < nearest:
                        nearest = one
                        if one == 1:
                            break
            distance[here + s] = nearest + 1


@part_of_kernel
def forget_edited(n_states: int, pool: RowPool, edited: Ints, batch: Batch, first: int, T: int) -> None:
    """Set ``edited`` back to 0."""
    for t in range(T):
        at = batch.transition[first + t]
        for row in range(batch.row_end[at], batch.row_end[at + 1]):
            edited[t * n_states + pool.state[row]] = 0
