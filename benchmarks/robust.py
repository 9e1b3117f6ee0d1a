"""What a guarantee costs: robust plans and certificates against the plan; closed forms against linear programmes."""

from __future__ import annotations

from typing import Any

import numpy as np
from harness import Result, time_for
from models import local_model, local_path
from scipy.optimize import linprog

import tether

K, M = 9, 2


def measure(quick: bool) -> list[Result]:
    seconds = 0.2 if quick else 1.0
    states = 100_000 if quick else 1_000_000
    sepsis, grid = tether.cases.sepsis(), tether.cases.grid_world()
    results = _against_plan("sepsis", sepsis.mdp, sepsis.path, seconds)
    T = sepsis.path.T
    results.append(_certificate("sepsis", sepsis.mdp, sepsis.path, T + 1, T, seconds))  # no tether, all may change
    results += _against_plan(f"local model, {states:,} states", local_model(states), local_path(states, 20), seconds)
    ours = time_for(lambda: tether.robust(grid.mdp, grid.path, "nothing").plan(grid.path.T + 1, grid.path.T), seconds)
    theirs = time_for(lambda: _by_programmes(grid), 0.0, least=1, most=1)
    detail = f"the best guaranteed plan without limits: {theirs:.1f} s against {ours * 1e3:.1f} ms"
    name = "Grid World: a linear programme per row / robust plan"
    return [*results, Result(name, theirs / ours, "×", detail, "≥ 100×", theirs >= 100 * ours)]


def _against_plan(name: str, mdp: Any, path: Any, seconds: float) -> list[Result]:
    """Each with its own conditioning: nothing is kept from one run to the next."""
    usual = time_for(lambda: tether.counterfactual(mdp, path).plan(K, M), seconds)
    results = []
    for assume in ("nothing", "stability"):
        robust = time_for(lambda assume=assume: tether.robust(mdp, path, assume).plan(K, M), seconds)
        detail = f"k = {K}, m = {M}: {robust * 1e3:.1f} ms against {usual * 1e3:.1f} ms"
        title = f"{name}: robust plan, {assume} / plan"
        results.append(Result(title, robust / usual, "×", detail, "≤ 4×", robust <= 4 * usual))
    return [*results, _certificate(name, mdp, path, K, M, seconds)]


def _certificate(name: str, mdp: Any, path: Any, k: int, m: int, seconds: float) -> Result:
    usual = time_for(lambda: tether.counterfactual(mdp, path).plan(k, m), seconds)
    certified = time_for(tether.counterfactual(mdp, path).plan(k, m).certify, seconds)
    detail = f"k = {k}, m = {m}: {certified * 1e3:.1f} ms against {usual * 1e3:.1f} ms"
    title = f"{name}, ({k}, {m}): certificate / plan"
    return Result(title, certified / usual, "×", detail, "≤ 3×", certified <= 3 * usual)


def _by_programmes(case: Any) -> float:
    """The same guaranteed value with a linear programme for the worst row of each pair: the way that needs a solver."""
    mdp, path = case.mdp, case.path
    P = np.zeros((mdp.n_states, mdp.n_actions, mdp.n_states))
    for (s, state), (a, action) in _pairs(mdp):
        names, chances = mdp.row(state, action)
        P[s, a, [mdp.states.index(name) for name in names]] = chances
    value = np.zeros(mdp.n_states)
    for t in range(path.T - 1, -1, -1):
        seen, after = mdp.states.index(path.states[t]), mdp.states.index(path.states[t + 1])
        done = mdp.actions.index(path.actions[t])
        best = np.full(mdp.n_states, -np.inf)
        for (s, state), (a, action) in _pairs(mdp):
            caps = np.minimum(1.0, P[s, a] / P[seen, done, after])
            limits = list(zip(0.0 * caps, caps, strict=True))
            worst = linprog(value, A_eq=np.ones((1, value.size)), b_eq=[1.0], bounds=limits).fun
            worst = value[after] if (s, a) == (seen, done) else worst
            best[s] = max(best[s], mdp.reward(state, action) + worst)
        value = best
    return float(value[mdp.states.index(path.states[0])])


def _pairs(mdp: Any) -> list[tuple[tuple[int, Any], tuple[int, Any]]]:
    return [((s, state), (a, action)) for s, state in enumerate(mdp.states) for a, action in enumerate(mdp.actions)]
