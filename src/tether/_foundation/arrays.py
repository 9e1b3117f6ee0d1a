"""The three kinds of array that everything here is made of, and how kernels take them."""

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Flags", "Floats", "Ints", "read_only"]

Ints = npt.NDArray[Any]
"""Whole numbers: indices, counts, thresholds. How wide they are is said where they are made."""

Floats = npt.NDArray[np.float64]

Flags = npt.NDArray[np.bool_]


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same numbers in one piece and not to be written to: kernels are compiled anew for any other kind of array."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
