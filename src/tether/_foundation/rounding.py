"""How far two values may lie apart and still count as the same: computed in another order, they differ by rounding."""

from __future__ import annotations

__all__ = ["ROUNDING", "rounding_of"]

ROUNDING = 1e-9
"""Of probabilities and shares; of other values, in proportion to them."""


def rounding_of(*values: float) -> float:
    """What is rounding beside such values.

    >>> rounding_of(-6850.0, 20.0) == 6850.0 * 1e-9, rounding_of(0.2) == 1e-9
    (True, True)
    """
    return ROUNDING * max(1.0, *map(abs, values))
