"""The steps of a rollout as edges of a layered graph: which actions lead from node to node, and their kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._foundation.arrays import Ints
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.conditioning.layers import Graph, expand
from tether.influence.kappa import Thresholds

KINDS = ("not allowed", "unreachable", "kept", "observed")
"""The kinds of steps, the least first: the pair is not allowed for k; it is allowed, but can no longer be reached from
s_0; it stays; it was observed."""


@dataclass(frozen=True, slots=True)
class Step:
    """Actions that lead from one node to another at time t, all of one kind."""

    t: int
    source: int
    target: int
    kind: str
    actions: tuple[Any, ...]


def steps_of(cf: CounterfactualRecord, found: Thresholds, layers: Sequence[Ints], k: int) -> list[Step]:
    """All steps of a rollout; nodes are numbered within their layer. None begins where paths end."""
    graph = found.graph
    steps = []
    for t in range(cf.T):
        ended = graph.split(layers[t])[1]
        allowed, reached = _allowed(found, t, k)
        groups: dict[tuple[int, int, str], list[Any]] = {}
        for i, s in enumerate(layers[t].tolist()):
            if s in ended:
                continue
            for pair in range(int(cf.mdp.form.pair_start[s]), int(cf.mdp.form.pair_start[s + 1])):
                kind = KINDS[0 if pair not in allowed else 2 if pair in reached else 1]
                for j, after in _successors(graph, t, pair, layers[t + 1]):
                    group = KINDS[3] if _is_observed(cf, t, pair, after) else kind
                    groups.setdefault((i, j, group), []).append(cf.mdp.actions[int(cf.mdp.form.pair_action[pair])])
        steps += [Step(t, i, j, kind, tuple(actions)) for (i, j, kind), actions in groups.items()]
    return steps


def _allowed(found: Thresholds, t: int, k: int) -> tuple[set[int], set[int]]:
    """Pairs of the layer that are allowed for k, and those of them that can still be reached from s_0."""
    nodes, pair_start = found.nodes[t], found.graph.mdp.form.pair_start
    counts = np.diff(nodes.offsets)
    first = np.repeat(pair_start[nodes.states] - nodes.offsets[:-1], counts)
    pairs = first + np.arange(first.size)
    allowed = found.kappa[t] <= k
    reached = allowed & np.repeat(found.reach[t] <= k, counts)
    return set(pairs[allowed].tolist()), set(pairs[reached].tolist())


def _successors(graph: Graph, t: int, pair: int, states: Ints) -> list[tuple[int, int]]:
    """(node, state) that can follow a pair in the rollout; ``states`` are the nodes of the next layer."""
    _, entry, _ = expand(graph.mdp, graph.layers[t].edits, np.array([pair]))
    after: Ints = graph.mdp.form.next_state[entry]
    return list(zip(np.searchsorted(states, after).tolist(), after.tolist(), strict=True))


def _is_observed(cf: CounterfactualRecord, t: int, pair: int, after: int) -> bool:
    seen = cf.observation
    return bool(pair == seen.pairs[t] and after == seen.states[t + 1])
