"""Tether: exact counterfactuals for Markov decision processes that stay about the episode they started from.

The way through the package: a model (`MDP`), an observation (`Path`), and the counterfactual MDP
that follows from the two (`counterfactual`).
"""

from tether import cases
from tether._version import __version__
from tether.classify import Classes
from tether.counterfactual import CounterfactualMDP, counterfactual
from tether.errors import ModelError, PathError, Problem, QueryError, TetherError
from tether.evaluation import Course, Evaluation, Tailoring, Trajectories
from tether.explain import ExplainedStep, Explanation
from tether.influence import effective, tv
from tether.mechanism import GumbelMax, SampledGumbelMax
from tether.model import MDP
from tether.nominal import Solution
from tether.observation import Path
from tether.planning import Plan, Sweep
from tether.tradeoff import Front, Point
from tether.why import Why

__all__ = [
    "MDP",
    "Classes",
    "CounterfactualMDP",
    "Course",
    "Evaluation",
    "ExplainedStep",
    "Explanation",
    "Front",
    "GumbelMax",
    "ModelError",
    "Path",
    "PathError",
    "Plan",
    "Point",
    "Problem",
    "QueryError",
    "SampledGumbelMax",
    "Solution",
    "Sweep",
    "Tailoring",
    "TetherError",
    "Trajectories",
    "Why",
    "__version__",
    "cases",
    "counterfactual",
    "effective",
    "tv",
]
