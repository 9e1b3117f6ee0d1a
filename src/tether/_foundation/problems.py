"""The problems of a model, a table or a file: collected while it is checked, and raised together.

Every reader and every check uses the same collector, `Complaints`. It knows where the rows came from (`Source`), so
that a problem is reported where the user will look for it. A row of a text file has a line. A row of another file is
counted from 1. A row of a table in memory is counted from 0, as in dataframes and `tether.MDP.from_table`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tether._foundation.arrays import Ints
from tether.errors import FileError, ModelError, PathError, Problem, QueryError

LIMIT = 100
"""How many problems are kept as records; all are counted."""

FEW = 3
"""Up to so many problems of one kind are noted one by one; more are one problem."""

Located = type[FileError] | type[ModelError] | type[PathError] | type[QueryError]


@dataclass(frozen=True)
class Source:
    """Where the rows of a table are.

    Attributes
    ----------
    file : str or None
        None for a table in memory.
    find_lines : callable or None
        Gives the line of every row of a text file; called only when needed, because it reads the file again.
    in_rows : bool
        False for files without rows that a user would look for, such as JSON.
    before : int
        For a table that is read in pieces: how many rows come before the first one here.
    rows : array or None
        Which row of the file each one is, counted from 0, if some are left out, such as blank rows of a spreadsheet.
    """

    file: str | None = None
    find_lines: Callable[[], Ints] | None = None
    in_rows: bool = True
    before: int = 0
    rows: Ints | None = None

    @cached_property
    def _lines(self) -> Ints:
        assert self.find_lines is not None
        return self.find_lines()

    def line(self, row: int) -> int | None:
        """The line of a row (from 0) in a text file, the header being line 1; None elsewhere."""
        if self.find_lines is None:
            return None
        return int(self._lines[row]) if 0 <= row < self._lines.size else row + 1

    def place(self, row: int) -> str:
        """Where a row is, for a message that already names the file: ``line 7``, ``row 6``."""
        line = self.line(row)
        if line is not None:
            return f"line {line:,}"
        row = self._row(row)
        return f"row {row}" if self.file is None else f"row {row + 1:,}"

    def _row(self, row: int) -> int:
        return row + self.before if self.rows is None or not 0 <= row < self.rows.size else int(self.rows[row])

    def located(self, problem: Problem, row: int | None = None, line: int | None = None) -> Problem:
        """The problem with its file, and its row and line if it has them."""
        if row is not None and self.in_rows:
            line = self.line(row) if line is None else line
            return replace(problem, file=self.file, row=self._row(row), line=line)
        return replace(problem, file=problem.file if self.file is None else self.file, line=line)


class Complaints:
    """Problems of one table or file, raised at once, in the order of its rows and lines.

    >>> complaints = Complaints("model.tra")
    >>> complaints.add("found 'x y'", line=7, expectation="4 numbers")
    >>> complaints.raise_any()
    Traceback (most recent call last):
    ...
    tether.errors.FileError: model.tra, line 7: found 'x y'; expected 4 numbers
    """

    def __init__(self, source: Source | str | os.PathLike[str], error: Located = FileError) -> None:
        self.source = source if isinstance(source, Source) else Source(os.fspath(source))
        self.error = error
        self.total = 0
        self._alone = 0
        self._together = 0
        self._items: list[tuple[Ints, Callable[[int], int | None]]] = []
        self._found: list[tuple[int | None, int | None, Problem]] = []

    def __bool__(self) -> bool:
        return self.total > 0

    def add(self, what: str | Problem, line: int | None = None, *, row: int | None = None, **fields: Any) -> None:
        """Note a problem of a line, of a row (from 0) or of the whole; ``fields`` are other fields of `Problem`."""
        self.total += 1
        self._alone += 1
        if row is not None:
            self._items.append((np.array([row]), int))
        if self._alone <= LIMIT:
            self._found.append((row, line, _problem(what, fields)))

    def add_each(
        self,
        items: Ints,
        problem: Callable[[int], str | Problem],
        *,
        row: Callable[[int], int | None] = int,
        lines: Ints | None = None,
    ) -> None:
        """Note the same kind of problem for many items; messages are made only for those that are kept.

        An item is a row, unless ``row`` says which row it has (None: none), or ``lines`` on which line it is.
        """
        self.total += len(items)
        if lines is None:
            self._items.append((items, row))
        for item in map(int, items[:LIMIT]):
            place = (row(item), None) if lines is None else (None, int(lines[item]))
            self._found.append((*place, _problem(problem(item), {})))

    def add_group(self, rows: Ints, problem: Callable[[int], Problem]) -> None:
        """Note one problem for many rows: that of the first, and how many more have it. Few are noted one by one."""
        if len(rows) <= FEW:
            self.add_each(rows, problem)
            return
        first = int(rows[0])
        one = problem(first)
        self.total += 1
        self._together += len(rows) - 1
        self._items.append((rows, int))
        self._found.append((first, None, replace(one, what=f"{one.what}, and so in {len(rows) - 1:,} more rows")))

    def add_lines(self, found: Iterable[tuple[int, str]], total: int) -> None:
        """Note problems of lines, given only the first ones; ``total`` is how many there are."""
        self.total += total
        self._found += [(None, line, Problem(what)) for line, what in found]

    def rows(self) -> Ints:
        """The rows (from 0) with a noted problem, ascending."""
        return np.unique(self._places())

    @property
    def only_of_rows(self) -> bool:
        """Whether all noted problems are about single rows: the other rows can then still be checked."""
        return self._places().size == self.total + self._together

    def _places(self) -> Ints:
        found = [np.empty(0, dtype=np.int64)]
        for items, row in self._items:
            rows = items if row is int else [place for place in map(row, items) if place is not None]
            found.append(np.asarray(rows, dtype=np.int64))
        return np.concatenate(found)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems that are kept: the first by row and line, each with its place."""
        found = sorted(self._found, key=_row)[:LIMIT]  # finding lines reads the file again
        located = [self.source.located(problem, row, line) for row, line, problem in found]
        return tuple(sorted(located, key=lambda problem: problem.line or 0))

    def raise_any(self) -> None:
        """Raise all noted problems, if there are any, as one error."""
        if self.total:
            raise self.error(self.problems, total=self.total)


def common_length(columns: Mapping[str, Sized], error: Located) -> int:
    """The common length of all columns; 0 if there are none.

    >>> common_length({"state": [1, 2], "action": [1]}, ModelError)
    Traceback (most recent call last):
    ...
    tether.errors.ModelError: the columns differ in length: state 2, action 1
    """
    sizes = {name: len(column) for name, column in columns.items()}
    if len({*sizes.values()}) > 1:
        text = ", ".join(f"{name} {size:,}" for name, size in sizes.items())
        raise error(f"the columns differ in length: {text}")
    return next(iter(sizes.values()), 0)


def raise_all(*all_complaints: Complaints) -> None:
    """Raise the noted problems of several files as one error."""
    problems = [problem for complaints in all_complaints for problem in complaints.problems]
    if problems:
        raise all_complaints[0].error(problems, total=sum(complaints.total for complaints in all_complaints))


def _problem(what: str | Problem, fields: dict[str, Any]) -> Problem:
    return what if isinstance(what, Problem) else Problem(what, **fields)


def _row(found: tuple[int | None, int | None, Problem]) -> int:
    row, line, _ = found
    return -1 if row is None and line is None else row or 0
