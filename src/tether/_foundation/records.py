"""A record as another class: the same fields, with more methods."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

__all__ = ["as_kind"]

_Record = TypeVar("_Record")


def as_kind(kind: type[_Record], record: Any, **changed: Any) -> _Record:
    """The fields of a dataclass as a class derived from its own, some of them changed.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Length:
    ...     metres: float
    >>> class Distance(Length):
    ...     def __str__(self):
    ...         return f"{self.metres} m apart"
    >>> print(as_kind(Distance, Length(3.0)))
    3.0 m apart
    """
    return kind(**{one.name: getattr(record, one.name) for one in fields(record) if one.init} | changed)
