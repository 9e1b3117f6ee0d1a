"""The cells of a log: labels by index, whole numbers, rewards; what is empty, and what cannot be read.

Empty are None, NaN and the empty text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._types import Floats, Ints
from tether.errors import Problem
from tether.model.names import Names, encode, is_missing, make_names, plain

__all__ = ["Cells", "Findings", "code", "read_cells"]

_KEPT = 100
"""How many problems of one kind are kept as records; all are counted."""


class Findings:
    """What is wrong with a log, row by row; messages do not say the row, their reader does (it may know the line)."""

    def __init__(self, place: Callable[[int], str]) -> None:
        self.place = place
        self.problems: list[Problem] = []
        self.total = 0

    def add(self, rows: Ints, message: Callable[[int], str], **where: Callable[[int], Any]) -> None:
        """Note the same problem for each of ``rows``: ``message(i)`` and further fields for the i-th of them."""
        self.total += int(rows.size)
        for i, row in enumerate(rows[:_KEPT].tolist()):
            named = {field: value(i) for field, value in where.items()}
            self.problems.append(Problem(message(i), row=row, **named))

    def in_order(self) -> list[Problem]:
        """All that were kept, from the first row to the last."""
        return sorted(self.problems, key=lambda problem: problem.row or 0)


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The log in numbers, row by row as given: labels by index, -1 where empty; rewards NaN where empty.

    ``sound`` are the rows, ascending, of the episodes in which every cell could be read.
    """

    ids: Names
    states: Names
    actions: Names
    episode: Ints
    t: Ints
    state: Ints
    action: Ints
    next_state: Ints
    reward: Floats | None
    sound: Ints


def read_cells(columns: Mapping[str, Any], findings: Findings) -> Cells:
    """Read every cell of a log; what cannot be read is noted in ``findings``."""
    ids, (episode,) = code([columns["episode"]], ["episode"], findings)
    outcomes = [columns["next_state"]] if columns.get("next_state") is not None else []
    names = ["state", "next_state"][: 1 + len(outcomes)]
    states, (state, *after) = code([columns["state"], *outcomes], names, findings)
    actions, (action,) = code([columns["action"]], ["action"], findings)
    t, t_sound = _whole_numbers(columns["t"], findings)
    rewards, rewards_sound = _rewards(columns.get("reward"), episode.size, findings)
    findings.add(np.flatnonzero(episode == -1), lambda _: "the episode is empty")
    findings.add(np.flatnonzero(state == -1), lambda _: "the state is empty")
    sound = t_sound & rewards_sound & (episode >= 0) & (state >= 0) & (action >= -1)
    outcome = after[0] if after else np.full(episode.size, -1, dtype=np.int32)
    sound &= outcome >= -1
    # What is wrong with one row would only be reported again as a gap: its whole episode is left out of the rest.
    spoiled = np.zeros(len(ids), dtype=bool)
    spoiled[episode[~sound & (episode >= 0)]] = True
    usable = sound.copy()
    usable[sound] = ~spoiled[episode[sound]]
    return Cells(ids, states, actions, episode, t, state, action, outcome, rewards, np.flatnonzero(usable))


def code(columns: Sequence[Any], names: Sequence[str], findings: Findings) -> tuple[Names, list[Ints]]:
    """Names of some columns, in the order of `tether.model.names.encode`, and their indices: -1 for an empty cell.

    A cell that cannot be a label is noted and gets -2.
    """
    numbers = [_as_integers(column) for column in columns]
    if all(one is not None for one in numbers):
        found = [one for one in numbers if one is not None]
        labels, given = encode([values[there] for values, there in found], names[0], names)
        codes = [np.full(there.size, -1, dtype=np.int32) for _, there in found]
        for column, (_, there), filled in zip(codes, found, given, strict=True):
            column[there] = filled
        return labels, codes
    index: dict[Any, int] = {}
    raw = [_number_off(_as_list(column), name, index, findings) for column, name in zip(columns, names, strict=True)]
    distinct = [item for item in index if not _is_empty(item)]
    if distinct and all(type(item) is int for item in distinct):
        distinct.sort()
    labels = make_names(distinct, None, names[0])
    final = np.array([*(labels.find(item) for item in index), -2], dtype=np.int32)  # -2 stays what it is
    for item, i in index.items():
        if _is_empty(item):
            final[i] = -1
    return labels, [final[np.where(codes < 0, final.size - 1, codes)] for codes in raw]


def _as_integers(column: Any) -> tuple[Ints, Ints] | None:
    """A column of whole numbers as an array, and which rows are not empty; None for any other column."""
    if not isinstance(column, np.ndarray) and hasattr(column, "to_numpy"):
        column = np.asarray(column)
    if not isinstance(column, np.ndarray) or column.ndim != 1:
        return None
    if column.dtype.kind in "iu":
        return column, np.ones(column.size, dtype=bool)
    if column.dtype.kind != "f":
        return None
    # Whole numbers with an empty cell among them come as floats from most readers of tables.
    there = ~np.isnan(column)
    values = column[there]
    if np.all(np.abs(values) < 2**53) and np.all(values == np.floor(values)):
        whole = np.zeros(column.size, dtype=np.int64)
        whole[there] = values.astype(np.int64)
        return whole, there
    return None


def _as_list(column: Any) -> list[Any]:
    numbers = _as_integers(column)
    if numbers is None:
        return plain(column)
    values, there = numbers
    items: list[Any] = values.tolist()
    for i in np.flatnonzero(~there).tolist():
        items[i] = None
    return items


def _number_off(items: list[Any], name: str, index: dict[Any, int], findings: Findings) -> Ints:
    """Number items as they come, the same for equal ones; -1 for one that cannot be a label."""
    try:
        return np.fromiter((index.setdefault(item, len(index)) for item in items), dtype=np.int64, count=len(items))
    except TypeError:
        pass
    bad = []
    codes = np.empty(len(items), dtype=np.int64)
    for row, item in enumerate(items):
        try:
            codes[row] = index.setdefault(item, len(index))
        except TypeError:
            codes[row] = -1
            bad.append(row)
    rows = np.array(bad, dtype=np.int64)
    findings.add(
        rows,
        lambda i: f"the {name} {items[bad[i]]!r} cannot be a name, it is not hashable; use a tuple",
        value=lambda i: items[bad[i]],
    )
    return codes


def _is_empty(item: Any) -> bool:
    try:
        return is_missing(item) or (isinstance(item, str) and item == "")
    except ValueError:  # an array in a cell
        return False


def _whole_numbers(column: Any, findings: Findings) -> tuple[Ints, Ints]:
    """The column t, and which of its rows hold a whole number."""
    if isinstance(column, list) and all(type(item) is int and abs(item) < 2**63 for item in column):
        column = np.array(column, dtype=np.int64)
    numbers = _as_integers(column)
    if numbers is not None and (numbers[0].dtype != np.uint64 or int(numbers[0].max(initial=0)) < 2**63):
        values, sound = numbers[0].astype(np.int64), numbers[1]
    else:
        items = plain(column)
        sound = np.array([_is_whole(item) for item in items], dtype=bool)
        values = np.array([int(item) if good else 0 for item, good in zip(items, sound, strict=True)], dtype=np.int64)
    bad = np.flatnonzero(~sound)
    if bad.size:
        shown = plain(column)
        findings.add(
            bad,
            lambda i: "t is empty" if _is_empty(shown[bad[i]]) else f"t is {shown[bad[i]]!r}, not a whole number",
            value=lambda i: shown[bad[i]],
        )
    return values, sound


def _is_whole(item: Any) -> bool:
    if isinstance(item, bool) or not isinstance(item, int | float):
        return False
    return item == item // 1 and abs(item) < 2**63


def _rewards(column: Any, size: int, findings: Findings) -> tuple[Floats | None, Ints]:
    """The column reward as numbers, NaN where a cell is empty, and which rows are fit for use."""
    if column is None:
        return None, np.ones(size, dtype=bool)
    if not isinstance(column, np.ndarray) and hasattr(column, "to_numpy"):
        column = np.asarray(column)
    if isinstance(column, list) and all(type(item) is float for item in column):
        column = np.array(column)
    if isinstance(column, np.ndarray) and column.dtype.kind in "fiu":
        values, bad = column.astype(np.float64), np.isinf(column)
    else:
        items = plain(column)
        bad = np.array([not _is_empty(item) and not _is_number(item) for item in items], dtype=bool)
        values = np.array(
            [np.nan if _is_empty(item) or wrong else float(item) for item, wrong in zip(items, bad, strict=True)]
        ).reshape(-1)
    rows = np.flatnonzero(bad)
    if rows.size:
        shown = plain(column)
        findings.add(
            rows,
            lambda i: f"the reward {shown[rows[i]]!r} is not a finite number",
            value=lambda i: shown[rows[i]],
        )
    return values, ~bad


def _is_number(item: Any) -> bool:
    if isinstance(item, bool | str | bytes):
        return False
    try:
        return bool(np.isfinite(float(item)))
    except (TypeError, ValueError, OverflowError):
        return False
