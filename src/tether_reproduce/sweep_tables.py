"""Sweeps and sizes beside the published ones: comparisons, tables and figures that the paper's cases share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

import tether
from tether.influence.rules import NamedRule
from tether.views import figures
from tether_reproduce.draws import spread_of
from tether_reproduce.findings import Comparison, Figure, PublishedPath, Table, joined

RULES: tuple[NamedRule, ...] = ("definition", "published", "printed", "assured")


def sweeps(cf: tether.records.CounterfactualMDP) -> dict[str, tether.records.Sweep]:
    """A full sweep under each rule."""
    return {rule: cf.sweep(rule=rule) for rule in RULES}


def first_improvement(table: tether.records.Sweep) -> int | None:
    """The smallest k at which a plan is better than the observed path; None if there is none."""
    better = np.flatnonzero(table.values.max(axis=1) > table.observed_value + table.rounding)
    return int(table.ks[better[0]]) if better.size else None


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """The sweeps of an episode by rule, and the comparisons and tables of values and sizes (rule `published`)."""

    by_rule: dict[str, tether.records.Sweep]
    values: list[Comparison]
    sizes: list[Comparison]
    tables: tuple[Table, ...]

    @property
    def ours(self) -> tether.records.Sweep:
        """The sweep by the rule of the paper's tables."""
        return self.by_rule["published"]


def compare(
    cf: tether.records.CounterfactualMDP,
    theirs: PublishedPath,
    *,
    m: int,
    seed: int,
    repeats: int = 30,
    shared: bool = True,
    reason: str = "",
    reasons: Mapping[int, str] | None = None,
    path: str = "",
) -> Compared:
    """V(s0) for every published k and m, with its spread from 1,000 draws per row; and the count of nodes for each k.

    ``reason`` says why values differ, ``reasons`` by k why sizes do. The rules are compared at ``m``.
    """
    by_rule = sweeps(cf)
    ours = by_rule["published"]
    mean, std = spread_of(
        cf, lambda sampled: sampled.sweep(rule="published").values, repeats=repeats, seed=seed, shared=shared
    )
    values, sizes = [], []
    for k, row in sorted(theirs.values.items()):
        for changes, value in enumerate(row, start=1):
            exact, sampled, error = (float(each[k - 1, min(changes, cf.T)]) for each in (ours.values, mean, std))
            values.append(Comparison("V(s0)", exact, value, sampled, error, reason, path, k=k, m=changes))
    for k, size in sorted(theirs.sizes.items()):
        why = (reasons or {}).get(k, "")
        sizes.append(Comparison("size", float(ours.layered_sizes[k - 1]), float(size), reason=why, path=path, k=k))
    which = f"{path and f'{path} path, '}rule published"
    tables = (
        _value_table(f"V(s0), {which}", ours, theirs),
        _size_table(f"Nodes of the pruned graph, {which}", ours, theirs),
        _rules_table(by_rule, m),
    )
    return Compared(by_rule, values, sizes, tables)


def _value_table(title: str, table: tether.records.Sweep, theirs: PublishedPath) -> Table:
    """V(s0), one row for all k in succession with the same values; our values above the published ones."""
    rows = []
    ms = [int(m) for m in table.ms if m > 0]
    numbers = groupby((int(k) for k in table.ks), lambda k: (table.values[k - 1].tolist(), theirs.values.get(k)))
    for (ours, printed), ks in numbers:
        rows.append((f"k = {joined(list(ks))}", *(f"{ours[m]:,.3f}" for m in ms)))
        if printed is not None:
            rows.append(("  published", *(f"{printed[m - 1]:,.3f}" if m <= len(printed) else "" for m in ms)))
    return Table(title, ("", *(f"m = {m}" for m in ms)), tuple(rows))


def _size_table(title: str, table: tether.records.Sweep, theirs: PublishedPath) -> Table:
    """Nodes of the pruned graph for every k: counted as in the paper, as published, and from s0 alone."""
    rows = [
        ("as the paper counts", *(f"{size:,}" for size in table.layered_sizes)),
        ("from s0 alone", *(f"{size:,}" for size in table.sizes)),
    ]
    if theirs.sizes:
        shown = (f"{theirs.sizes[int(k)]:,}" if int(k) in theirs.sizes else "" for k in table.ks)
        rows.insert(1, ("  published", *shown))
    return Table(title, ("", *(f"k = {k}" for k in table.ks)), tuple(rows))


def _rules_table(tables: Mapping[str, tether.records.Sweep], m: int) -> Table:
    """The four rules side by side: the first k that improves, the values, and the size of the graph."""
    T = next(iter(tables.values())).cf.T
    rows = []
    for rule, table in tables.items():
        first = first_improvement(table)
        i = (first or T + 1) - 1
        values = (f"{table.values[i, changes]:,.2f}" for changes in (m, T))
        sizes = (f"{counts[i]:,}" for counts in (table.sizes, table.layered_sizes))
        rows.append((rule, str(first or "never"), *values, *sizes))
    columns = ("rule", "first k that improves", f"value there, m = {m}", f"m = {T}", "nodes from s0")
    return Table("The four rules", (*columns, "nodes as the paper counts"), tuple(rows))


def values_figure(name: str, what: str, table: tether.records.Sweep, theirs: PublishedPath) -> Figure:
    """V(s0) by m, with the published values as hollow marks over ours."""
    caption = f"{what}: value of the initial state against the number of actions that may change."
    printed = {k: np.array(row) for k, row in theirs.values.items()}
    return Figure(name, caption, partial(figures.plot_values, table, printed))


def sizes_figure(name: str, caption: str, table: tether.records.Sweep, theirs: PublishedPath | None = None) -> Figure:
    """Nodes of the pruned graph by k: counted as in the paper, as published (if given), and from s0 alone."""
    sizes: dict[str, Any] = {"as the paper counts": (table.ks, table.layered_sizes)}
    if theirs is not None:
        sizes["published"] = tuple(np.array(sorted(theirs.sizes.items())).T)
    sizes["from s0 alone"] = (table.ks, table.sizes)
    return Figure(name, caption, partial(figures.plot_sizes, sizes))


def share_explained(comparisons: list[Comparison]) -> str:
    """A sentence: how many of the published numbers are equal to ours or within the error of 1,000 draws."""
    published = [one for one in comparisons if one.published is not None]
    zs = [abs(one.z) for one in published if one.z is not None and not one.is_equal]
    fine = sum(one.is_equal for one in published) + sum(z <= 3 for z in zs)
    largest = f"; the largest deviation is {max(zs):.1f} standard errors" if zs else ""
    return f"{fine} of {len(published)} published values are equal or within the error of 1,000 draws{largest}"
