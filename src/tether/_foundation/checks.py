"""Checks of values that many calls take: each returns the value, or raises an error that says what is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tether._foundation.arrays import Ints
from tether.errors import Problem, QueryError, TetherError


def whole_number(name: str, value: Any, least: int) -> int:
    """``value`` as an int, or an error that says what is allowed.

    >>> whole_number("k", 3, 1)
    3
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise QueryError(Problem(f"{name} must be a whole number ≥ {least}, not {value!r}", value=value))
    return int(value)


def random_generator(rng: Any, name: str = "rng") -> np.random.Generator:
    """A generator of random numbers from a seed, a generator or None, or an error that says what is allowed.

    >>> random_generator(1).integers(10)
    np.int64(4)
    """
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError) as error:
        raise QueryError(
            Problem(f"{name} must be a seed or a numpy Generator, not {rng!r}: {error}", value=rng)
        ) from None


def whole_numbers(name: str, given: Iterable[int] | None, default: range, least: int, most: int) -> Ints:
    """The given whole numbers, those beyond ``most`` reduced to it; without any, all of ``default``."""
    if given is not None and not isinstance(given, Iterable):
        raise QueryError(f"{name} must be a list of whole numbers ≥ {least}, not {given!r}")
    items = list(default if given is None else given)
    if not items:
        raise QueryError(f"{name} is empty; leave it out for all of {least} … {most}")
    return np.array([min(whole_number(name, item, least), most) for item in items], dtype=np.int64)


def columns_in_full(columns: Mapping[str, Any], item: str, error: type[TetherError]) -> dict[str, Any]:
    """Columns as lists or arrays with one value for each ``item``; anything else is an error.

    >>> columns_in_full({"state": iter("ab")}, "row", QueryError)
    {'state': ['a', 'b']}
    """
    for name, values in columns.items():
        if isinstance(values, str) or not (hasattr(values, "__len__") or hasattr(values, "__iter__")):
            raise error(f"the column {name} must be a list or array with one item per {item}, not {values!r}")
        if isinstance(values, np.ndarray) and values.ndim != 1:
            raise error(f"the column {name} must be flat; got an array of shape {values.shape}")
    return {name: values if hasattr(values, "__len__") else list(values) for name, values in columns.items()}


def finite_number(name: str, value: Any) -> float:
    """``value`` as a float, or an error that says what is allowed.

    >>> finite_number("at_least", -30)
    -30.0
    """
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not number or not np.isfinite(value):
        raise QueryError(Problem(f"{name} must be a finite number, not {value!r}", value=value))
    return float(value)
