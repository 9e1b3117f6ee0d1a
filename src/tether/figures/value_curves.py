"""The value for every k and m as curves, and sizes against k."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats
from tether.errors import QueryError
from tether.figures.drawable import DrawnSweep
from tether.figures.series import Series, draw, filled_and_hollow, fit_limits, merge, series_of
from tether.figures.style import (
    BLACK,
    CHANGES,
    TETHER,
    VALUE,
    axes,
    explain_with,
    figure_of,
    look,
    number_axis,
    steps_axis,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MANY = 10
"""If there are more curves than this, they differ by a scale of colours, not by marks."""


def plot_values(table: DrawnSweep, published: Mapping[int, Any] | None = None, ax: Axes | None = None) -> Axes:
    """V(s_0) against the number of changes m = 1 … T, one curve for each k that makes a difference.

    Parameters
    ----------
    table : Sweep
    published : mapping of k to values for m = 1, 2, …, optional
        Drawn as hollow marks around ours. Values for k or m that are not in the table are left out.
    ax : Axes, optional
        Where to draw; a figure of its own by default.

    Examples
    --------
    >>> import tether
    >>> from tether.views.figures import plot_values
    >>> case = tether.cases.grid_world()
    >>> ax = plot_values(tether.counterfactual(case.mdp, case.path).sweep())
    >>> [text.get_text() for text in ax.get_legend().get_texts()]  # six rows of the table are one curve
    ['k = 6 … 12', 'k = 1 … 5', 'observed']
    """
    from matplotlib.lines import Line2D

    columns = np.flatnonzero(table.ms >= 1)
    if not columns.size:
        raise QueryError("the sweep holds only m = 0, where nothing can change; there is no curve to draw")
    ms = table.ms[columns].astype(float)
    rows = [
        Series(str(k), ms, table.values[i, columns], _published_row(published, int(k), table.ms[columns]))
        for i, k in enumerate(table.ks)
    ]
    series = sorted(merge(rows, span), key=lambda one: -float(one.y[-1]))
    with styled():
        ax = axes(ax)
        fit_limits(ax, series, [table.observed_value])
        line = ax.axhline(table.observed_value, color=BLACK, linewidth=0.8, zorder=1, label="observed")
        if len(series) > _MANY:
            _many(ax, merge(rows, itemgetter(0)))
            explain_with(ax, [line])
        else:
            lines = draw(ax, series, [look(i) for i in range(len(series))])
            notes = filled_and_hollow() if any(one.hollow for one in series) else []
            gap = [Line2D([], [], linestyle="none", label=" ")] if notes else []
            explain_with(ax, [*lines, line, *gap, *notes], beside=True)
        steps_axis(ax, int(ms.min()), int(ms.max()))
        number_axis(ax.yaxis)
        ax.set_xlabel(CHANGES)
        ax.set_ylabel(VALUE)
    return ax


def _published_row(published: Mapping[int, Any] | None, k: int, ms: Any) -> tuple[Floats, ...]:
    if published is None or k not in published:
        return ()
    row = np.asarray(published[k], dtype=float).reshape(-1)
    padded = np.concatenate((row, np.full(max(0, int(ms.max()) - row.size), np.nan)))
    return (padded[ms - 1],)


def _many(ax: Axes, series: list[Series]) -> None:
    """Many curves, coloured by k; each is labelled with its first."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    first = np.array([float(one.label) for one in series])
    scale = ScalarMappable(Normalize(first.min(), first.max()), colormaps["cividis_r"])
    for one, colour in zip(series, scale.to_rgba(first), strict=True):
        ax.plot(one.x, one.y, color=colour, label=one.label)
    figure_of(ax).colorbar(scale, ax=ax, label=TETHER)


def plot_sizes(series: Mapping[str, tuple[Any, Any]], ax: Axes | None = None) -> Axes:
    """Sizes of pruned counterfactual MDPs against k; on a logarithmic scale if they differ more than a hundredfold.

    Parameters
    ----------
    series : mapping of name to (ks, sizes)
        Series that coincide are drawn as one.

    Examples
    --------
    >>> import tether
    >>> from tether.views.figures import plot_sizes
    >>> case = tether.cases.epidemic()
    >>> table = tether.counterfactual(case.mdp, case.path).sweep()
    >>> ax = plot_sizes({"visited": (table.ks, table.sizes), "the paper's count": (table.ks, table.layered_sizes)})
    >>> ax.get_yscale(), ax.get_xlabel()
    ('log', 'length of the tether k (steps)')
    """
    if not series:
        raise QueryError("there are no sizes to draw")
    given = [series_of(name, ks, sizes) for name, (ks, sizes) in series.items()]
    lines = merge(given, " = ".join)
    smallest = min(float(one.y[one.y > 0].min(initial=np.inf)) for one in lines)
    largest = max(float(one.y.max(initial=0.0)) for one in lines)
    with styled():
        ax = axes(ax)
        if largest > 100 * smallest:
            ax.set_yscale("log")
        fit_limits(ax, lines)
        drawn = draw(ax, lines, [look(i) for i in range(len(lines))])
        if len(drawn) > 1:
            explain_with(ax, drawn)
        steps_axis(ax, int(min(one.x.min() for one in lines)), int(max(one.x.max() for one in lines)))
        ax.set_xlabel(TETHER)
        ax.set_ylabel("size (states over time)")
    return ax


def span(ks: list[str]) -> str:
    """Several k in words.

    >>> span(["3"]), span(["1", "2"]), span(["7", "8", "9"])
    ('k = 3', 'k = 1, 2', 'k = 7 … 9')
    """
    return f"k = {', '.join(ks)}" if len(ks) < 3 else f"k = {ks[0]} … {ks[-1]}"


# ---- Means over any number -----------------------------------------------------------------------------------------
# Several means as curves over one number, each with its sampling error.


def plot_curves(
    x: Any, curves: Mapping[str, tuple[Any, Any]], xlabel: str, ylabel: str, ax: Axes | None = None
) -> Axes:
    """Curves over ``x``, each with a band around it.

    Parameters
    ----------
    x : sequence of numbers
    curves : mapping of name to (values, errors)
        One of each for every x; the band goes from value - error to value + error.
    xlabel, ylabel : str
    ax : Axes, optional
        Where to draw; a figure of its own by default.

    Examples
    --------
    >>> from tether.views.figures import plot_curves
    >>> ax = plot_curves([0.1, 0.5, 1.0], {"m = 2": ([3.5, 4.7, 4.8], [0.2, 0.2, 0.2])}, "α", "improvement in percent")
    >>> ax.lines[0].get_ydata().tolist()
    [3.5, 4.7, 4.8]
    """
    with styled():
        ax, lines = axes(ax), []
        for i, (name, (values, errors)) in enumerate(curves.items()):
            middle, error, shown = series_of(name, x, values), series_of(name, x, errors), look(i)
            ax.fill_between(
                middle.x, middle.y - error.y, middle.y + error.y, color=shown.colour, alpha=0.2, linewidth=0
            )
            lines += ax.plot(
                middle.x, middle.y, color=shown.colour, marker=shown.marker, linestyle=shown.line, label=name
            )
        number_axis(ax.xaxis)
        number_axis(ax.yaxis)
        ax.set_xlabel(xlabel)
        ax.set_ylabel(ylabel)
        explain_with(ax, lines)
    return ax
