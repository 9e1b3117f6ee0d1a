"""Mechanisms: how the luck behind an observed step is inferred, and replayed on other rows.

The three steps of a counterfactual (Pearl) are visible here and in `tether.counterfactual.conditioned`:

- *abduction*: ``mechanism.infer(step)`` turns one observed transition into a `Posterior` over the
  noise of that step;
- *action*: another pair is chosen, so another nominal row applies;
- *prediction*: ``posterior.replay(form, pairs)`` runs these rows on the inferred noise.

Any object with these two methods is a mechanism. Two are built in: `GumbelMax`, exact, and
`SampledGumbelMax`, which draws the noise as the paper does and serves as a cross-check.
"""

from __future__ import annotations

from typing import Protocol

from tether._types import Floats, Ints
from tether.counterfactual.rows import ObservedStep, Rows
from tether.model.form import Form

__all__ = ["Mechanism", "Posterior"]


class Posterior(Protocol):
    """What one observed step says about the noise of its time."""

    def replay(self, form: Form, pairs: Ints) -> Rows:
        """Run the nominal rows of ``pairs`` (ascending indices) on the inferred noise."""
        ...


class Mechanism(Protocol):
    """How the noise of a step is inferred. Immutable; equal inputs give equal rows."""

    @property
    def name(self) -> str:
        """The name by which `tether.counterfactual` knows it."""
        ...

    def infer(self, step: ObservedStep) -> Posterior:
        """Infer the noise behind one observed transition."""
        ...

    def standard_error(self, probability: Floats) -> Floats:
        """Standard error of counterfactual probabilities; 0 where they are exact."""
        ...
