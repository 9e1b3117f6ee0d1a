"""Explanations, decisions and outcomes as Arrow tables: one row per step, per action, per time and class."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tether._foundation.arrow import name_array

if TYPE_CHECKING:
    from tether.explanation.decisions import Decisions
    from tether.explanation.explain import Explanation
    from tether.explanation.outcome_chances import Outcomes


def explanation_table(explanation: Explanation) -> pa.Table:
    """One row per step; see `Explanation.to_arrow`."""
    steps = explanation.steps
    states = [state for step in steps for state in (step.observed_state, step.state)]  # or groups of them
    columns: dict[str, Any] = {}
    for field in dataclasses.fields(steps[0]):
        items = [getattr(step, field.name) for step in steps]
        if field.name in ("observed_state", "state"):
            columns[field.name] = name_array(items, states)
        elif field.name in ("observed_action", "action", "instead"):
            columns[field.name] = name_array(items, explanation.plan.cf.mdp.actions)
        else:
            columns[field.name] = pa.array(items)
    return pa.table(columns)


def decisions_table(decisions: Decisions) -> pa.Table:
    """One row per step and action; see `Decisions.to_arrow`."""
    mdp, columns = decisions.cf.mdp, {}
    kinds = {"t": pa.int64(), "is_observed": pa.bool_(), "needed_k": pa.int64(), "reason": pa.string()}
    for field in dataclasses.fields(decisions.rows[0]):
        items = [getattr(row, field.name) for row in decisions.rows]
        if field.name in ("state", "action"):
            columns[field.name] = name_array(items, mdp.states if field.name == "state" else mdp.actions)
        else:
            columns[field.name] = pa.array(items, type=kinds.get(field.name, pa.float64()))
    return pa.table(columns)


def outcomes_table(outcomes: Outcomes) -> pa.Table:
    """One row per time and class; see `Outcomes.to_arrow`."""
    times = outcomes.T + 1
    names = [name or None for name in outcomes.classes]
    return pa.table(
        {
            "t": np.repeat(np.arange(times), len(names)),
            "outcome": pa.array(names * times, type=pa.string()),
            "observed": outcomes.observed.reshape(-1),
            "plan": outcomes.plan.reshape(-1),
            "optimal": outcomes.optimal.reshape(-1),
        }
    )
