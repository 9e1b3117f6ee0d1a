"""Notions of influence (the paper's appendix): structural, probabilistic, and the exact effect."""

from __future__ import annotations

from functools import partial

import numpy as np

import tether
from tether.influence.one_step import Support, influenced_pairs
from tether_reproduce.findings import Figure, Section, Table
from tether_reproduce.sweep_tables import RULES, first_improvement


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
    return Section(
        "notions", "Notions of influence", text, tables=(_twelve_table(), _cases_table()), figures=_figures()
    )


def _figures() -> tuple[Figure, ...]:
    """The twelve states by class for k = 2, under the rule of the paper's figure and under its definition."""
    case = tether.cases.twelve_states()
    cf = tether.counterfactual(case.mdp, case.path)
    return tuple(
        Figure(
            f"twelve-states-{rule}",
            f"Twelve states, k = 2, rule {rule}, over the nominal transitions.",
            partial(cf.plot, 2, rule=rule, rollout="nominal"),
        )
        for rule in ("published", "definition")
    )


def _twelve_table() -> Table:
    influences = (tether.tv(0.2), tether.tv(0.5), tether.effective(0))
    rows = []
    for far in (0.01, 0.1, 0.4):
        case = tether.cases.twelve_states(far)
        cf = tether.counterfactual(case.mdp, case.path)
        by_rule = [cf.why(0, "s0", "a1", k=2, rule=rule).needed for rule in RULES]
        by_test = [cf.why(0, "s0", "a1", k=2, influence=test).needed for test in influences]
        rows.append((f"{far:g}", *map(str, by_rule), *map(str, by_test)))
    columns = ("P(s7 | s3)", *RULES, "tv(0.2)", "tv(0.5)", "effective(0)")
    return Table("Twelve states: the smallest k that allows (s0, a1); k = 4 is no constraint", columns, tuple(rows))


def _cases_table() -> Table:
    tests = (Support(), tether.tv(0.5), tether.tv(0.1), tether.effective(0), tether.effective(0.1))
    rows = []
    for case in (tether.cases.grid_world(), tether.cases.epidemic(), tether.cases.sepsis()):
        for name, path in case.paths.items():
            cf = tether.counterfactual(case.mdp, path)
            plain = cf.sweep().values
            for test in tests:
                table = cf.sweep(influence=test)
                pairs = sum(influenced_pairs(cf.graph, t, test).size for t in range(cf.T))
                changed = int(np.count_nonzero(np.abs(table.values - plain) > 1e-9))
                title = case.name if len(case.paths) == 1 else f"{case.name}, {name}"
                first = str(first_improvement(table) or "never")
                rows.append((title, str(test), f"{pairs:,}", first, f"{changed} of {plain.size}"))
    columns = ("case", "test", "influenced pairs s0 reaches", "first k that improves", "values that change")
    return Table("The case studies, rule definition", columns, tuple(rows))
