"""The step-by-step table: what happened, what the plan would do, what it gains, whether the observation speaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tether._html import shortened, signed, told
from tether._words import counted, number
from tether.explanation.explain import ExplainedStep, Explanation
from tether.views.report.words import percent

__all__ = ["step_table"]

_SHOWN = 200
"""How many steps are listed; of longer episodes, those at which the plan changes the action most often."""

_HEAD = (
    "t",
    "What happened",
    "What was done",
    "Plan: likeliest state",
    "Plan: action there",
    "Changed",
    "Gain here",
    "Observation speaks",
)


def step_table(explanation: Explanation, action_name: Callable[[Any], str]) -> str:
    """One row a step; the names of the columns are in the rows too, for narrow screens."""
    steps = _chosen(explanation)
    head = "".join(f"<th scope='col'>{told(name)}</th>" for name in _HEAD)
    rounding = 1e-9 * max(1.0, abs(explanation.plan.value), abs(explanation.plan.observed_value))
    befores: list[ExplainedStep | None] = [None, *steps[:-1]]
    body = "".join(
        _row(step, before, explanation, action_name, rounding) for before, step in zip(befores, steps, strict=True)
    )
    left = len(explanation.steps) - len(steps)
    missing = f"{counted(left, 'step')} not shown: those at which the plan changes the action least often."
    note = f"<p class='note'>{missing}</p>" if left else ""
    return f"<table class='steps'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"


def _chosen(explanation: Explanation) -> list[ExplainedStep]:
    """Steps to list, in order: all, or those that change and then the first ones."""
    steps = list(explanation.steps)
    if len(steps) <= _SHOWN:
        return steps
    first = sorted(steps, key=lambda step: (-step.changed, step.t))[:_SHOWN]
    return sorted(first, key=lambda step: step.t)


def _row(
    step: ExplainedStep,
    before: ExplainedStep | None,
    explanation: Explanation,
    action_name: Callable[[Any], str],
    rounding: float,
) -> str:
    T = explanation.plan.T
    last = step.t == T
    unknown = last and not explanation.plan.cf.path.last_recorded
    same = before is not None and step.observed_state == before.observed_state
    seen = "not recorded" if unknown else "as before" if same else ""
    seen = f"<i>{seen}</i>" if seen else shortened(step.observed_state)
    state = _state(step, before, unknown)
    cells = [
        str(step.t),
        seen,
        "" if last else shortened(action_name(step.observed_action)),
        f"{state} {_chance(step.state_probability)}",
        "" if last else _action(step, action_name),
        "" if last else _changed(step.changed),
        _gain(step.gain, rounding) if not last or abs(step.gain) > rounding else "",
        "" if last else _influence(step),
    ]
    look = " class='changed'" if step.changed > 0.5 else ""
    body = "".join(
        f"<td data-name='{told(name)}'{'' if cell else ' class=none'}><div>{cell}</div></td>"
        for name, cell in zip(_HEAD, cells, strict=True)
    )
    return f"<tr{look}>{body}</tr>"


def _state(step: ExplainedStep, before: ExplainedStep | None, unknown: bool) -> str:
    """The plan's state; in two words where the row has it already, or the row above spelt it out."""
    if not unknown and step.state == step.observed_state:
        return "<i>as observed</i>"
    spelt = before is not None and before.state != before.observed_state
    return "<i>as before</i>" if before is not None and spelt and step.state == before.state else shortened(step.state)


def _changed(share: float) -> str:
    return "<i>no</i>" if share <= 1e-12 else "<b>yes</b>" if share > 1 - 1e-9 else f"{percent(share)}"


def _chance(share: float) -> str:
    return "" if share > 1 - 1e-9 else f"<small>{percent(share)}</small>"


def _action(step: ExplainedStep, action_name: Callable[[Any], str]) -> str:
    same = step.action == step.observed_action
    name = "<i>as done</i>" if same else f"<b>{shortened(action_name(step.action))}</b>"
    return f"{name} {_chance(step.action_probability)}"


def _gain(gain: float, rounding: float) -> str:
    if abs(gain) <= rounding:
        return "0"
    return ("+" if gain > 0 else "") + signed(number(gain))


def _influence(step: ExplainedStep) -> str:
    """The probability of influence as a bar, its strength as the filled part."""
    bar = (
        f"<span class='bar'><span style='width:{100 * step.influenced:.0f}%'></span>"
        f"<span style='width:{100 * step.strength:.0f}%'></span></span>"
    )
    if step.influenced <= 1e-12:
        return f"{bar} no"
    often = "yes" if step.influenced > 1 - 1e-9 else percent(step.influenced)
    strength = f" <small>strength {step.strength:.2f}</small>" if step.strength >= 0.005 else ""
    return f"{bar} {often}{strength}"
