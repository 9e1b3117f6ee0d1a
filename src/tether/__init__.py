"""Tether: exact counterfactuals for Markov decision processes that stay about the episode they started from.

The way through the package: a model (`MDP`), an observation (`Path`), and the counterfactual MDP
that follows from the two (`counterfactual`).
"""

from tether import cases
from tether._version import __version__
from tether.counterfactual import CounterfactualMDP, counterfactual
from tether.errors import ModelError, PathError, Problem, QueryError, TetherError
from tether.mechanism import GumbelMax, SampledGumbelMax
from tether.model import MDP
from tether.observation import Path

__all__ = [
    "MDP",
    "CounterfactualMDP",
    "GumbelMax",
    "ModelError",
    "Path",
    "PathError",
    "Problem",
    "QueryError",
    "SampledGumbelMax",
    "TetherError",
    "__version__",
    "cases",
    "counterfactual",
]
