"""What each section of the report holds: records of the library, sentences about them, and drawings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._words import average, counted, number
from tether.evaluation.evaluate import Tailoring
from tether.evaluation.guarantees import guarantees_by_k
from tether.explanation import sentences as say
from tether.explanation.explain import Explanation
from tether.explanation.terms import beyond_the_limits, granted, question_in_words, suggestion
from tether.influence.classes import CLASSES
from tether.plan.objective import value_name
from tether.plan.plan import Plan
from tether.plan.sweep import Sweep
from tether.views.pages import drawing
from tether.views.report.drawings import (
    draw_band,
    draw_certificate,
    draw_classes,
    draw_guarantees,
    draw_influence,
    draw_strip,
    draw_values,
)
from tether.views.report.features import Band, Courses
from tether.views.report.limits import COLUMNS, table_of
from tether.views.report.steps import step_table

__all__ = ["Contents"]

_LISTED = 15
"""How many changes are listed."""

_PHONE, _TABLET = 4, 8
"""How many columns of the k × m table fit on the screen."""


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """All that the sections are made of, and how to name it."""

    explanation: Explanation
    table: Sweep
    complete: bool
    courses: Courses
    state_name: Callable[[Any], str]
    action_name: Callable[[Any], str]

    @property
    def plan(self) -> Plan:
        return self.explanation.plan

    @property
    def tailoring(self) -> Tailoring:
        found = self.explanation.outlook.tailoring
        assert found is not None
        return found

    def sections(self) -> dict[str, Any]:
        """The sections by the names that the template has for them."""
        return {
            "summary": self._summary(),
            "steps": step_table(self.explanation, self.action_name),
            "over_time": self._over_time(),
            "influence": self._influence(),
            "certificate": self._certificate(),
            "limits": self._limits(),
            "states": self._states(),
        }

    def _summary(self) -> dict[str, Any]:
        plan, explanation, table = self.plan, self.explanation, self.table
        best = table.value(plan.k, plan.m)
        return {
            "question": question_in_words(plan, best),
            "headline": say.headline(explanation),
            "cards": self._cards(),
            "changes": say.changes(explanation, self.action_name, _LISTED) if explanation.changes else [],
            "expected": [*say.outcomes(plan.cf, explanation.outlook), *say.expected(explanation, best)],
            "episode": self._about_this_episode(),
            "sure": say.how_sure(self.explanation),
            "beyond": beyond_the_limits(explanation, table, self.complete),
        }

    def _cards(self) -> list[tuple[str, str, str]]:
        """The numbers to remember: name, value, and what stands beside it."""
        plan, outlook = self.plan, self.explanation.outlook
        changed = sum(step.changed for step in self.explanation.steps)
        spread = "certain" if outlook.std == 0 else f"standard deviation {number(outlook.std)}"
        sure = say.guaranteed(plan)
        which = f"{'Expected' if sure is None else 'Guaranteed'} {value_name(plan.objective)}"
        if sure is not None:
            spread = f"Gumbel-max expects {number(outlook.value)}"
        cards = [
            (which, number(plan.value), f"observed {number(plan.observed_value)}"),
            ("Gain" if sure is None else "Guaranteed gain", _difference(plan.gain, plan.observed_value), spread),
            ("Actions changed", average(changed), f"of at most {plan.m}"),
        ]
        if say.left_to_chance(self.plan.asked, outlook):
            strength, influenced = self.tailoring.strength, self.tailoring.expected_influenced_steps
            cards += [
                ("Strength", f"{float(strength.mean()):.2f}", "per step, from 0 to 1"),
                ("Influenced steps", average(influenced), f"of {plan.T}"),
            ]
        return cards

    def _about_this_episode(self) -> list[str]:
        outlook, plan = self.explanation.outlook, self.plan
        told = [say.strength(plan.asked, outlook, self.explanation.steps)]
        if say.left_to_chance(self.plan.asked, outlook):
            told.append(say.influenced_steps(self.tailoring, plan.k, plan.rule))
        return told

    def _over_time(self) -> dict[str, Any]:
        courses = self.courses
        drawn = [draw_band(self._returns(), "return", "one standard deviation", legend=True)]
        bands = 0
        for i, one in enumerate(courses.drawn):
            if isinstance(one, Band):
                drawn.append(draw_band(one, f"course{i}", "the middle 80 %", legend=not bands))
                bands += 1
            else:
                drawn.append(draw_strip(one, f"course{i}"))
        remarks = []
        if courses.steady:
            steady = ", ".join(f"{name} {value}" for name, value in courses.steady)
            remarks.append(f"The same throughout: {steady}.")
        if courses.left_out:
            remarks.append(f"{counted(courses.left_out, 'more feature')} not drawn.")
        return {"figures": drawn, "strips": bands < len(courses.drawn), "remarks": remarks}

    def _returns(self) -> Band:
        course = self.explanation.outlook.returns
        gained = np.cumsum([0.0, *(step.gain for step in self.explanation.steps[:-1])])
        observed = course.mean + gained if self.plan.minimise else course.mean - gained
        objective = self.plan.objective
        name = "Return so far" if objective is None else f"Chance that {objective.in_words}, so far"
        return Band(name, course.mean, *course.band(), observed, whole=False)

    def _influence(self) -> dict[str, Any]:
        outlook = self.explanation.outlook
        return {
            "figure": draw_influence(outlook),
            "chance": say.left_to_chance(self.plan.asked, outlook),
            "sentences": self._about_this_episode(),
        }

    def _certificate(self) -> dict[str, Any] | None:
        """What holds whatever the causal model is; nothing where it is not wanted."""
        explanation, found = self.explanation, self.explanation.certificate
        if found is None:
            return {"left_out": explanation.uncertified} if explanation.uncertified else None
        by_k = None if found.is_certain else guarantees_by_k(self.plan)
        return {
            "left_out": "",
            "sentence": found.sentence,
            "certain": found.is_certain,
            "figure": None if found.is_certain else draw_certificate(found),
            "rows": [("every causal model", found.nothing), ("every stable one", found.stability)],
            "guaranteed": say.guaranteed(self.plan) is not None,
            "by_k": None if by_k is None else draw_guarantees(by_k, self.plan.k),
        }

    def _limits(self) -> dict[str, Any]:
        plan, table = self.plan, self.table
        if np.all(table.gains <= 1e-9 * max(1.0, abs(table.observed_value))):
            stays, value = number(table.observed_value), "expected return" if plan.objective is None else "probability"
            return {"nothing": f"Whatever k and m, nothing is gained: the {value} stays {stays}."}
        some = "Of so many, only some are shown." if table.ms.size > COLUMNS else ""
        if not self.complete:
            some = "The model is large: only some limits were looked at."
        suggested, sentence = suggestion(plan, table)
        shown = table_of(table, plan, suggested)
        columns = shown.count("scope='col'")
        return {
            "nothing": "",
            "some": some,
            "table": drawing(shown),
            "more": "many" if columns > _TABLET else "some" if columns > _PHONE else "",
            "figure": draw_values(table, plan, suggested),
            "suggestion": sentence,
        }

    def _states(self) -> dict[str, Any]:
        plan, near = self.plan, counted(self.plan.k, "step")
        figure, is_graph = draw_classes(plan, self.state_name, self.action_name)
        meanings = (
            "what was seen at that time",
            f"an influenced step can be met within {near}, and an allowed plan can get there",
            f"an influenced step can be met within {near}, but no allowed plan gets there",
            f"no influenced step can be met within {near}",
        )
        return {
            "figure": figure,
            "graph": is_graph,
            "meanings": list(zip(CLASSES, meanings, strict=True)),
            "granted": granted(plan),
        }


def _difference(gain: float, beside: float) -> str:
    if abs(gain) <= 1e-9 * max(1.0, abs(beside)):
        return "none"
    return ("+" if gain > 0 else "") + number(gain)
