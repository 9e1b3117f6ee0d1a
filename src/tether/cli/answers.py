"""Answers as JSON: plain structures, numbers at full precision, labels as JSON values.

A label that is a named tuple becomes an object, another tuple a list; a number that is not finite is null; what
JSON has no word for is its text. Fields may be added in later versions; none changes its meaning.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import msgspec

from tether._version import __version__

if TYPE_CHECKING:
    from tether.evaluation.evaluate import Evaluation
    from tether.explanation.explain import ExplainedStep
    from tether.plan.plan import Plan

__all__ = [
    "Answer",
    "PlanAnswer",
    "StepAnswer",
    "TailoringAnswer",
    "label",
    "labels",
    "plan_fields",
    "print_json",
    "step_answer",
    "tailoring_answer",
]


class Answer(msgspec.Struct, kw_only=True):
    """What a command answers; each command has its own, with these fields first."""

    command: str
    version: str = __version__


class PlanAnswer(Answer, kw_only=True):
    """What a command answers about a plan: these fields first."""

    model: str
    path: str
    T: int
    k: int
    m: int
    rule: str
    influence: str
    discount: float


class StepAnswer(msgspec.Struct):
    """A step: what happened, and what the plan would do; see `tether.ExplainedStep`."""

    t: int
    observed_state: Any
    observed_action: Any
    state: Any
    state_probability: float
    action: Any
    action_probability: float
    instead: Any
    changed: float
    influenced: float
    strength: float
    return_so_far: float
    gain: float
    observed_outcome: str | None
    outcome: str | None
    outcome_probability: float | None


class TailoringAnswer(msgspec.Struct):
    """How much of it is still about the episode; see `tether.Tailoring`."""

    expected_influenced_steps: float
    longest_run: int
    longest_run_probability: float


def label(given: Any) -> Any:
    """A label as a JSON value.

    >>> import tether
    >>> label(tether.cases.epidemic().path.states[0])
    {'S': 9, 'I': 1, 'V': 20}
    >>> label(("a", 1.5, None)), label(1 + 2j)
    (['a', 1.5, None], '(1+2j)')
    """
    if given is None or isinstance(given, bool | float):
        return given
    if isinstance(given, int):
        return given if -(2**63) <= given < 2**64 else str(given)
    if isinstance(given, str):
        return given.encode("utf-8", "backslashreplace").decode()  # a lone surrogate has no place in JSON
    if isinstance(given, tuple):
        fields = getattr(given, "_fields", None)
        values = [label(part) for part in given]
        return values if fields is None else dict(zip(fields, values, strict=True))
    return str(given)


def labels(given: Any) -> list[Any]:
    """Names as a list of JSON values."""
    return [label(one) for one in given]


def plan_fields(plan: Plan, model: str, path: str) -> dict[str, Any]:
    """The fields of a `PlanAnswer`, less the command."""
    return {
        "model": model,
        "path": path,
        "T": plan.T,
        "k": plan.k,
        "m": plan.m,
        "rule": plan.rule,
        "influence": str(plan.influence),
        "discount": plan.cf.mdp.discount,
    }


def step_answer(step: ExplainedStep) -> StepAnswer:
    """A step as JSON."""
    named = {"observed_state", "observed_action", "state", "action", "instead"}
    given = {name: getattr(step, name) for name in StepAnswer.__struct_fields__}
    return StepAnswer(*(label(value) if name in named else value for name, value in given.items()))


def tailoring_answer(outlook: Evaluation) -> TailoringAnswer:
    """How tailored a policy is, as JSON."""
    held = outlook.tailoring
    assert held is not None
    return TailoringAnswer(held.expected_influenced_steps, held.longest_run, held.longest_run_probability)


def print_json(answer: Any) -> None:
    """Print an answer to standard output: in one line, or indented where a person looks."""
    out = sys.stdout.buffer  # JSON is UTF-8, whatever the terminal's encoding
    data = msgspec.json.encode(answer)
    pretty: bytes = msgspec.json.format(data, indent=2) if out.isatty() else data
    out.write(pretty + b"\n")
    out.flush()
