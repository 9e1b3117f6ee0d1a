"""Where the episodes come from: a log in memory or in files, cut into batches of a model's indices.

Batches depend on the log alone, not on who asks for them: the same log is always cut in the same way.

A log that is larger than memory is read in pieces of whole episodes (`PiecewiseLog`; Parquet in `streamed`, text in
`textlog`). The rows of an episode must then follow each other; an episode whose rows are not together is noticed and
listed. For this, eight bytes per episode are kept. If a file changes while it is read, the audit stops.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from tether._foundation.arrays import Ints
from tether._foundation.problems import LIMIT, Source
from tether.errors import FileError, Problem, QueryError
from tether.io.datasets import read_if_dataset
from tether.io.logs import LogPlaces, Sound, read_sound_episodes
from tether.io.names_as_text import are_whole, find_index, text_of
from tether.logs.cohort import Cohort, find_episodes, reason
from tether.logs.fingerprint import digest_of_episodes
from tether.mdp import MDP
from tether.observation.episodes import Episodes
from tether.observation.path import Path

BATCH = 1024
"""At most so many episodes are answered at once; a process that is stopped loses at most these."""

_FEW, _AT_LEAST = 256, 8
"""A log of more episodes than the first number has so many batches, so that there is one for each worker."""

_APART = "its rows are not together in the log, and an earlier part was taken for all of it; sort the log by episode"


def _batch_size(episodes: int) -> int:
    """How many of so many episodes are answered at once: it depends on the log alone."""
    return min(BATCH, max(_FEW, -(-episodes // _AT_LEAST)))


class Log(Protocol):
    """Episodes in a fixed order, available in batches."""

    @property
    def n_rows(self) -> int:
        """How many rows there are in all, to show progress."""
        ...

    @property
    def id_type(self) -> Any:
        """The Arrow type of the ids: whole numbers, or text."""
        ...

    def digest(self) -> str:
        """A digest of its contents: another log has another one."""
        ...

    def longest(self) -> int:
        """The number of steps of the longest episode."""
        ...

    def batches(self, mdp: MDP) -> Iterator[tuple[int, Cohort]]:
        """Batch after batch, in the indices of a model, with the number of rows it has."""
        ...

    def paths(self, wanted: Iterable[Any]) -> dict[Any, Path]:
        """Some episodes by id, as the log has them."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class MemoryLog:
    """A log that was read as a whole; ``broken`` and ``alone`` say what is wrong with it, ``places`` knows its rows."""

    episodes: Episodes
    broken: Mapping[int, str]
    alone: tuple[str, ...] = ()
    places: LogPlaces | None = None

    @classmethod
    def of(cls, sound: Sound, places: LogPlaces) -> MemoryLog:
        """What was read of a table."""
        broken = {place: reason(problem) for place, problem in sound.broken.items()}
        return cls(sound.episodes, broken, tuple(problem.message for problem in sound.alone), places)

    @property
    def n_rows(self) -> int:
        """How many steps there are."""
        return self.episodes.n_steps

    @property
    def id_type(self) -> Any:
        """Whole numbers if all ids are, else text."""
        return pa.int64() if are_whole(self.episodes.ids) else pa.string()

    def digest(self) -> str:
        """Of the episodes as they were read, wherever they came from."""
        return digest_of_episodes(self.episodes, [*sorted(self.broken.items()), *self.alone])

    def longest(self) -> int:
        """The number of steps of the longest episode."""
        return int(np.diff(self.episodes.start).max(initial=0))

    def batches(self, mdp: MDP) -> Iterator[tuple[int, Cohort]]:
        """Batches of at most `BATCH` episodes."""
        every = self.in_indices_of(mdp, as_text=not are_whole(self.episodes.ids))
        start = self.episodes.start
        size = _batch_size(len(every))
        for low in range(0, len(every), size):
            high = min(low + size, len(every))
            last = min(high, len(self.episodes))
            yield int(start[last] - start[min(low, last)]), every.part(low, high)

    def in_indices_of(self, mdp: MDP, *, as_text: bool) -> Cohort:
        """The whole log in the indices of a model."""
        every = find_episodes(mdp, self.episodes, self.broken, self.alone, places=self.places)
        if as_text:
            every = replace(every, ids=[None if one is None else text_of(one) for one in every.ids])
        return every

    def paths(self, wanted: Iterable[Any]) -> dict[Any, Path]:
        """Some episodes by id, or by its text."""
        found = {one: find_index(self.episodes.ids, one) for one in wanted}
        return {one: self.episodes[one if at < 0 else self.episodes.ids[at]] for one, at in found.items()}


@dataclass(frozen=True, slots=True)
class FileStamps:
    """Sizes and times of files when a log was opened, to notice that one of them changed since."""

    known: Mapping[str, tuple[int, ...] | None]

    @classmethod
    def of(cls, files: Iterable[str | os.PathLike[str]]) -> FileStamps:
        """The stamps of files as they are now."""
        return cls({os.fspath(file): _file_stamp(os.fspath(file)) for file in files})

    def check(self) -> None:
        """Raise a FileError that names the first file that changed, if one did."""
        for file, stamp in self.known.items():
            now = _file_stamp(file)
            if now != stamp:
                what = f"the log was {'removed' if now is None else 'changed'} while it was read"
                fix = (
                    "batches that were answered before are kept in the directory of the audit: put the log back as it "
                    "was to continue, or begin again: fresh=True"
                )
                raise FileError(Problem(what, file=file, fix=fix, argument="fresh"))


def _file_stamp(file: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


@dataclass(frozen=True, eq=False)
class PiecewiseLog:
    """A log that is never in memory as a whole; ``reading`` says how it is read (columns, time, step)."""

    name: str
    reading: dict[str, Any]
    has_whole_ids: bool
    stamps: FileStamps = field(kw_only=True)

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """How many rows there are in all."""

    @abstractmethod
    def digest(self) -> str:
        """A digest of its contents, and of how it is read."""

    @abstractmethod
    def pieces(self) -> Iterator[tuple[Any, int, Source | None]]:
        """Tables of whole episodes, with their numbers of rows, and the places of the rows if the table has none."""

    @property
    def id_type(self) -> Any:
        """Whole numbers if all ids are, else text."""
        return pa.int64() if self.has_whole_ids else pa.string()

    def batches(self, mdp: MDP) -> Iterator[tuple[int, Cohort]]:
        """Batches of the pieces, one after the other."""
        first, seen = 0, Seen()
        for log, n_rows in self.logs():
            every = _without(log.in_indices_of(mdp, as_text=not self.has_whole_ids), seen)
            steps, rows = np.diff(every.start), n_rows
            size = _batch_size(len(every))
            for low in range(0, len(every), size):
                high = min(low + size, len(every))
                share = rows if high == len(every) else min(rows, int(steps[low:high].sum() + high - low))
                rows -= share
                yield share, replace(every.part(low, high), first=first + low)
            first += len(every)

    def longest(self) -> int:
        """The number of steps of the longest episode; the log is read once for it."""
        return max((log.longest() for log, _ in self.logs()), default=0)

    def logs(self) -> Iterator[tuple[MemoryLog, int]]:
        """The pieces, read: the episodes of each, and how many rows it has."""
        for found, rows, places in self._read():
            yield MemoryLog.of(found, places), rows

    def sound(self, skipped: list[Problem] | None = None) -> Iterator[Episodes]:
        """The episodes of each piece; broken ones are an error, or are left out and noted in ``skipped``."""
        seen = Seen()
        for found, _, _ in self._read():
            problems = [*found.broken.values(), *found.alone]
            ids = list(found.episodes.ids)
            problems += [Problem(_APART, file=self.name, episode=ids[i]) for i in seen.again(ids).nonzero()[0]]
            if skipped is not None:
                skipped += problems
            elif problems:
                raise FileError(problems[:LIMIT], total=len(problems))
            yield found.sound

    def _read(self) -> Iterator[tuple[Sound, int, LogPlaces]]:
        """What was read of each piece, how many rows it has, and where they are. A file that changed is an error."""
        try:
            for table, rows, source in self.pieces():
                found = read_sound_episodes(table, **self.reading, source=source)
                self.stamps.check()
                yield found, rows, LogPlaces(table, self.reading, source)
        except Exception:
            self.stamps.check()  # a file that is being replaced cannot be read: say that, not what it looks like
            raise

    def paths(self, wanted: Iterable[Any]) -> dict[Any, Path]:
        """Some episodes by id: the log is read until all are found."""
        missing, found = list(wanted), {}
        for log, _ in self.logs():
            episodes: Episodes = log.episodes
            for one in list(missing):
                at = find_index(episodes.ids, one)
                if at >= 0:
                    found[one] = episodes[episodes.ids[at]]
                    missing.remove(one)
            if not missing:
                return found
        raise FileError(Problem(f"there is no episode {missing[0]!r}", file=self.name, value=missing[0]))


def last_change(ids: Any) -> int:
    """The first row of the last episode, which the next piece may continue; 0 if all rows are of one episode."""
    changes = changes_of(ids.combine_chunks())
    return int(changes[-1]) if changes.size else 0


def changes_of(ids: Any) -> Ints:
    """The rows whose id differs from that of the row before."""
    codes = np.asarray(ids.dictionary_encode().indices.fill_null(-1))
    return np.flatnonzero(codes[1:] != codes[:-1]) + 1


class Seen:
    """Which ids came before: a hash of eight bytes each."""

    def __init__(self) -> None:
        self._hashes: list[Ints] = []

    def again(self, ids: list[Any]) -> Any:
        """Which of these came before; they are remembered."""
        new = np.fromiter(map(_hash, ids), dtype=np.int64, count=len(ids))
        known = np.zeros(new.size, dtype=bool)
        for some in self._hashes:
            known |= some[np.minimum(np.searchsorted(some, new), some.size - 1)] == new
        self._hashes.append(np.sort(new))
        while len(self._hashes) > 1 and self._hashes[-2].size <= 2 * self._hashes[-1].size:
            last = self._hashes.pop()
            self._hashes[-1] = np.sort(np.concatenate((self._hashes[-1], last)))
        return known


def _hash(one: Any) -> int:
    """A hash of eight bytes. A whole number is its own hash, because Python's is the same for -1 and -2."""
    return one if type(one) is int and -(2**63) <= one < 2**63 else hash(one)


def _without(cohort: Cohort, seen: Seen) -> Cohort:
    """The batch with a problem in place of the steps of each episode whose id came before."""
    again = seen.again([one for one in cohort.ids if one is not None])
    if not again.any():
        return cohort
    problem = list(cohort.problem)
    for i in np.flatnonzero([one is not None for one in cohort.ids])[again].tolist():
        problem[i] = _APART
    return replace(cohort, problem=problem).without_broken()


def open_log(
    episodes: Any,
    *,
    columns: Mapping[str, Any] | None = None,
    time: str | None = None,
    step: Any = None,
    **written: Any,
) -> Log:
    """The log of episodes, a list of paths, a dataset, a file, a directory of Parquet files, or a dataframe."""
    episodes = read_if_dataset(episodes)
    reading = {"columns": columns, "time": time, "step": step, **written}
    if isinstance(episodes, Episodes | list | tuple) or _are_paths(episodes):
        given = [name for name, value in reading.items() if value]
        if given:
            raise QueryError(f"{', '.join(given)} say how to read a table; these episodes are read already")
        return MemoryLog(episodes if isinstance(episodes, Episodes) else Episodes.from_paths(episodes), {})
    if isinstance(episodes, str | os.PathLike):
        pieces = open_pieces(episodes, **reading)
        if pieces is not None:
            return pieces
    return MemoryLog.of(read_sound_episodes(episodes, **reading), LogPlaces(episodes, reading))


def open_pieces(
    log: str | os.PathLike[str],
    *,
    columns: Mapping[str, Any] | None = None,
    time: str | None = None,
    step: Any = None,
    **written: Any,
) -> PiecewiseLog | None:
    """A log in files that is read piece by piece; None if it is read as a whole, as one written in another way is."""
    from tether.io.opening import must_exist
    from tether.logs.streamed import StreamedLog, is_streamed
    from tether.logs.textlog import is_large_text, open_text

    must_exist(os.fspath(log))
    reading = {"columns": columns, "time": time, "step": step, **written}
    if is_streamed(log):
        return StreamedLog.of(log, reading)
    plain = not {"decimal", "encoding", "day_first"} & {*written}
    return open_text(log, reading) if plain and is_large_text(log) else None


def _are_paths(given: Any) -> bool:
    """Whether this is a mapping from ids to paths."""
    return isinstance(given, Mapping) and all(isinstance(one, Path) for one in given.values())
