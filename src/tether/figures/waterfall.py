"""Mistake or luck: a waterfall from what was to be expected to what happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tether._foundation.markup import with_minus_signs
from tether._foundation.words import cut, shown, three_digits
from tether.figures.drawable import DrawnReview
from tether.figures.style import (
    BAD,
    BLACK,
    GREY,
    SMALL,
    axes,
    number_axis,
    single_line,
    styled,
    text_width,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BARS = 12
"""How many mistakes and lucks have a bar of their own; the smaller ones share two."""

_LUCK, _EXPECTED = "#b0b0b0", "#e8e8e8"

_ROW = 0.3
"""The height of a bar and the space around it, in inches."""

_NAME = 34
"""Letters of a bar's name."""


class _Bar(NamedTuple):
    """A bar: its name, its ends, its colour and the number at it."""

    name: str
    begin: float
    end: float
    colour: str
    text: str


def plot_review(review: DrawnReview, ax: Axes | None = None, *, title: bool = True, letters: int = _NAME) -> Axes:
    """A bar for each mistake and for the luck of each step, from what was to be expected to what happened.

    Time goes down. Mistakes are dark purple, luck is grey, what happened is black. `review_in_text` has it in
    words.

    Examples
    --------
    >>> import tether
    >>> from tether.views.figures import plot_review
    >>> patient = tether.cases.sepsis()
    >>> ax = plot_review(tether.review(patient.mdp, patient.path))
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['expected', 'step 0: luck', 'step 1: luck', 'step 2: luck', 'what happened']
    """
    bars = _bars(review, letters)
    scale = 100.0 if review.objective is not None else 1.0
    with styled():
        ax = axes(ax, (5.5, 1.1 + _ROW * len(bars)), "x")
        for i, bar in enumerate(bars):
            low, high = sorted((scale * bar.begin, scale * bar.end))
            ax.barh(i, high - low, 0.62, left=low, color=bar.colour, edgecolor="#555555", linewidth=0.5)
            if i + 1 < len(bars):  # leads on to the next bar
                ax.plot([scale * bar.end] * 2, [i, i + 1], color=GREY, linewidth=0.6, zorder=0)
        ax.set_yticks(range(len(bars)), [cut(single_line(bar.name), letters) for bar in bars])
        for label in ax.get_yticklabels():
            label.set_parse_math(False)
        ax.tick_params(axis="y", length=0)
        ax.set_ylim(len(bars) - 0.4, -0.6)
        _write_numbers(ax, bars, scale)
        number_axis(ax.xaxis, most=4)
        ax.set_xlabel(_axis_name(review))
        if title:
            ax.set_title(with_minus_signs(review.headline()), loc="left", fontweight="bold", wrap=True)
    return ax


def bars_of_review(review: DrawnReview) -> int:
    """How many bars the waterfall has.

    >>> import tether
    >>> patient = tether.cases.sepsis()
    >>> bars_of_review(tether.review(patient.mdp, patient.path))
    5
    """
    return len(_parts(review, _NAME)) + 2


def review_in_text(review: DrawnReview) -> str:
    """What the waterfall shows, in words with its values: for those who cannot see it.

    Examples
    --------
    >>> import tether
    >>> from tether.views.figures import review_in_text
    >>> patient = tether.cases.sepsis()
    >>> review_in_text(tether.review(patient.mdp, patient.path))
    'No mistake; bad luck, most of it at step 2. Expected −2,370; step 0: luck −534; step 1: luck +440; step 2: luck −4,390; what happened −6,850.'
    """  # noqa: E501
    values = "; ".join(f"{single_line(bar.name)} {bar.text}" for bar in _bars(review, _NAME))
    return f"{with_minus_signs(review.headline())}. {values[0].upper()}{values[1:]}."


def _axis_name(review: DrawnReview) -> str:
    if review.objective is None:
        return "expected return"
    return f"chance that {cut(review.objective.in_words, 50)}, %"


def _bars(review: DrawnReview, letters: int) -> list[_Bar]:
    scale = 100.0 if review.objective is not None else 1.0
    sign = -1.0 if review.minimise else 1.0

    def text(value: float, signed: bool = True) -> str:
        plus = "+" if signed and value > 0 else ""
        return with_minus_signs(f"{plus}{three_digits(scale * value)}")

    parts = _parts(review, letters)
    level = review.expected
    bars = [_Bar("expected", 0.0, level, _EXPECTED, text(level, False))]
    for name, amount, colour in parts:
        bars.append(_Bar(name, level, level + sign * amount, colour, text(sign * amount)))
        level += sign * amount
    return [*bars, _Bar("what happened", 0.0, review.observed, BLACK, text(review.observed, False))]


def _parts(review: DrawnReview, letters: int) -> list[tuple[str, float, str]]:
    """Each mistake and luck with its name, what it adds (in the good direction) and its colour; small ones together."""
    found: list[tuple[str, float, str]] = []
    for step in review.steps:
        if step.mistake != 0:
            instead = f" instead of {shown(step.best)}" if step.best != step.action else ""
            name = cut(f"step {step.t}: {shown(step.action)}{instead}", _NAME)
            if letters < _NAME:  # no room for actions: the sentences beside it name them
                name = f"step {step.t}: {'mistake' if step.mistake > 0 else 'decision'}"
            found.append((name, -step.weight * step.mistake, BAD if step.mistake > 0 else _EXPECTED))
        if step.luck != 0:
            found.append((f"step {step.t}: luck", step.weight * step.luck, _LUCK))
    if len(found) <= _BARS:
        return found
    kept = set(sorted(range(len(found)), key=lambda i: -abs(found[i][1]))[: _BARS - 2])
    shared = []
    for colour, name in ((BAD, "{} other decisions"), (_LUCK, "luck, {} others")):
        others = [one[1] for i, one in enumerate(found) if i not in kept and (one[2] == _LUCK) == (colour == _LUCK)]
        if others:
            shared.append((name.format(len(others)), sum(others), colour))
    return [*(one for i, one in enumerate(found) if i in kept), *shared]


def _write_numbers(ax: Axes, bars: list[_Bar], scale: float) -> None:
    """The number of each bar at its right, with room for it."""
    ends = [scale * end for bar in bars for end in (bar.begin, bar.end)]
    width = (max(ends) - min(ends)) or 1.0
    widest = max(text_width(bar.text) for bar in bars)
    ax.set_xlim(min(ends) - 0.03 * width, max(ends) + width * (0.03 + widest / 200))
    for i, bar in enumerate(bars):
        at: dict[str, Any] = {"xytext": (3, 0), "textcoords": "offset points", "va": "center", "fontsize": SMALL}
        ax.annotate(bar.text, (max(scale * bar.begin, scale * bar.end), i), **at)
