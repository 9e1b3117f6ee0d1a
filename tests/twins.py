"""Slow, obvious twins of the kernels, and random inputs for the tests.

Nothing here uses the package's own arithmetic. A row is a list with one number per outcome, with zeros. The twins
normalise it exactly; the model does so in floating point.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

import tether

SEEN, ASKED = "seen", "asked"

# --- The counterfactual row, in three ways -----------------------------------------------------


def normalised(row: Sequence[Any]) -> list[Fraction]:
    """The row as exact fractions (a float is one) that sum to exactly 1."""
    exact = [Fraction(x) for x in row]
    total = sum(exact)
    return [x / total for x in exact]


def exact_row(p: Sequence[Any], q: Sequence[Any], o: int) -> list[Fraction]:
    """The counterfactual row in rational arithmetic, from the definitions of D and of its integral."""
    p, q = normalised(p), normalised(q)
    outcomes = range(len(p))
    r = {j: p[j] / q[j] for j in outcomes if q[j] > 0}

    def D(x: Fraction) -> Fraction:
        return sum(max(p[j], q[j] * x) for j in outcomes)

    def slope_after(x: Fraction) -> Fraction:
        return sum(q[j] for j in r if r[j] <= x)

    def integral(low: Fraction, high: Fraction | None) -> Fraction:
        """∫ D^-2 from ``low`` to ``high`` (None: infinity), piece by piece between breakpoints."""
        inside = sorted({x for x in r.values() if x > low and (high is None or x < high)})
        ends = [low, *inside, *([] if high is None else [high])]
        total = Fraction(0)
        for left, right in pairwise(ends):
            slope = slope_after(left)
            total += (1 / D(left) - 1 / D(right)) / slope if slope else (right - left) / D(left) ** 2
        return total + (1 / D(ends[-1]) / slope_after(ends[-1]) if high is None else 0)

    row = [Fraction(0)] * len(p)
    for j, r_j in r.items():
        if j == o:
            row[j] = 1 / D(r_j)
        elif o not in r or r_j < r[o]:
            row[j] = q[j] * integral(r_j, r.get(o))
    return row


def decimal_row(p: Sequence[float], q: Sequence[float], o: int) -> list[float]:
    """The same with 60 digits, in one sweep from left to right: for rows too long for fractions.

    F never exceeds 2 (D is at least 1, and at least x), so differences of F are good to 1e-58.
    """
    with decimal.localcontext() as context:
        context.prec = 60
        p, q = [Decimal(x) for x in p], [Decimal(x) for x in q]
        p_total, q_total = sum(p), sum(q)
        p, q = [x / p_total for x in p], [x / q_total for x in q]
        r = {j: p[j] / q[j] for j in range(len(q)) if q[j] > 0}
        level, slope, x, F = Decimal(1), Decimal(0), Decimal(0), Decimal(0)
        F_at, D_at = {}, {}
        for j in sorted(r, key=r.__getitem__):
            F += (r[j] - x) / ((level + slope * x) * (level + slope * r[j]))
            x = r[j]
            level, slope = level - p[j], slope + q[j]
            F_at[j], D_at[j] = F, level + slope * x
        F_o = F_at[o] if o in r else F + 1 / (level + slope * x) / slope
        return [
            0.0 if j not in r else float(1 / D_at[o]) if j == o else float(q[j] * max(Decimal(0), F_o - F_at[j]))
            for j in range(len(q))
        ]


def race(p: Sequence[float], q: Sequence[float], o: int, samples: int, seed: int) -> np.ndarray:
    """Shares of each outcome in simulated races: those that ``o`` wins under p, run again under q."""
    rng = np.random.default_rng(seed)
    p, q = np.array(p, dtype=float), np.array(q, dtype=float)
    wins = np.zeros(len(q))
    while wins.sum() < samples:
        clock = rng.exponential(size=(50_000, len(p)))
        with np.errstate(divide="ignore"):
            kept = clock[np.argmin(clock / p, axis=1) == o][: samples - int(wins.sum())]
            wins += np.bincount(np.argmin(kept / q, axis=1), minlength=len(q))
    return wins / samples


def tv(row: Sequence[Any], other: Sequence[Any]) -> Any:
    """Total variation."""
    return sum(abs(x - y) for x, y in zip(row, other, strict=True)) / 2


def sampling_error(probability: np.ndarray, samples: int) -> np.ndarray:
    """The tolerance for a share of ``samples`` draws: five standard errors and five draws; 0 if P is 0."""
    return 5 * np.sqrt(probability * (1 - probability) / samples) + 5 / samples * (probability > 0)


def check_shares(share: np.ndarray, probability: np.ndarray, samples: int) -> None:
    """Shares agree with their probabilities; an impossible outcome has a share of 0."""
    assert np.all(np.abs(share - probability) <= sampling_error(probability, samples))


# --- The smallest model with an observed row and a row in question -------------------------------


def two_rows(p: Sequence[float], q: Sequence[float]) -> tether.MDP:
    """Outcomes 0 … n-1, where episodes end, and a state n with the row p for "seen" and q for "asked"."""
    n = len(p)
    row, action = np.concatenate((p, q)), [SEEN] * n + [ASKED] * n
    return tether.MDP.from_table(
        np.full(2 * n, n), action, np.tile(np.arange(n), 2), row, states=range(n + 1), terminal=range(n)
    )


def condition(mdp: tether.MDP, o: int, **options: Any) -> tether.records.CounterfactualMDP:
    """The model of `two_rows`, given that "seen" led to ``o``."""
    return tether.counterfactual(mdp, tether.Path([mdp.n_states - 1, o], [SEEN]), **options)


def dense(labelled: tuple[tuple[Any, ...], np.ndarray], n: int) -> np.ndarray:
    """A row of `two_rows` with its zeros filled in."""
    row = np.zeros(n)
    row[list(labelled[0])] = labelled[1]
    return row


def asked(p: Sequence[float], q: Sequence[float], o: int, **options: Any) -> np.ndarray:
    """The counterfactual row of q, given that p led to ``o``, through the public interface."""
    cf = condition(two_rows(p, q), o, **options)
    return dense(cf.row(0, len(p), ASKED), len(p))


def as_floats(weights: Sequence[float]) -> list[float]:
    """Weights as probabilities, up to rounding."""
    total = math.fsum(weights)
    return [w / total for w in weights]


# --- What is drawn at random -------------------------------------------------------------------


class Seen(NamedTuple):
    """Rows p and q over the same outcomes, and the outcome o that p led to."""

    p: list[float]
    q: list[float]
    o: int


def _weights(n: int, weight: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(weight, min_size=n, max_size=n).filter(any)


@st.composite
def whole_weights(draw: st.DrawFn, max_size: int = 6, largest: int = 7) -> Seen:
    """Small whole numbers, with many zeros and exact ties of p_j / q_j. Not normalised."""
    n = draw(st.integers(1, max_size))
    p, q = draw(_weights(n, st.integers(0, largest))), draw(_weights(n, st.integers(0, largest)))
    return Seen(p, q, draw(st.sampled_from([j for j in range(n) if p[j]])))


@st.composite
def observations(draw: st.DrawFn, max_size: int = 7, least: int = 300) -> Seen:
    """Probabilities: ties, zeros, point masses, and orders of magnitude down to 10^-least."""
    n = draw(st.integers(1, max_size))
    weight = st.one_of(
        st.just(0.0),
        st.integers(1, 4).map(float),
        st.floats(1e-3, 1.0),
        st.integers(1, least).map(lambda k: 10.0**-k),
    )
    p = draw(_weights(n, weight))
    q = draw(st.one_of(_weights(n, weight), st.permutations(p)))
    o = draw(st.sampled_from([j for j in range(n) if p[j]]))
    return Seen(as_floats(p), as_floats(q), o)


@st.composite
def disjoint(draw: st.DrawFn, max_size: int = 7) -> Seen:
    """Rows without a common outcome."""
    n = draw(st.integers(2, max_size))
    cut = draw(st.integers(1, n - 1))
    order = draw(st.permutations(range(n)))
    weight = st.floats(1e-300, 1.0)
    p, q = np.zeros(n), np.zeros(n)
    p[order[:cut]] = as_floats(draw(st.lists(weight, min_size=cut, max_size=cut)))
    q[order[cut:]] = as_floats(draw(st.lists(weight, min_size=n - cut, max_size=n - cut)))
    return Seen(p.tolist(), q.tolist(), order[draw(st.integers(0, cut - 1))])


@st.composite
def proportional(draw: st.DrawFn) -> Seen:
    """The subtle case of no influence: q excludes o, and p_j / q_j is constant, not 0, on the support of q."""
    q = draw(st.lists(st.integers(1, 9), min_size=2, max_size=5))
    scale = draw(st.integers(1, 9))
    others = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    order = draw(st.permutations(range(len(q) + len(others))))
    p = [scale * w for w in q] + others
    q = q + [0] * len(others)
    return Seen([p[i] for i in order], [q[i] for i in order], order.index(len(p) - 1))


class Episode(NamedTuple):
    """A small random model and an episode in it, by labels."""

    states: list[str]
    actions: list[str]
    weights: dict[tuple[str, str], dict[str, int]]
    path: tether.Path

    def mdp(self) -> tether.MDP:
        """The model; its rows are the weights, normalised."""
        columns = [
            (s, a, j, w / sum(row.values())) for (s, a), row in self.weights.items() for j, w in row.items() if w
        ]
        return tether.MDP.from_table(*zip(*columns, strict=True), states=self.states, actions=self.actions)

    def row(self, s: str, a: str) -> list[int]:
        """Weights of a pair's row over all states."""
        return [self.weights[s, a].get(j, 0) for j in self.states]

    def actions_in(self, s: str) -> list[str]:
        return [a for a in self.actions if (s, a) in self.weights]

    def exact(self, t: int, s: str, a: str) -> list[Fraction]:
        """The counterfactual row of a pair over all states, exactly."""
        if t == self.path.T - 1 and not self.path.last_recorded:
            return normalised(self.row(s, a))
        observed = self.row(self.path.states[t], self.path.actions[t])
        return exact_row(observed, self.row(s, a), self.states.index(self.path.states[t + 1]))

    def layers(self) -> list[set[str]]:
        """States that s_0 can reach in 0 … T steps, by trying everything."""
        reached = [{self.path.states[0]}]
        for t in range(self.path.T):
            after = set()
            for s in reached[t]:
                for a in self.actions_in(s):
                    after |= {j for j, x in zip(self.states, self.exact(t, s, a), strict=True) if x > 0}
            reached.append(after)
        return reached

    def meets(self, t: int, s: str, a: str) -> bool:
        """Whether a pair's support meets that of the observed pair of step ``t``."""
        observed = self.row(self.path.states[t], self.path.actions[t])
        return any(x and y for x, y in zip(observed, self.row(s, a), strict=True))


@st.composite
def episodes(draw: st.DrawFn) -> Episode:
    """One to five states, one to three actions, not all available everywhere; one to four steps."""
    n = draw(st.integers(1, 5))
    states = list(draw(st.permutations("dbeac")))[:n]
    actions = ["up", "down", "stay"][: draw(st.integers(1, 3))]
    sparse = st.one_of(st.just(0), st.just(0), st.integers(1, 4))
    weights = {}
    for s in states:
        for a in draw(st.lists(st.sampled_from(actions), min_size=1, unique=True)):
            weights[s, a] = dict(zip(states, draw(_weights(n, sparse)), strict=True))
    seen, did = [draw(st.sampled_from(states))], []
    for _ in range(draw(st.integers(1, 4))):
        did.append(draw(st.sampled_from([a for a in actions if (seen[-1], a) in weights])))
        seen.append(draw(st.sampled_from([j for j, w in weights[seen[-1], did[-1]].items() if w])))
    recorded = draw(st.booleans())
    return Episode(states, actions, weights, tether.Path(seen if recorded else seen[:-1], did))
