"""Sepsis: both observed paths, on the exact model or on a user's copy of the sampled table; and the first figure."""

from __future__ import annotations

import zipfile
from functools import partial
from pathlib import Path as FilePath

import numpy as np

import tether
from tether.cases.sepsis import sepsis_from
from tether.errors import ModelError, Problem
from tether.views.figures import plot_occupancy
from tether_reproduce.draws import Floats, observed_transitions, rows_given
from tether_reproduce.findings import Comparison, Figure, Section, Table, published
from tether_reproduce.sweep_tables import (
    Compared,
    compare,
    first_improvement,
    share_explained,
    sizes_figure,
    values_figure,
)

_SHAPE = (2, 8, 720, 720)

_TABLE = (
    "the models differ: ours is exact, the paper's is a table sampled 10,000 times per pair from a simulator that clips the "
    "glucose of non-diabetic patients; with --sepsis-table FILE the same table is used"
)

_PATH = "on the released path 1.4 is not possible with either model: there the best value is the observed one, for every k and m"

_COMPONENT = "this published number counts only nodes connected to the initial state; the others count every node of the layered graph"


def load_table(file: str | FilePath) -> tether.cases.Case:
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


def sepsis_section(case: tether.cases.Case | None = None) -> Section:
    """Both paths, for every k and m; and sizes. ``case`` is the model of the sampled table, if it is to be used."""
    exact = case is None
    case = tether.cases.sepsis() if case is None else case
    tag = "" if exact else "-table"
    counted = _TABLE if exact else "rows estimated from 1,000 draws leave out rare successors"
    comparisons: list[Comparison] = []
    tables: list[Table] = []
    figures, text = [], []
    for name in ("catastrophic", "suboptimal"):
        theirs = published().paths[f"sepsis_{name}"]
        cf = tether.counterfactual(case.mdp, case.paths[name])
        reason = _PATH if name == "suboptimal" else _TABLE if exact else ""
        reasons = dict.fromkeys(theirs.sizes, counted) | {11: _COMPONENT}
        compared = compare(
            cf, theirs, m=3, seed=13, repeats=10, shared=False, reason=reason, reasons=reasons, path=name
        )
        ours = compared.ours
        comparisons += [*compared.values, *compared.sizes]
        tables += compared.tables
        figures.append(values_figure(f"sepsis-{name}-values{tag}", f"Sepsis, {name} path", ours, theirs))
        text.append(_paragraph(name, compared, exact))
        if name == "catastrophic":
            caption = "Sepsis, catastrophic path: nodes of the pruned graph."
            figures.append(sizes_figure(f"sepsis-sizes{tag}", caption, ours, theirs))
            text.append(
                f"Without constraint the whole layered graph has {ours.layered_sizes[-1]:,} nodes; the published "
                f"{theirs.sizes[11]:,} is the weakly connected component of the initial state, here {component(cf):,}."
            )
    title = "Sepsis" if exact else "Sepsis, on the sampled table"
    return Section("sepsis", title, tuple(text), tuple(comparisons), tuple(tables), tuple(figures))


def _paragraph(name: str, compared: Compared, exact: bool) -> str:
    ours = compared.ours
    first_ks = ", ".join(f"{rule} {first_improvement(table) or 'never'}" for rule, table in compared.by_rule.items())
    start = f"The {name} path, observed return {ours.observed_value:,.0f}: first k that improves: {first_ks}."
    if name == "suboptimal":
        best = f"{ours.values.max():g}"
        return f"{start} The best value is {best} for every k and m, so the published 1.4 is not possible."
    if exact:
        return f"{start} Values differ from the published ones, because {_TABLE}."
    return f"{start} {share_explained(compared.values)}."


def component(cf: tether.records.CounterfactualMDP) -> int:
    """Nodes weakly connected to (0, s_0) in the unconstrained layered graph of the whole model."""
    mdp, T = cf.mdp, cf.T
    owner = np.repeat(np.arange(mdp.n_states), np.diff(mdp.form.pair_start))
    edges = {step: rows_given(mdp, *step) for step in set(observed_transitions(cf))}
    steps = [
        (np.repeat(owner, np.diff(edges[step].start)), edges[step].next_state) for step in observed_transitions(cf)
    ]
    marked = np.zeros((T + 1, mdp.n_states), dtype=bool)
    marked[0, cf.observation.states[0]] = True
    count = 0
    while count < (count := int(marked.sum())):
        for t, (before, after) in enumerate(steps):
            marked[t + 1, after[marked[t, before]]] = True
        for t, (before, after) in reversed(list(enumerate(steps))):
            marked[t, before[marked[t + 1, after]]] = True
    return count


def motivation_section() -> Section:
    """States over time, coloured by how much more often diabetic patients are in them; and three paths."""
    case = tether.cases.sepsis()
    observed = case.paths["catastrophic"]
    cf = tether.counterfactual(case.mdp, observed)
    T, half = cf.T, case.mdp.n_states // 2
    start = case.mdp.state_index(observed.states[0])
    diabetic = _occupancy(case.mdp, start, T)[:, half:]
    population = 0.8 * _occupancy(case.mdp, start - half, T)[:, :half] + 0.2 * diabetic
    free, tied = (cf.plan(k, T).evaluate().likeliest_path()[0] for k in (T + 1, 8))
    paths = {"observed": observed, "unconstrained": free, "within k = 8": tied}
    rows = {name: [case.mdp.state_index(s) - half for s in one.states] for name, one in paths.items()}
    often = np.argsort(-np.maximum(diabetic, population)[1:].max(axis=0), kind="stable")[:60]
    shown = np.unique(np.concatenate([often, *rows.values()]))
    lean = _lean(diabetic.sum(axis=0), population.sum(axis=0))
    shown = shown[np.argsort(lean[shown], kind="stable")]
    column = {int(s): i for i, s in enumerate(shown)}
    shade = _lean(diabetic[:, shown], population[:, shown])
    weight = np.maximum(diabetic[:, shown], population[:, shown])
    common = {name: sum(s == seen for s, seen in zip(row, rows["observed"], strict=True)) for name, row in rows.items()}
    text = (
        "Each dot is a state at a time. Its colour says how much more often diabetic patients are in it than the whole "
        "population, a fifth of whom are diabetic. Its size says how often patients are in it. Treatment is uniformly "
        "random. States are sorted by that difference. Occupancies are exact.",
        f"The black path is the diabetic patient who died. The most likely path of the unconstrained plan shares "
        f"{common['unconstrained']} of {T + 1} nodes with it; that of the plan within k = 8 shares {common['within k = 8']}.",
    )
    lines = {name: [column[s] for s in row] for name, row in rows.items()}
    caption = "States of the sepsis model over time, and three paths through them."
    figure = Figure("motivation", caption, partial(plot_occupancy, shade, weight, lines))
    return Section("motivation", "The motivating figure", text, figures=(figure,))


def _lean(diabetic: Floats, population: Floats) -> Floats:
    """From -1, visited by the population only, to 1, visited by diabetic patients only; 0 if nobody visits it."""
    total = diabetic + population
    lean: Floats = np.divide(diabetic - population, total, out=np.zeros_like(total), where=total > 0)
    return lean


def _occupancy(mdp: tether.MDP, start: int, T: int) -> Floats:
    """Probability of each state at each time under uniformly random treatment, from one state."""
    outlook = mdp.evaluate("random", T, start=mdp.states[start])
    occupancy = np.zeros((T + 1, mdp.n_states))
    for t in range(T + 1):
        states, occupancy_of = outlook.distribution(t)
        occupancy[t, [mdp.state_index(state) for state in states]] = occupancy_of
    return occupancy
