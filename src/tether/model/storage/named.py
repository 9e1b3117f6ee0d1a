"""Named tuples from disk.

One comes back as an object of its own class if the program has that class loaded, else as one of a class with the
same name and fields; the two are equal, and equal the plain tuple. No code is imported to find a class, and none of
its own runs when an object is made. An object of a class made here writes itself by its fields, ``x 1, wet no``: the
name of such a class says nothing to a reader.
"""

from __future__ import annotations

import collections
import sys
from functools import lru_cache
from typing import Any

from tether._foundation.words import in_parts

__all__ = ["class_of"]


def class_of(module: str, name: str, fields: tuple[str, ...]) -> Any:
    """The class a named tuple was of, if the program has it loaded, else one like it."""
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
    """A named tuple from its parts: how one of a class that was made here comes out of a pickle."""
    return tuple.__new__(class_of(module, name, fields), values)
