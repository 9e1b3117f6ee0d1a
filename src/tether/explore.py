"""From functions to the tabular form: walk from the initial states and write down what is met."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from tether.errors import ModelError, Problem
from tether.form import Form
from tether.labels import Labels, is_missing, make_labels
from tether.table import form_from_codes

__all__ = ["form_from_function"]


def form_from_function(
    initial: Any,
    actions: Callable[[Any], Iterable[Any]],
    step: Callable[[Any, Any], Mapping[Any, float]],
    reward: Callable[..., float] | None,
    horizon: int | None,
    *,
    tolerance: float,
    max_states: int | None,
) -> tuple[Labels, Labels, Form]:
    """Breadth first from ``initial``; see `tether.MDP.from_function`.

    States at depth ``horizon`` are known as outcomes but not expanded: no episode of that length
    acts in them.
    """
    for name, limit in (("horizon", horizon), ("max_states", max_states)):
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int | np.integer) or limit < 1):
            raise ModelError(f"{name} must be a whole number ≥ 1, or None for no limit; got {limit!r}")
    for name, function in (("actions", actions), ("step", step), ("reward", reward)):
        if not callable(function) and not (name == "reward" and function is None):
            raise ModelError(f"{name} must be a function, not {function!r}")
    walk = _Walk(actions, step, _reward_of_three(reward), max_states)
    layer = [walk.state(label) for label in _initial_states(initial)]
    depth = 0
    while layer and (horizon is None or depth < horizon):
        reached = len(walk.states)
        for s in layer:
            walk.expand(s)
        layer = list(range(reached, len(walk.states)))
        depth += 1
    state_labels = make_labels(walk.states, None, "state")
    action_labels = make_labels(walk.actions, None, "action")
    form = form_from_codes(
        state_labels,
        action_labels,
        np.array(walk.s, dtype=np.int32),
        np.array(walk.a, dtype=np.int32),
        np.array(walk.j, dtype=np.int32),
        np.array(walk.probability, dtype=np.float64),
        None if reward is None else np.array(walk.reward, dtype=np.float64),
        frontier=np.array(layer, dtype=np.int32),
        tolerance=tolerance,
    )
    return state_labels, action_labels, form


class _Walk:
    """The transitions met so far, as columns, and the labels in the order they were met."""

    def __init__(
        self,
        actions: Callable[[Any], Iterable[Any]],
        step: Callable[[Any, Any], Mapping[Any, float]],
        reward: Callable[[Any, Any, Any], float] | None,
        max_states: int | None,
    ) -> None:
        self.actions_of, self.step, self.reward_of, self.max_states = actions, step, reward, max_states
        self.states: dict[Any, int] = {}
        self.actions: dict[Any, int] = {}
        self.labels: list[Any] = []
        self.s: list[int] = []
        self.a: list[int] = []
        self.j: list[int] = []
        self.probability: list[float] = []
        self.reward: list[float] = []

    def state(self, label: Any, before: tuple[Any, Any] | None = None) -> int:
        """Index of a state, known or new; ``before`` are the state and action that led to it."""
        try:
            i = self.states.setdefault(label, len(self.labels))
        except TypeError:
            raise ModelError(Problem(f"the state {label!r} is not hashable; use a tuple", value=label)) from None
        if i == len(self.labels):
            if is_missing(label):
                state, action = before or (None, None)
                led = f"state {state!r}, action {action!r}: step() gave the next state" if before else "initial is"
                message = f"{led} {label!r}, which stands for a missing value and cannot be a state"
                raise ModelError(Problem(message, state, action, value=label))
            if self.max_states is not None and i >= self.max_states:
                raise ModelError(
                    f"more than {self.max_states:,} states can be reached; "
                    f"raise max_states=, or give horizon= to stop after so many steps"
                )
            self.labels.append(label)
        return i

    def expand(self, s: int) -> None:
        label = self.labels[s]
        for action in self._available(label):
            a = self.actions.setdefault(action, len(self.actions))
            for after, chance in self._outcomes(label, action).items():
                self.s.append(s)
                self.a.append(a)
                self.j.append(self.state(after, (label, action)))
                self.probability.append(chance)
                if self.reward_of is not None:
                    gain = _call(self.reward_of, label, action, after)
                    self.reward.append(_number(gain, "reward", label, action, after))

    def _available(self, label: Any) -> list[Any]:
        """The actions of a state, checked."""
        given = _call(self.actions_of, label)
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise ModelError(Problem(f"state {label!r}: actions() must give a list, not {given!r}", label))
        try:
            available = list(given)
        except Exception as error:  # from a generator, which runs only now
            _note(error, self.actions_of, label)
            raise
        seen = set()
        for action in available:
            if not _hashable(action):
                message = f"state {label!r}: the action {action!r} is not hashable; use a tuple"
                raise ModelError(Problem(message, label, value=action))
            if action in seen:
                raise ModelError(Problem(f"state {label!r}: actions() gave {action!r} twice", label, action))
            seen.add(action)
        if not seen:
            message = f"state {label!r}: actions() gave none; where episodes end, give one that leads back to the state"
            raise ModelError(Problem(message, label))
        return available

    def _outcomes(self, label: Any, action: Any) -> dict[Any, float]:
        """The outcomes of a pair that are not impossible, with their probabilities."""
        given = _call(self.step, label, action)
        if not isinstance(given, Mapping):
            message = f"state {label!r}, action {action!r}: step() must give {{next state: probability}}"
            raise ModelError(Problem(f"{message}, not {given!r}", label, action, value=given))
        possible = {}
        for after, value in given.items():
            chance = _number(value, "probability", label, action, after)
            if chance != 0:
                possible[after] = chance
        if not possible:
            message = f"state {label!r}, action {action!r}: step() gave no outcome of positive probability"
            raise ModelError(Problem(message, label, action, value=given))
        return possible


def _call(function: Callable[..., Any], *labels: Any) -> Any:
    try:
        return function(*labels)
    except Exception as error:
        _note(error, function, *labels)
        raise


def _note(error: Exception, function: Callable[..., Any], *labels: Any) -> None:
    """Add to an error in the user's function what it was called with."""
    name = getattr(function, "__name__", repr(function))
    error.add_note(f"while exploring the model: {name}({', '.join(map(repr, labels))})")


def _initial_states(initial: Any) -> list[Any]:
    """A list is several states: a list cannot be a label itself."""
    states = initial if isinstance(initial, list) else [initial]
    if not states:
        raise ModelError("initial= is an empty list; give a state, or a list of states")
    return list(dict.fromkeys(states)) if all(_hashable(state) for state in states) else states


def _hashable(label: Any) -> bool:
    try:
        hash(label)
    except TypeError:
        return False
    return True


def _number(value: Any, what: str, state: Any, action: Any, after: Any) -> float:
    try:
        if not isinstance(value, str | bytes):
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    message = f"state {state!r}, action {action!r}, next state {after!r}: the {what} {value!r} is not a number"
    raise ModelError(Problem(message, state, action, after, value=value))


def _reward_of_three(reward: Callable[..., float] | None) -> Callable[[Any, Any, Any], float] | None:
    """``reward`` as a function of state, action and next state, whichever of the two forms it has."""
    if reward is None:
        return None
    try:
        parameters = inspect.signature(reward).parameters.values()
    except (TypeError, ValueError):
        return reward
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in positional if p.default is p.empty]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters) or len(required) == 3:
        return reward
    if len(required) == 2:
        return functools.wraps(reward)(lambda s, a, _after: reward(s, a))
    raise ModelError(f"reward must take (state, action) or (state, action, next_state), but it takes {len(required)}")
