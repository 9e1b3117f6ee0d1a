"""Following a policy exactly: what it takes, and where that leads, forward from time to time.

One step (`onward`) takes the rows of what is taken at one time, by one episode or by many, and collects the nodes of
the next time and the links to them; `reach` is the same step without links, where only probabilities count. `walk`
follows what a function of time and nodes decides. `follow` does so through the layers of a batch, where decisions are
by place, as plans choose them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints, distinct, positions, read_only, spans, summed
from tether._kernels.jit import kernel
from tether._kernels.order import first_from
from tether.core.backward import Choices
from tether.core.batch import NO_EDITS, Edits, Layer, Model, Nodes, Replaced, at_time, starts
from tether.core.chain import Chain, Decide, Link, Taken, Visits
from tether.core.plan import find_pair, is_change

RowsOf = Callable[[int, Taken], Replaced | None]
"""The rows of what is taken at a time; None if all are those of the model."""

RewardsAt = Callable[[int], tuple[Floats, bool]]
"""The rewards of a time, by pair or by entry of the model; and whether they are by entry."""


def entries(model: Model, pairs: Ints, replaced: Replaced | None) -> tuple[Ints, Ints, Floats]:
    """What the rows of some pairs lead to: position in ``pairs``, entry of the model, and probability, row by row."""
    owner, entry, chance, _ = _expanded(model, pairs, replaced, np.ones(pairs.size), np.zeros(pairs.size, np.int64), 1)
    return owner, entry, chance


def _expanded(
    model: Model, pairs: Ints, replaced: Replaced | None, share: Floats, memory: Ints, n_memories: int
) -> tuple[Ints, Ints, Floats, Ints]:
    """The entries of rows that are taken with some shares, and the key of the node that each leads to."""
    rows, n = _rows(model, pairs, replaced, share, memory)
    owner, entry, chance, key = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n), np.empty(n, np.int64)
    _expand(model, *rows, n_memories, owner, entry, chance, key)
    return owner, entry, chance, key


def _rows(
    model: Model, pairs: Ints, replaced: Replaced | None, share: Floats, memory: Ints
) -> tuple[tuple[Replaced, Ints, Floats, Ints], int]:
    """Rows that are taken, as kernels take them; and how many entries they have."""
    size = model.row_start[pairs + 1] - model.row_start[pairs]
    if replaced is None:
        none = NO_EDITS.start, NO_EDITS.next_state, NO_EDITS.probability
        replaced = Replaced(np.full(pairs.size, -1), *none)
    else:
        edited = np.flatnonzero(replaced.row >= 0)
        row = replaced.row[edited]
        size[edited] = replaced.start[row + 1] - replaced.start[row]
    columns = pairs.astype(np.int64, copy=False), share, memory
    pairs, share, memory = map(read_only, columns)
    return (Replaced(*map(read_only, replaced)), pairs, share, memory), int(size.sum())


@kernel
def _expand(
    model: Model, replaced: Replaced, pairs: Ints, share: Floats, memory: Ints, n_memories: int, owner: Ints,
    entry: Ints, chance: Floats, key: Ints,
) -> None:  # fmt: skip
    _, _, row_start, nominal_next, nominal = model
    row, start, next_state, probability = replaced
    n = 0
    for i in range(pairs.size):
        e, r = row_start[pairs[i]], row[i]
        if r < 0:
            for at in range(e, row_start[pairs[i] + 1]):
                owner[n], entry[n], chance[n] = i, at, share[i] * nominal[at]
                key[n] = nominal_next[at] * n_memories + memory[i]
                n += 1
            continue
        for at in range(start[r], start[r + 1]):  # an edited row has some of the states of the model's, in their order
            while nominal_next[e] != next_state[at]:
                e += 1
            owner[n], entry[n], chance[n] = i, e, share[i] * probability[at]
            key[n] = next_state[at] * n_memories + memory[i]
            n += 1


def onward(
    model: Model, visits: Visits, taken: Taken, replaced: Replaced | None, rewards: tuple[Floats, bool]
) -> tuple[Link, Visits]:
    """The links of a step, and the nodes that they lead to."""
    memory, n_runs, n_memories, most = _memories(model, visits, taken)
    how = taken.pairs, replaced, taken.probability, memory, n_memories
    owner, entry, chance, keys = _expanded(model, *how)
    key = distinct(keys, most)
    values, by_entry = rewards
    link = Link(
        taken.source[owner],
        positions(key, keys, most).astype(np.int64, copy=False),
        taken.pairs[owner],
        chance,
        values[entry] if by_entry else values[taken.pairs[owner]],
        owner,
    )
    return link, _nodes(model, visits, key, n_memories, n_runs)


def reach(model: Model, visits: Visits, taken: Taken, replaced: Replaced | None, mass: Floats) -> tuple[Visits, Floats]:
    """The nodes that a step leads to, and their probabilities, without its links; ``mass`` is that of what is taken."""
    memory, n_runs, n_memories, most = _memories(model, visits, taken)
    rows, size = _rows(model, taken.pairs, replaced, mass, memory)
    if size < most // _FEW:
        _, _, chance, keys = _expanded(model, taken.pairs, replaced, mass, memory, n_memories)
        key = distinct(keys, most)
        return _nodes(model, visits, key, n_memories, n_runs), summed(positions(key, keys, most), chance, key.size)
    is_met, of_key = np.zeros(most, np.bool_), np.zeros(most)
    _spread(model, *rows, n_memories, is_met, of_key)
    key = np.flatnonzero(is_met)
    return _nodes(model, visits, key, n_memories, n_runs), of_key[key]


_FEW = 16
"""Nodes are found by sorting if a step has fewer links than one in this many of the possible nodes."""


@kernel
def _spread(
    model: Model, replaced: Replaced, pairs: Ints, share: Floats, memory: Ints, n_memories: int, is_met: Flags,
    mass: Floats,
) -> None:  # fmt: skip
    _, _, row_start, nominal_next, nominal = model
    row, start, next_state, probability = replaced
    for i in range(pairs.size):
        r = row[i]
        if r < 0:
            for at in range(row_start[pairs[i]], row_start[pairs[i] + 1]):
                key = nominal_next[at] * n_memories + memory[i]
                is_met[key] = True
                mass[key] += share[i] * nominal[at]
            continue
        for at in range(start[r], start[r + 1]):
            key = next_state[at] * n_memories + memory[i]
            is_met[key] = True
            mass[key] += share[i] * probability[at]


def _memories(model: Model, visits: Visits, taken: Taken) -> tuple[Ints, int, int, int]:
    """What is added to the keys of nodes for episode, changes and run; and the numbers of runs, memories and keys."""
    n_runs, n_changes = int(taken.runs.max(initial=0)) + 1, int(taken.changes.max(initial=0)) + 1
    memory = taken.changes.astype(np.int64) * n_runs + taken.runs
    of_state = n_changes * n_runs
    if visits.of_episode is None:
        return memory, n_runs, of_state, model.n_states * of_state
    memory += visits.of_episode[taken.source] * (model.n_states * of_state)
    return memory, n_runs, of_state, (int(visits.of_episode.max(initial=0)) + 1) * model.n_states * of_state


def _nodes(model: Model, visits: Visits, key: Ints, n_memories: int, n_runs: int) -> Visits:
    """The nodes of some keys."""
    node, memory = key // n_memories, key % n_memories
    if visits.of_episode is None:
        return Visits(node, memory // n_runs, memory % n_runs)
    return Visits(node % model.n_states, memory // n_runs, memory % n_runs, node // model.n_states)


def walk(
    model: Model, start: Visits, times: Iterable[int], decide: Decide, rows_of: RowsOf, rewards_at: RewardsAt
) -> Chain:
    """Follow decisions from some nodes, with the links of each step."""
    visits, taken, links = [start], [], []
    for t in times:
        some = decide(t, visits[-1])
        link, after = onward(model, visits[-1], some, rows_of(t, some), rewards_at(t))
        visits.append(after)
        taken.append(some)
        links.append(link)
    return Chain(tuple(visits), tuple(taken), tuple(links))


@dataclass(frozen=True, slots=True, eq=False)
class Occupied:
    """Nodes of a layer that are reached, with the changes left there, and the probability of each."""

    node: Ints
    changes: Ints
    mass: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Decided:
    """What is taken in a layer, in the order of the occupied nodes.

    ``source`` is the position of the occupied node, ``node`` its place in the layer. ``edit`` is the place of the pair
    among the edited ones of the layer, -1 if its row is nominal; ``changed`` says whether taking it is a change;
    ``share`` is the probability, given the node, and ``mass`` that of both.
    """

    source: Ints
    node: Ints
    changes: Ints
    position: Ints
    edit: Ints
    changed: Ints
    share: Floats
    mass: Floats

    def pairs(self, model: Model, layer: Layer) -> Ints:
        """The pair of the model that each decision takes."""
        nodes = layer.nodes
        found: Ints = model.pair_start[nodes.states[self.node]] + self.position - nodes.offsets[self.node]
        return found


class Through(NamedTuple):
    """A walk through the layers of a batch: what is taken and what is occupied at each time."""

    taken: list[Decided]
    occupied: list[Occupied]


def follow(
    model: Model, layers: list[Layer], first: Occupied, most: int, decide: Callable[[int, Layer, Occupied], Decided]
) -> Through:
    """Follow decisions through the layers of a batch; ``most`` is the largest number of changes left."""
    found = Through([], [first])
    visits = _visits(layers[0], first)
    for t, (layer, after) in enumerate(pairwise(layers)):
        some = decide(t, layer, found.occupied[-1])
        visits, mass = reach(model, visits, _taken(model, layer, some, most), _replaced(layer, some), some.mass)
        found.taken.append(some)
        found.occupied.append(Occupied(_find_nodes(after, visits, model.n_states), visits.changes, mass))
    return found


def links(model: Model, layers: list[Layer], through: Through, most: int, rewards_at: RewardsAt) -> list[Link]:
    """The links of a walk through the layers of a batch, for each step; not of which pairs and decisions they are."""
    found, none = [], np.empty(0, np.int64)
    for t, (layer, some) in enumerate(zip(layers, through.taken, strict=False)):
        step = _taken(model, layer, some, most), _replaced(layer, some), rewards_at(t)
        link = onward(model, _visits(layer, through.occupied[t]), *step)[0]
        found.append(replace(link, pairs=none, decision=none))
    return found


def _visits(layer: Layer, here: Occupied) -> Visits:
    nodes = layer.nodes
    runs = nodes.runs[here.node].astype(np.int64) if nodes.runs.size else np.zeros_like(here.node)
    episode = np.searchsorted(nodes.first, here.node, side="right") - 1
    return Visits(nodes.states[here.node].astype(np.int64), here.changes, runs, episode)


def _taken(model: Model, layer: Layer, some: Decided, most: int) -> Taken:
    """What is taken, with the changes and the run that are left after it."""
    runs = np.zeros_like(some.node)
    if layer.nodes.runs.size:
        influenced = np.zeros(some.node.size, np.bool_)
        edited = some.edit >= 0
        influenced[edited] = layer.edits.influenced[some.edit[edited]] > 0
        runs = np.where(influenced, 0, layer.nodes.runs[some.node].astype(np.int64) + 1)
    left = np.clip(some.changes - some.changed, 0, most)
    return Taken(some.source, some.pairs(model, layer), some.share, left, runs)


def _replaced(layer: Layer, some: Decided) -> Replaced | None:
    """The edited rows of what is taken."""
    edits = layer.edits
    if edits.row.size == 0:
        return None
    row = np.where(some.edit >= 0, edits.row[some.edit], -1)
    return Replaced(row, edits.start, edits.next_state, edits.probability)


def by_choices(model: Model, layer: Layer, here: Occupied, choices: Choices, observed: Ints, most: int) -> Decided:
    """What a plan takes; ``observed`` is the observed action of each episode."""
    source, number = _chosen(layer, here, choices, most)
    first = model.pair_start[layer.nodes.states[here.node[source]]]
    return take_pairs(model, layer, here, source, first + number, observed)


def where_known(
    model: Model, layer: Layer, here: Occupied, choices: Choices, observed: Ints, most: int
) -> tuple[Decided, Flags]:
    """What a plan takes, and what is sure to be taken: where it has no choice, what was done, or any action at all."""
    source, number = _chosen(layer, here, choices, most)
    node = here.node[source]
    states, lost = layer.nodes.states[node].astype(np.int64), np.flatnonzero(number < 0)
    done = np.empty(lost.size, np.int64)
    _observed_numbers(model, states[lost], observed[layer.episode()[node[lost]]], number[lost], done)
    number[lost] = done
    any_action, first = number < 0, model.pair_start[states]
    begin = np.where(any_action, first, first + number)
    owner, pairs = spans(begin, np.where(any_action, model.pair_start[states + 1], begin + 1))
    share = 1.0 / np.bincount(owner, minlength=source.size)[owner]
    return take_pairs(model, layer, here, source[owner], pairs, observed, share), ~any_action[owner]


def _chosen(layer: Layer, here: Occupied, choices: Choices, most: int) -> tuple[Ints, Ints]:
    """The occupied nodes in which paths go on, and the number of the pair that is chosen there; -1 if none is."""
    source = goes_on(layer, here)
    node, changes = here.node[source], here.changes[source]
    of_node = choices.of_node
    if of_node.shape[0]:
        number = of_node[node, np.minimum(changes, of_node.shape[1] - 1)].astype(np.int64)
    else:
        number = np.full(source.size, -1)
    on_path = np.flatnonzero(changes == most)
    number[on_path] = choices.on_path[np.searchsorted(layer.nodes.first, node[on_path], side="right") - 1, 0]
    return source, number


def goes_on(layer: Layer, here: Occupied) -> Ints:
    """The occupied nodes in which paths go on."""
    offsets = layer.nodes.offsets
    return np.flatnonzero(offsets[here.node + 1] > offsets[here.node])


def transferred(model: Model, layer: Layer, theirs: Layer, choices: Choices, observed: Ints, usual: Ints) -> Choices:
    """Choices for the nodes of a layer that were made on that of the same episodes in another copy of the model.

    For a node that they do not know: the observed action, or the pair of its state that ``usual`` numbers. It has as
    many states as a copy.
    """
    of_node = known_choices(layer, theirs, choices, usual.size).of_node
    if of_node.shape[0] == 0:
        return choices
    lost = np.flatnonzero((of_node < 0).any(axis=1))
    if lost.size:
        states = layer.nodes.states[lost].astype(np.int64)
        number = np.empty(lost.size, np.int64)
        _observed_numbers(model, states, observed[layer.episode()[lost]], usual[states % usual.size], number)
        of_node[lost] = np.where(of_node[lost] < 0, number[:, None], of_node[lost])
    return Choices(of_node.astype(choices.of_node.dtype), choices.on_path, choices.columns)


def known_choices(layer: Layer, theirs: Layer, choices: Choices, n_states: int) -> Choices:
    """Choices for the nodes of a layer that were made on another one of the same episodes; -1 for nodes not there.

    Both may be layers of copies of a model, of so many states each.
    """
    if choices.of_node.shape[0] == 0:
        return choices
    runs = int(max(theirs.nodes.runs.max(initial=0), layer.nodes.runs.max(initial=0))) + 1
    known, wanted = (_node_keys(one, n_states, runs) for one in (theirs, layer))
    order = np.argsort(known, kind="stable")
    at = order[np.minimum(np.searchsorted(known, wanted, sorter=order), known.size - 1)]
    of_node = np.where((known[at] == wanted)[:, None], choices.of_node[at], -1)
    return Choices(of_node, choices.on_path, choices.columns)


def _node_keys(layer: Layer, n_states: int, runs: int) -> Ints:
    """A number for each node by episode, state (of its copy) and run."""
    run = layer.nodes.runs.astype(np.int64) if layer.nodes.runs.size else 0
    keys: Ints = (layer.episode() * n_states + layer.nodes.states.astype(np.int64) % n_states) * runs + run
    return keys


def by_policy(
    model: Model, layer: Layer, here: Occupied, decide: Callable[[Ints], tuple[Ints, Ints, Floats]], observed: Ints
) -> Decided:
    """What a policy takes. ``decide`` is asked once for each state, ascending.

    It returns where the pairs of each state begin, the pairs, and the probability of each.
    """
    going = goes_on(layer, here)
    states = layer.nodes.states[here.node[going]]
    asked = distinct(states, model.n_states)
    begin, pairs, share = decide(asked)
    which = positions(asked, states, model.n_states)
    count = np.diff(begin)[which]
    first = starts(count)
    item = np.arange(int(first[-1])) + np.repeat(begin[which] - first[:-1], count)
    return take_pairs(model, layer, here, np.repeat(going, count), pairs[item], observed, share[item])


def by_episode_pairs(model: Model, layer: Layer, here: Occupied, pair: Ints, observed: Ints) -> Decided:
    """What is taken if episode b takes the pair ``pair[b]`` wherever it is. Where paths end nothing is taken."""
    going = goes_on(layer, here)
    episode = np.searchsorted(layer.nodes.first, here.node[going], side="right") - 1
    return take_pairs(model, layer, here, going, pair[episode], observed)


def take_pairs(
    model: Model, layer: Layer, here: Occupied, source: Ints, pairs: Ints, observed: Ints, share: Floats | None = None
) -> Decided:
    """What is taken if the occupied node ``source[i]`` takes ``pairs[i]`` with its share; by default for certain."""
    node, share = here.node[source], np.ones(source.size) if share is None else share
    position = layer.nodes.offsets[node] + pairs - model.pair_start[layer.nodes.states[node]]
    edit, changed = np.empty(node.size, np.int64), np.empty(node.size, np.uint8)
    _edits_and_changes(model, layer.nodes, layer.edits, node, position, observed, edit, changed)
    return Decided(source, node, here.changes[source], position, edit, changed, share, here.mass[source] * share)


def expected_returns(
    model: Model, layers: list[Layer], through: Through,
    rewards: Callable[[int, Layer, Any], tuple[Floats, Floats]], final: Floats, discount: float,
) -> Floats:  # fmt: skip
    """The expected return of each episode of a batch under what is taken there; paths end in nodes without pairs.

    ``final`` is by the time of the end, one row if that does not matter.
    """
    total = np.zeros(layers[0].nodes.first.size - 1)
    for t, (layer, here) in enumerate(zip(layers, through.occupied, strict=True)):
        over = layer.nodes.offsets[here.node] == layer.nodes.offsets[here.node + 1]
        worth = here.mass[over] * at_time(final, t)[layer.nodes.states[here.node[over]]]
        total += discount**t * by_episode(layer, here.node[over], worth)
        if t == len(through.taken):
            break
        some = through.taken[t]
        of_pairs, of_edits = rewards(t, layer, slice(None))
        reward = of_pairs[some.pairs(model, layer)]
        edited = some.edit >= 0
        reward[edited] = of_edits[some.edit[edited]]
        total += discount**t * by_episode(layer, some.node, some.mass * reward)
    return total


def by_episode(layer: Layer, node: Ints, weight: Floats) -> Floats:
    """The sum of some weights of nodes, for each episode."""
    first = layer.nodes.first
    return summed(np.searchsorted(first, node, side="right") - 1, weight, first.size - 1)


def _find_nodes(layer: Layer, visits: Visits, n_states: int) -> Ints:
    """The node of a layer that each visited node is."""
    runs = int(max(layer.nodes.runs.max(initial=0), visits.runs.max(initial=0))) + 1
    wanted = (visits.episode * n_states + visits.states) * runs + visits.runs
    return np.searchsorted(_node_keys(layer, n_states, runs), wanted)


@kernel
def _observed_numbers(model: Model, states: Ints, observed: Ints, usual: Ints, out: Ints) -> None:
    """The number of the observed action among the pairs of each state; that of ``usual`` if it is not available."""
    for i in range(states.size):
        number = find_pair(model, states[i], observed[i])
        out[i] = number if number >= 0 else usual[i]


@kernel
def _edits_and_changes(
    model: Model, nodes: Nodes, edits: Edits, node: Ints, position: Ints, observed: Ints, edit: Ints, changed: Ints
) -> None:
    """Write the place of each position among the edited ones, and whether taking it is a change."""
    first, state, _, offset = nodes
    edited = edits.position
    b = 0
    for i in range(node.size):
        while node[i] >= first[b + 1]:
            b += 1
        e = first_from(edited, 0, edited.size, position[i])
        edit[i] = e if e < edited.size and edited[e] == position[i] else -1
        changed[i] = is_change(model, state[node[i]], position[i] - offset[node[i]], observed[b])
