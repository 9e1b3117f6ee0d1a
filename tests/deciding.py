"""Properties word for word: episodes that end where a property is decided, in plain Python.

Independent of the package: no state is made absorbing. An episode simply has no more steps after a state that decides
the property. Rules are applied to the steps before that, for each k separately, as in `brute`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from brute import Hits, Policy, Trajectory, has_run, influenced
from hypothesis import assume
from hypothesis import strategies as st
from worlds import Criterion, Pair, World, criteria_for, worlds

import tether


class Asked(NamedTuple):
    """A world, a property in it that s_0 does not decide, and a rule with a test."""

    world: World
    kind: str
    hold: frozenset[Any]
    goal: frozenset[Any]
    rule: str
    criterion: Criterion

    @property
    def objective(self) -> tether.records.Property:
        goal = [s for s in self.world.states if s in self.goal]
        if self.kind == "until":
            return tether.until(lambda s: s in self.hold, goal)
        return tether.reach(goal) if self.kind == "reach" else tether.avoid(goal)

    @property
    def hits(self) -> Hits:
        return influenced(self.world, self.criterion)

    def decides(self, s: Any) -> bool:
        return s in self.goal or (self.kind == "until" and s not in self.hold)

    def holds(self, states: list[Any]) -> bool:
        """Whether the property holds for an episode: from the definition, not from the state that decided it."""
        if self.kind == "avoid":
            return not any(s in self.goal for s in states)
        first = next((i for i, s in enumerate(states) if s in self.goal), None)
        if first is None:
            return False
        return self.kind == "reach" or all(s in self.hold for s in states[:first])

    def observed(self) -> float:
        """1 or 0; the probability if the last outcome was not recorded."""
        seen = list(self.world.path.states)
        if self.world.path.last_recorded:
            return float(self.holds(seen))
        ends = self.world.nominal[self.world.observed[-1]]
        return math.fsum(p * self.holds([*seen, j]) for j, p in ends.items())


@st.composite
def asked(draw: st.DrawFn, rules: tuple[str, ...], **sizes: Any) -> Asked:
    world = draw(worlds(**sizes))
    kind = draw(st.sampled_from(["reach", "avoid", "until"]))
    some = st.lists(st.sampled_from(world.states), min_size=1, unique=True).map(frozenset)
    goal, hold = draw(some), draw(some) | {world.path.states[0]}
    rule = draw(st.sampled_from(rules))
    one = Asked(world, kind, hold, goal, rule, draw(criteria_for(rule)))
    assume(not one.decides(world.path.states[0]))
    return one


# --- What is allowed -----------------------------------------------------------------------------


def dist(one: Asked, hits: Hits, t: int, pair: Pair) -> float:
    """Steps to the nearest influenced pair, on paths that end where the property is decided."""
    possible = {pair}
    for j in range(1, one.world.T - t + 1):
        if possible & hits[t + j - 1]:
            return j
        after = {s for earlier in possible for s in one.world.rows[t + j - 1][earlier] if not one.decides(s)}
        possible = {(s, a) for s in after for a in one.world.available(s)}
    return math.inf


def node_distance(one: Asked, t: int, s: Any) -> float:
    """Nominal steps from s at t to a node (u + 1, s') with s' in the support of the observed row of u."""
    possible = {s}
    for u in range(t, one.world.T + 1):
        if u > 0 and possible & one.world.supports[u - 1]:
            return u - t
        going = {x for x in possible if not one.decides(x)}
        possible = {j for x in going for a in one.world.available(x) for j in one.world.nominal[x, a]}
    return math.inf


def depths(one: Asked) -> dict[Any, int]:
    """Nominal steps to any observed support, without regard to time; paths end where the property is decided."""
    depth = dict.fromkeys(set().union(*one.world.supports), 0)
    for level in range(1, len(one.world.states) + 1):
        for (s, _), row in one.world.nominal.items():
            if s not in depth and not one.decides(s) and any(depth.get(j) == level - 1 for j in row):
                depth[s] = level
    return depth


def allowed(one: Asked, hits: Hits, k: int) -> Hits:
    """Pairs of states that do not decide, allowed for k at each time."""
    world, depth = one.world, depths(one)

    def within(t: int, pair: Pair) -> bool:
        if t + k > world.T:
            return True
        if one.rule == "definition":
            return dist(one, hits, t, pair) <= k
        if one.rule == "published":
            after = [(t + 1, j) for j in world.rows[t][pair] if not one.decides(j)]
            return all(node_distance(one, *node) <= k for node in [(t, pair[0]), *after])
        return all(depth.get(j, math.inf) <= k for j in world.nominal[pair] if not one.decides(j))

    going = [pair for pair in world.weights if not one.decides(pair[0])]
    kept = [{pair for pair in going if within(t, pair)} for t in range(world.T)]

    def lost(t: int, s: Any) -> bool:
        return not one.decides(s) and not any((s, a) in kept[t] for a in world.available(s))

    while True:
        dead = [
            (t, pair)
            for t in range(world.T - 1)
            for pair in kept[t]
            if any(lost(t + 1, j) for j in world.rows[t][pair])
        ]
        if not dead:
            return kept
        for t, pair in dead:
            kept[t].discard(pair)


def size(one: Asked, hits: Hits, k: int) -> int:
    """The number of nodes (t, s) reached through allowed pairs; for all rules except `assured`."""
    kept, layer, total = allowed(one, hits, k), {one.world.path.states[0]}, 1
    for t in range(one.world.T):
        layer = {j for pair in kept[t] if pair[0] in layer for j in one.world.rows[t][pair]}
        total += len(layer)
    return total


# --- The best, by all policies -------------------------------------------------------------------


def policies(one: Asked, t: int, s: Any) -> Iterator[Policy | None]:
    if t == one.world.T or one.decides(s):
        yield None
        return
    for a in one.world.available(s):
        row = one.world.rows[t][s, a]
        for onward in product(*(policies(one, t + 1, j) for j in row)):
            yield Policy(a, dict(zip(row, onward, strict=True)))


def count_policies(one: Asked) -> int:
    @cache
    def count(t: int, s: Any) -> int:
        if t == one.world.T or one.decides(s):
            return 1
        return sum(math.prod(count(t + 1, j) for j in one.world.rows[t][s, a]) for a in one.world.available(s))

    return count(0, one.world.path.states[0])


def trajectories(one: Asked, policy: Policy | None, t: int, s: Any) -> Iterator[Trajectory]:
    if policy is None:
        yield 1.0, [], s
        return
    for j, p in one.world.rows[t][s, policy.action].items():
        for chance, rest, last in trajectories(one, policy.after[j], t + 1, j):
            yield p * chance, [(s, policy.action), *rest], last


def best_of_all(one: Asked, minimise: bool) -> np.ndarray:
    """[k - 1, m]: the probability under the best of all policies that keep to k and m."""
    world, hits, start = one.world, one.hits, one.world.path.states[0]
    sign = -1.0 if minimise else 1.0
    table = np.full((world.T + 1, world.T + 1), -math.inf)
    kept = [[] if one.rule == "assured" else allowed(one, hits, k) for k in range(1, world.T + 2)]
    for policy in policies(one, 0, start):
        happening = list(trajectories(one, policy, 0, start))
        chance = math.fsum(p for p, pairs, last in happening if one.holds([*(s for s, _ in pairs), last]))
        changes = max(sum(world.changed(t, s, a) for t, (s, a) in enumerate(pairs)) for _, pairs, _ in happening)
        for k in range(1, world.T + 2):
            if one.rule == "assured":
                keeps = not any(has_run([p in hits[t] for t, p in enumerate(pairs)], k) for _, pairs, _ in happening)
            else:
                keeps = all(p in kept[k - 1][t] for _, pairs, _ in happening for t, p in enumerate(pairs))
            if keeps:
                table[k - 1, changes:] = np.maximum(table[k - 1, changes:], sign * chance)
    return sign * table


def best_by_recursion(one: Asked, k: int, m: int, minimise: bool) -> float:
    """The same for one k and m, for worlds with too many policies."""
    world, hits = one.world, one.hits
    kept = [] if one.rule == "assured" else allowed(one, hits, k)
    sign = -1.0 if minimise else 1.0

    @cache
    def value(t: int, s: Any, c: int, run: int) -> float:
        if t == world.T or one.decides(s):
            return sign * (one.holds([s]) if one.kind != "until" else s in one.goal)
        found = -math.inf
        for a in world.available(s):
            left, after = c - world.changed(t, s, a), 0 if (s, a) in hits[t] else run + 1
            if left < 0 or (after >= k if one.rule == "assured" else (s, a) not in kept[t]):
                continue
            row = world.rows[t][s, a]
            onward = [value(t + 1, j, left, after if one.rule == "assured" else 0) for j in row]
            if -math.inf not in onward:
                found = max(found, math.fsum(p * v for p, v in zip(row.values(), onward, strict=True)))
        return found

    return sign * value(0, world.path.states[0], m, 0)
