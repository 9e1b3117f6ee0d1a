"""The Gumbel-max mechanism, exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tether.conditioning.closed_form import ClosedForm
from tether.conditioning.edited_rows import ObservedStep
from tether.conditioning.mechanism import ExactMechanism, NoisePosterior
from tether.core.batch import GUMBEL_MAX


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
        return ClosedForm(step, GUMBEL_MAX)
