"""From columns of names to indices: whole columns at once, if they are numbers or Arrow's dictionary codes.

Only the distinct names are handled in Python. A list of Python objects is the exception: every item is handled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from tether._foundation.arrays import Ints
from tether._foundation.problems import Complaints, Source
from tether.errors import ModelError, Problem
from tether.model.names import Names, as_array, is_missing, make_names, plain, trusted_names

EMPTY = -1
"""The code of an empty cell."""

UNUSABLE = -2
"""The code of a cell that cannot be a name."""


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """A column of names, by code.

    Attributes
    ----------
    names : sequence
        The distinct names, in the order in which they first appear.
    codes : array (rows,)
        Which name each cell holds; -1 for an empty cell.

    Examples
    --------
    >>> import numpy as np
    >>> from tether.model.encode import Coded
    >>> column = Coded(["sick", "well"], np.array([0, 0, 1, -1]))
    >>> column.tolist(), column[2]
    (['sick', 'sick', 'well', None], 'well')
    """

    names: Sequence[Any]
    codes: Ints

    def __len__(self) -> int:
        return int(self.codes.size)

    def __getitem__(self, row: int) -> Any:
        code = int(self.codes[row])
        return None if code < 0 else self.names[code]

    def empty_rows(self) -> Ints:
        """The rows of the empty cells; usually there are none, and then no array is made to find this out."""
        there = self.codes.size and self.codes.min() < 0
        return np.flatnonzero(self.codes == EMPTY) if there else np.empty(0, np.int64)

    def tolist(self) -> list[Any]:
        """The name of each cell, None if it is empty."""
        lookup = np.empty(len(self.names) + 1, dtype=object)
        for code, name in enumerate(self.names):  # one by one: NumPy would take a tuple apart
            lookup[code] = name
        items: list[Any] = lookup[np.maximum(self.codes, EMPTY)].tolist()  # -1 finds the last, which is None
        return items


def encode(
    columns: Sequence[Any],
    noun: str,
    headings: Sequence[str],
    given: Any = None,
    *,
    complaints: Complaints | None = None,
    blank: bool = False,
) -> tuple[Names, list[Ints]]:
    """Turn columns of names into one set of names and a column of indices each.

    Without ``given``, whole numbers come in ascending order and all other names in the order in which they first
    appear, the first column before the second. With ``given`` the order is the user's, and a name that is not in it
    is an error.

    Parameters
    ----------
    columns : sequence of columns
        Lists, arrays, dataframe columns, or `Coded`.
    noun : str
        What is named: "state", "action".
    headings : sequence of str
        The heading of each column, for messages.
    given : iterable of hashable, optional
        The names, in the order wanted.
    complaints : Complaints, optional
        Where to note cells that cannot be names; by default they raise a `ModelError`.
    blank : bool
        Whether cells may be empty (None, NaN or the empty text).

    Returns
    -------
    names : Names
    codes : list of int32 array, one per column
        -1 for an empty cell, -2 for one that was noted.
    """
    found = Complaints(Source(), ModelError) if complaints is None else complaints
    arrays = [as_integers(column) for column in columns]
    if given is None and all(array is not None for array in arrays):
        return _encode_numbers([array for array in arrays if array is not None])
    parts = [coded(column, heading, found, blank=blank) for column, heading in zip(columns, headings, strict=True)]
    if complaints is None:
        found.raise_any()
    if given is None and all(part.names is parts[0].names for part in parts) and _in_order(parts[0].names):
        return trusted_names(parts[0].names), [part.codes.astype(np.int32, copy=False) for part in parts]
    names = _merged(parts) if given is None else make_names(given, None, noun)
    codes = [_found_in(names, part, heading, noun, found) for part, heading in zip(parts, headings, strict=True)]
    if complaints is None:
        found.raise_any()
    return names, codes


def coded(column: Any, heading: str, complaints: Complaints, *, blank: bool = False) -> Coded:
    """Any column as names and codes; cells that cannot be names are noted, and get the code -2."""
    if isinstance(column, Coded):
        if not blank:
            _note_missing(column.empty_rows(), heading, lambda _: None, complaints)
        return column
    numbers = as_integers(column)
    if numbers is not None:
        return _coded_numbers(numbers)
    items = plain(column)
    index: dict[Any, int] = {}
    try:
        codes = np.fromiter((index.setdefault(item, len(index)) for item in items), np.int64, count=len(items))
    except TypeError:
        codes = _number_off(items, index, heading, complaints)
    empty = [code for item, code in index.items() if is_missing(item) or (blank and _is_no_text(item))]
    if not empty:
        return Coded(list(index), codes)
    if not blank:
        _note_missing(np.flatnonzero(np.isin(codes, empty)), heading, items.__getitem__, complaints)
    kept = np.array([code for code in range(len(index)) if code not in {*empty}], dtype=np.int64)
    table = np.full(len(index) + 2, EMPTY, dtype=np.int64)
    table[kept] = np.arange(kept.size)
    table[UNUSABLE] = UNUSABLE
    distinct = list(index)
    return Coded([distinct[code] for code in kept.tolist()], table[codes])


def as_integers(column: Any) -> npt.NDArray[Any] | None:
    """The column as a flat array if it is one of whole numbers already (NumPy, pandas, polars, Arrow), else None."""
    if isinstance(column, Coded):
        return None
    array = as_array(column)
    return array if array is not None and array.dtype.kind in "iu" else None


def _number_off(items: list[Any], index: dict[Any, int], heading: str, complaints: Complaints) -> Ints:
    """Number items in their order, equal items alike; items that cannot be hashed are noted."""
    codes = np.full(len(items), UNUSABLE, dtype=np.int64)
    for row, item in enumerate(items):
        try:
            codes[row] = index.setdefault(item, len(index))
        except TypeError:
            what = f"the {heading} {item!r} cannot be a name, it is not hashable"
            complaints.add(what, row=row, value=item, fix="use a tuple")
    return codes


def _is_no_text(item: Any) -> bool:
    return isinstance(item, str) and not item


def _note_missing(rows: Ints, heading: str, item: Callable[[int], Any], complaints: Complaints) -> None:
    complaints.add_each(rows, lambda row: Problem(f"the {heading} is missing ({item(row)!r})", value=item(row)))


def _merged(parts: Sequence[Coded]) -> Names:
    """All names of some columns: whole numbers ascending, others as they first appear, column by column."""
    found = list(dict.fromkeys(chain.from_iterable(part.names for part in parts)))
    if all(type(item) is int for item in found):
        found.sort()
    return trusted_names(found)


def _in_order(names: Sequence[Any]) -> bool:
    """Whether `_merged` would leave the names as they are: it sorts whole numbers."""
    return any(type(name) is not int for name in names)


def _found_in(names: Names, part: Coded, heading: str, noun: str, complaints: Complaints) -> Ints:
    """The codes of a column in the order of ``names``; codes of cells without a name do not change."""
    table = np.empty(len(part.names) + 2, dtype=np.int32)
    table[:-2] = names.find_all(part.names)
    table[-2:] = UNUSABLE, EMPTY
    unknown = np.flatnonzero(table[:-2] < 0)
    if unknown.size:

        def problem(row: int) -> Problem:
            what = f"the {heading} {part[row]!r} is not among the names given by {noun}s={names.near(part[row])}"
            return Problem(what, value=part[row], argument=f"{noun}s")

        complaints.add_each(np.flatnonzero(np.isin(part.codes, unknown)), problem)
    codes: Ints = table[part.codes]
    return codes


def _coded_numbers(array: npt.NDArray[Any]) -> Coded:
    values, first, codes = np.unique(array, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(order.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    return Coded(values[order].tolist(), place[codes])


def _encode_numbers(arrays: Sequence[npt.NDArray[Any]]) -> tuple[Names, list[Ints]]:
    """Whole numbers, encoded in ascending order: by a table where they are dense, else by sorting."""
    filled = [array for array in arrays if array.size]
    if not filled:
        return trusted_names([]), [np.empty(0, np.int32) for _ in arrays]
    low = min(int(array.min()) for array in filled)
    high = max(int(array.max()) for array in filled)
    span = high - low + 1
    # One type for all: a narrow one would overflow, and int64 beside uint64 would turn into floats.
    wide: Any = np.int64 if high < 2**63 else np.uint64 if low >= 0 else object
    arrays = [array.astype(wide, copy=False) for array in arrays]
    if span <= 4 * sum(array.size for array in filled) + 1024 and wide is np.int64:
        shifted = arrays if low == 0 else [array - low for array in arrays]
        present = np.zeros(span, dtype=bool)
        for array in shifted:
            present[array] = True
        if present.all() and low == 0:
            return make_names(None, span, ""), [array.astype(np.int32) for array in arrays]
        codes_of = np.cumsum(present, dtype=np.int32) - np.int32(1)
        found = np.flatnonzero(present) + low
        codes = [codes_of[array] for array in shifted]
    else:
        found = np.unique(np.concatenate([np.unique(array) for array in arrays]))
        codes = [np.searchsorted(found, array).astype(np.int32) for array in arrays]
    return trusted_names(found.tolist()), codes
