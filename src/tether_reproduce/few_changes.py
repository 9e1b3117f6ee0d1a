"""Tsirtsis, De and Gomez-Rodriguez (NeurIPS 2021), synthetic: what k changed actions gain, without a tether.

Random models of 20 states and 10 actions; the reward is the number of the state. A larger α makes outcomes less
certain. A trajectory has 20 states, and the last one also earns its reward. The behaviour policy is the optimal one,
but each action is replaced with probability 0.05. All draws are made as in the paper, seed by seed. Its rows are
estimated from draws of the noise; ours are exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np

import tether
from tether.views.figures import plot_curves, plot_gains
from tether_reproduce.draws import Floats, Ints, cumulative, pick, rows_given
from tether_reproduce.findings import Figure, Section, Table

_STATES, _ACTIONS, _LENGTH = 20, 10, 20
_REPLACED = 0.05
CHANGES = (0, 1, 2, 5, 10)
"""How many actions may change, in the tables."""

SEEDS, TRAJECTORIES = range(10), range(50)
"""The seeds of the models of each α, and of the trajectories of each model."""

_ALL_SEEDS = range(11)
"""Seeds 0 to 9, and seed 10, which the released code has instead of seed 0."""

CHECKED = (0.01, 0.05, 0.1, 0.5, 1.0)
"""The α whose numbers `tether reproduce --check` reads."""

_ALPHAS = (0.0, 0.01, 0.05, 0.1, 0.4, 0.5, 1.0)
_HISTOGRAM, _DRAWN = 0.1, (2, 5, 10)
"""The paper's figures: curves over these α, histograms at this one, for these numbers of changes."""

_TEXT = (
    "Random models of 20 states and 10 actions, 10 for each α, and 50 trajectories each: what would the outcome have been, "
    "if at most m actions had been different? There is no tether: this is our problem with k = T + 1. A larger α makes outcomes "
    "less certain, and the outcome of the same policy lower. `tether reproduce --check` checks the numbers of seeds 0 to 9 "
    "to two digits.",
    "What differs. The paper estimates each counterfactual probability from 1,000 draws of the noise; ours are exact. Its "
    "results are plots, made by its released notebook, without printed numbers: at α = 0.1, histograms of the relative "
    "improvement with at most 2, 5 and 10 changes; and its mean as a curve over α. The figures here are the same, from exact "
    "values. There is no published number to compare ours with, so no verdict is given. The released code draws its models with "
    "the seeds 1 to 10 instead of 0 to 9: the last table and the figures have these.",
)


def draw_model(seed: int, alpha: float) -> tuple[tether.MDP, Floats, Ints]:
    """A random model, its probabilities by state, action and next state, and its optimal policy by time and state."""
    rng, reward = np.random.default_rng(seed), np.arange(_STATES, dtype=np.float64)
    P = np.zeros((_STATES, _ACTIONS, _STATES))
    for a in range(_ACTIONS):
        for s in range(_STATES):
            weight = rng.uniform(0, alpha, _STATES)
            weight[rng.choice(range(_STATES))] = 1
            P[s, a] = weight / weight.sum()
    value, best = reward, np.zeros((_LENGTH - 1, _STATES), dtype=np.int64)
    for t in reversed(range(_LENGTH - 1)):
        each = P @ value
        best[t], value = each.argmax(axis=1), reward + each.max(axis=1)
    mdp = tether.MDP.from_arrays(P, np.repeat(reward[:, None], _ACTIONS, axis=1))
    return mdp.with_objective(final_reward=reward), P, best


def draw_paths(P: Floats, best: Ints, numbers: Sequence[int]) -> tuple[Ints, Ints]:
    """Trajectories of a model under its noisy optimal policy: states and actions, one row per trajectory."""
    states = np.empty((len(numbers), _LENGTH), dtype=np.int64)
    actions = np.empty((len(numbers), _LENGTH - 1), dtype=np.int64)
    below = cumulative(P)
    for i, number in enumerate(numbers):
        rng = np.random.default_rng(number)
        s = states[i, 0] = int(rng.choice(_STATES))
        for t in range(_LENGTH - 1):
            optimal = a = int(best[t, s])
            if rng.binomial(1, _REPLACED):
                while a == optimal:
                    a = int(rng.choice(_ACTIONS))
            actions[i, t] = a
            s = states[i, t + 1] = pick(below[s, a], rng.random())
    return states, actions


def outcomes(alpha: float, seeds: Iterable[int] = SEEDS, trajectories: Sequence[int] = TRAJECTORIES) -> Floats:
    """The exact counterfactual outcome of every trajectory, one column for each of `CHANGES`."""
    values = []
    for seed in seeds:
        mdp, P, best = draw_model(seed, alpha)
        values.append(_values(mdp, *draw_paths(P, best, trajectories)))
    return np.concatenate(values)


def _values(mdp: tether.MDP, states: Ints, actions: Ints) -> Floats:
    """V_0(s_0, m) of all trajectories together, for each of `CHANGES`: backward induction on full arrays.

    These models are small and dense, and there is no tether, so neither a graph nor thresholds are needed. The numbers
    are those of ``cf.sweep(ks=[T + 1])``.
    """
    reward, each = np.arange(_STATES, dtype=np.float64), np.arange(len(states))
    steps = np.stack((states[:, :-1], actions, states[:, 1:]), axis=2)
    transitions, number = np.unique(steps.reshape(-1, 3), axis=0, return_inverse=True)
    number = number.reshape(actions.shape)
    rows = np.array([rows_given(mdp, *transition).dense(_STATES) for transition in transitions.tolist()])
    value = np.empty((len(states), _STATES, CHANGES[-1] + 1))
    value[:] = reward[:, None]
    for t in reversed(range(_LENGTH - 1)):
        after = (rows[number[:, t]] @ value).reshape(len(states), _STATES, _ACTIONS, -1)
        value = after[each, :, actions[:, t]]
        after[each, :, actions[:, t]] = -np.inf
        value[:, :, 1:] = np.maximum(value[:, :, 1:], after.max(axis=2)[:, :, :-1])
        value += reward[:, None]
    chosen: Floats = value[each, states[:, 0]][:, CHANGES]
    return chosen


def improvements(values: Floats) -> Floats:
    """The mean of the relative improvement in percent, for each of `CHANGES` except 0."""
    mean: Floats = _relative(values).mean(axis=0)
    return mean


def _relative(values: Floats) -> Floats:
    return 100.0 * (values[:, 1:] / values[:, :1] - 1.0)


def few_changes_section() -> Section:
    """The outcomes and improvements for every α: tables, and the paper's figures from exact values."""
    every = {alpha: outcomes(alpha, _ALL_SEEDS) for alpha in _ALPHAS}
    ours = {alpha: every[alpha][: len(SEEDS) * len(TRAJECTORIES)] for alpha in CHECKED}
    released = {alpha: values[len(TRAJECTORIES) :] for alpha, values in every.items()}
    means = {alpha: [f"{mean:.2f}" for mean in values.mean(axis=0)] for alpha, values in ours.items()}
    return Section(
        "few_changes",
        "Few changes (Tsirtsis et al. 2021, synthetic)",
        _TEXT,
        tables=(
            _table("Mean outcome with at most m changed actions, exact", CHANGES, means),
            _improvement_table("Mean of the relative improvement over the observed outcome", ours),
            _improvement_table("The same for the models of the released code, seeds 1 to 10", released),
        ),
        figures=(*(_histogram(m, released[_HISTOGRAM]) for m in _DRAWN), _curves(released)),
    )


def _histogram(m: int, values: Floats) -> Figure:
    """How many trajectories improve by how much, as in the paper."""
    return Figure(
        f"few-changes-m{m}",
        f"Few changes, α = {_HISTOGRAM:g}, at most {m} changed actions: relative improvement in percent, exact, of "
        "the trajectories that improve.",
        partial(plot_gains, _relative(values)[:, CHANGES.index(m) - 1]),
    )


def _curves(by_alpha: Mapping[float, Floats]) -> Figure:
    """The mean improvement over α, with its 95 % interval, as in the paper."""
    curves = {}
    for m in _DRAWN:
        each = [_relative(values)[:, CHANGES.index(m) - 1] for values in by_alpha.values()]
        errors = [1.96 * gains.std(ddof=1) / np.sqrt(gains.size) for gains in each]
        curves[f"m = {m}"] = ([gains.mean() for gains in each], errors)
    return Figure(
        "few-changes-alpha",
        "Few changes: the mean relative improvement over α, exact, with the 95 % interval of the mean over trajectories.",
        partial(plot_curves, list(by_alpha), curves, "α", "improvement in percent"),
    )


def _improvement_table(title: str, by_alpha: Mapping[float, Floats]) -> Table:
    rows = {alpha: [f"{gain:.2f} %" for gain in improvements(values)] for alpha, values in by_alpha.items()}
    return _table(title, CHANGES[1:], rows)


def _table(title: str, changes: Sequence[int], rows: Mapping[float, Sequence[str]]) -> Table:
    return Table(
        title, ("", *(f"m = {m}" for m in changes)), tuple((f"α = {alpha:g}", *cells) for alpha, cells in rows.items())
    )
