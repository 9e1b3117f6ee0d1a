"""Writing a model for another tool: rewards it can hold, numbers that are read back exactly."""

from __future__ import annotations

import os

import numpy as np

from tether._foundation.arrays import Floats
from tether.errors import FileError, Problem, QueryError
from tether.io.plaintext import File
from tether.mdp import MDP

__all__ = ["entry_rewards", "pair_rewards", "spelled", "target_of"]


def target_of(mdp: MDP, file: File) -> str:
    """The name of the file to write a model to; both are checked."""
    if not isinstance(mdp, MDP):
        raise QueryError(f"expected a tether.MDP, not {type(mdp).__name__}")
    if not isinstance(file, str | os.PathLike):
        raise QueryError(f"expected the name of a file, not {file!r}")
    name = os.fspath(file)
    if "\0" in name:
        raise FileError(Problem(f"{name!r} is not the name of a file: it has a NUL in it", value=name))
    return name


def spelled(values: Floats) -> list[str]:
    """Numbers as text: the shortest text that is read back exactly.

    >>> spelled(np.array([0.1, 1.0, -2e300]))
    ['0.1', '1', '-2e+300']
    """
    return [text.removesuffix(".0") for text in map(repr, values.tolist())]


def entry_rewards(mdp: MDP, tool: str) -> Floats:
    """The reward of every transition."""
    _refuse_timed(mdp, tool)
    values = mdp.rewards.values
    return values if mdp.rewards.by_entry else np.repeat(values, np.diff(mdp.form.row_start))


def pair_rewards(mdp: MDP, tool: str, mean: bool) -> Floats:
    """The reward of every pair; with ``mean_rewards``, the mean over its transitions."""
    _refuse_timed(mdp, tool)
    values = mdp.rewards.values
    if not mdp.rewards.by_entry:
        return values
    if not mean:
        what = f"{tool} holds rewards of actions, but those of this model depend on the next state"
        fix = "mean_rewards=True writes their means, R(s, a) = Σ P(s'|s, a)·R(s, a, s')"
        raise QueryError(Problem(what, fix=fix, argument="mean_rewards"))
    return np.add.reduceat(values * mdp.form.probability, mdp.form.row_start[:-1])


def _refuse_timed(mdp: MDP, tool: str) -> None:
    if mdp.rewards.horizon is not None:
        raise QueryError(f"the rewards of this model depend on time, which {tool} does not hold; use MDP.save")
