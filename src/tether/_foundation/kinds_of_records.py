"""A record as another class with its fields and more methods; and what of an object users are shown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any, ClassVar, TypeVar

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


class Shown:
    """A class whose ``dir``, which notebooks complete from, leaves out ``_internal``: what only this library reads.

    Examples
    --------
    >>> class Clock(Shown):
    ...     _internal = frozenset({"wheels"})
    ...     hours, wheels = 12, 40
    >>> [name for name in dir(Clock()) if not name.startswith("_")]
    ['hours']
    """

    __slots__ = ()

    _internal: ClassVar[frozenset[str]] = frozenset()

    def __dir__(self) -> Iterable[str]:
        return sorted({*super().__dir__()} - self._internal)
