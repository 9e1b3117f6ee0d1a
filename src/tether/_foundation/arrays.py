"""The three kinds of array that everything here is made of."""

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Flags", "Floats", "Ints"]

Ints = npt.NDArray[Any]
"""Whole numbers: indices, counts, thresholds. How wide they are is said where they are made."""

Floats = npt.NDArray[np.float64]

Flags = npt.NDArray[np.bool_]
