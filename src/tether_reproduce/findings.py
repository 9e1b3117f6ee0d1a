"""Findings: numbers of ours beside the published ones, and a verdict on each published figure, by cause.

A figure is all numbers of one quantity of one path: "V(s0), catastrophic path". Its numbers share one cause. Either the
same model was sampled with 1,000 draws per row: then the error of these draws is computed, and each number is compared
with it. Or something else differs: then a reason says what, and no number of the figure is explained by chance, even if
it is close. The published numbers, and the exact ones that must not change, are data of the package.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

_EQUAL, _REASON, _DIFFERS = "equal", "differs, for a known reason", "differs"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One number of ours beside the published one.

    Attributes
    ----------
    quantity : str
        What it is: "V(s0)", "size", "mean infected".
    ours : float
        Our number, exact.
    published : float or None
    expected, error : float or None
        Mean and standard deviation of the result of the paper's method with 1,000 draws per row, from repeated runs.
    reason : str
        A difference other than the draws: the model, the path, the way of counting. If there is such a reason, no
        difference is explained by the draws, even if it is small.
    path : str
        The name of the observed path, if a section has several: "catastrophic". Each path has its own figures.
    of : str
        What distinguishes the numbers of a figure besides k, m and t: "(7, 4)".
    k, m, t : int or None
        The k, m and t of the number, if it has them.
    sampled : str
        What was drawn: 1,000 draws per row; or random paths.
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
        return ", ".join(part for part in (self.path and f"{self.path} path", self.of) if part)

    @property
    def difference(self) -> float:
        """The published number minus ours; 0 if none was published."""
        return 0.0 if self.published is None else self.published - self.ours

    @property
    def is_equal(self) -> bool:
        """Whether our number is the published one, to its printed digits."""
        return self.published is not None and abs(self.difference) <= 5e-4

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
            return _EQUAL
        if self.reason:
            return _REASON
        if self.z is None:
            return _DIFFERS
        within = "within" if abs(self.z) <= 3 else "beyond"
        return f"{within} the error of {self.sampled} (z = {self.z:.1f})"

    def record(self) -> dict[str, Any]:
        """Its fields by name, as the files of a study have them."""
        return {
            "quantity": self.quantity,
            "of": self.about,
            "k": self.k,
            "m": self.m,
            "t": self.t,
            "exact": self.ours,
            "published": self.published,
            "sampled_mean": self.expected,
            "sampled_error": self.error,
            "verdict": self.verdict,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Table:
    """A table to print: a title, column heads, rows of cells."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Figure:
    """A figure: its file name without suffix, its caption, and a function that draws it and returns its axes."""

    name: str
    caption: str
    draw: Callable[[], Any]


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """One experiment: its name on the command line, its title, paragraphs, comparisons, tables and figures.

    ``seconds`` is the time to compute it.
    """

    name: str
    title: str
    text: tuple[str, ...]
    comparisons: tuple[Comparison, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    seconds: float = 0.0

    @property
    def published(self) -> list[Comparison]:
        """The comparisons with a published number."""
        return [comparison for comparison in self.comparisons if comparison.published is not None]


@dataclass(frozen=True, slots=True)
class FigureVerdict:
    """How one published figure compares with ours.

    Attributes
    ----------
    title : str
        Which one: "Sepsis: V(s0), catastrophic path".
    numbers, equal : int
        How many numbers were published, and how many of them are equal to ours.
    largest : float
        The largest difference.
    z : float or None
        The largest distance in standard errors of 1,000 draws; None if draws are not the cause.
    beyond : int
        How many numbers are more than three standard errors away.
    reasons : tuple of str
        Differences other than the draws; empty if none is known.
    sampled : str
        What was drawn.
    """

    title: str
    numbers: int
    equal: int
    largest: float
    z: float | None
    beyond: int
    reasons: tuple[str, ...]
    sampled: str = "1,000 draws"

    @property
    def cause(self) -> str:
        """The cause, in a few words."""
        if self.equal == self.numbers:
            return _EQUAL
        if self.reasons:
            return _REASON
        if self.z is None:
            return _DIFFERS
        if self.beyond:
            return f"{self.beyond} beyond the error of {self.sampled}"
        return f"equal, or within the error of {self.sampled} (at most {self.z:.1f} standard errors)"


def figure_verdicts(sections: Iterable[Section]) -> list[FigureVerdict]:
    """A verdict for each published figure of some sections, in their order."""
    figures: dict[str, list[Comparison]] = {}
    for section in sections:
        for comparison in section.published:
            path = comparison.path and f", {comparison.path} path"
            figures.setdefault(f"{section.title}: {comparison.quantity}{path}", []).append(comparison)
    return [_verdict(title, figure) for title, figure in figures.items()]


def _verdict(title: str, figure: Sequence[Comparison]) -> FigureVerdict:
    off = [comparison for comparison in figure if not comparison.is_equal]
    reasons = tuple(dict.fromkeys(comparison.reason for comparison in off if comparison.reason))
    zs = [abs(comparison.z) for comparison in off if comparison.z is not None and not comparison.reason]
    return FigureVerdict(
        title,
        len(figure),
        len(figure) - len(off),
        max((abs(comparison.difference) for comparison in off), default=0.0),
        max(zs, default=None),
        sum(z > 3 for z in zs),
        reasons,
        figure[0].sampled,
    )


def together(sections: Iterable[Section]) -> list[str]:
    """All numbers of an experiment that draws explain, judged together: a joint p-value, in words.

    Numbers and figures of one sampled run depend on each other. Bonferroni's bound holds however they do: the p-value
    of the largest deviation times how many different numbers there are, at most 1.
    """
    found = []
    for section in sections:
        judged = {
            (one.quantity, one.about, one.published, one.expected, one.error): abs(one.z)
            for one in section.published
            if one.z is not None and not one.reason
        }
        if len(judged) > 1:
            largest = max(judged.values())
            p = min(1.0, len(judged) * math.erfc(largest / math.sqrt(2.0)))
            found.append(
                f"{section.title}: {len(judged)} different numbers together: joint p-value at most {p:.2g} "
                f"(Bonferroni; the largest deviation is {largest:.1f} standard errors)."
            )
    return found


def footnotes(verdicts: Sequence[FigureVerdict]) -> dict[str, int]:
    """The number of each reason, in the order of the verdicts."""
    reasons = dict.fromkeys(reason for verdict in verdicts for reason in verdict.reasons)
    return {reason: number for number, reason in enumerate(reasons, start=1)}


def summary(verdicts: Sequence[FigureVerdict]) -> Table:
    """All figures in one table; reasons by the number of their footnote."""
    notes = footnotes(verdicts)
    rows = []
    for verdict in verdicts:
        mark = "".join(f" [{notes[reason]}]" for reason in verdict.reasons)
        largest = "" if verdict.equal == verdict.numbers else f"{verdict.largest:,.4g}"
        rows.append((verdict.title, f"{verdict.equal:,} of {verdict.numbers:,}", largest, verdict.cause + mark))
    return Table(
        "Every published figure, compared with ours", ("figure", "equal", "largest difference", "cause"), tuple(rows)
    )


def comparison_table(comparisons: Iterable[Comparison], notes: Mapping[str, int] | None = None) -> Table:
    """Ours, published, difference and verdict; one row for all k, m and t with the same numbers.

    ``notes`` has the numbers of the reasons, which are listed below the table.
    """
    groups: dict[tuple[Any, ...], list[Comparison]] = {}
    for one in comparisons:
        if one.published is not None:
            key = (one.quantity, one.about, one.ours, one.published, one.verdict, one.reason)
            groups.setdefault(key, []).append(one)
    rows = []
    for (quantity, about, ours, theirs, verdict, reason), members in groups.items():
        where = [about] if about else []
        for name in ("k", "m", "t"):
            numbers = sorted({getattr(member, name) for member in members if getattr(member, name) is not None})
            if numbers:
                where.append(f"{name} = {joined(numbers)}")
        digits, equal = 0 if quantity == "size" else 3, verdict == _EQUAL
        difference = "" if equal else f"{members[0].difference:+,.{digits}f}"
        mark = f" [{notes[reason]}]" if not equal and notes and reason in notes else ""
        rows.append(
            (quantity, ", ".join(where), f"{ours:,.{digits}f}", f"{theirs:,.{digits}f}", difference, verdict + mark)
        )
    return Table("Ours and the published numbers", ("", "at", "exact", "published", "difference", ""), tuple(rows))


def joined(numbers: list[int]) -> str:
    """``7 … 12``, or the numbers themselves."""
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]} … {numbers[-1]}"
    return ", ".join(map(str, numbers))


class PublishedPath(msgspec.Struct, frozen=True):
    """Figures and tables of one observed path: values by k for m = 1, 2, …, and sizes by k."""

    observed: float
    values: dict[int, list[float]]
    sizes: dict[int, int]


class PublishedCourse(msgspec.Struct, frozen=True):
    """A simulated mean over time, with its spread."""

    mean: list[float]
    std: list[float]


class PublishedHidden(msgspec.Struct, frozen=True):
    """One figure of the first appendix."""

    k_cf_policies: list[float]
    fully_known: float
    hidden: float


class PublishedFollowUp(msgspec.Struct, frozen=True):
    """The follow-up on sets of causal models: the average of the worst case over random paths of two of its models."""

    source: str
    mean_worst_case: float
    frozen_lake: float
    paths: int


class PublishedOffPolicy(msgspec.Struct, frozen=True):
    """Oberst and Sontag: mean returns by name; outcomes in percent, rows observed, columns counterfactual.

    ``physician`` has the actions of the released table, for the states where they differ from the exact rules.
    """

    source: str
    patients: int
    estimates: dict[str, float]
    outcomes: list[list[float]]
    physician: dict[int, int]


class Published(msgspec.Struct, frozen=True):
    """All numbers that the papers print."""

    source: str
    note: str
    run_time: str
    paths: dict[str, PublishedPath]
    mean_infected: dict[str, PublishedCourse]
    hidden_diabetes: dict[str, PublishedHidden]
    follow_up: PublishedFollowUp
    off_policy: PublishedOffPolicy


class Expected(msgspec.Struct, frozen=True):
    """Exact numbers that must not change, to some digits; or, with ``digits`` 0, whole numbers or words."""

    digits: int
    values: list[float | str]


@cache
def published() -> Published:
    """The published numbers."""
    return msgspec.json.decode(_read("published.json"), type=Published, strict=False)


@cache
def expected() -> dict[str, Expected]:
    """The exact numbers that `tether reproduce --check` compares with, by what they are."""
    return msgspec.json.decode(_read("expected.json"), type=dict[str, Expected])


def _read(name: str) -> bytes:
    return (files("tether_reproduce") / "data" / name).read_bytes()
