"""Further columns of a log, one value for each episode: ward, doctor, month. They are read when they are asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tether.errors import FileError, Problem, QueryError
from tether.io.arrowfiles import open_parquet
from tether.io.columns import columns_of, read_columns
from tether.io.files import table_kind
from tether.io.logs import log_columns
from tether.io.names_as_text import text_of
from tether.logs.batches import Log, PiecewiseLog
from tether.logs.streamed import files_in
from tether.model.names import plain
from tether.observation.episodes import Episodes


@dataclass(frozen=True)
class ExtraColumns:
    """The further columns of a log; ``reading`` says how the log is read (columns, time, step)."""

    log: Any
    reading: Mapping[str, Any] = field(default_factory=dict)

    def read(self, name: str, *, fixed: bool = False) -> dict[str, Any]:
        """The value of a column for each episode, by the text of its id: the first that is given in its rows.

        With ``fixed`` it is an error if a later row of an episode gives another value.

        Examples
        --------
        >>> from tether.logs.extra_columns import ExtraColumns
        >>> log = {"episode": [1, 1, 2], "t": [0, 1, 0], "state": "aba", "action": "xxx", "ward": ["A", None, "B"]}
        >>> ExtraColumns(log).read("ward")
        {'1': 'A', '2': 'B'}
        """
        found, changed = self.read_changing(name)
        if fixed and changed:
            key, value = next(iter(changed.items()))
            message = f"episode {key!r}: {name} changes ({found[key]!r}, {value!r})"
            raise QueryError(Problem(message, value=name, fix="give one value for each episode"))
        return found

    def read_changing(self, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Two dictionaries: as `read`; and, of the episodes whose rows give several values, the first other one."""
        if isinstance(self.log, Episodes | list | tuple) or (
            isinstance(self.log, Mapping) and not {"state", "action"} <= {*map(str, self.log)}
        ):
            message = f"these episodes have no column {name!r}: paths have states, actions and rewards"
            raise QueryError(Problem(message, value=name, fix="give the log as a file or a table"))
        found: dict[str, Any] = {}
        changed: dict[str, Any] = {}
        for table in self._tables():
            for episode, value in zip(*self._columns(table, name), strict=True):
                key = text_of(episode)
                is_there = value is not None and value == value and value != ""  # noqa: PLR0124
                if is_there and found.setdefault(key, value) != value:
                    changed.setdefault(key, value)
        return found, changed

    def _tables(self) -> list[Any]:
        if isinstance(self.log, str | os.PathLike) and os.path.isdir(self.log):
            return list(files_in(Path(self.log)))
        return [self.log]

    def _columns(self, table: Any, name: str) -> tuple[list[Any], list[Any]]:
        options = {key: self.reading.get(key) for key in ("columns", "time", "step")}
        wanted, _ = log_columns(**options)
        asked: dict[str, Any] = {
            "wanted": ["episode", name],
            "rename": {"episode": wanted["episode"]},
            "text": ["episode", name],
            "blank": ["episode", name],
        }
        try:
            read = read_columns if isinstance(table, str | os.PathLike) else columns_of
            found = read(table, **asked)
        except (FileError, QueryError, ValueError) as error:
            there = _names(table)
            message = f"the log has no column {name!r}"
            if there is None or name in there:
                raise
            raise QueryError(Problem(message, value=name, fix=f"it has {', '.join(map(str, there))}")) from error
        return plain(found["episode"]), plain(found[name])


def extras_of(log: Log) -> ExtraColumns:
    """The further columns of a log that was opened."""
    if isinstance(log, PiecewiseLog):
        return ExtraColumns(log.name, log.reading)
    places = getattr(log, "places", None)
    return ExtraColumns([]) if places is None else ExtraColumns(places.log, places.reading)


def _names(table: Any) -> list[Any] | None:
    """The columns of a table."""
    if isinstance(table, Mapping):
        return list(table)
    if isinstance(table, str | os.PathLike):
        kind = table_kind(table)
        if kind == "parquet":
            return list(open_parquet(table, None)[0])
        if kind in ("csv", "tsv") and not os.fspath(table).endswith(".gz"):
            with open(table, encoding="utf-8", errors="replace") as stream:
                return [one.strip().strip('"') for one in stream.readline().split("\t" if kind == "tsv" else ",")]
        return None
    names = getattr(table, "column_names", None) or getattr(table, "columns", None)
    return None if names is None else list(names)
