"""κ: for every pair, the smallest k at which it is allowed; and what follows from it for every k.

The rules are in `tether.core.thresholds`. If a property is decided before the end, the states that decide it are nodes
without pairs: paths end there, and κ is 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tether._foundation.arrays import Flags, Ints
from tether.conditioning.as_batch import ended_of, layers_of, steps_of
from tether.conditioning.layers import Graph
from tether.core.batch import Model, Nodes, Reached, Steps
from tether.errors import QueryError
from tether.influence.advisable import Advisable
from tether.influence.one_step import Influence, influenced_pairs
from tether.influence.own import TetherRule
from tether.influence.rules import Rule
from tether.model.form import Form, model_of
from tether.model.model_record import ModelRecord
from tether.model.product import memory_of

if TYPE_CHECKING:
    from tether.core.thresholds import Forbidden
    from tether.core.thresholds import Rule as EngineRule

MAX_STEPS = 16_000
"""The longest path that thresholds are computed for (they are 16-bit integers)."""


@dataclass(frozen=True, eq=False)
class Thresholds:
    """For every pair and node, the smallest k that allows it.

    Attributes
    ----------
    layers : sequence of Reached, t = 0 … T
        The nodes and rows that κ is about.
    influenced : tuple of array, t = 0 … T-1
        Influenced pairs, ascending.
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
    steps: Steps
    layers: Sequence[Reached]
    influenced: tuple[Ints, ...]
    kappa: tuple[Ints, ...]
    first: Ints
    up_to: int

    @property
    def nodes(self) -> tuple[Nodes, ...]:
        """The nodes of each layer, t = 0 … T."""
        return tuple(layer.nodes for layer in self.layers)

    @property
    def offsets(self) -> tuple[Ints, ...]:
        """Where the pairs of each node begin in ``kappa``, t = 0 … T-1."""
        return tuple(layer.nodes.offsets for layer in self.layers[:-1])

    @cached_property
    def reach(self) -> tuple[Ints, ...]:
        """For t = 0 … T, the smallest k at which each node is reached through allowed pairs; large if it never is.

        Computed by a forward pass when it is first needed.
        """
        from tether.core.gather import FAR, spread

        model, reach = model_of(self.graph.mdp.form), [self.first]
        for layer, after, kappa in zip(self.layers, self.layers[1:], self.kappa, strict=False):
            reached = np.full(after.size, FAR, np.int16)
            for nodes, _, part in layer.parts():
                pairs = slice(layer.nodes.offsets[nodes.start], layer.nodes.offsets[nodes.stop])
                np.minimum(reached, spread(model, part, after.nodes, reach[-1][nodes], kappa[pairs]), out=reached)
            reach.append(reached)
        return tuple(reach)

    @cached_property
    def own(self) -> tuple[Ints, ...]:
        """For t = 0 … T-1, the rule's own threshold of each pair, without those of its successors."""
        return own_of(self.graph, self.steps, self.layers, self.rule)

    @property
    def nbytes(self) -> int:
        """The memory used: by κ, and by what was computed from it so far."""
        kept = vars(self)
        arrays = [*self.kappa, *self.offsets, *kept.get("own", ()), *kept.get("reach", ())]
        return sum(array.nbytes for array in {id(array): array for array in arrays}.values())

    def within(self, k: int) -> list[Ints]:
        """For t = 0 … T, positions of the nodes that are reached for ``k``."""
        return [np.flatnonzero(reach <= k) for reach in self.reach]

    def sizes(self, ks: Ints) -> Ints:
        """Nodes (t, s) that are reached, for each k; a state with several runs counts once."""
        T = self.graph.T
        counts = np.zeros(T + 3, dtype=np.int64)
        for nodes, reach in zip(self.nodes, self.reach, strict=True):
            by_state = reach
            if nodes.runs.size and nodes.size:
                by_state = np.minimum.reduceat(reach, np.flatnonzero(np.diff(nodes.states, prepend=-1)))
            counts += np.bincount(np.minimum(by_state, T + 2), minlength=T + 3)
        sizes: Ints = np.cumsum(counts)[ks]
        return sizes

    @cached_property
    def distinct(self) -> Ints:
        """The values of k at which something changes: the only ones worth planning for."""
        T = self.graph.T
        met = np.zeros(T + 3, dtype=bool)
        for nodes, reach, kappa in zip(self.nodes, self.reach, self.kappa, strict=False):
            met[np.minimum(np.maximum(np.repeat(reach, np.diff(nodes.offsets)), kappa), T + 2)] = True
        return np.flatnonzero(met[:-1])


def thresholds(
    graph: Graph,
    rule: Rule,
    influence: Influence,
    *,
    up_to: int | None = None,
    advisable: Advisable | None = None,
) -> Thresholds:
    """κ for every pair.

    ``up_to`` is the largest k that is needed; it limits the runs that `assured` has to remember. ``advisable`` says
    which changes may be advised; others are allowed for no k.
    """
    from tether.core import thresholds as engine

    T = graph.T
    if T > MAX_STEPS:
        raise QueryError(f"the path has {T:,} steps; influence is computed for up to {MAX_STEPS:,}")
    influenced = tuple(influenced_pairs(graph, t, influence) for t in range(T))
    up_to = T + 1 if up_to is None else min(up_to, T + 1)
    steps, layers = steps_of(graph), layers_of(graph, influenced)
    model, ended = model_of(graph.mdp.form), ended_of(graph)
    forbidden = not_to_advise(graph.mdp, advisable)
    asked = _rule_of(rule, graph)
    found = engine.thresholds(model, steps, layers, asked, ended, up_to, forbidden=forbidden, loose=True)
    return Thresholds(
        graph, rule, influence, steps, found.layers, influenced, tuple(found.of_pairs), found.first, up_to
    )


def not_to_advise(mdp: ModelRecord, advisable: Advisable | None = None) -> Forbidden | None:
    """Which pairs may not be advised: by ``advisable``, or seen too rarely in the log of a learned model.

    None if there are none.
    """
    rare, asked = _seen_too_rarely(mdp), advisable is not None and advisable.limits_changes
    if rare is None:
        return advisable.forbidden if advisable is not None and asked else None
    seldom = rare

    def forbidden(t: int, pairs: Ints) -> Flags:
        found: Flags = seldom[pairs]
        return found | advisable.forbidden(t, pairs) if advisable is not None and asked else found

    return forbidden


def _seen_too_rarely(mdp: ModelRecord) -> Flags | None:
    """The pairs of a learned model that were seen too rarely to be advised (``minimum`` of `tether.learn`), or None."""
    memory = memory_of(mdp)
    if memory is not None:
        rare = _seen_too_rarely(memory.mdp)
        return None if rare is None else rare[memory.pair]
    counts = mdp.counts
    if counts is None or counts.minimum <= 1 or mdp.learned is None or mdp.learned.advisable.size != mdp.n_pairs:
        return None
    forbidden: Flags = ~mdp.learned.advisable
    return forbidden if forbidden.any() else None


def unconstrained(graph: Graph, rule: Rule, influence: Influence, advisable: Advisable | None = None) -> Thresholds:
    """The thresholds for k > T: under every rule every pair is allowed, so nothing has to be computed.

    Pairs that may not be advised are not allowed for any k.
    """
    if not_to_advise(graph.mdp, advisable) is not None:
        return thresholds(graph, rule, influence, advisable=advisable)
    T = graph.T
    influenced = tuple(influenced_pairs(graph, t, influence) for t in range(T))
    layers = layers_of(graph, influenced)
    kappa = tuple(np.ones(layer.n_pairs, dtype=np.int16) for layer in layers[:-1])
    first = np.ones(layers[0].size, dtype=np.int16)
    return Thresholds(graph, rule, influence, steps_of(graph), layers, influenced, kappa, first, T + 1)


def own_of(graph: Graph, steps: Steps, layers: Sequence[Reached], rule: Rule) -> tuple[Ints, ...]:
    """For t = 0 … T-1, the rule's own threshold of each pair of the layers of a graph."""
    from tether.core.thresholds import own_thresholds

    asked = _rule_of(rule, graph)
    return tuple(own_thresholds(model_of(graph.mdp.form), steps, layers, asked, ended_of(graph), loose=True))


def as_engine_rule(rule: Rule, form: Form | Model) -> EngineRule:
    """The rule as the engine takes it: by name, or as a function of times and pairs of a model."""
    return rule.own(form) if isinstance(rule, TetherRule) else rule


def _rule_of(rule: Rule, graph: Graph) -> EngineRule:
    """The rule for the pairs of a graph: a rule of one's own is about those of the model itself."""
    memory = memory_of(graph.mdp)
    if memory is None or not isinstance(rule, TetherRule):
        return as_engine_rule(rule, graph.mdp.form)
    own = rule.own(memory.mdp.form)

    def of_pairs(t: int, pairs: Ints) -> Ints:
        observed = memory.pair[graph.observation.pairs[t]]
        return np.where(memory.pair[pairs] == observed, 1, own(t, memory.pair[pairs]))

    return of_pairs
