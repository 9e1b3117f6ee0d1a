"""The four classes of states over time, as the paper's figures on k = 1 and k = 2 draw them.

If there are few states and steps, this is the layered graph itself: one column per time, edges with their actions. If
there are many, it is one bar per time with the number of states of each class: a graph of hundreds of nodes cannot be
read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Ints
from tether._foundation.words import cut, cut_apart
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.conditioning.layers import Graph, nominal_rollout, reached_states
from tether.figures.network import FILLS, OUTLINES, Step, draw_network, steps_of
from tether.figures.style import TIME, axes, explain_with, single_line, steps_axis, styled
from tether.influence.classes import CLASSES, classify_layers, with_strengths
from tether.influence.kappa import Thresholds, thresholds
from tether.model.properties import Property
from tether.plan.plan_record import PlanRecord
from tether.plan.tether_record import tether

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LARGE, _LONG, _DENSE = 12, 8, 16
"""The most states in a layer, steps in time, and edges between two layers for a graph; beyond, classes are counted."""

_NAME = 20
"""How long a name is before it is cut."""

_HATCHES = ("", "", "", "////")


def plot_classes(
    cf: CounterfactualRecord,
    k: int | None = None,
    ax: Axes | None = None,
    *,
    rule: Any = "definition",
    influence: Any = "support",
    objective: Property | None = None,
    minimise: bool = False,
    rollout: str = "counterfactual",
    label: Callable[[Any], str] = str,
    action_label: Callable[[Any], str] = str,
    plan: PlanRecord | None = None,
    legend: bool = True,
) -> Axes:
    """States over time by class: observed, influenced and reachable, influenced but unreachable, not influenced.

    Parameters
    ----------
    cf : CounterfactualMDP
    k : int, optional
        The length of the tether; left out: the one that `CounterfactualMDP.plan` takes.
    rule, influence, objective, minimise
        As in `CounterfactualMDP.plan`. Where a property is decided paths end: such a state counts as influenced.
    rollout : {"counterfactual", "nominal"}
        Which states and steps are drawn: what can be reached in the counterfactual MDP, or what could have been
        reached without the observation, as in the paper.
    label, action_label : callable
        Name a state, and an action.
    plan : Plan, optional
        The states that this plan can be in are ringed.
    legend : bool
        Whether to say what fills and lines mean. Several drawings side by side need one legend only.

    Examples
    --------
    >>> import tether
    >>> from tether.views.figures import plot_classes
    >>> toy = tether.cases.toy()
    >>> ax = plot_classes(tether.counterfactual(toy.mdp, toy.path), k=1)
    >>> [text.get_text() for text in ax.get_legend().get_texts()][:2]
    ['observed', 'influenced and reachable']
    """
    question = tether(cf, rule, influence, objective, minimise)
    cf, k = question.asked, question.length(k)
    if rollout == "counterfactual":
        found = question.thresholds(k)
        layers = reached_states(found.graph)
        codes = classify_layers(cf, found, layers, k)
    else:
        classes = [question.classify(t=t, k=k, rollout=rollout).codes for t in range(cf.T + 1)]
        found = thresholds(_nominal(cf), question.rule, question.influence, up_to=k)
        layers = reached_states(found.graph)
        codes = tuple(code[states] for code, states in zip(classes, layers, strict=True))
    steps = _drawable(cf, found, layers, k)
    if steps is None:
        return _counts(codes, rollout, ax, legend)
    states = [layer for layer in layers if layer.size]  # nothing is left after all paths have ended
    names = _names(cf, states, label)
    steps = [
        replace(step, actions=tuple(cut(single_line(action_label(a)), _NAME) for a in step.actions)) for step in steps
    ]
    middle = [_position(layer, int(seen)) for layer, seen in zip(states, cf.observation.states, strict=False)]
    ringed = [np.isin(layer, [] if plan is None else plan.chain.visits[t].states) for t, layer in enumerate(states)]
    return draw_network(names, codes[: len(states)], steps, middle, ringed, ax, legend)


def is_graph(
    cf: CounterfactualRecord,
    k: int | None = None,
    *,
    rule: Any = "definition",
    influence: Any = "support",
    objective: Property | None = None,
    minimise: bool = False,
) -> bool:
    """Whether `plot_classes` draws the counterfactual rollout as a graph, and not as counts.

    Examples
    --------
    >>> import tether
    >>> from tether.views.figures import is_graph
    >>> toy, grid = tether.cases.toy(), tether.cases.grid_world()
    >>> [is_graph(tether.counterfactual(case.mdp, case.path), k=1) for case in (toy, grid)]
    [True, False]
    """
    question = tether(cf, rule, influence, objective, minimise)
    k = question.length(k)
    found = question.thresholds(k)
    return _drawable(question.asked, found, reached_states(found.graph), k) is not None


def _drawable(cf: CounterfactualRecord, thresholds: Thresholds, layers: Sequence[Ints], k: int) -> list[Step] | None:
    """The steps of a rollout, or None if a graph of them could not be read."""
    if cf.T > _LONG or max(layer.size for layer in layers) > _LARGE:
        return None
    steps = steps_of(cf, thresholds, layers, k)
    return steps if max(sum(step.t == t for step in steps) for t in range(cf.T)) <= _DENSE else None


def _names(cf: CounterfactualRecord, states: list[Ints], label: Callable[[Any], str]) -> list[list[str]]:
    """Names of the states of each layer, long ones cut, but never to the same text for two states."""
    every = np.unique(np.concatenate(states))
    short = cut_apart([single_line(label(name)) for name in cf.mdp.names_of(every)], _NAME)
    return [[short[i] for i in np.searchsorted(every, layer)] for layer in states]


def _nominal(cf: CounterfactualRecord) -> Graph:
    return with_strengths(nominal_rollout(cf.graph), cf.posteriors)


def _position(states: Ints, state: int) -> int | None:
    """Where a state is in its layer; None for one that was not recorded, or that lies beyond the end of paths."""
    at = int(np.searchsorted(states, state))
    return at if at < states.size and states[at] == state else None


def _counts(codes: Sequence[Ints], rollout: str, ax: Axes | None, legend: bool) -> Axes:
    """One stacked bar per time."""
    from matplotlib.ticker import MaxNLocator

    times = np.arange(len(codes))
    counts = np.array([np.bincount(code, minlength=len(CLASSES)) for code in codes])
    with styled():
        ax = axes(ax)
        floor = np.zeros(times.size)
        handles = []
        for i, name in enumerate(CLASSES):
            bars = ax.bar(times, counts[:, i], 0.72, floor, label=name, facecolor=FILLS[i], edgecolor=OUTLINES[i])
            for t, bar in enumerate(bars):
                bar.set_hatch(_HATCHES[i])
                bar.set_gid(f"bar-{t}-{i}")
                bar.set_label(f"{counts[t, i]:,} {name} at t = {t}")
            handles.append(bars)
            floor = floor + counts[:, i]
        ax.set_xlim(-0.6, times.size - 0.4)
        ax.set_ylim(0.0, 1.04 * float(floor.max()))
        steps_axis(ax, 0, times.size - 1)
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_xlabel(TIME)
        ax.set_ylabel("states" if rollout == "counterfactual" else f"states, {rollout} rollout")
        if legend:
            explain_with(ax, handles)
    return ax
