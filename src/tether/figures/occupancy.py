"""The motivating picture: which states two groups of patients visit over time, and three paths through them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats
from tether.errors import QueryError
from tether.figures.style import (
    BLACK,
    BLUE,
    TIME,
    VERMILLION,
    Look,
    axes,
    explain_with,
    figure_of,
    look,
    points_per_unit,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import LinearSegmentedColormap

_LOOKS = (Look(BLACK, "s", "-"), Look(BLUE, "o", "-"), Look(VERMILLION, "^", "-"))
_SHOWN = (0.01, 0.1, 1.0)

_WIDEST, _LARGEST = 2.8, 5.5
"""The width of the first path's line and marks in points: less than the distance of two states, so that no mark covers
another state. The other paths are narrower, so that they can be seen on top of it."""


def plot_occupancy(
    shade: Any,
    weight: Any,
    paths: Mapping[str, Sequence[int]],
    ax: Axes | None = None,
    ends: tuple[str, str] = ("only the whole\npopulation", "only diabetic\npatients"),
    states: Sequence[str] | None = None,
    xlabel: str = "state",
) -> Axes:
    """States over time, and paths through them. Each state is a dot: its colour says who visits it, its size how often.

    Parameters
    ----------
    shade : array (T + 1, n), from -1 to 1
        Who visits the state at that time: -1 the first group only, 1 the second only.
    weight : array (T + 1, n), from 0 to 1
        How often it is visited: the area of the dot goes with the square root. 0: no dot.
    paths : mapping of label to column indices, at t = 0 …
        The observed path, the unconstrained and the constrained one, in this order. Every mark is on its state:
        where two paths coincide, the later one is drawn narrower, on top of the other.
    ends : pair of str
        What the two ends of the colour scale mean.
    states : sequence of str, optional
        Names of the columns.

    Examples
    --------
    >>> from tether.views.figures import plot_occupancy
    >>> ax = plot_occupancy([[0, 0], [-1, 0.5]], [[1, 0], [0.5, 0.5]], {"observed": [0, 1]})
    >>> len(ax.collections[0].get_offsets())  # the state that is never visited has no dot
    3
    """
    shade, weight = np.asarray(shade, dtype=float), np.asarray(weight, dtype=float)
    _check(shade, weight, paths)
    T, n = shade.shape[0] - 1, shade.shape[1]
    with styled():
        ax = axes(ax, (7.2, 4.6), "")
        ax.set_xlim(-0.7, n - 0.3)
        ax.set_ylim(T + 0.6, -0.6)
        t, column = np.nonzero(weight > 0)
        across, down = points_per_unit(ax)
        full = min(1.6 * across, 0.9 * down) ** 2
        dots = ax.scatter(
            column,
            t,
            s=full * np.sqrt(weight[t, column]),
            c=shade[t, column],
            cmap=_scale(),
            vmin=-1,
            vmax=1,
            edgecolors="#666666",
            linewidths=0.3,
            zorder=1,
        )
        lines = _paths(ax, paths)
        bar = figure_of(ax).colorbar(dots, ax=ax, pad=0.02, aspect=30, ticks=[-1, 0, 1])
        bar.ax.set_yticklabels([ends[0], "both alike", ends[1]], fontsize=8)
        bar.outline.set_visible(False)
        _axes_names(ax, T, n, states, xlabel)
        sizes = [
            ax.scatter(
                [],
                [],
                s=full * np.sqrt(w),
                color="#bbbbbb",
                edgecolors="#666666",
                linewidths=0.3,
                label=f"visited by {100 * w:g} %",
            )
            for w in _SHOWN
        ]
        explain_with(ax, [*lines, *sizes])
    return ax


def _check(shade: Floats, weight: Floats, paths: Mapping[str, Sequence[int]]) -> None:
    if shade.ndim != 2 or shade.shape != weight.shape or not shade.size:
        raise QueryError(f"shade and weight are times × states alike; got {shade.shape} and {weight.shape}")
    if not (np.all(np.abs(shade) <= 1) and np.all((weight >= 0) & (weight <= 1))):
        raise QueryError("shade goes from -1 to 1 and weight from 0 to 1")
    for label, path in paths.items():
        if len(path) > shade.shape[0] or not all(0 <= c < shade.shape[1] for c in path):
            raise QueryError(
                f"path {label!r} leaves the {shade.shape[0]} times × {shade.shape[1]} states of the picture"
            )


def _scale() -> LinearSegmentedColormap:
    """From blue to orange through light grey; blue is the darker end, so that the two differ in print too."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("tether", ["#08407e", "#4a90c2", "#f2f2f2", "#f6b26b", "#e07b00"])


def _paths(ax: Axes, paths: Mapping[str, Sequence[int]]) -> list[Any]:
    """The paths, every mark on its own state; where paths coincide, the later one is the narrower and lies on top."""
    lines = []
    for i, (label, path) in enumerate(paths.items()):
        how = _LOOKS[i] if i < len(_LOOKS) else look(i)
        thinner = max(0.25, 1.0 - 0.3 * i)
        t = np.arange(len(path))
        if i == 0:
            ax.plot(path, t, color="white", linewidth=_WIDEST + 1.5, zorder=2)  # to stand out from the dots
        (line,) = ax.plot(path, t, color=how.colour, marker=how.marker, linestyle=how.line, label=label, zorder=3 + i)
        line.set(linewidth=_WIDEST * thinner, markersize=_LARGEST * thinner)
        lines.append(line)
    return lines


def _axes_names(ax: Axes, T: int, n: int, states: Sequence[str] | None, xlabel: str) -> None:
    from matplotlib.ticker import MaxNLocator

    ax.yaxis.set_major_locator(MaxNLocator(nbins=12, integer=True))
    ax.set_ylabel(TIME)
    ax.set_xlabel(xlabel)
    if states is None:
        ax.set_xticks([])
    else:
        ax.set_xticks(range(n), list(states), rotation=90 if max(map(len, states)) > 3 else 0)
