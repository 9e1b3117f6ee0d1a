"""The eight-state example of the paper's figures on k = 1 and k = 2."""

from __future__ import annotations

from tether.cases.case import Case
from tether.mdp import MDP
from tether.observation.path import Path

_TRANSITIONS = [
    ("s0", "a0", "s2", 0.5),
    ("s0", "a0", "s3", 0.5),
    ("s0", "a1", "s1", 1.0),
    ("s1", "a0", "s4", 1.0),
    ("s2", "a0", "s5", 1.0),
    ("s3", "a0", "s5", 1.0),
    ("s3", "a1", "s6", 1.0),
    ("s4", "a0", "s7", 1.0),
    ("s5", "a0", "s7", 1.0),
    ("s6", "a0", "s7", 1.0),
    ("s7", "a0", "s7", 1.0),
]


def toy() -> Case:
    """Ten transitions of the paper's table and an absorbing s7; no rewards.

    Examples
    --------
    >>> import tether
    >>> tether.cases.toy().path
    <Path: 4 steps, 's0' –'a0'→ 's2' –'a0'→ 's5' –'a0'→ 's7' –'a0'→ 's7'>
    """
    mdp = MDP.from_table(*zip(*_TRANSITIONS, strict=True))
    path = Path(["s0", "s2", "s5", "s7", "s7"], ["a0"] * 4)
    return Case("toy", mdp, {"observed": path}, stories={"observed": "From s0 always by a0: to s2, to s5, and to s7."})
