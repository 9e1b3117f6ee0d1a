"""Two worlds: how many of those who end badly a rule would save, and how many it would lose, under every causal model.

In one world usual practice goes on, in the other the same people are treated by the rule. W_k(s, s') is the least (or
largest) chance that the first world ends in E and the second does not, from states s and s' with k steps left:

    W_0(s, s') = 1 if s ∈ E and s' ∉ E
    W_k(s, s') = Σ chance of (x, x') · min (max) over couplings of the rows of x and x' of Σ C(j, j')·W_{k-1}(j, j')

In the same state the second world takes what the rule makes of the action of the first; in different states both act
independently. Equal pairs move together. Each coupling is an optimal transport; the two worlds may choose it anew at
each step, so the result is an outer bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints
from tether._kernels.jit import kernel
from tether.core.batch import Model
from tether.core.replays import Practice

MOST = 20_000_000
"""How much work is done at most: pairs of states times pairs of actions times entries of rows, over all steps."""

_TINY = 1e-15


class Split(NamedTuple):
    """Chances to end in E without the rule and not with it (saved), and the reverse (lost): (least, most) each."""

    saved: tuple[float, float]
    lost: tuple[float, float]


def two_worlds(
    model: Model, usual: Floats, ruled: Practice, bad: Flags, state: Ints, horizon: Ints, weight: Floats
) -> Split | None:
    """The split of those who begin in ``state`` with so many steps, with these weights; None if it is too much work.

    ``usual`` is the share of each pair without the rule.
    """
    reached = _reached(model, usual, ruled.share, state)
    steps = int(horizon.max(initial=0))
    lengths, pairs = np.diff(model.row_start), np.diff(model.pair_start)[reached]
    work = float(pairs.sum()) ** 2 * float(lengths.mean()) ** 2 * steps
    if work > MOST:
        return None
    place = np.full(model.n_states, -1, np.int64)
    place[reached] = np.arange(reached.size)
    ends = []
    for first in (True, False):
        last = (bad[reached][:, None] & ~bad[reached]) if first else (~bad[reached][:, None] & bad[reached])
        for sign in (1.0, -1.0):
            tables = np.empty((steps + 1, reached.size, reached.size))
            tables[0] = last
            for k in range(steps):
                _step(model, usual, ruled, reached, place, tables[k], sign, tables[k + 1])
            at = place[state]
            ends.append(float(weight @ tables[horizon, at, at]))
    return Split((ends[0], ends[1]), (ends[2], ends[3]))


def _reached(model: Model, usual: Floats, ruled: Floats, state: Ints) -> Ints:
    """The states that either world can reach."""
    used = (usual > 0) | (ruled > 0)
    owner = np.repeat(np.arange(model.n_states), np.diff(model.pair_start))
    entry_pair = np.repeat(np.arange(used.size), np.diff(model.row_start))
    is_reached = np.zeros(model.n_states, bool)
    is_reached[state] = True
    before = -1
    while int(is_reached.sum()) != before:
        before = int(is_reached.sum())
        is_reached[model.next_state[(used & is_reached[owner])[entry_pair]]] = True
    return np.flatnonzero(is_reached)


@kernel
def _step(
    model: Model, usual: Floats, ruled: Practice, reached: Ints, place: Ints, before: Floats, sign: float, out: Floats
) -> None:
    longest = 0
    for x in range(model.pair_action.size):
        longest = max(longest, model.row_start[x + 1] - model.row_start[x])
    cost, flow = np.empty((longest, longest)), np.empty((longest, longest))
    supply, demand = np.empty(longest), np.empty(longest)
    reached_by, parent = np.empty((2, 2 * longest)), np.empty((2, 2 * longest), np.int64)
    for a in range(reached.size):
        for b in range(reached.size):
            s, other = reached[a], reached[b]
            total = 0.0
            if model.pair_start[s] == model.pair_start[s + 1] or model.pair_start[other] == model.pair_start[other + 1]:
                out[a, b] = before[a, b]
                continue
            for x in range(model.pair_start[s], model.pair_start[s + 1]):
                if usual[x] == 0.0:
                    continue
                low, high = ruled.start[x], ruled.start[x + 1]
                if s == other and low == high:
                    total += usual[x] * _coupled(
                        model, x, x, place, before, sign, cost, flow, supply, demand, reached_by, parent
                    )
                elif s == other:
                    for i in range(low, high):
                        total += (
                            usual[x]
                            * ruled.chance[i]
                            * _coupled(
                                model,
                                x,
                                ruled.pair[i],
                                place,
                                before,
                                sign,
                                cost,
                                flow,
                                supply,
                                demand,
                                reached_by,
                                parent,
                            )
                        )
                else:
                    for y in range(model.pair_start[other], model.pair_start[other + 1]):
                        if ruled.share[y] > 0.0:
                            total += (
                                usual[x]
                                * ruled.share[y]
                                * _coupled(
                                    model, x, y, place, before, sign, cost, flow, supply, demand, reached_by, parent
                                )
                            )
            out[a, b] = total


@kernel
def _coupled(
    model: Model, x: int, y: int, place: Ints, value: Floats, sign: float, cost: Floats, flow: Floats, supply: Floats,
    demand: Floats, reached_by: Floats, parent: Ints,
) -> float:  # fmt: skip
    """The smallest (``sign`` 1) or largest (-1) mean of a value over couplings of two rows."""
    low, n = model.row_start[x], model.row_start[x + 1] - model.row_start[x]
    begin, m = model.row_start[y], model.row_start[y + 1] - model.row_start[y]
    total = 0.0
    if x == y:
        for i in range(n):
            at = place[model.next_state[low + i]]
            total += model.probability[low + i] * value[at, at]
        return total
    for i in range(n):
        supply[i] = model.probability[low + i]
        for j in range(m):
            cost[i, j] = sign * value[place[model.next_state[low + i]], place[model.next_state[begin + j]]]
    for j in range(m):
        demand[j] = model.probability[begin + j]
    transport(n, m, cost, supply, demand, flow, reached_by, parent)
    for i in range(n):
        for j in range(m):
            total += flow[i, j] * cost[i, j]
    return sign * total


@kernel
def transport(
    n: int, m: int, cost: Floats, supply: Floats, demand: Floats, flow: Floats, reached: Floats, parent: Ints
) -> None:
    """The cheapest flow from n supplies to m demands of the same total, by shortest augmenting paths.

    ``supply`` and ``demand`` are used up. Node i < n is a supply, node n + j a demand. ``reached`` and ``parent`` are
    room for 2 times n + m numbers. Paths are found in costs reduced by potentials, which are never negative but for
    rounding: so a node that is left has its final distance, and costs that are almost equal cannot lead in a circle.
    """
    distance, potential, before, is_left = reached[0], reached[1], parent[0], parent[1]
    for i in range(n):
        potential[i] = 0.0
        for j in range(m):
            flow[i, j] = 0.0
    for j in range(m):
        potential[n + j] = cost[:n, j].min()
    while True:
        left = 0.0
        for v in range(n + m):
            distance[v], before[v], is_left[v] = np.inf, -1, 0
        for i in range(n):
            if supply[i] > _TINY:
                distance[i] = 0.0
                left += supply[i]
        if left <= _TINY * n:
            return
        nearest = 0.0
        while True:
            at = -1
            for v in range(n + m):
                if is_left[v] == 0 and distance[v] < np.inf and (at < 0 or distance[v] < distance[at]):
                    at = v
            if at < 0:
                return
            nearest, is_left[at] = distance[at], 1
            if at >= n and demand[at - n] > _TINY:
                break
            if at < n:
                for j in range(m):
                    onward = nearest + max(0.0, cost[at, j] + potential[at] - potential[n + j])
                    if onward < distance[n + j] and is_left[n + j] == 0:
                        distance[n + j], before[n + j] = onward, at
            else:
                for i in range(n):
                    onward = nearest + max(0.0, potential[at] - cost[i, at - n] - potential[i])
                    if flow[i, at - n] > _TINY and onward < distance[i] and is_left[i] == 0:
                        distance[i], before[i] = onward, at
        for v in range(n + m):
            potential[v] += min(distance[v], nearest)
        amount, last = demand[at - n], at
        while at >= 0:
            i = before[at]
            amount = min(amount, supply[i] if before[i] < 0 else flow[i, before[i] - n])
            at = before[i]
        at = last
        while at >= 0:
            i = before[at]
            flow[i, at - n] += amount
            at = before[i]
            if at < 0:
                supply[i] -= amount
            else:
                flow[i, at - n] -= amount
        demand[last - n] -= amount
