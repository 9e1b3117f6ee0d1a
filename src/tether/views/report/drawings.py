"""The drawings of a report: the figures of the library, at the size of a phone and in the colours of the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tether._foundation.arrays import Floats
from tether._foundation.markup import with_minus_signs
from tether._foundation.words import cut, cut_apart
from tether.conditioning.layers import reached_states
from tether.conditioning.model_sets import IN_SHORT
from tether.evaluation.certificate import Certificate
from tether.evaluation.evaluate import Evaluation
from tether.evaluation.guarantees import GuaranteesByK
from tether.explanation.mistakes import Review
from tether.explanation.replay import Replay
from tether.explanation.verdicts import Nouns
from tether.figures.output import Mark
from tether.figures.style import figure_of, single_line, styled, text_width
from tether.figures.types_figure import types_in_words
from tether.plan.plan_record import PlanRecord
from tether.views import figures
from tether.views.pages import drawing
from tether.views.report.report_features import Band, Strip

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDE, _HIGH = 238.0, 150.0
"""Width and height of a drawing in points: it fits a phone at its own size, so that letters have 12 pixels or more."""

_DESK = 640.0
"""Width of the picture of the replay on a desk."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 48.0, 6.0, 6.0, 32.0
"""Points beside, above and below the axes; the same for all, so that times are aligned."""

_ROW = 16.0
"""Height of a row of a strip."""

_SHOWS = {
    "certificate": f"Range of the return under {IN_SHORT}, every stable one, and luck related over time",
    "guarantees": f"Range of the return under {IN_SHORT}, against k",
    "influence": "Strength and known ground over time",
    "states": "States over time by class",
}
"""What the drawings without a caption show."""

_NAME = 16
"""How many letters of a name fit beside a strip."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A drawing as markup, and its caption."""

    caption: str
    svg: Any
    narrow: Any = ""


def draw_course(one: Band | Strip, name: str, nouns: Nouns, who: str = "plan") -> Drawing:
    """A feature over time, observed and planned: a mean and its band, or a row per value shaded by its probability.

    ``who`` says whose mean it is.
    """
    if isinstance(one, Band):
        ax = chart(_HIGH)
        band = (one.mean, one.low, one.high, one.observed)
        figures.plot_band(*band, ax, band="the middle 80 %", whole=one.whole, legend=False, who=who)
    else:
        rows = cut_apart([single_line(row) for row in one.rows], _NAME)
        left = max(_LEFT, 8.0 + max(map(text_width, rows)))
        ax = chart(_TOP + _ROW * len(rows) + _BOTTOM, left)
        figures.plot_strip(rows, one.chance, one.observed, ax)
    return _drawn(ax, name, one.name, nouns)


def draw_replay(replay: Replay, name: str = "replay", nouns: Nouns | None = None, desk: float = _DESK) -> Drawing:
    """The picture of the replay, once for a desk and once for a phone."""
    drawn, say = [], nouns or Nouns()
    names = [one.label for one in replay.endings] if replay.endings else ["what happened"]
    right = 8.0 + max(text_width(cut(one, 24)) for one in names)
    for width, high, ident in ((desk, 190.0, name), (_WIDE, 190.0, f"{name}-narrow")):
        ax = chart(high, left=44.0, right=min(right, 0.4 * width), width=width)
        figures.plot_replay(replay, ax, title=False, nouns=nouns)
        drawn.append(drawing(figures.inline_svg(figure_of(ax), ident, say(replay.text))))
    return Drawing(say(replay.title), *drawn)


def draw_review(review: Review, nouns: Nouns) -> Drawing:
    """From what was to be expected to what happened: a waterfall."""
    ax = chart(40.0 + 18.0 * figures.bars_of_review(review), left=112.0, right=30.0)
    figures.plot_review(review, ax, title=False, letters=18)
    ax.set_yticks(ax.get_yticks(), [nouns(label.get_text()) for label in ax.get_yticklabels()])
    return _drawn(ax, "luck", with_minus_signs(review.headline()), nouns, shows=figures.review_in_text(review))


def draw_types(shares: Mapping[str, Floats], name: str = "types", nouns: Nouns | None = None) -> Drawing:
    """How likely each type was over time, once for a desk and once for a phone."""
    caption, drawn = types_in_words(shares), []
    for size, ident in (((7.0, 3.0), name), ((3.4, 2.6), f"{name}-narrow")):
        ax = figures.plot_types(shares, size=size, title=False)
        drawn.append(_drawn(ax, ident, "", nouns or Nouns(), shows=caption).svg)
    return Drawing(caption, *drawn)


def draw_influence(outlook: Evaluation, nouns: Nouns, who: str = "plan") -> Drawing:
    """Strength and probability of influence at each step of a plan, and where it may change the action."""
    ax = chart(_HIGH + 60.0, bottom=_BOTTOM + 60.0)
    figures.plot_tailoring({who: outlook}, ax, who=who)
    return _drawn(ax, "influence", "", nouns)


def draw_certificate(certificate: Certificate, nouns: Nouns) -> Drawing:
    """Observed, worst, Gumbel-max and best, for each assumption."""
    ax = chart(164.0, left=104.0, bottom=_BOTTOM + 50.0)
    figures.plot_certificate(certificate, ax)
    return _drawn(ax, "certificate", "", nouns)


def draw_guarantees(by_k: GuaranteesByK, chosen: int, nouns: Nouns) -> Drawing:
    """Observed, worst, Gumbel-max and best value of the best plan of each k."""
    ax = chart(_HIGH + 68.0, left=_LEFT + 8.0, bottom=_BOTTOM + 66.0)
    figures.plot_guarantees(by_k, ax, chosen)
    return _drawn(ax, "guarantees", "", nouns)


def draw_classes(
    plan: PlanRecord,
    state_name: Callable[[Any], str],
    action_name: Callable[[Any], str],
    nouns: Nouns,
    link: Callable[[int, int], str] | None = None,
) -> tuple[Drawing, bool]:
    """The states over time by class; and whether it is the graph itself.

    With ``link``, each part shows what it is when the pointer rests on it, and nodes are links to ``link(t, state)``.
    """
    options: dict[str, Any] = {"rule": plan.rule, "influence": plan.influence, "objective": plan.objective}
    graph = figures.is_graph(plan.cf, plan.k, **options)
    ax = None if graph else chart(_HIGH + 76.0, bottom=_BOTTOM + 62.0)
    ax = figures.plot_classes(plan.cf, plan.k, ax, plan=plan, label=state_name, action_label=action_name, **options)
    if link is None:
        return _drawn(ax, "states", "", nouns), graph
    return _drawn(ax, "states", "", nouns, _marks(ax, plan, link)), graph


def _marks(ax: Axes, plan: PlanRecord, link: Callable[[int, int], str]) -> dict[str, Mark]:
    """What nodes and bars are, as the figure labels them."""
    found, layers = {}, reached_states(plan.asked.graph)
    for patch in ax.patches:
        kind, _, place = (patch.get_gid() or "").partition("-")
        if kind in ("node", "bar"):
            t, i = map(int, place.split("-"))
            to = link(t, int(layers[t][i])) if kind == "node" and t < plan.T else None
            found[str(patch.get_gid())] = Mark(str(patch.get_label()), to)
    return found


def chart(
    height: float, left: float = _LEFT, right: float = _RIGHT, bottom: float = _BOTTOM, width: float = _WIDE
) -> Axes:
    """Axes in a new figure, placed by hand: charts are alike, and this is much faster than automatic layout."""
    from matplotlib.figure import Figure

    inside = (left / width, bottom / height, (width - left - right) / width, (height - bottom - _TOP) / height)
    with styled():
        return Figure(figsize=(width / 72, height / 72)).add_axes(inside)


def _drawn(
    ax: Axes, name: str, caption: str, nouns: Nouns, marks: dict[str, Mark] | None = None, shows: str = ""
) -> Drawing:
    shows = shows or (f"{caption} over time" if caption else _SHOWS[name])
    legend = ax.get_legend()
    for text in (ax.xaxis.label, *(legend.get_texts() if legend else ())):
        text.set_text(nouns(text.get_text()))
    drawn = drawing(figures.inline_svg(figure_of(ax), name, nouns(shows), marks))
    figures.forget(figure_of(ax))  # a graph has a figure of its own, which a notebook would show below the cell
    return Drawing(caption, drawn)
