"""Sorting and searching within kernels. NumPy's own functions take longer to compile than the kernels that use them.

They take bounds in place of slices, which also take long to compile.
"""

from __future__ import annotations

from typing import Any

from tether._foundation.arrays import Floats, Ints
from tether._kernels.jit import kernel, piece


@piece
def first_from(ascending: Ints, low: int, high: int, least: Any) -> Any:
    """The first place from ``low`` on whose item is at least ``least``; ``high`` if none before it is."""
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] < least:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def sort_by(keys: Floats, order: Ints, begin: Any, n: Any) -> None:
    """Sort n items of ``order`` from ``begin`` on by ``keys``, ascending: by insertion, or as a heap if it is long."""
    moves, most = 0, 16 * n + 1024
    for i in range(begin + 1, begin + n):
        item = order[i]
        key = keys[item]
        j = i - 1
        while j >= begin and keys[order[j]] > key:
            order[j + 1] = order[j]
            j -= 1
        order[j + 1] = item
        moves += i - 1 - j
        if moves > most:
            break
    if moves <= most:
        return
    # Move every item with children down to its place, from the last on; then move the top to the end, and repeat.
    size, start = n, n // 2
    while size > 1:
        if start > 0:
            start -= 1
        else:
            size -= 1
            order[begin], order[begin + size] = order[begin + size], order[begin]
        root = start
        item = order[begin + root]
        while 2 * root + 1 < size:
            child = 2 * root + 1
            if child + 1 < size and keys[order[begin + child]] < keys[order[begin + child + 1]]:
                child += 1
            if keys[item] >= keys[order[begin + child]]:
                break
            order[begin + root] = order[begin + child]
            root = child
        order[begin + root] = item
