"""Edited rows that are made when they are needed, and released after use.

In a dense model every row of every step is edited: a step then takes as much memory as the model. A counterfactual MDP
keeps a limited amount (`KEPT`). Beyond that, a step keeps only its pairs and its posterior, and makes rows again for
each question. A question uses as few of them as it can: a plan with one change only those of the observed actions, an
evaluation only those of the policy.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether.conditioning.edited_rows import EditedRows, Rows, nominal_start
from tether.conditioning.mechanism import NoisePosterior
from tether.model.form import Form

KEPT = 256 << 20
"""How many bytes of edited rows a counterfactual MDP keeps, over all its steps."""

ENTRY = 12
"""Bytes of one entry of a row: a state and a probability."""

PART = 1 << 21
"""How many entries are made at a time, at most: enough work for all cores, and little memory."""

_FIRST = 16
"""How much smaller the first stretch is: some questions need only a few rows."""


class RowsOnDemand(EditedRows):
    """The rows of ``pairs`` under ``posterior``; nominal ones if it is None."""

    __slots__ = ("_form", "_posterior", "_strength", "pairs")

    def __init__(
        self, form: Form, posterior: NoisePosterior | None, pairs: Ints, strength: Floats | None = None
    ) -> None:
        pairs.flags.writeable = False
        self.pairs, self._form, self._posterior, self._strength = pairs, form, posterior, strength

    @property
    def arrays(self) -> tuple[Ints | Floats, ...]:
        """The pairs, and the strengths once they are computed."""
        return (self.pairs,) if self._strength is None else (self.pairs, self._strength)

    def rows(self, at: Ints | None = None) -> Rows:
        """The rows at some positions (ascending; all by default), made now."""
        pairs = self.pairs if at is None else self.pairs[at]
        made = Rows.nominal(self._form, pairs) if self._posterior is None else self._posterior.replay(self._form, pairs)
        if self._strength is None:
            return made
        return made.with_strengths(self._strength if at is None else self._strength[at])

    def parts(self) -> Iterator[Rows]:
        """All rows, in parts of limited size."""
        for low, high in stretches(nominal_start(self._form, self.pairs)):
            yield self.rows(np.arange(low, high))

    def take(self, at: Ints) -> RowsOnDemand:
        """The rows at some positions, none of them made yet."""
        return RowsOnDemand(
            self._form, self._posterior, self.pairs[at], None if self._strength is None else self._strength[at]
        )

    def strengths(self, at: Ints | None = None) -> Floats:
        """Strengths at some positions; once computed, all of them are kept."""
        if at is not None and self._strength is None:
            distinct, place = np.unique(at, return_inverse=True)
            asked = self.take(distinct)
            return asked.strengths()[place]
        if self._strength is None:
            strength = np.concatenate([np.empty(0), *(part.strength for part in self.parts())])
            strength.flags.writeable = False
            self._strength = strength
        return self._strength if at is None else self._strength[at]

    def with_strengths(self, strength: Floats) -> RowsOnDemand:
        """A copy in which ``strength`` replaces the strength of each row."""
        return RowsOnDemand(self._form, self._posterior, self.pairs, strength)


def stretches(start: Ints) -> Iterator[tuple[int, int]]:
    """Cut rows that begin at ``start`` (and end at its last item) into stretches: short ones first, then of `PART`."""
    low, size = 0, PART // _FIRST
    while low < start.size - 1:
        high = max(low + 1, int(np.searchsorted(start, start[low] + size, side="right")) - 1)
        yield low, high
        low, size = high, min(2 * size, PART)
