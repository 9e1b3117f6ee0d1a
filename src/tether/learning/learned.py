"""What a learned model is based on, in words: how much was seen, what was left out, and which choices were made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._foundation.markup import paragraphs
from tether._foundation.words import counted
from tether.errors import QueryError
from tether.model.form import all_pair_states
from tether.model.mdp import MDP

__all__ = ["Learned", "learned"]

_LISTED = 4
"""How many pairs and states a sentence names."""


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
        How often a pair had to be seen.
    pairs : int
        Pairs that are available, without those of terminal states.
    times : tuple of int
        How often these were seen: the least, the median, the most.
    dropped : tuple of (state, action, int)
        Pairs seen less often than ``minimum``, and how often; they are not available.
    terminal : tuple of names
        States in which no action is left; they are terminal.
    end : name or None
        The state that pairs lead to whose outcome was never recorded.
    empty_rewards : {"", "last", "zero", "mean"}
        What empty rewards count as; see `tether.Counts`.
    empty : int
        How many steps have an empty reward.
    unplaced : int
        Rewards that belong to no transition, because the outcome of their step was not recorded.

    Examples
    --------
    >>> import tether
    >>> paths = [tether.Path(["sick", "sick", "well"], ["wait", "treat"]), tether.Path(["sick", "dead"], ["wait"])]
    >>> print(tether.learned(tether.learn(paths, minimum=2)))
    Learned from 2 episodes of 3 steps in all.
    1 pair of state and action is available, seen 2 times.
    1 pair seen fewer than 2 times is not available: 'treat' in 'sick' (1).
    No action is left in 2 states, taken for terminal (absorbing, reward 0): 'well', 'dead'.
    Probabilities are the shares seen (maximum likelihood).
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

    def sentences(self, name: Callable[[Any], str] = repr) -> list[str]:
        """One sentence for each fact; ``name`` turns a name into text."""
        sentences = [
            self._source(),
            self._pairs(),
            self._dropped(name),
            self._terminal(name),
            self._end(name),
            self._empty_rewards(),
            self._unplaced(),
            self._prior(),
        ]
        return [sentence for sentence in sentences if sentence]

    def _source(self) -> str:
        if self.episodes == 0:  # a model that was saved without it
            return f"Learned from {counted(self.transitions, 'transition')}."
        lacking = f"; {counted(self.unrecorded, 'last outcome')} not recorded" if self.unrecorded else ""
        return f"Learned from {counted(self.episodes, 'episode')} of {counted(self.steps, 'step')} in all{lacking}."

    def _pairs(self) -> str:
        least, middle, most = self.times
        seen = counted(most, "time")
        if least != most:
            seen = f"{least:,} to {most:,} times (half of them at most {middle:,})"
        are = "pair of state and action is" if self.pairs == 1 else "pairs of state and action are"
        return f"{self.pairs:,} {are} available, seen {seen}."

    def _dropped(self, name: Callable[[Any], str]) -> str:
        if not self.dropped:
            return ""
        pairs = [f"{name(action)} in {name(state)} ({times})" for state, action, times in self.dropped[:_LISTED]]
        what = f"seen fewer than {self.minimum:,} times" if self.minimum > 1 else "whose outcome was never recorded"
        are = "is" if len(self.dropped) == 1 else "are"
        return f"{counted(len(self.dropped), 'pair')} {what} {are} not available: {_some(pairs, len(self.dropped))}."

    def _terminal(self, name: Callable[[Any], str]) -> str:
        if not self.terminal:
            return ""
        states = _some([name(state) for state in self.terminal[:_LISTED]], len(self.terminal))
        many = counted(len(self.terminal), "state")
        return f"No action is left in {many}, taken for terminal (absorbing, reward 0): {states}."

    def _end(self, name: Callable[[Any], str]) -> str:
        return "" if self.end is None else f"Pairs whose outcome was never recorded lead to {name(self.end)}."

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
    return ", ".join(listed) + (", …" if total > len(listed) else "")


def learned(mdp: MDP) -> Learned:
    """What a learned model is based on: how much was seen, what was left out, which choices were made.

    Examples
    --------
    >>> import tether
    >>> tether.learned(tether.learn([tether.Path(["sick", "well"], ["treat"])])).terminal
    ('well',)
    """
    counts = mdp.counts
    if counts is None:
        raise QueryError("this model was not learned from episodes; tether.learn(episodes) makes one that was")
    form = mdp.form
    per_pair = np.add.reduceat(counts.transitions, form.row_start[:-1])
    living = ~np.isin(all_pair_states(form.pair_start), form.terminal)
    times = np.sort(per_pair[living])
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
        mdp.names_of(form.terminal),
        None if counts.end < 0 else mdp.states[counts.end],
        counts.empty_rewards,
        counts.empty,
        counts.unplaced,
    )
