"""Sums in the same order as NumPy takes them, so that they have the same bits."""

from __future__ import annotations

from tether._foundation.arrays import Floats, Ints
from tether._kernels.jit import kernel


@kernel
def block_sum(values: Floats, first: int, n: int) -> float:
    """The sum of up to 128 numbers, in NumPy's order."""
    total: float = 0.0
    if n < 8:
        for i in range(first, first + n):
            total += values[i]
        return total
    a, b, c, d = values[first], values[first + 1], values[first + 2], values[first + 3]
    e, f, g, h = values[first + 4], values[first + 5], values[first + 6], values[first + 7]
    i = first + 8
    while i < first + n - n % 8:
        a += values[i]
        b += values[i + 1]
        c += values[i + 2]
        d += values[i + 3]
        e += values[i + 4]
        f += values[i + 5]
        g += values[i + 6]
        h += values[i + 7]
        i += 8
    total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    while i < first + n:
        total += values[i]
        i += 1
    return total


@kernel
def pairwise(values: Floats, first: int, n: int, halves: Ints, sums: Floats) -> float:
    """The sum of ``values[first:first + n]`` in NumPy's order: halves of halves, then blocks.

    ``halves`` (3, 64) and ``sums`` (64) are scratch: right halves that wait, and finished sums of left halves. A
    function that calls itself would be shorter, but cannot be loaded from the cache of compiled functions.
    """
    waiting = 0
    while True:
        while n > 128:
            half = n // 2
            half -= half % 8
            halves[0, waiting], halves[1, waiting], halves[2, waiting] = first + half, n - half, 0
            waiting += 1
            n = half
        total = block_sum(values, first, n)
        while waiting > 0 and halves[2, waiting - 1] == 1:
            waiting -= 1
            total = sums[waiting] + total
        if waiting == 0:
            return total
        sums[waiting - 1] = total
        halves[2, waiting - 1] = 1
        first, n = halves[0, waiting - 1], halves[1, waiting - 1]
