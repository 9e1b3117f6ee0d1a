"""Sets of causal models in pictures: the range of a plan, the same for each k, and the worst part of a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats
from tether.errors import QueryError
from tether.evaluation.certificate import Certificate
from tether.evaluation.guarantees import GuaranteesByK
from tether.figures.series import Series, fit_limits
from tether.figures.style import (
    BAD,
    BLACK,
    BLUE,
    GOOD,
    TETHER,
    axes,
    axis_number,
    explain_with,
    number_axis,
    steps_axis,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BAND = "#c4c4c4"
_RETURN = "expected return"


def plot_certificate(certificate: Certificate, ax: Axes | None = None) -> Axes:
    """The value of a plan or policy at worst, under Gumbel-max and at best, beside what was observed.

    There is one row for every causal model in which luck is unrelated over time, one for every stable one of these, and
    one for luck that is related over time.

    Examples
    --------
    >>> import tether
    >>> from tether.views.figures import plot_certificate
    >>> patient = tether.cases.sepsis()
    >>> plan = tether.counterfactual(patient.mdp, patient.path).plan(k=9, m=2)
    >>> [text.get_text() for text in plot_certificate(plan.certify()).get_legend().get_texts()]
    ['worst to best', 'Gumbel-max', 'observed']
    """
    rows = [(one.worst, one.best) for one in (certificate.nothing, certificate.stability)] + [certificate.related]
    with styled():
        ax = axes(ax, (5.5, 2.8), grid="x")
        for y, span in enumerate(rows):
            ax.plot(span, [y, y], color=_BAND, linewidth=9, solid_capstyle="butt", zorder=1)
            ends = ax.plot(span, [y, y], color="#555555", marker="|", markersize=11, linestyle="none")
        (range_,) = ax.plot([], [], color=_BAND, linewidth=9, label="worst to best")
        (gumbel,) = ax.plot(
            [certificate.value] * 3, range(3), color=BLUE, marker="D", linestyle="none", label="Gumbel-max", zorder=3
        )
        ends[0].set_markeredgewidth(1.4)
        seen = ax.axvline(certificate.observed_value, color=BLACK, linewidth=1.0, label="observed", zorder=2)
        ax.set_yticks(range(3), ["every causal model,\nluck unrelated", "every\nstable one", "luck related\nover time"])
        ax.set_ylim(2.6, -0.6)
        numbers = [certificate.observed_value, *(end for span in rows for end in span)]
        margin = 0.06 * (max(numbers) - min(numbers)) or 1.0
        ax.set_xlim(min(numbers) - margin, max(numbers) + margin)
        number_axis(ax.xaxis)
        ax.set_xlabel(_RETURN if certificate.objective is None else "probability")
        explain_with(ax, [range_, gumbel, seen])
    return ax


def plot_guarantees(by_k: GuaranteesByK, ax: Axes | None = None, chosen: int | None = None) -> Axes:
    """The value of the best plan for each k, at worst, under Gumbel-max and at best, beside what was observed.

    ``chosen`` is the k of a plan, to be marked.

    Examples
    --------
    >>> import tether
    >>> from tether.evaluation.guarantees import guarantees_by_k
    >>> from tether.views.figures import plot_guarantees
    >>> case = tether.cases.epidemic()
    >>> ax = plot_guarantees(guarantees_by_k(tether.counterfactual(case.mdp, case.path).plan(k=6, m=4)), chosen=6)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['worst to best', 'Gumbel-max, m = 4', 'observed', 'this plan, k = 6']
    """
    last = by_k.ks[-1]
    edges = np.append(by_k.ks - 0.5, last + 0.5)
    with styled():
        ax = axes(ax)
        every = [Series("", by_k.ks.astype(float), row) for row in (by_k.values, by_k.worst, by_k.best)]
        fit_limits(ax, every, [by_k.observed_value])
        ax.set_xlim(edges[0], edges[-1])
        band = ax.stairs(
            by_k.best, edges, baseline=by_k.worst, fill=True, color=_BAND, alpha=0.75, zorder=0, label="worst to best"
        )
        seen = ax.axhline(by_k.observed_value, color=BLACK, linewidth=1.0, label="observed")
        line = ax.stairs(
            by_k.values, edges, baseline=None, color=BLUE, linewidth=1.4, label=f"Gumbel-max, m = {by_k.m}"
        )
        handles: list[Any] = [band, line, seen]
        if chosen is not None:
            at = float(by_k.values[np.searchsorted(by_k.ks, chosen, side="right") - 1])
            handles += ax.plot(
                [chosen], [at], color=BLUE, marker="D", linestyle="none", label=f"this plan, k = {chosen}"
            )
        steps_axis(ax, int(by_k.ks[0]), int(last))
        number_axis(ax.yaxis)
        ax.set_xlabel(TETHER)
        ax.set_ylabel(_RETURN if by_k.objective is None else "probability")
        explain_with(ax, handles)
    return ax


def plot_tails(probability: Any, value: Any, level: float, ax: Axes | None = None) -> Axes:
    """The worst and the best case of a row over all causal models: the means over its worst and its best part.

    Outcomes are sorted by their value. Each is as wide as it is likely. The worst part is shaded. Its size ``level`` is
    the probability of the observed outcome, and its mean is the worst case.

    Parameters
    ----------
    probability, value : sequences
        The nominal row of an action, and what each outcome is worth.
    level : float
        The probability that the observed outcome had.

    Examples
    --------
    >>> from tether.views.figures import plot_tails
    >>> ax = plot_tails([0.2, 0.5, 0.3], [-10.0, 0.0, 10.0], level=0.4)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['worst part, mean −5', 'whole row, mean 1', 'best part, mean 7.5']
    """
    p, v = np.asarray(probability, dtype=float), np.asarray(value, dtype=float)
    if p.shape != v.shape or p.ndim != 1 or not np.isclose(p.sum(), 1.0) or p.min(initial=0.0) < 0:
        raise QueryError("probability and value must be of one length, and probabilities must sum to 1")
    if not 0 < level <= 1:
        raise QueryError(f"level must be above 0 and at most 1, not {level!r}")
    order = np.argsort(v, kind="stable")
    p, v = p[order], v[order]
    edges = np.append(0.0, np.cumsum(p))
    with styled():
        ax = axes(ax, (5.5, 3.0))
        margin = 0.12 * float(v.max() - v.min()) or 1.0
        ax.set_ylim(float(v.min()) - margin, float(v.max()) + margin)
        ax.set_xlim(0.0, 1.0)
        floor = ax.get_ylim()[0]
        ax.stairs(v, edges, baseline=floor, fill=True, color="#e8e8e8", zorder=0)
        ax.stairs(v, edges, baseline=None, color="#555555", linewidth=1.2, zorder=3)
        lines = []
        for name, low, high, colour in (
            ("worst part", 0.0, level, BAD),
            ("whole row", 0.0, 1.0, BLACK),
            ("best part", 1.0 - level, 1.0, GOOD),
        ):
            mean = _mean_between(p, v, edges, low, high)
            label = f"{name}, mean {axis_number(float(f'{mean:.4g}'))}"
            lines += ax.plot([low, high], [mean, mean], color=colour, linewidth=1.8, label=label, zorder=4)
            if name == "worst part":
                _shade(ax, v, edges, level, floor)
        number_axis(ax.yaxis)
        ax.set_xlabel("probability, outcomes in the order of what they are worth")
        ax.set_ylabel("worth of the outcome")
        ax.axvline(level, color=BAD, linewidth=0.9, linestyle=(0, (4, 2)))
        explain_with(ax, lines)
    return ax


def _mean_between(p: Floats, v: Floats, edges: Floats, low: float, high: float) -> float:
    taken = np.minimum(edges[1:], high) - np.maximum(edges[:-1], low)
    taken = np.clip(taken, 0.0, p)
    return float(taken @ v / taken.sum())


def _shade(ax: Axes, v: Floats, edges: Floats, level: float, floor: float) -> None:
    """The part of the row that lies below ``level``."""
    inside = np.append(edges[edges < level], level)
    ax.stairs(v[: inside.size - 1], inside, baseline=floor, fill=True, color=BAD, alpha=0.35, zorder=1)
