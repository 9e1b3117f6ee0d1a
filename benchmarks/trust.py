"""How far a learned model can be trusted: `python benchmarks/trust.py` prints the tables of docs/trusting-a-log.md.

Logs come from hospitals at random whose truth is known (tests/hospital.py). Each row is a mean over as many hospitals
as `--hospitals` says. As a section of `make bench`, `measure` says what pooling costs when a model is learned.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from harness import Result

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
import hospital as h

import tether

SIZES = (100, 500, 2000, 8000)
EFFECTS = {"small": 0.3, "middling": 0.6, "large": 1.0}
TARGET, FOLDS = 2.0, 3.5
FRESH = 200
"""Hospitals from this one on had no part in choosing how folds are pooled; 0 to 4 and 100 to 115 had
(`tether.learning.folds`)."""

WARDS = 100
"""The first ward of the guarantees."""


def measure(quick: bool) -> list[Result]:
    """Learning with pooled rows against rows learned apart: the same log, in turns, in one process."""
    truth = h.hospital(0, 0.6)
    log = h.log_of(truth, 20_000 if quick else 100_000, 0)
    tether.learn(log, prior=1), tether.learn(log)  # imports
    times: dict[str, list[float]] = {"pooled": [], "flat": []}
    for _ in range(3 if quick else 5):
        for name, prior in (("flat", 1), ("pooled", "pooled")):
            start = time.perf_counter()
            tether.learn(log, prior=prior)
            times[name].append(time.perf_counter() - start)
    pooled, flat = (statistics.median(times[name]) for name in ("pooled", "flat"))
    detail = f"{log.n_steps:,} steps of {len(log):,} episodes: {pooled:.2f} s against {flat:.2f} s"
    learning = Result("learning: pooled / flat", pooled / flat, "×", detail, f"≤ {TARGET}×", pooled / flat <= TARGET)
    return [learning, _cost_of_folds(truth, 500 if quick else 3_000)]


def _cost_of_folds(truth: h.Hospital, patients: int) -> Result:
    """An audit with folds and placebo against one without either, on all cores, in turns."""
    log = h.log_of(truth, patients, 1)
    mdp = h.learned(log)
    known = replace(mdp, counts=None)  # the plain audit: no folds, and no placebo
    tether.audit(mdp, log), tether.audit(known, log)  # compiling
    times: dict[str, list[float]] = {"honest": [], "plain": []}
    for _ in range(3):
        for name, model in (("plain", known), ("honest", mdp)):
            start = time.perf_counter()
            tether.audit(model, log)
            times[name].append(time.perf_counter() - start)
    honest, plain = (statistics.median(times[name]) for name in ("honest", "plain"))
    detail = f"{len(log):,} episodes: {honest:.1f} s against {plain:.1f} s"
    return Result(
        "audit: folds and placebo / plain", honest / plain, "×", detail, f"≤ {FOLDS}×", honest / plain <= FOLDS
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hospitals", type=int, default=24)
    parser.add_argument("--intervals", action="store_true", help="only how often intervals of audits hold the truth")
    parser.add_argument("--audits", action="store_true", help="only what audits claim, of five hospitals each")
    parser.add_argument("--guarantees", action="store_true", help="only how often guarantees hold, in 300 small wards")
    chosen = parser.parse_args()
    if chosen.guarantees:
        print_guarantees(range(WARDS, WARDS + 300))
        return
    if chosen.intervals:
        print_intervals(range(120, 123))
        return
    if chosen.audits:
        print_audits(range(FRESH, FRESH + min(5, chosen.hospitals)))
        return
    seeds = range(chosen.hospitals)
    print("| effects | patients | claimed | true | possible | sure | of these wrong | intervals cover | values cover |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, effect in EFFECTS.items():
        for patients in SIZES:
            claims, _ = h.mean_claims(patients, seeds, effect)
            covered = []
            for seed in seeds:
                truth = h.hospital(seed, effect)
                covered.append(h.values_covered(h.learned(h.log_of(truth, patients, seed)), truth, 100, seed))
            wrong = f"{claims.false / claims.sure:.1%}" if claims.sure > 0.001 else "none"
            print(
                f"| {name} | {patients:,} | {claims.claimed:.4f} | {claims.true:.4f} | {claims.possible:.4f} "
                f"| {claims.sure:.0%} | {wrong} | {claims.covered:.0%} | {np.mean(covered):.0%} |"
            )
    print()
    print("| effects | patients | placebos without any effect | claimed, placebo | claimed, real | sure, placebo |")
    print("|---|---|---|---|---|---|")
    for name, effect in EFFECTS.items():
        for patients in SIZES:
            real, _ = h.mean_claims(patients, seeds, effect)
            claims, rho = h.mean_claims(patients, seeds, effect, placebo=True)
            print(
                f"| {name} | {patients:,} | {np.mean(rho == 0):.0%} | {claims.claimed:.4f} | {real.claimed:.4f} "
                f"| {claims.sure:.1%} |"
            )
    print()
    print("| patients | apart: promised | placebo | true | pooled: promised | placebo | true |")
    print("|---|---|---|---|---|---|---|")
    for patients in SIZES:
        rows = [planned(patients, seed) for seed in seeds]
        print(f"| {patients:,} | " + " | ".join(f"{number:.3f}" for number in np.mean(rows, axis=0)) + " |")


def print_audits(seeds: range) -> None:
    """What cross-fitted audits claim, and what is true; what one model promises; what is found in a placebo."""
    print("| patients | claimed | true | one model | placebo |")
    print("|---|---|---|---|---|")
    for patients in SIZES:
        rows = []
        for seed in seeds:
            truth = h.hospital(seed, EFFECTS["middling"])
            log = h.log_of(truth, patients, seed)
            placebo, mdp = h.placebo_of(log, seed), h.learned(log)
            found = h.audited(truth, log)
            some = {i: log[i] for i in range(min(128, patients))}
            plain = tether.audit(mdp, some, folds=0, certify=False).table.column("gain").to_numpy()
            nothing = h.audited(truth, placebo).claimed
            rows.append((found.claimed.mean(), found.true.mean(), plain.mean(), nothing.mean()))
        means = " | ".join(f"{number:.4f}" for number in np.mean(rows, axis=0))
        print(f"| {patients:,} | {means} |", flush=True)


def print_intervals(seeds: range) -> None:
    """How often the 90 % intervals of audits contain the true gain of the plans that change something."""
    print("| patients | plans | intervals cover |")
    print("|---|---|---|")
    for patients in (500, 1000, 4000):
        covered: list[bool] = []
        for seed in seeds:
            truth = h.hospital(seed, EFFECTS["middling"])
            found = h.audited(truth, h.log_of(truth, patients, seed), 64, draws=40)
            inside = (found.low <= found.true) & (found.true <= found.high)
            covered += inside[np.abs(found.claimed) > 1e-9].tolist()
        print(f"| {patients:,} | {len(covered)} | {np.mean(covered):.0%} |", flush=True)


def print_guarantees(seeds: range) -> None:
    """How often guaranteed plans are worth what they promise, in the worst causal model of the truth."""
    print("| confidence | plans | promise something | of these hold | promised | least true |")
    print("|---|---|---|---|---|---|")
    for name, confidence in (("95 %", 0.95), ("the learned rows as they are", None)):
        found = h.promises(seeds, confidence)
        some = found.promised > 1e-9
        print(
            f"| {name} | {some.size} | {some.sum()} | {found.held[some].mean():.1%} | {found.promised.mean():.2f} "
            f"| {found.worst.mean():.2f} |",
            flush=True,
        )


def planned(patients: int, seed: int) -> list[float]:
    """What the best policy gains over usual practice in a model with a flat prior 1 and in a pooled one."""
    truth = h.hospital(seed, 0.6)
    log = h.log_of(truth, patients, seed)
    found = []
    for prior in (1, "pooled"):
        for one in (log, h.placebo_of(log, seed)):
            mdp = h.learned(one, prior=prior)
            promised, policy, usual = best_policy(mdp)
            found.append(promised)
            if one is log:
                real = float(np.mean(valued(truth.P, policy) - valued(truth.P, usual)))
        found.append(real)
    return found


def best_policy(mdp: tether.MDP) -> tuple[float, np.ndarray, np.ndarray]:
    """By policy iteration on the model's rows: its gain over usual practice, itself, and usual practice."""
    P = h.rows_of(mdp)
    there = P.sum(axis=2) > 0
    usual = np.zeros((h.N_STATES, h.N_ACTIONS))
    for one in tether.practice(mdp).advantages:
        usual[h.STATES.index(one.state), h.ACTIONS.index(one.action)] = one.share
    policy = usual
    for _ in range(100):
        after = np.append(valued(P, policy), [0.0, 1.0])
        new = np.eye(h.N_ACTIONS)[np.where(there, P @ after, -np.inf).argmax(axis=1)]
        if np.array_equal(new, policy):
            break
        policy = new
    return float(np.mean(valued(P, policy) - valued(P, usual))), policy, usual


def valued(P: np.ndarray, policy: np.ndarray) -> np.ndarray:
    """The chance to get well from each state; a patient who never leaves, in a small log, does not get well."""
    chain = 0.9999 * np.einsum("sa,saj->sj", policy, P)
    return np.linalg.solve(np.eye(h.N_STATES) - chain[:, : h.N_STATES], chain[:, h.WELL])


if __name__ == "__main__":
    main()
