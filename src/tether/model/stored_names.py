"""Names of states and actions as bytes, and back: MessagePack, column by column.

Names that are texts, numbers, truth values or None are one list. Tuples of one class and length are one list per
position. Names of several such kinds are one list per kind, and the kind of each name. So a million names are decoded
by a few calls, and each comes back with its type and all its bits.

A named tuple gets its own class if the program has that class loaded. Otherwise it gets a class with the same name and
fields; the two are equal, and equal to the plain tuple. No code is imported to find a class, and no code of the class
runs when an object is made.
"""

from __future__ import annotations

import collections
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from tether._foundation.words import in_parts
from tether.errors import FileError, Problem
from tether.model.names import Names, trusted_names

if TYPE_CHECKING:
    from tether.model.storage import Part, SavedFile

_PLAIN = frozenset({str, int, float, bool, type(None)})
_SCALARS = (np.bool_, np.integer, np.floating, np.str_)
_LOW, _HIGH = -(2**63), 2**64
"""The integers of MessagePack: ``_LOW`` … ``_HIGH - 1``."""

_UNDECODABLE = (msgspec.DecodeError, LookupError, TypeError, ValueError, AttributeError, StopIteration, RecursionError)


class _UnknownError(Exception):
    """A name, or a part of one, has a type that is not saved."""


def encode_names(names: Sequence[Any], noun: str) -> bytes:
    """Names as bytes; ``noun`` is "state" or "action", for the error if one of them has a type that is not saved."""
    try:
        return _encoded(names)
    except (_UnknownError, UnicodeEncodeError, RecursionError):
        bad = next(name for name in names if not _can_be_saved(name))
    message = (
        f"the {noun} {bad!r}, of type {type(bad).__name__}, cannot be saved: names are saved where they "
        "are numbers, texts, truth values or (named) tuples of these; "
        f"give it another name with mdp.with_names({noun}s=…)"
    )
    raise FileError(Problem(message, value=bad, **{noun: bad}))


def decode_names(content: bytes | memoryview) -> list[Any]:
    """The names that `encode_names` made bytes of."""
    described, columns = msgspec.msgpack.decode(content)
    classes = [class_of(module, name, tuple(fields)) for module, name, fields in described]
    return _from_columns(columns, classes)


def _encoded(names: Sequence[Any]) -> bytes:
    classes: dict[Any, int] = {}
    columns = _to_columns(list(names), classes)
    described = [(kind.__module__, kind.__qualname__, kind._fields) for kind in classes]
    return msgspec.msgpack.encode((described, columns))


def _can_be_saved(name: Any) -> bool:
    try:
        _encoded([name])
    except (_UnknownError, UnicodeEncodeError, RecursionError):
        return False
    return True


def _to_columns(items: Sequence[Any], classes: dict[Any, int]) -> Any:
    """Items as lists of plain values; classes of named tuples are numbered in ``classes``."""
    kinds = set(map(type, items))
    if any(issubclass(kind, _SCALARS) for kind in kinds):
        items = [item.item() if isinstance(item, _SCALARS) else item for item in items]
        kinds = set(map(type, items))
    if kinds <= _PLAIN and all(_LOW <= item < _HIGH for item in items if type(item) is int):
        return items
    groups: dict[Any, list[Any]] = {}
    kind_of = [_kind(item) for item in items]
    for kind, item in zip(kind_of, items, strict=True):
        groups.setdefault(kind, []).append(item)
    columns = [_column(kind, group, classes) for kind, group in groups.items()]
    if len(columns) == 1:
        return columns[0]
    number = {kind: i for i, kind in enumerate(groups)}
    return {"kinds": columns, "kind": [number[kind] for kind in kind_of]}


def _kind(item: Any) -> Any:
    """What items must share to be one column."""
    kind = type(item)
    if kind in _PLAIN:
        return "long" if kind is int and not _LOW <= item < _HIGH else "plain"
    is_named = issubclass(kind, tuple) and isinstance(getattr(kind, "_fields", None), tuple)
    if kind is not tuple and not is_named:
        raise _UnknownError
    return kind, len(item)


def _column(kind: Any, items: list[Any], classes: dict[Any, int]) -> Any:
    if kind == "plain":
        return items
    if kind == "long":
        return {"long": list(map(hex, items))}
    named = None if kind[0] is tuple else classes.setdefault(kind[0], len(classes))
    columns = [_to_columns(list(map(itemgetter(i), items)), classes) for i in range(kind[1])]
    return {"tuples": columns, "n": len(items), "class": named}


def _from_columns(columns: Any, classes: list[Any]) -> list[Any]:
    """The items that `_to_columns` was given."""
    if isinstance(columns, list):
        return columns
    if "long" in columns:
        return [int(text, 16) for text in columns["long"]]
    if "kinds" in columns:
        kinds = [iter(_from_columns(kind, classes)) for kind in columns["kinds"]]
        return [next(kinds[i]) for i in columns["kind"]]
    parts = [_from_columns(part, classes) for part in columns["tuples"]]
    rows: Iterator[Any] = zip(*parts, strict=True) if parts else repeat((), columns["n"])
    named = columns["class"]
    return list(rows if named is None else map(partial(tuple.__new__, classes[named]), rows))


class StoredNames(Names):
    """Names in a saved model, decoded when one of them is first used."""

    __slots__ = ("_content", "_decoded", "_n", "_noun", "_place")

    def __init__(self, content: memoryview, n: int, noun: str, place: SavedFile) -> None:
        self._content, self._n, self._noun, self._place = content, n, noun, place
        self._decoded: Names | None = None

    @property
    def _items(self) -> Names:
        if self._decoded is None:
            try:
                names = decode_names(self._content)
                if len(names) != self._n:
                    raise ValueError(f"{len(names):,} names for {self._n:,} {self._noun}s")
                self._decoded = trusted_names(names)
            except _UNDECODABLE as error:
                message = f"its {self._noun} names are not what MDP.save writes ({error})"
                raise FileError(Problem(message, file=self._place.file, fix="save the model again")) from error
        return self._decoded

    def __len__(self) -> int:
        return self._n

    def find(self, name: Any) -> int:
        return self._items.find(name)

    def find_all(self, names: Sequence[Any]) -> Any:
        return self._items.find_all(names)

    def __reduce__(self) -> tuple[Any, ...]:
        part: Part = "states" if self._noun == "state" else "actions"
        return self._place.reduce(part, (trusted_names, (tuple(self),)))

    def __repr__(self) -> str:
        return repr(self._items)


def class_of(module: str, name: str, fields: tuple[str, ...]) -> Any:
    """The class of a named tuple, if the program has it loaded; otherwise one like it.

    An object of a class made here is written by its fields, ``x 1, wet no``: the name of such a class says nothing to
    a reader.
    """
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if isinstance(found, type) and issubclass(found, tuple) and getattr(found, "_fields", None) == fields:
        return found
    return _made(module, name, fields)


@lru_cache
def _made(module: str, name: str, fields: tuple[str, ...]) -> Any:
    make: Any = collections.namedtuple
    base = make(name.rpartition(".")[2], fields)

    def reduce(self: tuple[Any, ...]) -> tuple[Any, ...]:
        return _named, (module, name, fields, tuple(self))

    def text(self: tuple[Any, ...]) -> str:
        return in_parts(zip(fields, self, strict=True))

    body = {"__slots__": (), "__str__": text, "__reduce__": reduce, "__module__": __name__}
    return type(base.__name__, (base,), body)


def _named(module: str, name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    """A named tuple from its parts, to unpickle one whose class was made here."""
    return tuple.__new__(class_of(module, name, fields), values)
