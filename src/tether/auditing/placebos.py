"""The placebo of an audit: what the same audit finds where no action has an effect.

An audit of a learned model is run again on logs whose actions are permuted within each state
(`tether.auditing.placebos`), a few times, each time for some of the episodes. What it finds there is chance.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats, Ints, summed
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
from tether.logs.batches import Log
from tether.logs.cohort import Cohort, joined, search
from tether.mdp import MDP
from tether.model.form import Form, Rewards
from tether.model.pooling import StateCounts, pool, pooled_rows, state_counts
from tether.model.practice import learned_counts

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
    With the actions shuffled, the same audit would find a gain of 0 per episode; it finds 0.13: more than chance.
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
        """The measured numbers and the verdicts as plain values.

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


# ---- A log in which no action has an effect ------------------------------------------------------------------------
# A placebo: the log of a learned model with its actions permuted within each state.
#
# No action has an effect then, and nothing else has changed: states, outcomes, and how often each action was taken in
# each state stay as they are. What an audit finds in a placebo, it finds by chance.
#
# The permutation is one of the steps behind the counts of the model, state by state. So the counts of every block of
# the log (`tether.learning.folds`), and the episodes that are asked about, are of one placebo. Rewards of a step
# depend on its state and outcome alone: they have the mean over all actions. The placebo is learned as the log was.


_AT_ONCE = 1 << 22
"""How many steps are permuted at once."""


def shuffled(mdp: MDP, folds: Folds, cohort: Cohort, seed: tuple[int, ...]) -> tuple[MDP, Folds, Cohort]:
    """A placebo of a learned model, its counts by block, and some episodes of the log as they are in it."""
    rng = np.random.default_rng(seed)
    counts = state_counts(mdp.form, folds.counts.sum(axis=0))
    wide = _wide(mdp.form, counts)
    pairs = _usual_pairs(mdp.form, counts, cohort, rng)
    found = np.zeros((len(folds.counts), wide.next_state.size), dtype=np.int64)
    block, entry = _steps(mdp.form, folds, cohort)
    first_group = np.searchsorted(counts.group_state, np.arange(mdp.n_states))
    asked = _Asked(block, entry, mdp.form.next_state.size)
    for cells, entries in _slots(folds, counts):
        state = counts.pair_state[counts.entry_pair[entries]]
        order = np.lexsort((rng.random(entries.size), state))
        pair = np.empty(entries.size, np.int64)
        pair[np.argsort(state, kind="stable")] = counts.entry_pair[entries[order]]
        np.add.at(found, (cells, wide.row_start[pair] + counts.group[entries] - first_group[state]), 1)
        steps, slots = asked.among(cells, entries)
        pairs[steps] = pair[slots]
    placebo, kept = _learned(mdp, wide, found.sum(axis=0))
    actions = mdp.form.pair_action[pairs].astype(np.int64)
    return placebo, replace(folds, counts=found[:, kept]), replace(cohort, pair=pairs, action=actions)


class _Asked:
    """The steps of the episodes that are asked about, by block and transition: each is one of the steps permuted."""

    def __init__(self, block: Ints, entry: Ints, n_entries: int) -> None:
        self._n = n_entries
        self._steps = np.flatnonzero(entry >= 0)
        key = block[self._steps] * n_entries + entry[self._steps]
        order = np.argsort(key, kind="stable")
        self._steps, self._key = self._steps[order], key[order]
        first = np.searchsorted(self._key, self._key)
        self._rank = np.arange(self._key.size) - first

    def among(self, cells: Ints, entries: Ints) -> tuple[Ints, Ints]:
        """The steps that are among some steps of the log, sorted by transition and block; and where."""
        key = cells * self._n + entries
        order = np.argsort(key, kind="stable")
        at = np.searchsorted(key[order], self._key) + self._rank
        there = at < key.size
        there[there] = key[order][at[there]] == self._key[there]
        return self._steps[there], order[at[there]]


def _slots(folds: Folds, counts: StateCounts) -> Iterator[tuple[Ints, Ints]]:
    """The steps behind the counts, as block and entry; some states at a time."""
    entries = np.flatnonzero(counts.of_entry > 0)
    state = counts.pair_state[counts.entry_pair[entries]]
    entries = entries[np.argsort(state, kind="stable")]
    state = counts.pair_state[counts.entry_pair[entries]]
    before = np.cumsum(counts.of_state[: counts.of_state.size]) - counts.of_state
    part = (before // _AT_ONCE)[state]
    for number in np.unique(part):
        some = entries[part == number]
        times = folds.counts[:, some]
        cell, at = np.nonzero(times)
        often = times[cell, at]
        yield np.repeat(cell, often), np.repeat(some[at], often)


def _steps(form: Form, folds: Folds, cohort: Cohort) -> tuple[Ints, Ints]:
    """Block and entry of each step; -1 for one whose outcome was not recorded."""
    block = np.repeat(folds.blocks(cohort.ids), np.diff(cohort.start))
    pair = cohort.pair
    entry = search(form.next_state, form.row_start[pair], form.row_start[pair + 1], cohort.next_state)
    return block, np.where(cohort.next_state >= 0, entry, -1)


def _usual_pairs(form: Form, counts: StateCounts, cohort: Cohort, rng: np.random.Generator) -> Ints:
    """For each step an action of usual practice, drawn: for those that are not among the counts of the model."""
    total = np.concatenate((np.zeros(1), np.cumsum(counts.of_pair)))
    low, high = form.pair_start[cohort.state], form.pair_start[cohort.state + 1]
    wanted = total[low] + rng.random(low.size) * (total[high] - total[low])
    found = np.searchsorted(total, wanted, side="right") - 1
    return np.where(total[high] > total[low], np.clip(found, low, high - 1), cohort.pair).astype(np.int64)


def _wide(form: Form, counts: StateCounts) -> Form:
    """The form in which what followed any action of a state may follow all, for the same reward."""
    n = counts.of_state.size
    first = np.searchsorted(counts.group_state, np.arange(n + 1))
    size = np.diff(first)[counts.pair_state]
    start = np.concatenate((np.zeros(1, np.int64), np.cumsum(size)))
    pair = np.repeat(np.arange(size.size), size)
    group = np.arange(pair.size) - start[pair] + first[counts.pair_state[pair]]
    values = np.atleast_2d(form.rewards.values)
    by_entry = values if form.rewards.by_entry else values[:, counts.entry_pair]
    weight = np.where(counts.of_group[counts.group] > 0, counts.of_entry, 1.0)
    total = summed(counts.group, weight, counts.share.size)
    mean = np.stack([summed(counts.group, weight * one, total.size) / total for one in by_entry])
    rewards = mean[:, group] if form.rewards.values.ndim == 2 else mean[0, group]
    return replace(
        form,
        row_start=start.astype(form.row_start.dtype),
        next_state=counts.group_outcome[group].astype(form.next_state.dtype),
        probability=counts.share[group],
        rewards=Rewards(np.ascontiguousarray(rewards), True),
    )


def _learned(mdp: MDP, wide: Form, times: Ints) -> tuple[MDP, Ints]:
    """The model of a placebo, learned as ``mdp`` was; and which transitions of ``wide`` it has."""
    log = learned_counts(mdp)
    if log.pooling is not None:
        of_states, pooling = pool(
            wide, times, discount=mdp.discount, final_reward=mdp.final_reward, longest=log.longest
        )
        form = replace(wide, probability=pooled_rows(of_states, pooling.rho))
        return replace(mdp, form=form, counts=replace(log, transitions=times, pooling=pooling)), np.arange(times.size)
    pair = np.repeat(np.arange(wide.pair_action.size), np.diff(wide.row_start))
    of_pair = summed(pair, times, wide.pair_action.size)
    kept = np.flatnonzero((times > 0) | (of_pair[pair] == 0))
    weight: Floats = times[kept] + log.prior
    total = summed(pair[kept], weight, of_pair.size)[pair[kept]]
    probability = np.where(total > 0, weight / np.where(total > 0, total, 1.0), wide.probability[kept])
    probability = np.where(of_pair[pair[kept]] > 0, probability, wide.probability[kept])
    size = np.bincount(pair[kept], minlength=of_pair.size)
    form = replace(
        wide,
        row_start=np.concatenate((np.zeros(1, np.int64), np.cumsum(size))).astype(wide.row_start.dtype),
        next_state=wide.next_state[kept],
        probability=probability,
        rewards=Rewards(np.ascontiguousarray(wide.rewards.values[..., kept]), True),
    )
    return replace(mdp, form=form, counts=replace(log, transitions=times[kept])), kept
