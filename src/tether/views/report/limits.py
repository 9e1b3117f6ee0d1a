"""Other limits: the table for every k and m, as far as the model's size allows, and the value against k."""

from __future__ import annotations

import numpy as np

from tether._html import heat, signed
from tether._words import number
from tether.plan.plan import Plan
from tether.plan.sweep import Sweep
from tether.views.report.charts import WIDE
from tether.views.report.svg import Canvas, Frame, time_ticks

__all__ = ["COLUMNS", "draw_values", "sweep_around", "table_of"]

COLUMNS = 12
"""How many m there is room for; of more, some are left out."""

_WORK = 1e9
"""States over time, times k, times m: up to so many the whole table takes seconds."""


def sweep_around(plan: Plan) -> tuple[Sweep, bool]:
    """The table for every k and m, or where that would take long for the limits next to the plan's; and which it is."""
    cf, T = plan.cf, plan.T
    states = sum(int(cf.graph.states(t).size) for t in range(T + 1))
    if states * (T + 1.0) ** 2 <= _WORK:
        return cf.sweep(rule=plan.rule, influence=plan.influence), True
    ks = sorted({max(1, plan.k // 2), plan.k, T, T + 1})
    ms = range(min(plan.m + 1, T) + 1)
    return cf.sweep(rule=plan.rule, influence=plan.influence, ks=ks, ms=ms), False


def table_of(table: Sweep, plan: Plan) -> str:
    """The table, shaded, the plan's own limits outlined."""
    return heat(table.ks, table.ms, table.values, table.observed_value, (plan.k, plan.m), merge=True, wide=COLUMNS)


def draw_values(table: Sweep, plan: Plan, suggested: int | None) -> str:
    """The best value with m changes against k; without a tether and as observed for comparison."""
    column = table.values[:, table.ms == plan.m][:, 0]
    free, seen = table.value(plan.T + 1, plan.m), table.observed_value
    low, high = min(float(column.min()), seen), max(float(column.max()), seen)
    room = 0.08 * (high - low) or max(0.5, 0.05 * abs(high))
    canvas = Canvas(WIDE, 210.0, f"Best value with {plan.m} changes against k")
    first, last = int(table.ks.min()), int(table.ks.max())
    frame = Frame(canvas, (first - 0.5, last + 0.5), (low - room, high + room))
    frame.times(time_ticks(first, last, frame.right - frame.left), "k")
    canvas.line([(frame.left, frame.y(free)), (frame.right, frame.y(free))], "free")
    canvas.line([(frame.left, frame.y(seen)), (frame.right, frame.y(seen))], "seen")
    points = [(frame.x(int(k)), frame.y(float(value))) for k, value in zip(table.ks, column, strict=True)]
    canvas.line(_stairs(points, frame) if table.ks.size == plan.T + 1 else points, "plan")
    if table.ks.size <= 60:
        for (x, y), k, value in zip(points, table.ks, column, strict=True):
            canvas.add("circle", "plan-mark", f"k = {k}: {signed(number(float(value)))}", cx=x, cy=y, r=2.8)
    for k, look, size in ((plan.k, "chosen", 6.0), (suggested, "suggested", 9.0)):
        if k is not None:
            value = float(column[np.flatnonzero(table.ks == k)[0]])
            canvas.add("circle", look, f"k = {k}: {signed(number(value))}", cx=frame.x(k), cy=frame.y(value), r=size)
    return canvas.svg()


def _stairs(points: list[tuple[float, float]], frame: Frame) -> list[tuple[float, float]]:
    """A step a k: what holds for one k says nothing about half a step more."""
    half = (frame.x(1) - frame.x(0)) / 2
    return [(x + side * half, y) for x, y in points for side in (-1, 1)]
