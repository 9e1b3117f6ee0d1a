"""Plans for an individual whose type was never recorded: it stays the same over time, and the planner does not see it.

A type z has its own rows P_z, and the noise is independent over time given z. The episode changes the prior w_z of each
type to the posterior

    ρ_z ∝ w_z · Π_t P_z(s_{t+1} | s_t, a_t)

Given z, the counterfactual world is as for a single model. The planner sees states, not z, and may learn z on the way.
For each node (t, s, changes left) G is the set of vectors (value if type 1, value if type 2, …) that a policy can have:

    G_T(s) = {(F(s), …, F(s))}
    G_t(s, c) = ∪_a ⊕_j diag(P_cf,1(j), P_cf,2(j), …)·(R + γ·G_{t+1}(j, c - [a ≠ a_t]))      ⊕: the Minkowski sum

The value is the largest ρ·v with v in G_0; beliefs never appear. Vectors that are best for no belief are left out: with
two types those below the upper hull, which merges edges by slope; otherwise by linear programmes
(`tether._kernels.best_somewhere`). With two types there is no other limit than memory, `ROOM` for a whole plan. With
more, sums of sets grow fast: at most `MOST` vectors of a node are kept, those that differ most. How little the others
would add is known (`lost`): the value is then that of a policy, and the best is at most so much above it.
`tether._kernels.vectors` makes the vectors of a layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints
from tether._foundation.rounding import ROUNDING
from tether.conditioning.edited_rows import spans
from tether.conditioning.layers import Graph
from tether.model.form import Form, all_pair_states, model_of
from tether.model.model_record import ModelRecord
from tether.observation.changes import nothing_to_change
from tether.observation.path import Observation
from tether.plan.best_values import final_rewards

if TYPE_CHECKING:
    from tether._kernels.vectors import StepRows, Vectors
    from tether.core.thresholds import Forbidden
    from tether.influence.kappa import Thresholds

MOST = 48
"""How many vectors of a node are kept, with more than two types."""

ROOM = 1 << 30
"""How many bytes the vectors of a plan for two types may take; where they would take more, some are left out."""

_AT_LEAST = 256
"""So many vectors of two types are always kept."""

_SAME = 1e-12
"""Values that differ by less than this, in proportion, are equal."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One vector of a node: its values by type, the action, and for each next state the number of its vector there."""

    values: Floats
    action: int
    after: dict[int, int]


@dataclass(frozen=True, eq=False)
class SideBySide:
    """The rows of several models with the same pairs: the outcomes that any of them has, a column for each model."""

    forms: tuple[Form, ...]

    @cached_property
    def _rows(self) -> tuple[Ints, Ints, Ints]:
        """For each entry its key, pair · states + next state; where rows begin; and next states."""
        keys = np.unique(np.concatenate([self._keys(form.row_start, form.next_state) for form in self.forms]))
        row_start = np.searchsorted(keys, np.arange(self.forms[0].pair_action.size + 1) * self.n_states)
        return keys, row_start, keys % self.n_states

    @property
    def n_states(self) -> int:
        """How many states each model has."""
        return int(self.forms[0].pair_start.size - 1)

    def _keys(self, start: Ints, next_state: Ints, pairs: Ints | None = None) -> Ints:
        owner = np.arange(start.size - 1) if pairs is None else pairs
        return np.repeat(owner.astype(np.int64), np.diff(start)) * self.n_states + next_state

    @property
    def row_start(self) -> Ints:
        """Where the row of each pair begins."""
        return self._rows[1]

    @property
    def next_state(self) -> Ints:
        """Where each entry leads."""
        return self._rows[2]

    def entries(self, z: int) -> Ints:
        """Where the entries of a model are among those of all."""
        return self.places(self.forms[z])

    def places(self, form: Form) -> Ints:
        """Where the entries of a form are among those of all; it has no others."""
        return np.searchsorted(self._rows[0], self._keys(form.row_start, form.next_state))

    @cached_property
    def nominal(self) -> Floats:
        """The probability of each entry in each model."""
        made = np.zeros((self.next_state.size, len(self.forms)))
        for z, form in enumerate(self.forms):
            made[self.entries(z), z] = form.probability
        return made

    def edited(self, z: int, probability: Floats, edits: Any) -> None:
        """Put the edited rows of a step into the column of a model."""
        rows = edits.rows()
        _, old = spans(self.row_start[rows.pairs], self.row_start[rows.pairs + 1])
        probability[old, z] = 0.0
        new = self._keys(rows.start, rows.next_state, rows.pairs)
        probability[np.searchsorted(self._rows[0], new), z] = rows.probability

    def earned(self, t: int) -> Floats:
        """The reward of each entry in each model, at step t."""
        return np.stack([self.rewards(t, z) for z in range(len(self.forms))], axis=1)

    def rewards(self, t: int, z: int) -> Floats:
        """The reward of each entry in one model, at step t."""
        rewards = self.forms[z].rewards.at(t)
        if not self.forms[z].rewards.by_entry:
            return np.repeat(rewards, np.diff(self.row_start))
        made = np.zeros(self.next_state.size)
        made[self.entries(z)] = rewards
        return made

    def expected(self, t: int, probability: Floats) -> Floats:
        """The reward to be expected of each pair in each model, at step t."""
        made = np.empty((self.row_start.size - 1, len(self.forms)))
        for z, form in enumerate(self.forms):
            rewards = form.rewards.at(t)
            if form.rewards.by_entry:
                of_entry = np.zeros(self.next_state.size)
                of_entry[self.entries(z)] = rewards
                made[:, z] = np.add.reduceat(of_entry * probability[:, z], self.row_start[:-1])
            else:
                made[:, z] = rewards
        return made


@dataclass(eq=False)
class TypedValues:
    """The vectors of all nodes that plans for several types can reach.

    Attributes
    ----------
    models : sequence of ModelRecord
        One for each type; the values are their returns.
    seen : Observation
        The episode.
    posterior : array
        The probability of each type.
    m : int
        How many actions may change.
    graphs : sequence of Graph
        The counterfactual MDP of each type. None: values of the plain models, with every action; changes do not count.
    thresholds : sequence of Thresholds or None
        The tether of each type, None for types that do not limit; a pair is allowed if it is allowed within ``k`` for
        every other type that can be there.
    k : int
    every_m : bool
        Whether the vectors for fewer changes are wanted too, where ``m`` does not limit.
    forbidden : function or None
        Which pairs may not be advised at a time, where they are changes.
    only_exact : bool
        Whether to stop as soon as something is lost: there are no layers then.
    lost : float
        How much the value may be too small, because too many vectors were left out; infinite if that is not known.
    """

    models: Sequence[ModelRecord]
    seen: Observation
    posterior: Floats
    m: int
    graphs: Sequence[Graph] = ()
    thresholds: Sequence[Thresholds | None] = ()
    k: int = 0
    every_m: bool = False
    forbidden: Forbidden | None = None
    only_exact: bool = False
    lost: float = field(default=0.0, init=False)
    layers: list[Vectors] = field(default_factory=list, init=False)
    _changed: dict[int, Flags] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        from tether._kernels.vectors import Vectors, layer_of_vectors

        T, S, discount = self.T, self.models[0].n_states, self.models[0].discount
        self.rows = SideBySide(tuple(mdp.form for mdp in self.models))
        self.counts = bool(self.graphs) and (self.every_m or self.m < T)
        states = self._states(T)
        final = np.stack([final_rewards(mdp) for mdp in self.models], axis=1)[states]
        n = states.size
        empty = np.zeros(n, np.int64)
        made = [
            Vectors(places_of(S, states), 1, np.arange(n + 1), final, empty - 1, np.zeros(n + 1, np.int64), empty[:0])
        ]
        for t in range(T - 1, -1, -1):
            states, columns = self._states(t), min(self.m, T - t) + 1 if self.counts else 1
            seen = int(self.seen.states[t]) if self.counts and self.m <= T - t else -1
            found, cut = layer_of_vectors(
                states.astype(np.int64), places_of(S, states), columns, seen, self._observed(t), self.step(t), made[-1],
                discount, self._most(states.size * columns, made),
            )  # fmt: skip
            self.lost += discount**t * cut
            made.append(found)
            if self.only_exact and not self.exact:
                return
        self.layers = made[::-1]

    @property
    def T(self) -> int:
        """Number of steps."""
        return self.seen.T

    def _most(self, nodes: int, made: Sequence[Vectors]) -> int:
        """How many vectors a node of the next layer may keep."""
        if len(self.models) > 2:
            return MOST
        used = sum(one.values.nbytes + one.pair.nbytes + one.back_start.nbytes + one.back.nbytes for one in made)
        each = 8 * (4 + int(np.diff(self.rows.row_start).max()))  # its values, pair, place, and vectors of next states
        return max(_AT_LEAST, (ROOM - used) // (nodes * each))

    @property
    def exact(self) -> bool:
        """Whether nothing was lost, but for rounding."""
        return self.lost <= ROUNDING

    @property
    def start(self) -> int:
        """The index of the first state."""
        return int(self.seen.states[0])

    def _states(self, t: int) -> Ints:
        """The states in which any type can be; of the plain models all, but at the beginning."""
        if not self.graphs:
            return self.seen.states[:1] if t == 0 else np.arange(self.models[0].n_states)
        return np.unique(np.concatenate([reached_states(graph, t) for graph in self.graphs]))

    def _observed(self, t: int) -> Ints:
        """The pair of the observed action in each state, -1 where it is not available."""
        form, action = self.models[0].form, int(self.seen.actions[t])
        pairs = np.flatnonzero(form.pair_action == action)
        found = np.full(form.pair_start.size - 1, -1, np.int64)
        found[all_pair_states(form.pair_start)[pairs]] = pairs
        return found

    def step(self, t: int) -> StepRows:
        """The rows of all pairs at a step, side by side; a type that cannot be in a state has none there."""
        from tether._kernels.vectors import StepRows

        form = self.models[0].form
        probability = self.rows.nominal.copy()
        owner = all_pair_states(form.pair_start)
        allowed, differs = np.ones(owner.size, np.bool_), np.zeros(owner.size, np.bool_)
        absent = []
        for z, graph in enumerate(self.graphs):
            self.rows.edited(z, probability, graph.layers[t].edits)
            there = np.zeros(form.pair_start.size - 1, np.bool_)
            there[reached_states(graph, t)] = True
            absent.append(~there[owner])
            limits = self.thresholds[z] if self.thresholds else None
            if limits is not None:
                allowed[limits.layers[t].pairs(model_of(form))] &= limits.kappa[t] <= self.k
        reward = self.rows.expected(t, probability)
        for z, out in enumerate(absent):  # a type that cannot be there has no say
            reward[out, z] = 0.0
            probability[np.repeat(out, np.diff(self.rows.row_start)), z] = 0.0
        if self.forbidden is not None:
            others = np.flatnonzero(self.differs(t))
            allowed[others] &= ~self.forbidden(t, others)
        if self.counts:
            differs = self.differs(t)
        start = self.rows.row_start
        return StepRows(
            form.pair_start.astype(np.int64), start, self.rows.next_state, probability, reward, allowed, differs
        )

    def differs(self, t: int) -> Flags:
        """Which pairs are changes at a step; where no type leaves a choice none is."""
        if t not in self._changed:
            form, observed = self.models[0].form, int(self.seen.actions[t])
            free = np.ones(form.pair_start.size - 1, np.bool_)
            for mdp in self.models:
                free &= nothing_to_change(mdp.form, np.arange(free.size), observed)
            for graph in self.graphs:
                if graph.ended is not None:
                    free |= graph.ended.mask
            self._changed[t] = (form.pair_action != observed) & ~free[all_pair_states(form.pair_start)]
        return self._changed[t]

    def changed(self, t: int) -> Flags:
        """Which pairs are counted as changes at a step: none, if m does not limit."""
        return self.differs(t) & self.counts

    def changes(self, t: int, s: int, action: int) -> int:
        """How many changes of those that count an action is: 1, or 0."""
        return int(self.counts and self.differs(t)[self.models[0].find_pair(s, action)])

    def _cell(self, t: int, s: int, changes: int) -> slice:
        layer = self.layers[t]
        place = int(layer.place[s])
        if place < 0:
            return slice(0, 0)
        cell = place * layer.columns + min(changes, layer.columns - 1)
        return slice(int(layer.start[cell]), int(layer.start[cell + 1]))

    def vectors(self, t: int, s: int, changes: int) -> Floats:
        """The vectors of a node, one per row; none if no action is allowed."""
        found: Floats = self.layers[t].values[self._cell(t, s, changes)]
        return found

    def best(self, t: int, s: int, changes: int, weights: Floats) -> int:
        """Number of the vector of a node that is best for some weights of the types: of equal ones what was done."""
        cell = self._cell(t, s, changes)
        worth = self.layers[t].values[cell] @ weights
        if not worth.size:
            return -1
        equal = worth >= worth.max() - _SAME * max(1.0, abs(float(worth.max())))
        done = equal & (self.layers[t].pair[cell] == self._observed(t)[s]) if t < self.T else equal
        return int(np.argmax(done if done.any() else equal))

    def choice(self, t: int, s: int, changes: int, number: int) -> Choice:
        """One vector of a node, with what it does."""
        layer, at = self.layers[t], self._cell(t, s, changes).start + number
        if t == self.T:
            return Choice(layer.values[at], -1, {})
        pair = int(layer.pair[at])
        begin = int(self.rows.row_start[pair])
        after = layer.back[layer.back_start[at] : layer.back_start[at + 1]].tolist()
        leads = self.rows.next_state[begin : begin + len(after)].tolist()
        onward = {j: number for j, number in zip(leads, after, strict=True) if number >= 0}
        return Choice(layer.values[at], int(self.models[0].form.pair_action[pair]), onward)


def reached_states(graph: Graph, t: int) -> Ints:
    """The states that a graph leads to by a time, also those where a property was decided: then, or before."""
    if graph.ended is None:
        return graph.states(t)
    return np.unique(np.concatenate((graph.states(t), *graph.ended.states[: t + 1])))


def places_of(n_states: int, states: Ints) -> Ints:
    """Where each state is among some, -1 for the others."""
    place = np.full(n_states, -1, np.int64)
    place[states] = np.arange(states.size)
    return place
