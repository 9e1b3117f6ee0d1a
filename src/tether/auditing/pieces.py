"""A log that is read in pieces of whole episodes: the common part for Parquet and text.

The rows of an episode must follow each other; an episode whose rows are not together is noticed and listed. For this,
eight bytes per episode are kept.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tether._foundation.arrays import Ints
from tether._foundation.problems import LIMIT, Source
from tether.auditing.cohort import Cohort
from tether.auditing.logs import BATCH, MemoryLog
from tether.errors import FileError, Problem
from tether.io.logplaces import LogPlaces
from tether.io.logs import read_sound_episodes
from tether.io.names import find_index
from tether.model.mdp import MDP
from tether.observation.episodes import Episodes
from tether.observation.path import Path

__all__ = ["PiecewiseLog", "Seen", "changes_of", "last_change"]

_APART = "its rows are not together in the log, and an earlier part was taken for all of it; sort the log by episode"


@dataclass(frozen=True, eq=False)
class PiecewiseLog:
    """A log that is never in memory as a whole; ``reading`` says how it is read (columns, time, step)."""

    name: str
    reading: dict[str, Any]
    has_whole_ids: bool

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
        import pyarrow as pa

        return pa.int64() if self.has_whole_ids else pa.string()

    def batches(self, mdp: MDP) -> Iterator[tuple[int, Cohort]]:
        """Batches of the pieces, one after the other."""
        first, seen = 0, Seen()
        for log, n_rows in self.logs():
            every = _without(log.found(mdp, as_text=not self.has_whole_ids), seen)
            steps, rows = np.diff(every.start), n_rows
            for low in range(0, len(every), BATCH):
                high = min(low + BATCH, len(every))
                share = rows if high == len(every) else min(rows, int(steps[low:high].sum() + high - low))
                rows -= share
                yield share, replace(every.part(low, high), first=first + low)
            first += len(every)

    def logs(self) -> Iterator[tuple[MemoryLog, int]]:
        """The pieces, read: the episodes of each, and how many rows it has."""
        for table, rows, source in self.pieces():
            yield (
                MemoryLog.of(
                    read_sound_episodes(table, **self.reading, source=source), LogPlaces(table, self.reading, source)
                ),
                rows,
            )

    def sound(self) -> Iterator[Episodes]:
        """The episodes of each piece; an error if some are broken."""
        seen = Seen()
        for table, _, source in self.pieces():
            found = read_sound_episodes(table, **self.reading, source=source)
            problems = [*found.broken.values(), *found.alone]
            ids = list(found.episodes.ids)
            problems += [Problem(_APART, file=self.name, episode=ids[i]) for i in seen.again(ids).nonzero()[0]]
            if problems:
                raise FileError(problems[:LIMIT], total=len(problems))
            yield found.episodes

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
    """The same with a problem in place of the steps of an episode that came before."""
    again = seen.again([one for one in cohort.ids if one is not None])
    if not again.any():
        return cohort
    problem = list(cohort.problem)
    for i in np.flatnonzero([one is not None for one in cohort.ids])[again].tolist():
        problem[i] = _APART
    return replace(cohort, problem=problem).without_broken()
