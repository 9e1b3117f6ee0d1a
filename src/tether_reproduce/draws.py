"""Rows given one observed transition: exact; and drawn as in the papers, from 1,000 draws of the noise.

The paper estimates every row of the counterfactual MDP from 1,000 draws. The error of a value is found by repetition:
estimate all rows again, plan on them, and take the spread over the runs. There are two ways of drawing:

- ``shared``: the noise of a step is drawn 1,000 times and used for every row, as in the paper's formula;
- not shared: every row has its own draws, which is a multinomial sample of the exact row and much faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tether
from tether.conditioning.edited_rows import ObservedStep, Rows
from tether.conditioning.mechanism import Candidates, NoisePosterior
from tether.model.form import Form
from tether.model.model_record import ModelRecord

__all__ = [
    "DRAWS",
    "Floats",
    "Ints",
    "Rows",
    "cumulative",
    "observed_transitions",
    "pick",
    "resample",
    "rows_given",
    "spread_of",
]

Floats = NDArray[np.float64]
Ints = NDArray[Any]


def rows_given(mdp: ModelRecord, s: int, a: int, outcome: int, pairs: Ints | None = None) -> Rows:
    """The rows of ``pairs`` (indices, ascending; all by default) under Gumbel-max, after (s, a) led to ``outcome``."""
    step = ObservedStep.of(mdp.form, 0, mdp.find_pair(s, a), outcome)
    return tether.GumbelMax().infer(step).replay(mdp.form, np.arange(mdp.n_pairs) if pairs is None else pairs)


def observed_transitions(cf: tether.records.CounterfactualMDP) -> list[tuple[int, int, int]]:
    """The observed transitions (s, a, s'), step by step, as indices."""
    states = cf.observation.states.tolist()
    return list(zip(states[:-1], cf.observation.actions.tolist(), states[1:], strict=True))


DRAWS = 1000
"""Draws per row in the paper."""


def cumulative(chances: Floats) -> Floats:
    """The cumulative probabilities of each row, for `pick`."""
    below = np.cumsum(chances, axis=-1)
    below /= below[..., -1:]
    return below


def pick(below: Floats, uniform: float) -> int:
    """The index that a uniform draw chooses: that of ``Generator.choice`` with ``p=``, without its slow checks.

    >>> import numpy as np
    >>> one, other = np.random.default_rng(3), np.random.default_rng(3)
    >>> chances = np.array([0.2, 0.5, 0.3])
    >>> pick(cumulative(chances), one.random()) == other.choice(3, p=chances)
    True
    """
    return int(below.searchsorted(uniform, side="right"))


def spread_of(
    cf: tether.records.CounterfactualMDP,
    compute: Callable[[tether.records.CounterfactualMDP], Floats],
    *,
    repeats: int,
    seed: int,
    shared: bool = True,
) -> tuple[Floats, Floats]:
    """Mean and standard deviation of ``compute`` over sampled versions of a counterfactual MDP."""
    results = np.array([compute(sampled) for sampled in resample(cf, repeats=repeats, seed=seed, shared=shared)])
    return results.mean(axis=0), results.std(axis=0, ddof=1)


def resample(
    cf: tether.records.CounterfactualMDP, *, repeats: int, seed: int, shared: bool
) -> Iterator[tether.records.CounterfactualMDP]:
    """Counterfactual MDPs of the same episode, in which every row is estimated from 1,000 draws."""
    rng = np.random.default_rng(seed)
    for _ in range(repeats):
        yield tether.counterfactual(cf.mdp, cf.path, mechanism=_EveryRowDrawn(DRAWS, rng, shared))


class _EveryRowDrawn:
    """A mechanism that estimates every row from draws, also rows that the observed step cannot change."""

    name = "every row drawn"

    def __init__(self, draws: int, rng: np.random.Generator, shared: bool) -> None:
        self.draws, self.rng, self.shared = draws, rng, shared
        self.sampled, self.exact = tether.SampledGumbelMax(draws, rng=rng), tether.GumbelMax()

    def infer(self, step: ObservedStep) -> NoisePosterior:
        return _EveryRow(self, self.sampled.infer(step) if self.shared else self.exact.infer(step))

    def standard_error(self, probability: Floats) -> Floats:
        error: Floats = np.sqrt(probability * (1.0 - probability) / self.draws)
        return error


@dataclass(frozen=True)
class _EveryRow:
    mechanism: _EveryRowDrawn
    posterior: NoisePosterior
    key: None = None

    def changes(self, candidates: Candidates) -> Ints:
        return candidates.all()

    def replay(self, form: Form, pairs: Ints) -> Rows:
        rows = self.posterior.replay(form, pairs)
        return rows if self.mechanism.shared else self._drawn(form, rows)

    def _drawn(self, form: Form, exact: Rows) -> Rows:
        """The shares of the outcomes of each row in its own draws; rows of equal length are drawn together."""
        draws, lengths = self.mechanism.draws, np.diff(exact.start)
        shares = np.empty(exact.probability.size)
        for length in np.unique(lengths):
            at = exact.start[:-1][lengths == length][:, None] + np.arange(length)
            chance = exact.probability[at]
            shares[at] = self.mechanism.rng.multinomial(draws, chance / chance.sum(axis=1, keepdims=True)) / draws
        drawn = shares > 0
        start = np.concatenate(([0], np.cumsum(drawn)))[exact.start]
        return Rows(exact.pairs, start, exact.next_state[drawn], shares[drawn], np.zeros(exact.pairs.size))
