"""What to draw over time: features of the states under the plan, beside what was observed.

A feature is a function of a state's name. If its values are numbers, it is drawn as a mean with a band for the
middle four fifths. If they are words or truth values, it is a strip with one row per value, shaded by its
probability. By default the features are the fields of the names. If names have no fields, the likeliest states
are the rows of one strip. A model that is learned from a log may have outcomes beside states with
fields: such a word is a row of each field.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats, Ints, summed
from tether.errors import Problem, QueryError
from tether.evaluation.evaluate import Evaluation
from tether.plan.plan_record import PlanRecord

_DRAWN = 12
"""How many features are drawn."""

_SCALE, _ROWS = 6, 9
"""The most values of a feature for which all are shown, whether they occur or not; and the most rows of a strip."""

_LOOKED_AT = 20_000
"""How many states of the model are used to find the order of a feature's values."""

_WITHIN = 0.1
"""The share of the probability that a band leaves out, below and above."""

Feature = Callable[[Any], Any]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Band:
    """Numbers over time, t = 0 … T: mean, the middle four fifths, and what was observed (NaN: not recorded)."""

    name: str
    mean: Floats
    low: Floats
    high: Floats
    observed: Floats
    whole: bool


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Strip:
    """Probability of each value (row) at each time, and the observed one's row (-1: not recorded)."""

    name: str
    rows: tuple[str, ...]
    chance: Floats
    observed: Ints


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Courses:
    """What is drawn; what never changes, as (name, value); and how many features are left out."""

    drawn: tuple[Band | Strip, ...]
    steady: tuple[tuple[str, str], ...]
    left_out: int
    by_state: bool


def over_time(plan: PlanRecord, outlook: Evaluation, features: Any, state_name: Callable[[Any], str]) -> Courses:
    """Features over time, as given, or as the names suggest."""
    reached = _Reached(plan, outlook)
    wanted = _by_default(reached.names) if features is None else _given(features, reached.names)
    if not wanted:
        return Courses((_occupancy(reached, state_name),), (), 0, by_state=True)
    drawn: list[Band | Strip] = []
    steady, left_out = [], 0
    for name, feature in wanted.items():
        values = [_value(name, feature, label) for label in reached.names]
        if len({(type(value), value) for value in values}) == 1:
            steady.append((name, _word(values[0])))
        elif len(drawn) == _DRAWN:
            left_out += 1
        elif all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
            drawn.append(_band(name, np.array(values, dtype=float), reached))
        else:
            drawn.append(_strip(name, values, _order(name, feature, plan, values), reached))
    return Courses(tuple(drawn), tuple(steady), left_out, by_state=False)


class _Reached:
    """The states that the plan visits or that were observed, each once; and how likely each is at each time."""

    def __init__(self, plan: PlanRecord, outlook: Evaluation) -> None:
        observed = plan.cf.observation.states
        visits = outlook.chain.visits
        self.states = np.unique(np.concatenate([*(layer.states for layer in visits), observed[observed >= 0]]))
        self.observed = np.where(observed >= 0, np.searchsorted(self.states, observed), -1)
        self.at = [np.searchsorted(self.states, layer.states) for layer in visits]
        self.chance = outlook.occupancy
        self.mdp = plan.cf.mdp

    @cached_property
    def names(self) -> tuple[Any, ...]:
        return self.mdp.names_of(self.states)

    @property
    def times(self) -> int:
        return len(self.at)

    def by_value(self, t: int, code: Ints, size: int) -> Floats:
        """Probability of each value at time t, given the value of each state."""
        return summed(code[self.at[t]], self.chance[t], size)


def _given(features: Any, states: tuple[Any, ...]) -> dict[str, Feature]:
    if isinstance(features, str) or not isinstance(features, Mapping | Iterable):
        raise QueryError(
            f"features must map names to functions of a state, or list names of its fields, not {features!r}"
        )
    items = features.items() if isinstance(features, Mapping) else [(name, name) for name in features]
    return {str(name): _function(str(name), what, states) for name, what in items}


def _function(name: str, what: Any, states: tuple[Any, ...]) -> Feature:
    if isinstance(what, str):
        return _field(what, states)
    if isinstance(what, Mapping):
        return lambda state: what[state]
    if callable(what):
        chosen: Feature = what
        return chosen
    raise QueryError(
        f"feature {name!r}: expected a function of the state, a mapping or the name of a field, not {what!r}"
    )


def _field(name: str, states: tuple[Any, ...]) -> Feature:
    """A field, by its own name or by the name it is shown with; or any other attribute that is no method."""
    fields = _by_default(states)
    if name.replace("_", " ") in fields:
        return fields[name.replace("_", " ")]
    if all(hasattr(state, name) and not callable(getattr(state, name)) for state in states):
        return attrgetter(name)
    known = f"they have {', '.join(fields)}" if fields else "their names have no fields; give a function of the name"
    raise QueryError(f"the states have no field {name!r}; {known}")


def _by_default(states: tuple[Any, ...]) -> dict[str, Feature]:
    """The fields of the names, or their positions; none if names are of several kinds, or not made of parts.

    Words beside names with fields have no fields: they are the value of each.
    """
    kinds = {(type(state), len(state) if isinstance(state, tuple) else 0) for state in states}
    parted = kinds - {(str, 0)}
    if len(parted) != 1:
        return {}
    ((kind, length),) = parted
    if dataclasses.is_dataclass(kind):
        fields = [field.name for field in dataclasses.fields(kind)]
    elif issubclass(kind, tuple) and hasattr(kind, "_fields"):
        fields = list(kind._fields)
    elif len(kinds) > 1:
        return {}
    else:
        return {f"part {i + 1}": itemgetter(i) for i in range(length)}
    return {name.replace("_", " "): _attribute_or_word(name) for name in fields}


def _attribute_or_word(name: str) -> Feature:
    return lambda state: state if isinstance(state, str) else getattr(state, name)


def _value(name: str, feature: Feature, state: Any) -> Any:
    """The value of a feature: a truth value, a finite number, or a word."""
    try:
        value = feature(state)
    except Exception as error:
        message = f"feature {name!r} has no value for state {state!r}: {type(error).__name__}: {error}"
        raise QueryError(Problem(message, state=state)) from error
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int) and abs(value) > 2**53:
        return str(value)
    if isinstance(value, float) and not np.isfinite(value):
        raise QueryError(Problem(f"feature {name!r} of state {state!r} is {value!r}, not a finite number", state=state))
    return value if isinstance(value, bool | int | float | str) else str(value)


def _word(value: Any) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _order(name: str, feature: Feature, plan: PlanRecord, values: list[Any]) -> list[str]:
    """The values as words, in the order in which they occur in the model's states; other values come last.

    Numbers that stand beside words come before them, by size.
    """
    if all(isinstance(value, bool) for value in values):
        return ["no", "yes"]
    found: dict[str, Any] = {}
    try:
        for state in plan.cf.mdp.states[:_LOOKED_AT]:
            value = _value(name, feature, state)
            found.setdefault(_word(value), value)
    except QueryError:  # it need only be defined for states that are reached
        found.clear()
    if len(found) > _SCALE:
        met = set(map(_word, values))
        found = {word: value for word, value in found.items() if word in met}
    found = {**found, **{_word(value): value for value in values}}
    return sorted(found, key=lambda word: _size(found[word]))


def _size(value: Any) -> float:
    """Where a value stands among words: a number by its size, a word after all numbers."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else float("inf")


def _band(name: str, values: Floats, reached: _Reached) -> Band:
    kinds, code = np.unique(values, return_inverse=True)
    code = code.reshape(-1)
    rows = []
    for t in range(reached.times):
        chance = reached.by_value(t, code, kinds.size)
        so_far = np.cumsum(chance)
        low, high = (int(np.searchsorted(so_far, share)) for share in (_WITHIN - 1e-9, 1 - _WITHIN - 1e-9))
        rows.append((float(chance @ kinds), kinds[low], kinds[min(high, kinds.size - 1)]))
    mean, below, above = (np.array(column) for column in zip(*rows, strict=True))
    seen = np.where(reached.observed >= 0, values[reached.observed], np.nan)
    return Band(name, mean, below, above, seen, bool(np.all(kinds == np.round(kinds))))


def _strip(name: str, values: list[Any], order: list[str], reached: _Reached) -> Strip:
    place = {word: i for i, word in enumerate(order)}
    code = np.array([place[_word(value)] for value in values])
    return _rows_of(name, order, code, reached)


def _occupancy(reached: _Reached, state_name: Callable[[Any], str]) -> Strip:
    """The states themselves; states with the same name are put together."""
    if reached.states.size > _LOOKED_AT:  # too many to name: only the likeliest
        return _downward(_rows_of("State", None, np.arange(reached.states.size), reached, state_name))
    names = [state_name(state) for state in reached.names]
    order = list(dict.fromkeys(names))
    place = {name: i for i, name in enumerate(order)}
    return _downward(_rows_of("State", order, np.array([place[name] for name in names]), reached))


def _rows_of(
    name: str,
    order: list[str] | None,
    code: Ints,
    reached: _Reached,
    state_name: Callable[[Any], str] | None = None,
) -> Strip:
    """Probability by row, from below, and time. If there are too many rows: the most used, and one for all others."""
    size = int(code.max()) + 1 if order is None else len(order)
    seen = np.where(reached.observed >= 0, code[reached.observed], -1)
    kept = np.arange(size)
    if size > _ROWS:  # keep those in which the episode or the plan is longest
        long = np.bincount(seen[seen >= 0], minlength=size).astype(float)
        for t in range(reached.times):
            long += reached.by_value(t, code, size)
        kept = np.sort(np.argsort(-long, kind="stable")[: _ROWS - 1])
    row = np.full(size, kept.size)
    row[kept] = np.arange(kept.size)
    others = kept.size < size
    chance = np.stack([reached.by_value(t, row[code], kept.size + 1) for t in range(reached.times)], axis=1)
    if order is not None:
        words = [order[i] for i in kept]
    else:
        assert state_name is not None
        words = [state_name(reached.mdp.states[int(reached.states[i])]) for i in kept]
    rows = (*words, f"{size - kept.size:,} others") if others else tuple(words)
    return Strip(name, rows, chance[: len(rows)], np.where(seen >= 0, row[seen], -1))


def _downward(strip: Strip) -> Strip:
    """A copy of the strip with its rows in reverse order, so that the first is drawn on top."""
    observed = np.where(strip.observed >= 0, len(strip.rows) - 1 - strip.observed, -1)
    return Strip(strip.name, strip.rows[::-1], strip.chance[::-1], observed)
