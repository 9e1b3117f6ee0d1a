"""A mechanism whose rows are given: one causal model of a set, written down pair by pair."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tether._types import Floats, Ints
from tether.counterfactual.mechanism import Candidates, Mechanism, Posterior
from tether.counterfactual.rows import ObservedStep, Rows, nominal_start, spans
from tether.model.form import Form

__all__ = ["GivenRows"]


@dataclass(frozen=True, slots=True, eq=False)
class GivenRows:
    """Counterfactual rows given for some pairs of each step; another mechanism says what the others are.

    Parameters
    ----------
    rows : tuple of Rows, t = 0 … T-1
        The given rows.
    otherwise : Mechanism
        For the pairs that have none.
    """

    name: ClassVar[str] = "given"

    rows: tuple[Rows, ...]
    otherwise: Mechanism

    def infer(self, step: ObservedStep) -> Posterior:
        """The rows of that step."""
        return _GivenPosterior(self.rows[step.t], self.otherwise.infer(step))

    def standard_error(self, probability: Floats) -> Floats:
        """Zero: the rows are exact."""
        return np.zeros_like(probability)


@dataclass(frozen=True, slots=True, eq=False)
class _GivenPosterior:
    rows: Rows
    otherwise: Posterior

    @property
    def key(self) -> Hashable:
        return None

    def changes(self, candidates: Candidates) -> Ints:
        """The pairs whose rows are given, where they can be reached, and those that the other mechanism changes."""
        every = candidates.all()
        given = every[np.isin(every, self.rows.pairs, assume_unique=True)]
        return np.union1d(given, self.otherwise.changes(candidates))

    def replay(self, form: Form, pairs: Ints) -> Rows:
        """The given rows, and those of the other mechanism where there is none."""
        start = nominal_start(form, pairs)
        _, entry = spans(form.row_start[pairs], form.row_start[pairs + 1])
        probability = np.zeros(entry.size)
        at = self.rows.locate(pairs)
        base = self.otherwise.replay(form, pairs)
        for rows, which, place in (
            (base, np.flatnonzero(at < 0), np.flatnonzero(at < 0)),
            (self.rows, np.flatnonzero(at >= 0), at[at >= 0]),
        ):
            owner, item, chance = rows.expand(form, place)
            mine = which[owner]
            probability[start[mine] + item - form.row_start[pairs[mine]]] = chance
        distance = np.abs(probability - form.probability[entry])
        return Rows.from_entries(form, pairs, probability, 0.5 * np.add.reduceat(distance, start[:-1]))
