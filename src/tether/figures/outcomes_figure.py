"""How an episode ends, over time: stacked areas, one per outcome, with what happened as a strip above."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats
from tether._foundation.words import cut_apart
from tether.errors import QueryError
from tether.figures.drawable import DrawnOutcomes
from tether.figures.style import TIME, axes, explain_with, look, single_line, styled, time_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WHO = ("observed", "plan", "optimal")
"""Whose outcomes there are."""

_NAME = 32
"""Letters of an outcome's name in the legend."""

_HATCHES = ("", "////", "\\\\\\\\", "....", "xxxx", "----", "||||", "++++", "oooo")
"""Patterns, so that areas can be distinguished in print too."""

_PLAIN = "#dddddd"
"""The colour of states that are no outcome."""

_ABOVE, _TALL = 1.06, 0.09
"""Where the strip of the observed outcome begins above the areas, and its height."""


def plot_outcomes(outcomes: DrawnOutcomes, who: str = "plan", ax: Axes | None = None) -> Axes:
    """The probability of each outcome over time, stacked; above it, as a strip, what happened.

    Parameters
    ----------
    outcomes : Outcomes
    who : {"plan", "observed", "optimal"}
        Whose outcomes the areas show: the plan's, what happened, or those of the policy that is best for anyone.
    ax : Axes, optional
        Where to draw; a figure of its own by default.

    Examples
    --------
    >>> import tether
    >>> from tether.views.figures import plot_outcomes
    >>> grid = tether.cases.grid_world()
    >>> outcomes = tether.counterfactual(grid.mdp, grid.path).plan(k=6, m=4).explain().outcomes
    >>> ax = plot_outcomes(outcomes, "optimal")
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['danger', 'goal', 'none of these']
    """
    if who not in WHO:
        raise QueryError(f"who must be one of {', '.join(map(repr, WHO))}, not {who!r}")
    from matplotlib.patches import Patch

    chance: Floats = getattr(outcomes, who)
    names = cut_apart([single_line(name) or "none of these" for name in outcomes.classes], _NAME)
    looks = [(_PLAIN, "") if not name else (look(i).colour, _HATCHES[i]) for i, name in enumerate(outcomes.classes)]
    times = np.arange(outcomes.T + 1)
    so_far = np.zeros(times.size)
    handles = []
    with styled():
        ax = axes(ax, (5.5, 3.2), "")
        for i, (name, (colour, hatch)) in enumerate(zip(names, looks, strict=True)):
            top = np.minimum(so_far + chance[:, i], 1.0)
            paint: dict[str, Any] = {"facecolor": colour, "hatch": hatch, "edgecolor": "white", "linewidth": 0.0}
            if (chance[:, i] > 0).any() or (outcomes.observed[:, i] > 0).any():
                ax.fill_between(times, so_far, top, **paint)
                handles.append(Patch(label=name, **paint))
            so_far = top
        for t in times if who != "observed" else ():
            seen = int(np.argmax(outcomes.observed[t]))
            if outcomes.observed[t, seen] > 1 - 1e-9:  # else it was not recorded
                ax.bar(
                    t, _TALL, 0.86, _ABOVE, color=looks[seen][0], hatch=looks[seen][1], edgecolor="white", linewidth=0
                )
        ax.set_xlim(-0.5, outcomes.T + 0.5)
        ax.set_ylim(0.0, 1.0 if who == "observed" else _ABOVE + _TALL)
        at = [0.0, 0.25, 0.5, 0.75, 1.0]
        written = [f"{100 * level:.0f} %" for level in at]
        if who != "observed":
            at, written = [*at, _ABOVE + _TALL / 2], [*written, "happened"]
        ax.set_yticks(at, written)
        ax.set_xticks(time_ticks(outcomes.T))
        ax.spines["left"].set_visible(False)
        ax.tick_params(axis="y", length=0)
        ax.set_xlabel(TIME)
        ax.set_ylabel("probability")
        for text in explain_with(ax, handles).get_texts():
            text.set_parse_math(False)
    return ax
