"""A mechanism made of a function of two rows: an idea of a few lines can be planned, swept and audited with."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether.conditioning.edited_rows import ObservedStep, Rows, nominal_start, spans
from tether.conditioning.mechanism import Candidates, ExactMechanism, NoisePosterior
from tether.errors import Problem, QueryError
from tether.model.form import Form

__all__ = ["RowMechanism"]

RowOf = Callable[[Floats, int, Floats], Any]
"""f(p, observed, q): the counterfactual row, given the observed row p, its outcome and the row q in question."""


@dataclass(frozen=True)
class RowMechanism(ExactMechanism):
    """A mechanism made of a function ``f(p, observed, q)`` that returns the counterfactual row.

    `tether.counterfactual` makes it of a function by itself: ``mechanism=f``. The rows are checked: they must be
    distributions, lead where q can lead, and the observed pair repeats its outcome whatever the function says.

    Parameters
    ----------
    function : callable
        ``p`` and ``q`` are probabilities of the outcomes that either row can lead to; ``observed`` is the position of
        what happened among them. It returns one probability for each of them.
    name : str
        By which reports name the mechanism; the function's name by default.

    Examples
    --------
    >>> import tether
    >>> def as_often(p, observed, q):  # the same outcome as often as possible, otherwise as the row says
    ...     x = q * (1 - min(1, q[observed] / p[observed])) / max(1 - q[observed], 1e-300)
    ...     x[observed] = min(1, q[observed] / p[observed])
    ...     return x
    >>> grid = tether.cases.grid_world()
    >>> cf = tether.counterfactual(grid.mdp, grid.path, mechanism=as_often)
    >>> cf.mechanism.name, cf.row(2, 2, "left")[1].round(3)
    ('as_often', array([0.897, 0.033, 0.033, 0.037]))
    """

    function: RowOf
    name: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", getattr(self.function, "__name__", type(self.function).__name__))

    def infer(self, step: ObservedStep) -> NoisePosterior:
        """Keep the observed row and outcome for the function."""
        return _FunctionPosterior(self.function, step)


@dataclass(frozen=True, slots=True, eq=False)
class _FunctionPosterior:
    function: RowOf
    step: ObservedStep

    @property
    def key(self) -> Hashable:
        return self.step.key

    def changes(self, candidates: Candidates) -> Ints:
        """Every row: what a function changes is known when it was asked."""
        return candidates.all()

    def replay(self, form: Form, pairs: Ints) -> Rows:
        if pairs.size == 0:
            return Rows.none()
        step, start = self.step, nominal_start(form, pairs)
        _, entry = spans(form.row_start[pairs], form.row_start[pairs + 1])
        after, chance, row = form.next_state[entry], form.probability[entry], np.empty(entry.size)
        for i, pair in enumerate(pairs):
            own = slice(int(start[i]), int(start[i + 1]))
            row[own] = after[own] == step.outcome if pair == step.pair else self._row(after[own], chance[own])
        return Rows.from_entries(form, pairs, row)

    def _row(self, after: Ints, chance: Floats) -> Floats:
        step = self.step
        outcomes = np.union1d(step.next_state, after)
        p, q = np.zeros(outcomes.size), np.zeros(outcomes.size)
        p[np.searchsorted(outcomes, step.next_state)] = step.probability
        q[np.searchsorted(outcomes, after)] = chance
        result = np.asarray(self.function(p, int(np.searchsorted(outcomes, step.outcome)), q), dtype=float)
        there = np.searchsorted(outcomes, after)
        if result.shape != q.shape:
            message = f"the row function must return {q.size} probabilities, one for each outcome; got {result.shape}"
            raise QueryError(Problem(message, time=step.t, place=f"t = {step.t}"))
        if np.any(result[np.setdiff1d(np.arange(outcomes.size), there)] != 0.0):
            message = "the row function gives a probability to an outcome that q cannot lead to"
            raise QueryError(Problem(message, time=step.t, place=f"t = {step.t}"))
        row: Floats = result[there]
        return row
