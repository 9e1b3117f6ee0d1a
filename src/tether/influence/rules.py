"""k-step influence: which pairs are allowed for k, for every k at once.

dist_t(s,a) is the smallest j ≥ 1 such that some path of the counterfactual MDP that starts with
(s,a) at t has an influenced pair at t+j-1 (∞ if none). A pair is allowed for k if t + k > T, or if

- ``definition`` (the paper's Definitions 3 and 4): dist_t(s,a) ≤ k;
- ``published`` (the released code, the paper's tables): s at t and every possible successor at t+1
  lie within k steps, in the time-layered graph of the nominal MDP, of a node (u+1, s') with s' in
  the support of the observed row of u;
- ``printed`` (Algorithm 1 as printed): every nominal successor lies within k steps of the union
  of the observed supports, time ignored;

and every counterfactually possible successor keeps an allowed pair. The fourth rule is about all
paths, not some:

- ``assured`` (ours): no k consecutive steps of any path the policy can take are all uninfluenced;
  the state is augmented with the run of uninfluenced steps.

Every rule is monotone in k, so one backward pass finds for each pair the smallest k at which it is
allowed:

    own_t(s,a) = min(T - t + 1, the rule's own threshold)
    κ_t(s,a)   = max(own_t(s,a), max over counterfactual successors s' of κ_{t+1}(s'))      κ_T = 1
    κ_t(s)     = min over a of κ_t(s,a)

and a pair is allowed for k iff κ_t(s,a) ≤ k. A forward pass then finds the smallest k at which
each node is reached from the start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from tether._kernels.parallel import CHUNKS, LARGE, use_cores
from tether._kernels.scratch import room
from tether._types import Floats, Ints
from tether.counterfactual.layers import Graph, Walk
from tether.counterfactual.rows import Rows, nominal_start
from tether.errors import QueryError
from tether.influence.one_step import Influence, Support, influenced_pairs
from tether.model.form import Form

if TYPE_CHECKING:
    from tether._kernels.layer import LayerNodes, LayerRows

__all__ = [
    "MAX_STEPS",
    "Nodes",
    "Rule",
    "Thresholds",
    "layer_rows",
    "make_rule",
    "own_thresholds",
    "run_count",
    "thresholds",
]

Rule = Literal["definition", "published", "printed", "assured"]

MAX_STEPS = 16_000
"""Longest path thresholds are stored for (they are 16-bit integers)."""


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """Nodes of a layer: states, ascending; with the run of uninfluenced steps where the rule remembers it."""

    states: Ints
    runs: Ints | None = None

    @property
    def size(self) -> int:
        """How many nodes."""
        return int(self.states.size)

    def only(self, which: Ints) -> Nodes:
        """Some of the nodes, by position."""
        return Nodes(self.states[which], None if self.runs is None else self.runs[which])

    def pair_offsets(self, pair_start: Ints) -> Ints:
        """Where the pairs of each node begin in an array over all pairs of the layer."""
        counts = pair_start[self.states + 1] - pair_start[self.states]
        return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))

    def arguments(self, n_states: int) -> LayerNodes:
        """The nodes as kernels take them."""
        from tether._kernels.layer import LayerNodes

        if self.runs is None:
            return LayerNodes(self.states, np.empty(0, np.int32), False, n_states)
        return LayerNodes(self.states, self.runs, True, n_states)


@dataclass(frozen=True, eq=False)
class Thresholds:
    """For every pair and node, the smallest k that allows it.

    Attributes
    ----------
    nodes : tuple of Nodes, t = 0 … T
    influenced : tuple of array, t = 0 … T-1
        Influenced pairs, ascending.
    offsets : tuple of array, t = 0 … T-1
        Where the pairs of each node begin in ``kappa``.
    kappa : tuple of array, t = 0 … T-1
        κ_t(s,a), in the order of the layer's nodes and their pairs.
    first : array
        κ_0(s) of the nodes of the first layer.
    up_to : int
        The largest k these hold for: `assured` remembers runs of uninfluenced steps only as far as that.
    """

    graph: Graph
    rule: Rule
    influence: Influence
    nodes: tuple[Nodes, ...]
    influenced: tuple[Ints, ...]
    offsets: tuple[Ints, ...]
    kappa: tuple[Ints, ...]
    first: Ints
    up_to: int

    @property
    def reach(self) -> tuple[Ints, ...]:
        """For t = 0 … T, the smallest k at which each node is reached through allowed pairs; large where it never is.

        One forward pass, made when first asked for.
        """
        return self._spread[0]

    @property
    def met(self) -> Ints:
        """Marks each k at which a pair comes into reach; the last of T + 3 items stands for all beyond T + 1."""
        return self._spread[1]

    @cached_property
    def _spread(self) -> tuple[tuple[Ints, ...], Ints]:
        from tether._kernels.thresholds import FAR, spread_reach

        T, n_states = self.graph.T, self.graph.mdp.n_states
        shape = (run_count(self.nodes), n_states)
        reach = [np.ascontiguousarray(self.first)]
        met = np.zeros(T + 3, dtype=np.uint8)
        for t in range(T):
            onward = _filled(shape, self.nodes[t + 1], FAR, FAR)
            layer, rows = self.nodes[t].arguments(n_states), layer_rows(self.graph, t, self.influenced[t])
            spread_reach(layer, rows, self.kappa[t], reach[t], onward.reshape(-1), met)
            reach.append(_at(onward, self.nodes[t + 1]))
        return tuple(reach), met

    def within(self, k: int) -> list[Ints]:
        """For t = 0 … T, positions of nodes that hold all that is reached for ``k``, and only nodes allowed for it.

        Where most of a large layer is reached, so is most of the next; to plan for the few that are not costs less
        than to find them.
        """
        from tether._kernels.thresholds import any_allowed, mark_allowed

        T, n_states = self.graph.T, self.graph.mdp.n_states
        seen = room(run_count(self.nodes) * n_states, np.uint8)
        kept = [np.flatnonzero(self.first <= k)]
        for t, after in enumerate(self.nodes[1:], 1):
            before = self.nodes[t - 1]
            if kept[-1].size >= LARGE and 2 * kept[-1].size >= before.size:
                marked = np.ones(after.size, dtype=np.uint8)
                if t < T:
                    any_allowed(self.kappa[t], self.offsets[t], k, marked)
                kept.append(np.flatnonzero(marked))
                continue
            mark_allowed(
                before.only(kept[-1]).arguments(n_states),
                layer_rows(self.graph, t - 1, self.influenced[t - 1]),
                self.kappa[t - 1],
                self.offsets[t - 1][kept[-1]],
                k,
                seen,
            )
            place = after.states if after.runs is None else after.runs.astype(np.int64) * n_states + after.states
            kept.append(np.flatnonzero(seen[place]))
            seen[place] = 0
        return kept

    def sizes(self, ks: Ints) -> Ints:
        """Nodes (t, s) that are reached, for each k."""
        T = self.graph.T
        counts = np.zeros(T + 2, dtype=np.int64)
        for nodes, reach in zip(self.nodes, self.reach, strict=True):
            if nodes.runs is not None and nodes.size:  # one node a state, at the smallest k of its runs
                first = np.flatnonzero(np.diff(nodes.states, prepend=-1))
                by_state = np.minimum.reduceat(reach, first)
            else:
                by_state = reach
            counts += np.bincount(np.minimum(by_state, T + 2), minlength=T + 3)[: T + 2]
        sizes: Ints = np.cumsum(counts)[ks]
        return sizes

    def distinct(self) -> Ints:
        """The values of k at which something changes: the only ones worth planning for."""
        return np.flatnonzero(self.met[:-1])


_NONE = np.empty(0, np.int64)


def make_rule(rule: Any, influence: Influence) -> Rule:
    """The rule by name; refuses an influence test that does not go with it."""
    if rule not in get_args(Rule):
        raise QueryError(f"rule must be one of {', '.join(map(repr, get_args(Rule)))}, not {rule!r}")
    if rule in ("published", "printed") and not isinstance(influence, Support):
        raise QueryError(
            f"the rule {rule!r} is made of supports and takes only influence='support'; "
            f"{influence} is a test on pairs and goes with 'definition' and 'assured'"
        )
    checked: Rule = rule
    return checked


def thresholds(graph: Graph, rule: Rule, influence: Influence, *, up_to: int | None = None) -> Thresholds:
    """κ for every pair, and the k at which each node is reached.

    ``up_to`` is the largest k of interest; it limits how long a run `assured` has to remember.
    """
    T = graph.T
    if T > MAX_STEPS:
        raise QueryError(f"the path has {T:,} steps; influence is computed for up to {MAX_STEPS:,}")
    influenced = tuple(influenced_pairs(graph, t, influence) for t in range(T))
    up_to = T + 1 if up_to is None else min(up_to, T + 1)
    nodes = _nodes(graph, rule, influenced, up_to)
    offsets = tuple(layer.pair_offsets(graph.mdp.form.pair_start) for layer in nodes[:T])
    # Where every state has an action no κ of time t + 1 exceeds T - t; a state without one has none at all.
    stuck = any(bool(np.any(np.diff(offset) == 0)) for offset in offsets)
    kappa = [np.empty(int(offset[-1]), dtype=np.int16) for offset in offsets]
    close = _close_definition if rule == "definition" else _close
    first = close(graph, rule, nodes, influenced, offsets, kappa, bounded=not stuck and rule != "assured")
    for array in kappa:
        array.flags.writeable = False
    return Thresholds(graph, rule, influence, nodes, influenced, offsets, tuple(kappa), first, up_to)


def _close_definition(
    graph: Graph,
    rule: Rule,
    nodes: tuple[Nodes, ...],
    influenced: tuple[Ints, ...],
    offsets: tuple[Ints, ...],
    kappa: list[Ints],
    *,
    bounded: bool,
) -> Ints:
    """κ of every pair under `definition`, own thresholds and all, in one pass; that of the first nodes is returned."""
    from tether._kernels.thresholds import FAR, close_definition, close_definition_parallel

    T = graph.T
    most = max(layer.size for layer in nodes)
    both = tuple(room((graph.mdp.n_states, 2), np.int16, touched=most) for _ in range(2))  # distance and κ, by state
    both[T % 2][nodes[T].states] = (FAR, 1)
    for t in range(T - 1, -1, -1):
        states, rows = nodes[t].states, layer_rows(graph, t, influenced[t])
        limits = T - t + 1, T - t if bounded else FAR
        arrays = both[(t + 1) % 2].reshape(-1), both[t % 2].reshape(-1), kappa[t]
        if not use_cores(states.size):
            close_definition(states, rows, offsets[t], *limits, *arrays)
        else:
            close_definition_parallel(states, rows, offsets[t], *limits, *arrays, CHUNKS)
    first: Ints = both[0][nodes[0].states, 1]
    return first


def _close(
    graph: Graph,
    rule: Rule,
    nodes: tuple[Nodes, ...],
    influenced: tuple[Ints, ...],
    offsets: tuple[Ints, ...],
    kappa: list[Ints],
    *,
    bounded: bool,
) -> Ints:
    """κ of every pair under any rule, from its own thresholds; that of the first nodes is returned."""
    from tether._kernels.thresholds import FAR, close_thresholds

    T, n_states = graph.T, graph.mdp.n_states
    shape = (run_count(nodes), n_states)
    own = own_thresholds(graph, rule, nodes, influenced)
    after, before = _filled(shape, nodes[T], 1, FAR), _filled(shape, None, 0, FAR)
    for t in range(T - 1, -1, -1):
        kappa[t][:] = own(t)
        cap, highest = FAR if rule == "assured" else T - t + 1, T - t if bounded else FAR
        layer, rows = nodes[t].arguments(n_states), layer_rows(graph, t, influenced[t])
        close_thresholds(layer, rows, cap, highest, after, before, kappa[t])
        after, before = before, after
    return _at(after, nodes[0])


def _near(graph: Graph) -> tuple[Ints, Ints]:
    """Distances to the nearest influence, by state, for even and odd times; none at the end."""
    from tether._kernels.thresholds import FAR

    near = room(graph.mdp.n_states, np.int16), room(graph.mdp.n_states, np.int16)
    near[graph.T % 2][graph.last_states] = FAR
    return near


def run_count(nodes: tuple[Nodes, ...]) -> int:
    """How many runs an array over [run, state] must hold: one more than occur, to close it off; or one."""
    longest = [int(layer.runs.max(initial=0)) for layer in nodes if layer.runs is not None]
    return max(longest) + 2 if longest else 1


def own_thresholds(
    graph: Graph, rule: Rule, nodes: tuple[Nodes, ...], influenced: tuple[Ints, ...]
) -> Callable[[int], Ints]:
    """The rule's own threshold of each pair of a layer; to be asked for t = T-1, T-2, …, 0 in turn."""
    if rule == "definition":
        return _definition(graph, nodes, influenced)
    if rule == "published":
        return _published(graph, nodes)
    if rule == "printed":
        return _printed(graph, nodes)
    return _assured(graph, nodes, influenced)


def _definition(graph: Graph, nodes: tuple[Nodes, ...], influenced: tuple[Ints, ...]) -> Callable[[int], Ints]:
    """dist_t(s,a): the nearest influence on any path that starts with the pair."""
    from tether._kernels.thresholds import nearest_influence

    near = _near(graph)

    def own(t: int) -> Ints:
        out = _pair_array(graph, nodes[t])
        layer, rows = nodes[t].arguments(graph.mdp.n_states), layer_rows(graph, t, influenced[t])
        nearest_influence(layer, rows, near[(t + 1) % 2], near[t % 2], out)
        return out

    return own


def _published(graph: Graph, nodes: tuple[Nodes, ...]) -> Callable[[int], Ints]:
    """max(1, distance of s at t, distances of the possible successors at t+1) to a node of an observed support."""
    from tether._kernels.thresholds import furthest_node, node_distance

    rollout = _nominal_layers(graph)
    node = [room(graph.mdp.n_states, np.int16) for _ in range(2)]

    def measure(t: int) -> None:
        targets = graph.layers[t - 1].observed.next_state if t else np.empty(0, np.int32)
        if t == graph.T:
            from tether._kernels.thresholds import FAR

            node[t % 2][rollout[t]] = FAR
            node[t % 2][targets] = 0
            return
        node_distance(rollout[t], layer_rows(graph, t, _NONE), targets, node[(t + 1) % 2], node[t % 2])

    measure(graph.T)

    def own(t: int) -> Ints:
        measure(t)
        out = _pair_array(graph, nodes[t])
        layer = nodes[t].arguments(graph.mdp.n_states)
        furthest_node(layer, layer_rows(graph, t, _NONE), node[t % 2], node[(t + 1) % 2], out)
        return out

    return own


def _printed(graph: Graph, nodes: tuple[Nodes, ...]) -> Callable[[int], Ints]:
    """max(1, largest reverse breadth-first depth among the nominal successors), time ignored."""
    from tether._kernels.thresholds import FAR, deepest_successor, spread_depth

    rows = layer_rows(graph, 0, _NONE)
    rollout = _nominal_layers(graph, extra=1)
    around = np.unique(np.concatenate(rollout))
    depth = np.full(graph.mdp.n_states, FAR, dtype=np.int16)
    for layer in graph.layers:
        depth[layer.observed.next_state] = 0
    for number in range(1, graph.T + 2):
        if spread_depth(around, rows, depth, number) == 0:
            break

    def own(t: int) -> Ints:
        out = _pair_array(graph, nodes[t])
        deepest_successor(nodes[t].arguments(graph.mdp.n_states), rows, depth, out)
        return out

    return own


def _assured(graph: Graph, nodes: tuple[Nodes, ...], influenced: tuple[Ints, ...]) -> Callable[[int], Ints]:
    """One more than the run of uninfluenced steps that taking the pair makes; 1 if it is influenced."""
    from tether._kernels.thresholds import run_length

    def own(t: int) -> Ints:
        out = _pair_array(graph, nodes[t])
        run_length(nodes[t].arguments(graph.mdp.n_states), layer_rows(graph, t, influenced[t]), out)
        return out

    return own


def _nodes(graph: Graph, rule: Rule, influenced: tuple[Ints, ...], up_to: int) -> tuple[Nodes, ...]:
    """The nodes of each layer: its states; for `assured`, each with the runs it can be reached with."""
    if rule != "assured":
        return tuple(Nodes(graph.states(t)) for t in range(graph.T + 1))
    from tether._kernels.thresholds import next_runs

    start = graph.layers[0].states
    layers = [Nodes(start, np.zeros(start.size, np.int32))]
    for t in range(graph.T):
        longest = min(t + 1, up_to - 1)
        seen = room((longest + 1, graph.mdp.n_states), np.uint8)
        next_runs(layers[t].arguments(graph.mdp.n_states), layer_rows(graph, t, influenced[t]), longest, seen)
        kept, run = np.nonzero(seen[:, graph.states(t + 1)].T)
        layers.append(Nodes(graph.states(t + 1)[kept], run.astype(np.int32)))
    return tuple(layers)


def _nominal_layers(graph: Graph, extra: int = 0) -> list[Ints]:
    """For each time, states of the graph and all that its states lead to without the observation."""
    mdp = graph.mdp
    none = Rows.none()
    walk = Walk(mdp, ())
    layers = [graph.layers[0].states]
    for t in range(1, graph.T + 1 + extra):
        onward = walk.onward(layers[-1], none)
        if t <= graph.T and not np.array_equal(onward, graph.states(t)):
            onward = np.union1d(onward, graph.states(t))
        layers.append(onward)
    return layers


def layer_rows(graph: Graph, t: int, influenced: Ints) -> LayerRows:
    """The rows of a layer, nominal and edited, as kernels take them."""
    from tether._kernels.layer import LayerRows

    form, edits = graph.mdp.form, graph.layers[t].edits
    return LayerRows(
        form.pair_start,
        form.pair_action,
        form.row_start,
        form.next_state,
        form.probability,
        edits.pairs,
        nominal_start(form, edits.pairs),
        _with_zeros(form, edits),
        influenced,
    )


def _with_zeros(form: Form, edits: Rows) -> Floats:
    owner, entry, chance = edits.expand(form, np.arange(edits.pairs.size))
    start = nominal_start(form, edits.pairs)
    probability = np.zeros(int(start[-1]))
    probability[start[owner] + entry - form.row_start[edits.pairs][owner]] = chance
    probability.flags.writeable = False
    return probability


def _pair_array(graph: Graph, nodes: Nodes) -> Ints:
    pair_start = graph.mdp.form.pair_start
    return np.empty(int(np.sum(pair_start[nodes.states + 1] - pair_start[nodes.states])), dtype=np.int16)


def _filled(shape: tuple[int, int], nodes: Nodes | None, value: int, beyond: int) -> Ints:
    """An array over [run, state] with ``value`` at the nodes; one run more, ``beyond``, closes it off."""
    array = room(shape, np.int16)
    if shape[0] > 1:
        array[-1] = beyond
    if nodes is not None:
        array[0 if nodes.runs is None else nodes.runs, nodes.states] = value
    return array


def _at(array: Ints, nodes: Nodes) -> Ints:
    values: Ints = array[0 if nodes.runs is None else nodes.runs, nodes.states]
    return values
