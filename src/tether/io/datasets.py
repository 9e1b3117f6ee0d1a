"""Datasets of offline reinforcement learning (Minari, d3rlpy) as episodes; neither library is imported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tether.errors import PathError, Problem, QueryError
from tether.observation.episodes import Episodes


class _Recorded(NamedTuple):
    name: Any
    observations: Any
    actions: Any
    rewards: Any
    terminated: bool


def from_dataset(dataset: Any) -> Episodes:
    """The episodes of a Minari or d3rlpy dataset, whose observations and actions are discrete.

    Parameters
    ----------
    dataset : minari.MinariDataset, d3rlpy.dataset.ReplayBuffer, or what looks like one of them
        Observations and actions are whole numbers, or arrays of whole numbers, which become tuples; a mapping of
        observations becomes a tuple too. Continuous ones must be cut into bins first.

    Returns
    -------
    Episodes
        The reward of a step is that of its own action. An episode that was ended in a state where nothing ever goes on
        ends there. In any other state, and where the dataset does not have the last observation (d3rlpy), its outcome
        is "terminated" (in a learned model, the state to which its last action leads). An episode that was only cut
        off, "truncated", has no outcome.

    Examples
    --------
    >>> import tether
    >>> from types import SimpleNamespace as Episode
    >>> class Dataset:
    ...     def iterate_episodes(self):
    ...         steps = {"observations": [0, 4, 5], "actions": [1, 2], "rewards": [0.0, -1.0]}
    ...         yield Episode(id=0, terminations=[False, True], **steps)
    >>> episodes = tether.io.from_dataset(Dataset())
    >>> episodes[0], tether.learn(episodes)
    (<Path: 2 steps, 0 –1→ 4 –2→ 5>, <MDP: 3 states, 2 actions, 4 pairs, 4 transitions>)
    """
    columns: dict[str, list[Any]] = {name: [] for name in ("episode", "t", "state", "action", "reward", "outcome")}
    named = [(one, *_named(one)) for one in _recorded(dataset)]
    own = ends_of_their_own((states, len(actions), one.terminated) for one, states, actions in named)
    for one, states, actions in named:
        is_own = len(states) > len(actions) and states[-1] in own
        _add(columns, one, states, actions, "terminated" if one.terminated and not is_own else None)
    if not columns["t"]:
        raise PathError("the dataset has no episode with a step")
    return Episodes.from_columns(**columns)


def read_if_dataset(given: Any) -> Any:
    """The episodes of a dataset of Minari or d3rlpy; anything else as it is."""
    episodes = getattr(given, "episodes", None)
    is_dataset = callable(getattr(given, "iterate_episodes", None)) or (
        isinstance(episodes, Sequence) and all(hasattr(one, "observations") for one in episodes)
    )
    return from_dataset(given) if is_dataset else given


def _recorded(dataset: Any) -> Iterator[_Recorded]:
    if callable(getattr(dataset, "iterate_episodes", None)):  # Minari
        for i, one in enumerate(dataset.iterate_episodes()):
            ends = np.asarray(one.terminations).reshape(-1)
            name = getattr(one, "id", None)
            name = name.item() if isinstance(name, np.generic) else name
            ended = bool(ends.size and ends[-1])
            yield _Recorded(i if name is None else name, one.observations, one.actions, one.rewards, ended)
        return
    episodes = getattr(dataset, "episodes", None)
    if episodes is None:
        message = f"expected a Minari or d3rlpy dataset, not {type(dataset).__name__}"
        fix = "it needs iterate_episodes() or episodes; a table of steps goes to tether.io.read_episodes"
        raise QueryError(Problem(message, fix=fix))
    for i, one in enumerate(episodes):  # d3rlpy
        yield _Recorded(i, one.observations, one.actions, one.rewards, bool(one.terminated))


def ends_of_their_own(episodes: Iterable[tuple[Sequence[Any], int, bool]]) -> set[Any]:
    """The states that say by themselves that an episode has ended: none ever goes on there, and none is cut off there.

    An episode is its states, how many actions it has, and whether it was ended.

    Examples
    --------
    >>> sorted(ends_of_their_own([([0, 1, 5], 2, True), ([0, 1, 2], 2, False), ([1, 0], 1, True)]))
    [5]
    """
    last, going_on = set[Any](), set[Any]()
    for states, n_actions, ended in episodes:
        going_on.update(states[:n_actions])
        if len(states) > n_actions:
            (last if ended else going_on).add(states[-1])
    return last - going_on


def _named(one: _Recorded) -> tuple[list[Any], list[Any]]:
    return _names(one, "observation", one.observations), _names(one, "action", one.actions)


def _add(
    columns: dict[str, list[Any]], one: _Recorded, states: list[Any], actions: list[Any], outcome: str | None
) -> None:
    rewards = np.asarray(one.rewards, dtype=float).reshape(-1)
    if len(states) - len(actions) not in (0, 1) or rewards.size != len(actions):
        message = f"it has {len(states)} observations, {len(actions)} actions and {rewards.size} rewards"
        fix = "there must be as many rewards as actions, and as many observations or one more"
        raise PathError(Problem(message, episode=one.name, fix=fix))
    for t, state in enumerate(states):
        acts = t < len(actions)
        row = one.name, t, state, actions[t] if acts else None, rewards[t] if acts else None
        for name, value in zip(columns, (*row, outcome), strict=True):
            columns[name].append(value)


def _names(one: _Recorded, what: str, values: Any) -> list[Any]:
    """Observations or actions as names: whole numbers, or tuples of them."""
    if isinstance(values, Mapping):
        parts = [_names(one, f"{what} {key!r}", values[key]) for key in sorted(values)]
        return list(zip(*parts, strict=True))
    if isinstance(values, tuple):
        parts = [_names(one, f"{what} {i}", part) for i, part in enumerate(values)]
        return list(zip(*parts, strict=True))
    array = np.asarray(values)
    if array.dtype.kind == "f" and np.all(array == np.round(array)):
        array = array.astype(np.int64)
    if array.dtype.kind not in "iub":
        message = f"an {what} is not discrete, but {array.dtype}"
        raise PathError(Problem(message, episode=one.name, fix="cut it into bins first"))
    rows = array.reshape(len(array), -1)
    return rows[:, 0].tolist() if rows.shape[1] == 1 else [tuple(row) for row in rows.tolist()]
