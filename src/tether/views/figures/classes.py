"""The four classes of states over time, as the paper's figures on k = 1 and k = 2 draw them.

Where states and steps are few this is the layered graph itself: a column a time, edges with their actions. Where
they are not, it is a bar a time with the number of states of each class: a graph of hundreds of nodes shows nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._types import Ints
from tether.counterfactual.conditioned import CounterfactualMDP
from tether.counterfactual.layers import Graph, nominal_rollout
from tether.influence.classes import CLASSES, with_strengths
from tether.influence.rules import thresholds
from tether.views.figures.network import FILLS, OUTLINES, draw_network
from tether.views.figures.steps import steps_of
from tether.views.figures.style import TIME, axes, explain_with, steps_axis, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_classes"]

_LARGE, _LONG, _DENSE = 12, 8, 16
"""States in a layer, steps in time, and edges between two layers, beyond which classes are counted, not drawn."""

_HATCHES = ("", "", "", "//////")


def plot_classes(
    cf: CounterfactualMDP,
    k: int,
    rollout: str = "counterfactual",
    ax: Axes | None = None,
    label: Callable[[Any], str] = str,
    rule: Any = "definition",
    influence: Any = "support",
    legend: bool = True,
) -> Axes:
    """States over time by class: observed, influenced and reachable, influenced but unreachable, not influenced.

    Parameters
    ----------
    cf : CounterfactualMDP
    k : int
    rollout : {"nominal", "counterfactual"}
        Which states and steps are drawn: what could have been reached without the observation, as in the paper,
        or what can be reached in the counterfactual MDP.
    label : callable
        Names a state.
    rule, influence
        As in `CounterfactualMDP.plan`.
    legend : bool
        Whether to say what fills and lines mean; once is enough for several drawings side by side.

    Examples
    --------
    >>> import tether
    >>> from tether.views.figures import plot_classes
    >>> toy = tether.cases.toy()
    >>> ax = plot_classes(tether.counterfactual(toy.mdp, toy.path), k=1)
    >>> [text.get_text() for text in ax.get_legend().get_texts()][:2]
    ['observed', 'influenced and reachable']
    """
    question = cf.tether(rule=rule, influence=influence)
    codes = [question.classify(t, k, rollout).codes for t in range(cf.T + 1)]
    graph = cf.graph if rollout == "counterfactual" else _nominal(cf)
    states = [graph.states(t) for t in range(cf.T + 1)]
    shown = [code[layer] for code, layer in zip(codes, states, strict=True)]
    small = cf.T <= _LONG and max(layer.size for layer in states) <= _LARGE
    k = min(k, cf.T + 1)
    found = (
        question.thresholds(k) if graph is cf.graph else thresholds(graph, question.rule, question.influence, up_to=k)
    )
    steps = steps_of(cf, found, k) if small else []
    if not small or max(sum(step.t == t for step in steps) for t in range(cf.T)) > _DENSE:
        return _counts(shown, rollout, ax, legend)
    names = [[label(name) for name in cf.mdp.names_of(layer)] for layer in states]
    middle = [_position(layer, int(seen)) for layer, seen in zip(states, cf.observation.states, strict=True)]
    return draw_network(names, shown, steps, middle, ax, legend)


def _nominal(cf: CounterfactualMDP) -> Graph:
    return with_strengths(nominal_rollout(cf.graph), cf.posteriors)


def _position(states: Ints, state: int) -> int | None:
    """Where a state is in its layer; None for one that was not recorded."""
    return int(np.searchsorted(states, state)) if state >= 0 else None


def _counts(codes: list[Ints], rollout: str, ax: Axes | None, legend: bool) -> Axes:
    """A stacked bar a time."""
    from matplotlib.ticker import MaxNLocator

    times = np.arange(len(codes))
    counts = np.array([np.bincount(code, minlength=len(CLASSES)) for code in codes])
    with styled():
        ax = axes(ax)
        floor = np.zeros(times.size)
        handles = []
        for i, name in enumerate(CLASSES):
            bars = ax.bar(times, counts[:, i], 0.72, floor, label=name, facecolor=FILLS[i], edgecolor=OUTLINES[i])
            for bar in bars:
                bar.set_hatch(_HATCHES[i])
            handles.append(bars)
            floor = floor + counts[:, i]
        ax.set_xlim(-0.6, times.size - 0.4)
        ax.set_ylim(0.0, 1.04 * float(floor.max()))
        steps_axis(ax, 0, times.size - 1)
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_xlabel(TIME)
        ax.set_ylabel(f"states of the {rollout} rollout")
        if legend:
            explain_with(ax, handles)
    return ax
