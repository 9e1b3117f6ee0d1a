"""Brute force: influence, rules and plans word for word from their definitions, in plain Python.

Nothing here uses thresholds, layers or columns of changes. What is allowed for a k is found by following every path, or
every set of states, as the definition says, for each k separately. The best value is found by trying all policies or,
in worlds too large for that, by a recursion over (t, state, changes left, run). Only the rows of the counterfactual MDP
are the package's own: they have their own twins.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from worlds import Criterion, Pair, World

import tether

Hits = list[set[Pair]]  # for each time, the pairs with one-step influence


# --- One-step influence ------------------------------------------------------------------------


def distance(row: dict[Any, float], other: dict[Any, float]) -> float:
    """Total variation: ½ Σ |row - other|."""
    return 0.5 * math.fsum(abs(row.get(j, 0.0) - other.get(j, 0.0)) for j in row.keys() | other.keys())


def is_influenced(world: World, criterion: Criterion, t: int, pair: Pair) -> bool:
    """The three tests on a pair at t, one line each."""
    kind, eps = criterion
    p, q, counterfactual = world.nominal[world.observed[t]], world.nominal[pair], world.rows[t][pair]
    if kind == "support":
        return bool(set(q) & set(p))
    if kind == "tv":
        return distance(p, q) <= eps
    return distance(counterfactual, q) > eps or pair == world.observed[t]


def influenced(world: World, criterion: Criterion) -> Hits:
    return [{pair for pair in world.weights if is_influenced(world, criterion, t, pair)} for t in range(world.T)]


# --- k-step influence ----------------------------------------------------------------------------


def paths(world: World, t: int, pair: Pair, length: int) -> Iterator[list[Pair]]:
    """Every path of ``length`` pairs through the counterfactual MDP that starts with ``pair`` at t."""
    if length == 1:
        yield [pair]
        return
    for j in world.rows[t][pair]:
        for a in world.available(j):
            for rest in paths(world, t + 1, (j, a), length - 1):
                yield [pair, *rest]


def dist_by_paths(world: World, hits: Hits, t: int, pair: Pair) -> float:
    """dist_t(s,a): the smallest j such that some path has an influenced pair at t+j-1, path by path."""
    for j in range(1, world.T - t + 1):
        if any(path[-1] in hits[t + j - 1] for path in paths(world, t, pair, j)):
            return j
    return math.inf


def dist(world: World, hits: Hits, t: int, pair: Pair) -> float:
    """The same, from the set of pairs that all these paths can have at each time."""
    possible = {pair}
    for j in range(1, world.T - t + 1):
        if possible & hits[t + j - 1]:
            return j
        after = {successor for one in possible for successor in world.rows[t + j - 1][one]}
        possible = {(s, a) for s in after for a in world.available(s)}
    return math.inf


def node_distance(world: World, t: int, s: Any) -> float:
    """Steps from node (t, s) to the nearest node (u+1, s') with s' in S^τ_u, by time, in the nominal MDP."""
    possible = {s}
    for j in range(world.T - t + 1):
        if t + j >= 1 and possible & world.supports[t + j - 1]:
            return j
        possible = {after for one in possible for a in world.available(one) for after in world.nominal[one, a]}
    return math.inf


def depths(world: World) -> dict[Any, int]:
    """Reverse breadth-first search from the union of all S^τ_t in the nominal MDP, time ignored."""
    depth = dict.fromkeys(set().union(*world.supports), 0)
    for level in range(1, len(world.states) + 1):
        for (s, _), row in world.nominal.items():
            if s not in depth and any(depth.get(j) == level - 1 for j in row):
                depth[s] = level
    return depth


def allowed(world: World, rule: str, hits: Hits, k: int) -> Hits:
    """The allowed pairs of each time, for one k: the rule's own condition, then pruning until nothing changes."""
    depth = depths(world)

    def within(t: int, pair: Pair) -> bool:
        if t + k > world.T:
            return True
        if rule == "definition":
            return dist(world, hits, t, pair) <= k
        if rule == "published":
            nodes = [(t, pair[0]), *((t + 1, j) for j in world.rows[t][pair])]
            return all(node_distance(world, *node) <= k for node in nodes)
        return all(depth.get(j, math.inf) <= k for j in world.nominal[pair])

    kept = [{pair for pair in world.weights if within(t, pair)} for t in range(world.T)]
    while True:
        dead = [
            (t, pair)
            for t in range(world.T - 1)
            for pair in kept[t]
            if any(not any((j, a) in kept[t + 1] for a in world.available(j)) for j in world.rows[t][pair])
        ]
        if not dead:
            return kept
        for t, pair in dead:
            kept[t].discard(pair)


def smallest_k(world: World, rule: str, hits: Hits) -> dict[tuple[int, Any, Any], int]:
    """For each (t, s, a), the smallest k of 1 … T+1 that allows it."""
    found: dict[tuple[int, Any, Any], int] = {}
    for k in range(1, world.T + 2):
        for t, kept in enumerate(allowed(world, rule, hits, k)):
            for pair in kept:
                found.setdefault((t, *pair), k)
    return found


# --- The rule about all paths --------------------------------------------------------------------


def has_run(flags: list[bool], k: int) -> bool:
    """Whether k consecutive steps are all uninfluenced."""
    return any(not any(flags[i : i + k]) for i in range(len(flags) - k + 1))


def trailing(flags: list[bool]) -> int:
    """The number of uninfluenced steps at the end."""
    return next((i for i, flag in enumerate(reversed(flags)) if flag), len(flags))


def histories(world: World, hits: Hits) -> Iterator[tuple[Any, list[bool]]]:
    """Every state and sequence of influenced or uninfluenced steps that some policy leads to, t = 0 … T."""
    layer: set[tuple[Any, tuple[bool, ...]]] = {(world.path.states[0], ())}
    for t in range(world.T + 1):
        yield from ((s, list(flags)) for s, flags in layer)
        if t < world.T:
            layer = {
                (j, (*flags, (s, a) in hits[t]))
                for s, flags in layer
                for a in world.available(s)
                for j in world.rows[t][s, a]
            }


def can_go_on(world: World, hits: Hits, k: int, s: Any, flags: list[bool]) -> bool:
    """Whether some policy goes on from a history so that no k consecutive steps of any path are uninfluenced."""
    if has_run(flags, k):
        return False
    return len(flags) == world.T or any(can_take(world, hits, k, (s, a), flags) for a in world.available(s))


def can_take(world: World, hits: Hits, k: int, pair: Pair, flags: list[bool]) -> bool:
    """The same for a policy that takes ``pair`` now."""
    t = len(flags)
    return all(can_go_on(world, hits, k, j, [*flags, pair in hits[t]]) for j in world.rows[t][pair])


# --- The best value, by all policies ---------------------------------------------------------------


class Policy(NamedTuple):
    """A deterministic policy that may depend on the whole history: an action, and a policy after each outcome."""

    action: Any
    after: dict[Any, Policy | None]


def count_policies(world: World) -> int:
    @cache
    def count(t: int, s: Any) -> int:
        if t == world.T:
            return 1
        return sum(math.prod(count(t + 1, j) for j in world.rows[t][s, a]) for a in world.available(s))

    return count(0, world.path.states[0])


def policies(world: World, t: int, s: Any) -> Iterator[Policy | None]:
    """All policies from state s at t on."""
    if t == world.T:
        yield None
        return
    for a in world.available(s):
        row = world.rows[t][s, a]
        for onward in product(*(policies(world, t + 1, j) for j in row)):
            yield Policy(a, dict(zip(row, onward, strict=True)))


Trajectory = tuple[float, list[Pair], Any]  # probability, pairs, last state


def trajectories(world: World, policy: Policy | None, t: int, s: Any) -> Iterator[Trajectory]:
    """Everything that can happen under a policy, with its probability."""
    if policy is None:
        yield 1.0, [], s
        return
    pair = (s, policy.action)
    for j, p in world.rows[t][pair].items():
        for chance, rest, last in trajectories(world, policy.after[j], t + 1, j):
            yield p * chance, [pair, *rest], last


class Promise(NamedTuple):
    """The value of a policy, and what it guarantees in every case."""

    value: float
    changes: int
    taken: set[tuple[int, Any, Any]]
    episodes: list[list[Pair]]

    @classmethod
    def of(cls, world: World, happening: list[Trajectory]) -> Promise:
        return cls(
            math.fsum(chance * world.worth(pairs, last) for chance, pairs, last in happening),
            max(sum(world.changed(t, s, a) for t, (s, a) in enumerate(pairs)) for _, pairs, _ in happening),
            {(t, *pair) for _, pairs, _ in happening for t, pair in enumerate(pairs)},
            [pairs for _, pairs, _ in happening],
        )

    def keeps_to(self, world: World, rule: str, hits: Hits, k: int) -> bool:
        """Whether it satisfies a rule for k, from the definition."""
        if rule == "assured":
            runs = [[pair in hits[t] for t, pair in enumerate(pairs)] for pairs in self.episodes]
            return not any(has_run(flags, k) for flags in runs)
        kept = allowed(world, rule, hits, k)
        return all((s, a) in kept[t] for t, s, a in self.taken)


def best_of_all(world: World, rule: str, hits: Hits) -> np.ndarray:
    """[k - 1, m]: the value of the best of all policies that keep to k and m."""
    start = world.path.states[0]
    every = [Promise.of(world, list(trajectories(world, one, 0, start))) for one in policies(world, 0, start)]
    least = {} if rule == "assured" else smallest_k(world, rule, hits)
    table = np.full((world.T + 1, world.T + 1), -math.inf)
    for k in range(1, world.T + 2):
        for one in every:
            if rule == "assured":
                keeps = one.keeps_to(world, rule, hits, k)
            else:
                keeps = all(least[node] <= k for node in one.taken)
            if keeps:
                table[k - 1, one.changes :] = np.maximum(table[k - 1, one.changes :], one.value)
    return table


# --- The best value, by recursion ----------------------------------------------------------------


class Best:
    """V_t(s, c): the best policy for one k, with c changes left after a run of uninfluenced steps."""

    def __init__(self, world: World, rule: str, hits: Hits, k: int) -> None:
        self.world, self.rule, self.hits, self.k = world, rule, hits, k
        self.kept = [] if rule == "assured" else allowed(world, rule, hits, k)
        self.value = cache(self._value)

    def run_after(self, t: int, pair: Pair, run: int) -> int:
        return 0 if self.rule != "assured" or pair in self.hits[t] else run + 1

    def action_value(self, t: int, pair: Pair, c: float, run: int) -> float:
        """The value of taking ``pair``; -∞ if it is not allowed."""
        world = self.world
        after, left = self.run_after(t, pair, run), c - world.changed(t, *pair)
        forbidden = after >= self.k if self.rule == "assured" else pair not in self.kept[t]
        if forbidden or left < 0:
            return -math.inf
        row = world.rows[t][pair]
        onward = {j: self.value(t + 1, j, left, after) for j in row}
        if -math.inf in onward.values():
            return -math.inf
        return math.fsum(p * (world.earn(t, *pair, j) + world.discount * onward[j]) for j, p in row.items())

    def _value(self, t: int, s: Any, c: float, run: int) -> float:
        if t == self.world.T:
            return self.world.last(s)
        return max((self.action_value(t, (s, a), c, run) for a in self.world.available(s)), default=-math.inf)

    def can_take(self, t: int, pair: Pair, run: int) -> bool:
        """Whether a pair is allowed, without the limit on changes."""
        return self.action_value(t, pair, math.inf, run) > -math.inf


def best_by_recursion(world: World, rule: str, hits: Hits) -> np.ndarray:
    """[k - 1, m]."""
    start, T = world.path.states[0], world.T
    solved = [Best(world, rule, hits, k) for k in range(1, T + 2)]
    return np.array([[best.value(0, start, m, 0) for m in range(T + 1)] for best in solved])


# --- What a plan does ----------------------------------------------------------------------------


class Visit(NamedTuple):
    """A point that a plan reaches: time, state, changes left, uninfluenced steps just passed."""

    t: int
    state: Any
    changes_left: int
    run: int


def follow(world: World, plan: tether.records.Plan, hits: Hits) -> tuple[list[Trajectory], set[Visit]]:
    """Everything that can happen under a plan, and the points at which it was asked for an action."""
    asked: set[Visit] = set()

    def go(visit: Visit) -> Iterator[Trajectory]:
        if visit.t == world.T:
            yield 1.0, [], visit.state
            return
        asked.add(visit)
        a = plan.action(visit.t, visit.state, visit.changes_left, uninfluenced=visit.run)
        assert a is not None, visit
        pair = (visit.state, a)
        run = 0 if pair in hits[visit.t] else visit.run + 1
        for j, p in world.rows[visit.t][pair].items():
            onward = Visit(visit.t + 1, j, visit.changes_left - world.changed(visit.t, visit.state, a), run)
            for chance, rest, last in go(onward):
                yield p * chance, [pair, *rest], last

    return list(go(Visit(0, world.path.states[0], plan.m, 0))), asked
