"""The models and observed paths of the follow-up on sets of causal models (Lally, Kazemi, Paoletti, AAMAS 2026).

Rewards are those of states, and the reward of the last state counts. Paths are those of the released code; random paths
are drawn as in that code.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether.cases.case import Case
from tether.cases.sepsis import sepsis, state_reward
from tether.model.form import Rewards, all_pair_states
from tether.model.mdp import MDP
from tether.observation.path import Path

__all__ = ["random_paths", "robust_grid", "robust_sepsis"]

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
    mdp = MDP.from_arrays(P, np.repeat(reward[:, None], 4, axis=1)).with_objective(final_reward=reward)
    return Case(f"GridWorld ({chance:g})", mdp, {name: Path(*one) for name, one in _GRID_PATHS[chance].items()})


def _after(s: int, move: int) -> int:
    if s in _ENDS:
        return s
    row, column = s // 4 + _MOVES[move][0], s % 4 + _MOVES[move][1]
    return 4 * row + column if 0 <= row < 4 and 0 <= column < 4 else s


def robust_sepsis() -> Case:
    """The exact sepsis model with the follow-up's rewards (of states) and paths."""
    case, reward = sepsis(), state_reward()
    mdp = case.mdp
    by_pair: Floats = reward[all_pair_states(mdp.form.pair_start)]
    mdp = replace(mdp, form=replace(mdp.form, rewards=Rewards(by_pair, by_entry=False)), final_reward=reward)
    paths = {
        name: Path([mdp.states[s] for s in states], [mdp.actions[a] for a in actions])
        for name, (states, actions) in _SEPSIS_PATHS.items()
    }
    return Case("sepsis (state rewards)", mdp, paths)


def random_paths(mdp: MDP, n: int, seed: int) -> list[Path]:
    """Paths from cell 0 as the follow-up draws them: the best action (discount 0.9) twice as likely as each other one."""
    P, best = _table(mdp), _best_actions(mdp)
    share = np.full((mdp.n_states, 4), 0.2)
    share[np.arange(mdp.n_states), best] += 0.2
    rng, drawn = np.random.default_rng(seed), []
    for _ in range(n):
        states, actions = [0], []
        for _ in range(_T):
            actions.append(int(rng.choice(4, p=share[states[-1]])))
            states.append(int(rng.choice(mdp.n_states, p=P[states[-1], actions[-1]])))
        drawn.append(Path(states, actions))
    return drawn


def _table(mdp: MDP) -> Floats:
    P = np.zeros((mdp.n_states, mdp.n_actions, mdp.n_states))
    for s in range(mdp.n_states):
        for a in range(mdp.n_actions):
            names, chances = mdp.row(s, a)
            P[s, a, list(names)] = chances
    return P


def _best_actions(mdp: MDP) -> Ints:
    """The best actions of the plain model, with a discount of 0.9 and an infinite horizon."""
    P = _table(mdp)
    reward = np.array([mdp.reward(s, 0) for s in range(mdp.n_states)])
    value = np.zeros(mdp.n_states)
    for _ in range(400):
        each = reward[:, None] + 0.9 * P @ value
        value = each.max(axis=1)
    best: Ints = each.argmax(axis=1)
    return best
