"""The contents of each section of the report: records of the library, sentences about them, and drawings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from tether._foundation.words import counted, number
from tether.conditioning.model_sets import hidden_causes_in_words
from tether.evaluation.guarantees import guarantees_by_k
from tether.evaluation.tailoring import Tailoring
from tether.explanation import sentences as say
from tether.explanation.about_episode import left_to_chance
from tether.explanation.decisions import decide
from tether.explanation.explain import Explanation
from tether.explanation.terms import beyond_the_limits, granted, question_in_words, suggestion
from tether.explanation.verdicts import Nouns
from tether.influence.classes import CLASSES
from tether.model.model_record import ModelRecord
from tether.model.practice import strongest_in_words
from tether.plan.plan_record import PlanRecord
from tether.plan.sweep import Sweep
from tether.views.pages import drawing
from tether.views.report.beside import decision_steps, mattered, numbers_beside, shares_sentence
from tether.views.report.drawings import (
    draw_certificate,
    draw_classes,
    draw_course,
    draw_guarantees,
    draw_influence,
    draw_replay,
    draw_review,
)
from tether.views.report.report_features import Courses
from tether.views.report.report_limits import COLUMNS, table_of
from tether.views.report.report_steps import step_table

_SHARED = 8
"""Up to this many changed steps the gain is shared among them: all their subsets are computed."""

_PHONE, _TABLET = 4, 8
"""How many columns of the k × m table fit on the screen."""


@dataclass(frozen=True, eq=False)
class Contents:
    """The data of all sections, and the functions that turn names into text."""

    explanation: Explanation
    table: Sweep
    courses: Courses
    state_name: Callable[[Any], str]
    action_name: Callable[[Any], str]
    nouns: Nouns

    @property
    def plan(self) -> PlanRecord:
        return self.explanation.plan

    @property
    def tailoring(self) -> Tailoring:
        found = self.explanation.outlook.tailoring
        assert found is not None
        return found

    def sections(self) -> dict[str, Any]:
        """The sections by the names that the template has for them."""
        return {
            "nouns": self.nouns,
            "luck": self._luck(),
            "decisions": self._decisions(),
            "steps": step_table(self.explanation, self.action_name, self.nouns),
            "over_time": self._over_time(),
            "influence": self._influence(),
            "certificate": self._certificate(),
            "learned": self._learned(),
            "limits": self._limits(),
            "states": self._states(),
            "analyst": {
                "question": question_in_words(self.plan, self.table.value(self.plan.k, self.plan.m)),
                "beside": [replace(one, name=self.nouns(one.name)) for one in numbers_beside(self.explanation)],
            },
            "cannot_know": cannot_know(self.plan.cf.mdp, _how_strong(self.explanation)),
        }

    def first(self, source: str) -> dict[str, Any]:
        """The first screen: the verdicts, and the picture of the replay; ``source`` names the model."""
        found = self.explanation.verdicts(self.name, self.nouns)
        said = {one.name: getattr(found, one.name) for one in fields(found)}
        picture = draw_replay(self.explanation.replay(self.name), nouns=self.nouns)
        return {**said, "picture": picture, "source": source}

    def _luck(self) -> dict[str, Any]:
        review = self.explanation.review
        if review is None:
            return {"figure": None, "sentences": []}
        return {"figure": draw_review(review, self.nouns), "sentences": review.sentences(self.name)}

    def name(self, label: Any) -> str:
        """A state or an action as it is shown; an outcome by its own name."""
        mdp = self.plan.cf.mdp
        if label in mdp.actions:
            return self.action_name(label)
        return self.state_name(label) if label in mdp.states else str(label)

    def _decisions(self) -> dict[str, Any]:
        """The decisions that mattered most; and all of them, for the analyst."""
        plan = self.plan
        found = decide(plan.cf, plan.objective, 1, plan.rule, plan.influence, plan.minimise)
        several = 1 < len(self.explanation.changes) <= _SHARED
        rows = mattered(found, self.explanation.review, self.action_name, plan.k)
        return {
            "more": max(0, len(rows) - 5),
            "rows": rows[:5],
            "steps": decision_steps(found, self.action_name),
            "sentences": found.sentences(self.name),
            "outcome": found.outcome,
            "shares": shares_sentence(plan) if several else "",
        }

    def _over_time(self) -> dict[str, Any]:
        courses = self.courses
        drawn = [draw_course(one, f"course{i}", self.nouns) for i, one in enumerate(courses.drawn)]
        remarks = []
        if courses.steady:
            steady = ", ".join(f"{name} {value}" for name, value in courses.steady)
            remarks.append(f"The same throughout: {steady}.")
        if courses.left_out:
            remarks.append(f"{counted(courses.left_out, 'more feature')} not drawn.")
        return {"figures": drawn, "remarks": remarks}

    def _influence(self) -> dict[str, Any]:
        outlook = self.explanation.outlook
        return {
            "figure": draw_influence(outlook, self.nouns),
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
            "figure": None if found.is_certain else draw_certificate(found, self.nouns),
            "rows": found.ranges,
            "guaranteed": say.robust_plan(self.plan) is not None,
            "by_k": None if by_k is None else draw_guarantees(by_k, self.plan.k, self.nouns),
        }

    def _limits(self) -> dict[str, Any]:
        plan, table = self.plan, self.table
        value = "expected return" if plan.objective is None else "probability"
        if np.all(table.gains <= table.rounding):
            stays = number(table.observed_value)
            return {
                "nothing": f"Whatever k and m, nothing is gained: the {value} stays {stays}.",
                "score": value,
                "beyond": [],
            }
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
            "suggestion": sentence,
            "score": value,
            "beyond": beyond_the_limits(self.explanation, table),
        }

    def _states(self) -> dict[str, Any]:
        plan, near = self.plan, counted(self.plan.k, "step")
        figure, is_graph = draw_classes(plan, self.state_name, self.action_name, self.nouns)
        meanings = (
            "what was seen at that time",
            f"known ground can be met within {near}, and an allowed plan can get there",
            f"known ground can be met within {near}, but no allowed plan gets there",
            f"no known ground can be met within {near}",
        )
        return {
            "figure": figure,
            "graph": is_graph,
            "meanings": list(zip(CLASSES, meanings, strict=True)),
            "granted": granted(plan),
        }


def cannot_know(mdp: ModelRecord, hidden: str = "") -> list[tuple[str, str]]:
    """What the answer cannot know, each with a name; ``hidden`` says how strong hidden causes must be to undo it.

    Examples
    --------
    >>> import tether
    >>> [name for name, _ in cannot_know(tether.cases.epidemic().mdp)]
    ['Hindsight', 'Hidden causes', 'What the model leaves out']
    """
    return [
        (
            "Hindsight",
            "The plan knows how each observed step ended. Nobody could know that at the time. It says what would have "
            "helped in this episode. It is not a rule for the next one, and not a verdict on those who decided.",
        ),
        (
            "Hidden causes",
            "The model assumes that the effect of an action depends on the state and on nothing else. Perhaps those "
            "who decided saw more than the state contains, and this also affects the outcome. Then effects are mixed "
            f"up with reasons, and the answer can be wrong in either direction. {hidden}".rstrip(),
        ),
        ("What the model leaves out", _left_out(mdp)),
    ]


def _how_strong(explanation: Explanation) -> str:
    """How strong hidden causes must be to undo the gain; and how strong a recorded variable would have been."""
    found, mdp = explanation.certificate, explanation.plan.cf.mdp
    if found is None:
        return "How strong such reasons must be to undo the gain was not computed."
    if found.gain <= 0.0:
        return "No gain is guaranteed here even without such reasons."
    text = hidden_causes_in_words(found.gamma_star, found.practice_assumed)
    return text if np.isinf(found.gamma_star) else f"{text} {strongest_in_words(mdp)}".rstrip()


def _left_out(mdp: ModelRecord) -> str:
    kept = f"The model describes every moment by one of {counted(mdp.n_states, 'state')}, and what was done by one of "
    text = f"{kept}{counted(mdp.n_actions, 'action')}. Differences within a state count as chance. "
    if mdp.counts is None:
        return f"{text}The probabilities are taken as given: how wrong they are is not known here."
    source = counted(mdp.counts.episodes, "episode") if mdp.counts.episodes else "a log"
    text += f"The model was learned from {source}. What these never show is impossible in the model, "
    return f"{text}and what they show rarely is known poorly."
