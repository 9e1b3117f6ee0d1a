"""The page of an answer for an individual whose type was never recorded."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Any

from tether._foundation.words import number, percent, shown
from tether._foundation.writing import written
from tether._version import __version__
from tether.explanation.typed_decisions import typed_decisions
from tether.explanation.typed_explanation import explain_typed
from tether.figures.output import inline_svg
from tether.plan.typed_plan import TypedPlanRecord
from tether.views.pages import date_of_page, drawing, render

__all__ = ["typed_contents", "write_typed"]

_SHOWN = 20
"""How many single changes the page lists."""


def write_typed(
    plan: TypedPlanRecord,
    file: str | os.PathLike[str],
    *,
    title: str | None = None,
    date: dt.date | None = None,
    certificate: bool = True,
) -> Path:
    """Write the page of a plan; see `tether.records.TypedPlan.report`."""
    target, day = Path(file), date_of_page(date)
    text = render(
        "typed.html",
        title=title or "What should have been done, for somebody whose type was never recorded?",
        date=day.isoformat(),
        **typed_contents(plan, certificate, ("date", day.isoformat()), ("made by", f"Tether {__version__}")),
    )
    with written(target) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")
    return target


def typed_contents(plan: TypedPlanRecord, certificate: bool, *settings: tuple[str, str]) -> dict[str, Any]:
    """What the page of a plan shows: sentences, the types over time, steps, single changes, and what was asked."""
    cf = plan.cf
    explanation, shares = explain_typed(plan, certificate), cf.posterior_over_time
    caption = shares.plot().get_title("left")
    prior = cf.types.prior(cf.path.states[0])
    return {
        "sentences": explanation.sentences(shown),
        "types": drawing(inline_svg(shares.plot(), "types", caption)),
        "caption": caption,
        "steps": _steps(explanation),
        "decisions": _decisions(plan),
        "settings": [
            *settings,
            ("types", ", ".join(f"{name} ({percent(share)} before the episode)" for name, share in prior.items())),
            ("k, m", f"{plan.k if plan.k <= cf.T else 'no tether'}, {plan.m}"),
            ("best plan", "yes" if plan.exact else "not certain"),
        ],
    }


def _steps(explanation: Any) -> dict[str, Any]:
    names = list(explanation.plan.cf.types.models)
    columns = ("t", "observed", "did", "plan most likely in", "plan does", "changed with", *(f"P({z})" for z in names))
    rows = [
        (
            str(one.t),
            shown(one.state),
            shown(one.action),
            f"{shown(one.planned_state)} ({percent(one.chance)})",
            shown(one.planned),
            percent(one.changed),
            *(percent(one.types[name]) for name in names),
        )
        for one in explanation.steps
    ]
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
