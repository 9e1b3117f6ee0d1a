"""What if: another action at some steps, or the best from some step on; beside what happened, and beside others."""

from __future__ import annotations

from typing import Any

from tether._foundation.rounding import ROUNDING, rounding_of
from tether._foundation.words import average, number, percent, strength_in_words
from tether.conditioning.model_sets import IN_SHORT
from tether.evaluation.certificate import Certificate
from tether.evaluation.evaluate import Evaluation, evaluate_policy
from tether.evaluation.outcomes import every_end
from tether.evaluation.return_distribution import middle_half
from tether.evaluation.tailoring import Tailoring
from tether.explanation.what_if import WhatIf
from tether.explorer.answer_cache import EpisodeAnswer
from tether.explorer.panels import Asked
from tether.explorer.panels.over_time_panel import drawings_of
from tether.explorer.view import Choices

_STEPS = 100
"""How many steps can be chosen for on the page; the address can hold more."""

_ACTIONS = 200
"""How many actions a menu holds."""

_LARGE = 20_000
"""The most nodes that a what-if can reach for its certificate to be computed at once."""


def what_if_part(asked: Asked) -> dict[str, Any]:
    """The choices, what follows from them in sentences, and the comparison."""
    answer, view = asked.answer, asked.view
    chosen = view.chosen
    found = answer.question.what_if(chosen)
    asked.check()
    other = None if view.beside is None else answer.question.what_if(view.beside)
    return {
        "any": bool(chosen.made),
        "steps": _steps(asked, answer, found),
        "more": max(0, answer.cf.T - _STEPS),
        "sentences": found.sentences(answer.naming.any),
        "value": found.value,
        "table": _compared(asked, answer, found, other),
        "undo": view.address(chosen=chosen.undone()) if chosen.made else None,
        "reset": view.address(chosen=Choices(), beside=None) if chosen.made or view.beside is not None else None,
        "keep": view.address(beside=chosen) if chosen != view.beside else None,
        "swap": None if view.beside is None else view.address(chosen=view.beside, beside=chosen),
        "drop": None if view.beside is None else view.address(beside=None),
        "best": view.address(chosen=chosen.best(0)),
        "plan_too": _as_the_plan(answer, asked),
    }


def if_over_time_part(asked: Asked) -> dict[str, Any]:
    """What would have followed, over time."""
    answer = asked.answer
    found = answer.question.what_if(asked.view.chosen)
    return drawings_of(asked, answer, answer.plan, found.outlook, "if")


def _steps(asked: Asked, answer: EpisodeAnswer, what_if: WhatIf) -> list[dict[str, Any]]:
    """One row per step: what happened, what can be chosen, and what to expect then."""
    cf, naming, view = answer.cf, answer.naming, asked.view
    mdp, chosen = cf.mdp, view.chosen
    best_from, rows = chosen.best_from, []
    for step in what_if.steps[: min(cf.T, _STEPS)]:
        t = step.t
        visits = what_if.outlook.chain.visits[t].states
        there = _available(answer, visits)
        done = int(cf.observation.actions[t])
        now = chosen.actions.get(t, done)
        is_best = best_from is not None and t >= best_from
        rows.append(
            {
                "t": t,
                "state": naming.state(step.observed_state),
                "done": naming.action_at(done),
                "menu": [(a, naming.action_at(a)) for a in dict.fromkeys([done, now, *there])],
                "now": now,
                "observed": done,
                "is_best": is_best,
                "is_changed": step.changed > 0,
                "best": view.address(chosen=chosen.best(t)),
                "is_best_from": t == best_from,
                "likeliest": naming.state(step.state),
                "likely": percent(step.state_probability),
                "as_observed": step.state == step.observed_state,
                "changed": percent(step.changed),
                "strength": strength_in_words(step.strength),
                "gain": number(step.gain) if abs(step.gain) > ROUNDING else "0",
                "why": view.address(tab="why", t=t, state=mdp.state_index(step.state), action=-1),
            }
        )
    return rows


def _available(answer: EpisodeAnswer, states: Any) -> list[int]:
    """Actions that can be taken in one of the states."""
    form = answer.cf.mdp.form
    found: dict[int, None] = {}
    for s in states[:_ACTIONS].tolist():
        found.update(dict.fromkeys(form.pair_action[form.pair_start[s] : form.pair_start[s + 1]].tolist()))
    return sorted(found)[:_ACTIONS]


def _compared(asked: Asked, answer: EpisodeAnswer, what_if: WhatIf, other: WhatIf | None) -> dict[str, Any]:
    """Everything about each, in columns."""
    explanation = answer.explanation
    tied = answer.tied
    seen = evaluate_policy(answer.cf, "observed", tied.influence, tied.objective)
    asked.check()
    columns: list[tuple[str, Evaluation, int | None, Certificate | None]] = [
        ("what happened", seen, 1, None),
        (
            f"the plan, k = {answer.plan.k}, m = {answer.plan.m}",
            explanation.outlook,
            answer.plan.k,
            answer.explanation.certificate,
        ),
        ("this what-if", what_if.outlook, what_if.needed_k, _certificate(what_if)),
    ]
    if other is not None:
        asked.check()
        columns.append(("the other what-if", other.outlook, other.needed_k, _certificate(other)))
    observed, T = what_if.observed_value, answer.cf.T
    value_name = "expected return" if tied.objective is None else f"probability that {tied.objective.in_words}"
    outcomes = [every_end(answer.cf.mdp, *one.ends) for _, one, _, _ in columns]
    rows: list[tuple[str, list[str]]] = [
        (value_name, [number(one.value) for _, one, _, _ in columns]),
        *([("half of the replays", [_half(one) for _, one, _, _ in columns])] if tied.objective is None else []),
        ("gain", [_gain(one.value - observed, observed) for _, one, _, _ in columns]),
        *(
            (f"outcome: {name}", [percent(by.get(name, 0.0)) for by in outcomes])
            for name in dict.fromkeys(name for by in outcomes for name in by)
        ),
        ("actions changed", [average(float(one.changed.sum())) for _, one, _, _ in columns if one.changed is not None]),
        ("about it, from the first change on", [percent(_tailoring(one).about_episode) for _, one, _, _ in columns]),
        ("steps on known ground", [_influenced(one) for _, one, _, _ in columns]),
        ("tether it needs", ["no tether" if k is None or k > T else f"k = {k}" for _, _, k, _ in columns]),
        (f"under {IN_SHORT}", [number(observed), *(_range(one, False) for _, _, _, one in columns[1:])]),
        ("the same, luck related over time", [number(observed), *(_range(one, True) for _, _, _, one in columns[1:])]),
    ]
    return {"head": [name for name, _, _, _ in columns], "rows": rows, "sentence": _sure(columns[2][3])}


def _certificate(what_if: WhatIf) -> Certificate | None:
    nodes = sum(visits.size for visits in what_if.outlook.chain.visits)
    return what_if.certificate if nodes <= _LARGE else None


def _sure(certificate: Certificate | None) -> str:
    return "Other causal models were not considered here." if certificate is None else certificate.sentence


def _range(certificate: Certificate | None, related: bool) -> str:
    if certificate is None:
        return "–"
    worst, best = map(number, certificate.related if related else (certificate.nothing.worst, certificate.nothing.best))
    return worst if worst == best else f"{worst} to {best}"


def _half(evaluation: Evaluation) -> str:
    found = middle_half(evaluation)
    if found is None:
        return "–"
    low, high = map(number, found)
    return low if low == high else f"{low} to {high}"


def _gain(gain: float, observed: float) -> str:
    return "0" if abs(gain) <= rounding_of(observed) else ("+" if gain > 0 else "") + number(gain)


def _influenced(evaluation: Evaluation) -> str:
    about = _tailoring(evaluation)
    return f"{average(about.expected_influenced_steps)} of {average(about.expected_steps)}"


def _tailoring(evaluation: Evaluation) -> Tailoring:
    assert evaluation.tailoring is not None  # there is an observation
    return evaluation.tailoring


def _as_the_plan(answer: EpisodeAnswer, asked: Asked) -> str | None:
    """The plan's own changes as a what-if, if they do not depend on what happens."""
    made = []
    for step in answer.explanation.steps[:-1]:
        if answer.explanation.outlook.actions(step.t).get(step.instead, 0.0) > 1 - ROUNDING:
            made.append((step.t, answer.cf.mdp.actions.find(step.instead)))
        elif step.changed > ROUNDING:
            return None
    chosen = Choices(tuple(made))
    return asked.view.address(chosen=chosen) if made and chosen != asked.view.chosen else None
