"""The sections of the report, each a function from its contents to HTML."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._html import shortened, signed, told, typeset
from tether._words import counted, number
from tether.evaluation.evaluate import Evaluation, Tailoring
from tether.explanation.explain import Explanation
from tether.influence.classes import CLASSES
from tether.plan.plan import Plan
from tether.plan.sweep import Sweep
from tether.views.report.charts import draw_band, draw_influence, draw_strip
from tether.views.report.features import Band, Courses
from tether.views.report.keys import INFLUENCE, VALUES, key, over_time_key
from tether.views.report.layers import LOOKS, draw_layers
from tether.views.report.limits import COLUMNS, draw_values, table_of
from tether.views.report.settings import meanings, settings
from tether.views.report.tables import step_table
from tether.views.report.words import about, average, beyond, changes, expected, granted, headline, suggestion, tied

__all__ = ["SECTIONS", "Contents"]


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """All that a page is made of: records of the library, and how to name what they hold."""

    explanation: Explanation
    table: Sweep
    complete: bool
    courses: Courses
    state_name: Callable[[Any], str]
    action_name: Callable[[Any], str]
    facts: Mapping[str, Any]

    @property
    def plan(self) -> Plan:
        return self.explanation.plan

    @property
    def outlook(self) -> Evaluation:
        return self.explanation.outlook

    @property
    def held(self) -> Tailoring:
        held = self.outlook.tailoring
        assert held is not None
        return held


def _summary(contents: Contents) -> str:
    plan, explanation, table = contents.plan, contents.explanation, contents.table
    best = table.value(plan.k, plan.m)
    listed = "".join(f"<li>{shortened(one, 400)}</li>" for one in changes(explanation, contents.action_name))
    parts = (
        ("What to change", f"<ul>{listed}</ul>" if listed else ""),
        ("What to expect", _paragraph(expected(explanation, best))),
        ("How far it is still about this episode", _paragraph(tied(plan, contents.held))),
        ("What other limits would give", _paragraph(beyond(explanation, table, contents.complete))),
    )
    return (
        f"<p class='about'>{typeset(about(plan, best))}</p>\n<p class='lead'>{typeset(headline(explanation))}</p>"
        + _cards(contents)
        + "".join(f"\n<h3>{told(title)}</h3>{text}" for title, text in parts if text)
    )


def _cards(contents: Contents) -> str:
    """The four numbers to remember."""
    plan, outlook = contents.plan, contents.outlook
    changed = sum(step.changed for step in contents.explanation.steps)
    spread = "certain" if outlook.std == 0 else f"standard deviation {number(outlook.std)}"
    steps = contents.held.expected_influenced_steps
    cards = (
        ("Expected return", number(plan.value), f"observed {number(plan.observed_value)}"),
        ("Gain", _difference(plan.gain, plan.observed_value), spread),
        ("Actions changed", average(changed), f"of at most {plan.m}"),
        ("Still about this episode", average(steps), f"of {counted(plan.T, 'step')}"),
    )
    shown = (f"<div><dt>{a}</dt><dd>{signed(b)} <small>{signed(c)}</small></dd></div>" for a, b, c in cards)
    return f"<dl class='cards'>{''.join(shown)}</dl>"


def _steps(contents: Contents) -> str:
    text = (
        "At each time t, what was observed and done, and what the plan would do in the state it is then most likely "
        "in. The percentage says how likely that state is, or how often that action is taken in it. What the steps "
        "gain adds up to the expected gain of the plan."
    )
    return _section("Step by step", f"<p>{text}</p>{step_table(contents.explanation, contents.action_name)}")


def _over_time(contents: Contents) -> str:
    courses = contents.courses
    figures = [_figure("Return so far", draw_band(_returns(contents), "standard deviation"))]
    for one in courses.drawn:
        figures.append(_figure(one.name, draw_band(one) if isinstance(one, Band) else draw_strip(one)))
    strips = any(not isinstance(one, Band) for one in courses.drawn)
    charts = f"{key(*over_time_key(strips))}<div class='charts'>{''.join(figures)}</div>"
    return _section("Over time", charts + _remarks(courses))


def _returns(contents: Contents) -> Band:
    course = contents.outlook.returns
    gained = np.cumsum([0.0, *(step.gain for step in contents.explanation.steps[:-1])])
    low, high = course.mean - course.std, course.mean + course.std
    return Band("Return so far", course.mean, low, high, course.mean - gained, whole=False)


def _remarks(courses: Courses) -> str:
    """What is not drawn, and why."""
    remarks = []
    if courses.steady:
        remarks.append("The same throughout: " + ", ".join(f"{name} {value}" for name, value in courses.steady) + ".")
    if courses.left_out:
        remarks.append(f"{counted(courses.left_out, 'feature')} more not drawn.")
    return "".join(f"<p class='note'>{shortened(remark, 600)}</p>" for remark in remarks)


def _influence(contents: Contents) -> str:
    changed = contents.outlook.changed
    assert changed is not None
    text = (
        "An outlined bar is the probability that what was observed at that time says anything about the step the plan "
        "then takes. The filled bar is how much it says: the part of the probability that the observation moves. Where "
        "there is no bar, the plan expects only what the model expects of anyone."
    )
    runs = "".join(f"<p>{typeset(one)}</p>" for one in tied(contents.plan, contents.held)[1:])
    marks = INFLUENCE if contents.explanation.changes else INFLUENCE[:-1]
    drawn = _figure("", draw_influence(contents.held, changed))
    return _section("Where the observation still speaks", key(*marks) + _pair(drawn, f"<p>{text}</p>{runs}"))


def _limits(contents: Contents) -> str:
    plan, table = contents.plan, contents.table
    if np.all(table.values - table.observed_value <= 1e-9 * max(1.0, abs(table.observed_value))):
        nothing = f"Whatever k and m, nothing is gained: the expected return stays {number(table.observed_value)}."
        return _section("Other limits", f"<p>{typeset(nothing)}</p>")
    some = " Of so many, only some are shown." if table.ms.size > COLUMNS else ""
    if not contents.complete:
        some = " The model is large: only some limits were looked at."
    text = (
        "The expected return of the best plan for each length of the tether, k, and each number of changes, m. The "
        "darker, the more is gained; the limits of this plan are outlined. Neighbours that are the same are taken "
        f"together.{some}"
    )
    suggested, sentence = suggestion(plan, table)
    marks = [(mark, name.format(m=plan.m, k=plan.k, suggested=suggested)) for mark, name in VALUES]
    meaning = (
        "A shorter tether keeps the plan closer to this episode; a longer one lets it gain more, by relying on what "
        "happens to others."
    )
    return _section(
        "Other limits",
        f"<p>{text}</p><div class='scroll'>{table_of(table, plan)}</div><h3>Which k?</h3>"
        + key(*(marks if suggested is not None else marks[:-1]))
        + _pair(_figure("", draw_values(table, plan, suggested)), f"<p>{typeset(sentence)}</p><p>{meaning}</p>"),
    )


def _layers(contents: Contents) -> str:
    plan, near = contents.plan, counted(contents.plan.k, "step")
    states = [visits.states for visits in contents.outlook.chain.visits]  # ascending
    visited = [layer[np.flatnonzero(np.diff(layer, prepend=-1))] for layer in states]
    drawn, is_graph = draw_layers(plan, visited, contents.state_name, contents.action_name)
    meanings_of = (
        "what was seen at that time",
        f"the observation's influence is within {near}, and an allowed plan can get there",
        f"it is within {near}, but no allowed plan gets there",
        f"it is further away than {near}",
    )
    boxes = [
        (f"<rect class='{look}' x='1' y='1' width='24' height='10'/>", f"{name}: {what}")
        for look, name, what in zip(LOOKS, CLASSES, meanings_of, strict=True)
    ]
    text = "Every state that could have been reached, whatever the actions, given the luck of this episode"
    note = f"<p class='note'>{typeset(granted(plan))}</p>"
    if is_graph:
        boxes.append(("<rect class='visited' x='1' y='1' width='24' height='10' rx='5'/>", "the plan can be here"))
        text += (
            "; and the steps between them. Thick arrows were observed, thin ones are allowed, grey ones no longer "
            "reached, dashed ones not allowed."
        )
        body = f"<p>{text}</p>{key(*boxes)}<div class='scroll'>{drawn}</div>{note}"
    else:
        text += (
            ": at each time, what part of them is of which class. The numbers below are how many there are in all, and "
            "how many of them the plan can be in."
        )
        body = _pair(_figure("", drawn), f"<p>{text}</p>{key(*boxes)}{note}")
    return _section("The states over time", body)


def _words(contents: Contents) -> str:
    return _section("How to read this", _list(meanings(contents.plan)))


def _settings(contents: Contents) -> str:
    rows = settings(contents.plan, contents.state_name, contents.facts)
    return _section("What made this report", _list(rows))


SECTIONS = (_summary, _steps, _over_time, _influence, _limits, _layers, _words, _settings)
"""In the order of the page."""


def _section(title: str, body: str) -> str:
    return f"<section><h2>{told(title)}</h2>{body}</section>"


def _paragraph(sentences: list[str]) -> str:
    return f"<p>{typeset(' '.join(sentences))}</p>" if sentences else ""


def _figure(name: str, drawing: str) -> str:
    caption = f"<figcaption>{shortened(name, 80)}</figcaption>" if name else ""
    return f"<figure>{caption}{drawing}</figure>"


def _pair(left: str, right: str) -> str:
    """Side by side where there is room."""
    return f"<div class='pair'>{left}<div>{right}</div></div>"


def _list(rows: list[tuple[str, str]]) -> str:
    listed = "".join(f"<dt>{told(name)}</dt><dd>{shortened(what, 1000)}</dd>" for name, what in rows)
    return f"<dl class='words'>{listed}</dl>"


def _difference(gain: float, beside: float) -> str:
    if abs(gain) <= 1e-9 * max(1.0, abs(beside)):
        return "none"
    return ("+" if gain > 0 else "") + number(gain)
