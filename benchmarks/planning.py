"""Planning: a full sweep against the sparse products of the plain model; one plan; the four rules."""

from __future__ import annotations

import numpy as np
import scipy.sparse
from harness import Result, median_time

import tether


def run(quick: bool) -> list[Result]:
    case = tether.cases.sepsis()
    form, T = case.mdp.form, case.path.T
    cf = tether.counterfactual(case.mdp, case.path)
    nominal = scipy.sparse.csr_array(
        (form.probability, form.next_state, form.row_start), shape=(case.mdp.n_pairs, case.mdp.n_states)
    )
    block = np.random.default_rng(0).normal(size=(case.mdp.n_states, T + 1))

    def products() -> None:
        for _ in range(T):
            nominal @ block

    repeats = 9 if quick else 31
    plain = median_time(products, repeats)
    sweep = median_time(cf.sweep, repeats)
    one = median_time(lambda: cf.plan(k=9, m=3), repeats)
    conditioning = median_time(lambda: tether.counterfactual(case.mdp, case.path), repeats)
    results = [
        Result(
            "sweep / scipy products",
            sweep / plain,
            "×",
            f"sepsis, every k and m, rule definition: {sweep * 1e3:.1f} ms; {T} products of the nominal matrix with a "
            f"block of {T + 1} columns: {plain * 1e3:.1f} ms",
            "≤ 2×",
            sweep / plain <= 2,
        ),
        Result("sweep / one plan", sweep / one, "×", f"sepsis: one plan (k = 9, m = 3) {one * 1e3:.1f} ms"),
        Result("conditioning", conditioning * 1e3, "ms", "sepsis, ten steps"),
    ]
    for rule in ("published", "printed", "assured"):
        time = median_time(lambda rule=rule: cf.sweep(rule=rule), repeats)
        results.append(Result(f"sweep {rule} / definition", time / sweep, "×", f"sepsis: {time * 1e3:.1f} ms"))
    return results
