"""Mechanisms: how the luck behind an observed step is inferred, and replayed on other rows.

The three steps of a counterfactual (Pearl) are visible here and in `tether.conditioning.counterfactual_record`:

- *abduction*: ``mechanism.infer(step)`` turns one observed transition into a `NoisePosterior` over the
  noise of that step;
- *action*: another pair is chosen, so another nominal row applies;
- *prediction*: ``posterior.replay(form, pairs)`` runs these rows on the inferred noise.

Which rows a step can change is a property of the mechanism, so the engine asks: ``posterior.changes(candidates)``.
Any object with this interface is a mechanism; one that needs the model first (an order of its states) also has
``prepare(mdp)``, which returns the mechanism to use. Under every mechanism the observed pair itself leads to its
outcome for certain.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol, runtime_checkable

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether.conditioning.edited_rows import ObservedStep, Rows
from tether.model.form import Form


class Candidates(Protocol):
    """The pairs of the states that can be reached at one step; `NoisePosterior.changes` picks among them."""

    def all(self) -> Ints:
        """Every pair, ascending."""
        ...

    def meeting(self) -> Ints:
        """Pairs that can lead to a state the observed pair could have led to, ascending."""
        ...


class NoisePosterior(Protocol):
    """What is known about the noise of one step after it was observed."""

    @property
    def key(self) -> Hashable:
        """Posteriors of the same model and mechanism with equal keys replay equal rows; None: only this one does."""
        ...

    def changes(self, candidates: Candidates) -> Ints:
        """The pairs, ascending, whose rows this posterior can alter; all others stay nominal."""
        ...

    def replay(self, form: Form, pairs: Ints) -> Rows:
        """Run the nominal rows of ``pairs`` (ascending) on the inferred noise; next states of a row are ascending."""
        ...


@runtime_checkable
class Mechanism(Protocol):
    """How the noise of a step is inferred. Immutable; equal inputs give equal rows.

    A mechanism that is a function of two rows needs no class of its own: see `tether.RowMechanism`.

    Examples
    --------
    >>> import tether
    >>> isinstance(tether.Maximal(), tether.Mechanism)
    True
    """

    @property
    def name(self) -> str:
        """The name by which `tether.counterfactual` knows it."""
        ...

    def infer(self, step: ObservedStep) -> NoisePosterior:
        """Infer the noise behind one observed transition."""
        ...

    def standard_error(self, probability: Floats) -> Floats:
        """Standard error of counterfactual probabilities; 0 if they are exact."""
        ...


class ExactMechanism:
    """The base of mechanisms whose rows are closed forms."""

    __slots__ = ()

    def standard_error(self, probability: Floats) -> Floats:
        """Zero: the rows are exact."""
        return np.zeros_like(probability)
