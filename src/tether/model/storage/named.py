"""Named tuples from disk.

A named tuple gets its own class if the program has that class loaded. Otherwise it gets a class with the same name and
fields; the two are equal, and equal to the plain tuple. No code is imported to find a class, and no code of the class
runs when an object is made. An object of a class made here is written by its fields, ``x 1, wet no``: the name of
such a class says nothing to a reader.
"""

from __future__ import annotations

import collections
import sys
from functools import lru_cache
from typing import Any

from tether._foundation.words import in_parts

__all__ = ["class_of"]


def class_of(module: str, name: str, fields: tuple[str, ...]) -> Any:
    """The class of a named tuple, if the program has it loaded; otherwise one like it."""
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

    def reduce(self: Any) -> tuple[Any, ...]:
        return _named, (module, name, fields, tuple(self))

    def text(self: Any) -> str:
        return in_parts(zip(fields, self, strict=True))

    body = {"__slots__": (), "__str__": text, "__reduce__": reduce, "__module__": __name__}
    return type(base.__name__, (base,), body)


def _named(module: str, name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    """A named tuple from its parts, to unpickle one whose class was made here."""
    return tuple.__new__(class_of(module, name, fields), values)
