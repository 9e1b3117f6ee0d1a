"""What influence costs: what each k loses, policies for each k."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tether.errors import QueryError
from tether.figures.drawable import DrawnFront, DrawnSweep
from tether.figures.series import Series, fit_limits, series_of
from tether.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    PURPLE,
    TETHER,
    VALUE,
    axes,
    explain_with,
    look,
    number_axis,
    steps_axis,
    styled,
)
from tether.model.properties import Property

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


def plot_lost(
    table: DrawnSweep, m: int, ax: Axes | None = None, *, suggested: int | None = None, chosen: int | None = None
) -> Axes:
    """The value at each k, and what it loses against no tether at all (the grey area).

    Parameters
    ----------
    table : Sweep
        It must contain ``m`` and k = T + 1.
    m : int
    suggested : int, optional
        A k to mark as suggested.
    chosen : int, optional
        The k of a plan, to be marked.

    Examples
    --------
    >>> import tether
    >>> from tether.views.figures import plot_lost
    >>> case = tether.cases.epidemic()
    >>> ax = plot_lost(tether.counterfactual(case.mdp, case.path).sweep(), m=2, suggested=6)
    >>> ax.get_legend().get_texts()[-1].get_text()
    'k = 6: value −26.08, 25.08 lost'
    """
    lost = table.lost(m)
    order = np.argsort(table.ks)
    ks, lost, sign = table.ks[order], lost[order], -1.0 if table.minimise else 1.0
    free = table.value(int(ks[-1]), m)
    values = free - sign * lost
    for k in (suggested, chosen):
        if k is not None and k not in ks:
            raise QueryError(f"k = {k} was not asked for in this sweep, so it cannot be marked")
    with styled():
        ax = axes(ax)
        fit_limits(ax, [Series("", ks.astype(float), values)], [table.observed_value])
        edges = np.append(ks - 0.5, ks[-1] + 0.5)
        top = ax.axhline(free, color=GREY, linestyle=(0, (5, 2)), linewidth=0.9, label="no tether")
        seen = ax.axhline(table.observed_value, color=BLACK, linewidth=0.8, label="observed")
        gap = ax.stairs(values, edges, baseline=free, fill=True, color="#e8e8e8", zorder=0, label="lost to the tether")
        step = ax.stairs(values, edges, baseline=None, color=BLUE, linewidth=1.4, label=f"best value, m = {m}")
        ax.plot(ks, values, color=BLUE, marker="o", linestyle="none")
        at = dict(zip(ks.tolist(), values.tolist(), strict=True))
        ringed = [] if suggested is None else _suggest(ax, suggested, at[suggested], sign * (free - at[suggested]))
        if chosen is not None:
            ringed += ax.plot([chosen], [at[chosen]], label=f"this plan, k = {chosen}", color=BLACK, **_mark(6, "D"))
        steps_axis(ax, int(ks[0]), int(ks[-1]))
        ax.set_xlabel(TETHER)
        ax.set_ylabel("expected return" if table.objective is None else "probability")
        number_axis(ax.yaxis)
        explain_with(ax, [step, top, seen, gap, *ringed])
    return ax


def _suggest(ax: Axes, k: int, value: float, lost: float) -> list[Line2D]:
    """Ring the suggested k; the legend says what it gives."""
    text = f"k = {k}: value {value:.4g}, {lost:.4g} lost".replace("-", "\N{MINUS SIGN}")
    return ax.plot([k], [value], color=BLUE, label=text, **_mark(10, "o"))


def _mark(size: float, marker: str) -> dict[str, Any]:
    return {
        "marker": marker,
        "markersize": size,
        "markerfacecolor": "none",
        "markeredgewidth": 1.4,
        "linestyle": "none",
    }


def plot_lines(
    ks: Any,
    values: Any,
    references: Mapping[str, float],
    ax: Axes | None = None,
    ylabel: str = "expected return",
    label: str = "policy made for each k",
) -> Axes:
    """The values of the policies made for each k, with levels to compare them to.

    Parameters
    ----------
    ks, values : sequences
    references : mapping of name to value
        Levels that coincide are drawn as one.

    Examples
    --------
    >>> from tether.views.figures import plot_lines
    >>> ax = plot_lines([1, 2, 3], [-400.0, -400.0, -513.07], {"knows": -400.0, "does not know": -518.3})
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['policy made for each k', 'knows', 'does not know']
    """
    series = series_of(label, ks, values)
    levels: dict[float, str] = {}
    for name, value in references.items():
        known = next((level for level in levels if abs(level - value) <= 1e-9 * max(abs(level), 1e-300)), None)
        levels[value if known is None else known] = name if known is None else f"{levels[known]} = {name}"
    with styled():
        ax = axes(ax)
        fit_limits(ax, [series], list(levels))
        (line,) = ax.plot(series.x, series.y, color=BLUE, marker="o", label=label, zorder=3)
        colours = [PURPLE, GREEN, BLACK]
        lines = [
            ax.axhline(value, color=colours[i % 3], linestyle=look(i + 1).line, linewidth=1.3, label=name)
            for i, (value, name) in enumerate(levels.items())
        ]
        steps_axis(ax, int(series.x.min()), int(series.x.max()))
        ax.set_xlabel(TETHER)
        ax.set_ylabel(ylabel)
        explain_with(ax, [line, *lines])
    return ax


# ---- The front -----------------------------------------------------------------------------------------------------
# The front of value against influence, or against the probability of a property.


def plot_pareto(front: DrawnFront, ax: Axes | None = None) -> Axes:
    """Value against expected influence: the supported policies, and the hull that mixing them attains.

    Examples
    --------
    >>> import tether
    >>> from tether.views.figures import plot_pareto
    >>> case = tether.cases.grid_world()
    >>> front = tether.counterfactual(case.mdp, case.path).pareto(m=3)
    >>> ax = plot_pareto(front)
    >>> len(ax.lines[0].get_xdata()) == len(front.points)
    True
    """
    x, y = front.measures, front.values
    risk = isinstance(front.against, Property)  # less of it is better
    low, high = float(y.min()), float(y.max())
    margin, right = 0.07 * (high - low) or 1.0, float(x.max()) or 1.0
    with styled():
        ax = axes(ax)
        ax.set_ylim(low - margin, high + margin)
        ax.set_xlim(-0.03 * right, 1.04 * right)
        size = 4.5 if x.size <= 40 else 2.0
        (line,) = ax.plot(
            x, y, color=BLUE, marker="o", markersize=size, label="supported policies, and mixtures of them"
        )
        under = np.concatenate(([-0.03 * right], x)), np.concatenate((y[:1], y))
        if risk:
            under = np.concatenate((x[::-1], [1.04 * right])), np.concatenate((y[::-1], y[:1]))
        label = "no better than these"
        area = ax.fill_between(*under, low - margin, color="#ececec", linewidth=0, zorder=0, label=label)
        explain_with(ax, [line, area])
        if isinstance(front.against, Property):
            ax.set_xlabel(f"probability that {front.against.in_words}")
        else:
            ax.set_xlabel(f"expected {front.against}, summed over the {front.points[0].plan.T} steps")
        ax.set_ylabel(VALUE)
    return ax
