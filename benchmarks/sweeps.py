"""All k and all m: the full sweep on sepsis and epidemic, against one plan and against plain sparse products."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from harness import Anew, Result, peak_of, time_for

import tether

RULES = ("definition", "published", "printed", "assured")
CASES = {"sepsis": tether.cases.sepsis, "epidemic": tether.cases.epidemic}
PLAN = {"sepsis": (9, 3), "epidemic": (7, 3)}  # k and m of the single plan


def measure(quick: bool) -> list[Result]:
    seconds = 0.15 if quick else 1.0
    results = []
    for name in CASES:
        case, cf = _condition(name)
        k, m = PLAN[name]
        condition = partial(tether.counterfactual, case.mdp, case.path)
        conditioning = time_for(condition, seconds)
        one = time_for(Anew(condition, lambda cf, k=k, m=m: cf.plan(k=k, m=m)), seconds)
        sweep = {rule: time_for(Anew(condition, lambda cf, rule=rule: cf.sweep(rule=rule)), seconds) for rule in RULES}
        full = sweep["definition"]
        rows = time_for(lambda condition=condition: condition().to_arrays(), seconds)
        size = f"{case.path.T + 1} k × {case.path.T + 1} m"
        results += [
            Result(f"{name}: conditioning", conditioning * 1e3, "ms", f"{case.path.T} steps"),
            Result(f"{name}: sweep", full * 1e3, "ms", f"{size}, definition", memory=peak_of("sweeps", name)),
            Result(f"{name}: sweep / one plan", full / one, "×", f"one plan (k = {k}, m = {m}) {one * 1e3:.2f} ms"),
            Result(
                f"{name}: conditioning and every row as arrays / and one plan",
                rows / (conditioning + one),
                "×",
                f"{cf.to_arrays().t.size:,} entries",
            ),
            *(
                Result(f"{name}: sweep {rule} / definition", sweep[rule] / full, "×", f"{sweep[rule] * 1e3:.1f} ms")
                for rule in RULES[1:]
            ),
        ]
        if name == "sepsis":
            plain = time_for(_products(case), seconds)
            detail = (
                f"sepsis, {size}: {full * 1e3:.1f} ms; {case.path.T} products of the nominal matrix with a block of "
                f"{case.path.T + 1} columns: {plain * 1e3:.1f} ms"
            )
            results.append(
                Result("sepsis: sweep / scipy products", full / plain, "×", detail, "≤ 1.6×", full <= 1.6 * plain)
            )
    return results


def _condition(name: str) -> tuple[Any, Any]:
    case = CASES[name]()
    return case, tether.counterfactual(case.mdp, case.path)


def _products(case: Any) -> Callable[[], None]:
    """The sparse products that plain backward induction of the same size needs."""
    form, T = case.mdp.form, case.path.T
    shape = (case.mdp.n_pairs, case.mdp.n_states)
    nominal = scipy.sparse.csr_array((form.probability, form.next_state, form.row_start), shape=shape)
    block = np.random.default_rng(0).normal(size=(case.mdp.n_states, T + 1))

    def products() -> None:
        for _ in range(T):
            nominal @ block

    return products


def _job(name: str) -> Callable[[], Any]:
    return _condition(name)[1].sweep


JOBS = {name: partial(_job, name) for name in CASES}
