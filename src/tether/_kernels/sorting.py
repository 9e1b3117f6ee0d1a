"""Searching in what is sorted."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._foundation.arrays import Ints
from tether._kernels.jit import kernel, part_of_kernel


@kernel
def lower_bound(values: Ints, value: int | np.integer[Any]) -> int:
    """Position of the first of the ascending ``values`` that is at least ``value``."""
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
    """The same, searched from ``at`` on, one step after the other: for values asked for nearly in order."""
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
