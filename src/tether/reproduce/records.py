"""What a reproduction consists of: comparisons, tables, figures, sentences. Plain records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Comparison", "Figure", "Section", "Table"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One number of ours beside the published one.

    Attributes
    ----------
    quantity : str
        What it is: "V(s0)", "size", "mean infected".
    path : str
        The name of the observed path, if a section has several: "catastrophic". Each path has its own figures.
    of : str
        What distinguishes the numbers of a figure besides k, m and t: "(7, 4)".
    k, m, t : int or None
        The k, m and t of the number, if it has them.
    ours : float
        Our number, exact.
    published : float or None
    expected, error : float or None
        Mean and standard deviation of the result of the paper's method with 1,000 draws per row, from repeated runs.
    sampled : str
        What was drawn: 1,000 draws per row; or random paths.
    reason : str
        A difference other than the draws: the model, the path, the way of counting. If there is such a reason, no
        difference is explained by the draws, even if it is small.
    """

    quantity: str
    ours: float
    published: float | None = None
    expected: float | None = None
    error: float | None = None
    reason: str = ""
    path: str = ""
    of: str = ""
    k: int | None = None
    m: int | None = None
    t: int | None = None
    sampled: str = "1,000 draws"

    @property
    def about(self) -> str:
        """The path and ``of``, in words."""
        return ", ".join([*([f"{self.path} path"] if self.path else []), *([self.of] if self.of else [])])

    @property
    def at(self) -> str:
        """The k, m and t, in words."""
        named = [
            f"{name} = {value}" for name, value in (("k", self.k), ("m", self.m), ("t", self.t)) if value is not None
        ]
        return ", ".join([*([self.about] if self.about else []), *named])

    @property
    def difference(self) -> float | None:
        """The published number minus ours."""
        return None if self.published is None else self.published - self.ours

    @property
    def is_equal(self) -> bool:
        """Whether our number is the published one, to its printed digits."""
        return self.published is not None and abs(self.published - self.ours) <= 5e-4

    @property
    def z(self) -> float | None:
        """How many standard errors the published number is from the mean of sampling; None without such an error."""
        if self.published is None or self.expected is None or not self.error or self.error < 1e-9:
            return None
        return (self.published - self.expected) / self.error

    @property
    def verdict(self) -> str:
        """In a few words: equal; a known reason; within the error of the draws, or beyond it."""
        if self.published is None:
            return "not published"
        if self.is_equal:
            return "equal"
        if self.reason:
            return "differs, for a known reason"
        if self.z is None:
            return "differs"
        within = "within" if abs(self.z) <= 3 else "beyond"
        return f"{within} the error of {self.sampled} (z = {self.z:.1f})"


@dataclass(frozen=True, slots=True)
class Table:
    """A table to print: a title, column heads, rows of cells."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Figure:
    """A figure: its file name without suffix, its caption, and how to draw it (returns a matplotlib figure)."""

    name: str
    caption: str
    draw: Callable[[], Any]


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """One case study.

    Attributes
    ----------
    name : str
        As the command line knows it.
    title : str
    text : tuple of str
        Paragraphs: what agrees, what does not, and why.
    comparisons : tuple of Comparison
    tables : tuple of Table
    figures : tuple of Figure
    seconds : float
        Time to compute it.
    """

    name: str
    title: str
    text: tuple[str, ...]
    comparisons: tuple[Comparison, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = field(default=())
    seconds: float = 0.0
