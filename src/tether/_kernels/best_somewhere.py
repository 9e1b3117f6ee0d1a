"""Which vectors are best for some weights: pruning by linear programmes, for vectors of any length.

A vector v is of use beside others w_i if max over weights b of min over i of b·(v - w_i) is above 0: a matrix game, solved
by the simplex method. Its basis is as small as the vectors are long; a column comes in when it is found to be too small.
"""

from __future__ import annotations

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._kernels.jit import kernel

__all__ = ["best_somewhere"]

_SAME = 1e-13
"""Vectors that are better by less, in proportion, for all weights, are left out: it is only rounding."""

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
def _kept(values: Floats, allowed: float, most: int) -> tuple[Ints, int]:
    """Vectors, as many as ``most``, so that every other one is better by at most ``allowed``; -1 if these are too few."""
    n, types = values.shape
    left, weights = np.ones(n, np.bool_), np.empty(types)
    kept, chosen, size = np.empty(most, np.int64), np.empty((most, types)), 0
    for i in range(n):
        while left[i]:
            if size and not _lead(values[i], chosen, size, weights) > allowed:
                left[i] = False
                break
            if not size:
                weights[:] = 1.0 / types
            best, worth = i, -np.inf
            for j in range(n):
                if left[j]:
                    here = 0.0
                    for z in range(types):
                        here += weights[z] * values[j, z]
                    if here > worth:
                        best, worth = j, here
            if size == most:
                return kept, -1
            kept[size], left[best] = best, False
            chosen[size] = values[best]
            size += 1
    return kept, size


@kernel
def best_somewhere(values: Floats, most: int) -> tuple[Ints, float]:
    """The vectors that are best for some weights, and how much leaving out others loses for the worst weights.

    If there are more than ``most``, also those are left out that are better by a little; up to ten times more, and so
    on, until the rest is few enough. Only what is more than rounding counts as lost.
    """
    largest = 1.0
    for value in values.flat:
        largest = max(largest, abs(value))
    allowed = _SAME * largest
    while True:
        kept, size = _kept(values, allowed, min(most, values.shape[0]))
        if size >= 0:
            return np.sort(kept[:size]), allowed if allowed > _SAME * largest else 0.0
        allowed *= 10.0
