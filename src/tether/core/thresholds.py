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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tether._foundation.arrays import Flags, Ints, spans
from tether._kernels.jit import kernel
from tether.core.batch import NO_EDITS, NO_RUNS, Edits, Layer, Model, Nodes, Reached, Steps, starts
from tether.core.condition import make_nodes, successors
from tether.core.gather import FAR, gather
from tether.core.plan import find_pair, is_absorbing, is_change
from tether.core.slots import enter, slots_for, successor

_NONE = np.empty(0, np.int64)

Forbidden = Callable[[int, Ints], Flags]
"""Which of some pairs of the model, ascending, may not be advised at time t."""

OwnThresholds = Callable[[int, Ints], Ints]
"""The own thresholds of some pairs of the model, ascending, at time t: a rule that is given from outside."""

Rule = Literal["definition", "published", "printed", "assured"] | OwnThresholds


@dataclass(frozen=True, eq=False)
class Kappa:
    """κ of the pairs of each layer, t = 0 … T-1, and of the nodes of the first one; with the layers themselves."""

    layers: Sequence[Reached]
    of_pairs: list[Ints]
    first: Ints


def thresholds(
    model: Model,
    steps: Steps,
    layers: Sequence[Reached],
    rule: Rule,
    ended: Flags | None,
    up_to: int,
    *,
    forbidden: Forbidden | None = None,
    loose: bool = False,
    m: int | None = None,
) -> Kappa:
    """κ under a rule; influence is what the edits of the layers say. ``up_to`` is the largest k of interest.

    ``ended`` marks the states that end a path, ``forbidden`` the pairs that may not be advised at a time: no k allows
    them, unless they repeat the observed action, or no action there is a change. Layers are ``loose`` if they may hold
    more than can be reached. With ``m`` nodes (state, run) are only those that at most m changes lead to.
    """
    if rule == "assured":
        return _assured(model, steps, layers, ended, up_to, forbidden, m)
    T, lengths = len(layers) - 1, steps.lengths
    own = None if rule == "definition" else own_thresholds(model, steps, layers, rule, ended, loose=loose)
    near = np.full(layers[T].size, FAR, np.int16)
    kappa, of_pairs = np.ones(layers[T].size, np.int16), []
    for t in range(T - 1, -1, -1):
        left = np.maximum(lengths - t + 1, 1)
        if own is None:  # the distance is the rule's own threshold: one pass finds both
            each, cap = np.ones(layers[t].n_pairs, np.int16), left
        else:
            each, cap = np.minimum(own[t], layers[t].by_pair(left)).astype(np.int16), _NONE
        if forbidden is not None:
            each[_advised(model, layers[t], forbidden, t, steps.item(steps.action, t))] = FAR
        near, kappa = _gather_parts(model, layers[t], layers[t + 1].nodes, near, kappa, each, cap)
        kappa[_stuck(layers[t], lengths > t, ended)] = FAR
        of_pairs.append(each)
    return Kappa(layers, of_pairs[::-1], kappa)


def _advised(model: Model, layer: Reached, which: Forbidden, t: int, observed: Ints) -> Ints:
    """The pairs of a layer, by position, that are among ``which`` and would change the observed action."""
    pairs, own = layer.pairs(model), layer.by_pair(observed)
    at = np.flatnonzero(model.pair_action[pairs] != own)
    distinct, place = np.unique(pairs[at], return_inverse=True)
    at = at[which(t, distinct)[place]]
    found: Ints = at[_which_change(model, layer.nodes, layer.node_of(at), at, own[at])]
    return found


@kernel
def _which_change(model: Model, nodes: Nodes, node: Ints, position: Ints, observed: Ints) -> Flags:
    """Whether taking each of some pairs, by node and position, is a change."""
    found = np.empty(node.size, np.bool_)
    for i in range(node.size):
        number = position[i] - nodes.offsets[node[i]]
        found[i] = is_change(model, nodes.states[node[i]], number, observed[i])
    return found


def _stuck(layer: Reached, goes_on: Flags, ended: Flags | None) -> Ints:
    """The nodes where a path goes on, but no action is available: nothing is allowed there."""
    empty = np.flatnonzero(np.diff(layer.nodes.offsets) == 0)
    if empty.size and ended is not None:
        empty = empty[~ended[layer.nodes.states[empty]]]
    return empty[goes_on[layer.episode()[empty]]] if empty.size else empty


def own_thresholds(
    model: Model, steps: Steps, layers: Sequence[Reached], rule: Rule, ended: Flags | None, *, loose: bool = False
) -> list[Ints]:
    """The rule's own threshold of each pair, without those of its successors, and however many steps are left."""
    if rule == "assured":
        return [_run_after(layer) for layer in layers[:-1]]
    if rule == "definition":
        return _distances(model, steps, layers)
    if rule == "published":
        return _published(model, steps, layers, ended, loose)
    if rule == "printed":
        return _printed(model, steps, layers, ended, loose)
    return [_given(model, steps, layer, t, rule) for t, layer in enumerate(layers[:-1])]


def _given(model: Model, steps: Steps, layer: Reached, t: int, rule: OwnThresholds) -> Ints:
    """Thresholds that are given from outside; 1 for the observed pair."""
    pairs = layer.pairs(model)
    distinct, place = np.unique(pairs, return_inverse=True)
    own = np.minimum(rule(t, distinct), FAR).astype(np.int16)[place.reshape(-1)]
    own[pairs == layer.by_pair(steps.item(steps.pair, t))] = 1
    return own


def _gather_parts(
    model: Model, layer: Reached, after: Nodes, near_after: Ints, kappa_after: Ints, own: Ints, cap: Ints
) -> tuple[Ints, Ints]:
    """`gather` for a layer that may come in parts."""
    near, kappa = np.empty(layer.size, np.int16), np.empty(layer.size, np.int16)
    offsets = layer.nodes.offsets
    for nodes, _, part in layer.uniform(near_after, kappa_after).parts():
        pairs = own[offsets[nodes.start] : offsets[nodes.stop]]
        near[nodes], kappa[nodes] = gather(model, part, after, near_after, kappa_after, pairs, cap)
    return near, kappa


def _distances(model: Model, steps: Steps, layers: Sequence[Reached]) -> list[Ints]:
    """dist_t(s,a): the nearest influence on any path that starts with the pair."""
    near, found = np.full(layers[-1].size, FAR, np.int16), []
    for t in range(len(layers) - 2, -1, -1):
        own, cap = np.ones(layers[t].n_pairs, np.int16), np.full(len(steps), FAR, np.int64)
        zeros = np.zeros(near.size, np.int16)
        near, _ = _gather_parts(model, layers[t], layers[t + 1].nodes, near, zeros, own, cap)
        found.append(own)
    return found[::-1]


def _run_after(layer: Reached) -> Ints:
    """One more than the run of uninfluenced steps that taking each pair makes; 1 if it is influenced."""
    own: Ints = np.repeat(layer.nodes.runs + 2, np.diff(layer.nodes.offsets)).astype(np.int16)
    own[layer.position[layer.influenced > 0]] = 1
    return own


def _published(model: Model, steps: Steps, layers: Sequence[Reached], ended: Flags | None, loose: bool) -> list[Ints]:
    """max(1, distance of s at t, distances of the possible successors at t+1) to a node of an observed support."""
    rollout, T = _rollout(model, steps, layers, ended, loose, 0), len(layers) - 1
    distance = [_support_distance(model, steps, rollout[T].nodes, T, np.full(rollout[T].size, FAR, np.int16))]
    for t in range(T - 1, -1, -1):
        zeros, own = np.zeros(distance[-1].size, np.int16), np.ones(rollout[t].n_pairs, np.int16)
        near, _ = gather(model, rollout[t], rollout[t + 1].nodes, distance[-1], zeros, own, _NONE)
        distance.append(_support_distance(model, steps, rollout[t].nodes, t, near))
    distance.reverse()
    found = []
    for t, layer in enumerate(layers[:-1]):
        here = distance[t][_locate(model, rollout[t].nodes, layer.nodes)]
        own = np.repeat(np.maximum(here, np.int16(1)), np.diff(layer.nodes.offsets))
        after = rollout[t + 1].nodes
        far = np.full(after.states.size, FAR, np.int16)
        furthest = _without_ended(distance[t + 1], after, ended)
        _gather_parts(model, layer, after, far, furthest, own, _NONE)
        found.append(own)
    return found


def _printed(model: Model, steps: Steps, layers: Sequence[Reached], ended: Flags | None, loose: bool) -> list[Ints]:
    """max(1, largest reverse breadth-first depth among the nominal successors), time ignored."""
    around = _around(model, steps, layers, ended, loose)
    depth = np.full(around.size, FAR, np.int16)
    depth[_of_supports(model, steps, around.nodes)] = 0
    zeros = np.zeros(around.size, np.int16)
    for _ in range(steps.longest + 1):
        own = np.ones(around.n_pairs, np.int16)
        near, _ = gather(model, around, around.nodes, depth, zeros, own, _NONE)
        nearer = np.minimum(near, depth)
        if np.array_equal(nearer, depth):
            break
        depth = nearer
    found, far, furthest = [], np.full(depth.size, FAR, np.int16), _without_ended(depth, around.nodes, ended)
    for layer in layers[:-1]:
        own = np.ones(layer.n_pairs, np.int16)
        gather(model, Layer(layer.nodes, NO_EDITS), around.nodes, far, furthest, own, _NONE)
        found.append(own)
    return found


def _without_ended(distance: Ints, nodes: Nodes, ended: Flags | None) -> Ints:
    """Distances that may limit a pair: where a path ends, none does."""
    return distance if ended is None else np.where(ended[nodes.states], np.int16(0), distance)


def _rollout(
    model: Model, steps: Steps, layers: Sequence[Reached], ended: Flags | None, loose: bool, extra: int
) -> list[Layer]:
    """What each episode could have reached without the observation, t = 0 … T, and ``extra`` steps more.

    If the layers are ``loose``, they may hold states that do not follow from the first one: these are part of it too.
    """
    found, seen = [], np.zeros(model.n_states, np.uint8)
    first, state = layers[0].nodes.first, layers[0].nodes.states
    for t in range(steps.longest + extra + 1):
        goes_on = steps.lengths + extra > t
        found.append(Layer(make_nodes(model, first, state, goes_on, ended if t else None), NO_EDITS))
        first, state = successors(model, found[-1].nodes, NO_EDITS, seen)
        if loose and t + 1 < len(layers):
            keys = np.repeat(np.arange(len(steps)), np.diff(first)) * model.n_states + state
            keys = np.union1d(keys, layers[t + 1].episode() * model.n_states + layers[t + 1].nodes.states)
            first = np.searchsorted(keys, np.arange(len(steps) + 1) * model.n_states)
            state = (keys % model.n_states).astype(np.int32)
    return found


def _around(model: Model, steps: Steps, layers: Sequence[Reached], ended: Flags | None, loose: bool) -> Layer:
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


def _assured(
    model: Model, steps: Steps, layers: Sequence[Reached], ended: Flags | None, up_to: int, forbidden: Forbidden | None,
    m: int | None,
) -> Kappa:  # fmt: skip
    """κ of pairs that no run of k uninfluenced steps may follow, whatever happens.

    For each k a node has a *limit*: the longest run of uninfluenced steps just passed from which it is allowed.
    An influenced pair is allowed after any run, if its successors are after none. Another one makes the run longer by
    one: it must stay below k, and within the limits of its successors.
    """
    T, found = len(layers) - 1, with_runs(model, layers, up_to, steps, m)
    limit, of_pairs = np.full((layers[T].size, up_to), FAR, np.int16), []
    kappa = np.ones(found[T].size, np.int16)
    for t in range(T - 1, -1, -1):
        layer, runs = layers[t], found[t].nodes
        allowed = np.ones(layer.n_pairs, np.bool_)
        if forbidden is not None:
            allowed[_advised(model, layer, forbidden, t, steps.item(steps.action, t))] = False
        own, kappa = np.empty(found[t].n_pairs, np.int16), np.ones(runs.size, np.int16)
        here, after, offsets = np.empty((layer.size, up_to), np.int16), layers[t + 1].nodes, layer.nodes.offsets
        copies, slots = _copies(model, layer.nodes, runs), slots_for(after, model.n_states)
        for nodes, _, part in layer.parts():
            arrays = limit, allowed[offsets[nodes.start] : offsets[nodes.stop]], copies[nodes.start : nodes.stop + 1]
            _limit_runs(model, part.nodes, part.edits, after, slots, *arrays, runs, here[nodes], own, kappa)
        here[_stuck(layer, steps.lengths > t, ended)] = -1
        kappa[_stuck(found[t], steps.lengths > t, ended)] = FAR
        limit = here
        of_pairs.append(own)
    return Kappa(found, of_pairs[::-1], kappa)


def _copies(model: Model, nodes: Nodes, runs: Nodes) -> Ints:
    """Where the nodes (state, run) of each node begin; and how many there are."""
    base = _locate(model, nodes, runs)
    return np.searchsorted(base, np.arange(nodes.size + 1))


@kernel
def _limit_runs(
    model: Model, nodes: Nodes, edits: Edits, after: Nodes, slots: Ints, limit_after: Ints, allowed: Flags,
    copies: Ints, run_nodes: Nodes, limit: Ints, own: Ints, kappa: Ints,
) -> None:  # fmt: skip
    """Write the limits of nodes, for k = 1, 2, …; and κ of the pairs and nodes of the copies with runs."""
    pair_start, _, row_start, next_state, _ = model
    node_first, state, _, offset = nodes
    position, row, influenced, edit_start, edit_next, _ = edits
    _, _, run, run_offset = run_nodes
    n_states, most, e = pair_start.size - 1, limit.shape[1], 0
    of_pair = np.empty(most, np.int16)
    for b in range(node_first.size - 1):
        enter(after, b, n_states, slots)
        for node in range(node_first[b], node_first[b + 1]):
            begin, end = offset[node], offset[node + 1]
            for k in range(most):
                limit[node, k] = FAR if begin == end else -1
            for v in range(copies[node], copies[node + 1]):
                kappa[v] = 1 if begin == end else FAR
            for at in range(begin, end):
                is_edited = e < position.size and position[e] == at
                for k in range(most):
                    of_pair[k] = FAR if allowed[at] else -1
                x = row[e] if is_edited else pair_start[state[node]] + at - begin
                start, stop = (edit_start[x], edit_start[x + 1]) if is_edited else (row_start[x], row_start[x + 1])
                for i in range(start, stop):
                    j = successor(slots, 0, edit_next[i] if is_edited else next_state[i])
                    for k in range(most):
                        of_pair[k] = min(of_pair[k], limit_after[j, k])
                is_influenced = is_edited and influenced[e] > 0
                for k in range(most):
                    if is_influenced:
                        of_pair[k] = FAR if of_pair[k] >= 0 else -1
                    else:
                        of_pair[k] = max(min(of_pair[k], k) - 1, -1)
                    limit[node, k] = max(limit[node, k], of_pair[k])
                for v in range(copies[node], copies[node + 1]):
                    k = 0
                    while k < most and of_pair[k] < run[v]:
                        k += 1
                    own[run_offset[v] + at - begin] = k + 1 if k < most else FAR
                    kappa[v] = min(kappa[v], own[run_offset[v] + at - begin])
                e += is_edited


def with_runs(
    model: Model, layers: Sequence[Reached], up_to: int, steps: Steps | None = None, m: int | None = None
) -> list[Layer]:
    """The layers with nodes (state, run), for runs of less than ``up_to`` uninfluenced steps.

    The run of a node is the number of uninfluenced steps just passed. With ``m`` only nodes that at most m changes of
    the observed steps lead to.
    """
    first, state = layers[0].nodes.first, layers[0].nodes.states
    run, found = np.zeros(state.size, np.int32), []
    left = np.full(state.size, FAR if m is None else m, np.int16)
    places = (min(len(layers), up_to) + 1) * model.n_states
    stamp, left_at = np.zeros(places, np.int64), np.zeros(places, np.int16)
    for t, layer in enumerate(layers):
        base = _locate(model, layer.nodes, Nodes(first, state, NO_RUNS, first))
        nodes = Nodes(first, state, run, starts(np.diff(layer.nodes.offsets)[base]))
        found.append(_copied(layer.whole(), base, nodes))
        if len(found) == len(layers):
            break
        wide = state.astype(np.int64)
        reads = model.row_start[model.pair_start[wide + 1]] - model.row_start[model.pair_start[wide]]
        out = np.empty(min(int(reads.sum()), (first.size - 1) * places), np.int64)
        first = np.empty(first.size, np.int64)
        observed = np.full(first.size - 1, -1) if steps is None else steps.item(steps.action, t)
        arrays = model, nodes, found[-1].edits, observed, left, stamp, left_at
        left = np.empty(out.size, np.int16)
        n = _run_successors(*arrays, up_to - 1, first, out, left)
        state, run = (out[:n] // up_to).astype(np.int32), (out[:n] % up_to).astype(np.int32)
        left = left[:n].copy()
    return found


def _copied(layer: Layer, base: Ints, nodes: Nodes) -> Layer:
    """A layer of nodes that are copies of the nodes ``base`` of another, with their edited pairs."""
    edits, begin = layer.edits, np.searchsorted(layer.edits.position, layer.nodes.offsets)
    node, at = spans(begin[base], begin[base + 1])
    position = edits.position[at] - layer.nodes.offsets[base[node]] + nodes.offsets[node]
    copied = edits._replace(position=position, row=edits.row[at], influenced=edits.influenced[at])
    return Layer(nodes, copied, at if layer.numbers is None else layer.numbers[at])


@kernel
def _run_successors(
    model: Model, nodes: Nodes, edits: Edits, observed: Ints, left: Ints, stamp: Ints, left_at: Ints, longest: int,
    first: Ints, out: Ints, left_after: Ints,
) -> int:  # fmt: skip
    """Write the keys state · (longest + 1) + run of the nodes that follow, ascending for each episode.

    ``left`` has the changes that can be left at each node; ``left_after`` gets those at each node that follows.
    ``left_at`` is scratch, by run and state.
    """
    pair_start, _, row_start, next_state, _ = model
    node_first, state, run, offset = nodes
    position, row, influenced, edit_start, edit_next, _ = edits
    n_states = pair_start.size - 1
    n, e, clock = 0, 0, stamp.max()
    for b in range(node_first.size - 1):
        clock += 1
        first[b] = n
        for node in range(node_first[b], node_first[b + 1]):
            begin, at_observed = offset[node], find_pair(model, state[node], observed[b])
            is_free = observed[b] < 0 or (at_observed < 0 and is_absorbing(model, state[node]))
            for at in range(begin, offset[node + 1]):
                is_edited = e < position.size and position[e] == at
                after = 0 if is_edited and influenced[e] > 0 else run[node] + 1
                then = left[node] - (0 if is_free or at - begin == at_observed else 1)
                if after <= longest and then >= 0:
                    x = row[e] if is_edited else pair_start[state[node]] + at - begin
                    start, stop = (edit_start[x], edit_start[x + 1]) if is_edited else (row_start[x], row_start[x + 1])
                    for i in range(start, stop):
                        j = edit_next[i] if is_edited else next_state[i]
                        place = after * n_states + j
                        if stamp[place] != clock:
                            stamp[place] = clock
                            left_at[place] = then
                            out[n] = np.int64(j) * (longest + 1) + after
                            n += 1
                        elif then > left_at[place]:
                            left_at[place] = then
                e += is_edited
        out[first[b] : n].sort()
        for i in range(first[b], n):
            left_after[i] = left_at[out[i] % (longest + 1) * n_states + out[i] // (longest + 1)]
    first[node_first.size - 1] = n
    return n
