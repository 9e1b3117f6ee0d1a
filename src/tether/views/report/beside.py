"""The numbers beside the answer, and the decisions step by step, as records for the template."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tether._foundation.markup import with_minus_signs
from tether._foundation.rounding import ROUNDING, rounding_of
from tether._foundation.words import average, cut_apart, number, percent, strength_in_words, three_digits
from tether.errors import QueryError
from tether.evaluation.outcomes import UNDER_WAY
from tether.evaluation.shares import shares
from tether.explanation import sentences as say
from tether.explanation.about_episode import left_to_chance
from tether.explanation.decisions import Decision, Decisions
from tether.explanation.explain import Explanation
from tether.explanation.mistakes import Review
from tether.explanation.outcome_chances import goes_on
from tether.plan.plan_record import PlanRecord

_NAME = 80
"""How long the name of an action may be."""


@dataclass(frozen=True, slots=True)
class Beside:
    """One row of the numbers beside the answer: what happened, the plan, and the policy that is best for anyone."""

    name: str
    observed: str
    plan: str
    optimal: str


@dataclass(frozen=True, slots=True)
class Action:
    """One action of a step: its name, whether it was done, and its numbers as text."""

    name: str
    is_observed: bool
    mistake: str
    value: str
    gain: str
    avoided: str
    strength: str
    needed_k: int


@dataclass(frozen=True, slots=True)
class DecisionStep:
    """One step, or a stretch of steps in which no action would have changed anything: its line, and its actions."""

    line: str
    actions: tuple[Action, ...]
    mattered: bool


def numbers_beside(explanation: Explanation) -> list[Beside]:
    """How the episode ends, the return, how much is changed, and the two measures of influence."""
    plan, outlook, optimal = explanation.plan, explanation.outlook, explanation.optimal
    lines = []
    ends = () if goes_on(plan.cf, outlook) else explanation.outcomes.every_end
    for one in sorted(ends, key=lambda one: (one.name == UNDER_WAY, -one.observed)):  # first what happened
        if max(one.observed, one.plan, one.optimal) > ROUNDING:
            lines.append(
                Beside(say.first_letter(one.name), *map(say.chance_in_words, (one.observed, one.plan, one.optimal)))
            )
    if plan.objective is None and explanation.changes:
        risk = explanation.risk
        lines += [
            Beside(f"Ends with a {which} score than what happened", "–", percent(chance), "–")
            for which, chance in (("lower", risk.worse), ("higher", risk.better))
        ]
    kind = "Expected return (score)" if say.robust_plan(plan) is None else "Guaranteed return"
    if plan.objective is not None:
        kind = f"Chance that {plan.objective.in_words}"
    values = (plan.observed_value, plan.value, optimal.value)
    lines.append(
        Beside(
            kind,
            *(with_minus_signs(number(one)) if plan.objective is None else say.chance_in_words(one) for one in values),
        )
    )
    changes = (sum(float(share) for share in one.changed) for one in (outlook, optimal) if one.changed is not None)
    lines.append(Beside("Actions changed", "–", *map(average, changes)))
    if left_to_chance(plan.asked, outlook.chain):
        measures = [one.tailoring for one in (outlook, optimal) if one.tailoring is not None]
        about = (percent(one.about_episode) for one in measures)
        lines.append(Beside("About this episode, from the first change on", "–", *about))
        influenced = [average(one.expected_influenced_steps) for one in measures]
        if plan.objective is None:
            lines.append(Beside(f"Steps on known ground (of {plan.T})", "–", *influenced))
        else:
            of = (f"{n} of {average(one.expected_steps)}" for n, one in zip(influenced, measures, strict=True))
            lines.append(Beside("Steps on known ground, until it is decided", "–", *of))
    return lines


def decision_steps(decisions: Decisions, action_name: Callable[[Any], str]) -> list[DecisionStep]:
    """One line per step, with its actions; consecutive steps in which nothing mattered share a line."""
    names = {row.action: action_name(row.action) for row in decisions.rows}
    short = dict(zip(names, cut_apart(list(names.values()), _NAME), strict=True))
    found = []
    for first, last in decisions.stretches():
        rows = decisions.at(first)
        if decisions.is_idle(first):
            when = f"Step {first}" if first == last else f"Step {first} … {last}"
            only = " (only one action is available)" if len(rows) == 1 and first == last else ""
            found.append(DecisionStep(f"{when}: no other action would have changed anything{only}.", (), False))
        else:
            actions = tuple(_action(row, short[row.action]) for row in sorted(rows, key=_worth))
            found.append(DecisionStep(_line(decisions, first, rows, short), actions, True))
    return found


@dataclass(frozen=True, slots=True)
class Mattered:
    """A decision that mattered: what was done, what could be known then, and what only hindsight says."""

    t: int
    done: str
    known: str
    hindsight: str
    weight: tuple[float, float]


def mattered(decisions: Decisions, review: Review | None, action_name: Callable[[Any], str], k: int) -> list[Mattered]:
    """The decisions that mattered, those that cost most first."""
    found, rounding = [], rounding_of(decisions.observed_value)
    for step in () if review is None else review.steps:
        if step.action is None:
            continue
        others = [row for row in decisions.at(step.t) if not row.is_observed and row.gain is not None]
        best = max(others, key=lambda row: row.gain or 0.0, default=None)
        gain = 0.0 if best is None else best.gain or 0.0
        known, hindsight = "the model's best", "nothing to gain"
        if step.is_claimed:
            known = f"mistake: {action_name(step.best)} was better by {three_digits(step.cost)}"
        elif step.mistake > rounding:
            known = f"the log does not show that {action_name(step.best)} was better"
        if best is not None and gain > rounding:
            hindsight = f"{action_name(best.action)}: gains {three_digits(gain)}"
            hindsight += f" (not used: needs k ≥ {best.needed_k})" if best.needed_k > k else ""
        if step.mistake > rounding or gain > rounding:
            weight = (step.cost if step.is_claimed else 0.0, gain)
            found.append(Mattered(step.t, action_name(step.action), known, hindsight, weight))
    return sorted(found, key=lambda one: one.weight, reverse=True)


def shares_sentence(plan: PlanRecord) -> str:
    """What each changed step adds to the gain; empty if the gain cannot be shared."""
    try:
        return str(shares(plan))
    except QueryError:  # without some of the changes, an observed action is not available
        return ""


def _line(decisions: Decisions, t: int, rows: tuple[Decision, ...], short: dict[Any, str]) -> str:
    done = next(row for row in rows if row.is_observed)
    others = [row for row in rows if not row.is_observed and row.gain is not None]
    text = f"Step {t}: {short[done.action]} was done. "
    if not others:
        return f"{text}Nothing can be said about the others alone."
    best = max(others, key=lambda row: row.gain or 0.0)
    gain = best.gain or 0.0
    if gain > rounding_of(decisions.observed_value):
        then = {
            "better": "it could be known then that it was better",
            "not shown": "the log does not show that it was better then",
            "not better": "nobody could know that then",
            "": "",
        }
        known = then[decisions.known_then(best)]
        said = f"With hindsight, {short[best.action]} alone gains {with_minus_signs(number(gain))}"
        return f"{text}{said}{f'; {known}' if known else ''}."
    return f"{text}No other action alone would have gained anything."


def _action(row: Decision, name: str) -> Action:
    return Action(
        name,
        row.is_observed,
        "–" if row.mistake is None else "0" if row.mistake == 0 else number(row.mistake),
        "–" if row.value is None else with_minus_signs(number(row.value)),
        "–" if row.gain is None else _gain(row.gain),
        "–" if row.necessity is None else percent(row.necessity),
        strength_in_words(row.strength),
        row.needed_k,
    )


def _worth(row: Decision) -> tuple[bool, float]:
    """What was done first, then by what it gains."""
    return (not row.is_observed, -(row.gain if row.gain is not None else float("-inf")))


def _gain(gain: float) -> str:
    return "0" if abs(gain) <= ROUNDING else ("+" if gain > 0 else "") + with_minus_signs(number(gain))
