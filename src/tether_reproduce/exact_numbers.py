"""The exact numbers, computed again: which of them have changed? Each was checked by independent brute force."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

import tether
from tether.cases import epidemic, grid_world, sepsis
from tether.conditioning.model_sets import Assumption
from tether_reproduce.causal_sets import OUR_PLANS, limits_free, robust_grid
from tether_reproduce.diabetes_section import by_states
from tether_reproduce.few_changes import CHECKED, improvements, outcomes
from tether_reproduce.findings import Expected, expected
from tether_reproduce.lake_and_aircraft import aircraft, frozen_lake
from tether_reproduce.off_policy import redraw, released_world
from tether_reproduce.sepsis_cases import component, load_table
from tether_reproduce.small_cases import toy_section
from tether_reproduce.sweep_tables import first_improvement, sweeps
from tether_reproduce.types_of_patients import ADVISERS, advise

Numbers = Iterator[tuple[str, Iterable[Any]]]
"""What some numbers (or words) are, as in ``expected.json``; and the numbers."""

_GRIDS: tuple[tuple[float, str, tuple[Assumption, ...]], ...] = (
    (0.9, "catastrophic", ("published-monotonicity", "nothing")),
    (0.9, "almost catastrophic", ("published-monotonicity", "nothing")),
    (0.4, "almost catastrophic", ("published-monotonicity",)),
)
"""Chance of the chosen move, path, sets of causal models."""


def check(sepsis_table: str | Path | None = None, *, every_section: bool = False) -> list[str]:
    """Which of the exact numbers have changed: one sentence each, none if all are the same.

    With ``every_section`` also the numbers of few_changes, off_policy and hidden_diabetes, which take some seconds.

    Examples
    --------
    >>> from tether_reproduce.exact_numbers import check
    >>> check()
    []
    """
    numbers = chain(toy_classes(), grid_numbers(), epidemic_numbers(), sepsis_numbers(), robust_numbers())
    if every_section:
        numbers = chain(numbers, few_changes_numbers(), off_policy_numbers(), hidden_numbers())
    if sepsis_table is not None:
        numbers = chain(numbers, table_numbers(load_table(sepsis_table)))
    return moved(numbers)


def moved(numbers: Numbers) -> list[str]:
    """A sentence for each of some lists of numbers that differ from the expected ones."""
    return [sentence for what, ours in numbers if (sentence := _difference(what, list(ours), expected()[what]))]


def _difference(what: str, ours: list[Any], must: Expected) -> str:
    """A sentence if two lists of numbers differ by more than the printed digits, or two lists of words at all."""
    if len(ours) != len(must.values):
        return f"{what}: {len(ours)} numbers instead of {len(must.values)}"
    tolerance = 0.5001 * 10.0**-must.digits
    off = [
        i
        for i, (one, other) in enumerate(zip(ours, must.values, strict=True))
        if (one != other if isinstance(other, str) else not abs(one - other) <= tolerance)
    ]
    if not off:
        return ""
    one, other = (f"{x}" if isinstance(x, str) else f"{x:.6g}" for x in (ours[off[0]], must.values[off[0]]))
    return f"{what}: number {off[0] + 1} is {one}, must be {other} ({len(off)} of {len(ours)} differ)"


def toy_classes() -> Numbers:
    """The rows of the table of classes, as it is printed."""
    yield "Toy, classes", (" | ".join(row) for row in toy_section().tables[0].rows)


def grid_numbers() -> Numbers:
    """Values, first k and sizes of Grid World."""
    case = grid_world()
    by_rule = sweeps(tether.counterfactual(case.mdp, case.path))
    yield "Grid World, observed return", [by_rule["published"].observed_value]
    yield "Grid World, V(s0) at k = 12", by_rule["published"].values[-1, 1:]
    for rule, table in by_rule.items():
        k = first_improvement(table) or case.path.T + 1
        below = np.append(table.values[: k - 1], table.observed_value)
        yield f"Grid World, first k of {rule}", [k]
        yield f"Grid World, {rule}, V(s0) at its first k", table.values[k - 1, 1 : 7 if rule == "assured" else None]
        yield f"Grid World, {rule}, lowest and highest V(s0) below it", [below.min(), below.max()]
    yield "Grid World, assured, V(s0) at k = 10", by_rule["assured"].values[9, 1:]
    yield "Grid World, sizes", by_rule["published"].layered_sizes


def epidemic_numbers() -> Numbers:
    """Values and sizes of Epidemic."""
    case = epidemic()
    by_rule = sweeps(tether.counterfactual(case.mdp, case.path))
    ours = by_rule["published"]
    yield "Epidemic, observed return", [ours.observed_value]
    for k, row in zip(ours.ks, ours.values, strict=True):
        yield f"Epidemic, V(s0) at k = {k}", row[1:]
    yield (
        "Epidemic, largest difference between two rules",
        [np.ptp([table.values for table in by_rule.values()], 0).max()],
    )
    yield "Epidemic, sizes", ours.layered_sizes
    yield "Epidemic, sizes from s0", by_rule["definition"].sizes


def sepsis_numbers() -> Numbers:
    """Values and first k of the catastrophic sepsis path."""
    case = sepsis()
    cf = tether.counterfactual(case.mdp, case.paths["catastrophic"])
    yield "Sepsis, observed return", [cf.sweep().observed_value]
    for table in (cf.sweep(), cf.sweep(rule="published")):
        k = first_improvement(table) or cf.T + 1
        yield f"Sepsis, first k of {table.rule}", [k]
        yield f"Sepsis, {table.rule}, V(s0) at its first k", table.values[k - 1, 1:8]


def robust_numbers() -> Numbers:
    """Values of the follow-up's models under sets of causal models, and the ranges of our plans."""
    both: tuple[Assumption, ...] = ("published-monotonicity", "nothing")
    asked = [(robust_grid(chance), name, sets) for chance, name, sets in _GRIDS]
    asked += [(case, "suboptimal", both) for case in (frozen_lake(), aircraft())]
    for case, name, sets in asked:
        cf, what = tether.counterfactual(case.mdp, case.paths[name]), f"{case.name}, {name} path"
        free = cf.plan(cf.T + 1, cf.T)
        yield f"{what}, observed and Gumbel-max", [free.observed_value, free.value]
        for assume in sets:
            yield f"{what}, {assume}", limits_free(cf, assume)
    case = robust_grid(0.9)
    sure = tether.robust(case.mdp, case.paths["catastrophic"], assume="published-monotonicity")
    yield f"{case.name}, catastrophic path, m = 0 … 5", sure.sweep(ks=[11], ms=range(6)).values[0]
    for make, limits in OUR_PLANS:
        case = make()
        cf = tether.counterfactual(case.mdp, case.path)
        for k, m in limits:
            certificate = cf.plan(k, m).certify()
            spread = certificate.nothing
            yield f"{case.name}, range of ({k}, {m})", [certificate.value, spread.worst, spread.best]


def few_changes_numbers() -> Numbers:
    """Mean outcomes, and mean relative improvements in percent, by α."""
    for alpha in CHECKED:
        values, what = outcomes(alpha), f"Few changes, α = {alpha:g}"
        yield what, values.mean(axis=0)
        if f"{what}, percent" in expected():
            yield f"{what}, percent", improvements(values)


def hidden_numbers() -> Numbers:
    """For 40 patients: in how many the advised change is that of one who knows; gains promised, true, and of one who knows."""
    advised = advise(*by_states(), 40, 0, 1)
    for name in ADVISERS:
        yield f"Hidden diabetes, one change, {name}, right", [sum(one.is_right(name) for one in advised)]
        promised, true = ([getattr(one, what)[name] for one in advised] for what in ("promised", "true"))
        known = [one.known for one in advised]
        yield f"Hidden diabetes, one change, {name}, gains", [float(np.mean(one)) for one in (promised, true, known)]


def off_policy_numbers() -> Numbers:
    """Estimates of a policy's value: drawn again as published, and exact."""
    experiment, redrawn = redraw(released_world())
    for how, estimates in (("drawn as published", redrawn), ("exact", experiment.estimates)):
        for name, value in estimates.items():
            yield f"Off-policy, {name}, {how}", [value]
    yield "Off-policy, outcomes", experiment.outcomes.reshape(-1)


def table_numbers(case: tether.cases.Case) -> Numbers:
    """Values and sizes of sepsis on the sampled table."""
    cf = tether.counterfactual(case.mdp, case.paths["catastrophic"])
    table = cf.sweep(rule="published")
    yield "Sepsis table, observed return", [table.observed_value]
    yield "Sepsis table, first k", [first_improvement(table) or 0]
    for k in (9, 10):
        yield f"Sepsis table, V(s0) at k = {k}", table.values[k - 1, 1:]
    yield "Sepsis table, V(s0) at k = 11, m ≥ 8", table.values[10, 8:]
    yield "Sepsis table, sizes", table.layered_sizes[:10]
    yield "Sepsis table, component", [component(cf)]
    other = tether.counterfactual(case.mdp, case.paths["suboptimal"]).sweep(rule="published").values
    yield "Sepsis table, suboptimal path, lowest and highest V(s0)", [other.min(), other.max()]
