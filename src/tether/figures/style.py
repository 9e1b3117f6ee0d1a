"""The style of all figures: the colours of Okabe and Ito, with markers and lines that also differ without colour."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Ints
from tether._foundation.markup import clean, with_minus_signs
from tether._foundation.words import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties
    from matplotlib.legend import Legend
    from matplotlib.text import Text

BLACK, GREY = "#000000", "#8c8c8c"
BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY = "#0069A6", "#B34A00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"

BAD, GOOD, PALE = "#64506e", "#1b7f72", "#e8e8e8"
"""A bad outcome, a good one, and none yet."""

SIZE = (5.5, 3.6)
"""Width and height of a figure in inches: a column of a journal."""

TIME, TETHER, CHANGES = "step", "length of the tether k (steps)", "actions that may change, m"
VALUE = "value of the initial state"

SMALL = 8.0
"""The smallest text, in points."""

MARK, RING = 4.5, 7.5
"""Diameter in points of a mark, and of the hollow mark that goes around it."""

_LABELS = 32.0
"""The height of the ticks and the name of an axis below it, in points."""

_NARROW = 105.0
"""The largest width of the texts of a legend beside the axes, in points."""

_COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, "#555555")
_MARKERS = ("o", "s", "^", "D", "v", "<", ">", "p", "P", "X")
_LINES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (6, 1.5, 1, 1.5)), (0, (1, 1.2)), (0, (3, 1, 1, 1, 1, 1)), (0, (8, 2)))

_RC: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.labelsize": 9.0,
    "axes.titlesize": 9.0,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "lines.linewidth": 1.1,
    "lines.markersize": MARK,
    "patch.linewidth": 0.8,
    "hatch.linewidth": 0.6,
    "axes.linewidth": 0.7,
    "axes.axisbelow": True,
    "axes.xmargin": 0.04,
    "axes.ymargin": 0.06,
    "axes.unicode_minus": True,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "savefig.facecolor": "white",
    "savefig.dpi": 200,
    "savefig.bbox": None,
    "svg.fonttype": "none",
    "svg.hashsalt": "tether",
}


@dataclass(frozen=True, slots=True)
class Look:
    """The look of a series: colour, marker and line. Each of the three alone distinguishes it from the others."""

    colour: str
    marker: str
    line: Any


OBSERVED = Look(BLACK, "s", "-")


def look(i: int) -> Look:
    """The look of the i-th series."""
    return Look(_COLOURS[i % len(_COLOURS)], _MARKERS[i % len(_MARKERS)], _LINES[i % len(_LINES)])


@contextmanager
def styled() -> Iterator[None]:
    """The style of the figures, as a context: use it for your own drawings.

    Examples
    --------
    >>> import matplotlib
    >>> from tether.views.figures import styled
    >>> with styled():
    ...     matplotlib.rcParams["legend.fontsize"]
    8.0
    """
    from matplotlib import interactive, is_interactive, rc_context

    settings: Any = dict(_RC)
    with rc_context(settings):
        yield
        # A notebook turns this on with the first figure. It must stay on: otherwise no later figure appears.
        appears = is_interactive()
    interactive(appears)


def axes(ax: Axes | None, size: tuple[float, float] = SIZE, grid: Any = "y") -> Axes:
    """The axes given, or those of a new figure; tidied. Call it inside `styled`."""
    if ax is None:
        ax = new_figure(size, layout="constrained").add_subplot()
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.tick_params(labelsize=SMALL)
    ax.set_axisbelow(True)
    if grid:
        ax.grid(visible=True, axis=grid, color="#dddddd", linewidth=0.6)
    return ax


def figure_of(ax: Axes) -> Figure:
    """The figure that axes belong to, also from within a subfigure."""
    part: Any = ax.figure
    whole: Figure = part.figure
    return whole


def explain_with(ax: Axes, handles: Sequence[Any], *, beside: bool = False) -> Legend:
    """A legend where it covers nothing: under the axes; with ``beside``, to their right if its texts are short."""
    widest = max(text_width(str(handle.get_label())) for handle in handles)
    if beside and widest <= _NARROW:
        return _anchored_legend(ax, handles, "upper left", (1.0, 1.0), (5.0, 0.0), 1)
    width = _legend_width(ax)
    columns = next(c for c in range(len(handles), 0, -1) if c == 1 or sum(_column_widths(handles, c)) <= width)
    rows = -(-len(handles) // columns)
    down = _LABELS if len(ax.get_xticks()) else 0.6 * _LABELS
    return _anchored_legend(ax, handles, "upper center", (0.5, 0.0), (0.0, -down), -(-len(handles) // rows))


def _legend_width(ax: Axes) -> float:
    """The width, in points, that a legend below the axes can have within the figure."""
    box, figure = ax.get_window_extent(), figure_of(ax)
    middle = (box.x0 + box.x1) / 2
    return float(0.97 * 2 * min(middle, figure.bbox.width - middle) * 72 / figure.dpi)


def _anchored_legend(
    ax: Axes, handles: Sequence[Any], loc: str, corner: tuple[float, float], off: tuple[float, float], columns: int
) -> Legend:
    """A legend at a distance from a corner of the axes: in points, not fractions, so that one layout pass is enough."""
    from matplotlib.transforms import ScaledTranslation

    shift = ScaledTranslation(off[0] / 72, off[1] / 72, figure_of(ax).dpi_scale_trans)
    anchor: dict[str, Any] = {"loc": loc, "bbox_to_anchor": corner, "bbox_transform": ax.transAxes + shift}
    return ax.legend(handles=list(handles), ncols=columns, borderaxespad=0.0, columnspacing=1.4, **anchor)


def _column_widths(handles: Sequence[Any], columns: int) -> list[float]:
    """The width of each column of a legend in points: its widest text, and the handle before it."""
    widths = [text_width(str(handle.get_label())) for handle in handles]
    parts = np.array_split(np.arange(len(handles)), columns)
    return [max(widths[i] for i in part) + 45.0 for part in parts]


def write_name(ax: Axes, x: float, y: float, name: str, **options: Any) -> Text:
    """A name in a drawing, as plain text whatever characters it has."""
    return ax.text(x, y, single_line(name), parse_math=False, **options)


def single_line(name: str) -> str:
    """A name without line breaks and without characters that no drawing may hold."""
    return clean(" ".join(name.split()))


def points_per_unit(ax: Axes) -> tuple[float, float]:
    """Points per unit of x and of y, as the axes are before layout; linear axes only."""
    box, dpi = ax.get_window_extent(), figure_of(ax).dpi
    left, right = ax.get_xlim()
    bottom, top = ax.get_ylim()
    return 72 * box.width / dpi / abs(right - left), 72 * box.height / dpi / abs(top - bottom)


def steps_axis(ax: Axes, first: int, last: int) -> None:
    """Whole numbers along x: all of them, if there is space."""
    from matplotlib.ticker import FixedLocator, MaxNLocator

    if last - first <= 15:
        ax.xaxis.set_major_locator(FixedLocator(list(range(first, last + 1))))
    else:
        ax.xaxis.set_major_locator(MaxNLocator(nbins=10, integer=True))


def time_ticks(last: int) -> Ints:
    """Whole numbers from 0 to ``last``, at even distances, at most a dozen of them.

    >>> time_ticks(20).tolist()
    [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20]
    """
    step = next(n * 10**e for e in range(9) for n in (1, 2, 5) if last / (n * 10**e) < 12)
    return np.arange(0, last + 1, step)


def number_axis(axis: Axis, whole: bool = False, most: int = 6) -> None:
    """Round numbers along an axis, at most so many, written as the text beside the drawing writes them."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=most, integer=whole, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(lambda value, _: axis_number(value))


def axis_number(value: float) -> str:
    """A number beside an axis, short.

    >>> axis_number(2.5e9), axis_number(5000.0), axis_number(-0.25)
    ('2.5 G', '5,000', '−0.25')
    """
    for size, letter in ((1e9, "G"), (1e6, "M")):
        if abs(value) >= size:
            return with_minus_signs(f"{value / size:.4g} {letter}")
    return with_minus_signs(number(round(value, 12) + 0.0))


@cache
def text_width(text: str, size: float = SMALL) -> float:
    """Width of a text in points."""
    from matplotlib.textpath import text_to_path

    width, _, _ = text_to_path.get_text_width_height_descent(text, _font(size), ismath=False)
    return float(width)


@cache
def _font(size: float) -> FontProperties:
    from matplotlib.font_manager import FontProperties

    return FontProperties(family="DejaVu Sans", size=size)


# ---- A figure of its own -------------------------------------------------------------------------------------------
# A figure of its own, and in a notebook one that appears below the cell that drew it.


def new_figure(size: tuple[float, float], layout: Any = None) -> Figure:
    """A figure; in a notebook it is registered with pyplot, because the notebook shows the figures of pyplot.

    Everywhere else pyplot is not imported: no window, no backend, no global state.

    >>> float(new_figure((4.0, 3.0)).get_figwidth())
    4.0
    """
    if in_notebook():
        from matplotlib import pyplot

        return pyplot.figure(figsize=size, layout=layout)
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout=layout)


def in_notebook() -> bool:
    """Whether this code runs in the kernel of a notebook.

    >>> in_notebook()
    False
    """
    found = sys.modules.get("IPython")
    shell = None if found is None else found.get_ipython()
    return hasattr(shell, "kernel")


def forget(figure: Figure) -> None:
    """Do not show a figure in the notebook after all: it was drawn to be written to a file.

    Examples
    --------
    >>> from tether.views.figures import forget, plot_lines
    >>> forget(plot_lines([1], [1], {}).figure)
    """
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close(figure)
