"""The page of a plan that decides by all that was met: for hidden types, or with a limit on whole paths."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Any

from tether._foundation.words import number, percent, shown
from tether._foundation.writing import written
from tether._version import __version__
from tether.explanation.history_explanation import HistoryExplanation
from tether.explanation.limited_explanation import explain_limited
from tether.explanation.typed_decisions import typed_decisions
from tether.explanation.typed_explanation import explain_typed
from tether.figures.output import inline_svg
from tether.figures.types_figure import plot_types, types_in_words
from tether.plan.limited import LimitedPlanRecord
from tether.plan.typed_plan import TypedPlanRecord
from tether.views.pages import date_of_page, drawing, render

__all__ = ["typed_contents", "write_history"]

_SHOWN = 20
"""How many single changes the page lists."""


def write_history(
    plan: TypedPlanRecord | LimitedPlanRecord,
    file: str | os.PathLike[str],
    *,
    title: str | None = None,
    date: dt.date | None = None,
    certificate: bool = True,
) -> Path:
    """Write the page of a plan; see `tether.records.TypedPlan.report` and `tether.records.LimitedPlan.report`."""
    target, day = Path(file), date_of_page(date).isoformat()
    made = [("date", day), ("made by", f"Tether {__version__}")]
    if isinstance(plan, TypedPlanRecord):
        asks = "What should have been done, for somebody whose type was never recorded?"
        contents = typed_contents(plan, certificate)
    else:
        asks, contents = "What should have been done, within a limit on every path?", _limited(plan, certificate)
    settings = [*made, *contents.pop("settings")]
    text = render("history.html", title=title or asks, date=day, settings=settings, **contents)
    with written(target) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")
    return target


def typed_contents(plan: TypedPlanRecord, certificate: bool) -> dict[str, Any]:
    """What the page for hidden types shows: sentences, the types over time, steps, single changes, what was asked."""
    cf = plan.cf
    explanation, shares = explain_typed(plan, certificate), cf.posterior_over_time
    caption = types_in_words(shares)
    prior = cf.types.prior(cf.path.states[0])
    names = list(cf.types.models)
    of_types = {f"P({name})": [percent(one.types[name]) for one in explanation.steps] for name in names}
    return {
        "sentences": explanation.sentences(shown),
        "types": {
            "caption": caption,
            **{
                field: drawing(inline_svg(plot_types(shares, size=size, title=False), f"types-{field}", caption))
                for field, size in (("svg", (7.0, 3.0)), ("narrow", (3.4, 2.6)))
            },
        },
        "unseen": cf.types.own_practice is None,
        "steps": _steps(explanation, of_types),
        "decisions": _decisions(plan),
        "settings": [
            ("types", ", ".join(f"{name} ({percent(share)} before the episode)" for name, share in prior.items())),
            _limits(plan),
            ("best plan", "yes" if plan.exact else "not certain"),
        ],
    }


def _limited(plan: LimitedPlanRecord, certificate: bool) -> dict[str, Any]:
    """What the page of a plan with a limit on whole paths shows."""
    explanation, by_budget = explain_limited(plan, certificate), plan.budget is not None
    left = "least of the budget left" if by_budget else "longest uninfluenced run"
    of_limit = {
        "strength": [percent(one.strength) for one in explanation.steps],
        left: [number(one.left) for one in explanation.steps],
    }
    limit = f"total distance {number(plan.budget or 0.0)}" if by_budget else f"chance {percent(plan.lost or 0.0)}"
    return {
        "sentences": explanation.sentences(shown),
        "types": None,
        "decisions": None,
        "steps": _steps(explanation, of_limit),
        "settings": [_limits(plan), ("rule, influence", f"{plan.rule}, {plan.influence}"), ("limit", limit)],
    }


def _limits(plan: TypedPlanRecord | LimitedPlanRecord) -> tuple[str, str]:
    return "k, m", f"{plan.k if plan.k <= plan.cf.T else 'no tether'}, {plan.m}"


def _steps(explanation: HistoryExplanation, more: dict[str, list[str]]) -> dict[str, Any]:
    """The table of the steps; ``more`` has further columns."""
    columns = ("t", "observed", "did", "plan most likely in", "plan does", "changed with", *more)
    rows = []
    for i, one in enumerate(explanation.steps):
        where, action = explanation.plans(one)
        planned = f"{where} ({percent(one.chance)})", action, percent(one.changed)
        rows.append((str(one.t), *explanation.happened(one), *planned, *(column[i] for column in more.values())))
    return {"title": "What happened, and what the plan does", "columns": columns, "rows": rows}


def _decisions(plan: TypedPlanRecord) -> dict[str, Any]:
    found = typed_decisions(plan.cf, plan.objective, plan.minimise)
    some = sorted((row for row in found.rows if row.gain), key=lambda row: -(row.gain or 0.0))[:_SHOWN]
    names = list(plan.cf.possible)
    rows = [
        (
            str(row.t), shown(row.action), number(row.value or 0.0), number(row.gain or 0.0),
            *(number(row.values[name]) for name in names),
        )
        for row in some
    ]  # fmt: skip
    columns = ("t", "instead", "value", "gain", *(f"value for {name}" for name in names))
    return {"title": "Had only one action been different: the largest gains", "columns": columns, "rows": rows}
