"""The one tabular form every model is brought to, and the checks it passes on the way.

Pairs (state, action) are numbered state by state, actions ascending; each pair has a row of
possible next states, ascending, with their probabilities, all positive::

    state s      owns the pairs    pair_start[s]   … pair_start[s+1] - 1
    pair x       has the action    pair_action[x]
    pair x       owns the entries  row_start[x]    … row_start[x+1] - 1
    entry e      leads to          next_state[e]   with probability[e]

A pair that is absent is an action that is not available. Rewards belong to pairs, R(s,a), or to
entries, R(s,a,s'), and may carry a leading time axis; a reward that is the same for every entry
of each row is kept by pair.

Where episodes end there is no special kind of state, there are absorbing ones: a state is *absorbing* if every action
that is available in it leads back to it for certain. A state declared terminal (``terminal=``, the same for every way
of building a model) has no rows of its own: it is given every action, each leading back to it for a reward of 0. A
state may also absorb by its own rows, with fewer actions and with rewards; where the observed action is then not
available, nobody can be said to have chosen otherwise, and taking another one is not counted as a change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from tether._types import Floats, Ints
from tether.errors import ModelError, Problem
from tether.model.names import Names, name_list
from tether.model.place import Place, pickled_as

__all__ = [
    "LARGEST_REWARD",
    "TOLERANCE",
    "Form",
    "Rewards",
    "Rounding",
    "ends_in",
    "final_rewards",
    "finish",
    "pair_states",
    "terminal_states",
]


TOLERANCE = 1e-6
"""How far from 1 a row may sum and still be taken for a distribution written with rounding."""

LARGEST_REWARD = 1e150
"""The largest size of a reward: ten thousand can be added up, and squared for their spread, without overflow."""

_COLLECTED = 100
"""How many problems of one kind are kept as records; all are counted."""

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Rewards:
    """Rewards of a model.

    Attributes
    ----------
    values : array
        ``(pairs,)`` or ``(entries,)``, with a leading time axis where they depend on time.
    by_entry : bool
        True for R(s,a,s').
    """

    values: Floats
    by_entry: bool

    @property
    def horizon(self) -> int | None:
        """Number of steps rewards are given for, or None where they do not depend on time."""
        return int(self.values.shape[0]) if self.values.ndim == 2 else None

    def at(self, t: int) -> Floats:
        """The rewards of step ``t``."""
        layer: Floats = self.values[t] if self.values.ndim == 2 else self.values
        return layer


@dataclass(frozen=True, slots=True)
class Rounding:
    """How far the given rows were from summing to 1, before they were normalised."""

    rows: int
    largest: float
    tolerance: float


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Form:
    """The arrays of a model, read-only; see the head of this file."""

    pair_start: Ints
    pair_action: Ints
    row_start: Ints
    next_state: Ints
    probability: Floats
    rewards: Rewards
    rounding: Rounding
    terminal: Ints
    place: Place | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        for array in (self.pair_start, self.pair_action, self.row_start, self.next_state, self.probability):
            array.flags.writeable = False
        self.rewards.values.flags.writeable = False
        self.terminal.flags.writeable = False

    def __reduce__(self) -> tuple[Any, ...]:
        # By the constructor, not field by field: a pickle forgets that an array is read-only.
        contents = Form, tuple(getattr(self, one.name) for one in fields(self) if one.init)
        return pickled_as(self.place, "form", contents)


def finish(
    states: Names,
    actions: Names,
    *,
    pair_start: Ints,
    pair_action: Ints,
    row_start: Ints,
    next_state: Ints,
    probability: Floats,
    rewards: Rewards,
    terminal: Iterable[Any] | Callable[[Any], bool] = (),
    frontier: Ints | None = None,
    tolerance: float = TOLERANCE,
    input_row: Callable[[int], int] | None = None,
) -> Form:
    """Check the arrays of a model, add its terminal states, normalise, and freeze.

    Every entry is a transition the user gave with a probability other than zero, rows sorted by
    next state. ``frontier`` marks states that were left unexplored on purpose; ``input_row``
    finds the row of the user's table behind an entry.
    """
    if not (isinstance(tolerance, int | float | np.integer | np.floating) and 0 <= tolerance < np.inf):
        raise ModelError(f"tolerance must be a number ≥ 0, not {tolerance!r}")
    if len(states) == 0 or pair_action.size == 0:
        raise ModelError("the model is empty: it has no transitions")
    where = _Where(states, actions, pair_start, pair_action, row_start, next_state, input_row)
    ends = terminal_states(states, terminal)
    _raise_first(
        _bad_probabilities(where, probability),
        _repeated(where),
        _wrong_rewards(where, rewards),
        _terminal_with_rows(where, ends),
    )
    with np.errstate(over="ignore"):  # a sum of inf is reported like any other
        sums = np.add.reduceat(probability, row_start[:-1])
    _raise_first(_bad_sums(where, sums, tolerance), _undefined(where, ends, frontier))
    deviation = np.abs(sums - 1.0)
    rounding = Rounding(int(np.count_nonzero(deviation > 1e-12)), float(deviation.max()), float(tolerance))
    _normalise(probability, row_start, sums)
    rewards = _by_pair_if_possible(rewards, row_start)
    rewards = Rewards(np.ascontiguousarray(rewards.values), rewards.by_entry)  # a step of it is one run of memory
    if ends.size:
        pair_start, pair_action, row_start, next_state, probability, rewards = _with_terminal(
            ends, len(actions), pair_start, pair_action, row_start, next_state, probability, rewards
        )
    return Form(pair_start, pair_action, row_start, next_state, probability, rewards, rounding, ends)


def pair_states(pair_start: Ints, pairs: Ints | int) -> Any:
    """State of each pair."""
    return np.searchsorted(pair_start, pairs, side="right") - 1


@dataclass(frozen=True, slots=True)
class _Where:
    """Names a pair or an entry in the user's words."""

    states: Names
    actions: Names
    pair_start: Ints
    pair_action: Ints
    row_start: Ints
    next_state: Ints
    input_row: Callable[[int], int] | None

    def pair(self, pair: int) -> dict[str, Any]:
        state = self.states[int(pair_states(self.pair_start, pair))]
        return {"state": state, "action": self.actions[int(self.pair_action[pair])]}

    def entry(self, entry: int) -> dict[str, Any]:
        pair = int(np.searchsorted(self.row_start, entry, side="right") - 1)
        row = None if self.input_row is None else self.input_row(entry)
        return {**self.pair(pair), "next_state": self.states[int(self.next_state[entry])], "row": row}

    @staticmethod
    def text(place: dict[str, Any]) -> str:
        row = "" if place.get("row") is None else f"row {place['row']}: "
        text = f"{row}state {place['state']!r}, action {place['action']!r}"
        return f"{text}, next state {place['next_state']!r}" if "next_state" in place else text


_Found = tuple[list[Problem], int]


def _raise_first(*checks: _Found) -> None:
    """Raise all that the checks found, as one error."""
    problems = [problem for found, _ in checks for problem in found]
    if problems:
        raise ModelError(problems, total=sum(total for _, total in checks))


def _bad_probabilities(where: _Where, probability: Floats) -> _Found:
    bad = np.flatnonzero(~(probability >= 0) | np.isinf(probability))
    problems = []
    for entry in bad[:_COLLECTED]:
        place, value = where.entry(int(entry)), float(probability[entry])
        what = "is negative" if np.isfinite(value) else "is not a finite number"
        problems.append(Problem(f"{where.text(place)}: the probability {value!r} {what}", **place, value=value))
    return problems, int(bad.size)


def _repeated(where: _Where) -> _Found:
    same = where.next_state[1:] == where.next_state[:-1]
    same[where.row_start[1:-1] - 1] = False
    bad = np.flatnonzero(same) + 1
    problems = []
    for entry in bad[:_COLLECTED]:
        place = where.entry(int(entry))
        first = "" if where.input_row is None else f" (first in row {where.input_row(int(entry) - 1)})"
        problems.append(
            Problem(f"{where.text(place)}: this transition is given twice{first}; add the two up or drop one", **place)
        )
    return problems, int(bad.size)


def _wrong_rewards(where: _Where, rewards: Rewards) -> _Found:
    bad = np.flatnonzero(~(np.abs(rewards.values.reshape(-1)) <= LARGEST_REWARD))
    width = rewards.values.shape[-1]
    problems = []
    for i in bad[:_COLLECTED]:
        t, item = divmod(int(i), width)
        place = where.entry(item) if rewards.by_entry else where.pair(item)
        value = float(rewards.values.reshape(-1)[i])
        time = t if rewards.values.ndim == 2 else None
        at = "" if time is None else f", t = {time}"
        message = f"{where.text(place)}{at}: the reward {value!r} {_not_a_reward(value)}"
        problems.append(Problem(message, **place, time=time, value=value))
    return problems, int(bad.size)


def _not_a_reward(value: float) -> str:
    if not np.isfinite(value):
        return "is not a finite number"
    return f"is too large to be added up: at most {LARGEST_REWARD:g}; give rewards in another unit"


def _bad_sums(where: _Where, sums: Floats, tolerance: float) -> _Found:
    bad = np.flatnonzero(np.abs(sums - 1.0) > tolerance)
    problems = []
    for pair in bad[:_COLLECTED]:
        place, value = where.pair(int(pair)), float(sums[pair])
        told = f"{value:.12g}" if f"{value:.12g}" != "1" else repr(value)
        message = f"{where.text(place)}: probabilities sum to {told}, not 1 (tolerance {tolerance:g})"
        problems.append(Problem(message, **place, value=value))
    return problems, int(bad.size)


def _undefined(where: _Where, ends: Ints, frontier: Ints | None) -> _Found:
    """States that are led to, but that no row says how to leave."""
    without = np.diff(where.pair_start) == 0
    without[ends] = False
    if frontier is not None:
        without[frontier] = False
    if not without.any():
        return [], 0
    entries = np.flatnonzero(without[where.next_state])
    led_to, first = np.unique(where.next_state[entries], return_index=True)
    problems = []
    for state, entry in list(zip(led_to, entries[first], strict=True))[:_COLLECTED]:
        place = where.entry(int(entry))
        name = where.states[int(state)]
        defined = np.flatnonzero(~without[: min(without.size, 10_000)])
        near = _same_text(name, [where.states[int(i)] for i in defined])
        fix = near or f"give its rows, or declare it terminal (absorbing, reward 0): terminal=[{name!r}]"
        problems.append(
            Problem(f"{where.text(place)}: no row says what happens in state {name!r}; {fix}", **place, value=name)
        )
    return problems, int(led_to.size)


def _same_text(name: Any, others: list[Any]) -> str:
    for other in others:
        if str(other) == str(name):
            return (
                f"there are rows for {other!r} of type {type(other).__name__}, "
                f"but this is a {type(name).__name__}: use one type for both columns"
            )
    return ""


def terminal_states(states: Names, terminal: Any) -> Ints:
    """The states where episodes end, by index, from a list of them or a function of a state's name."""
    if callable(terminal):
        return np.array([s for s, name in enumerate(states) if ends_in(terminal, name)], dtype=np.int32)
    if isinstance(terminal, str) or not isinstance(terminal, Iterable):
        fix = "" if terminal is None else f": terminal=[{terminal!r}]"
        raise ModelError(f"terminal= takes a list of states, not {terminal!r}{fix}")
    found = []
    for name in terminal:
        i = states.find(name)
        if i < 0:
            raise ModelError(Problem(f"terminal=: {states.missing(name, 'state')}", value=name))
        found.append(i)
    return np.unique(np.array(found, dtype=np.int32))


def ends_in(terminal: Callable[[Any], Any], state: Any) -> bool:
    """Whether a function says that episodes end in a state."""
    try:
        ends = terminal(state)
    except Exception as error:
        error.add_note(f"while looking for terminal states: state {state!r}")
        raise
    if not isinstance(ends, bool | np.bool_):
        message = f"terminal=: the function gave {ends!r} for state {state!r}, not True or False"
        raise ModelError(Problem(message, state=state, value=ends))
    return bool(ends)


def _terminal_with_rows(where: _Where, ends: Ints) -> _Found:
    bad = ends[where.pair_start[ends + 1] > where.pair_start[ends]]
    problems = []
    for state in bad[:_COLLECTED]:
        name = where.states[int(state)]
        pairs = range(int(where.pair_start[state]), int(where.pair_start[state + 1]))
        named = name_list(where.actions[int(where.pair_action[pair])] for pair in pairs)
        message = f"state {name!r} is declared terminal but has rows (for {named}); drop one or the other"
        problems.append(Problem(message, state=name))
    return problems, int(bad.size)


def _normalise(probability: Floats, row_start: Ints, sums: Floats) -> None:
    """Divide each row by its sum, in place, a chunk at a time (a model may be most of the memory)."""
    for low in range(0, sums.size, _CHUNK):
        high = min(low + _CHUNK, sums.size)
        begin, end = row_start[low], row_start[high]
        probability[begin:end] /= np.repeat(sums[low:high], np.diff(row_start[low : high + 1]))


def _by_pair_if_possible(rewards: Rewards, row_start: Ints) -> Rewards:
    if not rewards.by_entry:
        return rewards
    starts = row_start[:-1]
    lowest = np.minimum.reduceat(rewards.values, starts, axis=-1)
    highest = np.maximum.reduceat(rewards.values, starts, axis=-1)
    return Rewards(lowest, by_entry=False) if np.array_equal(lowest, highest) else rewards


def _with_terminal(
    ends: Ints,
    n_actions: int,
    pair_start: Ints,
    pair_action: Ints,
    row_start: Ints,
    next_state: Ints,
    probability: Floats,
    rewards: Rewards,
) -> tuple[Ints, Ints, Ints, Ints, Floats, Rewards]:
    """Give each terminal state every action, each leading back to it for a reward of 0.

    Every action, not one: an observed action that goes on after the end must not count as changed.
    """
    pair_at = np.repeat(pair_start[ends], n_actions)
    entry_at = row_start[pair_at]
    added = np.zeros(pair_start.size, dtype=pair_start.dtype)
    added[ends + 1] = n_actions
    lengths = np.insert(np.diff(row_start), pair_at, 1)
    reward_at = entry_at if rewards.by_entry else pair_at
    return (
        pair_start + np.cumsum(added),
        np.insert(pair_action, pair_at, np.tile(np.arange(n_actions, dtype=pair_action.dtype), ends.size)),
        np.concatenate(([0], np.cumsum(lengths, dtype=row_start.dtype))),
        np.insert(next_state, entry_at, np.repeat(ends, n_actions)),
        np.insert(probability, entry_at, 1.0),
        Rewards(np.insert(rewards.values, reward_at, 0.0, axis=-1), rewards.by_entry),
    )


def final_rewards(states: Names, given: Any) -> Floats:
    """The reward of ending in each state, from a function, a mapping or an array."""
    if isinstance(given, Mapping):
        for name in given:
            if name not in states:
                raise ModelError(Problem(f"final_reward: {states.missing(name, 'state')}", state=name))
        values = [given.get(name, 0.0) for name in states]
    elif callable(given):
        values = [given(name) for name in states]
    else:
        values = given
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ModelError(f"final_reward is not made of numbers: {error}") from None
    if array.shape != (len(states),):
        raise ModelError(
            f"final_reward has shape {array.shape}; expected one number for each of {len(states):,} states"
        )
    bad = np.flatnonzero(~(np.abs(array) <= LARGEST_REWARD))
    if bad.size:
        name, value = states[int(bad[0])], float(array[bad[0]])
        raise ModelError(
            Problem(f"state {name!r}: the final reward {value!r} {_not_a_reward(value)}", state=name, value=value)
        )
    array.flags.writeable = False
    return array
