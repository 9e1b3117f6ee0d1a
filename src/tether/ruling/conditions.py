"""Conditions of rules: which states a rule is about, by state variables, labels or names of states."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np

from tether._foundation.arrays import Flags, Ints
from tether._foundation.words import folded, shown
from tether.errors import Problem, QueryError
from tether.evaluation.outcomes import absorbing
from tether.io.names_as_text import find_index
from tether.model.model_record import ModelRecord
from tether.model.names import name_list

_TERM = re.compile(r"(?P<name>.+?)\s*(?:==|=|\bis\b)\s*(?P<value>.+)", re.DOTALL)


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """A part of the names of states: its values, and the number of the value of each state (-1 for none)."""

    name: str
    values: tuple[Any, ...]
    codes: Ints

    @property
    def words(self) -> str:
        """The name as it is written in a sentence."""
        return self.name.replace("_", " ")


@dataclass(frozen=True, slots=True)
class Condition:
    """Which states a rule is about, in words: its terms hold together.

    Attributes
    ----------
    terms : tuple of str
        Such as ``"systolic bp = low"``, or the name of a label or a state.

    Examples
    --------
    >>> str(Condition(("heart rate = low", "diabetic")))
    'heart rate = low and diabetic'
    """

    terms: tuple[str, ...]

    def __str__(self) -> str:
        return " and ".join(self.terms)


def variables_of(mdp: ModelRecord) -> dict[str, Variable]:
    """The state variables: the parts of the names of states, by name; none if the names have no parts.

    >>> import tether
    >>> found = variables_of(tether.cases.sepsis().mdp)
    >>> list(found), found["heart_rate"].values
    (['diabetic', 'heart_rate', 'systolic_bp', 'oxygen', 'glucose', 'antibiotics', 'vasopressors', 'ventilation'], \
('low', 'normal', 'high'))
    """
    states = list(mdp.states)
    kinds = [type(one) for one in states if isinstance(one, tuple)]
    if not kinds:
        return {}
    kind = max(set(kinds), key=kinds.count)
    size = max(len(one) for one in states if type(one) is kind)
    fields = getattr(kind, "_fields", None) or tuple(f"part {i}" for i in range(size))
    has = [type(one) is kind and len(one) == len(fields) for one in states]
    found = {}
    for place, name in enumerate(fields):
        values = tuple(dict.fromkeys(one[place] for one, some in zip(states, has, strict=True) if some))
        number = {value: i for i, value in enumerate(values)}
        codes = [number[one[place]] if some else -1 for one, some in zip(states, has, strict=True)]
        found[name] = Variable(name, values, np.array(codes))
    return found


def read_condition(given: Any) -> Condition:
    """A condition from a text (``"heart rate = low and diabetic"``), a mapping of variables, or a condition."""
    if isinstance(given, Condition):
        return given
    if isinstance(given, dict):
        given = " and ".join(f"{name} = {_word(value)}" for name, value in given.items())
    if not isinstance(given, str) or not given.strip():
        message = f"a condition is a text such as 'blood pressure = low', not {given!r}"
        raise QueryError(Problem(message, value=given, fix="name a variable and its value, a label, or a state"))
    return Condition((given.strip(),))


def find_states(mdp: ModelRecord, condition: Condition, variables: dict[str, Variable] | None = None) -> Flags:
    """The states in which a condition holds; an error that says what there is if it names nothing of the model."""
    known = variables_of(mdp) if variables is None else variables
    found = np.ones(mdp.n_states, bool)
    for term in condition.terms:
        found &= _states_of(mdp, term, known)
    return found


def _states_of(mdp: ModelRecord, text: str, variables: dict[str, Variable]) -> Flags:
    found = np.zeros(mdp.n_states, bool)
    if text in mdp.labels:
        found[mdp.labels[text].indices] = True
        return found
    state = find_index(mdp.states, text)
    if state >= 0:
        found[state] = True
        return found
    parts = re.split(r"\s+and\s+", text)
    if len(parts) > 1:
        return np.asarray(np.all([_states_of(mdp, part, variables) for part in parts], axis=0))
    term = _TERM.fullmatch(text)
    name, value = (text, "yes") if term is None else (term["name"].strip(), term["value"].strip().strip("'\""))
    variable = _variable(variables, name)
    if variable is None:
        there = [f"variables: {', '.join(one.words for one in variables.values())}"] if variables else []
        there += [f"labels: {', '.join(mdp.labels)}"] if mdp.labels else []
        there += [] if variables else [f"states: {name_list(mdp.states)}"]
        message = f"the condition {text!r} names no variable, label or state of the model"
        raise QueryError(Problem(message, value=text, fix=f"there are {'; '.join(there)}"))
    number = next((i for i, one in enumerate(variable.values) if folded(_word(one)) == folded(value)), None)
    if number is None:
        message = f"{variable.words} is never {value!r}" if term else f"{variable.words} is not a yes or no"
        raise QueryError(Problem(message, value=value, fix=f"it is {', '.join(map(_word, variable.values))}"))
    return np.asarray(variable.codes == number)


def all_conditions(
    mdp: ModelRecord, names: Iterable[str] | None = None, depth: int = 1
) -> list[tuple[Condition, Flags]]:
    """Conditions to search in, with their states: each value of each variable, labels, or single states.

    ``names`` are variables or labels; by default all variables, or each state if there are none. With ``depth`` 2,
    pairs of them too. Conditions that hold in no state that can be left, and copies of others, are left out.
    """
    variables = variables_of(mdp)
    groups: list[list[Condition]] = []
    if names is None and variables:
        groups = [_values_of(one) for one in variables.values()]
    elif names is None:
        groups = [[Condition((shown(state),))] for state in mdp.states]
    else:
        for name in [names] if isinstance(names, str) else names:
            variable = _variable(variables, name)
            if variable is None:
                find_states(mdp, read_condition(name), variables)  # which says what there is
            groups.append([read_condition(name)] if variable is None else _values_of(variable))
    open_states = ~absorbing(mdp, np.arange(mdp.n_states))
    chosen: list[Sequence[Condition]] = [(one,) for group in groups for one in group]
    for size in range(2, depth + 1):
        for several in combinations(groups, size):
            chosen += product(*several)
    found, seen = [], set()
    for conditions in chosen:
        joined = Condition(tuple(term for one in conditions for term in one.terms))
        states = find_states(mdp, joined, variables)
        key = (states & open_states).tobytes()
        if (states & open_states).any() and key not in seen:
            seen.add(key)
            found.append((joined, states))
    return found


def _variable(variables: dict[str, Variable], name: str) -> Variable | None:
    """The variable of a name, however it is written."""
    return next((one for one in variables.values() if folded(one.words) == folded(name.replace("_", " "))), None)


def _values_of(variable: Variable) -> list[Condition]:
    return [Condition((f"{variable.words} = {_word(value)}",)) for value in variable.values]


def _word(value: Any) -> str:
    return ("yes" if value else "no") if isinstance(value, bool | np.bool_) else shown(value)
