"""Random logs, as plain rows, and counts that are found by going through their rows one by one."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import Any, NamedTuple

from hypothesis import strategies as st

import tether


def as_audited(mdp: tether.MDP, log: Any, path: tether.Path) -> tether.records.CounterfactualMDP:
    """An episode of a log as an audit asks about it: one that ended early, up to the length of the longest."""
    longest = max(one.T for one in (log.values() if isinstance(log, dict) else log))
    cf = tether.counterfactual(mdp, path)
    if mdp.counts is not None or cf.is_under_way or longest <= path.T:
        return cf
    return tether.counterfactual(mdp, path, horizon=longest)


class Row(NamedTuple):
    """One row of a log; None for an empty cell."""

    episode: Any
    t: int
    state: Any
    action: Any
    reward: float | None
    next_state: Any


class Log(NamedTuple):
    """Episodes as paths with rewards, and the same as rows in any order."""

    paths: dict[Any, tether.Path]
    rewards: dict[Any, list[float | None]]
    rows: list[Row]

    def columns(self) -> dict[str, list[Any]]:
        return {name: [getattr(row, name) for row in self.rows] for name in Row._fields}


STATES = st.sampled_from([["a", "b", "c", "d"], [0, 1, 2, 3], [(0, 1), (1, 0), (1, 1), (2, 2)]])
ACTIONS = st.sampled_from([["up", "down"], [0, 1]])
IDS = st.sampled_from([["ann", "bob", "cid", "dan", "eve"], [3, 1, 4, 15, 9]])
QUARTERS = st.integers(-8, 8).map(lambda n: n / 4)
"""Rewards whose sums and differences are exact in floating point."""


@st.composite
def logs(draw: st.DrawFn, states: Any = STATES, actions: Any = ACTIONS, ids: Any = IDS) -> Log:
    """One to five episodes of one to five steps; the last outcome in a row of its own, in next_state, or nowhere."""
    states, actions, ids = draw(states), draw(actions), draw(ids)
    paths, rewards, rows = {}, {}, []
    for name in ids[: draw(st.integers(1, len(ids)))]:
        T = draw(st.integers(1, 5))
        seen = draw(st.lists(st.sampled_from(states), min_size=T + 1, max_size=T + 1))
        did = draw(st.lists(st.sampled_from(actions), min_size=T, max_size=T))
        earned = draw(st.lists(st.none() | QUARTERS, min_size=T, max_size=T))
        last = draw(st.sampled_from(["row", "next_state", "nowhere"]))
        is_recorded = draw(st.lists(st.booleans(), min_size=T, max_size=T))  # whether next_state is filled in
        first = draw(st.integers(-2, 3))
        for t in range(T):
            named = is_recorded[t] if t < T - 1 or last == "row" else last == "next_state"
            rows.append(Row(name, first + t, seen[t], did[t], earned[t], seen[t + 1] if named else None))
        if last == "row":
            rows.append(Row(name, first + T, seen[T], None, draw(st.sampled_from([None, 0.0])), None))
        paths[name] = tether.Path(seen if last != "nowhere" else seen[:T], did, earned)
        rewards[name] = earned
    return Log(paths, rewards, draw(st.permutations(rows)))


class Tally:
    """The outcomes and rewards of each pair in a log, found by going through its paths step by step."""

    def __init__(self, log: Log) -> None:
        self.times: dict[Any, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self.unrecorded: dict[Any, int] = defaultdict(int)
        self.earned: dict[Any, list[Fraction]] = defaultdict(list)  # by pair and outcome; None: not recorded
        self.states = list(dict.fromkeys(state for path in log.paths.values() for state in path.states))
        for name, path in log.paths.items():
            for t, action in enumerate(path.actions):
                pair = path.states[t], action
                outcome = path.states[t + 1] if t + 1 < len(path.states) else None
                if outcome is None:
                    self.unrecorded[pair] += 1
                else:
                    self.times[pair][outcome] += 1
                reward = log.rewards[name][t]
                if reward is not None:
                    self.earned[pair, outcome].append(Fraction(reward))

    def pairs(self, minimum: int, end: Any) -> dict[Any, dict[Any, int]]:
        """The available pairs, and how often each led to each state."""
        found = {pair: dict(row) for pair, row in self.times.items()}
        if end is not None:
            found |= {pair: {end: n} for pair, n in self.unrecorded.items() if pair not in found}
        return {pair: row for pair, row in found.items() if sum(row.values()) >= minimum}

    def mean(self, pair: Any, outcome: Any) -> Fraction:
        """The mean reward of a transition; if it has no recorded reward, the mean of its pair."""
        given = self.earned.get((pair, outcome)) or self.all_earned(pair)
        return sum(given, Fraction(0)) / len(given) if given else Fraction(0)

    def all_earned(self, pair: Any) -> list[Fraction]:
        return [reward for (one, _), rewards in self.earned.items() if one == pair for reward in rewards]
