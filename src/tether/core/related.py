"""How bad and how good a plan can be if the luck of different steps may be related in any way.

Given the episode, a replay y has at most the probability Π_t q_t(y_{t+1}) / p_t(o_t), over the steps at which the pair
is not the observed one: both happen together at most as often as the replay alone. So a forward pass with the rows
q / p_o, and with the point mass for the observed pair, bounds the probability of every replay. Keeping the return so
far, it bounds how likely each return is. At worst the lowest returns, up to a probability of 1 in all, happen.

If there are too many returns, they are rounded to a grid at each step: downwards for the worst case, upwards for the
best. The bounds are then wider, and still certain.
"""

from __future__ import annotations

import numpy as np

from tether._foundation.arrays import Floats
from tether.core.chain import Link
from tether.core.risk import GRID, MOST_RETURNS, merged, onward

__all__ = ["lowest_mean"]


def lowest_mean(links: list[Link], final: Floats, discount: float, rounding: float) -> float:
    """The mean of the lowest returns, of mass 1, over all that starts with mass 1 in the first node.

    The ``probability`` of a link is how much of the mass of its source it hands on; the masses of a node may sum to
    more than 1. ``final`` is what the nodes of the last time earn.
    """
    found = _pass(links, final, discount, rounding, None)
    if found is None:
        span = sum(discount**t * float(np.ptp(one.reward)) for t, one in enumerate(links)) + float(np.ptp(final))
        found = _pass(links, final, discount, rounding, max(span / GRID, rounding))
    assert found is not None
    earned, mass = found
    order = np.argsort(earned)
    taken = np.diff(np.minimum(np.cumsum(mass[order]), 1.0), prepend=0.0)
    return float(taken @ earned[order] / taken.sum())


def _pass(
    links: list[Link], final: Floats, discount: float, rounding: float, width: float | None
) -> tuple[Floats, Floats] | None:
    """Returns and their masses, rounded down to multiples of ``width``; None if there are too many without rounding."""
    at, earned, mass = np.zeros(1, np.int64), np.zeros(1), np.ones(1)
    for t, step in enumerate(links):
        with np.errstate(over="ignore", invalid="ignore"):  # after a very unlikely outcome masses may be infinite
            at, earned, mass = onward(step, at, earned, mass, discount**t)
        if width is not None:
            earned = np.floor(earned / width) * width
        at, earned, mass = merged(at, earned, mass, np.full(at.size, rounding))
        if width is None and at.size > MOST_RETURNS:
            return None
    return earned + discount ** len(links) * final[at], mass
