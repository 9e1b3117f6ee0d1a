"""Whether a log and a model fit each other, as far as a policy can tell."""

from __future__ import annotations

from dataclasses import dataclass

from tether._foundation.words import number

__all__ = ["ROUNDING", "Consistency"]

ROUNDING = 1e-9
"""A difference of values counts where it is more than this, relative to their size."""


@dataclass(frozen=True, slots=True)
class Consistency:
    """Whether a log and a model fit each other, as far as a policy can tell.

    The mean over episodes of the exact counterfactual value of a policy is its value in the model, whatever policy the
    log was made with: what the luck of one episode adds, that of others takes away. A log that the model did not make
    need not keep to that.

    Attributes
    ----------
    episodes : int
    counterfactual, model : float
        The policy's mean value over the episodes, with their luck and for anyone.
    difference, standard_error : float
        Of the two means.
    """

    episodes: int
    counterfactual: float
    model: float
    difference: float
    standard_error: float

    @property
    def holds(self) -> bool:
        """Whether the difference is within three standard errors, or is rounding."""
        rounding = ROUNDING * max(1.0, abs(self.model))
        return abs(self.difference) <= 3.0 * self.standard_error + rounding

    def __str__(self) -> str:
        means = f"{number(self.counterfactual)} on average with the luck of the episodes, {number(self.model)} without"
        if self.holds:
            return f"The policy is worth {means}: the model fits the log, as far as this can tell."
        return (
            f"The policy is worth {means}. They are more than three standard errors ({number(self.standard_error)}) "
            "apart: the log is hardly what this model would make, and what is computed with it may mislead."
        )
