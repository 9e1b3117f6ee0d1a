"""The follow-up's Frozen Lake and Aircraft, made from their rules; and their paths.

Frozen Lake is the map of Gymnasium, 4×4 and slippery: the chosen move and the two beside it have a third each. Holes and
the goal earn their reward once and lead to a state in which nothing happens. Aircraft is the public model of Suilen,
Simão, Parker and Jansen (Robust Anytime Learning of Markov Decision Processes, NeurIPS 2022) on a field of 11 × 6: two
aircraft fly towards each other, x and 10 - x; a move up or down is carried out with the probability ``response``; the
other aircraft moves up and down with the probability ``wander`` each. Collisions and the end of the field absorb.

Rewards are those of states, and paths have a fixed length, as in the authors' released code. That code reads its rows from
files of arrays, so these two are made anew. Every step of its paths is possible in them, each of its actions on its
paths of the best policy is a best action, and Aircraft has the same states in the same order, with the same collisions.
The released code does not say ``response`` and ``wander``; 0.8 and 0.2 are the public model's values for one of its
sizes.
"""

from __future__ import annotations

import numpy as np

import tether
from tether.cases import Case
from tether_reproduce.draws import Floats

_HOLES, _GOAL, _AFTER = (5, 7, 11, 12), 15, 16
_LAKE_REWARDS = {-100: _HOLES, 100: (_GOAL,), 1: (1, 4), 2: (2, 8), 3: (3, 6, 9), 4: (10, 13), 5: (14,)}
_LAKE_MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))

_LAKE_PATHS = {
    "optimal": (
        [0, 1, 0, 4, 4, 8, 9, 8, 9, 10, 6, 10, 14, 14, 15, *[16] * 6],
        [2, 3, 2, 0, 0, 3, 1, 3, 1, 0, 0, 0, 1, 1, *[0] * 6],
    ),
    "suboptimal": ([0, 1, 5, *[16] * 18], [3, 2, 3, 1, 1, 1, 3, 2, 2, 0, 0, 2, 1, 0, 3, 2, 1, 1, 2, 1]),
}

_X, _Y = 10, 5
_STEPS = (0, 1, -1)
_NEAR_X, _NEAR_Y = 3, 2
_MOST_REWARD = 10

_AIRCRAFT_PATHS = {
    "optimal": ([0, 7, 22, 46, 81, 111, 147, 183, 219, 255, *[291] * 3], [1, 1, 1, 1, 2, *[0] * 7]),
    "suboptimal": ([0, 9, 20, 43, *[65] * 9], [1, 0, 1, 2, 1, 1, *[0] * 5, 1]),
}


def _case(name: str, P: Floats, reward: Floats, paths: dict[str, tuple[list[int], list[int]]]) -> Case:
    mdp = tether.MDP.from_arrays(P, np.repeat(reward[:, None], P.shape[1], axis=1)).with_objective(final_reward=reward)
    return Case(name, mdp, {path: tether.Path(*one) for path, one in paths.items()})


def frozen_lake() -> Case:
    """16 cells and a state after the end; actions left, down, right, up."""
    P, reward = np.zeros((17, 4, 17)), np.zeros(17)
    for value, cells in _LAKE_REWARDS.items():
        reward[list(cells)] = value
    for s in range(17):
        for a in range(4):
            if s in (*_HOLES, _GOAL, _AFTER):
                P[s, a, _AFTER] = 1.0
                continue
            for b in (a - 1, a, a + 1):
                row, column = s // 4 + _LAKE_MOVES[b % 4][0], s % 4 + _LAKE_MOVES[b % 4][1]
                P[s, a, 4 * row + column if 0 <= row < 4 and 0 <= column < 4 else s] += 1 / 3
    return _case("Frozen Lake", P, reward, _LAKE_PATHS)


def _within(y: int) -> int:
    return min(max(y, 0), _Y)


def aircraft(response: float = 0.8, wander: float = 0.2) -> Case:
    """303 states (x, own height, height of the other), actions stay, up, down."""
    heights = [{(1, 1)}]
    for _ in range(_X):
        onward = {(_within(y + i), _within(other + j)) for y, other in heights[-1] for i in _STEPS for j in _STEPS}
        heights.append(onward)
    states = [(x, *pair) for x, layer in enumerate(heights) for pair in sorted(layer)]
    number = {state: i for i, state in enumerate(states)}
    crash = np.array([abs(2 * x - _X) < _NEAR_X and abs(y - other) < _NEAR_Y for x, y, other in states])
    P = np.zeros((len(states), 3, len(states)))
    for i, (x, y, other) in enumerate(states):
        for a, step in enumerate(_STEPS):
            if x == _X or crash[i]:
                P[i, a, i] = 1.0
                continue
            for own, likely in ((_within(y + step), response), (y, 1.0 - response)):
                for drift, chance in ((-1, wander), (1, wander), (0, 1.0 - 2.0 * wander)):
                    P[i, a, number[x + 1, own, _within(other + drift)]] += likely * chance
    reward = _by_distance(P, crash)
    reward[[x == _X for x, _, _ in states]] = 100.0
    reward[crash] = -100.0
    return _case(f"Aircraft ({response:g}, {wander:g})", P, reward, _AIRCRAFT_PATHS)


def _by_distance(P: Floats, crash: Floats) -> Floats:
    """The distance to a collision in steps, in tenths of the largest, rounded down; 0 where none can follow."""
    leads, distance = P.sum(axis=1) > 0.0, np.where(crash, 0.0, np.inf)
    for steps in range(1, P.shape[0]):
        fresh = np.isinf(distance) & np.any(leads[:, distance == steps - 1], axis=1)
        if not fresh.any():
            break
        distance[fresh] = steps
    reach = np.isfinite(distance)
    return np.where(reach, np.floor(np.where(reach, distance, 0.0) / distance[reach].max() * _MOST_REWARD), 0.0)
