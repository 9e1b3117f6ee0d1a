"""A mechanism made of a function of two rows: an idea of a few lines can be planned, swept and audited with."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether.conditioning.edited_rows import ObservedStep, Rows, nominal_start, spans
from tether.conditioning.mechanism import Candidates, ExactMechanism, NoisePosterior
from tether.errors import Problem, QueryError
from tether.model.form import Form

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
        what happened among them. It returns one probability for each of them. At each step it is asked once for all
        rows with the same numbers.
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
    answers: dict[tuple[bytes, bytes], Floats] = field(default_factory=dict)

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
        outcomes = np.union1d(self.step.next_state, after)
        p, q, there = np.zeros(outcomes.size), np.zeros(outcomes.size), np.searchsorted(outcomes, after)
        p[np.searchsorted(outcomes, self.step.next_state)] = self.step.probability
        q[there] = chance
        asked = p.tobytes(), q.tobytes()
        if asked not in self.answers:
            at = int(np.searchsorted(outcomes, self.step.outcome))
            self.answers[asked] = self._checked(self.function(p, at, q.copy()), q)
        row: Floats = self.answers[asked][there]
        return row

    def _checked(self, answer: Any, q: Floats) -> Floats:
        """The answer of the function, if it can be a row in place of ``q``."""
        result, t = np.array(answer, dtype=float), self.step.t
        if result.shape != q.shape:
            message = f"the row function must return {q.size} probabilities, one for each outcome; got {result.shape}"
            raise QueryError(Problem(message, time=t, place=f"t = {t}"))
        if np.any(result[q == 0.0] != 0.0):
            message = "the row function gives a probability to an outcome that q cannot lead to"
            raise QueryError(Problem(message, time=t, place=f"t = {t}"))
        return result
