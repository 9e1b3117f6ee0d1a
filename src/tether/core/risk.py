"""How likely a replay is to end better or worse than what happened: exactly, or within certified bounds.

A forward pass over (node, return so far). What a node can still earn is known from a backward pass, so a replay is
counted, and followed no longer, as soon as it is certain to end better, worse or equal.

While the distinct returns of an episode are few, the chances are exact. If they become too many, returns are rounded to
a grid at each step: downwards in one pass, upwards in another. A return that is rounded down is never larger than the
true one, so the two passes give bounds on both chances. Nothing is sampled.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints
from tether.core.chain import Link

__all__ = ["Chances", "Replays", "chances", "merged", "onward"]

MOST_RETURNS = 50_000
"""How many (node, return) at one time an episode may have before its returns are rounded."""

GRID = 2_000
"""How many rounded returns there are at most between the smallest and the largest possible one."""


class Replays(NamedTuple):
    """All replays of a batch of episodes under what is done in them.

    Attributes
    ----------
    episode : for each time, the episode of each occupied node, ascending
    links : for each step, what leads where
    final : for each time, what a node earns if a path ends there, 0 elsewhere
    discount : γ
    observed : the return that happened, of each episode
    rounding : differences of returns up to this are none
    """

    episode: list[Ints]
    links: list[Link]
    final: list[Floats]
    discount: float
    observed: Floats
    rounding: Floats


class Chances(NamedTuple):
    """Bounds of the chance to end worse, and better, than what happened; equal where they are exact."""

    worse_low: Floats
    worse_high: Floats
    better_low: Floats
    better_high: Floats


def chances(replays: Replays, most: int = MOST_RETURNS, grid: int = GRID) -> Chances:
    """The chances of each episode of a batch; exact where no time has more than ``most`` nodes with returns."""
    low, high = _still_to_earn(replays)
    worse, better, rounded = _pass(replays, low, high, np.zeros(replays.observed.size), 0, most)
    found = Chances(worse, worse.copy(), better, better.copy())
    if rounded.any():
        nodes = np.max([np.bincount(owner, minlength=rounded.size) for owner in replays.episode], axis=0)
        points = np.clip(4 * most // np.maximum(nodes, 1), 20, grid)
        width = np.where(rounded, np.maximum((high[0] - low[0]) / points, 1e-300), 1.0)
        down, up = (_pass(replays, low, high, width, side, None, rounded) for side in (-1, 1))
        found.worse_low[rounded], found.worse_high[rounded] = up[0][rounded], down[0][rounded]
        found.better_low[rounded], found.better_high[rounded] = down[1][rounded], up[1][rounded]
    return Chances(*(np.clip(one, 0.0, 1.0) for one in found))


def _still_to_earn(replays: Replays) -> tuple[list[Floats], list[Floats]]:
    """The smallest and the largest return that each node can still lead to, discounted from its own time."""
    low, high = [replays.final[-1]], [replays.final[-1]]
    for step, final in zip(reversed(replays.links), reversed(replays.final[:-1]), strict=True):
        some = step.probability > 0
        source, target, reward = step.source[some], step.target[some], step.reward[some]
        least, largest = np.full(final.size, np.inf), np.full(final.size, -np.inf)
        np.minimum.at(least, source, reward + replays.discount * low[-1][target])
        np.maximum.at(largest, source, reward + replays.discount * high[-1][target])
        ends = np.ones(final.size, bool)
        ends[source] = False
        low.append(np.where(ends, final, least))
        high.append(np.where(ends, final, largest))
    return low[::-1], high[::-1]


def _pass(
    replays: Replays, low: list[Floats], high: list[Floats], width: Floats, side: int, most: int | None,
    only: Flags | None = None,
) -> tuple[Floats, Floats, Flags]:  # fmt: skip
    """Chances of each episode to end worse and better, and which episodes had too many returns.

    ``width`` is the width of the grid that the returns of each episode are rounded to, downwards (``side`` -1) or
    upwards (1).
    """
    n, seen, close = replays.observed.size, replays.observed, replays.rounding
    worse, better, many = np.zeros(n), np.zeros(n), np.zeros(n, bool)
    at = np.arange(replays.episode[0].size) if only is None else np.flatnonzero(only[replays.episode[0]])
    earned, mass = np.zeros(at.size), np.ones(at.size)
    for t in range(len(replays.links) + 1):
        owner, weight = replays.episode[t][at], replays.discount**t
        least, largest = earned + weight * low[t][at], earned + weight * high[t][at]
        is_worse, is_better = largest < seen[owner] - close[owner], least > seen[owner] + close[owner]
        is_equal = (least >= seen[owner] - close[owner]) & (largest <= seen[owner] + close[owner])
        worse += np.bincount(owner[is_worse], mass[is_worse], minlength=n)
        better += np.bincount(owner[is_better], mass[is_better], minlength=n)
        open_ones = np.flatnonzero(~(is_worse | is_better | is_equal))
        if t == len(replays.links) or open_ones.size == 0:
            break
        at, earned, mass = at[open_ones], earned[open_ones], mass[open_ones]
        if most is not None:
            many |= np.bincount(replays.episode[t][at], minlength=n) > most
            kept = ~many[replays.episode[t][at]]
            at, earned, mass = at[kept], earned[kept], mass[kept]
        at, earned, mass = onward(replays.links[t], at, earned, mass, weight)
        owner = replays.episode[t + 1][at]
        if side:
            round_to = np.floor if side < 0 else np.ceil
            earned = round_to(earned / width[owner]) * width[owner]
        at, earned, mass = merged(at, earned, mass, close[owner])
    return worse, better, many


def onward(step: Link, at: Ints, earned: Floats, mass: Floats, weight: float) -> tuple[Ints, Floats, Floats]:
    """Where nodes with returns lead, with what return and how likely."""
    order = np.argsort(step.source, kind="stable")
    begin = np.searchsorted(step.source[order], at)
    count = np.searchsorted(step.source[order], at, side="right") - begin
    owner = np.repeat(np.arange(at.size), count)
    link = order[np.arange(owner.size) + np.repeat(begin - (np.cumsum(count) - count), count)]
    chance = mass[owner] * step.probability[link]
    some = chance > 0
    owner, link = owner[some], link[some]
    return step.target[link], earned[owner] + weight * step.reward[link], chance[some]


def merged(at: Ints, earned: Floats, mass: Floats, close: Floats) -> tuple[Ints, Floats, Floats]:
    """Equal nodes with equal returns taken together; returns that differ by a thousandth of a rounding are equal."""
    order = np.lexsort((earned, at))
    at, earned = at[order], earned[order]
    new = np.ones(at.size, bool)
    new[1:] = (at[1:] != at[:-1]) | (np.diff(earned) > 1e-3 * close[order][1:])
    first = np.flatnonzero(new)
    return at[first], earned[first], np.add.reduceat(mass[order], first) if first.size else mass[:0]
