"""Where the episodes come from: a log in memory or in files, cut into batches of a model's indices.

Batches depend on the log alone, not on who asks for them: the same log is always cut in the same way.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from tether.auditing.cohort import Cohort, find_episodes, reason
from tether.auditing.fingerprint import digest_of_episodes
from tether.errors import QueryError
from tether.io.logplaces import LogPlaces
from tether.io.names import are_whole, find_index, text_of
from tether.model.mdp import MDP
from tether.observation.episodes import Episodes
from tether.observation.path import Path

if TYPE_CHECKING:
    from tether.auditing.pieces import PiecewiseLog
    from tether.io.logs import Sound

__all__ = ["BATCH", "Log", "MemoryLog", "open_log", "open_pieces"]

BATCH = 256
"""How many episodes are answered at once; a process that is stopped loses at most these."""


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
    def of(cls, found: Sound, places: LogPlaces) -> MemoryLog:
        """What was read of a table."""
        broken = {place: reason(problem) for place, problem in found.broken.items()}
        return cls(found.episodes, broken, tuple(problem.message for problem in found.alone), places)

    @property
    def n_rows(self) -> int:
        """How many steps there are."""
        return self.episodes.n_steps

    @property
    def id_type(self) -> Any:
        """Whole numbers if all ids are, else text."""
        import pyarrow as pa

        return pa.int64() if are_whole(self.episodes.ids) else pa.string()

    def digest(self) -> str:
        """Of the episodes as they were read, wherever they came from."""
        return digest_of_episodes(self.episodes, [*sorted(self.broken), len(self.alone)])

    def batches(self, mdp: MDP) -> Iterator[tuple[int, Cohort]]:
        """Batches of `BATCH` episodes each."""
        every = self.found(mdp, as_text=not are_whole(self.episodes.ids))
        start = self.episodes.start
        for low in range(0, len(every), BATCH):
            high = min(low + BATCH, len(every))
            last = min(high, len(self.episodes))
            yield int(start[last] - start[min(low, last)]), every.part(low, high)

    def found(self, mdp: MDP, *, as_text: bool) -> Cohort:
        """All of it in the indices of a model."""
        every = find_episodes(mdp, self.episodes, self.broken, self.alone, places=self.places)
        if as_text:
            every = replace(every, ids=[None if one is None else text_of(one) for one in every.ids])
        return every

    def paths(self, wanted: Iterable[Any]) -> dict[Any, Path]:
        """Some episodes by id, or by its text."""
        found = {one: find_index(self.episodes.ids, one) for one in wanted}
        return {one: self.episodes[one if at < 0 else self.episodes.ids[at]] for one, at in found.items()}


def open_log(
    episodes: Any,
    *,
    columns: Mapping[str, Any] | None = None,
    time: str | None = None,
    step: Any = None,
) -> Log:
    """The log of episodes, a list of paths, a file, a directory of Parquet files, or a dataframe."""
    reading = {"columns": columns, "time": time, "step": step}
    if isinstance(episodes, Episodes | list | tuple) or _are_paths(episodes):
        given = [name for name, value in reading.items() if value]
        if given:
            raise QueryError(f"{', '.join(given)} say how to read a table; these episodes are read already")
        return MemoryLog(episodes if isinstance(episodes, Episodes) else Episodes.from_paths(episodes), {})
    if isinstance(episodes, str | os.PathLike):
        pieces = open_pieces(episodes, **reading)
        if pieces is not None:
            return pieces
    from tether.io.logs import read_sound_episodes

    return MemoryLog.of(read_sound_episodes(episodes, **reading), LogPlaces(episodes, reading))


def open_pieces(
    log: str | os.PathLike[str], *, columns: Mapping[str, Any] | None = None, time: str | None = None, step: Any = None
) -> PiecewiseLog | None:
    """A log in files that is read piece by piece; None if it is read as a whole."""
    from tether.auditing.streamed import StreamedLog, is_streamed
    from tether.auditing.textlog import is_large_text, open_text
    from tether.io.opening import must_exist

    must_exist(os.fspath(log))
    reading = {"columns": columns, "time": time, "step": step}
    if is_streamed(log):
        return StreamedLog.of(log, reading)
    return open_text(log, reading) if is_large_text(log) else None


def _are_paths(given: Any) -> bool:
    """Whether this is a mapping from ids to paths."""
    return isinstance(given, Mapping) and all(isinstance(one, Path) for one in given.values())
