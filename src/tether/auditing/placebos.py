"""The placebo of an audit: what the same audit finds where no action has an effect.

An audit of a learned model is run again on logs whose actions are permuted within each state
(`tether.learning.placebo`), a few times, each time for some of the episodes. What it finds there is chance.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.markup import paragraphs
from tether._foundation.words import counted, percent, three_digits
from tether.auditing.answer_arrays import NONE, Answers, sets_apart
from tether.auditing.audit_question import Question
from tether.auditing.engine import AuditWork
from tether.auditing.summary import Summary, is_more
from tether.auditing.where import Selection
from tether.auditing.workers import Workers
from tether.evaluation.certificate import VERDICTS
from tether.io.names_as_text import text_of
from tether.learning.folds import Folds, counted_by_block, filled
from tether.learning.placebo import shuffled
from tether.logs.batches import Log
from tether.logs.cohort import Cohort, joined
from tether.mdp import MDP

SHUFFLES = 4
"""How many placebos there are."""

_FEWEST, _MOST = 200, 2000
"""Of how many episodes, at least and at most, the placebos are answered; between these, of half of them."""

_ERRORS = 2.0
"""By how many standard errors a finding must exceed that of the placebos to be more than chance."""

_BATCH = 128


@dataclass(frozen=True, slots=True)
class Measured:
    """What the placebos of an audit have: means over their episodes; ``error`` is the standard error of ``gain``."""

    shuffles: int
    episodes: int
    gain: float
    error: float
    gained: float
    holds: float
    mistaken: float


@dataclass(frozen=True, slots=True)
class Placebo:
    """What an audit finds, beside what the same audit finds where no action has an effect; prints as a sentence.

    Attributes
    ----------
    shuffles, episodes : int
        How often the actions of the log were permuted within each state, and for how many episodes that was answered.
    gain, gained, holds, mistaken : float
        There: the mean gain of an episode; the shares of episodes with a gain, with one that holds under every causal
        model, and with a claimed mistake.
    found_gain, found_gained, found_holds, found_mistaken : float
        The same in the log itself.
    error, found_error : float
        The standard errors of the two mean gains.

    Examples
    --------
    >>> import tether
    >>> seen = {("treat", "well"): 8, ("treat", "dead"): 2, ("wait", "well"): 2, ("wait", "dead"): 3}
    >>> log = [tether.Path(["sick", after], [did]) for (did, after), times in seen.items() for _ in range(times)]
    >>> few = tether.learn(log).with_objective(final_reward={"well": 1.0})
    >>> print(tether.audit(few, log).placebo)
    With the actions shuffled, the same audit would find a gain of 0 per episode; it finds 0: no more than chance.
    >>> many = tether.learn(log * 20).with_objective(final_reward={"well": 1.0})
    >>> print(tether.audit(many, log * 20).placebo)
    With the actions shuffled, the same audit would find a gain of 0 per episode; it finds 0.132: more than chance.
    """

    shuffles: int
    episodes: int
    gain: float
    gained: float
    holds: float
    mistaken: float
    found_gain: float
    found_gained: float
    found_holds: float
    found_mistaken: float
    error: float
    found_error: float
    of: int

    @classmethod
    def beside(cls, placebo: Measured, found: Summary) -> Placebo:
        """The placebos of an audit beside its own summary."""
        n = max(1, found.ended)
        mean = float(found.gains.sum()) / n
        spread = float(found.gains @ found.gains) / n - mean**2
        return cls(
            placebo.shuffles,
            placebo.episodes,
            placebo.gain,
            placebo.gained,
            placebo.holds,
            placebo.mistaken,
            mean,
            found.gained.size / n,
            found.verdicts.get("holds", 0) / n,
            found.mistaken.size / max(1, found.answered),
            placebo.error,
            float(np.sqrt(max(0.0, spread) / n)),
            found.answered,
        )

    @property
    def shows_gain(self) -> bool:
        """Whether the mean gain is more than chance: more than two standard errors above that of the placebos."""
        return self.found_gain - self.gain > _ERRORS * float(np.hypot(self.error, self.found_error)) + 1e-12

    @property
    def shows_mistakes(self) -> bool:
        """Whether more episodes have a claimed mistake than in the placebos, by more than two standard errors."""
        variance = sum(
            p * (1 - p) / max(1, n) for p, n in ((self.mistaken, self.episodes), (self.found_mistaken, self.of))
        )
        return self.found_mistaken - self.mistaken > _ERRORS * float(np.sqrt(variance)) and self.found_mistaken > 0

    @property
    def shows_nothing(self) -> bool:
        """Whether neither gains nor mistakes are more than chance: then nobody is worth a look."""
        return not (self.shows_gain or self.shows_mistakes)

    @property
    def sentence(self) -> str:
        """Both mean gains, and whether the one is more than chance."""
        expected, found = three_digits(self.gain + 0.0), three_digits(self.found_gain + 0.0)
        than = "more" if self.shows_gain else "no more"
        shuffled = f"With the actions shuffled, the same audit would find a gain of {expected} per episode"
        return f"{shuffled}; it finds {found}: {than} than chance."

    def sentences(self) -> list[str]:
        """The sentence; and what follows from it, if nothing can be shown."""
        if self.shows_nothing:
            return [self.sentence, "Nothing can be shown from this log: no episode is listed as worth a look."]
        if not self.shows_gain:
            return [
                self.sentence,
                f"Mistakes can be shown: {percent(self.found_mistaken)} of the episodes have one, "
                f"{percent(self.mistaken)} with the actions shuffled.",
            ]
        return [self.sentence]

    def __str__(self) -> str:
        return self.sentence

    def __repr__(self) -> str:
        times = counted(self.shuffles, "shuffle")
        return f"<Placebo: mean gain {self.gain:.3g} in {times}, {self.found_gain:.3g} in the log>"

    def _repr_html_(self) -> str:
        return paragraphs(self.sentences())

    def to_dict(self) -> dict[str, Any]:
        """As plain values, with the verdicts.

        Examples
        --------
        >>> from tether.records import Placebo
        >>> shares = {f"{of}{what}": 0.0 for of in ("", "found_") for what in ("gained", "holds", "mistaken")}
        >>> one = Placebo(4, 200, gain=0.01, found_gain=0.05, error=0.002, found_error=0.004, of=400, **shares)
        >>> one.to_dict()["shows_gain"]
        True
        """
        verdicts = {"shows_gain": self.shows_gain, "shows_mistakes": self.shows_mistakes, "sentence": self.sentence}
        return {**asdict(self), **verdicts}


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """The counts of a log by fold, some of its episodes, for placebos, and its own counts by block."""

    folds: Folds
    sample: Cohort
    own: Ints


def gather(log: Log, mdp: MDP, folds: int, seed: int, selection: Selection | None) -> Gathered:
    """The counts of a log by fold, and a sample of the episodes that are asked about, in one pass.

    Without folds the counts of the model are one block, and no model leaves anything out.
    """
    sample = _Sample(seed)

    def pass_on() -> Iterator[Cohort]:
        for _, cohort in log.batches(mdp):
            sample.add(cohort if selection is None else selection.of_batch(cohort))
            yield cohort

    own = counted_by_block(mdp, pass_on(), max(1, folds), seed)
    return Gathered(filled(mdp, own, seed), sample.result(), own)


class _Sample:
    """The episodes whose ids have the smallest digests: a sample at random, the same in every order of the log."""

    def __init__(self, seed: int) -> None:
        self._key = f"tether placebo {seed}".encode()
        self._kept: list[Cohort] = []
        self._digests = np.empty(0, np.uint64)
        self._asked = 0

    def add(self, cohort: Cohort) -> None:
        fit = np.flatnonzero(np.diff(cohort.start) > 0)
        self._asked += fit.size
        digests = self._digests_of([cohort.ids[i] for i in fit.tolist()])
        if self._digests.size >= _MOST:
            below = digests < self._digests.max()
            fit, digests = fit[below], digests[below]
        if fit.size == 0:
            return
        self._kept.append(cohort.only(fit))
        self._digests = np.concatenate((self._digests, digests))
        if self._digests.size > 2 * _MOST:
            self._cut(_MOST)

    def result(self) -> Cohort:
        """The sample, in a random order."""
        self._cut(min(_MOST, max(_FEWEST, self._asked // 2)))
        return self._kept[0]

    def _cut(self, most: int) -> None:
        every = joined(self._kept)
        best = np.sort(np.argsort(self._digests, kind="stable")[:most])
        self._kept, self._digests = [every.only(best)], self._digests[best]

    def _digests_of(self, ids: list[Any]) -> Ints:
        texts = (text_of(one).encode("utf-8", "surrogatepass") for one in ids)
        digests = (hashlib.blake2b(one, digest_size=8, key=self._key).digest() for one in texts)
        return np.array([int.from_bytes(one, "little") for one in digests], dtype=np.uint64)


def measure(mdp: MDP, question: Question, gathered: Gathered, hire: Callable[..., Workers]) -> Measured:
    """Run the audit on placebos; ``hire`` makes workers: `tether.auditing.workers.make_workers`, with their number."""
    sample, folds, apart = gathered.sample, gathered.folds, sets_apart(mdp)
    means, gained, holds, mistaken, n = [], 0, 0, 0, 0
    for i in range(SHUFFLES):
        some = np.arange(i, len(sample), SHUFFLES)
        if some.size == 0:
            continue
        placebo, split, cohort = shuffled(mdp, folds, sample.only(some), (question.seed, i))
        asked = replace(question, draws=0, split=split if question.folds else None)
        with closing(hire(placebo, AuditWork(asked), n_rows=int(cohort.start[-1]))) as workers:
            for _, found in workers.answers(enumerate(_parts(cohort))):
                assert isinstance(found, Answers)
                known = found.is_answered
                mistaken += int(np.count_nonzero(found.claimed[known] > 0))
                n += int(np.count_nonzero(known))
                known &= (found.outcome != NONE) | (not apart)
                gain, observed = found.gain[known], found.observed[known]
                more = is_more(gain, observed)
                means.append((i, float(gain.sum()), gain.size))
                gained += int(np.count_nonzero(more))
                holds += int(np.count_nonzero(more & (found.verdict[known] == VERDICTS.index("holds"))))
    shuffle, sums, sizes = (np.array(column) for column in zip(*means, strict=True)) if means else (np.zeros(1),) * 3
    size = np.maximum(np.bincount(shuffle.astype(int), sizes), 1)
    each: Floats = np.bincount(shuffle.astype(int), sums) / size
    error = float(each.std(ddof=1) / np.sqrt(each.size)) if each.size > 1 else 0.0
    n, ended = max(1, n), max(1, int(sizes.sum()))
    return Measured(SHUFFLES, n, float(sums.sum()) / ended, error, gained / ended, holds / ended, mistaken / n)


def _parts(cohort: Cohort) -> Iterator[Cohort]:
    for low in range(0, len(cohort), _BATCH):
        yield cohort.part(low, min(low + _BATCH, len(cohort)))
