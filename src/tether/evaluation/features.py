"""What a feature says of a state: a number, by the name of a part of the state's name, a function or a mapping."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tether.errors import Problem, QueryError

__all__ = ["feature_value"]


def feature_value(feature: Any, label: Any) -> float:
    if isinstance(feature, str):
        if not hasattr(label, feature) or callable(getattr(label, feature)):
            known = getattr(label, "_fields", ())
            has = (
                f"it has {', '.join(known)}"
                if known
                else "its labels have no named parts; give a function of the label"
            )
            raise QueryError(f"the states have no feature {feature!r}; {has}")
        value = getattr(label, feature)
    elif isinstance(feature, Mapping):
        if label not in feature:
            raise QueryError(Problem(f"the feature says nothing for state {label!r}", state=label))
        value = feature[label]
    elif callable(feature):
        value = feature(label)
    else:
        raise QueryError(f"a feature is a name, a function of the state or a mapping, not {feature!r}")
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        raise QueryError(
            Problem(f"the feature of state {label!r} is {value!r}, not a finite number", label, value=value)
        )
    return number
