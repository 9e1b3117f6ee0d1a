"""A dense model: every row leads everywhere, so that every row of every step is an edited one.

Stored, they would weigh as much as the model at each step. They are made when a question asks for them instead
(`tether.conditioning.on_demand`), so that what is kept, and what a plan takes at most, stay small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness import Result, peak_of, seconds_of, timed
from models import dense_model

import tether

ACTIONS, T, K = 10, 5, 3
FULL, QUICK = 3_000, 600


def measure(quick: bool) -> list[Result]:
    mdp = dense_model(QUICK if quick else FULL, ACTIONS)
    path = mdp.simulate("random", T, rng=1)
    model = 12 * mdp.form.next_state.size
    tether.counterfactual(mdp, path).plan(k=K, m=1)  # compiles
    conditioning, cf = timed(lambda: tether.counterfactual(mdp, path))
    seconds = {m: seconds_of(lambda m=m: cf.plan(k=K, m=m)) for m in (1, 2)}
    about = (
        f"{mdp.n_states:,} states, {ACTIONS} actions, {mdp.form.next_state.size:,} transitions ({model / 1e6:,.0f} MB)"
    )
    kept = cf.nbytes / model
    peak = None if quick else peak_of("dense", "plan")
    share = None if peak is None else peak / model
    return [
        Result("dense: conditioning", conditioning, "s", f"{about}, T = {T}"),
        Result(
            "dense: kept / model",
            kept,
            "×",
            f"of {cf.n_edited:,} edited rows",
            "" if quick else "≤ 0.5×",
            None if quick else kept <= 0.5,
        ),
        Result(
            "dense: plan, m = 1",
            seconds[1],
            "s",
            f"k = {K}: the rows of the observed actions",
            "" if share is None else "peak ≤ 0.5× the model",
            None if share is None else share <= 0.5,
            peak,
        ),
        Result("dense: plan, m = 2", seconds[2], "s", f"k = {K}: every row of every step, once"),
    ]


def _plan() -> Callable[[], Any]:
    mdp = dense_model(FULL, ACTIONS)
    path = mdp.simulate("random", T, rng=1)
    return lambda: tether.counterfactual(mdp, path).plan(k=K, m=1)


JOBS = {"plan": _plan}
