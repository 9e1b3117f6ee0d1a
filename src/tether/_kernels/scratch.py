"""Scratch arrays with one number per state, of which an episode may touch only a few.

A large array from NumPy comes in pages of 2 MB where the system has them, each filled with zeros when it is
first touched. That is good for an array that is used from end to end, and most of the time and memory for one
that is touched here and there: room for the few comes in small pages. Room for many comes fresh from the system, in
large pages: what is used again may lie in small ones, and reading at random then waits for their addresses too.
"""

from __future__ import annotations

import math
import mmap
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from tether.errors import QueryError

__all__ = ["room"]

_LINE = 64
_LARGE = 1 << 22


def room(shape: int | tuple[int, ...], dtype: npt.DTypeLike, *, touched: int | None = None) -> npt.NDArray[Any]:
    """An array for the numbers of states.

    ``touched`` is how many of its first axis will be used, None for few. Where they are few it is all zero; where they
    are many it may be anything, and begins a cache line, so that a short row of numbers never lies across two.
    """
    sizes = (shape,) if isinstance(shape, int) else shape
    kind, count = np.dtype(dtype), math.prod(sizes)
    size = count * kind.itemsize
    few = touched is None or touched * 8 < sizes[0]
    if size >= _LARGE:
        pages = _pages(size)
        advice = getattr(mmap, "MADV_NOHUGEPAGE" if few else "MADV_HUGEPAGE", None)
        if advice is not None:
            with suppress(OSError):  # a system that was built without; it is a hint
                pages.madvise(advice)
        return np.frombuffer(pages, kind, count).reshape(sizes)
    if few:
        return np.zeros(sizes, kind)
    raw = np.empty(size + _LINE, np.uint8)
    skip = -raw.ctypes.data % _LINE
    return raw[skip : skip + size].view(kind).reshape(sizes)


def _pages(size: int) -> mmap.mmap:
    """Fresh memory from the system; an error that says so where it has none left."""
    try:
        return mmap.mmap(-1, size)
    except (OSError, MemoryError, OverflowError) as error:
        raise QueryError(
            f"the system gives no memory for an array of {size / 2**30:,.2g} GiB ({error}); fewer k, a smaller m, or "
            "another rule than 'assured' need less"
        ) from error
