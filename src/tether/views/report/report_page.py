"""The page, put together and written."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tether.errors import Problem, QueryError
from tether.explanation.explain import explain
from tether.explanation.verdicts import Nouns
from tether.plan.plan_record import PlanRecord
from tether.views.pages import date_of_page, facts_of, write_page
from tether.views.report.report_features import over_time
from tether.views.report.report_limits import sweep_around
from tether.views.report.report_sections import Contents
from tether.views.report.settings import meanings, settings


def report(
    plan: PlanRecord,
    file: str | os.PathLike[str],
    *,
    features: Any = None,
    state_name: Callable[[Any], str] | None = None,
    action_name: Callable[[Any], str] | None = None,
    title: str | None = None,
    about: Mapping[str, Any] | None = None,
    date: dt.date | None = None,
    certificate: bool = True,
    draws: int | None = None,
    rng: Any = 0,
    nouns: Nouns | None = None,
) -> Path:
    """Write a plan, beside what happened, as one self-contained HTML file.

    The page has no script and loads nothing. The same plan and date give the same bytes. The file appears when it is
    complete.

    Parameters
    ----------
    plan : Plan
    file : path
        Where to write it.
    features : mapping of name to function of a state, or list of field names, optional
        What to draw over time. The values of a feature are numbers, truth values or words. By default the
        fields of the states' names, or the likeliest states where names have no fields.
    state_name, action_name : callable, optional
        Functions that turn the name of a state or an action into text. States with the same text are taken together.
        ``str`` by default.
    title : str, optional
    about : mapping, optional
        Further lines for the settings at the end, such as the files that were read.
    date : datetime.date, optional
        The date that the page carries: by default today, or the day of ``SOURCE_DATE_EPOCH`` where that is set.
    certificate : bool
        Whether the page says what holds under every causal model.
    draws, rng
        For a learned model: how many models that its log leaves possible are drawn to evaluate the plan in, and the
        seed; see `Plan.explain`.
    nouns : `tether.records.Nouns`, optional
        What an episode and a step are called: ``Nouns("patient", "hour")``.

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
    ...     "Mistake or luck?" in file.read_text(encoding="utf-8")
    True
    """
    if not isinstance(plan, PlanRecord):
        raise QueryError(f"expected a plan, made by cf.plan(k, m), not {type(plan).__name__}")
    facts, day = facts_of(about), date_of_page(date)
    contents = _contents(plan, features, state_name, action_name, certificate, draws, rng, nouns or Nouns())
    first = contents.first(str(facts.get("model file", "")))
    return write_page(
        file,
        "report.html",
        day,
        title=title or f"{contents.nouns.episode.capitalize()} of {first['ended']}",
        under=first["ended"] if title else "",
        source=first["source"],
        first=first,
        meanings=meanings(plan),
        settings=settings(plan, contents.state_name, facts, day),
        **contents.sections(),
    )


def _contents(
    plan: PlanRecord,
    features: Any,
    state_name: Callable[[Any], str] | None,
    action_name: Callable[[Any], str] | None,
    certificate: bool,
    draws: int | None,
    rng: Any,
    nouns: Nouns,
) -> Contents:
    """All that is computed for the page."""
    state, action = _naming("state_name", state_name), _naming("action_name", action_name)
    group = None if state_name is None else state  # unnamed states need not be grouped
    explanation = explain(plan, group, certificate=certificate, draws=draws, rng=rng)
    courses = over_time(plan, explanation.outlook, features, state)
    return Contents(explanation, sweep_around(plan), courses, state, action, nouns)


def _naming(option: str, name: Callable[[Any], str] | None) -> Callable[[Any], str]:
    """How a name is shown, or an error that says for which name the function failed."""
    if name is None:
        return str
    if not callable(name):
        raise QueryError(f"{option} must be a function of a name, not {name!r}")

    def named(given: Any) -> str:
        try:
            return str(name(given))
        except Exception as error:
            message = f"{option} failed for {given!r}: {type(error).__name__}: {error}"
            raise QueryError(Problem(message, value=given)) from error

    return named
