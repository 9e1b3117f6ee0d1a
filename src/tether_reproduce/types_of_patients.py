"""Hidden diabetes over many patients: the paper's policies beside the best one that uses what an episode says of the type.

Paths are drawn as for the two figures (`tether_reproduce.hidden_diabetes`), from many starting states of diabetic
patients. The third policy does not see who is diabetic either. It weighs the two models by what the whole episode says
of the patient, and goes on learning from what it meets (`tether.Types`, without a tether).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import tether
from tether_reproduce.findings import Table

__all__ = ["PATIENTS", "Beside", "compare_policies", "first_states", "one_change_table", "shares_table"]

PATIENTS = 60
"""How many starting states for each kind of path."""

_SEED = 2025
_NEAR = 0.01
"""Values count as equal within this part of what knowing gains."""


def first_states(full: tether.MDP, n: int = PATIENTS, seed: int = _SEED) -> list[int]:
    """Starting states of diabetic patients, drawn by seed: those in which something is left to do."""
    half, form = full.n_states // 2, full.form
    stays = np.array([
        all(full.row(state, action)[0] == (state,) for action in full.actions_in(state))
        for state in full.states[half:]
    ])  # fmt: skip
    assert form.pair_start.size == full.n_states + 1
    return sorted((half + np.random.default_rng(seed).choice(np.flatnonzero(~stays), n, replace=False)).tolist())


@dataclass(frozen=True, slots=True)
class Beside:
    """One path: what each policy is worth for the diabetic patient, and what the paper's claim comes to.

    ``tethered`` is the best of all k of the policy made without knowing; ``free`` is it without a tether; ``typed`` uses
    the posterior; ``known`` is the policy that knows.
    """

    observed: float
    free: float
    tethered: float
    typed: float
    known: float
    posterior: float
    verdict: str

    @property
    def margin(self) -> float:
        """What counts as no difference."""
        return _NEAR * max(abs(self.known - self.observed), 1.0)


def compare_policies(
    full: tether.MDP, types: tether.Types, path: tether.Path, values: tuple[float, float, float, float], verdict: str
) -> Beside:
    """The posterior's policy beside the others, whose values are observed, free, tethered and known."""
    shorter = tether.Path([tuple(state)[1:] for state in path.states], path.actions)
    cf = tether.counterfactual(types, shorter)
    plan = cf.plan(m=cf.T)
    observed, free, tethered, known = values
    return Beside(observed, free, tethered, plan.values["diabetic"], known, cf.posterior["diabetic"], verdict)


def shares_table(found: dict[str, list[Beside]]) -> Table:
    """In which share of the paths each claim holds."""
    claims = {
        "the paper's claim holds: some k is better than no tether, none is worse": lambda one: one.verdict == "holds",
        "the paper's claim holds in part: some k is better, some worse": lambda one: one.verdict == "holds in part",
        "it does not hold: no k is better than no tether": lambda one: one.verdict == "does not hold",
        "the posterior is at least as good as no tether": lambda one: one.typed >= one.free - one.margin,
        "the posterior is at least as good as the best of all k": lambda one: one.typed >= one.tethered - one.margin,
        "the posterior is better than the best of all k": lambda one: one.typed > one.tethered + one.margin,
        "the posterior is as good as the policy that knows": lambda one: one.typed >= one.known - one.margin,
    }
    rows = []
    for claim, holds in claims.items():
        rows.append((claim, *(f"{sum(map(holds, some))} of {len(some)}" for some in found.values())))
    for title, of in (
        ("mean value: observed", "observed"),
        ("mean value: policy made without knowing, no tether", "free"),
        ("mean value: the best of all k of it", "tethered"),
        ("mean value: posterior over types", "typed"),
        ("mean value: policy that knows", "known"),
    ):
        rows.append((title, *(f"{np.mean([getattr(one, of) for one in some]):,.1f}" for some in found.values())))
    likely = (f"{np.mean([one.posterior for one in some]):.2f}" for some in found.values())
    rows.append(("mean probability of diabetes after the episode (0.2 before it)", *likely))
    columns = ("over starting states of diabetic patients", *(f"{name} policy" for name in found))
    return Table("In which share of the paths each claim holds", columns, tuple(rows))


def one_change_table(
    full: tether.MDP, mixed: tether.MDP, types: tether.Types, n: int = 40, seed: int = _SEED, rewards: str = "R(s, a)"
) -> Table:
    """One change for patients of both kinds: who advises what somebody who knows the type would?

    Patients are drawn by seed, diabetic with the prior's probability, with six steps of the optimal policy in which half
    of the actions are random.
    """
    rng, half = np.random.default_rng(seed), full.n_states // 2
    sick = [state - half for state in first_states(full, 200, seed)]
    same = {"posterior over types": 0, "mixed model": 0}
    promised, true, known = dict.fromkeys(same, 0.0), dict.fromkeys(same, 0.0), 0.0
    for i in range(n):
        diabetic = bool(rng.random() < types.prior(None)["diabetic"])
        start = int(rng.choice(sick)) + diabetic * half
        path = full.simulate("optimal", 6, start=full.states[start], rng=i, noise=0.5)
        seen = tether.Path([tuple(state)[1:] for state in path.states], path.actions)
        knows = tether.counterfactual(full, path)
        gains = {(row.t, row.action): row.gain or 0.0 for row in knows.decisions().rows}
        best = max(gains.values())
        known += best / n
        advised: dict[str, list[Any]] = {
            "posterior over types": list(tether.counterfactual(types, seen).decisions().rows),
            "mixed model": list(tether.counterfactual(mixed, seen).decisions().rows),
        }
        for name, some in advised.items():
            chosen = max(some, key=lambda row: row.gain or 0.0)
            gain = gains[chosen.t, chosen.action] if (chosen.gain or 0.0) > 0.0 else 0.0
            same[name] += abs(gain - best) <= 1e-9 * max(1.0, abs(best))
            promised[name] += (chosen.gain or 0.0) / n
            true[name] += gain / n
    table = [
        (name, f"{same[name]} of {n}", f"{promised[name]:,.1f}", f"{true[name]:,.1f}", f"{known:,.1f}") for name in same
    ]
    columns = (
        "advice by",
        "as good as the change of one who knows",
        "promised gain",
        "true gain",
        "gain of one who knows",
    )
    return Table(f"One change for {n} patients of both kinds, rewards {rewards}", columns, tuple(table))
