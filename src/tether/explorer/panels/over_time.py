"""The episode over time: observed and planned states by feature, outcomes, strength."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._foundation.words import counted
from tether.evaluation.evaluate import Evaluation
from tether.explanation.outcomes import goes_on
from tether.explorer.memory import EpisodeAnswer
from tether.explorer.panels import Asked
from tether.plan.plan import Plan
from tether.views.report.drawings import Drawing, draw_band, draw_influence, draw_outcomes, draw_strip
from tether.views.report.features import Band, over_time

__all__ = ["drawings_of", "outcomes_part", "over_time_part"]

_AT_ONCE = 500_000
"""The most states over time for which outcomes are drawn at once; otherwise later: they need the plain model solved."""


def over_time_part(asked: Asked) -> dict[str, Any]:
    """The plan beside what happened."""
    answer = asked.answer
    explanation = answer.explanation
    gained = np.cumsum([0.0, *(step.gain for step in explanation.steps[:-1])])
    found = drawings_of(asked, answer, explanation.plan, explanation.outlook, gained, "plan")
    if answer.cf.graph.n_nodes > _AT_ONCE:
        return {**found, "outcomes": None}
    asked.check()
    return {**found, **outcomes_part(asked)}


def outcomes_part(asked: Asked) -> dict[str, Any]:
    """How the episode would have ended, over time; empty if it has no outcomes."""
    explanation = asked.answer.explanation
    if goes_on(asked.answer.cf, explanation.outlook) or len(explanation.outcomes.classes) < 2:
        return {"outcomes": []}
    return {"outcomes": [draw_outcomes(explanation.outcomes)]}


def drawings_of(
    asked: Asked, answer: EpisodeAnswer, plan: Plan, outlook: Evaluation, gained: Any, prefix: str
) -> dict[str, Any]:
    """The return so far, every feature, and the strength, for a plan or for a what-if."""
    who = "plan" if prefix == "plan" else "what-if"
    courses = over_time(plan, outlook, None, answer.naming.state)
    low, high = outlook.returns.band()
    mean = outlook.returns.mean
    objective = plan.objective
    name = "Return so far" if objective is None else f"Chance that {objective.in_words}, so far"
    drawn: list[Drawing] = [
        draw_band(
            Band(name, mean, low, high, mean - gained, whole=False),
            f"{prefix}return",
            "one standard deviation",
            legend=True,
            who=who,
        )
    ]
    bands = 0
    for i, one in enumerate(courses.drawn):
        asked.check()
        if isinstance(one, Band):
            drawn.append(draw_band(one, f"{prefix}course{i}", "the middle 80 %", legend=not bands, who=who))
            bands += 1
        else:
            drawn.append(draw_strip(one, f"{prefix}course{i}"))
    asked.check()
    steady = ", ".join(f"{name} {value}" for name, value in courses.steady)
    return {
        "influence": draw_influence(outlook, who),
        "outcomes": [],
        "figures": drawn,
        "strips": bands < len(courses.drawn),
        "steady": steady,
        "left_out": counted(courses.left_out, "more feature") if courses.left_out else "",
        "what": who,
    }
