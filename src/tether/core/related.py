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
from tether.core.risk import MOST, WORK, grid_width, merged, onward, push


def lowest_mean(links: list[Link], final: Floats, discount: float, rounding: float) -> float:
    """The mean of the lowest returns, of mass 1, over all that starts with mass 1 in the first node.

    The ``probability`` of a link is how much of the mass of its source it hands on; the masses of a node may sum to
    more than 1. ``final`` is what the nodes of the last time earn.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # after a very unlikely outcome masses may be infinite
        earned, mass = _exactly(links, final, discount, rounding) or _on_a_grid(links, final, discount, rounding)
    order = np.argsort(earned)
    taken = np.diff(np.minimum(np.cumsum(mass[order]), 1.0), prepend=0.0)
    return float(taken @ earned[order] / taken.sum())


def _exactly(links: list[Link], final: Floats, discount: float, rounding: float) -> tuple[Floats, Floats] | None:
    """Returns and their masses; None if there are too many."""
    at, earned, mass, handed = np.zeros(1, np.int64), np.zeros(1), np.ones(1), 0
    for t, step in enumerate(links):
        handed += int(np.bincount(step.source, minlength=int(at.max(initial=-1)) + 1)[at].sum())
        if handed > MOST:
            return None
        at, earned, mass = onward(step, at, earned, mass, discount**t)
        at, earned, mass = merged(at, earned, mass, np.full(at.size, rounding))
    return earned + discount ** len(links) * final[at], mass


def _on_a_grid(links: list[Link], final: Floats, discount: float, rounding: float) -> tuple[Floats, Floats]:
    """Returns rounded down to a grid at each step, and their masses."""
    nodes = [*(int(step.source.max()) + 1 for step in links[1:]), final.size]
    spans = np.cumsum([discount**t * float(np.ptp(step.reward)) for t, step in enumerate(links)]).tolist()
    width = max(grid_width(links, spans, nodes, WORK), rounding)
    offset, mass = 0, np.ones((1, 1))
    for t, (step, n) in enumerate(zip(links, nodes, strict=True)):
        shift = np.floor(discount**t * step.reward / width).astype(np.int64)
        least, most = int(shift.min()), int(shift.max())
        after = np.zeros((n, mass.shape[1] + most - least))
        push(step.source, step.target, step.probability, shift - least, mass, after)
        offset, mass = offset + least, after
    node, point = np.nonzero(mass)
    return (offset + point) * width + discount ** len(links) * final[node], mass[node, point]
