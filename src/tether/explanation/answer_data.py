"""Records as plain data, ready to be written as JSON: dictionaries, lists, numbers, text.

A record becomes an object with its own fields. Some records hold more than an answer (a model, the course of a
computation); for these, a list here says which fields are written. A name that is a named tuple becomes an object,
another tuple a list; an array becomes lists; a number that is not finite becomes null; any other value its text.

This is a pass of its own because msgspec calls no hook for named tuples and dataclasses: it would write the former
as lists, and the latter with the whole model inside.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tether.errors import Problem
from tether.evaluation.hindsight import AdvisedChange, advised_changes
from tether.evaluation.plan_risk import Risk
from tether.evaluation.ranges import best_case
from tether.evaluation.tailoring import about_plan
from tether.model.learned import Learned
from tether.plan.robust_record import RobustPlanRecord

if TYPE_CHECKING:
    from tether.explanation.explain import Explanation
    from tether.learning.uncertainty import PlanUncertainty
    from tether.model.properties import Property
    from tether.plan.plan_record import PlanRecord

_LEVEL = 0.9
"""The level of credible intervals."""

_ATTRIBUTES = {
    "Tailoring": (
        "strength",
        "influenced",
        "expected_influenced_steps",
        "expected_steps",
        "longest_run",
        "longest_run_probability",
    ),
    "Learned": tuple(field.name for field in fields(Learned) if field.name != "advisable"),
    "PlanUncertainty": ("draws", "mean", "std", "probability_better", "changes"),
    "Why": ("action", "allowed", "needed", "reason", "nearest", "path", "successor", "because", "sentence"),
    "Certificate": (
        "verdict",
        "sentence",
        "value",
        "observed_value",
        "gain",
        "nothing",
        "stability",
        "worse",
        "better",
    ),
    "Hindsight": ("gain", "foresight", "hindsight", "foreseeable"),
    "AdvisedChange": (*(field.name for field in fields(AdvisedChange)), "better_at_the_time"),
    "Review": ("horizon", "expected", "mistakes", "claimed", "luck", "observed", "unlike", "steps", "outcome"),
    "Risk": (*(field.name for field in fields(Risk)), "is_exact"),
    "Problem": ("message", *(field.name for field in fields(Problem))),
}
"""The fields that are written, for records that hold more than an answer or that have properties to write."""


def as_data(value: Any) -> Any:
    """A record, an array or a name as plain data.

    Examples
    --------
    >>> import tether
    >>> as_data(tether.cases.epidemic().path.states[0])
    {'S': 9, 'I': 1, 'V': 20}
    >>> as_data(("a", float("nan"), None)), as_data(1 + 2j)
    (['a', None, None], '(1+2j)')
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): as_data(one) for name, one in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: as_data(one) for name, one in zip(value._fields, value, strict=True)}
    if isinstance(value, tuple | list):
        return [as_data(one) for one in value]
    if is_dataclass(value) and not isinstance(value, type):
        names = _ATTRIBUTES.get(type(value).__name__) or [field.name for field in fields(value)]
        return {name: as_data(getattr(value, name)) for name in names}
    return _single(value)


def _single(value: Any) -> Any:
    """A value without parts."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, int):
        return int(value) if -(2**63) <= value < 2**64 else str(value)
    return str(value).encode("utf-8", "backslashreplace").decode()  # JSON cannot hold a lone surrogate


def plan_data(plan: PlanRecord) -> dict[str, Any]:
    """What a plan is about: the length of the episode, the limits, what they mean.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> data = plan_data(tether.counterfactual(case.mdp, case.path).plan(k=3, m=1))
    >>> data.pop("objective"), data.pop("minimise")
    (None, False)
    >>> data
    {'T': 7, 'k': 3, 'm': 1, 'rule': 'definition', 'influence': 'support', 'discount': 1.0}
    """
    return {
        "T": plan.T,
        "k": plan.k,
        "m": plan.m,
        "rule": plan.rule,
        "influence": str(plan.influence),
        **objective_data(plan.objective, plan.minimise),
        "discount": plan.cf.mdp.discount,
    }


def objective_data(objective: Property | None, minimise: bool = False) -> dict[str, Any]:
    """What the values are: the property asked for, None for the return; and whether less is better.

    Examples
    --------
    >>> import tether
    >>> objective_data(tether.avoid("died"))
    {'objective': 'avoid died', 'minimise': False}
    """
    return {"objective": None if objective is None else str(objective), "minimise": minimise}


def explanation_data(explanation: Explanation) -> dict[str, Any]:
    """An explanation as plain data: the plan, its values, the steps, what is about this episode, the sentences.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> data = explanation_data(tether.counterfactual(case.mdp, case.path).plan(k=3, m=1).explain())
    >>> data["observed_value"], data["steps"][5]["action"], data["beyond"]["longer"]["k"]
    (-38.0, 'V_I', 4)
    """
    from tether.explanation.terms import beyond_sentences

    plan, outlook = explanation.plan, explanation.outlook
    return (
        plan_data(plan)
        | _guarantee(explanation)
        | _constraint(plan)
        | {
            "answer": as_data(explanation.answer(str)),
            "review": as_data(explanation.review),
            "hindsight": as_data(explanation.hindsight),
            "disagreement": as_data(explanation.disagreement),
            "changes": as_data(tuple(advised_changes(plan))),
            "about_episode": about_plan(plan),
            "risk": as_data(explanation.risk),
            "certificate": as_data(explanation.certificate),
            "value": as_data(plan.value),
            "std": as_data(outlook.std),
            "observed_value": plan.observed_value,
            "logged_return": as_data(plan.logged_return),
            "gain": as_data(plan.gain),
            "paid": plan.paid,
            "advisable": None if plan.advisable is None else str(plan.advisable),
            "outcomes": as_data(explanation.outcomes.end),
            "steps": as_data(explanation.steps),
            "tailoring": as_data(outlook.tailoring),
            "beyond": as_data(explanation.beyond),
            "learned": as_data(None if plan.cf.mdp.counts is None else {"episodes": plan.cf.mdp.counts.episodes}),
            "evidence": as_data(explanation.evidence),
            "uncertainty": _uncertainty(explanation.uncertainty),
            "crossfit": as_data(explanation.crossfit),
            "sentences": [*explanation.sentences(str), *beyond_sentences(explanation)],
        }
    )


def _uncertainty(sure: PlanUncertainty | None) -> dict[str, Any] | None:
    """How sure a plan in a learned model is."""
    if sure is None:
        return None
    data: dict[str, Any] = as_data(sure)
    return data | {
        "level": _LEVEL,
        "interval": sure.interval(_LEVEL),
        "outcomes": {name: sure.outcome_interval(name, _LEVEL) for name in sure.outcomes},
        "off_plan": float(sure.off_plan.mean()),
        "sentences": sure.sentences(str),
    }


def _constraint(plan: PlanRecord) -> dict[str, Any]:
    """The limit on a probability that the plan keeps to, if one was asked for."""
    found = plan.constraint
    if found is None:
        return {"constraint": None}
    mixed = found.mixture
    mixture = None if mixed is None else {"weights": list(mixed.weights), "value": mixed.value}
    data = {"objective": str(found.objective), "limit": found.limit, "probability": found.probability}
    return {"constraint": {**data, "mixture": mixture}}


def _guarantee(explanation: Explanation) -> dict[str, Any]:
    """For a plan with a guaranteed value: the assumption, the best case, and what Gumbel-max expects."""
    plan = explanation.plan
    if not isinstance(plan, RobustPlanRecord):
        return {}
    return {
        "assume": plan.assume,
        "confidence": plan.confidence,
        "gamma": plan.gamma,
        "best_case": best_case(plan),
        "expected_value": explanation.outlook.value,
        "elsewhere": as_data(explanation.elsewhere),
    }
