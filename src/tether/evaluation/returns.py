"""The return of a chain: its mean, spread and range at each time; or the probability that a property holds.

The mean and the scatter of the return so far are propagated forward node by node. Only deviations from a mean are
squared, and only squares are added. Where all possible returns are equal up to rounding, the spread is exactly 0.

A quantity over time, in numbers: its mean and spread, and what is possible.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tether._foundation.arrays import Floats, summed
from tether._foundation.markup import html_table
from tether._foundation.rounding import settled
from tether._foundation.words import with_spread
from tether.core.chain import Chain
from tether.model.model_record import ModelRecord


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Course:
    """A quantity over time: its mean and spread (standard deviation) at each t.

    Attributes
    ----------
    mean, std : array
    lowest, highest : array
        The smallest and the largest value that can happen at each t. Mean ± std may lie outside them.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> infected = tether.counterfactual(case.mdp, case.path).plan(k=3, m=1).evaluate().feature("I")
    >>> infected.mean.round(2), infected.std.round(2)
    (array([1.  , 2.  , 3.  , 6.  , 8.  , 9.  , 8.11, 8.21]), array([0.  , 0.  , 0.  , 0.  , 0.  , 0.  , 0.31, 0.41]))
    """

    mean: Floats
    std: Floats
    lowest: Floats
    highest: Floats

    def band(self) -> tuple[Floats, Floats]:
        """One standard deviation below and above the mean, cut off at what is possible.

        Examples
        --------
        >>> import tether
        >>> patient = tether.cases.sepsis()
        >>> returns = tether.counterfactual(patient.mdp, patient.path).plan(k=8, m=3).evaluate().returns
        >>> low, high = returns.band()
        >>> (returns.mean + returns.std)[4].round(1), high[4]  # four steps cannot bring more than 200
        (np.float64(288.1), np.float64(200.0))
        """
        return np.maximum(self.mean - self.std, self.lowest), np.minimum(self.mean + self.std, self.highest)

    def __repr__(self) -> str:
        first, last = (with_spread(self.mean[i], self.std[i]) for i in (0, -1))
        return f"<Course: {self.mean.size} times, {first} … {last}>"

    def _repr_html_(self) -> str:
        rows = [(t, f"{a:.6g}", f"{b:.4g}") for t, (a, b) in enumerate(zip(self.mean, self.std, strict=True))]
        return html_table(("t", "mean", "standard deviation"), rows)


@dataclass(frozen=True, slots=True, eq=False)
class Returns:
    """What a chain earns.

    Attributes
    ----------
    so_far : Course
        The return up to each t = 0 … T, without the final reward; for a property, whether it holds if the episode ends
        at t.
    rewards : array (T,)
        What each step earns; for a property, what it adds to the probability.
    mean, std : float
        The mean and the spread of the whole return, with the final reward; or of the property.
    """

    so_far: Course
    rewards: Floats
    mean: float
    std: float


def returns_of(mdp: ModelRecord, chain: Chain, occupancy: list[Floats]) -> Returns:
    """What a chain earns; or, if it ends where a property is decided, the probability that this holds."""
    return _returns(mdp, chain, occupancy) if chain.ended is None else _holding(mdp, chain, occupancy)


def _holding(mdp: ModelRecord, chain: Chain, occupancy: list[Floats]) -> Returns:
    """For a property: whether it holds if the episode ends at t, what each step adds to its probability, and at T."""
    assert mdp.final_reward is not None  # 1 where it holds, else 0
    mean, lowest, highest = np.empty((3, chain.T + 1))
    for t, (visits, mass) in enumerate(zip(chain.visits, occupancy, strict=True)):
        holds = mdp.final_reward[visits.states]
        lowest[t], highest[t] = holds[mass > 0].min(), holds[mass > 0].max()
        mean[t] = np.clip(mass @ holds, lowest[t], highest[t])
    std = np.sqrt(mean * (1.0 - mean))
    return Returns(Course(mean, std, lowest, highest), np.diff(mean), float(mean[-1]), float(std[-1]))


def _returns(mdp: ModelRecord, chain: Chain, occupancy: list[Floats]) -> Returns:
    """The return so far, what each step earns; the mean and the spread of the return."""
    rewards = np.array(
        [
            float(np.sum(mass[link.source] * link.probability * link.reward))
            for mass, link in zip(occupancy, chain.links, strict=False)
        ]
    )
    worth: Floats = np.power(mdp.discount, np.arange(chain.T, dtype=np.float64))
    so_far = np.concatenate(([0.0], np.cumsum(worth * rewards)))
    spread, off, scatter = _return_spread(chain, occupancy, rewards, worth)
    final = np.zeros(chain.visits[-1].size)
    if mdp.final_reward is not None:
        final = mdp.discount**chain.T * mdp.final_reward[chain.visits[-1].states]
    extra = float(occupancy[-1] @ final)
    variance = float(np.sum(scatter + occupancy[-1] * (off + (final - extra)) ** 2))
    lowest, highest = _return_range(chain, worth, final)
    size = np.maximum.accumulate(np.maximum(np.abs(lowest), np.abs(highest)))
    spread = settled(np.append(spread, np.sqrt(variance)), lowest, highest, size)
    course = Course(so_far, spread[:-1], lowest[:-1], highest[:-1])
    return Returns(course, rewards, float(so_far[-1]) + extra, float(spread[-1]))


def _return_spread(
    chain: Chain, occupancy: list[Floats], rewards: Floats, worth: Floats
) -> tuple[Floats, Floats, Floats]:
    """Spread of the return so far at each t; for each node at T, the deviation of its mean, and the scatter about it.

    The scatter of a node is the sum, over all paths to it, of probability × squared deviation from the node's mean.
    """
    off, scatter = np.zeros(chain.visits[0].size), np.zeros(chain.visits[0].size)
    spread = [0.0]
    for t, link in enumerate(chain.links):
        mass, after = occupancy[t][link.source] * link.probability, occupancy[t + 1]
        here = off[link.source] + worth[t] * (link.reward - rewards[t])
        within = summed(link.target, link.probability * scatter[link.source], after.size)
        off = summed(link.target, mass * here, after.size)
        np.divide(off, after, out=off, where=after > 0)
        scatter = within + summed(link.target, mass * (here - off[link.target]) ** 2, after.size)
        spread.append(float(np.sqrt(np.sum(scatter + after * off**2))))
    return np.array(spread), off, scatter


def _return_range(chain: Chain, worth: Floats, final: Floats) -> tuple[Floats, Floats]:
    """The smallest and the largest return that can happen: so far, at each t; and last, with the final rewards."""
    low, high = np.zeros(chain.visits[0].size), np.zeros(chain.visits[0].size)
    ranges = [(0.0, 0.0)]
    for t, link in enumerate(chain.links):
        possible = link.probability > 0
        source, target, reward = link.source[possible], link.target[possible], worth[t] * link.reward[possible]
        after = chain.visits[t + 1].size
        below, above = np.full(after, np.inf), np.full(after, -np.inf)
        np.minimum.at(below, target, low[source] + reward)
        np.maximum.at(above, target, high[source] + reward)
        low, high = below, above
        ranges.append((float(low.min()), float(high.max())))
    ranges.append((float((low + final).min()), float((high + final).max())))
    lowest, highest = np.array(ranges).T
    return lowest, highest
