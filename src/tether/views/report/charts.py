"""Quantities over time as small drawings: what happened beside what would have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tether._html import signed
from tether._types import Floats
from tether._words import number
from tether.evaluation.evaluate import Tailoring
from tether.views.report.features import Band, Strip
from tether.views.report.svg import Canvas, Frame, fitted, scale, text_width, time_ticks
from tether.views.report.words import percent

__all__ = ["WIDE", "draw_band", "draw_influence", "draw_strip"]

WIDE = 340.0
"""Width of a drawing: that of a phone, and half that of a page."""

_MARKED = 40
"""Up to so many steps each time has its mark, and says its numbers where the pointer rests."""


def draw_band(band: Band, spread: str = "") -> str:
    """A mean and its band in one colour, what was observed in black.

    ``spread`` says what the band is, where it is not the middle four fifths.
    """
    T = band.mean.size - 1
    every = np.concatenate((band.low, band.high, band.mean, band.observed[np.isfinite(band.observed)]))
    low, high = float(every.min()), float(every.max())
    room = 0.06 * (high - low) or max(0.5, 0.05 * abs(high))
    canvas = Canvas(WIDE, 172.0, f"{band.name} over time")
    frame = Frame(canvas, (0, T), (low - room, high + room), whole=band.whole)
    frame.times(time_ticks(0, T, frame.right - frame.left), "t")
    above = [(frame.x(t), frame.y(value)) for t, value in enumerate(band.high)]
    below = [(frame.x(t), frame.y(value)) for t, value in enumerate(band.low)]
    canvas.area([*above, *reversed(below)], "band")
    seen = [(frame.x(t), frame.y(value)) for t, value in enumerate(band.observed) if np.isfinite(value)]
    mean = [(frame.x(t), frame.y(value)) for t, value in enumerate(band.mean)]
    canvas.line(seen, "seen")
    canvas.line(mean, "plan")
    if T <= _MARKED:
        for x, y in seen:
            canvas.add("rect", "seen-mark", x=x - 2.5, y=y - 2.5, width=5.0, height=5.0)
        for x, y in mean:
            canvas.add("circle", "plan-mark", cx=x, cy=y, r=2.4)
        for t in range(T + 1):
            _tip(canvas, frame, t, T, _band_told(band, t, spread))
    return canvas.svg()


def _band_told(band: Band, t: int, spread: str) -> str:
    was = signed(number(float(band.observed[t]))) if np.isfinite(band.observed[t]) else "not recorded"
    low, mean, high = (signed(number(float(row[t]))) for row in (band.low, band.mean, band.high))
    return f"t = {t}: observed {was}; plan {mean} on average, {spread or 'mostly'} {low} to {high}"


def _tip(canvas: Canvas, frame: Frame, t: int, T: int, text: str) -> None:
    """Says the numbers of a time where the pointer rests on it."""
    half = (frame.right - frame.left) / max(T, 1) / 2
    left, right = max(frame.left, frame.x(t) - half), min(frame.right, frame.x(t) + half)
    canvas.add("rect", "tip", text, x=left, y=frame.top, width=right - left, height=frame.bottom - frame.top)


def draw_strip(strip: Strip) -> str:
    """A row a value, a column a time, shaded by probability; the observed value marked."""
    rows, times = strip.chance.shape
    tall = 17.0
    canvas = Canvas(WIDE, 30.0 + tall * rows, f"{strip.name} over time")
    left = 10.0 + min(0.42 * WIDE, max(text_width(name) for name in strip.rows))
    right, bottom = WIDE - 8.0, 8.0 + tall * rows
    wide = (right - left) / times
    for i, name in enumerate(strip.rows):
        y = bottom - tall * (i + 1)
        canvas.text(left - 6.0, y + tall / 2, fitted(name, left - 10.0), anchor="end")
        canvas.add("rect", "empty", x=left, y=y + 0.5, width=right - left, height=tall - 1.0)
        _cells(canvas, strip, i, left, wide, y, tall)
    for t, row in enumerate(strip.observed.tolist()):
        if row >= 0 and times - 1 <= _MARKED:
            x, y, half = left + (t + 0.5) * wide, bottom - tall * (row + 0.5), min(3.0, 0.4 * wide)
            canvas.add("rect", "seen-mark", x=x - half, y=y - half, width=2 * half, height=2 * half)
    if times - 1 > _MARKED:
        _observed_line(canvas, strip, left, wide, bottom, tall)
    place = scale(0, times, left, right)
    for t in time_ticks(0, times - 1, right - left):
        canvas.text(place(t + 0.5), bottom + 12.0, str(t))
    canvas.text(4.0, bottom + 12.0, "t", "name", "start")
    return canvas.svg()


def _cells(canvas: Canvas, strip: Strip, i: int, left: float, wide: float, y: float, tall: float) -> None:
    """One row: neighbours of one shade are one rectangle."""
    shades = np.round(strip.chance[i], 3)
    t = 0
    while t < shades.size:
        last = t + 1
        marked = shades.size - 1 <= _MARKED
        while not marked and last < shades.size and shades[last] == shades[t]:
            last += 1
        if shades[t] > 0:
            gap = 0.5 if marked else 0.0
            told = f"t = {t}: {strip.rows[i]} {percent(float(strip.chance[i, t]))}" if marked else ""
            where = {"x": left + t * wide + gap, "y": y + 0.5, "width": (last - t) * wide - 2 * gap}
            canvas.add("rect", "cell", told, **where, height=tall - 1.0, fill_opacity=f"{max(shades[t], 0.04):.3g}")
        t = last


def _observed_line(canvas: Canvas, strip: Strip, left: float, wide: float, bottom: float, tall: float) -> None:
    """Over many steps, what was observed as lines through the middle of its cells."""
    first = 0
    for t in range(1, strip.observed.size + 1):
        row = int(strip.observed[first])
        if t == strip.observed.size or strip.observed[t] != row:
            y = bottom - tall * (row + 0.5)
            if row >= 0:
                canvas.line([(left + first * wide, y), (left + t * wide, y)], "seen")
            first = t


def draw_influence(held: Tailoring, changed: Floats) -> str:
    """At each step the probability that the observation speaks (outlined) and how strongly (filled)."""
    T = held.strength.size
    canvas = Canvas(WIDE, 186.0, "Influence of the observation over time")
    frame = Frame(canvas, (-0.5, T - 0.5), (0.0, 1.0), percent_tick, bottom=36.0)
    frame.times(time_ticks(0, T - 1, frame.right - frame.left), "t")
    wide = (frame.right - frame.left) / T
    for t in range(T):
        chance, strength = float(held.influenced[t]), float(held.strength[t])
        x = frame.x(t) - 0.5 * wide
        told = f"t = {t}: the observation speaks {percent(chance)} of the time, with strength {strength:.2f}"
        _bar(canvas, frame, x + 0.12 * wide, 0.76 * wide, chance, "outline", told)
        _bar(canvas, frame, x + 0.26 * wide, 0.48 * wide, strength, "strength", told)
        if changed[t] > 0.005:
            y, half = frame.bottom + 27.0, min(4.0, 0.45 * wide)
            points: Sequence[tuple[float, float]] = (
                (frame.x(t) - half, y + half),
                (frame.x(t) + half, y + half),
                (frame.x(t), y - half),
            )
            canvas.area(points, "change-mark", max(0.25, float(changed[t])))
    return canvas.svg()


def percent_tick(value: float) -> str:
    """A share beside an axis."""
    return f"{100 * value:.0f} %"


def _bar(canvas: Canvas, frame: Frame, x: float, width: float, share: float, look: str, told: str) -> None:
    if share > 0:
        y = frame.y(share)
        canvas.add("rect", look, told, x=x, y=y, width=width, height=frame.bottom - y)
