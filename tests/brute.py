"""Brute force: influence, rules and plans word for word from their definitions, in plain Python.

Nothing here knows of thresholds, layers or changes that come in columns. What is allowed for a k is
found by following every path, or every set of states, as the definition says, for each k anew; what
is best by trying all policies or, in worlds too big for that, by a recursion over (t, state, changes
left, run). Only the rows of the counterfactual MDP are the package's own: they have their own twins.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from functools import cache, cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

import tether

FEWER = settings(max_examples=max(7, settings.default.max_examples // 3))
"""For tests that try everything."""

Pair = tuple[Any, Any]
Criterion = tuple[str, float]  # ("support", 0), ("tv", eps) or ("effective", eps)
Hits = list[set[Pair]]  # for each time, the pairs with one-step influence

SUPPORT: Criterion = ("support", 0.0)
RULES = ("definition", "published", "printed", "assured")
ON_PAIRS = ("definition", "assured")
"""The rules that go with any test; the other two are made of supports."""


class World:
    """A small model, an episode in it, and what episodes are worth."""

    def __init__(
        self,
        states: list[Any],
        actions: list[Any],
        weights: dict[Pair, dict[Any, float]],
        path: tether.Path,
        R: np.ndarray | None = None,
        axes: str | None = None,
        discount: float = 1.0,
        final: dict[Any, float] | None = None,
        samples: int = 0,
    ) -> None:
        self.states, self.actions, self.weights, self.path = states, actions, weights, path
        self.R, self.axes, self.discount, self.final = R, axes, discount, final
        self.samples = samples  # 0: the exact mechanism

    def __repr__(self) -> str:
        rewards = "" if self.R is None else f", R={self.R.tolist()}, axes={self.axes!r}"
        return (
            f"World({self.states}, {self.actions}, {self.weights}, {list(self.path.states)}, {list(self.path.actions)}"
            f"{rewards}, discount={self.discount}, final={self.final}, samples={self.samples})"
        )

    @cached_property
    def cf(self) -> tether.CounterfactualMDP:
        return self.conditioned()

    def conditioned(self) -> tether.CounterfactualMDP:
        """The counterfactual MDP, made anew: nothing was asked of it yet."""
        P = np.zeros((len(self.states), len(self.actions), len(self.states)))
        for (s, a), row in self.weights.items():
            total = math.fsum(row.values())
            for j, w in row.items():
                P[self.states.index(s), self.actions.index(a), self.states.index(j)] = w / total
        mdp = tether.MDP.from_arrays(P, self.R, states=self.states, actions=self.actions, reward_axes=self.axes)
        mdp = mdp.with_objective(discount=self.discount, final_reward=self.final)
        if self.samples:
            return tether.counterfactual(mdp, self.path, "gumbel-max-sampled", samples=self.samples, rng=1)
        return tether.counterfactual(mdp, self.path)

    @property
    def T(self) -> int:
        return len(self.path.actions)

    def available(self, s: Any) -> list[Any]:
        return self._available.get(s, [])

    @cached_property
    def _available(self) -> dict[Any, list[Any]]:
        return {s: [a for a in self.actions if (s, a) in self.weights] for s in self.states}

    @cached_property
    def nominal(self) -> dict[Pair, dict[Any, float]]:
        """P(·|s,a) of every pair."""
        return {pair: dict(zip(*self.cf.mdp.row(*pair), strict=True)) for pair in self.weights}

    @cached_property
    def rows(self) -> list[dict[Pair, dict[Any, float]]]:
        """P_cf of every pair at every time, zeros left out."""
        return [{pair: dict(zip(*self.cf.row(t, *pair), strict=True)) for pair in self.weights} for t in range(self.T)]

    @cached_property
    def observed(self) -> list[Pair]:
        """(s_t, a_t)."""
        return list(zip(self.path.states, self.path.actions, strict=False))

    @cached_property
    def supports(self) -> list[set[Any]]:
        """S^τ_t = supp P(·|s_t,a_t), whether or not its outcome was recorded."""
        return [set(self.nominal[pair]) for pair in self.observed]

    def changed(self, t: int, s: Any, a: Any) -> int:
        """[a ≠ a_t]; 0 where s only leads back to itself and does not have a_t: nobody can choose otherwise there."""
        stays = all(self.cf.mdp.row(s, b)[0] == (s,) for b in self.available(s))
        if stays and self.path.actions[t] not in self.available(s):
            return 0
        return int(a != self.path.actions[t])

    def earn(self, t: int, s: Any, a: Any, after: Any) -> float:
        """The reward of a transition."""
        if self.R is None:
            return 0.0
        at = {
            "t": t,
            "s": self.states.index(s),
            "a": self.actions.index(a),
            "j": self.states.index(after),
        }
        return float(self.R[tuple(at[axis] for axis in self.axes.replace("sas", "saj"))])

    def last(self, s: Any) -> float:
        """The reward of ending in a state."""
        return 0.0 if self.final is None else self.final.get(s, 0.0)

    def worth(self, trajectory: list[Pair], last: Any) -> float:
        """The return of an episode."""
        outcomes = [s for s, _ in trajectory[1:]] + [last]
        steps = zip(trajectory, outcomes, strict=True)
        earned = [self.discount**t * self.earn(t, s, a, after) for t, ((s, a), after) in enumerate(steps)]
        return math.fsum([*earned, self.discount**self.T * self.last(last)])

    def observed_return(self) -> float:
        """What the observed path was worth; the mean over its last outcome where that was not recorded."""
        if self.path.last_recorded:
            return self.worth(self.observed, self.path.states[-1])
        ends = self.nominal[self.observed[-1]]
        return math.fsum(p * self.worth(self.observed, j) for j, p in ends.items())


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


def in_package(criterion: Criterion) -> Any:
    """The test as the package takes it."""
    kind, eps = criterion
    return "support" if kind == "support" else getattr(tether, kind)(eps)


# --- k-step influence ----------------------------------------------------------------------------


def paths(world: World, t: int, pair: Pair, length: int) -> Iterator[list[Pair]]:
    """Every path of so many pairs through the counterfactual MDP that starts with ``pair`` at t."""
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
    """How many uninfluenced steps were just passed."""
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
    """A deterministic policy that may look at the whole history: an action, and what to do next after each outcome."""

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
    """All of them, from state s at t on."""
    if t == world.T:
        yield None
        return
    for a in world.available(s):
        row = world.rows[t][s, a]
        for onward in product(*(policies(world, t + 1, j) for j in row)):
            yield Policy(a, dict(zip(row, onward, strict=True)))


Trajectory = tuple[float, list[Pair], Any]  # probability, pairs, last state


def trajectories(world: World, policy: Policy | None, t: int, s: Any) -> Iterator[Trajectory]:
    """Everything that can happen under a policy, and how likely it is."""
    if policy is None:
        yield 1.0, [], s
        return
    pair = (s, policy.action)
    for j, p in world.rows[t][pair].items():
        for chance, rest, last in trajectories(world, policy.after[j], t + 1, j):
            yield p * chance, [pair, *rest], last


class Promise(NamedTuple):
    """What a policy is worth and what it keeps to, whatever happens."""

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
        """The value of taking ``pair``; -∞ where it cannot be."""
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
        """Whether a pair is allowed, changes aside."""
        return self.action_value(t, pair, math.inf, run) > -math.inf


def best_by_recursion(world: World, rule: str, hits: Hits) -> np.ndarray:
    """[k - 1, m]."""
    start, T = world.path.states[0], world.T
    solved = [Best(world, rule, hits, k) for k in range(1, T + 2)]
    return np.array([[best.value(0, start, m, 0) for m in range(T + 1)] for best in solved])


# --- What a plan does ----------------------------------------------------------------------------


class Visit(NamedTuple):
    """Where a plan gets: time, state, changes left, uninfluenced steps just passed."""

    t: int
    state: Any
    changes_left: int
    run: int


def follow(world: World, plan: tether.Plan, hits: Hits) -> tuple[list[Trajectory], set[Visit]]:
    """Everything that can happen under a plan, by asking it for each action; and where it was asked."""
    asked: set[Visit] = set()

    def go(visit: Visit) -> Iterator[Trajectory]:
        if visit.t == world.T:
            yield 1.0, [], visit.state
            return
        asked.add(visit)
        a = plan.action(visit.t, visit.state, visit.changes_left, visit.run)
        assert a is not None, visit
        pair = (visit.state, a)
        run = 0 if pair in hits[visit.t] else visit.run + 1
        for j, p in world.rows[visit.t][pair].items():
            onward = Visit(visit.t + 1, j, visit.changes_left - world.changed(visit.t, visit.state, a), run)
            for chance, rest, last in go(onward):
                yield p * chance, [pair, *rest], last

    return list(go(Visit(0, world.path.states[0], plan.m, 0))), asked


# --- What is drawn at random -------------------------------------------------------------------


def _up_to(most: int) -> st.SearchStrategy[int]:
    """1 … most, most often the most: that is where a world gets interesting."""
    return st.sampled_from([*range(1, most), *[most] * most])


@st.composite
def worlds(
    draw: st.DrawFn,
    max_states: int = 7,
    max_actions: int = 3,
    max_steps: int = 5,
    widest: int = 3,
    exact: bool = False,
) -> World:
    """A model and an episode: its shape is drawn, its numbers come from a seed (fast, and shrinks well enough).

    States in a line, in a one-way ring or anywhere; deterministic rows, even ones (ties), skewed ones with
    probabilities down to 1e-300; actions missing; a state nobody leads to, without actions; an episode that
    roams or keeps to the first states, far from the last ones; its last outcome recorded or not. A few have
    rows from samples, which miss outcomes: nothing but the rows may depend on how they are made.
    ``exact`` is for arithmetic without rounding: deterministic rows, whole rewards, no discount.
    """
    n, n_actions, T = (draw(_up_to(most)) for most in (max_states, max_actions, max_steps))
    layout = draw(st.sampled_from(["line", "ring", "anywhere"]))
    law = "sure" if exact else draw(st.sampled_from(["even", "whole", "skewed", "sure"]))
    axes = draw(st.sampled_from(["sa", "sas", "tsa", "tsas"] if exact else [None, "sa", "sas", "tsa", "tsas"]))
    discount = 1.0 if exact else draw(st.sampled_from([1.0, 1.0, 0.9, 0.5, 0.0]))
    roams, recorded, ends = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    stranded = draw(st.sampled_from([False, False, True]))
    samples = 0 if exact else draw(st.sampled_from([0, 0, 0, 3]))
    rng = random.Random(draw(st.integers(0, 2**32 - 1)))

    states, actions = [f"s{i}" for i in range(n)], [f"a{i}" for i in range(n_actions)]
    weights: dict[Pair, dict[Any, float]] = {}
    for i, s in enumerate(states):
        there = [a for a in actions if rng.random() < 0.8] or [rng.choice(actions)]
        near = _near(layout, states, i)
        for a in there:
            width = 1 if law == "sure" else min(len(near), rng.randint(1, widest))
            weights[s, a] = {j: _weight(rng, law) for j in rng.sample(near, width)}
    seen, did = [rng.choice(states)], []
    for _ in range(T):
        moves = [(a, j) for a in actions for j in weights.get((seen[-1], a), ())]
        a, j = rng.choice(moves) if roams else min(moves, key=lambda move: states.index(move[1]))
        did.append(a)
        seen.append(j)
    if stranded:
        states.insert(rng.randrange(n + 1), "nowhere")
    size = {"t": T, "s": len(states), "a": n_actions}
    R = None
    if axes is not None:
        shape = [size[axis] for axis in axes]
        drawn = [rng.randint(-3, 3) if exact or rng.random() < 0.5 else rng.uniform(-9, 9) for _ in np.ndindex(*shape)]
        R = np.array(drawn, dtype=float).reshape(shape)
    final = {s: float(rng.randint(-4, 4)) for s in states if rng.random() < 0.7} if ends else None
    path = tether.Path(seen if recorded else seen[:-1], did)
    return World(states, actions, weights, path, R, axes, discount, final, samples)


def _near(layout: str, states: list[Any], i: int) -> list[Any]:
    """Where one can go from state i."""
    if layout == "line":
        return states[max(0, i - 1) : i + 2]
    return (states[i:] + states[:i])[:3] if layout == "ring" else states


def _weight(rng: random.Random, law: str) -> float:
    if law == "whole":
        return rng.randint(1, 4)
    return rng.choice([1.0, 1e-3, 1e-9, 1e-300]) if law == "skewed" else 1.0


def tiny_worlds(**options: Any) -> st.SearchStrategy[World]:
    """Small enough to try every path and every policy."""
    return worlds(max_states=4, max_actions=2, max_steps=3, widest=2, **options)


# Away from the ratios of small whole numbers, where rounding would decide.
EPS = (0.0437, 0.2113, 0.3719, 0.4421, 0.7109, 0.9301)


def criteria() -> st.SearchStrategy[Criterion]:
    return st.one_of(st.just(SUPPORT), st.tuples(st.sampled_from(["tv", "effective"]), st.sampled_from(EPS)))


@st.composite
def criteria_for(draw: st.DrawFn, rule: str) -> Criterion:
    """A test that goes with a rule."""
    return draw(criteria()) if rule in ON_PAIRS else SUPPORT


@st.composite
def rules_and_criteria(draw: st.DrawFn) -> tuple[str, Criterion]:
    rule = draw(st.sampled_from(RULES))
    return rule, draw(criteria_for(rule))
