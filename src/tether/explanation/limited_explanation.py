"""A plan with a limit on whole paths, beside what happened: step by step and in sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tether._foundation.words import counted, number, percent
from tether.evaluation.certificate import Certificate, certificate_of
from tether.evaluation.plan_risk import Risk, risk_of_limited
from tether.evaluation.tailoring import about_limited
from tether.explanation.about_episode import share_in_words
from tether.explanation.decisions import decide
from tether.explanation.history_explanation import HistoryExplanation, HistoryStep
from tether.explanation.mistakes import Review, review_if_valued
from tether.plan.limited import LimitedPlanRecord

if TYPE_CHECKING:
    from tether.model.model_record import ModelRecord


@dataclass(frozen=True, slots=True)
class LimitedStep(HistoryStep):
    """One step of an episode beside a plan with a limit on whole paths.

    Attributes
    ----------
    t, state, action, planned_state, planned, chance, changed
        As of `tether.records.HistoryStep`.
    strength : float
        How much the episode changes what is to be expected of ``planned`` (`CounterfactualMDP.strength`).
    left : float
        With a budget the least that is left of it on a path, before this step; otherwise the longest run of
        uninfluenced steps that was just passed.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.grid_world()
    >>> step = tether.counterfactual(case.mdp, case.path).plan(m=6, budget=9).explain().steps[2]
    >>> step.action, step.planned, step.changed, step.left
    ('down', 'right', 1.0, 9.0)
    """

    strength: float
    left: float


@dataclass(frozen=True, eq=False, repr=False)
class LimitedExplanation(HistoryExplanation):
    r"""What should have been done within a limit on whole paths; made by `LimitedPlan.explain`.

    Attributes
    ----------
    plan : LimitedPlan
    certificate : Certificate or None
        What holds under other causal models; None if it was not asked for.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.grid_world()
    >>> found = tether.counterfactual(case.mdp, case.path).plan(m=6, budget=9).explain()
    >>> print(*found.sentences(str)[2:6], sep="\n")  # doctest: +NORMALIZE_WHITESPACE
    With at most 6 changes and a total distance of at most 9: right instead of down at step 2; later steps depend on
    what is met. It could be known at the time that it was better.
    The expected return is then 472.3 instead of -897.
    Of 100 replays, none end worse than what happened, and all better.
    From step 2 on, under 1 % of it is about this episode: so much of the probability the observation moves.
    """

    plan: LimitedPlanRecord
    certificate: Certificate | None

    @cached_property
    def steps(self) -> tuple[LimitedStep, ...]:
        """The steps, one after the other."""
        plan, cf, found = self.plan, self.plan.cf, []
        mdp, form = cf.mdp, cf.mdp.form
        for t, layer in enumerate(plan.nodes[:-1]):
            done, by_state = cf.path.actions[t], dict[int, float]()
            changed = 0.0
            for key, where in layer.items():
                by_state[key.state] = by_state.get(key.state, 0.0) + where.chance
                changed += where.chance * plan.is_change(t, key, where)
            state = min(by_state, key=lambda s: (-by_state[s], s))
            some = [(where.chance, where.pair) for key, where in layer.items() if key.state == state]
            action = mdp.actions[int(form.pair_action[max(some)[1]])]
            name, own = mdp.states[state], [self._memory(key.memory) for key in layer]
            left = min(own) if plan.budget is not None else max(own)
            strength = cf.strength(t, name, action)
            chance = by_state[state]
            found.append(LimitedStep(t, cf.path.states[t], done, name, action, chance, changed, strength, left))
        return tuple(found)

    @staticmethod
    def _memory(memory: Any) -> float:
        return float(memory[0] if isinstance(memory, tuple) else memory)

    @property
    def _limit_in_words(self) -> str:
        plan = self.plan
        if plan.budget is not None:
            return f" and a total distance of at most {number(plan.budget)}"
        return f" and {counted(plan.k, 'step')} in a row off known ground with at most {percent(plan.lost or 0.0)}"

    @cached_property
    def review(self) -> Review | None:
        """Mistake or luck; None if the plain model has no value."""
        return review_if_valued(self.plan.cf, self.plan.objective, self.plan.minimise)

    @property
    def _known_then(self) -> str:
        plan, step = self.plan, self.changes[0]
        found = decide(plan.cf, plan.objective, 1, plan.rule, plan.influence, plan.minimise)
        return found.known_then(next(row for row in found.at(step.t) if row.action == step.planned))

    @cached_property
    def risk(self) -> Risk | None:
        """How likely a replay is to end worse, or better, than what happened; None if something follows the record."""
        return risk_of_limited(self.plan)

    @cached_property
    def moved(self) -> float:
        """How much of the plan is about the episode, from its first change on; 1 if there is none."""
        return about_limited(self.plan)

    def _about(self, name: Callable[[Any], str]) -> Iterator[str]:
        """How much of it is about the episode, and how near the plan comes to the limit."""
        if self.changes:
            yield share_in_words(self.moved, self.changes[0].t)
        yield self._limit()
        yield self._mixture()

    def _sure(self) -> Iterator[str]:
        if self.certificate is not None and self.plan.gain != 0.0:
            yield str(self.certificate)

    def _certified(self) -> str | None:
        return None if self.certificate is None else self.certificate.verdict

    def _limit(self) -> str:
        plan = self.plan
        if plan.spent is not None:
            return f"The largest total distance of a path is {number(plan.spent)}."
        if not plan.probability:
            return "No path of the plan loses touch with the episode."
        return f"The plan loses touch with the episode with a chance of {percent(plan.probability)}."

    def _mixture(self) -> str:
        worth = self.plan.mixture_value
        if worth is None:
            return ""
        return f"To draw one of two plans before the episode would meet the limit exactly, for {number(worth)}."

    @property
    def _models(self) -> Sequence[ModelRecord]:
        return (self.plan.cf.mdp,)


def explain_limited(plan: LimitedPlanRecord, certificate: bool) -> LimitedExplanation:
    """A plan beside what happened."""
    return LimitedExplanation(plan, certificate_of(plan.cf, plan) if certificate else None)
