"""Tether: exact counterfactuals for Markov decision processes that stay about the episode they started from.

The way through the package: a model (`MDP`), an observation (`Path`), and the counterfactual MDP
that follows from the two (`counterfactual`). Models and episodes come from code, from files
(`tether.interop`) or are learned from logs (`learn`).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tether import cases
from tether._version import __version__
from tether.classify import Classes
from tether.counterfactual import CounterfactualMDP, counterfactual
from tether.counts import Counts
from tether.errors import FileError, ModelError, PathError, Problem, QueryError, TetherError
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

if TYPE_CHECKING:
    from tether import interop, plot
    from tether.episodes import Episodes
    from tether.interop.gym import from_gymnasium
    from tether.learning.learn import learn
    from tether.learning.learned import Learned, learned
    from tether.uncertainty.posterior import Posterior, posterior
    from tether.uncertainty.records import ChangedAction, PlanUncertainty, SweepUncertainty

__all__ = [
    "MDP",
    "ChangedAction",
    "Classes",
    "CounterfactualMDP",
    "Counts",
    "Course",
    "Episodes",
    "Evaluation",
    "ExplainedStep",
    "Explanation",
    "FileError",
    "Front",
    "GumbelMax",
    "Learned",
    "ModelError",
    "Path",
    "PathError",
    "Plan",
    "PlanUncertainty",
    "Point",
    "Posterior",
    "Problem",
    "QueryError",
    "SampledGumbelMax",
    "Solution",
    "Sweep",
    "SweepUncertainty",
    "Tailoring",
    "TetherError",
    "Trajectories",
    "Why",
    "__version__",
    "cases",
    "counterfactual",
    "effective",
    "from_gymnasium",
    "interop",
    "learn",
    "learned",
    "plot",
    "posterior",
    "tv",
]

# What not every user needs is loaded when it is first asked for, so that `import tether` stays quick.
_LATER = {
    "ChangedAction": "tether.uncertainty.records",
    "Episodes": "tether.episodes",
    "Learned": "tether.learning.learned",
    "PlanUncertainty": "tether.uncertainty.records",
    "Posterior": "tether.uncertainty.posterior",
    "SweepUncertainty": "tether.uncertainty.records",
    "from_gymnasium": "tether.interop.gym",
    "interop": "tether.interop",
    "learn": "tether.learning.learn",
    "learned": "tether.learning.learned",
    "plot": "tether.plot",
    "posterior": "tether.uncertainty.posterior",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'tether' has no attribute {name!r}")
    module = import_module(_LATER[name])
    return globals().setdefault(name, module if name in ("interop", "plot") else getattr(module, name))


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
