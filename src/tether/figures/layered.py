"""Where to put the nodes of a layered graph: one column per time, the observed path straight through the middle.

Within a column, barycentres and then exchanges look for the order with the fewest crossings and the shortest
edges. Layers are small here (a dozen nodes at most); larger ones are not drawn as graphs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tether._foundation.arrays import Floats, Ints

_ROUNDS = 6

Edges = Sequence[tuple[int, int]]


def arrange_layers(sizes: Sequence[int], edges: Sequence[Edges], middle: Sequence[int | None]) -> list[Floats]:
    """Height of each node of each layer, in rows.

    Parameters
    ----------
    sizes : nodes of each layer
    edges : for each layer but the last, pairs (node, node of the next layer)
    middle : the node of each layer that lies at height 0; None: the layer is centred

    >>> [heights.tolist() for heights in arrange_layers([1, 3], [[(0, 0), (0, 1), (0, 2)]], [0, 1])]
    [[0.0], [-1.0, 0.0, 1.0]]
    """
    links = [np.asarray(list(layer), dtype=np.int64).reshape(-1, 2) for layer in edges]
    ranks = [np.arange(size) for size in sizes]
    best, least = ranks, _cost(ranks, links, middle)
    for turn in range(_ROUNDS):
        ranks = _sweep(ranks, links, forward=turn % 2 == 0)
        cost = _cost(ranks, links, middle)
        if cost < least:
            best, least = ranks, cost
    best = _exchange(best, links, middle, least)
    return [_heights(rank, m) for rank, m in zip(best, middle, strict=True)]


def _heights(rank: Ints, middle: int | None) -> Floats:
    zero = (rank.size - 1) / 2 if middle is None else float(rank[middle])
    return rank - zero


def _sweep(ranks: list[Ints], links: list[Ints], forward: bool) -> list[Ints]:
    """Each layer in the order of the mean rank of its neighbours in the layer before (or after)."""
    ranks = list(ranks)
    order = range(1, len(ranks)) if forward else range(len(ranks) - 2, -1, -1)
    for t in order:
        here, there = (1, 0) if forward else (0, 1)
        link = links[t - 1] if forward else links[t]
        other = ranks[t - 1] if forward else ranks[t + 1]
        count = np.bincount(link[:, here], minlength=ranks[t].size)
        total = np.bincount(link[:, here], other[link[:, there]], minlength=ranks[t].size)
        mean = np.where(count > 0, total / np.maximum(count, 1), ranks[t])
        rank = np.empty_like(ranks[t])
        rank[np.lexsort((ranks[t], mean))] = np.arange(rank.size)
        ranks[t] = rank
    return ranks


def _exchange(ranks: list[Ints], links: list[Ints], middle: Sequence[int | None], least: float) -> list[Ints]:
    """Exchange two nodes of a layer while it helps."""
    improved = True
    while improved:
        improved = False
        for t in range(len(ranks)):
            for i in range(ranks[t].size):
                for j in range(i):
                    tried = list(ranks)
                    tried[t] = _swapped(ranks[t], i, j)
                    cost = _cost(tried, links, middle)
                    if cost < least - 1e-9:
                        ranks, least, improved = tried, cost, True
    return ranks


def _swapped(rank: Ints, i: int, j: int) -> Ints:
    swapped = rank.copy()
    swapped[[i, j]] = rank[[j, i]]
    return swapped


def _cost(ranks: list[Ints], links: list[Ints], middle: Sequence[int | None]) -> float:
    """Crossings first, then height of the drawing and steepness of the edges."""
    heights = [_heights(rank, m) for rank, m in zip(ranks, middle, strict=True)]
    total = 0.0
    for t, link in enumerate(links):
        a, b = heights[t][link[:, 0]], heights[t + 1][link[:, 1]]
        crossed = (a[:, None] - a) * (b[:, None] - b) < 0
        total += 10.0 * np.count_nonzero(crossed) / 2 + float(np.abs(a - b).sum())
    return total + 2.0 * sum(float(np.abs(h).max(initial=0.0)) for h in heights)
