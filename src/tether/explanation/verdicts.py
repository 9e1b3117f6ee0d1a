"""Three questions, three short verdicts, always in this order: mistake or luck? about this episode? how sure?

They are what a page, the terminal and a notebook say first. Everything in them comes from records: the review
(`tether.review`), the replay (`tether.explanation.replay`), the certificate (`Plan.certify`), the risk (`Plan.risk`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from tether._foundation.markup import Displayed
from tether._foundation.rounding import ROUNDING, rounding_of
from tether._foundation.words import counted, percent, three_digits
from tether.evaluation.plan_risk import risk_of
from tether.evaluation.tailoring import about_plan
from tether.explanation.about_episode import RARE, left_to_chance, strength
from tether.explanation.evidence import learned_sentences
from tether.explanation.replay import TIED, Replay, of_hundred
from tether.explanation.reviewing import ending, review_verdict, review_word
from tether.explanation.sentences import disagreeing
from tether.explanation.state_words import Name, acting

if TYPE_CHECKING:
    from tether.explanation.explain import Explanation
    from tether.explanation.mistakes import Review
    from tether.model.properties import Property

_LUCK, ABOUT, _HOW_SURE = "Mistake or luck?", "About this episode?", "How sure?"
NOTHING_CHANGED = "Nothing is changed: no plan within these limits does better than what was done."
NOT_WITHIN_LIMITS = "With hindsight: no, not within these limits."
BEST_CHANGE = "With hindsight, the best change within the limits: "
NO_VALUE = "The plain model has no value: a state without actions can be reached."

_ALONE, _NO_FILE = r"(?<![-\w/=])", r"(?![-\w/=]|\.\w)"
"""Before and after a word that is not part of an option, such as --step, or of the name of a file."""

_LISTED = 3
"""How many changes the sentence about them lists."""

_LITTLE, _MUCH = 0.25, 0.75
"""Below this share of averted outcomes hindsight helps a little; from that on it helps."""


@dataclass(frozen=True, slots=True)
class Nouns(Displayed):
    """What a log calls an episode and a step: ``Nouns("patient", "hour")``.

    The record of a patient stays an episode: only *this* episode, each or another one, and several, are patients.

    Examples
    --------
    >>> Nouns("patient", "hour")("Tied to this episode up to step 2, of 10 steps. It may end within the episode.")
    'Tied to this patient up to hour 2, of 10 hours. It may end within the episode.'
    >>> Nouns(step="hour")("Later by a step. (On the command line: --step 4h.)")
    'Later by an hour. (On the command line: --step 4h.)'
    """

    episode: str = "episode"
    step: str = "step"

    def __call__(self, text: str) -> str:
        if self.episode != "episode":
            which = r"\b(this|each|every|per|other|another|one) episode\b"
            text = re.sub(which, rf"\1 {self.episode}", text, flags=re.IGNORECASE)
            text = re.sub(r"\b1 episode\b", f"1 {self.episode}", text)
            text = re.sub(rf"{_ALONE}episodes{_NO_FILE}", f"{self.episode}s", text)
            text = re.sub(rf"{_ALONE}Episode(s?){_NO_FILE}", rf"{self.episode.capitalize()}\1", text)
        if self.step != "step":
            article = "an" if self.step.startswith(("a", "e", "i", "o", "u", "hour")) else "a"
            text = re.sub(rf"{_ALONE}a step\b", f"{article} {self.step}", text)
            text = re.sub(rf"{_ALONE}step(s?){_NO_FILE}", rf"{self.step}\1", text)
            text = re.sub(rf"{_ALONE}Step(s?){_NO_FILE}", rf"{self.step.capitalize()}\1", text)
        return text


@dataclass(frozen=True, slots=True)
class Verdict(Displayed):
    """The answer to one question: a word or two, then the sentences for it.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> about = tether.counterfactual(grid.mdp, grid.path).plan(k=6, m=1).explain().verdicts().about
    >>> about.question, about.word
    ('About this episode?', 'Hardly.')
    """

    question: str
    word: str
    sentences: tuple[str, ...]


UNCHANGED = Verdict(ABOUT, "Yes.", ("Nothing is changed: it is this episode.",))


@dataclass(frozen=True, slots=True)
class Verdicts(Displayed):
    """What is said first about a plan.

    Attributes
    ----------
    ended : str
        The length of the episode, and how it ended.
    foreseen, hindsight : str
        Whether other decisions would have helped: with what could be known then, and with hindsight.
    change : str
        What the plan changes.
    luck, about, sure : Verdict
        Mistake or luck? About this episode? How sure?
    worse_end : str
        That the plan gains return, but makes a good end less likely; usually empty.

    Examples
    --------
    >>> import tether
    >>> patient = tether.cases.sepsis()
    >>> found = tether.counterfactual(patient.mdp, patient.path).plan(k=9, m=2).explain().verdicts(str)
    >>> found.ended
    '10 steps, died at step 3'
    >>> found.foreseen, found.hindsight
    ('Knowing what could be known then: no.', 'With hindsight: a little, 85 of 100 replays still end in death.')
    >>> [one.word for one in found]
    ['Luck.', 'Hardly.', 'Not sure.']
    """

    ended: str
    foreseen: str
    hindsight: str
    change: str
    luck: Verdict
    about: Verdict
    sure: Verdict
    worse_end: str = ""

    def __iter__(self) -> Iterator[Verdict]:
        return iter((self.luck, self.about, self.sure))

    @property
    def lines(self) -> tuple[str, ...]:
        """All that is said first, the verdict before the three answers, and these before the change."""
        answers = (f"{one.question} {one.word} {' '.join(one.sentences)}" for one in self)
        said = (self.worse_end, self.foreseen, self.hindsight, *answers, self.change)
        return tuple(line for line in said if line)

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def called(self, nouns: Nouns) -> Verdicts:
        """What is said, with the words of a log for an episode and a step."""
        luck, about, sure = (
            Verdict(nouns(one.question), nouns(one.word), tuple(map(nouns, one.sentences))) for one in self
        )
        ended, foreseen, hindsight, change = map(nouns, (self.ended, self.foreseen, self.hindsight, self.change))
        return Verdicts(ended, foreseen, hindsight, change, luck, about, sure, nouns(self.worse_end))


def verdicts_of(explanation: Explanation, name: Name, nouns: Nouns | None = None) -> Verdicts:
    """What is said first about an explained plan; ``name`` turns a name into text."""
    review, replay = explanation.review, explanation.replay(name)
    return Verdicts(
        ended_in_words(replay.T, replay.ended, replay.outcome),
        foreseen_in_words(review, name),
        hindsight_in_words(explanation, replay),
        _changes(explanation, replay, name),
        luck_verdict(review, name, NO_VALUE),
        _about(explanation, replay),
        _sure(explanation, name),
        " ".join(disagreeing(explanation)),
    ).called(nouns or Nouns())


def ended_in_words(T: int, ended: int | None, outcome: str | None) -> str:
    """How long an episode was, and how and when it ended, where it did.

    >>> ended_in_words(10, 3, "died")
    '10 steps, died at step 3'
    """
    steps = counted(T, "step")
    return steps if ended is None or outcome is None else f"{steps}, {outcome} at step {ended}"


def luck_verdict(review: Review | None, name: Name, unknown: str) -> Verdict:
    """Mistake or luck; ``unknown`` says why that is not known, where there is no review."""
    if review is None:
        return Verdict(_LUCK, "Not known.", (unknown,))
    return Verdict(_LUCK, review_word(review), tuple(review_verdict(review, name)))


def foreseen_in_words(review: Review | None, name: Name) -> str:
    """Whether other decisions would have helped, with what could be known then."""
    then = "Knowing what could be known then:"
    if review is None:
        return f"{then} not known."
    worst = review.largest()
    if worst is not None:
        return f"{then} yes, {acting(worst.best, name)} instead of {name(worst.action)} at step {worst.t}."
    if review.is_silent or review.mistakes > rounding_of(review.expected, review.observed):
        return f"{then} the log does not show it."
    return f"{then} no."


def hindsight_in_words(explanation: Explanation, replay: Replay) -> str:
    """What hindsight would have changed, in outcomes; in the expected score, where there are none."""
    plan = explanation.plan
    if not explanation.changes:
        return NOT_WITHIN_LIMITS
    happened = next((one for one in replay.endings if one.name == replay.outcome), None)
    if happened is not None and happened.end < 1 - ROUNDING:
        return left_in_words(happened.name, happened.side, happened.end)
    return worth_in_words(plan.objective, plan.observed_value, plan.value)


def left_in_words(outcome: str, side: str, left: float) -> str:
    """With hindsight, how many of 100 replays still end as the episode did.

    >>> left_in_words("died", "bad", 0.85), left_in_words("hole", "bad", 0.28)  # doctest: +NORMALIZE_WHITESPACE
    ('With hindsight: a little, 85 of 100 replays still end in death.',
     'With hindsight: in part, 28 of 100 replays still end the same way (hole).')
    """
    if side == "good":
        return f"With hindsight: a higher expected score, but only {of_hundred(left)} of 100 replays end so well."
    much = "a little, " if 1 - left < _LITTLE else "in part, " if 1 - left < _MUCH else "yes, "
    end = ending(outcome)
    still = f"{of_hundred(left)} of 100 replays still end {end}" if left > ROUNDING else f"no replay ends {end}"
    return f"With hindsight: {much}{still}."


def worth_in_words(objective: Property | None, before: float, after: float) -> str:
    """With hindsight, the chance of what is asked for, or the expected score."""
    if objective is not None:
        return f"With hindsight: the chance that {objective.in_words} is {percent(after)} instead of {percent(before)}."
    now, then = three_digits(after), three_digits(before)
    return f"With hindsight: an expected score (return) of {now} instead of {then}."


def _changes(explanation: Explanation, replay: Replay, name: Name) -> str:
    """What the plan changes; no action is said to replace one after the end of the observed episode."""
    if not explanation.changes:
        return NOTHING_CHANGED
    usual = [step for step in explanation.changes if step.changed >= RARE] or list(explanation.changes)
    listed: list[str] = []
    told = 0
    for (instead, done, over), group in groupby(usual, key=lambda step: _kind(step, replay)):
        steps = list(group)
        if len(listed) == _LISTED:
            break
        told += len(steps)
        first, last = steps[0].t, steps[-1].t
        when = f"at step {first}" if first == last else f"from step {first} to {last}"
        share = max(step.changed for step in steps)
        often = "" if share > 0.9995 else " if it is not over by then" if over else f" ({percent(share)})"
        listed.append(f"{acting(instead, name)}{'' if over else f' instead of {name(done)}'} {when}{often}")
    left = len(explanation.changes) - told
    more = f"; and changes at {counted(left, 'other step')}" if left else ""
    return f"{BEST_CHANGE}{'; '.join(listed)}{more}."


def _kind(step: Any, replay: Replay) -> tuple[Any, Any, bool]:
    over = replay.ended is not None and step.t >= replay.ended
    return step.instead, None if over else step.observed_action, over


def _about(explanation: Explanation, replay: Replay) -> Verdict:
    plan = explanation.plan
    if not left_to_chance(plan.asked, explanation.outlook.chain):
        return Verdict(ABOUT, "Yes.", (strength(plan.asked, explanation.outlook, explanation.steps),))
    if replay.first_change is None:
        return UNCHANGED
    share, until = about_plan(plan), replay.tied_until
    word = how_much(share) if until or share >= TIED else "No."
    nearly = "nearly " if (replay.strength[until:] > ROUNDING).any() else ""
    if until == replay.T:
        sentence = "Tied to this episode at every step."
    elif until == 0:
        sentence = f"From the first step on, it is {nearly}what the model expects of anyone."
    else:
        sentence = (
            f"Tied to this episode up to step {until}; after that it is {nearly}what the model expects of anyone."
        )
    more = f"From the first change on, {percent(share)} of it is about this episode." if share > ROUNDING else ""
    return Verdict(ABOUT, word, (sentence, more) if more else (sentence,))


def how_much(share: float) -> str:
    """How much of a plan is about its episode, in a word.

    >>> how_much(0.59), how_much(0.25), how_much(0.02)
    ('Yes.', 'Partly.', 'Hardly.')
    """
    return "Yes." if share >= 0.5 else "Partly." if share >= TIED else "Hardly."


_SURE = {
    "holds": (
        "Yes, if the model is right.",
        "Something is gained on average, under every causal model in which luck is unrelated over time.",
    ),
    "holds if stable": ("Fairly.", "Something is gained on average under every stable causal model that fits."),
    "never worse": (
        "Not sure.",
        "On average it could not have been worse. That it is better rests on an assumption that no data can test.",
    ),
    "never worse if stable": (
        "Not sure.",
        "That it is better rests on an assumption that no data can test; without it, it could do harm.",
    ),
    "seen too rarely": (
        "Not sure.",
        "An advised action is so rare in the log that what it leads to is hardly known.",
    ),
    "could do harm": (
        "No: it could do harm.",
        "Under another causal model that fits as well, it is worse on average than what was done.",
    ),
}
"""A word and a sentence for each verdict of a certificate."""


def sure_verdict(certificate: str | None, changed: bool, unchecked: str = "", more: Sequence[str] = ()) -> Verdict:
    """How sure it is, by the verdict of a certificate; ``unchecked`` says why there is none, ``more`` what else counts.

    >>> sure_verdict("never worse", changed=True).word, sure_verdict(None, changed=False).word
    ('Not sure.', 'Certain.')
    """
    if not changed:
        return Verdict(_HOW_SURE, "Certain.", ("Nothing is changed, so nothing rests on an assumption.",))
    if certificate is None:
        return Verdict(_HOW_SURE, "Not checked.", (unchecked or "Other causal models were not considered.", *more))
    word, said = _SURE[certificate]
    return Verdict(_HOW_SURE, word, (said, *more))


def _sure(explanation: Explanation, name: Name) -> Verdict:
    plan, found, more = explanation.plan, explanation.certificate, list[str]()
    if found is not None and explanation.changes and plan.objective is None:
        worse = risk_of(plan).worse
        if worse > 0.005:
            more.append(f"In {of_hundred(worse)} of 100 replays it ends with a lower score than what happened.")
    more += learned_sentences(explanation, name)[:1]
    verdict = None if found is None else found.verdict
    return sure_verdict(verdict, bool(explanation.changes), explanation.uncertified or "", more)
