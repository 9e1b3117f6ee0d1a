"""Small pieces of escaped HTML: how records are shown in a notebook, and the k × m table of the report.

Only strings, no templates, so that a notebook can show a record without loading anything else. No other file of the
library makes a table, except the templates of pages (`tether.views.pages`).
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.rounding import rounding_of
from tether._foundation.words import cut, number

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that are forbidden in a page."""

_MINUS = re.compile(r"(?<![\w)])-(?=[\d.∞])")

_TOGETHER = re.compile(r"\b[kmt] = \d+|\d %|± \d")

_WIDEST = 400
"""Letters of a record that has neither sentences nor short fields."""

_ROWS = 30
"""How many rows a table in a notebook has before its middle is left out."""

_HIGH, _WIDE = 24, 16
"""Rows and columns of a shaded table before some of them are left out."""

_FEW = (0, 1, 2, 3)
"""The m that every table shows: the gain of one change is the first thing that a reader asks for."""

_SHADES = np.array([(240, 246, 251), (127, 184, 217)], dtype=float)
"""From hardly any gain to the largest: dark text can be read on both."""


def escaped(value: Any) -> str:
    """Any text, safe inside a page: escaped, without forbidden characters.

    >>> escaped("<b>")
    '&lt;b&gt;'
    """
    return html.escape(clean(value))


def clean(value: Any) -> str:
    r"""Any value as a text without forbidden characters.

    >>> clean("a\x00b") == "a\N{REPLACEMENT CHARACTER}b"
    True
    """
    text = str(value).encode("utf-8", "replace").decode("utf-8")
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def shortened(value: Any, most: int = 160) -> str:
    """A value as escaped text of at most ``most`` characters; longer text is cut.

    >>> shortened("abcdef", most=4)
    'abc…'
    """
    return escaped(cut(str(value), most))


def with_minus_signs(text: str) -> str:
    """A text whose numbers have true minus signs.

    >>> with_minus_signs("gumbel-max: -3")
    'gumbel-max: −3'
    """
    return _MINUS.sub("\N{MINUS SIGN}", text)


def together(text: str) -> str:
    """A sentence with true minus signs, and without line breaks inside ``k = 3``, ``90 %`` or ``± 1.2``.

    >>> together("k = 3") == "k\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}3"
    True
    >>> together("-4 (± 1.2)") == "\N{MINUS SIGN}4 (±\N{NO-BREAK SPACE}1.2)"
    True
    """
    return _TOGETHER.sub(lambda found: found[0].replace(" ", "\N{NO-BREAK SPACE}"), with_minus_signs(text))


def typeset(text: str) -> str:
    """Text for HTML: escaped, with typographic minus signs, and with spaces that do not break inside a quantity.

    >>> typeset("k < 3")
    'k &lt; 3'
    """
    return escaped(together(text))


_LIGHT = (
    "--ink:#1a1a1a;--paper:#ffffff;--soft:#595e63;--line:#d9dce0;--mid:#8a9097;--faint:#f0f1f3;--blue:#0069a6;"
    "--orange:#b34a00;--warm:#fff3e6;--bad:#64506e;--good:#1b7f72;--pale:#e4e6e9;color:#1a1a1a;background:#ffffff"
)
"""The colours of `views/templates/style.css`."""


def paragraphs(sentences: Iterable[str]) -> str:
    """A paragraph for each sentence.

    >>> paragraphs(["k < 3"])
    '<p>k &lt; 3</p>'
    """
    return "".join(f"<p>{typeset(sentence)}</p>" for sentence in sentences)


def shown_here(caption: str, svg: str) -> str:
    """A picture with its finding above it, for a notebook: in the light theme of the pages.

    >>> shown_here("k < 3", "<svg></svg>")[-32:]
    '<b>k &lt; 3</b><svg></svg></div>'
    """
    return f'<div style="{_LIGHT}"><b>{typeset(caption)}</b>{svg}</div>'


def facts(rows: Iterable[tuple[str, Any]]) -> str:
    """A table of names and values."""
    body = "".join(f"<tr><th>{escaped(name)}</th><td>{shortened(what, 600)}</td></tr>" for name, what in rows)
    return f"<table>{body}</table>"


def html_table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table with a head; if it is long, only its beginning and its end."""
    names = "".join(f"<th>{escaped(name)}</th>" for name in head)
    body = [f"<tr>{''.join(f'<td>{shortened(cell)}</td>' for cell in row)}</tr>" for row in rows]
    if len(body) > _ROWS:
        gap = f"<tr><td colspan='{len(head)}'>… {len(body) - _ROWS + 1:,} more …</td></tr>"
        body = [*body[: _ROWS - 6], gap, *body[-5:]]
    return f"<table><tr>{names}</tr>{''.join(body)}</table>"


@dataclass(frozen=True, slots=True)
class HeatCell:
    """A value of the k × m table, what share of the largest gain it has, and where a click on it leads."""

    text: str
    share: float
    outlined: bool
    href: str | None = None


@dataclass(frozen=True, slots=True)
class HeatTable:
    """The k × m table: a name for each column; a name and the cells of each row."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[HeatCell, ...]], ...]

    def html(self) -> str:
        """The table as a piece of a page."""
        head = "".join(f"<th scope='col'>{escaped(name)}</th>" for name in self.columns)
        body = "".join(
            f"<tr><th scope='row'>{escaped(name)}</th>{''.join(map(_cell, cells))}</tr>" for name, cells in self.rows
        )
        return (
            f"<table class='heat'><thead><tr><th scope='col'>k, m</th>{head}</tr></thead><tbody>{body}</tbody></table>"
        )


def heat(
    ks: Ints,
    ms: Ints,
    values: Floats,
    observed: float,
    mark: tuple[int, int] | None = None,
    merge: bool = False,
    wide: int = _WIDE,
    suggested: int | None = None,
    link: Callable[[int, int], str] | None = None,
    minimise: bool = False,
) -> HeatTable:
    """The k × m table, shaded by the gain; cells without a gain stay plain.

    ``mark`` is a (k, m) to outline; with ``merge``, equal neighbours are one row, or one column. If there are too many
    rows or columns, some are left out, but never the ends, the marked ones, the ``suggested`` k or m = 0 … 3. ``link``
    gives the address that a click on (k, m) opens. With ``minimise``, less is a gain.
    """
    down, across = _spans(ks, values, merge), _spans(ms, values.T, merge)
    row_of = None if mark is None else _span_of(ks, down, mark[0])
    column_of = None if mark is None else _span_of(ms, across, mark[1])
    down = _thinned(down, _HIGH, [row_of, None if suggested is None else _span_of(ks, down, suggested)])
    across = _thinned(across, wide, [column_of, *(_span_of(ms, across, m) for m in _FEW)])
    gained = np.where(np.isfinite(values), observed - values if minimise else values - observed, 0.0)
    most = float(gained.max(initial=0.0))
    decimals = _decimals(most)
    body = []
    for row in down:
        cells = []
        for column in across:
            i, j = row[0], column[0]
            share = gained[i, j] / most if gained[i, j] > rounding_of(observed) else 0.0
            outlined = (row, column) == (row_of, column_of)
            href = None if link is None else link(int(ks[i]), int(ms[j]))
            cells.append(HeatCell(_value(float(values[i, j]), decimals), share, outlined, href))
        body.append((_span_text("k", ks, row), tuple(cells)))
    return HeatTable(tuple(_span_text("m", ms, span) for span in across), tuple(body))


_Span = tuple[int, int]


def _spans(names: Ints, rows: Floats, merge: bool) -> list[_Span]:
    """First and last of each run of neighbours that are equal, up to rounding."""
    if not merge:
        return [(i, i) for i in range(names.size)]
    spans: list[_Span] = []
    for i in range(names.size):
        if spans and names[i] == names[i - 1] + 1 and _same(rows[spans[-1][0]], rows[i]):
            spans[-1] = (spans[-1][0], i)
        else:
            spans.append((i, i))
    return spans


def _same(a: Floats, b: Floats) -> bool:
    return bool(np.allclose(a, b, rtol=1e-9, atol=1e-9))


def _span_of(names: Ints, spans: list[_Span], name: int) -> _Span | None:
    return next((span for span in spans if name in names[span[0] : span[1] + 1]), None)


def _thinned(spans: list[_Span], most: int, kept: Sequence[_Span | None]) -> list[_Span]:
    """Some of too many: the first, the last, those to be kept, and others at a distance from these."""
    if len(spans) <= most:
        return spans
    chosen = {0, len(spans) - 1, *(i for i, span in enumerate(spans) if span in kept)}
    while len(chosen) < most:
        here = sorted(chosen)
        gap, low = max(((b - a, -a) for a, b in pairwise(here)))
        chosen.add(-low + gap // 2)
    return [span for i, span in enumerate(spans) if i in chosen]


def _span_text(name: str, names: Ints, span: _Span) -> str:
    first, last = names[span[0]], names[span[1]]
    text = f"{name} = {first}" + ("" if first == last else f" … {last}")
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def _decimals(most: float) -> int:
    """Decimals that show about four digits of the largest gain."""
    return 2 if most <= 0 else int(np.clip(3 - np.floor(np.log10(most)), 0, 6))


def _value(value: float, decimals: int) -> str:
    return with_minus_signs(f"{round(value, decimals) + 0.0:,.{decimals}f}") if np.isfinite(value) else "–"


def _cell(cell: HeatCell) -> str:
    style = "" if cell.share == 0.0 else shade(cell.share)
    style += "outline:2px solid #b34a00;outline-offset:-2px;font-weight:700;" if cell.outlined else ""
    text = cell.text
    if cell.href is not None:
        here = " aria-current='true'" if cell.outlined else ""
        text = f"<a href='{escaped(cell.href)}'{here}>{text}</a>"
    return f"<td style='{style}text-align:right'>{text}</td>"


def shade(share: float) -> str:
    """The colours of a cell by its share of the largest gain, 0 to 1; pages have their own for ``--heat``."""
    red, green, blue = (_SHADES[0] + share * (_SHADES[1] - _SHADES[0])).round().astype(int).tolist()
    return f"--heat:{share:.3f};background:#{red:02x}{green:02x}{blue:02x};color:#1a1a1a;"


class Displayed:
    """Shows itself in a notebook: its sentences, if it has a text of its own; otherwise its fields that are short.

    >>> @dataclass(frozen=True)
    ... class Found(Displayed):
    ...     gain: float
    ...     action: str
    >>> "<b>" in Found(1.5, "<b>")._repr_html_(), "1.5" in Found(1.5, "<b>")._repr_html_()
    (False, True)
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        if type(self).__str__ is not object.__str__:
            return paragraphs(str(self).splitlines())
        names: list[str] = [one.name for one in fields(self)] if is_dataclass(self) else []
        short = [
            (name, number(value) if isinstance(value, float) else value)
            for name in names
            if isinstance(value := getattr(self, name), str | int | float | bool)
        ]
        return facts(short) if short else paragraphs([cut(repr(self), _WIDEST)])
