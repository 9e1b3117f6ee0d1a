"""κ, the smallest k at which each pair is allowed, by a backward pass; and what is reached for k, by a forward pass.

    κ_t(s,a) = max(min(T - t + 1, the rule's own threshold), max over counterfactual successors s' of κ_{t+1}(s'))
    κ_t(s)   = min over a of κ_t(s,a),   κ_T = 1

The rules and their own thresholds are in `tether.influence.rules`. If a property is decided before the end, nodes are
the states in which it is still undecided; states in which it is decided have κ = 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tether._foundation.arrays import Ints, read_only
from tether._kernels.parallel import LARGE
from tether._kernels.scratch import scratch_array
from tether.conditioning.layers import Graph
from tether.conditioning.rows import Rows
from tether.errors import QueryError
from tether.influence.nodes import Nodes, gather_layer, layer_parts, nodes_of, pair_offsets, run_count
from tether.influence.one_step import Influence, influenced_pairs
from tether.influence.rules import Rule, own_thresholds

__all__ = ["MAX_STEPS", "Thresholds", "thresholds", "unconstrained"]

MAX_STEPS = 16_000
"""The longest path that thresholds are computed for (they are 16-bit integers)."""

_EVERY_NODE = np.empty(0, np.int16)
"""Used instead of the k from which on each node is reached, if all are reached."""


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
        The largest k that these are valid for: `assured` remembers runs of uninfluenced steps only up to it.
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
        """For t = 0 … T, the smallest k at which each node is reached through allowed pairs; large if it never is.

        Computed by a forward pass when it is first needed.
        """
        return self._spread[0]

    @property
    def met(self) -> Ints:
        """Marks each k at which a pair comes into reach; the last of T + 3 items is for all k > T + 1."""
        return self._spread[1]

    @property
    def reach_ended(self) -> tuple[Ints, ...]:
        """The same for the states that paths end in before T (`Graph.ended`), t = 0 … T-1; empty if none do."""
        return self._spread[2]

    @cached_property
    def own(self) -> tuple[Ints, ...]:
        """For t = 0 … T-1, the rule's own threshold of each pair, without those of its successors.

        Computed by a backward pass when it is first needed: planning does not use it.
        """
        own = own_thresholds(self.graph, self.rule, self.nodes, self.influenced)
        return tuple(reversed([own(t) for t in range(self.graph.T - 1, -1, -1)]))

    @property
    def nbytes(self) -> int:
        """The memory used: by κ, and by what was computed from it so far."""
        kept = vars(self)
        arrays = [*self.kappa, *self.offsets, *kept.get("own", ()), *(kept["_spread"][0] if "_spread" in kept else ())]
        return sum(array.nbytes for array in {id(array): array for array in arrays}.values())

    @cached_property
    def _spread(self) -> tuple[tuple[Ints, ...], Ints, tuple[Ints, ...]]:
        from tether._kernels.thresholds import FAR, spread

        T, n_states, runs = self.graph.T, self.graph.mdp.n_states, run_count(self.nodes)
        ended = () if self.graph.ended is None else self.graph.ended.states
        reach, reach_ended = [np.ascontiguousarray(self.first)], [np.full(over.size, FAR) for over in ended[:1]]
        met = np.zeros(T + 3, dtype=np.uint8)
        for t, after in enumerate(self.nodes[1:]):
            kappa, offsets, size = self.kappa[t], self.offsets[t], self.nodes[t].size
            # The smallest k is the largest FAR - k; 0 means never reached.
            nearness = scratch_array(runs * n_states, np.int16)
            places = after.places(n_states)
            for part in layer_parts(self.graph, t, self.nodes[t], self.influenced[t]):
                of_nodes = reach[t][part.nodes]
                spread(part.layer, part.rows, offsets[part.nodes], of_nodes, kappa, FAR - 1, met, nearness)
                if part.last < size and not ended:
                    nearest = FAR - max(reach[t].min(), kappa.min())
                    if np.all(nearness[places] == nearest):  # nothing can come nearer: only ``met`` is left to fill
                        rest = np.repeat(reach[t][part.last :], np.diff(offsets)[part.last :])
                        met[np.minimum(np.maximum(rest, kappa[offsets[part.last] :]), T + 2)] = 1
                        break
            reach.append(FAR - nearness[places])
            if t + 1 < len(ended):
                reach_ended.append(FAR - nearness.reshape(-1, n_states)[:, ended[t + 1]].max(axis=0))
        return tuple(reach), met, tuple(reach_ended)

    def within(self, k: int) -> list[Ints]:
        """For t = 0 … T, positions of nodes: all that are reached for ``k``, and only nodes with a pair allowed for it.

        If most of a large layer is reached, so is most of the next. The result then includes the few nodes that are not
        reached: planning for them costs less than finding them.
        """
        from tether._kernels.thresholds import spread

        n_states = self.graph.mdp.n_states
        reached, met = scratch_array(run_count(self.nodes) * n_states, np.int16), np.empty(1, np.uint8)
        kept = [np.flatnonzero(self.first <= k)]
        for t, after in enumerate(self.nodes[1:]):
            before = self.nodes[t]
            if kept[-1].size >= LARGE and 2 * kept[-1].size >= before.size:
                kept.append(self._allowed(t + 1, k, kept[-1]))
                continue
            nodes, offsets = before.only(kept[-1]), self.offsets[t][kept[-1]]
            places = after.places(n_states)
            for part in layer_parts(self.graph, t, nodes, self.influenced[t]):
                spread(part.layer, part.rows, offsets[part.nodes], _EVERY_NODE, self.kappa[t], k, met, reached)
                if part.last < nodes.size and np.all(reached[places]):
                    break
            kept.append(np.flatnonzero(reached[places]))
            reached[places] = 0
        return kept

    def _allowed(self, t: int, k: int, before: Ints) -> Ints:
        """Positions of the nodes of a layer with a pair that is allowed for ``k``; at T, of all nodes.

        ``before`` are the positions in the layer before. They are returned if they are all positions of both layers.
        """
        size = self.nodes[t].size
        everything = before if before.size == self.nodes[t - 1].size == size else None
        if t == self.graph.T:
            return np.arange(size) if everything is None else everything
        allowed, offsets = self.kappa[t] <= k, self.offsets[t]
        if allowed.all() and np.all(offsets[:-1] < offsets[1:]):  # every state has an action
            return np.arange(size) if everything is None else everything
        counts = np.concatenate(([0], np.cumsum(allowed)))
        return np.flatnonzero(np.diff(counts[offsets]))

    def sizes(self, ks: Ints) -> Ints:
        """Nodes (t, s) that are reached, for each k."""
        T = self.graph.T
        counts = np.zeros(T + 3, dtype=np.int64)
        for nodes, reach in zip(self.nodes, self.reach, strict=True):
            if nodes.runs is not None and nodes.size:  # one node per state, at the smallest k of its runs
                first = np.flatnonzero(np.diff(nodes.states, prepend=-1))
                by_state = np.minimum.reduceat(reach, first)
            else:
                by_state = reach
            counts += np.bincount(np.minimum(by_state, T + 2), minlength=T + 3)
        for reach in self.reach_ended:
            counts += np.bincount(np.minimum(reach, T + 2), minlength=T + 3)
        sizes: Ints = np.cumsum(counts)[ks]
        return sizes

    def distinct(self) -> Ints:
        """The values of k at which something changes: the only ones worth planning for."""
        return np.flatnonzero(self.met[:-1])


def thresholds(graph: Graph, rule: Rule, influence: Influence, *, up_to: int | None = None) -> Thresholds:
    """κ for every pair.

    ``up_to`` is the largest k that is needed; it limits the runs that `assured` has to remember.
    """
    from tether._kernels.thresholds import FAR

    T, n_states = graph.T, graph.mdp.n_states
    if T > MAX_STEPS:
        raise QueryError(f"the path has {T:,} steps; influence is computed for up to {MAX_STEPS:,}")
    influenced = tuple(influenced_pairs(graph, t, influence) for t in range(T))
    up_to = T + 1 if up_to is None else min(up_to, T + 1)
    nodes = _nodes(graph, rule, influenced, up_to)
    offsets = pair_offsets(nodes[:T], graph.mdp.form.pair_start)
    # If every state has an action, no κ of time t + 1 exceeds T - t. A state without an action has no κ.
    distinct = {id(offset): offset for offset in offsets}.values()
    bounded = rule != "assured" and not any(bool((offset[1:] == offset[:-1]).any()) for offset in distinct)
    own = None if rule == "definition" else own_thresholds(graph, rule, nodes, influenced)
    levels = _levels(graph, nodes), _levels(graph, nodes)
    levels[T % 2].reshape(-1, 2)[nodes[T].places(n_states)] = (FAR, 1)
    kappa: list[Ints] = []
    for t in range(T - 1, -1, -1):
        cap, most = T - t + 1, T - t if bounded else FAR
        if own is None:  # the distance is the rule's own threshold: the same pass finds both
            each = np.ones(int(offsets[t][-1]), dtype=np.int16)
        else:
            each = own(t) if rule == "assured" else np.minimum(own(t), np.int16(cap))
            cap = 0
        after, before = levels[(t + 1) % 2], levels[t % 2]
        edits = _stand_in(graph, t, influenced[t], nodes[t + 1], after)
        for part in layer_parts(graph, t, nodes[t], influenced[t], edits=edits):
            gather_layer(part.layer, part.rows, offsets[t][part.nodes], cap, most, after, before, each)
        each.flags.writeable = False
        kappa.append(each)
    first = levels[0].reshape(-1, 2)[nodes[0].places(n_states), 1]
    return Thresholds(graph, rule, influence, nodes, influenced, offsets, tuple(reversed(kappa)), first, up_to)


def unconstrained(graph: Graph, rule: Rule, influence: Influence) -> Thresholds:
    """The thresholds for k > T: under every rule every pair is allowed, so nothing has to be computed."""
    T = graph.T
    influenced = tuple(influenced_pairs(graph, t, influence) for t in range(T))
    nodes = nodes_of(graph)
    offsets = pair_offsets(nodes[:T], graph.mdp.form.pair_start)
    kappa = tuple(np.ones(int(offset[-1]), dtype=np.int16) for offset in offsets)
    for array in kappa:
        array.flags.writeable = False
    first = np.ones(nodes[0].size, dtype=np.int16)
    return Thresholds(graph, rule, influence, nodes, influenced, offsets, kappa, first, T + 1)


def _nodes(graph: Graph, rule: Rule, influenced: tuple[Ints, ...], up_to: int) -> tuple[Nodes, ...]:
    """The nodes of each layer: its states; for `assured`, each state with the runs that can lead to it."""
    if rule != "assured":
        return nodes_of(graph)
    from tether._kernels.thresholds import spread

    n_states, start = graph.mdp.n_states, graph.layers[0].states
    layers = [Nodes(start, np.zeros(start.size, np.int32))]
    for t in range(graph.T):
        longest = min(t + 1, up_to - 1)
        reached = scratch_array((longest + 2, n_states), np.int16)  # the last run is for all that are too long
        offsets = layers[t].pair_offsets(graph.mdp.form.pair_start)
        every_pair, met = read_only(np.ones(int(offsets[-1]), dtype=np.int16)), np.empty(1, np.uint8)
        states = graph.states(t)
        n_pairs = int(np.sum(graph.mdp.form.pair_start[states + 1] - graph.mdp.form.pair_start[states]))
        all_influenced = influenced[t].size == n_pairs  # then no run is longer than 0
        for part in layer_parts(graph, t, layers[t], influenced[t]):
            every = _EVERY_NODE, every_pair, 1
            spread(part.layer, part.rows, offsets[part.nodes], *every, met, reached.reshape(-1))
            if all_influenced and part.last < layers[t].size and np.all(reached[0, graph.states(t + 1)]):
                break
        kept, run = np.nonzero(reached[:-1, graph.states(t + 1)].T)
        layers.append(Nodes(graph.states(t + 1)[kept], run.astype(np.int32)))
    return tuple(layers)


def _stand_in(graph: Graph, t: int, influenced: Ints, after: Nodes, levels: Ints) -> Rows | None:
    """Short rows with the same κ as the edited rows of a layer, which then need not be computed; None if impossible.

    If all nodes of the next layer have the same numbers, it does not matter which of them a row leads to: one successor
    is enough. For influenced pairs the distances of the next layer do not matter.
    """
    edits = graph.layers[t].edits
    if isinstance(edits, Rows) or after.size == 0:
        return None
    numbers = levels.reshape(-1, 2)[after.places(graph.mdp.n_states)]
    if graph.ended is not None and t + 1 < graph.T and graph.ended.states[t + 1].size:
        numbers = np.concatenate((numbers, levels[0, graph.ended.states[t + 1][:1]]))
    same_distance, same_kappa = (numbers == numbers[0]).all(axis=0)
    all_influenced = influenced.size == edits.pairs.size
    if not same_kappa or not (all_influenced or (same_distance and after.runs is None)):
        return None
    successor = after.states[0] if after.runs is None else after.states[np.argmin(after.runs)]
    n = edits.pairs.size
    return Rows(edits.pairs, np.arange(n + 1), np.full(n, successor, np.int32), np.ones(n), np.zeros(n))


def _levels(graph: Graph, nodes: tuple[Nodes, ...]) -> Ints:
    """An array for distance and κ over [run, state]. It has one run more than occur: in that run nothing is allowed.

    In states where paths end, κ is 1 at any time, and no influence follows.
    """
    from tether._kernels.thresholds import FAR

    runs, n_states = run_count(nodes), graph.mdp.n_states
    most = max(layer.size for layer in nodes)
    levels = scratch_array((runs * n_states, 2), np.int16, touched=most).reshape(runs, n_states, 2)
    if runs > 1:
        levels[-1] = FAR
    if graph.ended is not None:  # after this: paths may end with a run that no node has
        levels[:, graph.ended.mask] = (FAR, 1)
    return levels
