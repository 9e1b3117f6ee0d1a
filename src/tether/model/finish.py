"""From arrays to the form of a model: checked, with its terminal states, normalised."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.problems import Complaints, Source
from tether.errors import ModelError, Problem, QueryError
from tether.model.form import LARGEST_REWARD, ROUNDED, TOLERANCE, Form, Rewards, Rounding, pair_states
from tether.model.names import Names, name_list

_CHUNK = 1 << 16


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
    rows: Ints | range | None = None,
    source: Source | None = None,
) -> Form:
    """Check the arrays of a model, add its terminal states, normalise, and freeze.

    Every entry is a transition the user gave with a probability other than zero, rows sorted by
    next state. ``frontier`` marks states that were left unexplored on purpose. ``rows`` has the row of the user's
    table behind each entry, and ``source`` says where that table is.
    """
    if not (isinstance(tolerance, int | float | np.integer | np.floating) and 0 <= tolerance < np.inf):
        raise ModelError(f"tolerance must be a number ≥ 0, not {tolerance!r}")
    if len(states) == 0 or pair_action.size == 0:
        raise ModelError("the model is empty: it has no transitions")
    where = _Where(states, actions, pair_start, pair_action, row_start, next_state, rows, source or Source())
    ends = terminal_states(states, terminal)
    complaints = Complaints(where.source, ModelError)
    _check_probabilities(where, probability, complaints)
    _check_repeated(where, complaints)
    _check_rewards(where, rewards, complaints)
    _check_terminal(where, ends, complaints)
    complaints.raise_any()
    with np.errstate(over="ignore"):  # an infinite sum is reported like any other
        sums = np.add.reduceat(probability, row_start[:-1])
    deviation = np.abs(sums - 1.0)
    _check_sums(where, sums, deviation > tolerance, tolerance, complaints)
    _check_defined(where, ends, frontier, complaints)
    complaints.raise_any()
    rounding = Rounding(int(np.count_nonzero(deviation > 1e-12)), float(deviation.max()), float(tolerance))
    _normalise(probability, row_start, sums)
    rewards = by_pair_if_possible(rewards, row_start)
    rewards = Rewards(np.ascontiguousarray(rewards.values), rewards.by_entry)  # one step is contiguous
    if ends.size:
        pair_start, pair_action, row_start, next_state, probability, rewards = _with_terminal(
            ends, len(actions), pair_start, pair_action, row_start, next_state, probability, rewards
        )
    return Form(pair_start, pair_action, row_start, next_state, probability, rewards, rounding, ends)


def check_rewards(
    states: Names,
    actions: Names,
    pair_start: Ints,
    pair_action: Ints,
    row_start: Ints,
    next_state: Ints,
    rewards: Rewards,
) -> None:
    """Refuse rewards of a finished model that are no numbers, or too large."""
    where = _Where(states, actions, pair_start, pair_action, row_start, next_state, None, Source())
    complaints = Complaints(where.source, ModelError)
    _check_rewards(where, rewards, complaints)
    complaints.raise_any()


@dataclass(frozen=True, slots=True)
class _Where:
    """Names a pair or an entry by the user's names, and finds its row in the user's table."""

    states: Names
    actions: Names
    pair_start: Ints
    pair_action: Ints
    row_start: Ints
    next_state: Ints
    rows: Ints | range | None
    source: Source

    def pair(self, pair: int) -> dict[str, Any]:
        """The fields of a problem of a pair."""
        state = self.states[int(pair_states(self.pair_start, pair))]
        action = self.actions[int(self.pair_action[pair])]
        return {"state": state, "action": action, "place": f"state {state!r}, action {action!r}"}

    def entry(self, entry: int) -> dict[str, Any]:
        """The fields of a problem of an entry."""
        fields = self.pair(int(np.searchsorted(self.row_start, entry, side="right") - 1))
        after = self.states[int(self.next_state[entry])]
        return {**fields, "next_state": after, "place": f"{fields['place']}, next state {after!r}"}

    def row_of_entry(self, entry: int) -> int | None:
        return None if self.rows is None else int(self.rows[entry])

    def row_of_pair(self, pair: int) -> int | None:
        return self._first_row(pair, pair + 1)

    def row_of_state(self, state: int) -> int | None:
        return self._first_row(int(self.pair_start[state]), int(self.pair_start[state + 1]))

    def _first_row(self, first: int, stop: int) -> int | None:
        """The first row of a pair in a file; None in memory, where names are enough to find a pair."""
        if self.rows is None or self.source.file is None:
            return None
        return int(np.min(self.rows[int(self.row_start[first]) : int(self.row_start[stop])]))


def _check_probabilities(where: _Where, probability: Floats, complaints: Complaints) -> None:
    if probability.min() >= 0 and probability.max() < np.inf:  # not so where one is NaN
        return
    bad = np.flatnonzero(~(probability >= 0) | np.isinf(probability))

    def problem(entry: int) -> Problem:
        value = float(probability[entry])
        what = "is negative" if np.isfinite(value) else "is not a finite number"
        return Problem(f"the probability {value!r} {what}", value=value, **where.entry(entry))

    complaints.add_each(bad, problem, row=where.row_of_entry)


def _check_repeated(where: _Where, complaints: Complaints) -> None:
    same = where.next_state[1:] == where.next_state[:-1]
    same[where.row_start[1:-1] - 1] = False

    def problem(entry: int) -> Problem:
        before = where.row_of_entry(entry - 1)
        first = "" if before is None else f" (first in {where.source.place(before)})"
        fix = "add the two up or drop one"
        return Problem(f"this transition is given twice{first}", fix=fix, **where.entry(entry))

    complaints.add_each(np.flatnonzero(same) + 1, problem, row=where.row_of_entry)


def _check_rewards(where: _Where, rewards: Rewards, complaints: Complaints) -> None:
    values, width = rewards.values.reshape(-1), rewards.values.shape[-1]
    if values.min() >= -LARGEST_REWARD and values.max() <= LARGEST_REWARD:  # not so where one is NaN
        return

    def problem(i: int) -> Problem:
        t, item = divmod(i, width)
        fields = where.entry(item) if rewards.by_entry else where.pair(item)
        if rewards.values.ndim == 2:
            fields |= {"time": t, "place": f"{fields['place']}, t = {t}"}
        return _not_a_reward("reward", float(values[i]), fields)

    row = where.row_of_entry if rewards.by_entry else where.row_of_pair
    complaints.add_each(np.flatnonzero(~(np.abs(values) <= LARGEST_REWARD)), problem, row=lambda i: row(i % width))


def _not_a_reward(what: str, value: float, fields: dict[str, Any]) -> Problem:
    if not np.isfinite(value):
        return Problem(f"the {what} {value!r} is not a finite number", value=value, **fields)
    expected, fix = f"at most {LARGEST_REWARD:g}", "give rewards in another unit"
    return Problem(
        f"the {what} {value!r} is too large to be added up", value=value, expectation=expected, fix=fix, **fields
    )


def _check_sums(where: _Where, sums: Floats, is_off: Ints, tolerance: float, complaints: Complaints) -> None:
    def problem(pair: int) -> Problem:
        value = float(sums[pair])
        shown = f"{value:.12g}" if f"{value:.12g}" != "1" else repr(value)
        expected = f"1 (tolerance {tolerance:g})"
        argument = "tolerance" if abs(value - 1.0) < ROUNDED else ""
        what = f"probabilities sum to {shown}"
        return Problem(what, value=value, expectation=expected, argument=argument, **where.pair(pair))

    complaints.add_each(np.flatnonzero(is_off), problem, row=where.row_of_pair)


def _check_defined(where: _Where, ends: Ints, frontier: Ints | None, complaints: Complaints) -> None:
    """Note next states that have no rows of their own."""
    without = np.diff(where.pair_start) == 0
    without[ends] = False
    if frontier is not None:
        without[frontier] = False
    if not without.any():
        return
    entries = np.flatnonzero(without[where.next_state])
    _, first = np.unique(where.next_state[entries], return_index=True)
    defined = np.flatnonzero(~without[: min(without.size, 10_000)])

    def problem(entry: int) -> Problem:
        name = where.states[int(where.next_state[entry])]
        what, fields = f"no row says what happens in state {name!r}", where.entry(entry)
        other_type = _same_text(name, [where.states[int(i)] for i in defined])
        if other_type:
            return Problem(what, value=name, fix=other_type, **fields)
        fix = f"give its rows, or declare it terminal (absorbing, reward 0): terminal=[{name!r}]"
        return Problem(what, value=name, fix=fix, argument="terminal", **fields)

    complaints.add_each(entries[first], problem, row=where.row_of_entry)


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
            raise ModelError(states.missing(name, "state", place="terminal="))
        found.append(i)
    return np.unique(np.array(found, dtype=np.int32))


def ends_in(terminal: Callable[[Any], Any], state: Any) -> bool:
    """Whether a function says that episodes end in a state."""
    return says_yes(terminal, state, "terminal=", "terminal states", ModelError)


def says_yes(
    predicate: Callable[[Any], Any],
    state: Any,
    what: str,
    wanted: str,
    error: type[ModelError] | type[QueryError],
) -> bool:
    """What a user's function returns for a state; messages begin with ``what``, and name what was ``wanted``."""
    try:
        answer = predicate(state)
    except Exception as raised:
        raised.add_note(f"while looking for {wanted}: state {state!r}")
        raise
    if not isinstance(answer, bool | np.bool_):
        message = f"{what}: the function gave {answer!r} for state {state!r}, not True or False"
        raise error(Problem(message, state=state, value=answer))
    return bool(answer)


def _check_terminal(where: _Where, ends: Ints, complaints: Complaints) -> None:
    """Note terminal states that have rows."""

    def problem(state: int) -> Problem:
        name = where.states[state]
        pairs = range(int(where.pair_start[state]), int(where.pair_start[state + 1]))
        named = name_list(where.actions[int(where.pair_action[pair])] for pair in pairs)
        what = f"state {name!r} is declared terminal but has rows (for {named})"
        return Problem(what, state=name, fix="drop one or the other", argument="terminal")

    bad = ends[where.pair_start[ends + 1] > where.pair_start[ends]]
    complaints.add_each(bad, problem, row=where.row_of_state)


def _normalise(probability: Floats, row_start: Ints, sums: Floats) -> None:
    """Divide each row by its sum, in place, a chunk at a time (a model may be most of the memory)."""
    for low in range(0, sums.size, _CHUNK):
        high = min(low + _CHUNK, sums.size)
        begin, end = row_start[low], row_start[high]
        probability[begin:end] /= np.repeat(sums[low:high], np.diff(row_start[low : high + 1]))


def by_pair_if_possible(rewards: Rewards, row_start: Ints) -> Rewards:
    """Rewards by pair, if all entries of each row have the same; usually the first chunk decides."""
    if not rewards.by_entry:
        return rewards
    by_pair = rewards.values[..., row_start[:-1]]
    for low in range(0, row_start.size - 1, _CHUNK):
        bounds = row_start[low : low + _CHUNK + 1]
        repeated = np.repeat(by_pair[..., low : low + _CHUNK], np.diff(bounds), axis=-1)
        if not np.array_equal(rewards.values[..., bounds[0] : bounds[-1]], repeated):
            return rewards
    return Rewards(by_pair, by_entry=False)


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

    Every action, not only one: observed actions after the end must not count as changed.
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
                raise ModelError(states.missing(name, "state", place="final_reward"))
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
        fields = {"state": name, "place": f"state {name!r}"}
        raise ModelError(_not_a_reward("final reward", value, fields))
    array.flags.writeable = False
    return array
