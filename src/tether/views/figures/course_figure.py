"""Quantities over time: what happened beside what would have happened, and how much of it is about the episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats
from tether.errors import QueryError
from tether.evaluation.evaluate import Evaluation
from tether.evaluation.returns import Course
from tether.evaluation.tailoring import Tailoring
from tether.figures.series import Series, filled_and_hollow, fit_limits, ring
from tether.figures.style import (
    BLACK,
    BLUE,
    GREY,
    OBSERVED,
    TIME,
    VERMILLION,
    Look,
    axes,
    explain_with,
    look,
    number_axis,
    single_line,
    steps_axis,
    styled,
    time_ticks,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

_TWO = ("filled mark and line: exact", "hollow mark and caps: published")

_BARS = 15
"""Up to this many steps spreads are bars; beyond, bands."""

_MARKED, _CELLS = 40, 1500
"""Up to this many steps each time has its mark; up to this many cells each is a shape, not part of a bitmap."""


def plot_course(
    courses: Mapping[str, Course],
    ax: Axes | None = None,
    ylabel: str = "mean and standard deviation",
    observed: Any = None,
    published: Mapping[str, tuple[Any, Any]] | None = None,
) -> Axes:
    """A quantity over time under one or more plans: its mean, and one standard deviation as a bar or a band.

    Bars and bands never go beyond the values that can happen.

    Parameters
    ----------
    courses : mapping of label to Course
    observed : sequence, optional
        What happened, at t = 0 …
    published : mapping of label to (mean, standard deviation), optional
        Drawn as hollow marks around the mean of that label, and caps at the ends of the spread.

    Examples
    --------
    >>> import tether
    >>> from tether.views.figures import plot_course
    >>> case = tether.cases.epidemic()
    >>> cf = tether.counterfactual(case.mdp, case.path)
    >>> infected = {f"k = {k}, m = {m}": cf.plan(k, m).evaluate().feature("I") for k, m in ((3, 1), (7, 4))}
    >>> ax = plot_course(infected, ylabel="infected (people)", observed=[state.I for state in case.path.states])
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['observed', 'k = 3, m = 1', 'k = 7, m = 4']
    """
    if not courses:
        raise QueryError("there is no course to draw")
    published = published or {}
    _check(published, courses)
    size = max(course.mean.size for course in courses.values())
    bars = size - 1 <= _BARS
    steps = iter(_offsets(len(courses) + (observed is not None)) if bars else np.zeros(len(courses) + 1))
    with styled():
        ax = axes(ax)
        _limits(ax, courses, observed, published)
        handles = []
        if observed is not None:
            seen = np.asarray(observed, dtype=float)
            next(steps)
            handles += ax.plot(seen, color=BLACK, marker=OBSERVED.marker, linewidth=1.3, label="observed", zorder=2.5)
        for i, (label, course) in enumerate(courses.items()):
            x = np.arange(course.mean.size) + next(steps)
            handles.append(_course(ax, x, course, look(i), label, bars))
            if label in published:
                _published(ax, x, published[label], look(i))
        steps_axis(ax, 0, size - 1)
        ax.set_xlabel(TIME)
        ax.set_ylabel(ylabel)
        explain_with(ax, [*handles, *(filled_and_hollow(*_TWO) if published else [])])
    return ax


def _check(published: Mapping[str, tuple[Any, Any]], courses: Mapping[str, Course]) -> None:
    for label, (mean, std) in published.items():
        if label not in courses:
            raise QueryError(f"published has {label!r}, which is not among the courses")
        times = courses[label].mean.size
        if not len(mean) == len(std) == times:
            raise QueryError(f"published {label!r} has {len(mean)} means and {len(std)} spreads for {times} times")


def _offsets(count: int) -> Floats:
    """Offsets around the true time: 0 for the first, then -1, 1, -2, 2 …, close together."""
    places = np.array([(i + 1) // 2 * (1 if i % 2 == 0 else -1) for i in range(count)], dtype=float)
    offsets: Floats = places * min(0.16, 0.8 / count)
    return offsets


def _limits(ax: Axes, courses: Mapping[str, Course], observed: Any, published: Mapping[str, tuple[Any, Any]]) -> None:
    ends = [end for course in courses.values() for end in course.band()]
    for mean, std in published.values():
        ends += [np.asarray(mean, float) - np.asarray(std, float), np.asarray(mean, float) + np.asarray(std, float)]
    if observed is not None:
        ends.append(np.asarray(observed, float))
    fit_limits(ax, [Series("", np.arange(end.size, dtype=float), end) for end in ends])


def _course(ax: Axes, x: Floats, course: Course, how: Look, label: str, bars: bool) -> Line2D:
    every = max(1, x.size // 20)
    (line,) = ax.plot(
        x, course.mean, color=how.colour, linestyle=how.line, marker=how.marker, markevery=every, label=label
    )
    low, high = course.band()
    if bars:
        ax.vlines(x, low, high, color=how.colour, linewidth=1.0)
    else:
        ax.fill_between(x, low, high, color=how.colour, alpha=0.18, linewidth=0)
    return line


def _published(ax: Axes, x: Floats, given: tuple[Any, Any], how: Look) -> None:
    mean, std = (np.asarray(row, dtype=float) for row in given)
    x = x[: mean.size]
    ring(ax, x, mean, how)
    some = std > 0
    for end in (mean - std, mean + std):
        ax.plot(x[some], end[some], marker="_", markersize=6, linestyle="none", color=how.colour)


def plot_band(
    mean: Any,
    low: Any,
    high: Any,
    observed: Any,
    ax: Axes | None = None,
    *,
    band: str = "the middle 80 %",
    whole: bool = False,
    legend: bool = True,
    who: str = "plan",
) -> Axes:
    """A quantity over time under one plan, or another way of acting, as a mean and a band, beside what was observed.

    Parameters
    ----------
    mean, low, high : sequences, at t = 0 … T
    observed : sequence, at t = 0 … T
        NaN where it was not recorded.
    band : str
        What the band is, for the legend.
    whole : bool
        Whether the quantity is counted in whole numbers.
    legend : bool
        Whether to draw a legend. Several drawings need only one.
    who : str
        Whose average it is, for the legend.

    Examples
    --------
    >>> from tether.views.figures import plot_band
    >>> ax = plot_band([1, 2.5], [1, 2], [1, 3], [1, 3])
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['observed', 'plan, on average', 'the middle 80 %']
    """
    mean, low, high, observed = (np.asarray(row, dtype=float) for row in (mean, low, high, observed))
    x = np.arange(mean.size, dtype=float)
    mark = mean.size - 1 <= _MARKED
    with styled():
        ax = axes(ax)
        fit_limits(ax, [Series("", x, row) for row in (mean, low, high, observed)])
        around = ax.fill_between(x, low, high, color=BLUE, alpha=0.18, linewidth=0, label=band)
        (seen,) = ax.plot(x, observed, color=BLACK, marker="s" if mark else "", linewidth=1.2, label="observed")
        (plan,) = ax.plot(x, mean, color=BLUE, marker="o" if mark else "", linewidth=1.5, label=f"{who}, on average")
        seen.set(markerfacecolor="white", markersize=4.0)
        plan.set(markersize=3.6)
        steps_axis(ax, 0, mean.size - 1)
        number_axis(ax.yaxis, whole)
        ax.set_xlabel(TIME)
        if legend:
            explain_with(ax, [seen, plan, around])
    return ax


def plot_strip(
    rows: Sequence[str],
    chance: Any,
    observed: Any,
    ax: Axes | None = None,
) -> Axes:
    """Values that are words, over time: one row per value, shaded by its probability; what was observed is marked.

    Parameters
    ----------
    rows : sequence of str
        Names of the values, from below.
    chance : array (values, times)
    observed : sequence of int, at t = 0 … T
        The row that was observed; -1 where it was not recorded.

    Examples
    --------
    >>> from tether.views.figures import plot_strip
    >>> ax = plot_strip(["no", "yes"], [[1.0, 0.25], [0.0, 0.75]], [0, 1])
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['no', 'yes']
    """
    from matplotlib.colors import to_rgb

    chance, observed = np.asarray(chance, dtype=float), np.asarray(observed, dtype=np.int64)
    shades = np.empty((*chance.shape, 4))
    shades[..., :3] = to_rgb(BLUE)
    shades[..., 3] = np.where(chance > 0, np.clip(chance, 0.04, 1.0), 0.0)
    times = np.flatnonzero(observed >= 0)
    many = chance.shape[1] - 1 > _MARKED
    with styled():
        ax = axes(ax, (5.5, 0.6 + 0.24 * len(rows)), "")
        # Shades are transparent, so that they are right on any background.
        ax.axhspan(0, len(rows), color=GREY, alpha=0.1, linewidth=0)
        ax.pcolormesh(shades, rasterized=shades.size > 4 * _CELLS)
        ax.hlines(np.arange(1, len(rows)), 0, chance.shape[1], color="white", linewidth=1.0)
        if many:
            for t, row in zip(times, observed[times], strict=True):
                ax.plot([t, t + 1], [row + 0.5] * 2, color=BLACK, linewidth=1.4)
        else:
            how: dict[str, Any] = {"markerfacecolor": "white", "markeredgecolor": BLACK, "markersize": 4.0}
            ax.plot(times + 0.5, observed[times] + 0.5, marker="s", linestyle="none", **how)
        ax.set_xlim(0, chance.shape[1])
        ax.set_ylim(0, len(rows))
        ax.set_yticks(np.arange(len(rows)) + 0.5, [single_line(name) for name in rows])
        for label in ax.get_yticklabels():
            label.set_parse_math(False)
        shown = time_ticks(chance.shape[1] - 1)
        ax.set_xticks(shown + 0.5, [str(t) for t in shown])
        ax.tick_params(length=0)
        for side in ("left", "bottom"):
            ax.spines[side].set_visible(False)
        ax.set_xlabel(TIME)
    return ax


def plot_tailoring(evaluations: Mapping[str, Evaluation], ax: Axes | None = None, *, who: str = "plan") -> Axes:
    """How much of each step is still about the observed episode, under one or more plans.

    At each step the filled bar is the expected strength of the observation's influence, the outlined bar the
    probability that the step counts as influenced. Under a single plan, or whatever ``who`` is, a triangle below marks
    the steps at which it may change the action.

    Examples
    --------
    >>> import tether
    >>> from tether.views.figures import plot_tailoring
    >>> case = tether.cases.epidemic()
    >>> cf = tether.counterfactual(case.mdp, case.path)
    >>> ax = plot_tailoring({f"k = {k}": cf.plan(k, m=4).evaluate() for k in (3, 6, 8)})
    >>> [round(float(bar.get_height()), 2) for bar in ax.containers[1]]  # the strength for k = 3, step by step
    [0.1, 0.64, 0.71, 0.57, 0.64, 0.0, 0.0]
    """
    from matplotlib.patches import Patch

    if not evaluations:
        raise QueryError("there is no evaluation to draw")
    found = {label: _tailoring(label, outlook) for label, outlook in evaluations.items()}
    T = max(one.strength.size for one in found.values())
    with styled():
        ax = axes(ax)
        ax.set_ylim(0.0, 1.05)
        ax.set_xlim(-0.6, T - 0.4)
        if T * len(found) <= 60:
            handles = _bars(ax, found)
            shapes: list[Any] = [
                Patch(facecolor="#555555", edgecolor="#555555", label="filled: strength"),
                Patch(facecolor="white", edgecolor="#555555", label="outlined: probability of known ground"),
            ]
        else:
            handles, shapes = _curves(ax, found)
        if len(evaluations) == 1:
            (outlook,) = evaluations.values()
            handles, shapes = [], [*shapes, *_changes(ax, outlook.changed, who)]
        steps_axis(ax, 0, T - 1)
        ax.set_xlabel(TIME)
        ax.set_ylabel("from 0 to 1")
        explain_with(ax, [*handles, *shapes])
    return ax


def _changes(ax: Axes, changed: Floats | None, who: str) -> list[Line2D]:
    """Triangles where ``who`` may change the action; the likelier the change, the fuller the triangle."""
    at = np.flatnonzero(changed > 0.005) if changed is not None else np.empty(0, dtype=np.int64)
    if changed is None or not at.size:
        return []
    how: dict[str, Any] = {"marker": "^", "color": VERMILLION, "markersize": 5.0, "linestyle": "none"}
    for t in at:
        ax.plot([t], [0.02], alpha=max(0.25, float(min(1.0, changed[t]))), clip_on=False, zorder=4, **how)
    from matplotlib.lines import Line2D

    return [Line2D([], [], label=f"the {who} may change the action", **how)]


def _tailoring(label: str, outlook: Evaluation) -> Tailoring:
    if outlook.tailoring is None:
        raise QueryError(f"{label!r} was evaluated without an observation, so nothing can be tailored to one")
    return outlook.tailoring


_HATCHES = ("", "/////", "xxxxx", "-----", "\\\\\\\\\\")


def _bars(ax: Axes, found: Mapping[str, Tailoring]) -> list[Any]:
    from matplotlib.patches import Patch

    width = 0.8 / len(found)
    handles = []
    for i, (label, one) in enumerate(found.items()):
        colour, hatch = look(i).colour, _HATCHES[i % len(_HATCHES)]
        x = np.arange(one.strength.size) + (i - (len(found) - 1) / 2) * width
        ax.bar(x, one.influenced, 0.86 * width, facecolor="white", edgecolor=colour)
        ax.bar(x, one.strength, 0.5 * width, facecolor=colour, edgecolor="white", hatch=hatch, linewidth=0)
        handles.append(Patch(facecolor=colour, edgecolor="white", hatch=hatch, linewidth=0, label=label))
    return handles


def _curves(ax: Axes, found: Mapping[str, Tailoring]) -> tuple[list[Any], list[Any]]:
    """Over many steps: the probability as a thin line, the strength as a thick one."""
    from matplotlib.lines import Line2D

    handles: list[Any] = []
    for i, (label, one) in enumerate(found.items()):
        x, how = np.arange(one.strength.size), look(i)
        every = max(1, x.size // 12)
        ax.plot(x, one.influenced, color=how.colour, linestyle=how.line, linewidth=0.8)
        handles += ax.plot(
            x,
            one.strength,
            color=how.colour,
            linestyle=how.line,
            linewidth=2.0,
            marker=how.marker,
            markevery=every,
            label=label,
        )
    thin = Line2D([], [], color="#555555", linewidth=0.8, label="thin: probability of known ground")
    thick = Line2D([], [], color="#555555", linewidth=2.0, label="thick: strength")
    return handles, [thick, thin]
