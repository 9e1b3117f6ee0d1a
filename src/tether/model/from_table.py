"""From columns to the tabular form: one row per transition, any names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.checks import columns_in_full
from tether._foundation.problems import Complaints, Source, common_length
from tether.errors import ModelError, Problem
from tether.model.encode import encode
from tether.model.finish import finish
from tether.model.form import Form, Rewards
from tether.model.names import Names, plain

_PART = 1 << 17
"""How many rows are sorted at a time: few enough for the processor's cache."""

_THREADS = 4
"""How many parts are sorted at once."""


def form_from_table(
    state: Any,
    action: Any,
    next_state: Any,
    probability: Any,
    reward: Any,
    *,
    states: Any,
    actions: Any,
    terminal: Iterable[Any] | Callable[[Any], bool],
    tolerance: float,
    source: Source | None = None,
    own: bool = False,
) -> tuple[Names, Names, Form]:
    """Convert a table of transitions to the tabular form; see `tether.MDP.from_table`.

    ``source`` says where the table is, if it was read from a file. ``own`` says that nothing else uses the columns: the
    model may keep and change them.
    """
    source = source or Source()
    columns = {"state": state, "action": action, "next_state": next_state, "probability": probability}
    if reward is not None:
        columns["reward"] = reward
    columns = columns_in_full(columns, "transition", ModelError)
    if common_length(columns, ModelError) == 0:
        raise ModelError("the model is empty: it has no transitions")
    complaints = Complaints(source, ModelError)
    chance = _number_column("probability", columns["probability"], complaints)
    gain = None if reward is None else _number_column("reward", columns["reward"], complaints)
    complaints.raise_any()
    pair = [columns["state"], columns["next_state"]]
    state_names, (s, j) = encode(pair, "state", ["state", "next state"], states, complaints=complaints)
    action_names, (a,) = encode([columns["action"]], "action", ["action"], actions, complaints=complaints)
    complaints.raise_any()
    _check_zero_rows(state_names, action_names, s, a, chance, complaints)
    complaints.raise_any()
    form = form_from_codes(
        state_names, action_names, s, a, j, chance, gain,
        terminal=terminal, tolerance=tolerance, source=source, own=own,
    )  # fmt: skip
    return state_names, action_names, form


def form_from_codes(
    states: Names,
    actions: Names,
    s: Ints,
    a: Ints,
    j: Ints,
    probability: Floats,
    reward: Floats | None,
    *,
    terminal: Iterable[Any] | Callable[[Any], bool] = (),
    frontier: Ints | None = None,
    tolerance: float,
    source: Source | None = None,
    own: bool = False,
) -> Form:
    """Sort transitions given by index into the tabular form; see `form_from_table` for ``source`` and ``own``."""
    key = _pair_keys(s, a, len(states), len(actions), own)
    if key.size and probability.all() and np.all(key[1:] >= key[:-1]):
        j, probability = _its_own(j.astype(np.int32, copy=False), own), _its_own(probability, own)
        reward = None if reward is None else _its_own(reward, own)
        first = _first_of_each(key)
        pair_key, rows = key[first], _sort_within_pairs(first, j, probability, reward, key)
    else:
        rows = _order(key, j, probability, len(states))
        key, j, probability = key[rows], j[rows], probability[rows]
        reward = None if reward is None else reward[rows]
        first = _first_of_each(key)
        pair_key = key[first]
    pair_start = np.searchsorted(pair_key, np.arange(len(states) + 1) * len(actions)).astype(np.int64)
    rewards = Rewards(np.zeros(first.size), False) if reward is None else Rewards(reward, by_entry=True)
    return finish(
        states,
        actions,
        pair_start=pair_start,
        pair_action=(pair_key % max(len(actions), 1)).astype(np.int32),
        row_start=np.append(first, j.size),
        next_state=j.astype(np.int32, copy=False),
        probability=probability,
        rewards=rewards,
        terminal=terminal,
        frontier=frontier,
        tolerance=tolerance,
        rows=None if source is None else rows,
        source=source,
    )


def _pair_keys(s: Ints, a: Ints, n_states: int, n_actions: int, own: bool) -> Ints:
    """One number for each pair, ascending by state and action; written over the states, if these may be changed."""
    kind = np.int64 if max(n_states * n_actions, s.size) >= 2**31 else np.int32  # row numbers take its place later
    key: Ints = _its_own(s, own) if s.dtype == kind else s.astype(kind)
    key *= n_actions
    key += a
    return key


def _first_of_each(key: Ints) -> Ints:
    """Where each run of equal keys begins."""
    return np.flatnonzero(np.append(True, key[1:] != key[:-1])) if key.size else np.empty(0, np.int64)


def _sort_within_pairs(
    first: Ints, next_state: Ints, probability: Floats, reward: Floats | None, scratch: Ints
) -> Ints | range:
    """Sort the rows of each pair by next state, in place; returns the table row of each, in the new order.

    ``first`` is where each pair begins. Rows are sorted in parts, so that large tables need no other large arrays than
    those of the model. ``scratch`` has one number per row; at the end these are the rows of the table.
    """
    size = next_state.size
    bounds = np.append(first, size)
    cuts = [*np.searchsorted(first, range(0, size, _PART)).tolist(), first.size]

    def sort_part(low_pair: int, high_pair: int) -> bool:
        """Whether the rows of some pairs were sorted already."""
        low, high = int(bounds[low_pair]), int(bounds[high_pair])
        part = slice(low, high)
        both = np.repeat(np.arange(high_pair - low_pair) << 32, np.diff(bounds[low_pair : high_pair + 1]))
        both |= next_state[part]
        if np.all(both[1:] >= both[:-1]):
            scratch[part] = np.arange(low, high)
            return True
        order = np.argsort(both, kind="stable")  # fast if the rows of a pair are together
        scratch[part] = order + low
        for column in (next_state, probability, reward):
            if column is not None:
                column[part] = column[part][order]
        return False

    if len(cuts) == 2:
        return range(size) if sort_part(*cuts) else scratch
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_THREADS) as pool:
        were_sorted = list(pool.map(sort_part, cuts[:-1], cuts[1:]))
    return range(size) if all(were_sorted) else scratch


def _its_own(column: Any, own: bool) -> Any:
    """The column itself if it may be changed, otherwise a copy."""
    return column if own and column.flags.writeable else np.array(column)


def _order(key: Ints, j: Ints, probability: Floats, n_states: int) -> Ints:
    """The rows with a probability other than 0, by pair and next state."""
    given = None if probability.all() else np.flatnonzero(probability)  # NaN is not 0: it is kept, to be reported
    if given is not None:
        key, j = key[given], j[given]
    if key.size and (int(key.max()) + 1) * n_states < 2**63:  # then one number says both
        both = key.astype(np.int64)
        both *= n_states
        both += j
        order = np.argsort(both, kind="stable")
    else:
        order = np.lexsort((j, key))
    return order if given is None else given[order]


def _number_column(name: str, values: Any, complaints: Complaints) -> Floats:
    if not isinstance(values, np.ndarray) and hasattr(values, "to_numpy"):
        values = np.asarray(values)
    if not _holds_others(values):
        try:
            array = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            array = np.empty((0, 0))
        if array.ndim == 1:
            return array
    items = plain(values)
    bad = [row for row, item in enumerate(items) if isinstance(item, str | bytes) or not _is_number(item)]
    if not bad:
        raise ModelError(f"the column {name} is not a flat list of numbers")
    complaints.add_each(
        np.array(bad), lambda row: Problem(f"the {name} {items[row]!r} is not a number", value=items[row])
    )
    return np.zeros(len(items))


def _holds_others(values: Any) -> bool:
    """NumPy would read the text '0.5', or a date, as a number; a table should say so instead of guessing."""
    if isinstance(values, np.ndarray) and values.dtype.kind != "O":
        return values.dtype.kind not in "fiub"
    return any(isinstance(value, str | bytes) for value in values)


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _check_zero_rows(
    states: Names, actions: Names, s: Ints, a: Ints, probability: Floats, complaints: Complaints
) -> None:
    """Note pairs whose every row has probability 0: this is a mistake, not an unavailable action."""
    if probability.all():
        return
    key = s.astype(np.int64) * len(actions) + a
    zero = np.setdiff1d(key[probability == 0], key[probability != 0])

    def problem(one: int) -> Problem:
        state, action = states[one // len(actions)], actions[one % len(actions)]
        fix = "leave the rows out if the action is not available there"
        place = f"state {state!r}, action {action!r}"
        return Problem("every probability is 0", state, action, value=0.0, place=place, fix=fix)

    complaints.add_each(zero, problem, row=lambda one: int(np.argmax(key == one)))
