"""The Gumbel-max mechanism, exactly."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tether._foundation.arrays import Ints
from tether._kernels.parallel import CHUNKS, use_cores
from tether.conditioning.mechanism import Candidates, ExactMechanism, NoisePosterior
from tether.conditioning.rows import ObservedStep, Rows, nominal_start
from tether.conditioning.scratch import observed_weights
from tether.model.form import Form

__all__ = ["GumbelMax"]

_ENTRIES_PER_NODE = 16
"""How many entries cost about as much as one node of a plan, the unit of `use_cores`."""


@dataclass(frozen=True, slots=True)
class GumbelMax(ExactMechanism):
    """The Gumbel-max mechanism, exactly: a closed form, no sampling.

    The outcome of a step is argmax_j log P(j|s,a) + G_j with independent Gumbel noise G
    (Oberst & Sontag, 2019). The formula is in `tether._kernels.gumbel`; O(n log n) per row.

    Examples
    --------
    >>> import tether
    >>> toy = tether.cases.toy()
    >>> tether.counterfactual(toy.mdp, toy.path, mechanism=tether.GumbelMax()).mechanism
    GumbelMax()
    """

    name: ClassVar[str] = "gumbel-max"

    def infer(self, step: ObservedStep) -> NoisePosterior:
        """Keep the observed row and outcome: the noise integrates out in `replay`."""
        return _ExactPosterior(step)


@dataclass(frozen=True, slots=True)
class _ExactPosterior:
    step: ObservedStep

    @property
    def key(self) -> Hashable:
        return None if self.step.pair < 0 else (GumbelMax.name, self.step.pair, self.step.outcome)

    def changes(self, candidates: Candidates) -> Ints:
        """Only rows that can lead to a state the observed row could have led to (the paper's Proposition 1)."""
        return candidates.meeting()

    def replay(self, form: Form, pairs: Ints) -> Rows:
        from tether._kernels import gumbel

        nominal = nominal_start(form, pairs)
        longest = int(np.diff(nominal).max(initial=0))
        on_all_cores = self.step.copies == 1 and use_cores(int(nominal[-1]) // _ENTRIES_PER_NODE)
        pieces = (CHUNKS,) if on_all_cores else ()
        count: Callable[..., None] = gumbel.gumbel_sizes_parallel if on_all_cores else gumbel.gumbel_sizes
        fill: Callable[..., None] = gumbel.gumbel_rows_parallel if on_all_cores else gumbel.gumbel_rows
        model = pairs, form.row_start, form.next_state, form.probability
        spans = [((_cuts(nominal),), self.step.outcome)] if on_all_cores else self._spans(form, pairs)
        is_certain = self.step.next_state.size == self.step.copies
        not_influenced, size = np.empty(pairs.size, np.bool_), np.empty(pairs.size, np.int64)
        strength = np.empty(pairs.size)
        with observed_weights(form, self.step) as weight:
            for span, outcome in spans:
                count(*span, *model, weight, is_certain, outcome, not_influenced, size)
            start = np.concatenate((np.zeros(1, np.int64), np.cumsum(size)))
            next_state, probability = np.empty(int(start[-1]), form.next_state.dtype), np.empty(int(start[-1]))
            rows = start, next_state, probability, strength
            scratch = np.empty((*pieces, 2, longest)), np.empty((*pieces, 3, longest), np.int64)
            for span, outcome in spans:
                fill(*span, *model, weight, outcome, not_influenced, *rows, *scratch)
        return Rows(pairs, *rows)

    def _spans(self, form: Form, pairs: Ints) -> list[tuple[tuple[Any, ...], int]]:
        """The pairs of each copy of the model, from which position to which, and the observed outcome there."""
        n, (n_pairs, n_states) = self.step.copies, (form.pair_action.size, form.pair_start.size - 1)
        cuts = np.searchsorted(pairs, np.arange(n + 1) * (n_pairs // n)).tolist()
        return [((cuts[i], cuts[i + 1]), self.step.outcome + i * (n_states // n)) for i in range(n)]


def _cuts(start: Ints) -> Ints:
    """Positions that cut rows into pieces with about the same number of entries."""
    marks = np.linspace(0, int(start[-1]), CHUNKS + 1)
    cuts = np.searchsorted(start[:-1], marks)
    cuts[0], cuts[-1] = 0, start.size - 1
    return cuts
