"""κ of every pair of a batch under each rule: the smallest k at which it is allowed, for every k at once.

dist_t(s,a) is the smallest j ≥ 1 such that some path of the counterfactual MDP that starts with (s,a) at t has an
influenced pair at t+j-1 (∞ if none). A pair is allowed for k if t + k > T, or if

- ``definition`` (the paper's Definitions 3 and 4): dist_t(s,a) ≤ k;
- ``published`` (the released code, the paper's tables): s at t and every possible successor at t+1 lie within k steps,
  in the time-layered graph of the nominal MDP, of a node (u+1, s') with s' in the support of the observed row of u;
- ``printed`` (Algorithm 1 as printed): every nominal successor lies within k steps of the union of the observed
  supports, time ignored;

and every counterfactually possible successor keeps an allowed pair. The fourth rule is about all paths, not some:

- ``assured`` (ours): no k consecutive steps of any path the policy can take are all uninfluenced; a node is a state
  with the run of uninfluenced steps just passed.

With own_t(s,a) = min(T - t + 1, the rule's own threshold):

    κ_t(s,a) = max(own_t(s,a), max over counterfactual successors s' of κ_{t+1}(s'))        κ_T = 1
    κ_t(s)   = min over a of κ_t(s,a)

Where a path ends before T, because a property is decided, κ = 1, and no rule limits it. Such a state may still be in an
observed support, which `published` and `printed` look for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from tether._foundation.arrays import Flags, Ints
from tether._kernels.jit import kernel
from tether.core.batch import NO_EDITS, NO_RUNS, Edits, Layer, Model, Nodes, Steps, starts
from tether.core.condition import make_nodes, successors
from tether.core.gather import FAR, gather

__all__ = ["Kappa", "Rule", "own_thresholds", "thresholds", "with_runs"]

_NONE = np.empty(0, np.int64)

Rule = Literal["definition", "published", "printed", "assured"]


@dataclass(frozen=True, eq=False)
class Kappa:
    """κ of the pairs of each layer, t = 0 … T-1, and of the nodes of the first one; with the layers themselves."""

    layers: list[Layer]
    of_pairs: list[Ints]
    first: Ints


def thresholds(
    model: Model,
    steps: Steps,
    layers: list[Layer],
    rule: Rule,
    ended: Flags | None,
    up_to: int,
    *,
    forbidden: Flags | None = None,
    loose: bool = False,
) -> Kappa:
    """κ under a rule; influence is what the edits of the layers say. ``up_to`` is the largest k of interest.

    ``ended`` marks the states that end a path, ``forbidden`` the pairs of the model that may not be advised: no k
    allows them, unless they repeat the observed action. Layers are ``loose`` if they may hold more than can be reached.
    """
    T, lengths = len(layers) - 1, steps.lengths
    if rule == "assured":
        layers = with_runs(model, layers, up_to)
    own = None if rule == "definition" else own_thresholds(model, steps, layers, rule, ended, loose=loose)
    near = np.full(layers[T].size, FAR, np.int16)
    kappa, of_pairs = np.ones(layers[T].size, np.int16), []
    for t in range(T - 1, -1, -1):
        left = np.maximum(lengths - t + 1, 1)
        if own is None:  # the distance is the rule's own threshold: one pass finds both
            each, cap = np.ones(layers[t].n_pairs, np.int16), left
        elif rule == "assured":
            each, cap = own[t], _NONE
        else:
            each, cap = np.minimum(own[t], layers[t].by_pair(left)).astype(np.int16), _NONE
        if forbidden is not None:
            each[_advised(model, layers[t], forbidden, steps.item(steps.action, t))] = FAR
        near, kappa = _gather_parts(model, layers[t], layers[t + 1].nodes, near, kappa, each, cap, up_to - 1)
        kappa[_stuck(layers[t], lengths > t, ended)] = FAR
        of_pairs.append(each)
    return Kappa(layers, of_pairs[::-1], kappa)


def _advised(model: Model, layer: Layer, which: Flags, observed: Ints) -> Ints:
    """The pairs of a layer, by position, that are among ``which`` and do not repeat the observed action."""
    pairs = layer.pairs(model)
    return np.flatnonzero(which[pairs] & (model.pair_action[pairs] != layer.by_pair(observed)))


def _stuck(layer: Layer, goes_on: Flags, ended: Flags | None) -> Ints:
    """The nodes where a path goes on, but no action is available: nothing is allowed there."""
    empty = np.flatnonzero(np.diff(layer.nodes.offsets) == 0)
    if empty.size and ended is not None:
        empty = empty[~ended[layer.nodes.states[empty]]]
    return empty[goes_on[layer.episode()[empty]]] if empty.size else empty


def own_thresholds(
    model: Model, steps: Steps, layers: list[Layer], rule: Rule, ended: Flags | None, *, loose: bool = False
) -> list[Ints]:
    """The rule's own threshold of each pair, without those of its successors, and however many steps are left."""
    if rule == "assured":
        return [_run_after(layer) for layer in layers[:-1]]
    if rule == "definition":
        return _distances(model, steps, layers)
    if rule == "published":
        return _published(model, steps, layers, ended, loose)
    return _printed(model, steps, layers, ended, loose)


def _gather_parts(
    model: Model, layer: Layer, after: Nodes, near_after: Ints, kappa_after: Ints, own: Ints, cap: Ints, longest: int
) -> tuple[Ints, Ints]:
    """`gather` for a layer that may come in parts."""
    near, kappa = np.empty(layer.size, np.int16), np.empty(layer.size, np.int16)
    offsets = layer.nodes.offsets
    for nodes, _, part in layer.uniform(near_after, kappa_after).parts():
        pairs = own[offsets[nodes.start] : offsets[nodes.stop]]
        near[nodes], kappa[nodes] = gather(model, part, after, near_after, kappa_after, pairs, cap, longest)
    return near, kappa


def _distances(model: Model, steps: Steps, layers: list[Layer]) -> list[Ints]:
    """dist_t(s,a): the nearest influence on any path that starts with the pair."""
    near, found = np.full(layers[-1].size, FAR, np.int16), []
    for t in range(len(layers) - 2, -1, -1):
        own, cap = np.ones(layers[t].n_pairs, np.int16), np.full(len(steps), FAR, np.int64)
        zeros = np.zeros(near.size, np.int16)
        near, _ = _gather_parts(model, layers[t], layers[t + 1].nodes, near, zeros, own, cap, 0)
        found.append(own)
    return found[::-1]


def _run_after(layer: Layer) -> Ints:
    """One more than the run of uninfluenced steps that taking each pair makes; 1 if it is influenced."""
    own: Ints = np.repeat(layer.nodes.runs + 2, np.diff(layer.nodes.offsets)).astype(np.int16)
    own[layer.edits.position[layer.edits.influenced > 0]] = 1
    return own


def _published(model: Model, steps: Steps, layers: list[Layer], ended: Flags | None, loose: bool) -> list[Ints]:
    """max(1, distance of s at t, distances of the possible successors at t+1) to a node of an observed support."""
    rollout, T = _rollout(model, steps, layers, ended, loose, 0), len(layers) - 1
    distance = [_support_distance(model, steps, rollout[T].nodes, T, np.full(rollout[T].size, FAR, np.int16))]
    for t in range(T - 1, -1, -1):
        layer, own = rollout[t], np.ones(rollout[t].n_pairs, np.int16)
        zeros = np.zeros(distance[-1].size, np.int16)
        near, _ = gather(model, layer, rollout[t + 1].nodes, distance[-1], zeros, own, _NONE, 0)
        distance.append(_support_distance(model, steps, layer.nodes, t, near))
    distance.reverse()
    found = []
    for t, layer in enumerate(layers[:-1]):
        here = distance[t][_locate(model, rollout[t].nodes, layer.nodes)]
        own = np.repeat(np.maximum(here, np.int16(1)), np.diff(layer.nodes.offsets))
        after = rollout[t + 1].nodes
        far = np.full(after.states.size, FAR, np.int16)
        furthest = _without_ended(distance[t + 1], after, ended)
        _gather_parts(model, layer, after, far, furthest, own, _NONE, 0)
        found.append(own)
    return found


def _printed(model: Model, steps: Steps, layers: list[Layer], ended: Flags | None, loose: bool) -> list[Ints]:
    """max(1, largest reverse breadth-first depth among the nominal successors), time ignored."""
    around = _around(model, steps, layers, ended, loose)
    depth = np.full(around.size, FAR, np.int16)
    depth[_of_supports(model, steps, around.nodes)] = 0
    zeros = np.zeros(around.size, np.int16)
    for _ in range(steps.longest + 1):
        own = np.ones(around.n_pairs, np.int16)
        near, _ = gather(model, around, around.nodes, depth, zeros, own, _NONE, 0)
        nearer = np.minimum(near, depth)
        if np.array_equal(nearer, depth):
            break
        depth = nearer
    found, far, furthest = [], np.full(depth.size, FAR, np.int16), _without_ended(depth, around.nodes, ended)
    for layer in layers[:-1]:
        own = np.ones(layer.n_pairs, np.int16)
        gather(model, Layer(layer.nodes, NO_EDITS), around.nodes, far, furthest, own, _NONE, 0)
        found.append(own)
    return found


def _without_ended(distance: Ints, nodes: Nodes, ended: Flags | None) -> Ints:
    """Distances that may limit a pair: where a path ends, none does."""
    return distance if ended is None else np.where(ended[nodes.states], np.int16(0), distance)


def _rollout(
    model: Model, steps: Steps, layers: list[Layer], ended: Flags | None, loose: bool, extra: int
) -> list[Layer]:
    """What each episode could have reached without the observation, t = 0 … T, and ``extra`` steps more.

    If the layers are ``loose``, they may hold states that do not follow from the first one: these are part of it too.
    """
    found, stamp = [], np.zeros(model.n_states, np.int64)
    first, state = layers[0].nodes.first, layers[0].nodes.states
    for t in range(steps.longest + extra + 1):
        goes_on = steps.lengths + extra > t
        found.append(Layer(make_nodes(model, first, state, goes_on, ended if t else None), NO_EDITS))
        first, state = successors(model, found[-1], stamp)
        if loose and t + 1 < len(layers):
            keys = np.repeat(np.arange(len(steps)), np.diff(first)) * model.n_states + state
            keys = np.union1d(keys, layers[t + 1].episode() * model.n_states + layers[t + 1].nodes.states)
            first = np.searchsorted(keys, np.arange(len(steps) + 1) * model.n_states)
            state = (keys % model.n_states).astype(np.int32)
    return found


def _around(model: Model, steps: Steps, layers: list[Layer], ended: Flags | None, loose: bool) -> Layer:
    """All states that each episode could reach within T + 2 steps, without the observation, as one layer.

    States that are reached last have no pairs: no path that matters goes through them.
    """
    rollout = _rollout(model, steps, layers, ended, loose, 2)
    keys = [layer.episode() * model.n_states + layer.nodes.states for layer in rollout]
    every = np.unique(np.concatenate(keys))
    goes_on = np.concatenate([key[np.diff(layer.nodes.offsets) > 0] for key, layer in zip(keys, rollout, strict=True)])
    state = (every % model.n_states).astype(np.int32)
    count = model.pair_start[state.astype(np.int64) + 1] - model.pair_start[state]
    count[~np.isin(every, goes_on)] = 0
    first = np.searchsorted(every // model.n_states, np.arange(len(steps) + 1))
    return Layer(Nodes(first, state, NO_RUNS, starts(count)), NO_EDITS)


def _locate(model: Model, among: Nodes, wanted: Nodes) -> Ints:
    """Where the nodes of a layer are among those of a larger one of the same episodes."""
    n_states = model.n_states
    keys = [
        np.repeat(np.arange(nodes.first.size - 1), np.diff(nodes.first)) * n_states + nodes.states
        for nodes in (among, wanted)
    ]
    return np.searchsorted(keys[0], keys[1])


def _of_supports(model: Model, steps: Steps, nodes: Nodes, t: int | None = None) -> Ints:
    """The nodes whose states are in the observed support of time t - 1 of their episode; by default of any time."""
    episodes = np.arange(len(steps))
    owner = np.repeat(episodes, steps.lengths)
    at = np.arange(steps.pair.size)
    if t is not None:
        at = steps.at(t - 1) if t > 0 else np.full(len(steps), -1)
        owner, at = episodes[at >= 0], at[at >= 0]
    lengths = np.diff(steps.support_start)[at]
    begin = starts(lengths)
    item = np.arange(int(begin[-1])) + np.repeat(steps.support_start[at] - begin[:-1], lengths)
    keys = np.unique(np.repeat(owner, lengths) * model.n_states + steps.support[item])
    of_nodes = np.repeat(episodes, np.diff(nodes.first)) * model.n_states + nodes.states
    return np.flatnonzero(np.isin(of_nodes, keys))


def _support_distance(model: Model, steps: Steps, nodes: Nodes, t: int, near: Ints) -> Ints:
    """Distances of the nodes of a layer: 0 for a state of the observed support of the step before."""
    near[_of_supports(model, steps, nodes, t)] = 0
    return near


def with_runs(model: Model, layers: list[Layer], up_to: int) -> list[Layer]:
    """The layers with nodes (state, run), for runs of less than ``up_to`` uninfluenced steps.

    The run of a node is the number of uninfluenced steps just passed.
    """
    first, state = layers[0].nodes.first, layers[0].nodes.states
    run, found = np.zeros(state.size, np.int32), []
    stamp = np.zeros((min(len(layers), up_to) + 1) * model.n_states, np.int64)
    for layer in layers:
        base = _locate(model, layer.nodes, Nodes(first, state, NO_RUNS, first))
        nodes = Nodes(first, state, run, starts(np.diff(layer.nodes.offsets)[base]))
        found.append(_copied(layer.whole(), base, nodes))
        if len(found) == len(layers):
            break
        wide = state.astype(np.int64)
        reads = model.row_start[model.pair_start[wide + 1]] - model.row_start[model.pair_start[wide]]
        out, first = np.empty(int(reads.sum()), np.int64), np.empty(first.size, np.int64)
        n = _run_successors(model, nodes, found[-1].edits, stamp, up_to - 1, first, out)
        state, run = (out[:n] // up_to).astype(np.int32), (out[:n] % up_to).astype(np.int32)
    return found


def _copied(layer: Layer, base: Ints, nodes: Nodes) -> Layer:
    """A layer of nodes that are copies of the nodes ``base`` of another, with their edited pairs."""
    edits, begin = layer.edits, np.searchsorted(layer.edits.position, layer.nodes.offsets)
    count = np.diff(begin)[base]
    node = np.repeat(np.arange(base.size), count)
    at = begin[base[node]] + np.arange(node.size) - np.repeat(np.cumsum(count) - count, count)
    position = edits.position[at] - layer.nodes.offsets[base[node]] + nodes.offsets[node]
    copied = edits._replace(position=position, row=edits.row[at], influenced=edits.influenced[at])
    return Layer(nodes, copied, at if layer.numbers is None else layer.numbers[at])


@kernel
def _run_successors(model: Model, nodes: Nodes, edits: Edits, stamp: Ints, longest: int, first: Ints, out: Ints) -> int:
    """Write the keys state · (longest + 1) + run of the nodes that follow, ascending for each episode."""
    pair_start, _, row_start, next_state, _ = model
    node_first, state, run, offset = nodes
    position, row, influenced, edit_start, edit_next, _ = edits
    n_states = pair_start.size - 1
    n, e, clock = 0, 0, stamp.max()
    for b in range(node_first.size - 1):
        clock += 1
        first[b] = n
        for node in range(node_first[b], node_first[b + 1]):
            begin = offset[node]
            for at in range(begin, offset[node + 1]):
                is_edited = e < position.size and position[e] == at
                after = run[node] + 1
                if is_edited and influenced[e] > 0:
                    after = 0
                if after <= longest:
                    successor, start, stop = next_state, 0, 0
                    if is_edited:
                        successor, start, stop = edit_next, edit_start[row[e]], edit_start[row[e] + 1]
                    else:
                        x = pair_start[state[node]] + at - begin
                        start, stop = row_start[x], row_start[x + 1]
                    for i in range(start, stop):
                        place = after * n_states + successor[i]
                        if stamp[place] != clock:
                            stamp[place] = clock
                            out[n] = np.int64(successor[i]) * (longest + 1) + after
                            n += 1
                e += is_edited
        out[first[b] : n].sort()
    first[node_first.size - 1] = n
    return n
