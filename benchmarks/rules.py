"""Rules for everybody: all one-condition rules of sepsis on a log, and a replay against the call for one episode.

The optimal policy with every second action at random, 10 steps, from random first states that are neither dead nor
discharged. The search compares 126 rules; the best few are replayed on every episode that they touch. The loop asks
``tether.counterfactual(mdp, path).evaluate(policy)``, which gives the mean alone: no chances, no ranges.
"""

from __future__ import annotations

import numpy as np
from harness import Result, seconds_of, timed

import tether

FULL, QUICK, LOOP = 1_000, 20, 10
SECONDS = 60.0


def measure(quick: bool) -> list[Result]:
    n = QUICK if quick else FULL
    mdp = tether.cases.sepsis().mdp
    log = cohort(mdp, n)
    tether.rules(mdp, log[:8], workers=1)  # compiles
    seconds, found = timed(lambda: tether.rules(mdp, log, workers=2))
    best = found[0]
    rule = [best.rule]
    some = log[: max(QUICK, n // 5)]
    one, (again,) = timed(lambda: tether.evaluate_rules(mdp, some, rule, workers=1))
    one /= max(again.touched, 1)
    touched = [path for path in log if _is_touched(mdp, best.policy, path)][:LOOP]
    loop = seconds_of(lambda: [tether.counterfactual(mdp, path).evaluate(best.policy).value for path in touched])
    loop /= max(len(touched), 1)
    detail = f"{n:,} episodes, {found.searched} rules, {len(found)} replayed; the best touches {best.touched:,}"
    each = f"{1e3 * one:.1f} ms per touched episode with chances and ranges, the loop {1e3 * loop:.1f} ms for the mean"
    return [
        Result("rules: 126 rules of sepsis, two workers", seconds, "s", detail, f"≤ {SECONDS:g} s",
               None if quick else seconds <= SECONDS),
        Result("rules: loop over cf.evaluate / one rule, one worker", loop / one, "×", each),
    ]  # fmt: skip


def cohort(mdp: tether.MDP, n: int) -> list[tether.Path]:
    """Episodes of an optimal policy with every second action at random."""
    rng = np.random.default_rng(0)
    live = [state for state in mdp.states if 0 < state.abnormal < 3]
    starts = rng.integers(len(live), size=n)
    return [mdp.simulate("optimal", 10, start=live[int(s)], rng=i, noise=0.5) for i, s in enumerate(starts)]


def _is_touched(mdp: tether.MDP, policy: tether.records.RulePolicy, path: tether.Path) -> bool:
    given = policy.given(path)
    return any(given(t, path.states[t]) != {path.actions[t]: 1.0} for t in range(path.T))
