"""The front of value against influence, or against the probability of a property."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tether.figures.drawable import DrawnFront
from tether.figures.style import BLUE, VALUE, axes, explain_with, styled
from tether.model.properties import Property

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_pareto(front: DrawnFront, ax: Axes | None = None) -> Axes:
    """Value against expected influence: the supported policies, and the hull that mixing them attains.

    Examples
    --------
    >>> import tether
    >>> from tether.views.figures import plot_pareto
    >>> case = tether.cases.grid_world()
    >>> front = tether.counterfactual(case.mdp, case.path).pareto(m=3)
    >>> ax = plot_pareto(front)
    >>> len(ax.lines[0].get_xdata()) == len(front.points)
    True
    """
    x, y = front.measures, front.values
    risk = isinstance(front.against, Property)  # less of it is better
    low, high = float(y.min()), float(y.max())
    margin, right = 0.07 * (high - low) or 1.0, float(x.max()) or 1.0
    with styled():
        ax = axes(ax)
        ax.set_ylim(low - margin, high + margin)
        ax.set_xlim(-0.03 * right, 1.04 * right)
        size = 4.5 if x.size <= 40 else 2.0
        (line,) = ax.plot(
            x, y, color=BLUE, marker="o", markersize=size, label="supported policies, and mixtures of them"
        )
        under = np.concatenate(([-0.03 * right], x)), np.concatenate((y[:1], y))
        if risk:
            under = np.concatenate((x[::-1], [1.04 * right])), np.concatenate((y[::-1], y[:1]))
        label = "no better than these"
        area = ax.fill_between(*under, low - margin, color="#ececec", linewidth=0, zorder=0, label=label)
        explain_with(ax, [line, area])
        if isinstance(front.against, Property):
            ax.set_xlabel(f"probability that {front.against.in_words}")
        else:
            ax.set_xlabel(f"expected {front.against}, summed over the {front.points[0].plan.T} steps")
        ax.set_ylabel(VALUE)
    return ax
