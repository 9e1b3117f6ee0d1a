"""The episode over time: observed and planned states by feature, outcomes, strength."""

from __future__ import annotations

from typing import Any

from tether._foundation.words import counted
from tether.evaluation.evaluate import Evaluation
from tether.explanation.terms import granted
from tether.explorer.answer_cache import EpisodeAnswer
from tether.explorer.panels import Asked
from tether.explorer.panels.why_panel import MEANINGS
from tether.plan.plan_record import PlanRecord
from tether.views.report.drawings import Drawing, draw_classes, draw_course, draw_influence
from tether.views.report.report_features import Band, over_time


def over_time_part(asked: Asked) -> dict[str, Any]:
    """The plan beside what happened."""
    answer = asked.answer
    explanation = answer.explanation
    return drawings_of(asked, answer, explanation.plan, explanation.outlook, "plan")


def drawings_of(
    asked: Asked, answer: EpisodeAnswer, plan: PlanRecord, outlook: Evaluation, prefix: str
) -> dict[str, Any]:
    """Every feature, and the strength, for a plan or for a what-if."""
    who = "plan" if prefix == "plan" else "what-if"
    courses = over_time(plan, outlook, None, answer.naming.state)
    drawn: list[Drawing] = []
    for i, one in enumerate(courses.drawn):
        asked.check()
        drawn.append(draw_course(one, f"{prefix}course{i}", asked.nouns, who))
    asked.check()
    steady = ", ".join(f"{name} {value}" for name, value in courses.steady)
    return {
        "influence": draw_influence(outlook, asked.nouns, who),
        "figures": drawn,
        "strips": any(not isinstance(one, Band) for one in courses.drawn),
        "steady": steady,
        "left_out": counted(courses.left_out, "more feature") if courses.left_out else "",
        "what": who,
    }


# ---- Classes of states ---------------------------------------------------------------------------------------------
# The states over time by class: the layered graph of a small model, counts of a large one.


def states_part(asked: Asked) -> dict[str, Any]:
    """The drawing of the report; its nodes show what they are, and are links to "Why?"."""
    answer, view = asked.answer, asked.view
    figure, is_graph = draw_classes(
        answer.plan,
        answer.naming.any,
        answer.naming.any,
        asked.nouns,
        link=lambda t, s: view.address(tab="why", t=t, state=s, action=-1),
    )
    meanings = {name: what for name, what in MEANINGS.items() if name not in ("unreachable", "decided")}
    return {"drawn": figure, "graph": is_graph, "meanings": meanings, "granted": granted(answer.plan)}
