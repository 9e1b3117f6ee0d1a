"""Where the rows of a table came from, so that what is wrong with one can be said where the user will look for it.

A row of a text file has a line; a row of another file is counted from 1; a row of a table in memory is
counted from 0, as dataframes and `tether.MDP.from_table` count them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tether._problems import LIMIT
from tether._types import Ints
from tether.errors import FileError, ModelError, PathError, Problem, QueryError

__all__ = ["Located", "RowComplaints", "Source"]

Located = type[FileError] | type[ModelError] | type[PathError] | type[QueryError]


@dataclass(frozen=True)
class Source:
    """Where a table is.

    Attributes
    ----------
    file : str or None
        None for a table in memory.
    find_lines : callable or None
        Gives the line of every row of a text file, when it is first asked for: it costs a second reading.
    in_rows : bool
        False for a file whose parts have no number that a user would look for, as JSON.
    """

    file: str | None = None
    find_lines: Callable[[], Ints] | None = None
    in_rows: bool = True

    @cached_property
    def _lines(self) -> Ints:
        assert self.find_lines is not None
        return self.find_lines()

    def line(self, row: int) -> int:
        """The line of a row (from 0) in a text file, the header being line 1; elsewhere the row counted from 1."""
        if self.find_lines is None or not 0 <= row < self._lines.size:
            return row + 1
        return int(self._lines[row])

    def number(self, row: int | None) -> int | None:
        """What `tether.errors.Problem` has as ``line``: None for a table in memory, and where there are no rows."""
        return None if row is None or self.file is None or not self.in_rows else self.line(row)

    def place(self, row: int | None = None) -> str:
        """``model.csv, line 7``; ``model.parquet, row 6``; ``row 5``; or, without a row, only the table."""
        if row is None or not self.in_rows:
            return self.file or "the table"
        if self.file is None:
            return f"row {row}"
        return f"{self.file}, {'row' if self.find_lines is None else 'line'} {self.line(row):,}"


class RowComplaints:
    """Problems of one table, gathered while it is read and raised at once, in the order of its rows.

    >>> complaints = RowComplaints(Source("log.parquet"))
    >>> complaints.at(5, "t jumps from 3 to 5")
    >>> complaints.raise_any()
    Traceback (most recent call last):
    ...
    tether.errors.FileError: log.parquet, row 6: t jumps from 3 to 5
    """

    def __init__(self, source: Source, error: Located = FileError) -> None:
        self.source = source
        self.error = error
        self.total = 0
        self._found: list[tuple[int, str, dict[str, Any]]] = []
        self._general: list[Problem] = []

    def about(self, message: str, **where: Any) -> None:
        """Note a problem of the table as a whole."""
        self.total += 1
        self._general.append(Problem(f"{self.source.place()}: {message}", file=self.source.file, **where))

    def at(self, row: int, message: str, **where: Any) -> None:
        """Note a problem of a row, counted from 0; ``where`` are further fields of `Problem`."""
        self.total += 1
        self._found.append((row, message, where))

    def at_all(
        self, rows: Ints, message: Callable[[int], str], where: Callable[[int], dict[str, Any]] = lambda _: {}
    ) -> None:
        """Note the same problem of many rows; only so many are spelled out as will be kept."""
        self.total += len(rows)
        self._found += [(row, message(row), where(row)) for row in map(int, rows[:LIMIT])]

    def at_lines(self, lines: Iterable[tuple[int, str]], total: int) -> None:
        """Note problems of lines that are no rows; ``total`` of them, the first few given."""
        self.total += total
        file = self.source.file
        self._general += [Problem(f"{file}, line {line:,}: {text}", file=file, line=line) for line, text in lines]

    def raise_any(self) -> None:
        """Raise all that was noted, if anything was, as one error."""
        if not self.total:
            return
        located = [self._problem(row, message, where) for row, message, where in sorted(self._found, key=_row)[:LIMIT]]
        problems = sorted([*self._general, *located], key=lambda problem: problem.line or 0)[:LIMIT]
        raise self.error(problems, total=self.total)

    def _problem(self, row: int, message: str, where: dict[str, Any]) -> Problem:
        source = self.source
        message = f"{source.place(row)}: {message}"
        return Problem(message, row=row, file=source.file, line=source.number(row), **where)


def _row(found: tuple[int, str, dict[str, Any]]) -> int:
    return found[0]
