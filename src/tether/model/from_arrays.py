"""From arrays to the tabular form: P (S, A, S) or one sparse matrix per action, R in four shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether.errors import ModelError
from tether.model.finish import finish
from tether.model.form import Form, Rewards
from tether.model.names import Names, make_names

_SHAPES = {
    "sa": "(S, A)",
    "sas": "(S, A, S)",
    "tsa": "(T, S, A)",
    "tsas": "(T, S, A, S)",
}


def form_from_arrays(
    P: Any,
    R: Any,
    *,
    states: Any,
    actions: Any,
    terminal: Iterable[Any] | Callable[[Any], bool],
    tolerance: float,
    reward_axes: str | None,
) -> tuple[Names, Names, Form]:
    """Convert P and R to the tabular form; see `tether.MDP.from_arrays` for their possible shapes."""
    matrices = _sparse_list(P, "P")
    rows = _dense_rows(P) if matrices is None else _sparse_rows(matrices)
    state_names = make_names(states, rows.n_states, "state")
    action_names = make_names(actions, rows.n_actions, "action")
    lengths = rows.lengths.reshape(-1)
    kept = np.flatnonzero(lengths)
    pair_action = (kept % rows.n_actions).astype(np.int32)
    pair_state = kept // rows.n_actions
    pair_start = np.searchsorted(pair_state, np.arange(rows.n_states + 1)).astype(np.int64)
    row_start = np.concatenate(([0], np.cumsum(lengths[kept], dtype=np.int64)))
    pairs = Pairs(pair_state, pair_action, row_start, rows.next_state)
    rewards = rewards_from(R, pairs, rows.n_states, rows.n_actions, reward_axes)
    form = finish(
        state_names,
        action_names,
        pair_start=pair_start,
        pair_action=pair_action,
        row_start=row_start,
        next_state=rows.next_state,
        probability=rows.probability,
        rewards=rewards,
        terminal=terminal,
        tolerance=tolerance,
    )
    return state_names, action_names, form


class _Rows(NamedTuple):
    n_states: int
    n_actions: int
    lengths: Ints  # (S, A), 0 where the action is not available
    next_state: Ints
    probability: Floats


class Pairs(NamedTuple):
    """The pairs of a model and where they lead."""

    state: Ints
    action: Ints
    row_start: Ints
    next_state: Ints

    def by_entry(self) -> tuple[Ints, Ints, Ints]:
        """State, action and next state of every entry."""
        lengths = np.diff(self.row_start)
        return np.repeat(self.state, lengths), np.repeat(self.action, lengths), self.next_state


def _sparse_list(values: Any, name: str) -> list[Any] | None:
    """The sparse matrices of a list, one per action; None if ``values`` contains none."""
    if hasattr(values, "tocsr"):
        advice = f"give a list with one sparse (S, S) matrix per action: [{name}0, {name}1, …]"
        raise ModelError(f"{name} is one sparse matrix; {advice}")
    if isinstance(values, Mapping):
        raise ModelError(f"{name} is a dict; give a list with one sparse (S, S) matrix per action, and actions=")
    listed = isinstance(values, Sequence) or (isinstance(values, np.ndarray) and values.dtype == object)
    if not listed or not any(hasattr(matrix, "tocsr") for matrix in values):
        return None
    for a, matrix in enumerate(values):
        if not hasattr(matrix, "tocsr"):
            raise ModelError(f"{name}[{a}] is a {type(matrix).__name__}, not a sparse matrix as the others are")
    return list(values)


def _numbers(values: Any, name: str) -> Floats:
    try:
        array = np.asarray(values)
        if array.dtype.kind in "fiubO":
            return array.astype(np.float64, copy=False)
        problem = f"its data type is {array.dtype}"
    except (TypeError, ValueError, OverflowError) as error:
        problem = str(error)
    raise ModelError(f"{name} is not an array of numbers: {problem}")


def _dense_rows(P: Any) -> _Rows:
    array = _numbers(P, "P")
    if array.size == 0:
        raise ModelError("the model is empty: it has no transitions")
    if array.ndim != 3 or array.shape[0] != array.shape[2]:
        hint = ""
        if array.ndim == 3 and array.shape[1] == array.shape[2]:
            hint = "; this looks like (A, S, S): pass P.transpose(1, 0, 2)"
        raise ModelError(f"P has shape {array.shape}; expected (S, A, S), or one sparse (S, S) matrix per action{hint}")
    n_states, n_actions, _ = array.shape
    flat = np.flatnonzero(array)
    lengths = np.count_nonzero(array, axis=2)
    return _Rows(n_states, n_actions, lengths, (flat % n_states).astype(np.int32), array.reshape(-1)[flat])


def _sparse_rows(matrices: Sequence[Any]) -> _Rows:
    """Interleave one CSR matrix per action: the rows of state 0 for every action, then of state 1, …"""
    n_states, n_actions = matrices[0].shape[0], len(matrices)
    rows = []
    for a, matrix in enumerate(matrices):
        if matrix.shape != (n_states, n_states):
            wanted = f"({n_states}, {n_states}), a row and a column for each of the {n_states} rows of P[0]"
            raise ModelError(f"P[{a}] has shape {matrix.shape}; expected {wanted}")
        rows.append(_clean_csr(matrix))
    lengths = np.empty((n_states, n_actions), dtype=np.int64)
    for a, row in enumerate(rows):
        lengths[:, a] = np.diff(row.indptr)
    ends = np.cumsum(lengths.reshape(-1)).reshape(n_states, n_actions)
    n_entries = int(ends[-1, -1]) if ends.size else 0
    next_state = np.empty(n_entries, dtype=np.int32)
    probability = np.empty(n_entries, dtype=np.float64)
    for a, row in enumerate(rows):
        shift = ends[:, a] - lengths[:, a] - row.indptr[:-1]
        place = np.repeat(shift, lengths[:, a])
        place += np.arange(place.size)
        next_state[place] = row.indices
        probability[place] = row.data
    return _Rows(n_states, n_actions, lengths, next_state, probability)


def _clean_csr(matrix: Any) -> Any:
    """The matrix in CSR with sorted rows and no stored zeros; the user's own is left as it is."""
    csr = matrix.tocsr()
    if csr.data.dtype.kind not in "fiub":
        raise ModelError(f"P is not an array of numbers: its data type is {csr.data.dtype}")
    if not csr.has_sorted_indices:
        csr = csr.sorted_indices()
    if not np.all(csr.data):
        csr = csr.copy()
        csr.eliminate_zeros()
    return csr


def rewards_from(R: Any, pairs: Pairs, n_states: int, n_actions: int, axes: str | None) -> Rewards:
    """Take from R the rewards of the pairs, or entries, that exist; the rest is not read."""
    if R is None:
        return Rewards(np.zeros(pairs.action.size), by_entry=False)
    matrices = _sparse_list(R, "R")
    if matrices is not None:
        return Rewards(_sparse_rewards(matrices, pairs, n_states, n_actions), by_entry=True)
    array = _numbers(R, "R")
    axes = _reward_axes(array, n_states, n_actions, axes)
    if axes.endswith("sas"):
        s, a, j = pairs.by_entry()
        return Rewards(array[..., s, a, j], by_entry=True)
    return Rewards(array[..., pairs.state, pairs.action], by_entry=False)


def _reward_axes(array: Floats, n_states: int, n_actions: int, axes: str | None) -> str:
    """Which of the four shapes R has. If both fit, (S, A, S) is taken before (T, S, A)."""
    tails = {"sa": (n_states, n_actions), "sas": (n_states, n_actions, n_states)}
    fits = [
        name
        for name in ("sa", "sas", "tsa", "tsas")
        if array.ndim == len(name)
        and array.shape[name.startswith("t") :] == tails[name.removeprefix("t")]
        and array.shape[0] > 0
    ]
    if axes is not None and axes not in _SHAPES:
        raise ModelError(f"reward_axes= must be one of {', '.join(map(repr, _SHAPES))}, not {axes!r}")
    if not fits or (axes is not None and axes not in fits):
        wanted = " or ".join(_SHAPES.values()) if axes is None else _SHAPES[axes]
        hint = ""
        if array.shape == (n_states,):
            hint = "; for a reward that depends on the state alone, repeat it for each action: "
            hint += f"np.repeat(R[:, None], {n_actions}, axis=1)"
        elif array.shape == (n_actions, n_states):
            hint = "; this looks like (A, S): pass R.T"
        raise ModelError(f"R has shape {array.shape}; expected {wanted} with S = {n_states}, A = {n_actions}{hint}")
    return fits[0] if axes is None else axes


def _sparse_rewards(matrices: Sequence[Any], pairs: Pairs, n_states: int, n_actions: int) -> Floats:
    if len(matrices) != n_actions or any(matrix.shape != (n_states, n_states) for matrix in matrices):
        shapes = ", ".join(str(matrix.shape) for matrix in matrices)
        raise ModelError(f"R has sparse matrices of shapes {shapes}; expected {n_actions} of ({n_states}, {n_states})")
    s, a, j = pairs.by_entry()
    values = np.zeros(j.size)
    for action, matrix in enumerate(matrices):
        mine = np.flatnonzero(a == action)
        if mine.size:
            values[mine] = np.asarray(matrix.tocsr()[s[mine], j[mine]]).reshape(-1)
    return values
