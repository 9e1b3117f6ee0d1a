"""A plan that decides by all that was met, beside what happened: what its explanations have in common.

Such a plan is made for hidden types, or with a limit on whole paths. Its action depends on more than the state and the
changes that are left, so a step says where the plan is most likely then, and what it does there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrow import Tabular, table_of
from tether._foundation.markup import Displayed, html_table, paragraphs
from tether._foundation.rounding import ROUNDING
from tether._foundation.words import counted, number, percent, shown
from tether.evaluation.outcomes import outcome_of
from tether.explanation.deciding import KNOWN_THEN
from tether.explanation.reviewing import review_verdict
from tether.explanation.verdicts import (
    ABOUT,
    BEST_CHANGE,
    NO_VALUE,
    NOT_WITHIN_LIMITS,
    NOTHING_CHANGED,
    UNCHANGED,
    Nouns,
    Verdict,
    Verdicts,
    ended_in_words,
    foreseen_in_words,
    how_much,
    left_in_words,
    luck_verdict,
    sure_verdict,
    worth_in_words,
)
from tether.observation.changes import nothing_left

if TYPE_CHECKING:
    import pyarrow

    from tether.evaluation.plan_risk import Risk
    from tether.explanation.mistakes import Review
    from tether.model.model_record import ModelRecord
    from tether.plan.limited import LimitedPlanRecord
    from tether.plan.typed_plan import TypedPlanRecord


@dataclass(frozen=True, slots=True)
class HistoryStep(Displayed):
    """One step of an episode beside a plan that decides by what was met.

    Attributes
    ----------
    t : int
    state, action : name
        What was observed and what was done.
    planned_state, planned : name
        Where the plan is most likely then, and what it does there.
    chance : float
        How likely it is in that state.
    changed : float
        How likely the plan changes the action at this step.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.grid_world()
    >>> step = tether.counterfactual(case.mdp, case.path).plan(m=6, budget=9).explain().steps[2]
    >>> step.action, step.planned, step.changed
    ('down', 'right', 1.0)
    """

    t: int
    state: Any
    action: Any
    planned_state: Any
    planned: Any
    chance: float
    changed: float


class HistoryExplanation(Tabular, Displayed):
    """What should have been done, by a plan that decides by what was met; ``steps`` has a record for each step."""

    if TYPE_CHECKING:

        @property
        def plan(self) -> LimitedPlanRecord | TypedPlanRecord: ...

        @property
        def steps(self) -> tuple[HistoryStep, ...]: ...

    @property
    def changes(self) -> tuple[Any, ...]:
        """The steps at which the plan changes the action where it most likely is."""
        some = (step for step in self.steps if step.planned != step.action and step.changed > 0.0)
        return tuple(step for step in some if self.plans(step)[1])

    def sentences(self, name: Callable[[Any], str] = repr) -> list[str]:
        """Mistake or luck, and what to change; about what it is; how sure it is. ``name`` turns a name into text."""
        return [sentence for part in self.parts(name) for sentence in part]

    def parts(self, name: Callable[[Any], str] = repr) -> tuple[list[str], list[str], list[str]]:
        """The sentences, by the three questions that they answer."""
        luck = [] if self.review is None else review_verdict(self.review, name)
        said = [*luck, *self._change(name), self._value(), self._replays()], [*self._about(name)], [*self._sure()]
        luck, about, sure = ([sentence for sentence in part if sentence] for part in said)
        return luck, about, sure

    def verdicts(self, name: Callable[[Any], str] = repr, nouns: Nouns | None = None) -> Verdicts:
        r"""What is said first: the verdict in outcomes, and three answers in short.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.hidden_diabetes()
        >>> found = tether.counterfactual(case.types, case.path).plan(m=2).explain().verdicts(str)
        >>> print(found.ended, found.foreseen, found.hindsight, sep="\n")
        10 steps, died at step 3
        Knowing what could be known then: no.
        With hindsight: a little, 85 of 100 replays still end in death.
        >>> [one.word for one in found]
        ['Luck.', 'Partly.', 'Not sure.']
        """
        plan, mdp = self.plan, self._mdp
        ends = [outcome_of(mdp, mdp.state_index(state)) for state in plan.cf.path.states]
        over = next((t for t, one in enumerate(ends) if one is not None), None)
        outcome = None if over is None or any(one is None for one in ends[over:]) else ends[over]
        return Verdicts(
            ended_in_words(plan.cf.T, over, None if outcome is None else outcome.name),
            foreseen_in_words(self.review, name),
            self._hindsight(None if outcome is None else outcome.name),
            f"{BEST_CHANGE}{self._best(name)}" if self.changes else NOTHING_CHANGED,
            luck_verdict(self.review, name, self._unreviewed),
            self._about_in_short(name),
            sure_verdict(self._certified(), bool(self.changes), more=self._warnings()),
        ).called(nouns or Nouns())

    def _hindsight(self, outcome: str | None) -> str:
        plan, mdp = self.plan, self._mdp
        if plan.gain == 0.0 or not self.changes:
            return NOT_WITHIN_LIMITS
        if plan.objective is None and outcome is not None:
            ends = ((outcome_of(mdp, mdp.state_index(s)), chance) for s, chance in plan.distribution(plan.cf.T).items())
            left = sum(chance for one, chance in ends if one is not None and one.name == outcome)
            if left < 1 - ROUNDING:
                return left_in_words(outcome, mdp.labels.side(outcome), left)
        return worth_in_words(plan.objective, plan.observed_value, plan.value)

    def _about_in_short(self, name: Callable[[Any], str]) -> Verdict:
        if not self.changes:
            return UNCHANGED
        return Verdict(ABOUT, how_much(self.moved), tuple(one for one in self._about(name) if one))

    @property
    def moved(self) -> float:
        """The part of the probability that the episode moves at the first change; 1 if there is none."""
        raise NotImplementedError

    @property
    def risk(self) -> Risk | None:
        """How likely a replay is to end worse, or better, than what happened; None if that is not known."""
        raise NotImplementedError

    @property
    def review(self) -> Review | None:
        """Mistake or luck; None if that is not known."""
        raise NotImplementedError

    @property
    def _unreviewed(self) -> str:
        """Why there is no review."""
        return NO_VALUE

    def _about(self, name: Callable[[Any], str]) -> Iterator[str]:
        """How much of it is about the episode."""
        raise NotImplementedError

    def _sure(self) -> Iterator[str]:
        """How sure it is."""
        raise NotImplementedError

    def _warnings(self) -> Sequence[str]:
        """What else makes it less sure."""
        return ()

    def _certified(self) -> str | None:
        """The verdict of the certificate; None without one."""
        raise NotImplementedError

    def _change(self, name: Callable[[Any], str]) -> Iterator[str]:
        """What to do differently."""
        head = f"With at most {counted(self.plan.m, 'change')}{self._limit_in_words}"
        if self.plan.gain == 0.0 or not self.changes:
            yield f"{head}, nothing is expected to be better than what was done."
        else:
            yield f"{head}: {self._best(name)}{KNOWN_THEN[self._known_then]}"

    @property
    def _known_then(self) -> str:
        """What was known of the first change at the time (`Decisions.known_then`); empty if that is not known."""
        raise NotImplementedError

    @property
    def _limit_in_words(self) -> str:
        """A limit beside k and m in words; empty without one."""
        return ""

    @property
    def _values_by_type(self) -> Mapping[str, float]:
        return {}

    def _best(self, name: Callable[[Any], str]) -> str:
        first, *more = self.changes
        later = "; later steps depend on what is met" if more else ""
        return f"{name(first.planned)} instead of {name(first.action)} at step {first.t}{later}."

    def _value(self) -> str:
        """What the plan is worth instead; for each type, where there are several."""
        plan = self.plan
        if plan.gain == 0.0:
            return ""
        text = number if plan.objective is None else percent
        what = "The expected return" if plan.objective is None else f"The chance that {plan.objective.in_words}"
        some = self._values_by_type
        each = f": {', '.join(f'{text(one)} for {name}' for name, one in some.items())}" if len(some) > 1 else ""
        return f"{what} is then {text(plan.value)} instead of {text(plan.observed_value)}{each}."

    def _replays(self) -> str:
        """How many of 100 replays end worse, and better, than what happened."""
        counts = bool(self.changes) and self.plan.objective is None and self.plan.gain != 0.0
        risk = self.risk if counts else None
        return "" if risk is None else risk.sentence

    def happened(self, step: HistoryStep) -> tuple[str, str]:
        """What was observed and done at a step, as text; after the end how it ended, and nothing."""
        return self._as_text(step.t, step.state, step.action)

    def plans(self, step: HistoryStep) -> tuple[str, str]:
        """Where the plan is most likely at a step, and what it does there, as text; after an end nothing."""
        return self._as_text(step.t, step.planned_state, step.planned)

    def _as_text(self, t: int, state: Any, action: Any) -> tuple[str, str]:
        mdp = self._mdp
        place = mdp.state_index(state)
        if not all(nothing_left(one.form, t, np.array([place]))[0] for one in self._models):
            return shown(state), shown(action)
        ending = outcome_of(mdp, place)
        return shown(state if ending is None else ending.name), ""

    def to_arrow(self) -> pyarrow.Table:
        """One row per step, with the fields of a step."""
        states, actions = self._mdp.states, self._mdp.actions
        names = {"state": states, "planned_state": states, "action": actions, "planned": actions}
        return table_of(type(self.steps[0]), self.steps, names)

    @property
    def _models(self) -> Sequence[ModelRecord]:
        """The model, or that of each type."""
        raise NotImplementedError

    @property
    def _mdp(self) -> ModelRecord:
        return self._models[0]

    def __str__(self) -> str:
        return "\n".join(self.sentences(str))

    def __repr__(self) -> str:
        about = f"{len(self.steps)} steps, {len(self.changes)} changed, gain {number(self.plan.gain)}"
        return f"<{type(self).__name__}: {about}>"

    def _repr_html_(self) -> str:
        rows = [(one.t, *self.happened(one), *self.plans(one), f"{one.changed:.2f}") for one in self.steps]
        head = ("t", "observed", "did", "plan is in", "plan does", "changed")
        return paragraphs(self.sentences(str)) + html_table(head, rows)
