"""Tether: exact counterfactuals for Markov decision processes that stay about the episode they started from.

The way through the package: a model (`MDP`), an observation (`Path`), and the counterfactual MDP
that follows from the two (`counterfactual`). Models and episodes come from code, from files
(`tether.io`) or are learned from logs (`learn`).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tether import cases
from tether._version import __version__
from tether.auditing.audit import audit
from tether.auditing.result import Audit
from tether.conditioning.conditioned import CounterfactualMDP, counterfactual
from tether.conditioning.couplings import Comonotone, Independent, Maximal
from tether.conditioning.gumbel_max import GumbelMax
from tether.conditioning.sampled import SampledGumbelMax
from tether.errors import FileError, ModelError, PathError, Problem, QueryError, TetherError
from tether.evaluation.course import Course
from tether.evaluation.evaluate import Evaluation
from tether.evaluation.plain import Solution
from tether.evaluation.tailoring import Tailoring
from tether.evaluation.trajectories import Trajectories
from tether.explanation.evidence import Evidence
from tether.explanation.explain import Explanation
from tether.explanation.outcomes import OutcomeChance, Outcomes
from tether.explanation.sentences import Answer
from tether.explanation.steps import ExplainedStep
from tether.influence.classes import Classes
from tether.influence.one_step import effective, tv
from tether.influence.why import Why
from tether.model.counts import Counts, Pooling
from tether.model.mdp import MDP
from tether.model.properties import Property, avoid, reach, until
from tether.observation.earned import Earned
from tether.observation.path import Path
from tether.plan.pareto import Front, Point
from tether.plan.plan import Plan
from tether.plan.sweep import Sweep

if TYPE_CHECKING:
    from tether import io, views
    from tether.evaluation.certificate import Certificate, Certified, certify
    from tether.evaluation.necessity import NecessityBounds
    from tether.evaluation.panel import Advice, MechanismPanel, compare_mechanisms
    from tether.evaluation.shares import Share, Shares
    from tether.explanation.decisions import Decision, Decisions
    from tether.explanation.mistakes import Review, ReviewedStep, review
    from tether.explanation.what_if import WhatIf
    from tether.io.gym import from_gymnasium
    from tether.learning.learn import learn
    from tether.learning.posterior import Posterior, posterior
    from tether.learning.uncertainty import ChangedAction, PlanUncertainty, SweepUncertainty
    from tether.model.learned import Learned
    from tether.model.practice import Advantage, Practice, practice
    from tether.observation.episodes import Episodes
    from tether.plan.constrained import Constraint, Mixture
    from tether.plan.robust import Robust, RobustPlan, robust
    from tether.plan.tethered import Tethered
    from tether.plan.tracked import Tracked

__all__ = [
    "MDP",
    "Advantage",
    "Advice",
    "Answer",
    "Audit",
    "Certificate",
    "Certified",
    "ChangedAction",
    "Classes",
    "Comonotone",
    "Constraint",
    "CounterfactualMDP",
    "Counts",
    "Course",
    "Decision",
    "Decisions",
    "Earned",
    "Episodes",
    "Evaluation",
    "Evidence",
    "ExplainedStep",
    "Explanation",
    "FileError",
    "Front",
    "GumbelMax",
    "Independent",
    "Learned",
    "Maximal",
    "MechanismPanel",
    "Mixture",
    "ModelError",
    "NecessityBounds",
    "OutcomeChance",
    "Outcomes",
    "Path",
    "PathError",
    "Plan",
    "PlanUncertainty",
    "Point",
    "Pooling",
    "Posterior",
    "Practice",
    "Problem",
    "Property",
    "QueryError",
    "Review",
    "ReviewedStep",
    "Robust",
    "RobustPlan",
    "SampledGumbelMax",
    "Share",
    "Shares",
    "Solution",
    "Sweep",
    "SweepUncertainty",
    "Tailoring",
    "TetherError",
    "Tethered",
    "Tracked",
    "Trajectories",
    "WhatIf",
    "Why",
    "__version__",
    "audit",
    "avoid",
    "cases",
    "certify",
    "compare_mechanisms",
    "counterfactual",
    "effective",
    "from_gymnasium",
    "io",
    "learn",
    "posterior",
    "practice",
    "reach",
    "review",
    "robust",
    "tv",
    "until",
    "views",
]

# Names that not every user needs are loaded when they are first used, so that `import tether` stays fast.
_LATER = {
    "Constraint": "tether.plan.constrained",
    "Mixture": "tether.plan.constrained",
    "Tracked": "tether.plan.tracked",
    "Certificate": "tether.evaluation.certificate",
    "Certified": "tether.evaluation.certificate",
    "Decision": "tether.explanation.decisions",
    "Decisions": "tether.explanation.decisions",
    "NecessityBounds": "tether.evaluation.necessity",
    "Review": "tether.explanation.mistakes",
    "ReviewedStep": "tether.explanation.mistakes",
    "review": "tether.explanation.mistakes",
    "certify": "tether.evaluation.certificate",
    "Robust": "tether.plan.robust",
    "RobustPlan": "tether.plan.robust",
    "Share": "tether.evaluation.shares",
    "Shares": "tether.evaluation.shares",
    "Tethered": "tether.plan.tethered",
    "WhatIf": "tether.explanation.what_if",
    "robust": "tether.plan.robust",
    "Advantage": "tether.model.practice",
    "Advice": "tether.evaluation.panel",
    "MechanismPanel": "tether.evaluation.panel",
    "compare_mechanisms": "tether.evaluation.panel",
    "ChangedAction": "tether.learning.uncertainty",
    "Episodes": "tether.observation.episodes",
    "Learned": "tether.model.learned",
    "PlanUncertainty": "tether.learning.uncertainty",
    "Posterior": "tether.learning.posterior",
    "Practice": "tether.model.practice",
    "SweepUncertainty": "tether.learning.uncertainty",
    "from_gymnasium": "tether.io.gym",
    "io": "tether.io",
    "learn": "tether.learning.learn",
    "posterior": "tether.learning.posterior",
    "practice": "tether.model.practice",
    "views": "tether.views",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'tether' has no attribute {name!r}")
    module = import_module(_LATER[name])
    return globals().setdefault(name, module if name in ("io", "views") else getattr(module, name))


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
