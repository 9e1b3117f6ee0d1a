"""Which decisions mattered: time × action, shaded; what was done is marked. And what each change adds to a gain."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats
from tether._foundation.words import cut_apart, shown
from tether.errors import QueryError
from tether.figures.drawable import DrawnDecisions, DrawnShares
from tether.figures.style import (
    BLUE,
    GREY,
    SMALL,
    TIME,
    axes,
    explain_with,
    figure_of,
    number_axis,
    single_line,
    steps_axis,
    styled,
    text_width,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WHAT = ("gain", "best", "necessity")

_ON_CELLS = "#1a1a1a"
"""The colour of marks on shaded cells. On a dark page these cells stay light, while other black becomes white."""

_SHADES = 41
"""With more shades, Matplotlib draws the colour bar as a bitmap. The shade in the middle means no change."""

_NAME = 36
"""Letters of an action's name beside the figure."""


def plot_decisions(
    decisions: DrawnDecisions,
    what: str = "gain",
    ax: Axes | None = None,
    action_name: Callable[[Any], str] = shown,
    letters: int = _NAME,
) -> Axes:
    """Each action of each observed step, shaded by what it would have led to; squares mark what was done.

    Parameters
    ----------
    decisions : Decisions
    what : {"gain", "best", "necessity"}
        The gain over the observed return if only this action had been different; the best gain with this action and
        at most m changes in all; or the probability that the outcome would not have happened.
    ax : Axes, optional
        Where to draw; a figure of its own by default.
    action_name : callable
        Turns an action's name into text.
    letters : int
        How many letters of a name are shown.

    Examples
    --------
    >>> import tether
    >>> from tether.views.figures import plot_decisions
    >>> grid = tether.cases.grid_world()
    >>> ax = plot_decisions(tether.counterfactual(grid.mdp, grid.path).decisions(), "necessity")
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['up', 'right', 'down', 'left']
    """
    if what not in _WHAT:
        raise QueryError(f"what must be one of {', '.join(map(repr, _WHAT))}, not {what!r}")
    if what == "necessity" and decisions.outcome is None:
        raise QueryError("the episode ends in no outcome, so there is no necessity to draw")
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    actions = list(dict.fromkeys(row.action for row in sorted(decisions.rows, key=_order(decisions))))
    values, unknown = _shades(decisions, actions, what)
    with styled():
        wide, tall = np.clip(2.6 + 0.4 * decisions.cf.T, 5.5, 10.0), np.clip(1.4 + 0.3 * len(actions), 2.4, 8.0)
        ax = axes(ax, (float(wide), float(tall)), "")
        mesh = ax.pcolormesh(
            np.ma.masked_invalid(values), edgecolors="#cccccc", linewidth=0.5, **_colours(values, what)
        )
        for i, t in unknown:
            ax.add_patch(_cell(t, i))
        done = [(row.t + 0.5, actions.index(row.action) + 0.5) for row in decisions.rows if row.is_observed]
        ax.plot(*zip(*done, strict=True), "s", color=_ON_CELLS, markerfacecolor="none", markersize=7, linestyle="none")
        _name_cells(ax, decisions.cf.T, cut_apart([single_line(action_name(one)) for one in actions], letters))
        _colour_bar(ax, mesh, *_labels(decisions, what))
        ax.set_xlabel(TIME)
        handles: list[Any] = [
            Line2D([], [], color="black", marker="s", markerfacecolor="none", linestyle="none", label="done")
        ]
        if unknown:
            handles.append(Patch(facecolor="none", edgecolor="#999999", hatch="////", label="no value"))
        explain_with(ax, handles)
    return ax


def plot_shares(shares: DrawnShares, ax: Axes | None = None) -> Axes:
    """What each changed step adds to the gain of a plan: one bar per step; and, as a mark, what it gains alone.

    Examples
    --------
    >>> import tether
    >>> from tether.views.figures import plot_shares
    >>> patient = tether.cases.sepsis()
    >>> ax = plot_shares(tether.counterfactual(patient.mdp, patient.path).plan(k=8, m=2).shares())
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['share of the gain', 'gain of this change alone']
    """
    if not shares.steps:
        raise QueryError("the plan changes nothing: there are no shares to draw")
    times = [one.t for one in shares.steps]
    with styled():
        ax = axes(ax, (4.5, 2.8))
        bars = ax.bar(times, [one.share for one in shares.steps], 0.6, color=BLUE, label="share of the gain")
        alone: dict[str, Any] = {
            "marker": "D",
            "markerfacecolor": "white",
            "markeredgecolor": "black",
            "linestyle": "none",
        }
        line = ax.plot(times, [one.alone for one in shares.steps], label="gain of this change alone", **alone)
        ax.axhline(0.0, color=GREY, linewidth=0.7)
        ax.set_xlim(min(times) - 0.8, max(times) + 0.8)
        steps_axis(ax, min(times), max(times))
        number_axis(ax.yaxis)
        ax.set_xlabel(TIME)
        ax.set_ylabel("share of the gain")
        explain_with(ax, [bars, *line])
    return ax


def _order(decisions: DrawnDecisions) -> Any:
    """Actions in the model's order."""
    return lambda row: decisions.cf.mdp.actions.find(row.action)


def _shades(decisions: DrawnDecisions, actions: list[Any], what: str) -> tuple[Floats, list[tuple[int, int]]]:
    """What shades the cell of each action and time, NaN where there is none; and the cells without a value."""
    values, unknown = np.full((len(actions), decisions.cf.T), np.nan), []
    for row in decisions.rows:
        found = _shade(decisions, row, what)
        if found is None:
            unknown.append((actions.index(row.action), row.t))
        else:
            values[actions.index(row.action), row.t] = found
    return values, unknown


def _name_cells(ax: Axes, T: int, names: list[str]) -> None:
    """Times below the cells, about twenty of them at most, and the actions' names beside them, the first on top."""
    ax.set_xlim(0, T)
    ax.set_ylim(len(names), 0)
    every = -(-T // 20)
    ax.set_xticks(np.arange(0, T, every) + 0.5, [str(t) for t in range(0, T, every)])
    ax.set_yticks(np.arange(len(names)) + 0.5, names)
    for label in ax.get_yticklabels():
        label.set_parse_math(False)
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)


def _colour_bar(ax: Axes, mesh: Any, title: str, short: str) -> None:
    """What the colours mean, with the short title where the long one does not fit beside the axes."""
    bar = figure_of(ax).colorbar(mesh, ax=ax, pad=0.02, aspect=25)
    tall = ax.get_window_extent().height * 72 / figure_of(ax).dpi
    bar.set_label(title if text_width(title, 9.0) <= tall else short)
    bar.ax.tick_params(labelsize=SMALL)
    number_axis(bar.ax.yaxis)
    bar.outline.set_visible(False)


def _shade(decisions: DrawnDecisions, row: Any, what: str) -> float | None:
    if what == "best":
        return None if row.best is None else row.best - decisions.observed_value
    found: float | None = getattr(row, what)
    return found


def _colours(values: Any, what: str) -> dict[str, Any]:
    from matplotlib import colormaps

    def shades(name: str) -> Any:
        return colormaps[name].resampled(_SHADES)

    if what == "necessity":
        return {"cmap": shades("Blues"), "vmin": 0.0, "vmax": float(np.nanmax(values, initial=0.0)) or 1.0}
    largest = float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
    return {"cmap": shades("RdBu"), "vmin": -largest, "vmax": largest}


def _cell(t: int, i: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((t, i), 1, 1, facecolor="none", edgecolor="#999999", hatch="////", linewidth=0.5)


def _labels(decisions: DrawnDecisions, what: str) -> tuple[str, str]:
    """What the colours say, and the same in short."""
    if what == "necessity":
        return f"probability of not {decisions.outcome}", "probability"
    if what == "gain":
        return "gain, had only this been different", "gain"
    return f"gain with the best after it, m = {decisions.m}", "gain with the best after it"
