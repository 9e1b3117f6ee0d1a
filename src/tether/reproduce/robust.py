"""Sets of causal models: the follow-up's GridWorlds and sepsis paths, and the values of our plans under every model."""

from __future__ import annotations

import numpy as np

from tether.cases import epidemic, grid_world, sepsis
from tether.cases.case import Case
from tether.conditioning.conditioned import CounterfactualMDP, counterfactual
from tether.conditioning.layers import everywhere
from tether.conditioning.sets import Assumption, model_set
from tether.evaluation.guarantees import guarantees_by_k
from tether.plan.robust import Robust
from tether.reproduce.compare import draw_later
from tether.reproduce.follow_up import random_paths, robust_grid, robust_sepsis
from tether.reproduce.published import published
from tether.reproduce.records import Comparison, Figure, Section, Table

__all__ = ["OUR_PLANS", "PATHS", "left_by_gumbel_max", "limits_free", "random_average", "robust_section"]

SETS: tuple[Assumption, ...] = ("published-monotonicity", "published-stability", "stability", "nothing")
PATHS = 200
"""The number of random paths in the average."""

OUR_PLANS = (
    (epidemic, ((3, 1), (6, 4), (7, 4), (8, 1))),
    (grid_world, ((6, 1), (6, 4), (12, 11))),
    (sepsis, ((9, 1), (9, 2), (9, 7), (11, 10))),
)
"""Plans of the paper's models that are certified: (k, m)."""

_TEXT = (
    "Lally, Kazemi and Paoletti (Robust Counterfactual Inference in Markov Decision Processes, AAMAS 2026) give each "
    "counterfactual probability an interval, and plan for the worst model within it. They need an interval solver; here each "
    "worst row is a closed form. Their set (published-monotonicity) is stability at the observed outcome together with "
    "monotonicity.",
    "What differs, and why. First, their set does not always contain the Gumbel-max model that they compare with. The "
    "table says how many rows are outside it, among those that share an outcome with the observed row. So a policy that is "
    "best in their set need not be safe under Gumbel-max. Second, stability as Oberst and Sontag define it is about every "
    "outcome of the observed pair, not only the one that happened. That set (stability) is contained in their intervals "
    "without monotonicity, so its guarantees are better. Third, without any assumption (nothing) the worst case is a "
    "lower-tail mean, and every row is uncertain, also rows that share no outcome with the observed one.",
    "The worst case over their set is also computed for the policy that Gumbel-max recommends ('Gumbel-max plan, at worst'). "
    "'Best possible' is the largest value that any policy has under some model of the set: their optimistic value.",
)


def robust_section(paths: int = PATHS) -> Section:
    """The follow-up's experiments beside ours, and the plans of the paper's models under every causal model."""
    from tether.views.figures import plot_certificate, plot_guarantees

    grids = [robust_grid(0.9), robust_grid(0.4)]
    patient, own = robust_sepsis(), sepsis()
    ours, error = random_average(grids[0], paths)
    theirs = published().follow_up
    comparison = Comparison(
        "mean guaranteed value",
        ours,
        theirs.mean_worst_case,
        ours,
        float(np.hypot(error, error * np.sqrt(paths / theirs.paths))),
        of="GridWorld (0.9), random paths",
        sampled="random paths",
    )
    text = (
        *_TEXT,
        f"The average over {paths} random paths of GridWorld (0.9), drawn as in their code, of the guaranteed value is "
        f"{ours:.1f} ± {error:.1f}; published {theirs.mean_worst_case:g}. The error of theirs is that of "
        f"{theirs.paths} paths.",
    )
    harm = counterfactual(grids[0].mdp, grids[0].paths["almost catastrophic"])
    tied = counterfactual(own.mdp, own.paths["catastrophic"]).plan(9, 10)
    by_k = guarantees_by_k(tied)
    assert by_k is not None  # the model is small
    return Section(
        "robust",
        "Sets of causal models",
        text,
        (comparison,),
        (
            *(_paths_table(case) for case in (*grids, patient)),
            _changes_table(grids[0]),
            _own_table(),
            _left_table((*grids, patient)),
        ),
        (
            Figure(
                "robust-grid-certificate",
                "GridWorld (0.9), almost catastrophic path: the value of Gumbel-max's plan under other models.",
                draw_later(plot_certificate, harm.plan(harm.T + 1, harm.T).certify()),
            ),
            Figure(
                "robust-sepsis-guarantees",
                "Sepsis, catastrophic path, m = 10: the value of the best plan of each k, at worst and at best.",
                draw_later(plot_guarantees, by_k, chosen=9),
            ),
        ),
    )


def random_average(case: Case, n: int = PATHS) -> tuple[float, float]:
    """The guaranteed value in the follow-up's set, averaged over random paths; and its standard error."""
    values = []
    for path in random_paths(case.mdp, n, seed=0):
        values.append(_robust(counterfactual(case.mdp, path), "published-monotonicity").plan(path.T + 1, path.T).value)
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(n))


def _robust(cf: CounterfactualMDP, assume: Assumption) -> Robust:
    return Robust(model_set(cf, assume))


def limits_free(cf: CounterfactualMDP, assume: Assumption) -> tuple[float, float, float]:
    """Without limits on k and m: the guaranteed value, the worst case of Gumbel-max's plan, the best possible value."""
    sure, k, m = _robust(cf, assume), cf.T + 1, cf.T
    return sure.plan(k, m).value, sure.range(cf.plan(k, m))[0], sure.best_possible(k, m)


def _paths_table(case: Case) -> Table:
    """Without limits: observed, Gumbel-max; and for each set the guaranteed value, Gumbel-max's plan at worst, the best."""
    rows = []
    for name, path in case.paths.items():
        cf = counterfactual(case.mdp, path)
        free = cf.plan(cf.T + 1, cf.T)
        for i, assume in enumerate(SETS):
            known = (name, f"{free.observed_value:,.1f}", f"{free.value:,.1f}") if i == 0 else ("", "", "")
            rows.append((*known, assume, *(f"{number:,.1f}" for number in limits_free(cf, assume))))
    columns = ("path", "observed", "Gumbel-max", "set", "guaranteed", "Gumbel-max plan, at worst", "best possible")
    return Table(f"{case.name}: without limits on k and m", columns, tuple(rows))


def _changes_table(case: Case) -> Table:
    cf = counterfactual(case.mdp, case.paths["catastrophic"])
    ms = list(range(6))
    rows = [("Gumbel-max", *(f"{value:,.1f}" for value in cf.sweep(ks=[cf.T + 1], ms=ms).values[0]))]
    for assume in SETS:
        values = _robust(cf, assume).sweep(ks=[cf.T + 1], ms=ms).values[0]
        rows.append((assume, *(f"{value:,.1f}" for value in values)))
    title = f"{case.name}, catastrophic path: guaranteed with at most m changes"
    return Table(title, ("set", *(f"m = {m}" for m in ms)), tuple(rows))


def _own_table() -> Table:
    """The plans that Gumbel-max recommends on the paper's models: their range, and the verdict."""
    rows = []
    for make, limits in OUR_PLANS:
        case = make()
        cf = counterfactual(case.mdp, case.path)
        for k, m in limits:
            certificate = cf.plan(k, m).certify()
            spans = [f"{one.worst:,.3f} … {one.best:,.3f}" for one in (certificate.nothing, certificate.stability)]
            numbers = f"{certificate.observed_value:,.0f}", f"{certificate.value:,.3f}"
            rows.append((f"{case.name} ({k}, {m})", *numbers, *spans, certificate.verdict))
    columns = ("plan (k, m)", "observed", "Gumbel-max", "every causal model", "every stable one", "verdict")
    return Table("The paper's models: the range of the plan that Gumbel-max recommends", columns, tuple(rows))


def left_by_gumbel_max(cf: CounterfactualMDP) -> tuple[int, int]:
    """How many rows share an outcome with the observed one, over all states and times; and how many leave the set.

    Gumbel-max leaves the published monotone set if x_o < q_o, or if x_j > q_j for another outcome j of the observed
    pair. The observed pair itself is left out.
    """
    form, seen, left = cf.mdp.form, 0, 0
    for layer in everywhere(cf.graph, cf.posteriors).layers:
        step, edits = layer.observed, layer.edits
        others = np.flatnonzero(edits.pairs != step.pair)
        owner, entry, x = edits.expand(form, others)
        q, to = form.probability[entry], form.next_state[entry]
        near = 1e-9 * q
        wrong = np.where(to == step.outcome, x < q - near, np.isin(to, step.next_state) & (x > q + near))
        seen += others.size
        left += int(np.count_nonzero(np.bincount(owner, wrong, minlength=others.size)))
    return seen, left


def _left_table(cases: tuple[Case, ...]) -> Table:
    rows = []
    for case in cases:
        for name, path in case.paths.items():
            seen, left = left_by_gumbel_max(counterfactual(case.mdp, path))
            rows.append((case.name, name, f"{seen:,}", f"{left:,}", f"{100 * left / max(1, seen):.1f} %"))
    columns = ("model", "path", "rows that share an outcome", "outside", "share")
    return Table("Rows of Gumbel-max that published monotonicity excludes", columns, tuple(rows))
