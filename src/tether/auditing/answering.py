"""The answer for each episode of a batch, by the calls for a single episode.

This defines an audit: `tether.counterfactual(mdp, path).plan(k, m)`, its exact evaluation, its certificate.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Ints
from tether._foundation.rounding import gain_of
from tether.auditing.answers import UNRECORDED, VERDICTS, Answers, Change, Row, gather, outcome_codes
from tether.auditing.question import Question
from tether.conditioning.conditioned import CounterfactualMDP, counterfactual
from tether.errors import TetherError
from tether.evaluation.certificate import Certificate, certify, why_uncertified
from tether.evaluation.evaluate import Evaluation
from tether.logs.cohort import Cohort
from tether.mdp import MDP
from tether.observation.changes import is_change
from tether.observation.path import Observation
from tether.plan.backward import observed_value
from tether.plan.objective import asked as asked_of
from tether.plan.plan import Plan

if TYPE_CHECKING:
    from tether.learning.posterior import Posterior

__all__ = ["PreparedQuestion", "answer_each", "answer_one"]


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
        """Prepare to answer."""
        drawn = None
        if question.draws:
            from tether.learning.posterior import posterior

            drawn = posterior(mdp, question.draws, rng=question.seed)
        return cls(mdp, question, outcome_codes(mdp), drawn)

    def model_value(self, start: int, steps: int) -> float:
        """The value of the policy for anyone who starts in a state, without an observation."""
        policy = self.question.policy
        if policy is None or (isinstance(policy, str) and policy == "observed"):
            return float("nan")
        known = self._known.get((start, steps))
        if known is None:
            first = self.mdp.states[start]
            known = self.mdp.evaluate(self.question.policy, steps, start=first, objective=self.question.objective).value
            self._known[start, steps] = known
        return known


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
    cf = counterfactual(asked.mdp, seen)
    if question.policy is None:
        tied = cf.tether(
            rule=question.rule, influence=question.influence, objective=question.objective, minimise=question.minimise
        )
        plan = tied.plan(question.k, question.m)
        return _row(asked, cf, plan, plan.evaluate(), plan.value)
    outlook = cf.evaluate(question.policy, influence=question.influence, objective=question.objective)
    return _row(asked, cf, None, outlook, outlook.value)


def _row(asked: PreparedQuestion, cf: CounterfactualMDP, plan: Plan | None, outlook: Evaluation, value: float) -> Row:
    tailoring, earned, last = outlook.tailoring, cf.earned, int(cf.observation.states[-1])
    observed = observed_value(asked_of(cf, asked.question.objective))
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
        verdict=-1 if certificate is None else VERDICTS.index(certificate.verdict),
        credible_low=low,
        credible_high=high,
        model_value=asked.model_value(int(cf.observation.states[0]), cf.T),
    )


def _certificate(asked: PreparedQuestion, cf: CounterfactualMDP, plan: Plan | None) -> Certificate | None:
    if not asked.question.certify or asked.question.objective is not None:
        return None
    if plan is None:
        return certify(cf, asked.question.policy)
    return None if why_uncertified(plan) else plan.certify()


def likeliest_changes(cf: CounterfactualMDP, outlook: Evaluation) -> list[Change]:
    """The likeliest change of each step that may change; of equally likely ones, the first by state and action."""
    form, found = cf.mdp.form, []
    for t, decided in enumerate(outlook.chain.taken):
        states, observed = outlook.chain.visits[t].states[decided.source], int(cf.observation.actions[t])
        differs = np.flatnonzero(is_change(form, states, decided.pairs, observed) & ~outlook.chain.at_rest(t))
        if differs.size == 0:
            continue
        pairs, which = np.unique(decided.pairs[differs], return_inverse=True)
        weight = outlook.occupancy[t][decided.source[differs]] * decided.probability[differs]
        chance = np.bincount(which.reshape(-1), weight)
        best = int(np.argmax(chance))
        pair = int(pairs[best])
        state = int(np.searchsorted(form.pair_start, pair, side="right")) - 1
        found.append(Change(t, state, observed, int(form.pair_action[pair]), float(chance[best])))
    return found


def _ends(asked: PreparedQuestion, outlook: Evaluation) -> list[tuple[int, float]]:
    """The probability of each class of outcomes at the end, by code, ascending."""
    codes = asked.codes[outlook.chain.visits[-1].states]
    classes, which = np.unique(codes, return_inverse=True)
    chance: Any = np.bincount(which.reshape(-1), outlook.occupancy[-1])
    return [(int(code), float(one)) for code, one in zip(classes, chance, strict=True) if one > 0]
