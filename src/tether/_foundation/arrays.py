"""The three kinds of arrays in this package, how kernels take them, and searching in them."""

from typing import Any

import numpy as np
import numpy.typing as npt

_FEW = 8
"""Numbers are sorted if fewer than one in this many of the possible ones occur; otherwise they are marked."""

Ints = npt.NDArray[Any]
"""Whole numbers: indices, counts, thresholds. Their width is chosen where they are made."""

Floats = npt.NDArray[np.float64]

Flags = npt.NDArray[np.bool_]


def distinct(numbers: Ints, size: int) -> Ints:
    """Each of some numbers below ``size`` once, ascending: by sorting a few, by marking many.

    >>> distinct(np.array([2, 0, 2]), 3).tolist(), distinct(np.array([2, 0, 2]), 1000).tolist()
    ([0, 2], [0, 2])
    """
    if _FEW * numbers.size < size:
        return np.unique(numbers).astype(np.int64)
    is_met = np.zeros(size, dtype=bool)
    is_met[numbers] = True
    return np.flatnonzero(is_met)


def places_among(ascending: Ints, wanted: Ints | int) -> Any:
    """Where each of ``wanted`` is among ascending numbers, or where it would be.

    ``wanted`` is converted to the type of these numbers: otherwise NumPy copies all of them for each search.

    >>> places_among(np.array([0, 2], np.int32), np.array([2, 0, 2])).tolist()
    [1, 0, 1]
    """
    return np.searchsorted(ascending, np.asarray(wanted).astype(ascending.dtype, copy=False))


def positions(ascending: Ints, wanted: Ints, size: int) -> Ints:
    """Where each of ``wanted`` is among numbers below ``size``: by searching, or by a table if many are wanted.

    >>> positions(np.array([0, 2]), np.array([2, 0, 2]), 3).tolist()
    [1, 0, 1]
    """
    if _FEW * wanted.size < size:
        found: Ints = places_among(ascending, wanted)
        return found
    position = np.empty(size, dtype=np.int32)
    position[ascending] = np.arange(ascending.size, dtype=np.int32)
    found = position[wanted]
    return found


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A contiguous, read-only view of the array, or of a copy: for any other kind, kernels would be compiled again."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def starts(lengths: Ints) -> Ints:
    """Where each of some spans begins if they are side by side; and the end of the last.

    >>> starts(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)))


def spans(begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The items begin[i], …, end[i] - 1 of each span i, one span after the other, each with its i.

    >>> owner, item = spans(np.array([4, 0]), np.array([6, 1]))
    >>> owner.tolist(), item.tolist()
    ([0, 0, 1], [4, 5, 0])
    """
    lengths = end - begin
    owner = np.repeat(np.arange(begin.size), lengths)
    item: Ints = np.arange(owner.size) + np.repeat(begin - (np.cumsum(lengths) - lengths), lengths)
    return owner, item


def summed(group: Ints, amounts: Floats | Ints, size: int) -> Floats:
    """The sum of the amounts of each group 0 … size - 1.

    >>> summed(np.array([0, 2, 0]), np.array([1.0, 2.0, 4.0]), 3).tolist()
    [5.0, 0.0, 2.0]
    """
    return np.asarray(np.bincount(group, amounts, size), dtype=np.float64)
