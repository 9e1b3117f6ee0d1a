"""One verdict per published figure, by cause.

A figure is all numbers of one quantity of one path: "V(s0), catastrophic path". Its numbers share one cause. Either the
same model was sampled with 1,000 draws per row: then the error of these draws is computed, and each number is compared
with it. Or something else differs: then a reason says what, and no number of the figure is explained by chance, even if
it is close.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tether.reproduce.records import Comparison, Section, Table

__all__ = ["FigureVerdict", "figure_verdicts", "footnotes", "summary"]


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
            return "equal"
        if self.reasons:
            return "differs, for a known reason"
        if self.z is None:
            return "differs"
        if self.beyond:
            return f"{self.beyond} beyond the error of {self.sampled}"
        return f"equal, or within the error of {self.sampled} (at most {self.z:.1f} standard errors)"


def figure_verdicts(sections: Iterable[Section]) -> list[FigureVerdict]:
    """A verdict for each published figure of some sections, in their order."""
    verdicts = []
    for section in sections:
        figures: dict[tuple[str, str], list[Comparison]] = {}
        for comparison in section.comparisons:
            if comparison.published is not None:
                figures.setdefault((comparison.quantity, comparison.path), []).append(comparison)
        verdicts += [
            _verdict(f"{section.title}: {quantity}{path and f', {path} path'}", figures[quantity, path])
            for quantity, path in figures
        ]
    return verdicts


def _verdict(title: str, figure: Sequence[Comparison]) -> FigureVerdict:
    off = [comparison for comparison in figure if not comparison.is_equal]
    reasons = tuple(dict.fromkeys(comparison.reason for comparison in off if comparison.reason))
    zs = [abs(comparison.z) for comparison in off if comparison.z is not None and not comparison.reason]
    return FigureVerdict(
        title,
        len(figure),
        len(figure) - len(off),
        max((abs(comparison.difference or 0.0) for comparison in off), default=0.0),
        max(zs) if zs else None,
        sum(z > 3 for z in zs),
        reasons,
        figure[0].sampled,
    )


def footnotes(verdicts: Sequence[FigureVerdict]) -> dict[str, int]:
    """The number of each reason, in the order of the verdicts."""
    reasons = dict.fromkeys(reason for verdict in verdicts for reason in verdict.reasons)
    return {reason: number for number, reason in enumerate(reasons, start=1)}


def summary(verdicts: Sequence[FigureVerdict]) -> Table:
    """All figures on one screen; reasons by the number of their footnote."""
    notes = footnotes(verdicts)
    rows = []
    for verdict in verdicts:
        mark = "".join(f" [{notes[reason]}]" for reason in verdict.reasons)
        largest = "" if verdict.equal == verdict.numbers else f"{verdict.largest:,.4g}"
        rows.append((verdict.title, f"{verdict.equal:,} of {verdict.numbers:,}", largest, verdict.cause + mark))
    return Table(
        "Every published figure, compared with ours", ("figure", "equal", "largest difference", "cause"), tuple(rows)
    )
