"""The layered graph: which states there are at each time, and which rows differ from the nominal ones.

Rules, plans and evaluations all walk the same kind of graph. There are three such graphs:

- what s_0 can reach in the counterfactual MDP: the one plans are made on (``cf.graph``);
- `everywhere`: every state at every time, for questions about states s_0 cannot reach, and for the
  sizes the paper counts;
- `nominal_rollout`: what s_0 could have reached without the observation, as the paper draws it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints, places_among, read_only, starts
from tether._kernels.parallel import CHUNKS, use_cores
from tether.conditioning import on_demand
from tether.conditioning.edited_rows import EditedRows, ObservedStep, Rows, replaced, spans
from tether.conditioning.lent_scratch import Scratch, borrowed
from tether.conditioning.mechanism import NoisePosterior
from tether.conditioning.on_demand import RowsOnDemand
from tether.core import batch as core
from tether.model.form import Form, model_of, pair_states
from tether.model.model_record import ModelRecord
from tether.observation.path import Observation


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """One time step t < T: its states (ascending), its edited rows, and what was observed.

    ``meeting`` are the pairs (ascending) whose support meets that of the observed pair. They are among the edited rows,
    whatever the mechanism; some mechanisms edit others as well. ``own`` is the observed pair, and its copies where
    states have copies (`tether.plan.tracked`); None where it is only the one of ``observed``.
    """

    states: Ints
    edits: EditedRows
    observed: ObservedStep
    meeting: Ints
    own: Ints | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Ended:
    """Where a question is decided before the end: paths end there, and no rule limits them any more.

    Attributes
    ----------
    mask : array of bool
        For each state of the model, whether paths end there.
    states : tuple of array, t = 0 … T-1
        Such states that the step before may lead to; they are not among the states of their own layer.
    """

    mask: Flags
    states: tuple[Ints, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Layers t = 0 … T-1 and the states at T.

    ``ended`` says where paths end before T, if a question has such states (`tether.plan.objective`). In its ``mdp``
    every action of such a state leads back to it.
    ``copies`` of a model may lie side by side in it (`tether.model.side_by_side`): the first layer has the first state
    of each, and ``observation`` is that of the first copy.
    ``kept`` has what was computed from the graph once for all questions, by kind.
    """

    mdp: ModelRecord
    observation: Observation
    layers: tuple[Layer, ...]
    last_states: Ints
    ended: Ended | None = None
    copies: int = 1
    kept: dict[type, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def T(self) -> int:
        """Number of steps."""
        return len(self.layers)

    @property
    def end(self) -> int:
        """The time at which the observed path ends: T, or earlier if the question is decided on it."""
        if self.ended is None:
            return self.T
        decided = np.flatnonzero(self.ended.mask[self.observation.states[: self.T]])
        return int(decided[0]) if decided.size else self.T

    def states_of_copies(self, state: int) -> Ints:
        """A state of the first copy, and the same in each other."""
        return state + np.arange(self.copies) * (self.mdp.n_states // self.copies)

    def pairs_of_copies(self, pairs: Ints) -> Ints:
        """Pairs of the first copy, and the same in each other: one row per copy."""
        return pairs + np.arange(self.copies)[:, None] * (self.mdp.n_pairs // self.copies)

    def states(self, t: int) -> Ints:
        """States at time t = 0 … T; before T only those where something is left to do."""
        return self.last_states if t == self.T else self.layers[t].states

    @property
    def n_nodes(self) -> int:
        """Number of nodes (t, s), t = 0 … T."""
        return sum(int(self.states(t).size) for t in range(self.T + 1))

    def split(self, states: Ints) -> tuple[Ints, Ints]:
        """States where something is left to do, and those where paths end."""
        if self.ended is None:
            return states, states[:0]
        over = self.ended.mask[states]
        return (states[~over], states[over]) if over.any() else (states, states[:0])


def replay(mdp: ModelRecord, posterior: NoisePosterior | None, pairs: Ints) -> Rows:
    """Counterfactual rows of ``pairs``; nominal ones if the outcome was not recorded."""
    return Rows.nominal(mdp.form, pairs) if posterior is None else posterior.replay(mdp.form, pairs)


class Walk:
    """Walks through a model layer by layer; scans each state only once, and makes equal rows of equal steps once.

    A row can lead to a state of some observed support only if its nominal row does. So each state is scanned for such
    pairs once, when it is first met. The scratch of a walk is a few bytes per state, used only for states it meets;
    `walking` lends the scratch of the model.
    """

    def __init__(self, mdp: ModelRecord, supports: Iterable[Ints] = (), scratch: Scratch | None = None) -> None:
        self.mdp = mdp
        self._scratch = Scratch.new(mdp.n_states) if scratch is None else scratch
        self._supports = tuple(supports)
        for support in self._supports:
            self._scratch.marked[support] = 1
        self._met: list[Ints] = []
        self._pairs = np.empty(0, dtype=np.int64)
        self._pair_states = np.empty(0, dtype=np.int64)
        self._layer: Ints | None = None
        self._after = np.empty(0, dtype=np.int32)
        self._kept = 0
        self._made: dict[Hashable, Rows] = {}

    def leave(self) -> None:
        """Leave the scratch as it was found: all zero."""
        for support in self._supports:
            self._scratch.marked[support] = 0
        for states in self._met:
            self._scratch.scanned[states] = 0

    def meeting(self, states: Ints, step: ObservedStep) -> Ints:
        """Pairs of ``states`` (ascending) whose support meets that of the observed pair, ascending."""
        from tether._kernels.reach import which_meet

        if states.size == 0:
            return np.empty(0, dtype=np.int64)
        self._scan(states)
        at = np.minimum(places_among(states, self._pair_states), states.size - 1)
        here = self._pairs[states[at] == self._pair_states]
        met, support = np.empty(here.size, dtype=np.int64), self._scratch.seen
        support[step.next_state] = 1
        n = which_meet(here, self.mdp.form.row_start, self.mdp.form.next_state, support, met)
        support[step.next_state] = 0
        return met[:n].copy()

    def edited(self, posterior: NoisePosterior | None, pairs: Ints) -> EditedRows:
        """The rows of ``pairs`` under a posterior: stored, unless the walk has too many of them.

        Rows of a posterior without a key, which could not be made again, are stored in any case.
        """
        form, key = self.mdp.form, None if posterior is None else posterior.key
        known = self._made.get(key)
        if known is not None and np.array_equal(known.pairs, pairs):
            return known
        size = on_demand.ENTRY * int(np.sum(form.row_start[pairs + 1] - form.row_start[pairs]))
        can_be_made_again = posterior is None or key is not None
        if can_be_made_again and self._kept + size > on_demand.KEPT:
            return RowsOnDemand(form, posterior, pairs)
        self._kept += size
        rows = replay(self.mdp, posterior, pairs)
        if key is not None:
            self._made[key] = rows
        return rows

    def onward(self, states: Ints, edits: EditedRows) -> Ints:
        """States that can follow ``states``, ascending; the same array if they are the same."""
        if self._layer is not states:
            self._layer, self._after = states, self._nominal_successors(states)
        lost = self._lost(states, edits) if isinstance(edits, Rows) else self._lost_in_parts(states, edits)
        if lost.size == 0:
            return self._after
        after = self._after[~np.isin(self._after, lost, assume_unique=True)]
        after.flags.writeable = False
        return after

    def _scan(self, states: Ints) -> None:
        new = states[self._scratch.scanned[states] == 0]
        if new.size == 0:
            return
        self._scratch.scanned[new] = 1
        self._met.append(new)
        found = _touching(self.mdp.form, new, self._scratch.marked)
        self._pairs = np.sort(np.concatenate((self._pairs, found)))
        self._pair_states = pair_states(self.mdp.form.pair_start, self._pairs)

    def _nominal_successors(self, states: Ints) -> Ints:
        after = _successors(self.mdp.form, states, self._scratch.seen)
        if np.array_equal(after, states):
            return states
        after.flags.writeable = False
        return after

    def _lost(self, states: Ints, edits: Rows) -> Ints:
        """Nominal successors that no row leads to any more; only entries that the edits dropped can cause this."""
        from tether._kernels.reach import still_reached

        form = self.mdp.form
        shorter: Ints = edits.pairs[
            np.diff(edits.start) < form.row_start[edits.pairs + 1] - form.row_start[edits.pairs]
        ]
        if shorter.size == 0:
            return shorter
        _, entry = spans(form.row_start[shorter], form.row_start[shorter + 1])
        wanted = self._scratch.seen
        wanted[form.next_state[entry]] = 1
        wanted[edits.next_state] = 0
        targets = np.unique(form.next_state[entry])
        targets = targets[wanted[targets] == 1]
        if targets.size:
            still_reached(states, form.pair_start, form.row_start, form.next_state, edits.pairs, wanted, targets.size)
        lost: Ints = targets[wanted[targets] == 1]
        wanted[targets] = 0
        return lost

    def _lost_in_parts(self, states: Ints, edits: EditedRows) -> Ints:
        """Nominal successors that no row leads to any more, for rows that are not stored.

        Rows are computed in parts, until every successor is known to be reached.
        """
        from tether._kernels.reach import still_reached

        form, wanted, targets = self.mdp.form, self._scratch.seen, self._after
        wanted[targets] = 1
        still_reached(states, form.pair_start, form.row_start, form.next_state, edits.pairs, wanted, targets.size)
        missing: Ints = targets[wanted[targets] == 1]
        for part in edits.parts() if missing.size else ():
            wanted[part.next_state] = 0
            missing = missing[wanted[missing] == 1]
            if missing.size == 0:
                break
        wanted[missing] = 0
        return missing


def _touching(form: Form, states: Ints, marked: Ints) -> Ints:
    """The pairs of some states with a successor that is marked."""
    from tether._kernels.reach import touching, touching_on_all_cores

    n_pairs = form.pair_start[states + 1] - form.pair_start[states]
    model = form.pair_start, form.row_start, form.next_state
    if not use_cores(states.size):
        found = np.empty(int(n_pairs.sum()), dtype=np.int64)
        return found[: touching(read_only(states), *model, marked, found)]
    offsets, counts = np.concatenate(([0], np.cumsum(n_pairs))), np.empty(CHUNKS, dtype=np.int64)
    found = np.empty(int(offsets[-1]), dtype=np.int64)
    touching_on_all_cores(states, offsets, *model, marked, found, counts)
    start = offsets[np.arange(CHUNKS) * states.size // CHUNKS]
    return found[spans(start, start + counts)[1]]


def _successors(form: Form, states: Ints, seen: Ints) -> Ints:
    """What the nominal rows of some states lead to, ascending. ``seen`` is one byte per state, all 0."""
    from tether._kernels.reach import mark_successors
    from tether.core.condition import read_only_nodes, successors

    if use_cores(states.size) and 8 * states.size >= seen.size:  # then scanning ``seen`` costs little
        mark_successors(states, form.pair_start, form.row_start, form.next_state, seen, CHUNKS)
        after = np.flatnonzero(seen).astype(np.int32)
        seen[:] = 0
        return after
    offsets = starts(form.pair_start[states + 1] - form.pair_start[states])
    first, states = np.array([0, states.size]), read_only(states.astype(np.int32, copy=False))
    nodes = read_only_nodes(core.Nodes(first, states, core.NO_RUNS, offsets))
    return successors(model_of(form), nodes, core.NO_EDITS, seen)[1]


@contextmanager
def walking(mdp: ModelRecord, supports: Iterable[Ints] = ()) -> Iterator[Walk]:
    """A walk on the model's own scratch."""
    with borrowed(mdp.form) as scratch:
        walk = Walk(mdp, supports, scratch)
        yield walk
        walk.leave()


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The pairs of a layer, for a posterior to pick from."""

    mdp: ModelRecord
    states: Ints
    met: Ints

    def all(self) -> Ints:
        """Every pair."""
        pair_start = self.mdp.form.pair_start
        return spans(pair_start[self.states], pair_start[self.states + 1])[1]

    def meeting(self) -> Ints:
        """Those that meet the support of the observed pair."""
        return self.met


def make_layer(walk: Walk, states: Ints, step: ObservedStep, posterior: NoisePosterior | None) -> Layer:
    """The layer of some states, with their rows under the posterior of its step."""
    met = walk.meeting(states, step)
    pairs = met
    if posterior is not None:
        changed = posterior.changes(Candidates(walk.mdp, states, met))
        # The pairs that meet the support are stored in any case: tests of influence are about them.
        pairs = met if changed is met else np.union1d(met, changed)
    edits = walk.edited(posterior, pairs)
    return Layer(states, edits, step, edits.pairs if pairs is met else read_only(met))


def everywhere(graph: Graph, posteriors: tuple[NoisePosterior | None, ...]) -> Graph:
    """Every state of the model at every time."""
    mdp = graph.mdp
    every = np.arange(mdp.n_states, dtype=np.int32)
    states, over = graph.split(every)
    with walking(mdp, (layer.observed.next_state for layer in graph.layers)) as walk:
        layers = tuple(
            make_layer(walk, states, layer.observed, posterior)
            for layer, posterior in zip(graph.layers, posteriors, strict=True)
        )
    ended = None if graph.ended is None else replace(graph.ended, states=(over,) * graph.T)
    return Graph(mdp, graph.observation, layers, every, ended)


def nominal_rollout(graph: Graph) -> Graph:
    """What s_0 can reach under the nominal rows; supports still decide which pairs are influenced."""
    mdp = graph.mdp
    reached = graph.layers[0].states
    layers, over = [], []
    with walking(mdp, (layer.observed.next_state for layer in graph.layers)) as walk:
        for layer in graph.layers:
            states, ended = graph.split(reached)
            edits = walk.edited(None, walk.meeting(states, layer.observed))
            layers.append(Layer(states, edits, layer.observed, edits.pairs))
            over.append(ended)
            reached = walk.onward(states, edits)
    ended_states = None if graph.ended is None else replace(graph.ended, states=tuple(over))
    return Graph(mdp, graph.observation, tuple(layers), reached, ended_states)


def reached_states(graph: Graph) -> tuple[Ints, ...]:
    """States that s_0 leads to, t = 0 … T, whatever is done; where paths end, they are there for the last time.

    The layers of a graph in which paths end may hold more: what only a path that is over would have come to.
    """
    if graph.ended is None:
        return tuple(graph.states(t) for t in range(graph.T + 1))
    reached, pair_start = graph.layers[0].states, graph.mdp.form.pair_start
    found = [reached]
    with walking(graph.mdp) as walk:
        for layer in graph.layers:
            states, edits = graph.split(reached)[0], layer.edits
            if states.size < layer.states.size:
                edits = edits.take(np.flatnonzero(np.isin(pair_states(pair_start, edits.pairs), states)))
            reached = walk.onward(states, edits) if states.size else states
            found.append(reached)
    return tuple(found)


def expand(mdp: ModelRecord, edits: EditedRows | None, pairs: Ints) -> tuple[Ints, Ints, Floats]:
    """Entries of the rows of ``pairs``: (position in ``pairs``, entry of the model, probability)."""
    from tether.core.follow import entries

    return entries(model_of(mdp.form), pairs, replaced(edits, pairs))
