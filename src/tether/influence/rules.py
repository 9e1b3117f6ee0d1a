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

and a pair is allowed for k iff κ_t(s,a) ≤ k (`tether.influence.thresholds`). Here are the rules' own thresholds.

Where a question is decided before the end (`Graph.ended`), paths end: such a node has κ = 1 and no successors, and no
rule limits it. It may still be in an observed support, which `published` and `printed` look for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from tether._foundation.arrays import Ints
from tether._kernels.scratch import scratch_array
from tether.conditioning.layers import Graph, Walk
from tether.conditioning.rows import Rows, spans
from tether.errors import QueryError
from tether.influence.nodes import Nodes, gather_layer, layer_rows, nominal_rows
from tether.influence.one_step import Influence, Support

if TYPE_CHECKING:
    from tether._kernels.layer import LayerNodes

__all__ = ["Rule", "make_rule", "own_thresholds"]

Rule = Literal["definition", "published", "printed", "assured"]

Own = Callable[[int], Ints]
"""The rule's own threshold of each pair of a layer; to be asked for t = T-1, T-2, …, 0 in turn."""


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


def own_thresholds(graph: Graph, rule: Rule, nodes: tuple[Nodes, ...], influenced: tuple[Ints, ...]) -> Own:
    """The rule's own threshold of each pair of a layer; to be asked for t = T-1, T-2, …, 0 in turn."""
    if rule == "definition":
        return _definition(graph, nodes, influenced)
    if rule == "published":
        return _published(graph, nodes)
    if rule == "printed":
        return _printed(graph, nodes)
    return _assured(graph, nodes, influenced)


def _definition(graph: Graph, nodes: tuple[Nodes, ...], influenced: tuple[Ints, ...]) -> Own:
    """dist_t(s,a): the nearest influence on any path that starts with the pair."""
    from tether._kernels.thresholds import FAR

    near = _two_numbers(graph), _two_numbers(graph)
    for layer_near in near:
        layer_near[_ended(graph)] = (FAR, 0)
    near[graph.T % 2][graph.last_states] = (FAR, 0)

    def own(t: int) -> Ints:
        layer, offsets, distance = _arguments(graph, nodes[t])
        rows = layer_rows(graph, t, influenced[t])
        gather_layer(layer, rows, offsets, FAR, 0, near[(t + 1) % 2], near[t % 2], distance)
        near[t % 2][nodes[t].states, 1] = 0
        return distance

    return own


def _published(graph: Graph, nodes: tuple[Nodes, ...]) -> Own:
    """max(1, distance of s at t, distances of the possible successors at t+1) to a node of an observed support."""
    from tether._kernels.thresholds import FAR

    T, nominal, rollout = graph.T, nominal_rows(graph.mdp), _nominal_layers(graph)
    node, unused = (_two_numbers(graph), _two_numbers(graph)), _two_numbers(graph)
    node[T % 2][rollout[T]] = FAR
    node[T % 2][_ended(graph)] = (FAR, 0)
    node[T % 2][graph.layers[T - 1].observed.next_state] = 0

    def measure(t: int) -> None:
        """Distances of the nodes of the nominal rollout, twice side by side: to find the nearest and the furthest."""
        states, here = graph.split(rollout[t])[0], node[t % 2]
        layer, offsets, each = _arguments(graph, Nodes(states))
        # A distance may be 0 here, nearer than the kernel expects when it stops early: most = FAR + 1 reads every row.
        gather_layer(layer, nominal, offsets, FAR, FAR + 1, node[(t + 1) % 2], here, each)
        here[states, 1] = here[states, 0]
        here[_ended(graph)] = (FAR, 0)
        if t > 0:
            here[graph.layers[t - 1].observed.next_state] = 0

    def own(t: int) -> Ints:
        measure(t)
        layer, offsets, furthest = _arguments(graph, nodes[t])
        np.maximum(furthest, np.repeat(node[t % 2][nodes[t].states, 0], np.diff(offsets)), out=furthest)
        gather_layer(layer, layer_rows(graph, t), offsets, 0, FAR, node[(t + 1) % 2], unused, furthest)
        return furthest

    return own


def _printed(graph: Graph, nodes: tuple[Nodes, ...]) -> Own:
    """max(1, largest reverse breadth-first depth among the nominal successors), time ignored."""
    nominal, depth, unused = nominal_rows(graph.mdp), _depths(graph), _two_numbers(graph)

    def own(t: int) -> Ints:
        layer, offsets, deepest = _arguments(graph, nodes[t])
        gather_layer(layer, nominal, offsets, 0, int(depth.max()), depth, unused, deepest)
        return deepest

    return own


def _depths(graph: Graph) -> Ints:
    """Nominal steps from each state to the union of the observed supports, up to T + 1; twice, side by side."""
    from tether._kernels.thresholds import FAR

    around = Nodes(graph.split(np.unique(np.concatenate(_nominal_layers(graph, extra=1))))[0])
    layer, offsets, each = _arguments(graph, around)
    depth, nearer = np.full((graph.mdp.n_states, 2), FAR, dtype=np.int16), _two_numbers(graph)
    depth[_ended(graph), 1] = 0
    for one in graph.layers:
        depth[one.observed.next_state] = 0
    for _ in range(graph.T + 1):
        gather_layer(layer, nominal_rows(graph.mdp), offsets, FAR, 0, depth, nearer, each)
        found = around.states[nearer[around.states, 0] < depth[around.states, 0]]
        if found.size == 0:
            break
        depth[found] = nearer[found, :1]
    return depth


def _assured(graph: Graph, nodes: tuple[Nodes, ...], influenced: tuple[Ints, ...]) -> Own:
    """One more than the run of uninfluenced steps that taking the pair makes; 1 if it is influenced."""
    pair_start = graph.mdp.form.pair_start

    def own(t: int) -> Ints:
        states, runs = nodes[t].states, nodes[t].runs
        if runs is None:
            raise AssertionError("the nodes of this rule have runs")
        _, pairs = spans(pair_start[states], pair_start[states + 1])
        run = np.repeat(runs, pair_start[states + 1] - pair_start[states])
        return np.where(np.isin(pairs, influenced[t]), 1, run + 2).astype(np.int16)

    return own


def _nominal_layers(graph: Graph, extra: int = 0) -> list[Ints]:
    """For each time, the states of the graph, and all states that they lead to without the observation.

    They include states where paths end; the rows of such states lead back to them.
    """
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


def _ended(graph: Graph) -> Any:
    """Which states end paths, as an index; usually none."""
    return [] if graph.ended is None else graph.ended.mask


def _two_numbers(graph: Graph) -> Ints:
    """An array for two small numbers per state."""
    return scratch_array((graph.mdp.n_states, 2), np.int16)


def _arguments(graph: Graph, nodes: Nodes) -> tuple[LayerNodes, Ints, Ints]:
    """Nodes as kernels take them, where the pairs of each begin, and an array over these pairs, all 1."""
    offsets = nodes.pair_offsets(graph.mdp.form.pair_start)
    return nodes.arguments(graph.mdp.n_states), offsets, np.ones(int(offsets[-1]), dtype=np.int16)
