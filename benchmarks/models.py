"""The models that are measured, straight as arrays: grids of any size, and models whose successors are anywhere.

In a grid each of 4 actions leads from a cell to the cell itself and its four neighbours (the edges are glued
together), with probabilities and rewards from a small random pattern that is repeated over the grid and counted from
the start cell. So a path, and all it can reach, is the same in a grid of a hundred thousand cells and in one of ten
million.
"""

from __future__ import annotations

import numpy as np

import tether
from tether.model.form import Form, Rewards, Rounding
from tether.model.names import make_names

SHAPES = {10_000: (100, 100), 100_000: (250, 400), 1_000_000: (1000, 1000), 10_000_000: (2500, 4000)}
ACTIONS, OUTCOMES, PATTERN = 4, 5, 64


def local_model(n_states: int) -> tether.MDP:
    """A grid of ``n_states`` cells, 4 actions, 5 successors a pair."""
    height, width = SHAPES[n_states]
    chance, gain = _pattern()
    probability = np.empty((height, width, ACTIONS, OUTCOMES))
    next_state = np.empty((height, width, ACTIONS, OUTCOMES), dtype=np.int32)
    rewards = np.empty((height, width, ACTIONS))
    columns = np.arange(width)
    across = (columns - width // 2) % PATTERN
    for row in range(height):  # a row of the grid at a time: the model is most of the memory
        down = (row - height // 2) % PATTERN
        probability[row], rewards[row] = chance[down, across], gain[down, across]
        around = np.stack(
            [
                (row - 1) % height * width + columns,
                row * width + (columns - 1) % width,
                row * width + columns,
                row * width + (columns + 1) % width,
                (row + 1) % height * width + columns,
            ],
            axis=1,
        )
        next_state[row] = np.sort(around, axis=1)[:, None, :]
    return _model(n_states, ACTIONS, OUTCOMES, next_state, probability, rewards)


def random_model(n_states: int, n_actions: int = ACTIONS, outcomes: int = OUTCOMES) -> tether.MDP:
    """Successors anywhere, ``outcomes`` a pair: after a few steps everything is reached."""
    rng = np.random.default_rng(0)
    n_pairs = n_states * n_actions
    next_state = _anywhere(rng, n_states, n_pairs, outcomes)
    chance = rng.random((n_pairs, outcomes)) + 0.05
    chance /= chance.sum(axis=1, keepdims=True)
    return _model(n_states, n_actions, outcomes, next_state, chance, rng.random(n_pairs))


def dense_model(n_states: int, n_actions: int) -> tether.MDP:
    """Every row leads to every state."""
    rng = np.random.default_rng(0)
    n_pairs = n_states * n_actions
    chance = rng.random((n_pairs, n_states))
    chance /= chance.sum(axis=1, keepdims=True)
    next_state = np.tile(np.arange(n_states, dtype=np.int32), n_pairs)
    return _model(n_states, n_actions, n_states, next_state, chance, rng.random(n_pairs))


def _anywhere(rng: np.random.Generator, n_states: int, n_pairs: int, outcomes: int) -> np.ndarray:
    """For each pair so many different states, sorted: drawn again where one came twice, or picked where many would."""
    if outcomes**2 > n_states // 10:
        picked = [rng.choice(n_states, outcomes, replace=False, shuffle=False) for _ in range(n_pairs)]
        return np.sort(np.array(picked, dtype=np.int32), axis=1)
    next_state = np.sort(rng.integers(0, n_states, size=(n_pairs, outcomes), dtype=np.int32), axis=1)
    while (twice := np.flatnonzero((np.diff(next_state, axis=1) == 0).any(axis=1))).size:
        again = rng.integers(0, n_states, size=(twice.size, outcomes), dtype=np.int32)
        next_state[twice] = np.sort(again, axis=1)
    return next_state


def random_path(mdp: tether.MDP, T: int, seed: int = 1) -> tether.Path:
    """A walk of ``T`` steps from the first state, every action and every outcome as likely as the others."""
    rng = np.random.default_rng(seed)
    states, actions = [mdp.states[0]], []
    for _ in range(T):
        there = mdp.actions_in(states[-1])
        actions.append(there[rng.integers(len(there))])
        after, _ = mdp.row(states[-1], actions[-1])
        states.append(after[rng.integers(len(after))])
    return tether.Path(states, actions)


def _model(
    n_states: int, n_actions: int, outcomes: int, next_state: np.ndarray, probability: np.ndarray, rewards: np.ndarray
) -> tether.MDP:
    """A model in which every pair has as many successors, sorted."""
    n_pairs = n_states * n_actions
    form = Form(
        np.arange(0, n_pairs + 1, n_actions, dtype=np.int64),
        np.tile(np.arange(n_actions, dtype=np.int32), n_states),
        np.arange(0, n_pairs * outcomes + 1, outcomes, dtype=np.int64),
        next_state.reshape(-1),
        probability.reshape(-1),
        Rewards(rewards.reshape(-1), by_entry=False),
        Rounding(0, 0.0, 1e-6),
        np.empty(0, dtype=np.int32),
    )
    return tether.MDP(make_names(None, n_states, "state"), make_names(None, n_actions, "action"), form)


def local_path(n_states: int, T: int) -> tether.Path:
    """A walk of ``T`` steps from the middle of the grid: the same in grids of every size."""
    height, width = SHAPES[n_states]
    rng = np.random.default_rng(1)
    row, column = height // 2, width // 2
    states, actions = [row * width + column], []
    for _ in range(T):
        actions.append(int(rng.integers(ACTIONS)))
        down, right = ((-1, 0), (0, -1), (0, 0), (0, 1), (1, 0))[rng.integers(OUTCOMES)]
        row, column = row + down, column + right
        states.append(row * width + column)
    return tether.Path(states, actions)


def _pattern() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    chance = rng.dirichlet(np.ones(OUTCOMES), size=(PATTERN, PATTERN, ACTIONS))
    return chance / chance.sum(axis=-1, keepdims=True), rng.normal(size=(PATTERN, PATTERN, ACTIONS))
