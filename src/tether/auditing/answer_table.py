"""The answers to a cohort, by episode and by step, as they are found batch after batch."""

from __future__ import annotations

import numpy as np

from tether._foundation.arrays import Floats, Ints

NOT_SEEN = np.iinfo(np.int64).max
"""How often the advised actions of an episode were seen, if none is advised."""


class AnswerTable:
    """The answers to a cohort, by episode and by step, as they are found batch after batch."""

    def __init__(self, start: Ints, labels: int) -> None:
        episodes, steps = start.size - 1, int(start[-1])
        names = "value", "observed", "strength", "influenced", "guaranteed", "gamma_star"
        for name in (*names, "about", "p_worse", "best", "credible_low", "credible_high"):
            setattr(self, name, np.full(episodes, np.nan))
        self.value: Floats
        self.observed: Floats
        self.strength: Floats
        self.influenced: Floats
        self.guaranteed: Floats
        self.gamma_star: Floats
        self.about: Floats
        self.p_worse: Floats
        self.best: Floats
        self.credible_low: Floats
        self.credible_high: Floats
        self.k, self.verdict = np.full(episodes, -1, np.int64), np.full(episodes, -1, np.int8)
        self.least_seen = np.full(episodes, NOT_SEEN, np.int64)
        self.answered = np.zeros(episodes, bool)
        self.labels = np.full((episodes, labels), np.nan)
        self.change_pair, self.change_chance = np.full(steps, -1, np.int64), np.zeros(steps)
        self._ends: list[tuple[Ints, Ints, Floats]] = []
        self._start = start

    def add(self, name: str, episodes: Ints, amounts: Floats) -> None:
        """Add to a column of some episodes; a number that is not known yet counts 0."""
        column = getattr(self, name)
        before = column[episodes]
        column[episodes] = np.where(np.isnan(before), 0.0, before) + amounts

    def first_step(self, episodes: Ints) -> Ints:
        """The first step of each of some episodes."""
        first: Ints = self._start[episodes]
        return first

    def add_ends(self, episode: Ints, code: Ints, chance: Floats) -> None:
        """Add the probability of each class of outcomes of some episodes."""
        kept = chance > 0
        self._ends.append((episode[kept], code[kept], chance[kept]))

    def ends(self, episodes: int) -> tuple[Ints, Ints, Floats]:
        """Where the ends of each episode begin; the class of outcomes of each end, ascending; its probability."""
        none = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        episode, code, chance = (np.concatenate(column) for column in zip(none, *self._ends, strict=True))
        width = int(code.max(initial=0)) + 2
        keys, which = np.unique(episode * width + code + 1, return_inverse=True)
        total: Floats = np.bincount(which.reshape(-1), chance, keys.size).astype(np.float64, copy=False)
        return np.searchsorted(keys // width, np.arange(episodes + 1)), keys % width - 1, total
