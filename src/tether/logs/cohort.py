"""Some episodes of a log in a model's indices: what one batch of the work is about.

Names are looked up and every step is checked. A broken episode has no steps here, and a sentence that says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints
from tether.errors import PathError, Problem
from tether.evaluation.outcomes import outcome_of
from tether.io.logs import LogPlaces
from tether.io.names_as_text import find_index, in_names_of
from tether.mdp import MDP
from tether.model.names import Names, Unknown
from tether.observation.ends import Meaning
from tether.observation.episodes import Episodes
from tether.observation.path import Observation, Path, observe


@dataclass(frozen=True, slots=True, eq=False)
class Cohort:
    """Episodes ``first``, ``first + 1``, … of a log.

    Attributes
    ----------
    first : int
        How many episodes of the log come before these.
    ids : list
        As the log has them; None for rows that belong to no episode.
    start : array (episodes + 1,)
        Episode i has the steps ``start[i] … start[i + 1] - 1``.
    state, action, pair, next_state : array (steps,)
        In the model's indices; ``next_state`` is -1 if the last outcome was not recorded.
    reward : array (steps,) or None
        By the log.
    problem : list of str or None
        Why an episode could not be used.
    said : list of str or None
        How an episode ended by a column of the log, if the model has no state for it; None if it has states for all.
    """

    first: int
    ids: list[Any]
    start: Ints
    state: Ints
    action: Ints
    pair: Ints
    next_state: Ints
    reward: Floats | None
    problem: list[str | None]
    said: list[str | None] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def observation(self, i: int) -> Observation:
        """Episode i, as `tether.counterfactual` takes it."""
        steps = slice(int(self.start[i]), int(self.start[i + 1]))
        states = np.append(self.state[steps], self.next_state[steps.stop - 1])
        rewards = None
        if self.reward is not None:
            rewards = tuple(None if np.isnan(one) else float(one) for one in self.reward[steps])
        return Observation(states, self.action[steps], self.pair[steps], rewards)

    def part(self, low: int, high: int) -> Cohort:
        """The episodes ``low … high - 1`` of these."""
        some = slice(low, high)
        return self._with_steps(
            slice(int(self.start[low]), int(self.start[high])),
            self.start[low : high + 1] - self.start[low],
            first=self.first + low,
            ids=self.ids[some],
            problem=self.problem[some],
            said=None if self.said is None else self.said[some],
        )

    def only(self, chosen: Ints) -> Cohort:
        """Some of the episodes, by position, ascending; ``first`` stays that of the batch."""
        lengths, at = np.diff(self.start), chosen.tolist()
        return self._with_steps(
            np.repeat(np.isin(np.arange(len(self)), chosen), lengths),
            _starts(lengths[chosen]),
            ids=[self.ids[i] for i in at],
            problem=[self.problem[i] for i in at],
            said=None if self.said is None else [self.said[i] for i in at],
        )

    def keeping(self, steps: Flags) -> Cohort:
        """The episodes with some of their steps: a mask."""
        owner = np.repeat(np.arange(len(self)), np.diff(self.start))
        return self._with_steps(steps, _starts(np.bincount(owner[steps], minlength=len(self))))

    def without_broken(self) -> Cohort:
        """A copy in which episodes with a problem have no steps."""
        lengths, fit = np.diff(self.start), np.array([one is None for one in self.problem], dtype=bool)
        return self._with_steps(np.repeat(fit, lengths), _starts(np.where(fit, lengths, 0)))

    def _with_steps(self, steps: Any, start: Ints, **fields: Any) -> Cohort:
        """Some of the steps, a slice or a mask; where each episode then begins; and what else changes."""
        names = ["state", "action", "pair", "next_state", *([] if self.reward is None else ["reward"])]
        return replace(self, start=start, **{name: getattr(self, name)[steps] for name in names}, **fields)


def joined(parts: Sequence[Cohort]) -> Cohort:
    """Several cohorts of one log as one; ``first`` is that of the first."""
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(one, name) for one in parts])
        for name in ("state", "action", "pair", "next_state")
    }
    if parts[0].reward is not None:
        columns["reward"] = np.concatenate([one.reward for one in parts if one.reward is not None])
    said = None
    if any(one.said is not None for one in parts):
        said = [item for one in parts for item in (one.said or [None] * len(one))]
    return replace(
        parts[0],
        ids=[item for one in parts for item in one.ids],
        problem=[item for one in parts for item in one.problem],
        start=_starts(np.concatenate([np.diff(one.start) for one in parts])),
        said=said,
        **columns,
    )


def _starts(lengths: Ints) -> Ints:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))


def find_episodes(
    mdp: MDP,
    log: Episodes,
    broken: Mapping[int, str],
    alone: Sequence[str] = (),
    places: LogPlaces | None = None,
) -> Cohort:
    """The episodes of a log in the indices of a model.

    ``broken`` says, by position, why some have no steps. ``alone`` says what is wrong with rows of no episode; each of
    them becomes an episode without an id. ``places`` names the rows of the log, if it has any.
    """
    states, actions = _indices_in(mdp.states, log.states), _indices_in(mdp.actions, log.actions)
    state, action = states[log.state], actions[log.action]
    next_state = np.where(log.next_state < 0, -1, states[log.next_state])
    pair = _pairs(mdp, state, action)
    is_recorded, said = log.next_state >= 0, None
    if log.outcome is not None:
        said, disagreeing = _ended(mdp, log, pair, next_state, places)
        is_recorded = is_recorded | (next_state >= 0)
        broken = {**disagreeing, **broken}
    wrong = (state < 0) | (action < 0) | (pair < 0) | (is_recorded & (next_state < 0))
    recorded = np.flatnonzero(~wrong & (next_state >= 0))
    wrong[recorded] = ~_possible(mdp, pair[recorded], next_state[recorded])
    lengths = np.diff(log.start)
    owner = np.repeat(np.arange(len(log)), lengths)
    too_long = np.flatnonzero(lengths > mdp.horizon) if mdp.horizon is not None else np.empty(0, np.int64)
    problem: list[str | None] = [broken.get(i) for i in range(len(log))]
    unknown = Unknown()
    for i in np.union1d(owner[wrong], too_long).tolist():
        problem[i] = _why_broken(mdp, in_names_of(mdp, log[log.ids[i]]), log.ids[i], places, unknown)
    state, action, pair, next_state = (one.astype(np.int64) for one in (state, action, pair, next_state))
    arrays = (state, action, pair, next_state, log.reward)
    every = Cohort(0, list(log.ids), log.start, *arrays, problem, said).without_broken()
    nobody = [None] * len(alone)
    return replace(
        every,
        ids=[*every.ids, *nobody],
        start=np.concatenate((every.start, np.full(len(alone), every.start[-1]))),
        problem=[*problem, *alone],
        said=None if said is None else [*said, *nobody],
    )


def _ended(
    mdp: MDP, log: Episodes, pair: Ints, next_state: Ints, places: LogPlaces | None
) -> tuple[list[str | None] | None, dict[int, str]]:
    """Put the states that the outcomes of the log mean in a model into ``next_state``.

    Returns for each episode the outcome that is not in the model, None if there is no such episode; and, by position,
    why outcomes and last states disagree.
    """
    assert log.outcome is not None
    assert log.outcomes is not None
    ended = np.flatnonzero((log.outcome >= 0) & (np.diff(log.start) > 0))
    last = log.start[1:][ended] - 1
    keys = np.stack((next_state[last], pair[last], log.outcome[ended]), axis=1)
    distinct, which = np.unique(keys, axis=0, return_inverse=True)
    which = which.reshape(-1)
    ends, names = np.full(len(distinct), -1, dtype=np.int64), np.full(len(distinct), -1, dtype=np.int64)
    disagreeing: dict[int, str] = {}
    meanings = [Meaning.of(mdp, str(outcome)) for outcome in log.outcomes]
    class_of = cache(lambda state: outcome_of(mdp, state))
    for i, (state, its_pair, code) in enumerate(distinct.tolist()):
        try:
            ends[i] = meanings[code].end(state, its_pair)
        except PathError as error:
            for j in ended[which == i].tolist():
                wrong = replace(error.problems[0], time=int(log.start[j + 1] - log.start[j] - 1))
                disagreeing[j] = reason(wrong if places is None else places.located(log.ids[j], wrong))
            continue
        known = class_of(int(ends[i])) if ends[i] >= 0 else None
        names[i] = -1 if known is not None and known.name == meanings[code].outcome else code
    next_state[last] = np.where(ends[which] >= 0, ends[which], next_state[last])
    if np.all(names < 0):
        return None, disagreeing
    said: list[str | None] = [None] * len(log)
    for j, code in zip(ended.tolist(), names[which].tolist(), strict=True):
        if code >= 0:
            said[j] = meanings[code].outcome
    return said, disagreeing


def _indices_in(known: Names, names: Names) -> Ints:
    """The model's index of each name of a log, found by its text if necessary; -1 if there is none."""
    places = np.array([find_index(known, name) for name in names], dtype=np.int64)
    return np.append(places, -1)  # for the index -1


def _pairs(mdp: MDP, state: Ints, action: Ints) -> Ints:
    """The pair of each state and action; -1 if there is none."""
    start, known = mdp.form.pair_start, (state >= 0) & (action >= 0)
    s = np.where(known, state, 0)
    return np.where(known, search(mdp.form.pair_action, start[s], start[s + 1], action), -1)


def _possible(mdp: MDP, pairs: Ints, outcomes: Ints) -> Any:
    """Whether each pair can lead to its outcome."""
    start = mdp.form.row_start
    return search(mdp.form.next_state, start[pairs], start[pairs + 1], outcomes) >= 0


def search(values: Ints, low: Ints, high: Ints, wanted: Ints) -> Ints:
    """The position of each of ``wanted`` in its own ascending ``values[low:high]``; -1 if it is not there."""
    low, end = low.astype(np.int64), high.astype(np.int64)
    high = end.copy()
    while np.any(low < high):
        middle = (low + high) // 2
        below = values[np.minimum(middle, values.size - 1)] < wanted
        low, high = np.where((low < high) & below, middle + 1, low), np.where((low < high) & ~below, middle, high)
    there = (low < end) & (values[np.minimum(low, values.size - 1)] == wanted)
    return np.where(there, low, -1)


def reason(problem: Problem) -> str:
    """What is wrong with an episode, for a table that names the episode in another column.

    >>> reason(Problem("the model has no state 'y'", file="log.csv", line=7, episode="ann", place="t = 1"))
    "log.csv, line 7: t = 1: the model has no state 'y'"
    """
    return replace(problem, episode=None).message


def _why_broken(mdp: MDP, path: Path, episode: Any, places: LogPlaces | None, unknown: Unknown) -> str:
    """Why an episode cannot have happened, in a sentence, and where the log says it."""
    try:
        observe(mdp, path, unknown)
    except PathError as error:
        problems = error.problems[:3]
        if places is not None:
            problems = tuple(places.located(episode, problem) for problem in problems)
        return "; ".join(map(reason, problems))
    raise AssertionError("the episode is sound")
