"""Labels: the names by which users know states and actions, and the way back to an index.

A label is any hashable object. Inside, everything is an index; `Labels` is where the two meet.
Labels 0 … n-1 cost no memory, whatever n is.
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

__all__ = ["Labels", "encode", "is_missing", "label_list", "make_labels", "plain"]

_LISTED = 12
"""How many labels an error message lists before it turns to a summary."""


class Labels(Sequence[Any]):
    """Distinct labels in the model's order: an immutable sequence that also finds a label's index.

    Examples
    --------
    >>> import tether
    >>> mdp = tether.MDP.from_table(["rain"], ["wait"], ["rain"], [1.0])
    >>> mdp.states[0], "sun" in mdp.states, mdp.states.index("rain")
    ('rain', False, 0)
    """

    __slots__ = ()

    @abstractmethod
    def find(self, label: Any) -> int:
        """Index of ``label``, or -1."""

    def __contains__(self, label: object) -> bool:
        return self.find(label) >= 0

    def index(self, label: Any, start: int = 0, stop: int | None = None) -> int:
        i = self.find(label)
        if i < max(start, 0) or (stop is not None and i >= stop):
            raise ValueError(f"{label!r} is not among the labels")
        return i

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Labels):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash((len(self), self[0] if len(self) else None))

    def known(self, noun: str) -> str:
        """Say in a few words what labels there are, for an error message."""
        n = len(self)
        if n <= _LISTED:
            return f"it has {counted(n, noun)}: " + label_list(self)
        return f"it has {n:,} {noun}s, {self[0]!r} … {self[n - 1]!r}"

    def missing(self, label: Any, noun: str) -> str:
        """Say that ``label`` is not here, and what might have been meant."""
        return f"the model has no {noun} {label!r}; {self.known(noun)}{self.near(label)}"

    def near(self, label: Any) -> str:
        """A hint at what might have been meant by an unknown label, or nothing."""
        if isinstance(label, list):
            return f" (a list cannot be a label; did you mean the tuple {tuple(label)!r}?)"
        twin = {str(one): one for one in self[:10_000]}
        if str(label) in twin:
            found = twin[str(label)]
            return (
                f" (there is {found!r}, a label of type {type(found).__name__}, "
                f"but {label!r} is a {type(label).__name__})"
            )
        if isinstance(label, str) and len(self) > _LISTED:
            close = get_close_matches(label, [one for one in twin.values() if isinstance(one, str)], n=1)
            if close:
                return f" (did you mean {close[0]!r}?)"
        return ""


class _Counted(Labels):
    """The labels 0 … n-1."""

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

    def find(self, label: Any) -> int:
        try:
            i = hash(label)  # a small whole number is its own hash, also as a float or a NumPy scalar
        except TypeError:
            return -1
        return i if 0 <= i < len(self._range) and i == label else -1

    def __repr__(self) -> str:
        return f"Labels(0 … {len(self) - 1:,})" if len(self) else "Labels()"


class _Listed(Labels):
    """Any other labels, each listed."""

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

    def find(self, label: Any) -> int:
        if isinstance(label, np.generic):
            label = label.item()  # as `plain` did: a datetime64 does not equal the date it stands for
        try:
            return self._index.get(label, -1)
        except TypeError:
            return -1

    def find_all(self, items: list[Any]) -> Any:
        """Codes of many labels as `plain` gives them, -1 for those not here."""
        try:
            return np.fromiter(map(self._index.get, items, repeat(-1)), dtype=np.int32, count=len(items))
        except TypeError:  # one cannot be hashed
            return np.fromiter(map(self.find, items), dtype=np.int32, count=len(items))

    def __repr__(self) -> str:
        if len(self) <= _LISTED:
            return f"Labels({label_list(self)})"
        return f"Labels({self[0]!r}, {self[1]!r}, … {self[len(self) - 1]!r}: {len(self):,} labels)"


def label_list(labels: Iterable[Any], limit: int = _LISTED) -> str:
    """``'a', 'b', 'c'``, cut after ``limit``.

    >>> label_list("abcd", limit=2)
    "'a', 'b', … (4 in all)"
    """
    items = list(labels)
    text = ", ".join(repr(item) for item in items[:limit])
    return text if len(items) <= limit else f"{text}, … ({len(items):,} in all)"


def plain(values: Any) -> list[Any]:
    """Labels as a list of plain Python objects, from a list, an array, a pandas or Arrow column, a range.

    >>> import numpy as np
    >>> plain(np.array([3, 1]))
    [3, 1]
    """
    for name in ("to_pylist", "to_list", "tolist"):
        method = getattr(values, name, None)
        if callable(method):
            return list(method())
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def make_labels(given: Any, count: int | None, noun: str) -> Labels:
    """Build labels, checked: as many as ``count`` (if given), each hashable, none twice.

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
        raise ModelError(f"{noun}s= takes a list of labels, not {given!r}")
    items = tuple(given) if isinstance(given, Labels) else tuple(plain(given))
    if count is not None and len(items) != count:
        given_count = counted(len(items), "label")
        raise ModelError(f"{noun}s= gives {given_count}, but the model has {counted(count, noun)}")
    index: dict[Any, int] = {}
    for i, item in enumerate(items):
        if not isinstance(item, Hashable):
            raise ModelError(Problem(f"{noun} {i}: the label {item!r} cannot be hashed; use a tuple", value=item))
        if is_missing(item):
            raise ModelError(Problem(f"{noun} {i}: the label is missing ({item!r}); give it a name", value=item))
        try:
            first = index.setdefault(item, i)
        except TypeError as error:
            message = f"{noun} {i}: the label {item!r} cannot be hashed ({error}); use a tuple"
            raise ModelError(Problem(message, value=item)) from None
        if first != i:
            raise ModelError(
                Problem(f"the {noun} label {item!r} is given twice, at positions {first} and {i}", value=item)
            )
    if _is_count(items):
        return _Counted(len(items))
    return _Listed(items, index)


def encode(columns: Sequence[Any], noun: str, names: Sequence[str], given: Any = None) -> tuple[Labels, list[Any]]:
    """Turn columns of labels into one set of labels and a column of indices each.

    Without ``given``, whole numbers come in ascending order and all other labels in the order in
    which they first appear, the first column before the second. With ``given`` the order is the
    user's, and a label that is not in it is an error.

    Returns
    -------
    labels : Labels
    codes : list of int32 array, one a column
    """
    arrays = [_array(column) for column in columns]
    if given is None and all(array is not None and array.dtype.kind in "iu" for array in arrays):
        return _encode_numbers(arrays)
    lists = [plain(column) for column in columns]
    if given is None:
        seen: dict[Any, int] = {}
        for name, items in zip(names, lists, strict=True):
            _collect(items, name, seen)
        found = list(seen)
        if found and all(type(item) is int for item in found):
            found.sort()
        labels = make_labels(found, None, noun)
    else:
        labels = make_labels(given, None, noun)
    codes = []
    for name, items in zip(names, lists, strict=True):
        if isinstance(labels, _Listed):
            code = labels.find_all(items)
        else:
            code = np.fromiter(map(labels.find, items), dtype=np.int32, count=len(items))
        unknown = np.flatnonzero(code < 0)
        if unknown.size:
            problems = [
                Problem(
                    f"row {i}: the {name} {items[i]!r} is not among the labels given by {noun}s="
                    + labels.near(items[i]),
                    value=items[i],
                    row=int(i),
                )
                for i in unknown[:100]
            ]
            raise ModelError(problems, total=int(unknown.size))
        codes.append(code)
    return labels, codes


def _array(column: Any) -> npt.NDArray[Any] | None:
    """The column as a flat array if it is one already (NumPy, pandas, polars, Arrow), else None."""
    if not isinstance(column, np.ndarray) and hasattr(column, "to_numpy"):
        column = np.asarray(column)
    return column if isinstance(column, np.ndarray) and column.ndim == 1 else None


def _collect(items: list[Any], name: str, seen: dict[Any, int]) -> None:
    """Add labels to ``seen`` in the order they come; each is looked at in Python only if it is new."""
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
            message = f"row {row}: the {name} {item!r} cannot be a label, it is not hashable; use a tuple"
            raise ModelError(Problem(message, value=item, row=row)) from None
        if is_missing(item):
            raise ModelError(Problem(f"row {row}: the {name} is missing ({item!r})", value=item, row=row))


def _encode_numbers(arrays: Sequence[Any]) -> tuple[Labels, list[Any]]:
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
    """Whether a label is no label: None, or what does not equal itself, as NaN, NaT and pandas' NA."""
    if item is None:
        return True
    try:
        return bool(item != item)  # noqa: PLR0124
    except TypeError:  # NA will not say
        return True


def _is_count(items: tuple[Any, ...]) -> bool:
    return all(type(item) is int and item == i for i, item in enumerate(items))
