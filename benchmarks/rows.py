"""Exact counterfactual rows against sampled ones: every sepsis row, and single rows of 2 to 10,000 outcomes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from figures import growth_figure
from harness import Result, median_time, peak_of, slope, time_for

import tether
from tether.conditioning.edited_rows import ObservedStep

SAMPLES = 1000  # what the paper draws per row
ROWS, SEEN = 32, 8  # how much of a row must be sorted depends on what was observed: the mean over so many of each
SUPPORTS = (2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)


def measure(quick: bool) -> list[Result]:
    return [*_sepsis(quick), *_supports(quick)]


def _sepsis(quick: bool) -> list[Result]:
    case = tether.cases.sepsis()
    form = case.mdp.form
    pairs = np.arange(case.mdp.n_pairs)
    steps = tether.counterfactual(case.mdp, case.path).graph.layers

    def exact() -> None:
        for step in steps:
            tether.GumbelMax().infer(step.observed).replay(form, pairs)

    # The baseline shares the noise of a step among all rows, so it is faster than drawing afresh for each.
    sampled_steps = steps[:1] if quick else steps

    def sampled() -> None:
        mechanism = tether.SampledGumbelMax(SAMPLES, rng=0)
        for step in sampled_steps:
            mechanism.infer(step.observed).replay(form, pairs)

    rows = pairs.size * len(steps)
    time_exact = median_time(exact, 9)
    time_sampled = median_time(sampled, 1 if quick else 3) * len(steps) / len(sampled_steps)
    ratio, each = time_sampled / time_exact, time_exact / rows
    note = f"{SAMPLES:,} top-down draws in NumPy {time_sampled:.2f} s, exact {time_exact * 1e3:.1f} ms"
    detail = f"{rows:,} sepsis rows: {note}"
    return [
        Result("rows: sampled / exact", ratio, "×", detail, "≥ 300×", ratio >= 300),
        Result("rows: exact, each", each * 1e9, "ns", "mean over the same rows", "< 1,000 ns", each < 1e-6),
    ]


def _supports(quick: bool) -> list[Result]:
    """Rows over the same outcomes as the observed one: the case in which all of a row has to be computed."""
    sizes = SUPPORTS[1::3] if quick else SUPPORTS
    seconds = 0.03 if quick else 0.4
    exact = [time_for(_replay(n, tether.GumbelMax(), ROWS, SEEN), seconds) / (ROWS * SEEN) for n in sizes]
    draws = tether.SampledGumbelMax(SAMPLES, rng=0)
    sampled = [time_for(_replay(n, draws, 1, 1), seconds, least=1) for n in sizes]
    if not quick:
        growth_figure(
            "rows",
            "outcomes of a row, $n$",
            {"exact": (sizes, exact), f"{SAMPLES:,} samples": (sizes, sampled)},
            reference=("$n$ log $n$", sizes, [exact[-1] * _cost(n) / _cost(sizes[-1]) for n in sizes]),
        )
    results = [
        Result(
            f"rows: {n:,} outcomes",
            one * 1e6,
            "µs",
            f"exact, mean of {ROWS * SEEN}; {SAMPLES:,} samples {other * 1e3:.2f} ms, {other / one:,.0f}× as long",
            memory=peak_of("rows", str(n)) if n == SUPPORTS[-1] else None,
        )
        for n, one, other in zip(sizes, exact, sampled, strict=True)
    ]
    large = [i for i, n in enumerate(sizes) if n >= 500]
    found = slope([sizes[i] for i in large], [exact[i] for i in large])
    expected = slope([sizes[i] for i in large], [_cost(sizes[i]) for i in large])
    detail = (
        f"exponent of n from {sizes[large[0]]:,} outcomes on; that of n log n there is {expected:.2f}, of n² it is 2"
    )
    results.append(Result("rows: growth, exact", found, "", detail, "n log n: ≤ 1.3", found <= 1.3))
    return results


def _cost(n: int) -> float:
    return n * math.log(n)


def _replay(n: int, mechanism: Any, rows: int, outcomes: int) -> Callable[[], Any]:
    """Replay rows over ``n`` states on what another row over them was seen to lead to, for some such outcomes."""
    rng = np.random.default_rng(n)
    states, pairs = np.arange(n), rows + 1
    stay = np.arange(1, n)
    mdp = tether.MDP.from_table(
        np.concatenate((np.zeros(pairs * n, dtype=int), stay)),
        np.concatenate((np.repeat(np.arange(pairs), n), np.zeros(n - 1, dtype=int))),
        np.concatenate((np.tile(states, pairs), stay)),
        np.concatenate((rng.dirichlet(np.ones(n), size=pairs).reshape(-1), np.ones(n - 1))),
    )
    row, others = mdp.entries(0), np.arange(1, pairs)
    support, chance = mdp.form.next_state[row], mdp.form.probability[row]
    posteriors = [mechanism.infer(ObservedStep(0, support, chance, int(o))) for o in rng.integers(n, size=outcomes)]
    return lambda: [posterior.replay(mdp.form, others) for posterior in posteriors]


JOBS = {str(n): partial(_replay, n, tether.GumbelMax(), ROWS, SEEN) for n in SUPPORTS}
