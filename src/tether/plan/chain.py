"""The Markov chain of a policy in a model: only the nodes it visits, link by link.

A node of the chain is (state, changes left, run of uninfluenced steps); the last two are 0 if the
policy does not depend on them. Everything exact about a policy is a sum over the links of this chain.

If a question is decided before the end (`Graph.ended`), an episode *rests*: the policy takes no action there, and a
link leads from the state back to itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints, distinct, positions
from tether.conditioning.edited_rows import EditedRows
from tether.conditioning.layers import Graph, expand
from tether.errors import Problem, QueryError
from tether.model.model_record import ModelRecord

__all__ = ["Chain", "Link", "Taken", "Visits", "build_chain", "collect", "graph_chain", "or_rest"]


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

    def locate(self, others: Visits) -> Ints:
        """Position of each of some other nodes, -1 where it is not among these; nodes are in ascending order."""
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
    """What a policy does in the nodes of a layer: node, pair and probability; and the changes and run it remembers."""

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
            mass.append(collect(link.target, mass[-1][link.source] * link.probability, after.size))
        return mass


def chain_value(mdp: ModelRecord, chain: Chain, occupancy: list[Floats] | None = None) -> float:
    """Expected return, discounted, of what is visited; ``occupancy`` has the probability of each node, if known."""
    mass, total = chain.occupancy() if occupancy is None else occupancy, 0.0
    for t, link in enumerate(chain.links):
        total += mdp.discount**t * float(np.sum(mass[t][link.source] * link.probability * link.reward))
    if mdp.final_reward is not None:
        total += mdp.discount**chain.T * float(mass[-1] @ mdp.final_reward[chain.visits[-1].states])
    return total


def merged(n_states: int, states: Ints, changes: Ints, runs: Ints) -> tuple[Visits, Ints]:
    """Nodes of which some may be the same: each once, ascending; and where each of them is among these."""
    n_changes, n_runs = int(changes.max(initial=0)) + 1, int(runs.max(initial=0)) + 1
    keys, most = (states.astype(np.int64) * n_changes + changes) * n_runs + runs, n_states * n_changes * n_runs
    key = distinct(keys, most)
    after = Visits(key // (n_runs * n_changes), key // n_runs % n_changes, key % n_runs)
    return after, positions(key, keys, most).astype(np.int64, copy=False)


Decide = Callable[[int, Visits], Taken]


def collect(target: Ints, weight: Floats, size: int) -> Floats:
    """Sum ``weight`` by target."""
    summed: Floats = np.bincount(target, weight, minlength=size).astype(np.float64, copy=False)
    return summed


def graph_chain(graph: Graph, start: Visits, decide: Decide) -> Chain:
    """Follow a policy through a graph, from ``start`` to T; it rests where paths end."""
    ended = None if graph.ended is None else graph.ended.mask
    return build_chain(graph.mdp, lambda t: graph.layers[t].edits, start, decide, graph.T, ended)


def build_chain(
    mdp: ModelRecord,
    edits: Callable[[int], EditedRows | None],
    start: Visits,
    decide: Decide,
    T: int,
    ended: Flags | None = None,
    first: int = 0,
) -> Chain:
    """Follow a policy from ``start`` for T steps, from the time ``first`` on.

    ``edits(t)`` are the edited rows of step t, None for the nominal model. ``ended`` marks the states of the model in
    which an episode rests: every action there must lead back.
    """
    visits, taken, links = [start], [], []
    for t in range(first, first + T):
        decided = decide(t, visits[-1]) if ended is None else or_rest(mdp, t, visits[-1], decide, ended)
        link, after = _follow(mdp, edits(t), decided, t)
        visits.append(after)
        taken.append(decided)
        links.append(link)
    return Chain(tuple(visits), tuple(taken), tuple(links), ended)


def or_rest(mdp: ModelRecord, t: int, visits: Visits, decide: Decide, ended: Flags) -> Taken:
    """What a policy does where something is left to do; elsewhere the first action, which leads back to the state."""
    rests = ended[visits.states]
    going, over = np.flatnonzero(~rests), np.flatnonzero(rests)
    if over.size == 0:
        return decide(t, visits)
    pairs = mdp.form.pair_start[visits.states[over]].astype(np.int64)
    stuck = over[pairs == mdp.form.pair_start[visits.states[over] + 1]]
    if stuck.size:
        state = mdp.states[int(visits.states[stuck[0]])]
        message = f"the model has no action in state {state!r}: no episode can rest there"
        raise QueryError(Problem(message, state, time=t, place=f"t = {t}"))
    nothing = Taken(over, pairs, np.ones(over.size), visits.changes[over], np.zeros(over.size, np.int64))
    if going.size == 0:
        return nothing
    some = decide(t, Visits(visits.states[going], visits.changes[going], visits.runs[going]))
    source = np.concatenate((going[some.source], over))
    order = np.argsort(source, kind="stable")
    both = (
        np.concatenate((getattr(some, name), getattr(nothing, name)))[order]
        for name in ("pairs", "probability", "changes", "runs")
    )
    return Taken(source[order], *both)


def _follow(mdp: ModelRecord, edits: EditedRows | None, decided: Taken, t: int) -> tuple[Link, Visits]:
    owner, entry, probability = expand(mdp, edits, decided.pairs)
    after, target = merged(mdp.n_states, mdp.form.next_state[entry], decided.changes[owner], decided.runs[owner])
    values = mdp.rewards.at(t)
    reward = values[entry] if mdp.rewards.by_entry else values[decided.pairs[owner]]
    link = Link(
        decided.source[owner],
        target,
        decided.pairs[owner],
        decided.probability[owner] * probability,
        reward,
        owner,
    )
    return link, after
