"""The table of episodes, some columns or some rows at a time: a table in memory, or a file that may be larger."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether.auditing.consistency import ROUNDING

if TYPE_CHECKING:
    import pyarrow

__all__ = ["EpisodeRows", "FileRows", "TableRows", "find_problems", "find_top", "is_more"]

_AT_ONCE = 1 << 16
"""How many rows are read together."""


class EpisodeRows(Protocol):
    """The rows of the table of episodes, in the log's order."""

    def __len__(self) -> int: ...

    def batches(self, columns: Sequence[str]) -> Iterator[pyarrow.Table]:
        """Some columns, many rows at a time."""
        ...

    def take(self, places: Ints) -> pyarrow.Table:
        """Some rows, in the order in which they are named."""
        ...


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of a table in memory."""

    table: pyarrow.Table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def batches(self, columns: Sequence[str]) -> Iterator[pyarrow.Table]:
        """All at once: they are in memory already."""
        if len(self):
            yield self.table.select(list(columns))

    def take(self, places: Ints) -> pyarrow.Table:
        """Some rows."""
        return self.table.take(places)


@dataclass(frozen=True, slots=True)
class FileRows:
    """Rows of a Parquet file; only the part in use is in memory."""

    file: Path

    def _opened(self) -> Any:
        from pyarrow import parquet

        return parquet.ParquetFile(self.file)

    def __len__(self) -> int:
        with self._opened() as opened:
            return int(opened.metadata.num_rows)

    def batches(self, columns: Sequence[str]) -> Iterator[pyarrow.Table]:
        """As many rows at a time as were written together."""
        import pyarrow as pa

        with self._opened() as opened:
            for batch in opened.iter_batches(_AT_ONCE, columns=list(columns)):
                yield pa.Table.from_batches([batch])

    def take(self, places: Ints) -> pyarrow.Table:
        """Some rows; only the parts of the file that hold them are read."""
        import pyarrow as pa

        places = np.asarray(places, dtype=np.int64)
        order = np.argsort(places, kind="stable")
        ascending, found, begin = places[order], [], 0
        with self._opened() as opened:
            for group in range(opened.metadata.num_row_groups):
                end = begin + opened.metadata.row_group(group).num_rows
                here = ascending[(ascending >= begin) & (ascending < end)] - begin
                if here.size:
                    found.append(opened.read_row_group(group).take(here))
                begin = end
            joined = pa.concat_tables(found) if found else opened.schema_arrow.empty_table()
        return joined.take(np.argsort(order, kind="stable"))


def is_more(values: Floats, observed: Floats) -> Any:
    """Where values are above 0 by more than rounding, relative to the observed return."""
    with np.errstate(invalid="ignore"):
        return values > ROUNDING * np.maximum(1.0, np.abs(observed))


def find_top(rows: EpisodeRows, n: int, by: str = "gain", *, losses: bool = False) -> Ints:
    """The positions of the n episodes with the largest gains, or losses; equal ones are in the log's order."""
    kept_values, kept_places = np.empty(0), np.empty(0, np.int64)
    before = 0
    for table in rows.batches([by, "observed"]):
        values, observed = (table.column(name).to_numpy() for name in (by, "observed"))
        values = -values if losses else values
        here = np.flatnonzero(is_more(values, observed))
        kept_values = np.concatenate((kept_values, values[here]))
        kept_places = np.concatenate((kept_places, here + before))
        best = np.lexsort((kept_places, -kept_values))[:n]
        kept_values, kept_places = kept_values[best], kept_places[best]
        before += table.num_rows
    return kept_places


def find_problems(rows: EpisodeRows, most: int | None = None) -> pyarrow.Table:
    """The episodes without an answer: ``episode`` and ``problem``; with ``most``, only the first ones."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found, count = [], 0
    for table in rows.batches(["episode", "problem"]):
        found.append(table.filter(pc.is_valid(table.column("problem"))))
        count += found[-1].num_rows
        if most is not None and count >= most:
            break
    if not found:
        return rows.take(np.empty(0, np.int64)).select(["episode", "problem"])
    joined = pa.concat_tables(found)
    return joined if most is None else joined.slice(0, most)
