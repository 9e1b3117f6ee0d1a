"""An episode given in a model's indices: for cohorts, where looking up every name would take most of the time."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._foundation.arrays import Ints
from tether.errors import PathError, Problem, QueryError
from tether.model.model_record import ModelRecord
from tether.observation.path import Observation, Path, observe


def observe_indices(mdp: ModelRecord, states: Any, actions: Any) -> Observation:
    """An observation from the indices of states s_0 … s_T and actions a_0 … a_{T-1}.

    The last state may be left out, or be -1, if it was not recorded. Each step must be possible in the model.

    Examples
    --------
    >>> import tether
    >>> from tether.observation.indices import observe_indices
    >>> grid = tether.cases.grid_world()
    >>> seen = tether.counterfactual(grid.mdp, grid.path).observation
    >>> again = observe_indices(grid.mdp, seen.states, seen.actions)
    >>> tether.counterfactual(grid.mdp, again).plan(k=6, m=1).value.__round__(3)
    -10.242
    """
    if not isinstance(mdp, ModelRecord):
        raise QueryError(f"expected a tether.MDP, not {type(mdp).__name__}: tether.MDP.from_arrays(P, R), …")
    s, a = _whole("states", states), _whole("actions", actions)
    if s.size == a.size:
        s = np.append(s, -1)
    if a.size == 0 or s.size != a.size + 1:
        raise PathError(f"an episode of {a.size} actions has {a.size + 1} states, the last one optional; got {s.size}")
    last = s.size - (s[-1] == -1)
    _in_range("state", s[:last], mdp.n_states)
    _in_range("action", a, mdp.n_actions)
    pairs = np.array([mdp.find_pair(int(state), int(action)) for state, action in zip(s[:-1], a, strict=True)])
    possible = pairs.min() >= 0 and all(
        np.any(mdp.form.next_state[mdp.entries(int(pair))] == outcome)
        for pair, outcome in zip(pairs[: last - 1], s[1:last], strict=True)
    )
    if not possible or (mdp.horizon is not None and mdp.horizon < a.size):
        return observe(mdp, _named(mdp, s[:last], a))  # it reports what is wrong, in names
    for array in (s, a, pairs):
        array.flags.writeable = False
    return Observation(s, a, pairs)


def path_of(mdp: ModelRecord, observation: Observation) -> Path:
    """The path of an observation: its states and actions by name, with its rewards."""
    last = observation.T + (observation.states[-1] >= 0)
    return _named(mdp, observation.states[:last], observation.actions, observation.rewards)


def _named(mdp: ModelRecord, states: Ints, actions: Ints, rewards: Any = None) -> Path:
    return Path([mdp.states[int(s)] for s in states], [mdp.actions[int(a)] for a in actions], rewards)


def _whole(name: str, values: Any) -> Ints:
    array = np.asarray(values)
    if array.ndim != 1 or not (np.issubdtype(array.dtype, np.integer) or array.size == 0):
        raise PathError(f"{name} must be a list of whole numbers, the model's indices; got {values!r}")
    return array.astype(np.int64)


def _in_range(name: str, values: Ints, size: int) -> None:
    outside = np.flatnonzero((values < 0) | (values >= size))
    if outside.size:
        t = int(outside[0])
        message, fix = f"there is no {name} with index {values[t]}", f"the model has 0 to {size - 1:,}"
        raise PathError(Problem(message, time=t, value=int(values[t]), place=f"t = {t}", fix=fix))
