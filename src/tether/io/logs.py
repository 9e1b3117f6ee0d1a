"""Logs of episodes: one row a step, in a CSV, Parquet or Arrow file or in a dataframe.

The columns are episode, t, state and action, and may be reward and next_state; `tether.observation.arrange` says how
rows become episodes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import zip_longest
from typing import Any

import numpy as np

from tether._types import Ints
from tether.errors import FileError, PathError, TetherError
from tether.io.arrowfiles import label_column, require_pyarrow, write_arrow
from tether.io.columns import TABLES, Columns, columns_of, read_columns, table_kind
from tether.io.files import File, file_error, name_of
from tether.io.logshapes import are_timestamps, make_shape
from tether.io.names import find_label
from tether.model.mdp import MDP
from tether.model.names import Names, plain
from tether.observation.arrange import arrange
from tether.observation.cells import Findings
from tether.observation.episodes import Episodes
from tether.observation.path import Path

__all__ = ["read_episodes", "write_episodes"]

_WANTED = ("episode", "t", "state", "action")
_OPTIONAL = ("reward", "next_state")
_LABELS = ("episode", "state", "action", "next_state")
_BLANK = ("action", "reward", "next_state")


def read_episodes(
    log: Any,
    mdp: MDP | None = None,
    *,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    time: str | None = None,
    step: float | str | timedelta | None = None,
    kind: str | None = None,
) -> Episodes:
    r"""Read observed episodes from a log, one row a step.

    The rows of an episode may come in any order; its t goes up by 1. The last row of an episode may leave the
    action empty (it is then only the last state), or name the last outcome in next_state, or do neither.
    In a text file, labels that are all whole numbers become ints, other labels are text.

    Parameters
    ----------
    log : path or dataframe
        ``.csv``, ``.tsv`` (also ``.gz`` of both), ``.parquet``, ``.arrow`` or ``.feather``; or a dataframe (pandas,
        polars, Arrow) or a dict of columns. It has the columns episode, t, state and action, and may have reward and
        next_state. Others are not looked at.
    mdp : MDP, optional
        The model the episodes are of. States and actions are then found among its labels, by their text if need be.
    columns : mapping, optional
        The name in the log of a column, where it is another: ``{"episode": "patient"}``. A state may be of several
        columns, ``{"state": ["status", "lactate"]}`` or ``{"state": "status,lactate"}``; it is then a named tuple.
    time : str, optional
        A column of times, in place of t: numbers or timestamps, in whose order the rows of an episode follow each
        other. Two rows of an episode at the same time are an error.
    step : float, str or timedelta, optional
        How far apart the times are, so that gaps are found: ``4``, or, for timestamps, ``"4h"``, ``"30min"``.
    kind : {"csv", "tsv", "parquet", "arrow"}, optional
        What the file is, whatever its suffix.

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
    shape = make_shape(columns, time, step, [*_WANTED, *_OPTIONAL])
    wanted = (shape.spread(_WANTED), shape.spread(_OPTIONAL), shape.columns)
    text = [*shape.spread(_LABELS), *(["t"] if time is not None else [])]
    blank = shape.spread(_BLANK)
    alike = list(zip_longest(shape.spread(["state"]), shape.spread(["next_state"]), fillvalue="state"))
    try:
        if isinstance(log, str | os.PathLike):
            read = read_columns(log, *wanted, text=text, blank=blank, kind=kind, alike=alike)
        else:
            read = columns_of(log, *wanted, text=text, blank=blank, error=PathError)
    except (FileError, PathError):
        if time is None:
            _check_no_timestamps(log, shape.columns.get("t", "t"), kind)
        raise
    values = shape.gathered(read, PathError if read.file is None else FileError)
    findings = Findings(lambda row: read.place(row).removeprefix(f"{read.file}, "))
    steps = arrange(values if mdp is None else _found(values, read, mdp), findings)
    if steps is None:
        _raise(findings, read)
        raise AssertionError  # pragma: no cover - what was found is raised
    return Episodes.of(steps)


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
        raise file_error(file, f"the name does not say what table to write; expected one of {', '.join(TABLES)}")
    require_pyarrow()
    write_arrow(_table(log, file, kind), file, kind)


def _check_no_timestamps(log: Any, column: str, kind: str | None) -> None:
    """Say how to read a column t that holds timestamps: row by row, each would only be no number."""
    try:
        if isinstance(log, str | os.PathLike):
            read = read_columns(log, ["t"], rename={"t": column}, text=["t"], kind=kind, alike=())
        else:
            read = columns_of(log, ["t"], rename={"t": column}, text=["t"], error=PathError)
    except TetherError:
        return
    if are_timestamps(plain(read["t"])):
        complaints = read.complaints(PathError if read.file is None else FileError)
        complaints.about(
            f"the column {column!r} holds timestamps; t is expected to number the steps: 0, 1, 2, …; where it is a "
            f"time, name its column: time={column!r}, and to have gaps found, how far apart the rows are: step='4h'"
        )
        complaints.raise_any()


def _found(values: dict[str, Any], read: Columns, mdp: MDP) -> dict[str, Any]:
    """The columns with the labels of a model in place of those of the log."""
    complaints = read.complaints(PathError if read.file is None else FileError)
    for name, labels, noun in (
        ("state", mdp.states, "state"),
        ("next_state", mdp.states, "state"),
        ("action", mdp.actions, "action"),
    ):
        if name not in values:
            continue
        items = plain(values[name])
        meant: dict[Any, Any] = {None: None}
        for row, item in enumerate(items):
            if item not in meant:
                i = find_label(labels, item)
                meant[item] = labels[i] if i >= 0 else None
                if i < 0:
                    complaints.at(row, labels.missing(item, noun), value=item)
        values[name] = [meant[item] for item in items]
    complaints.raise_any()
    return values


def _raise(findings: Findings, read: Columns) -> None:
    """Raise all that was found, with its lines."""
    complaints = read.complaints(PathError if read.file is None else FileError)
    for problem in findings.in_order():
        assert problem.row is not None
        complaints.at(problem.row, problem.message, state=problem.state, time=problem.time, value=problem.value)
    complaints.total = findings.total
    complaints.raise_any()


def _table(log: Episodes, file: File, kind: str) -> Any:
    """One row a step, and one for each last state that is known."""
    import pyarrow as pa

    last = log.next_state[log.start[1:] - 1]
    ended = last >= 0
    lengths = np.diff(log.start) + ended
    first = np.cumsum(lengths) - lengths
    owner = np.repeat(np.arange(lengths.size), lengths)
    t = np.arange(owner.size) - first[owner]
    final = (first + lengths - 1)[ended]
    step = np.ones(owner.size, dtype=bool)
    step[final] = False
    state, action = np.empty(owner.size, dtype=np.int64), np.full(owner.size, -1, dtype=np.int64)
    state[step], action[step] = log.state, log.action
    state[final] = last[ended]
    columns = {
        "episode": _labels(log.ids, "episode", file, kind).take(pa.array(owner)),
        "t": pa.array(t),
        "state": _labels(log.states, "state", file, kind).take(pa.array(state)),
        "action": _labels(log.actions, "action", file, kind).take(_or_null(action)),
    }
    if log.reward is not None:
        reward = np.full(owner.size, np.nan)
        reward[step] = log.reward
        columns["reward"] = pa.array(reward, mask=np.isnan(reward))
    return pa.table(columns)


def _labels(labels: Names, noun: str, file: File, kind: str) -> Any:
    try:
        return label_column(labels, noun, file, kind)
    except FileError as error:  # it says how to rename the labels of a model
        raise file_error(file, str(error).removeprefix(f"{name_of(file)}: ").partition(": mdp.")[0]) from None


def _or_null(codes: Ints) -> Any:
    import pyarrow as pa

    return pa.array(codes, mask=codes < 0)
