"""Searching in sorted arrays, and sorting."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._foundation.arrays import Ints
from tether._kernels.jit import kernel, part_of_kernel


@kernel
def lower_bound(values: Ints, value: int | np.integer[Any]) -> int:
    """The position of the first item of ``values`` (ascending) that is at least ``value``."""
    low, high = 0, values.size
    while low < high:
        middle = (low + high) // 2
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@part_of_kernel
def seek(values: Ints, at: int, value: int | np.integer[Any]) -> int:
    """The same, step by step from ``at``: for a series of searches with values that are nearly in order."""
    while at < values.size and values[at] < value:
        at += 1
    while at > 0 and values[at - 1] >= value:
        at -= 1
    return at


@kernel
def is_in(values: Ints, value: int | np.integer[Any]) -> bool:
    """Whether ``value`` is among the ascending ``values``."""
    at = lower_bound(values, value)
    return at < values.size and values[at] == value


@kernel
def sort_ascending(values: Ints, first: int, n: int) -> None:
    """Sort ``values[first:first + n]`` in place: by insertion if they are few, else as a heap."""
    if n <= 24:
        for i in range(first + 1, first + n):
            one = values[i]
            j = i
            while j > first and values[j - 1] > one:
                values[j] = values[j - 1]
                j -= 1
            values[j] = one
        return
    for root in range(n // 2 - 1, -1, -1):
        sift_down(values, first, root, n)
    for end in range(n - 1, 0, -1):
        values[first], values[first + end] = values[first + end], values[first]
        sift_down(values, first, 0, end)


@kernel
def sift_down(values: Ints, first: int, root: int, n: int) -> None:
    """Move a number down to its place in a heap with the largest number on top."""
    one = values[first + root]
    while True:
        child = 2 * root + 1
        if child >= n:
            break
        if child + 1 < n and values[first + child + 1] > values[first + child]:
            child += 1
        if values[first + child] <= one:
            break
        values[first + root] = values[first + child]
        root = child
    values[first + root] = one
