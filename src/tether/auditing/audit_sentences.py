"""The findings of an audit in sentences: mistakes first, then what only hindsight gains, then how sure that is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tether._foundation.arrays import Floats
from tether._foundation.rounding import ROUNDING
from tether._foundation.words import counted, of_100, percent, three_digits
from tether.auditing.tables import NO_OUTCOME, NOT_RECORDED
from tether.conditioning.model_sets import EVERY_MODEL, IF_EQUAL, hidden_causes_in_words, is_practice_assumed
from tether.explanation.terms import UNREWARDED, is_unrewarded
from tether.model.practice import strongest_in_words
from tether.plan.limits import ABOUT

if TYPE_CHECKING:
    from tether.auditing.audit_record import AuditRecord

_REASONS = 3
"""For how many episodes without an answer the sentences say why."""

_ENDS = 5
"""How many ways to end are told; the others are counted."""

_ENDED = {NO_OUTCOME: NO_OUTCOME, NOT_RECORDED: "without a recorded end"}


class Said(NamedTuple):
    """The findings in parts.

    Attributes
    ----------
    chance : what the same audit finds by chance; of a model learned from the log
    warning : that return and outcome disagree
    lead : how episodes ended, and how many mistakes could be known; or why there is no more to say
    notes : what mistakes cost, that episodes without an end are told apart, what hindsight gains, how sure that is,
        which episodes were not answered
    """

    chance: list[str]
    warning: list[str]
    lead: list[str]
    notes: list[str]


def audit_sentences(audit: AuditRecord) -> list[str]:
    """What is chance; how episodes ended; mistakes; what hindsight gains; how sure that is; which were not answered."""
    said = audit_in_parts(audit)
    return [*said.chance, *said.lead, *said.warning, *said.notes]


def audit_in_parts(audit: AuditRecord) -> Said:
    """The sentences of an audit in parts, for a page."""
    summary = audit.summary
    wrong = summary.episodes - summary.answered
    broken = [f"{counted(wrong, 'episode')} could not be answered: {_reasons(audit, wrong)}."] if wrong else []
    if not summary.answered:
        return Said([], [], ["No episode was answered."], broken)
    placebo = audit.placebo
    first = [] if placebo is None else placebo.sentences()
    if placebo is not None and placebo.shows_nothing:
        return Said(first, [], [_how_they_ended(audit)], [*_consistent(audit), *broken])
    bad = summary.mistaken
    lead = [
        _how_they_ended(audit), mistakes_in_words(bad.size, summary.answered, audit.mdp.counts is not None)
    ]  # fmt: skip
    gains = [*_unfinished(audit), *_gains(audit), *_certain(audit), *_valued(audit)]
    return Said(first, _worse_ends(audit), lead, [*cost_in_words(bad), *gains, *_consistent(audit), *broken])


def _consistent(audit: AuditRecord) -> list[str]:
    """Whether the log and the model agree; of plans, where every log was expected to agree, only that it does not."""
    found = audit.consistency
    return [] if found is None or (found.holds and audit.question["policy"] is None) else [str(found)]


def _how_they_ended(audit: AuditRecord) -> str:
    many = counted(audit.summary.answered, "episode")
    ended = {_ENDED.get(name, name): one.episodes for name, one in audit.summary.outcomes.items() if name is not None}
    if set(ended) <= {_ENDED[NO_OUTCOME]}:
        return f"{many}."
    ranked = sorted(ended, key=lambda name: (name in _ENDED.values(), -ended[name]))
    parts = [f"{ended[name]:,} {name}" for name in ranked[:_ENDS]]
    left = sum(ended[name] for name in ranked[_ENDS:])
    return f"{many}: {', '.join([*parts, *([f'{left:,} otherwise'] if left else [])])}."


def _worse_ends(audit: AuditRecord) -> list[str]:
    """In how many episodes the return and the outcome disagree; said before what the plans gain."""
    some, gained = audit.summary.worse_ends, audit.summary.gained.size
    if not some:
        return []
    which = "the one plan" if gained == 1 else f"{'all' if some == gained else f'{some:,}'} of {gained:,} plans"
    verb, make = ("gains", "makes") if some == 1 else ("gain", "make")
    return [
        f"The return and the outcome disagree: {which} that {verb} return {make} a good end less likely, or a bad one "
        "likelier. They are listed apart."
    ]


def _unfinished(audit: AuditRecord) -> list[str]:
    """A sentence that says that episodes without an end are counted apart."""
    some = audit.summary.unfinished
    if not some:
        return []
    which = "The one that is still under way is" if some == 1 else f"The {some:,} that are still under way are"
    end = "how it ends" if some == 1 else "how they end"
    return [f"{which} not counted among those that gain something: {end} is not known."]


def mistakes_in_words(bad: int, answered: int, learned: bool) -> str:
    """In how many episodes a decision was a mistake that could be known at the time.

    >>> mistakes_in_words(4, 4, learned=False)
    'In all of them a decision was a mistake that could be known at the time.'
    """
    others = "no decision can be called a mistake" if learned else "every decision was the model's best"
    if bad == 0:
        where = "In it" if answered == 1 else "In all of them"
        return f"{where} {others} at the time."
    what = "a decision was a mistake that could be known at the time"
    if bad == answered:
        return f"{'In it' if answered == 1 else 'In all of them'} {what}."
    left = answered - bad
    rest = f"in the other {'one' if left == 1 else f'{left:,}'} {others}"
    return f"In {bad:,} of them ({percent(bad / answered)}) {what}; {rest}."


def cost_in_words(bad: Floats) -> list[str]:
    """What such mistakes cost, from the cost in each episode that has one."""
    if bad.size == 0:
        return []
    cost = three_digits(float(bad.mean()))
    return [f"Such mistakes cost {cost}{'' if bad.size == 1 else ' on average, per episode that has one'}."]


def _gains(audit: AuditRecord) -> list[str]:
    """What the plans, or the policy, would have gained; and in how many episodes nobody could know that."""
    summary, question = audit.summary, audit.question
    answered, gained = summary.ended, summary.gained
    if not answered:
        return []
    if question["policy"] is not None:
        apart, mean, lost = summary.unfinished > 0, gained.mean() if gained.size else 0.0, summary.lost
        gain = many_in_words(gained.size, answered, "would have gained something", mean, apart)
        loss = many_in_words(lost.size, answered, "lost something", -lost.mean() if lost.size else 0.0, apart)
        return [f"The policy {gain}, and {loss}."]
    if gained.size == 0:
        whom = "" if answered == 1 else " in any of the others" if summary.unfinished else " in any of them"
        sentence = f"Hindsight would have gained nothing within these limits{whom}."
        no_reward = question["objective"] is None and is_unrewarded(audit.mdp)
        return [sentence, UNREWARDED] if no_reward else [sentence]
    limit = counted(question["m"], "change")
    mean, apart = float(gained.mean()), summary.unfinished > 0
    gain = many_in_words(gained.size, answered, "would have gained something", mean, apart)
    sentences = [f"With hindsight, at most {limit} {gain}.", *_worse(audit)]
    if summary.hindsight_only:
        which = "This" if gained.size == 1 else f"{summary.hindsight_only:,} of these {gained.size:,}"
        if gained.size > 1 and summary.hindsight_only == gained.size:
            which = "All of this"
        is_ = "is" if gained.size == 1 or summary.hindsight_only in (1, gained.size) else "are"
        sentences.append(f"{which} {is_} hindsight only: {_unknown(audit)} at the time.")
    return [*sentences, _about(audit)]


def _unknown(audit: AuditRecord) -> str:
    """Says that mistakes could not be known; of a learned model with decisions that seem better, that none is shown."""
    return "the log does not show that it could be known" if audit.summary.unsure else "nobody could know it"


def _worse(audit: AuditRecord) -> list[str]:
    """How many replays of the plans that gain something end worse than what happened; empty if it is not known."""
    chance = audit.summary.p_worse
    if chance is None:
        return []
    return [worse_in_words(chance, audit.summary.gained.size)]


def worse_in_words(chance: float, plans: int) -> str:
    """How many replays of some plans end worse than what happened."""
    which = "the plan" if plans == 1 else "these plans"
    if chance <= ROUNDING:
        return f"No replay of {which} ends worse than what happened."
    return f"Of 100 replays of {which}, at most {of_100(chance)} end worse than what happened."


def _about(audit: AuditRecord) -> str:
    """How many of the plans that gain something are about their episode."""
    some, of = audit.summary.about, audit.summary.gained.size
    if of == 1:
        amount = f"{percent(ABOUT)} of it or more" if some else f"less than {percent(ABOUT)} of it"
        return f"The plan is {'' if some else 'not '}about its episode ({amount} is)."
    many = "none" if not some else "all" if some == of else f"{some:,}"
    return f"In {many} of these {of:,} the plan is about its episode ({percent(ABOUT)} of it or more)."


def many_in_words(some: int, of: int, what: str, mean: float, apart: bool = False) -> str:
    """``would have gained something in 12 of them (30 %): 3.1 on average``; ``apart``: some others are not counted."""
    them, whom = ("the others", f"the other {of:,}") if apart else ("them", "them")
    if some == 0:
        return what.replace("something", "nothing") + (f" in any of {them}" if of > 1 else "")
    amount = f"{three_digits(float(mean))}{'' if some == 1 else ' on average'}"
    where = "" if of == 1 else f" in all of {them}" if some == of else f" in {some:,} of {whom} ({percent(some / of)})"
    return f"{what}{where}: {amount}"


def _certain(audit: AuditRecord) -> list[str]:
    """In how many of the episodes with a gain the expected return is larger, or could be smaller, under others."""
    summary = audit.summary
    gained = summary.gained.size
    if not (audit.question["certify"] and gained and summary.is_certified):
        return []
    holds, harm = summary.verdicts.get("holds", 0), summary.verdicts.get("could do harm", 0)
    assumed = is_practice_assumed(audit.mdp, None)
    hidden = survived_in_words(audit.summary.held, audit.question["gamma"], assumed)
    right = taken_as_right(audit)
    if np.isfinite(audit.summary.held).any():
        hidden += [sentence] if (sentence := strongest_in_words(audit.mdp)) else []
    if gained == 1:
        return [f"The expected gain {'holds' if holds else 'does not hold'} under {EVERY_MODEL}{right}.", *hidden]
    some = "none" if holds == 0 else "all" if holds == gained else f"{holds:,}"
    text = f"In {some} of these {gained:,} the expected gain holds under {EVERY_MODEL}{right}."
    return [f"{text} In {harm:,} there could be a loss under another one." if harm else text, *hidden]


def taken_as_right(audit: AuditRecord) -> str:
    """Says that a certificate takes learned probabilities as right: the end of a sentence, or an empty text."""
    counts = audit.mdp.counts
    seen = 0 if counts is None else int(counts.transitions.sum())
    return f"; this takes the probabilities learned from {counted(seen, 'observed step')} as right" if seen else ""


def survived_in_words(strengths: Floats, gamma: float | None, assumed: bool) -> list[str]:
    """In how many of the episodes in which the gain holds it survives hidden causes; without any, empty.

    ``strengths`` are those that undo each gain, ``gamma`` is the one that was asked about; ``assumed`` is
    `tether.conditioning.model_sets.is_practice_assumed`.
    """
    holds = strengths.size
    if holds == 0:
        return []
    if gamma is not None:
        left = int(np.count_nonzero(strengths > gamma))
        times = f"hidden reasons that changed the odds of an action up to {three_digits(gamma)} times"
        return [f"In {left:,} of these {holds:,} it survives {times}{IF_EQUAL if assumed else ''}."]
    said = hidden_causes_in_words(float(np.sort(strengths)[(holds - 1) // 2]), assumed)
    return [said] if holds == 1 else [f"In half of these {holds:,}, {said[0].lower()}{said[1:]}"]


def _valued(audit: AuditRecord) -> list[str]:
    """By which models the plans of a learned model are chosen and valued."""
    if audit.placebo is None:
        return []
    folds = audit.question["folds"]
    if folds:
        return [
            f"Each plan is valued by a model that did not choose it, and neither has seen its episode ({folds} folds)."
        ]
    return ["Plans are valued by the model that chose them, and it has seen their episodes: these gains are too large."]


def _reasons(audit: AuditRecord, wrong: int) -> str:
    """Why some episodes were not answered, for the first few."""
    shown = audit.first_problems(_REASONS).to_pylist()
    reasons = "; ".join(
        f"{'a row of no episode' if one['episode'] is None else one['episode']} ({one['problem']})" for one in shown
    )
    more = f"; and {wrong - len(shown):,} more, in the column problem" if wrong > len(shown) else ""
    return f"{reasons}{more}"
