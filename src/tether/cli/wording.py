"""States and actions in words, beside each other: what differs is told, what does not is not."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from tether.cli.screen import shown
from tether.errors import QueryError

__all__ = ["differences", "only", "short"]

_SHORT = 24
"""A label of so many characters fits into a table."""


def short(labels: Iterable[Any]) -> bool:
    """Whether labels can be written out, again and again."""
    return all(len(shown(label)) <= _SHORT for label in labels)


def differences(label: Any, reference: Any) -> str:
    """A state in the words in which it differs from another: part by part, where both have the same parts.

    >>> from tether.cases.epidemic import EpidemicState
    >>> differences(EpidemicState(9, 1, 20), EpidemicState(9, 2, 19)), differences("well", "sick")
    ('I 1, V 20', 'well')
    """
    parts = getattr(label, "_fields", ())
    if not parts or getattr(reference, "_fields", ()) != parts:
        return shown(label)
    differing = [
        f"{part.replace('_', ' ')} {_value(value)}"
        for part, value, other in zip(parts, label, reference, strict=True)
        if value != other
    ]
    return ", ".join(differing)


def only(features: str) -> Callable[[Any], Any]:
    """A function that gives of a state only some parts; states alike in them are one.

    >>> from tether.cases.epidemic import EpidemicState
    >>> print(only("S,I")(EpidemicState(9, 1, 20)))
    S 9, I 1
    """
    names = tuple(dict.fromkeys(name.strip() for name in features.split(",") if name.strip()))
    if not names:
        raise QueryError("--features names no part of a state; give some, as in S,I")

    def of(state: Any) -> Any:
        known = getattr(state, "_fields", ())
        missing = [name for name in names if name not in known]
        if missing:
            has = f"they have {', '.join(known)}" if known else "their labels have no named parts"
            raise QueryError(f"--features: the states have no {', '.join(missing)}; {has}")
        return _parts(names)(*(getattr(state, name) for name in names))

    return of


@lru_cache(maxsize=1)
def _parts(names: tuple[str, ...]) -> Any:
    """A class of states with only these parts."""

    def told(state: Any) -> str:
        return ", ".join(f"{name.replace('_', ' ')} {_value(value)}" for name, value in zip(names, state, strict=True))

    return type("State", (namedtuple("State", names),), {"__slots__": (), "__str__": told})


def _value(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else shown(value)
