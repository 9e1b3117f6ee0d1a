"""Names: the names by which users know states and actions, and the way back to an index.

A name is any hashable object. Inside, everything is an index; `Names` is where the two meet.
Names 0 … n-1 cost no memory, whatever n is.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import repeat
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from tether._words import counted
from tether.errors import ModelError, Problem

__all__ = ["Names", "as_array", "encode", "is_missing", "make_names", "name_list", "plain"]

_LISTED = 12
"""How many names an error message lists before it turns to a summary."""


class Names(Sequence[Any]):
    """Distinct names in the model's order: an immutable sequence that also finds a name's index.

    Examples
    --------
    >>> import tether
    >>> mdp = tether.MDP.from_table(["rain"], ["wait"], ["rain"], [1.0])
    >>> mdp.states[0], "sun" in mdp.states, mdp.states.index("rain")
    ('rain', False, 0)
    """

    __slots__ = ()

    @abstractmethod
    def find(self, name: Any) -> int:
        """Index of ``name``, or -1."""

    def __contains__(self, name: object) -> bool:
        return self.find(name) >= 0

    def index(self, name: Any, start: int = 0, stop: int | None = None) -> int:
        i = self.find(name)
        if i < max(start, 0) or (stop is not None and i >= stop):
            raise ValueError(f"{name!r} is not among the names")
        return i

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Names):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash((len(self), self[0] if len(self) else None))

    def known(self, noun: str) -> str:
        """Say in a few words what names there are, for an error message."""
        n = len(self)
        if n <= _LISTED:
            return f"it has {counted(n, noun)}: " + name_list(self)
        return f"it has {n:,} {noun}s, {self[0]!r} … {self[n - 1]!r}"

    def missing(self, name: Any, noun: str) -> str:
        """Say that ``name`` is not here, and what might have been meant."""
        return f"the model has no {noun} {name!r}; {self.known(noun)}{self.near(name)}"

    def near(self, name: Any) -> str:
        """A hint at what might have been meant by an unknown name, or nothing."""
        if isinstance(name, list):
            return f" (a list cannot be a name; did you mean the tuple {tuple(name)!r}?)"
        twin = {str(one): one for one in self[:10_000]}
        if str(name) in twin:
            found = twin[str(name)]
            return (
                f" (there is {found!r}, a name of type {type(found).__name__}, but {name!r} is a {type(name).__name__})"
            )
        if isinstance(name, str) and len(self) > _LISTED:
            close = get_close_matches(name, [one for one in twin.values() if isinstance(one, str)], n=1)
            if close:
                return f" (did you mean {close[0]!r}?)"
        return ""


class _Counted(Names):
    """The names 0 … n-1."""

    __slots__ = ("_range",)

    def __init__(self, n: int) -> None:
        self._range = range(n)

    def __len__(self) -> int:
        return len(self._range)

    @overload
    def __getitem__(self, i: int) -> Any: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[Any]: ...
    def __getitem__(self, i: int | slice) -> Any:
        return self._range[i]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._range)

    def find(self, name: Any) -> int:
        try:
            i = hash(name)  # a small whole number is its own hash, also as a float or a NumPy scalar
        except TypeError:
            return -1
        return i if 0 <= i < len(self._range) and i == name else -1

    def __repr__(self) -> str:
        return f"Names(0 … {len(self) - 1:,})" if len(self) else "Names()"


class _Listed(Names):
    """Any other names, each listed."""

    __slots__ = ("_index", "_items")

    def __init__(self, items: tuple[Any, ...], index: dict[Any, int]) -> None:
        self._items = items
        self._index = index

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, i: int) -> Any: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[Any]: ...
    def __getitem__(self, i: int | slice) -> Any:
        return self._items[i]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def find(self, name: Any) -> int:
        if isinstance(name, np.generic):
            name = name.item()  # as `plain` did: a datetime64 does not equal the date it stands for
        try:
            return self._index.get(name, -1)
        except TypeError:
            return -1

    def find_all(self, items: list[Any]) -> Any:
        """Codes of many names as `plain` gives them, -1 for those not here."""
        try:
            return np.fromiter(map(self._index.get, items, repeat(-1)), dtype=np.int32, count=len(items))
        except TypeError:  # one cannot be hashed
            return np.fromiter(map(self.find, items), dtype=np.int32, count=len(items))

    def __repr__(self) -> str:
        if len(self) <= _LISTED:
            return f"Names({name_list(self)})"
        return f"Names({self[0]!r}, {self[1]!r}, … {self[len(self) - 1]!r}: {len(self):,} names)"


def name_list(names: Iterable[Any], limit: int = _LISTED) -> str:
    """``'a', 'b', 'c'``, cut after ``limit``.

    >>> name_list("abcd", limit=2)
    "'a', 'b', … (4 in all)"
    """
    items = list(names)
    text = ", ".join(repr(item) for item in items[:limit])
    return text if len(items) <= limit else f"{text}, … ({len(items):,} in all)"


def plain(values: Any) -> list[Any]:
    """Names as a list of plain Python objects, from a list, an array, a pandas or Arrow column, a range.

    >>> import numpy as np
    >>> plain(np.array([3, 1]))
    [3, 1]
    """
    for name in ("to_pylist", "to_list", "tolist"):
        method = getattr(values, name, None)
        if callable(method):
            return list(method())
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def make_names(given: Any, count: int | None, noun: str) -> Names:
    """Build names, checked: as many as ``count`` (if given), each hashable, none twice.

    Parameters
    ----------
    given : iterable of hashable, or None
        ``None`` stands for 0 … count-1.
    count : int, optional
        How many there must be.
    noun : str
        "state" or "action", for the error message.
    """
    if given is None:
        assert count is not None
        return _Counted(count)
    if not isinstance(given, Iterable):
        raise ModelError(f"{noun}s= takes a list of names, not {given!r}")
    items = tuple(given) if isinstance(given, Names) else tuple(plain(given))
    if count is not None and len(items) != count:
        given_count = counted(len(items), "name")
        raise ModelError(f"{noun}s= gives {given_count}, but the model has {counted(count, noun)}")
    index: dict[Any, int] = {}
    for i, item in enumerate(items):
        if not isinstance(item, Hashable):
            raise ModelError(Problem(f"{noun} {i}: the name {item!r} cannot be hashed; use a tuple", value=item))
        if is_missing(item):
            raise ModelError(Problem(f"{noun} {i}: the name is missing ({item!r}); give it one", value=item))
        try:
            first = index.setdefault(item, i)
        except TypeError as error:
            message = f"{noun} {i}: the name {item!r} cannot be hashed ({error}); use a tuple"
            raise ModelError(Problem(message, value=item)) from None
        if first != i:
            raise ModelError(
                Problem(f"the {noun} name {item!r} is given twice, at positions {first} and {i}", value=item)
            )
    if _is_count(items):
        return _Counted(len(items))
    return _Listed(items, index)


def encode(columns: Sequence[Any], noun: str, headings: Sequence[str], given: Any = None) -> tuple[Names, list[Any]]:
    """Turn columns of names into one set of names and a column of indices each.

    Without ``given``, whole numbers come in ascending order and all other names in the order in
    which they first appear, the first column before the second. With ``given`` the order is the
    user's, and a name that is not in it is an error.

    Returns
    -------
    names : Names
    codes : list of int32 array, one a column
    """
    arrays = [as_array(column) for column in columns]
    if given is None and all(array is not None and array.dtype.kind in "iu" for array in arrays):
        return _encode_numbers(arrays)
    lists = [plain(column) for column in columns]
    if given is None:
        seen: dict[Any, int] = {}
        for heading, items in zip(headings, lists, strict=True):
            _collect(items, heading, seen)
        found = list(seen)
        if found and all(type(item) is int for item in found):
            found.sort()
        names = make_names(found, None, noun)
    else:
        names = make_names(given, None, noun)
    codes = []
    for heading, items in zip(headings, lists, strict=True):
        if isinstance(names, _Listed):
            code = names.find_all(items)
        else:
            code = np.fromiter(map(names.find, items), dtype=np.int32, count=len(items))
        unknown = np.flatnonzero(code < 0)
        if unknown.size:
            problems = [
                Problem(
                    f"row {i}: the {heading} {items[i]!r} is not among the names given by {noun}s="
                    + names.near(items[i]),
                    value=items[i],
                    row=int(i),
                )
                for i in unknown[:100]
            ]
            raise ModelError(problems, total=int(unknown.size))
        codes.append(code)
    return names, codes


def as_array(column: Any) -> npt.NDArray[Any] | None:
    """The column as a flat array if it is one already (NumPy, pandas, polars, Arrow), else None."""
    if not isinstance(column, np.ndarray) and hasattr(column, "to_numpy"):
        column = np.asarray(column)
    return column if isinstance(column, np.ndarray) and column.ndim == 1 else None


def _collect(items: list[Any], heading: str, seen: dict[Any, int]) -> None:
    """Add names to ``seen`` in the order they come; each is looked at in Python only if it is new."""
    try:
        new = dict.fromkeys(items)
    except TypeError:
        new = {None: None}
    if not any(map(is_missing, new)):
        for item in new:
            seen.setdefault(item, len(seen))
        return
    for row, item in enumerate(items):
        try:
            seen.setdefault(item, len(seen))
        except TypeError:
            message = f"row {row}: the {heading} {item!r} cannot be a name, it is not hashable; use a tuple"
            raise ModelError(Problem(message, value=item, row=row)) from None
        if is_missing(item):
            raise ModelError(Problem(f"row {row}: the {heading} is missing ({item!r})", value=item, row=row))


def _encode_numbers(arrays: Sequence[Any]) -> tuple[Names, list[Any]]:
    """Whole numbers, encoded in ascending order: by a table where they are dense, else by sorting."""
    filled = [array for array in arrays if array.size]
    if not filled:
        return _Counted(0), [np.empty(0, np.int32) for _ in arrays]
    low = min(int(array.min()) for array in filled)
    high = max(int(array.max()) for array in filled)
    span = high - low + 1
    # One type for all: a narrow one would overflow, and int64 beside uint64 would turn into floats.
    wide = np.int64 if high < 2**63 else np.uint64 if low >= 0 else object
    arrays = [array.astype(wide, copy=False) for array in arrays]
    if span <= 4 * sum(array.size for array in filled) + 1024 and wide is np.int64:
        present = np.zeros(span, dtype=bool)
        for array in arrays:
            present[array - low] = True
        codes_of = np.cumsum(present, dtype=np.int32) - np.int32(1)
        found = np.flatnonzero(present) + low
        codes = [codes_of[array - low] for array in arrays]
    else:
        found = np.unique(np.concatenate([np.unique(array) for array in arrays]))
        codes = [np.searchsorted(found, array).astype(np.int32) for array in arrays]
    if low == 0 and found.size == high + 1:
        return _Counted(found.size), codes
    items = tuple(found.tolist())
    return _Listed(items, {item: i for i, item in enumerate(items)}), codes


def is_missing(item: Any) -> bool:
    """Whether a name is no name: None, or what does not equal itself, as NaN, NaT and pandas' NA."""
    if item is None:
        return True
    try:
        return bool(item != item)  # noqa: PLR0124
    except TypeError:  # NA will not say
        return True


def _is_count(items: tuple[Any, ...]) -> bool:
    return all(type(item) is int and item == i for i, item in enumerate(items))
