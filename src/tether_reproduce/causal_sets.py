"""Sets of causal models: the follow-up's models and paths, and the values of our plans under every model.

The follow-up is Lally, Kazemi and Paoletti, AAMAS 2026. Rewards are those of states, and the reward of the last state
counts. Paths are those of the released code; random paths are drawn as in that code.
"""

from __future__ import annotations

from functools import partial

import numpy as np

import tether
from tether.cases import Case, epidemic, grid_world, sepsis
from tether.cases.sepsis import state_reward
from tether.conditioning.model_sets import Assumption
from tether.evaluation.guarantees import guarantees_by_k
from tether.views.figures import plot_certificate, plot_guarantees
from tether_reproduce.draws import Floats, Ints, observed_transitions, rows_given
from tether_reproduce.findings import Comparison, Figure, Section, Table, published
from tether_reproduce.lake_and_aircraft import aircraft, frozen_lake

SETS: tuple[Assumption, ...] = ("published-monotonicity", "published-stability", "stability", "nothing")
PATHS = 200
"""The number of random paths in the average."""

_MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))
_REWARDS = {1: (1, 4, 5), 2: (2, 8, 9), 3: (3, 10, 12), 4: (7, 13), 5: (11, 14), -100: (6,), 100: (15,)}
_ENDS = (6, 15)
_T = 10

_GRID_PATHS = {
    0.9: {
        "optimal": ([0, 4, 8, 12, 13, 14, *[15] * 5], [2, 2, 2, 1, 1, 1, 0, 0, 0, 0]),
        "slightly suboptimal": ([0, 4, 8, 8, 12, 12, 13, 12, 12, 13, 14], [2, 2, 3, 2, 3, 1, 3, 2, 1, 1]),
        "almost catastrophic": ([0, 1, 2, 1, 2, 1, 2, 1, 0, 4, 8], [0, 1, 3, 1, 2, 1, 3, 3, 2, 2]),
        "catastrophic": ([0, 1, 2, *[6] * 8], [1, 1, 2, *[0] * 7]),
    },
    0.4: {
        "optimal": ([0, 0, 4, 5, 9, 10, 14, *[15] * 4], [2, 2, 2, 2, 2, 2, 1, 0, 0, 0]),
        "slightly suboptimal": ([0, 4, 4, 4, 8, 12, 12, 8, 9, 13, 9], [2, 2, 2, 2, 2, 3, 1, 0, 2, 1]),
        "almost catastrophic": ([0, 1, 2, 1, 0, 4, 8, 9, 10, 9, 10], [1, 0, 1, 3, 1, 2, 3, 2, 0, 2]),
    },
}

_SEPSIS_PATHS = {
    "optimal": ([1348, 1109, *[1096] * 9], [6, *[0] * 9]),
    "slightly suboptimal": ([1348, 1337, 1348, 1416, *[1408] * 7], [2, 4, 0, 0, 5, 4, 6, 5, 0, 6]),
    "almost catastrophic": ([777, 859, 857, 861, 853, 861, 869, 861, 853, 861, 861], [3, 2, *[6] * 8]),
    "catastrophic": ([777, 939, 941, *[949] * 8], [3, 6, 6, *[0] * 7]),
}

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


_MORE = (
    "Frozen Lake and Aircraft are made from their rules, because the released code reads their probabilities from files. "
    "What it says agrees: every step of its paths is possible, the actions on its best paths are best actions, and the "
    "states, collisions and rewards of Aircraft are the same. How often a move is carried out, and how often the other "
    "aircraft moves, is not said: 0.8 and 0.2 are the public model's for one of its sizes, 0.8 and 0.4 for another.",
)


def robust_section(paths: int = PATHS) -> Section:
    """The follow-up's experiments beside ours, and the plans of the paper's models under every causal model."""
    grids = [robust_grid(0.9), robust_grid(0.4)]
    patient, own = robust_sepsis(), sepsis()
    ours, error = random_average(grids[0], paths)
    theirs = published().follow_up
    lake, planes = frozen_lake(), (aircraft(), aircraft(wander=0.4))
    on_lake, lake_error = random_average(lake, paths)
    comparisons = tuple(
        Comparison(
            "mean guaranteed value",
            mean,
            known,
            mean,
            float(np.hypot(spread, spread * np.sqrt(paths / theirs.paths))),
            of=f"{of}, random paths",
            sampled="random paths",
        )
        for of, mean, spread, known in (
            (grids[0].name, ours, error, theirs.mean_worst_case),
            (lake.name, on_lake, lake_error, theirs.frozen_lake),
        )
    )
    text = (
        *_TEXT,
        f"The average over {paths} random paths of GridWorld (0.9), drawn as in their code, of the guaranteed value is "
        f"{ours:.1f} ± {error:.1f}; published {theirs.mean_worst_case:g}. The error of theirs is that of "
        f"{theirs.paths} paths. Frozen Lake, drawn in the same way: {on_lake:.1f} ± {lake_error:.1f}; published "
        f"{theirs.frozen_lake:g}, over a number of paths that we do not know: taken as the same.",
        *_MORE,
    )
    harm = tether.counterfactual(grids[0].mdp, grids[0].paths["almost catastrophic"])
    by_k = guarantees_by_k(tether.counterfactual(own.mdp, own.paths["catastrophic"]).plan(9, 10))
    assert by_k is not None  # the model is small
    return Section(
        "robust",
        "Sets of causal models",
        text,
        comparisons,
        (
            *(_paths_table(case) for case in (*grids, patient, lake, *planes)),
            _changes_table(grids[0]),
            _own_table(),
            _left_table((*grids, patient, lake, planes[0])),
        ),
        (
            Figure(
                "robust-grid-certificate",
                "GridWorld (0.9), almost catastrophic path: the value of Gumbel-max's plan under other models.",
                partial(plot_certificate, harm.plan(harm.T + 1, harm.T).certify()),
            ),
            Figure(
                "robust-sepsis-guarantees",
                "Sepsis, catastrophic path, m = 10: the value of the best plan of each k, at worst and at best.",
                partial(plot_guarantees, by_k, chosen=9),
            ),
        ),
    )


def robust_grid(chance: float) -> Case:
    """The follow-up's GridWorld: 16 cells; the chosen move has probability ``chance``, the others are equally likely."""
    reward = np.zeros(16)
    for value, cells in _REWARDS.items():
        reward[list(cells)] = value
    P = np.zeros((16, 4, 16))
    for s in range(16):
        for a in range(4):
            for b in range(4):
                P[s, a, _after(s, b)] += chance if a == b else (1.0 - chance) / 3.0
    mdp = tether.MDP.from_arrays(P, np.repeat(reward[:, None], 4, axis=1)).with_objective(final_reward=reward)
    return Case(f"GridWorld ({chance:g})", mdp, {name: tether.Path(*one) for name, one in _GRID_PATHS[chance].items()})


def _after(s: int, move: int) -> int:
    if s in _ENDS:
        return s
    row, column = s // 4 + _MOVES[move][0], s % 4 + _MOVES[move][1]
    return 4 * row + column if 0 <= row < 4 and 0 <= column < 4 else s


def robust_sepsis() -> Case:
    """The exact sepsis model with the follow-up's rewards (of states) and paths."""
    model, reward = sepsis().mdp, state_reward()
    form = model.form
    s, a = np.divmod(np.repeat(np.arange(model.n_pairs), np.diff(form.row_start)), model.n_actions)
    mdp = tether.MDP.from_table(s, a, form.next_state, form.probability, reward[s])
    mdp = mdp.with_names(states=model.states, actions=model.actions).with_objective(final_reward=reward)
    paths = {
        name: tether.Path([mdp.states[s] for s in states], [mdp.actions[a] for a in actions])
        for name, (states, actions) in _SEPSIS_PATHS.items()
    }
    return Case("sepsis (state rewards)", mdp, paths)


def random_paths(mdp: tether.MDP, n: int, *, seed: int, T: int = _T) -> list[tether.Path]:
    """Paths from state 0 as the follow-up draws them: the best action (discount 0.9) twice as likely as each other one."""
    P = np.zeros((mdp.n_states, mdp.n_actions, mdp.n_states))
    for s in mdp.states:
        for a in mdp.actions:
            states, chances = mdp.row(s, a)
            P[s, a, list(states)] = chances
    reward = np.array([mdp.reward(s, 0) for s in mdp.states])
    share = np.full((mdp.n_states, mdp.n_actions), 1.0 / (mdp.n_actions + 1))
    share[np.arange(mdp.n_states), best_actions(P, reward)] *= 2.0
    rng, drawn = np.random.default_rng(seed), []
    for _ in range(n):
        path, actions = [0], []
        for _ in range(T):
            actions.append(int(rng.choice(mdp.n_actions, p=share[path[-1]])))
            path.append(int(rng.choice(mdp.n_states, p=P[path[-1], actions[-1]])))
        drawn.append(tether.Path(path, actions))
    return drawn


def best_actions(P: Floats, reward: Floats) -> Ints:
    """The best actions of the plain model, with a discount of 0.9 and an infinite horizon."""
    value = np.zeros(reward.size)
    for _ in range(400):
        each = reward[:, None] + 0.9 * P @ value
        value = each.max(axis=1)
    best: Ints = each.argmax(axis=1)
    return best


def random_average(case: Case, n: int = PATHS) -> tuple[float, float]:
    """The guaranteed value in the follow-up's set, averaged over random paths; and its standard error."""
    values = [
        tether.robust(case.mdp, path, assume="published-monotonicity").plan(path.T + 1, path.T).value
        for path in random_paths(case.mdp, n, seed=0, T=next(iter(case.paths.values())).T)
    ]
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(n))


def limits_free(cf: tether.records.CounterfactualMDP, assume: Assumption) -> tuple[float, float, float]:
    """Without limits on k and m: the guaranteed value, the worst case of Gumbel-max's plan, the best possible value."""
    sure, k, m = tether.robust(cf.mdp, cf.path, assume=assume), cf.T + 1, cf.T
    return sure.plan(k, m).value, sure.range(cf.plan(k, m))[0], sure.best_possible(k, m)


def _paths_table(case: Case) -> Table:
    """Without limits: observed, Gumbel-max; and for each set the guaranteed value, Gumbel-max's plan at worst, the best."""
    rows = []
    for name, path in case.paths.items():
        cf = tether.counterfactual(case.mdp, path)
        free = cf.plan(cf.T + 1, cf.T)
        for i, assume in enumerate(SETS):
            known = (name, f"{free.observed_value:,.1f}", f"{free.value:,.1f}") if i == 0 else ("", "", "")
            rows.append((*known, assume, *(f"{number:,.1f}" for number in limits_free(cf, assume))))
    columns = ("path", "observed", "Gumbel-max", "set", "guaranteed", "Gumbel-max plan, at worst", "best possible")
    return Table(f"{case.name}: without limits on k and m", columns, tuple(rows))


def _changes_table(case: Case) -> Table:
    cf = tether.counterfactual(case.mdp, case.paths["catastrophic"])
    ms = list(range(6))
    rows = [("Gumbel-max", *(f"{value:,.1f}" for value in cf.sweep(ks=[cf.T + 1], ms=ms).values[0]))]
    for assume in SETS:
        values = tether.robust(cf.mdp, cf.path, assume=assume).sweep(ks=[cf.T + 1], ms=ms).values[0]
        rows.append((assume, *(f"{value:,.1f}" for value in values)))
    title = f"{case.name}, catastrophic path: guaranteed with at most m changes"
    return Table(title, ("set", *(f"m = {m}" for m in ms)), tuple(rows))


def _own_table() -> Table:
    """The plans that Gumbel-max recommends on the paper's models: their range, and the verdict."""
    rows = []
    for make, limits in OUR_PLANS:
        case = make()
        cf = tether.counterfactual(case.mdp, case.path)
        for k, m in limits:
            certificate = cf.plan(k, m).certify()
            spans = [f"{one.worst:,.3f} … {one.best:,.3f}" for one in (certificate.nothing, certificate.stability)]
            numbers = f"{certificate.observed_value:,.0f}", f"{certificate.value:,.3f}"
            rows.append((f"{case.name} ({k}, {m})", *numbers, *spans, certificate.verdict))
    columns = ("plan (k, m)", "observed", "Gumbel-max", "every causal model", "every stable one", "verdict")
    return Table("The paper's models: the range of the plan that Gumbel-max recommends", columns, tuple(rows))


def left_by_gumbel_max(cf: tether.records.CounterfactualMDP) -> tuple[int, int]:
    """How many rows share an outcome with the observed one, over all states and times; and how many leave the set.

    Gumbel-max leaves the published monotone set if x_o < q_o, or if x_j > q_j for another outcome j of the observed
    pair. The observed pair itself is left out.
    """
    form, seen, left = cf.mdp.form, 0, 0
    row = np.repeat(np.arange(cf.mdp.n_pairs), np.diff(form.row_start))
    for s, a, outcome in observed_transitions(cf):
        pair = cf.mdp.find_pair(s, a)
        support = form.next_state[cf.mdp.entries(pair)]
        sharing = np.unique(row[np.isin(form.next_state, support)])
        others = sharing[sharing != pair]
        owner, entry, x = rows_given(cf.mdp, s, a, outcome, others).expand(form, np.arange(others.size))
        q, to = form.probability[entry], form.next_state[entry]
        near = 1e-9 * q
        wrong = np.where(to == outcome, x < q - near, np.isin(to, support) & (x > q + near))
        seen += others.size
        left += np.unique(owner[wrong]).size
    return seen, left


def _left_table(cases: tuple[Case, ...]) -> Table:
    rows = []
    for case in cases:
        for name, path in case.paths.items():
            seen, left = left_by_gumbel_max(tether.counterfactual(case.mdp, path))
            rows.append((case.name, name, f"{seen:,}", f"{left:,}", f"{100 * left / max(1, seen):.1f} %"))
    columns = ("model", "path", "rows that share an outcome", "outside", "share")
    return Table("Rows of Gumbel-max that published monotonicity excludes", columns, tuple(rows))
