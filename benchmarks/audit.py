"""Many episodes of one model: an audit against the loop over single episodes, on one worker and on two.

The sepsis model and simulated episodes of 10 to 20 steps: the optimal policy with one random action in ten, from random
first states. The loop asks ``tether.counterfactual(mdp, path).plan(k, m)`` of some of them; the audit also follows each
plan, names its changes and counts decisions and outcomes. With the default settings it also finds the shortest tether
that is enough for each episode, and certifies each plan.

Memory is that of an audit of Parquet files into a directory. The grid is local: an episode reaches as much of a small
one as of a large one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from harness import Result, peak_of, seconds_of, time_for, timed
from models import SHAPES, local_model

import tether
from tether.auditing.reviewed import review_log
from tether.io import write_episodes

K, M = 5, 1
FULL, QUICK, LOOP = 5_000, 1_000, 200
LEAST, TWO, MINUTES = 10.0, 1.8, 5.0
PART = 1_000
KINDS = 2.5  # no kind of question takes more than so many times the default one
REVIEW = 2.0  # the plain model is solved once, and its values are looked up once more along the episode
GRIDS, WALKS = (10_000, 1_000_000), 512


def measure(quick: bool) -> list[Result]:
    n = QUICK if quick else FULL
    mdp, log = cohort(n)
    tether.audit(mdp, log[:64], K, M, workers=1)  # compiles
    loop = _loop(mdp, log[:LOOP])
    asked: dict[str, Any] = {"k": K, "m": M, "certify": False}
    one, two = (_seconds(mdp, log, workers, **asked) / n for workers in (1, 2))
    loop = min(loop, _loop(mdp, log[:LOOP]))  # before and after: a busy moment must not flatter the audit
    plain, default, default_two = (
        _seconds(mdp, log, workers, certify=certify) / n for workers, certify in ((1, False), (1, True), (2, True))
    )
    detail = f"{n:,} episodes, k = {K}, m = {M}: loop {1e3 * loop:.2f} ms per episode, audit {1e3 * one:.3f} ms"
    million = f"one worker {1e3 * default:.3f} ms per episode, {1e3 * plain:.3f} without certificates"
    results = [
        Result("audit: loop / audit, one worker", loop / one, "×", detail, f"≥ {LEAST:g} ×", loop / one >= LEAST),
        Result("audit: one worker / two", one / two, "×", f"two {1e3 * two:.3f} ms per episode", f"≥ {TWO:g} ×",
               None if quick else one / two >= TWO),
        Result("audit: a million episodes, default settings, two workers", 1e6 * default_two / 60, "min", million,
               f"≤ {MINUTES:g} min", None if quick else 1e6 * default_two / 60 <= MINUTES),
        _local(),
        *_kinds(mdp, log[: n // 4]),
        *_reviews(mdp, log[: n // 4]),
    ]  # fmt: skip
    if not quick:
        few, some, many = (peak_of("audit", job) for job in JOBS)
        sizes = zip((few, some, many), (1, 4, 16), strict=True)
        growth = ", ".join(f"{peak / 1e6:.0f} MB for {parts * PART:,} episodes" for peak, parts in sizes)
        results.append(Result("audit: memory of 16 × the episodes", many / max(few, 1), "×", growth, memory=many))
    return results


def _kinds(mdp: tether.MDP, log: list[tether.Path]) -> list[Result]:
    """Every other kind of question against the default one, without certificates, on one worker."""
    asked: dict[str, dict[str, Any]] = {
        "m = 2": {"m": 2},
        "rule published": {"rule": "published"},
        "rule printed": {"rule": "printed"},
        "rule assured": {"rule": "assured"},
        "tv(0.5)": {"influence": tether.tv(0.5)},
        "effective(0)": {"influence": tether.effective(0.0)},
        "avoid died": {"objective": tether.avoid("died")},
        "minimise": {"minimise": True},
        "policy optimal": {"policy": "optimal"},
        "policy random": {"policy": "random"},
        "independent": {"mechanism": "independent"},
        "maximal": {"mechanism": "maximal"},
        "comonotone": {"mechanism": "comonotone"},
    }
    default = _seconds(mdp, log, 1, certify=False) / len(log)
    results = []
    for name, question in asked.items():
        ratio = _seconds(mdp, log, 1, certify=False, **question) / len(log) / default
        detail = f"{1e3 * ratio * default:.3f} ms per episode; the default question {1e3 * default:.3f} ms"
        results.append(Result(f"audit: {name} / default", ratio, "×", detail, f"≤ {KINDS:g} ×", ratio <= KINDS))
    return results


def _reviews(mdp: tether.MDP, log: list[tether.Path]) -> list[Result]:
    """Mistake or luck: of one episode against solving the model; of every episode against the whole default audit."""
    path = max(log, key=lambda one: one.T)
    solve, review = (time_for(job, 1.0) for job in (lambda: mdp.solve(path.T), lambda: tether.review(mdp, path)))
    one = f"sepsis, {path.T} steps: review {1e3 * review:.2f} ms, solve {1e3 * solve:.2f} ms"
    audit = _seconds(mdp, log, 1, certify=False)
    all_of = seconds_of(lambda: review_log(mdp, log))
    detail = f"{1e3 * all_of / len(log):.3f} ms per episode; the default question {1e3 * audit / len(log):.3f} ms"
    return [
        Result("review / solving the model", review / solve, "×", one, f"≤ {REVIEW:g} ×", review / solve <= REVIEW),
        Result(
            "audit: review of every episode / default", all_of / audit, "×", detail, "≤ 0.5 ×", all_of / audit <= 0.5
        ),
    ]


def _loop(mdp: tether.MDP, log: list[tether.Path]) -> float:
    """Seconds per episode, one after the other."""
    return seconds_of(lambda: [tether.counterfactual(mdp, path).plan(K, M) for path in log]) / len(log)


def _seconds(mdp: tether.MDP, log: Any, workers: int, **asked: Any) -> float:
    return seconds_of(lambda: tether.audit(mdp, log, workers=workers, **asked))


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


def _local() -> Result:
    """The same walks in grids of two sizes: the engine's time per episode, once it knows the model."""
    made, each = zip(*map(_in_grid, GRIDS), strict=True)
    detail = (
        f"{1e3 * each[1]:.3f} ms per episode of 10 steps in {GRIDS[1]:,} states, {1e3 * each[0]:.3f} in {GRIDS[0]:,}; "
        f"made ready in {made[1]:.1f} s and {made[0]:.2f} s"
    )
    return Result("audit: per episode, grid of 10⁶ states / of 10⁴", each[1] / each[0], "×", detail)


def _in_grid(n_states: int) -> tuple[float, float]:
    """Seconds until the engine is ready, and then per episode."""

    from tether.auditing.answering import PreparedQuestion
    from tether.auditing.audit_question import make_question
    from tether.auditing.batched import Engine
    from tether.logs.batches import open_log

    mdp = local_model(n_states)
    first, *others = [batch for _, batch in open_log(local_log(n_states, WALKS)).batches(mdp)]
    question = make_question(K, M, "definition", "support", None, True, None, 0, 0)
    made, engine = timed(lambda: Engine(PreparedQuestion.of(mdp, question)))
    engine(first)

    def answer() -> None:
        for batch in others:
            engine(batch)

    return made, seconds_of(answer) / sum(map(len, others))


def local_log(n_states: int, n: int, T: int = 10) -> list[tether.Path]:
    """Walks from places near the middle of the grid: the same in grids of every size."""
    height, width = SHAPES[n_states]
    rng, log = np.random.default_rng(1), []
    for _ in range(n):
        row, column = height // 2 + int(rng.integers(-9, 10)), width // 2 + int(rng.integers(-9, 10))
        states, actions = [row * width + column], []
        for _ in range(T):
            actions.append(int(rng.integers(4)))
            down, right = ((-1, 0), (0, -1), (0, 0), (0, 1), (1, 0))[rng.integers(5)]
            row, column = row + down, column + right
            states.append(row * width + column)
        log.append(tether.Path(states, actions))
    return log


def _memory(parts: int) -> Callable[[], None]:
    """An audit of so many files into a directory: what is kept in memory must not grow with the number of episodes."""
    mdp, log = cohort(PART)
    folder = tempfile.TemporaryDirectory()
    source = Path(folder.name) / "log"
    source.mkdir()
    for part in range(parts):
        write_episodes(dict(enumerate(log, part * PART)), source / f"{part:03d}.parquet")

    def ask() -> None:
        with tempfile.TemporaryDirectory(dir=folder.name) as out:
            tether.audit(mdp, source, K, M, certify=False, workers=1, out=out)

    return ask


JOBS = {name: partial(_memory, parts) for name, parts in (("few", 1), ("some", 4), ("many", 16))}
