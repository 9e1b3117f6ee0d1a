"""The question of an audit with everything that is the same for all episodes; and the single calls for one episode.

An answer is that of `tether.counterfactual(mdp, path).plan(k, m)`, its exact evaluation and its certificate.
`tether.auditing.batched` computes it for any number of episodes, also for one. The single calls say why there is none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints
from tether._foundation.rounding import rounding_of
from tether.auditing.answer_arrays import outcome_codes
from tether.auditing.audit_question import Question
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.evaluation.certificate import Certificate, certificate_of, why_uncertified
from tether.evaluation.disagreement import is_worse, sides_of
from tether.evaluation.evaluate import evaluate_policy
from tether.mdp import MDP
from tether.model.model_record import ModelRecord
from tether.observation.changes import absorbing
from tether.observation.path import Observation, Path
from tether.plan.plan_record import PlanRecord
from tether.plan.policy import follows_the_record, shares_of_pairs
from tether.plan.tether_record import tether

if TYPE_CHECKING:
    from tether.learning.posterior import Posterior


_Made = TypeVar("_Made")


@dataclass(frozen=True, eq=False)
class PreparedQuestion:
    """A model and a question, and everything that is the same for all episodes: made once per process."""

    mdp: MDP
    question: Question
    codes: Ints
    posterior: Posterior | None
    _known: dict[tuple[int, int], float] = field(default_factory=dict)
    _made: dict[str, Any] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def once(self, name: str, make: Callable[[], _Made]) -> _Made:
        """The result of ``make``, computed once for all threads."""
        with self._lock:
            if name not in self._made:
                self._made[name] = make()
            made: _Made = self._made[name]
            return made

    @classmethod
    def of(cls, mdp: MDP, question: Question) -> PreparedQuestion:
        """The question, prepared for a model."""
        mdp, question = _up_to_its_bound(mdp, question.bound(mdp))
        drawn = None
        if question.draws and question.split is None:
            from tether.learning.posterior import posterior

            drawn = posterior(mdp, question.draws, rng=question.seed)
        return cls(mdp, question, outcome_codes(mdp), drawn)

    @cached_property
    def shares(self) -> Floats:
        """How often each pair is usually taken in its state."""
        return shares_of_pairs(self.mdp)

    @cached_property
    def sides(self) -> tuple[Flags, Flags]:
        """Which states are a good end, and which a bad one."""
        return sides_of(self.mdp)

    @cached_property
    def absorbing(self) -> Flags:
        """Which states are absorbing."""
        return absorbing(self.mdp.form, np.arange(self.mdp.n_states))

    def worse_ends(self, good: Any, bad: Any, gain: Any, observed: Any, last: Any) -> Any:
        """Whether plans gain return, but have a worse end than what happened: 1 or 0; -1 where that is not known.

        ``good`` and ``bad`` are the chances of such an end under each plan, and ``last`` the last observed state. Of an
        episode that is still under way in a learned model, the end is not known.
        """
        was_good, was_bad = (one[np.maximum(last, 0)] for one in self.sides)
        known = (last >= 0) & (self.sides[0].any() or self.sides[1].any())
        if self.mdp.counts is not None:
            known &= self.absorbing[np.maximum(last, 0)]
        if self.question.policy is not None or self.question.objective is not None:
            return np.full(np.shape(last), -1)
        with np.errstate(invalid="ignore"):
            worse = is_worse(good, was_good, bad, was_bad) & (gain > rounding_of(observed))
        return np.where(known, worse.astype(np.int64), -1)

    def model_value(self, start: int, steps: int) -> float:
        """The value of the policy for anyone who starts in a state, without an observation."""
        policy = self.question.policy
        if policy is None or follows_the_record(policy):
            return float("nan")
        known = self._known.get((start, steps))
        if known is None:
            first = self.mdp.states[start]
            known = self.mdp.evaluate(self.question.policy, steps, start=first, objective=self.question.objective).value
            self._known[start, steps] = known
        return known


def _up_to_its_bound(mdp: MDP, question: Question) -> tuple[MDP, Question]:
    """A model and a question that end where a property within n steps does: nothing later matters to it."""
    steps = question.steps
    if steps is None:
        return mdp, question
    horizon, then = question.horizon, question.then
    if horizon is not None:
        horizon = min(horizon, steps)
    elif mdp.counts is not None and mdp.horizon is None:
        horizon, then = steps, "usual"
    ends = mdp if mdp.horizon is None else replace(mdp, horizon=min(mdp.horizon, steps))
    return ends, replace(question, horizon=horizon, then=then, longest=min(question.longest, steps))


def plan_alone(asked: PreparedQuestion, seen: Observation) -> PlanRecord:
    """The plan for one episode, by the single calls."""
    question, cf = asked.question, conditioned_on(asked.mdp, seen, asked.question)
    tied = tether(cf, question.rule, question.influence, question.objective, question.minimise, question.advisable)
    return tied.plan(question.k, question.m)


def certified_alone(asked: PreparedQuestion, seen: Observation) -> Certificate | None:
    """The certificate for one episode, by the single calls; whatever stands in the way of an answer is raised.

    None if no certificate is asked for, or the plan has none.
    """
    question, plan = asked.question, None
    if question.policy is None:
        plan = plan_alone(asked, seen)
        cf = plan.cf
    else:
        cf = conditioned_on(asked.mdp, seen, question)
        evaluate_policy(cf, question.policy, question.influence, question.objective)
    if not question.is_certified or (plan is not None and why_uncertified(plan)):
        return None
    return certificate_of(cf, question.policy if plan is None else plan, compare=False)


def conditioned_on(mdp: ModelRecord, seen: Observation | Path, question: Question) -> CounterfactualRecord:
    """The model conditioned on one episode of a log, with the horizon of the audit.

    By default an episode that ended early is asked about up to the length of the longest one.
    """
    then, how = question.then, question.mechanism
    if question.horizon is not None or mdp.counts is not None:
        return CounterfactualRecord.of(mdp, seen, how, horizon=question.horizon, then=then)
    cf = CounterfactualRecord.of(mdp, seen, how, then=then)
    if cf.is_under_way or question.longest <= (cf.horizon or 0):
        return cf
    return CounterfactualRecord.of(mdp, seen, how, horizon=max(question.longest, mdp.horizon or 0), then=then)
