"""Every sentence of an answer, made last, from records: the same in the terminal, the report, a notebook and JSON.

An answer has four parts (`Answer`), in this order:

- what to do differently, and when (`what_to_change`);
- what would have happened (`what_follows`): the probabilities of outcomes, then the expected return with its spread;
- how much of it is about this episode (`tether.explanation.about_episode`);
- how sure it is (`how_sure`): under other causal models, and in other models that the log of a learned model allows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tether._foundation.rounding import ROUNDING, rounding_of
from tether._foundation.words import average, counted, number, percent, spread
from tether.evaluation.evaluate import evaluate_policy
from tether.evaluation.outcomes import absorbing
from tether.explanation.about_episode import RARE, influenced_steps, known_tailoring, left_to_chance, strength
from tether.explanation.evidence import learned_sentences
from tether.explanation.naming import is_in_words
from tether.explanation.outcomes import goes_on
from tether.plan.objective import asked

if TYPE_CHECKING:
    from tether.conditioning.conditioned import CounterfactualMDP
    from tether.evaluation.evaluate import Evaluation
    from tether.explanation.explain import Explanation
    from tether.explanation.steps import ElsewhereChange, ExplainedStep
    from tether.model.properties import Property
    from tether.plan.plan import Plan
    from tether.plan.robust import RobustPlan

__all__ = [
    "Answer",
    "about_this_episode",
    "answer",
    "chance_that",
    "changes",
    "falls_short",
    "first_letter",
    "headline",
    "how_many",
    "how_sure",
    "outcomes_in_words",
    "policy_sentences",
    "robust_plan",
    "what_follows",
    "what_to_change",
]

Name = Callable[[Any], str]
"""Turns a state or an action into text."""

_LISTED = 12
"""How many changes a sentence lists; the others are counted."""

_STATE = 100
"""The longest name of a state that is written in a sentence, in characters."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer in sentences, in the order in which people ask. The sentences are the same wherever it is shown.

    Attributes
    ----------
    change : tuple of str
        What to do differently, and when.
    follows : tuple of str
        What would have happened: how the episode would have ended, then the return.
    episode : tuple of str
        How much of it is about this episode: the strength, then the influenced steps.
    sure : tuple of str
        How sure it is: under other causal models, and for a learned model, in other models that its log allows.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> answer = tether.counterfactual(grid.mdp, grid.path).plan(k=6, m=1).explain().answer(str)
    >>> answer.change
    ('Change 1 action: at t = 2 right instead of down.',)
    """

    change: tuple[str, ...]
    follows: tuple[str, ...]
    episode: tuple[str, ...]
    sure: tuple[str, ...]

    def sentences(self) -> list[str]:
        """All of them, one after the other."""
        return [*self.change, *self.follows, *self.episode, *self.sure]


def answer(explanation: Explanation, name: Name) -> Answer:
    """An explanation in sentences: what to change, what follows, how much of it is about this episode, how sure."""
    return Answer(
        (what_to_change(explanation, name),),
        tuple(what_follows(explanation)),
        tuple(about_this_episode(explanation)),
        tuple(how_sure(explanation, name)),
    )


def about_this_episode(explanation: Explanation) -> list[str]:
    """The strength; and the influenced steps, if any step is random."""
    plan, cf, outlook = explanation.plan, explanation.plan.asked, explanation.outlook
    sentences = [strength(cf, outlook, explanation.steps)]
    if left_to_chance(cf, outlook.chain):
        sentences.append(influenced_steps(known_tailoring(outlook), plan.k, plan.rule))
    return sentences


def policy_sentences(
    cf: CounterfactualMDP,
    outlook: Evaluation,
    steps: Sequence[ExplainedStep],
    observed_value: float,
    objective: Property | None = None,
) -> list[str]:
    """A policy in an episode: how much it changes, what follows, how much of it is about this episode."""
    total, world = sum(step.changed for step in steps), asked(cf, objective)
    value = f"The expected return is {number(outlook.value)}{_spread(outlook)} instead of {number(observed_value)}."
    sentences = [
        f"It changes {average(total)} of the {counted(outlook.T, 'action')} on average.",
        *outcomes_in_words(cf, outlook),
        value if objective is None else chance_that(objective, outlook.value, observed_value),
        strength(world, outlook, steps),
    ]
    if left_to_chance(world, outlook.chain):
        sentences.append(influenced_steps(known_tailoring(outlook)))
    return sentences


# ---- what to do differently, and when ----------------------------------------------------------------------------


def what_to_change(explanation: Explanation, name: Name) -> str:
    """What to do differently, and when."""
    if not explanation.changes:
        sure = robust_plan(explanation.plan)
        if sure is not None:
            return f"Change nothing: no policy within these limits is sure to do better, under {sure.in_words}."
        if explanation.plan.constraint is not None:
            return "Change nothing: no policy that keeps to these limits does better than what was done."
        if explanation.plan.price > 0:
            return "Change nothing: at this price of influence no change pays."
        return "Change nothing: no policy within these limits does better than what was done."
    listed = changes(explanation, name)
    between = "; " if any("," in one for one in listed) else ", "  # names may have commas of their own
    return f"Change {how_many(explanation)}: {between.join(listed)}."


def changes(explanation: Explanation, name: Name, most: int = _LISTED) -> list[str]:
    """Each change, ``at t = 5 V_I instead of NIL``; the rare ones, and those beyond ``most``, are only counted."""
    usual = [step for step in explanation.changes if step.changed >= RARE] or list(explanation.changes)
    listed = []
    for step in usual[:most]:
        share = "" if step.changed > 0.9995 else f" ({percent(step.changed)} of the time)"
        does = name(step.instead) if isinstance(step.instead, str) else f"action {name(step.instead)}"
        where = _where(explanation, step, name)
        listed.append(f"at t = {step.t} {where}{does} instead of {name(step.observed_action)}{share}")
    left = len(explanation.changes) - len(listed)
    if left:
        rarely = "more rarely " if left == len(explanation.changes) - len(usual) else ""
        listed.append(f"and {rarely}at {counted(left, 'other time')}")
    shown = explanation.elsewhere[: max(1, most - len(listed))]
    listed += [_elsewhere(explanation, one, name) for one in shown]
    left = len(explanation.elsewhere) - len(shown)
    if left:
        listed.append(f"and in {counted(left, 'other node')} where only other causal models lead (plan.to_arrow())")
    return listed


def _elsewhere(explanation: Explanation, one: ElsewhereChange, name: Name) -> str:
    """A change where Gumbel-max never leads."""
    when = ""
    if one.depends:
        when = f" with {counted(one.changes_left, 'change')} left"
        if explanation.plan.rule == "assured":
            when += f" after {counted(one.uninfluenced, 'uninfluenced step')}"
    does, instead = (
        name(action) if isinstance(action, str) else f"action {name(action)}"
        for action in (one.action, one.observed_action)
    )
    return (
        f"at t = {one.t} in {name(one.state)}{when}, where only other causal models lead, {does} instead of {instead}"
    )


def headline(explanation: Explanation) -> str:
    """The answer in one sentence, for a title."""
    plan = explanation.plan
    if not explanation.changes:
        return "Change nothing: the plan does what was done."
    many = f"Changing {how_many(explanation)}"
    which = "expected" if robust_plan(plan) is None else "guaranteed"
    value = f"the {which} return" if plan.objective is None else f"the chance that {plan.objective.in_words}"
    if plan.gain <= rounding_of(plan.observed_value):
        return f"{many} would keep {value}."
    by = number(plan.gain) if plan.objective is None else f"{number(100 * plan.gain)} percentage points"
    return f"{many} would {'lower' if plan.minimise else 'raise'} {value} by {by}."


def _where(explanation: Explanation, step: ExplainedStep, name: Name) -> str:
    """The state in which an action is changed, in brackets; only if it is certain and its name is in words."""
    if step.state_probability < 0.9995 or not is_in_words(step.state):
        return ""
    written = name(step.state)
    return f"({written}) " if len(written) <= _STATE else ""


def how_many(explanation: Explanation) -> str:
    """How many actions a plan changes; of a robust plan the most, if this depends on the causal model."""
    if explanation.elsewhere:
        least_left = min(int(visits.changes.min()) for visits in explanation.plan.covered.visits)
        return f"up to {counted(explanation.plan.m - least_left, 'action')}"
    total, times = sum(step.changed for step in explanation.steps), len(explanation.changes)
    return counted(times, "action") if abs(total - times) <= 5e-4 else f"{total:.3g} actions on average"


# ---- what would have happened ------------------------------------------------------------------------------------


def what_follows(explanation: Explanation) -> list[str]:
    """What would have happened: the expected return beside the observed one; and the log's return, if it differs."""
    plan = explanation.plan
    earned = "" if plan.cf.earned is None else plan.cf.earned.sentence()
    ended = outcomes_in_words(plan.cf, explanation.outlook)
    sure = robust_plan(plan)
    if explanation.changes and sure is not None:
        text = _guarantee(sure, explanation.outlook)
    elif plan.objective is not None:
        text = chance_that(plan.objective, plan.value, plan.observed_value)
    elif explanation.changes:
        text = f"The expected return is {number(plan.value)}{_spread(explanation.outlook)} instead of "
        text += f"{number(plan.observed_value)}: {_gained(plan)}."
    else:
        text = f"The return stays {number(plan.observed_value)}."
    notes = [earned] if earned and plan.objective is None else []
    if not plan.cf.path.last_recorded:
        notes.append("The last outcome was not recorded: the last step counts with what the model expects.")
    return [*ended, text, *notes]


def chance_that(objective: Property, value: float, observed: float) -> str:
    """How likely it is that a property holds, beside whether it held in the episode.

    Examples
    --------
    >>> import tether
    >>> chance_that(tether.avoid("died"), 0.2044, 0.0)
    'The chance that died is avoided is 20 % (0.2044) instead of 0 %.'
    """
    text = f"The chance that {objective.in_words}"
    if abs(value - observed) <= ROUNDING:
        return f"{text} stays {percent(observed)}."
    shown = [f"{percent(one)}{'' if one in (0.0, 1.0) else f' ({number(one)})'}" for one in (value, observed)]
    return f"{text} is {shown[0]} instead of {shown[1]}."


def _gained(plan: Plan) -> str:
    """What a plan gains over what was done; "less" if less is better. Within a limit it may be a loss."""
    gain = number(abs(plan.gain))
    if plan.minimise:
        return f"{gain} {'less' if plan.gain >= 0 else 'more'}"
    return f"a {'gain' if plan.gain >= 0 else 'loss'} of {gain}"


def outcomes_in_words(cf: CounterfactualMDP, outlook: Evaluation) -> list[str]:
    """How the episode would have ended, beside how it did; nothing for a model without outcomes.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> cf = tether.counterfactual(grid.mdp, grid.path)
    >>> outcomes_in_words(cf, cf.evaluate("optimal"))
    ['Danger by t = 11: under 1 % instead of certain; goal: 99 % instead of 0 %.']
    """
    if goes_on(cf, outlook):
        return []
    seen, now = evaluate_policy(cf, "observed").outcomes(), outlook.outcomes()
    compared = []
    for name in sorted(dict.fromkeys([*seen, *now]), key=lambda one: -seen.get(one, 0.0)):  # first what happened
        before, after = seen.get(name, 0.0), now.get(name, 0.0)
        if max(before, after) > ROUNDING:
            compared.append((name, _compared(before, after)))
    if not compared:
        return []
    (first, comparison), others = compared[0], compared[1:]
    # "by": an absorbing state at T was reached at some time up to T. "at": otherwise only the last state is known.
    when = "by" if all(_stays(cf, name) for name, _ in compared) else "at"
    parts = [f"{first_letter(first)} {when} t = {cf.T}: {comparison}"]
    return ["; ".join([*parts, *(f"{name}: {one}" for name, one in others)]) + "."]


def first_letter(name: str) -> str:
    """A name at the beginning of a sentence: a word gets a capital letter, a name like s7 stays as it is.

    >>> first_letter("died"), first_letter("s7")
    ('Died', 's7')
    """
    return name[:1].upper() + name[1:] if name.replace(" ", "").isalpha() else name


def _compared(before: float, after: float) -> str:
    if abs(before - after) <= ROUNDING:
        return "still certain" if after >= 1 - ROUNDING else f"still {percent(after)}"
    return f"{_chance(after)} instead of {_chance(before)}"


def _chance(probability: float) -> str:
    return "certain" if probability >= 1 - ROUNDING else percent(probability)


def _stays(cf: CounterfactualMDP, name: str) -> bool:
    """Whether no action leads out of an outcome."""
    members = cf.mdp.label_sets.get(name)
    return members is None or bool(absorbing(cf.mdp, members).all())


def falls_short(plan: Plan, best: float) -> bool:
    """Whether a plan is below the best value within its limits, because it was made for more influence."""
    missing = plan.value - best if plan.minimise else best - plan.value
    return missing > rounding_of(plan.value)


def robust_plan(plan: Plan) -> RobustPlan | None:
    """The plan, if its value is guaranteed under every causal model of a set; None if its value is expected."""
    from tether.plan.robust import RobustPlan

    return plan if isinstance(plan, RobustPlan) else None


def _guarantee(plan: RobustPlan, outlook: Evaluation) -> str:
    if plan.objective is not None:
        bound = "at most" if plan.minimise else "at least"
        return (
            f"A chance of {bound} {number(plan.value)} that {plan.objective.in_words} is guaranteed under "
            f"{plan.in_words}, instead of {number(plan.observed_value)}. Gumbel-max expects {number(outlook.value)}; "
            f"at best it is {number(plan.best_case)}."
        )
    text = f"A return of {number(plan.value)} is guaranteed under {plan.in_words}, instead of "
    text += f"{number(plan.observed_value)}: {_gained(plan)}. "
    return (
        f"{text}Gumbel-max expects {number(outlook.value)}{_spread(outlook)}; at best it is {number(plan.best_case)}."
    )


def _spread(outlook: Evaluation) -> str:
    text = spread(outlook.mean, outlook.std)
    return f" ({text})" if text else ""


# ---- how sure it is ----------------------------------------------------------------------------------------------


def how_sure(explanation: Explanation, name: Name) -> list[str]:
    """The certificate, if it is wanted; then what a learned model was learned from, and what its log leaves open.

    Examples
    --------
    >>> import tether
    >>> patient = tether.cases.sepsis()
    >>> explanation = tether.counterfactual(patient.mdp, patient.path).plan(k=9, m=2).explain()
    >>> print(how_sure(explanation, str)[0][:64])
    Never worse than what was done, under every causal model; but no
    """
    certificate = explanation.certificate
    holds = explanation.uncertified if certificate is None else certificate.sentence
    return ([holds] if holds else []) + learned_sentences(explanation, name)
