"""How much two values may differ and still count as equal: computed in another order, they differ by rounding."""

from __future__ import annotations

__all__ = ["ROUNDING", "rounding_of"]

ROUNDING = 1e-9
"""For probabilities and shares; for other values, in proportion to them."""


def rounding_of(*values: float) -> float:
    """The largest difference that counts as rounding for values of this size.

    >>> rounding_of(-6850.0, 20.0) == 6850.0 * 1e-9, rounding_of(0.2) == 1e-9
    (True, True)
    """
    return ROUNDING * max(1.0, *map(abs, values))
