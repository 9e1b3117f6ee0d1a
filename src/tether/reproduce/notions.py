"""Notions of influence (the paper's appendix): structural, probabilistic, and the exact effect."""

from __future__ import annotations

import numpy as np

from tether.cases import Case, epidemic, grid_world, sepsis
from tether.conditioning.conditioned import counterfactual
from tether.influence.one_step import Influence, Support, effective, influenced_pairs, tv
from tether.model.mdp import MDP
from tether.observation.path import Path
from tether.reproduce.compare import first_improvement
from tether.reproduce.records import Section, Table

__all__ = ["notions_section", "twelve_states"]


def twelve_states(far: float = 0.01) -> Case:
    """The twelve-state example; ``far`` is the probability of the transition that leads far away, s3 to s7.

    The paper gives the graph and the row of s3 (0.9, 0.09, 0.01); the other rows are uniform here, and the choice at
    s0 is between two actions.
    """
    rows = [
        ("s0", "a0", {"s2": 1.0}),
        ("s0", "a1", {"s3": 1.0}),
        ("s1", "a0", {"s3": 0.5, "s4": 0.5}),
        ("s2", "a0", {"s5": 1.0}),
        ("s3", "a0", {"s5": 0.9 * (1 - far) / 0.99, "s6": 0.09 * (1 - far) / 0.99, "s7": far}),
        ("s4", "a0", {"s7": 1.0}),
        ("s5", "a0", {"s8": 0.5, "s9": 0.5}),
        ("s6", "a0", {"s9": 0.5, "s10": 0.5}),
        ("s7", "a0", {"s11": 1.0}),
        *((f"s{i}", "a0", {f"s{i}": 1.0}) for i in range(8, 12)),
    ]
    columns = [(s, a, after, chance) for s, a, row in rows for after, chance in row.items()]
    mdp = MDP.from_table(*zip(*columns, strict=True), states=[f"s{i}" for i in range(12)])
    return Case("twelve states", mdp, {"observed": Path(["s0", "s2", "s5", "s9"], ["a0"] * 3)})


def notions_section() -> Section:
    """The twelve-state example, then the case studies under the three tests."""
    text = (
        "On the twelve states the question is whether (s0, a1) is allowed. It leads to s3 and from there, rarely, to s7. "
        "The paper's figure leaves it out for k = 2, even if s7 is rare; so do the rules published and printed. The "
        "paper's definition does not, because some path has an influenced pair. A probabilistic test depends on how close the "
        "row of s3 is to the observed row, so its answer changes as s7 becomes more likely.",
        "On the case studies overlap of supports is necessary for influence, but not sufficient. The pairs counted under "
        "effective(0) are those whose probabilities the observation changes, and the observed pairs themselves.",
    )
    return Section("notions", "Notions of influence", text, (), (_twelve_table(), _cases_table()), ())


def _twelve_table() -> Table:
    rows = []
    for far in (0.01, 0.1, 0.4):
        case = twelve_states(far)
        cf = counterfactual(case.mdp, case.path)
        needed = [
            cf.why(0, "s0", "a1", k=2, rule=rule).needed for rule in ("definition", "published", "printed", "assured")
        ]
        close = [cf.why(0, "s0", "a1", k=2, influence=tv(eps)).needed for eps in (0.2, 0.5)]
        felt = cf.why(0, "s0", "a1", k=2, influence=effective(0)).needed
        rows.append((f"{far:g}", *map(str, needed), *map(str, close), str(felt)))
    columns = ("P(s7 | s3)", "definition", "published", "printed", "assured", "tv(0.2)", "tv(0.5)", "effective(0)")
    return Table("Twelve states: the smallest k that allows (s0, a1); k = 4 is no constraint", columns, tuple(rows))


def _cases_table() -> Table:
    tests: tuple[Influence, ...] = (Support(), tv(0.5), tv(0.1), effective(0), effective(0.1))
    rows = []
    for case in (grid_world(), epidemic(), sepsis()):
        for name, path in case.paths.items():
            cf = counterfactual(case.mdp, path)
            plain = cf.sweep().values
            for test in tests:
                table = cf.sweep(influence=test)
                pairs = sum(influenced_pairs(cf.graph, t, test).size for t in range(cf.T))
                changed = int(np.count_nonzero(np.abs(table.values - plain) > 1e-9))
                first = first_improvement(table)
                rows.append(
                    (
                        case.name if len(case.paths) == 1 else f"{case.name}, {name}",
                        str(test),
                        f"{pairs:,}",
                        "never" if first is None else str(first),
                        f"{changed} of {plain.size}",
                    )
                )
    columns = ("case", "test", "influenced pairs s0 reaches", "first k that improves", "values that change")
    return Table("The case studies, rule definition", columns, tuple(rows))
