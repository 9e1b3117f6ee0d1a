"""Many episodes of one model: an audit against the loop over single episodes, on one worker and on two.

The sepsis model and simulated episodes of 10 to 20 steps: the optimal policy with one random action in ten, from random
first states. The loop asks ``tether.counterfactual(mdp, path).plan(k, m)`` of some of them; the audit also follows each
plan, names its changes and counts decisions and outcomes.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from harness import Result, peak_of

import tether

K, M = 5, 1
FULL, QUICK, LOOP, CERTIFIED = 20_000, 2_000, 200, 256
LEAST, TWO = 10.0, 1.8


def measure(quick: bool) -> list[Result]:
    n = QUICK if quick else FULL
    mdp, log = cohort(n)
    tether.audit(mdp, log[:64], K, M, certify=True, workers=1)  # compiles
    loop = _loop(mdp, log[:LOOP])
    one = _seconds(mdp, log, workers=1) / n
    two = _seconds(mdp, log, workers=2) / n
    loop = min(loop, _loop(mdp, log[:LOOP]))  # before and after: a busy moment must not flatter the audit
    certified = _seconds(mdp, log[:CERTIFIED], workers=1, certify=True) / CERTIFIED
    detail = f"{n:,} episodes, k = {K}, m = {M}: loop {1e3 * loop:.2f} ms per episode, audit {1e3 * one:.3f} ms"
    results = [
        Result("audit: loop / audit, one worker", loop / one, "×", detail, f"≥ {LEAST:g} ×", loop / one >= LEAST),
        Result("audit: one worker / two", one / two, "×", f"two {1e3 * two:.3f} ms per episode", f"≥ {TWO:g} ×",
               None if quick else one / two >= TWO),
        Result("audit: certificates", 1e3 * certified, "ms", "per episode, with them, one worker"),
    ]  # fmt: skip
    if not quick:
        few, many = (peak_of("audit", job) for job in ("few", "many"))
        growth = f"{many / 1e6:.0f} MB for 9,000 episodes, {few / 1e6:.0f} MB for 3,000"
        results.append(Result("audit: memory of 3 × the episodes", many / max(few, 1), "×", growth, memory=many))
    return results


def _loop(mdp: tether.MDP, log: list[tether.Path]) -> float:
    """Seconds per episode, one after the other."""
    start = time.perf_counter()
    for path in log:
        tether.counterfactual(mdp, path).plan(K, M)
    return (time.perf_counter() - start) / len(log)


def _seconds(mdp: tether.MDP, log: list[tether.Path], workers: int, certify: bool = False) -> float:
    start = time.perf_counter()
    tether.audit(mdp, log, K, M, certify=certify, workers=workers)
    return time.perf_counter() - start


@lru_cache
def cohort(n: int) -> tuple[tether.MDP, list[tether.Path]]:
    """So many episodes of the sepsis model."""
    mdp, rng = tether.cases.sepsis().mdp, np.random.default_rng(0)
    best = {T: mdp.solve(T) for T in range(10, 21)}
    log = []
    for _ in range(n):
        T, first = int(rng.integers(10, 21)), mdp.states[int(rng.integers(mdp.n_states))]
        log.append(mdp.simulate(best[T], T, start=first, rng=rng, noise=0.1))
    return mdp, log


def _memory(n: int) -> Callable[[], None]:
    """An audit into a directory: what is kept in memory must not grow with the number of episodes."""
    mdp, log = cohort(n)

    def ask() -> None:
        with tempfile.TemporaryDirectory() as folder:
            tether.audit(mdp, log, K, M, certify=False, workers=1, out=folder)

    return ask


JOBS = {"few": lambda: _memory(3000), "many": lambda: _memory(9000)}
