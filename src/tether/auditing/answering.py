"""The answer for each episode of a batch, by the calls for a single episode.

This defines an audit: `tether.counterfactual(mdp, path).plan(k, m)`, its exact evaluation, its certificate.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints
from tether._foundation.rounding import gain_of, rounding_of
from tether.auditing.answer_arrays import UNRECORDED, Answers, Change, Row, gather, outcome_codes
from tether.auditing.audit_question import Question
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.errors import QueryError, TetherError
from tether.evaluation.certificate import VERDICTS, Certificate, certificate_of, why_uncertified
from tether.evaluation.disagreement import is_worse, sides_of
from tether.evaluation.evaluate import Evaluation, evaluate_plan, evaluate_policy
from tether.evaluation.plan_risk import risk_of
from tether.evaluation.review import Batch, horizons
from tether.evaluation.sightings import least_sightings
from tether.evaluation.tailoring import about_plan
from tether.explanation.mistakes import value_in_replay
from tether.logs.cohort import Cohort
from tether.mdp import MDP
from tether.model.model_record import ModelRecord
from tether.observation.changes import absorbing, done_then, is_change
from tether.observation.path import Observation, Path
from tether.plan.best_values import observed_value
from tether.plan.objective import asked as asked_of
from tether.plan.plan_record import PlanRecord
from tether.plan.policy import follows_the_record, shares_of_pairs
from tether.plan.standard import Standard
from tether.plan.tether_record import tether

if TYPE_CHECKING:
    from tether.learning.posterior import Posterior


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

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """The result of ``make``, computed once for all threads."""
        with self._lock:
            if name not in self._made:
                self._made[name] = make()
            return self._made[name]

    @classmethod
    def of(cls, mdp: MDP, question: Question) -> PreparedQuestion:
        """The question, prepared for a model."""
        mdp, question = _up_to_its_bound(mdp, question.bound(mdp))
        drawn = None
        if question.draws and question.split is None:
            from tether.learning.posterior import posterior

            drawn = posterior(mdp, question.draws, rng=question.seed)
        return cls(mdp, question, outcome_codes(mdp), drawn)

    @property
    def shares(self) -> Floats:
        """How often each pair is usually taken in its state."""
        found: Floats = self.once("shares", lambda: shares_of_pairs(self.mdp))
        return found

    @property
    def sides(self) -> tuple[Flags, Flags]:
        """Which states are a good end, and which a bad one."""
        found: tuple[Flags, Flags] = self.once("sides", lambda: sides_of(self.mdp))
        return found

    def worse_ends(self, good: Any, bad: Any, gain: Any, observed: Any, last: Any) -> Any:
        """Whether plans gain return, but have a worse end than what happened: 1 or 0; -1 where that is not known.

        ``good`` and ``bad`` are the chances of such an end under each plan, and ``last`` the last observed state. Of an
        episode that is still under way in a learned model, the end is not known.
        """
        was_good, was_bad = (one[np.maximum(last, 0)] for one in self.sides)
        known = (last >= 0) & (self.sides[0].any() or self.sides[1].any())
        if self.mdp.counts is not None:
            known &= self._ends[np.maximum(last, 0)]
        if self.question.policy is not None or self.question.objective is not None:
            return np.full(np.shape(last), -1)
        with np.errstate(invalid="ignore"):
            worse = is_worse(good, was_good, bad, was_bad) & (gain > rounding_of(observed))
        return np.where(known, worse.astype(np.int64), -1)

    @property
    def _ends(self) -> Flags:
        found: Flags = self.once("ends", lambda: absorbing(self.mdp.form, np.arange(self.mdp.n_states)))
        return found

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


def answer_each(asked: PreparedQuestion, cohort: Cohort) -> Answers:
    """Answer the episodes one after the other; for an episode that cannot be answered, a sentence says why."""
    rows: list[Row | str] = []
    for i, problem in enumerate(cohort.problem):
        if problem is not None:
            rows.append(problem)
            continue
        try:
            rows.append(answer_one(asked, cohort.observation(i)))
        except TetherError as error:
            rows.append(str(error))
    return gather(cohort.ids, rows, len(asked.mdp.label_sets.ends))


def answer_one(asked: PreparedQuestion, seen: Observation) -> Row:
    """The answer to one episode."""
    question = asked.question
    cf = conditioned_on(asked.mdp, seen, question)
    if question.policy is None:
        tied = tether(cf, question.rule, question.influence, question.objective, question.minimise, question.advisable)
        plan = tied.plan(question.k, question.m)
        return _row(asked, cf, plan, evaluate_plan(plan), plan.value)
    outlook = evaluate_policy(cf, question.policy, question.influence, question.objective)
    return _row(asked, cf, None, outlook, outlook.value)


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


def _row(
    asked: PreparedQuestion, cf: CounterfactualRecord, plan: PlanRecord | None, outlook: Evaluation, value: float
) -> Row:
    tailoring, earned, last = outlook.tailoring, cf.earned, int(cf.observation.states[-1])
    observed = observed_value(asked_of(cf, asked.question.objective, asked.question.minimise))
    assert tailoring is not None
    chances = outlook.outcomes()
    certificate = _certificate(asked, cf, plan)
    low, high = (np.nan, np.nan)
    if asked.posterior is not None and plan is not None:
        low, high = asked.posterior.of(plan).interval()
    return Row(
        steps=cf.T,
        observed=observed,
        logged=np.nan if earned is None else earned.logged,
        outcome=UNRECORDED if last < 0 else int(asked.codes[last]),
        value=value,
        gain=gain_of(value, observed) if plan is None else plan.gain,
        k=-1 if plan is None else plan.k,
        m=-1 if plan is None else plan.m,
        changes=likeliest_changes(cf, outlook),
        labels=[chances[name] for name in cf.mdp.label_sets.ends],
        ends=_ends(asked, outlook),
        strength=tailoring.mean_strength(),
        influenced_steps=tailoring.expected_influenced_steps,
        guaranteed_gain=np.nan if certificate is None else certificate.gain,
        gamma_star=np.nan if certificate is None else certificate.gamma_star,
        verdict=-1 if certificate is None else VERDICTS.index(certificate.verdict),
        least_seen=_least_seen(cf, asked.question.policy if plan is None else plan),
        credible_low=low,
        credible_high=high,
        model_value=np.nan if cf.horizon is None else asked.model_value(int(cf.observation.states[0]), cf.horizon),
        about_episode=np.nan if plan is None else about_plan(plan),
        p_worse=np.nan if plan is None or cf.after is not None else risk_of(plan).worse,
        foreseeable=_best_value(asked, cf),
        worse_end=_worse_end(asked, outlook, np.nan if plan is None else plan.gain, observed, last),
    )


def _worse_end(asked: PreparedQuestion, outlook: Evaluation, gain: float, observed: float, last: int) -> int:
    states, chance = outlook.ends
    good, bad = (float(chance @ one[states]) for one in asked.sides)
    return int(asked.worse_ends(good, bad, gain, observed, np.array(last)))


def _least_seen(cf: CounterfactualRecord, policy: Any) -> int:
    least = least_sightings(cf, policy)
    return -1 if least is None else least


def _best_value(asked: PreparedQuestion, cf: CounterfactualRecord) -> float:
    """The value of the plain model's best policy with the luck of an episode; NaN where the model has no value."""
    question, mdp = asked.question, asked.mdp
    longest = max(question.longest, mdp.horizon or 0)
    until = int(horizons(mdp, Batch.of(cf.observation), question.horizon, longest)[0])
    try:
        value = value_in_replay(cf, Standard(mdp, "best", question.objective, question.minimise), until)
    except QueryError:
        return np.nan
    return value if np.isfinite(value) else np.nan


def _certificate(asked: PreparedQuestion, cf: CounterfactualRecord, plan: PlanRecord | None) -> Certificate | None:
    if not asked.question.certify or asked.question.objective is not None:
        return None
    if plan is None:
        return certificate_of(cf, asked.question.policy, compare=False)
    return None if why_uncertified(plan) else certificate_of(cf, plan, compare=False)


def likeliest_changes(cf: CounterfactualRecord, outlook: Evaluation) -> list[Change]:
    """The likeliest change of each step that may change; of equally likely ones, the first by state and action."""
    form, found = cf.mdp.form, []
    for t, decided in enumerate(outlook.chain.taken):
        states, observed = outlook.chain.visits[t].states[decided.source], int(cf.observation.actions[t])
        recorded = done_then(form, np.array([t]), cf.observation.states[t : t + 1], np.array([observed]))
        differs = np.flatnonzero(is_change(form, states, decided.pairs, observed) & ~outlook.chain.at_rest(t))
        if differs.size == 0:
            continue
        pairs, which = np.unique(decided.pairs[differs], return_inverse=True)
        weight = outlook.occupancy[t][decided.source[differs]] * decided.probability[differs]
        chance = np.bincount(which.reshape(-1), weight)
        best = int(np.argmax(chance))
        pair = int(pairs[best])
        state = int(np.searchsorted(form.pair_start, pair, side="right")) - 1
        found.append(Change(t, state, int(recorded[0]), int(form.pair_action[pair]), float(chance[best])))
    return found


def _ends(asked: PreparedQuestion, outlook: Evaluation) -> list[tuple[int, float]]:
    """The probability of each class of outcomes at the end, by code, ascending."""
    states, probability = outlook.ends
    classes, which = np.unique(asked.codes[states], return_inverse=True)
    chance: Any = np.bincount(which.reshape(-1), probability)
    return [(int(code), float(one)) for code, one in zip(classes, chance, strict=True) if one > 0]
