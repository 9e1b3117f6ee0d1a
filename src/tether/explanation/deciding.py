"""Which decisions mattered, in sentences."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tether._foundation.rounding import ROUNDING, rounding_of
from tether._foundation.words import counted, number, percent
from tether.conditioning.model_sets import IN_SHORT
from tether.errors import QueryError
from tether.evaluation.one_change import decided_from, one_could_differ
from tether.explanation.reviewing import outcome_noun

if TYPE_CHECKING:
    from tether.evaluation.outcomes import Outcome
    from tether.explanation.decisions import Decision, Decisions


KNOWN_THEN = {
    "": "",
    "better": " It could be known at the time that it was better.",
    "not shown": " The log does not show that it was better at the time.",
    "not better": " Nobody could know that at the time.",
}
"""The sentence after a decision that would have been better, by what was known of it (`Decisions.known_then`)."""


def decision_sentences(decisions: Decisions, outcome: Outcome | None, name: Callable[[Any], str]) -> list[str]:
    """Which decision mattered most, for the return and for the outcome; and from when on nothing mattered."""
    others = [row for row in decisions.rows if not row.is_observed]
    if not others:
        return ["There was nothing to decide: at every step only one action was available."]
    known = [row for row in others if row.gain is not None]
    sentences = [_for_the_return(decisions, known, name)] if known else []
    if outcome is not None:
        sentences += _for_the_outcome(decisions, outcome, known, name)
    unknown = len(others) - len(known)
    if unknown:
        what = f"{counted(unknown, 'other action')} of {len(others)}" if known else "any other action"
        sentences.append(
            f"For {what} nothing can be said about a single change: it can lead to a state where a later observed "
            "action is not available."
        )
    return sentences


def _for_the_return(decisions: Decisions, known: list[Decision], name: Callable[[Any], str]) -> str:
    seen = decisions.observed_value
    rounding = rounding_of(seen)
    value, in_words = _what(decisions), _value_in_words(decisions)
    best = max(known, key=lambda row: row.gain or 0.0)
    if (best.gain or 0.0) > rounding:
        return (
            f"With hindsight, the decision at step {best.t} mattered most: {_instead(decisions, best, name)}, and "
            f"nothing else changed, would have given {_article(value)} of {in_words(best.value or 0.0)} instead of "
            f"{in_words(seen)}.{KNOWN_THEN[decisions.known_then(best)]}"
        )
    worst = min(known, key=lambda row: row.gain or 0.0)
    better = "smaller" if decisions.minimise else "larger"
    if (worst.gain or 0.0) < -rounding:
        return (
            f"No other action, with nothing else changed, would have given a {better} {value}. The decision at "
            f"step {worst.t} mattered most: {_instead(decisions, worst, name)} would have given "
            f"{in_words(worst.value or 0.0)} instead of {in_words(seen)}."
        )
    if decisions.objective is not None:
        return f"No single decision mattered to this: with any other action the {value} would be {in_words(seen)}."
    return (
        f"No single decision mattered to the return: with any other action it would be expected to be {number(seen)}."
    )


def _what(decisions: Decisions) -> str:
    if decisions.objective is None:
        return "expected return"
    return f"chance that {decisions.objective.in_words}"


def _article(what: str) -> str:
    return f"{'an' if what.startswith('e') else 'a'} {what}"


def _value_in_words(decisions: Decisions) -> Callable[[float], str]:
    return number if decisions.objective is None else percent


def _for_the_outcome(
    decisions: Decisions, outcome: Outcome, known: list[Decision], name: Callable[[Any], str]
) -> list[str]:
    noun, is_good = outcome_noun(outcome.name), decisions.ended_well
    sentences, event = [], f"The {noun}" if noun else f"The outcome, {name(outcome.name)},"
    best = max(known, key=lambda row: row.necessity or 0.0, default=None)
    from_when = decided_from(decisions.asked, outcome)
    if best is not None and (best.necessity or 0.0) > ROUNDING:
        chance = best.necessity or 0.0
        how = "for certain" if chance >= 1 - ROUNDING else f"in {percent(chance).removesuffix(' %')} of 100 replays"
        then = _expected_then(decisions, best)
        where = "was most at risk" if is_good else "could best have been averted"
        sentences.append(
            f"{event} {where} at step {best.t}: {name(best.action)}, and nothing else changed, would have "
            f"{'lost' if is_good else 'averted'} it {how}{_over_models(decisions, best)}.{then}"
        )
    elif from_when > 0 and known:
        ended = f"{event[0].lower()}{event[1:].removesuffix(',')}"
        verb = "changed" if is_good else "averted"
        if one_could_differ(decisions.asked, outcome):
            sentences.append(
                f"With the luck of this episode, no other action, with nothing else changed, would have {verb} "
                f"{ended}. Under another causal model that fits as well, one could have."
            )
        else:
            sentences.append(f"No other action, with nothing else changed, could have {verb} {ended}.")
    if from_when < decisions.cf.T:
        nothing = "nothing done could have changed the outcome"
        whole = "Nothing done at any step could have changed the outcome."
        sentences.append(f"From the observed state at step {from_when} on, {nothing}." if from_when else whole)
    return sentences


def _expected_then(decisions: Decisions, best: Decision) -> str:
    """Whether the action was the better one by what could be known at the time, as a further sentence."""
    done = next(row for row in decisions.at(best.t) if row.is_observed)
    if best.mistake is None or done.mistake is None:
        return ""
    if best.mistake > done.mistake:
        return f" By what could be known at the time, it was worse ({_what(decisions)})."
    return "" if decisions.ended_well else KNOWN_THEN[decisions.known_then(best)]


def _over_models(decisions: Decisions, best: Decision) -> str:
    """The range of a necessity over every causal model, and if luck is related; empty where it is not known."""
    try:
        every = decisions.necessity_bounds(best.t, best.action)[0]
    except QueryError:
        return ""
    low, high = percent(every.least), percent(every.most)
    least, most = map(percent, every.related or (every.least, every.most))
    said = [] if low == high else [f"{low} to {high} over {IN_SHORT}"]
    if (least, most) != (low, high):
        said.append(f"{least} to {most} if {'it may be' if said else 'luck is'} related")
    return f" ({'; '.join(said)})" if said else ""


def _instead(decisions: Decisions, row: Decision, name: Callable[[Any], str]) -> str:
    return f"{name(row.action)} instead of {name(decisions.cf.path.actions[row.t])}"
