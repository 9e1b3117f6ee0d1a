"""The k × m table, shaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats
from tether.figures.drawable import DrawnSweep
from tether.figures.style import CHANGES, SMALL, TETHER, axes, figure_of, points_per_unit, styled, text_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh

_READABLE = 13
"""With more rows or columns than this, cells are too small for numbers and for lines around them: T = 12, and m = 0."""


def plot_heat(table: DrawnSweep, ax: Axes | None = None) -> Axes:
    """The table of values, shaded: k grows down the table, m to the right. Cells that gain nothing stay plain.

    Cells show their numbers if these fit, with as many decimals as fit.

    Examples
    --------
    >>> import tether
    >>> from tether.views.figures import plot_heat
    >>> case = tether.cases.epidemic()
    >>> ax = plot_heat(tether.counterfactual(case.mdp, case.path).sweep())
    >>> len(ax.texts), ax.collections[0].get_array().mask[:2].all()  # k = 1 and 2 gain nothing
    (64, np.True_)
    """
    rows, columns = table.values.shape
    gained = table.values - table.observed_value
    plain = np.abs(gained) <= table.rounding
    readable = max(rows, columns) <= _READABLE
    with styled():
        ax = axes(ax, (float(np.clip(1.5 + 0.5 * columns, 5.5, 7.2)), float(np.clip(0.8 + 0.3 * rows, 2.2, 4.6))), "")
        low, high = float(table.values.min()), float(table.values.max())
        mesh = ax.pcolormesh(
            np.ma.masked_array(table.values, plain),
            cmap="cividis_r",
            vmin=min(low, table.observed_value),
            vmax=high if high > low else low + 1.0,
            edgecolors="#cccccc" if readable else "none",
            linewidth=0.5 if readable else 0.0,
            rasterized=not readable,  # thousands of shapes become a bitmap
        )
        ax.set_xlim(0, columns)
        ax.set_ylim(rows, 0)
        _ticks(ax, table)
        if readable:
            _numbers(ax, table.values, plain, mesh)
        if not plain.all():
            bar = figure_of(ax).colorbar(mesh, ax=ax, pad=0.02, aspect=25)
            bar.set_label("value; plain: as observed")
            bar.ax.tick_params(labelsize=SMALL)
            bar.outline.set_visible(False)
        ax.set_xlabel(CHANGES)
        ax.set_ylabel(TETHER)
    return ax


def _ticks(ax: Axes, table: DrawnSweep) -> None:
    for axis, names in ((ax.xaxis, table.ms), (ax.yaxis, table.ks)):
        every = -(-names.size // 16)
        axis.set_ticks(np.arange(0, names.size, every) + 0.5, [str(n) for n in names[::every]])
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)


def _numbers(ax: Axes, values: Floats, plain: Any, mesh: QuadMesh) -> None:
    """The number of each cell, in black or white, whichever is easier to read on its shade."""
    widest = 0.92 * points_per_unit(ax)[0] * 0.9  # the colour bar takes some
    spread = float(values.max() - values.min())
    most = 0 if spread >= 1000 else 1 if spread >= 100 else 2
    texts = next((texts for d in range(most, -1, -1) if _widest(texts := _texts(values, d)) <= widest), None)
    if texts is None:
        return
    shades = mesh.to_rgba(values)
    for (i, j), text in np.ndenumerate(np.array(texts).reshape(values.shape)):
        red, green, blue, _ = shades[i, j]
        light = 0.299 * red + 0.587 * green + 0.114 * blue > 0.5
        colour = "#777777" if plain[i, j] else "black" if light else "white"
        ax.text(j + 0.5, i + 0.5, str(text), ha="center", va="center", fontsize=SMALL, color=colour)


def _texts(values: Floats, decimals: int) -> list[str]:
    rounded = np.round(values.reshape(-1), decimals) + 0.0  # no -0
    return [f"{value:.{decimals}f}".replace("-", "\N{MINUS SIGN}") for value in rounded]


def _widest(texts: list[str]) -> float:
    longest = max(map(len, texts))
    return max(text_width(text) for text in sorted({text for text in texts if len(text) == longest})[:8])
