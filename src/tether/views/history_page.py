"""The page of a plan that decides by all that was met: for hidden types, or with a limit on whole paths."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Any

from tether._foundation.rounding import ROUNDING
from tether._foundation.words import number, percent, shown
from tether._version import __version__
from tether.explanation.history_explanation import HistoryExplanation
from tether.explanation.limited_explanation import explain_limited
from tether.explanation.typed_decisions import typed_decisions
from tether.explanation.typed_explanation import explain_typed
from tether.explanation.verdicts import Nouns
from tether.model.model_record import ModelRecord
from tether.plan.limited import LimitedPlanRecord
from tether.plan.typed_plan import TypedPlanRecord
from tether.views.pages import date_of_page, write_page
from tether.views.report.drawings import draw_types
from tether.views.report.report_sections import cannot_know
from tether.views.report.report_steps import MANY, Cell, Fold, StepRow, StepTable

_SHOWN = 5
"""How many single changes the page lists."""


def write_history(
    plan: TypedPlanRecord | LimitedPlanRecord,
    file: str | os.PathLike[str],
    *,
    title: str | None = None,
    date: dt.date | None = None,
    certificate: bool = True,
    nouns: Nouns | None = None,
    source: str = "",
) -> Path:
    """Write the page of a plan; see `tether.records.TypedPlan.report` and `tether.records.LimitedPlan.report`.

    ``source`` names the model.
    """
    day, say = date_of_page(date), nouns or Nouns()
    contents = typed_contents(plan, certificate, say) if isinstance(plan, TypedPlanRecord) else _limited(
        plan, certificate, say
    )  # fmt: skip
    settings = [("date", day.isoformat()), ("made by", f"Tether {__version__}"), *contents.pop("settings")]
    ended = contents["first"].ended
    return write_page(
        file,
        "history.html",
        day,
        title=title or f"{say.episode.capitalize()} of {ended}",
        under=ended if title else "",
        source=source,
        nouns=say,
        settings=settings,
        cannot_know=cannot_know(model_of(plan)),
        **contents,
    )


def model_of(plan: TypedPlanRecord | LimitedPlanRecord) -> ModelRecord:
    """The model, or that of the first type."""
    return plan.vectors.models[0] if isinstance(plan, TypedPlanRecord) else plan.cf.mdp


def typed_contents(plan: TypedPlanRecord, certificate: bool, nouns: Nouns) -> dict[str, Any]:
    """What the page for hidden types shows: verdicts, the types over time, steps, single changes, what was asked."""
    cf = plan.cf
    explanation = explain_typed(plan, certificate)
    prior = cf.types.prior(cf.path.states[0])
    last = list(cf.types.models)[-1]
    # the shares of two types add up to 1
    names = [last] if len(cf.types.models) == 2 else list(cf.types.models)
    of_types = {f"As known then: {name}": [percent(one.types[name]) for one in explanation.steps] for name in names}
    return {
        **_verdicts_and_sentences(explanation, nouns),
        "types": draw_types(cf.posterior_over_time, nouns=nouns),
        "unseen": cf.types.own_practice is None,
        "steps": _steps(explanation, of_types, nouns),
        "decisions": _decisions(plan, nouns),
        "settings": [
            ("types", ", ".join(f"{name} ({percent(share)} before the episode)" for name, share in prior.items())),
            _limits(plan),
            *([] if plan.exact else [("best plan", "not certain: there are too many ways to act to compare all")]),
        ],
    }


def _limited(plan: LimitedPlanRecord, certificate: bool, nouns: Nouns) -> dict[str, Any]:
    """What the page of a plan with a limit on whole paths shows."""
    explanation, by_budget = explain_limited(plan, certificate), plan.budget is not None
    left = "Least of the budget left" if by_budget else "Longest stretch off known ground"
    of_limit = {
        f"About this {nouns.episode}": [percent(one.strength) for one in explanation.steps],
        left: [number(one.left) for one in explanation.steps],
    }
    limit = f"total distance {number(plan.budget or 0.0)}" if by_budget else f"chance {percent(plan.lost or 0.0)}"
    return {
        **_verdicts_and_sentences(explanation, nouns),
        "types": None,
        "decisions": None,
        "steps": _steps(explanation, of_limit, nouns),
        "settings": [_limits(plan), ("rule, influence", f"{plan.rule}, {plan.influence}"), ("limit", limit)],
    }


def _verdicts_and_sentences(explanation: HistoryExplanation, nouns: Nouns) -> dict[str, Any]:
    """What is said first, and all sentences by the three questions."""
    first = explanation.verdicts(shown, nouns)
    said = zip(first, explanation.parts(shown), strict=True)
    return {"first": first, "answer_in_full": [(one.question, some) for one, some in said]}


def _limits(plan: TypedPlanRecord | LimitedPlanRecord) -> tuple[str, str]:
    return "k, m", f"{plan.k if plan.k <= plan.cf.T else 'no tether'}, {plan.m}"


def _steps(explanation: HistoryExplanation, more: dict[str, list[str]], nouns: Nouns) -> StepTable:
    """The table of the steps; ``more`` has further columns. Once it is most likely over, a line stands for the rest."""
    rows, last = [], -1
    for i, one in enumerate(explanation.steps):
        (state, done), (where, action) = explanation.happened(one), explanation.plans(one)
        differs = one.planned != one.action and one.changed > 0
        same = one.planned_state == one.state
        there = Cell("as observed", "aside") if same else Cell(where)
        planned = Cell(action, "strong") if differs else Cell("as done", "aside") if action == done else Cell(action)
        if action and not done:
            planned = Cell(action, note="if it is not over by then")
        if action:
            last = i
        cells = (
            Cell(str(one.t)),
            Cell(state),
            Cell(done) if done else None,
            Cell(there.text, there.look, "" if one.chance > 1 - ROUNDING else percent(one.chance)),
            planned if action else Cell("nothing to decide", "aside"),
            *(Cell(column[i]) for column in more.values()),
        )
        rows.append(StepRow(cells, bool(action) and one.changed > 0.5))
    over = rows[last + 1 :]
    parts: tuple[StepRow | Fold, ...] = tuple(rows)
    if len(over) > 1:
        ends = f"{nouns.step.capitalize()} {last + 1} … {len(rows) - 1}: it is over, most likely also under the plan."
        parts = (*rows[: last + 1], Fold(ends, tuple(over)))
    head = (nouns("Step"), "What happened", "What was done", "Plan: likeliest state", "Plan: action there", *more)
    return StepTable(head, parts, 0, len(rows) if len(rows) > MANY else 0)


def _decisions(plan: TypedPlanRecord, nouns: Nouns) -> dict[str, Any]:
    """The single changes that would have gained most."""
    found = typed_decisions(plan.cf, plan.objective, plan.minimise)
    some = sorted((row for row in found.rows if (row.gain or 0.0) > 0.0), key=lambda row: -(row.gain or 0.0))
    names = list(plan.cf.possible) if len(plan.cf.possible) > 1 else []
    rows = [
        (str(row.t), shown(row.action), number(row.gain or 0.0), *(number(row.values[name]) for name in names))
        for row in some[:_SHOWN]
    ]
    columns = (nouns("Step"), "Instead", "With hindsight, gains", *(f"Score if {name}" for name in names))
    return {"title": "Had only one decision been different", "columns": columns, "rows": rows}
