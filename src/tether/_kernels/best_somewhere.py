"""Which vectors are best for some weights: pruning by linear programmes, for vectors of any length.

A vector v is of use beside others w_i if max over weights b of min over i of b·(v - w_i) is above 0: a matrix game,
solved by the simplex method. Its basis is as small as the vectors are long.
"""

from __future__ import annotations

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints
from tether._kernels.jit import kernel

_SAME = 1e-13
"""Vectors that are better by less, in proportion, for all weights, are left out: it is only rounding."""

_SPREAD = 40
"""For so many weights, spread evenly, the best vectors are found first."""

_STEPS = np.array([0.8191725133961645, 0.6710436067037893, 0.5497004779019703, 0.4503018624563281, 0.3688759117498466])
"""Steps of a sequence that fills a cube evenly."""

_ROUNDS = 500
"""After so many exchanges the simplex method gives up, and the vector is kept."""


@kernel
def _lead(vector: Floats, others: Floats, n: int, weights: Floats) -> float:
    """By how much a vector is better than the best of the first n others, for the weights for which this is most.

    With the differences moved to 1 … 3, the game is: the largest Σx with Σ_i x_i·(v - w_i) ≤ 1, x ≥ 0; 1 / Σx is its
    value, and the prices of the constraints are the weights. Infinite if no end was found.
    """
    types = vector.size
    scale = 0.0
    for i in range(n):
        for z in range(types):
            scale = max(scale, abs(vector[z] - others[i, z]))
    weights[:] = 1.0 / types
    if scale == 0.0:
        return 0.0
    inverse, amount, cost = np.eye(types), np.ones(types), np.zeros(types)
    column, price = np.empty(types), np.empty(types)
    for _ in range(_ROUNDS):
        for z in range(types):
            price[z] = 0.0
            for r in range(types):
                price[z] += cost[r] * inverse[r, z]
        enters, most = -1, 1e-13
        for z in range(types):  # what is not used up
            if -price[z] > most:
                enters, most = n + z, -price[z]
        for i in range(n):
            gain = 1.0
            for z in range(types):
                gain -= price[z] * ((vector[z] - others[i, z]) / scale + 2.0)
            if gain > most:
                enters, most = i, gain
        if enters < 0:
            total = 0.0
            for z in range(types):
                price[z] = max(price[z], 0.0)
                total += price[z]
            for z in range(types):
                weights[z] = price[z] / total
            return (1.0 / total - 2.0) * scale
        for r in range(types):
            column[r] = 0.0
            for z in range(types):
                if enters < n:
                    column[r] += inverse[r, z] * ((vector[z] - others[enters, z]) / scale + 2.0)
                elif enters == n + z:
                    column[r] += inverse[r, z]
        leaves, least = -1, np.inf
        for r in range(types):
            if column[r] > 1e-12 and amount[r] / column[r] < least:
                leaves, least = r, amount[r] / column[r]
        if leaves < 0:
            return np.inf
        for z in range(types):
            inverse[leaves, z] /= column[leaves]
        for r in range(types):
            if r != leaves:
                for z in range(types):
                    inverse[r, z] -= column[r] * inverse[leaves, z]
                amount[r] = max(amount[r] - least * column[r], 0.0)
        amount[leaves], cost[leaves] = least, 1.0 if enters < n else 0.0
    return np.inf


@kernel
def _worth(vector: Floats, weights: Floats) -> float:
    worth = 0.0
    for z in range(vector.size):
        worth += weights[z] * vector[z]
    return worth


@kernel
def _largest(chosen: Floats, size: int, weights: Floats) -> float:
    largest = -np.inf
    for i in range(size):
        largest = max(largest, _worth(chosen[i], weights))
    return largest


@kernel
def _below_one(vector: Floats, others: Floats, n: int) -> bool:
    """Whether one of the first n others is at least as good for all weights."""
    for i in range(n):
        below = True
        for z in range(vector.size):
            if others[i, z] < vector[z]:
                below = False
                break
        if below:
            return True
    return False


@kernel
def _best(values: Floats, left: Flags, weights: Floats) -> int:
    """The vector that is best for some weights, of equal ones the first; of those that are left."""
    best, worth = -1, -np.inf
    for j in range(values.shape[0]):
        if left[j]:
            here = _worth(values[j], weights)
            if here > worth:
                best, worth = j, here
    return best


@kernel
def best_somewhere(values: Floats, most: int) -> tuple[Ints, float]:
    """The vectors that are best for some weights, and how much leaving out others loses for the worst weights.

    At most ``most`` are kept: first those that are best for weights that are spread evenly. Only what is more than
    rounding counts as lost.
    """
    n, types = values.shape
    largest = 1.0
    for value in values.flat:
        largest = max(largest, abs(value))
    most = min(most, n)
    left, weights = np.ones(n, np.bool_), np.empty(types)
    kept, chosen, size = np.empty(most, np.int64), np.empty((most, types)), 0
    for point in range(min(types + _SPREAD, 2 * n)):
        for z in range(types):
            if point < types:
                weights[z] = 1.0 if z == point else 0.0
            else:
                weights[z] = -np.log((0.5 + point * _STEPS[z % _STEPS.size]) % 1.0 + 1e-12)
        best = _best(values, left, weights)
        if size == most or best < 0:
            break
        if size and _worth(values[best], weights) <= _largest(chosen, size, weights):
            continue
        kept[size], left[best], chosen[size] = best, False, values[best]
        size += 1
    lost = 0.0
    for i in range(n):
        while left[i]:
            if _below_one(values[i], chosen, size):
                left[i] = False
                break
            lead = _lead(values[i], chosen, size, weights)
            if lead <= _SAME * largest:
                left[i] = False
            elif size == most:
                lost, left[i] = max(lost, lead), False
            else:
                best = _best(values, left, weights)
                kept[size], left[best], chosen[size] = best, False, values[best]
                size += 1
    return np.sort(kept[:size]), lost
