"""How names of states and actions are written to disk.

Up to a few thousand are listed in ``model.json``, where they can be read. More become columns, so that a model
opens without reading them. Whole numbers, other numbers and truth values are one array. Texts are one array of UTF-8
and one of where each ends. Tuples of one length (and class, if they are named tuples) are one column per position.
Anything else, such as texts among numbers, is a column of JSON texts.
`tether.model.storage.reading_names` reads them again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import msgspec
import numpy as np

from tether.errors import FileError, Problem
from tether.model.names import Names
from tether.model.storage.meta import ColumnMeta, NamedTupleMeta, NamesMeta

__all__ = ["LISTED", "NameWriter"]

LISTED = 4096
"""How many names are listed in ``model.json``; beyond, they become columns."""

_INT64 = range(-(2**63), 2**63)
_SCALARS = (np.bool_, np.integer, np.floating, np.str_)


class _UnknownError(Exception):
    """A name, or a part of one, of a kind that is not saved."""


@dataclass(slots=True)
class NameWriter:
    """Turns names into their description; collects the arrays and classes of the description."""

    arrays: dict[str, Any] = field(default_factory=dict)
    classes: dict[Any, int] = field(default_factory=dict)

    def write(self, names: Names, noun: str) -> NamesMeta:
        """Describe ``names``; ``noun`` is "state" or "action"."""
        n = len(names)
        if _is_counted(names):
            return NamesMeta(n)
        items = list(names)
        try:
            if n <= LISTED:
                return NamesMeta(n, listed=[self._plain(item) for item in items])
            return NamesMeta(n, column=self._column(items, f"{noun}_names"))
        except _UnknownError:
            raise self._refusal(items, noun) from None

    def named_tuples(self) -> tuple[NamedTupleMeta, ...]:
        """The classes met, in the order of their numbers."""
        return tuple(NamedTupleMeta(kind.__module__, kind.__qualname__, tuple(kind._fields)) for kind in self.classes)

    def _plain(self, item: Any) -> Any:
        """A name as JSON."""
        item = _unwrapped(item)
        kind = type(item)
        if item is None or kind is bool:
            return item
        if kind is str:
            return _encodable(item)
        if kind is int:
            return item if item in _INT64 else {"int": str(item)}
        if kind is float:
            return item if math.isfinite(item) else {"float": str(item)}
        named = {} if kind is tuple else {"named": self._class(kind)}
        return {"tuple": [self._plain(part) for part in item], **named}

    def _column(self, items: Sequence[Any], name: str) -> ColumnMeta:
        kinds = set(map(type, items))
        if any(issubclass(kind, _SCALARS) for kind in kinds):
            items = [_unwrapped(item) for item in items]
            kinds = set(map(type, items))
        kind = kinds.pop() if len(kinds) == 1 else None
        if kind in (bool, float) or (kind is int and min(items) in _INT64 and max(items) in _INT64):
            self.arrays[name] = np.array(items, dtype={bool: "?", float: "<f8", int: "<i8"}[kind])
            return ColumnMeta("number", name)
        if kind is str:
            return self._texts("text", [_encodable(item).encode() for item in items], name)
        if kind is not None and issubclass(kind, tuple) and len(items[0]) and len(set(map(len, items))) == 1:
            named = None if kind is tuple else self._class(kind)
            places = tuple(self._column(part, f"{name}_{i}") for i, part in enumerate(zip(*items, strict=True)))
            return ColumnMeta("tuple", named=named, items=places)
        return self._texts("json", [msgspec.json.encode(self._plain(item)) for item in items], name)

    def _texts(self, kind: Any, texts: list[bytes], name: str) -> ColumnMeta:
        self.arrays[name] = np.frombuffer(b"".join(texts), dtype=np.uint8)
        self.arrays[f"{name}_ends"] = np.fromiter(accumulate(map(len, texts)), dtype="<i8", count=len(texts))
        return ColumnMeta(kind, name, f"{name}_ends")

    def _class(self, kind: type) -> int:
        """Number of a named tuple's class."""
        if not issubclass(kind, tuple) or not isinstance(getattr(kind, "_fields", None), tuple):
            raise _UnknownError
        return self.classes.setdefault(kind, len(self.classes))

    def _refusal(self, items: list[Any], noun: str) -> FileError:
        for item in items:
            try:
                self._plain(item)
            except _UnknownError:
                message = (
                    f"the {noun} {item!r}, of type {type(item).__name__}, cannot be saved: names are saved where they "
                    "are numbers, texts, truth values or (named) tuples of these; "
                    f"give it another name with mdp.with_names({noun}s=…)"
                )
                return FileError(Problem(message, value=item, **{noun: item}))
        raise AssertionError("every name can be saved by itself, but not in a column")


def _is_counted(names: Names) -> bool:
    return isinstance(names[:0], range)  # only these names give a range as a slice


def _unwrapped(item: Any) -> Any:
    """A plain number or text, if a tuple contains one of NumPy's."""
    return item.item() if isinstance(item, _SCALARS) else item


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _UnknownError from None
    return text
