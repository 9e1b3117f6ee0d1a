"""What an episode says of a hidden type, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tether._foundation.arrays import Floats
from tether._foundation.words import percent
from tether.figures.style import TIME, axes, explain_with, look, number_axis, steps_axis, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_types"]


def plot_types(shares: Mapping[str, Floats], ax: Axes | None = None) -> Axes:
    """The probability of each type before the first step and after each.

    Parameters
    ----------
    shares : mapping of name to array (T + 1,)
        As `TypedCounterfactual.posterior_over_time` has them.
    ax : Axes, optional
        Where to draw; a figure of its own by default.

    Examples
    --------
    >>> from tether.views.figures import plot_types
    >>> ax = plot_types({"diabetic": [0.2, 0.1, 0.6], "not diabetic": [0.8, 0.9, 0.4]})
    >>> ax.get_title("left")
    'What the episode says of the type: most likely diabetic (60 %)'
    """
    with styled():
        ax, lines = axes(ax), []
        for i, (name, found) in enumerate(shares.items()):
            shown = look(i)
            lines += ax.plot(
                range(len(found)), found, color=shown.colour, marker=shown.marker, linestyle=shown.line, label=name
            )
        name, found = max(shares.items(), key=lambda one: one[1][-1])
        ax.set_title(f"What the episode says of the type: most likely {name} ({percent(float(found[-1]))})", loc="left")
        ax.set_ylim(-0.03, 1.03)
        steps_axis(ax, 0, len(found) - 1)
        number_axis(ax.yaxis)
        ax.set_xlabel(TIME)
        ax.set_ylabel("probability of the type")
        explain_with(ax, lines)
    return ax
