"""From the cells of a column to names or numbers; all problems with them are collected.

Names in a text file are whole numbers if every cell is one, else text without the spaces around it. Elsewhere the
column's type decides, but whole floats become ints: a dataframe turns ints into floats if one is missing.

Columns of text are numbered first, as codes: Arrow finds the distinct values, and Python handles only these.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tether._foundation.arrays import Ints
from tether._foundation.problems import Complaints
from tether.errors import Problem
from tether.model.encode import EMPTY, UNUSABLE, Coded, coded
from tether.model.names import is_missing

_THREADS = 4
"""How many columns are handled at once."""

_FIRST = 1000
"""How many cells of a column are tried before all of them are handled."""


def encoded_together(columns: list[Any]) -> tuple[list[Any], list[Ints]]:
    """The distinct texts of several columns, trimmed, and which of them each cell holds: -1 for an empty one.

    The first column is numbered in its order. The cells of the others are looked up among its values; only new values
    get new numbers.
    """
    values, codes = encoded(columns[0])
    all_codes = [codes]
    for column in columns[1:]:
        codes = _flat(pc.index_in(column, options=pc.SetLookupOptions(values)))
        new = np.flatnonzero(codes < 0) if codes.size and codes.min() < 0 else np.empty(0, np.int64)
        if new.size:
            more, codes[new] = encoded(column.take(pa.array(new)))
            codes[new] += len(values)
            values = pa.concat_arrays([values, more])
        all_codes.append(codes)
    labels, table = names_among(pc.utf8_trim_whitespace(values))
    return labels, [mapped(codes, table) for codes in all_codes]


def _flat(column: Any) -> Ints:
    """The numbers of a column as one array of its own, -1 where there is none."""
    chunks = [chunk.fill_null(EMPTY) if chunk.null_count else chunk for chunk in column.chunks]
    return np.concatenate([np.empty(0, np.int32), *(chunk.to_numpy() for chunk in chunks)])


def mapped(codes: Ints, table: Ints) -> Ints:
    """Codes mapped by a table, which usually changes nothing."""
    return codes if np.array_equal(table[:-1], np.arange(table.size - 1)) else table[codes]


def encoded(column: Any) -> tuple[Any, Ints]:
    """The distinct values of a column in the order in which they first appear, and which of them each cell holds."""
    if pa.types.is_dictionary(column.type):
        values, indices = _in_one_dictionary(column.unify_dictionaries())
        return _by_appearance(values, _flat(indices.cast(pa.int32())))
    values, indices = _in_one_dictionary(column.dictionary_encode())
    return values, _flat(indices)


def _in_one_dictionary(column: Any) -> tuple[Any, Any]:
    """The dictionary that all chunks of a column have, and the column of their indices."""
    if not column.num_chunks:
        return pa.array([], column.type.value_type), pa.chunked_array([], pa.int32())
    values = column.chunk(0).dictionary
    assert all(chunk.dictionary.equals(values) for chunk in column.chunks[1:]), "Arrow gives all chunks one dictionary"
    return values, pa.chunked_array([chunk.indices for chunk in column.chunks])


def _by_appearance(values: Any, codes: Ints) -> tuple[Any, Ints]:
    """The values that occur, in the order of first use: a dictionary may have another order, and other values."""
    first = np.full(len(values) + 1, codes.size)  # the last place is that of empty cells
    first[codes[::-1]] = np.arange(codes.size - 1, -1, -1)  # where a code occurs often, its first row is kept
    first = first[:-1]
    if np.all(first[1:] > first[:-1]) and np.all(first[-1:] < codes.size):
        return values, codes
    order = np.argsort(first, kind="stable")[: np.count_nonzero(first < codes.size)]
    table = np.full(len(values) + 1, EMPTY, dtype=np.int32)
    table[order] = np.arange(order.size)
    return values.take(pa.array(order)), table[codes]


def names_among(values: Any) -> tuple[list[Any], Ints]:
    """The names among some values, each once, and which of them each value is: -1 for the empty text and for null.

    The table of these has one place more, the last: it is that of cells that are empty.
    """
    distinct = values.dictionary_encode()
    found = distinct.dictionary.to_pylist()
    if len(found) == len(values) and all(found):
        return found, np.append(np.arange(len(found), dtype=np.int32), np.int32(EMPTY))
    there = np.array([bool(label) for label in found], dtype=bool)
    place = np.append(np.where(there, np.cumsum(there) - 1, EMPTY), EMPTY)
    codes = distinct.indices.cast("int64").fill_null(EMPTY).to_numpy()
    return [label for label in found if label], np.append(place[codes], EMPTY).astype(np.int32)


Array = np.ndarray[Any, Any]

_WHOLE = re.compile(r"(0|-?[1-9][0-9]{0,18})(\.0+)?")
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$|^[+-]?(?i:nan|inf|infinity)$"
DECIMAL_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+")
"""A number with a decimal comma."""


def labels_of_text(
    columns: dict[str, Any], complaints: Complaints, blank: Sequence[str], *, as_text: bool = False
) -> dict[str, Array | Coded]:
    """The names in columns of a text file that name the same things: all whole numbers, or all text.

    Arrow numbers the distinct values of text, and only these are handled in Python. ``as_text`` says that the names are
    text: for a piece of a file that has text in another piece.
    """
    if not as_text:
        with ThreadPoolExecutor(_THREADS) as pool:
            numbers = dict(zip(columns, pool.map(_plainly_whole, columns.values()), strict=True))
        if all(column is not None for column in numbers.values()):
            return {name: column for name, column in numbers.items() if column is not None}
    labels, codes = encoded_together(list(columns.values()))
    texts = {name: Coded(labels, of_column) for name, of_column in zip(columns, codes, strict=True)}
    empty = {name: column.empty_rows() for name, column in texts.items()}
    for name, rows in empty.items():
        _note_empty(rows, name, "a name", complaints, name in blank)
    whole = None if as_text else _whole_if_all(labels)
    if whole is None:
        return dict(texts)
    lookup = np.array(whole, dtype=np.int64)
    return {
        name: Coded(whole, column.codes) if empty[name].size else lookup[column.codes] for name, column in texts.items()
    }


def are_all_whole(column: Any) -> bool:
    """Whether all cells of a text column are whole numbers, or empty."""
    if _plainly_whole(column) is not None:
        return True
    values, _ = encoded(column)
    labels, _ = names_among(pc.utf8_trim_whitespace(values))
    return not labels or _whole_if_all(labels) is not None


def labels_of_arrow(column: Any, name: str, complaints: Complaints, *, blank: bool) -> Array | Coded:
    """The names of an Arrow column; its type decides what they are. Cells may be empty if ``blank``."""
    column = _plain_column(column)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        values, codes = encoded(column)
        labels, table = names_among(values)
        texts = Coded(labels, mapped(codes, table))
        _note_empty(texts.empty_rows(), name, "a name", complaints, blank)
        return texts
    if kind != column.type:
        column = _without_dictionary(column)
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        return _number_labels(column, name, complaints, blank)
    try:
        items = column.to_pylist()
    except (pa.ArrowException, ValueError, OverflowError, TypeError, RecursionError) as error:
        complaints.add(f"the column {name!r} holds {kind}, which cannot be read as names: {error}")
        return np.zeros(len(column), np.int64)
    return labels_of_list(items, name, complaints, blank=blank)


def labels_of_list(items: list[Any], name: str, complaints: Complaints, *, blank: bool) -> Array | Coded:
    """The names of a list of Python objects."""
    labels = [_hashable(item) for item in items]
    found = Complaints(complaints.source)
    column = coded(labels, name, found, blank=True)
    complaints.add_each(
        np.flatnonzero(column.codes == UNUSABLE),
        lambda row: Problem(
            f"{cut_repr(items[row])} in the column {name!r} cannot be a name, it is not hashable", fix="use a tuple"
        ),
    )
    _note_empty(column.empty_rows(), name, "a name", complaints, blank)
    kinds = {type(label) for label in column.names}
    if kinds == {float} and all(label.is_integer() for label in column.names):
        column = Coded([int(label) for label in column.names], column.codes)
        kinds = {int}
    if kinds == {int} and np.all(column.codes >= 0) and all(-(2**63) <= label < 2**63 for label in column.names):
        return np.array(column.names, dtype=np.int64)[column.codes]
    return column


def numbers_of_arrow(column: Any, name: str, complaints: Complaints, *, text: bool, blank: bool) -> Array:
    """The numbers of an Arrow column, as ints if all are whole; an empty cell, if ``blank`` allows it, is NaN."""
    column = _plain_column(column)
    if pa.types.is_dictionary(column.type):
        column = _without_dictionary(column)
    kind = column.type
    if pa.types.is_null(kind):
        column = column.cast(pa.float64())
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        if not text:
            complaints.add(f"the column {name!r} holds text, not numbers", fix="convert it first")
            return np.zeros(len(column))
        column = _parsed(column, name, complaints, blank)
    elif not _is_number_type(kind):
        complaints.add(f"the column {name!r} holds {kind}, not numbers")
        return np.zeros(len(column))
    empty = np.flatnonzero(pc.is_null(column).to_numpy()) if column.null_count else np.empty(0, np.int64)
    if not text:
        _note_empty(empty, name, "a number", complaints, blank)
    if pa.types.is_integer(column.type) and not empty.size:
        return np.asarray(column.to_numpy())
    return _ints_if_whole(np.asarray(column.cast(pa.float64()).to_numpy()))


def numbers_of_list(items: list[Any], name: str, complaints: Complaints, *, blank: bool) -> Array:
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
    complaints.add_each(np.array(wrong, dtype=np.int64), lambda row: _not_a_number(items[row], name))
    _note_empty(np.array(empty, dtype=np.int64), name, "a number", complaints, blank)
    return _ints_if_whole(numbers)


def _plain_column(column: Any) -> Any:
    """String views become strings, half floats become floats; a categorical column stays one."""
    if pa.types.is_dictionary(column.type):
        values = _plain_type(column.type.value_type)
        if values != column.type.value_type:
            return _without_dictionary(column)
        return column
    return column.cast(_plain_type(column.type))


def _without_dictionary(column: Any) -> Any:
    values = _plain_type(column.type.value_type)
    chunks = [chunk.dictionary.cast(values).take(chunk.indices) for chunk in column.chunks]
    return pa.chunked_array(chunks, values)


def _plain_type(kind: Any) -> Any:
    if pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.float32() if pa.types.is_float16(kind) else kind


def _is_number_type(kind: Any) -> bool:
    return any(fits(kind) for fits in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal))


def _plainly_whole(column: Any) -> Array | None:
    """The column as ints if all are written as Python writes them, which is fast; else None."""
    try:
        column.slice(0, _FIRST).cast(pa.int64())  # fails early for a column of words
        numbers = np.asarray(column.cast(pa.int64()).to_numpy())
    except pa.ArrowInvalid:
        return None
    # Arrow also reads 007, -0 and 0x7 as numbers. Without a sign they all begin with 0 and have more characters.
    zeros = pc.starts_with(column, "0")
    longer = pc.max(pc.binary_length(column.filter(zeros))).as_py()
    if longer is not None and longer > 1:
        return None
    signed = numbers.size > 0 and (numbers.min() < 0 or np.count_nonzero(numbers == 0) != pc.sum(zeros).as_py())
    return None if signed and pc.any(pc.starts_with(column, "-0")).as_py() else numbers


def _whole_if_all(labels: list[str]) -> list[int] | None:
    """The names as ints if all are whole numbers, written plainly (``007`` is a name)."""
    if not labels or not all(_WHOLE.fullmatch(label) for label in labels):
        return None
    numbers = [int(label.partition(".")[0]) for label in labels]
    return numbers if all(-(2**63) <= number < 2**63 for number in numbers) else None


def _number_labels(column: Any, name: str, complaints: Complaints, blank: bool) -> Array | Coded:
    missing = pc.is_null(column, nan_is_null=True)
    rows = np.flatnonzero(np.asarray(missing.to_numpy()))
    _note_empty(rows, name, "a name", complaints, blank)
    if pa.types.is_floating(column.type):
        filled = np.asarray(pc.if_else(missing, 0.0, column).to_numpy())
        labels = _ints_if_whole(filled)
    else:
        labels = np.asarray(column.fill_null(0).to_numpy())
    if not rows.size:
        return labels
    there = np.ones(labels.size, dtype=bool)
    there[rows] = False
    named = coded(labels[there], name, complaints)
    codes = np.full(labels.size, EMPTY)
    codes[there] = named.codes
    return Coded(named.names, codes)


def _parsed(column: Any, name: str, complaints: Complaints, blank: bool) -> Any:
    """Text cells as numbers; cells that are not numbers are problems, and become null."""
    column = pc.utf8_trim_whitespace(column)
    good = pc.match_substring_regex(column, _NUMBER)
    empty = pc.equal(column, "")
    _note_empty(np.flatnonzero(np.asarray(empty.to_numpy())), name, "a number", complaints, blank)
    bad = np.flatnonzero(np.asarray(pc.invert(pc.or_(good, empty)).to_numpy()))
    commas = np.array([bool(DECIMAL_COMMA.fullmatch(column[int(row)].as_py())) for row in bad], dtype=bool)
    complaints.add_group(bad[commas], lambda row: _not_a_number(column[row].as_py(), name))
    complaints.add_each(bad[~commas], lambda row: _not_a_number(column[row].as_py(), name))
    return pc.if_else(good, column, None).cast(pa.float64())


def _not_a_number(found: Any, name: str) -> Problem:
    comma = isinstance(found, str) and DECIMAL_COMMA.fullmatch(found)
    what, fix = f"found {cut_repr(found)} in the column {name!r}", "write it with a decimal point" if comma else ""
    return Problem(what, value=found, expectation="a number", fix=fix)


def _note_empty(rows: Ints, name: str, expectation: str, complaints: Complaints, blank: bool) -> None:
    if rows.size and not blank:
        what = f"the cell in the column {name!r} is empty"
        complaints.add_group(rows, lambda _: Problem(what, expectation=expectation))


def _ints_if_whole(numbers: Array) -> Array:
    return numbers.astype(np.int64) if _are_whole(numbers[:_FIRST]) and _are_whole(numbers) else numbers


def _are_whole(numbers: Array) -> bool:
    with np.errstate(invalid="ignore"):
        return bool(np.all(np.abs(numbers) < 2**53)) and bool(np.all(numbers == np.trunc(numbers)))


def _is_empty(item: Any) -> bool:
    return (isinstance(item, str) and not item) or is_missing(item)


def _hashable(item: Any) -> Any:
    """Lists as tuples; also the records of a nested column."""
    if isinstance(item, np.ndarray):
        item = item.tolist()
    if isinstance(item, list | tuple):
        return tuple(_hashable(one) for one in item) if type(item) in (list, tuple) else item
    if isinstance(item, dict):
        return tuple(_hashable(one) for one in item.values())
    return item.item() if isinstance(item, np.generic) else item


def cut_repr(item: Any) -> str:
    """A value as it was written, cut off if it is long."""
    try:
        text = repr(item)
    except RecursionError:
        text = f"a deeply nested {type(item).__name__}"
    return text if len(text) <= 60 else f"{text[:60]}…"
