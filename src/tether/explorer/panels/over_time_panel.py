"""The episode over time: observed and planned states by feature, outcomes, strength."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._foundation.words import counted
from tether.evaluation.evaluate import Evaluation
from tether.explorer.answer_cache import EpisodeAnswer
from tether.explorer.panels import Asked
from tether.plan.plan_record import PlanRecord
from tether.views.report.drawings import Drawing, draw_band, draw_influence, draw_replay, draw_strip
from tether.views.report.report_features import Band, over_time

__all__ = ["drawings_of", "outcomes_part", "over_time_part"]

_DESK = 560.0
"""Width of the picture of the replay, in points."""

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
    return {"outcomes": [draw_replay(asked.answer.explanation.replay(asked.answer.naming.action), desk=_DESK)]}


def drawings_of(
    asked: Asked, answer: EpisodeAnswer, plan: PlanRecord, outlook: Evaluation, gained: Any, prefix: str
) -> dict[str, Any]:
    """The return so far, every feature, and the strength, for a plan or for a what-if."""
    who = "plan" if prefix == "plan" else "what-if"
    courses = over_time(plan, outlook, None, answer.naming.state)
    drawn: list[Drawing] = []
    for i, one in enumerate(courses.drawn):
        asked.check()
        if isinstance(one, Band):
            drawn.append(draw_band(one, f"{prefix}course{i}", who=who))
        else:
            drawn.append(draw_strip(one, f"{prefix}course{i}"))
    asked.check()
    steady = ", ".join(f"{name} {value}" for name, value in courses.steady)
    return {
        "influence": draw_influence(outlook, who),
        "outcomes": [],
        "figures": drawn,
        "strips": any(not isinstance(one, Band) for one in courses.drawn),
        "steady": steady,
        "left_out": counted(courses.left_out, "more feature") if courses.left_out else "",
        "what": who,
    }
