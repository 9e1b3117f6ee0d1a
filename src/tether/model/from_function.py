"""From functions to the tabular form: walk from the initial states and record every transition.

The walk should spend its time in the user's functions. Transitions go into flat arrays, one row at a time. A dictionary
numbers the names, and calls Python only for new ones. Numbers are checked one by one only if something is wrong.
"""

from __future__ import annotations

import inspect
from array import array
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether.errors import ModelError, Problem
from tether.model.finish import ends_in, terminal_states
from tether.model.form import Form
from tether.model.from_table import form_from_codes
from tether.model.names import Names, is_missing, make_names, plain


def form_from_function(
    initial: Any,
    actions: Callable[[Any], Iterable[Any]],
    step: Callable[[Any, Any], Mapping[Any, float]],
    reward: Callable[..., float] | None,
    horizon: int | None,
    *,
    terminal: Iterable[Any] | Callable[[Any], bool],
    tolerance: float,
    max_states: int | None,
) -> tuple[Names, Names, Form]:
    """Breadth first from ``initial``; see `tether.MDP.from_function`.

    States at depth ``horizon`` are outcomes and are not expanded: no episode of that length acts in
    them. States where episodes end are not expanded either: ``actions`` and ``step`` are not called for them.
    """
    for name, limit in (("horizon", horizon), ("max_states", max_states)):
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int | np.integer) or limit < 1):
            raise ModelError(f"{name} must be a whole number ≥ 1, or None for no limit; got {limit!r}")
    for name, function in (("actions", actions), ("step", step), ("reward", reward)):
        if not callable(function) and not (name == "reward" and function is None):
            raise ModelError(f"{name} must be a function, not {function!r}")
    if not callable(terminal):
        if isinstance(terminal, str) or not isinstance(terminal, Iterable):
            terminal_states(make_names([], None, "state"), terminal)  # it raises the error
        terminal = plain(terminal)
    walk = _Walk(actions, step, reward, max_states, _end_test(terminal))
    walk.begin(_initial_states(initial))
    explored, depth = 0, 0
    while explored < len(walk.names) and (horizon is None or depth < horizon):
        explored, depth = walk.expand(explored), depth + 1
    state_names = make_names(walk.names, None, "state")
    if horizon is None and not callable(terminal):
        terminal_states(state_names, terminal)  # refuses a state that the walk never met
    action_names = make_names(list(walk.actions), None, "action")
    columns = walk.columns()
    form = form_from_codes(
        state_names,
        action_names,
        *columns,
        terminal=[walk.names[s] for s in sorted(walk.ends)],
        frontier=np.arange(explored, len(walk.names), dtype=np.int32),
        tolerance=tolerance,
    )
    return state_names, action_names, form


class _Numbers(dict[Any, int]):
    """Names numbered in the order of first use; ``met`` checks each new one."""

    def __init__(self, met: Callable[[Any, int], None]) -> None:
        self.met = met

    def __missing__(self, name: Any) -> int:
        number = len(self)
        self.met(name, number)
        self[name] = number
        return number


class _Walk:
    """The transitions met so far, and the names in the order they were met.

    Rows are pairs in the order of the walk; each has a state, an action, and the number of entries it ends at.
    """

    def __init__(
        self,
        actions: Callable[[Any], Iterable[Any]],
        step: Callable[[Any, Any], Mapping[Any, float]],
        reward: Callable[..., float] | None,
        max_states: int | None,
        is_end: Callable[[Any], bool],
    ) -> None:
        self.is_end, self.ends = is_end, set[int]()
        self.actions_of, self.step, self.max_states = actions, step, max_states
        self.reward_of, self.rewards_outcomes = reward, takes_next_state(reward)
        self.states, self.names = _Numbers(self._met_state), list[Any]()
        self.actions = _Numbers(lambda name, number: None)
        self.known: dict[tuple[Any, ...], tuple[int, ...]] = {}
        self.now: tuple[Any, Any] | None = None
        self.row_state, self.row_action, self.row_end = array("i"), array("i"), array("q")
        self.next_state, self.probability, self.reward = array("i"), array("d"), array("d")

    def begin(self, initial: list[Any]) -> None:
        """Number the initial states."""
        for state in initial:
            try:
                self.states[state]
            except TypeError:
                raise ModelError(Problem(f"the state {state!r} is not hashable; use a tuple", value=state)) from None

    def expand(self, first: int) -> int:
        """Walk one step from every state numbered ``first`` or higher; returns how many there were before it."""
        step, number = self.step, self.states.__getitem__
        names = self.names[first:]
        for s, state in enumerate(names, start=first):
            if s in self.ends:
                continue
            available = self._available(state)
            for action, a in zip(available, self.known[available], strict=True):
                self.now = state, action
                try:
                    given = step(state, action)
                except Exception as error:
                    _note(error, step, state, action)
                    raise
                outcomes = given if type(given) is dict and _all_possible(given) else self._possible(given)
                self.next_state.extend(map(number, outcomes))
                try:
                    self.probability.extend(outcomes.values())
                except (TypeError, ValueError, OverflowError):
                    self._no_number("probability", outcomes)
                if self.reward_of is not None:
                    self._write_rewards(state, action, outcomes)
                self.row_state.append(s)
                self.row_action.append(a)
                self.row_end.append(len(self.next_state))
        return first + len(names)

    def columns(self) -> tuple[Any, Any, Any, Floats, Floats | None]:
        """State, action, next state, probability and reward of every transition."""
        ends: Ints = np.frombuffer(self.row_end, dtype=np.int64)
        lengths: Ints = np.diff(ends, prepend=0)
        reward = None if self.reward_of is None else np.frombuffer(self.reward)
        return (
            np.repeat(np.frombuffer(self.row_state, dtype=np.int32), lengths),
            np.repeat(np.frombuffer(self.row_action, dtype=np.int32), lengths),
            np.frombuffer(self.next_state, dtype=np.int32),
            np.frombuffer(self.probability),
            reward if reward is None or self.rewards_outcomes else np.repeat(reward, lengths),
        )

    def _write_rewards(self, state: Any, action: Any, outcomes: dict[Any, Any]) -> None:
        reward: Any = self.reward_of
        gains = []
        if self.rewards_outcomes:
            for after in outcomes:
                try:
                    gains.append(reward(state, action, after))
                except Exception as error:
                    _note(error, reward, state, action, after)
                    raise
        else:
            gains.append(_call(reward, state, action))
        try:
            self.reward.extend(gains)
        except (TypeError, ValueError, OverflowError):
            self._no_number("reward", dict(zip(outcomes, gains, strict=False)))

    def _no_number(self, what: str, values: dict[Any, Any]) -> NoReturn:
        """Say which of a row's values is no number."""
        assert self.now is not None
        for after, value in values.items():
            _number(value, what, *self.now, after)
        raise AssertionError("each is a number by itself")

    def _met_state(self, name: Any, number: int) -> None:
        if is_missing(name):
            state, action = self.now or (None, None)
            led = f"state {state!r}, action {action!r}: step() gave the next state" if self.now else "initial is"
            message = f"{led} {name!r}, which stands for a missing value and cannot be a state"
            raise ModelError(Problem(message, state, action, value=name))
        if self.max_states is not None and number >= self.max_states:
            raise ModelError(
                f"more than {self.max_states:,} states can be reached; "
                f"raise max_states=, or give horizon= to stop after so many steps"
            )
        self.names.append(name)
        if self.is_end(name):
            self.ends.add(number)

    def _available(self, state: Any) -> tuple[Any, ...]:
        """The actions of a state, checked and, in ``known``, numbered."""
        given = _call(self.actions_of, state)
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise ModelError(Problem(f"state {state!r}: actions() must give a list, not {given!r}", state))
        try:
            available = tuple(given)
        except Exception as error:  # from a generator, which runs only now
            _note(error, self.actions_of, state)
            raise
        try:
            if available in self.known:
                return available
        except TypeError:
            action = next(action for action in available if not _hashable(action))
            message = f"state {state!r}: the action {action!r} is not hashable; use a tuple"
            raise ModelError(Problem(message, state, value=action)) from None
        if not available:
            message = f"state {state!r}: actions() gave none; if episodes end there, say so: terminal=[{state!r}]"
            raise ModelError(Problem(message, state))
        seen = set()
        for action in available:
            if action in seen:
                raise ModelError(Problem(f"state {state!r}: actions() gave {action!r} twice", state, action))
            seen.add(action)
        self.known[available] = tuple(self.actions[action] for action in available)
        return available

    def _possible(self, given: Any) -> dict[Any, float]:
        """The possible outcomes of a pair, with their probabilities, from the result of step()."""
        assert self.now is not None
        state, action = self.now
        if not isinstance(given, Mapping):
            message = f"state {state!r}, action {action!r}: step() must give {{next state: probability}}"
            raise ModelError(Problem(f"{message}, not {given!r}", state, action, value=given))
        chances = {after: _number(value, "probability", state, action, after) for after, value in given.items()}
        possible = {after: chance for after, chance in chances.items() if chance != 0}
        if not possible:
            message = f"state {state!r}, action {action!r}: step() gave no outcome of positive probability"
            raise ModelError(Problem(message, state, action, value=given))
        return possible


def _all_possible(given: dict[Any, Any]) -> bool:
    """Whether there are outcomes, none with probability 0; False also if the values cannot be compared."""
    try:
        return bool(given) and all(given.values())
    except (TypeError, ValueError):
        return False


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except Exception as error:
        _note(error, function, *arguments)
        raise


def _note(error: Exception, function: Callable[..., Any], *arguments: Any) -> None:
    """Add to an error in the user's function what it was called with."""
    name = getattr(function, "__name__", repr(function))
    error.add_note(f"while exploring the model: {name}({', '.join(map(repr, arguments))})")


def _end_test(terminal: Any) -> Callable[[Any], bool]:
    """Whether episodes end in a state, from a function or a list of states."""
    if callable(terminal):
        return lambda state: ends_in(terminal, state)
    for state in terminal:
        if not _hashable(state):
            raise ModelError(Problem(f"terminal=: the state {state!r} is not hashable; use a tuple", value=state))
    return frozenset(terminal).__contains__


def _initial_states(initial: Any) -> list[Any]:
    """A list is several states: a list cannot be a name itself."""
    states = initial if isinstance(initial, list) else [initial]
    if not states:
        raise ModelError("initial= is an empty list; give a state, or a list of states")
    return states


def _hashable(name: Any) -> bool:
    try:
        hash(name)
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


def takes_next_state(reward: Callable[..., float] | None) -> bool:
    """Whether ``reward`` takes state, action and next state; True if its signature is unknown."""
    if reward is None:
        return False
    try:
        parameters = inspect.signature(reward).parameters.values()
    except (TypeError, ValueError):
        return True
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in positional if p.default is p.empty]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters) or len(required) == 3:
        return True
    if len(required) == 2:
        return False
    raise ModelError(f"reward must take (state, action) or (state, action, next_state), but it takes {len(required)}")
