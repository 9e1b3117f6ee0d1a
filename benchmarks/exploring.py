"""From functions to a model: how many states per second, and an epidemic too large to list, through what is reached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness import Result, median_time, peak_of, time_for

import tether

MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
POPULATION, STEPS, K, M = 200, 15, 5, 3


def measure(quick: bool) -> list[Result]:
    return [*_grid(100 if quick else 300, quick), *_epidemic(quick)]


def _grid(side: int, quick: bool) -> list[Result]:
    """A slippery robot on a grid: three outcomes a pair, functions of a few lines."""
    seconds = 0.3 if quick else 2.0
    least = 1 if quick else 3
    explore = _exploring(side)
    mdp = explore()
    ours, bare = time_for(explore, seconds, least), time_for(lambda: _bare_walk(side), seconds, least)
    size = f"{mdp.n_states:,} states, {mdp.n_transitions:,} transitions in {ours:.2f} s"
    memory = None if quick else peak_of("exploring", "grid")
    return [
        Result("exploring: states", mdp.n_states / ours, "/s", f"a grid, 4 actions: {size}", memory=memory),
        Result("exploring: transitions", mdp.n_transitions / ours, "/s", "the same"),
        Result(
            "exploring / calling the functions",
            ours / bare,
            "×",
            f"against the shortest loop that calls the same functions and keeps only the states seen: {bare:.2f} s",
        ),
    ]


def _epidemic(quick: bool) -> list[Result]:
    seconds = 0.3 if quick else 2.0
    case = tether.cases.epidemic(population=POPULATION, steps=STEPS)
    exploring = median_time(lambda: tether.cases.epidemic(population=POPULATION, steps=STEPS), 1 if quick else 5)
    asking = time_for(_ask(case), seconds / 5)
    cf = tether.counterfactual(case.mdp, case.path)
    sweep = time_for(cf.sweep, seconds / 5)
    mdp, plan = case.mdp, cf.plan(k=K, m=M)
    listed = (POPULATION + 1) ** 2 * (2 * POPULATION + 1)
    size = f"{mdp.n_states:,} of {listed:,} states, {mdp.n_transitions:,} transitions"
    name = f"epidemic {POPULATION}"
    return [
        Result(
            f"{name}: exploring",
            exploring,
            "s",
            f"T = {STEPS}: {size}, {mdp.n_transitions / exploring:,.0f} a second",
            memory=None if quick else peak_of("exploring", "epidemic model"),
        ),
        Result(
            f"{name}: answer",
            asking * 1e3,
            "ms",
            f"conditioning, thresholds and plan (k = {K}, m = {M}): value {plan.value:.2f}, observed "
            f"{plan.observed_value:.0f}",
            memory=None if quick else peak_of("exploring", "epidemic"),
        ),
        Result(f"{name}: sweep", sweep * 1e3, "ms", f"{STEPS + 1} k × {STEPS + 1} m"),
    ]


def _actions(_state: Any) -> tuple[str, ...]:
    return tuple(MOVES)


def _step(side: int) -> Callable[[Any, Any], dict[Any, float]]:
    last = side - 1

    def step(state: tuple[int, int], action: str) -> dict[tuple[int, int], float]:
        row, column = state
        down, right = MOVES[action]
        outcomes: dict[tuple[int, int], float] = {}
        for one, two, chance in ((down, right, 0.8), (-right, down, 0.1), (right, -down, 0.1)):
            after = min(max(row + one, 0), last), min(max(column + two, 0), last)
            outcomes[after] = outcomes.get(after, 0.0) + chance
        return outcomes

    return step


def _exploring(side: int) -> Callable[[], tether.MDP]:
    step = _step(side)
    return lambda: tether.MDP.from_function((0, 0), _actions, step, lambda state, action: -1.0)


def _bare_walk(side: int) -> int:
    step = _step(side)
    seen, todo = {(0, 0)}, [(0, 0)]
    for state in todo:
        for action in _actions(state):
            for after in step(state, action):
                if after not in seen:
                    seen.add(after)
                    todo.append(after)
    return len(seen)


def _ask(case: tether.cases.Case) -> Callable[[], Any]:
    return lambda: tether.counterfactual(case.mdp, case.path).plan(k=K, m=M)


JOBS = {
    "grid": lambda: _exploring(300),
    "epidemic model": lambda: lambda: tether.cases.epidemic(population=POPULATION, steps=STEPS),
    "epidemic": lambda: _ask(tether.cases.epidemic(population=POPULATION, steps=STEPS)),
}
