"""Drawing in SVG: a canvas, scales and ticks. Looks are classes that the page's style sheet knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, floor, log10
from unicodedata import east_asian_width

from tether._html import signed, told
from tether._words import number

__all__ = ["Canvas", "Frame", "fitted", "scale", "text_width", "ticks", "time_ticks"]

_EM = 11.0
"""Size of the text in drawings."""


class Canvas:
    """A drawing of a given size; it stretches to the room it has on the page."""

    def __init__(self, width: float, height: float, label: str) -> None:
        self.width, self.height, self.label = width, height, label
        self.parts: list[str] = []

    def add(self, tag: str, look: str = "", tip: str = "", **attributes: float | str) -> None:
        """One element; ``tip`` shows where the pointer rests."""
        kind = f' class="{look}"' if look else ""
        told_as = "".join(f' {name.replace("_", "-")}="{_plain(value)}"' for name, value in attributes.items())
        inside = f"><title>{told(tip)}</title></{tag}>" if tip else "/>"
        self.parts.append(f"<{tag}{kind}{told_as}{inside}")

    def line(self, points: Sequence[tuple[float, float]], look: str) -> None:
        """A line through points."""
        self.add("polyline", look, points=" ".join(f"{_plain(x)},{_plain(y)}" for x, y in points))

    def area(self, points: Sequence[tuple[float, float]], look: str, opacity: float = 1.0) -> None:
        """A filled shape."""
        around = " ".join(f"{_plain(x)},{_plain(y)}" for x, y in points)
        if opacity < 1.0:
            self.add("polygon", look, points=around, opacity=f"{opacity:.2g}")
        else:
            self.add("polygon", look, points=around)

    def text(self, x: float, y: float, text: str, look: str = "", anchor: str = "middle") -> None:
        """A text; ``y`` is the middle of its letters."""
        kind = f' class="{look}"' if look else ""
        where = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self.parts.append(f'<text{kind} x="{_plain(x)}" y="{_plain(y + 0.35 * _EM)}"{where}>{told(text)}</text>')

    def svg(self, fixed: bool = False) -> str:
        """The drawing as inline SVG; ``fixed``: at about its own size, however little room there is."""
        size = f"0 0 {_plain(self.width)} {_plain(self.height)}"
        wide = (_plain(share * self.width) for share in (1.15, 0.75))
        style = ' style="max-width:{}px;min-width:{}px"'.format(*wide) if fixed else ""
        return f'<svg viewBox="{size}"{style} role="img" aria-label="{told(self.label)}">{"".join(self.parts)}</svg>'


class Frame:
    """The axes of a chart: where numbers and times lie, a grid, and the names of ticks."""

    def __init__(
        self,
        canvas: Canvas,
        x: tuple[float, float],
        y: tuple[float, float],
        y_text: Callable[[float], str] | None = None,
        whole: bool = False,
        right: float = 10.0,
        bottom: float = 22.0,
    ) -> None:
        self.canvas = canvas
        marks = ticks(*y, whole=whole)
        names = [(y_text or axis_number)(mark) for mark in marks]
        self.left = max(24.0, 10.0 + max(text_width(name) for name in names))
        self.right, self.top, self.bottom = canvas.width - right, 8.0, canvas.height - bottom
        self.x = scale(*x, self.left, self.right)
        self.y = scale(*y, self.bottom, self.top)
        for mark, name in zip(marks, names, strict=True):
            canvas.line([(self.left, self.y(mark)), (self.right, self.y(mark))], "grid")
            canvas.text(self.left - 6.0, self.y(mark), name, anchor="end")

    def times(self, marks: Sequence[int], name: str, names: Sequence[str] | None = None) -> None:
        """Ticks along x; the first says what they are."""
        for i, mark in enumerate(marks):
            self.canvas.text(self.x(mark), self.bottom + 12.0, str(mark) if names is None else names[i])
        self.canvas.text(4.0, self.bottom + 12.0, name, "name", "start")


def scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """From numbers to places."""
    span = (high - low) or 1.0
    return lambda value: start + (value - low) / span * (end - start)


def ticks(low: float, high: float, count: int = 6, whole: bool = False) -> list[float]:
    """Round numbers from ``low`` to ``high``, about ``count`` of them.

    >>> ticks(0, 9.3)
    [0.0, 2.0, 4.0, 6.0, 8.0]
    """
    raw = (high - low) / count
    power = 10.0 ** floor(log10(raw))
    step = next(power * nice for nice in (1.0, 2.0, 5.0, 10.0) if power * nice >= raw * 0.999)
    step = max(step, 1.0) if whole else step
    return [i * step for i in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


def time_ticks(first: int, last: int, room: float) -> list[int]:
    """Whole numbers from first to last, as many as there is room for.

    >>> time_ticks(0, 20, 120.0)
    [0, 5, 10, 15, 20]
    """
    most = max(2.0, room / (12.0 + text_width(str(last))))
    step = next(n * 10**e for e in range(9) for n in (1, 2, 5) if (last - first) / (n * 10**e) < most)
    return list(range(-(-first // step) * step, last + 1, step)) or [first]


def axis_number(value: float) -> str:
    """A number beside an axis, short."""
    for size, letter in ((1e9, "G"), (1e6, "M")):
        if abs(value) >= size:
            return signed(f"{value / size:.4g} {letter}")
    return signed(number(round(value, 12) + 0.0))


def text_width(text: str) -> float:
    """About how wide a text is."""
    return 0.56 * _EM * sum(1.8 if east_asian_width(letter) in "WF" else 1.0 for letter in text)


def fitted(text: str, room: float) -> str:
    """As much of a text as there is room for."""
    if text_width(text) <= room:
        return text
    while text and text_width(text) + _EM / 2 > room:
        text = text[:-1]
    return f"{text.rstrip()}…"


def _plain(value: float | str) -> str:
    """A place on the canvas, in as few letters as are enough."""
    if isinstance(value, str):
        return told(value)
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")
