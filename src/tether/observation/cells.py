"""The cells of a log: names by index, whole numbers, rewards; empty cells, and cells that cannot be read.

None, NaN and the empty text are empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints
from tether._foundation.problems import Complaints
from tether.errors import Problem
from tether.model.encode import Coded, encode
from tether.model.names import Names, is_missing, plain


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The log in numbers, row by row as given: names by index, -1 if empty; rewards NaN if empty.

    ``outcome`` is the outcome of the episode, as an index into ``outcomes``; None if the log has no such column.

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
    outcomes: Names | None = None
    outcome: Ints | None = None


def read_cells(columns: Mapping[str, Any], complaints: Complaints) -> Cells:
    """Read every cell of a log; cells that cannot be read are noted in ``complaints``.

    A row with an earlier problem is not used, whatever its cells contain.
    """
    noted = np.zeros(len(columns["state"]), dtype=bool)
    noted[complaints.rows()] = True
    ids, (episode,) = code([columns["episode"]], ["episode"], complaints)
    given = [columns["next_state"]] if columns.get("next_state") is not None else []
    names = ["state", "next_state"][: 1 + len(given)]
    states, (state, *after) = code([columns["state"], *given], names, complaints)
    actions, (action,) = code([columns["action"]], ["action"], complaints)
    outcomes, outcome = None, None
    if columns.get("outcome") is not None:
        outcomes, (outcome,) = code([columns["outcome"]], ["outcome"], complaints)
    t, t_sound = _whole_numbers(columns["t"], noted, complaints)
    rewards, rewards_sound = _rewards(columns.get("reward"), episode.size, complaints)
    complaints.add_group(np.flatnonzero((episode == -1) & ~noted), lambda _: Problem("the episode is empty"))
    complaints.add_group(np.flatnonzero((state == -1) & ~noted), lambda _: Problem("the state is empty"))
    sound = t_sound & rewards_sound & (episode >= 0) & (state >= 0) & (action >= -1) & ~noted
    next_state = after[0] if after else np.full(episode.size, -1, dtype=np.int32)
    sound &= next_state >= -1
    if outcome is not None:
        sound &= outcome >= -1
    # A wrong row would be reported again as a gap, so its whole episode is left out of the other checks.
    spoiled = np.zeros(len(ids), dtype=bool)
    spoiled[episode[~sound & (episode >= 0)]] = True
    usable = sound.copy()
    usable[sound] = ~spoiled[episode[sound]]
    usable_rows = np.flatnonzero(usable)
    columns_read = (episode, t, state, action, next_state, rewards, usable_rows)
    return Cells(ids, states, actions, *columns_read, outcomes, outcome)


def code(columns: Sequence[Any], headings: Sequence[str], complaints: Complaints) -> tuple[Names, list[Ints]]:
    """Names of some columns, in the order of `tether.model.encode.encode`, and their indices: -1 for an empty cell.

    A cell that cannot be a name is noted and gets -2.
    """
    return encode([without_floats(one) for one in columns], headings[0], headings, complaints=complaints, blank=True)


def without_floats(column: Any) -> Any:
    """Whole numbers as names. With an empty cell among them, most readers of tables give them as floats."""
    numbers = None if isinstance(column, Coded) else _as_integers(column)
    if numbers is None or numbers[1].all():
        return column if numbers is None else numbers[0]
    values, there = numbers
    found, (codes,) = encode([values[there]], "", [""])
    placed = np.full(there.size, -1, dtype=np.int32)
    placed[there] = codes
    return Coded(found, placed)


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


def _is_empty(item: Any) -> bool:
    try:
        return is_missing(item) or (isinstance(item, str) and item == "")
    except ValueError:  # an array in a cell
        return False


def _whole_numbers(column: Any, noted: Flags, complaints: Complaints) -> tuple[Ints, Ints]:
    """The column t, and which of its rows have a whole number; rows that were ``noted`` are not reported again."""
    if isinstance(column, list) and all(type(item) is int and abs(item) < 2**63 for item in column):
        column = np.array(column, dtype=np.int64)
    numbers = _as_integers(column)
    if numbers is not None and (numbers[0].dtype != np.uint64 or int(numbers[0].max(initial=0)) < 2**63):
        values, sound = numbers[0].astype(np.int64), numbers[1]
    else:
        items = plain(column)
        sound = np.array([_is_whole(item) for item in items], dtype=bool)
        values = np.array([int(item) if good else 0 for item, good in zip(items, sound, strict=True)], dtype=np.int64)
    bad = np.flatnonzero(~sound & ~noted)
    if bad.size:
        shown = plain(column)

        def problem(row: int) -> Problem:
            what = "t is empty" if _is_empty(shown[row]) else f"t is {shown[row]!r}"
            return Problem(what, value=shown[row], expectation="a whole number")

        complaints.add_each(bad, problem)
    return values, sound


def _is_whole(item: Any) -> bool:
    if isinstance(item, bool) or not isinstance(item, int | float):
        return False
    return item == item // 1 and abs(item) < 2**63


def _rewards(column: Any, size: int, complaints: Complaints) -> tuple[Floats | None, Ints]:
    """The column reward as numbers, NaN for an empty cell, and which rows can be used."""
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
        complaints.add_each(
            rows, lambda row: Problem(f"the reward {shown[row]!r} is not a finite number", value=shown[row])
        )
    return values, ~bad


def _is_number(item: Any) -> bool:
    if isinstance(item, bool | str | bytes):
        return False
    try:
        return bool(np.isfinite(float(item)))
    except (TypeError, ValueError, OverflowError):
        return False
