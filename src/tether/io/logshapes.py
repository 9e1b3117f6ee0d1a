"""Logs as they come: states spread over several columns, and times that do not number the steps.

A state of several columns becomes a named tuple, so that its parts have names: ``columns={"state": ["status",
"lactate"]}``, or ``"status,lactate"`` where only text can be given. A column of times (``time="hour"``) orders the
rows of an episode; with ``step=4`` each row must come 4 later than the one before, so that gaps are found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.problems import LIMIT, Complaints
from tether._foundation.words import counted
from tether.errors import Problem, QueryError
from tether.io.columns import Columns
from tether.model.names import is_missing, plain
from tether.model.stored_names import class_of
from tether.observation.ends import outcome_names

OPTIONAL = ("reward", "next_state", "outcome")
"""Columns that a log may have."""

_SPREAD = ("state", "next_state")
_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_STEP = re.compile(r"([0-9]*\.?[0-9]+)\s*(s|min|h|d|w)?")
_DAY_FIRST = re.compile(r"\s*\d{1,2}[/.-]\d{1,2}[/.-]\d{4}")
_NEAR = 1e-6
"""The tolerance for the distance of two times, as a share of a step."""


@dataclass(frozen=True)
class LogShape:
    """How the columns of a table become episode, t, state, action, reward, next_state and outcome.

    Attributes
    ----------
    columns : mapping
        The name in the table of each column to read, by what it is here. Parts of a state are ``state 1``, ….
    parts : mapping
        The names in the table of the parts of a state, for ``state`` and ``next_state`` where they are several.
    time : str or None
        The column of times.
    step : float or None
        How far apart the rows of an episode are, in the unit of the column; in seconds, for timestamps.
    seconds : bool
        Whether ``step`` was given with a unit, which only timestamps have.
    without : set
        Columns that must not be read even if they exist: ``columns={"outcome": ""}``.
    """

    columns: Mapping[str, str]
    parts: Mapping[str, tuple[str, ...]]
    time: str | None
    step: float | None
    seconds: bool
    without: frozenset[str] = frozenset()

    def spread(self, names: Sequence[str]) -> list[str]:
        """Columns to read, with the parts of a state in place of the state, and without those that are left out."""
        return [part for name in names if name not in self.without for part in self._columns_of(name)]

    def _columns_of(self, name: str) -> list[str]:
        return [f"{name} {i}" for i, _ in enumerate(self.parts.get(name, ()), start=1)] or [name]

    def gathered(self, read: Columns, complaints: Complaints) -> dict[str, Any]:
        """The columns as `tether.observation.arrange` takes them; what is wrong with them is noted."""
        values: dict[str, Any] = dict(read.values)
        for name, parts in self.parts.items():
            columns = [plain(values.pop(one)) for one in self._columns_of(name) if one in values]
            if columns:
                values[name] = _joined(name, parts, columns, complaints)
        if self.time is not None:
            values["t"] = self._numbered(values.get("episode"), values["t"], complaints)
        if "outcome" in values:
            values["outcome"] = outcome_names(values["outcome"], self.columns.get("outcome", "outcome"), complaints)
        return values

    def _numbered(self, episode: Any, times: Any, complaints: Complaints) -> Ints:
        """The number of each row within its episode, by time; repeated times and wrong distances are noted."""
        at, stamped, unread = _seconds(plain(times), self.time or "t", complaints)
        if self.step is not None and self.seconds != stamped:
            unit = "timestamps: give the step with a unit, as 4h" if stamped else "numbers: give the step as a number"
            raise QueryError(f"step: the column {self.time!r} holds {unit}")
        shown, names = plain(times), None if episode is None else plain(episode)
        ids = np.zeros(at.size, dtype=np.int64) if names is None else _codes(names)
        order = np.lexsort((at, ids))
        apart, within = np.diff(at[order]), np.diff(ids[order]) == 0
        before, gap = np.full(at.size, -1), np.zeros(at.size)
        before[order[1:]], gap[order[1:]] = np.where(within, order[:-1], -1), apart
        before[unread | unread[before]] = -1  # its problem is noted already

        def problem(row: int, what: str, expectation: str) -> Problem:
            episode = None if names is None else names[row]
            what = f"{self.time} = {_text(shown[row])} {what}"
            return Problem(what, value=shown[row], episode=episode, expectation=expectation)

        def twice(row: int) -> Problem:
            first = complaints.source.place(int(before[row]))
            return problem(row, f"is given twice (first in {first})", "one row per step")

        def far(row: int) -> Problem:
            found, wanted = (_length(size, stamped) for size in (gap[row], self.step or 0.0))
            return problem(row, f"comes {found} after {_text(shown[before[row]])}", f"{wanted} (step=)")

        complaints.add_each(np.flatnonzero((before >= 0) & (gap == 0)), twice)
        if self.step is not None:
            followed = (before >= 0) & (gap != 0)
            wrong = np.flatnonzero(followed & (np.abs(gap - self.step) > _NEAR * self.step))
            if wrong.size > LIMIT and 2 * wrong.size > np.count_nonzero(followed):
                self._another_step(far(int(wrong[0])), gap[wrong], stamped, int(wrong[0]), complaints)
            else:
                complaints.add_each(wrong, far)
        first = np.concatenate(([0], np.flatnonzero(~within) + 1))
        t = np.empty(at.size, dtype=np.int64)
        t[order] = np.arange(at.size) - np.repeat(first, np.diff(first, append=at.size))
        return t

    def _another_step(self, first: Problem, gaps: Floats, stamped: bool, row: int, complaints: Complaints) -> None:
        """If most rows have another distance, the step is wrong: one problem, with its fix."""
        sizes, times = np.unique(gaps, return_counts=True)
        usual = float(sizes[np.argmax(times)])
        what = f"{first.what}, and {counted(gaps.size - 1, 'more time')} not {_length(self.step or 0.0, stamped)}"
        fix = f"give the step that most of them have, {_length(usual, stamped)}, or leave step= out"
        complaints.add(replace(first, what=what, fix=fix, argument="step"), row=row)


def make_shape(
    columns: Mapping[str, str | Sequence[str]] | None, time: str | None, step: Any, known: Sequence[str]
) -> LogShape:
    """Check how a log is to be read; ``known`` are the columns that can be mapped."""
    single: dict[str, str] = {}
    parts: dict[str, tuple[str, ...]] = {}
    without = {name for name, given in (columns or {}).items() if given == "" and name in OPTIONAL}
    for name, given in (columns or {}).items():
        if name in without:
            continue
        several = given.split(",") if isinstance(given, str) else list(given)
        several = [one.strip() for one in several] if isinstance(given, str) else several
        if len(several) == 1 or (isinstance(given, str) and name not in _SPREAD):
            single[name] = given if isinstance(given, str) else several[0]
        elif name not in _SPREAD:
            raise QueryError(f"columns=: only the state may be of several columns, not {name!r}")
        elif name in known:
            parts[name] = tuple(several)
            single |= {f"{name} {i}": one for i, one in enumerate(several, start=1)}
        else:
            single[name] = ",".join(several)  # the reader says that there is no such column to map
    if time is not None and "t" in single:
        raise QueryError(f"time={time!r} and columns={{'t': {single['t']!r}}} both name the column of times; give one")
    if time is not None:
        single["t"] = time
    size, seconds = (None, False) if step is None else _step(step)
    if step is not None and time is None:
        raise QueryError("step= says how far apart the times are; name their column too: time='hour'")
    return LogShape(single, parts, time, size, seconds, frozenset(without))


def _step(step: Any) -> tuple[float, bool]:
    """The step as a number, and whether it is one of seconds."""
    if isinstance(step, timedelta):
        size, unit = step.total_seconds(), "s"
    else:
        match = _STEP.fullmatch(str(step).strip())
        size, unit = (float(match[1]), match[2] or "") if match else (0.0, "")
    if not 0 < size < np.inf:
        raise QueryError(
            Problem(f"step must be a number above 0, or one with a unit (30min, 4h, 1d), not {step!r}", value=step)
        )
    return size * _UNITS.get(unit, 1.0), unit != "" or isinstance(step, timedelta)


def _joined(name: str, parts: tuple[str, ...], columns: list[list[Any]], complaints: Complaints) -> list[Any]:
    """A named tuple per row; None where all its parts are empty, as they may be for an outcome."""
    fields = _fields(parts)
    kind = class_of("tether.states", "State", fields)
    joined: list[Any] = []
    for row, cells in enumerate(zip(*columns, strict=True)):
        missing = [part for part, cell in zip(parts, cells, strict=True) if is_missing(cell)]
        if missing and len(missing) < len(parts):
            complaints.add(f"the {name} lacks a part: the column {missing[0]!r} is empty", row=row)
        joined.append(None if missing else kind(*cells))
    return joined


def _fields(parts: tuple[str, ...]) -> tuple[str, ...]:
    """The names of columns as names of fields; those of next states as those of states."""
    fields = [re.sub(r"\W", "_", part.removeprefix("next_")).lstrip("_") for part in parts]
    fields = [field if field.isidentifier() else f"x{field}" for field in fields]
    if len({*fields}) < len(fields):
        raise QueryError(f"columns=: the parts of a state need different names, not {', '.join(parts)}")
    return tuple(fields)


def _codes(items: list[Any]) -> Ints:
    index: dict[Any, int] = {}
    return np.fromiter((index.setdefault(item, len(index)) for item in items), dtype=np.int64, count=len(items))


def _seconds(items: list[Any], column: str, complaints: Complaints) -> tuple[Floats, bool, Any]:
    """Numbers as they are, timestamps in seconds; whether they are timestamps; and which could not be read."""
    at, unread = np.zeros(len(items)), np.zeros(len(items), dtype=bool)
    kinds = set()
    for row, item in enumerate(items):
        moment = _moment(item)
        if moment is None:
            unread[row] = True
            continue
        at[row], stamped = moment
        kinds.add(stamped)
    dates = np.array([isinstance(item, str) and bool(_DAY_FIRST.match(item)) for item in items], dtype=bool)

    def problem(row: int) -> Problem:
        item = items[row]
        if is_missing(item) or item == "":
            return Problem(f"{column} is empty", value=item)
        what = f"{column} is {item!r}, neither a number nor a date and time"
        if not dates[row]:
            return Problem(what, value=item)
        fix = "write dates as yyyy-mm-dd; where the day comes first, say so: day_first=True"
        return Problem(what, value=item, fix=fix, argument="day_first")

    for some in (unread & dates, unread & ~dates):
        complaints.add_group(np.flatnonzero(some), problem)
    if len(kinds) > 1:
        what = f"the column {column!r} holds both numbers and timestamps"
        complaints.add(what, expectation="one or the other")
        complaints.raise_any()
    return at, kinds == {True}, unread


def _moment(item: Any) -> tuple[float, bool] | None:
    """A number or a timestamp as a number, and whether it is a timestamp; None for anything else."""
    if isinstance(item, str):
        item = _read(item.strip())
    if isinstance(item, bool) or is_missing(item):
        return None
    if isinstance(item, int | float):
        return (float(item), False) if np.isfinite(item) else None
    if isinstance(item, timedelta):
        return item.total_seconds(), True
    if isinstance(item, date) and not isinstance(item, datetime):
        item = datetime(item.year, item.month, item.day, tzinfo=UTC)
    if not isinstance(item, datetime):
        return None
    return (item if item.tzinfo else item.replace(tzinfo=UTC)).timestamp(), True


def _read(text: str) -> Any:
    """The number or the time in a text; None for any other text."""
    for kind in (float, datetime.fromisoformat):
        with suppress(ValueError):
            return kind(text)
    return None


def are_timestamps(items: list[Any]) -> bool:
    """Whether all items are moments, and not numbers."""
    return all(moment is not None and moment[1] for moment in map(_moment, items))


def _length(size: float, stamped: bool) -> str:
    """How far apart two times are, in words.

    >>> _length(4.0, False), _length(14_400.0, True), _length(100_800.5, True)
    ('4', '4 h', '1 day 4 h 0.5 s')
    """
    if not stamped:
        return f"{size:g}"
    minutes, seconds = divmod(size, 60.0)
    hours, minutes = divmod(int(minutes), 60)
    days, hours = divmod(hours, 24)
    parts = [counted(days, "day")] if days else []
    parts += [f"{n:g} {unit}" for n, unit in ((hours, "h"), (minutes, "min"), (seconds, "s")) if n]
    return " ".join(parts)


def _text(item: Any) -> str:
    return f"{item:g}" if isinstance(item, float) else str(item)
