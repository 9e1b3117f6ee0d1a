"""Every episode that a policy can lead to, by enumeration in plain Python.

The package computes distributions step by step and never sees an episode. Here there are only episodes, each with its
probability, and sums over them. Nothing is merged. Rows of the counterfactual MDP are the package's own: they have
their own twins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from brute import distance, has_run, is_influenced, trailing
from hypothesis import strategies as st
from worlds import Criterion, World, rules_and_criteria, worlds

import tether

Hit = Callable[[int, tuple[Any, Any]], bool]  # (time, pair) to whether it is one-step influenced
Answer = Mapping[Any, float]  # actions and their probabilities


class _Asked(dict[Any, Any]):
    """A table whose entries are computed when they are needed."""

    def __init__(self, ask: Callable[[Any], Any]) -> None:
        self.ask = ask

    def __missing__(self, key: Any) -> Any:
        self[key] = self.ask(key)
        return self[key]


class CaseWorld(World):
    """One of the package's cases, as a world; its rows are computed one by one."""

    def __init__(self, cf: tether.records.CounterfactualMDP) -> None:
        mdp = cf.mdp
        super().__init__(list(mdp.states), list(mdp.actions), {}, cf.path, discount=mdp.discount)
        self.cf = cf
        self.nominal = _Asked(lambda pair: dict(zip(*mdp.row(*pair), strict=True)))
        self.rows = [_Asked(lambda pair, t=t: dict(zip(*cf.row(t, *pair), strict=True))) for t in range(cf.T)]

    def available(self, s: Any) -> list[Any]:
        return list(self.cf.mdp.actions_in(s))

    def earn(self, t: int, s: Any, a: Any, after: Any) -> float:
        return self.cf.mdp.reward(s, a, after, t)

    def last(self, s: Any) -> float:
        final = self.cf.mdp.final_reward
        return 0.0 if final is None else float(final[self.states.index(s)])


def hits_of(world: World, criterion: Criterion) -> Hit:
    return cache(lambda t, pair: is_influenced(world, criterion, t, pair))


# --- Episodes ------------------------------------------------------------------------------------


class Episode(NamedTuple):
    """s_0, a_0, …, s_t, and its probability."""

    chance: float
    states: tuple[Any, ...]
    actions: tuple[Any, ...]

    @property
    def t(self) -> int:
        return len(self.actions)

    def steps(self) -> Iterator[tuple[int, Any, Any, Any]]:
        """(t, s_t, a_t, s_{t+1})."""
        for t, (a, (s, after)) in enumerate(zip(self.actions, pairwise(self.states), strict=True)):
            yield t, s, a, after


Choose = Callable[[Episode], Answer]
"""The action of a policy after the episode so far, as probabilities."""


def by_plan(world: World, plan: tether.records.Plan, hit: Hit) -> Choose:
    """A plan, asked for each action: with the changes it has left and the uninfluenced steps just passed."""

    def choose(so_far: Episode) -> Answer:
        changes = sum(world.changed(t, s, a) for t, s, a, _ in so_far.steps())
        run = trailing([hit(t, (s, a)) for t, s, a, _ in so_far.steps()])
        action = plan.action(so_far.t, so_far.states[-1], plan.m - changes, uninfluenced=run)
        assert action is not None, so_far
        return {action: 1.0}

    return choose


def by_table(table: Mapping[tuple[int, Any], Answer]) -> Choose:
    return lambda so_far: table[so_far.t, so_far.states[-1]]


class Law:
    """All episodes of a policy, and expectations over them.

    ``nominal`` follows the plain model instead of the counterfactual one.
    """

    def __init__(
        self, world: World, choose: Choose, *, nominal: bool = False, T: int | None = None, start: Any = None
    ) -> None:
        self.world, self.nominal = world, nominal
        self.T = world.T if T is None else T
        going = [Episode(1.0, (world.path.states[0] if start is None else start,), ())]
        for t in range(self.T):
            going = [
                Episode(so_far.chance * share * p, (*so_far.states, j), (*so_far.actions, a))
                for so_far in going
                for a, share in choose(so_far).items()
                for j, p in self.row(t, (so_far.states[-1], a)).items()
            ]
        self.episodes = going
        self.collected = {one: self._collected(one) for one in going}

    def row(self, t: int, pair: tuple[Any, Any]) -> dict[Any, float]:
        return self.world.nominal[pair] if self.nominal else self.world.rows[t][pair]

    def mean(self, value: Callable[[Episode], float]) -> float:
        return math.fsum(one.chance * value(one) for one in self.episodes)

    def std(self, value: Callable[[Episode], float]) -> float:
        mean = self.mean(value)
        return math.sqrt(math.fsum(one.chance * (value(one) - mean) ** 2 for one in self.episodes))

    def states(self, t: int) -> dict[Any, float]:
        """The distribution at t, of every state that some episode has there."""
        there: dict[Any, list[float]] = {}
        for one in self.episodes:
            there.setdefault(one.states[t], []).append(one.chance)
        return {s: math.fsum(chances) for s, chances in there.items()}

    def actions(self, t: int, among: Collection[Any] | None = None) -> dict[Any, float]:
        """The distribution of the action at t, if the state is in ``among``; {} if it never is."""
        there = [one for one in self.episodes if among is None or one.states[t] in among]
        total = math.fsum(one.chance for one in there)
        named = {one.actions[t] for one in there}
        return {a: math.fsum(one.chance for one in there if one.actions[t] == a) / total for a in named}

    def _collected(self, one: Episode) -> list[float]:
        """The return before each time, without the final reward."""
        world, worth = self.world, []
        for t, s, a, after in one.steps():
            worth.append(world.discount**t * world.earn(t, s, a, after))
        return [math.fsum(worth[:t]) for t in range(self.T + 1)]

    def earned(self, until: int) -> Callable[[Episode], float]:
        """The return collected before a time, without the final reward."""
        return lambda one: self.collected[one][until]

    def total(self, one: Episode) -> float:
        return self.earned(self.T)(one) + self.world.discount**self.T * self.world.last(one.states[-1])

    def scale(self) -> float:
        """The sum of the absolute values that are added up, for tolerances."""
        collected = max(abs(value) for values in self.collected.values() for value in values)
        return max(1.0, collected) + max(abs(self.world.last(one.states[-1])) for one in self.episodes)


def longest_run(one: Episode, hit: Hit) -> int:
    """The longest run of uninfluenced steps of an episode."""
    flags = [hit(t, (s, a)) for t, s, a, _ in one.steps()]
    return max(k for k in range(len(flags) + 1) if k == 0 or has_run(flags, k))


# --- Agreement ---------------------------------------------------------------------------------


def _seen(shares: Mapping[Any, float]) -> dict[Any, float]:
    """The shares without very small ones, which may be rounded to 0."""
    return {key: share for key, share in shares.items() if share > 1e-200}


def assert_evaluates(outlook: tether.records.Evaluation, law: Law) -> None:
    """An evaluation says what enumeration does: states, actions, rewards, returns."""
    scale = law.scale()
    near = {"rel": 1e-11, "abs": 1e-11 * scale}
    assert outlook.T == law.T
    for t in range(law.T + 1):
        labels, chance = outlook.distribution(t)
        expected = law.states(t)
        assert list(labels) == [s for s in law.world.states if s in expected]  # in the model's order
        assert chance == pytest.approx([expected[s] for s in labels], abs=1e-12)
        state, highest = outlook.likeliest(t)
        assert highest == pytest.approx(max(expected.values()), abs=1e-12)
        assert expected[state] == pytest.approx(highest, abs=1e-12)
        assert outlook.returns.mean[t] == pytest.approx(law.mean(law.earned(t)), **near)
        # Nearly full precision, also for a spread near 0: squares of the return itself would lose half of the digits.
        assert outlook.returns.std[t] == pytest.approx(law.std(law.earned(t)), **near)
    for t in range(law.T):
        assert _seen(outlook.actions(t)) == pytest.approx(_seen(law.actions(t)), abs=1e-12)
        for s, chance in _seen(law.states(t)).items():
            assert _seen(outlook.actions(t, s)) == pytest.approx(_seen(law.actions(t, [s])), abs=1e-9), chance
        some = law.world.states[::2]
        if math.fsum(chance for s, chance in law.states(t).items() if s in some) > 1e-200:
            shares = outlook.actions_among(t, some)
            assert _seen(shares) == pytest.approx(_seen(law.actions(t, some)), abs=1e-9)
        reward = law.mean(lambda one, t=t: next(law.world.earn(*step) for step in one.steps() if step[0] == t))
        assert outlook.rewards[t] == pytest.approx(reward, **near)
    path, chance = outlook.likeliest_path()
    same = [one.chance for one in law.episodes if (one.states, one.actions) == (path.states, path.actions)]
    assert chance == pytest.approx(max(one.chance for one in law.episodes), rel=1e-12)
    assert same == pytest.approx([chance], rel=1e-12)
    assert outlook.mean == outlook.value == pytest.approx(law.mean(law.total), **near)
    assert outlook.std == pytest.approx(law.std(law.total), **near)


def assert_tailored(outlook: tether.records.Evaluation, law: Law, hit: Hit) -> None:
    """What an evaluation says about the observation agrees too: changes, strength, influence, runs."""
    world, tailoring = law.world, outlook.tailoring
    for t in range(law.T):
        pairs = [(one.chance, (one.states[t], one.actions[t])) for one in law.episodes]
        changed = math.fsum(chance * world.changes_something(t, s, a) for chance, (s, a) in pairs)
        strength = math.fsum(chance * distance(world.rows[t][pair], world.nominal[pair]) for chance, pair in pairs)
        influenced = math.fsum(chance for chance, pair in pairs if hit(t, pair))
        assert outlook.changed[t] == pytest.approx(changed, abs=1e-12)
        assert tailoring.strength[t] == pytest.approx(strength, abs=1e-12)
        assert tailoring.influenced[t] == pytest.approx(influenced, abs=1e-12)
    steps = law.mean(lambda one: sum(hit(t, (s, a)) for t, s, a, _ in one.steps()))
    assert tailoring.expected_influenced_steps == pytest.approx(steps, abs=1e-11)
    runs = [(one.chance, longest_run(one, hit)) for one in law.episodes]
    at_least = [math.fsum(chance for chance, run in runs if run >= k) for k in range(law.T + 1)]
    assert tailoring.run_at_least == pytest.approx(at_least, abs=1e-12)
    assert tailoring.run_at_least[0] == 1.0
    longest = max(run for chance, run in runs if chance > 1e-200)
    assert longest <= tailoring.longest_run <= max(run for _, run in runs)
    assert tailoring.longest_run_probability == pytest.approx(at_least[tailoring.longest_run], abs=1e-12)


# --- What is drawn at random -------------------------------------------------------------------


class Question(NamedTuple):
    """A world, and a plan to ask for in it."""

    world: World
    rule: str
    criterion: Criterion
    k: int
    m: int


@st.composite
def questions(draw: st.DrawFn, **sizes: Any) -> Question:
    world = draw(worlds(**sizes))
    rule, criterion = draw(rules_and_criteria())
    return Question(world, rule, criterion, draw(st.integers(1, world.T + 1)), draw(st.integers(0, world.T)))


@st.composite
def tables(draw: st.DrawFn, world: World, *, mixed: bool, timed: bool = True) -> dict[tuple[int, Any], Answer]:
    """A policy, as an answer for each time and state with actions: one action, or a distribution over some of them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    table: dict[tuple[int, Any], Answer] = {}
    for s in world.states:
        there = world.available(s)
        for t in range(world.T if there else 0):
            if t and not timed:
                table[t, s] = table[0, s]
                continue
            count = int(rng.integers(1, len(there) + 1)) if mixed else 1
            share = rng.integers(1, 9, count)
            named = rng.permutation(len(there))[:count]
            table[t, s] = {there[i]: float(w / share.sum()) for i, w in zip(named, share, strict=True)}
    return table
