"""The states over time by class: the layered graph itself where it is small, shares of each class where it is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tether._types import Floats, Ints
from tether.influence.classes import CLASSES, classify_reachable
from tether.plan.plan import Plan
from tether.views.figures.layered import arrange
from tether.views.figures.network import action_text
from tether.views.figures.steps import Step, steps_of
from tether.views.report.charts import WIDE, percent_tick
from tether.views.report.svg import Canvas, Frame, text_width, time_ticks

__all__ = ["LOOKS", "draw_layers"]

LOOKS = ("class-observed", "class-reachable", "class-unreachable", "class-none")
"""The looks of the four classes."""

_LARGE, _LONG, _DENSE, _NAME = 12, 8, 16, 16
"""States in a layer, steps, edges between layers and letters of a name beyond which the graph is not drawn."""

_ROW, _HALF = 44.0, 13.0
"""Distance of two rows of the graph, and half the height of a node."""

_EDGES = {"observed": "edge-observed", "kept": "edge", "unreachable": "edge-grey", "not allowed": "edge-dashed"}


def draw_layers(
    plan: Plan, visited: Sequence[Ints], state_name: Callable[[Any], str], action_name: Callable[[Any], str]
) -> tuple[str, bool]:
    """States over time by class; ``visited`` are those of the plan. And whether it is the graph itself."""
    cf = plan.cf
    found = cf.tether(rule=plan.rule, influence=plan.influence).thresholds(plan.k)
    codes = classify_reachable(cf, found, plan.k)
    layers = [cf.graph.states(t) for t in range(plan.T + 1)]
    if plan.T <= _LONG and max(layer.size for layer in layers) <= _LARGE:
        names = [[state_name(label) for label in cf.mdp.names_of(layer)] for layer in layers]
        steps = [replace(step, actions=tuple(map(action_name, step.actions))) for step in steps_of(cf, found, plan.k)]
        most = max(sum(step.t == t for step in steps) for t in range(plan.T))
        longest = max(max(map(len, layer)) for layer in names)
        if most <= _DENSE and max(longest, *(len(action_text(step)) for step in steps)) <= _NAME:
            marked = [np.isin(layer, there) for layer, there in zip(layers, visited, strict=True)]
            middle = [_place(layer, int(seen)) for layer, seen in zip(layers, cf.observation.states, strict=True)]
            return _graph(names, codes, marked, steps, middle), True
    return _shares(codes, visited), False


def _place(states: Ints, state: int) -> int | None:
    return int(np.searchsorted(states, state)) if state >= 0 else None


def _shares(codes: Sequence[Ints], visited: Sequence[Ints]) -> str:
    """A bar a time, its parts the classes; how many states there are above it."""
    counts = np.array([np.bincount(code, minlength=len(CLASSES)) for code in codes])
    T = len(codes) - 1
    canvas = Canvas(WIDE, 246.0, "States over time by class")
    frame = Frame(canvas, (-0.5, T + 0.5), (0.0, 1.0), percent_tick, bottom=54.0)
    marks = time_ticks(0, T, 0.72 * (frame.right - frame.left))
    frame.times(marks, "t")
    wide = (frame.right - frame.left) / (T + 1)
    gap, flat = (0.1 * wide, "") if T <= 40 else (0.0, " flat")
    for t, row in enumerate(counts):
        total, floor = int(row.sum()), frame.bottom
        for i, height in enumerate(_heights(row, frame.bottom - frame.top)):
            if height > 0:
                told = f"t = {t}: {row[i]:,} of {total:,} states {CLASSES[i]}"
                x = frame.x(t) - wide / 2 + gap
                canvas.add("rect", LOOKS[i] + flat, told, x=x, y=floor - height, width=wide - 2 * gap, height=height)
                floor -= height
    for name, row, numbers in (
        ("all", 28.0, counts.sum(axis=1)),
        ("plan", 42.0, np.array([there.size for there in visited])),
    ):
        canvas.text(4.0, frame.bottom + row, name, "name", "start")
        for t in marks:
            canvas.text(frame.x(t), frame.bottom + row, _short(int(numbers[t])), "small")
    return canvas.svg()


def _heights(counts: Ints, room: float) -> Floats:
    """Heights in proportion, but none that is there too small to be seen."""
    heights: Floats = np.maximum(counts / max(1, counts.sum()) * room, np.where(counts > 0, 2.5, 0.0))
    heights[np.argmax(heights)] -= heights.sum() - room
    return heights


def _short(n: int) -> str:
    """A count in few letters.

    >>> _short(950), _short(1234), _short(56_789), _short(2_500_000)
    ('950', '1.2k', '57k', '2.5M')
    """
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if n >= size:
            return f"{n / size:.1f}{letter}" if n < 10 * size else f"{n / size:.0f}{letter}"
    return str(n)


def _graph(
    names: Sequence[Sequence[str]],
    codes: Sequence[Ints],
    marked: Sequence[Ints],
    steps: Sequence[Step],
    middle: Sequence[int | None],
) -> str:
    """A column a time, the observed path through the middle, an arrow a step."""
    edges = [sorted({(step.source, step.target) for step in steps if step.t == t}) for t in range(len(names) - 1)]
    rows = arrange([len(layer) for layer in names], edges, middle)
    half = max(_HALF, 0.5 * max(text_width(name) for layer in names for name in layer) + 6.0)
    between = max((text_width(action_text(step)) for step in steps), default=0.0) + 66.0
    steepest = max((abs(rows[s.t][s.source] - rows[s.t + 1][s.target]) for s in steps), default=0.0)
    column = 2 * half + max(between, 26.0 * steepest)
    heights = np.concatenate(rows)
    top = 34.0 + _HALF - float(heights.min()) * _ROW
    canvas = Canvas(
        2 * half + 12.0 + column * (len(names) - 1),
        top + float(heights.max()) * _ROW + _HALF + 8.0,
        "States over time by class, and the steps between them",
    )
    places = [[(half + 6.0 + t * column, top + row * _ROW) for row in layer] for t, layer in enumerate(rows)]
    _edges(canvas, places, steps, half)
    for t, layer in enumerate(names):
        canvas.text(half + 6.0 + t * column, 10.0, f"t = {t}", "name")
        for i, name in enumerate(layer):
            x, y = places[t][i]
            code = int(codes[t][i])
            told = f"{name} at t = {t}: {CLASSES[code]}{'; the plan can be here' if marked[t][i] else ''}"
            box = {"x": x - half, "y": y - _HALF, "width": 2 * half, "height": 2 * _HALF, "rx": _HALF}
            canvas.add("rect", LOOKS[code], told, **box)
            if marked[t][i]:
                outer = {"x": x - half - 3, "y": y - _HALF - 3, "width": 2 * half + 6, "height": 2 * _HALF + 6}
                canvas.add("rect", "visited", **outer, rx=_HALF + 3)
            canvas.text(x, y, name, "on-dark" if code == 0 else "")
    return canvas.svg(fixed=True)


def _edges(canvas: Canvas, places: list[list[tuple[float, float]]], steps: Sequence[Step], half: float) -> None:
    """Curves from side to side; several between the same two nodes bend apart."""
    together: dict[tuple[int, int, int], int] = {}
    curves = []
    for step in steps:
        key = (step.t, step.source, step.target)
        n = together[key] = together.get(key, 0) + 1
        bend = 9.0 * (n // 2) * (1 if n % 2 else -1)
        (x, y), (u, v) = places[step.t][step.source], places[step.t + 1][step.target]
        x, u = x + half + 3.0, u - half - 9.0
        reach = 0.45 * (u - x)
        curves.append(np.array([(x, y), (x + reach, y + bend), (u - reach, v + bend), (u, v)]))
    order = sorted(range(len(steps)), key=lambda i: list(_EDGES).index(steps[i].kind), reverse=True)
    for i in order:
        (x, y), (a, b), (c, d), (u, v) = curves[i].tolist()
        look = _EDGES[steps[i].kind]
        way = f"M{x:.1f} {y:.1f}C{a:.1f} {b:.1f} {c:.1f} {d:.1f} {u:.1f} {v:.1f}"
        canvas.add("path", look, d=way)
        canvas.area([(u + 6.0, v), (u - 1.0, v - 3.5), (u - 1.0, v + 3.5)], f"{look}-head")
    for step, (x, y) in zip(steps, _label_places(curves, steps), strict=True):
        canvas.text(x, y, action_text(step), "edge-name")


def _label_places(curves: list[Floats], steps: Sequence[Step]) -> list[tuple[float, float]]:
    """On each curve a place for its actions where they cover the least of the others."""
    tried = np.linspace(0.3, 0.7, 17)
    sampled = [_along(curve, np.linspace(0.0, 1.0, 41)) for curve in curves]
    placed: list[tuple[float, float]] = []
    for i, curve in enumerate(curves):
        room = np.array([text_width(action_text(steps[i])) / 2 + 3.0, 7.0])
        others = np.concatenate([one for j, one in enumerate(sampled) if j != i] or [np.empty((0, 2))])
        spots = _along(curve, tried)
        crossed = np.all(np.abs(spots[:, None] - others) < room, axis=2).sum(axis=1)
        names = np.array(placed).reshape(-1, 2)
        covered = np.all(np.abs(spots[:, None] - names) < 2 * room, axis=2).sum(axis=1)
        x, y = spots[int(np.argmin(40 * covered + crossed + 3 * np.abs(tried - 0.5)))].tolist()
        placed.append((x, y))
    return placed


def _along(curve: Floats, at: Floats) -> Floats:
    """Points of a Bézier curve."""
    u = at.reshape(-1, 1)
    points: Floats = (
        (1 - u) ** 3 * curve[0] + 3 * u * (1 - u) ** 2 * curve[1] + 3 * u**2 * (1 - u) * curve[2] + u**3 * curve[3]
    )
    return points
