"""The picture of Tether: a replay, solid while it is about this episode and dashed after it, over what happened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.words import cut
from tether.explanation.replay import Ending, Replay, Stretch
from tether.explanation.verdicts import Nouns
from tether.figures.style import (
    BAD,
    BLACK,
    BLUE,
    GOOD,
    PALE,
    SMALL,
    VERMILLION,
    axes,
    number_axis,
    single_line,
    styled,
    text_width,
    time_ticks,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = {"bad": BAD, "good": GOOD, "": "#c4c4c4"}
_LINE = 10.5
"""Height of a line of text in a lane, in points."""
_PAD, _GAP = 6.0, 3.0


def plot_replay(replay: Replay, ax: Axes | None = None, *, title: bool = True, nouns: Nouns | None = None) -> Axes:
    """The replay of an episode under a plan: solid where it is about this episode, dashed where it is about anyone.

    The lanes above say what was done (black) and what the plan changes (orange). The line is blue for the plan and
    black for what happened: the share of the replays that end badly, over areas for all outcomes; or the return so
    far, for a model without outcomes. Each line and area has its name at its end.

    Examples
    --------
    >>> import tether
    >>> from tether.views.figures import plot_replay
    >>> patient = tether.cases.sepsis()
    >>> replay = tether.counterfactual(patient.mdp, patient.path).plan(k=9, m=2).explain().replay()
    >>> ax = plot_replay(replay)
    >>> ax.get_title("left")
    'The replay is about this episode up to step 2; after that, about anyone'
    >>> [line.get_linestyle() for line in ax.lines if line.get_label() == "plan"]
    ['-', '--']
    """
    times, say = np.arange(replay.T + 1), nouns or Nouns()
    with styled():
        ax = axes(ax, (8.0, 3.4), "")
        ends = _scale(ax, replay, times)
        _lines(ax, replay, times)
        _lanes(ax, replay, say)
        _labels(ax, ends)
        ax.set_xlim(0, replay.T)
        ticks = time_ticks(replay.T)
        ax.set_xticks(ticks, [str(t) for t in ticks])
        ax.set_xlabel(say.step)
        if title:
            ax.set_title(say(replay.title), loc="left", fontweight="bold", wrap=True, pad=12)
    return ax


def _height(ax: Axes) -> float:
    """Height of the axes in points."""
    return float(ax.get_window_extent().height) * 72 / ax.figure.dpi


def _scale(ax: Axes, replay: Replay, times: Any) -> list[tuple[float, str, str]]:
    """Axis and areas below the lanes; returns where each line or area ends, its name and its colour."""
    below = max(0.3, 1 - (2 * _lane_height(ax, replay) + _LINE + 5 * _GAP) / _height(ax))
    if replay.endings:
        ax.set_ylim(0, 1 / below)
        ax.set_yticks([0, 0.5, 1], ["0", "50", "100 %"])
        ends, so_far = [], np.zeros(times.size)
        for one in replay.endings:
            ax.fill_between(
                times, so_far, so_far + one.chance, color=_COLOURS[one.side], alpha=_alpha(one), linewidth=0
            )
            so_far = so_far + one.chance
            if one.end > 0:
                ends.append((float(so_far[-1] - one.chance[-1] / 2), one.label, BLACK))
    else:
        rows = np.concatenate([replay.value, replay.observed_value[~np.isnan(replay.observed_value)]])
        low, high = float(rows.min()), float(rows.max())
        room = (high - low) or 1.0
        ax.set_ylim(low - 0.06 * room, low - 0.06 * room + 1.14 * room / below)
        number_axis(ax.yaxis)
        ax.set_yticks([tick for tick in ax.get_yticks() if low - 0.06 * room <= tick <= high + 0.06 * room])
        ends = [(float(replay.value[-1]), "plan", BLUE)]
        if not np.isnan(replay.observed_value[-1]):
            ends.append((float(replay.observed_value[-1]), "what happened", BLACK))
        ax.set_ylabel(cut(single_line(replay.measure), 40), loc="bottom")
    for side in ("left", "top", "right"):
        ax.spines[side].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return ends


def _alpha(ending: Ending) -> float:
    return {"bad": 0.45, "good": 0.55, "": 0.4}[ending.side]


def _lines(ax: Axes, replay: Replay, times: Any) -> None:
    """What happened in black; the plan in blue, a stretch at a time: solid where it is tied, dashed elsewhere."""
    seen = replay.observed_value
    ax.plot(times, seen, color=BLACK, linewidth=1.8, label="what happened", drawstyle="default", clip_on=False)
    start = 0
    for t in range(1, replay.T + 1):
        if t == replay.T or replay.tied[t] != replay.tied[start]:
            how = "-" if replay.tied[start] else "--"
            part = slice(start, t + 1)
            ax.plot(times[part], replay.value[part], how, color=BLUE, linewidth=2.6, label="plan", clip_on=False)
            start = t
    for one in replay.planned:
        if one.changed:
            ax.plot(
                [one.first], [replay.value[one.first]], "o", color=VERMILLION, markersize=7, zorder=4, clip_on=False
            )
    if replay.outcome is not None and replay.ended is not None and replay.endings:
        early = replay.ended < 0.7 * replay.T or replay.ended == 0
        at, before = float(seen[replay.ended]), float(seen[max(0, replay.ended - 1)])
        ax.annotate(
            "what happened",
            (replay.ended, at) if early else (replay.ended - 0.5, (at + before) / 2),
            (6.0, -11.0 if at > 0.5 else 8.0) if early else (-6.0, 0.0 if at != before else 8.0),
            textcoords="offset points",
            ha="left" if early else "right",
            va="baseline" if early else "center",
            fontsize=SMALL,
            annotation_clip=False,
        )


def _per_step(ax: Axes, replay: Replay) -> float:
    return float(ax.get_window_extent().width) * 72 / ax.figure.dpi / max(1, replay.T)


def _lane_height(ax: Axes, replay: Replay) -> float:
    """Height of the lanes of what was done and of the plan: two lines of text, if a name needs them."""
    each = _per_step(ax, replay)
    named = [one for one in (*replay.done, *replay.planned) if one.text]
    two = any(len(_wrapped(one.text, each * (one.last + 1 - one.first))) > 1 for one in named)
    return (2 if two else 1) * _LINE + _PAD


def _lanes(ax: Axes, replay: Replay, say: Nouns) -> None:
    """What was done, what the plan does and whom it is about, above the plot, each stretch over its steps."""
    high, each = _height(ax), _per_step(ax, replay)
    lane, gap = _lane_height(ax, replay) / high, _GAP / high
    rows = (("done", replay.done, 1 - lane), ("plan", replay.planned, 1 - 2 * lane - gap))
    for name, stretches, bottom in rows:
        _write(ax, name, -4.0, bottom + lane / 2, BLACK if name == "done" else BLUE, "right")
        for one in stretches:
            _bar(ax, one, bottom, lane, name == "done", each, replay.ended)
        if name == "done" and replay.ended is not None and replay.ended < replay.T:
            lines = _wrapped(f"{replay.outcome} at {say.step} {replay.ended}", each * (replay.T - replay.ended))
            _inside(ax, replay.ended, bottom + lane / 2, lines, BLACK, "bold")
    _ties(ax, replay, 1 - 2 * lane - 3 * gap, each, say)


def _ties(ax: Axes, replay: Replay, top: float, each: float, say: Nouns) -> None:
    """A line over the steps: solid where they are about this episode, dashed where they are about anyone."""
    line, start = _LINE / _height(ax), 0
    for t in range(1, replay.T + 1):
        if t == replay.T or replay.tied[t] != replay.tied[start]:
            tied = bool(replay.tied[start])
            ax.plot(
                [start, t],
                [top - line] * 2,
                "-" if tied else "--",
                transform=ax.get_xaxis_transform(),
                color=BLUE,
                linewidth=2.0,
                clip_on=False,
            )
            words = (f"this {say.episode}", "this") if tied else ("anyone",)
            fits = [word for word in words if text_width(word) <= each * (t - start) - 5.0]
            _inside(ax, start, top - line / 3, fits[:1], BLUE)
            start = t
    _write(ax, "about", -4.0, top - line / 3, BLUE, "right")


def _bar(ax: Axes, stretch: Stretch, bottom: float, lane: float, done: bool, each: float, ended: int | None) -> None:
    from matplotlib.patches import Rectangle

    width = stretch.last + 1 - stretch.first
    if done or stretch.changed:
        box = Rectangle(
            (stretch.first, bottom),
            width,
            lane,
            transform=ax.get_xaxis_transform(),
            facecolor=PALE if done else VERMILLION,
            edgecolor="#ffffff",
            linewidth=1.5,
            clip_on=False,
        )
        ax.add_patch(box)
    over = ended is not None and stretch.first >= ended  # nothing was done any more
    text = stretch.text if done or stretch.changed else "" if over else "the same"
    lines = _wrapped(text, each * width)
    if text == "the same" and lines != [text]:
        lines = ["="]
    ink = "#ffffff" if stretch.changed else BLACK if done else "#555555"
    _inside(ax, stretch.first, bottom + lane / 2, lines, ink)


def _inside(ax: Axes, t: float, y: float, lines: Sequence[str], colour: str, weight: str = "normal") -> None:
    """A text in a lane, which begins at time ``t``."""
    if lines:
        ax.annotate(
            "\n".join(lines),
            (t, y),
            (4.0, 0.0),
            xycoords=ax.get_xaxis_transform(),
            textcoords="offset points",
            va="center",
            fontsize=SMALL,
            color=colour,
            fontweight=weight,
            linespacing=1.1,
            parse_math=False,
            annotation_clip=False,
        )


def _wrapped(text: str, room: float) -> list[str]:
    """A text in at most two lines, cut where there is no room; nothing, if there is hardly any."""
    text, room = single_line(text), room - 7.0
    if text_width(text) <= room:
        return [text] if text else []
    words, first = text.split(" "), ""
    while words and text_width(f"{first} {words[0]}".strip()) <= room:
        first = f"{first} {words.pop(0)}".strip()
    if not first and len(words) > 1:  # a long first word: the others have a line of their own
        first = _fitting(words.pop(0), room)
    lines = [line for line in (first, _fitting(" ".join(words), room)) if line]
    return lines if lines and len(lines[0]) > 1 else []


def _fitting(text: str, room: float) -> str:
    """As much of a text as there is room for, and a number at its end; nothing, if that is less than three letters."""
    last = text.rpartition(" ")[2]
    tail = f" {last}" if last.isdigit() and last != text else ""
    head = text.removesuffix(tail)
    while len(head) > 3 and text_width(head + tail) > room:
        head = head[:-2].rstrip(" +,(…") + "…"
    return head + tail if text_width(head + tail) <= room and (len(head) > 2 or head + tail == text) else ""


def _write(ax: Axes, text: str, x: float, y: float, colour: str, side: Any) -> None:
    """A text beside the axes, ``x`` points from its left end."""
    ax.annotate(
        text,
        (0.0, y),
        (x, 0.0),
        xycoords="axes fraction",
        textcoords="offset points",
        ha=side,
        va="center",
        fontsize=SMALL,
        color=colour,
        annotation_clip=False,
    )


def _labels(ax: Axes, ends: Sequence[tuple[float, str, str]]) -> None:
    """The name of each line or area at its end, none over another."""
    low, high = ax.get_ylim()
    need = (high - low) * 12.0 / _height(ax)
    at = -np.inf
    for end, text, colour in sorted(ends):
        at = max(end, at + need)
        ax.annotate(
            cut(single_line(text), 24),
            (1.0, at),
            (5.0, 0.0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            va="center",
            fontsize=SMALL,
            color=colour,
            parse_math=False,
            annotation_clip=False,
        )
