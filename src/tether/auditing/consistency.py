"""Whether a log and a model agree, as far as a policy can show."""

from __future__ import annotations

from dataclasses import dataclass

from tether._foundation.markup import Displayed
from tether._foundation.rounding import rounding_of
from tether._foundation.words import number

__all__ = ["Consistency"]


@dataclass(frozen=True, slots=True)
class Consistency(Displayed):
    """Whether a log and a model agree, as far as a policy can show.

    If the model made the log, the mean over episodes of a policy's exact counterfactual value is its value in the
    model, whatever policy made the log: good and bad luck cancel on average. For a log that the model did not make,
    this need not be true.

    Attributes
    ----------
    episodes : int
    counterfactual, model : float
        The policy's mean value over the episodes: with their luck, and for anyone.
    difference, standard_error : float
        Of the difference of the two means.
    is_learned : bool
        Whether the model was learned: from the same log, the test cannot fail.

    Examples
    --------
    >>> import tether
    >>> mdp = tether.cases.grid_world().mdp
    >>> log = [mdp.simulate("random", 6, rng=seed) for seed in range(50)]
    >>> tether.audit(mdp, log, policy="optimal", certify=False).consistency.episodes
    50
    """

    episodes: int
    counterfactual: float
    model: float
    difference: float
    standard_error: float
    is_learned: bool = False

    @property
    def holds(self) -> bool:
        """Whether the difference is within three standard errors, or is rounding."""
        return abs(self.difference) <= 3.0 * self.standard_error + rounding_of(self.model)

    def __str__(self) -> str:
        means = f"{number(self.counterfactual)} on average with the luck of the episodes, {number(self.model)} without"
        if self.holds and self.is_learned:
            return f"The policy is worth {means}. The model was learned: its own log cannot contradict it."
        if self.holds:
            return f"The policy is worth {means}: this test finds no contradiction between the model and the log."
        return (
            f"The policy is worth {means}. They are more than three standard errors ({number(self.standard_error)}) "
            "apart: it is unlikely that this model made the log, so results computed with it may mislead."
        )
