"""Series of marks: those that coincide become one, those that would collide stand side by side.

Marks of two series collide where they share an x and are nearer to each other than a mark is wide. Series that
collide anywhere get different slots, a mark's width apart, around the true x; the others stay on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats
from tether.errors import QueryError
from tether.figures.style import MARK, RING, Look, figure_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Marks at (x, y), and perhaps hollow ones: other heights at the same x, NaN where there is none."""

    label: str
    x: Floats
    y: Floats
    hollow: tuple[Floats, ...] = ()


def series_of(label: str, x: Any, y: Any) -> Series:
    """A series of plain numbers, one y for each x."""
    series = Series(label, np.asarray(x, dtype=float).reshape(-1), np.asarray(y, dtype=float).reshape(-1))
    if series.x.size != series.y.size or not series.x.size:
        raise QueryError(f"{label!r} needs a value for each k; got {series.x.size} k and {series.y.size} values")
    return series


def same(a: Floats, b: Floats) -> bool:
    """Whether two rows of numbers are equal, up to rounding."""
    if a.shape != b.shape:
        return False
    scale = max(float(np.max(np.abs(a), initial=0.0)), 1e-300)
    return bool(np.all(np.abs(a - b) <= 1e-9 * scale))


def merge(series: Sequence[Series], join: Callable[[list[str]], str]) -> list[Series]:
    """Series with the same marks as one, under a common label."""
    groups: list[list[Series]] = []
    for one in series:
        home = next((group for group in groups if same(group[0].x, one.x) and same(group[0].y, one.y)), None)
        if home is None:
            groups.append([one])
        else:
            home.append(one)
    return [
        Series(
            join([one.label for one in group]),
            group[0].x,
            group[0].y,
            _distinct([rows for one in group for rows in one.hollow]),
        )
        for group in groups
    ]


def _distinct(rows: list[Floats]) -> tuple[Floats, ...]:
    kept: list[Floats] = []
    for row in rows:
        if not any(same(np.nan_to_num(row), np.nan_to_num(other)) for other in kept):
            kept.append(row)
    return tuple(kept)


def fit_limits(ax: Axes, series: Sequence[Series], extra: Sequence[float] = ()) -> None:
    """Limits that include every mark. They are set first, because they decide which marks collide."""
    xs = np.concatenate([one.x for one in series])
    ys = np.concatenate([*(np.concatenate((one.y, *one.hollow)) for one in series), np.asarray(extra, dtype=float)])
    logarithmic = ax.get_yscale() == "log"
    ys = ys[np.isfinite(ys) & ((ys > 0) | (not logarithmic))]
    low, high = float(ys.min(initial=np.inf)), float(ys.max(initial=-np.inf))
    if logarithmic:
        margin = (high / low) ** 0.07
        ax.set_ylim(low / margin, high * margin)
    else:
        margin = 0.07 * (high - low) or 0.07 * abs(high) or 1.0
        ax.set_ylim(low - margin, high + margin)
    ax.set_xlim(float(xs.min()) - 0.5, float(xs.max()) + 0.5)


def slots(ax: Axes, series: Sequence[Series], width: float) -> Floats:
    """How far each series is moved from the true x, in units of x; ``width`` is the width of a mark in points."""
    marks = [_marks(ax, one) for one in series]
    meets = [[i != j and _collide(a, b, width) for j, b in enumerate(marks)] for i, a in enumerate(marks)]
    slot = np.full(len(series), -1)
    for i in range(len(series)):
        taken = {int(slot[j]) for j in range(i) if meets[i][j]}
        slot[i] = next(n for n in range(len(series)) if n not in taken)
    unit = 72 * (ax.transData.transform((1.0, 1.0))[0] - ax.transData.transform((0.0, 1.0))[0]) / figure_of(ax).dpi
    offset = np.zeros(len(series))
    for group in _connected(meets):
        count = int(slot[group].max()) + 1
        step = min(1.75 * width / unit, 0.8 / count)
        offset[group] = (slot[group] - (count - 1) / 2) * step
    return offset


def _marks(ax: Axes, series: Series) -> list[tuple[float, float]]:
    """(x, height on paper in points) of all marks of a series."""
    found = []
    for row in (series.y, *series.hollow):
        keep = np.isfinite(row)
        heights = ax.transData.transform(np.column_stack((series.x[keep], row[keep])))[:, 1] * 72 / figure_of(ax).dpi
        found += list(zip(series.x[keep].tolist(), heights.tolist(), strict=True))
    return found


def _collide(a: list[tuple[float, float]], b: list[tuple[float, float]], width: float) -> bool:
    here, there = np.array(a).reshape(-1, 1, 2), np.array(b).reshape(1, -1, 2)
    return bool(np.any((here[..., 0] == there[..., 0]) & (np.abs(here[..., 1] - there[..., 1]) < width)))


def _connected(meets: list[list[bool]]) -> list[list[int]]:
    """Groups of two or more series that collide with one another, directly or through others."""
    left, groups = set(range(len(meets))), []
    while left:
        group, rim = set(), {left.pop()}
        while rim:
            i = rim.pop()
            group.add(i)
            rim |= {j for j, met in enumerate(meets[i]) if met} - group
        left -= group
        if len(group) > 1:
            groups.append(sorted(group))
    return groups


def draw(ax: Axes, series: Sequence[Series], looks: Sequence[Look]) -> list[Line2D]:
    """Draw the series, side by side where they collide; set the limits before. Returns their lines."""
    width = RING if any(one.hollow for one in series) else MARK + 1
    lines = []
    for one, how, offset in zip(series, looks, slots(ax, series, width), strict=True):
        every = max(1, one.x.size // 20)
        (line,) = ax.plot(
            one.x + offset,
            one.y,
            color=how.colour,
            linestyle=how.line,
            marker=how.marker,
            markevery=every,
            label=one.label,
        )
        lines.append(line)
        for row in one.hollow:
            ring(ax, one.x + offset, row, how)
    return lines


def ring(ax: Axes, x: Floats, y: Floats, how: Look) -> Line2D:
    """Hollow marks, wide enough to go around filled ones."""
    (line,) = ax.plot(x, y, marker=how.marker, linestyle="none", **hollow_mark(how.colour), zorder=3)
    return line


def hollow_mark(colour: str) -> dict[str, Any]:
    return {"markersize": RING, "markerfacecolor": "none", "markeredgecolor": colour, "markeredgewidth": 0.9}


def filled_and_hollow(ours: str = "filled: exact", theirs: str = "hollow: published") -> list[Line2D]:
    """What filled and hollow marks mean, for the legend."""
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], color="#555555", marker="o", linestyle="none", label=ours),
        Line2D([], [], marker="o", linestyle="none", label=theirs, **hollow_mark("#555555")),
    ]
