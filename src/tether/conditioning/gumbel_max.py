"""The Gumbel-max mechanism, exactly."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tether._foundation.arrays import Ints
from tether.conditioning.edited_rows import ObservedStep, Rows
from tether.conditioning.mechanism import Candidates, ExactMechanism, NoisePosterior
from tether.model.form import Form, model_of

__all__ = ["GumbelMax"]


@dataclass(frozen=True, slots=True)
class GumbelMax(ExactMechanism):
    """The Gumbel-max mechanism, exactly: a closed form, no sampling.

    The outcome of a step is argmax_j log P(j|s,a) + G_j with independent Gumbel noise G
    (Oberst & Sontag, 2019). The formula is in `tether.core.gumbel`; O(n log n) per row.

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
        return self.step.key

    def changes(self, candidates: Candidates) -> Ints:
        """Only rows that can lead to a state the observed row could have led to (the paper's Proposition 1)."""
        return candidates.meeting()

    def replay(self, form: Form, pairs: Ints) -> Rows:
        from tether.core.gumbel import Seen, rows_given

        # In copies of a model side by side the observed row lists the outcomes of all copies, one after another.
        step, n = self.step, self.step.copies
        seen = Seen(np.arange(n + 1) * (step.next_state.size // n), step.next_state, step.probability)
        which = pairs // (form.pair_action.size // n)
        outcome = step.outcome + which * ((form.pair_start.size - 1) // n)
        return Rows(pairs, *rows_given(model_of(form), seen, which, outcome, pairs))
