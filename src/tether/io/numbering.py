"""Columns of text as codes: Arrow numbers the distinct values, and Python handles only these."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from tether._foundation.arrays import Ints
from tether.model.encode import EMPTY

__all__ = ["encoded", "encoded_together", "mapped", "names_among"]

_THREADS = 4
"""How many parts of a column are handled at once."""

_FIRST = 1000
"""How many cells are checked to find whether a column has long runs of equal cells."""

_MANY = 1 << 19
"""From this many cells on, methods for large columns are faster."""


def encoded_together(columns: list[Any]) -> tuple[list[Any], list[Ints]]:
    """The distinct texts of several columns, trimmed, and which of them each cell holds: -1 for an empty one.

    The first column is numbered in its order. The cells of the others are looked up among its values; only new values
    get new numbers.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    values, codes = encoded(columns[0])
    all_codes = [codes]
    for column in columns[1:]:
        codes = _looked_up(column, values)
        new = np.flatnonzero(codes < 0) if codes.size and codes.min() < 0 else np.empty(0, np.int64)
        if new.size:
            more, codes[new] = encoded(column.take(pa.array(new)))
            codes[new] += len(values)
            values = pa.concat_arrays([values, more])
        all_codes.append(codes)
    labels, table = names_among(pc.utf8_trim_whitespace(values))
    return labels, [mapped(codes, table) for codes in all_codes]


def _looked_up(column: Any, values: Any) -> Ints:
    """The position of each cell among some distinct values; -1 if it is not there."""
    import pyarrow as pa
    import pyarrow.compute as pc

    among = pc.SetLookupOptions(values)
    if len(column) < _MANY:
        return _flat(pc.index_in(column, options=among))
    from pyarrow.acero import Declaration, ProjectNodeOptions, TableSourceNodeOptions

    # A plan looks up rows on all cores, in one table of the values; its rows come out in the order of the table.
    source = Declaration("table_source", TableSourceNodeOptions(pa.table([column], ["cell"])))
    places = ProjectNodeOptions([pc.index_in(pc.field("cell"), options=among)], ["place"])
    return _flat(Declaration("project", places, [source]).to_table().column("place"))


def _flat(column: Any) -> Ints:
    """The numbers of a column as one array of its own, -1 where there is none."""
    chunks = [chunk.fill_null(EMPTY) if chunk.null_count else chunk for chunk in column.chunks]
    return np.concatenate([np.empty(0, np.int32), *(chunk.to_numpy() for chunk in chunks)])


def mapped(codes: Ints, table: Ints) -> Ints:
    """Codes mapped by a table, which usually changes nothing."""
    return codes if np.array_equal(table[:-1], np.arange(table.size - 1)) else table[codes]


def encoded(column: Any) -> tuple[Any, Ints]:
    """The distinct values of a column in the order in which they first appear, and which of them each cell holds."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        values, indices = _in_one_dictionary(column.unify_dictionaries())
        return _by_appearance(values, _flat(indices.cast(pa.int32())))
    runs = _runs(column)
    if runs is None:
        values, indices = _in_one_dictionary(column.dictionary_encode())
        return values, _flat(indices)
    values, indices = _in_one_dictionary(runs.values.dictionary_encode())
    return values, np.repeat(_flat(indices), runs.lengths)


def _in_one_dictionary(column: Any) -> tuple[Any, Any]:
    """The dictionary that all chunks of a column have, and the column of their indices."""
    import pyarrow as pa

    if not column.num_chunks:
        return pa.array([], column.type.value_type), pa.chunked_array([], pa.int32())
    values = column.chunk(0).dictionary
    assert all(chunk.dictionary.equals(values) for chunk in column.chunks[1:]), "Arrow gives all chunks one dictionary"
    return values, pa.chunked_array([chunk.indices for chunk in column.chunks])


class _Runs(NamedTuple):
    """A column by its runs of equal cells: the value of each, and how many cells it has."""

    values: Any
    lengths: Ints


def _runs(column: Any) -> _Runs | None:
    """The runs of a column, if its first cells show long ones: most tables are sorted by state."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if len(column) < _MANY or 2 * len(pc.run_end_encode(column.chunk(0)[:_FIRST]).values) > _FIRST:
        return None
    with ThreadPoolExecutor(_THREADS) as pool:
        chunks = list(pool.map(pc.run_end_encode, column.chunks))
    lengths = [np.diff(chunk.run_ends.to_numpy(), prepend=np.int32(0)) for chunk in chunks]
    return _Runs(pa.chunked_array([chunk.values for chunk in chunks]), np.concatenate(lengths))


def _by_appearance(values: Any, codes: Ints) -> tuple[Any, Ints]:
    """The values that occur, in the order of first use: a dictionary may have another order, and other values."""
    import pyarrow as pa

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
