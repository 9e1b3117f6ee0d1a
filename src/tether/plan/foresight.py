"""Planning without hindsight: the same limits, but what is maximised is what could be expected at the time.

A *fair plan* keeps to the limits of a plan, k and m, and maximises the value of the *plain* model. The limits are about
what can happen in the counterfactual MDP. Where only the plain model leads (the outcome is possible, but not with the
luck of this episode), the episode is left behind: no limit applies, and the rest is worth V* of the plain model:

    V_t(s, c) = max over allowed a of R(s,a) + γ·Σ_j P(j|s,a)·( V_{t+1}(j, c - [a ≠ a_t])   if P_cf,t(j|s,a) > 0
                                                                V*_{t+1}(j)                   otherwise )

So if every decision was the model's best, the fair plan changes nothing, whatever k and m are. Without limits it is the
best policy of the plain model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether.conditioning.edited_rows import spans
from tether.core.batch import Layer, Model, Reached, starts
from tether.plan.standard import LayerValues, Standard, check_finite

if TYPE_CHECKING:
    from tether.core.backward import Problem

_ROUNDING = 1e-11
"""Values are tied if they differ by less than this share of the numbers that were added up, as in reviews."""


class Foresight:
    """A problem of the engine as those who decided could see it; for one episode or a batch of equal length.

    ``first`` are the states in which the episodes begin, ``horizon`` their number of steps.
    """

    def __init__(self, standard: Standard, horizon: int, first: Ints) -> None:
        nothing = np.empty(0, np.int64)
        entering = [np.unique(first), *[nothing] * (horizon - 1)]
        self._standard = standard
        self._layers: Iterator[LayerValues] = standard.layers(horizon, entering, [nothing] * horizon)
        self._after = next(self._layers)

    def __call__(self, problem: Problem) -> Problem:
        """The problem with nominal rows where the episode can go, and V* for what leaves it."""
        given, model, discount = problem.rewards, problem.model, problem.discount

        def rewards(t: int, part: Layer, edits: Any) -> tuple[Floats, Floats]:
            of_pairs = given(t, part, edits)[0]
            while self._after.t > t + 1:
                self._after = next(self._layers)
            entries = _Entries(model, part)
            leaving = entries.leaving(model, part, self._after.table[:, 1])
            check_finite(self._standard.mdp, t, part.nodes.states[part.node_of(part.edits.position)], leaving)
            return of_pairs, of_pairs[entries.pairs] + discount * leaving

        layers = [
            _with_nominal_rows(model, layer) if isinstance(layer, Layer) else _NominalParts(layer.nodes, model, layer)
            for layer in problem.layers
        ]
        return replace(problem, layers=layers, rewards=rewards, rounding=_ROUNDING)


class _Entries:
    """The entries of the edited pairs of a layer: of the model, by edit; and of the edited rows, with their places."""

    def __init__(self, model: Model, layer: Layer) -> None:
        edits = layer.edits
        self.pairs = layer.pairs(model, edits.position)
        self.owner, self.entry = spans(model.row_start[self.pairs], model.row_start[self.pairs + 1])
        self.edit, self.item = spans(edits.start[edits.row], edits.start[edits.row + 1])
        # Both run through the same rows in the same order, next states ascending.
        of_entries = self.owner * model.n_states + model.next_state[self.entry]
        self.place = np.searchsorted(of_entries, self.edit * model.n_states + edits.next_state[self.item])

    def leaving(self, model: Model, layer: Layer, worth: Floats) -> Floats:
        """What is expected of outcomes that an edited row does not have, for each edited pair."""
        left = np.ones(self.entry.size, dtype=bool)
        left[self.place[layer.edits.probability[self.item] > 0]] = False
        at = self.entry[left]
        weighted = model.probability[at] * worth[model.next_state[at]]
        found: Floats = np.bincount(self.owner[left], weighted, minlength=self.pairs.size).astype(
            np.float64, copy=False
        )
        return found


@dataclass(frozen=True, eq=False)
class _NominalParts(Reached):
    """A layer that comes in parts, with the probabilities of the model."""

    model: Model
    given: Reached

    @property
    def position(self) -> Ints:
        """The edited pairs, by position among the pairs, ascending."""
        return self.given.position

    @property
    def influenced(self) -> Ints:
        """Which of the edited pairs are influenced."""
        return self.given.influenced

    def parts(self, wanted: Ints | None = None) -> Iterator[tuple[slice, Ints | slice, Layer]]:
        """The layer in parts; see `Reached.parts`."""
        for nodes, numbers, part in self.given.parts(wanted):
            yield nodes, numbers, _with_nominal_rows(self.model, part)

    def whole(self) -> Layer:
        """The layer with all its rows."""
        return _with_nominal_rows(self.model, self.given.whole())

    def uniform(self, near: Ints, kappa: Ints) -> Reached:
        """The layer itself."""
        del near, kappa
        return self


def _with_nominal_rows(model: Model, layer: Layer) -> Layer:
    entries, edits = _Entries(model, layer), layer.edits
    n = edits.position.size
    nominal = np.where(edits.probability[entries.item] > 0, model.probability[entries.entry[entries.place]], 0.0)
    made = edits._replace(
        row=np.arange(n),
        start=starts(np.bincount(entries.edit, minlength=n)),
        next_state=edits.next_state[entries.item],
        probability=nominal,
    )
    return Layer(layer.nodes, made, layer.numbers)
