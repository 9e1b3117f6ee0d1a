"""The observation: one episode that really happened, s_0, a_0, s_1, …, a_{T-1}[, s_T].

T counts transitions. The last outcome s_T may be missing: a record often ends with an action
whose result was not written down. Nothing is then inferred from the last step; its rows stay nominal.

Three things are easily confused. A `Path` is one episode that happened, in names. `tether.Episodes` are many
of them, as a log has them, in arrays. `tether.records.Trajectories` did not happen: they are drawn from a policy.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Ints
from tether._foundation.arrow import Tabular, name_array
from tether._foundation.markup import html_table
from tether._foundation.problems import Complaints, Source
from tether._foundation.words import counted
from tether.errors import PathError, Problem, QueryError
from tether.model.model_record import ModelRecord
from tether.model.names import Unknown, is_missing, name_list, plain
from tether.observation.ends import settled

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, slots=True, repr=False, init=False)
class Path(Tabular):
    """An observed episode, by names.

    Parameters
    ----------
    states : iterable of hashable
        s_0 … s_T, or s_0 … s_{T-1} if the last outcome was not recorded.
    actions : iterable of hashable
        a_0 … a_{T-1}.
    rewards : iterable of float, optional
        The reward of each of the T steps in the log or the environment; None (or NaN) if it is unknown. Plans use the
        rewards of the model; these are only compared with them.
    outcome : str, optional
        How the episode ended, if the log has a column for it: "died". See `tether.observation.ends`.

    Examples
    --------
    >>> import tether
    >>> path = tether.Path(["sick", "sick", "well"], ["wait", "treat"], rewards=[-1, 5])
    >>> path
    <Path: 2 steps, 'sick' –'wait'→ 'sick' –'treat'→ 'well'>
    >>> path.T, path.last_recorded, path.rewards
    (2, True, (-1.0, 5.0))
    """

    states: tuple[Any, ...]
    actions: tuple[Any, ...]
    rewards: tuple[float | None, ...] | None = None
    outcome: str | None = None

    def __init__(self, states: Any, actions: Any, rewards: Any = None, outcome: str | None = None) -> None:
        for name, given in (("states", states), ("actions", actions)):
            if isinstance(given, str) or not hasattr(given, "__iter__"):
                raise PathError(Problem(f"{name} must be a list of names, not {given!r}", value=given))
            object.__setattr__(self, name, tuple(plain(given)))
            for t, one in enumerate(getattr(self, name)):
                if not isinstance(one, Hashable):
                    message = f"the {name[:-1]} {one!r} cannot be a name, it is not hashable"
                    raise PathError(Problem(message, time=t, value=one, place=f"t = {t}", fix="use a tuple"))
        n, T = len(self.states), len(self.actions)
        if T == 0:
            raise PathError(f"a path needs at least one action; got {counted(n, 'state')} and no actions")
        if n not in (T, T + 1):
            raise PathError(
                f"a path of {counted(T, 'action')} has {T + 1} states, or {T} if the last outcome was not "
                f"recorded; got {n}"
            )
        object.__setattr__(self, "rewards", None if rewards is None else _rewards(rewards, T))
        if outcome is not None and (not isinstance(outcome, str) or not outcome):
            raise PathError(Problem(f"the outcome must be a word, such as 'died', not {outcome!r}", value=outcome))
        object.__setattr__(self, "outcome", outcome)

    @property
    def T(self) -> int:
        """Number of steps (transitions)."""
        return len(self.actions)

    @property
    def last_recorded(self) -> bool:
        """Whether the outcome of the last action was recorded."""
        return len(self.states) == len(self.actions) + 1

    def first(self, steps: int) -> Path:
        """The first steps of the episode alone; the same path where it has no more.

        Examples
        --------
        >>> import tether
        >>> tether.Path(["a", "b", "c"], ["go", "stay"]).first(1)
        <Path: 1 step, 'a' –'go'→ 'b'>
        """
        if steps >= self.T:
            return self
        return Path(self.states[: steps + 1], self.actions[:steps], self.rewards and self.rewards[:steps])

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def in_short(self) -> str:
        """The path in a line: how many steps, the first two and the last.

        Examples
        --------
        >>> import tether
        >>> tether.Path(["sick", "well"], ["treat"]).in_short
        "1 step, 'sick' –'treat'→ 'well'"
        """
        outcomes = [*(f"{state!r}" for state in self.states[1:]), *([] if self.last_recorded else ["?"])]
        moves = [f" –{action!r}→ {after}" for action, after in zip(self.actions, outcomes, strict=True)]
        if len(moves) > 4:
            moves = [*moves[:2], " …", moves[-1]]
        end = "" if self.outcome is None else f"; {self.outcome}"
        return f"{counted(self.T, 'step')}, {self.states[0]!r}{''.join(moves)}{end}"

    def to_arrow(self) -> pyarrow.Table:
        """One row per time: t, state, action, which is empty at T, and reward if there are any.

        Examples
        --------
        >>> import tether
        >>> tether.Path(["sick", "well"], ["treat"]).to_arrow().to_pylist()
        [{'t': 0, 'state': 'sick', 'action': 'treat'}, {'t': 1, 'state': 'well', 'action': None}]
        """
        import pyarrow as pa

        unknown = [None] * (self.T + 1 - len(self.states))
        columns = {
            "t": pa.array(range(self.T + 1), pa.int64()),
            "state": name_array([*self.states, *unknown]),
            "action": name_array([*self.actions, None]),
        }
        if self.rewards is not None:
            columns["reward"] = pa.array([*self.rewards, None], pa.float64())
        return pa.table(columns)

    def __repr__(self) -> str:
        return f"<Path: {self.in_short}>"

    def _repr_html_(self) -> str:
        states = [*self.states, *([] if self.last_recorded else ["not recorded"])]
        columns = [range(self.T + 1), states, [*self.actions, ""]]
        if self.rewards is None:
            return html_table(("t", "state", "action"), [*zip(*columns, strict=True)])
        columns.append([*("" if reward is None else f"{reward:g}" for reward in self.rewards), ""])
        return html_table(("t", "state", "action", "reward"), [*zip(*columns, strict=True)])


def _rewards(given: Any, T: int) -> tuple[float | None, ...] | None:
    """One reward per step, None if unknown; None if no reward is known."""
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        raise PathError(Problem(f"rewards must be a list of numbers, one per step, not {given!r}", value=given))
    rewards = [_reward(t, value) for t, value in enumerate(plain(given))]
    if len(rewards) != T:
        raise PathError(
            f"a path of {counted(T, 'action')} has {counted(T, 'reward')}, one per action; got {len(rewards)}"
        )
    return None if all(reward is None for reward in rewards) else tuple(rewards)


def _reward(t: int, value: Any) -> float | None:
    if is_missing(value):
        return None
    if not isinstance(value, bool | str | bytes):
        with suppress(TypeError, ValueError, OverflowError):
            reward = float(value)
            if math.isfinite(reward):
                return reward
    message, fix = f"the reward {value!r} is not a finite number", "give None where it is not known"
    raise PathError(Problem(message, time=t, value=value, place=f"t = {t}", fix=fix))


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """A path in a model's indices.

    Attributes
    ----------
    states : array (T + 1,)
        -1 at T if the last outcome was not recorded.
    actions, pairs : array (T,)
        The observed action, and the pair of state and action, of each step.
    rewards : tuple or None
        The reward of each step, as in `Path`.
    """

    states: Ints
    actions: Ints
    pairs: Ints
    rewards: tuple[float | None, ...] | None = None

    @property
    def T(self) -> int:
        """Number of steps."""
        return int(self.actions.size)


def time_index(t: Any, last: int) -> int:
    """``t`` as an int from 0 to ``last``, or an error that says so."""
    if isinstance(t, bool) or not isinstance(t, int | np.integer) or not 0 <= t <= last:
        raise QueryError(Problem(f"t must be a whole number from 0 to {last}, not {t!r}", value=t))
    return int(t)


def observe(mdp: ModelRecord, path: Path, unknown: Unknown | None = None) -> Observation:
    """Find a path in a model; raise a `PathError` for each step that cannot have happened.

    ``unknown`` is shared by many paths, whose unknown names are often the same.
    """
    if not isinstance(mdp, ModelRecord):
        raise QueryError(f"expected a tether.MDP, not {type(mdp).__name__}: tether.MDP.from_arrays(P, R), …")
    if not isinstance(path, Path):
        raise PathError(f"expected a tether.Path, not {type(path).__name__}: tether.Path(states, actions)")
    if mdp.horizon is not None and mdp.horizon < path.T:
        raise PathError(
            f"the path has {path.T} steps, but the model is valid for up to {mdp.horizon:,} only; "
            "explore it further (horizon=), give rewards for more steps, or cut the path"
        )
    path = settled(mdp, path)
    complaints, unknown = Complaints(Source(), PathError), unknown or Unknown()
    states = np.full(path.T + 1, -1, dtype=np.int64)
    actions = np.full(path.T, -1, dtype=np.int64)
    pairs = np.full(path.T, -1, dtype=np.int64)
    for t, state in enumerate(path.states):
        states[t] = mdp.states.find(state)
        if states[t] < 0:
            complaints.add(unknown.problem(mdp.states, state, "state", time=t, place=f"t = {t}"))
    for t, action in enumerate(path.actions):
        actions[t] = mdp.actions.find(action)
        if actions[t] < 0:
            complaints.add(unknown.problem(mdp.actions, action, "action", time=t, place=f"t = {t}"))
        elif states[t] >= 0:
            pairs[t] = mdp.find_pair(int(states[t]), int(actions[t]))
            for problem in _impossible(mdp, path, t, int(pairs[t]), int(states[t + 1])):
                complaints.add(problem)
    complaints.raise_any()
    for array in (states, actions, pairs):
        array.flags.writeable = False
    return Observation(states, actions, pairs, path.rewards)


def _impossible(mdp: ModelRecord, path: Path, t: int, pair: int, outcome: int) -> list[Problem]:
    """Why step ``t`` cannot have happened, and what could have happened; empty if it can."""
    state, action = path.states[t], path.actions[t]
    if pair < 0:
        there = mdp.actions_in(state)
        could = f"available are {name_list(there)}" if there else "the model gives no action there"
        message = f"action {action!r} is not available in state {state!r}"
        return [Problem(message, state, action, time=t, value=action, place=f"t = {t}", fix=could)]
    if outcome < 0:
        return []
    entries = mdp.entries(pair)
    next_state, probability = mdp.form.next_state[entries], mdp.form.probability[entries]
    if np.any(next_state == outcome):
        return []
    most = np.argsort(-probability, kind="stable")[:6]
    could = ", ".join(f"{mdp.states[int(next_state[i])]!r} ({probability[i]:.3g})" for i in most)
    more = f", … ({next_state.size:,} in all)" if next_state.size > 6 else ""
    after = path.states[t + 1]
    message = f"state {state!r}, action {action!r} cannot lead to {after!r}, the model gives it probability 0"
    fix = f"it could have led to {could}{more}"
    return [Problem(message, state, action, after, time=t, value=0.0, place=f"t = {t}", fix=fix)]
