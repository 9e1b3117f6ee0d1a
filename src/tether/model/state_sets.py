"""Sets of states of a property: as they are given, and which states of a model are in them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Flags, Ints
from tether.errors import Problem, QueryError
from tether.model.labels import member_indices, name_text
from tether.model.names import Names, plain
from tether.model.property_language import StateFormula

if TYPE_CHECKING:
    from tether.model.model_record import ModelRecord


def as_given(kind: str, name: str, value: Any) -> str | tuple[Any, ...] | Callable[[Any], bool]:
    """A set of states as it is kept: a label, a tuple of states, or a function."""
    if isinstance(value, str):
        return value
    if callable(value):
        predicate: Callable[[Any], bool] = value
        return predicate
    if isinstance(value, bytes) or not isinstance(value, Iterable):
        message = f"{kind}({name}): a label, a list of states or a function of a state is needed, not {value!r}"
        raise QueryError(Problem(f"{message}: [{value!r}]", value=value))
    members = tuple(plain(value))
    for one in members:
        if not isinstance(one, Hashable):
            message = f"{kind}({name}): {one!r} cannot be the name of a state, it is not hashable; use a tuple"
            raise QueryError(Problem(message, value=one))
    return members


def mask_of(mdp: ModelRecord, what: str, given: Any) -> Flags:
    """The states of a set, as truth values; there is at least one."""
    mask = np.zeros(mdp.n_states, dtype=bool)
    mask[state_indices(mdp, what, given)] = True
    return mask


def state_indices(mdp: ModelRecord, what: str, given: Any) -> Ints:
    """The states of a set, by index; there is at least one."""
    if isinstance(given, str):
        alone = -1 if given in mdp.labels else _alone(mdp.states, given)
        if alone >= 0:  # no label has this name, but a state has
            return np.array([alone])
        if given not in mdp.labels:
            some = mdp.labels.known() if mdp.labels else f"it has no labels; {mdp.states.known('state')}"
            message = f"the model has no label or state called {given!r}; {some}{mdp.states.near(given)}"
            raise QueryError(Problem(message, value=given))
        found: Ints = mdp.labels.find(given).indices
        if found.size == 0:
            raise QueryError(Problem(f"{what}: no state has the label {given!r}; {mdp.labels.known()}", value=given))
        return found
    if isinstance(given, StateFormula):
        found = np.flatnonzero(given.on(mdp))
        if found.size == 0:
            raise QueryError(Problem(f"{what}: no state is in {given}; {mdp.labels.known()}", value=str(given)))
        return found
    found = member_indices(mdp.states, what, list(given) if isinstance(given, tuple) else given, QueryError)
    if found.size == 0:
        raise QueryError(Problem(f"{what}: no state is in this set; {mdp.labels.known()}", value=given))
    return found


@lru_cache(maxsize=4)  # a property is asked of one model, several times
def _alone(states: Names, text: str) -> int:
    """The state that a text names: the one that equals it, else the only one that reads so; -1 where there is none."""
    found = states.find(text)
    if found >= 0:
        return found
    alike = [i for i, state in enumerate(states) if text in (name_text(state), str(state))]
    return alike[0] if len(alike) == 1 else -1
