"""Records of the engine: a model, the observed steps of a batch, and the layers that the batch reaches.

A batch has episodes b = 0 … B-1 on one model. Episode b has T_b observed steps. Layer t has the nodes of all episodes
at time t, those of one episode side by side, states ascending. A node is a state; if the rule remembers runs of
uninfluenced steps, it is a state with a run. A node has the pairs of its state, or none where paths end: at T_b, and
in states that decide a property. Arrays over the pairs of a layer are in the order of the nodes.

The row of a pair is that of the model, or an edited row if the observed step changes it. Edited rows are kept in a
store (`tether.core.rows`); a layer names the positions of its edited pairs, ascending, and their rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tether._foundation.arrays import Floats, Ints, read_only, spans, starts

__all__ = [
    "NO_EDITS",
    "NO_RUNS",
    "Edits",
    "Layer",
    "Model",
    "Nodes",
    "Reached",
    "Replaced",
    "Steps",
    "StuckError",
    "at_time",
    "starts",
]


GUMBEL_MAX, INDEPENDENT, MAXIMAL, COMONOTONE = range(4)
"""The built-in mechanisms whose rows are closed forms (`tether.core.coupled`)."""


class StuckError(Exception):
    """A policy has no action in a state that some causal model leads to."""


def at_time(by_time: Floats, t: int) -> Floats:
    """The row of a time; an array with one row has the same for every time."""
    row: Floats = by_time[min(t, len(by_time) - 1)]
    return row


class Model(NamedTuple):
    """The arrays of a model (`tether.model.form`): state s owns pairs, a pair owns entries."""

    pair_start: Ints
    pair_action: Ints
    row_start: Ints
    next_state: Ints
    probability: Floats

    @property
    def n_states(self) -> int:
        """How many states there are."""
        return int(self.pair_start.size) - 1


class Seen(NamedTuple):
    """Observed rows, one after the other: row w leads to ``next_state[start[w]:start[w + 1]]``."""

    start: Ints
    next_state: Ints
    probability: Floats

    @classmethod
    def in_model(cls, model: Model) -> Seen:
        """The row of every pair of a model."""
        return cls(model.row_start, model.next_state, model.probability)


@dataclass(frozen=True, eq=False)
class Steps:
    """Observed steps of a batch; episode b has the steps ``start[b] … start[b + 1] - 1``.

    ``outcome`` is the next state, -1 if it was not recorded. Step i could have led to the states
    ``support[support_start[i]:support_start[i + 1]]``.
    """

    start: Ints
    state: Ints
    action: Ints
    pair: Ints
    outcome: Ints
    support_start: Ints
    support: Ints

    @classmethod
    def of(cls, model: Model, start: Ints, state: Ints, action: Ints, pair: Ints, outcome: Ints) -> Steps:
        """Steps whose supports are those of the rows of their pairs."""
        begin = starts(model.row_start[pair + 1] - model.row_start[pair])
        _, entry = spans(model.row_start[pair], model.row_start[pair + 1])
        return cls(start, state, action, pair, outcome, begin, model.next_state[entry])

    def __len__(self) -> int:
        return int(self.start.size) - 1

    @cached_property
    def lengths(self) -> Ints:
        """T_b of each episode."""
        return np.diff(self.start)

    @property
    def longest(self) -> int:
        """The largest T_b."""
        return int(self.lengths.max(initial=0))

    def at(self, t: int) -> Ints:
        """The step of each episode at time t, -1 for an episode that has ended."""
        return np.where(self.lengths > t, self.start[:-1] + t, -1)

    def item(self, column: Ints, t: int) -> Ints:
        """An item of each episode's step at time t, -1 for an episode that has ended."""
        at = self.at(t)
        return np.where(at >= 0, column[np.maximum(at, 0)], -1) if column.size else at


class Nodes(NamedTuple):
    """Nodes of a layer: ``first[b]`` is the first of episode b; the pairs of a node begin at ``offsets[node]``.

    ``runs`` is empty if nodes have no runs.
    """

    first: Ints
    states: Ints
    runs: Ints
    offsets: Ints

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return int(self.states.size)


class Edits(NamedTuple):
    """Edited pairs of a layer, by position among its pairs, ascending; and the arrays that have their rows.

    Row r leads to ``next_state[start[r]:start[r + 1]]``.
    """

    position: Ints
    row: Ints
    influenced: Ints
    start: Ints
    next_state: Ints
    probability: Floats


class Replaced(NamedTuple):
    """Edited rows in place of the model's: ``row`` has that of each of some pairs, -1 where the model's row stays.

    Row r leads to ``next_state[start[r]:start[r + 1]]``.
    """

    row: Ints
    start: Ints
    next_state: Ints
    probability: Floats


@dataclass(frozen=True, eq=False)
class Reached(ABC):
    """What is reached at one time: the nodes, and which of their pairs are edited; the rows come in parts.

    Kernels take a `Layer`, which has all its rows. Rows that are too many to be kept are made a part at a time.
    """

    nodes: Nodes

    @property
    @abstractmethod
    def position(self) -> Ints:
        """The edited pairs, by position among the pairs, ascending."""

    @property
    @abstractmethod
    def influenced(self) -> Ints:
        """Which of the edited pairs are influenced."""

    @abstractmethod
    def parts(self, wanted: Ints | None = None) -> Iterator[tuple[slice, Ints | slice, Layer]]:
        """Its parts: their nodes, their edits (by number), and each part as a layer.

        Where rows are made when they are needed, these are the ``wanted`` ones (by number; by default all).
        """

    @abstractmethod
    def whole(self) -> Layer:
        """The layer with all its rows."""

    @abstractmethod
    def uniform(self, near: Ints, kappa: Ints) -> Reached:
        """Itself, or a layer with shorter rows if all nodes of the next layer have the same distance and κ."""

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return int(self.nodes.states.size)

    @property
    def n_pairs(self) -> int:
        """How many pairs the nodes have."""
        return int(self.nodes.offsets[-1])

    def episode(self) -> Ints:
        """The episode of each node."""
        first = self.nodes.first
        return np.repeat(np.arange(first.size - 1), np.diff(first))

    def by_pair(self, of_episode: Ints) -> Ints:
        """A number of each episode, for each pair of the layer."""
        first, offsets = self.nodes.first, self.nodes.offsets
        return np.repeat(of_episode, offsets[first[1:]] - offsets[first[:-1]])

    def node_of(self, positions: Ints) -> Ints:
        """The node of each of some pairs, by position."""
        found: Ints = np.searchsorted(self.nodes.offsets, positions, side="right") - 1
        return found

    def pairs(self, model: Model, positions: Ints | None = None) -> Ints:
        """The pair of the model at each of some positions; by default at all."""
        at = np.arange(self.n_pairs) if positions is None else positions
        node = self.node_of(at)
        return model.pair_start[self.nodes.states[node]] + at - self.nodes.offsets[node]


@dataclass(frozen=True, eq=False)
class Layer(Reached):
    """Nodes and edited pairs at one time, with their rows. All arrays are read-only: kernels take one kind of array.

    ``numbers`` are the numbers of the edits where they were numbered, if not 0, 1, 2, …
    """

    edits: Edits
    numbers: Ints | None = None

    def __post_init__(self) -> None:
        for array in (*self.nodes, *self.edits):
            array.flags.writeable = False

    @property
    def position(self) -> Ints:
        """The edited pairs, by position among the pairs, ascending."""
        return self.edits.position

    @property
    def influenced(self) -> Ints:
        """Which of the edited pairs are influenced."""
        return self.edits.influenced

    def parts(self, wanted: Ints | None = None) -> Iterator[tuple[slice, Ints | slice, Layer]]:
        """The layer as its only part: its rows are there anyway."""
        del wanted
        yield slice(0, self.size), slice(None) if self.numbers is None else self.numbers, self

    def whole(self) -> Layer:
        """The layer itself."""
        return self

    def uniform(self, near: Ints, kappa: Ints) -> Layer:
        """The layer itself."""
        del near, kappa
        return self


NO_RUNS = read_only(np.empty(0, np.int32))
NO_EDITS = Edits(
    read_only(np.empty(0, np.int64)),
    read_only(np.empty(0, np.int64)),
    read_only(np.empty(0, np.uint8)),
    read_only(np.zeros(1, np.int64)),
    read_only(np.empty(0, np.int32)),
    read_only(np.empty(0)),
)
