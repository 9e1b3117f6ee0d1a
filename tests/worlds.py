"""Small random worlds: a model and an episode in it; with rules and tests of influence."""

from __future__ import annotations

import math
import random
from functools import cached_property
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

import tether

FEWER = settings(max_examples=max(7, settings.default.max_examples // 3))
"""Sizes for tests that try everything."""

Pair = tuple[Any, Any]
Criterion = tuple[str, float]  # ("support", 0), ("tv", eps) or ("effective", eps)

SUPPORT: Criterion = ("support", 0.0)
RULES = ("definition", "published", "printed", "assured")
ON_PAIRS = ("definition", "assured")
"""The rules that can be used with any test of influence; the other two are defined by supports."""


class World:
    """A small model, an episode in it, and the rewards."""

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
    def cf(self) -> tether.records.CounterfactualMDP:
        return self.conditioned()

    def conditioned(self) -> tether.records.CounterfactualMDP:
        """A new counterfactual MDP, without any kept answers."""
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

    def stays(self, s: Any) -> bool:
        """Whether every action in s leads back to it for certain."""
        return all(self.cf.mdp.row(s, a)[0] == (s,) for a in self.available(s))

    def changed(self, t: int, s: Any, a: Any) -> int:
        """[a ≠ a_t]; 0 if s is absorbing and does not have a_t: there is nothing to choose there."""
        if self.stays(s) and self.path.actions[t] not in self.available(s):
            return 0
        return int(a != self.path.actions[t])

    def changes_something(self, t: int, s: Any, a: Any) -> int:
        """The same; 0 also where s only leads back to itself and every action earns the same: nothing is left to do."""
        if self.stays(s) and len({self.earn(t, s, b, s) for b in self.available(s)}) == 1:
            return 0
        return self.changed(t, s, a)

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
        """The return of the observed path; the mean over its last outcome if that was not recorded."""
        if self.path.last_recorded:
            return self.worth(self.observed, self.path.states[-1])
        ends = self.nominal[self.observed[-1]]
        return math.fsum(p * self.worth(self.observed, j) for j, p in ends.items())


def in_package(criterion: Criterion) -> Any:
    """The test as the package takes it."""
    kind, eps = criterion
    return "support" if kind == "support" else getattr(tether, kind)(eps)


# --- What is drawn at random -------------------------------------------------------------------


def _up_to(most: int) -> st.SearchStrategy[int]:
    """1 … most; most often the largest number, because larger worlds find more."""
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

    States are in a line, in a one-way ring or connected at random. Rows are deterministic, even (with ties), or skewed
    with probabilities down to 1e-300. Some actions are missing. There may be a state without actions that nothing leads
    to. An episode visits any states, or only the first ones, far from the last ones. Its last outcome is recorded or
    not. A few worlds have rows from samples, which miss outcomes: nothing but the rows may depend on the mechanism.
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
    """The states that state i can lead to."""
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
    """A test of influence that can be used with a rule."""
    return draw(criteria()) if rule in ON_PAIRS else SUPPORT


@st.composite
def rules_and_criteria(draw: st.DrawFn) -> tuple[str, Criterion]:
    rule = draw(st.sampled_from(RULES))
    return rule, draw(criteria_for(rule))
