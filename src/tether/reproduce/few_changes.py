"""Tsirtsis, De and Gomez-Rodriguez (NeurIPS 2021), synthetic: what k changed actions gain, without a tether.

Random models of 20 states and 10 actions; the reward is the number of the state. The larger α, the less is certain. A
trajectory has 20 states, of which the last earns its reward; the behaviour policy is the optimal one, but each action is
replaced with probability 0.05. All draws are made by the paper's recipe, seed by seed. Its estimates are drawn from
the posterior of the luck; ours are exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether.counterfactual.conditioned import counterfactual
from tether.model.mdp import MDP
from tether.observation.path import Path
from tether.reproduce.published import expected
from tether.reproduce.records import Section, Table

__all__ = ["CHANGES", "draw_model", "draw_path", "few_changes_section", "improvements", "outcomes"]

_STATES, _ACTIONS, _LENGTH = 20, 10, 20
_REPLACED = 0.05
CHANGES = (0, 1, 2, 5, 10)
"""How many actions may change, where numbers are told."""

_SEEDS, _TRAJECTORIES = range(10), range(50)


def draw_model(seed: int, alpha: float) -> tuple[MDP, Ints]:
    """A random model, and its optimal policy by time and state."""
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
    mdp = MDP.from_arrays(P, np.repeat(reward[:, None], _ACTIONS, axis=1)).with_objective(final_reward=reward)
    return mdp, best


def draw_path(mdp: MDP, best: Ints, number: int) -> Path:
    """A trajectory of the model under the noisy optimal policy."""
    rng = np.random.default_rng(number)
    states, actions = [int(rng.choice(range(_STATES)))], []
    for t in range(_LENGTH - 1):
        optimal = action = int(best[t, states[-1]])
        if rng.binomial(1, _REPLACED):
            while action == optimal:
                action = int(rng.choice(range(_ACTIONS)))
        names, chances = mdp.row(states[-1], action)
        row = np.zeros(_STATES)
        row[list(names)] = chances
        actions.append(action)
        states.append(int(rng.choice(range(_STATES), p=row)))
    return Path(states, actions)


def outcomes(alpha: float, seeds: Iterable[int] = _SEEDS, trajectories: Sequence[int] = _TRAJECTORIES) -> Floats:
    """The exact counterfactual outcome of every trajectory, one column for each of `CHANGES`."""
    return np.array(list(_outcomes(alpha, seeds, trajectories)))


def _outcomes(alpha: float, seeds: Iterable[int], trajectories: Sequence[int]) -> Iterator[Floats]:
    for seed in seeds:
        mdp, best = draw_model(seed, alpha)
        for number in trajectories:
            cf = counterfactual(mdp, draw_path(mdp, best, number))
            yield cf.sweep(ks=[cf.T + 1], ms=list(CHANGES)).values[0]


def improvements(found: Floats) -> Floats:
    """The mean of the relative improvement in percent, for each of `CHANGES` but 0."""
    relative: Floats = (100.0 * (found[:, 1:] / found[:, :1] - 1.0)).mean(axis=0)
    return relative


def few_changes_section() -> Section:
    """The section of the reproduction."""
    found = {alpha: outcomes(alpha) for alpha in expected().few_changes.outcomes}
    heads = tuple(f"m = {m}" for m in CHANGES)
    means = tuple((f"α = {alpha:g}", *(f"{one:.2f}" for one in values.mean(axis=0))) for alpha, values in found.items())
    gains = tuple(
        (f"α = {alpha:g}", *(f"{one:.2f} %" for one in improvements(values))) for alpha, values in found.items()
    )
    return Section(
        "few_changes",
        "Few changes (Tsirtsis et al. 2021, synthetic)",
        (
            "Random models of 20 states and 10 actions, 10 for each α, and 50 trajectories each: what would the outcome have "
            "been, had at most m actions been different? There is no tether: this is our problem with k = T + 1. The paper "
            "estimates it from draws of the luck and shows curves; so no published numbers stand beside these, which are "
            "exact. `tether reproduce --check` holds them to two digits.",
            "The larger α, the less is certain, and the lower the outcome of the same policy.",
        ),
        tables=(
            Table("Mean outcome with at most m changed actions, exact", ("", *heads), means),
            Table("Mean of the relative improvement over what was done", ("", *heads[1:]), gains),
        ),
    )
