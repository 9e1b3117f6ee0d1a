"""States of PRISM and Storm: the values of named variables, as names.

A state of one variable is its value; of several, a named tuple of them, which equals the plain tuple.
"""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Sequence
from functools import lru_cache
from keyword import iskeyword
from typing import Any

from tether._foundation.words import in_parts

_WHOLE = re.compile(r"-?[0-9]{1,18}")


def valuation_class(names: Sequence[str]) -> Any:
    """What makes a name of a list of values, one for each of the variables.

    Examples
    --------
    >>> from tether.io.valuations import valuation_class
    >>> state = valuation_class(["x", "y"])([1, 2])
    >>> state, state.y, state == (1, 2)
    ((1, 2), 2, True)
    >>> print(state)
    x 1, y 2
    """
    if len(names) == 1:
        return lambda values: values[0]
    usable = all(name.isidentifier() and not iskeyword(name) and not name.startswith("_") for name in names)
    return _named(tuple(names))._make if usable and len(set(names)) == len(names) else tuple


@lru_cache
def _named(names: tuple[str, ...]) -> Any:
    make: Any = namedtuple  # the names are known only now
    base = make("State", names)

    def text(self: tuple[Any, ...]) -> str:
        return in_parts(zip(names, self, strict=True))

    def reduce(self: tuple[Any, ...]) -> tuple[Any, ...]:
        return _restored, (names, tuple(self))  # a pickle cannot find a class that was made here

    body = {"__slots__": (), "__str__": text, "__repr__": tuple.__repr__, "__reduce__": reduce, "__module__": __name__}
    return type("State", (base,), body)


def _restored(names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return _named(names)._make(values)


def read_value(text: str) -> bool | int:
    """A value as both tools write it; `ValueError` if it is none.

    >>> read_value("-3"), read_value("true")
    (-3, True)
    """
    if text in ("true", "false"):
        return text == "true"
    if not _WHOLE.fullmatch(text):
        raise ValueError(text)
    return int(text)


def read_valuation(text: str) -> tuple[str, Any]:
    """One part of a comment of Storm's, a variable and its value; where it is true, Storm may leave even the name out.

    >>> read_valuation("wear=3"), read_valuation("!broken"), read_valuation("broken"), read_valuation("")
    (('wear', 3), ('broken', False), ('broken', True), ('', True))
    """
    name, equals, value = (word.strip() for word in text.partition("="))
    if not equals:
        return name.removeprefix("!").strip(), not name.startswith("!")
    try:
        return name, read_value(value)
    except ValueError:
        return name, value


def variable_names(rows: Sequence[Sequence[str]]) -> list[str] | None:
    """The variables that all states have, in the same places; None where states differ.

    A name may be left out where others give it; a variable that nobody names is called by its place, v0, v1, …

    >>> variable_names([["broken", "wear"], ["", "wear"]])
    ['broken', 'wear']
    """
    if len({len(row) for row in rows}) != 1 or rows[0] == [""]:
        return None
    found = [{name for name in column if name} for column in zip(*rows, strict=True)]
    if any(len(names) > 1 for names in found):
        return None
    return [names.pop() if names else f"v{i}" for i, names in enumerate(found)]


def write_value(value: Any) -> str:
    """A value as both tools write it.

    >>> write_value(True), write_value(-3)
    ('true', '-3')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)
