"""Rules as bars: how many episodes each helps and harms, with the range under every causal model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tether._foundation.words import cut, shown
from tether.errors import QueryError
from tether.figures.style import BAD, GOOD, GREY, SMALL, axes, number_axis, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAME = 60
"""Letters of a rule beside the figure."""


class DrawnRule(Protocol):
    """What the figures need of a rule."""

    @property
    def rule(self) -> Any:
        """The rule."""
        ...

    @property
    def helped(self) -> float:
        """How many episodes it helps."""
        ...

    @property
    def harmed(self) -> float:
        """How many it harms."""
        ...

    @property
    def helped_low(self) -> float:
        """At least, under every causal model."""
        ...

    @property
    def helped_high(self) -> float:
        """How many episodes it helps at most, under every causal model."""
        ...

    @property
    def harmed_low(self) -> float:
        """At least, under every causal model."""
        ...

    @property
    def harmed_high(self) -> float:
        """How many it harms at most, under every causal model."""
        ...


def plot_rules(rules: Sequence[DrawnRule], ax: Axes | None = None, episodes: str = "episodes") -> Axes:
    """Helped (to the right) and harmed (to the left) of each rule; lines are the range under every causal model.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> log = [grid.mdp.simulate("random", 8, start=0, rng=seed) for seed in range(50)]
    >>> found = tether.evaluate_rules(grid.mdp, log, [tether.rule("2", instead_of="down", do="right")])
    >>> ax = found.plot()
    >>> [round(float(bar.get_width()), 2) for bar in ax.patches]
    [3.97, -0.03]
    """
    if not len(rules):
        raise QueryError("there is no rule to draw")
    place = np.arange(len(rules))[::-1].astype(float)
    with styled():
        ax = axes(ax, (6.4, 0.9 + 0.55 * len(rules)), grid="x")
        for sign, name, colour in ((1.0, "helped", GOOD), (-1.0, "harmed", BAD)):
            number = np.array([getattr(one, name) for one in rules])
            ends = np.array([[getattr(one, f"{name}_{end}") for end in ("low", "high")] for one in rules])
            ax.barh(place, sign * number, 0.5, color=colour)
            for y, (low, high) in zip(place, ends, strict=True):
                if np.isfinite(low):
                    ax.plot([sign * low, sign * high], [y, y], color=GREY, linewidth=1.2, marker="|")
        ax.axvline(0.0, color=GREY, linewidth=0.7)
        ax.set_yticks(place, [cut(shown(str(one.rule)), _NAME) for one in rules], fontsize=SMALL)
        number_axis(ax.xaxis)
        ax.set_xlabel(f"{episodes}: harmed (left), helped (right)")
    return ax
