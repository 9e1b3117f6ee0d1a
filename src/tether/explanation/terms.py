"""What the settings of an answer mean, in sentences: k and m, the rule, the test of influence, the mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tether._foundation.rounding import rounding_of
from tether._foundation.words import counted, number, percent, three_digits
from tether.conditioning.sampled import SampledGumbelMax
from tether.evaluation.outcomes import UNDER_WAY
from tether.evaluation.tailoring import about_plan
from tether.explanation.about_episode import left_to_chance
from tether.explanation.outcome_chances import goes_on
from tether.explanation.sentences import falls_short, robust_plan
from tether.influence.one_step import Effective, Influence, TotalVariation
from tether.influence.own import InfluenceTest
from tether.model.properties import Property, value_name
from tether.plan.limits import ABOUT, SHARE, enough_k

if TYPE_CHECKING:
    from tether.conditioning.mechanism import Mechanism
    from tether.explanation.explain import Explanation
    from tether.influence.rules import Rule
    from tether.model.model_record import ModelRecord
    from tether.plan.plan_record import PlanRecord
    from tether.plan.sweep import Sweep


def tether_in_words(rule: Rule, k: int, T: int) -> str:
    """What a tether of length k promises under a rule, and no more than that.

    >>> tether_in_words("definition", 3, 7)
    'wherever the plan leads, it could be back on known ground within 3 steps'
    """
    if k > T:
        return "no tether; the answer may be what the model expects of anyone"
    if rule == "assured":
        return "every step is on known ground" if k == 1 else f"never {k} steps in a row off known ground"
    if rule == "definition":
        if k == 1:
            return "every step is on known ground"
        return f"wherever the plan leads, it could be back on known ground within {k} steps"
    if rule not in ("published", "printed"):
        return f"every step is one that the rule {rule} allows for {k}"
    where = "at that time" if rule == "published" else "at any time"
    return f"every step stays within {counted(k, 'step')} of what the observed steps could have led to {where}"


def limits_in_words(plan: PlanRecord, suggested: bool = False) -> str:
    """K and m of a plan; ``suggested`` means that k was left out and chosen by the library."""
    chosen = ""
    if suggested:
        chosen = f" ({_why_suggested(plan)})" if plan.gain > 0 else " (no tether gains anything)"
    if suggested and plan.constraint is not None:
        chosen = " (the shortest tether that is enough for the return and can keep to the limit)"
    changes = f"at most {counted(plan.m, 'action')} may change" if plan.m else "no action may change"
    changes += _advised_only(plan)
    usual = (plan.rule, str(plan.influence)) == ("definition", "support")
    other = "" if usual else f" Rule {plan.rule}, influence {plan.influence}."
    other += objective_in_words(plan.objective, plan.minimise)
    if plan.constraint is not None:
        other += "".join(f" {sentence}" for sentence in plan.constraint.sentences())
    tether = tether_in_words(plan.rule, plan.k, plan.T)
    return f"k = {plan.k}{chosen}: {tether}.{_without_luck(plan)} m = {plan.m}: {changes}.{other}"


def _advised_only(plan: PlanRecord) -> str:
    """Which changes may be advised, and what they cost, at the end of what is said about m; empty for all, for free."""
    return "" if plan.advisable is None else f"; {plan.advisable}"


def _why_suggested(plan: PlanRecord) -> str:
    if about_plan(plan) >= ABOUT:
        return "the largest gain of the plans that are about this episode"
    return "the shortest tether that is enough"


def _without_luck(plan: PlanRecord) -> str:
    """What a tether means if no step is random, as a further sentence."""
    if plan.k > plan.T or left_to_chance(plan.asked, plan.chain):
        return ""
    return " As no step is random, this only says how near the plan stays to what was done."


def objective_in_words(objective: Property | None, minimise: bool) -> str:
    """What was asked for, as a further sentence; empty for the largest return, which is the default.

    >>> import tether
    >>> objective_in_words(tether.avoid("died"), False)
    ' Asked for: the largest chance that died is avoided, within the episode; the plan ends where that is decided.'
    """
    size = "smallest" if minimise else "largest"
    if objective is None:
        return f" Asked for: the {size} return." if minimise else ""
    chance = f"the {size} chance that {objective.in_words}"
    return f" Asked for: {chance}, within the episode; the plan ends where that is decided."


def question_in_words(plan: PlanRecord, best: float) -> str:
    """What an answer is about, for someone new to the method; ``best`` is the best value within the limits."""
    T, k, m = plan.T, plan.k, plan.m
    others = "any of the actions" if m >= T else f"at most {counted(m, 'action')}" if m else "none of the actions"
    shown = "The plan shown here" + (" is one that" if falls_short(plan, best) else " is the best that")
    luck = " with the luck it had" if left_to_chance(plan.asked, plan.chain) else ""
    limit = "" if plan.constraint is None else "".join(f" {one}" for one in plan.constraint.sentences())
    return (
        f"One observed episode of {counted(T, 'step')} is replayed{luck}: what would have happened, had "
        f"other actions been taken? {shown} changes {others} (m = {m}{_advised_only(plan)}). The tether (k = {k}): "
        f"{tether_in_words(plan.rule, k, T)}.{_without_luck(plan)}{objective_in_words(plan.objective, plan.minimise)}"
        f"{limit}"
    )


def rule_in_words(rule: Rule, k: int, T: int) -> str:
    """What k means under a rule."""
    if k > T:
        return f"k = {k} is more than the {counted(T, 'step')} of the episode: every action is allowed everywhere."
    steps = counted(k, "step")
    end = " Near the end, where fewer steps are left, known ground is assumed."
    words: dict[object, str] = {
        "definition": f"An action is allowed if some path from it meets known ground within {steps}. "
        f"This keeps the way back possible, but does not promise it.{end}",
        "published": f"An action is allowed if its state, and every state it can lead to, lies within {steps} of one "
        f"that the observed steps could have led to at that time.{end}",
        "printed": f"An action is allowed if every state it can lead to lies within {steps} of one that the observed "
        f"steps could have led to at any time.{end}",
        "assured": f"Whatever happens, the plan never takes {steps} in a row off known ground.",
    }
    own = f"An action is allowed if the rule {rule}, which is not one of Tether's, allows it for {k}.{end}"
    meaning = words.get(rule, own)
    return f"{meaning} In every state that an allowed action can lead to, there must be an allowed action again."


def granted(plan: PlanRecord) -> str:
    """From which time on influence is assumed, and where paths end before the episode does."""
    first = max(0, plan.T - plan.k + 1)
    when = f"From step {first} on" if first else "At every step"
    text = f"{when}, where fewer than k = {plan.k} steps are left, known ground is assumed."
    if plan.objective is None:
        return text
    return (
        f"{text} Paths end where it is decided whether {plan.objective.in_words}: no known ground is asked for there."
    )


def influence_in_words(influence: Influence) -> str:
    """When a step is known ground: when it counts as influenced."""
    if isinstance(influence, TotalVariation):
        return (
            "An action in a state is known ground at a step if its outcomes are distributed like those of the "
            f"observed step, within {influence.eps:g} (total variation)."
        )
    if isinstance(influence, InfluenceTest):
        return f"An action in a state is known ground at a step if {influence}, a test of your own, says so."
    if isinstance(influence, Effective):
        return (
            "An action in a state is known ground at a step if knowing the observed outcome moves its "
            f"probabilities, by more than {influence.eps:g} (total variation)."
        )
    return (
        "An action in a state is known ground at a step if it shares a possible outcome with the observed step: "
        "the observed outcome can then move the action's probabilities. The strength says how much."
    )


def mechanism_in_words(mechanism: Mechanism) -> str:
    """How luck is replayed."""
    if isinstance(mechanism, SampledGumbelMax):
        return f"{mechanism.name}: probabilities estimated from {mechanism.samples:,} draws of the luck of each step"
    if mechanism.name == "gumbel-max":
        return "gumbel-max: exact probabilities; nothing is sampled or simulated"
    return str(mechanism.name)


# ---- other limits ------------------------------------------------------------------------------------------------


UNREWARDED = (
    "All rewards of the model are 0: no plan can gain anything. Ask for an outcome in place of the return (objective), "
    "or say what it is worth to end in a state (final reward)."
)


def is_unrewarded(mdp: ModelRecord) -> bool:
    """Whether all rewards of a model are 0, so that no return can be gained."""
    return mdp.describe().reward_range == (0.0, 0.0) and mdp.final_reward is None


def beyond_sentences(explanation: Explanation) -> list[str]:
    """What a larger k and a larger m would add; or that no return can be gained at all."""
    if explanation.plan.objective is None and is_unrewarded(explanation.plan.cf.mdp):
        return [UNREWARDED]
    return [*explanation.beyond.sentences(), *_both_together(explanation), best_for_anyone_in_words(explanation)]


def _both_together(explanation: Explanation) -> list[str]:
    """Says that a larger k and a larger m help together, where neither does alone."""
    plan, beyond = explanation.plan, explanation.beyond
    if beyond.longer is not None or beyond.more is not None or beyond.without_limit:
        return []
    if robust_plan(plan) is not None or plan.price > 0:
        return []
    added = (plan.value - explanation.optimal.value) if plan.minimise else (explanation.optimal.value - plan.value)
    if added <= rounding_of(plan.value):
        return []
    return ["Only together would a longer tether and more changes gain anything."]


def best_for_anyone_in_words(explanation: Explanation) -> str:
    """What the policy that is best for anyone would have led to in this episode: its outcomes, and its return.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> sentence = best_for_anyone_in_words(tether.counterfactual(grid.mdp, grid.path).plan(k=6, m=1).explain())
    >>> print(sentence.partition(", would ")[2])
    have led to: danger: under 1 %; goal: 99 %; still under way: 1 %; an expected return of 548.1.
    """
    plan = explanation.plan
    if explanation.optimal.changed is not None and not explanation.optimal.changed.any():
        return "The model's usual advice, ignoring this episode, is what was done."
    ended = () if goes_on(plan.cf, explanation.outlook) else explanation.outcomes.every_end
    order = sorted(ended, key=lambda one: (one.name == UNDER_WAY, -one.observed))
    ends = [one for one in order if one.optimal > 1e-9]
    parts = [f"{one.name}: {percent(one.optimal)}" for one in ends]
    value = number(explanation.optimal.value)
    if plan.objective is None:
        parts.append(f"an expected return of {value}")
    else:
        parts.append(f"a probability of {value} that {plan.objective.in_words}")
    return f"The model's usual advice, ignoring this episode, would have led to: {'; '.join(parts)}."


def beyond_the_limits(explanation: Explanation, table: Sweep) -> list[str]:
    """What a larger k or m would add, and whether a smaller k would do; ``table`` may be a part of the whole sweep."""
    plan = explanation.plan
    if falls_short(plan, table.value(plan.k, plan.m)):
        best = f"best {value_name(plan.objective)}"
        return [f"This plan was not made for the {best} within its limits; the table below has that value."]
    if not table.is_complete:
        return _some_beyond(plan, table)
    by_k, by_m = explanation.beyond.sentences()
    sentences = [by_k] if plan.k <= plan.T else []
    sentences += [by_m] if plan.m < plan.T else []
    column = table.values[:, table.ms == plan.m][:, 0]
    behind = column - plan.value if plan.minimise else plan.value - column
    as_good = table.ks[behind <= rounding_of(plan.value)]
    if explanation.changes and as_good.size and as_good.min() < plan.k:
        sentences.append(f"A shorter tether gives the same: k = {as_good.min()}.")
    return sentences


def _some_beyond(plan: PlanRecord, table: Sweep) -> list[str]:
    """Sentences on what lies beyond k and m, from a table with only some of them: the model is too large for all."""
    sentences = []
    for name, k, m in (
        (f"Without a tether (k = {plan.T + 1})", plan.T + 1, plan.m),
        (f"With one more change (m = {plan.m + 1})", plan.k, plan.m + 1),
    ):
        if k != plan.k or m <= plan.T:
            more = (plan.value - table.value(k, m)) if plan.minimise else (table.value(k, m) - plan.value)
            added = f"{three_digits(more)} more" if more > rounding_of(plan.value) else "nothing more"
            sentences.append(f"{name} the plan could gain {added}.")
    return sentences


def suggestion(plan: PlanRecord, table: Sweep) -> tuple[int | None, str]:
    """The suggested k, and what it means."""
    m, T = plan.m, plan.T
    k = plan.question.suggested_k(m)
    sign = -1.0 if table.minimise else 1.0
    free = sign * (table.value(T + 1, m) - table.observed_value)
    with_m = f"with {counted(m, 'change')} at most" if m else "without any change"
    if k is None:
        if free <= table.rounding:
            return None, f"There is no k to suggest: {with_m}, nothing can be gained, whatever k is."
        return None, (
            f"There is no k to suggest: {with_m}, something can be gained only without a tether (k = {T + 1}), "
            f"namely {three_digits(free)}."
        )
    gain = sign * (table.value(k, m) - table.observed_value)
    of_free = percent(min(1.0, gain / free)) if free > table.rounding else "100 %"
    if plan.question.helps_and_is_about(m):
        why = f"Of the plans that are about this episode, its plan gains most {with_m}."
    else:
        why = (
            f"It is the shortest tether that gives at least {100 * SHARE:.0f} % of what the longest one (k = {T}) "
            f"gives {with_m}."
        )
    return k, (
        f"Suggested: k = {k}. {why} It gains {three_digits(gain)}, which is {of_free} of what could be gained without "
        "a tether at all."
    )


def sweep_notes(table: Sweep) -> list[str]:
    """What the rows and columns of a sweep are, and which tether is long enough for which m."""
    T = table.cf.T
    notes = [f"k: length of the tether; k = {T + 1}: no tether. m: how many actions may change."]
    by_k: dict[int, list[int]] = {}
    for m in table.ms.tolist():
        k = enough_k(table, m)
        if k is not None:
            by_k.setdefault(k, []).append(m)
    if not by_k:
        return [*notes, "None of these tethers gains anything."]
    text = "; ".join(f"k = {k} with m = {_runs(ms)}" for k, ms in by_k.items())
    return [*notes, f"The shortest tether that gives {100 * SHARE:.0f} % of what the longest of these gives: {text}."]


def _runs(numbers: list[int]) -> str:
    """Sorted numbers with their runs joined: ``1–3, 7``."""
    runs: list[list[int]] = []
    for one in numbers:
        if runs and one == runs[-1][-1] + 1:
            runs[-1].append(one)
        else:
            runs.append([one])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)
