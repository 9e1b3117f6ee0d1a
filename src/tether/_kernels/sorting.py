"""Sorting of a stretch of two arrays by the first, in place, without allocating; and searching in what is sorted."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._kernels.jit import kernel
from tether._types import Floats, Ints

_SMALL = 32


@kernel
def sort_by_key(key: Floats, item: Ints, n: int) -> None:
    """Sort ``key[:n]`` ascending and take ``item[:n]`` along: insertion for few, heap sort for many."""
    if n <= _SMALL:
        for i in range(1, n):
            k, x = key[i], item[i]
            j = i - 1
            while j >= 0 and key[j] > k:
                key[j + 1] = key[j]
                item[j + 1] = item[j]
                j -= 1
            key[j + 1] = k
            item[j + 1] = x
        return
    start = n // 2
    end = n
    while end > 1:
        if start > 0:
            start -= 1
        else:
            end -= 1
            key[end], key[0] = key[0], key[end]
            item[end], item[0] = item[0], item[end]
        root = start
        k, x = key[root], item[root]
        child = 2 * root + 1
        while child < end:
            if child + 1 < end and key[child + 1] > key[child]:
                child += 1
            if key[child] <= k:
                break
            key[root] = key[child]
            item[root] = item[child]
            root = child
            child = 2 * root + 1
        key[root] = k
        item[root] = x


@kernel
def lower_bound(values: Ints, value: int) -> int:
    """Position of the first of the ascending ``values`` that is at least ``value``."""
    low, high = 0, values.size
    while low < high:
        middle = (low + high) // 2
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def seek(values: Ints, at: int, value: int | np.unsignedinteger[Any]) -> int:
    """The same, searched from ``at`` on, one step after the other: for values asked for nearly in order."""
    while at < values.size and values[at] < value:
        at += 1
    while at > 0 and values[at - 1] >= value:
        at -= 1
    return at
