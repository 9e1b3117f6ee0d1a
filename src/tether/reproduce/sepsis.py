"""Sepsis: both observed paths, on the exact model or on a user's copy of the sampled table; and the first figure."""

from __future__ import annotations

import zipfile
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats
from tether.cases import Case, sepsis
from tether.cases.sepsis import sepsis_from
from tether.conditioning.conditioned import CounterfactualMDP, counterfactual
from tether.conditioning.layers import everywhere, expand
from tether.errors import ModelError, Problem
from tether.model.form import all_pair_states
from tether.reproduce.compare import (
    compare_sizes,
    compare_values,
    draw_later,
    first_improvement,
    rules_table,
    share_explained,
    size_table,
    sizes_figure,
    sweeps,
    value_table,
    values_figure,
)
from tether.reproduce.published import published
from tether.reproduce.records import Comparison, Figure, Section

__all__ = ["component", "load_table", "motivation_section", "sepsis_section"]

_SHAPE = (2, 8, 720, 720)

_TABLE = (
    "the models differ: ours is exact, the paper's is a table sampled 10,000 times per pair from a simulator that clips the "
    "glucose of non-diabetic patients; with --sepsis-table FILE the same table is used"
)

_PATH = "on the released path 1.4 is not possible with either model: there the best value is the observed one, for every k and m"

_COMPONENT = "this published number counts only nodes connected to the initial state; the others count every node of the layered graph"


def load_table(file: str | FilePath) -> Case:
    """The sepsis model from a copy of the public sampled table: array ``tx_mat`` (diabetic, action, state, next)."""
    try:
        with np.load(file, allow_pickle=False) as archive:
            if "tx_mat" not in getattr(archive, "files", ()):
                arrays = ", ".join(getattr(archive, "files", ())) or "no named arrays"
                raise ModelError(f"{file}: expected an .npz file with an array 'tx_mat'; it has {arrays}")
            table = np.asarray(archive["tx_mat"], dtype=np.float64)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{file}: cannot be read as an .npz file ({error})") from None
    if table.shape != _SHAPE:
        raise ModelError(
            f"{file}: tx_mat has shape {table.shape}; expected {_SHAPE}: diabetic, action, state, next state"
        )
    if not np.all(np.isfinite(table)) or table.min() < 0:
        d, a, s, j = np.argwhere(~(table >= 0) | ~np.isfinite(table))[0]
        message = f"{file}: tx_mat[{d}, {a}, {s}, {j}] is {table[d, a, s, j]}, not a probability"
        raise ModelError(Problem(message, value=float(table[d, a, s, j])))
    sums = table.sum(axis=3)
    off = np.argwhere(np.abs(sums - 1.0) > 1e-6)
    if off.size:
        d, a, s = off[0]
        message = f"{file}: the row tx_mat[{d}, {a}, {s}] sums to {sums[d, a, s]:.6g}, not 1 ({len(off):,} such rows)"
        raise ModelError(Problem(message, value=float(sums[d, a, s])))
    d, a, s, j = np.nonzero(table)
    return sepsis_from("sepsis (sampled table)", d * 720 + s, a, d * 720 + j, table[d, a, s, j])


def sepsis_section(case: Case | None = None) -> Section:
    """Both paths, for every k and m; and sizes."""
    exact = case is None
    case = sepsis() if case is None else case
    tag = "" if exact else "-table"
    comparisons: list[Comparison] = []
    tables, figures, text = [], [], []
    for name in ("catastrophic", "suboptimal"):
        theirs = published().paths[f"sepsis_{name}"]
        cf = counterfactual(case.mdp, case.paths[name])
        by_rule = sweeps(cf)
        ours = by_rule["published"]
        reason = _PATH if name == "suboptimal" else _TABLE if exact else ""
        counted = _TABLE if exact else "rows estimated from 1,000 draws leave out rare successors"
        values = compare_values(cf, ours, theirs, seed=13, repeats=10, shared=False, reason=reason, path=name)
        reasons = dict.fromkeys(theirs.sizes, counted) | {11: _COMPONENT}
        comparisons += [*values, *compare_sizes(ours, theirs, reasons, name)]
        tables += [
            value_table(f"V(s0), {name} path, rule published", ours, theirs),
            size_table(f"Nodes of the pruned graph, {name} path, rule published", ours, theirs),
            rules_table(by_rule, 3),
        ]
        figures.append(values_figure(f"sepsis-{name}-values{tag}", f"Sepsis, {name} path", ours, theirs))
        text.append(_paragraph(name, cf, by_rule, values, exact))
        if name == "catastrophic":
            caption = "Sepsis, catastrophic path: nodes of the pruned graph."
            figures.append(sizes_figure(f"sepsis-sizes{tag}", caption, ours, theirs))
            whole = component(cf)
            text.append(
                f"Without constraint the whole layered graph has {ours.layered_sizes[-1]:,} nodes; the published "
                f"{theirs.sizes[11]:,} is the weakly connected component of the initial state, here {whole:,}."
            )
    title = "Sepsis" if exact else "Sepsis, on the sampled table"
    return Section("sepsis", title, tuple(text), tuple(comparisons), tuple(tables), tuple(figures))


def _paragraph(name: str, cf: CounterfactualMDP, by_rule: dict[str, Any], values: list[Comparison], exact: bool) -> str:
    ours = by_rule["published"]
    first = {rule: first_improvement(table) for rule, table in by_rule.items()}
    first_ks = ", ".join(f"{rule} {'never' if k is None else k}" for rule, k in first.items())
    start = f"The {name} path, observed return {ours.observed_value:,.0f}: first k that improves: {first_ks}."
    if name == "suboptimal":
        return (
            f"{start} The best value is {ours.values.max():g} for every k and m, so the published 1.4 is not possible."
        )
    if exact:
        return f"{start} Values differ from the published ones, because {_TABLE}."
    return f"{start} {share_explained(values)}."


def component(cf: CounterfactualMDP) -> int:
    """Nodes weakly connected to (0, s_0) in the unconstrained layered graph of the whole model."""
    graph = everywhere(cf.graph, cf.posteriors)
    mdp, T = cf.mdp, cf.T
    pairs = np.arange(mdp.n_pairs)
    owner_state = all_pair_states(mdp.form.pair_start)
    edges = []
    for layer in graph.layers:
        owner, entry, _ = expand(mdp, layer.edits, pairs)
        edges.append((owner_state[owner], mdp.form.next_state[entry]))
    marked = np.zeros((T + 1, mdp.n_states), dtype=bool)
    marked[0, int(cf.observation.states[0])] = True
    count = 0
    while count < (count := int(marked.sum())):
        for t in range(T):
            marked[t + 1, edges[t][1][marked[t, edges[t][0]]]] = True
        for t in range(T - 1, -1, -1):
            marked[t, edges[t][0][marked[t + 1, edges[t][1]]]] = True
    return count


def motivation_section() -> Section:
    """States over time, coloured by how much more often diabetic patients are in them; and three paths."""
    from tether.views.figures import plot_occupancy

    case = sepsis()
    observed = case.paths["catastrophic"]
    cf = counterfactual(case.mdp, observed)
    T, half = cf.T, case.mdp.n_states // 2
    start = case.mdp.states.index(observed.states[0])
    diabetic = _occupancy(case, start, T)[:, half:]
    healthy = _occupancy(case, start - half, T)[:, :half]
    population = 0.8 * healthy + 0.2 * diabetic
    free, _ = cf.plan(T + 1, T).evaluate().likeliest_path()
    tied, _ = cf.plan(8, T).evaluate().likeliest_path()
    paths = {"observed": observed, "unconstrained": free, "within k = 8": tied}
    rows = {name: [case.mdp.states.index(s) - half for s in one.states] for name, one in paths.items()}
    on_paths = sorted({s for row in rows.values() for s in row})
    often = np.argsort(-np.maximum(diabetic, population)[1:].max(axis=0), kind="stable")[:60]
    shown = np.array(sorted({*on_paths, *(int(s) for s in often)}))
    lean = _lean(diabetic.sum(axis=0), population.sum(axis=0))
    shown = shown[np.argsort(lean[shown], kind="stable")]
    shade = _lean(diabetic[:, shown], population[:, shown])
    weight = np.maximum(diabetic[:, shown], population[:, shown])
    column = {int(s): i for i, s in enumerate(shown)}
    common = {
        name: len({(t, s) for t, s in enumerate(rows[name])} & set(enumerate(rows["observed"])))
        for name in ("unconstrained", "within k = 8")
    }
    text = (
        "Each dot is a state at a time. Its colour says how much more often diabetic patients are in it than the whole "
        "population, a fifth of whom are diabetic. Its size says how often patients are in it. Treatment is uniformly "
        "random. States are sorted by that difference. Occupancies are exact.",
        f"The black path is the diabetic patient who died. The most likely path of the unconstrained plan shares "
        f"{common['unconstrained']} of {T + 1} nodes with it; that of the plan within k = 8 shares {common['within k = 8']}.",
    )
    figure = Figure(
        "motivation",
        "States of the sepsis model over time, and three paths through them.",
        draw_later(
            plot_occupancy,
            shade,
            weight,
            {name: [column[s] for s in row] for name, row in rows.items()},
        ),
    )
    return Section("motivation", "The motivating figure", text, (), (), (figure,))


def _lean(diabetic: Floats, population: Floats) -> Floats:
    """From -1, visited by the population only, to 1, visited by diabetic patients only; 0 if nobody visits it."""
    total = diabetic + population
    lean: Floats = np.divide(diabetic - population, total, out=np.zeros_like(total), where=total > 0)
    return lean


def _occupancy(case: Case, start: int, T: int) -> Floats:
    """Probability of each state at each time under uniformly random treatment, from one state."""
    outlook = case.mdp.evaluate("random", T, start=case.mdp.states[start])
    occupancy = np.zeros((T + 1, case.mdp.n_states))
    for t in range(T + 1):
        occupancy[t, outlook.chain.visits[t].states] = outlook.occupancy[t]
    return occupancy
