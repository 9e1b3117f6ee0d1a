"""Following choices or a policy exactly: the probability of every node of a batch, forward layer by layer.

What is decided at one time is a list of *visits*: a node with c changes left, the pair that is taken there (by its
position among the pairs of the layer), and the probability of both. The next layer's probabilities follow from the
rows of these pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._kernels.jit import kernel
from tether.core.backward import Choices
from tether.core.batch import Edits, Layer, Model, Nodes
from tether.core.plan import find_pair, is_absorbing
from tether.core.slots import enter, slots_for, successor

__all__ = ["Occupied", "Visits", "by_choices", "follow", "visits_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Occupied:
    """Nodes that are reached, with the changes left there, and the probability of each; in the order of the nodes."""

    node: Ints
    changes: Ints
    mass: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Visits:
    """What is taken where, in the order of the nodes.

    ``edit`` is the place of the pair among the edited ones of the layer, -1 if its row is nominal; ``changed`` says
    whether taking it is a change; ``mass`` is the probability.
    """

    node: Ints
    changes: Ints
    position: Ints
    edit: Ints
    changed: Ints
    mass: Floats


Decide = Callable[[int, Layer, Occupied], Visits]


def follow(
    model: Model, layers: list[Layer], first: Occupied, most: int, decide: Decide
) -> tuple[list[Visits], list[Occupied]]:
    """Follow decisions from the first layer to the last; ``most`` is the largest number of changes left.

    Returns what is taken at each time, and what is occupied at each time.
    """
    taken, occupied = [], [first]
    for t, layer in enumerate(layers[:-1]):
        visits = decide(t, layer, occupied[-1])
        taken.append(visits)
        occupied.append(_onward(model, layer, layers[t + 1].nodes, visits, most))
    return taken, occupied


def by_choices(model: Model, layer: Layer, occupied: Occupied, choices: Choices, observed: Ints, most: int) -> Visits:
    """What a plan takes; ``observed`` is the observed action of each episode."""
    n = occupied.node.size
    node, changes = np.empty(n, np.int64), np.empty(n, np.int64)
    position, edit, changed = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.uint8)
    mass = np.empty(n)
    n = _take_choices(
        model, layer.nodes, layer.edits, occupied.node, occupied.changes, occupied.mass, choices.of_node,
        np.ascontiguousarray(choices.on_path[:, 0]), observed, most, node, changes, position, edit, changed, mass,
    )  # fmt: skip
    return Visits(node[:n], changes[:n], position[:n], edit[:n], changed[:n], mass[:n])


def visits_of(
    model: Model, layer: Layer, node: Ints, pairs: Ints, mass: Floats, observed: Ints, changes: Ints | None = None
) -> Visits:
    """Visits of nodes (ascending) that take some pairs of the model, with their probabilities."""
    position = layer.nodes.offsets[node] + pairs - model.pair_start[layer.nodes.states[node]]
    changed = np.empty(node.size, np.uint8)
    _changes(model, layer.nodes, node, position, observed, changed)
    edited = layer.edits.position
    at = np.searchsorted(edited, position)
    is_edited = np.zeros(at.size, bool) if edited.size == 0 else edited[np.minimum(at, edited.size - 1)] == position
    left = np.zeros(node.size, np.int64) if changes is None else changes
    return Visits(node, left, position, np.where(is_edited, at, -1), changed, mass)


def _onward(model: Model, layer: Layer, after: Nodes, visits: Visits, most: int) -> Occupied:
    """The probability of each node of the next layer."""
    mass = np.zeros((after.states.size, most + 1))
    slots = slots_for(after, model.n_states)
    _push(
        model, layer.nodes, layer.edits, after, slots, visits.node, visits.changes, visits.position, visits.edit,
        visits.changed, visits.mass, mass,
    )  # fmt: skip
    flat = np.flatnonzero(mass)
    return Occupied(flat // (most + 1), flat % (most + 1), mass.reshape(-1)[flat])


@kernel
def _take_choices(
    model: Model, nodes: Nodes, edits: Edits, node: Ints, changes: Ints, mass: Floats, of_node: Ints, on_path: Ints,
    observed: Ints, most: int, out_node: Ints, out_changes: Ints, position: Ints, edit: Ints, changed: Ints,
    out_mass: Floats,
) -> int:  # fmt: skip
    """Write one visit for each occupied node where paths go on; returns how many."""
    first, state, _, offset = nodes
    edited = edits.position
    b, n = 0, 0
    for i in range(node.size):
        while node[i] >= first[b + 1]:
            b += 1
        if offset[node[i]] == offset[node[i] + 1]:
            continue
        s, c = state[node[i]], changes[i]
        number = on_path[b] if c == most else np.int64(of_node[node[i], min(c, of_node.shape[1] - 1)])
        at = offset[node[i]] + number
        e = np.searchsorted(edited, at)
        out_node[n], out_changes[n], position[n], out_mass[n] = node[i], c, at, mass[i]
        edit[n] = e if e < edited.size and edited[e] == at else -1
        changed[n] = _is_change(model, s, number, observed[b])
        n += 1
    return n


@kernel
def _is_change(model: Model, s: Any, number: Any, observed: Any) -> Any:
    """Whether a pair, by its number, changes the observed action; none does in an absorbing state without it."""
    if observed < 0 or model.pair_action[model.pair_start[s] + number] == observed:
        return False
    return find_pair(model, s, observed) >= 0 or not is_absorbing(model, s)


@kernel
def _changes(model: Model, nodes: Nodes, node: Ints, position: Ints, observed: Ints, changed: Ints) -> None:
    first, state, _, offset = nodes
    b = 0
    for i in range(node.size):
        while node[i] >= first[b + 1]:
            b += 1
        changed[i] = _is_change(model, state[node[i]], position[i] - offset[node[i]], observed[b])


@kernel
def _push(
    model: Model, nodes: Nodes, edits: Edits, after: Nodes, slots: Ints, node: Ints, changes: Ints, position: Ints,
    edit: Ints, changed: Ints, weight: Floats, mass: Floats,
) -> None:  # fmt: skip
    pair_start, _, row_start, next_state, probability = model
    first, state, run, offset = nodes
    _, row, influenced, edit_start, edit_next, edit_probability = edits
    n_states, b = pair_start.size - 1, -1
    for i in range(node.size):
        while b < 0 or node[i] >= first[b + 1]:
            b += 1
            enter(after, b, n_states, slots)
        c = min(max(changes[i] - changed[i], 0), mass.shape[1] - 1)
        base = 0
        if run.size > 0 and not (edit[i] >= 0 and influenced[edit[i]] > 0):
            base = (run[node[i]] + 1) * n_states
        if edit[i] >= 0:
            r = row[edit[i]]
            for j in range(edit_start[r], edit_start[r + 1]):
                mass[successor(slots, base, edit_next[j]), c] += weight[i] * edit_probability[j]
        else:
            x = pair_start[state[node[i]]] + position[i] - offset[node[i]]
            for j in range(row_start[x], row_start[x + 1]):
                mass[successor(slots, base, next_state[j]), c] += weight[i] * probability[j]
