"""Sweeps and sizes beside the published ones: what the case studies share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tether.conditioning.conditioned import CounterfactualMDP
from tether.influence.rules import Rule
from tether.plan.sweep import Sweep
from tether.reproduce.published import PublishedPath
from tether.reproduce.records import Comparison, Figure, Table
from tether.reproduce.sampling import spread_of

__all__ = [
    "RULES",
    "compact",
    "compare_sizes",
    "compare_values",
    "draw_later",
    "first_improvement",
    "joined",
    "rules_table",
    "share_explained",
    "size_table",
    "sizes_figure",
    "sweeps",
    "value_table",
    "values_figure",
]

RULES: tuple[Rule, ...] = ("definition", "published", "printed", "assured")


def sweeps(cf: CounterfactualMDP) -> dict[str, Sweep]:
    """A full sweep under each rule."""
    return {rule: cf.sweep(rule=rule) for rule in RULES}


def first_improvement(table: Sweep) -> int | None:
    """The smallest k at which a plan is better than the observed path; None if there is none."""
    better = table.values.max(axis=1) > table.observed_value + table.rounding
    hits = np.flatnonzero(better)
    return int(table.ks[hits[0]]) if hits.size else None


def compare_values(
    cf: CounterfactualMDP,
    table: Sweep,
    theirs: PublishedPath,
    *,
    seed: int,
    repeats: int = 30,
    shared: bool = True,
    reason: str = "",
    path: str = "",
) -> list[Comparison]:
    """V(s0) for every published k and m, with its spread from 1,000 draws per row."""
    mean, std = spread_of(
        cf, lambda sampled: sampled.sweep(rule="published").values, repeats=repeats, seed=seed, shared=shared
    )
    comparisons = []
    for k, row in sorted(theirs.values.items()):
        for m, value in enumerate(row, start=1):
            at = (k - 1, min(m, cf.T))
            comparisons.append(
                Comparison(
                    "V(s0)", float(table.values[at]), value, float(mean[at]), float(std[at]), reason, path, k=k, m=m
                )
            )
    return comparisons


def compare_sizes(table: Sweep, theirs: PublishedPath, reasons: dict[int, str], path: str = "") -> list[Comparison]:
    """The paper's count of nodes for each k."""
    return [
        Comparison("size", float(table.layered_sizes[k - 1]), float(size), reason=reasons.get(k, ""), path=path, k=k)
        for k, size in sorted(theirs.sizes.items())
    ]


def value_table(title: str, table: Sweep, theirs: PublishedPath | None) -> Table:
    """V(s0), one row per k at which something changes; our values above the published ones."""
    rows = []
    ms = [int(m) for m in table.ms if m > 0]
    groups: list[list[int]] = []
    for k in table.ks:
        same = groups and np.array_equal(table.values[groups[-1][0] - 1], table.values[k - 1])
        if same and (theirs is None or theirs.values.get(groups[-1][0]) == theirs.values.get(int(k))):
            groups[-1].append(int(k))
        else:
            groups.append([int(k)])
    for group in groups:
        name = f"k = {joined(group)}"
        rows.append((name, *(f"{table.values[group[0] - 1, m]:,.3f}" for m in ms)))
        if theirs is not None and group[0] in theirs.values:
            printed = theirs.values[group[0]]
            rows.append(("  published", *(f"{printed[m - 1]:,.3f}" if m <= len(printed) else "" for m in ms)))
    return Table(title, ("", *(f"m = {m}" for m in ms)), tuple(rows))


def size_table(title: str, table: Sweep, theirs: PublishedPath) -> Table:
    """Nodes of the pruned graph for every k: counted as in the paper, as published, and from s0 alone."""
    rows = [
        ("as the paper counts", *(f"{size:,}" for size in table.layered_sizes)),
        ("from s0 alone", *(f"{size:,}" for size in table.sizes)),
    ]
    if theirs.sizes:
        shown = (f"{theirs.sizes[int(k)]:,}" if int(k) in theirs.sizes else "" for k in table.ks)
        rows.insert(1, ("  published", *shown))
    return Table(title, ("", *(f"k = {k}" for k in table.ks)), tuple(rows))


def rules_table(tables: dict[str, Sweep], m: int) -> Table:
    """The four rules side by side: the first k that improves, the values, and the size of the graph."""
    T = next(iter(tables.values())).cf.T
    rows = []
    for rule, table in tables.items():
        first = first_improvement(table)
        k = first or T + 1
        rows.append(
            (
                rule,
                "never" if first is None else str(first),
                f"{table.values[k - 1, m]:,.2f}",
                f"{table.values[k - 1, T]:,.2f}",
                f"{table.sizes[k - 1]:,}",
                f"{table.layered_sizes[k - 1]:,}",
            )
        )
    return Table(
        "The four rules",
        (
            "rule",
            "first k that improves",
            f"value there, m = {m}",
            f"m = {T}",
            "nodes from s0",
            "nodes as the paper counts",
        ),
        tuple(rows),
    )


def joined(numbers: list[int]) -> str:
    """``7 … 12``, or the numbers themselves."""
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]} … {numbers[-1]}"
    return ", ".join(map(str, numbers))


def draw_later(draw: Callable[..., Any], *arguments: Any, **options: Any) -> Callable[[], Any]:
    """A function that draws later: it returns the figure of the axes that a plot function returns."""

    def drawn() -> Any:
        return draw(*arguments, **options).figure

    return drawn


def values_figure(name: str, what: str, table: Sweep, theirs: PublishedPath) -> Figure:
    """V(s0) by m, with the published values as hollow marks over ours."""
    from tether.views.figures import plot_values

    caption = f"{what}: value of the initial state against the number of actions that may change."
    return Figure(name, caption, draw_later(plot_values, table, {k: np.array(row) for k, row in theirs.values.items()}))


def sizes_figure(name: str, caption: str, table: Sweep, theirs: PublishedPath | None = None) -> Figure:
    """Nodes of the pruned graph by k: counted as in the paper, as published (if given), and from s0 alone."""
    from tether.views.figures import plot_sizes

    sizes: dict[str, Any] = {"as the paper counts": (table.ks, table.layered_sizes)}
    if theirs is not None:
        sizes["published"] = tuple(np.array(sorted(theirs.sizes.items())).T)
    sizes["from s0 alone"] = (table.ks, table.sizes)
    return Figure(name, caption, draw_later(plot_sizes, sizes))


def share_explained(comparisons: list[Comparison]) -> str:
    """A sentence: how many of the published numbers are equal to ours or within the error of 1,000 draws."""
    published = [comparison for comparison in comparisons if comparison.published is not None]
    fine = [
        comparison
        for comparison in published
        if comparison.is_equal or (comparison.z is not None and abs(comparison.z) <= 3)
    ]
    zs = np.array(
        [abs(comparison.z) for comparison in published if comparison.z is not None and not comparison.is_equal]
    )
    largest = f"; the largest deviation is {zs.max():.1f} standard errors" if zs.size else ""
    return f"{len(fine)} of {len(published)} published values are equal or within the error of 1,000 draws{largest}"


def compact(comparisons: Sequence[Comparison], notes: Mapping[str, int] | None = None) -> Table:
    """Ours, published, difference and verdict; one row for all k and m with the same numbers.

    ``notes`` has the numbers of the reasons, which are listed below the table.
    """
    numbered = notes or {}
    groups: dict[tuple[Any, ...], list[Comparison]] = {}
    for comparison in comparisons:
        if comparison.published is not None:
            numbers_and_verdict = (comparison.ours, comparison.published, comparison.verdict, comparison.reason)
            groups.setdefault((comparison.quantity, comparison.about, *numbers_and_verdict), []).append(comparison)
    rows = []
    for (quantity, about, ours, theirs, verdict, reason), members in groups.items():
        where = [about] if about else []
        for name in ("k", "m", "t"):
            numbers = sorted({getattr(member, name) for member in members if getattr(member, name) is not None})
            if numbers:
                where.append(f"{name} = {joined(numbers)}")
        digits = 0 if quantity == "size" else 3
        rows.append(
            (
                quantity,
                ", ".join(where),
                f"{ours:,.{digits}f}",
                f"{theirs:,.{digits}f}",
                "" if verdict == "equal" else f"{members[0].difference:+,.{digits}f}",
                verdict + (f" [{numbered[reason]}]" if verdict != "equal" and reason in numbered else ""),
            )
        )
    return Table("Ours and the published numbers", ("", "at", "exact", "published", "difference", ""), tuple(rows))
