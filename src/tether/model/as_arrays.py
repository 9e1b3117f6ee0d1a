"""A model as the arrays and tables that other programs take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.arrow import NameColumn
from tether.errors import ModelError, Problem, QueryError
from tether.model.finish import by_pair_if_possible, check_rewards
from tether.model.form import Form, Rewards, all_pair_states
from tether.model.from_arrays import Pairs, rewards_from
from tether.model.from_function import takes_next_state
from tether.model.names import Names

if TYPE_CHECKING:
    import pyarrow
    from scipy.sparse import csr_array

LARGEST_DENSE = 4_000_000_000
"""How many bytes a dense copy may take before it is refused."""


class ModelArrays(NamedTuple):
    """A model as arrays: what `MDP.from_arrays` takes.

    Attributes
    ----------
    P : array (S, A, S), or list of A sparse arrays (S, S)
        Probabilities. A row of zeros: the action is not available there.
    R : array (S, A) or (S, A, S), with a leading time axis where rewards depend on time; or list of A sparse arrays
        Rewards. They have an axis of next states only where they depend on it.

    Examples
    --------
    >>> import tether
    >>> arrays = tether.cases.grid_world().mdp.to_arrays(sparse=True)
    >>> len(arrays.P), arrays.P[0].shape, arrays.R.shape
    (4, (16, 16), (16, 4))
    """

    P: Floats | list[csr_array]
    R: Floats | list[csr_array]


def arrays_of(form: Form, n_actions: int, sparse: bool) -> ModelArrays:
    """The rows and rewards of a model, dense or sparse."""
    state, owner = (
        all_pair_states(form.pair_start),
        np.repeat(np.arange(form.pair_action.size), np.diff(form.row_start)),
    )
    by_entry = state[owner], form.pair_action[owner], form.next_state
    by_pair = state, form.pair_action
    n = form.pair_start.size - 1
    return (_sparse if sparse else _dense)(form, by_entry, by_pair, n, n_actions)


def _dense(form: Form, by_entry: tuple[Ints, ...], by_pair: tuple[Ints, ...], n: int, n_actions: int) -> ModelArrays:
    size = n * n * n_actions * 8
    if size > LARGEST_DENSE:
        message = f"dense arrays of {n:,} states and {n_actions:,} actions take {size / 1e9:,.0f} GB"
        raise QueryError(Problem(message, value=size, fix="ask for sparse ones: to_arrays(sparse=True)"))
    P = np.zeros((n, n_actions, n))
    P[by_entry] = form.probability
    values = form.rewards.values
    at: tuple[Any, ...] = (..., *(by_entry if form.rewards.by_entry else by_pair))
    R = np.zeros((*values.shape[:-1], *((n, n_actions, n) if form.rewards.by_entry else (n, n_actions))))
    R[at] = values
    return ModelArrays(P, R)


def _sparse(form: Form, by_entry: tuple[Ints, ...], by_pair: tuple[Ints, ...], n: int, n_actions: int) -> ModelArrays:
    from scipy.sparse import csr_array

    def matrices(values: Floats) -> list[csr_array]:
        state, action, after = by_entry
        chosen = [np.flatnonzero(action == a) for a in range(n_actions)]
        return [csr_array((values[at], (state[at], after[at])), shape=(n, n)) for at in chosen]

    values = form.rewards.values
    if not form.rewards.by_entry:
        R = np.zeros((*values.shape[:-1], n, n_actions))
        R[..., by_pair[0], by_pair[1]] = values
        return ModelArrays(matrices(form.probability), R)
    if values.ndim == 2:
        message = "rewards R(t, s, a, s') have no sparse form"
        raise QueryError(Problem(message, fix="take dense arrays: to_arrays(), or the table: to_arrow()"))
    return ModelArrays(matrices(form.probability), matrices(values))


def arrow_of(form: Form, states: Names, actions: Names) -> pyarrow.Table:
    """One row per transition: state, action, next_state, probability, reward."""
    import pyarrow as pa

    owner = np.repeat(np.arange(form.pair_action.size), np.diff(form.row_start))
    named = NameColumn(states)
    values = form.rewards.values if form.rewards.by_entry else form.rewards.values[..., owner]
    if values.ndim == 2:
        reward = pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(values.T).ravel()), values.shape[0])
    else:
        reward = pa.array(values)
    return pa.table(
        {
            "state": named.take(all_pair_states(form.pair_start)[owner]),
            "action": NameColumn(actions).take(form.pair_action[owner]),
            "next_state": named.take(form.next_state),
            "probability": pa.array(form.probability),
            "reward": reward,
        }
    )


def with_new_rewards(form: Form, states: Names, actions: Names, given: Any, axes: str | None) -> Form:
    """Its rows with new rewards: an array, or a function of a state, an action and perhaps the next state."""
    pairs = Pairs(all_pair_states(form.pair_start), form.pair_action, form.row_start, form.next_state)
    if isinstance(given, Mapping):
        fix = "give an array, or a function: lambda state, action: rewards.get((state, action), 0.0)"
        raise ModelError(Problem("rewards cannot be a mapping", fix=fix))
    if callable(given):
        rewards = _asked(pairs, states, actions, given)
    else:
        rewards = rewards_from(given, pairs, len(states), len(actions), axes)
    arrays = form.pair_start, form.pair_action, form.row_start, form.next_state, form.probability
    check_rewards(states, actions, *arrays[:-1], rewards)
    return Form(*arrays, by_pair_if_possible(rewards, form.row_start), form.rounding, form.terminal)


def _asked(pairs: Pairs, states: Names, actions: Names, given: Callable[..., Any]) -> Rewards:
    by_entry = takes_next_state(given)
    values = []
    for state, action, *after in zip(*(pairs.by_entry() if by_entry else pairs[:2]), strict=True):
        names = states[int(state)], actions[int(action)], *(states[int(one)] for one in after)
        try:
            values.append(float(given(*names)))
        except (TypeError, ValueError) as error:
            message = f"the reward of {', '.join(map(repr, names))} is not a number: {error}"
            raise ModelError(Problem(message, *names)) from error
    return Rewards(np.array(values), by_entry)
