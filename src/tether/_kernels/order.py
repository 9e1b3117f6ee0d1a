"""Sorting and searching within kernels. NumPy's own functions take longer to compile than the kernels that use them."""

from __future__ import annotations

from typing import Any

from tether._foundation.arrays import Floats, Ints
from tether._kernels.jit import kernel, piece

__all__ = ["first_from", "sort_by"]


@kernel
def first_from(ascending: Ints, least: Any) -> Any:
    """The place of the first item that is at least ``least``; the size of the array if none is."""
    low, high = 0, ascending.size
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] < least:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def sort_by(keys: Floats, order: Ints) -> None:
    """Sort ``order`` by ``keys``, ascending: by insertion if it is short or nearly sorted, else as a heap."""
    n = order.size
    if n > 48:
        descents = 0
        for i in range(1, n):
            descents += keys[order[i - 1]] > keys[order[i]]
        if descents > 8:
            _sort_by_heap(keys, order)
            return
    for i in range(1, n):
        item = order[i]
        key = keys[item]
        j = i - 1
        while j >= 0 and keys[order[j]] > key:
            order[j + 1] = order[j]
            j -= 1
        order[j + 1] = item


@piece
def _sort_by_heap(keys: Floats, order: Ints) -> None:
    """Move every item with children down to its place, from the last on; then move the top to the end, and repeat."""
    size, start = order.size, order.size // 2
    while size > 1:
        if start > 0:
            start -= 1
        else:
            size -= 1
            order[0], order[size] = order[size], order[0]
        root = start
        while 2 * root + 1 < size:
            child = 2 * root + 1
            if child + 1 < size and keys[order[child]] < keys[order[child + 1]]:
                child += 1
            if keys[order[root]] >= keys[order[child]]:
                break
            order[root], order[child] = order[child], order[root]
            root = child
