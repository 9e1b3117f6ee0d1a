"""Parquet and Arrow files, and Arrow tables on their way into files of any kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tether._writing import written
from tether.errors import QueryError
from tether.io.files import File, ends_of, file_error, name_of, read_bytes
from tether.io.names import are_whole, texts_of
from tether.model.names import Names

__all__ = ["guarded", "label_column", "open_arrow", "open_parquet", "require_pyarrow", "write_arrow"]

Opened = tuple[list[str], Callable[[list[str]], Any]]
"""The names of a file's columns, and a way to read some of them."""


def require_pyarrow() -> None:
    """Say in one sentence what is missing where pyarrow is."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise QueryError("reading and writing tables needs pyarrow: pip install pyarrow") from None


def open_parquet(file: File) -> Opened:
    """Open a Parquet file."""
    from pyarrow import parquet

    head, tail = ends_of(file, 4)
    if not head:
        raise file_error(file, "the file is empty; expected a Parquet file")
    if head != b"PAR1":
        raise file_error(file, "this is not a Parquet file, whatever its name says")
    if tail != b"PAR1":
        raise file_error(file, "the file is cut off: it begins as Parquet, but does not end so; copy it again")
    opened = guarded(file, "a Parquet file", lambda: parquet.ParquetFile(name_of(file)))

    def load(names: list[str]) -> Any:
        return guarded(file, "a Parquet file", lambda: _valid(opened.read(columns=names).select(names)))

    return list(opened.schema_arrow.names), load


def open_arrow(file: File) -> Opened:
    """Open an Arrow file: Feather, or IPC as a file or a stream."""
    from pyarrow import ipc

    data = read_bytes(file)
    if not data:
        raise file_error(file, "the file is empty; expected an Arrow file")

    if data.startswith(b"FEA1"):
        raise file_error(file, "this is the old Feather, version 1; save it again in version 2, which is Arrow")

    def read() -> Any:
        opened = ipc.open_file(data) if data.startswith(b"ARROW1") else ipc.open_stream(data)
        return opened.read_all()

    table = guarded(file, "an Arrow file", lambda: _valid(read()))
    return list(table.column_names), table.select


def _valid(table: Any) -> Any:
    """The table, if its parts fit together: a damaged one would be read beyond its memory."""
    table.validate(full=True)
    return table


def guarded(file: File, what: str, read: Callable[[], Any]) -> Any:
    """Arrow's errors as ours."""
    import pyarrow as pa

    try:
        return read()
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, MemoryError, OverflowError) as error:
        told = str(error).splitlines()[0] if str(error) else type(error).__name__
        wrong = f"it cannot be read as {what}; it is damaged, or something else: {told}"
        raise file_error(file, wrong) from None


def label_column(labels: Names, noun: str, file: File, kind: str) -> Any:
    """Names as an Arrow column: whole numbers as such, all else as text, if each can be told again."""
    import pyarrow as pa

    if are_whole(labels):
        return pa.array(list(labels), pa.int64())
    return pa.array(texts_of(labels, noun, name_of(file), trimmed=kind in ("csv", "tsv")), pa.string())


def write_arrow(table: Any, file: File, kind: str) -> None:
    """Write an Arrow table as CSV, TSV, Parquet or Arrow; text is compressed where the name ends in ``.gz``."""
    import pyarrow as pa
    from pyarrow import csv, ipc, parquet

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
