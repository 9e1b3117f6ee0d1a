"""A log that is larger than memory: Parquet, one file or a directory of them, read piece by piece.

The files of a directory are taken in the order of their names. The rows of an episode must follow each other, be it
from one file to the next; an episode whose rows lie apart is noticed and listed. All that is kept of what was read is
eight bytes per episode, to notice that.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tether._foundation.arrays import Ints
from tether._foundation.problems import Source
from tether.audit.cohort import Cohort
from tether.audit.logs import BATCH, MemoryLog
from tether.errors import FileError, Problem
from tether.io.arrowfiles import guarded
from tether.io.columns import table_kind
from tether.io.logs import read_sound_episodes
from tether.model.mdp import MDP
from tether.observation.path import Path as Observed

__all__ = ["StreamedLog", "is_streamed"]

_WHOLE = 5_000_000
"""A Parquet file of up to so many rows is read as a whole, and may have its rows in any order."""

_PIECE = 1 << 17
"""How many rows are read at once, at least: an episode is never cut."""

_HASHED = 1 << 31
"""Up to so many bytes the contents of the files are hashed; beyond, what their footers say, and when they changed."""


def is_streamed(log: str | os.PathLike[str]) -> bool:
    """Whether a log is a directory, or a Parquet file with very many rows."""
    if os.path.isdir(log):
        return True
    if table_kind(log) != "parquet":
        return False
    from pyarrow import parquet

    return bool(guarded(log, "a Parquet file", lambda: parquet.read_metadata(log)).num_rows > _WHOLE)


@dataclass(frozen=True, slots=True, eq=False)
class StreamedLog:
    """Parquet files, in the order in which they are read; ``reading`` says how (columns, time, step)."""

    name: str
    files: tuple[Path, ...]
    reading: dict[str, Any]
    rows: tuple[int, ...]
    has_whole_ids: bool

    @classmethod
    def of(cls, log: str | os.PathLike[str], reading: dict[str, Any]) -> StreamedLog:
        """The files of a directory, or the one file."""
        import pyarrow as pa
        from pyarrow import parquet

        name, place = os.fspath(log), Path(log)
        files = tuple(_files_in(place)) if place.is_dir() else (place,)
        if not files:
            raise FileError(Problem("there are no Parquet files in this directory", file=name))
        opened = [guarded(file, "a Parquet file", partial(parquet.ParquetFile, file)) for file in files]
        column = (reading["columns"] or {}).get("episode", "episode")
        for file, one in zip(files, opened, strict=True):
            if column not in one.schema_arrow.names:
                raise FileError(Problem(f"the column {column!r} is missing", file=str(file), argument="columns"))
        whole = all(pa.types.is_integer(one.schema_arrow.field(column).type) for one in opened)
        return cls(name, files, reading, tuple(one.metadata.num_rows for one in opened), whole)

    @property
    def n_rows(self) -> int:
        """By the footers of the files."""
        return sum(self.rows)

    @property
    def id_type(self) -> Any:
        """Whole numbers where every file has them, else text."""
        import pyarrow as pa

        return pa.int64() if self.has_whole_ids else pa.string()

    def digest(self) -> str:
        """Of the contents; of very large files, of their footers, sizes and times."""
        digest = hashlib.sha256()
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

    def batches(self, mdp: MDP) -> Iterator[tuple[int, Cohort]]:
        """Batches of the pieces, one after the other."""
        first, seen = 0, _Seen()
        for before, table in self._pieces():
            log = self._read(table, before)
            every = _without(log.found(mdp, as_text=not self.has_whole_ids), seen)
            steps, rows = np.diff(every.start), table.num_rows
            for low in range(0, len(every), BATCH):
                high = min(low + BATCH, len(every))
                share = rows if high == len(every) else int(steps[low:high].sum() + high - low)
                rows -= min(share, rows)
                part = every.part(low, high)
                yield share, replace(part, first=first + low)
            first += len(every)

    def paths(self, wanted: Iterable[Any]) -> dict[Any, Observed]:
        """Some episodes by id: the log is read until all are found."""
        from tether.io.names import find_index

        missing, found = list(wanted), {}
        for before, table in self._pieces():
            episodes = self._read(table, before).episodes
            for one in list(missing):
                at = find_index(episodes.ids, one)
                if at >= 0:
                    found[one] = episodes[episodes.ids[at]]
                    missing.remove(one)
            if not missing:
                return found
        raise FileError(Problem(f"there is no episode {missing[0]!r}", file=self.name, value=missing[0]))

    def _read(self, table: Any, before: int) -> MemoryLog:
        return MemoryLog.of(read_sound_episodes(table, **self.reading, source=Source(self.name, before=before)))

    def _pieces(self) -> Iterator[tuple[int, Any]]:
        """Whole episodes, many rows at a time, with how many rows came before them."""
        import pyarrow as pa

        column = (self.reading["columns"] or {}).get("episode", "episode")
        waiting: list[Any] = []
        before, size = 0, 0
        for table in self._tables():
            waiting.append(table)
            size += table.num_rows
            if size < _PIECE:
                continue
            joined = pa.concat_tables(waiting, promote_options="default")
            cut = _last_change(joined.column(column))
            if cut > 0:
                yield before, joined.slice(0, cut)
                before, joined = before + cut, joined.slice(cut)
            waiting, size = [joined.combine_chunks()], joined.num_rows
        if size:
            yield before, pa.concat_tables(waiting, promote_options="default")

    def _tables(self) -> Iterator[Any]:
        import pyarrow as pa
        from pyarrow import parquet

        for file in self.files:
            opened = guarded(file, "a Parquet file", partial(parquet.ParquetFile, file))
            for batch in opened.iter_batches(batch_size=_PIECE // 2):
                yield guarded(file, "a Parquet file", partial(pa.Table.from_batches, [batch]))


def _files_in(folder: Path) -> list[Path]:
    """Parquet files in a directory and below it, but for hidden ones."""
    found = [file for suffix in ("parquet", "pq") for file in folder.rglob(f"*.{suffix}")]
    return sorted(file for file in found if not any(part[0] in "._" for part in file.relative_to(folder).parts))


def _last_change(ids: Any) -> int:
    """The first row of the last episode, which the next piece may go on with; 0 where all rows are of one."""
    codes = np.asarray(ids.combine_chunks().dictionary_encode().indices.fill_null(-1))
    changes = np.flatnonzero(codes[1:] != codes[:-1])
    return int(changes[-1]) + 1 if changes.size else 0


class _Seen:
    """Which ids came before: a hash of eight bytes each."""

    def __init__(self) -> None:
        self._hashes: list[Ints] = []

    def again(self, ids: list[Any]) -> Any:
        """Which of these came before; they are remembered."""
        new = np.array([_hash(one) for one in ids], dtype=np.int64)
        known = np.zeros(new.size, dtype=bool)
        for some in self._hashes:
            known |= some[np.minimum(np.searchsorted(some, new), some.size - 1)] == new
        self._hashes.append(np.sort(new))
        while len(self._hashes) > 1 and self._hashes[-2].size <= 2 * self._hashes[-1].size:
            last = self._hashes.pop()
            self._hashes[-1] = np.sort(np.concatenate((self._hashes[-1], last)))
        return known


def _hash(one: Any) -> int:
    return one if isinstance(one, int) else int.from_bytes(hashlib.blake2b(repr(one).encode(), digest_size=7).digest())


def _without(cohort: Cohort, seen: _Seen) -> Cohort:
    """The same with a problem in place of the steps of an episode that came before."""
    again = seen.again([one for one in cohort.ids if one is not None])
    if not again.any():
        return cohort
    why = "its rows lie apart in the log, so that an earlier part was taken for all of it; sort the log by episode"
    broken = np.zeros(len(cohort), dtype=bool)
    broken[np.flatnonzero([one is not None for one in cohort.ids])[again]] = True
    keep = ~np.repeat(broken, np.diff(cohort.start))
    start = np.concatenate(([0], np.cumsum(np.where(broken, 0, np.diff(cohort.start)))))
    return Cohort(
        cohort.first,
        cohort.ids,
        start,
        cohort.state[keep],
        cohort.action[keep],
        cohort.pair[keep],
        cohort.next_state[keep],
        None if cohort.reward is None else cohort.reward[keep],
        [why if wrong else problem for wrong, problem in zip(broken, cohort.problem, strict=True)],
        cohort.said,
    )
