"""The layered graph of states and steps, drawn.

The steps of a rollout as edges of a layered graph: which actions lead from node to node, and their kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.conditioning.layers import Graph, expand
from tether.figures.layered import arrange_layers
from tether.figures.style import BLACK, BLUE, GREY, SMALL, axes, figure_of, new_figure, styled, text_width, write_name
from tether.influence.classes import CLASSES
from tether.influence.kappa import Thresholds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.path import Path

KINDS = ("not allowed", "unreachable", "kept", "observed")
"""The kinds of steps, the least first: the pair is not allowed for k; it is allowed, but can no longer be reached from
s_0; it stays; it was observed."""


@dataclass(frozen=True, slots=True)
class Step:
    """Actions that lead from one node to another at time t, all of one kind."""

    t: int
    source: int
    target: int
    kind: str
    actions: tuple[Any, ...]


def steps_of(cf: CounterfactualRecord, thresholds: Thresholds, layers: Sequence[Ints], k: int) -> list[Step]:
    """All steps of a rollout; nodes are numbered within their layer. None begins where paths end."""
    graph = thresholds.graph
    steps = []
    for t in range(cf.T):
        ended = graph.split(layers[t])[1]
        allowed, reached = _allowed(thresholds, t, k)
        groups: dict[tuple[int, int, str], list[Any]] = {}
        for i, s in enumerate(layers[t].tolist()):
            if s in ended:
                continue
            for pair in range(int(cf.mdp.form.pair_start[s]), int(cf.mdp.form.pair_start[s + 1])):
                kind = KINDS[0 if pair not in allowed else 2 if pair in reached else 1]
                for j, after in _successors(graph, t, pair, layers[t + 1]):
                    group = KINDS[3] if _is_observed(cf, t, pair, after) else kind
                    groups.setdefault((i, j, group), []).append(cf.mdp.actions[int(cf.mdp.form.pair_action[pair])])
        steps += [Step(t, i, j, kind, tuple(actions)) for (i, j, kind), actions in groups.items()]
    return steps


def _allowed(thresholds: Thresholds, t: int, k: int) -> tuple[set[int], set[int]]:
    """Pairs of the layer that are allowed for k, and those of them that can still be reached from s_0."""
    nodes, pair_start = thresholds.nodes[t], thresholds.graph.mdp.form.pair_start
    counts = np.diff(nodes.offsets)
    first = np.repeat(pair_start[nodes.states] - nodes.offsets[:-1], counts)
    pairs = first + np.arange(first.size)
    allowed = thresholds.kappa[t] <= k
    reached = allowed & np.repeat(thresholds.reach[t] <= k, counts)
    return set(pairs[allowed].tolist()), set(pairs[reached].tolist())


def _successors(graph: Graph, t: int, pair: int, states: Ints) -> list[tuple[int, int]]:
    """(node, state) that can follow a pair in the rollout; ``states`` are the nodes of the next layer."""
    _, entry, _ = expand(graph.mdp, graph.layers[t].edits, np.array([pair]))
    after: Ints = graph.mdp.form.next_state[entry]
    return list(zip(np.searchsorted(states, after).tolist(), after.tolist(), strict=True))


def _is_observed(cf: CounterfactualRecord, t: int, pair: int, after: int) -> bool:
    seen = cf.observation
    return bool(pair == seen.pairs[t] and after == seen.states[t + 1])


FILLS = (BLACK, "#c4c4c4", "white", "white")
OUTLINES = (BLACK, BLACK, BLACK, GREY)
_TEXTS = ("white", BLACK, BLACK, "#666666")
_DASHES: Any = (0, (2.5, 1.5))

_UNIT = 34.0
"""Points of paper to a unit of the drawing, in a figure of its own."""

_LEGEND, _WIDE = 0.95, 3.8
"""Inches: height of the legend, and the width that two columns of it take."""

_ROW = 1.25
"""Distance of two rows."""

_SLOPE = 0.66
"""The smallest distance of two columns per row that an edge climbs: a little more than radius · row / (row - radius).
A straight edge between two circles then does not touch those above and below them."""

_LINES: dict[str, dict[str, Any]] = {
    "observed": {"color": BLACK, "linewidth": 2.4, "linestyle": "-"},
    "kept": {"color": BLACK, "linewidth": 1.0, "linestyle": "-"},
    "unreachable": {"color": GREY, "linewidth": 0.9, "linestyle": "-"},
    "not allowed": {"color": GREY, "linewidth": 0.9, "linestyle": _DASHES},
}
_MEANING = {
    "observed": "observed step",
    "kept": "allowed",
    "unreachable": "allowed, no longer reached",
    "not allowed": "not allowed",
}


@dataclass(frozen=True, slots=True)
class _Geometry:
    """Centres of the nodes by layer; half their width and height; distance of two columns."""

    places: list[Floats]
    half_width: float
    half_height: float
    column: float
    round: bool

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """Left, right, bottom, top of the drawing."""
        heights = np.concatenate([place[:, 1] for place in self.places])
        wide, high = self.half_width + 0.15, self.half_height + 0.15
        return -wide, (len(self.places) - 1) * self.column + wide, heights.min() - high, heights.max() + high


def draw_network(
    names: Sequence[Sequence[str]],
    codes: Sequence[Ints],
    steps: Sequence[Step],
    middle: Sequence[int | None],
    ringed: Sequence[Ints],
    ax: Axes | None,
    legend: bool,
) -> Axes:
    """Nodes by name and class, layer by layer, those of a plan ringed, and the steps between them."""
    edges = [sorted({(step.source, step.target) for step in steps if step.t == t}) for t in range(len(names) - 1)]
    heights = arrange_layers([len(layer) for layer in names], edges, middle)
    with styled():
        geometry = _measure(names, steps, heights)
        left, right, bottom, top = geometry.extent
        own = ax is None
        ax = axes(ax or _own(right - left, top - bottom), grid="")
        ax.set_aspect("equal")
        ax.set_xlim(left, right)
        ax.set_ylim(bottom, top)
        _edges(ax, geometry, steps, names)
        _nodes(ax, geometry, names, codes, ringed)
        _times(ax, geometry)
        if legend:
            _legend(
                ax,
                steps,
                any(map(np.any, ringed)),
                2 if own or ax.get_window_extent().width / figure_of(ax).dpi >= _WIDE else 1,
            )
    return ax


def _own(width: float, height: float) -> Axes:
    """Axes in a figure that fits the drawing at its own scale, with space for the times above and the legend below."""
    wide, high = width * _UNIT / 72, height * _UNIT / 72
    across, down = max(wide, 4.4), high + 0.25 + _LEGEND
    return new_figure((across, down)).add_axes(
        ((across - wide) / 2 / across, _LEGEND / down, wide / across, high / down)
    )


def _measure(names: Sequence[Sequence[str]], steps: Sequence[Step], heights: list[Floats]) -> _Geometry:
    """Circles where the names are short, boxes where they are not; columns far enough apart for the actions."""
    widest = max(text_width(name, 9.0) for layer in names for name in layer) / _UNIT
    action = max((text_width(action_text(step)) for step in steps), default=0.0) / _UNIT
    circles = widest <= 0.55
    half = 0.38 if circles else widest / 2 + 0.16
    steepest = max((abs(heights[s.t][s.source] - heights[s.t + 1][s.target]) for s in steps), default=0.0)
    column = max(2 * half + max(1.1, action + 0.75), _SLOPE * steepest + (0.0 if circles else 2 * half))
    places = [np.column_stack((np.full(h.size, t * column), h * _ROW)) for t, h in enumerate(heights)]
    return _Geometry(places, half, 0.38 if circles else 0.3, column, circles)


def action_text(step: Step) -> str:
    """The actions of a step, in few words."""
    return ", ".join(map(str, step.actions)) if len(step.actions) <= 2 else f"{len(step.actions)} actions"


def _nodes(
    ax: Axes, geometry: _Geometry, names: Sequence[Sequence[str]], codes: Sequence[Ints], ringed: Sequence[Ints]
) -> None:
    for t, layer in enumerate(names):
        for i, name in enumerate(layer):
            code = int(codes[t][i])
            x, y = geometry.places[t][i]
            patch = _shape(geometry, x, y)
            patch.set(facecolor=FILLS[code], edgecolor=OUTLINES[code], linewidth=1.0, zorder=3)
            patch.set_linestyle(_DASHES if code == 3 else "-")
            patch.set_label(f"{name} at t = {t}: {CLASSES[code]}")
            patch.set_gid(f"node-{t}-{i}")
            ax.add_patch(patch)
            if ringed[t][i]:
                ring = _shape(geometry, x, y, 0.09)
                ring.set(fill=False, edgecolor=BLUE, linewidth=1.6, zorder=3)
                ring.set_gid("ring")
                ax.add_artist(ring)
            how: dict[str, Any] = {"ha": "center", "va": "center_baseline", "fontsize": 9, "color": _TEXTS[code]}
            write_name(ax, x, y, name, zorder=4, **how)


def _shape(geometry: _Geometry, x: float, y: float, more: float = 0.0) -> Any:
    from matplotlib.patches import Circle, FancyBboxPatch

    wide, high = geometry.half_width + more, geometry.half_height + more
    if geometry.round:
        return Circle((x, y), wide)
    return FancyBboxPatch((x - wide, y - high), 2 * wide, 2 * high, boxstyle="round,pad=0,rounding_size=0.2")


def _edges(ax: Axes, geometry: _Geometry, steps: Sequence[Step], names: Sequence[Sequence[str]]) -> None:
    from matplotlib.patches import PathPatch, Polygon

    curves = _curves(geometry, steps)
    for step, curve in zip(steps, curves, strict=True):
        how, above = _LINES[step.kind], step.kind in ("kept", "observed")
        head = _head(curve, 1.5 if step.kind == "observed" else 1.0)
        shaft = np.vstack((curve[:3], (head[1] + head[2]) / 2))
        line = PathPatch(_path(shaft), fill=False, capstyle="butt", zorder=2 if above else 1, **how)
        source, target = names[step.t][step.source], names[step.t + 1][step.target]
        line.set_label(f"{source} –{', '.join(map(str, step.actions))}→ {target} at t = {step.t}: {step.kind}")
        ax.add_patch(line)
        ax.add_patch(Polygon(head, facecolor=how["color"], edgecolor="none", zorder=2 if above else 1))
    for step, (x, y) in zip(steps, _label_places(steps, curves), strict=True):
        colour = BLACK if step.kind in ("kept", "observed") else "#666666"
        around = {"boxstyle": "square,pad=0.08", "facecolor": "white", "edgecolor": "none"}
        how = {"ha": "center", "va": "center", "fontsize": SMALL, "color": colour}
        write_name(ax, x, y, action_text(step), bbox=around, zorder=2.5, **how)


def _curves(geometry: _Geometry, steps: Sequence[Step]) -> list[Floats]:
    """Each step as the four points of a Bézier curve; several between the same nodes bend apart."""
    together: dict[tuple[int, int, int], int] = {}
    for step in steps:
        key = (step.t, step.source, step.target)
        together[key] = together.get(key, 0) + 1
    seen: dict[tuple[int, int, int], int] = {}
    curves = []
    for step in steps:
        key = (step.t, step.source, step.target)
        bend = (seen.get(key, 0) - (together[key] - 1) / 2) * 0.6
        seen[key] = seen.get(key, 0) + 1
        curves.append(
            _curve(geometry, geometry.places[step.t][step.source], geometry.places[step.t + 1][step.target], bend)
        )
    return curves


def _curve(geometry: _Geometry, start: Floats, end: Floats, bend: float) -> Floats:
    """From rim to rim: of circles the nearest points, of boxes the sides."""
    rim = np.array([geometry.half_width, 0.0])
    if geometry.round:
        rim = geometry.half_width * (end - start) / np.hypot(*(end - start))
    first, last = start + rim, end - rim
    third, side = (last - first) / 3, np.array([0.0, bend])
    return np.array([first, first + third + side, last - third + side, last])


def _path(curve: Floats) -> Path:
    from matplotlib.path import Path

    return Path(curve, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])


def _along(curve: Floats, u: Floats) -> Floats:
    """Points of a Bézier curve."""
    u = u.reshape(-1, 1)
    points: Floats = (
        (1 - u) ** 3 * curve[0] + 3 * u * (1 - u) ** 2 * curve[1] + 3 * u**2 * (1 - u) * curve[2] + u**3 * curve[3]
    )
    return points


def _head(curve: Floats, scale: float) -> Floats:
    """The arrow's head: a triangle whose tip is the end of the curve."""
    along = curve[3] - curve[2]
    along = scale * along / np.hypot(*along)
    foot, across = curve[3] - 0.19 * along, 0.075 * np.array([-along[1], along[0]])
    return np.array([curve[3], foot + across, foot - across])


def _label_places(steps: Sequence[Step], curves: list[Floats]) -> list[Floats]:
    """On each curve a place for its actions, near the middle, away from other curves and other labels."""
    sampled = np.stack([_along(curve, np.linspace(0.0, 1.0, 41)) for curve in curves])
    halves = np.array([[text_width(action_text(step)) / _UNIT / 2 + 0.06, 0.2] for step in steps])
    tried = np.linspace(0.25, 0.7, 24)
    places = np.stack([_along(curve, np.array([0.48]))[0] for curve in curves])
    for _ in range(3):
        for i, curve in enumerate(curves):
            spots = _along(curve, tried)
            others = np.delete(sampled, i, axis=0).reshape(-1, 2)
            crossed = np.all(np.abs(spots[:, None] - others) < halves[i], axis=2).sum(axis=1)
            apart = np.abs(spots[:, None] - np.delete(places, i, axis=0))
            covered = np.all(apart < halves[i] + np.delete(halves, i, axis=0), axis=2).sum(axis=1)
            places[i] = spots[np.argmin(30.0 * covered + crossed + 2.0 * np.abs(tried - 0.48))]
    return list(places)


def _times(ax: Axes, geometry: _Geometry) -> None:
    """Times above the columns, and no frame."""
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.set_yticks([])
    times = range(len(geometry.places))
    ax.set_xticks([t * geometry.column for t in times], [f"t = {t}" for t in times])
    ax.tick_params(axis="x", length=0, pad=1, top=False, bottom=False, labeltop=True, labelbottom=False, labelsize=9)


def _legend(ax: Axes, steps: Sequence[Step], rings: bool, columns: int) -> None:
    """What fills and lines mean."""
    from matplotlib.lines import Line2D

    handles: list[Any] = [
        ax.scatter(
            [],
            [],
            s=75,
            facecolor=FILLS[i],
            edgecolor=OUTLINES[i],
            linewidth=1.0,
            linestyle=_DASHES if i == 3 else "-",
            label=name,
        )
        for i, name in enumerate(CLASSES)
    ]
    if rings:
        how: dict[str, Any] = {"facecolor": "none", "edgecolor": BLUE, "linewidth": 1.6}
        handles.append(ax.scatter([], [], s=75, label="the plan can be here", **how))
    kinds = {step.kind for step in steps}
    handles += [Line2D([], [], label=_MEANING[kind], **line) for kind, line in _LINES.items() if kind in kinds]
    ax.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=columns, borderaxespad=0.3)
