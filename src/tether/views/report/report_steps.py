"""The step-by-step table, cell by cell: what happened, what the plan would do, what it adds, how much is about it.

Long stretches in which nothing changes are folded into one line, which can be opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from tether._foundation.markup import with_minus_signs
from tether._foundation.rounding import ROUNDING, rounding_of
from tether._foundation.words import cut_apart, number, percent, three_digits
from tether.explanation.about_episode import left_to_chance
from tether.explanation.explain import Explanation
from tether.explanation.steps import ExplainedStep
from tether.explanation.verdicts import Nouns

_SHOWN = 200
"""How many steps are listed; for longer episodes, those at which the plan changes the action most often."""

MANY = 40
"""Above this many steps the table is folded."""

_SHORT = 24
"""The longest name of a state that is shown beside its outcome."""

_NAME = 160
"""How long a name is before it is cut."""

_LONG = 4
"""At least this many consecutive steps in which nothing changes are folded into one line."""

_RARE = 0.05
"""Less likely changes than this are not shown beside the action in the likeliest state."""

_HEAD = (
    "What happened",
    "What was done",
    "Plan: likeliest state",
    "Plan: action there",
    "Score added",
)


@dataclass(frozen=True, slots=True)
class Cell:
    """A text, its emphasis ("aside": less, "strong": more), a note after it, and a bar of some percent before it."""

    text: str
    look: str = ""
    note: str = ""
    bar: int | None = None


@dataclass(frozen=True, slots=True)
class StepRow:
    """The cells of a step, None for an empty one; and whether the action mostly changes."""

    cells: tuple[Cell | None, ...]
    changed: bool


@dataclass(frozen=True, slots=True)
class Fold:
    """Consecutive rows in which nothing changes: the line that stands for them, and the rows."""

    line: str
    rows: tuple[StepRow, ...]


@dataclass(frozen=True, slots=True)
class StepTable:
    """The names of the columns, the rows or folded rows, and how many steps are left out."""

    head: tuple[str, ...]
    parts: tuple[StepRow | Fold, ...]
    left_out: int
    many: int = 0
    """How many steps there are, if they are so many that the table is folded."""


def step_table(explanation: Explanation, action_name: Callable[[Any], str], nouns: Nouns) -> StepTable:
    """One row per step; how much of it is about this episode, if any step is random."""
    steps = _chosen(explanation)
    writer = _Writer(explanation, action_name, steps, nouns)
    befores: list[ExplainedStep | None] = [None, *steps[:-1]]
    rows = [writer.row(step, before) for before, step in zip(befores, steps, strict=True)]
    many = len(explanation.steps) - 1
    folded = many if many > MANY else 0
    return StepTable(writer.head, tuple(_folded(steps, rows, nouns)), len(explanation.steps) - len(steps), folded)


def _folded(steps: Sequence[ExplainedStep], rows: Sequence[StepRow], nouns: Nouns) -> Iterator[StepRow | Fold]:
    """The rows in order, long stretches in which nothing changes as one."""
    for kind, group in groupby(range(len(steps)), key=lambda i: _unchanged(steps, i)):
        places = list(group)
        if kind and len(places) >= _LONG:
            yield Fold(nouns(_line([steps[i] for i in places], kind)), tuple(rows[i] for i in places))
        else:
            yield from (rows[i] for i in places)


def _unchanged(steps: Sequence[ExplainedStep], i: int) -> tuple[Any, ...]:
    """What stays the same at a step, so that it can be folded with its neighbours; empty if it cannot.

    Either the plan does what was done, and the same happens again; or the episode is over, and most likely also under
    the plan.
    """
    step = steps[i]
    if (step.observed_action is None and not step.ended) or step.changed > ROUNDING:
        return ()
    if step.state == step.observed_state and step.state_probability > 1 - ROUNDING:
        return ("as it was",) if step.observed_outcome is None else ("over", step.observed_outcome, step.outcome)
    if step.observed_outcome is not None and step.outcome is not None:
        return ("over", step.observed_outcome, step.outcome)
    return ()


def _line(steps: Sequence[ExplainedStep], kind: tuple[Any, ...]) -> str:
    when = f"Step {steps[0].t} … {steps[-1].t}"
    if kind[0] == "as it was":
        return f"{when}: the plan does what was done, and the same happens again."
    chances = [step.outcome_probability or 0.0 for step in steps]
    likely = "" if min(chances) > 1 - ROUNDING else f" ({percent(min(chances))} to {percent(max(chances))})"
    gain = sum(step.gain for step in steps)
    gained = f"; {'+' if gain > 0 else ''}{three_digits(gain)} of the score in all" if abs(gain) > ROUNDING else ""
    return f"{when}: what happened: {kind[1]}. Likeliest under the plan: {kind[2]}{likely}{gained}."


def _chosen(explanation: Explanation) -> list[ExplainedStep]:
    """Steps to list, in order: all, or those that change and then the first ones."""
    steps = list(explanation.steps)
    if len(steps) <= _SHOWN:
        return steps
    first = sorted(steps, key=lambda step: (-step.changed, step.t))[:_SHOWN]
    return sorted(first, key=lambda step: step.t)


class _Writer:
    """Writes rows; knows the text of each state and action, so that no two of them look the same."""

    def __init__(
        self, explanation: Explanation, action_name: Callable[[Any], str], steps: Sequence[ExplainedStep], nouns: Nouns
    ) -> None:
        plan = explanation.plan
        self.T, self.recorded = plan.T, plan.cf.path.last_recorded
        self.rounding = rounding_of(plan.value, plan.observed_value)
        self.action_name, self.decided = action_name, plan.objective is not None
        goes_on = [step.t for step in explanation.steps if step.observed_outcome is None]
        self.ended = max(goes_on, default=-1) + 1  # from then on nothing was done
        self.luck = left_to_chance(plan.asked, plan.chain)
        self.head = (nouns("Step"), *_HEAD, *([f"About this {nouns.episode}"] if self.luck else ()))
        self.states = _short([str(state) for step in steps for state in (step.observed_state, step.state)])
        taken = (name for step in steps for name in (step.observed_action, step.action, step.instead))
        actions = {name: None for name in taken if name is not None}
        self.actions = _short([action_name(name) for name in actions])

    def row(self, step: ExplainedStep, before: ExplainedStep | None) -> StepRow:
        last = step.t == self.T
        cells: tuple[Cell | None, ...] = (
            Cell(str(step.t)),
            self._observed(step, before),
            None if step.observed_action is None or step.t >= self.ended else Cell(self._action(step.observed_action)),
            self._state(step, before),
            None if last else self._planned(step),
            self._gain(step.gain) if not last or abs(step.gain) > self.rounding else None,
        )
        if self.luck:
            cells += (None if last else Cell(percent(step.strength), bar=round(100 * step.strength)),)
        return StepRow(cells, step.changed > 0.5)

    def _unknown(self, step: ExplainedStep) -> bool:
        return step.t == self.T and not self.recorded

    def _observed(self, step: ExplainedStep, before: ExplainedStep | None) -> Cell:
        if self._unknown(step):
            return Cell("not recorded", "aside")
        if step.observed_outcome is not None:
            return Cell(self._outcome(step.observed_state, step.observed_outcome, alone=True))
        if before is not None and step.observed_state == before.observed_state:
            return Cell("as before", "aside")
        return Cell(self.states[str(step.observed_state)])

    def _state(self, step: ExplainedStep, before: ExplainedStep | None) -> Cell:
        """The plan's state; short if this row, or the row above, has it in full."""
        note = _note(step.state_probability)
        if step.outcome is not None:  # an outcome is always shown by its name
            likely = step.outcome_probability or 0.0
            alone = abs(likely - step.state_probability) <= ROUNDING
            return Cell(self._outcome(step.state, step.outcome, alone), note=_note(likely))
        if not self._unknown(step) and step.state == step.observed_state:
            return Cell("as observed", "aside", note)
        spelt = before is not None and before.state != before.observed_state
        if before is not None and spelt and step.state == before.state:
            return Cell("as before", "aside", note)
        return Cell(self.states[str(step.state)], note=note)

    def _outcome(self, state: Any, outcome: str, alone: bool) -> str:
        """An outcome by its name; with its state, if this is the only one, and its name is short and different."""
        written = self.states[str(state)]
        return f"{written}, {outcome}" if alone and written != outcome and len(written) <= _SHORT else outcome

    def _planned(self, step: ExplainedStep) -> Cell:
        if step.action is None:  # the property is decided there, or nothing is left to do
            elsewhere = f"elsewhere {self._action(step.instead)}" if step.changed > _RARE else ""
            return Cell("the plan ends" if self.decided else "nothing to decide", "aside", elsewhere)
        note = _note(step.action_probability)
        if not step.differs:
            if step.changed > _RARE:  # in other states than the likeliest one
                note = f"{note}; elsewhere {self._action(step.instead)}".removeprefix("; ")
            return Cell("as done", "aside", note) if not step.ended else Cell(self._action(step.action), note=note)
        return Cell(self._action(step.action), "strong", note)

    def _action(self, action: Any) -> str:
        return self.actions[self.action_name(action)]

    def _gain(self, gain: float) -> Cell:
        if abs(gain) <= self.rounding:
            return Cell("0")
        return Cell(("+" if gain > 0 else "") + with_minus_signs(number(gain)))


def _short(names: Sequence[str]) -> dict[str, str]:
    return dict(zip(names, cut_apart(names, _NAME), strict=True))


def _note(share: float) -> str:
    return "" if share > 1 - ROUNDING else percent(share)
