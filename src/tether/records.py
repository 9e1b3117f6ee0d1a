"""Classes of the results that calls return: for annotations and `isinstance`; none needs to be constructed.

The names imported here are the public ones, and there is no other list.

>>> import tether
>>> case = tether.cases.grid_world()
>>> plan = tether.counterfactual(case.mdp, case.path).plan(k=1, m=1)
>>> isinstance(plan, tether.records.Plan)
True
"""

from tether.auditing.consistency import Consistency as Consistency
from tether.auditing.consistency import LuckTest as LuckTest
from tether.auditing.placebos import Placebo as Placebo
from tether.auditing.typed_audit import TypedAudit as TypedAudit
from tether.evaluation.certificate import Certificate as Certificate
from tether.evaluation.certificate import Certified as Certified
from tether.evaluation.evaluate import Evaluation as Evaluation
from tether.evaluation.fixed_sequences import FixedSequence as FixedSequence
from tether.evaluation.hindsight import AdvisedChange as AdvisedChange
from tether.evaluation.hindsight import AdvisedChanges as AdvisedChanges
from tether.evaluation.hindsight import Hindsight as Hindsight
from tether.evaluation.necessity import NecessityBounds as NecessityBounds
from tether.evaluation.panel import Advice as Advice
from tether.evaluation.panel import MechanismPanel as MechanismPanel
from tether.evaluation.plan_risk import Risk as Risk
from tether.evaluation.return_distribution import ReturnDistribution as ReturnDistribution
from tether.evaluation.returns import Course as Course
from tether.evaluation.shares import Share as Share
from tether.evaluation.shares import Shares as Shares
from tether.evaluation.tailoring import Tailoring as Tailoring
from tether.evaluation.trajectories import Trajectories as Trajectories
from tether.evaluation.typed_certificate import TypedCertificate as TypedCertificate
from tether.evaluation.typed_evaluation import TypedEvaluation as TypedEvaluation
from tether.explanation.decisions import Decision as Decision
from tether.explanation.decisions import Decisions as Decisions
from tether.explanation.evidence import Evidence as Evidence
from tether.explanation.explain import Explanation as Explanation
from tether.explanation.history_explanation import HistoryStep as HistoryStep
from tether.explanation.limited_explanation import LimitedExplanation as LimitedExplanation
from tether.explanation.limited_explanation import LimitedStep as LimitedStep
from tether.explanation.mistakes import Review as Review
from tether.explanation.mistakes import ReviewedStep as ReviewedStep
from tether.explanation.outcome_chances import OutcomeChance as OutcomeChance
from tether.explanation.outcome_chances import Outcomes as Outcomes
from tether.explanation.replay import Ending as Ending
from tether.explanation.replay import Replay as Replay
from tether.explanation.replay import Stretch as Stretch
from tether.explanation.sentences import Answer as Answer
from tether.explanation.steps import ExplainedStep as ExplainedStep
from tether.explanation.typed_decisions import TypedDecision as TypedDecision
from tether.explanation.typed_decisions import TypedDecisions as TypedDecisions
from tether.explanation.typed_explanation import TypedExplanation as TypedExplanation
from tether.explanation.typed_explanation import TypedStep as TypedStep
from tether.explanation.typed_review import TypedReview as TypedReview
from tether.explanation.verdicts import Nouns as Nouns
from tether.explanation.verdicts import Verdict as Verdict
from tether.explanation.verdicts import Verdicts as Verdicts
from tether.explanation.what_if import WhatIf as WhatIf
from tether.influence.advisable import Advisable as Advisable
from tether.influence.classes import Classes as Classes
from tether.influence.why import Why as Why
from tether.io.conversion import EpisodeModel as EpisodeModel
from tether.learning.learned_types import LearnedTypes as LearnedTypes
from tether.learning.posterior import Posterior as Posterior
from tether.learning.uncertainty import ChangedAction as ChangedAction
from tether.learning.uncertainty import PlanUncertainty as PlanUncertainty
from tether.learning.uncertainty import SweepUncertainty as SweepUncertainty
from tether.model.as_arrays import ModelArrays as ModelArrays
from tether.model.counts import Counts as Counts
from tether.model.counts import Pooling as Pooling
from tether.model.learned import Learned as Learned
from tether.model.names import Names as Names
from tether.model.names import Tracked as Tracked
from tether.model.practice import Advantage as Advantage
from tether.model.practice import Practice as Practice
from tether.model.properties import Property as Property
from tether.objects.audit_object import Audit as Audit
from tether.objects.counterfactual_object import CounterfactualMDP as CounterfactualMDP
from tether.objects.limited_object import LimitedPlan as LimitedPlan
from tether.objects.plan_object import Plan as Plan
from tether.objects.robust_object import Robust as Robust
from tether.objects.robust_object import RobustPlan as RobustPlan
from tether.objects.rules_object import Rules as Rules
from tether.objects.tether_object import Tethered as Tethered
from tether.objects.types_object import TypedCounterfactual as TypedCounterfactual
from tether.objects.types_object import TypedPlan as TypedPlan
from tether.observation.earned import Earned as Earned
from tether.plan.constrained import Constraint as Constraint
from tether.plan.constrained import Mixture as Mixture
from tether.plan.lifted import LiftedPlan as LiftedPlan
from tether.plan.pareto import Front as Front
from tether.plan.pareto import Point as Point
from tether.plan.saved_results import SavedPlan as SavedPlan
from tether.plan.saved_results import SavedSweep as SavedSweep
from tether.plan.solution import Solution as Solution
from tether.plan.sweep import Sweep as Sweep
from tether.plan.typed_plan import TypedSweep as TypedSweep
from tether.plan.typed_record import TypesOverTime as TypesOverTime
from tether.plan.unfolded import CounterfactualRows as CounterfactualRows
from tether.ruling.comparing import ComparedGroup as ComparedGroup
from tether.ruling.comparing import Comparison as Comparison
from tether.ruling.one_rule import OneRule as OneRule
from tether.ruling.rule_results import EvaluatedRule as EvaluatedRule
from tether.ruling.rule_results import RulePolicy as RulePolicy
