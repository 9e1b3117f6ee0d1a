"""What can go wrong, as one small tree.

::

    TetherError                  everything this package raises on purpose
    ├── ModelError               these numbers are not a Markov decision process
    ├── PathError                this episode cannot have happened in this model
    ├── QueryError               a question about a state, action, time or option that does not exist
    └── FileError                a file that is not in its format, or cannot be read or written

All are also ``ValueError``. An error collects every problem found, up to a limit, so that a file
can be corrected in one go. Each problem is a record that says where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["FileError", "ModelError", "PathError", "Problem", "QueryError", "TetherError"]

SHOWN = 8
"""How many problems an error message spells out; the rest are counted, and kept in ``problems``."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: where, what was found, what is expected, and how to correct it.

    The fields are the data. `message` is the sentence made from them.

    Attributes
    ----------
    what : str
        What is wrong, without its place, the expectation and the fix.
    state, action, next_state : optional
        The names concerned, ``None`` where the problem is not about one.
    episode : optional
        The id of the episode concerned, where it is one of a log.
    time : int, optional
        The step concerned.
    value : optional
        The offending value.
    row : int, optional
        The row of the input table, counted from 0.
    file : str, optional
        The file it was found in.
    line : int, optional
        Its line in a text file, counted from 1.
    place : str
        Where in the model, the path or the file, in words: ``t = 3``, ``state 'rain', action 'wait'``. The file, the
        line, the row and the episode come before it in the sentence and are not repeated in it.
    expectation : str
        What is expected in place of the value.
    fix : str
        What can be done about it.
    argument : str
        The name of the argument that corrects it, if the fix is an argument: ``terminal``, ``columns``.

    Examples
    --------
    >>> import tether
    >>> try:
    ...     tether.MDP.from_table(["rain"], ["wait"], ["rain"], [0.5])
    ... except tether.ModelError as error:
    ...     problem = error.problems[0]
    >>> problem.state, problem.value, problem.place, problem.what
    ('rain', 0.5, "state 'rain', action 'wait'", 'probabilities sum to 0.5')
    >>> problem.message
    "state 'rain', action 'wait': probabilities sum to 0.5; expected 1 (tolerance 1e-06)"
    """

    what: str
    state: Any = None
    action: Any = None
    next_state: Any = None
    time: int | None = None
    value: Any = None
    row: int | None = None
    file: str | None = None
    line: int | None = None
    place: str = ""
    expectation: str = ""
    fix: str = ""
    argument: str = ""
    episode: Any = None

    @property
    def source(self) -> str:
        """The file, and the line or row in it; for a table in memory only the row; empty if there is neither.

        >>> Problem("…", file="model.csv", line=7).source, Problem("…", file="log.parquet", row=5).source
        ('model.csv, line 7', 'log.parquet, row 6')
        """
        if self.file is None:
            return "" if self.row is None else f"row {self.row}"
        if self.line is not None:
            return f"{self.file}, line {self.line:,}"
        # Rows of a table in memory count from 0, as in a dataframe; rows of a file count from 1.
        return self.file if self.row is None else f"{self.file}, row {self.row + 1:,}"

    @property
    def message(self) -> str:
        """All of it as one sentence."""
        episode = "" if self.episode is None else f"episode {self.episode!r}"
        where = ", ".join(part for part in (episode, self.place) if part)
        found = ": ".join(part for part in (self.source, where, self.what) if part)
        expected = f"expected {self.expectation}" if self.expectation else ""
        return "; ".join(part for part in (found, expected, self.fix) if part)


class TetherError(Exception):
    """Everything this package raises on purpose.

    Examples
    --------
    >>> import tether
    >>> try:
    ...     tether.Path(["a"], [])
    ... except tether.TetherError as error:
    ...     print(error)
    a path needs at least one action; got 1 state and no actions
    """


class _LocatedError(TetherError, ValueError):
    """An error made of problems; its message spells out the first few."""

    problems: tuple[Problem, ...]

    def __init__(self, problems: str | Problem | Sequence[Problem], total: int | None = None) -> None:
        if isinstance(problems, str):
            problems = Problem(problems)
        if isinstance(problems, Problem):
            problems = (problems,)
        self.problems = tuple(problems)
        self.total = len(self.problems) if total is None else total
        super().__init__(_spell(self.problems, self.total))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.problems, self.total)


class ModelError(_LocatedError):
    """Numbers that are not a Markov decision process.

    Examples
    --------
    >>> import tether
    >>> tether.MDP.from_table(["rain"], ["wait"], ["rain"], [0.5])
    Traceback (most recent call last):
    ...
    tether.errors.ModelError: state 'rain', action 'wait': probabilities sum to 0.5; expected 1 (tolerance 1e-06)
    """


class PathError(_LocatedError):
    """An episode that cannot have happened in the model.

    Examples
    --------
    >>> import tether
    >>> mdp = tether.MDP.from_table(["rain"], ["wait"], ["rain"], [1.0])
    >>> tether.counterfactual(mdp, tether.Path(["sun", "rain"], ["wait"]))
    Traceback (most recent call last):
    ...
    tether.errors.PathError: t = 0: the model has no state 'sun'; it has 1 state: 'rain'
    """


class QueryError(_LocatedError):
    """A question about a state, action, time or option that does not exist.

    Examples
    --------
    >>> import tether
    >>> mdp = tether.MDP.from_table(["rain"], ["wait"], ["rain"], [1.0])
    >>> mdp.row("rain", "dance")
    Traceback (most recent call last):
    ...
    tether.errors.QueryError: the model has no action 'dance'; it has 1 action: 'wait'
    """


class FileError(_LocatedError):
    """A file that is not in its format, or cannot be read or written.

    Examples
    --------
    >>> import tether
    >>> tether.MDP.load("no-such-model")
    Traceback (most recent call last):
    ...
    tether.errors.FileError: no-such-model: there is no such file; a saved model is a file that MDP.save wrote
    """


def _spell(problems: tuple[Problem, ...], total: int) -> str:
    if total == 1:
        return problems[0].message
    lines = [f"{total:,} problems:"]
    lines += [f"  - {problem.message}" for problem in problems[:SHOWN]]
    if total > SHOWN:
        lines.append(f"  … and {total - min(SHOWN, len(problems)):,} more")
    return "\n".join(lines)
