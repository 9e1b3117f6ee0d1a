"""From the rows of a log to whole episodes: cells read, rows sorted, every contradiction found.

A row of a log is (episode, t, state, action[, reward, next_state, outcome]):

- The rows of an episode may come in any order; sorted by t they must follow each other without a gap.
- The state of the next row is the outcome of an action. If ``next_state`` is given, it must agree with the next row.
- The last row of an episode may have no action (it is then only the last state), may name the outcome in
  ``next_state``, or neither (the last outcome was not recorded).
- A reward is in the row of its action. If all rewards other than 0 are in last rows without an action, each belongs to
  the action before.
- ``outcome`` is the outcome of the whole episode: in any of its rows, or in all, but always the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.problems import Complaints, Located, Source
from tether._foundation.words import counted
from tether.errors import PathError, Problem
from tether.model.names import Names
from tether.observation.cells import Cells, read_cells


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """The steps of all episodes, one after the other, by index.

    Episode i has the steps ``start[i] … start[i + 1] - 1``. ``next_state`` is -1 if it was not recorded. ``reward`` is
    NaN if it is empty, and None if the log has no rewards. ``outcome`` is how each episode ended, as an index into
    ``outcomes``: -1 if the log does not say it, None if the log has no such column.
    """

    ids: Names
    states: Names
    actions: Names
    start: Ints
    state: Ints
    action: Ints
    next_state: Ints
    reward: Floats | None = None
    outcomes: Names | None = None
    outcome: Ints | None = None


def arrange_log(columns: Mapping[str, Any], complaints: Complaints) -> Steps:
    """Convert the columns of a log to steps; if that cannot be done, raises all problems in ``complaints``.

    ``columns`` are episode, t, state and action, and optionally reward, next_state and outcome; all of one length.
    """
    log = _checked(read_cells(columns, complaints), complaints)
    complaints.raise_any()
    return _steps(log)


def arrange_sound(columns: Mapping[str, Any], found: ByRow) -> tuple[Steps, dict[int, Problem], list[Problem]]:
    """Convert the columns of a log to steps, and collect problems by episode: a broken episode has no steps.

    ``found`` may contain earlier problems of rows. Returns the steps; the first problem of each broken episode, by its
    position among the ids; and the problems of rows that belong to no episode.
    """
    cells = read_cells(columns, found)
    _checked(cells, found)
    broken: dict[int, Problem] = {}
    alone: list[Problem] = []
    for row in map(int, found.rows()):
        problem = found.problem(row)
        if problem.argument:  # it is about how the log is read, so about all its episodes
            raise found.error(problem)
        episode = int(cells.episode[row])
        if episode < 0:
            alone.append(problem)
        else:
            broken.setdefault(episode, problem)
    spoiled = np.zeros(len(cells.ids), dtype=bool)
    spoiled[list(broken)] = True
    sound = cells.sound[~spoiled[cells.episode[cells.sound]]]
    return _steps(_sort(replace(cells, sound=sound))), broken, alone


def episode_rows(columns: Mapping[str, Any], found: ByRow) -> tuple[Names, Ints, Ints]:
    """The ids, the rows of all episodes in their order, by t; and where those of each episode begin."""
    log = _sort(read_cells(columns, found))
    return log.cells.ids, log.row, np.searchsorted(log.episode, np.arange(len(log.cells.ids) + 1))


class ByRow(Complaints):
    """A collector that keeps the first problem of every row, however many rows there are, and raises none of them."""

    def __init__(self, source: Source, error: Located = PathError) -> None:
        super().__init__(source, error)
        self._first: dict[int, Callable[[], str | Problem]] = {}

    def add(self, what: str | Problem, line: int | None = None, *, row: int | None = None, **fields: Any) -> None:
        problem = what if isinstance(what, Problem) else Problem(what, **fields)
        if row is None:  # about the log as a whole, not about one episode
            raise self.error(self.source.located(problem, line=line))
        self._first.setdefault(row, lambda: problem)

    def add_each(
        self,
        items: Ints,
        problem: Callable[[int], str | Problem],
        *,
        row: Callable[[int], int | None] = int,
        lines: Ints | None = None,
    ) -> None:
        for item in map(int, items):
            place = row(item) if lines is None else None
            if place is None:
                self.add(problem(item), None if lines is None else int(lines[item]))
            else:
                self._first.setdefault(place, partial(problem, item))

    def add_group(self, rows: Ints, problem: Callable[[int], Problem]) -> None:
        self.add_each(rows, problem)

    def rows(self) -> Ints:
        return np.array(sorted(self._first), dtype=np.int64)

    def problem(self, row: int) -> Problem:
        """What is wrong with a row, with its place."""
        what = self._first[row]()
        return self.source.located(what if isinstance(what, Problem) else Problem(what), row)


def _checked(cells: Cells, complaints: Complaints) -> _Log:
    log = _sort(cells)
    for check in (_twice, _gaps, _no_action, _no_step, _outcome_alone, _disagree, _two_outcomes):
        check(log, complaints)
    return log


@dataclass(frozen=True, slots=True, eq=False)
class _Log:
    """The usable rows, by episode and t. ``row`` is the given row of each; ``last`` marks the last of an episode.

    ``as_given`` says that these are all rows, in the given order.
    """

    cells: Cells
    row: Ints
    as_given: bool
    episode: Ints
    t: Ints
    state: Ints
    action: Ints
    outcome: Ints
    last: Ints

    def problem(self, at: int, what: str, **fields: Any) -> Problem:
        """What is wrong with the row that is the ``at``-th here."""
        episode, t = self.cells.ids[int(self.episode[at])], int(self.t[at])
        state = self.cells.states[int(self.state[at])]
        return Problem(what, state=state, time=t, episode=episode, **{"place": f"t = {t}", **fields})

    def column(self, cells: Any) -> Any:
        """A column of the cells in the order of these rows; a log that is already in order is not copied."""
        return cells if self.as_given else cells[self.row]

    def given_row(self, at: int) -> int:
        return int(self.row[at])

    def state_name(self, state: int) -> str:
        return repr(self.cells.states[int(state)])


def _sort(cells: Cells) -> _Log:
    row = cells.sound
    as_given = row.size == cells.episode.size
    episode, t = (cells.episode, cells.t) if as_given else (cells.episode[row], cells.t[row])
    state, action, outcome = cells.state, cells.action, cells.next_state
    forward = (episode[1:] > episode[:-1]) | ((episode[1:] == episode[:-1]) & (t[1:] >= t[:-1]))
    if not np.all(forward):
        order = np.lexsort((t, episode))
        row, episode, t, as_given = row[order], episode[order], t[order], False
    if not as_given:
        state, action, outcome = state[row], action[row], outcome[row]
    last = np.ones(row.size, dtype=bool)
    last[:-1] = episode[1:] != episode[:-1]
    return _Log(cells, row, as_given, episode, t, state, action, outcome, last)


def _twice(log: _Log, complaints: Complaints) -> None:
    at = np.flatnonzero(~log.last[:-1] & (log.t[1:] == log.t[:-1])) + 1

    def problem(i: int) -> Problem:
        first = complaints.source.place(log.given_row(i - 1))
        return log.problem(i, f"t = {log.t[i]} is given twice (first in {first})", place="")

    complaints.add_each(at, problem, row=log.given_row)


def _gaps(log: _Log, complaints: Complaints) -> None:
    step = log.t[1:] - log.t[:-1]
    at = np.flatnonzero(~log.last[:-1] & (step != 0) & (step != 1)) + 1
    if 2 * at.size > np.count_nonzero(~log.last[:-1]) and at.size > 1:
        _no_step_numbers(log, complaints, at, step[at - 1])
        return

    def problem(i: int) -> Problem:
        before, after = int(log.t[i - 1]), int(log.t[i])
        lacking = f"{before + 1} is" if after == before + 2 else f"{before + 1} … {after - 1} are"
        what = f"t goes from {before} to {after}; t = {lacking} missing"
        return log.problem(i, what, place="", value=after)

    complaints.add_each(at, problem, row=log.given_row)


def _no_step_numbers(log: _Log, complaints: Complaints, at: Ints, step: Ints) -> None:
    """If most steps are gaps, t is a time: then there is one problem, with its fix."""
    sizes, times = np.unique(step, return_counts=True)
    usual, first = int(sizes[np.argmax(times)]), int(at[0])
    what = f"t goes from {log.t[first - 1]} to {log.t[first]}, and {counted(at.size - 1, 'more time')} not up by 1; "
    what += "t is expected to number the steps: 0, 1, 2, …"
    fix = "if it is a time, name its column: time='t'; to find gaps, also give the time between two rows: "
    fix += f"step={usual}"
    problem = log.problem(first, what, place="", fix=fix, argument="time")
    complaints.add(problem, row=log.given_row(first))


def _no_action(log: _Log, complaints: Complaints) -> None:
    fix = "only an episode's last row may lack it"
    complaints.add_each(
        np.flatnonzero(~log.last & (log.action < 0)),
        lambda i: log.problem(i, "the action is empty", fix=fix),
        row=log.given_row,
    )


def _no_step(log: _Log, complaints: Complaints) -> None:
    first = np.ones(log.row.size, dtype=bool)
    first[1:] = log.last[:-1]
    what = "a single row, without an action: nothing happens in it"
    complaints.add_each(
        np.flatnonzero(first & log.last & (log.action < 0)),
        lambda i: log.problem(i, what, place="", fix="leave it out"),
        row=log.given_row,
    )


def _outcome_alone(log: _Log, complaints: Complaints) -> None:
    """A last row without an action has no outcome, and earns nothing."""
    ends = log.last & (log.action < 0)
    complaints.add_each(
        np.flatnonzero(ends & (log.outcome >= 0)),
        lambda i: log.problem(i, "next_state is given, but no action led there"),
        row=log.given_row,
    )
    if log.cells.reward is None:
        return
    reward = log.column(log.cells.reward)
    if _only_in_ends(reward, ends):
        return

    def problem(i: int) -> Problem:
        what = f"the reward {reward[i]:g} has no action that earned it"
        return log.problem(i, what, value=float(reward[i]), fix="a reward belongs in the row of its action")

    complaints.add_each(np.flatnonzero(ends & ~np.isnan(reward) & (reward != 0)), problem, row=log.given_row)


def _only_in_ends(reward: Floats, ends: Ints) -> bool:
    """Whether only last rows without an action have rewards: each then belongs to the action before."""
    return bool(np.all(ends | np.isnan(reward) | (reward == 0)))


def _disagree(log: _Log, complaints: Complaints) -> None:
    given = ~log.last[:-1] & (log.t[1:] == log.t[:-1] + 1) & (log.outcome[:-1] >= 0)

    def problem(i: int) -> Problem:
        next_row = complaints.source.place(log.given_row(i + 1))
        what = f"next_state is {log.state_name(log.outcome[i])}, but the state of t = {log.t[i + 1]} is "
        return log.problem(i, f"{what}{log.state_name(log.state[i + 1])} ({next_row})")

    at = np.flatnonzero(given & (log.outcome[:-1] != log.state[1:]))
    complaints.add_each(at, problem, row=log.given_row)


def _two_outcomes(log: _Log, complaints: Complaints) -> None:
    """An episode has one outcome; if most have several, the column is something else."""
    outcomes, code = log.cells.outcomes, log.cells.outcome
    if outcomes is None or code is None:
        return
    code = log.column(code)
    said = np.flatnonzero(code >= 0)
    value, episode = code[said], log.episode[said]
    first = np.ones(said.size, dtype=bool)
    first[1:] = episode[1:] != episode[:-1]
    begin = np.maximum.accumulate(np.where(first, np.arange(said.size), 0))  # for each row, the first of its episode
    differs = np.flatnonzero(value != value[begin])
    _, once = np.unique(episode[differs], return_index=True)
    at = differs[once]

    def problem(i: int) -> Problem:
        row, before = int(said[i]), int(said[begin[i]])
        place = complaints.source.place(log.given_row(before))
        what = f"the outcome is {outcomes[int(value[i])]!r}, but {outcomes[int(value[begin[i]])]!r} in {place}"
        return log.problem(row, what, place="", expectation="one outcome per episode")

    if at.size > 1 and 2 * at.size > np.count_nonzero(first):
        many = f"; so it is in {counted(at.size - 1, 'more episode')}"
        fix = "where the column is something else, leave it out: columns={'outcome': ''}"
        one = problem(int(at[0]))
        complaints.add(replace(one, what=one.what + many, fix=fix, argument="outcome"), row=log.given_row(said[at[0]]))
        return
    complaints.add_each(at, problem, row=lambda i: log.given_row(int(said[i])))


def _outcome_of_episodes(log: _Log) -> Ints | None:
    """The outcome of each episode, -1 if no row has it."""
    if log.cells.outcome is None:
        return None
    found = np.full(len(log.cells.ids), -1, dtype=np.int64)
    code = log.column(log.cells.outcome)
    found[log.episode[code >= 0]] = code[code >= 0]
    return found


def _of_actions(log: _Log, reward: Floats) -> Floats:
    """The rewards; the reward of a last row without an action is moved to the row before, if it belongs there."""
    ends = log.last & (log.action < 0)
    at = np.flatnonzero(ends & ~np.isnan(reward) & (reward != 0))
    if at.size:
        reward = reward.copy()
        reward[at - 1] = reward[at]
    return reward


def _steps(log: _Log) -> Steps:
    outcome = log.outcome.copy()
    within = np.flatnonzero(~log.last)
    outcome[within] = log.state[within + 1]
    taken = np.flatnonzero(log.action >= 0)
    # A last row without an action is only the outcome of the row before it, which is within.
    start = np.searchsorted(log.episode[taken], np.arange(len(log.cells.ids) + 1)).astype(np.int64)
    reward = None if log.cells.reward is None else _of_actions(log, log.column(log.cells.reward))[taken]
    cells = log.cells
    steps = (log.state[taken], log.action[taken], outcome[taken], reward)
    return Steps(cells.ids, cells.states, cells.actions, start, *steps, cells.outcomes, _outcome_of_episodes(log))
