"""A plan with a limit on whole paths, beside what happened: step by step and in sentences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tether._foundation.arrow import Tabular, name_array
from tether._foundation.markup import Displayed, html_table, paragraphs
from tether._foundation.words import counted, number, percent
from tether.evaluation.certificate import Certificate, certify
from tether.plan.limited import LimitedPlanRecord

if TYPE_CHECKING:
    import pyarrow

__all__ = ["LimitedExplanation", "LimitedStep", "explain_limited"]


@dataclass(frozen=True, slots=True)
class LimitedStep(Displayed):
    """One step of an episode beside a plan with a limit on whole paths.

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

    t: int
    state: Any
    action: Any
    planned_state: Any
    planned: Any
    chance: float
    changed: float
    strength: float
    left: float


@dataclass(frozen=True, eq=False, repr=False)
class LimitedExplanation(Tabular):
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
    >>> print(*found.sentences(str)[:3], sep="\n")  # doctest: +NORMALIZE_WHITESPACE
    With at most 6 changes and a total distance of at most 9: at step 2, right instead of down; later steps depend on
    what is met.
    The expected return is then 472.3 instead of -897.
    The largest total distance of a path is 8.867.
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
    def changes(self) -> tuple[LimitedStep, ...]:
        """The steps at which the plan changes the action where it most likely is."""
        return tuple(step for step in self.steps if step.planned != step.action and step.changed > 0.0)

    def sentences(self, name: Callable[[Any], str] = repr) -> list[str]:
        """What should have been done; what that is worth; how near it comes to the limit; and how sure that is."""
        said = [self._change(name), self._value(), self._limit(), self._mixture()]
        if self.certificate is not None and self.plan.gain != 0.0:
            said.append(str(self.certificate))
        return [sentence for sentence in said if sentence]

    def _change(self, name: Callable[[Any], str]) -> str:
        plan = self.plan
        if plan.budget is not None:
            limit = f"a total distance of at most {number(plan.budget)}"
        else:
            limit = f"{counted(plan.k, 'uninfluenced step')} in a row with at most {percent(plan.lost or 0.0)}"
        head = f"With at most {counted(plan.m, 'change')} and {limit}"
        if plan.gain == 0.0 or not self.changes:
            return f"{head}, nothing is expected to be better than what was done."
        first, *more = self.changes
        later = "; later steps depend on what is met" if more else ""
        return f"{head}: at step {first.t}, {name(first.planned)} instead of {name(first.action)}{later}."

    def _value(self) -> str:
        plan = self.plan
        if plan.gain == 0.0:
            return ""
        shown = number if plan.objective is None else percent
        what = "The expected return" if plan.objective is None else f"The chance that {plan.objective.in_words}"
        return f"{what} is then {shown(plan.value)} instead of {shown(plan.observed_value)}."

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

    def to_arrow(self) -> pyarrow.Table:
        """One row per step, with the fields of `LimitedStep`."""
        import pyarrow as pa

        mdp, columns = self.plan.cf.mdp, dict[str, Any]()
        for field in LimitedStep.__dataclass_fields__:
            values = [getattr(step, field) for step in self.steps]
            if field in ("state", "planned_state"):
                values = name_array(values, mdp.states)
            elif field in ("action", "planned"):
                values = name_array(values, mdp.actions)
            columns[field] = values
        return pa.table(columns)

    def __str__(self) -> str:
        return "\n".join(self.sentences(str))

    def __repr__(self) -> str:
        gain = number(self.plan.gain)
        return f"<LimitedExplanation: {len(self.steps)} steps, {len(self.changes)} changed, gain {gain}>"

    def _repr_html_(self) -> str:
        rows = [
            (one.t, one.state, one.action, one.planned_state, one.planned, f"{one.changed:.2f}") for one in self.steps
        ]
        head = ("t", "observed", "did", "plan is in", "plan does", "changed")
        return paragraphs(self.sentences(str)) + html_table(head, rows)


def explain_limited(plan: LimitedPlanRecord, certificate: bool) -> LimitedExplanation:
    """A plan beside what happened."""
    return LimitedExplanation(plan, certify(plan.cf, plan) if certificate else None)
