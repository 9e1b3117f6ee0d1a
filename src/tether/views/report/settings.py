"""What made the report: the limits in words, the model, the path, and the versions of everything."""

from __future__ import annotations

import datetime as dt
import platform
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

from tether._foundation.markup import with_minus_signs
from tether._foundation.words import counted
from tether._version import __version__
from tether.explanation.sentences import robust_plan
from tether.explanation.terms import influence_in_words, mechanism_in_words, rule_in_words
from tether.influence.one_step import in_python
from tether.model.properties import Property
from tether.plan.plan_record import PlanRecord


def settings(
    plan: PlanRecord, state_name: Callable[[Any], str], about: Mapping[str, Any], date: dt.date
) -> list[tuple[str, str]]:
    """Names and values; what the caller adds comes first."""
    cf, mdp = plan.cf, plan.cf.mdp
    shape = mdp.describe()
    rewards = f"{shape.rewards}, from {shape.reward_range[0]:g} to {shape.reward_range[1]:g}"
    if mdp.discount != 1.0:
        rewards += f"; discounted by {mdp.discount:g} per step"
    if mdp.final_reward is not None:
        rewards += "; and a reward for the last state"
    end = "the last outcome recorded" if cf.path.last_recorded else "the last outcome not recorded"
    test = str(plan.influence)
    return [
        *((str(name), str(value)) for name, value in about.items()),
        (
            "model",
            f"{counted(shape.states, 'state')} ({shape.absorbing:,} absorbing), {counted(shape.actions, 'action')}, "
            f"{counted(shape.pairs, 'state–action pair')}, {counted(shape.transitions, 'transition')}",
        ),
        ("rewards", with_minus_signs(rewards)),
        ("episode", f"{counted(plan.T, 'step')} from {state_name(cf.path.states[0])}, {end}"),
        (
            "within reach",
            f"{cf.graph.n_nodes:,} states over time, {counted(cf.n_edited, 'row')} that the observation may change",
        ),
        ("luck", mechanism_in_words(cf.mechanism)),
        ("k", f"{plan.k} of 1 … {plan.T + 1}"),
        ("m", f"{plan.m} of 0 … {plan.T}"),
        ("rule", f"{plan.rule}: {rule_in_words(plan.rule, plan.k, plan.T)}"),
        ("influence", f"{test}: {influence_in_words(plan.influence)}"),
        ("call", _call(plan)),
        ("date", date.isoformat()),
        ("versions", ", ".join(f"{name} {number}" for name, number in versions())),
    ]


def versions() -> list[tuple[str, str]]:
    """The versions of what computed it, read from the installed packages without importing them."""
    numbers = [("NumPy", version("numpy")), ("numba", version("numba")), ("Python", platform.python_version())]
    return [("Tether", __version__), *numbers]


def _call(plan: PlanRecord) -> str:
    sure, who = robust_plan(plan), "cf"
    if sure is not None:
        sureness = "" if sure.confidence is None else f", confidence={sure.confidence!r}"
        sureness += "" if sure.gamma == 1.0 else f", gamma={sure.gamma!r}"
        who = f"tether.robust(mdp, path, assume={sure.assume!r}{sureness})"
    asked = f"k={plan.k}, m={plan.m}, rule={plan.rule!r}, influence={in_python(plan.influence)}"
    if plan.objective is not None:
        asked += f", objective={_as_code(plan.objective)}"
    if plan.minimise:
        asked += ", minimise=True"
    if plan.constraint is not None:
        asked += f", subject_to=({_as_code(plan.constraint.objective)}, {plan.constraint.limit!r})"
    return f"{who}.plan({asked})"


def _as_code(objective: Property) -> str:
    if objective.remembers:
        return repr(str(objective))
    limit = [] if objective.within is None else [f"within={objective.within}"]
    return f"tether.{objective.kind}({', '.join([*map(repr, objective.sets), *limit])})"


def _value_meaning(plan: PlanRecord) -> tuple[str, str]:
    better = "Less is better." if plan.minimise else "More is better."
    if plan.objective is None:
        return (
            "return",
            f"The sum of the rewards of an episode, as the model counts them. {better} The expected return of a plan "
            "is its average over all that may happen.",
        )
    return (
        "probability",
        f"How likely it is, within the steps of the episode, that {plan.objective.in_words}. {better} Rewards do not "
        "count. The plan ends where that is decided.",
    )


def meanings(plan: PlanRecord) -> list[tuple[str, str]]:
    """The words of the report, explained."""
    return [
        _value_meaning(plan),
        (
            "luck",
            "Chance decided how each observed step ended. The plan is evaluated with the same luck: as long as it does "
            "what was done, the same happens again; elsewhere the observed outcome makes some outcomes likelier and "
            "others less likely.",
        ),
        (
            "strength",
            "How much of the probability of a step's outcomes the observation moves, from 0 to 1, exactly. If it is 0, "
            "the answer at that step is what the model expects of anyone.",
        ),
        (
            "known ground",
            "A step for which what happened tells how chance would have fallen: see influence, below. It may be so "
            "even if its strength is 0 or nearly 0.",
        ),
        (
            f"k = {plan.k}",
            "The length of the tether: wherever the plan leads, it could be back on known ground within k steps. A "
            f"small k keeps the plan about this episode; k = {plan.T + 1} sets no limit.",
        ),
        (f"m = {plan.m}", "How many actions may differ from those that were taken."),
    ]
