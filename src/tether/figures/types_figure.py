"""What an episode says of a hidden type, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tether._foundation.arrays import Floats
from tether._foundation.words import percent
from tether.figures.style import BLACK, GREY, SIZE, TIME, axes, explain_with, look, number_axis, steps_axis, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_AT_LINES = 4
"""Up to so many types are named at their lines; more in a legend."""

_APART = 0.08
"""How far apart, in probability, two names stand at least."""


def plot_types(
    shares: Mapping[str, Floats], ax: Axes | None = None, *, size: tuple[float, float] = SIZE, title: bool = True
) -> Axes:
    """The probability of each type before the first step and after each.

    Parameters
    ----------
    shares : mapping of name to array (T + 1,)
        As `TypedCounterfactual.posterior_over_time` has them.
    ax : Axes, optional
        Where to draw; a figure of its own by default.
    size : (float, float)
        Of a figure of its own, in inches.
    title : bool
        Whether the finding stands above it.

    Examples
    --------
    >>> from tether.views.figures import plot_types
    >>> ax = plot_types({"diabetic": [0.2, 0.1, 0.6], "not diabetic": [0.8, 0.9, 0.4]})
    >>> ax.get_title("left")
    'By what happened, most likely diabetic (60 %)'
    """
    with styled():
        ax, lines, likeliest = axes(ax, size), [], _likeliest(shares)
        for i, (name, found) in enumerate(shares.items()):
            colour, shown = BLACK if name == likeliest else GREY, look(i)
            lines += ax.plot(
                range(len(found)), found, color=colour, marker=shown.marker, linestyle=shown.line, label=name
            )
        if title:
            ax.set_title(types_in_words(shares), loc="left")
        ax.set_ylim(-0.03, 1.03)
        steps_axis(ax, 0, len(next(iter(shares.values()))) - 1)
        number_axis(ax.yaxis)
        ax.set_xlabel(TIME)
        ax.set_ylabel("probability of the type")
        if len(lines) > _AT_LINES:
            explain_with(ax, lines)
        else:
            _name_lines(ax, shares)
    return ax


def types_in_words(shares: Mapping[str, Floats]) -> str:
    """The finding of the figure."""
    name = _likeliest(shares)
    return f"By what happened, most likely {name} ({percent(float(shares[name][-1]))})"


def _likeliest(shares: Mapping[str, Floats]) -> str:
    return max(shares, key=lambda name: float(shares[name][-1]))


def _name_lines(ax: Axes, shares: Mapping[str, Floats]) -> None:
    """The name of each type at the end of its line; names that would meet are moved apart."""
    last = len(next(iter(shares.values()))) - 1
    below = -1.0
    for name, found in sorted(shares.items(), key=lambda one: float(one[1][-1])):
        below = max(float(found[-1]), below + _APART)
        ax.annotate(name, (last, below), (8, 0), textcoords="offset points", va="center", annotation_clip=False)
