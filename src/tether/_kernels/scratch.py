"""Scratch arrays with one number per state. An episode may use only a few of them.

NumPy asks the system for large arrays in pages of 2 MB, if it has them. A page is filled with zeros when it is first
used. That is right for an array that is used from end to end. For an array that is used here and there, filling pages
would take most of the time and memory: such an array gets small pages. An array that is mostly used gets large pages,
fresh from the system: memory that was used before may be in small pages, and reading it at random is slower.
"""

from __future__ import annotations

import math
import mmap
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from tether.errors import QueryError

_LINE = 64
_LARGE = 1 << 22


def scratch_array(
    shape: int | tuple[int, ...], dtype: npt.DTypeLike, *, touched: int | None = None
) -> npt.NDArray[Any]:
    """An array to compute in, with one entry per state along its first axis.

    ``touched`` is how many entries of the first axis will be used, None for few. An array for few is all zero. An array
    for many may contain anything; it begins at a cache line, so that a short row of numbers never crosses into another.
    """
    sizes = (shape,) if isinstance(shape, int) else shape
    kind, count = np.dtype(dtype), math.prod(sizes)
    size = count * kind.itemsize
    few = touched is None or touched * 8 < sizes[0]
    if size >= _LARGE:
        pages = _pages(size)
        advice = getattr(mmap, "MADV_NOHUGEPAGE" if few else "MADV_HUGEPAGE", None)
        if advice is not None:
            with suppress(OSError):  # a system that was built without them; it is only a hint
                pages.madvise(advice)
        return np.frombuffer(pages, kind, count).reshape(sizes)
    if few:
        return np.zeros(sizes, kind)
    raw = np.empty(size + _LINE, np.uint8)
    skip = -raw.ctypes.data % _LINE
    return raw[skip : skip + size].view(kind).reshape(sizes)


def _pages(size: int) -> mmap.mmap:
    """Fresh memory from the system; an error if there is none left."""
    # Private: Linux gives memory that could be shared in small pages only, whatever the advice.
    private: dict[str, Any] = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    try:
        return mmap.mmap(-1, size, **private)
    except (OSError, MemoryError, OverflowError) as error:
        raise QueryError(
            f"the system gives no memory for an array of {size / 2**30:,.2g} GiB ({error}); fewer k, a smaller m, or "
            "another rule than 'assured' need less"
        ) from error
