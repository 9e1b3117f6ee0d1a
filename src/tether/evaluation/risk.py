"""How likely a replay under a plan is to end worse, or better, than what happened; `tether.core.risk` computes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tether._foundation.rounding import rounding_of
from tether.plan.backward import final_rewards
from tether.plan.plan import Plan

if TYPE_CHECKING:
    from tether.core.risk import Replays

__all__ = ["Risk", "risk_of"]


@dataclass(frozen=True, slots=True)
class Risk:
    """How likely a replay is to end worse, or better, than what happened.

    A certificate is about the expected return; this is about single replays.

    Attributes
    ----------
    worse_low, worse_high : float
        Bounds of the chance to end worse; equal if the chance is exact.
    better_low, better_high : float
        Bounds of the chance to end better.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> tether.counterfactual(case.mdp, case.path).plan(k=3, m=1).risk
    <Risk: worse 0, better 0.8889>
    """

    worse_low: float
    worse_high: float
    better_low: float
    better_high: float

    @property
    def worse(self) -> float:
        """The chance to end worse; its upper bound if it is not exact."""
        return self.worse_high

    @property
    def better(self) -> float:
        """The chance to end better; its lower bound if it is not exact."""
        return self.better_low

    @property
    def is_exact(self) -> bool:
        """Whether both chances are exact."""
        return self.worse_low == self.worse_high and self.better_low == self.better_high

    def __repr__(self) -> str:
        if self.is_exact:
            return f"<Risk: worse {self.worse:.4g}, better {self.better:.4g}>"
        worse, better = (self.worse_low, self.worse_high), (self.better_low, self.better_high)
        return f"<Risk: worse {worse[0]:.4g} … {worse[1]:.4g}, better {better[0]:.4g} … {better[1]:.4g}>"


def risk_of(plan: Plan) -> Risk:
    """The chances that a replay under a plan ends worse, or better, than what happened."""
    from tether.core.risk import chances

    return Risk(*(float(one[0]) for one in chances(_replays(plan))))


def _replays(plan: Plan) -> Replays:
    from tether.core.follow import Links
    from tether.core.risk import Replays

    sign, world, chain = -1.0 if plan.minimise else 1.0, plan.asked.mdp, plan.chain
    links = [Links(one.source, one.target, one.probability, sign * one.reward) for one in chain.links]
    episode = [np.zeros(visits.size, np.int64) for visits in chain.visits]
    final = [np.zeros(visits.size) for visits in chain.visits]
    final[-1] = sign * final_rewards(world)[chain.visits[-1].states]
    seen = np.array([sign * plan.observed_value])
    return Replays(episode, links, final, world.discount, seen, np.array([rounding_of(plan.observed_value)]))
