"""Following choices or a policy exactly: the probability of every node of a batch, forward layer by layer.

What is decided at one time is a list of *visits*: a node with c changes left, the pair that is taken there (by its
position among the pairs of the layer), and the probability of both. The next layer's probabilities follow from the
rows of these pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tether._foundation.arrays import Floats, Ints, read_only
from tether._kernels.jit import kernel
from tether._kernels.order import first_from
from tether.core.backward import Choices
from tether.core.batch import Edits, Layer, Model, Nodes, Steps, starts
from tether.core.plan import find_pair, is_change
from tether.core.slots import enter, slots_for, successor

__all__ = [
    "Links",
    "Occupied",
    "Visits",
    "by_choices",
    "by_episode",
    "by_episode_pairs",
    "by_policy",
    "changes_left",
    "expected_returns",
    "follow",
    "links",
    "take_pairs",
    "transferred",
]


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

    def pairs(self, model: Model, layer: Layer) -> Ints:
        """The pair of the model that each visit takes."""
        nodes = layer.nodes
        found: Ints = model.pair_start[nodes.states[self.node]] + self.position - nodes.offsets[self.node]
        return found


class Links(NamedTuple):
    """What a step can lead to: from which occupied node to which of the next time, how likely, for what reward.

    ``probability`` is that of the link, given its source.
    """

    source: Ints
    target: Ints
    probability: Floats
    reward: Floats


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
            for at in range(begin, end):
                if left[node] == 0 and at_observed >= 0 and at - begin != at_observed:
                    continue
                then = left[node] - is_change(model, state[node], at - begin, observed[b])
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
                successors, start, stop = next_state, row_start[first + at - begin], row_start[first + at - begin + 1]
                if is_edited:
                    successors, start, stop = edit_next, edit_start[row[e]], edit_start[row[e] + 1]
                for i in range(start, stop):
                    j = successor(slots, base, successors[i])
                    left_after[j] = max(left_after[j], then)


def by_choices(model: Model, layer: Layer, occupied: Occupied, choices: Choices, observed: Ints, most: int) -> Visits:
    """What a plan takes; ``observed`` is the observed action of each episode."""
    n = occupied.node.size
    node, changes = np.empty(n, np.int64), np.empty(n, np.int64)
    position, edit, changed = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.uint8)
    mass = np.empty(n)
    n = _take_choices(
        model, layer.nodes, layer.edits, read_only(occupied.node), occupied.changes, occupied.mass, choices.of_node,
        read_only(choices.on_path[:, 0]), observed, most, node, changes, position, edit, changed, mass,
    )  # fmt: skip
    return Visits(node[:n], changes[:n], position[:n], edit[:n], changed[:n], mass[:n])


def transferred(model: Model, layer: Layer, theirs: Layer, choices: Choices, observed: Ints, usual: Ints) -> Choices:
    """Choices for the nodes of a layer that were made on that of the same episodes in another copy of the model.

    For a node that they do not know: the observed action, or the pair of its state that ``usual`` numbers. It has as
    many states as a copy.
    """
    if choices.of_node.shape[0] == 0:
        return choices
    runs = int(max(theirs.nodes.runs.max(initial=0), layer.nodes.runs.max(initial=0))) + 1
    known, wanted = (_node_keys(one, usual.size, runs) for one in (theirs, layer))
    order = np.argsort(known, kind="stable")
    at = order[np.minimum(np.searchsorted(known, wanted, sorter=order), known.size - 1)]
    of_node = np.where((known[at] == wanted)[:, None], choices.of_node[at], -1)
    lost = np.flatnonzero((of_node < 0).any(axis=1))
    if lost.size:
        states = layer.nodes.states[lost].astype(np.int64)
        number = np.empty(lost.size, np.int64)
        _observed_numbers(model, states, observed[layer.episode()[lost]], usual[states % usual.size], number)
        of_node[lost] = np.where(of_node[lost] < 0, number[:, None], of_node[lost])
    return Choices(of_node.astype(choices.of_node.dtype), choices.on_path, choices.columns)


def _node_keys(layer: Layer, n_states: int, runs: int) -> Ints:
    """A number for each node by episode, state (of its copy) and run."""
    run = layer.nodes.runs.astype(np.int64) if layer.nodes.runs.size else 0
    keys: Ints = (layer.episode() * n_states + layer.nodes.states.astype(np.int64) % n_states) * runs + run
    return keys


def by_policy(
    model: Model, layer: Layer, occupied: Occupied, decide: Callable[[Ints], tuple[Ints, Ints, Floats]], observed: Ints
) -> Visits:
    """What a policy takes. ``decide`` is asked once for each state, ascending.

    It returns where the pairs of each state begin, the pairs, and the probability of each.
    """
    offsets = layer.nodes.offsets
    going = np.flatnonzero(offsets[occupied.node + 1] > offsets[occupied.node])
    node, states = occupied.node[going], layer.nodes.states[occupied.node[going]]
    is_there = np.zeros(model.n_states, np.bool_)
    is_there[states] = True
    distinct = np.flatnonzero(is_there)
    begin, pairs, share = decide(distinct)
    which = np.empty(model.n_states, np.int64)
    which[distinct] = np.arange(distinct.size)
    return _visits(model, layer, node, which[states], begin, pairs, share, occupied.mass[going], observed)


def _visits(
    model: Model, layer: Layer, node: Ints, which: Ints, begin: Ints, pairs: Ints, share: Floats, mass: Floats,
    observed: Ints,
) -> Visits:  # fmt: skip
    """Visits of nodes (ascending); node i takes the pairs of the list ``which[i]``, from ``begin`` on."""
    n = int(np.sum(np.diff(begin)[which]))
    out, position, edit = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    changed, weight = np.empty(n, np.uint8), np.empty(n)
    _take_pairs(
        model, layer.nodes, layer.edits, node, which, begin, pairs, share, mass, observed, out, position, edit, changed,
        weight,
    )  # fmt: skip
    return Visits(out, np.zeros(n, np.int64), position, edit, changed, weight)


def by_episode_pairs(model: Model, layer: Layer, occupied: Occupied, pair: Ints, observed: Ints) -> Visits:
    """Visits that take the pair ``pair[b]`` wherever episode b is. Ends take none."""
    offsets, first = layer.nodes.offsets, layer.nodes.first
    going = np.flatnonzero(offsets[occupied.node + 1] > offsets[occupied.node])
    node = occupied.node[going]
    pairs = pair[np.searchsorted(first, node, side="right") - 1]
    return take_pairs(model, layer, node, pairs, occupied.mass[going], observed)


def take_pairs(model: Model, layer: Layer, node: Ints, pairs: Ints, mass: Floats, observed: Ints) -> Visits:
    """Visits that take one pair in each of some nodes, ascending."""
    each = np.arange(node.size + 1)
    return _visits(model, layer, node, each[:-1], each, pairs, np.ones(node.size), mass, observed)


def expected_returns(
    model: Model, layers: list[Layer], visits: list[Visits], occupied: list[Occupied],
    rewards: Callable[[int, Layer, Any], tuple[Floats, Floats]], final: Floats, discount: float,
) -> Floats:  # fmt: skip
    """The expected return of each episode of a batch under what is taken there; paths end in nodes without pairs."""
    total = np.zeros(layers[0].nodes.first.size - 1)
    for t, (layer, here) in enumerate(zip(layers, occupied, strict=True)):
        over = layer.nodes.offsets[here.node] == layer.nodes.offsets[here.node + 1]
        worth = here.mass[over] * final[layer.nodes.states[here.node[over]]]
        total += discount**t * by_episode(layer, here.node[over], worth)
        if t == len(visits):
            break
        some = visits[t]
        of_pairs, of_edits = rewards(t, layer, slice(None))
        reward = of_pairs[some.pairs(model, layer)]
        edited = some.edit >= 0
        reward[edited] = of_edits[some.edit[edited]]
        total += discount**t * by_episode(layer, some.node, some.mass * reward)
    return total


def by_episode(layer: Layer, node: Ints, weight: Floats) -> Floats:
    """The sum of some weights of nodes, for each episode."""
    owner = np.searchsorted(layer.nodes.first, node, side="right") - 1
    summed: Floats = np.bincount(owner, weight, minlength=layer.nodes.first.size - 1).astype(np.float64, copy=False)
    return summed


def links(
    model: Model, layer: Layer, after: Layer, visits: Visits, here: Occupied, there: Occupied, most: int,
    rewards: Floats, by_entry: bool,
) -> Links:  # fmt: skip
    """The links of one step; ``rewards`` are those of this time, by pair or by entry of the model."""
    edits, pairs = layer.edits, visits.pairs(model, layer)
    is_edited = visits.edit >= 0
    row = edits.row[np.maximum(visits.edit, 0)] if edits.row.size else np.zeros(pairs.size, np.int64)
    begin = np.where(is_edited, edits.start[row] if edits.row.size else 0, model.row_start[pairs])
    end = np.where(is_edited, edits.start[row + 1] if edits.row.size else 0, model.row_start[pairs + 1])
    start = starts(end - begin)
    owner = np.repeat(np.arange(pairs.size), end - begin)
    item = np.arange(owner.size) + (begin - start[:-1])[owner]
    edited = is_edited[owner]
    state, chance = np.empty(owner.size, np.int64), np.empty(owner.size)
    state[edited], chance[edited] = edits.next_state[item[edited]], edits.probability[item[edited]]
    state[~edited], chance[~edited] = model.next_state[item[~edited]], model.probability[item[~edited]]
    influenced = np.zeros(pairs.size, bool)
    influenced[is_edited] = edits.influenced[visits.edit[is_edited]] > 0
    run = np.where(influenced, 0, layer.nodes.runs[visits.node] + 1) if layer.nodes.runs.size else np.zeros_like(pairs)
    changes = np.clip(visits.changes - visits.changed, 0, most)
    source = _places(here, most, visits.node, visits.changes)
    node = _find_nodes(after, layer.episode()[visits.node][owner], state, run[owner], model.n_states)
    target = _places(there, most, node, changes[owner])
    if by_entry:
        keys, wanted = _entry_keys(model, pairs)
        reward = rewards[keys[1][np.searchsorted(keys[0], wanted[owner] + state)]]
    else:
        reward = rewards[pairs][owner]
    share = visits.mass / here.mass[source]
    some = target >= 0  # the probability of others is so small that it is 0 as a number
    return Links(source[owner][some], target[some], (share[owner] * chance)[some], reward[some])


def _places(occupied: Occupied, most: int, node: Ints, changes: Ints) -> Ints:
    """Where some nodes with changes left are among those that are occupied; -1 for the others."""
    keys, wanted = occupied.node * (most + 1) + occupied.changes, node * (most + 1) + changes
    found = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    return np.where(keys[found] == wanted, found, -1)


def _find_nodes(layer: Layer, episode: Ints, state: Ints, run: Ints, n_states: int) -> Ints:
    """The node of each of some states (and runs) of episodes."""
    nodes = layer.nodes
    runs = nodes.runs if nodes.runs.size else np.zeros(nodes.size, np.int64)
    width = int(max(runs.max(initial=0), run.max(initial=0))) + 1
    keys = (layer.episode() * n_states + nodes.states) * width + runs
    return np.searchsorted(keys, (episode * n_states + state) * width + run)


def _entry_keys(model: Model, pairs: Ints) -> tuple[tuple[Ints, Ints], Ints]:
    """Keys of the entries of the rows of some pairs, ascending, with the entries; and what each pair adds to a key."""
    distinct, which = np.unique(pairs, return_inverse=True)
    count = model.row_start[distinct + 1] - model.row_start[distinct]
    begin = starts(count)
    owner = np.repeat(np.arange(distinct.size), count)
    entry = np.arange(owner.size) + (model.row_start[distinct] - begin[:-1])[owner]
    return (owner * model.n_states + model.next_state[entry], entry), which.reshape(-1) * model.n_states


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
        e = first_from(edited, 0, edited.size, at)
        out_node[n], out_changes[n], position[n], out_mass[n] = node[i], c, at, mass[i]
        edit[n] = e if e < edited.size and edited[e] == at else -1
        changed[n] = is_change(model, s, number, observed[b])
        n += 1
    return n


@kernel
def _observed_numbers(model: Model, states: Ints, observed: Ints, usual: Ints, out: Ints) -> None:
    """The number of the observed action among the pairs of each state; that of ``usual`` if it is not available."""
    for i in range(states.size):
        number = find_pair(model, states[i], observed[i])
        out[i] = number if number >= 0 else usual[i]


@kernel
def _take_pairs(
    model: Model, nodes: Nodes, edits: Edits, node: Ints, which: Ints, begin: Ints, pairs: Ints, share: Floats,
    mass: Floats, observed: Ints, out: Ints, position: Ints, edit: Ints, changed: Ints, weight: Floats,
) -> None:  # fmt: skip
    """Write the visits of each node, one for each pair of its list."""
    first, state, _, offset = nodes
    edited, pair_start = edits.position, model.pair_start
    b, n = 0, 0
    for i in range(node.size):
        while node[i] >= first[b + 1]:
            b += 1
        low = pair_start[state[node[i]]]
        for j in range(begin[which[i]], begin[which[i] + 1]):
            at = offset[node[i]] + pairs[j] - low
            e = first_from(edited, 0, edited.size, at)
            out[n], position[n], weight[n] = node[i], at, mass[i] * share[j]
            edit[n] = e if e < edited.size and edited[e] == at else -1
            changed[n] = is_change(model, state[node[i]], pairs[j] - low, observed[b])
            n += 1


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
