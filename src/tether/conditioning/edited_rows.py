"""Counterfactual rows: the rows of some pairs, given one step of the observed path."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tether._foundation.arrays import Floats, Ints, spans, starts
from tether.core.batch import Replaced
from tether.model.form import Form, model_of

__all__ = ["EditedRows", "ObservedStep", "Rows", "nominal_start", "replaced", "spans"]


@dataclass(frozen=True, slots=True, eq=False)
class ObservedStep:
    """One observed transition: the row P(·|s_t, a_t) as next states and probabilities, and s_{t+1}.

    ``outcome`` is -1 if it was not recorded; nothing is inferred from such a step. ``pair`` is the observed pair's
    index, -1 if it is not known. For ``copies`` of a model side by side (`tether.model.side_by_side`) the row has the
    outcomes of all copies, one after another; ``outcome`` and ``pair`` are those of the first.
    """

    t: int
    next_state: Ints
    probability: Floats
    outcome: int
    pair: int = -1
    copies: int = 1

    @classmethod
    def of(cls, form: Form, t: int, pair: int, outcome: int) -> ObservedStep:
        """The step at t in which ``pair`` led to ``outcome``, with the model's row."""
        entries = slice(int(form.row_start[pair]), int(form.row_start[pair + 1]))
        return cls(t, form.next_state[entries], form.probability[entries], outcome, pair)

    @property
    def recorded(self) -> bool:
        """Whether the outcome is known."""
        return self.outcome >= 0

    @property
    def key(self) -> tuple[int, int] | None:
        """Equal for steps of one model in which the same happened; None if the pair is not known."""
        return None if self.pair < 0 else (self.pair, self.outcome)


class EditedRows(ABC):
    """The edited rows of a step, for ``pairs`` (ascending): stored (`Rows`), or made when they are needed.

    A row is named by its position among ``pairs``. Rows made when needed (`tether.conditioning.on_demand`) are the
    same, bit for bit.
    """

    __slots__ = ()

    pairs: Ints

    @property
    @abstractmethod
    def arrays(self) -> tuple[Ints | Floats, ...]:
        """What is stored."""

    @abstractmethod
    def rows(self, at: Ints | None = None) -> Rows:
        """The rows at some positions (ascending; all by default), to be released after use."""

    @abstractmethod
    def parts(self) -> Iterator[Rows]:
        """All rows, in parts of limited size."""

    @abstractmethod
    def take(self, at: Ints) -> EditedRows:
        """The rows at some positions, ascending, in the same form."""

    @abstractmethod
    def strengths(self, at: Ints | None = None) -> Floats:
        """Total variation to the nominal row, of the rows at some positions (in any order; all by default)."""

    @abstractmethod
    def with_strengths(self, strength: Floats) -> EditedRows:
        """A copy in which ``strength`` replaces the strength of each row."""

    def chosen(self, at: Ints) -> Replaced:
        """The rows at some positions, in any order, as the engine takes them; -1 stands for a nominal row."""
        edited = np.flatnonzero(at >= 0)
        distinct, place = np.unique(at[edited], return_inverse=True)
        row, rows = np.full(at.size, -1), self.rows(distinct)
        row[edited] = place
        return Replaced(row, rows.start, rows.next_state, rows.probability)

    def expand(self, form: Form, at: Ints) -> tuple[Ints, Ints, Floats]:
        """Items of the rows at some positions: (position in ``at``, entry of the model, probability)."""
        from tether.core.follow import entries

        return entries(model_of(form), self.pairs[at], self.chosen(at))

    def find(self, pair: int) -> int:
        """Position of a pair, or -1."""
        i = int(np.searchsorted(self.pairs, pair))
        return i if i < self.pairs.size and self.pairs[i] == pair else -1

    def locate(self, pairs: Ints) -> Ints:
        """Position of each of some pairs, -1 where it has no row here."""
        if self.pairs.size == 0:
            return np.full(pairs.shape, -1)
        at = np.minimum(np.searchsorted(self.pairs, pairs), self.pairs.size - 1)
        return np.where(self.pairs[at] == pairs, at, -1)


@dataclass(frozen=True, slots=True, eq=False)
class Rows(EditedRows):
    """Counterfactual rows of some pairs (ascending): only outcomes that can happen, in ascending order.

    Row i leads to ``next_state[start[i]:start[i + 1]]`` with ``probability`` of the same items, all positive;
    ``strength[i]`` is its total variation to the nominal row.
    """

    pairs: Ints
    start: Ints
    next_state: Ints
    probability: Floats
    strength: Floats

    def __post_init__(self) -> None:
        for array in self.arrays:
            array.flags.writeable = False

    @property
    def arrays(self) -> tuple[Ints | Floats, ...]:
        """What is stored."""
        return self.pairs, self.start, self.next_state, self.probability, self.strength

    def row(self, i: int) -> tuple[Ints, Floats]:
        """Next states and probabilities of the row at position ``i``."""
        items = slice(self.start[i], self.start[i + 1])
        return self.next_state[items], self.probability[items]

    def rows(self, at: Ints | None = None) -> Rows:
        """The rows at some positions (ascending); itself where all are asked for."""
        return self if at is None else self.take(at)

    def parts(self) -> Iterator[Rows]:
        """All of them at once: they are stored anyway."""
        yield self

    def strengths(self, at: Ints | None = None) -> Floats:
        """``strength`` at some positions."""
        return self.strength if at is None else self.strength[at]

    def with_strengths(self, strength: Floats) -> Rows:
        """A copy in which ``strength`` replaces the strength of each row."""
        return replace(self, strength=strength)

    def take(self, at: Ints) -> Rows:
        """The rows at some positions, ascending."""
        _, item = spans(self.start[at], self.start[at + 1])
        start = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.diff(self.start)[at])))
        return Rows(self.pairs[at], start, self.next_state[item], self.probability[item], self.strength[at])

    def chosen(self, at: Ints) -> Replaced:
        """The rows at some positions, in any order, as the engine takes them; -1 stands for a nominal row."""
        return Replaced(at, self.start, self.next_state, self.probability)

    def dense(self, n_states: int) -> Floats:
        """The rows with a probability for every next state: (rows, states)."""
        probability = np.zeros((self.pairs.size, n_states))
        owner = np.repeat(np.arange(self.pairs.size), np.diff(self.start))
        probability[owner, self.next_state] = self.probability
        return probability

    @classmethod
    def none(cls) -> Rows:
        """No rows at all."""
        nothing = np.empty(0, np.int64)
        return cls(nothing, np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0), np.empty(0))

    @classmethod
    def nominal(cls, form: Form, pairs: Ints) -> Rows:
        """The nominal rows of ``pairs``, as for a step whose outcome was not recorded."""
        _, entry = spans(form.row_start[pairs], form.row_start[pairs + 1])
        rows = pairs, nominal_start(form, pairs), form.next_state[entry], form.probability[entry]
        return cls(*rows, np.zeros(pairs.size))

    @classmethod
    def from_entries(cls, form: Form, pairs: Ints, probability: Floats, strength: Floats | None = None) -> Rows:
        """Rows given with a probability for each entry of the nominal rows, in their order; zeros are left out.

        Where no strength is given, it is the total variation to the nominal row.
        """
        first = nominal_start(form, pairs)
        _, entry = spans(form.row_start[pairs], form.row_start[pairs + 1])
        if strength is None:
            strength = 0.5 * np.add.reduceat(np.abs(probability - form.probability[entry]), first[:-1])
        possible = np.flatnonzero(probability)
        start = np.searchsorted(possible, first)
        return cls(pairs, start, form.next_state[entry[possible]], probability[possible], strength)


def replaced(edits: EditedRows | None, pairs: Ints) -> Replaced | None:
    """The edited rows of those of some pairs that have one, as the engine takes them; None if none has."""
    at = None if edits is None else edits.locate(pairs)
    return None if edits is None or at is None or not (at >= 0).any() else edits.chosen(at)


def nominal_start(form: Form, pairs: Ints) -> Ints:
    """Where the row of each of ``pairs`` begins in an array with one item for each entry of their nominal rows."""
    return starts(form.row_start[pairs + 1] - form.row_start[pairs])
