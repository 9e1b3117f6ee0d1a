"""The nodes that a policy visits, time by time, and the links between them: what following a policy makes.

A node is (episode, state, changes left, run of uninfluenced steps); the last two are 0 if the policy does not depend on
them. Everything exact about a policy is a sum over the links. `tether.core.follow` makes them.

If a question is decided before the end, a path either stops, because nothing is taken in its last node, or it *rests*:
no action counts there any more, and a link leads from the state back to itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints, summed


@dataclass(frozen=True, slots=True, eq=False)
class Visits:
    """Nodes of one time, each once. ``of_episode`` is None if there is one episode."""

    states: Ints
    changes: Ints
    runs: Ints
    of_episode: Ints | None = None

    @property
    def size(self) -> int:
        """How many nodes."""
        return int(self.states.size)

    @property
    def episode(self) -> Ints:
        """The episode of each node."""
        return np.zeros(self.size, np.int64) if self.of_episode is None else self.of_episode

    def find(self, state: int, changes: int, run: int) -> int:
        """Position of a node of a single episode, or -1."""
        hits = np.flatnonzero((self.states == state) & (self.changes == changes) & (self.runs == run))
        return int(hits[0]) if hits.size else -1

    def locate(self, others: Visits) -> Ints:
        """Position of each of some other nodes, -1 where it is not among these; nodes are in ascending order.

        Both are of a single episode.
        """
        n_changes, n_runs = (
            max(int(mine.max(initial=0)), int(other.max(initial=0))) + 1
            for mine, other in ((self.changes, others.changes), (self.runs, others.runs))
        )
        have, wanted = (
            (some.states.astype(np.int64) * n_changes + some.changes) * n_runs + some.runs for some in (self, others)
        )
        at = np.minimum(np.searchsorted(have, wanted), have.size - 1)
        return np.where(have[at] == wanted, at, -1)


@dataclass(frozen=True, slots=True, eq=False)
class Taken:
    """What a policy does in the nodes of a time: node, pair and probability; and the changes and run it remembers."""

    source: Ints
    pairs: Ints
    probability: Floats
    changes: Ints
    runs: Ints

    @classmethod
    def for_certain(cls, pairs: Ints, changes: Ints | None = None, runs: Ints | None = None) -> Taken:
        """One pair for each node; by default nothing is remembered."""
        none = np.zeros(pairs.size, dtype=np.int64)
        changes, runs = none if changes is None else changes, none if runs is None else runs
        return cls(np.arange(pairs.size), pairs, np.ones(pairs.size), changes, runs)


Decide = Callable[[int, Visits], Taken]
"""What is taken in the nodes of a time. Nothing is taken where a path stops."""


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """Links of a step, in the order of their source: what leads where, how likely, for what reward.

    ``decision`` is the position of what is taken.
    """

    source: Ints
    target: Ints
    pairs: Ints
    probability: Floats
    reward: Floats
    decision: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """Nodes t = 0 … T, and for each step what is taken and its links.

    ``ended`` says for each state whether episodes rest in it; None if they never do.
    """

    visits: tuple[Visits, ...]
    taken: tuple[Taken, ...]
    links: tuple[Link, ...]
    ended: Flags | None = None

    @property
    def T(self) -> int:
        """Number of steps."""
        return len(self.links)

    def at_rest(self, t: int) -> Flags:
        """For each pair taken at step t, whether the episode rests there: no more actions are taken."""
        states = self.visits[t].states[self.taken[t].source]
        rests: Flags = np.zeros(states.size, dtype=bool) if self.ended is None else self.ended[states]
        return rests

    def then(self, after: Chain) -> Chain:
        """Chain with the steps of another that begins with its last nodes."""
        steps = self.taken + after.taken, self.links + after.links
        return Chain(self.visits + after.visits[1:], *steps, self.ended)

    def occupancy(self, first: Floats | None = None) -> list[Floats]:
        """Probability of each node, t = 0 … T; ``first`` gives those of the first layer, by default equal for all."""
        mass = [np.full(self.visits[0].size, 1.0 / self.visits[0].size) if first is None else first]
        for link, after in zip(self.links, self.visits[1:], strict=True):
            mass.append(summed(link.target, mass[-1][link.source] * link.probability, after.size))
        return mass
