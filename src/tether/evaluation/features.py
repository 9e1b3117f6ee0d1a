"""Features of states: numbers, given by the name of a part of the state's name, by a function or by a mapping."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tether.errors import Problem, QueryError

__all__ = ["feature_value"]


def feature_value(feature: Any, state: Any) -> float:
    """The number that a feature gives for a state, or an error that says why it gives none."""
    if isinstance(feature, str):
        if not hasattr(state, feature) or callable(getattr(state, feature)):
            known = getattr(state, "_fields", ())
            has = (
                f"it has {', '.join(known)}"
                if known
                else "their names have no named parts; give a function of the name"
            )
            raise QueryError(f"the states have no feature {feature!r}; {has}")
        value = getattr(state, feature)
    elif isinstance(feature, Mapping):
        if state not in feature:
            raise QueryError(Problem(f"the feature says nothing for state {state!r}", state=state))
        value = feature[state]
    elif callable(feature):
        value = feature(state)
    else:
        raise QueryError(f"a feature is a name, a function of the state or a mapping, not {feature!r}")
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        raise QueryError(
            Problem(f"the feature of state {state!r} is {value!r}, not a finite number", state, value=value)
        )
    return number
