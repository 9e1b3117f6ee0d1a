"""Figures to files and into pages, byte for byte the same each time."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tether._foundation.markup import escaped
from tether._foundation.writing import written
from tether.errors import QueryError
from tether.figures.style import BAD, BLUE, GOOD, VERMILLION, figure_of, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_UNDATED: dict[str, dict[str, None]] = {"svg": {"Date": None}, "png": {"Software": None}}


def save(what: Axes | Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure as SVG or PNG, by the suffix of the name.

    The same figure gives the same bytes, on any day. The file appears when it is complete: it is written
    under another name first.

    Examples
    --------
    >>> import tempfile, tether
    >>> from tether.views.figures import plot_values, save
    >>> case = tether.cases.epidemic()
    >>> ax = plot_values(tether.counterfactual(case.mdp, case.path).sweep())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(ax, f"{folder}/values.svg").name
    'values.svg'
    """
    from matplotlib.axes import Axes

    target = Path(path)
    kind = target.suffix.lower().removeprefix(".")
    if kind not in _UNDATED:
        raise QueryError(f"figures are written as .svg or .png; {target.name!r} ends in neither")
    figure = figure_of(what) if isinstance(what, Axes) else what
    drawn = _drawn(figure, kind)
    with written(target) as partial:
        partial.write_bytes(drawn)
    return target


def _drawn(figure: Figure, kind: str, metadata: dict[str, None] | None = None, **options: Any) -> bytes:
    made = BytesIO()
    with styled(), _undisturbed(figure), warnings.catch_warnings():
        # A name may contain letters that the font used for measuring lacks; the reader's own fonts show the text.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        figure.savefig(made, format=kind, dpi=200, metadata=metadata or _UNDATED[kind], **options)
    return made.getvalue()


@dataclass(frozen=True, slots=True)
class Mark:
    """What a part of a drawing says when the pointer rests on it, and where a click on it leads."""

    text: str
    address: str | None = None


_BARE: dict[str, None] = dict.fromkeys(("Creator", "Date", "Format", "Type"))

_PAGE_COLOURS = {
    "#000000": "var(--ink)",
    "#ffffff": "var(--paper)",
    "#555555": "var(--soft)",
    "#666666": "var(--soft)",
    BAD: "var(--bad)",
    GOOD: "var(--good)",
    "#c4c4c4": "var(--mid)",
    "#dddddd": "var(--line)",
    "#e8e8e8": "var(--faint)",
    BLUE.lower(): "var(--blue)",
    VERMILLION.lower(): "var(--orange)",
}
"""The colours of text, background and greys are those of the page, in light and in dark mode."""

_HEAD = re.compile(r"<svg [^>]*?viewBox=\"0 0 ([\d.]+) ([\d.]+)\"[^>]*>")
_FONT = re.compile(r" ?font-family: [^;\"]*;?")
_SCALE = 1.5
"""Pixels per point: a drawing keeps its own size, so that its smallest text has 12 pixels."""
_UNUSED = re.compile(r' transform="rotate\(-0 [^"]*"|(?<=<g) id="[^"]*"(?=>)')
"""Rotations by 0, and ids of groups that nothing refers to."""
_TAG = re.compile(r"<[^>]*>")
_LONG = re.compile(r"(\d+\.\d{2})\d+")


def inline_svg(what: Axes | Figure, name: str, label: str, marks: Mapping[str, Mark] | None = None) -> str:
    """A figure as SVG inside a page: without a background, in the page's own colours and fonts.

    Parameters
    ----------
    what : Axes or Figure
    name : str
        Letters and digits that are unique on the page. They keep the ids of drawings apart.
    label : str
        What the drawing shows, for those who cannot see it.
    marks : mapping, optional
        By the gid of an artist: what it says when the pointer rests on it, and where a click on it leads.

    Examples
    --------
    >>> import tether
    >>> from tether.views.figures import inline_svg, plot_values
    >>> case = tether.cases.epidemic()
    >>> drawing = inline_svg(plot_values(tether.counterfactual(case.mdp, case.path).sweep()), "values", "Values")
    >>> drawing[:29], "http" in drawing
    ('<svg role="img" aria-label="V', False)
    """
    from matplotlib.axes import Axes

    figure = figure_of(what) if isinstance(what, Axes) else what
    text = _drawn(figure, "svg", _BARE, transparent=True).decode("utf-8")
    head = _HEAD.search(text)
    assert head is not None
    body = re.sub(r"<style[^>]*>.*?</style>|<!--.*?-->", "", text[head.end() :], flags=re.DOTALL)
    body = _numbered(body, marks or {})
    body = re.sub(r">\s+<", "><", _TAG.sub(lambda tag: _adapted(tag[0], name), body))
    body = _marked(body, marks or {})  # last, so that their texts are not changed
    size = f'viewBox="0 0 {head[1]} {head[2]}" width="{_SCALE * float(head[1]):.0f}"'
    return f'<svg role="img" aria-label="{escaped(label)}" {size}>{body.strip()}'


def _numbered(body: str, marks: Mapping[str, Mark]) -> str:
    """The groups of marked artists, numbered in place of their names."""
    for i, gid in enumerate(marks):
        body = body.replace(f'<g id="{gid}">', f'<g data-mark="{i}">', 1)
    return body


def _marked(body: str, marks: Mapping[str, Mark]) -> str:
    """The numbered groups say what they are, and are links where they lead somewhere."""
    for i, mark in enumerate(marks.values()):
        opening = f'<g data-mark="{i}">'
        before, found, after = body.partition(opening)
        if not found:
            continue
        inside, _, rest = after.partition("</g>")  # the group of a patch holds no other
        group = f"<g><title>{escaped(mark.text)}</title>{inside}</g>"
        link = mark.address is not None
        body = f'{before}<a href="{escaped(mark.address)}">{group}</a>{rest}' if link else f"{before}{group}{rest}"
    return body


def _adapted(tag: str, name: str) -> str:
    """One tag of a drawing, adapted to a page: unique ids, the page's colours and fonts, and no more digits than can be
    seen. Texts are between the tags; they are not changed.
    """
    tag = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", tag.replace("xlink:href", "href"))
    tag = _UNUSED.sub("", tag)
    tag = _LONG.sub(r"\1", _FONT.sub("", " ".join(tag.split())))
    for colour, here in _PAGE_COLOURS.items():
        tag = tag.replace(colour, here)
    return tag


@contextmanager
def _undisturbed(figure: Figure) -> Iterator[None]:
    """Put the axes back where they were, so that the next layout starts from the same place."""
    before = [
        (ax, ax.get_position(True).frozen(), ax.get_position().frozen(), ax.get_in_layout()) for ax in figure.axes
    ]
    try:
        yield
    finally:
        for ax, original, active, laid_out in before:
            ax.set_position(original, which="original")
            ax.set_position(active, which="active")
            ax.set_in_layout(laid_out)
