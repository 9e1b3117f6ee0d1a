"""How likely a replay is to end better or worse than what happened: exactly, or within certified bounds.

A forward pass over (node, return so far). What a node can still earn is known from a backward pass, so a replay is
counted, and followed no longer, as soon as it is certain to end better, worse or equal.

While the distinct returns of an episode are few, the chances are exact. If they become too many, returns are rounded to
a grid at each step: downwards in one pass, upwards in another. A return that is rounded down is never larger than the
true one, so the two passes give bounds on both chances. Nothing is sampled. The grid is as fine as the work allows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints
from tether._kernels.jit import kernel
from tether.core.chain import Link

MOST = 2_000_000
"""How many times a return so far may be handed on by a link before the returns of an episode are rounded."""

WORK = 300_000_000
"""How many times a rounded return may be: it says how fine the grid is."""

_CELLS = 4_000_000
"""How many (node, point of the grid) there may be at one time."""


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


def chances(replays: Replays, most: int = MOST, work: float = WORK) -> Chances:
    """The chances of each episode of a batch; exact where links hand on at most ``most`` returns in all."""
    low, high = _still_to_earn(replays)
    worse, better, rounded = _exactly(replays, low, high, most)
    found = Chances(worse, worse.copy(), better, better.copy())
    if rounded.any():
        order = [np.argsort(step.source, kind="stable") for step in replays.links]
        for b in np.flatnonzero(rounded).tolist():
            alone, least, largest = _alone(replays, order, low, high, b)
            down, up = (_on_a_grid(alone, least, largest, work, side) for side in (-1, 1))
            found.worse_low[b], found.worse_high[b] = up[0], down[0]
            found.better_low[b], found.better_high[b] = down[1], up[1]
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


def _exactly(replays: Replays, low: list[Floats], high: list[Floats], most: int) -> tuple[Floats, Floats, Flags]:
    """Chances of each episode to end worse and better, and which episodes had too many returns."""
    n, seen, close = replays.observed.size, replays.observed, replays.rounding
    worse, better, handed = np.zeros(n), np.zeros(n), np.zeros(n)
    at = np.arange(replays.episode[0].size)
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
        degree = np.bincount(replays.links[t].source, minlength=replays.episode[t].size)
        handed += np.bincount(owner[open_ones], degree[at[open_ones]], minlength=n)
        open_ones = open_ones[handed[owner[open_ones]] <= most]
        at, earned, mass = at[open_ones], earned[open_ones], mass[open_ones]
        at, earned, mass = onward(replays.links[t], at, earned, mass, weight)
        at, earned, mass = merged(at, earned, mass, close[replays.episode[t + 1][at]])
    return worse, better, handed > most


def _alone(
    replays: Replays, order: list[Ints], low: list[Floats], high: list[Floats], b: int
) -> tuple[Replays, list[Floats], list[Floats]]:
    """One episode of a batch, and what its nodes can still earn; ``order`` sorts the links of each step by source."""
    cut = [slice(*np.searchsorted(owner, (b, b + 1)).tolist()) for owner in replays.episode]
    cut = [part for part in cut if part.stop > part.start]  # others of the batch may have more steps
    links, none = [], np.empty(0, np.int64)  # of which pairs and decisions they are does not matter
    for t, (step, by_source) in enumerate(zip(replays.links[: len(cut) - 1], order, strict=False)):
        some = by_source[slice(*np.searchsorted(step.source[by_source], (cut[t].start, cut[t].stop)).tolist())]
        some = some[step.probability[some] > 0]
        source, target = step.source[some] - cut[t].start, step.target[some] - cut[t + 1].start
        numbers = step.probability[some], step.reward[some]
        links.append(Link(source, target, none, *numbers, none))
    episode, final = (
        [one[part] for one, part in zip(all_of, cut, strict=False)] for all_of in (replays.episode, replays.final)
    )
    seen = replays.observed[b : b + 1], replays.rounding[b : b + 1]
    least, largest = ([one[part] for one, part in zip(all_of, cut, strict=False)] for all_of in (low, high))
    return Replays(episode, links, final, replays.discount, *seen), least, largest


def _on_a_grid(alone: Replays, low: list[Floats], high: list[Floats], work: float, side: int) -> tuple[float, float]:
    """Chances of one episode to end worse and better, its returns rounded downwards (``side`` -1) or upwards (1)."""
    T, discount, seen, close = len(alone.links), alone.discount, alone.observed[0], alone.rounding[0]
    spans = [discount**t * float(high[t].max() - low[t].min()) for t in range(1, T + 1)]
    width = grid_width(alone.links, spans, [one.size for one in low[1:]], work)
    worse = better = 0.0
    offset, mass = 0, np.ones((low[0].size, 1))
    for t, step in enumerate(alone.links):
        weight = discount ** (t + 1)
        # By number of the grid: below the first a replay is certain to end worse, from the second on better.
        worse_below = np.ceil((seen - close - weight * high[t + 1]) / width).astype(np.int64)
        better_from = np.floor((seen + close - weight * low[t + 1]) / width).astype(np.int64) + 1
        before, offset = offset, int(worse_below.min()) - 1
        after = np.zeros((low[t + 1].size, int(better_from.max()) - offset + 1))
        shift = (np.floor if side < 0 else np.ceil)(discount**t * step.reward / width).astype(np.int64)
        push(step.source, step.target, step.probability, shift + (before - offset), mass, after)
        number = offset + np.arange(after.shape[1])
        is_worse, is_better = number < worse_below[:, np.newaxis], number >= better_from[:, np.newaxis]
        worse, better = worse + float(after[is_worse].sum()), better + float(after[is_better].sum())
        after[is_worse | is_better] = 0.0
        mass = after
    return worse, better


def grid_width(links: list[Link], spans: list[float], nodes: list[int], work: float) -> float:
    """How far apart the points of a grid are: as near as the work and the memory allow.

    ``spans`` are from the smallest to the largest return that counts after each step, ``nodes`` how many nodes there
    are then.
    """
    by_work = sum(step.source.size * span for step, span in zip(links, spans, strict=True)) / work
    by_memory = max((n * span for n, span in zip(nodes, spans, strict=True)), default=0.0) / _CELLS
    return max(by_work, by_memory, 1e-300)


@kernel
def push(source: Ints, target: Ints, probability: Floats, shift: Ints, mass: Floats, after: Floats) -> None:
    """Add what links hand on to ``after``: both arrays are by node and point of a grid.

    A link moves its mass by ``shift`` points. What would leave the grid stays at its first or its last point.
    """
    n, points, last = mass.shape[0], mass.shape[1], after.shape[1] - 1
    first_of, end_of = np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(n):
        begin, end = 0, points
        while end > begin and mass[i, end - 1] == 0.0:
            end -= 1
        while begin < end and mass[i, begin] == 0.0:
            begin += 1
        first_of[i], end_of[i] = begin, end
    for e in range(source.size):
        i, j, p, d = source[e], target[e], probability[e], shift[e]
        begin, end = first_of[i], end_of[i]
        inner = min(max(begin, -d), end)
        outer = max(min(end, last + 1 - d), inner)
        for b in range(begin, inner):
            if mass[i, b] > 0.0:
                after[j, 0] += p * mass[i, b]
        for b in range(inner, outer):
            if mass[i, b] > 0.0:
                after[j, b + d] += p * mass[i, b]
        for b in range(outer, end):
            if mass[i, b] > 0.0:
                after[j, last] += p * mass[i, b]


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
