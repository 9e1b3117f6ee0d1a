"""Counterfactual rows: what one step of the observed path makes of the rows of some pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tether._types import Floats, Ints
from tether.model.form import Form

__all__ = ["ObservedStep", "Rows"]


@dataclass(frozen=True, slots=True, eq=False)
class ObservedStep:
    """One observed transition: the row P(·|s_t, a_t) as next states and probabilities, and s_{t+1}.

    ``outcome`` is -1 where it was not recorded; nothing is inferred from such a step.
    """

    t: int
    next_state: Ints
    probability: Floats
    outcome: int

    @property
    def recorded(self) -> bool:
        """Whether the outcome is known."""
        return self.outcome >= 0


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Counterfactual rows of some pairs (ascending), each entry for entry of the nominal row.

    Row i is ``probability[start[i]:start[i + 1]]``, zeros included; ``strength[i]`` is its total
    variation to the nominal row.
    """

    pairs: Ints
    start: Ints
    probability: Floats
    strength: Floats

    def find(self, pair: int) -> int:
        """Position of a pair, or -1."""
        i = int(np.searchsorted(self.pairs, pair))
        return i if i < self.pairs.size and self.pairs[i] == pair else -1

    def locate(self, pairs: Ints) -> Ints:
        """Position of each of some pairs, -1 where it has no row here."""
        if self.pairs.size == 0:
            return np.full(pairs.size, -1)
        at = np.minimum(np.searchsorted(self.pairs, pairs), self.pairs.size - 1)
        return np.where(self.pairs[at] == pairs, at, -1)

    def entries(self, form: Form) -> Ints:
        """The model's entry behind each probability."""
        shift = np.repeat(form.row_start[self.pairs] - self.start[:-1], np.diff(self.start))
        entries: Ints = np.arange(shift.size) + shift
        return entries

    @classmethod
    def empty(cls, form: Form, pairs: Ints) -> Rows:
        """Rows for ``pairs``, not yet filled."""
        lengths = form.row_start[pairs + 1] - form.row_start[pairs]
        start = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)))
        return cls(pairs, start, np.empty(int(start[-1])), np.empty(pairs.size))

    @classmethod
    def nominal(cls, form: Form, pairs: Ints) -> Rows:
        """The nominal rows of ``pairs``: what a step says whose outcome was not recorded."""
        rows = cls.empty(form, pairs)
        entries = np.arange(rows.probability.size) + np.repeat(
            form.row_start[pairs] - rows.start[:-1], np.diff(rows.start)
        )
        rows.probability[:] = form.probability[entries]
        rows.strength[:] = 0.0
        return rows.freeze()

    def freeze(self) -> Rows:
        """The same rows, read-only."""
        for array in (self.pairs, self.start, self.probability, self.strength):
            array.flags.writeable = False
        return self
