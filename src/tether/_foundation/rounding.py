"""How much two values may differ and still count as equal: computed in another order, they differ by rounding."""

from __future__ import annotations

from typing import overload

import numpy as np

from tether._foundation.arrays import Floats

ROUNDING = 1e-9
"""For probabilities and shares; for other values, in proportion to them."""
NO_GAIN = 1e-12
"""A difference of two values that is smaller than this, in proportion to them, is only rounding: it is no gain."""


@overload
def rounding_of(*values: float) -> float: ...
@overload
def rounding_of(*values: Floats) -> Floats: ...
def rounding_of(*values: float | Floats) -> float | Floats:
    """The largest difference that counts as rounding for values of this size; of arrays, for each of their elements.

    >>> rounding_of(-6850.0, 20.0) == 6850.0 * 1e-9, rounding_of(0.2) == 1e-9
    (True, True)
    >>> rounding_of(np.array([-7000.0, 0.5])).round(12).tolist()
    [7e-06, 1e-09]
    """
    largest = np.ones(())
    for value in values:
        largest = np.maximum(largest, np.abs(value))
    rounding = ROUNDING * largest
    return rounding if largest.ndim else float(rounding)


@overload
def gain_of(value: float, observed: float, minimise: bool = False) -> float: ...
@overload
def gain_of(value: Floats, observed: float | Floats, minimise: bool = False) -> Floats: ...
def gain_of(value: float | Floats, observed: float | Floats, minimise: bool = False) -> float | Floats:
    """How much larger values are than what was observed, or smaller, where less is better; 0 if it is only rounding.

    >>> gain_of(1.5, 1.0), gain_of(1.5, 1.0, minimise=True), gain_of(np.array([-2.0, 1.0 + 1e-13]), 1.0).tolist()
    (0.5, -0.5, [-3.0, 0.0])
    """
    gain = observed - value if minimise else value - observed
    gain = np.where(np.abs(gain) > NO_GAIN * np.maximum(1.0, np.abs(observed)), gain, 0.0)
    return gain if gain.ndim else float(gain)


def settled(std: Floats, lowest: Floats, highest: Floats, size: Floats) -> Floats:
    """Standard deviations of values; 0 where the possible values differ only by rounding.

    ``lowest`` and ``highest`` are the smallest and the largest possible values, and ``size`` is the largest number that
    they are sums of. A tiny standard deviation of values that do differ is kept: one of them is improbable.

    >>> low, high = np.array([1.0, 0.0]), np.array([1.0 + 1e-15, 5.0])
    >>> settled(np.array([6.661e-16, 2e-15]), low, high, high).tolist()
    [0.0, 2e-15]
    """
    return np.where(highest - lowest > ROUNDING * size, std, 0.0)
