"""The report in sentences, for someone who will not read code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tether._html import cut
from tether._words import counted, number
from tether.counterfactual.mechanism import Mechanism
from tether.counterfactual.sampled import SampledGumbelMax
from tether.evaluation.evaluate import Tailoring
from tether.explanation.explain import Explanation
from tether.influence.one_step import Effective, Influence, Support, TotalVariation
from tether.influence.rules import Rule
from tether.plan.limits import SHARE, enough_k
from tether.plan.plan import Plan
from tether.plan.sweep import Sweep

__all__ = [
    "about",
    "average",
    "beyond",
    "changes",
    "expected",
    "granted",
    "headline",
    "in_words",
    "mechanism_in_words",
    "percent",
    "rule_in_words",
    "suggestion",
    "tied",
]

_LISTED = 15
"""How many changes are listed."""


def percent(share: float) -> str:
    """A share in whole percents, never rounded to certainty.

    >>> percent(1.0), percent(0.9999), percent(0.123), percent(0.001)
    ('100 %', 'over 99 %', '12 %', 'under 1 %')
    """
    if share >= 1 - 1e-9:
        return "100 %"
    if share >= 0.995:
        return "over 99 %"
    return "0 %" if share <= 1e-12 else "under 1 %" if share < 0.005 else f"{100 * share:.0f} %"


def average(value: float) -> str:
    """A mean count, with as many digits as are worth reading.

    >>> average(3.0), average(2.408), average(23.14), average(100.0)
    ('3', '2.41', '23.1', '100')
    """
    decimals = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{decimals}f}".rstrip("0").rstrip(".") if decimals else f"{value:,.0f}"


def about(plan: Plan, best: float) -> str:
    """What the report is about; ``best`` is the best value within the plan's limits."""
    T, k, m = plan.T, plan.k, plan.m
    others = "any of the actions" if m >= T else f"at most {counted(m, 'action')}" if m else "none of the actions"
    if k > T:
        tether = f"no limit is set on how far it may go from what was observed (k = {k})"
    elif plan.rule == "assured" and k > 1:
        tether = f"there are never {k} steps in a row at which what was observed has nothing to say (k = {k})"
    elif k == 1:
        tether = "at every step what was observed must have something to say (k = 1)"
    else:
        tether = f"what was observed must stay within {k} steps of having something to say (k = {k})"
    shown = "The plan shown here" + (" is one that" if _falls_short(plan, best) else " is the best that")
    return (
        f"One observed episode of {counted(T, 'step')} is replayed with the luck it had: what would have happened, had "
        f"other actions been taken? {shown} changes {others} (m = {m}), where {tether}."
    )


def _falls_short(plan: Plan, best: float) -> bool:
    """Whether a plan is not the best within its limits: one that was made for more influence, not for value."""
    return best - plan.value > 1e-9 * max(1.0, abs(plan.value))


def headline(explanation: Explanation) -> str:
    """The answer, in a sentence."""
    plan = explanation.plan
    if not explanation.changes:
        return "Change nothing: the plan does what was done."
    total = sum(step.changed for step in explanation.steps)
    steps = len(explanation.changes)
    many = f"Changing {counted(steps, 'action')}"
    if abs(total - steps) > 5e-4:
        many = f"Changing {average(total)} actions on average, at {counted(steps, 'possible time')},"
    if plan.gain <= 1e-9 * max(1.0, abs(plan.observed_value)):
        return f"{many} would keep the expected return."
    return f"{many} would raise the expected return by {number(plan.gain)}."


def changes(explanation: Explanation, name: Callable[[Any], str]) -> list[str]:
    """What to do instead, and when; the rare changes of a long list are only counted."""
    told = []
    shown = sorted(sorted(explanation.changes, key=lambda step: -step.changed)[:_LISTED], key=lambda step: step.t)
    for step in shown:
        share = "" if step.changed > 1 - 1e-9 else f" (in {percent(step.changed)} of the futures)"
        instead, done = (cut(name(action)) for action in (step.instead, step.observed_action))
        told.append(f"t = {step.t}: {instead} instead of {done}{share}")
    left = len(explanation.changes) - len(shown)
    return [*told, f"and, more rarely, at {counted(left, 'other time')}"] if left else told


def expected(explanation: Explanation, best: float) -> list[str]:
    """What to expect; ``best`` is the best value within the plan's limits."""
    plan, outlook = explanation.plan, explanation.outlook
    rounding = 1e-9 * max(1.0, abs(plan.value))
    seen = f"the return of the observed episode was {number(plan.observed_value)}"
    if not plan.cf.path.last_recorded:
        seen += " (its last outcome was not recorded: what the model expects of it is counted)"
    if abs(plan.gain) <= rounding:
        told = [f"The expected return is {number(plan.value)}, as observed."]
    else:
        told = [f"The expected return is {number(plan.value)}; {seen}. That is a gain of {number(plan.gain)}."]
    if outlook.std > rounding:
        told.append(f"It is not certain: the standard deviation of the return is {number(outlook.std)}.")
    elif explanation.changes:
        told.append("It is certain, as far as the model goes.")
    if _falls_short(plan, best):
        told.append(f"The best plan within these limits would be worth {number(best)}.")
    elif not explanation.changes:
        told.append("No plan within these limits is expected to do better.")
    return told


def tied(plan: Plan, held: Tailoring) -> list[str]:
    """How far the plan is still about this episode."""
    T, k, run = plan.T, plan.k, held.longest_run
    if run == 0:
        return ["At every step of the plan, what was observed has something to say about what would have happened."]
    if not held.influenced.any() and not held.strength.any():
        return [
            "At no step of the plan has the observation anything to say: this is what the model expects of anyone who "
            "begins in the same state, not of this episode in particular."
        ]
    others = "the plan relies on what the model expects of anyone"
    if not isinstance(plan.influence, Support):  # the other tests let a little influence pass for none
        others = "it says too little to count"
    told = [
        f"On average, what was observed has something to say at {average(held.expected_influenced_steps)} of the "
        f"{counted(T, 'step')}; at the others {others}."
    ]
    sure = held.longest_run_probability > 1 - 1e-9
    stretch = f"The longest stretch without it is {counted(run, 'step')}"
    if not sure:
        likely = f"probability {percent(held.longest_run_probability)}"
        stretch = f"The longest stretch without it that can happen is {counted(run, 'step')} ({likely})"
    if k > T:
        told.append(f"{stretch}.")
    elif run < k:
        told.append(f"{stretch}, fewer than k = {k}.")
    else:
        told.append(
            f"{stretch}. That is not fewer than k = {k}: the rule asks that the observation can come to speak again "
            f"within {counted(k, 'step')}, not that it surely does."
        )
    return told


def granted(plan: Plan) -> str:
    """From when on influence is assumed."""
    first = max(0, plan.T - plan.k + 1)
    when = f"From t = {first} on" if first else "At all times"
    return f"{when}, where fewer than k = {plan.k} steps are left, influence is taken for granted."


def beyond(explanation: Explanation, table: Sweep, complete: bool) -> list[str]:
    """What a larger k or m would add, and whether a smaller k would do."""
    plan = explanation.plan
    if _falls_short(plan, table.value(plan.k, plan.m)):
        return ["This plan was not made for the best return within its limits; the table below says what is."]
    if not complete:
        return _some_beyond(plan, table)
    told = [] if plan.k > plan.T else explanation.beyond.sentences()[:1]
    told += explanation.beyond.sentences()[1:] if plan.m < plan.T else []
    column = table.values[:, table.ms == plan.m][:, 0]
    enough = table.ks[column >= plan.value - 1e-9 * max(1.0, abs(plan.value))]
    if explanation.changes and enough.size and enough.min() < plan.k:
        told.append(f"The same can be had on a shorter tether, k = {enough.min()}.")
    return told


def _some_beyond(plan: Plan, table: Sweep) -> list[str]:
    """The same from a table that holds only some k and m, of a model too large for all."""
    told = []
    for name, k, m in (
        (f"Without a tether (k = {plan.T + 1})", plan.T + 1, plan.m),
        (f"With one more change (m = {plan.m + 1})", plan.k, plan.m + 1),
    ):
        if k != plan.k or m <= plan.T:
            more = table.value(k, m) - plan.value
            added = f"{number(more)} more" if more > 1e-9 * max(1.0, abs(plan.value)) else "nothing more"
            told.append(f"{name} the plan could gain {added}.")
    return told


def suggestion(plan: Plan, table: Sweep) -> tuple[int | None, str]:
    """The suggested k, and what it means."""
    m, T = plan.m, plan.T
    k = enough_k(table, m)
    free = table.value(T + 1, m) - table.observed_value
    rounding = 1e-9 * max(1.0, abs(table.observed_value))
    with_m = f"with {counted(m, 'change')} at most" if m else "without any change"
    if k is None:
        if free <= rounding:
            return None, f"There is no k to suggest: {with_m}, nothing can be gained, whatever k is."
        return None, (
            f"There is no k to suggest: {with_m}, something can be gained only without a tether (k = {T + 1}), "
            f"namely {number(free)}."
        )
    gain = table.value(k, m) - table.observed_value
    of_free = percent(min(1.0, gain / free)) if free > rounding else "100 %"
    among = "" if table.ks.size == T + 1 else " of those looked at"
    return k, (
        f"Suggested: k = {k}. It is the shortest tether{among} that gives at least {100 * SHARE:.0f} % of what the "
        f"longest one (k = {T}) gives {with_m}. It gains {number(gain)}, which is {of_free} of what could be gained "
        "without a tether at all."
    )


def rule_in_words(rule: Rule, k: int, T: int) -> str:
    """What k means under a rule."""
    if k > T:
        return f"k = {k} is more than the {counted(T, 'step')} of the episode: every action is allowed everywhere."
    steps = counted(k, "step")
    end = " Near the end, where fewer steps are left, influence is taken for granted."
    words = {
        "definition": "An action is allowed if some way on from it meets the observation's influence within "
        f"{steps}.{end}",
        "published": f"An action is allowed if its state, and every state it can lead to, lies within {steps} of one "
        f"that the observed steps could have led to at that time.{end}",
        "printed": f"An action is allowed if every state it can lead to lies within {steps} of one that the observed "
        f"steps could have led to at any time.{end}",
        "assured": f"Whatever happens, the plan never goes {steps} in a row without the observation's influence.",
    }
    return f"{words[rule]} And whatever an allowed action leads to, an allowed action must be left there."


def in_words(influence: Influence) -> str:
    """When a step counts as influenced."""
    if isinstance(influence, TotalVariation):
        return (
            "An action in a state counts as influenced at a step if its outcomes are distributed like those of the "
            f"observed step, within {influence.eps:g} (total variation)."
        )
    if isinstance(influence, Effective):
        return (
            "An action in a state counts as influenced at a step if knowing the observed outcome moves its "
            f"probabilities, by more than {influence.eps:g} (total variation)."
        )
    return (
        "An action in a state counts as influenced at a step if it shares a possible outcome with the observed step: "
        "the observed outcome then says something about its own."
    )


def mechanism_in_words(mechanism: Mechanism) -> str:
    """How luck is replayed."""
    if isinstance(mechanism, SampledGumbelMax):
        return f"{mechanism.name}: probabilities estimated from {mechanism.samples:,} draws of the luck of each step"
    if mechanism.name == "gumbel-max":
        return "gumbel-max: exact probabilities; nothing is sampled or simulated"
    return str(mechanism.name)
