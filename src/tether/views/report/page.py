"""The page, put together and written."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from tether._html import told
from tether._writing import written
from tether.errors import Problem, QueryError
from tether.plan.plan import Plan
from tether.views.report.features import over_time
from tether.views.report.limits import sweep_around
from tether.views.report.sections import SECTIONS, Contents

__all__ = ["report"]

_TITLE = "What could have been done differently"

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""What the page may load: nothing."""


def report(
    plan: Plan,
    file: str | os.PathLike[str],
    *,
    features: Any = None,
    state_name: Callable[[Any], str] | None = None,
    action_name: Callable[[Any], str] | None = None,
    title: str | None = None,
    about: Mapping[str, Any] | None = None,
) -> Path:
    """Write a plan, beside what happened, as one self-contained HTML file.

    The page has no script, loads nothing and holds no date: the same plan gives the same bytes. It appears when
    it is complete.

    Parameters
    ----------
    plan : Plan
    file : path
        Where to write it.
    features : mapping of name to function of a state, or list of field names, optional
        What to draw over time. The values of a feature are numbers, truth values or words. By default the
        fields of the states' labels, or the likeliest states where labels have no fields.
    state_name, action_name : callable, optional
        Names a label as it is to be shown; states of one name are taken together. ``str`` by default.
    title : str, optional
    about : mapping, optional
        Further lines for the settings at the end, such as the files that were read.

    Returns
    -------
    pathlib.Path
        The file.

    Examples
    --------
    >>> import tempfile, tether
    >>> from tether.views.report import report
    >>> case = tether.cases.epidemic()
    >>> plan = tether.counterfactual(case.mdp, case.path).plan(k=7, m=4)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = report(plan, f"{folder}/outbreak.html", title="An outbreak, left alone")
    ...     "would raise the expected return by 26.72" in file.read_text(encoding="utf-8")
    True
    """
    if not isinstance(plan, Plan):
        raise QueryError(f"expected a plan, made by cf.plan(k, m), not {type(plan).__name__}")
    if about is not None and not isinstance(about, Mapping):
        raise QueryError(f"about must map names to what is to be said of them, not {about!r}")
    text = _page(title or _TITLE, _contents(plan, features, state_name, action_name, about or {}))
    target = Path(file)
    with written(target) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")
    return target


def _contents(
    plan: Plan,
    features: Any,
    state_name: Callable[[Any], str] | None,
    action_name: Callable[[Any], str] | None,
    facts: Mapping[str, Any],
) -> Contents:
    """All that is computed for the page."""
    state, action = _naming("state_name", state_name), _naming("action_name", action_name)
    explanation = plan.explain(None if state_name is None else state)  # unnamed states need not be grouped
    courses = over_time(plan, explanation.outlook, features, state)
    table, complete = sweep_around(plan)
    return Contents(explanation, table, complete, courses, state, action, facts)


def _naming(option: str, name: Callable[[Any], str] | None) -> Callable[[Any], str]:
    """A function that names a label, or an error that says for which label it failed."""
    if name is None:
        return str
    if not callable(name):
        raise QueryError(f"{option} must be a function of a label, not {name!r}")

    def named(label: Any) -> str:
        try:
            return str(name(label))
        except Exception as error:
            message = f"{option} failed for {label!r}: {type(error).__name__}: {error}"
            raise QueryError(Problem(message, value=label)) from error

    return named


def _page(title: str, contents: Contents) -> str:
    body = "\n".join(section(contents) for section in SECTIONS)
    style = files("tether.views.report").joinpath("style.css").read_text(encoding="utf-8")
    return (
        "<!DOCTYPE html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        "<meta name='generator' content='Tether'>\n<link rel='icon' href='data:,'>\n"
        f"<title>{told(title)}</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n<main>\n<h1>{told(title)}</h1>\n{body}\n</main>\n</body>\n</html>\n"
    )
