"""Pages of HTML from templates. All output of a template is escaped, and forbidden characters are removed.

The templates are in ``templates/``: `page.html` is the frame of every page, with its style sheet and the rule that it
loads nothing; `report.html` is the report; `audit.html` is the overview of a log; `pieces.html` has the parts that they
share; `style.css` is the style of all.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tether._foundation.markup import clean, together, with_minus_signs
from tether._foundation.words import counted, cut, number, percent
from tether._foundation.writing import written
from tether.errors import QueryError
from tether.explanation.verdicts import Nouns

if TYPE_CHECKING:
    from jinja2 import Environment
    from jinja2.runtime import Context

_LONG_WORDS = re.compile(r"(\S{16,})")
_BREAKS = re.compile(r"(?<=\w[/_])(?=\w)")


def render(template: str, package: str = "tether.views", **contents: Any) -> str:
    """A page from one of the templates; another package's templates may extend and import them.

    >>> page = render("page.html", title="<b>")
    >>> "<title>&lt;b&gt;</title>" in page
    True
    """
    return _environment(package).get_template(template).render(**contents)


def write_page(file: str | os.PathLike[str], template: str, day: dt.date, **contents: Any) -> Path:
    """Write a page with the date of a day; returns its file."""
    target, text = Path(file), render(template, date=in_words(day), **contents)
    with written(target) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")
    return target


def facts_of(about: Any) -> dict[str, Any]:
    """What users want to be said about a page, by name; an error if it is no mapping."""
    if about is not None and not isinstance(about, Mapping):
        raise QueryError(f"about must map names to values, not {about!r}")
    return dict(about or {})


def source(name: str) -> str:
    """A file of the templates as it is: a script of ours, which a page takes whole.

    >>> source("style.css")[:2]
    '/*'
    """
    environment = _environment("tether.views")
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def drawing(markup: str) -> Any:
    """A drawing or table made by this package, which the template prints without escaping.

    >>> str(drawing("<svg></svg>"))
    '<svg></svg>'
    """
    from markupsafe import Markup

    return Markup(markup)


@cache
def _environment(package: str) -> Environment:
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, pass_context

    made = Environment(
        loader=ChoiceLoader([PackageLoader(one) for one in dict.fromkeys((package, "tether.views"))]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters.update(
        breakable=_breakable,
        counted=counted,
        css_string=_css_string,
        cut=_cut,
        number=lambda value: with_minus_signs(number(value)),
        percent=percent,
        sentence=pass_context(_sentence),
    )
    made.globals["nouns"] = Nouns()
    made.tests["words"] = lambda cell: any(letter.isalpha() for letter in str(cell))
    return made


def _breakable(value: Any) -> Any:
    """A text whose long words may be broken after a slash or an underline, where a column is too narrow for them.

    >>> str(_breakable("V_I, piperacillin/tazobactam & <b>"))
    'V_I, piperacillin/<wbr>tazobactam &amp; &lt;b&gt;'
    """
    from markupsafe import Markup, escape

    words = _LONG_WORDS.split(str(clean(value)))  # every second one is long
    parts = [_BREAKS.split(word) if i % 2 else [word] for i, word in enumerate(words)]
    return Markup().join(Markup("<wbr>").join(map(escape, one)) for one in parts)


def _css_string(value: Any) -> Any:
    r"""A text as a string of a style sheet: letters, digits and spaces as they are, all else by its number.

    >>> str(_css_string("Bed 2</style>"))
    '"Bed 2\\3c \\2f style\\3e "'
    """
    from markupsafe import Markup

    kept = (sign if sign.isalnum() or sign == " " else f"\\{ord(sign):x} " for sign in clean(value)[:120])
    return Markup(f'"{"".join(kept)}"')


def _sentence(context: Context, text: str) -> str:
    """A sentence in the nouns of the page."""
    return together(context["nouns"](text))


def _cut(value: Any, most: int = 160) -> str:
    return cut(str(value), most)


def _printable(value: Any) -> Any:
    """A value that a template prints, without forbidden characters; our own drawings have none."""
    return value if hasattr(value, "__html__") else clean(value)


def in_words(day: dt.date) -> str:
    """A date as a page shows it.

    >>> in_words(dt.date(2026, 11, 18))
    '18 November 2026'
    """
    return f"{day.day} {day:%B %Y}"


def date_of_page(date: Any) -> dt.date:
    """The date of the page; ``SOURCE_DATE_EPOCH`` is what makes builds reproducible."""
    if date is None:
        epoch = os.environ.get("SOURCE_DATE_EPOCH")
        if epoch is None:
            return dt.date.today()
        try:
            if not (epoch.isascii() and epoch.isdecimal()):
                raise ValueError
            return dt.datetime.fromtimestamp(int(epoch), dt.UTC).date()
        except (ValueError, OverflowError, OSError):  # the others: a year beyond 9999, or beyond the clock
            raise QueryError(f"SOURCE_DATE_EPOCH must be a number of seconds, not {epoch!r}") from None
    if not isinstance(date, dt.date):
        raise QueryError(f"date must be a datetime.date, not {date!r}")
    return date.date() if isinstance(date, dt.datetime) else date
