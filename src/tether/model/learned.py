"""What a learned model is based on, in words: what was seen, what was left out, and which choices were made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Flags
from tether._foundation.markup import paragraphs
from tether._foundation.words import counted, folded
from tether.errors import QueryError
from tether.model.counts import Counts, Pooling, Reading
from tether.model.form import all_pair_states

if TYPE_CHECKING:
    from tether.model.model_record import ModelRecord

_LISTED = 4
"""How many pairs and states a sentence names."""

_NAMED = 30
"""How many actions and outcomes are listed with their counts."""

_FEW = 5
"""A pair of state and action seen less often than this is hardly known."""


@dataclass(frozen=True, slots=True, repr=False)
class Learned:
    """What a learned model is based on; prints as a few sentences.

    Attributes
    ----------
    episodes, steps : int
        How many there were.
    transitions : int
        How many of the steps were used: those with an outcome, of pairs seen often enough.
    unrecorded : int
        Last steps without an outcome.
    prior : float
        Pseudo-count of each possible outcome.
    minimum : int
        How often a pair must have been seen to be advised.
    pairs : int
        Pairs that are available, without those of terminal states.
    times : tuple of int
        How often these were seen: the least, the median, the most.
    dropped : tuple of (state, action, int)
        Pairs that are not available, because none of their outcomes was recorded.
    terminal : tuple of names
        States in which no action is left; they are terminal.
    cut : tuple of names
        States after which nothing is known, because records stop there, in a log that names its outcomes.
    end : name or None
        The state that pairs lead to whose outcome was never recorded.
    empty_rewards : {"", "last", "zero", "mean"}
        What empty rewards count as; see `tether.records.Counts`.
    empty : int
        How many steps have an empty reward.
    unplaced : int
        Rewards that belong to no transition, because the outcome of their step was not recorded.
    skipped : int
        How many broken episodes were left out, as asked for.
    few, unadvisable : int
        How many pairs were seen fewer than five times, and fewer than ``minimum`` times.
    states : int
        How many states there are.
    parts : tuple of str
        The columns of a state that is made of several.
    taken : tuple of (action, int)
        How often each action was seen, with its outcome recorded.
    ended : tuple of (state, int)
        How many episodes ended in each terminal state, most frequent first.
    unfinished : int
        How many episodes ended in no terminal state: their record stops while they go on.
    alike : tuple of tuples
        Names of states and of actions that differ only in case, spaces or accents.
    pooling : Pooling or None
        How far the rows of a state's actions were pooled, and a sentence about it; None for a flat prior.
    reading : Reading or None
        How the log was read, if it was a file.
    like_dead : tuple of names
        Bad ends (`tether.MDP.with_labels`) that cost nothing in the rewards of a log with unfinished episodes: in their
        returns, to be still under way counts no more than such an end.
    advisable : array (pairs,) of bool
        Whether each pair of the model may be advised: it was seen at least ``minimum`` times. Pairs of terminal states
        may.

    Examples
    --------
    >>> import tether
    >>> paths = [tether.Path(["sick", "sick", "well"], ["wait", "treat"]), tether.Path(["sick", "dead"], ["wait"])]
    >>> print(tether.learn(paths, minimum=2).learned)
    Learned from 2 episodes of 3 steps in all.
    2 pairs of state and action are available, seen 1 to 2 times (half of them at most 1); 2 of them fewer than 5 times.
    1 pair seen fewer than 2 times may not be advised.
    No action is left in 2 states, taken for terminal (absorbing, reward 0): 'well', 'dead'.
    No effect of any action can be shown: one pair of state and action differs no more than by chance.
    """

    episodes: int
    steps: int
    transitions: int
    unrecorded: int
    prior: float
    minimum: int
    pairs: int
    times: tuple[int, int, int]
    dropped: tuple[tuple[Any, Any, int], ...]
    terminal: tuple[Any, ...]
    end: Any = None
    empty_rewards: str = ""
    empty: int = 0
    unplaced: int = 0
    skipped: int = 0
    few: int = 0
    unadvisable: int = 0
    states: int = 0
    parts: tuple[str, ...] = ()
    taken: tuple[tuple[Any, int], ...] = ()
    ended: tuple[tuple[Any, int], ...] = ()
    unfinished: int = 0
    alike: tuple[tuple[Any, ...], ...] = ()
    pooling: Pooling | None = None
    reading: Reading | None = None
    like_dead: tuple[Any, ...] = ()
    cut: tuple[Any, ...] = ()
    advisable: Flags = field(default_factory=lambda: np.ones(0, dtype=bool), compare=False)

    def details(self, name: Callable[[Any], str] = repr) -> list[str]:
        """The sentences, and among them what the log contains: states, actions and outcomes with their counts.

        Examples
        --------
        >>> import tether
        >>> paths = [tether.Path(["sick", "sick", "well"], ["wait", "Wait "]), tether.Path(["sick", "sick"], ["wait"])]
        >>> for sentence in tether.learn(paths).learned.details(str)[:5]:
        ...     print(sentence)
        Learned from 2 episodes of 3 steps in all.
        2 states.
        2 actions: wait (2 times), Wait  (once).
        Outcomes: well in 1 episode. 1 of 2 episodes is unfinished: its record ends in a state that goes on.
        Names that differ only in case, spaces or accents: 'wait' and 'Wait ' (--fold-case makes them one).
        """
        parts = f", each of {len(self.parts)} columns: {', '.join(self.parts)}" if self.parts else ""
        sentences = [f"{counted(self.states, 'state')}{parts}."]
        listed = [f"{name(action)} ({_times(n)})" for action, n in self.taken[:_NAMED]]
        sentences.append(f"{counted(len(self.taken), 'action')}: {_some(listed, len(self.taken))}.")
        ended = [f"{name(state)} in {counted(n, 'episode')}" for state, n in self.ended[:_NAMED]]
        ends = f"Outcomes: {_some(ended, len(self.ended))}." if ended else "No episode has an outcome."
        if self.unfinished:
            which = "is unfinished: its record ends" if self.unfinished == 1 else "are unfinished: their records end"
            ends += f" {self.unfinished:,} of {counted(self.episodes, 'episode')} {which} in a state that goes on."
        sentences.append(ends)
        if self.alike:
            groups = [" and ".join(map(repr, group)) for group in self.alike[:_LISTED]]
            differ = f"Names that differ only in case, spaces or accents: {_some(groups, len(self.alike))}"
            sentences.append(f"{differ} (--fold-case makes them one).")
        source, *others = self.sentences(name)
        return [source, *sentences, *others]

    def sentences(self, name: Callable[[Any], str] = repr) -> list[str]:
        """One sentence for each fact; ``name`` turns a name into text."""
        sentences = [
            self._source(),
            self._pairs(),
            self._unadvisable(),
            self._dropped(name),
            self._terminal(name),
            self._cut(name),
            self._end(name),
            self._like_dead(name),
            self._empty_rewards(),
            self._unplaced(),
            self._prior(),
        ]
        return [sentence for sentence in sentences if sentence]

    def _source(self) -> str:
        if self.episodes == 0:  # a model that was saved without it
            return f"Learned from {counted(self.transitions, 'transition')}."
        lacking = f"; {counted(self.unrecorded, 'last outcome')} not recorded" if self.unrecorded else ""
        out = f"; {counted(self.skipped, 'broken episode')} left out" if self.skipped else ""
        many = f"{counted(self.episodes, 'episode')} of {counted(self.steps, 'step')}"
        return f"Learned from {many} in all{lacking}{out}."

    def _pairs(self) -> str:
        least, middle, most = self.times
        seen = counted(most, "time")
        if least != most:
            seen = f"{least:,} to {most:,} times (half of them at most {middle:,})"
            seen += f"; {self.few:,} of them fewer than {_FEW} times" if self.few else ""
        are = "pair of state and action is" if self.pairs == 1 else "pairs of state and action are"
        return f"{self.pairs:,} {are} available, seen {seen}."

    def _unadvisable(self) -> str:
        if not self.unadvisable:
            return ""
        return f"{counted(self.unadvisable, 'pair')} seen fewer than {self.minimum:,} times may not be advised."

    def _dropped(self, name: Callable[[Any], str]) -> str:
        if not self.dropped:
            return ""
        pairs = [f"{name(action)} in {name(state)}" for state, action, _ in self.dropped[:_LISTED]]
        which = "pair whose outcome was never recorded is"
        if len(self.dropped) > 1:
            which = "pairs whose outcomes were never recorded are"
        return f"{len(self.dropped):,} {which} not available: {_some(pairs, len(self.dropped))}."

    def _terminal(self, name: Callable[[Any], str]) -> str:
        if not self.terminal:
            return ""
        states = _some([name(state) for state in self.terminal[:_LISTED]], len(self.terminal))
        many = counted(len(self.terminal), "state")
        return f"No action is left in {many}, taken for terminal (absorbing, reward 0): {states}."

    def _cut(self, name: Callable[[Any], str]) -> str:
        if not self.cut:
            return ""
        states = _some([name(state) for state in self.cut[:_LISTED]], len(self.cut))
        why = "is not known, and counts 0, because records stop there without an outcome"
        return f"What follows {counted(len(self.cut), 'state')} {why}: {states}."

    def _end(self, name: Callable[[Any], str]) -> str:
        return "" if self.end is None else f"Pairs whose outcome was never recorded lead to {name(self.end)}."

    def _like_dead(self, name: Callable[[Any], str]) -> str:
        if not self.like_dead:
            return ""
        bad = name(self.like_dead[0])
        return (
            f"In returns, to be still under way counts like {bad}. Say what it is worth to be in a state at the end "
            f"(--final-reward STATE=VALUE), or ask for the outcome (--objective 'avoid {bad}')."
        )

    def _empty_rewards(self) -> str:
        if not self.empty:
            return ""
        if self.empty == self.steps:
            return f"All {self.empty:,} rewards are empty: they count 0."
        which = "1 step" if self.empty == 1 else f"{self.empty:,} steps"
        if self.empty_rewards == "last":
            return f"Rewards stand only in the last steps of episodes: the empty ones of {which} count 0."
        what = "0" if self.empty_rewards == "zero" else "the mean of their transition (or of their pair; else 0)"
        return f"As asked, the empty rewards of {which} count {what}."

    def _unplaced(self) -> str:
        if not self.unplaced:
            return ""
        steps = "1 step" if self.unplaced == 1 else f"{self.unplaced:,} steps"
        return (
            f"The rewards of {steps} are left out, because the outcome was not recorded; with mean rewards of pairs "
            "(rewards='pair') they count."
        )

    def _prior(self) -> str:
        if self.pooling is not None:
            return self.pooling.sentence
        if self.prior == 0:
            return "Probabilities are the shares seen (maximum likelihood)."
        often = "once" if self.prior == 1 else f"{self.prior:g} times"
        return f"Probabilities are posterior means: each possible outcome counts as seen {often} more."

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return paragraphs(self.sentences())


def _some(listed: list[str], total: int) -> str:
    comma = "; " if any(", " in one for one in listed) else ", "  # a state of several columns has commas of its own
    return comma.join(listed) + (f"{comma}…" if total > len(listed) else "")


def _times(n: int) -> str:
    return "once" if n == 1 else counted(n, "time")


def alike(names: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Names that differ only in case, spaces or accents, also in a part of a tuple.

    >>> alike(["aspirin", "Aspirin", "other"]), alike([("ill", 1), ("Ill", 1), ("Ill", 2)])
    ([('aspirin', 'Aspirin')], [('ill', 'Ill')])
    """
    if names and isinstance(names[0], tuple):
        parts = zip(*(name for name in names if isinstance(name, tuple)), strict=False)
        return [group for part in parts for group in alike(list(dict.fromkeys(part)))]
    together: dict[str, list[Any]] = defaultdict(list)
    for name in names:
        if isinstance(name, str):
            together[folded(name)].append(name)
    return [tuple(group) for group in together.values() if len(group) > 1]


def _like_dead(mdp: ModelRecord, counts: Counts) -> tuple[Any, ...]:
    """Bad ends that earn no less, when they are reached, than a step that goes on does on average."""
    form, seen = mdp.form, counts.transitions
    if mdp.final_reward is not None or not form.rewards.values.any():
        return ()
    rewards = form.rewards.at(0)
    entry_pair = np.repeat(np.arange(form.pair_action.size), np.diff(form.row_start))
    earned = rewards if form.rewards.by_entry else rewards[entry_pair]
    goes_on = ~np.isin(form.next_state, form.terminal)
    if not (seen * goes_on).sum():
        return ()
    usual, bad = float(np.average(earned, weights=seen * goes_on)), mdp.labels.on_side("bad")
    found = []
    for state in form.terminal[bad[form.terminal]].tolist():
        reached = np.where(form.next_state == state, seen, 0)
        if reached.sum() and float(np.average(earned, weights=reached)) >= usual - 1e-12:
            found.append(mdp.states[state])
    return tuple(found)


def learned(mdp: ModelRecord, counts: Counts) -> Learned:
    """What a learned model is based on; ``counts`` are its own."""
    form = mdp.form
    if counts.transitions.size != form.next_state.size:
        raise QueryError(
            f"the model has {form.next_state.size:,} transitions, but counts for {counts.transitions.size:,}"
        )
    per_pair = np.add.reduceat(counts.transitions, form.row_start[:-1])
    living = ~np.isin(all_pair_states(form.pair_start), form.terminal)
    times = np.sort(per_pair[living])
    taken = np.bincount(form.pair_action[living], per_pair[living], mdp.n_actions).astype(np.int64)
    reached = np.bincount(form.next_state, counts.transitions, mdp.n_states)[form.terminal].astype(np.int64)
    real = ~np.isin(form.terminal, [*counts.cut, counts.end])
    unfinished = max(0, counts.episodes - int(reached[real].sum()))
    order = [i for i in np.argsort(-reached, kind="stable") if real[i] and reached[i]]
    return Learned(
        counts.episodes,
        counts.steps,
        int(counts.transitions.sum()),
        counts.unrecorded,
        counts.prior,
        counts.minimum,
        int(times.size),
        (int(times[0]), int(times[(times.size - 1) // 2]), int(times[-1])) if times.size else (0, 0, 0),
        tuple((mdp.states[int(s)], mdp.actions[int(a)], int(n)) for s, a, n in counts.dropped),
        mdp.names_of(np.setdiff1d(form.terminal, counts.cut)),
        None if counts.end < 0 else mdp.states[counts.end],
        counts.empty_rewards,
        counts.empty,
        counts.unplaced,
        skipped=counts.skipped,
        few=int(np.count_nonzero(times < _FEW)),
        unadvisable=int(np.count_nonzero(times < counts.minimum)),
        states=mdp.n_states,
        parts=tuple(getattr(mdp.states[0], "_fields", ())),
        taken=tuple((mdp.actions[a], int(n)) for a, n in enumerate(taken)),
        ended=tuple((mdp.states[int(form.terminal[i])], int(reached[i])) for i in order),
        unfinished=unfinished,
        like_dead=_like_dead(mdp, counts) if unfinished else (),
        cut=mdp.names_of(mdp.cut),
        alike=(*alike(mdp.states), *alike(mdp.actions)),
        pooling=counts.pooling,
        reading=counts.reading,
        advisable=(per_pair >= counts.minimum) | ~living,
    )
