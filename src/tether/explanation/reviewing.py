"""Mistake or luck, in sentences: the verdict first, then the account of it, then what it rests on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tether._foundation.rounding import rounding_of
from tether._foundation.words import at_most_three_digits, counted, in_points, percent, percents, three_digits
from tether.conditioning.model_sets import IF_EQUAL, IF_IMPOSSIBLE, is_practice_assumed
from tether.evaluation.review import SURE
from tether.explanation.state_words import Name, acting
from tether.model.practice import strongest_in_words

if TYPE_CHECKING:
    from tether.explanation.mistakes import Review, ReviewedStep

_ALMOST = 0.9999
"""No log makes anything more likely than that."""

_NOUNS = {"died": "death", "dead": "death", "death": "death"}
"""Outcomes that a sentence calls by a noun."""


def review_sentences(review: Review, name: Name) -> list[str]:
    """Mistake or luck; then the account, and what it rests on."""
    logged = "" if review.earned is None else review.earned.sentence()
    account = [_account(review), *_until(review), _replayed(review), logged, _learned(review), _hidden(review)]
    said = [*review_verdict(review, name), *account]
    return [sentence for sentence in said if sentence]


def review_verdict(review: Review, name: Name) -> list[str]:
    """Mistake or luck, in two sentences."""
    if all(step.action is None or len(review.mdp.actions_in(step.state)) == 1 for step in review.steps):
        was_over = all(step.action is None for step in review.steps)
        why = "it was over at the beginning" if was_over else "at every step only one action was available"
        return [f"There was nothing to decide: {why}.", _luck(review, "", name)]
    if not review.is_best:
        return [_compared(review, name), _luck(review, "", name)]
    if review.is_silent:
        return ["No decision can be called a mistake: the log shows no effect of any action."]
    if review.mistakes == 0:
        return ["Every decision was the model's best at the time.", _luck(review, "", name)]
    if review.largest() is None:
        luck = _luck(review, "", name)
        return [_unsure(review, name), f"As far as the log shows, {luck[0].lower()}{luck[1:]}"]
    return [_mistakes(review, name), _luck(review, " more", name)]


def review_word(review: Review) -> str:
    """Mistake or luck, in a word or two.

    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> review_word(tether.review(grid.mdp, grid.path))
    'Mistakes.'
    """
    if not review.is_best or review.largest() is None:
        if review.is_best and (review.mistakes != 0 or review.is_silent):
            return "Not shown."
        return "As expected." if _is_nothing(review, review.luck) else "Good luck." if review.luck > 0 else "Luck."
    if -review.luck > review.claimed / 2:  # bad luck did a good part of it
        return "Both."
    return "Mistake." if sum(step.is_claimed for step in review.steps) == 1 else "Mistakes."


def outcome_noun(outcome: str) -> str | None:
    """The noun for an outcome that is named by a verb or an adjective; None if none is known.

    >>> outcome_noun("died"), outcome_noun("goal")
    ('death', None)
    """
    return _NOUNS.get(outcome.lower())


def ending(outcome: str) -> str:
    """How an episode ends, after "replays end".

    >>> ending("died"), ending("goal")
    ('in death', 'the same way (goal)')
    """
    noun = outcome_noun(outcome)
    return f"in {noun}" if noun else f"the same way ({outcome})"


def review_headline(review: Review) -> str:
    """The finding in a few words."""
    worst, amount = review.largest(), _amount(review)
    if review.is_best and worst is not None:
        bad = [step for step in review.steps if step.is_claimed]
        if len(bad) == 1:
            return f"One mistake, at step {worst.t}, cost {amount(review.claimed)}"
        return f"{counted(len(bad), 'mistake')} cost {amount(review.claimed)}, {_where(bad, lambda step: step.cost)}"
    no_mistake = "No mistake" if review.mistakes == 0 and not review.is_silent else "No mistake that the log can show"
    compared = no_mistake if review.is_best else f"Compared with {_standard(review)}: {_difference(review)}"
    return f"{compared}; {_luck_in_short(review)}"


def _difference(review: Review) -> str:
    if _is_nothing(review, review.mistakes):
        return "no better, no worse"
    return f"{_amount(review)(abs(review.mistakes))} {'worse' if review.mistakes > 0 else 'better'}"


def _luck_in_short(review: Review) -> str:
    if _is_nothing(review, review.luck):
        return "it went as expected"
    kind = "good" if review.luck > 0 else "bad"
    return f"{kind} luck, {_where_luck(review)}"


def _mistakes(review: Review, name: Name) -> str:
    worst, bad = review.largest(), [step for step in review.steps if step.is_claimed]
    assert worst is not None
    cost = _cost(review, worst)
    likely = "" if review.mdp.counts is None else f" ({likelihood(worst)} likely to be one)"
    what = f"at step {worst.t}, {acting(worst.action, name)} instead of {name(worst.best)} {cost}{likely}"
    if len(bad) == 1:
        return f"One decision was a mistake that could be known at the time: {what}."
    return (
        f"{len(bad)} decisions were mistakes that could be known at the time; together they cost "
        f"{_amount(review)(review.claimed)}. The largest: {what}."
    )


def _unsure(review: Review, name: Name) -> str:
    """Says that no mistake is claimed, though the learned model prefers other decisions."""
    most = max(review.steps, key=lambda step: step.cost)
    return (
        "No decision can be called a mistake: the log does not show that another one was better. The largest "
        f"difference is at step {most.t}: {acting(most.action, name)} instead of {name(most.best)} "
        f"{_cost(review, most)}, {likelihood(most)} likely ({percent(SURE)} is needed)."
    )


def likelihood(step: ReviewedStep) -> str:
    """How likely a mistake of a learned model is one: never certain, and told apart from what is needed."""
    return percents(min(step.probability, _ALMOST), SURE)[0]


def _cost(review: Review, step: ReviewedStep) -> str:
    """What a mistake cost, as the end of a sentence."""
    cost = _amount(review)(step.cost)
    if review.objective is None:
        return f"cost {cost} of the expected return"
    chance = f"the chance that {review.objective.in_words}"
    after = step.expected + step.mistake if review.minimise else step.expected - step.mistake
    before, later = percent(step.expected), percent(after)
    verb = "raised" if review.minimise else "lowered"
    return f"{verb} {chance} by {cost}" if before == later else f"{verb} {chance} from {before} to {later}"


def _compared(review: Review, name: Name) -> str:
    standard, amount = _standard(review), _amount(review)
    worse = [step for step in review.steps if step.mistake > 0]
    better = [step for step in review.steps if step.mistake < 0]
    if not worse and not better:
        return f"No decision was better or worse than {standard}."
    parts = []
    for which, word in ((worse, "worse"), (better, "better")):
        if which:
            most = max(which, key=lambda step: step.weight * abs(step.mistake))
            total = amount(abs(sum(step.weight * step.mistake for step in which)))
            instead = f" instead of {name(most.best)}" if most.best != most.action else ""
            largest = "" if len(which) == 1 else "the largest part "
            were = "decision was" if len(which) == 1 else "decisions were"
            parts.append(
                f"{len(which)} {were} {word}, by {total}{' in all' if largest else ''}, "
                f"{largest}at step {most.t} ({name(most.action)}{instead})"
            )
    return f"Compared with {standard}: {'; '.join(parts)}."


def _standard(review: Review) -> str:
    return "usual practice" if isinstance(review.against, str) and review.against == "usual" else "the policy"


def _luck(review: Review, more: str, name: Name) -> str:
    """What luck did; ``more`` if mistakes were told before."""
    if all(step.luck == 0 for step in review.steps):
        return "Luck played no part."
    if _is_nothing(review, review.luck):
        return "Good and bad luck made up for each other."
    where = _where_luck(review)
    if more:
        amount = _amount(review)(abs(review.luck))
        return f"Bad luck cost {amount} more, {where}." if review.luck < 0 else f"Good luck gave {amount}, {where}."
    if review.luck > 0:
        return f"It went better than expected by good luck, {where}."
    event = _event(review, name)
    return f"{event} was bad luck, {where}." if event else f"It went worse than expected by bad luck, {where}."


def _event(review: Review, name: Name) -> str:
    """What happened, as the beginning of a sentence; empty where the episode has no outcome."""
    if review.objective is not None and review.outcome not in review.objective.sets:
        return f"That {_happened(review)}" if review.observed in (0.0, 1.0) else ""
    if review.outcome is None:
        return ""
    noun = outcome_noun(review.outcome)
    return f"The end, {name(review.outcome)}," if noun is None else f"The {noun}"


def _happened(review: Review) -> str:
    """Whether the property held, in words; its chance, if that is not known."""
    assert review.objective is not None
    if review.observed not in (0.0, 1.0):
        return f"{percent(review.observed)} are left"
    return review.objective.in_words if review.observed else review.objective.failed_in_words


def _where_luck(review: Review) -> str:
    """At which step there was most luck of the sign of the sum."""
    sign = 1.0 if review.luck > 0 else -1.0
    return _where([step for step in review.steps if sign * step.luck > 0], lambda step: step.weight * abs(step.luck))


def _where(steps: Sequence[ReviewedStep], size: Callable[[ReviewedStep], float]) -> str:
    most, total = max(steps, key=size), sum(map(size, steps))
    part = "all of it" if len(steps) == 1 else "most of it" if size(most) > total / 2 else "the largest part"
    return f"{part} at step {most.t}"


def _account(review: Review) -> str:
    """From what was to be expected to what happened, in one line."""
    sign, property_ = -1.0 if review.minimise else 1.0, review.objective
    start = three_digits(review.expected)
    if property_ is not None:
        start = f"a chance of {percent(review.expected)} that {property_.in_words}"
    parts = [f"Expected {start}"]
    decisions = "mistakes" if review.is_best else "decisions"
    for name, part in ((decisions, -sign * review.mistakes), ("luck", sign * review.luck)):
        amount = "0" if _is_nothing(review, part) else f"{'+' if part > 0 else '-'}{_amount(review)(abs(part))}"
        parts.append(f"{name} {amount}")
    end = f"it came to {three_digits(review.observed)}" if property_ is None else _happened(review)
    return f"{', '.join(parts)}: {end}."


def _until(review: Review) -> list[str]:
    """What the horizon means, where it is longer than the episode."""
    if review.horizon == review.T:
        return []
    sentence = f"Decisions are judged over {review.horizon} steps"
    if not review.was_cut:
        return [f"{sentence}: nobody could know that it would end after {review.T}."]
    return [
        f"{sentence}. The record stops after {review.T}; what was to be expected from there on stands for the rest."
    ]


def _replayed(review: Review) -> str:
    gain = review.foreseeable
    if gain is None:
        return ""
    who = "the model's best decisions" if review.is_best else _standard(review)
    start = f"With the luck of this episode, {who} would have come to"
    if _is_nothing(review, gain):
        return f"{start} the same."
    change = f"{_amount(review)(abs(gain))} {'better' if gain > 0 else 'worse'}"
    return f"{start} {change} than what happened; only this number rests on the causal model."


def _hidden(review: Review) -> str:
    """How strong a hidden cause must be for the largest mistake to be right."""
    strength, worst = review.gamma_star, review.largest()
    if strength is None or worst is None:
        return ""
    if math.isinf(strength):
        return f"No hidden reason, however strong, makes the decision at step {worst.t} right, {IF_IMPOSSIBLE}."
    times = at_most_three_digits(strength)
    practice = IF_EQUAL if is_practice_assumed(review.mdp, None) else ""
    said = (
        f"The decision at step {worst.t} was right only if hidden reasons changed the odds of an action {times} times "
        f"or more{practice}."
    )
    return f"{said} {strongest_in_words(review.mdp)}".rstrip()


def _learned(review: Review) -> str:
    unsure = sum(step.mistake > 0 and not step.is_claimed for step in review.steps)
    if review.mdp.counts is None or review.largest() is None or unsure == 0:
        return ""
    other = "other decision differs" if unsure == 1 else "other decisions differ"
    return f"{unsure} {other} from the model's best by no more than an error of estimation."


def _amount(review: Review) -> Callable[[float], str]:
    """A part of the account in words: of a return, or in percentage points."""
    return three_digits if review.objective is None else in_points


def _is_nothing(review: Review, part: float) -> bool:
    return abs(part) <= rounding_of(review.expected, review.observed)
