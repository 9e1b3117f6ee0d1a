"""The page of an answer with a limit on whole paths."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

from tether._foundation.words import number, percent, shown
from tether._foundation.writing import written
from tether._version import __version__
from tether.explanation.limited_explanation import explain_limited
from tether.plan.limited import LimitedPlanRecord
from tether.views.pages import date_of_page, render

__all__ = ["write_limited"]


def write_limited(
    plan: LimitedPlanRecord,
    file: str | os.PathLike[str],
    *,
    title: str | None = None,
    date: dt.date | None = None,
    certificate: bool = True,
) -> Path:
    """Write the page of a plan; see `tether.records.LimitedPlan.report`."""
    target, day = Path(file), date_of_page(date)
    explanation = explain_limited(plan, certificate)
    by_budget = plan.budget is not None
    columns = ("t", "observed", "did", "plan most likely in", "plan does", "changed with", "strength",
               "least of the budget left" if by_budget else "longest uninfluenced run")  # fmt: skip
    rows = [
        (
            str(one.t), shown(one.state), shown(one.action), f"{shown(one.planned_state)} ({percent(one.chance)})",
            shown(one.planned), percent(one.changed), percent(one.strength), number(one.left),
        )
        for one in explanation.steps
    ]  # fmt: skip
    limit = f"total distance {number(plan.budget or 0.0)}" if by_budget else f"chance {percent(plan.lost or 0.0)}"
    text = render(
        "limited.html",
        title=title or "What should have been done, within a limit on every path?",
        date=day.isoformat(),
        sentences=explanation.sentences(shown),
        steps={"title": "What happened, and what the plan does", "columns": columns, "rows": rows},
        settings=[
            ("date", day.isoformat()),
            ("made by", f"Tether {__version__}"),
            ("k, m", f"{plan.k if plan.k <= plan.cf.T else 'no tether'}, {plan.m}"),
            ("rule, influence", f"{plan.rule}, {plan.influence}"),
            ("limit", limit),
        ],
    )
    with written(target) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")
    return target
