"""The kinds of steps in a log, each with how often it occurs: all that learning needs.

Two steps are of one kind if state, action, outcome and reward are the same, and if both or neither are the last of
their episodes. A log larger than memory is reduced to kinds piece by piece: the memory grows with the number of kinds,
not with the log.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether.errors import ModelError, Problem
from tether.io.logs import read_episodes, read_sound_episodes
from tether.logs.batches import open_pieces
from tether.model.names import Names, make_names, names_in_use
from tether.observation.episodes import Episodes


@dataclass(frozen=True, slots=True, eq=False)
class Kinds:
    """Kinds of steps, by index; ``next_state`` is -1 if it was not recorded, ``reward`` NaN if it is empty.

    Attributes
    ----------
    states, actions : Names
    state, action, next_state, reward, last
        For each kind; ``last`` says whether it is the last step of episodes. ``reward`` is None for a log without
        rewards.
    times : array
        How often each kind occurs.
    episodes, longest : int
        How many episodes there are, and how many steps the longest has.
    example : callable
        An episode and a step of it, for a kind by index.
    outcomes : sequence of str or None
        How episodes ended, by a column of the log, if it has one.
    """

    states: Names
    actions: Names
    state: Ints
    action: Ints
    next_state: Ints
    reward: Floats | None
    last: Any
    times: Ints
    episodes: int
    longest: int
    example: Callable[[int], tuple[Any, int]]
    outcomes: Any = None

    @property
    def n_steps(self) -> int:
        """How many steps there are."""
        return int(self.times.sum())

    @property
    def unrecorded(self) -> int:
        """How many last outcomes were not recorded."""
        return int(self.times[self.next_state < 0].sum())

    @classmethod
    def of(cls, log: Episodes) -> Kinds:
        """Every step of a log as a kind of its own."""

        def example(step: int) -> tuple[Any, int]:
            episode = int(np.searchsorted(log.start, step, side="right")) - 1
            return log.ids[episode], step - int(log.start[episode])

        log = with_ends(log)
        last = np.zeros(log.n_steps, dtype=bool)
        last[log.start[1:] - 1] = True
        arrays = (log.state, log.action, log.next_state, log.reward, last, np.ones(log.n_steps, dtype=np.int64))
        longest = int(np.diff(log.start).max(initial=0))
        return cls(log.states, log.actions, *arrays, len(log), longest, example, log.outcomes)


def gather_kinds(pieces: Iterable[Episodes]) -> Kinds:
    """The kinds of steps of a log that comes in pieces of whole episodes.

    Examples
    --------
    >>> import tether
    >>> from tether.learning.kinds import gather_kinds
    >>> path = tether.Path(["sick", "well"], ["treat"])
    >>> kinds = gather_kinds(tether.Episodes.from_paths([path, path]) for _ in range(3))
    >>> kinds.times.tolist(), kinds.episodes
    ([6], 6)
    """
    gathered = _Gathered()
    for piece in pieces:
        gathered.add(Kinds.of(piece))
    return gathered.result()


class _Gathered:
    """Kinds so far: the rows (state, action, next state, bits of the reward, last), how often, and an example each."""

    def __init__(self) -> None:
        self._states: dict[Any, int] = {}
        self._actions: dict[Any, int] = {}
        self._outcomes: dict[str, None] | None = None
        self._rows = np.empty((0, 5), dtype=np.int64)
        self._times = np.empty(0, dtype=np.int64)
        self._examples: list[tuple[Any, int]] = []
        self._episodes, self._longest, self._has_rewards = 0, 0, False

    def add(self, piece: Kinds) -> None:
        self._episodes += piece.episodes
        self._longest = max(self._longest, piece.longest)
        self._has_rewards |= piece.reward is not None
        if piece.outcomes is not None:
            self._outcomes = {**(self._outcomes or {}), **dict.fromkeys(piece.outcomes)}
        states, actions = _codes(self._states, piece.states), _codes(self._actions, piece.actions)
        reward = np.full(piece.state.size, np.nan)
        if piece.reward is not None:
            reward = np.where(np.isnan(piece.reward), np.nan, piece.reward + 0.0)  # -0 and 0 are one kind
        rows = np.stack(
            (states[piece.state], actions[piece.action], states[piece.next_state], reward.view(np.int64), piece.last),
            axis=1,
        )
        before = len(self._examples)
        joined = np.concatenate((self._rows, rows))
        self._rows, first, which = np.unique(joined, axis=0, return_index=True, return_inverse=True)
        times = np.concatenate((self._times, piece.times))
        self._times = np.zeros(first.size, dtype=np.int64)
        np.add.at(self._times, which.reshape(-1), times)
        self._examples = [self._examples[i] if i < before else piece.example(i - before) for i in first.tolist()]

    def result(self) -> Kinds:
        states, to_state = _ordered(self._states, "state")
        actions, to_action = _ordered(self._actions, "action")
        state, action, next_state, bits, last = self._rows.T
        reward = np.ascontiguousarray(bits).view(np.float64) if self._has_rewards else None
        examples = self._examples
        kinds = Kinds(
            states,
            actions,
            to_state[state],
            to_action[action],
            to_state[next_state],
            reward,
            last.astype(bool),
            self._times,
            self._episodes,
            self._longest,
            lambda kind: examples[kind],
            None if self._outcomes is None else tuple(self._outcomes),
        )
        check_no_state(kinds.outcomes or (), kinds.states, kinds.state)
        return kinds


def _codes(known: dict[Any, int], names: Names) -> Ints:
    """The codes of names; new names get new codes; -1 for the index -1."""
    return np.array([*(known.setdefault(name, len(known)) for name in names), -1], dtype=np.int64)


def _ordered(known: dict[Any, int], noun: str) -> tuple[Names, Ints]:
    """Whole numbers in ascending order, others as they first appear, as in `Episodes`; and where each code goes."""
    names = sorted(known) if all(type(name) is int for name in known) else list(known)
    place = {name: i for i, name in enumerate(names)}
    return make_names(names, None, noun), np.array([*(place[name] for name in known), -1], dtype=np.int64)


def read_log(log: str | os.PathLike[str], skip_broken: bool, **reading: Any) -> tuple[Episodes | Kinds, int]:
    """The episodes of a file, or the kinds of steps of a log that is read piece by piece; and how many are left out."""
    skipped: list[Problem] = []
    pieces = open_pieces(log, **reading)
    if pieces is not None:
        return gather_kinds(pieces.sound(skipped if skip_broken else None)), len(skipped)
    if not skip_broken:
        return read_episodes(log, **reading), 0
    found = read_sound_episodes(log, **reading)
    return found.sound, len(found.broken) + len(found.alone)


def with_ends(log: Episodes) -> Episodes:
    """The log with the outcome of an episode in place of its last state, if the log has outcomes.

    No action is taken in a last state, so no decision is lost. And episodes that ended differently may have the same
    last state.

    Examples
    --------
    >>> import tether
    >>> from tether.learning.kinds import with_ends
    >>> log = tether.Episodes.from_columns(
    ...     [1, 1, 2], [0, 1, 0], ["sick", "calm", "sick"], ["wait", None, "wait"], outcome=["died", "died", "survived"]
    ... )
    >>> with_ends(log)[1].states, with_ends(log)[2].states
    (('sick', 'died'), ('sick', 'survived'))
    """
    if log.outcomes is None or log.outcome is None:
        return log
    ended = np.flatnonzero(log.outcome >= 0)
    check_no_state(log.outcomes, log.states, log.state)
    # The states of the codes, then those of the outcomes.
    names = list(dict.fromkeys([*log.states, *log.outcomes]))
    place = {name: i for i, name in enumerate(names)}
    to_state = np.array([place[name] for name in log.outcomes], dtype=np.int64)
    after = log.next_state.astype(np.int64)
    after[log.start[1:][ended] - 1] = to_state[log.outcome[ended]]
    states, (state, after) = names_in_use(names, log.state, after)
    return replace(log, states=states, state=state, next_state=after)


def check_no_state(outcomes: Iterable[Any], states: Names, acted_in: Ints) -> None:
    """Refuse an outcome with the name of a state in which an action was taken."""
    done = set(np.unique(acted_in).tolist())
    for outcome in outcomes:
        if states.find(outcome) in done:
            what = f"the outcome {outcome!r} has the name of a state of the log in which an action was taken"
            fix = "rename one of the two, or leave the outcomes out: columns={'outcome': ''}"
            raise ModelError(Problem(what, state=outcome, value=outcome, fix=fix, argument="outcome"))
