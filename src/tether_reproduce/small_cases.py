"""Toy, Grid World and Epidemic, beside the paper's figures and tables."""

from __future__ import annotations

from functools import partial

import numpy as np

import tether
from tether.views import figures
from tether_reproduce.draws import DRAWS, Floats, spread_of
from tether_reproduce.findings import Comparison, Figure, Section, Table, published
from tether_reproduce.sweep_tables import compare, first_improvement, share_explained, sizes_figure, values_figure

_ROLLOUTS = {"nominal": "the nominal rollout, as in the paper", "counterfactual": "the exact counterfactual MDP"}


def toy_section() -> Section:
    """The figures on k = 1 and k = 2, over the nominal rollout and over the exact counterfactual MDP."""
    case = tether.cases.toy()
    cf = tether.counterfactual(case.mdp, case.path)
    drawn = [
        Figure(
            f"toy-k{k}-{rollout}",
            f"Toy, k = {k}, over {over}.",
            partial(figures.plot_classes, cf, k, rollout=rollout),
        )
        for rollout, over in _ROLLOUTS.items()
        for k in (1, 2)
    ]
    text = (
        "Over the nominal rollout all classes are those of the paper's figures: at k = 1 s3 is influenced and "
        "reachable, s4 and s6 are influenced but cannot be reached; at k = 2 s6 becomes reachable and s1 influenced.",
        "In the exact counterfactual MDP s3 cannot be reached for any k: (s0, a0) was observed to lead to s2, so it "
        "leads there with certainty if it is taken again. The paper draws the figure over the nominal transitions.",
    )
    return Section("toy", "Toy model", text, (), (classes_table(cf),), tuple(drawn))


def classes_table(cf: tether.records.CounterfactualMDP) -> Table:
    """The class of each state that the paper's figures draw at t = 1 and t = 2, over both rollouts."""
    rows = []
    for rollout in _ROLLOUTS:
        for k in (1, 2):
            for t, states in ((1, ("s1", "s2", "s3")), (2, ("s4", "s5", "s6"))):
                classes = cf.classify(t=t, k=k, rollout=rollout)
                rows.append((rollout, str(k), str(t), *(f"{state}: {classes[state]}" for state in states)))
    return Table("Classes", ("rollout", "k", "t", "", "", ""), tuple(rows))


def grid_section() -> Section:
    """V(s0) for every k and m; sizes for every k."""
    case = tether.cases.grid_world()
    theirs = published().paths["grid_world"]
    compared = compare(tether.counterfactual(case.mdp, case.path), theirs, m=4, seed=11)
    first = {rule: first_improvement(table) for rule, table in compared.by_rule.items()}
    text = (
        f"Values (rule published, which the tables were made with): {share_explained(compared.values)}. "
        f"{sum(size.is_equal for size in compared.sizes)} of {len(compared.sizes)} sizes agree.",
        f"The paper says that nothing improves before k = 7. This is true for the released code. The paper's own definition "
        f"improves from k = {first['definition']} on; the rule assured, whose promise holds on every "
        f"path, from k = {first['assured']} on.",
    )
    return Section(
        "grid_world",
        "Grid World",
        text,
        (*compared.values, *compared.sizes),
        compared.tables,
        (
            values_figure("grid-world-values", "Grid World", compared.ours, theirs),
            sizes_figure("grid-world-sizes", "Grid World: nodes of the pruned graph.", compared.ours),
        ),
    )


def epidemic_section() -> Section:
    """V(s0), sizes, and the mean number of infected over time."""
    case = tether.cases.epidemic()
    theirs = published().paths["epidemic"]
    cf = tether.counterfactual(case.mdp, case.path)
    lost = "rows of the released table that were lost to sampling; no episode reaches them"
    compared = compare(cf, theirs, m=4, seed=12, reasons={8: lost})
    ours = compared.ours
    courses, infected = _infected(cf)
    agree = all(np.allclose(table.values, ours.values) for table in compared.by_rule.values())
    observed = np.array([state.I for state in case.path.states], dtype=float)
    simulated = {name: (np.array(one.mean), np.array(one.std)) for name, one in published().mean_infected.items()}
    text = (
        f"Values: {share_explained(compared.values)}. Sizes agree for k = 1 … 7. Without constraint ours is "
        f"{ours.layered_sizes[-1]:,}, the published one is {theirs.sizes[8]:,}: {lost}.",
        "The legend of the paper's figure is off by one: its K = 2 … 5 is k = 3 … 6 in the text, in the figure on "
        "infections and in the code. The values here are listed under the k of the text.",
        f"{'All four rules give the same values here' if agree else 'The four rules differ here'}: after the first changed "
        "action V is different, and the observed supports are never met again.",
        f"Mean infected over time, exact: {share_explained(infected)} (1,000 simulated trajectories of a policy that "
        "was itself computed from sampled rows).",
    )
    return Section(
        "epidemic",
        "Epidemic",
        text,
        (*compared.values, *compared.sizes, *infected),
        compared.tables,
        (
            values_figure("epidemic-values", "Epidemic", ours, theirs),
            Figure(
                "epidemic-infected",
                "Epidemic: infected over time, exact mean and spread; the published simulations as hollow marks.",
                partial(figures.plot_course, courses, ylabel="infected people", observed=observed, published=simulated),
            ),
            sizes_figure(
                "epidemic-sizes", "Epidemic: nodes of the pruned graph, as the paper counts and from s0 alone.", ours
            ),
        ),
    )


def _infected(cf: tether.records.CounterfactualMDP) -> tuple[dict[str, tether.records.Course], list[Comparison]]:
    """Mean infected under each of the paper's four plans, and the published simulations beside them."""
    courses: dict[str, tether.records.Course] = {}
    comparisons = []
    for k, m in ((3, 1), (6, 4), (7, 4), (8, 1)):

        def mean(sampled: tether.records.CounterfactualMDP, k: int = k, m: int = m) -> Floats:
            return sampled.plan(k, m, rule="published").evaluate().feature("I").mean

        name = f"({k},{m})"
        course = courses[name] = cf.plan(k, m, rule="published").evaluate().feature("I")
        expected, error = spread_of(cf, mean, repeats=12, seed=10 * k + m)
        error = np.hypot(error, course.std / np.sqrt(DRAWS))
        for t, value in enumerate(published().mean_infected[name].mean):
            numbers = float(course.mean[t]), value, float(expected[t]), float(error[t])
            comparisons.append(Comparison("mean infected", *numbers, of=f"({k}, {m})", t=t))
    return courses, comparisons
