"""Hidden diabetes over many patients: the paper's policies beside the best one that uses what an episode says of the type.

Paths are drawn as for the two figures (`tether_reproduce.diabetes_section`), from many starting states of diabetic
patients. The third policy does not see who is diabetic either. It weighs the two models by what the whole episode says
of the patient, and goes on learning from what it meets (`tether.Types`, without a tether).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import tether
from tether_reproduce.findings import Table

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


@dataclass(frozen=True, slots=True)
class Advised:
    """What is advised to one patient: promised and true gains by adviser, and the gain of one who knows the type."""

    diabetic: bool
    promised: dict[str, float]
    true: dict[str, float]
    known: float

    def is_right(self, adviser: str) -> bool:
        """Whether the advice is as good as that of one who knows."""
        return abs(self.true[adviser] - self.known) <= 1e-9 * max(1.0, abs(self.known))


ADVISERS = ("posterior over types", "mixed model")


def patients(
    full: tether.MDP, types: tether.Types, n: int, seed: int
) -> Iterator[tuple[bool, tether.records.CounterfactualMDP, tether.Path]]:
    """Patients of both kinds: who is diabetic, the world of one who knows it, and what was recorded.

    They are drawn by seed, diabetic with the prior's probability, with six steps of the optimal policy in which half of
    the actions are random.
    """
    rng, half = np.random.default_rng(seed), full.n_states // 2
    sick = [state - half for state in first_states(full, 200, seed)]
    for i in range(n):
        diabetic = bool(rng.random() < types.prior(None)["diabetic"])
        start = int(rng.choice(sick)) + diabetic * half
        path = full.simulate("optimal", 6, start=full.states[start], rng=i, noise=0.5)
        seen = tether.Path([tuple(state)[1:] for state in path.states], path.actions)
        yield diabetic, tether.counterfactual(full, path), seen


def advise(full: tether.MDP, mixed: tether.MDP, types: tether.Types, n: int, seed: int, m: int) -> list[Advised]:
    """The best plan with at most m changes by each adviser, without a tether, for patients of both kinds."""
    found = []
    for diabetic, knows, seen in patients(full, types, n, seed):
        best = knows.plan(knows.T + 1, m)
        plan = tether.counterfactual(types, seen).plan(m=m)
        plain = tether.counterfactual(mixed, seen).plan(knows.T + 1, m)
        followed = knows.evaluate(plain.on(knows, lift=lambda state: tuple(state)[1:])).value
        true = plan.values["diabetic" if diabetic else "not diabetic"], followed
        gains = [value - best.observed_value for value in true]
        promised = dict(zip(ADVISERS, (plan.gain, plain.gain), strict=True))
        found.append(Advised(diabetic, promised, dict(zip(ADVISERS, gains, strict=True)), best.gain))
    return found


def one_change_table(found: list[Advised], rewards: str = "R(s, a)") -> Table:
    """Who advises what somebody who knows the type would? One change for each patient."""
    rows = []
    for name in ADVISERS:
        right = f"{sum(one.is_right(name) for one in found)} of {len(found)}"
        rows.append((name, right, *(f"{mean:,.1f}" for mean in _means(found, name))))
    columns = (
        "advice by",
        "as good as the change of one who knows",
        "promised gain",
        "true gain",
        "gain of one who knows",
    )
    return Table(f"One change for {len(found)} patients of both kinds, rewards {rewards}", columns, tuple(rows))


def several_changes_table(found: list[Advised], m: int = 2, rewards: str = "of states") -> Table:
    """What is promised to all patients, and to the diabetic ones, and what is true."""
    rows = []
    for who, some in (("all", found), ("diabetic", [one for one in found if one.diabetic])):
        for name in ADVISERS:
            rows.append((f"{who} ({len(some)})", name, *(f"{mean:,.1f}" for mean in _means(some, name))))
    columns = ("patients", "advice by", "promised gain", "true gain", "gain of one who knows")
    return Table(f"At most {m} changes for {len(found)} patients, rewards {rewards}", columns, tuple(rows))


def _means(found: list[Advised], name: str) -> tuple[float, float, float]:
    """Promised gain, true gain, and the gain of one who knows, on average."""
    promised, true = ([getattr(one, what)[name] for one in found] for what in ("promised", "true"))
    return float(np.mean(promised)), float(np.mean(true)), float(np.mean([one.known for one in found]))
