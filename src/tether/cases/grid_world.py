"""A robot on a 4×4 grid: from the top left to the goal at the bottom right, past a pit."""

from __future__ import annotations

import numpy as np

from tether.cases.case import Case
from tether.mdp import MDP
from tether.observation.path import Path

_SIDE = 4
_PIT, _GOAL = 6, 15
_MOVES = {"up": (-1, 0), "right": (0, 1), "down": (1, 0), "left": (0, -1)}
_CHOSEN, _OTHER = 0.9, 0.1 / 3

# R(s, a), one row per state, actions up, right, down, left.
_REWARD = [
    [0, 1, 1, 0], [1, 2, 1, 0], [2, 3, -100, 1], [3, 3, 4, 2],
    [0, 1, 2, 1], [1, -100, 2, 1], [-100, -100, -100, -100], [3, 4, 5, -100],
    [1, 2, 3, 2], [1, 3, 4, 2], [-100, 5, 5, 2], [4, 5, 100, 3],
    [2, 4, 3, 3], [2, 5, 4, 3], [3, 100, 5, 4], [100, 100, 100, 100],
]  # fmt: skip


def grid_world() -> Case:
    """Sixteen cells 0 … 15, row by row; the chosen move has probability 0.9, and a move into a wall stays in place.

    The observed robot falls into the pit (6) at the third step; 6 and 15 are absorbing.
    Labels: ``goal`` (15) and ``danger`` (6).

    Examples
    --------
    >>> import tether
    >>> tether.cases.grid_world().path
    <Path: 11 steps, 0 –'right'→ 1 –'right'→ 2 … –'up'→ 6>
    """
    P = np.zeros((_SIDE**2, len(_MOVES), _SIDE**2))
    for s in range(_SIDE**2):
        for a in range(len(_MOVES)):
            if s in (_PIT, _GOAL):
                P[s, a, s] = 1.0
                continue
            for b, move in enumerate(_MOVES.values()):
                P[s, a, _moved(s, move)] += _CHOSEN if a == b else _OTHER
    mdp = MDP.from_arrays(P, np.array(_REWARD, dtype=float), actions=_MOVES)
    mdp = mdp.with_labels({"goal": [_GOAL], "danger": [_PIT]}, good="goal", bad="danger")
    path = Path([0, 1, 2, *[_PIT] * 9], ["right", "right", "down", *["up"] * 8])
    story = "The robot went right twice, then down into the pit, where it stayed."
    return Case("grid world", mdp, {"observed": path}, stories={"observed": story}, noun="robot")


def _moved(s: int, move: tuple[int, int]) -> int:
    row, column = divmod(s, _SIDE)
    row = min(max(row + move[0], 0), _SIDE - 1)
    column = min(max(column + move[1], 0), _SIDE - 1)
    return row * _SIDE + column
