"""The price of a counterfactual: conditioning, thresholds and a plan, against solving the plain model once.

Two models of a million states, 4 actions and 5 successors a pair, T = 20: successors spread at random, so that
everything is reached; and the neighbours on a grid, so that an episode reaches a part. The peers solve the same model
by backward induction without an observation, each as its users would: sparse products, QuantEcon, pymdptoolbox.
"""

from __future__ import annotations

import contextlib
import io
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import scipy.sparse
from harness import Result, median_time, peak_of
from models import ACTIONS, OUTCOMES, local_model, local_path, random_model

import tether
from tether.influence.kappa import Thresholds, thresholds
from tether.influence.one_step import Support
from tether.plan.best_values import solve_backward

T, K, M = 20, 8, 3
TARGETS = {1: 1.3, M: 2.0}  # on the random model: m, and how often the fastest peer's time
FULL, QUICK = 1_000_000, 100_000
SLOW = 2.0


def measure(quick: bool) -> list[Result]:
    n, repeats = (QUICK, 3) if quick else (FULL, 5)
    results = []
    mdp = random_model(n)
    path = mdp.simulate("random", T, rng=1)
    times = _in_turn(_peers(mdp) | {f"tether, m = {m}": _question(mdp, path, m) for m in TARGETS}, repeats)
    for m, most in TARGETS.items():
        results += _compare("random", mdp, times, m, f"≤ {most:g}× the fastest peer", most, quick)
    results += _stages(mdp, path, 3, quick)
    mdp, path = local_model(n), local_path(n, T)
    times = _in_turn(_peers(mdp) | {f"tether, m = {M}": _question(mdp, path, M)}, repeats)
    results += _compare("local", mdp, times, M, "≤ 1/10 of the fastest peer", 0.1, quick)
    return results


def _question(mdp: tether.MDP, path: tether.Path, m: int) -> Callable[[], Any]:
    return lambda: tether.counterfactual(mdp, path).plan(k=K, m=m)


def _in_turn(jobs: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float | str]:
    """Median seconds of each, taken in turn so that a busy moment hits all; or why one cannot finish.

    Of what takes many times as long as the others, one run says enough.
    """
    times: dict[str, list[float]] = {name: [] for name in jobs}
    failed: dict[str, str] = {}
    for turn in range(repeats + 1):
        for name, job in jobs.items():
            if name in failed or (
                turn > 1 and min(times[name]) > SLOW * min(min(found) for found in times.values() if found)
            ):
                continue
            start = time.perf_counter()
            try:
                job()
            except MemoryError as error:
                failed[name] = f"cannot finish: {error}"
                continue
            if turn:  # the first is to warm up
                times[name].append(time.perf_counter() - start)
    return {name: failed.get(name) or statistics.median(times[name]) for name in jobs}


def _compare(
    kind: str, mdp: tether.MDP, told: dict[str, float | str], m: int, target: str, most: float, quick: bool
) -> list[Result]:
    ours = told[f"tether, m = {m}"]
    peers = {name: answer for name, answer in told.items() if not name.startswith("tether")}
    timed = {name: seconds for name, seconds in peers.items() if isinstance(seconds, float)}
    fastest = min(timed, key=timed.__getitem__)
    ratio = ours / timed[fastest]
    others = "; ".join(
        f"{name} {answer:.3f} s" if isinstance(answer, float) else f"{name} {answer}" for name, answer in peers.items()
    )
    detail = (
        f"{mdp.n_states:,} states, T = {T}: conditioning, κ (definition) and plan (k = {K}, m = {m}) {ours:.4f} s; "
        f"the plain model: {others}"
    )
    name = f"price, {kind}, m = {m}: tether / {fastest}"
    if quick:  # the targets are those of the large model
        return [Result(name, ratio, "×", detail)]
    return [Result(name, ratio, "×", detail, target, ratio <= most, peak_of("price", kind) if m == M else None)]


# --- The peers ------------------------------------------------------------------------------------


def _peers(mdp: tether.MDP) -> dict[str, Callable[[], Any]]:
    form, n = mdp.form, mdp.n_states
    reward = np.array(form.rewards.values)
    whole = scipy.sparse.csr_matrix((form.probability, form.next_state, form.row_start), shape=(mdp.n_pairs, n))
    each = [whole[a::ACTIONS] for a in range(ACTIONS)]
    rewards = reward.reshape(n, ACTIONS)
    jobs: dict[str, Callable[[], Any]] = {
        "scipy (a product)": lambda: _one_product(whole, reward),
        "scipy (one product per action)": lambda: _product_each(each, rewards),
    }
    with contextlib.suppress(ImportError):
        jobs["QuantEcon"] = _quantecon(mdp, whole, reward)
    with contextlib.suppress(ImportError):
        jobs["pymdptoolbox"] = _toolbox(each, rewards)
    return jobs


def _one_product(whole: Any, reward: np.ndarray) -> np.ndarray:
    value = np.zeros(whole.shape[1])
    for _ in range(T):
        of_pairs = whole @ value
        of_pairs += reward
        value = of_pairs.reshape(-1, ACTIONS).max(axis=1)
    return value


def _product_each(each: list[Any], rewards: np.ndarray) -> np.ndarray:
    value = np.zeros(rewards.shape[0])
    for _ in range(T):
        best = each[0] @ value + rewards[:, 0]
        for a in range(1, ACTIONS):
            np.maximum(best, each[a] @ value + rewards[:, a], out=best)
        value = best
    return value


def _quantecon(mdp: tether.MDP, whole: Any, reward: np.ndarray) -> Callable[[], Any]:
    from quantecon.markov import DiscreteDP
    from quantecon.markov.ddp import backward_induction

    states = np.repeat(np.arange(mdp.n_states), ACTIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that β = 1 rules out its infinite-horizon methods
        problem = DiscreteDP(reward, whole, 1.0, states, np.tile(np.arange(ACTIONS), mdp.n_states))
    return lambda: backward_induction(problem, T)


def _toolbox(each: list[Any], rewards: np.ndarray) -> Callable[[], Any]:
    from mdptoolbox.mdp import FiniteHorizon

    def solve() -> None:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):  # it prints a warning
            warnings.simplefilter("ignore")
            FiniteHorizon(each, rewards, 1.0, T).run()

    return solve


# --- Where the time goes, and the limit -------------------------------------------------------------


def _stages(mdp: tether.MDP, path: tether.Path, repeats: int, quick: bool) -> list[Result]:
    cf = tether.counterfactual(mdp, path)
    found = thresholds(cf.graph, "definition", Support(), up_to=K)
    condition = median_time(lambda: tether.counterfactual(mdp, path), repeats)
    kappa = median_time(lambda: thresholds(cf.graph, "definition", Support(), up_to=K), repeats)
    one = median_time(lambda: solve_backward(found, np.array([K]), 1, keep=True), repeats)
    plan = median_time(lambda: solve_backward(found, np.array([K]), M, keep=True), repeats)
    needed, rate = _bytes_of_planning(found), _streaming()
    nodes = sum(layer.size for layer in found.nodes)
    detail = f"random model, {nodes:,} nodes: "
    limit = needed / rate
    return [
        Result("price, random: conditioning", condition, "s", detail + "counterfactual rows and reachable layers"),
        Result("price, random: κ", kappa, "s", detail + f"{kappa / nodes * 1e9:.0f} ns per node"),
        Result("price, random: planning, m = 1", one, "s", detail + f"{one / nodes * 1e9:.0f} ns per node"),
        Result(f"price, random: planning, m = {M}", plan, "s", detail + f"{plan / nodes * 1e9:.0f} ns per node"),
        Result(
            "limit: planning / streaming",
            plan / limit,
            "×",
            f"planning reads {needed / 1e9:.1f} GB, 32 bytes of values for each successor among them (memory hands "
            f"out 64); a plain copy on all cores copies {rate / 1e9:.1f} GB/s",
            "" if quick else "≤ 3×",
            None if quick else plan / limit <= 3,
        ),
    ]


def _bytes_of_planning(found: Thresholds) -> float:
    """What backward induction with m = M must read: each row once, and of each successor V for c < M and its size."""
    total = 0.0
    for which in found.within(K)[:-1]:
        nodes = which.size
        pairs, entries = nodes * ACTIONS, nodes * ACTIONS * OUTCOMES
        total += nodes * (4 + 8 + 8)  # its state, where its pairs and their κ begin
        total += pairs * (4 + 8 + 8 + 2)  # action, where its row begins, reward, κ
        total += entries * (4 + 8 + (M + 1) * 8)  # successor, probability, V of the successor
    return total


@numba.njit(parallel=True)
def _copy(source: np.ndarray, target: np.ndarray) -> None:
    for i in numba.prange(source.size):
        target[i] = source[i]


def _streaming() -> float:
    """Bytes per second that a plain copy of a large array streams, on all cores."""
    source, target = np.ones(40_000_000), np.zeros(40_000_000)
    return source.nbytes / median_time(lambda: _copy(source, target), 9)


JOBS = {
    "random": lambda: _question(mdp := random_model(FULL), mdp.simulate("random", T, rng=1), M),
    "local": lambda: _question(local_model(FULL), local_path(FULL, T), M),
}
