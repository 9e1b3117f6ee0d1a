"""What could be gained in a log: how gains are distributed over its episodes, and how few episodes have most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats
from tether.errors import QueryError
from tether.figures.style import BAD, BLUE, GREY, axes, number_axis, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BINS = 30
_POINTS = 400
"""How many points a curve over ranks has at most."""


def plot_gains(gains: Any, ax: Axes | None = None) -> Axes:
    """How many episodes gain how much: a histogram. Losses have another colour.

    Parameters
    ----------
    gains : array
        One number per episode; episodes without one (NaN) are left out, as are those that neither gain nor lose.
    ax : Axes, optional
        Where to draw; a figure of its own by default.

    Examples
    --------
    >>> from tether.views.figures import plot_gains
    >>> ax = plot_gains([1.0, 2.0, 2.0, 0.0, -1.0])
    >>> int(sum(bar.get_height() for bar in ax.patches))
    4
    """
    some = _finite_gains(gains)
    edges = np.histogram_bin_edges(some, bins=min(_BINS, max(5, int(np.sqrt(some.size)) + 1)))
    if some.min() < 0 < some.max():  # a bar shows gains or losses, never both
        width = edges[1] - edges[0]
        below, above = int(np.ceil(-some.min() / width)), int(np.ceil(some.max() / width))
        edges = width * np.arange(-below, above + 1)
    counts, _ = np.histogram(some, edges)
    with styled():
        ax = axes(ax)
        colours = [BAD if high <= 0 else BLUE for high in edges[1:]]
        ax.bar(edges[:-1], counts, np.diff(edges), align="edge", color=colours, edgecolor="white", linewidth=0.5)
        number_axis(ax.xaxis)
        number_axis(ax.yaxis, whole=True)
        ax.set_xlabel("gain over what was done")
        ax.set_ylabel("episodes")
    return ax


def plot_ranked_gains(gains: Any, ax: Axes | None = None) -> Axes:
    """The gains of the episodes, from the largest to the smallest.

    Examples
    --------
    >>> from tether.views.figures import plot_ranked_gains
    >>> ax = plot_ranked_gains([1.0, 3.0, 2.0, 0.0])
    >>> ax.lines[0].get_ydata().tolist()
    [3.0, 2.0, 1.0]
    """
    ranked = np.sort(_finite_gains(gains))[::-1]
    rank = np.unique(np.linspace(0, ranked.size - 1, min(_POINTS, ranked.size)).round().astype(np.int64))
    with styled():
        ax = axes(ax)
        ax.plot(rank + 1, ranked[rank], color=BLUE, marker="o" if ranked.size <= 30 else "")
        ax.axhline(0.0, color=GREY, linewidth=0.7)
        ax.set_ylim(min(0.0, 1.05 * float(ranked[-1])), max(0.0, 1.05 * float(ranked[0])))
        number_axis(ax.xaxis, whole=True)
        number_axis(ax.yaxis)
        ax.set_xlabel("episodes, the largest gain first")
        ax.set_ylabel("gain")
    return ax


def _finite_gains(gains: Any) -> Floats:
    values = np.asarray(gains, dtype=np.float64)
    some: Floats = values[np.isfinite(values) & (values != 0)]
    if some.size == 0:
        raise QueryError("no episode gains or loses anything: there is nothing to draw")
    return some
