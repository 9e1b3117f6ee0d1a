"""From columns to the tabular form: one row per transition, any names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.problems import Complaints, Source
from tether.errors import ModelError, Problem
from tether.model.encode import encode
from tether.model.form import Form, Rewards, finish
from tether.model.names import Names, plain

__all__ = ["form_from_codes", "form_from_table"]


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
    """Bring a table of transitions to the tabular form; see `tether.MDP.from_table`.

    ``source`` says where the table is, if it was read from a file. ``own`` says that nobody else has the columns: the
    model may keep and change them.
    """
    source = source or Source()
    columns = {"state": state, "action": action, "next_state": next_state, "probability": probability}
    if reward is not None:
        columns["reward"] = reward
    columns = {name: _column(name, values) for name, values in columns.items()}
    sizes = {name: len(values) for name, values in columns.items()}
    if len(set(sizes.values())) > 1:
        text = ", ".join(f"{name} {size:,}" for name, size in sizes.items())
        raise ModelError(f"the columns differ in length: {text}")
    if sizes["state"] == 0:
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
    key: Ints = s.astype(np.int64 if len(states) * len(actions) >= 2**31 else np.int32)
    key *= len(actions)
    key += a
    rows: Ints | range
    if key.size and probability.all() and np.all(key[1:] >= key[:-1]):
        rows, j, probability, reward = _sorted_within_pairs(key, j, probability, reward, own)
    else:
        order = _order(key, j, probability, len(states))
        key, j, probability, rows = key[order], j[order].astype(np.int32, copy=False), probability[order], order
        reward = None if reward is None else reward[order]
    first = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1]))) if key.size else np.empty(0, np.int64)
    pair_key = key[first]
    pair_start = np.searchsorted(pair_key, np.arange(len(states) + 1) * len(actions)).astype(np.int64)
    rewards = Rewards(np.zeros(first.size), False) if reward is None else Rewards(reward, by_entry=True)
    return finish(
        states,
        actions,
        pair_start=pair_start,
        pair_action=(pair_key % max(len(actions), 1)).astype(np.int32),
        row_start=np.concatenate((first, [key.size])).astype(np.int64),
        next_state=j,
        probability=probability,
        rewards=rewards,
        terminal=terminal,
        frontier=frontier,
        tolerance=tolerance,
        rows=None if source is None else rows,
        source=source,
    )


_PART = 1 << 17
"""So many rows are sorted at a time: what that takes stays in the processor's cache."""


def _sorted_within_pairs(
    key: Ints, j: Ints, probability: Floats, reward: Floats | None, own: bool
) -> tuple[Ints | range, Ints, Floats, Floats | None]:
    """Rows that come pair by pair, by next state within each: the rows in that order, and their columns.

    A part at a time, so that large tables need no large arrays beside those of the model, which are its own: they are
    normalised in place later.
    """
    next_state, chance = _its_own(j.astype(np.int32, copy=False), own), _its_own(probability, own)
    gain = None if reward is None else _its_own(reward, own)
    rows: Ints | range = range(key.size)
    low = 0
    while low < key.size:
        high = int(np.searchsorted(key, key[min(low + _PART, key.size) - 1], side="right"))
        part = slice(low, high)
        both = np.zeros(high - low, dtype=np.int64)  # pairs numbered off, and then the next state
        np.cumsum(key[low + 1 : high] != key[low : high - 1], out=both[1:])
        both <<= 32
        both |= next_state[part]
        if not np.all(both[1:] >= both[:-1]):
            if isinstance(rows, range):
                rows = np.arange(key.size, dtype=np.int64 if key.size >= 2**31 else np.int32)
            order = np.argsort(both, kind="stable")  # quick where rows of a pair stand together
            for column in (rows, next_state, chance, gain):
                if column is not None:
                    column[part] = column[part][order]
        low = high
    return rows, next_state, chance, gain


def _its_own(column: Any, own: bool) -> Any:
    """The column itself where it may be changed, or a copy."""
    return column if own and column.flags.owndata and column.flags.writeable else np.array(column)


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


def _column(name: str, values: Any) -> Any:
    if isinstance(values, str) or not (hasattr(values, "__len__") or hasattr(values, "__iter__")):
        raise ModelError(f"the column {name} must be a list or array with one item per transition, not {values!r}")
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise ModelError(f"the column {name} must be flat; got an array of shape {values.shape}")
    return values if hasattr(values, "__len__") else list(values)


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
    """Note pairs whose every row has probability 0: that is a slip, not an unavailable action."""
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
