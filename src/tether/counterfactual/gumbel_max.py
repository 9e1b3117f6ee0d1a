"""The Gumbel-max mechanism, exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tether._types import Floats, Ints
from tether.counterfactual.mechanism import Posterior
from tether.counterfactual.rows import ObservedStep, Rows, nominal_start
from tether.model.form import Form

__all__ = ["GumbelMax"]


@dataclass(frozen=True, slots=True)
class GumbelMax:
    """The Gumbel-max mechanism, exactly: a closed form, no sampling.

    The outcome of a step is argmax_j log P(j|s,a) + G_j with independent Gumbel noise G
    (Oberst & Sontag, 2019). The formula is in `tether._kernels.gumbel`; O(n log n) a row.

    Examples
    --------
    >>> import tether
    >>> toy = tether.cases.toy()
    >>> tether.counterfactual(toy.mdp, toy.path, mechanism=tether.GumbelMax()).mechanism
    GumbelMax()
    """

    name: ClassVar[str] = "gumbel-max"

    def infer(self, step: ObservedStep) -> Posterior:
        """Keep the observed row and outcome: the noise integrates out in `replay`."""
        return _ExactPosterior(step)

    def standard_error(self, probability: Floats) -> Floats:
        """Zero: the rows are exact."""
        return np.zeros_like(probability)


@dataclass(frozen=True, slots=True)
class _ExactPosterior:
    step: ObservedStep

    def replay(self, form: Form, pairs: Ints) -> Rows:
        from tether._kernels.gumbel import gumbel_rows

        start = nominal_start(form, pairs)
        probability, strength = np.empty(int(start[-1])), np.empty(pairs.size)
        longest = int(np.diff(start).max(initial=0))
        gumbel_rows(
            pairs,
            form.row_start,
            form.next_state,
            form.probability,
            self.step.next_state,
            self.step.probability,
            self.step.outcome,
            start,
            probability,
            strength,
            np.empty(longest),
            np.empty(longest, dtype=np.int64),
            np.empty(longest),
        )
        return Rows.from_entries(form, pairs, probability, strength)
