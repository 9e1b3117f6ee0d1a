"""Mechanisms whose rows are given: one causal model of a set, pair by pair; or any one of a set."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tether._foundation.arrays import Ints, read_only
from tether.conditioning.edited_rows import ObservedStep, Rows, nominal_start, spans
from tether.conditioning.mechanism import Candidates, ExactMechanism, Mechanism, NoisePosterior
from tether.model.form import Form


@dataclass(frozen=True, slots=True, eq=False)
class GivenRows(ExactMechanism):
    """Counterfactual rows given for some pairs of each step; another mechanism gives the other rows.

    Parameters
    ----------
    rows : tuple of Rows, t = 0 … T-1
        The given rows.
    otherwise : Mechanism
        For the pairs without a given row.
    """

    name: ClassVar[str] = "given"

    rows: tuple[Rows, ...]
    otherwise: Mechanism

    def infer(self, step: ObservedStep) -> NoisePosterior:
        """The rows of that step."""
        return _GivenPosterior(self.rows[step.t], self.otherwise.infer(step))


@dataclass(frozen=True, slots=True, eq=False)
class _GivenPosterior:
    rows: Rows
    otherwise: NoisePosterior

    @property
    def key(self) -> Hashable:
        return None

    def changes(self, candidates: Candidates) -> Ints:
        """The pairs whose rows are given, where they can be reached, and those that the other mechanism changes."""
        every = candidates.all()
        given = every[np.isin(every, self.rows.pairs, assume_unique=True)]
        return np.union1d(given, self.otherwise.changes(candidates))

    def replay(self, form: Form, pairs: Ints) -> Rows:
        """The given rows; for pairs without one, those of the other mechanism."""
        start = nominal_start(form, pairs)
        probability = np.zeros(start[-1])
        at = self.rows.locate(pairs)
        base = self.otherwise.replay(form, pairs)
        for rows, which, place in (
            (base, np.flatnonzero(at < 0), np.flatnonzero(at < 0)),
            (self.rows, np.flatnonzero(at >= 0), at[at >= 0]),
        ):
            owner, item, chance = rows.expand(form, place)
            mine = which[owner]
            probability[start[mine] + item - form.row_start[pairs[mine]]] = chance
        return Rows.from_entries(form, pairs, probability)


@dataclass(frozen=True, slots=True)
class SomeRow(ExactMechanism):
    """Some row of a set for each pair, whatever its value: for sets that do not always contain Gumbel-max.

    Parameters
    ----------
    kind : int
        The set as `tether._kernels.sets` knows it; one in which rows that share no outcome with the observed one may
        stay nominal.
    """

    name: ClassVar[str] = "some"

    kind: int

    def infer(self, step: ObservedStep) -> NoisePosterior:
        """Keep the observed row and outcome."""
        return _SomePosterior(step, self.kind)


@dataclass(frozen=True, slots=True, eq=False)
class _SomePosterior:
    step: ObservedStep
    kind: int

    @property
    def key(self) -> Hashable:
        return None

    def changes(self, candidates: Candidates) -> Ints:
        """The pairs that share an outcome with the observed one."""
        return candidates.meeting()

    def replay(self, form: Form, pairs: Ints) -> Rows:
        """The row of each pair that comes first in the order of the outcomes."""
        from tether._kernels.sets import Observed, limits_for, row_scratch_for
        from tether.core.robust import Models, extreme_rows

        if pairs.size == 0:
            return Rows.none()
        step, start = self.step, nominal_start(form, pairs)
        _, entry = spans(form.row_start[pairs], form.row_start[pairs + 1])
        chance = float(step.probability[step.next_state == step.outcome][0])
        seen = Observed(step.next_state, step.probability, int(step.outcome), step.pair, chance)
        row, longest, none = np.empty(entry.size), int(np.diff(start).max()), read_only(np.empty(0))
        rows = read_only(form.next_state[entry]), read_only(form.probability[entry]), np.zeros(entry.size), pairs
        models = Models(seen, self.kind, 1.0, none, none, none, 0.0)
        extreme_rows(
            start, *rows, models, entry, np.empty(pairs.size), row, limits_for(longest), row_scratch_for(longest)
        )
        return Rows.from_entries(form, pairs, row)
