"""Quantities over time: what happened beside what would have, and how much of it the observation still informs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._types import Floats
from tether.errors import QueryError
from tether.evaluation.evaluate import Course, Evaluation, Tailoring
from tether.views.figures.series import Series, fit_limits, note, ring
from tether.views.figures.style import BLACK, OBSERVED, TIME, Look, axes, explain_with, look, steps_axis, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

__all__ = ["plot_course", "plot_tailoring"]

_TWO = ("filled, bar: exact", "hollow, dashes: published")

_BARS = 15
"""Up to so many steps spreads are bars; beyond, bands."""


def plot_course(
    courses: Mapping[str, Course],
    ax: Axes | None = None,
    ylabel: str = "mean and standard deviation",
    observed: Any = None,
    published: Mapping[str, tuple[Any, Any]] | None = None,
) -> Axes:
    """A quantity over time under one or more plans: its mean, and its spread as a bar or a band.

    Parameters
    ----------
    courses : mapping of label to Course
    observed : sequence, optional
        What happened, at t = 0 …
    published : mapping of label to (mean, standard deviation), optional
        Drawn as hollow marks around the mean of that label and short dashes at the ends of its spread.

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
        explain_with(ax, [*handles, *(note(*_TWO) if published else [])])
    return ax


def _check(published: Mapping[str, tuple[Any, Any]], courses: Mapping[str, Course]) -> None:
    for label, (mean, std) in published.items():
        if label not in courses:
            raise QueryError(f"published has {label!r}, which is not among the courses")
        times = courses[label].mean.size
        if not len(mean) == len(std) == times:
            raise QueryError(f"published {label!r} has {len(mean)} means and {len(std)} spreads for {times} times")


def _offsets(count: int) -> Floats:
    """Places around the true time, for the first of them on it: 0, -1, 1, -2, 2 …, close together."""
    places = np.array([(i + 1) // 2 * (1 if i % 2 == 0 else -1) for i in range(count)], dtype=float)
    offsets: Floats = places * min(0.16, 0.8 / count)
    return offsets


def _limits(ax: Axes, courses: Mapping[str, Course], observed: Any, published: Mapping[str, tuple[Any, Any]]) -> None:
    every = [(course.mean, course.std) for course in courses.values()]
    every += [(np.asarray(mean, float), np.asarray(std, float)) for mean, std in published.values()]
    if observed is not None:
        every.append((np.asarray(observed, float), np.zeros(len(observed))))
    ends = [Series("", np.arange(mean.size, dtype=float), mean + sign * std) for mean, std in every for sign in (-1, 1)]
    fit_limits(ax, ends)


def _course(ax: Axes, x: Floats, course: Course, how: Look, label: str, bars: bool) -> Line2D:
    every = max(1, x.size // 20)
    (line,) = ax.plot(
        x, course.mean, color=how.colour, linestyle=how.line, marker=how.marker, markevery=every, label=label
    )
    low, high = course.mean - course.std, course.mean + course.std
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


def plot_tailoring(evaluations: Mapping[str, Evaluation], ax: Axes | None = None) -> Axes:
    """How much of each step is still about the observed episode, under one or more plans.

    At each step the outlined bar is the probability that the observation influences it, the filled bar the
    expected strength of that influence.

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
    held = {label: _tailoring(label, outlook) for label, outlook in evaluations.items()}
    T = max(one.strength.size for one in held.values())
    with styled():
        ax = axes(ax)
        ax.set_ylim(0.0, 1.05)
        ax.set_xlim(-0.6, T - 0.4)
        if T * len(held) <= 60:
            handles = _bars(ax, held)
            shapes: list[Any] = [
                Patch(facecolor="white", edgecolor="#555555", label="outlined: probability of influence"),
                Patch(facecolor="#555555", edgecolor="#555555", label="filled: expected strength"),
            ]
        else:
            handles, shapes = _curves(ax, held)
        steps_axis(ax, 0, T - 1)
        ax.set_xlabel(TIME)
        ax.set_ylabel("influence of the observation (0 to 1)")
        explain_with(ax, [*handles, *shapes])
    return ax


def _tailoring(label: str, outlook: Evaluation) -> Tailoring:
    if outlook.tailoring is None:
        raise QueryError(f"{label!r} was evaluated without an observation, so nothing can be tailored to one")
    return outlook.tailoring


_HATCHES = ("", "/////", "xxxxx", "-----", "\\\\\\\\\\")


def _bars(ax: Axes, held: Mapping[str, Tailoring]) -> list[Any]:
    from matplotlib.patches import Patch

    width = 0.8 / len(held)
    handles = []
    for i, (label, one) in enumerate(held.items()):
        colour, hatch = look(i).colour, _HATCHES[i % len(_HATCHES)]
        x = np.arange(one.strength.size) + (i - (len(held) - 1) / 2) * width
        ax.bar(x, one.influenced, 0.86 * width, facecolor="white", edgecolor=colour)
        ax.bar(x, one.strength, 0.5 * width, facecolor=colour, edgecolor="white", hatch=hatch, linewidth=0)
        handles.append(Patch(facecolor=colour, edgecolor="white", hatch=hatch, linewidth=0, label=label))
    return handles


def _curves(ax: Axes, held: Mapping[str, Tailoring]) -> tuple[list[Any], list[Any]]:
    """Over many steps: the probability as a thin line, the strength as a thick one."""
    from matplotlib.lines import Line2D

    handles: list[Any] = []
    for i, (label, one) in enumerate(held.items()):
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
    thin = Line2D([], [], color="#555555", linewidth=0.8, label="thin: probability of influence")
    thick = Line2D([], [], color="#555555", linewidth=2.0, label="thick: expected strength")
    return handles, [thin, thick]
