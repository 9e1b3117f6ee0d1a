"""From the cells of a column to labels or numbers, with all that is wrong with them noted.

Names: in a text file, whole numbers if every cell is one, else text without the spaces around it; elsewhere
what the column's type says, whole floats being ints (a dataframe turns ints into floats where one is missing).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tether._types import Ints
from tether.io.rows import RowComplaints
from tether.model.names import is_missing

__all__ = ["cut", "labels_of_arrow", "labels_of_list", "made_alike", "numbers_of_arrow", "numbers_of_list"]

Array = np.ndarray[Any, Any]

_WHOLE = re.compile(r"(0|-?[1-9][0-9]{0,18})(\.0+)?")
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$|^[+-]?(?i:nan|inf|infinity)$"
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+")


def labels_of_arrow(column: Any, name: str, complaints: RowComplaints, *, text: bool, blank: bool) -> Array:
    """The labels of an Arrow column; of a text file if ``text``; an empty cell is None where ``blank`` allows it."""
    import pyarrow as pa

    column, kind = _plain_column(column)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _text_labels(column, name, complaints, whole=text, blank=blank)
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        return _number_labels(column, name, complaints, blank)
    try:
        items = column.to_pylist()
    except (pa.ArrowException, ValueError, OverflowError, TypeError) as error:
        complaints.about(f"the column {name!r} holds {kind}, which cannot be read as labels: {error}")
        return np.zeros(len(column), np.int64)
    return labels_of_list(items, name, complaints, blank=blank)


def labels_of_list(items: list[Any], name: str, complaints: RowComplaints, *, blank: bool) -> Array:
    """The labels of a list of Python objects."""
    labels = np.empty(len(items), dtype=object)
    empty, unhashable = [], []
    for row, item in enumerate(items):
        label = _hashable(item)
        try:
            hash(label)
        except TypeError:
            unhashable.append(row)
            continue
        if _is_empty(label):
            empty.append(row)
        else:
            labels[row] = label
    complaints.at_all(
        np.array(unhashable, dtype=np.int64),
        lambda row: f"{cut(items[row])} in the column {name!r} cannot be a name, it is not hashable; use a tuple",
    )
    _note_empty(np.array(empty, dtype=np.int64), name, "a label", complaints, blank)
    kinds = {type(label) for label in labels if label is not None}
    if kinds == {float} and all(label is None or label.is_integer() for label in labels):
        labels = np.array([None if label is None else int(label) for label in labels], dtype=object)
        kinds = {int}
    if kinds == {int} and not (empty or unhashable) and all(-(2**63) <= label < 2**63 for label in labels):
        return labels.astype(np.int64)
    return labels


def numbers_of_arrow(column: Any, name: str, complaints: RowComplaints, *, text: bool, blank: bool) -> Array:
    """The numbers of an Arrow column: whole ones as ints, where all are; an empty cell is NaN where allowed."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column, kind = _plain_column(column)
    if pa.types.is_null(kind):
        column = column.cast(pa.float64())
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        if not text:
            complaints.about(f"the column {name!r} holds text, not numbers; convert it first")
            return np.zeros(len(column))
        column = _parsed(column, name, complaints, blank)
    elif not _is_number_type(kind):
        complaints.about(f"the column {name!r} holds {kind}, not numbers")
        return np.zeros(len(column))
    empty = np.flatnonzero(pc.is_null(column).to_numpy()) if column.null_count else np.empty(0, np.int64)
    if not text:
        _note_empty(empty, name, "a number", complaints, blank)
    if pa.types.is_integer(column.type) and not empty.size:
        return np.asarray(column.to_numpy())
    return _ints_if_whole(np.asarray(column.cast(pa.float64()).to_numpy()))


def numbers_of_list(items: list[Any], name: str, complaints: RowComplaints, *, blank: bool) -> Array:
    """The numbers of a list of Python objects."""
    numbers = np.full(len(items), np.nan)
    empty, wrong = [], []
    for row, item in enumerate(items):
        try:
            if _is_empty(item):
                empty.append(row)
            elif isinstance(item, str | bytes):
                wrong.append(row)
            else:
                numbers[row] = float(item)
        except (TypeError, ValueError, OverflowError):
            wrong.append(row)
    complaints.at_all(
        np.array(wrong, dtype=np.int64),
        lambda row: f"expected a number in the column {name!r}, found {cut(items[row])}",
        lambda row: {"value": items[row]},
    )
    _note_empty(np.array(empty, dtype=np.int64), name, "a number", complaints, blank)
    return _ints_if_whole(numbers)


def made_alike(columns: dict[str, Array]) -> dict[str, Array]:
    """Columns of labels of the same things: the whole numbers of one are text if another holds text."""
    text = {name for name, column in columns.items() if _holds_text(column)}
    return {name: column if name in text or not text else _as_text(column) for name, column in columns.items()}


def _holds_text(column: Array) -> bool:
    """Whether the labels of a text file are text: the first that is not empty says it for all."""
    return column.dtype == object and isinstance(next((item for item in column if item is not None), None), str)


def _as_text(column: Array) -> Array:
    labels = np.empty(column.size, dtype=object)
    labels[:] = [None if item is None else str(item) for item in column.tolist()]
    return labels


def _plain_column(column: Any) -> tuple[Any, Any]:
    """Without the dictionary of a categorical column; views of text as text, half floats as floats."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        values = _plain_type(column.type.value_type)
        chunks = [chunk.dictionary.cast(values).take(chunk.indices) for chunk in column.chunks]
        column = pa.chunked_array(chunks, values)
    column = column.cast(_plain_type(column.type))
    return column, column.type


def _plain_type(kind: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.float32() if pa.types.is_float16(kind) else kind


def _is_number_type(kind: Any) -> bool:
    from pyarrow import types

    return any(fits(kind) for fits in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal))


def _text_labels(column: Any, name: str, complaints: RowComplaints, *, whole: bool, blank: bool) -> Array:
    """Text by its distinct values, of which a table of transitions has few."""
    import pyarrow.compute as pc

    if whole:
        quick = _plainly_whole(column)
        if quick is not None:
            return quick
        column = pc.utf8_trim_whitespace(column)
    items, codes = _encoded(column)
    empty = [i for i, item in enumerate(items) if not item]
    rows = np.flatnonzero(np.isin(codes, empty)) if empty else np.empty(0, np.int64)
    _note_empty(rows, name, "a label", complaints, blank)
    labels: list[Any] = [item or None for item in items]
    numbers = _whole_if_all(labels) if whole else None
    if numbers is not None and not rows.size:
        return np.array(numbers, dtype=np.int64)[codes]
    return np.asarray(np.array(numbers or labels, dtype=object)[codes])


def _encoded(column: Any) -> tuple[list[Any], Ints]:
    """The distinct values of a column, and which of them each cell holds."""
    chunks = column.dictionary_encode(null_encoding="encode").chunks
    if not chunks:
        return [], np.empty(0, np.int64)
    values = chunks[0].dictionary
    assert all(chunk.dictionary.equals(values) for chunk in chunks), "Arrow gives all chunks one dictionary"
    return values.to_pylist(), np.concatenate([chunk.indices.to_numpy() for chunk in chunks])


def _plainly_whole(column: Any) -> Array | None:
    """The column as ints if writing them again gives the same text: the quick way for most tables."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        numbers = column.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    same = pc.all(pc.equal(numbers.cast(column.type), column)).as_py()
    return np.asarray(numbers.to_numpy()) if same else None


def _whole_if_all(labels: list[str | None]) -> list[int | None] | None:
    """The labels as ints if all that are there are whole numbers, written plainly (``007`` is a name)."""
    there = [label for label in labels if label]
    if not there or not all(_WHOLE.fullmatch(label) for label in there):
        return None
    numbers = [None if label is None else int(label.partition(".")[0]) for label in labels]
    return numbers if all(number is None or -(2**63) <= number < 2**63 for number in numbers) else None


def _number_labels(column: Any, name: str, complaints: RowComplaints, blank: bool) -> Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    missing = pc.is_null(column, nan_is_null=True)
    rows = np.flatnonzero(np.asarray(missing.to_numpy()))
    _note_empty(rows, name, "a label", complaints, blank)
    if pa.types.is_floating(column.type):
        filled = np.asarray(pc.if_else(missing, 0.0, column).to_numpy())
        labels = _ints_if_whole(filled)
    else:
        labels = np.asarray(column.fill_null(0).to_numpy())
    if rows.size:
        labels = labels.astype(object)
        labels[rows] = None
    return labels


def _parsed(column: Any, name: str, complaints: RowComplaints, blank: bool) -> Any:
    """Text cells as numbers; those that are none are noted, and stand as null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = pc.utf8_trim_whitespace(column)
    good = pc.match_substring_regex(column, _NUMBER)
    empty = pc.equal(column, "")
    _note_empty(np.flatnonzero(np.asarray(empty.to_numpy())), name, "a number", complaints, blank)
    bad = np.flatnonzero(np.asarray(pc.invert(pc.or_(good, empty)).to_numpy()))
    complaints.at_all(bad, _not_a_number(column, name))
    return pc.if_else(good, column, None).cast(pa.float64())


def _not_a_number(column: Any, name: str) -> Callable[[int], str]:
    def message(row: int) -> str:
        found = column[row].as_py()
        hint = "; write it with a decimal point" if _DECIMAL_COMMA.fullmatch(found) else ""
        return f"expected a number in the column {name!r}, found {cut(found)}{hint}"

    return message


def _note_empty(rows: Ints, name: str, wanted: str, complaints: RowComplaints, blank: bool) -> None:
    if rows.size and not blank:
        complaints.at_all(rows, lambda _: f"the cell in the column {name!r} is empty; expected {wanted}")


def _ints_if_whole(numbers: Array) -> Array:
    with np.errstate(invalid="ignore"):
        whole = bool(np.all(np.abs(numbers) < 2**53)) and bool(np.all(numbers == np.trunc(numbers)))
    return numbers.astype(np.int64) if whole else numbers


def _is_empty(item: Any) -> bool:
    return (isinstance(item, str) and not item) or is_missing(item)


def _hashable(item: Any) -> Any:
    """Lists as tuples, the records of a nested column too."""
    if isinstance(item, np.ndarray):
        item = item.tolist()
    if isinstance(item, list | tuple):
        return tuple(_hashable(one) for one in item) if type(item) in (list, tuple) else item
    if isinstance(item, dict):
        return tuple(_hashable(one) for one in item.values())
    return item.item() if isinstance(item, np.generic) else item


def cut(item: Any, limit: int = 60) -> str:
    """What was found, as it was written, but not all of something long."""
    text = repr(item)
    return text if len(text) <= limit else f"{text[:limit]}…"
