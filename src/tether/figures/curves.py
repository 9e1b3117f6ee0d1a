"""Several means as curves over one number, each with its sampling error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tether.figures.series import series_of
from tether.figures.style import axes, explain_with, look, number_axis, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
