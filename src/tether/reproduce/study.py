"""The whole reproduction: compute the wanted sections, and check the exact numbers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tether.cases import Case, epidemic, grid_world, sepsis
from tether.conditioning.conditioned import counterfactual
from tether.conditioning.sets import model_set
from tether.errors import QueryError
from tether.plan.robust import Robust
from tether.plan.sweep import Sweep
from tether.reproduce.compare import first_improvement, sweeps
from tether.reproduce.few_changes import few_changes_section, improvements, outcomes
from tether.reproduce.follow_up import robust_grid
from tether.reproduce.hidden import hidden_section
from tether.reproduce.notions import notions_section
from tether.reproduce.off_policy import off_policy_section, redraw, released_world
from tether.reproduce.published import expected
from tether.reproduce.records import Section
from tether.reproduce.robust import OUR_PLANS, limits_free, robust_section
from tether.reproduce.sepsis import component, load_table, motivation_section, sepsis_section
from tether.reproduce.small import epidemic_section, grid_section, toy_section

__all__ = ["CASES", "Study", "check", "reproduce"]

CASES: dict[str, Callable[[], Section]] = {
    "toy": toy_section,
    "grid_world": grid_section,
    "epidemic": epidemic_section,
    "sepsis": sepsis_section,
    "motivation": motivation_section,
    "hidden_diabetes": hidden_section,
    "notions": notions_section,
    "robust": robust_section,
    "few_changes": few_changes_section,
    "off_policy": off_policy_section,
}


_ONE_DIGIT = 0.05001
"""The tolerance for numbers that are printed with one digit."""

_TWO_DIGITS = 5.001e-3
_FOUR_DIGITS = 5.001e-5


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """The computed sections, and the time they took."""

    sections: tuple[Section, ...]

    @property
    def seconds(self) -> float:
        """Time to compute them all, without drawing."""
        return sum(section.seconds for section in self.sections)


def reproduce(
    cases: Iterable[str] = (),
    sepsis_table: str | Path | None = None,
    progress: Callable[[str], None] = lambda name: None,
) -> Study:
    """Compute published experiments again: those named, or all.

    Parameters
    ----------
    cases : iterable of str
        Names from `CASES`; empty for all.
    sepsis_table : path, optional
        A copy of the public sampled table, to run the sepsis section on as well.
    progress : callable
        Called with the name of each section before it is computed.

    Examples
    --------
    >>> from tether.reproduce import reproduce
    >>> study = reproduce(["grid_world"])
    >>> study.sections[0].comparisons[0].verdict
    'equal'
    """
    names = list(dict.fromkeys(cases)) or list(CASES)
    for name in names:
        if name not in CASES:
            raise QueryError(f"there is no case {name!r}; there are {', '.join(CASES)}")
    table = None if sepsis_table is None else load_table(sepsis_table)
    sections = []
    for name in names:
        progress(name)
        sections.append(_timed(CASES[name]))
        if name == "sepsis" and table is not None:
            progress("sepsis, sampled table")
            sections.append(_timed(lambda: replace(sepsis_section(table), name="sepsis_table")))
    return Study(tuple(sections))


def _timed(compute: Callable[[], Section]) -> Section:
    start = time.perf_counter()
    section = compute()
    return replace(section, seconds=time.perf_counter() - start)


def check(sepsis_table: str | Path | None = None, *, every_section: bool = False) -> list[str]:
    """Which of the exact numbers have changed: one sentence each, none if all are the same.

    With ``every_section`` also the numbers of few_changes and off_policy, which take some seconds.

    Examples
    --------
    >>> from tether.reproduce import check
    >>> check()
    []
    """
    moved = [*_check_grid(), *_check_epidemic(), *_check_sepsis(), *_check_robust()]
    if every_section:
        moved += [*_check_few_changes(), *_check_off_policy()]
    if sepsis_table is not None:
        moved += _check_table(load_table(sepsis_table))
    return moved


def _check_grid() -> list[str]:
    must, case = expected().grid_world, grid_world()
    cf = counterfactual(case.mdp, case.path)
    tables = sweeps(cf)
    last = [*tables["published"].values[-1, 1:], tables["published"].values[-1, -1]]
    moved = _differ("Grid World, observed return", [tables["published"].observed_value], [must.observed])
    moved += _differ("Grid World, V(s0) for m = 1 … 12", last, must.values)
    for rule, k in must.first_k.items():
        table = tables[rule]
        moved += _differ(f"Grid World, first k of {rule}", [first_improvement(table) or 0], [k])
        limit = 7 if rule == "assured" else 12
        moved += _differ(
            f"Grid World, {rule}, V at its first k", table.values[k - 1, 1:limit], must.values[: limit - 1]
        )
        moved += _differ(
            f"Grid World, {rule}, V below it", table.values[: k - 1].reshape(-1), [must.observed] * (k - 1) * 12
        )
    full = tables["assured"].values[must.assured_full_from - 1, 1:]
    moved += _differ("Grid World, assured, full values", full, must.values[:11])
    return moved + _differ("Grid World, sizes", tables["published"].layered_sizes, must.layered_sizes)


def _check_epidemic() -> list[str]:
    must, case = expected().epidemic, epidemic()
    cf = counterfactual(case.mdp, case.path)
    tables = sweeps(cf)
    moved = _differ("Epidemic, observed return", [tables["published"].observed_value], [must.observed])
    for rule, table in tables.items():
        for k, row in must.values.items():
            moved += _differ(f"Epidemic, {rule}, V(s0) at k = {k}", table.values[k - 1, 1:], row)
    moved += _differ("Epidemic, sizes", tables["published"].layered_sizes, must.layered_sizes)
    return moved + _differ("Epidemic, sizes from s0", tables["definition"].sizes, must.sizes)


def _check_sepsis() -> list[str]:
    must, case = expected().sepsis, sepsis()
    cf = counterfactual(case.mdp, case.paths["catastrophic"])
    moved = []
    for rule, k in must.first_k.items():
        table = cf.sweep(rule=rule)
        moved += _differ("Sepsis, observed return", [table.observed_value], [must.observed])
        moved += _differ(f"Sepsis, first k of {rule}", [first_improvement(table) or 0], [k])
        moved += _differ(f"Sepsis, {rule}, V(s0) at k = {k}", table.values[k - 1, 1:8], must.values, 5e-3)
    return moved


def _check_robust() -> list[str]:
    must, moved = expected().robust, []
    for chance, paths in must.grids.items():
        case = robust_grid(float(chance))
        for name, numbers in paths.items():
            cf, what = counterfactual(case.mdp, case.paths[name]), f"{case.name}, {name} path"
            free = cf.plan(cf.T + 1, cf.T)
            moved += _differ(f"{what}, observed and Gumbel-max", [free.observed_value, free.value], numbers, _ONE_DIGIT)
            for assume, wanted in must.sets[chance][name].items():
                moved += _differ(f"{what}, {assume}", limits_free(cf, assume), wanted, _ONE_DIGIT)
    case = robust_grid(0.9)
    robust = Robust(model_set(counterfactual(case.mdp, case.paths["catastrophic"]), "published-monotonicity"))
    moved += _differ(
        "GridWorld (0.9), m = 0 … 5", robust.sweep(ks=[11], ms=range(6)).values[0], must.changes, _ONE_DIGIT
    )
    for make, limits in OUR_PLANS:
        case = make()
        cf = counterfactual(case.mdp, case.path)
        for (k, m), wanted_range in zip(limits, must.ranges[case.name], strict=True):
            certificate = cf.plan(k, m).certify()
            numbers = [k, m, certificate.value, certificate.nothing.worst, certificate.nothing.best]
            digits = 5.001e-3 if make is sepsis else 5.001e-4
            moved += _differ(f"{case.name}, range of ({k}, {m})", numbers, wanted_range, digits)
    return moved


def _check_few_changes() -> list[str]:
    must, moved = expected().few_changes, []
    for alpha, wanted in must.outcomes.items():
        values = outcomes(alpha)
        moved += _differ(f"Few changes, α = {alpha:g}", values.mean(axis=0), wanted, _TWO_DIGITS)
        if alpha in must.improvements:
            what = f"Few changes, α = {alpha:g}, percent"
            moved += _differ(what, improvements(values), must.improvements[alpha], _TWO_DIGITS)
    return moved


def _check_off_policy() -> list[str]:
    must = expected().off_policy
    experiment, redrawn = redraw(released_world())
    moved = []
    for what, ours, wanted in (
        ("drawn as published", redrawn, must.redrawn),
        ("exact", experiment.estimates, must.exact),
    ):
        for name, number in wanted.items():
            moved += _differ(f"Off-policy, {name}, {what}", [ours[name]], [number], _FOUR_DIGITS)
    return moved + _differ(
        "Off-policy, outcomes", experiment.outcomes.reshape(-1), np.array(must.outcomes).reshape(-1), _TWO_DIGITS
    )


def _check_table(case: Case) -> list[str]:
    must = expected().sepsis_table
    cf = counterfactual(case.mdp, case.paths["catastrophic"])
    table = cf.sweep(rule="published")
    moved = _differ("Sepsis table, observed return", [table.observed_value], [must.observed])
    moved += _differ("Sepsis table, first k", [first_improvement(table) or 0], [must.first_k])
    for k in (must.first_k, must.first_k + 1):
        moved += _differ(f"Sepsis table, V(s0) at k = {k}", table.values[k - 1, 1:], must.values)
    moved += _differ("Sepsis table, V(s0) at k = 11", table.values[10, 8:], must.free_values)
    moved += _differ("Sepsis table, sizes", table.layered_sizes[:10], must.layered_sizes)
    moved += _differ("Sepsis table, component", [component(cf)], [must.component])
    other: Sweep = counterfactual(case.mdp, case.paths["suboptimal"]).sweep(rule="published")
    return moved + _differ("Sepsis table, suboptimal", other.values.reshape(-1), [must.suboptimal] * other.values.size)


def _differ(what: str, ours: Iterable[float], must: Iterable[float], tolerance: float = 5.001e-4) -> list[str]:
    """A sentence if two lists of numbers differ by more than the printed digits."""
    found, wanted = np.array(list(ours), dtype=float), np.array(list(must), dtype=float)
    if found.shape != wanted.shape:
        return [f"{what}: {found.size} numbers instead of {wanted.size}"]
    off = np.flatnonzero(np.abs(found - wanted) > tolerance)
    if off.size == 0:
        return []
    i = int(off[0])
    return [f"{what}: number {i + 1} is {found[i]:.6g}, must be {wanted[i]:.6g} ({off.size} of {wanted.size} differ)"]
