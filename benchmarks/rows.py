"""Exact counterfactual rows against sampled ones: every pair of the sepsis model at every step."""

from __future__ import annotations

import numpy as np
from harness import Result, median_time

import tether

SAMPLES = 1000  # what the paper draws a row


def run(quick: bool) -> list[Result]:
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
    ratio = time_sampled / time_exact
    return [
        Result(
            "rows: sampled / exact",
            ratio,
            "×",
            f"{rows:,} sepsis rows: {SAMPLES:,} top-down draws in NumPy {time_sampled:.2f} s, "
            f"exact {time_exact * 1e3:.1f} ms",
            "≥ 300×",
            ratio >= 300,
        ),
        Result(
            "rows: exact, each",
            time_exact / rows * 1e9,
            "ns",
            "mean over the same rows",
            "< 1,000 ns",
            time_exact / rows < 1e-6,
        ),
    ]
