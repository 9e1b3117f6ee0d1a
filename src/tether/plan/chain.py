"""The Markov chain that a policy makes of a model: only what it visits, link by link.

A node of the chain is (state, changes left, run of uninfluenced steps); the last two are 0 where a
policy does not look at them. Everything exact about a policy is a sum over the links of this chain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tether._types import Floats, Ints
from tether.counterfactual.layers import expand
from tether.counterfactual.rows import Rows
from tether.model.mdp import MDP

__all__ = ["Chain", "Link", "Taken", "Visits", "build_chain", "collect"]


@dataclass(frozen=True, slots=True, eq=False)
class Visits:
    """Nodes of a layer, each once."""

    states: Ints
    changes: Ints
    runs: Ints

    @property
    def size(self) -> int:
        """How many nodes."""
        return int(self.states.size)

    def find(self, state: int, changes: int, run: int) -> int:
        """Position of a node, or -1."""
        hits = np.flatnonzero((self.states == state) & (self.changes == changes) & (self.runs == run))
        return int(hits[0]) if hits.size else -1


@dataclass(frozen=True, slots=True, eq=False)
class Taken:
    """What a policy does in the nodes of a layer: node, pair and with what probability; and what it keeps in mind."""

    source: Ints
    pairs: Ints
    probability: Floats
    changes: Ints
    runs: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """Links of a step, in the order of their source: what leads where, how likely, for what reward."""

    source: Ints
    target: Ints
    pairs: Ints
    probability: Floats
    reward: Floats
    decision: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """Nodes t = 0 … T, and for each step what is taken and its links."""

    visits: tuple[Visits, ...]
    taken: tuple[Taken, ...]
    links: tuple[Link, ...]

    @property
    def T(self) -> int:
        """Number of steps."""
        return len(self.links)

    def occupancy(self) -> list[Floats]:
        """Probability of each node, t = 0 … T."""
        mass = [np.full(self.visits[0].size, 1.0 / self.visits[0].size)]
        for link, after in zip(self.links, self.visits[1:], strict=True):
            mass.append(collect(link.target, mass[-1][link.source] * link.probability, after.size))
        return mass


Decide = Callable[[int, Visits], Taken]


def collect(target: Ints, weight: Floats, size: int) -> Floats:
    """Sum ``weight`` by target."""
    summed: Floats = np.bincount(target, weight, minlength=size).astype(np.float64, copy=False)
    return summed


def build_chain(mdp: MDP, edits: Callable[[int], Rows | None], start: Visits, decide: Decide, T: int) -> Chain:
    """Follow a policy from ``start`` for T steps.

    ``edits(t)`` are the edited rows of step t, None for the nominal model.
    """
    visits, taken, links = [start], [], []
    for t in range(T):
        decided = decide(t, visits[-1])
        link, after = _follow(mdp, edits(t), decided, t)
        visits.append(after)
        taken.append(decided)
        links.append(link)
    return Chain(tuple(visits), tuple(taken), tuple(links))


def _follow(mdp: MDP, edits: Rows | None, decided: Taken, t: int) -> tuple[Link, Visits]:
    owner, entry, probability = expand(mdp, edits, decided.pairs)
    state = mdp.form.next_state[entry].astype(np.int64)
    changes, runs = decided.changes[owner], decided.runs[owner]
    n_runs = int(runs.max(initial=0)) + 1
    n_changes = int(changes.max(initial=0)) + 1
    key, target = np.unique((state * n_changes + changes) * n_runs + runs, return_inverse=True)
    after = Visits(key // (n_runs * n_changes), key // n_runs % n_changes, key % n_runs)
    values = mdp.rewards.at(t)
    reward = values[entry] if mdp.rewards.by_entry else values[decided.pairs[owner]]
    link = Link(
        decided.source[owner],
        target.reshape(-1),
        decided.pairs[owner],
        decided.probability[owner] * probability,
        reward,
        owner,
    )
    return link, after
