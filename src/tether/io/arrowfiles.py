"""Parquet and Arrow files, and Arrow tables on their way into files of any kind."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from tether._foundation.writing import written
from tether.errors import FileError, Problem
from tether.io.files import File, ends_of, file_error, name_of, read_bytes, too_large, unpacked_limit
from tether.io.names_as_text import are_whole, texts_of
from tether.model.names import Names

Opened = tuple[list[str], Callable[[list[str]], Any]]
"""The names of a file's columns, and a way to read some of them."""


_SMALL = 1 << 17
"""Up to this many rows a file is read without threads: one that still reads when Python ends would abort it."""


def open_parquet(file: File, max_unpacked: int | str | None = None) -> Opened:
    """Open a Parquet file."""
    head, tail = ends_of(file, 4)
    if not head:
        raise file_error(file, Problem("the file is empty", expectation="a Parquet file"))
    if head != b"PAR1":
        raise file_error(file, "this is not a Parquet file, whatever its name says")
    if tail != b"PAR1":
        wrong = "the file is cut off: it begins like a Parquet file, but does not end like one"
        raise file_error(file, Problem(wrong, fix="copy it again"))
    opened = open_footer(file)

    def load(names: list[str]) -> Any:
        # In memory a row takes at least 8 bytes per column, even if it takes fewer in the file.
        limit = unpacked_limit(os.path.getsize(file), max_unpacked)
        rows = opened.metadata.num_rows
        if rows * 8 * max(len(names), 1) > limit:
            raise too_large(file, limit, f"its table of {rows:,} rows")
        with opened:
            return guarded(
                file, "a Parquet file", lambda: _valid(opened.read(names, use_threads=rows > _SMALL).select(names))
            )

    return list(opened.schema_arrow.names), load


def open_footer(file: File) -> Any:
    """Open a Parquet file of pyarrow's (`pyarrow.parquet.ParquetFile`), whose footer can be read."""
    from pyarrow import parquet

    def read() -> Any:
        opened = parquet.ParquetFile(name_of(file))
        _ = opened.schema_arrow.names  # which are decoded only now
        return opened

    return guarded(file, "a Parquet file", read)


def parquet_pieces(file: File, rows: int) -> Iterator[Any]:
    """The tables of a Parquet file, up to ``rows`` rows each, without errors of pyarrow and with valid cells."""
    with open_footer(file) as opened:
        batches = opened.iter_batches(batch_size=rows, use_threads=opened.metadata.num_rows > _SMALL)
        while (batch := guarded(file, "a Parquet file", lambda: next(batches, None))) is not None:
            yield guarded(file, "a Parquet file", partial(_valid, pa.Table.from_batches([batch])))


def open_arrow(file: File, max_unpacked: int | str | None = None) -> Opened:
    """Open an Arrow file: Feather, or IPC as a file or a stream."""
    data = read_bytes(file)
    if not data:
        raise file_error(file, Problem("the file is empty", expectation="an Arrow file"))
    if data.startswith(b"FEA1"):
        fix = "save it again in version 2, which is Arrow"
        raise file_error(file, Problem("this is the old Feather, version 1", fix=fix))
    limit = unpacked_limit(len(data), max_unpacked)
    table = guarded(file, "an Arrow file", lambda: _read_batches(file, data, limit))
    return guarded(file, "an Arrow file", lambda: list(table.column_names)), table.select


def _read_batches(file: File, data: bytes, limit: int) -> Any:
    """The table of an IPC file; each batch may be compressed by itself.

    A batch is validated before anything else is asked of it: even its size, if its data is damaged, can end the process
    with a segmentation fault.
    """
    from pyarrow import ipc

    if data.startswith(b"ARROW1"):
        opened = ipc.open_file(data)
        batches = (opened.get_batch(i) for i in range(opened.num_record_batches))
    else:
        opened = batches = ipc.open_stream(data)
    size, kept = 0, []
    for batch in batches:
        size += _valid(batch).nbytes
        if size > limit:
            raise too_large(file, limit)
        kept.append(batch)
    return pa.Table.from_batches(kept, opened.schema)


def _valid(data: Any) -> Any:
    """The table or batch, if it is valid: a damaged one would be read beyond its memory."""
    data.validate(full=True)
    return data


_OF_ARROW = (pa.ArrowException, OSError, ValueError, TypeError, KeyError, MemoryError, OverflowError)


def guarded(file: File, what: str, read: Callable[[], Any], errors: Any = _OF_ARROW) -> Any:
    """What a library reads; its errors become the error for a damaged file."""
    try:
        return read()
    except FileError:
        raise
    except errors as error:
        raise damaged(file, what, error) from None


def damaged(file: File, what: str, error: BaseException) -> FileError:
    """The error for a file that a library could not read."""
    reason = next(iter(str(error).splitlines()), "") or type(error).__name__
    return file_error(file, f"it cannot be read as {what}; it is damaged, or something else: {reason}")


def label_column(labels: Names, noun: str, file: File, kind: str) -> Any:
    """Names as an Arrow column: whole numbers, or otherwise text, if each can be recognised when it is read."""
    if are_whole(labels):
        return pa.array(list(labels), pa.int64())
    return pa.array(texts_of(labels, noun, name_of(file), trimmed=kind in ("csv", "tsv")), pa.string())


def write_arrow(table: Any, file: File, kind: str) -> None:
    """Write an Arrow table as CSV, TSV, Parquet or Arrow; text is compressed if the name ends in ``.gz``."""
    from pyarrow import csv, ipc, parquet

    if kind == "xlsx":
        raise file_error(file, Problem("Excel files are read, not written", fix="write .csv, which Excel opens"))
    compression = "gzip" if name_of(file).lower().endswith(".gz") else None
    with written(file) as partial:
        if kind == "parquet":
            parquet.write_table(table, str(partial))
        elif kind == "arrow":
            with ipc.new_file(str(partial), table.schema, options=ipc.IpcWriteOptions(compression="lz4")) as writer:
                writer.write_table(table)
        else:
            separator = "\t" if kind == "tsv" else ","
            with pa.output_stream(str(partial), compression=compression) as stream:
                stream.write((separator.join(table.column_names) + "\n").encode())
                csv.write_csv(table, stream, csv.WriteOptions(include_header=False, delimiter=separator))
