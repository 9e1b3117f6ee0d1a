"""Logs of episodes: one row per step, in a CSV, Parquet, Arrow or Excel file or in a dataframe.

The columns are episode, t, state and action, and may be reward, next_state and outcome; `tether.observation.arrange`
says how rows become episodes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from itertools import zip_longest
from typing import Any

import numpy as np
import pyarrow as pa

from tether._foundation.arrays import Ints
from tether._foundation.problems import Complaints, Source
from tether.errors import FileError, PathError, Problem, TetherError
from tether.io.arrowfiles import label_column, write_arrow
from tether.io.columns import Columns, columns_of, read_columns
from tether.io.files import File, table_kind, unknown_table
from tether.io.logshapes import OPTIONAL, LogShape, are_timestamps, make_shape
from tether.io.names_as_text import find_index
from tether.io.values import DECIMAL_COMMA
from tether.io.writtenlogs import as_expected, fold_names
from tether.mdp import MDP
from tether.model.encode import Coded, coded
from tether.model.names import Names, names_in_use, plain
from tether.observation.arrange import ByRow, arrange_log, arrange_sound, episode_rows
from tether.observation.episodes import Episodes, table_of_steps
from tether.observation.path import Path

_WANTED = ("episode", "t", "state", "action")
_LABELS = ("episode", "state", "action", "next_state", "outcome")
_WRITTEN = ("decimal", "encoding", "day_first")
"""Options about how a log is written."""

_BLANK = ("action", "reward", "next_state", "outcome")


def read_episodes(
    log: Any,
    mdp: MDP | None = None,
    *,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    time: str | None = None,
    step: float | str | timedelta | None = None,
    kind: str | None = None,
    max_unpacked: int | str | None = None,
    decimal: str = ".",
    encoding: str = "",
    day_first: bool = False,
    fold_case: bool = False,
) -> Episodes:
    r"""Read observed episodes from a log, one row per step.

    The rows of an episode may come in any order; its t goes up by 1. The last row of an episode may have no action (it
    is then only the last state), may name the last outcome in next_state, or neither. In a text file, names become
    ints if all of them are whole numbers; otherwise they are text.

    Parameters
    ----------
    log : path or dataframe
        ``.csv``, ``.tsv`` (also ``.gz`` of both), ``.parquet``, ``.arrow``, ``.feather`` or ``.xlsx``; or a dataframe
        (pandas, polars, Arrow) or a dict of columns. It has the columns episode, t, state and action, and may have
        reward, next_state and outcome: how the episode ended, in any of its rows, or in all. Others are ignored.
    mdp : MDP, optional
        The model of the episodes. States and actions are then matched with its names, if necessary by their text.
    columns : mapping, optional
        The names in the log of columns that have other names there: ``{"episode": "patient"}``. A state may have
        several columns, ``{"state": ["status", "lactate"]}`` or ``{"state": "status,lactate"}``; it is then a named
        tuple. ``{"outcome": ""}`` leaves out an optional column.
    time : str, optional
        A column of times, in place of t: numbers or timestamps. The rows of an episode are sorted by them. Two rows of
        an episode at the same time are an error.
    step : float, str or timedelta, optional
        How far apart the times are, so that gaps are found: ``4``, or, for timestamps, ``"4h"``, ``"30min"``.
    kind : {"csv", "tsv", "parquet", "arrow", "xlsx"}, optional
        What the file is, whatever its suffix.
    max_unpacked : int or str, optional
        To how many bytes a compressed file may unpack: ``"4 GB"``. By default to 256 MB, or to 100 times its size if
        that is more.
    decimal, encoding, day_first
        How a text file is written, if not with decimal points, in UTF-8, with dates as yyyy-mm-dd: ``","``,
        ``"latin-1"``, True for dd/mm/yyyy.
    fold_case : bool
        Whether names that differ only in case, spaces or accents are one name, in lower case.

    Raises
    ------
    FileError
        With every gap, repetition and contradiction, and the line of each; a `PathError` for a dataframe.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from tether.io.logs import read_episodes
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "log.csv")
    ...     _ = file.write_text("patient,t,state,action\nann,0,sick,wait\nann,1,sick,treat\nann,2,well,\n")
    ...     read_episodes(file, columns={"episode": "patient"})["ann"]
    <Path: 2 steps, 'sick' –'wait'→ 'sick' –'treat'→ 'well'>
    """
    shape = make_shape(columns, time, step, [*_WANTED, *OPTIONAL])
    text = [*shape.spread(_LABELS), *(["t"] if time is not None else [])]
    log = as_expected(log, *_names_in(shape), decimal=decimal, encoding=encoding, day_first=day_first)
    try:
        read = _read(log, shape, text, shape.spread(_BLANK), kind, max_unpacked)
    except (FileError, PathError) as error:
        if time is None:
            _check_no_timestamps(log, shape.columns.get("t", "t"), kind)
            _say_how_to_name_times(error)
        raise
    complaints = read.complaints  # the problems of cells; all other problems are added
    commas = [one for one in complaints.problems if isinstance(one.value, str) and DECIMAL_COMMA.fullmatch(one.value)]
    if commas:  # nothing else is worth saying before
        fix = "where the log has decimal commas, say so: decimal=','"
        raise complaints.error([replace(one, fix=fix, argument="decimal") for one in commas])
    if complaints and time is None:
        _check_no_timestamps(log, shape.columns.get("t", "t"), kind)
    values = shape.gathered(read, complaints)
    if mdp is not None:
        values = _in_names_of(values, mdp, complaints)
    episodes = Episodes.of(arrange_log(values, complaints))
    return fold_names(episodes) if fold_case else episodes


@dataclass(frozen=True, slots=True)
class Sound:
    """The sound episodes of a log, and what is wrong with the others.

    Attributes
    ----------
    episodes : Episodes
        All episodes of the log; broken ones have no steps.
    broken : mapping
        What is wrong with an episode, by its position among the ids.
    alone : list of Problem
        What is wrong with rows that belong to no episode.
    """

    episodes: Episodes
    broken: Mapping[int, Problem]
    alone: list[Problem]

    @property
    def sound(self) -> Episodes:
        """The episodes without the broken ones, and without names that only these have."""
        log = self.episodes
        if not self.broken:
            return log
        kept = np.flatnonzero(np.diff(log.start) > 0)
        (ids, _), (actions, (action,)) = names_in_use(log.ids, kept), names_in_use(log.actions, log.action)
        states, (state, after) = names_in_use(log.states, log.state, log.next_state)
        start = np.append(log.start[kept], log.start[-1:])
        changed = replace(log, ids=ids, states=states, actions=actions, start=start)
        changed = replace(changed, state=state, action=action, next_state=after)
        if log.outcomes is None or log.outcome is None:
            return changed
        outcomes, (outcome,) = names_in_use(log.outcomes, log.outcome[kept])
        return replace(changed, outcomes=outcomes, outcome=outcome)


def read_sound_episodes(log: Any, *, source: Source | None = None, fold_case: bool = False, **reading: Any) -> Sound:
    r"""Read episodes as `read_episodes` does; a problem of one episode is recorded, and is not an error.

    A problem of the log as a whole (a missing column, a line with too few cells) is still an error. ``source`` says
    where the rows of a table in memory are, if it is a piece of a file.

    Examples
    --------
    >>> from tether.io.logs import read_sound_episodes
    >>> columns = {"episode": [1, 1, 2, 2], "t": [0, 1, 0, 0], "state": ["a", "b"] * 2, "action": ["go", ""] * 2}
    >>> found = read_sound_episodes(columns)
    >>> found.episodes[1], found.broken[1].message
    (<Path: 1 step, 'a' –'go'→ 'b'>, 'row 3: episode 2: t = 0 is given twice (first in row 2)')
    """
    try:
        return Sound(read_episodes(log, fold_case=fold_case, **reading), {}, [])
    except (FileError, PathError) as error:
        if any(one.argument in _WRITTEN for one in error.problems):  # it is about the log as a whole
            raise
        wrong = error
    try:
        values, found = read_words(log, source=source, **reading)
    except (FileError, PathError):
        raise wrong from None
    steps, broken, alone = arrange_sound(values, found)
    episodes = Episodes.of(steps)
    return Sound(fold_names(episodes) if fold_case else episodes, broken, alone)


def read_words(
    log: Any,
    *,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    time: str | None = None,
    step: float | str | timedelta | None = None,
    kind: str | None = None,
    max_unpacked: int | str | None = None,
    source: Source | None = None,
    **written: Any,
) -> tuple[dict[str, Any], ByRow]:
    """The columns of a log, every cell read as text, so that none is wrong by itself; and a collector for its rows."""
    shape = make_shape(columns, time, step, [*_WANTED, *OPTIONAL])
    every = shape.spread([*_WANTED, *OPTIONAL])
    written.pop("fold_case", None)  # it is about names, not about rows
    log = as_expected(log, *_names_in(shape), **written)
    read = _read(log, shape, every, every, kind, max_unpacked)
    found = ByRow(source or read.source, PathError if read.file is None else FileError)
    values = shape.gathered(read, found)
    for name in {"t", "reward"} & {*values}:
        values[name] = _numbers(values[name])
    return values, found


def _read(
    log: Any,
    shape: LogShape,
    text: Sequence[str],
    blank: Sequence[str],
    kind: str | None,
    max_unpacked: int | str | None,
) -> Columns:
    """The columns of a log, some of them as text, some of which may be empty."""
    wanted = (shape.spread(_WANTED), shape.spread(OPTIONAL), shape.columns)
    alike = list(zip_longest(shape.spread(["state"]), shape.spread(["next_state"]), fillvalue="state"))
    if isinstance(log, str | os.PathLike):
        return read_columns(
            log, *wanted, text=text, blank=blank, kind=kind, alike=alike, max_unpacked=max_unpacked, collect=True
        )
    return columns_of(log, *wanted, text=text, blank=blank, error=PathError, alike=alike, collect=True)


def log_columns(
    columns: Mapping[str, str | Sequence[str]] | None = None, time: str | None = None, step: Any = None, **_: Any
) -> tuple[dict[str, str], dict[str, str]]:
    """The names in a log of the columns it must have, by what they are here; and of those that it may have."""
    return _names_in(make_shape(columns, time, step, [*_WANTED, *OPTIONAL]))


def _names_in(shape: LogShape) -> tuple[dict[str, str], dict[str, str]]:
    wanted, optional = (
        {name: shape.columns.get(name, name) for name in shape.spread(some)} for some in (_WANTED, OPTIONAL)
    )
    return wanted, optional


def _numbers(column: Any) -> Any:
    """A column of texts as numbers; a text that is not a number stays a text."""
    if not isinstance(column, Coded):
        return column
    return Coded([_number(word) for word in column.names], column.codes).tolist()


def _number(word: Any) -> Any:
    if not isinstance(word, str):
        return word
    for kind in (int, float):
        with suppress(ValueError, TypeError):
            return kind(word)
    return word


def write_episodes(
    episodes: Episodes | Mapping[Any, Path] | Iterable[Path], file: File, *, kind: str | None = None
) -> None:
    """Write episodes as a log: CSV, TSV, Parquet or Arrow, by the file's suffix.

    The last state of an episode gets a row of its own, without an action. Names that are not all whole numbers
    are written as text, a tuple as ``(9, 1, 20)``.

    Parameters
    ----------
    episodes : Episodes, or paths
    file : path
    kind : {"csv", "tsv", "parquet", "arrow"}, optional
        What to write, whatever the suffix.

    Examples
    --------
    >>> import tempfile, tether
    >>> from tether.io.logs import read_episodes, write_episodes
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_episodes([tether.cases.grid_world().path], f"{folder}/log.csv")
    ...     read_episodes(f"{folder}/log.csv")
    <Episodes: 1 episode, 11 steps, 4 states, 3 actions>
    """
    log = episodes if isinstance(episodes, Episodes) else Episodes.from_paths(episodes)
    kind = kind or table_kind(file)
    if kind is None:
        raise unknown_table(file)

    def column(names: Names, noun: str, codes: Ints) -> Any:
        return _labels(names, noun, file, kind).take(pa.array(codes, mask=codes < 0))

    write_arrow(table_of_steps(log, column), file, kind)


def _check_no_timestamps(log: Any, column: str, kind: str | None) -> None:
    """Say how to read a column t of timestamps: one problem, not one per row."""
    try:
        if isinstance(log, str | os.PathLike):
            read = read_columns(log, ["t"], rename={"t": column}, text=["t"], kind=kind, alike=())
        else:
            read = columns_of(log, ["t"], rename={"t": column}, text=["t"], error=PathError)
    except TetherError:
        return
    if are_timestamps(plain(read["t"])):
        complaints = read.complaints
        complaints.add(
            f"the column {column!r} holds timestamps; t is expected to number the steps: 0, 1, 2, …",
            fix=f"if it is a time, name its column: time={column!r}; to find gaps, also give the time between two "
            "rows: step='4h'",
            argument="time",
        )
        complaints.raise_any()


def _say_how_to_name_times(error: FileError | PathError) -> None:
    """If the column t is missing, say that there may be times instead."""
    problems = list(error.problems)
    for i, problem in enumerate(problems):
        if problem.argument == "columns" and "t" in (problem.value or ()):
            fix = f"{problem.fix}; where there are times in place of t, name their column: time='hour'"
            problems[i] = replace(problem, fix=fix)
            raise type(error)(problems, total=error.total) from None


def _in_names_of(values: dict[str, Any], mdp: MDP, complaints: Complaints) -> dict[str, Any]:
    """The columns with the names of a model in place of those of the log."""
    for heading, names, noun in (
        ("state", mdp.states, "state"),
        ("next_state", mdp.states, "state"),
        ("action", mdp.actions, "action"),
    ):
        if heading in values:
            values[heading] = _meant(coded(values[heading], heading, complaints, blank=True), names, noun, complaints)
    return values


def _meant(column: Coded, names: Names, noun: str, complaints: Complaints) -> Coded:
    """A column of texts as names of a model; the first row of each unknown text is noted."""
    places = np.array([find_index(names, word) for word in column.names], dtype=np.int64)
    rows = np.array([np.argmax(column.codes == code) for code in np.flatnonzero(places < 0)], dtype=np.int64)
    complaints.add_each(rows, lambda row: names.missing(column[row], noun))
    found = [names[int(place)] if place >= 0 else word for place, word in zip(places, column.names, strict=True)]
    return Coded(found, column.codes)


def _labels(labels: Names, noun: str, file: File, kind: str) -> Any:
    try:
        return label_column(labels, noun, file, kind)
    except FileError as error:  # its fix is for a model
        raise FileError([replace(problem, fix="rename it") for problem in error.problems]) from None


# ---- Where in a log the steps of an episode are --------------------------------------------------------------------
# Where in a log the steps of an episode are: looked up when there is a problem to report.


class LogPlaces:
    """The rows of the episodes of a log. The log is read again when this is first used: nothing is kept before.

    Examples
    --------
    >>> from tether.errors import Problem
    >>> from tether.io.logs import LogPlaces
    >>> log = {"episode": ["b", "a", "a"], "t": [0, 1, 0], "state": ["x", "y", "x"], "action": ["go", "", "go"]}
    >>> LogPlaces(log).located("a", Problem("the model has no state 'y'", time=1, place="t = 1")).message
    "row 1: episode 'a', t = 1: the model has no state 'y'"
    """

    def __init__(self, log: Any, reading: Mapping[str, Any] | None = None, source: Source | None = None) -> None:
        self.log, self.reading, self._source = log, dict(reading or {}), source

    def located(self, episode: Any, problem: Problem) -> Problem:
        """The problem of a step of an episode, with the row of that step; the first row if it is about no step."""
        source, ids, rows, start = self._episode_rows
        i = find_index(ids, episode)
        own = rows[start[i] : start[i + 1]]
        row = int(own[min(problem.time or 0, own.size - 1)])  # the last state need not have a row of its own
        return source.located(replace(problem, episode=ids[i]), row)

    @cached_property
    def _episode_rows(self) -> tuple[Source, Names, Ints, Ints]:
        values, found = read_words(self.log, source=self._source, **self.reading)
        return found.source, *episode_rows(values, found)
