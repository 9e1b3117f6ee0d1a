"""A log of Parquet files that is larger than memory: one file, or a directory of them, read piece by piece.

The files of a directory are read in the order of their names. The rows of an episode must follow each other, also from
one file to the next.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tether._foundation.problems import Source
from tether.errors import FileError, Problem
from tether.io.arrowfiles import open_footer, parquet_pieces
from tether.io.files import table_kind
from tether.logs.batches import FileStamps, PiecewiseLog, last_change

_WHOLE = 5_000_000
"""A Parquet file of up to this many rows is read as a whole, and may have its rows in any order."""

_PIECE = 1 << 17
"""How many rows are read at once, at least: an episode is never cut."""

_HASHED = 1 << 31
"""Up to this many bytes the contents of the files are hashed; beyond, their footers and times."""


def is_streamed(log: str | os.PathLike[str]) -> bool:
    """Whether a log is a directory, or a Parquet file with very many rows."""
    if os.path.isdir(log):
        return True
    if table_kind(log) != "parquet":
        return False
    with open_footer(log) as opened:
        return bool(opened.metadata.num_rows > _WHOLE)


@dataclass(frozen=True, eq=False)
class StreamedLog(PiecewiseLog):
    """Parquet files, in the order in which they are read, with how many rows each has."""

    files: tuple[Path, ...]
    rows: tuple[int, ...]

    @classmethod
    def of(cls, log: str | os.PathLike[str], reading: dict[str, Any]) -> StreamedLog:
        """The files of a directory, or the one file."""
        name, place = os.fspath(log), Path(log)
        files = tuple(files_in(place)) if place.is_dir() else (place,)
        if not files:
            raise FileError(Problem("there are no Parquet files in this directory", file=name))
        stamps = FileStamps.of(files)
        column = (reading["columns"] or {}).get("episode", "episode")
        rows, whole = [], True
        for file in files:
            with open_footer(file) as opened:
                if column not in opened.schema_arrow.names:
                    raise FileError(Problem(f"the column {column!r} is missing", file=str(file), argument="columns"))
                whole = whole and pa.types.is_integer(opened.schema_arrow.field(column).type)
                rows.append(opened.metadata.num_rows)
        return cls(name, reading, whole, files, tuple(rows), stamps=stamps)

    @property
    def n_rows(self) -> int:
        """By the footers of the files."""
        return sum(self.rows)

    def digest(self) -> str:
        """Of the contents and how they are read; of very large files, of their footers, sizes and times."""
        digest = hashlib.sha256(repr(self.reading).encode())
        sizes = [file.stat().st_size for file in self.files]
        for file, size in zip(self.files, sizes, strict=True):
            digest.update(repr((file.name, size)).encode())
            with file.open("rb") as stream:
                if sum(sizes) > _HASHED:
                    digest.update(repr(file.stat().st_mtime_ns).encode())
                    stream.seek(max(0, size - (1 << 16)))
                while block := stream.read(1 << 20):
                    digest.update(block)
        return digest.hexdigest()

    def pieces(self) -> Iterator[tuple[Any, int, Source | None]]:
        """Whole episodes, many rows at a time, with how many these are, and which rows of the log."""
        column = (self.reading["columns"] or {}).get("episode", "episode")
        waiting: list[Any] = []
        before, size = 0, 0
        for table in (table for file in self.files for table in parquet_pieces(file, _PIECE // 2)):
            waiting.append(table)
            size += table.num_rows
            if size < _PIECE:
                continue
            joined = self._joined(waiting)
            cut = last_change(joined.column(column))
            if cut > 0:
                yield joined.slice(0, cut), cut, Source(self.name, before=before)
                before, joined = before + cut, joined.slice(cut)
            waiting, size = [joined.combine_chunks()], joined.num_rows
        if size:
            yield self._joined(waiting), size, Source(self.name, before=before)

    def _joined(self, tables: list[Any]) -> Any:
        try:
            return pa.concat_tables(tables, promote_options="default")
        except pa.ArrowException as error:
            fix = "give each column the same type in all of them"
            raise FileError(Problem(f"its files do not fit together: {error}", file=self.name, fix=fix)) from None


def files_in(folder: Path) -> list[Path]:
    """Parquet files in a directory and below it, except hidden ones."""
    found = [file for suffix in ("parquet", "pq") for file in folder.rglob(f"*.{suffix}")]
    return sorted(file for file in found if not any(part[0] in "._" for part in file.relative_to(folder).parts))
