"""Whether a log and a model agree: by the values of a policy, or, if the model was learned, by the luck of its steps.

A model that was learned from a log cannot be contradicted by the same log: it fits it. So the steps of a log are held
against what the model learned from *other* episodes (n steps of a pair against m), and the halves of the log against
each other if there are no others. Let g = r + γ·V(s') be what a step leads to, with V of usual practice to the end of
an episode, the same for all steps. The luck of a step of the log is g less its mean in the other episodes; under one
and the same world it is 0 on average, whatever actions were chosen. Counts, not pooled rows, give that mean: pooling
would draw it away from the truth where another log has other shares of the actions. A pair's luck is weighted by
m / (n + m), so that few other sightings do not outweigh many; it is then the sum of the log's g less n times the mean
of all n + m, and its variance, over which n of the n + m steps the log has, is n·m / (n + m) times their variance S²:

    z = Σ luck / √Σ n·m / (n + m)·S²        over all pairs: whether the log is luckier on the whole
    Q = Σ luck² / (n·m / (n + m)·S²)        over pairs with n·m / (n + m) ≥ 5: whether pairs differ, in any direction

z is normal, and Q has a χ² distribution, about. The smaller of their probabilities counts, twice, as there are two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints, summed
from tether._foundation.markup import Displayed
from tether._foundation.rounding import rounding_of
from tether._foundation.words import counted, number
from tether.learning.folds import rest_of
from tether.model.model_record import ModelRecord
from tether.model.practice import learned_counts, practice

_ENOUGH = 5.0
"""A pair counts by itself from so many sightings on: n·m / (n + m)."""

_LEVEL = 0.05
"""Less probable differences are called more than chance."""


@dataclass(frozen=True, slots=True)
class Consistency(Displayed):
    """Whether a log and a model that was given agree, as far as a policy can show.

    If the model made the log, the mean over episodes of a policy's exact counterfactual value is its value in the
    model, whatever policy made the log: good and bad luck cancel on average. For a log that the model did not make,
    this need not be true.

    Attributes
    ----------
    episodes : int
    counterfactual, model : float
        The policy's mean value over the episodes: with their luck, and for anyone.
    difference, standard_error : float
        Of the difference of the two means.

    Examples
    --------
    >>> import tether
    >>> mdp = tether.cases.grid_world().mdp
    >>> log = [mdp.simulate("random", 6, rng=seed) for seed in range(50)]
    >>> tether.audit(mdp, log, policy="optimal", certify=False).consistency.episodes
    50
    """

    episodes: int
    counterfactual: float
    model: float
    difference: float
    standard_error: float

    @property
    def holds(self) -> bool:
        """Whether the difference is within three standard errors, or is rounding."""
        return abs(self.difference) <= 3.0 * self.standard_error + rounding_of(self.model)

    def __str__(self) -> str:
        means = f"{number(self.counterfactual)} on average with the luck of the episodes, {number(self.model)} without"
        if self.holds:
            return f"The policy is worth {means}: this test finds no contradiction between the model and the log."
        return (
            f"The policy is worth {means}. They are more than three standard errors ({number(self.standard_error)}) "
            "apart: it is unlikely that this model made the log, so results computed with it may mislead."
        )


@dataclass(frozen=True, slots=True)
class LuckTest(Displayed):
    """Whether a log and a learned model agree: whether chance explains the luck of episodes that it has not seen.

    A log that taught the whole model is cut into two halves, by episode, and each is held against the other. Otherwise
    the log is held against the other episodes that the model was learned from. Steps that the model has never seen are
    left out: the audit lists them as problems.

    Attributes
    ----------
    steps, pairs : int
        How many steps of the log could be compared, in how many pairs of state and action.
    luck, standard_error : float
        What these steps earned more than the other episodes say, and what chance makes of that.
    differing : float
        How far pairs differ by themselves: about 1 for each of ``compared`` pairs, if chance explains it.
    compared : int
    probability : float
        How likely a difference at least as large is, if one and the same world made all episodes.
    against : "halves", "rest" or "other"
        Whether the halves of the log were compared; or the log with the rest of the log that the model was learned
        from; or with another log.

    Examples
    --------
    >>> import tether
    >>> def log(well, dead):
    ...     return [tether.Path(["sick", end], ["wait"]) for end in ["well"] * well + ["dead"] * dead]
    >>> mdp = tether.learn(log(100, 100)).with_objective(final_reward={"well": 1.0})
    >>> [tether.audit(mdp, other, certify=False).consistency.holds for other in (log(108, 92), log(140, 60))]
    [True, False]
    """

    steps: int
    pairs: int
    luck: float
    standard_error: float
    differing: float
    compared: int
    probability: float
    against: str

    @property
    def holds(self) -> bool:
        """Whether so large a difference has a probability of at least 5 %."""
        return self.probability >= _LEVEL

    def __str__(self) -> str:
        who = {"halves": "The two halves of the log", "rest": "The log and the rest of what the model was learned from"}
        which = who.get(self.against, "The log and the one that the model was learned from")
        said = (
            f"{number(self.probability)} is the probability of so large a difference in {counted(self.steps, 'step')}"
        )
        if self.holds:
            return f"{which} differ no more than by chance: {said}."
        return (
            f"{which} differ more than by chance: {said}. It is unlikely that one and the same world made all "
            "episodes, so results computed with this model may mislead."
        )


def luck_test(mdp: ModelRecord, own: Ints) -> LuckTest | None:
    """The test of a log by its counts of a learned model's transitions, in blocks; None if nothing can be compared."""
    form, discount = mdp.form, mdp.discount
    mine = own.sum(axis=0)
    rest = rest_of(mdp, mine)
    against = "other" if rest is None else "rest" if rest.any() else "halves"
    if rest is None:
        rest = np.rint(learned_counts(mdp).transitions).astype(np.int64)
    elif against == "halves":
        mine, rest = own.reshape(2, -1, mine.size).sum(axis=1)
    rewards, n_pairs = form.rewards.at(0), form.pair_action.size
    pair = np.repeat(np.arange(n_pairs), np.diff(form.row_start))
    leads = rewards if form.rewards.by_entry else rewards[pair]
    leads = leads + discount * practice(mdp).values.of_state[form.next_state]
    n, every = (summed(pair, one.astype(np.float64), n_pairs) for one in (mine, mine + rest))
    there = np.maximum(every, 1.0)
    apart = leads - (summed(pair, (mine + rest) * leads, n_pairs) / there)[pair]
    squares = summed(pair, (mine + rest) * apart**2, n_pairs) / np.maximum(every - 1.0, 1.0)
    weight = n * (every - n) / there
    luck, variance = summed(pair, mine * apart, n_pairs), weight * squares
    used = variance > 1e-18 * float(np.max(np.abs(leads), initial=0.0)) ** 2
    if not used.any():
        return None
    return _judged(luck[used], variance[used], weight[used] >= _ENOUGH, int(n[used].sum()), against)


def _judged(luck: Floats, variance: Floats, enough: Flags, steps: int, against: str) -> LuckTest:
    from scipy.special import chdtrc, ndtr

    total, error = float(luck.sum()), float(np.sqrt(variance.sum()))
    chances = [2.0 * float(ndtr(-abs(total) / error))]
    differing, compared = float(np.sum(luck[enough] ** 2 / variance[enough])), int(np.count_nonzero(enough))
    if compared > 1:
        chances.append(float(chdtrc(compared, differing)))
    probability = min(1.0, len(chances) * min(chances))
    return LuckTest(steps, luck.size, total, error, differing, compared, probability, against)
