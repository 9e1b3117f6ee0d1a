"""Every sentence of an answer, made last, from records: the same in the terminal, the report, a notebook and JSON.

An answer has six parts (`Answer`), in this order:

- first, only where it is so: the plan gains return, but makes a good end less likely (`disagreeing`);
- mistake or luck: what could be known at the time (`mistake_or_luck`);
- what to do differently, and when (`what_to_change`), and how much of that only hindsight knows;
- what would have happened (`what_follows`): the outcomes, then the expected return, and what half of the replays earn;
- how much of it is about this episode (`tether.explanation.about_episode`);
- how sure it is (`how_sure`): under other causal models, and in other models that the log of a learned model allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tether._foundation.markup import Displayed
from tether._foundation.rounding import ROUNDING, rounding_of
from tether._foundation.words import average, counted, number, percent
from tether.evaluation.evaluate import Evaluation, evaluate_policy
from tether.evaluation.hindsight import advised_changes
from tether.evaluation.outcomes import UNDER_WAY, absorbing, every_end
from tether.evaluation.ranges import best_case
from tether.evaluation.return_distribution import middle_half, of_half
from tether.explanation.about_episode import RARE, influenced_steps, known_tailoring, left_to_chance, strength
from tether.explanation.evidence import learned_sentences
from tether.explanation.outcome_chances import goes_on
from tether.explanation.state_words import Name, acting, is_in_words
from tether.model.labels import name_text
from tether.plan.objective import asked
from tether.plan.robust_record import RobustPlanRecord

if TYPE_CHECKING:
    from tether.conditioning.counterfactual_record import CounterfactualRecord
    from tether.explanation.explain import Explanation
    from tether.explanation.steps import ElsewhereChange, ExplainedStep
    from tether.model.properties import Property
    from tether.plan.plan_record import PlanRecord

_LISTED = 12
"""How many changes a sentence lists; the others are counted."""

_STATE = 24
"""The longest name of a state that is written in a sentence, in characters."""


@dataclass(frozen=True, slots=True)
class Answer(Displayed):
    """The answer in sentences, in the order in which people ask. The sentences are the same wherever it is shown.

    Attributes
    ----------
    mistake : tuple of str
        Mistake or luck: what could be known at the time, and what only chance did.
    warning : tuple of str
        What is said before all else about the plan: that it gains return, but makes a good end less likely. Usually
        empty.
    change : tuple of str
        What to do differently, and when; and how much of its gain only hindsight knows.
    follows : tuple of str
        What would have happened: how the episode would have ended, then the return.
    episode : tuple of str
        How much of it is about this episode: the strength, then the known ground.
    sure : tuple of str
        How sure it is: under other causal models, and for a learned model, in other models that its log allows.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> answer = tether.counterfactual(grid.mdp, grid.path).plan(k=6, m=1).explain().answer(str)
    >>> answer.change[:2]
    ('Change 1 action: at step 2 right instead of down.', 'All of the gain could be foreseen.')
    """

    mistake: tuple[str, ...]
    warning: tuple[str, ...]
    change: tuple[str, ...]
    follows: tuple[str, ...]
    episode: tuple[str, ...]
    sure: tuple[str, ...]

    def sentences(self) -> list[str]:
        """All sentences, one after the other."""
        return [*self.mistake, *self.warning, *self.change, *self.follows, *self.episode, *self.sure]


def answer(explanation: Explanation, name: Name) -> Answer:
    """An explanation in sentences: mistake or luck, what hindsight changes, what follows, about what, how sure."""
    return Answer(
        tuple(mistake_or_luck(explanation, name)),
        tuple(disagreeing(explanation)),
        (what_to_change(explanation, name), *in_hindsight(explanation, name), *simple_alternatives(explanation, name)),
        tuple(what_follows(explanation)),
        tuple(about_this_episode(explanation)),
        tuple(how_sure(explanation, name)),
    )


def disagreeing(explanation: Explanation) -> list[str]:
    """Sentences on a plan that gains return, but makes a good end rarer, or a bad one likelier; usually none."""
    return [] if explanation.disagreement is None else explanation.disagreement.sentences()


def mistake_or_luck(explanation: Explanation, name: Name) -> list[str]:
    """Whether decisions were mistakes that could be known at the time, and what luck did; nothing where it is unknown.

    Examples
    --------
    >>> import tether
    >>> patient = tether.cases.sepsis()
    >>> print(*mistake_or_luck(tether.counterfactual(patient.mdp, patient.path).plan(k=9, m=2).explain(), str))
    Every decision was the model's best at the time. The death was bad luck, most of it at step 2.
    """
    return [] if explanation.review is None else explanation.review.verdict(name)


def in_hindsight(explanation: Explanation, name: Name) -> list[str]:
    """How much of the gain of a plan could be foreseen, and how much only hindsight knows.

    Examples
    --------
    >>> import tether
    >>> patient = tether.cases.sepsis()
    >>> in_hindsight(tether.counterfactual(patient.mdp, patient.path).plan(k=9, m=2).explain(), str)
    ['None of the gain could be foreseen: it takes hindsight.']
    """
    found, plan = explanation.hindsight, explanation.plan
    if found is None or found.gain <= rounding_of(plan.observed_value):
        return []
    close = max(rounding_of(plan.observed_value), 1e-9 * found.gain)
    review = explanation.review
    is_shown = review is None or not review.may_err or review.largest() is not None
    if found.foresight > close and not is_shown:
        return ["The log does not show that any of the gain could be foreseen."]
    if abs(found.hindsight) <= close:
        return ["All of the gain could be foreseen."]
    if found.foresight > close:
        share = percent(found.foresight / found.gain)
        return [f"{share[0].upper()}{share[1:]} of the gain could be foreseen; the rest takes hindsight."]
    return _not_foreseen(plan, found.foresight < -close, name)


def _not_foreseen(plan: PlanRecord, would_have_lost: bool, name: Name) -> list[str]:
    """Says that a gain takes hindsight; and if so, that its first change was better at the time all the same."""
    none = "None of the gain could be foreseen"
    if would_have_lost:
        return [f"{none}: with this luck, the best decisions at the time would have lost."]
    first = next(iter(advised_changes(plan)), None)
    if first is None or not first.is_claimed:
        return [f"{none}: it takes hindsight."]
    return [
        f"It could be known that another action was better at step {first.t}: {acting(first.action, name)}.",
        "What it gains with no more changes than these takes hindsight.",
    ]


def simple_alternatives(explanation: Explanation, name: Name) -> list[str]:
    """Whether a fixed sequence of actions does as well as a plan, and how many others come close.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> cf = tether.counterfactual(case.mdp, case.path)
    >>> for sentence in simple_alternatives(cf.plan(k=7, m=4).explain(), str):
    ...     print(sentence[:88])
    A fixed sequence has 76 % of the gain, whatever the state: at step 1 V_I, at step 2 V_I,
    2 other fixed sequences come within 5 % of its gain.
    >>> simple_alternatives(cf.plan(k=3, m=1).explain(), str)  # the plan is a fixed sequence, and no other comes close
    []
    """
    plan = explanation.plan
    if explanation.hindsight is None or not explanation.changes or plan.gain <= rounding_of(plan.observed_value):
        return []
    found = explanation.simple
    if found is None:
        return ["Whether a fixed sequence of actions does as well was not tried: there are too many."]
    said, of = [], "the"
    if not found.is_plan or any(step.changed < 1 - ROUNDING for step in explanation.changes):
        of = "its"
        if found.gain <= rounding_of(plan.observed_value):
            return ["No fixed sequence of actions gains anything: what helps depends on the state."]
        listed = ", ".join(f"at step {t} {acting(action, name)}" for t, action in found.changes.items())
        well = "does as well" if found.is_as_good else f"has {percent(found.gain / plan.gain)} of the gain"
        said.append(f"A fixed sequence {well}, whatever the state: {listed}.")
    if found.near_equal:
        comes = "sequence comes" if found.near_equal == 1 else "sequences come"
        said.append(f"{found.near_equal:,} other fixed {comes} within 5 % of {of} gain.")
    return said


def about_this_episode(explanation: Explanation) -> list[str]:
    """How much of the plan is about this episode; and the known ground, if any step is random."""
    plan, cf, outlook = explanation.plan, explanation.plan.asked, explanation.outlook
    sentences = [strength(cf, outlook, explanation.steps)]
    if left_to_chance(cf, outlook.chain):
        if explanation.no_plan_is_about:
            sentences.append("No plan that helps is about this episode.")
        sentences.append(influenced_steps(known_tailoring(outlook), plan.k, plan.rule))
    return sentences


def policy_sentences(
    cf: CounterfactualRecord,
    outlook: Evaluation,
    steps: Sequence[ExplainedStep],
    observed_value: float,
    objective: Property | None = None,
) -> list[str]:
    """A policy in an episode: how much it changes, what follows, how much of it is about this episode."""
    total, world = sum(step.changed for step in steps), asked(cf, objective)
    value = f"The expected return is {number(outlook.value)}{_half(outlook)} instead of {number(observed_value)}."
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
    """Each change, ``at step 5 V_I instead of NIL``; the rare ones, and those beyond ``most``, are only counted."""
    usual = [step for step in explanation.changes if step.changed >= RARE] or list(explanation.changes)
    listed = []
    for step in usual[:most]:
        share = "" if step.changed > 0.9995 else f" ({percent(step.changed)} of the time)"
        does = acting(step.instead, name)
        where = _where(explanation, step, name)
        if step.ended:  # nothing was done then: nothing is replaced
            listed.append(f"at step {step.t}, if it goes on, {does}{share}")
            continue
        listed.append(f"at step {step.t} {where}{does} instead of {name(step.observed_action)}{share}")
    left = len(explanation.changes) - len(listed)
    if left:
        rarely = "more rarely " if left == len(explanation.changes) - len(usual) else ""
        listed.append(f"and {rarely}at {counted(left, 'other step')}")
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
            when += f" after {counted(one.uninfluenced, 'step')} off known ground"
    does, instead = acting(one.action, name), acting(one.observed_action, name)
    return (
        f"at step {one.t} in {name(one.state)}{when}, where only other causal models lead, {does} instead of {instead}"
    )


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
        text = f"The expected return is {number(plan.value)}{_half(explanation.outlook)} instead of "
        text += f"{number(plan.observed_value)}: {_gained(plan)}."
    else:
        text = f"The return stays {number(plan.observed_value)}."
    if plan.paid > 0:
        text += f" The changes cost {number(plan.paid)} on average, which is not taken from it."
    notes = [earned] if earned and plan.objective is None else []
    if explanation.changes and plan.objective is None:
        notes.insert(0, explanation.risk.sentence)
    notes += _still_under_way(plan)
    if not plan.cf.path.last_recorded:
        notes.append("The last outcome was not recorded: the last step counts with what the model expects.")
    return [*ended, text, *notes]


def _still_under_way(plan: PlanRecord) -> list[str]:
    """For a learned model: what follows a record that ends while the episode goes on; and if that counts like dying."""
    cf, mdp = plan.cf, plan.cf.mdp
    if mdp.counts is None or not cf.path.last_recorded:
        return []
    said = []
    if cf.is_under_way:
        said.append(
            "The episode is still under way: how it ends is not known, and what follows is what the model expects."
        )
    if cf.horizon is not None and plan.objective is None and mdp.learned is not None and mdp.learned.like_dead:
        bad = name_text(mdp.learned.like_dead[0])
        said.append(
            f"At the horizon, to be still under way counts like {bad}: say what states are worth (--final-reward), "
            f"or ask for the outcome (--objective 'avoid {bad}')."
        )
    return said


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


def _gained(plan: PlanRecord) -> str:
    """What a plan gains over what was done; "less" if less is better. Within a limit it may be a loss."""
    gain = number(abs(plan.gain))
    if plan.minimise:
        return f"{gain} {'less' if plan.gain >= 0 else 'more'}"
    return f"a {'gain' if plan.gain >= 0 else 'loss'} of {gain}"


def outcomes_in_words(cf: CounterfactualRecord, outlook: Evaluation) -> list[str]:
    """How the episode would have ended, beside how it did; nothing for a model without outcomes.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> cf = tether.counterfactual(grid.mdp, grid.path)
    >>> print(*outcomes_in_words(cf, cf.plan(k=6, m=1).evaluate()))
    Danger by step 11: 7 % instead of certain; goal: under 1 % instead of 0 %; still under way: 93 % instead of 0 %.
    """
    if goes_on(cf, outlook):
        return []
    both = evaluate_policy(cf, "observed"), outlook
    seen, now = (every_end(cf.mdp, *one.ends) for one in both)
    compared = []
    for name in sorted(dict.fromkeys([*seen, *now]), key=lambda one: (one == UNDER_WAY, -seen.get(one, 0.0))):
        before, after = seen.get(name, 0.0), now.get(name, 0.0)
        if max(before, after) > ROUNDING:
            compared.append((name, _compared(before, after)))
    if [name for name, _ in compared] in ([], [UNDER_WAY]):
        return []
    (first, comparison), others = compared[0], compared[1:]
    # "by": an absorbing state at T was reached at some time up to T. "at": otherwise only the last state is known.
    when = "by" if all(_stays(cf, name) for name, _ in compared if name != UNDER_WAY) else "at"
    over = all(_is_over(one) for one in both)
    at = f"{when} step {cf.T if over else outlook.horizon}" if over or cf.horizon is not None else "in the end"
    parts = [f"{first_letter(first)} {at}: {comparison}"]
    return ["; ".join([*parts, *(f"{name}: {one}" for name, one in others)]) + "."]


def _is_over(outlook: Evaluation) -> bool:
    """Whether nothing goes on after the record."""
    last = outlook.chain.visits[-1].states[outlook.occupancy[outlook.T] > 0]
    return bool(absorbing(outlook.mdp, last).all())


def first_letter(name: str) -> str:
    """A name at the beginning of a sentence: a word gets a capital letter, a name like s7 stays as it is.

    >>> first_letter("died"), first_letter("s7")
    ('Died', 's7')
    """
    return name[:1].upper() + name[1:] if name.replace(" ", "").isalpha() else name


def _compared(before: float, after: float) -> str:
    if abs(before - after) <= ROUNDING:
        return "still certain" if after >= 1 - ROUNDING else f"still {percent(after)}"
    return f"{chance_in_words(after)} instead of {chance_in_words(before)}"


def chance_in_words(probability: float) -> str:
    """A probability in percent; "certain", if it is 1."""
    return "certain" if probability >= 1 - ROUNDING else percent(probability)


def _stays(cf: CounterfactualRecord, name: str) -> bool:
    """Whether no action leads out of an outcome."""
    members = cf.mdp.label_sets.get(name)
    return members is None or bool(absorbing(cf.mdp, members).all())


def falls_short(plan: PlanRecord, best: float) -> bool:
    """Whether a plan is below the best value within its limits, because it was made for more influence."""
    missing = plan.value - best if plan.minimise else best - plan.value
    return missing > rounding_of(plan.value)


def robust_plan(plan: PlanRecord) -> RobustPlanRecord | None:
    """The plan, if its value is guaranteed under every causal model of a set; None if its value is expected."""
    return plan if isinstance(plan, RobustPlanRecord) else None


def _guarantee(plan: RobustPlanRecord, outlook: Evaluation) -> str:
    if plan.objective is not None:
        bound = "at most" if plan.minimise else "at least"
        return (
            f"A chance of {bound} {number(plan.value)} that {plan.objective.in_words} is guaranteed under "
            f"{plan.in_words}, instead of {number(plan.observed_value)}. Gumbel-max expects {number(outlook.value)}; "
            f"at best it is {number(best_case(plan))}."
        )
    text = f"A return of {number(plan.value)} is guaranteed under {plan.in_words}, instead of "
    text += f"{number(plan.observed_value)}: {_gained(plan)}. "
    return f"{text}Gumbel-max expects {number(outlook.value)}{_half(outlook)}; at best it is {number(best_case(plan))}."


def _half(outlook: Evaluation) -> str:
    """Between which returns half of the replays are, in brackets; nothing if all have the same, or too many differ."""
    found = middle_half(outlook)
    if found is None or outlook.std <= rounding_of(outlook.mean):
        return ""
    return f" ({of_half(*map(number, found))})"


# ---- how sure it is ----------------------------------------------------------------------------------------------


def how_sure(explanation: Explanation, name: Name) -> list[str]:
    """The certificate, if it is wanted; then what a learned model was learned from, and what its log leaves open.

    Examples
    --------
    >>> import tether
    >>> patient = tether.cases.sepsis()
    >>> explanation = tether.counterfactual(patient.mdp, patient.path).plan(k=9, m=2).explain()
    >>> print(how_sure(explanation, str)[0][:30])
    It could not have ended worse.
    """
    certificate = explanation.certificate
    holds = explanation.uncertified if certificate is None else certificate.sentence
    return ([holds] if holds else []) + learned_sentences(explanation, name)
