"""Explanation: what happened against what the plan would have done, step by step and in sentences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrow import Tabular, table_of
from tether._foundation.markup import html_table, paragraphs
from tether._foundation.rounding import rounding_of
from tether._foundation.words import strength_in_words
from tether.errors import QueryError
from tether.evaluation.certificate import Certificate, certificate_of, why_uncertified
from tether.evaluation.disagreement import Disagreement, disagreement_of
from tether.evaluation.evaluate import Evaluation, chance_of_changes, evaluate_plan, evaluate_policy
from tether.evaluation.fixed_sequences import FixedSequence, fixed_sequence
from tether.evaluation.hindsight import Hindsight, fair_plan, hindsight_of
from tether.evaluation.plain import best_for_anyone
from tether.evaluation.plan_risk import Risk, risk_of
from tether.evaluation.tailoring import about_plan
from tether.explanation.about_episode import left_to_chance
from tether.explanation.evidence import Evidence, default_draws, evidence_of
from tether.explanation.mistakes import Review, review_if_valued
from tether.explanation.outcome_chances import Outcomes, outcomes_of
from tether.explanation.replay import Replay, replay_of
from tether.explanation.sentences import Answer, answer, robust_plan
from tether.explanation.steps import ElsewhereChange, ExplainedStep, changes_elsewhere, explained_steps
from tether.explanation.verdicts import Nouns, Verdicts, verdicts_of
from tether.plan.limits import ABOUT, Beyond, beyond
from tether.plan.plan_record import PlanRecord
from tether.plan.robust_record import RobustPlanRecord

if TYPE_CHECKING:
    import pyarrow

    from tether.learning.folds import CrossFitted
    from tether.learning.uncertainty import PlanUncertainty


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Tabular):
    """A plan put beside what happened.

    Attributes
    ----------
    plan : Plan
    outlook : Evaluation
        The plan, evaluated exactly.
    steps : tuple of ExplainedStep
        t = 0 … T.
    with_certificate : bool
        Whether the sentences include the certificate: what holds under every causal model.
    draws : int
        For a learned model: how many models, of those that its log leaves possible, are drawn; 0 for none.
    rng : int or numpy Generator
        For the draws. The same seed gives the same models.
    progress : callable or None
        ``progress(done, draws)`` is called after each draw.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> explanation = tether.counterfactual(case.mdp, case.path).plan(k=3, m=1).explain()
    >>> for sentence in explanation.sentences():  # doctest: +NORMALIZE_WHITESPACE
    ...     print(sentence)
    6 decisions were mistakes that could be known at the time; together they cost 35.9.
    The largest: at step 1, 'NIL' instead of 'V_I' cost 15.8 of the expected return.
    Bad luck cost 1.14 more, the largest part at step 2.
    Change 1 action: at step 5 'V_I' instead of 'NIL'.
    All of the gain could be foreseen.
    The expected return is -37.11 (at least half of the replays: -37) instead of -38: a gain of 0.8889.
    Of 100 replays, none end worse than what happened, and 89 better.
    From step 5 on, nothing in this is specific to this episode: it is what the model expects of anyone.
    No plan that helps is about this episode.
    5 of the 7 steps are on known ground: what happened tells how chance would have fallen there. The longest
    stretch off it is 2 steps, fewer than k = 3.
    It is expected to do better than what happened, under every causal model in which the luck of one step says nothing
    about the luck of another. The expected return is from -37.12 to -37.01 over all of these that agree with the model
    and the episode; observed -38. If the luck of different steps may be related, it is from -37.14 to -37. The gain
    survives hidden reasons that changed the odds of an action by less than 5.54 times, if all actions are usually taken
    equally often.
    """

    plan: PlanRecord
    outlook: Evaluation
    steps: tuple[ExplainedStep, ...]
    with_certificate: bool = True
    draws: int = 0
    rng: Any = 0
    progress: Callable[[int, int], None] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the evaluation of the plan, which is computed again, and without ``progress``, which is gone by then.
        return _unpickled, (self.plan, self.steps, self.with_certificate, self.draws, self.rng)

    @property
    def changes(self) -> tuple[ExplainedStep, ...]:
        """The steps in which the plan may change the action."""
        return tuple(step for step in self.steps if step.changed > 0)

    @cached_property
    def elsewhere(self) -> tuple[ElsewhereChange, ...]:
        """For a robust plan: its changes where only other causal models than Gumbel-max lead."""
        return changes_elsewhere(self.plan)

    @property
    def logged_return(self) -> float | None:
        """Return of the observed path by its own rewards (`tether.records.Earned`); None for a path without rewards."""
        return self.plan.logged_return

    @cached_property
    def review(self) -> Review | None:
        """Mistake or luck; None if the plain model has no value, because a state without actions can be reached."""
        return review_if_valued(self.plan.cf, self.plan.objective, self.plan.minimise)

    @cached_property
    def hindsight(self) -> Hindsight | None:
        """What of the gain could be foreseen, and what only hindsight knows; None for a plan that is not compared.

        Plans with a guaranteed value, or within a limit on a probability, are not compared with a fair one.
        """
        try:
            return hindsight_of(self.plan, fair_plan(self.plan))
        except QueryError:
            return None

    @cached_property
    def simple(self) -> FixedSequence | None:
        """The best fixed sequence of actions; None where it was not looked for, because there are too many to try.

        Plans that are not compared with a fair one are not compared with fixed sequences either.
        """
        try:
            return fixed_sequence(self.plan)
        except QueryError:
            return None

    @cached_property
    def risk(self) -> Risk:
        """How likely a replay is to end worse, or better, than what happened."""
        return risk_of(self.plan)

    @cached_property
    def no_plan_is_about(self) -> bool:
        """Whether something could be gained with m changes, but by no plan that is about this episode."""
        plan = self.plan
        if robust_plan(plan) is not None or plan.constraint is not None or plan.price > 0:
            return False
        gains = plan.gain > rounding_of(plan.observed_value)
        return gains and about_plan(plan) < ABOUT and not plan.question.helps_and_is_about(plan.m)

    @cached_property
    def beyond(self) -> Beyond:
        """What a longer tether, or more changes, would add; computed when asked for, by one sweep."""
        return beyond(self.plan)

    @cached_property
    def outcomes(self) -> Outcomes:
        """How the episode ended, and how it would have ended under the plan and under the policy best for anyone.

        Computed when first used: the plain model is solved for it.
        """
        seen = evaluate_policy(self.plan.cf, "observed", objective=self.plan.objective)
        return outcomes_of({"observed": seen, "plan": self.outlook, "optimal": self.optimal})

    @cached_property
    def disagreement(self) -> Disagreement | None:
        """Where the return and the outcome disagree: the plan gains return, but its end is worse. Usually None."""
        return disagreement_of(self.plan, self.outlook)

    @cached_property
    def optimal(self) -> Evaluation:
        """The policy that is best for anyone in the plain model, in this episode; computed when asked for."""
        plan = self.plan
        return best_for_anyone(plan.cf, plan.objective, plan.minimise)

    @cached_property
    def certificate(self) -> Certificate | None:
        """What holds under every causal model of this episode; None if it is left out, see ``uncertified``.

        It is computed when first used.

        Examples
        --------
        >>> import tether
        >>> patient = tether.cases.sepsis()
        >>> explanation = tether.counterfactual(patient.mdp, patient.path).plan(k=9, m=2).explain()
        >>> explanation.certificate.verdict, explanation.uncertified
        ('never worse', '')
        """
        return certificate_of(self.plan.cf, self.plan) if self.with_certificate and not self.uncertified else None

    @cached_property
    def uncertified(self) -> str:
        """Why there is no certificate, in a sentence, if the plan is too large for one; otherwise empty."""
        return why_uncertified(self.plan) if self.with_certificate else ""

    @cached_property
    def evidence(self) -> tuple[Evidence, ...]:
        """For a learned model: how often each advised action is in its log. Empty for another model."""
        return evidence_of(self)

    @cached_property
    def uncertainty(self) -> PlanUncertainty | None:
        """The value of the plan in models that the log leaves possible; None if no models are drawn.

        They are drawn when this is first used.

        Examples
        --------
        >>> import tether
        >>> seen = [("treat", "well")] * 8 + [("treat", "dead")] * 2 + [("wait", "dead")] * 3
        >>> mdp = tether.learn([tether.Path(["sick", after], [did]) for did, after in seen], prior=1)
        >>> mdp = mdp.with_objective(final_reward={"well": 1.0})
        >>> plan = tether.counterfactual(mdp, tether.Path(["sick", "dead"], ["wait"])).plan(k=2, m=1)
        >>> plan.explain(draws=50).uncertainty.draws, plan.explain(draws=0).uncertainty
        (50, None)
        """
        if not self.draws:
            return None
        from tether.learning.posterior import posterior

        return posterior(self.plan.cf.mdp, self.draws, rng=self.rng).of(self.plan, self.progress)

    @cached_property
    def crossfit(self) -> CrossFitted | None:
        """For a learned model: the value of plans where they were not chosen; None if no models are drawn.

        Examples
        --------
        >>> import tether
        >>> seen = [("treat", "well")] * 8 + [("treat", "dead")] * 2 + [("wait", "dead")] * 3
        >>> mdp = tether.learn([tether.Path(["sick", after], [did]) for did, after in seen], prior=1)
        >>> mdp = mdp.with_objective(final_reward={"well": 1.0})
        >>> plan = tether.counterfactual(mdp, tether.Path(["sick", "dead"], ["wait"])).plan(k=2, m=1)
        >>> plan.explain(draws=0).crossfit is None
        True
        """
        plan = self.plan
        if not self.draws or isinstance(plan, RobustPlanRecord) or plan.constraint is not None:
            return None
        from tether.learning.folds import cross_fitted

        return cross_fitted(plan, self.draws, self.rng)

    @cached_property
    def advised_states(self) -> dict[int, Any]:
        """By time: the state in which the plan most often takes the other action of a changed step."""
        return {step.t: _advised_state(self, step.t, step.instead) for step in self.changes}

    def answer(self, name: Callable[[Any], str] = repr) -> Answer:
        """The answer in its parts; ``name`` turns a name into text.

        Examples
        --------
        >>> import tether
        >>> patient = tether.cases.sepsis()
        >>> answer = tether.counterfactual(patient.mdp, patient.path).plan(k=9, m=2).explain().answer(str)
        >>> answer.follows[0].partition("; ")[0]
        'Died by step 10: 85 % instead of certain'
        """
        return answer(self, name)

    def replay(self, name: Callable[[Any], str] = str) -> Replay:
        """What the picture of the plan shows: what happened, the replay, and where it is about this episode."""
        return replay_of(self, name)

    def verdicts(self, name: Callable[[Any], str] = str, nouns: Nouns | None = None) -> Verdicts:
        """What is said first: mistake or luck? about this episode? how sure? ``nouns`` are the log's own words."""
        return verdicts_of(self, name, nouns)

    def sentences(self, name: Callable[[Any], str] = repr) -> list[str]:
        """All sentences: what to do differently, what follows, how much of it is about this episode, how sure it is."""
        return self.answer(name).sentences()

    def __str__(self) -> str:
        return "\n".join(self.sentences(str))

    def __repr__(self) -> str:
        many = len({step.t for step in self.changes} | {one.t for one in self.elsewhere})
        return f"<Explanation: k = {self.plan.k}, m = {self.plan.m}, {many} of {self.plan.T} steps change>"

    def to_arrow(self) -> pyarrow.Table:
        """The steps as an Arrow table, one row each, with the fields of `ExplainedStep` as columns.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> table = tether.counterfactual(case.mdp, case.path).plan(k=3, m=1).explain().to_arrow()
        >>> table.column("changed").to_pylist()
        [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]
        """
        steps, actions = self.steps, self.plan.cf.mdp.actions
        states = [state for step in steps for state in (step.observed_state, step.state)]  # or groups of them
        of_actions = {"observed_action": actions, "action": actions, "instead": actions}
        return table_of(ExplainedStep, steps, {"observed_state": states, "state": states, **of_actions})

    def _repr_html_(self) -> str:
        luck = left_to_chance(self.plan.asked, self.plan.chain)  # without it there is nothing to influence
        head: tuple[str, ...] = ("t", "observed", "done", "likeliest", "probability", "plan", "changed", "gain")
        rows = []
        for step in self.steps:
            seen = ("" if one is None else one for one in (step.observed_state, step.observed_action))
            last = step.t == self.plan.T
            done, changed = "" if step.action is None else step.action, "" if last else f"{step.changed:.3g}"
            influence = () if not luck else (strength_in_words(step.strength), f"{step.influenced:.3g}")
            rows.append(
                (
                    step.t,
                    *seen,
                    step.state,
                    f"{step.state_probability:.3g}",
                    done,
                    changed,
                    f"{step.gain:.4g}",
                    *(("",) * len(influence) if last else influence),
                )
            )
        head = (*head, "strength", "known ground") if luck else head
        return paragraphs(self.sentences(str)) + html_table(head, rows)


def explain(
    plan: PlanRecord,
    group: Callable[[Any], Any] | None = None,
    *,
    certificate: bool = True,
    draws: int | None = None,
    rng: Any = 0,
    progress: Callable[[int, int], None] | None = None,
    outlook: Evaluation | None = None,
) -> Explanation:
    """Put a plan beside what happened; see `Plan.explain`. ``outlook`` is its evaluation, if it is already known."""
    outlook, many = outlook or evaluate_plan(plan), default_draws(plan, draws)
    steps = explained_steps(plan.cf, outlook, group, world=plan.asked)
    if plan.minimise:  # less is a gain
        steps = tuple(replace(step, gain=0.0 - step.gain) for step in steps)
    return Explanation(plan, outlook, steps, certificate, many, rng, progress)


def _unpickled(
    plan: PlanRecord, steps: tuple[ExplainedStep, ...], certificate: bool, draws: int, rng: Any
) -> Explanation:
    """An explanation that was pickled."""
    return Explanation(plan, evaluate_plan(plan), steps, certificate, draws, rng)


def _advised_state(explanation: Explanation, t: int, action: Any) -> Any:
    """The state in which a plan most often takes another action than the observed one at t."""
    outlook = explanation.outlook
    decided, visits = outlook.chain.taken[t], outlook.chain.visits[t]
    takes = outlook.mdp.form.pair_action[decided.pairs] == outlook.mdp.actions.find(action)
    states, index = np.unique(visits.states, return_inverse=True)
    chance = chance_of_changes(explanation.plan.asked, outlook.chain, t, outlook.occupancy[t]) * takes
    weight = np.bincount(index.reshape(-1)[decided.source], chance)
    return outlook.mdp.states[int(states[int(np.argmax(weight))])]
