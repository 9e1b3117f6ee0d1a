"""A plan that decides by all that was met, beside what happened: what its explanations have in common.

Such a plan is made for hidden types, or with a limit on whole paths. Its action depends on more than the state and the
changes that are left, so a step says where the plan is most likely then, and what it does there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrow import Tabular, name_array
from tether._foundation.markup import Displayed, html_table, paragraphs
from tether._foundation.words import counted, number, percent, shown
from tether.evaluation.outcomes import outcome_of
from tether.observation.changes import nothing_to_change

if TYPE_CHECKING:
    import pyarrow

    from tether.model.model_record import ModelRecord
    from tether.plan.limited import LimitedPlanRecord
    from tether.plan.typed_plan import TypedPlanRecord

__all__ = ["HistoryExplanation", "HistoryStep"]


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
        return tuple(step for step in self.steps if step.planned != step.action and step.changed > 0.0)

    def sentences(self, name: Callable[[Any], str] = repr) -> list[str]:
        """What should have been done, what that is worth, and how sure that is; ``name`` turns a name into text."""
        return [sentence for sentence in self._said(name) if sentence]

    def _said(self, name: Callable[[Any], str]) -> Iterator[str]:
        raise NotImplementedError

    def _change(self, name: Callable[[Any], str], limit: str = "") -> str:
        """What to do differently; ``limit`` names a further limit."""
        head = f"With at most {counted(self.plan.m, 'change')}{limit}"
        if self.plan.gain == 0.0 or not self.changes:
            return f"{head}, nothing is expected to be better than what was done."
        first, *more = self.changes
        later = "; later steps depend on what is met" if more else ""
        return f"{head}: at step {first.t}, {name(first.planned)} instead of {name(first.action)}{later}."

    def _value(self, by_type: dict[str, float] | None = None) -> str:
        """What the plan is worth instead; ``by_type`` has the values of several types."""
        plan = self.plan
        if plan.gain == 0.0:
            return ""
        text = number if plan.objective is None else percent
        what = "The expected return" if plan.objective is None else f"The chance that {plan.objective.in_words}"
        each = f": {', '.join(f'{text(one)} for {name}' for name, one in by_type.items())}" if by_type else ""
        return f"{what} is then {text(plan.value)} instead of {text(plan.observed_value)}{each}."

    def happened(self, step: HistoryStep) -> tuple[str, str]:
        """What was observed and done at a step, as text; after the end how it ended, and nothing."""
        return self._as_text(step.state, step.action)

    def plans(self, step: HistoryStep) -> tuple[str, str]:
        """Where the plan is most likely at a step, and what it does there, as text; after an end nothing."""
        return self._as_text(step.planned_state, step.planned)

    def _as_text(self, state: Any, action: Any) -> tuple[str, str]:
        mdp = self._mdp
        place = mdp.state_index(state)
        if not nothing_to_change(mdp.form, np.array([place]), -1)[0]:
            return shown(state), shown(action)
        ending = outcome_of(mdp, place)
        return shown(state if ending is None else ending.name), ""

    def _columns(self, mdp: ModelRecord) -> dict[str, Any]:
        """The fields of the steps, each as a column."""
        names, columns = {"state": mdp.states, "planned_state": mdp.states, "action": mdp.actions}, dict[str, Any]()
        names["planned"] = mdp.actions
        for field in fields(self.steps[0]):
            values = [getattr(step, field.name) for step in self.steps]
            columns[field.name] = name_array(values, names[field.name]) if field.name in names else values
        return columns

    def to_arrow(self) -> pyarrow.Table:
        """One row per step, with the fields of a step."""
        import pyarrow as pa

        return pa.table(self._columns(self._mdp))

    @property
    def _mdp(self) -> ModelRecord:
        raise NotImplementedError

    def __str__(self) -> str:
        return "\n".join(self.sentences(str))

    def __repr__(self) -> str:
        about = f"{len(self.steps)} steps, {len(self.changes)} changed, gain {number(self.plan.gain)}"
        return f"<{type(self).__name__}: {about}>"

    def _repr_html_(self) -> str:
        rows = [(one.t, *self.happened(one), *self.plans(one), f"{one.changed:.2f}") for one in self.steps]
        head = ("t", "observed", "did", "plan is in", "plan does", "changed")
        return paragraphs(self.sentences(str)) + html_table(head, rows)
