"""The contents of each section of the report: records of the library, sentences about them, and drawings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._foundation.words import counted, number
from tether.evaluation.guarantees import guarantees_by_k
from tether.evaluation.tailoring import Tailoring
from tether.explanation import sentences as say
from tether.explanation.about_episode import left_to_chance
from tether.explanation.caveats import cannot_know
from tether.explanation.explain import Explanation
from tether.explanation.outcomes import goes_on
from tether.explanation.terms import beyond_the_limits, granted, question_in_words, suggestion
from tether.influence.classes import CLASSES
from tether.model.properties import value_name
from tether.plan.plan import Plan
from tether.plan.sweep import Sweep
from tether.views.pages import drawing
from tether.views.report.beside import decision_steps, numbers_beside, shares_sentence
from tether.views.report.drawings import (
    draw_band,
    draw_certificate,
    draw_classes,
    draw_decisions,
    draw_guarantees,
    draw_influence,
    draw_outcomes,
    draw_strip,
    draw_values,
)
from tether.views.report.features import Band, Courses
from tether.views.report.limits import COLUMNS, table_of
from tether.views.report.steps import step_table

__all__ = ["Contents"]

_LISTED = 15
"""How many changes are listed."""

_AS_SENTENCE = 2
"""Up to this many changes are one sentence; more are a list."""

_SHARED = 8
"""Up to this many changed steps the gain is shared among them: all their subsets are computed."""

_PHONE, _TABLET = 4, 8
"""How many columns of the k × m table fit on the screen."""


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """The data of all sections, and the functions that turn names into text."""

    explanation: Explanation
    table: Sweep
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
            "answer": self._answer(),
            "decisions": self._decisions(),
            "steps": step_table(self.explanation, self.action_name),
            "over_time": self._over_time(),
            "influence": self._influence(),
            "certificate": self._certificate(),
            "learned": self._learned(),
            "limits": self._limits(),
            "states": self._states(),
            "cannot_know": cannot_know(self.explanation),
        }

    def _answer(self) -> dict[str, Any]:
        """The first screen: the four parts of the answer, and the numbers beside them."""
        plan, explanation = self.plan, self.explanation
        answer = explanation.answer(self.name)
        many = len(explanation.changes) > _AS_SENTENCE
        return {
            "answer": answer,
            "lead": f"Change {say.how_many(explanation)}" if many else answer.change[0],
            "changes": say.changes(explanation, self.name, _LISTED) if many else [],
            "question": question_in_words(plan, self.table.value(plan.k, plan.m)),
            "beside": numbers_beside(explanation),
            "beyond": beyond_the_limits(explanation, self.table),
        }

    def name(self, label: Any) -> str:
        """A state or an action as it is shown; an outcome by its own name."""
        mdp = self.plan.cf.mdp
        if label in mdp.actions:
            return self.action_name(label)
        return self.state_name(label) if label in mdp.states else str(label)

    def _decisions(self) -> dict[str, Any]:
        """Which decisions mattered: what if only one action had been different?"""
        plan = self.plan
        found = plan.cf.decisions(plan.objective, rule=plan.rule, influence=plan.influence, minimise=plan.minimise)
        several = 1 < len(self.explanation.changes) <= _SHARED
        return {
            "sentences": found.sentences(self.name),
            "figure": draw_decisions(found, self.action_name) if len(found.rows) > found.cf.T else None,
            "steps": decision_steps(found, self.action_name),
            "outcome": found.outcome,
            "value": value_name(plan.objective),
            "shares": shares_sentence(plan) if several else "",
        }

    def _over_time(self) -> dict[str, Any]:
        courses, outcomes = self.courses, self.explanation.outcomes
        shows_outcomes = len(outcomes.classes) > 1 and not goes_on(self.plan.cf, self.explanation.outlook)
        drawn = [draw_outcomes(outcomes)] if shows_outcomes else []
        drawn.append(draw_band(self._returns(), "return", "one standard deviation", legend=True))
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
        return {
            "figures": drawn,
            "strips": bands < len(courses.drawn),
            "outcomes": shows_outcomes,
            "remarks": remarks,
        }

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
            "chance": left_to_chance(self.plan.asked, outlook.chain),
            "sentences": say.about_this_episode(self.explanation),
        }

    def _learned(self) -> list[str]:
        """For a learned model: what it was learned from, and how sure each change is."""
        learned, sure = self.plan.cf.mdp.learned, self.explanation.uncertainty
        if learned is None:
            return []
        return [*learned.sentences(self.name), *(sure.sentences(self.name) if sure is not None else [])]

    def _certificate(self) -> dict[str, Any] | None:
        """What holds under every causal model; None if it is not wanted."""
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
            "guaranteed": say.robust_plan(self.plan) is not None,
            "by_k": None if by_k is None else draw_guarantees(by_k, self.plan.k),
        }

    def _limits(self) -> dict[str, Any]:
        plan, table = self.plan, self.table
        value = "expected return" if plan.objective is None else "probability"
        if np.all(table.gains <= table.rounding):
            stays = number(table.observed_value)
            return {"nothing": f"Whatever k and m, nothing is gained: the {value} stays {stays}."}
        some = "There are many: only some are shown." if table.ms.size > COLUMNS else ""
        if not table.is_complete:
            some = "The model is large: only some limits were computed."
        suggested, sentence = suggestion(plan, table)
        shown = table_of(table, plan, suggested)
        columns = len(shown.columns)
        return {
            "nothing": "",
            "value": value,
            "some": some,
            "table": drawing(shown.html()),
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
