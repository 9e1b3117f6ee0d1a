"""What is wrong with a file, gathered while it is read and raised at once."""

from __future__ import annotations

import os
from typing import Any

from tether.errors import FileError, Problem

__all__ = ["LIMIT", "Complaints"]

LIMIT = 100
"""How many problems of one file are kept as records; all are counted."""


class Complaints:
    """Problems of one file, each with its line where it has one.

    >>> complaints = Complaints("model.tra")
    >>> complaints.add("expected 4 numbers, found 'x y'", line=7)
    >>> complaints.raise_any()
    Traceback (most recent call last):
    ...
    tether.errors.FileError: model.tra, line 7: expected 4 numbers, found 'x y'
    """

    def __init__(self, file: str | os.PathLike[str]) -> None:
        self.file = os.fspath(file)
        self.problems: list[Problem] = []
        self.total = 0

    def add(self, message: str, line: int | None = None, **where: Any) -> None:
        """Note a problem; ``where`` are further fields of `Problem`."""
        self.total += 1
        if len(self.problems) < LIMIT:
            place = self.file if line is None else f"{self.file}, line {line:,}"
            self.problems.append(Problem(f"{place}: {message}", file=self.file, line=line, **where))

    def raise_any(self) -> None:
        """Raise a `FileError` with all that was noted, if anything was."""
        if self.problems:
            raise FileError(self.problems, total=self.total)
