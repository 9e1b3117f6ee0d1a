"""The drawings of a report: the figures of the library, at the size of a phone and in the colours of the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tether._foundation.words import cut_apart
from tether.conditioning.layers import reached_states
from tether.evaluation.certificate import Certificate
from tether.evaluation.evaluate import Evaluation
from tether.evaluation.guarantees import GuaranteesByK
from tether.explanation.decisions import Decisions
from tether.explanation.outcomes import Outcomes
from tether.figures.output import Mark
from tether.figures.style import figure_of, single_line, styled, text_width
from tether.plan.plan import Plan
from tether.plan.sweep import Sweep
from tether.views import figures
from tether.views.pages import drawing
from tether.views.report.features import Band, Strip

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "Drawing",
    "chart",
    "draw_band",
    "draw_certificate",
    "draw_classes",
    "draw_decisions",
    "draw_guarantees",
    "draw_influence",
    "draw_outcomes",
    "draw_strip",
    "draw_values",
]

_WIDE, _HIGH = 338.0, 190.0
"""Width and height of a drawing in points. A phone is as wide, a page twice as wide: letters have 8 pixels or more."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 48.0, 6.0, 6.0, 32.0
"""Points beside, above and below the axes; the same for all, so that times are aligned."""

_ROW = 16.0
"""Height of a row of a strip."""

_SHOWS = {
    "certificate": "Range of the return under every causal model and under every stable one",
    "guarantees": "Range of the return under every causal model against k",
    "influence": "Strength and influenced steps over time",
    "limits": "Value against k",
    "states": "States over time by class",
}
"""What the drawings without a caption show."""

_ACTION = 27
"""How many letters of an action's name fit beside the decisions."""

_NAME = 22
"""How many letters of a name fit beside a strip."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A drawing as markup, and its caption."""

    caption: str
    svg: Any


def draw_band(band: Band, name: str, what: str, legend: bool, who: str = "plan") -> Drawing:
    """A mean and its band, beside what was observed; ``what`` says what the band is, ``who`` whose mean it is."""
    height = _HIGH + 30.0 if legend else _HIGH
    ax = chart(height, bottom=_BOTTOM + (30.0 if legend else 0.0))
    rows = band.mean, band.low, band.high, band.observed
    figures.plot_band(*rows, ax, band=what, whole=band.whole, legend=legend, who=who)
    return _drawn(ax, name, band.name)


def draw_strip(strip: Strip, name: str) -> Drawing:
    """One row per value, shaded by its probability; the observed values marked."""
    rows = cut_apart([single_line(row) for row in strip.rows], _NAME)
    left = max(_LEFT, 8.0 + max(map(text_width, rows)))
    ax = chart(_TOP + _ROW * len(rows) + _BOTTOM, left)
    figures.plot_strip(rows, strip.chance, strip.observed, ax)
    return _drawn(ax, name, strip.name)


def draw_outcomes(outcomes: Outcomes) -> Drawing:
    """The probability of each outcome over time, stacked; what happened above."""
    legend = 30.0 if sum(map(text_width, outcomes.classes)) < _WIDE / 2 else 50.0
    ax = chart(_HIGH + legend, left=_LEFT + 8.0, bottom=_BOTTOM + legend)
    figures.plot_outcomes(outcomes, ax=ax)
    return _drawn(ax, "outcomes", "Outcomes")


def draw_decisions(decisions: Decisions, action_name: Callable[[Any], str]) -> Drawing:
    """Time × action, shaded by what each would have gained alone; what was done marked."""
    actions = len({row.action for row in decisions.rows})
    names = cut_apart([single_line(action_name(row.action)) for row in decisions.rows], _ACTION)
    left = max(_LEFT, 8.0 + max(map(text_width, names)))
    ax = chart(_TOP + max(_ROW * actions, 80.0) + _BOTTOM + 30.0, left, right=30.0, bottom=_BOTTOM + 30.0)
    figures.plot_decisions(decisions, ax=ax, action_name=action_name, letters=_ACTION)
    return _drawn(ax, "decisions", "Gain, had only this action been different")


def draw_influence(outlook: Evaluation, who: str = "plan") -> Drawing:
    """Strength and probability of influence at each step of a plan, and where it may change the action."""
    ax = chart(_HIGH + 60.0, bottom=_BOTTOM + 60.0)
    figures.plot_tailoring({who: outlook}, ax, who=who)
    return _drawn(ax, "influence", "")


def draw_values(table: Sweep, plan: Plan, suggested: int | None) -> Drawing:
    """The best value with m changes against k; without a tether and as observed for comparison."""
    ax = chart(_HIGH + 70.0, left=_LEFT + 8.0, bottom=_BOTTOM + 52.0, right=52.0)
    return _drawn(figures.plot_lost(table, plan.m, ax, suggested=suggested, chosen=plan.k), "limits", "")


def draw_certificate(certificate: Certificate) -> Drawing:
    """Observed, worst, Gumbel-max and best, for each assumption."""
    ax = chart(160.0, left=78.0, bottom=_BOTTOM + 46.0)
    figures.plot_certificate(certificate, ax)
    return _drawn(ax, "certificate", "")


def draw_guarantees(by_k: GuaranteesByK, chosen: int) -> Drawing:
    """Observed, worst, Gumbel-max and best value of the best plan of each k."""
    ax = chart(_HIGH + 60.0, left=_LEFT + 8.0, bottom=_BOTTOM + 46.0)
    figures.plot_guarantees(by_k, ax, chosen)
    return _drawn(ax, "guarantees", "")


def draw_classes(
    plan: Plan,
    state_name: Callable[[Any], str],
    action_name: Callable[[Any], str],
    link: Callable[[int, int], str] | None = None,
) -> tuple[Drawing, bool]:
    """The states over time by class; and whether it is the graph itself.

    With ``link``, each part shows what it is when the pointer rests on it, and nodes are links to ``link(t, state)``.
    """
    options: dict[str, Any] = {"rule": plan.rule, "influence": plan.influence, "objective": plan.objective}
    graph = figures.is_graph(plan.cf, plan.k, **options)
    ax = None if graph else chart(_HIGH + 60.0, bottom=_BOTTOM + 46.0)
    ax = figures.plot_classes(plan.cf, plan.k, ax, plan=plan, label=state_name, action_label=action_name, **options)
    if link is None:
        return _drawn(ax, "states", ""), graph
    return _drawn(ax, "states", "", _marks(ax, plan, link)), graph


def _marks(ax: Axes, plan: Plan, link: Callable[[int, int], str]) -> dict[str, Mark]:
    """What nodes and bars are, as the figure labels them."""
    found, layers = {}, reached_states(plan.asked.graph)
    for patch in ax.patches:
        kind, _, place = (patch.get_gid() or "").partition("-")
        if kind in ("node", "bar"):
            t, i = map(int, place.split("-"))
            to = link(t, int(layers[t][i])) if kind == "node" and t < plan.T else None
            found[str(patch.get_gid())] = Mark(str(patch.get_label()), to)
    return found


def chart(height: float, left: float = _LEFT, right: float = _RIGHT, bottom: float = _BOTTOM) -> Axes:
    """Axes in a new figure, placed by hand: charts are alike, and this is much faster than automatic layout."""
    from matplotlib.figure import Figure

    inside = (left / _WIDE, bottom / height, (_WIDE - left - right) / _WIDE, (height - bottom - _TOP) / height)
    with styled():
        return Figure(figsize=(_WIDE / 72, height / 72)).add_axes(inside)


def _drawn(ax: Axes, name: str, caption: str, marks: dict[str, Mark] | None = None) -> Drawing:
    shows = f"{caption} over time" if caption else _SHOWS[name]
    drawn = drawing(figures.inline_svg(figure_of(ax), name, shows, marks))
    figures.forget(figure_of(ax))  # a graph has a figure of its own, which a notebook would show below the cell
    return Drawing(caption, drawn)
