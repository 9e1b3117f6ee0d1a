"""From the rows of a log to whole episodes: cells read, rows sorted, every contradiction found.

A row of a log is (episode, t, state, action[, reward, next_state]). The rows of an episode may come in any
order; by t they follow each other without a gap. The state of the next row is the outcome of an action. The
last row of an episode may leave the action empty (it is then only the last state), name the outcome in
``next_state``, or do neither (the last outcome was not recorded). Where ``next_state`` is given it agrees
with the next row. A reward stands in the row of its action; where all rewards but 0 stand in last rows without
an action, each is that of the action before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._types import Floats, Ints
from tether._words import counted
from tether.model.names import Names
from tether.observation.cells import Cells, Findings, read_cells

__all__ = ["Steps", "arrange"]


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """The steps of all episodes, one after the other, by index.

    Episode i has the steps ``start[i] … start[i + 1] - 1``; ``next_state`` is -1 where it was not recorded,
    ``reward`` NaN, and None where the log has no rewards.
    """

    ids: Names
    states: Names
    actions: Names
    start: Ints
    state: Ints
    action: Ints
    next_state: Ints
    reward: Floats | None


def arrange(columns: Mapping[str, Any], findings: Findings) -> Steps | None:
    """Bring the columns of a log to steps; None where ``findings`` says why it cannot be done.

    ``columns`` are named episode, t, state and action, and may hold reward and next_state; all of one length.
    """
    cells = read_cells(columns, findings)
    log = _sort(cells)
    for check in (_twice, _gaps, _no_action, _no_step, _outcome_alone, _disagree):
        check(log, findings)
    return None if findings.total else _steps(log)


@dataclass(frozen=True, slots=True, eq=False)
class _Log:
    """The rows fit for use, episode by episode and by t. ``row`` is where each was given; ``last`` of its episode."""

    cells: Cells
    row: Ints
    episode: Ints
    t: Ints
    state: Ints
    action: Ints
    outcome: Ints
    last: Ints

    def where(self, at: Ints) -> dict[str, Callable[[int], Any]]:
        """What a problem record says of the i-th of some rows."""
        return {"time": lambda i: int(self.t[at[i]]), "state": lambda i: self.cells.states[int(self.state[at[i]])]}

    def name(self, at: int) -> str:
        return f"episode {self.cells.ids[int(self.episode[at])]!r}"

    def label(self, state: int) -> str:
        return repr(self.cells.states[int(state)])


def _sort(cells: Cells) -> _Log:
    row = cells.sound
    episode, t = cells.episode[row], cells.t[row]
    forward = (episode[1:] > episode[:-1]) | ((episode[1:] == episode[:-1]) & (t[1:] >= t[:-1]))
    if not np.all(forward):
        order = np.lexsort((t, episode))
        row, episode, t = row[order], episode[order], t[order]
    last = np.ones(row.size, dtype=bool)
    last[:-1] = episode[1:] != episode[:-1]
    return _Log(cells, row, episode, t, cells.state[row], cells.action[row], cells.next_state[row], last)


def _twice(log: _Log, findings: Findings) -> None:
    at = np.flatnonzero(~log.last[:-1] & (log.t[1:] == log.t[:-1])) + 1

    def message(i: int) -> str:
        first = findings.place(log.row[at[i] - 1])
        return f"{log.name(at[i])}: t = {log.t[at[i]]} is given twice (first in {first})"

    findings.add(log.row[at], message, **log.where(at))


def _gaps(log: _Log, findings: Findings) -> None:
    step = log.t[1:] - log.t[:-1]
    at = np.flatnonzero(~log.last[:-1] & (step != 0) & (step != 1)) + 1
    if 2 * at.size > np.count_nonzero(~log.last[:-1]) and at.size > 1:
        _no_step_numbers(log, findings, at, step[at - 1])
        return

    def message(i: int) -> str:
        before, after = int(log.t[at[i] - 1]), int(log.t[at[i]])
        lacking = f"{before + 1} is" if after == before + 2 else f"{before + 1} … {after - 1} are"
        return f"{log.name(at[i])}: t goes from {before} to {after}; t = {lacking} missing"

    findings.add(log.row[at], message, **log.where(at))


def _no_step_numbers(log: _Log, findings: Findings, at: Ints, step: Ints) -> None:
    """Where most steps are gaps, t is a time: one problem, and how to say so."""
    sizes, times = np.unique(step, return_counts=True)
    usual = int(sizes[np.argmax(times)])
    message = (
        f"{log.name(at[0])}: t goes from {log.t[at[0] - 1]} to {log.t[at[0]]}, and {counted(at.size - 1, 'more time')} "
        "not up by 1; t is expected to number the steps: 0, 1, 2, …; where it is a time, name its column: time='t', "
        f"and to have gaps found, how far apart the rows are: step={usual}"
    )
    first = at[:1]
    findings.add(log.row[first], lambda _: message, **log.where(first))


def _no_action(log: _Log, findings: Findings) -> None:
    at = np.flatnonzero(~log.last & (log.action < 0))
    findings.add(
        log.row[at],
        lambda i: f"{log.name(at[i])}, t = {log.t[at[i]]}: the action is empty; only an episode's last row may lack it",
        **log.where(at),
    )


def _no_step(log: _Log, findings: Findings) -> None:
    first = np.ones(log.row.size, dtype=bool)
    first[1:] = log.last[:-1]
    at = np.flatnonzero(first & log.last & (log.action < 0))
    findings.add(
        log.row[at],
        lambda i: f"{log.name(at[i])} has a single row, without an action: nothing happens in it; leave it out",
        **log.where(at),
    )


def _outcome_alone(log: _Log, findings: Findings) -> None:
    """A last row without an action has no outcome, and earns nothing."""
    ends = log.last & (log.action < 0)
    at = np.flatnonzero(ends & (log.outcome >= 0))
    findings.add(
        log.row[at],
        lambda i: f"{log.name(at[i])}, t = {log.t[at[i]]}: next_state is given, but no action led there",
        **log.where(at),
    )
    if log.cells.reward is None:
        return
    reward = log.cells.reward[log.row]
    if _only_in_ends(reward, ends):
        return
    earned = np.flatnonzero(ends & ~np.isnan(reward) & (reward != 0))
    findings.add(
        log.row[earned],
        lambda i: (
            f"{log.name(earned[i])}, t = {log.t[earned[i]]}: the reward {reward[earned[i]]:g} has no action that "
            "earned it; a reward stands in the row of its action"
        ),
        **log.where(earned),
    )


def _only_in_ends(reward: Floats, ends: Ints) -> bool:
    """Whether rewards stand only in last rows without an action: each is then that of the action before."""
    return bool(np.all(ends | np.isnan(reward) | (reward == 0)))


def _disagree(log: _Log, findings: Findings) -> None:
    told = ~log.last[:-1] & (log.t[1:] == log.t[:-1] + 1) & (log.outcome[:-1] >= 0)
    at = np.flatnonzero(told & (log.outcome[:-1] != log.state[1:]))
    findings.add(
        log.row[at],
        lambda i: (
            f"{log.name(at[i])}, t = {log.t[at[i]]}: next_state is {log.label(log.outcome[at[i]])}, but the state of "
            f"t = {log.t[at[i] + 1]} is {log.label(log.state[at[i] + 1])} ({findings.place(log.row[at[i] + 1])})"
        ),
        **log.where(at),
    )


def _of_actions(log: _Log, reward: Floats) -> Floats:
    """The rewards, with that of a last row without an action in the row before it, where it is that action's."""
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
    reward = None if log.cells.reward is None else _of_actions(log, log.cells.reward[log.row])[taken]
    cells = log.cells
    return Steps(
        cells.ids, cells.states, cells.actions, start, log.state[taken], log.action[taken], outcome[taken], reward
    )
