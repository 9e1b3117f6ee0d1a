"""Explanation: what happened against what the plan would have done, step by step and in sentences.

Everything here is a plain record made from exact evaluations; nothing is simulated. The most likely
state of a step is the one the plan is most often in at that time, not a step of one most likely path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tether.evaluation import Evaluation, evaluate_plan
from tether.planning import Plan
from tether.wording import counted

__all__ = ["ExplainedStep", "Explanation", "explain"]


@dataclass(frozen=True, slots=True)
class ExplainedStep:
    """One time step, observed and counterfactual.

    Attributes
    ----------
    t : int
    observed_state, observed_action
        What happened; None for an outcome that was not recorded, and for the action at T.
    state : label
        The most likely counterfactual state, or group of states, with its ``state_probability``.
    action : label or None
        What the plan does there most often.
    changed : float
        Probability that the action differs from the observed one.
    influenced : float
        Probability that the observation influences the step.
    strength : float
        Expected total variation between the counterfactual and the nominal row taken.
    return_so_far : float
        Expected return collected before this step.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> step = tether.counterfactual(case.mdp, case.path).plan(k=3, m=1).explain().steps[5]
    >>> step.observed_action, step.action, step.changed
    ('NIL', 'V_I', 1.0)
    """

    t: int
    observed_state: Any
    observed_action: Any
    state: Any
    state_probability: float
    action: Any
    changed: float
    influenced: float
    strength: float
    return_so_far: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Explanation:
    """A plan put beside what happened.

    Attributes
    ----------
    plan : Plan
    outlook : Evaluation
        The plan, evaluated exactly.
    steps : tuple of ExplainedStep
        t = 0 … T.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> explanation = tether.counterfactual(case.mdp, case.path).plan(k=3, m=1).explain()
    >>> for sentence in explanation.sentences():
    ...     print(sentence)
    Change 1 action: at t = 5 'V_I' instead of 'NIL'.
    The expected return is -37.11 (± 0.3143) instead of -38: a gain of 0.8889.
    The observation still speaks in 5.00 of 7 steps; the longest stretch without it is 2 steps, fewer than k = 3.
    """

    plan: Plan
    outlook: Evaluation
    steps: tuple[ExplainedStep, ...]

    @property
    def changes(self) -> tuple[ExplainedStep, ...]:
        """The steps in which the plan may do something else than was done."""
        return tuple(step for step in self.steps if step.changed > 0)

    def sentences(self, name: Callable[[Any], str] = repr) -> list[str]:
        """What to change, what it gains, and how far it is still about this episode; ``name`` prints a label."""
        return [self._what(name), self._gain(), self._tether()]

    def _what(self, name: Callable[[Any], str]) -> str:
        if not self.changes:
            return "Change nothing: no policy within these limits does better than what was done."
        told = []
        for step in self.changes:
            share = "" if step.changed > 0.9995 else f" ({_percent(step.changed)} of the time)"
            other = self.plan.cf.path.actions[step.t]
            alternatives = {a: p for a, p in self.outlook.actions(step.t).items() if a != other}
            likeliest = max(alternatives, key=lambda action: alternatives[action])
            told.append(f"at t = {step.t} {name(likeliest)} instead of {name(other)}{share}")
        expected = sum(step.changed for step in self.steps)
        certain = abs(expected - len(told)) <= 5e-4
        many = counted(len(told), "action") if certain else f"{expected:.3g} actions on average"
        return f"Change {many}: {', '.join(told)}."

    def _gain(self) -> str:
        plan = self.plan
        if not self.changes:
            return f"The return stays {_number(plan.observed_value)}."
        spread = f" (± {_number(self.outlook.std)})" if self.outlook.std > 0 else ""
        return (
            f"The expected return is {_number(plan.value)}{spread} instead of {_number(plan.observed_value)}: "
            f"a gain of {_number(plan.gain)}."
        )

    def _tether(self) -> str:
        held = self.outlook.tailoring
        assert held is not None
        told = f"The observation still speaks in {held.expected_influenced_steps:.2f} of {self.plan.T} steps"
        if held.longest_run == 0:
            return f"{told}: in every one."
        if held.expected_influenced_steps == 0:
            return "The observation speaks in none of the steps: this is what the model expects of anyone."
        chance = held.longest_run_probability
        often = "" if chance > 0.9995 else f", with probability {chance:.2g}"
        run = counted(held.longest_run, "step")
        if held.longest_run < self.plan.k:
            limit = f", fewer than k = {self.plan.k}"
        else:
            limit = f", no fewer than k = {self.plan.k}: this rule asks only that influence stays possible"
        return f"{told}; the longest stretch without it is {run}{often}{limit}."

    def __repr__(self) -> str:
        return f"<Explanation: k = {self.plan.k}, m = {self.plan.m}, {len(self.changes)} of {self.plan.T} steps change>"


def explain(plan: Plan, group: Callable[[Any], Any] | None = None) -> Explanation:
    """Put a plan beside what happened; see `Plan.explain`."""
    name = group or _itself
    outlook = evaluate_plan(plan)
    path, held, changed = plan.cf.path, outlook.tailoring, outlook.changed
    assert held is not None
    assert changed is not None
    steps = []
    for t in range(plan.T + 1):
        groups: dict[Any, list[Any]] = {}
        mass: dict[Any, float] = {}
        for label, share in zip(*outlook.distribution(t), strict=True):
            groups.setdefault(name(label), []).append(label)
            mass[name(label)] = mass.get(name(label), 0.0) + float(share)
        state = max(mass, key=lambda one: mass[one])
        last = t == plan.T
        shares = {} if last else outlook.actions_among(t, groups[state])
        steps.append(
            ExplainedStep(
                t,
                name(path.states[t]) if t < len(path.states) else None,
                None if last else path.actions[t],
                state,
                mass[state],
                max(shares, key=lambda action: shares[action]) if shares else None,
                0.0 if last else float(changed[t]),
                0.0 if last else float(held.influenced[t]),
                0.0 if last else float(held.strength[t]),
                float(outlook.returns.mean[t]),
            )
        )
    return Explanation(plan, outlook, tuple(steps))


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if 0.005 <= share < 0.995 else "over 99 %" if share > 0.5 else "under 1 %"


def _itself(label: Any) -> Any:
    return label
