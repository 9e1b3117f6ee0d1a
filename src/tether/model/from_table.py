"""From columns to the tabular form: one row a transition, any names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tether._types import Floats, Ints
from tether.errors import ModelError, Problem
from tether.model.form import Form, Rewards, finish
from tether.model.names import Names, encode, plain

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
) -> tuple[Names, Names, Form]:
    """Bring a table of transitions to the tabular form; see `tether.MDP.from_table`."""
    columns = {"state": state, "action": action, "next_state": next_state, "probability": probability}
    if reward is not None:
        columns["reward"] = reward
    columns = {name: _column(name, values) for name, values in columns.items()}
    sizes = {name: len(values) for name, values in columns.items()}
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{name} {size:,}" for name, size in sizes.items())
        raise ModelError(f"the columns differ in length: {told}")
    if sizes["state"] == 0:
        raise ModelError("the model is empty: it has no transitions")
    chance = _number_column("probability", columns["probability"])
    gain = None if reward is None else _number_column("reward", columns["reward"])
    state_names, (s, j) = encode([columns["state"], columns["next_state"]], "state", ["state", "next state"], states)
    action_names, (a,) = encode([columns["action"]], "action", ["action"], actions)
    _no_zero_rows(state_names, action_names, s, a, chance)
    form = form_from_codes(
        state_names, action_names, s, a, j, chance, gain, terminal=terminal, tolerance=tolerance, rows=True
    )
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
    rows: bool = False,
) -> Form:
    """Sort transitions given by index into the tabular form; ``rows`` if they are a user's table."""
    given = np.flatnonzero(probability != 0)  # NaN is kept, to be reported
    key = s.astype(np.int64) * len(actions) + a
    order = given
    if not _is_sorted(key[given], j[given]):
        order = given[np.lexsort((j[given], key[given]))]
    key = key[order]
    first = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1]))) if key.size else np.empty(0, np.int64)
    pair_key = key[first]
    pair_start = np.searchsorted(pair_key, np.arange(len(states) + 1) * len(actions)).astype(np.int64)
    rewards = Rewards(np.zeros(first.size), False) if reward is None else Rewards(reward[order], by_entry=True)
    return finish(
        states,
        actions,
        pair_start=pair_start,
        pair_action=(pair_key % max(len(actions), 1)).astype(np.int32),
        row_start=np.concatenate((first, [key.size])).astype(np.int64),
        next_state=np.ascontiguousarray(j[order], dtype=np.int32),
        probability=np.ascontiguousarray(probability[order]),
        rewards=rewards,
        terminal=terminal,
        frontier=frontier,
        tolerance=tolerance,
        input_row=(lambda entry: int(order[entry])) if rows else None,
    )


def _is_sorted(key: Ints, j: Ints) -> bool:
    later = key[1:] > key[:-1]
    return bool(np.all(later | ((key[1:] == key[:-1]) & (j[1:] >= j[:-1]))))


def _column(name: str, values: Any) -> Any:
    if isinstance(values, str) or not (hasattr(values, "__len__") or hasattr(values, "__iter__")):
        raise ModelError(f"the column {name} must be a list or array with one item a transition, not {values!r}")
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise ModelError(f"the column {name} must be flat; got an array of shape {values.shape}")
    return values if hasattr(values, "__len__") else list(values)


def _number_column(name: str, values: Any) -> Floats:
    if not isinstance(values, np.ndarray) and hasattr(values, "to_numpy"):
        values = np.asarray(values)
    if not _holds_others(values):
        try:
            array = np.array(values, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            array = np.empty((0, 0))
        if array.ndim == 1:
            return array
    for row, value in enumerate(plain(values)):
        if isinstance(value, str | bytes) or not _is_number(value):
            message = f"row {row}: the {name} {value!r} is not a number"
            raise ModelError(Problem(message, value=value, row=row))
    raise ModelError(f"the column {name} is not a flat list of numbers")


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


def _no_zero_rows(states: Names, actions: Names, s: Ints, a: Ints, probability: Floats) -> None:
    """A pair whose every row has probability 0 is a slip, not an unavailable action."""
    key = s.astype(np.int64) * len(actions) + a
    zero = np.setdiff1d(key[probability == 0], key[probability != 0])
    problems = []
    for one in zero[:100]:
        state, action = states[int(one // len(actions))], actions[int(one % len(actions))]
        row = int(np.flatnonzero(key == one)[0])
        message = f"row {row}: state {state!r}, action {action!r}: every probability is 0"
        message += "; leave the rows out if the action is not available there"
        problems.append(Problem(message, state=state, action=action, value=0.0, row=row))
    if problems:
        raise ModelError(problems, total=int(zero.size))
