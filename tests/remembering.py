"""Formulas about episodes in plain Python: what they mean on a path, and worlds whose states remember by hand.

Independent of the package: the meaning is the definition, read off a whole path; what has to be remembered of some
formulas is written out by hand; and a world with memory is built from the rows of a world without it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

from brute import Hits, influenced
from hypothesis import assume
from hypothesis import strategies as st
from worlds import Criterion, World, criteria_for, worlds

import tether

Meaning = Callable[[list[Any], int], bool]
"""Whether a formula holds of a path from a time on; at the end of the path nothing is left."""


class Said(NamedTuple):
    """A formula as text, and what it means."""

    text: str
    means: Meaning


def now(text: str, states: set[Any]) -> Said:
    return Said(text, lambda path, t: t < len(path) and path[t] in states)


def _within(path: list[Any], t: int, low: int, high: int | None) -> range:
    """The times from t + low to t + high that the path has."""
    return range(t + low, min(len(path), len(path) if high is None else t + high + 1))


def bound_text(low: int, high: int | None) -> str:
    if high is None:
        return f">={low}" if low else ""
    return f"<={high}" if low == 0 else f"[{low},{high}]"


def finally_(one: Said, low: int, high: int | None) -> Said:
    def means(path: list[Any], t: int) -> bool:
        return any(one.means(path, u) for u in _within(path, t, low, high))

    return Said(f"(F{bound_text(low, high)} {one.text})", means)


def globally(one: Said, low: int, high: int | None) -> Said:
    def means(path: list[Any], t: int) -> bool:
        return all(one.means(path, u) for u in _within(path, t, low, high))

    return Said(f"(G{bound_text(low, high)} {one.text})", means)


def until(one: Said, other: Said, low: int, high: int | None) -> Said:
    def means(path: list[Any], t: int) -> bool:
        return any(
            other.means(path, u) and all(one.means(path, v) for v in range(t, u)) for u in _within(path, t, low, high)
        )

    return Said(f"({one.text} U{bound_text(low, high)} {other.text})", means)


def weak(one: Said, other: Said) -> Said:
    forever, some = globally(one, 0, None), until(one, other, 0, None)
    return Said(f"({one.text} W {other.text})", lambda path, t: forever.means(path, t) or some.means(path, t))


def release(one: Said, other: Said) -> Said:
    opposite = until(negated(one), negated(other), 0, None)
    return Said(f"({one.text} R {other.text})", lambda path, t: not opposite.means(path, t))


def next_(one: Said) -> Said:
    return Said(f"(X {one.text})", lambda path, t: t + 1 < len(path) and one.means(path, t + 1))


def negated(one: Said) -> Said:
    return Said(f"(!{one.text})", lambda path, t: not one.means(path, t))


def both(one: Said, other: Said) -> Said:
    return Said(f"({one.text} & {other.text})", lambda path, t: one.means(path, t) and other.means(path, t))


def either(one: Said, other: Said) -> Said:
    return Said(f"({one.text} | {other.text})", lambda path, t: one.means(path, t) or other.means(path, t))


def implied(one: Said, other: Said) -> Said:
    return Said(f"({one.text} => {other.text})", lambda path, t: not one.means(path, t) or other.means(path, t))


def formulas(atoms: list[Said]) -> st.SearchStrategy[Said]:
    """Formulas of every kind, a few operators deep, with brackets everywhere."""
    bounds = st.tuples(st.integers(0, 2), st.none() | st.integers(0, 3)).map(
        lambda pair: (pair[0], None if pair[1] is None else pair[0] + pair[1])
    )

    def larger(some: st.SearchStrategy[Said]) -> st.SearchStrategy[Said]:
        timed = st.tuples(some, bounds)
        two = st.tuples(some, some)
        return st.one_of(
            timed.map(lambda given: finally_(given[0], *given[1])),
            timed.map(lambda given: globally(given[0], *given[1])),
            st.tuples(some, some, bounds).map(lambda given: until(given[0], given[1], *given[2])),
            two.map(lambda given: weak(*given)),
            two.map(lambda given: release(*given)),
            some.map(next_),
            some.map(negated),
            two.map(lambda given: both(*given)),
            two.map(lambda given: either(*given)),
            two.map(lambda given: implied(*given)),
        )

    return st.recursive(st.sampled_from(atoms), larger, max_leaves=5)


# --- Worlds that remember ------------------------------------------------------------------------


class Kept(NamedTuple):
    """A property, what it remembers before the first state, after one more state, and what that decides.

    ``verdict`` is True or False if nothing can change it any more, else None; ``last`` is it at the end of the path.
    """

    name: str
    asked: tether.records.Property | str
    first: Any
    after: Callable[[Any, Any], Any]
    verdict: Callable[[Any], bool | None]
    last: Callable[[Any], bool]


def kinds(A: list[Any], B: list[Any], n: int) -> list[Kept]:
    """Properties of two sets of states, and of a number of steps."""
    a, b = tether.reach(A), tether.reach(B)

    def met(seen: tuple[bool, bool], s: Any) -> tuple[bool, bool]:
        return seen[0] or s in A, seen[1] or s in B

    def counted(seen: tuple[int, bool, bool], s: Any) -> tuple[int, bool, bool]:
        """Steps so far, up to one more than n; whether A was met by n, and B at any time."""
        steps, early, late = seen
        return min(steps + 1, n + 1), early or (steps <= n and s in A), late or s in B

    def in_order(seen: int, s: Any) -> int:
        if seen == 2 or (seen == 1 and s in B):
            return 2
        return 1 if seen == 1 or s in A else 0

    def early_then_never(seen: tuple[int, bool, bool]) -> bool | None:
        return False if seen[2] or (seen[0] > n and not seen[1]) else None

    def responded(seen: tuple[bool, bool], s: Any) -> tuple[bool, bool]:
        """Whether B is still owed after an A."""
        return (False, True) if s in B else (seen[0] or s in A, True)

    def back(seen: int, s: Any) -> int:
        if seen == 2 or (seen == 1 and s in A):
            return 2
        return 1 if seen == 1 or s in B else 0

    def either_way(seen: tuple[int, int, int], s: Any) -> tuple[int, int, int]:
        """Steps so far; how far A then B has come by n, and B then A."""
        return min(seen[0] + 1, n + 1), in_order(seen[1], s) if seen[0] <= n else seen[1], back(seen[2], s)

    return [
        Kept("both", a & b, (False, False), met, lambda seen: all(seen) or None, all),
        Kept("a, never b", a & ~b, (False, False), met, lambda seen: False if seen[1] else None,
             lambda seen: seen[0] and not seen[1]),
        Kept("one of them", ~a | b, (False, False), met, lambda seen: True if seen[1] else None,
             lambda seen: seen[1] or not seen[0]),
        Kept("in order", a.then(B), 0, in_order, lambda seen: True if seen == 2 else None, lambda seen: seen == 2),
        Kept("early a, then b", tether.reach(A, within=n) & b, (0, False, False), counted,
             lambda seen: True if seen[1] and seen[2] else False if seen[0] > n and not seen[1] else None,
             lambda seen: seen[1] and seen[2]),
        Kept("early a, never b", tether.reach(A, within=n) & ~b, (0, False, False), counted, early_then_never,
             lambda seen: seen[1] and not seen[2]),
        Kept("in order, early, or back", a.then(B, within=n) | b.then(A), (0, 0, 0), either_way,
             lambda seen: 2 in seen[1:] or None, lambda seen: 2 in seen[1:]),
        Kept("answered", 'P=? [ G ("A" => F "B") ]', (False, False), responded, lambda _: None,
             lambda seen: not seen[0]),
    ]  # fmt: skip


class Remembering(World):
    """A world whose states are those of another one, each with what is remembered."""

    def __init__(self, plain: World, kept: Kept) -> None:
        self.plain, self.kept = plain, kept
        first = self.read(kept.first, plain.path.states[0])
        found, waiting = {(plain.path.states[0], first)}, [(plain.path.states[0], first)]
        for s, memory in waiting:
            for a in plain.available(s):
                for j in plain.nominal[s, a]:
                    after = (j, self.read(memory, j))
                    if after not in found:
                        found.add(after)
                        waiting.append(after)
        memory, seen = kept.first, []
        for s in plain.path.states:
            memory = self.read(memory, s)
            seen.append((s, memory))
        weights = {((s, memory), a): {} for s, memory in waiting for a in plain.available(s)}
        super().__init__(waiting, plain.actions, weights, tether.Path(seen, plain.path.actions))

    def read(self, memory: Any, s: Any) -> Any:
        """What is remembered after a state; where an episode can only stay, it is read again and again."""
        after = self.kept.after(memory, s)
        while self.plain.stays(s) and self.kept.after(after, s) != after:
            after = self.kept.after(after, s)
        return after

    def carried(self, node: Any, row: dict[Any, float]) -> dict[Any, float]:
        return {(j, self.read(node[1], j)): p for j, p in row.items()}

    @cached_property
    def nominal(self) -> dict[Any, dict[Any, float]]:
        return {(node, a): self.carried(node, self.plain.nominal[node[0], a]) for node, a in self.weights}

    @cached_property
    def rows(self) -> list[dict[Any, dict[Any, float]]]:
        return [
            {(node, a): self.carried(node, rows[node[0], a]) for node, a in self.weights} for rows in self.plain.rows
        ]

    @cached_property
    def supports(self) -> list[set[Any]]:
        return [{node for node in self.states if node[0] in support} for support in self.plain.supports]

    def stays(self, node: Any) -> bool:
        return self.plain.stays(node[0])


class AskedFormula(NamedTuple):
    """A world that remembers, as `deciding` asks about it."""

    world: Remembering
    rule: str
    criterion: Criterion
    labels: dict[str, list[Any]]
    kind: str = "reach"

    @property
    def objective(self) -> Any:
        return self.world.kept.asked

    def conditioned(self) -> tether.records.CounterfactualMDP:
        """The episode of the plain world, with the labels."""
        cf = self.world.plain.conditioned()
        return tether.counterfactual(cf.mdp.with_labels(self.labels), cf.path, cf.mechanism)

    @property
    def hits(self) -> Hits:
        hits = influenced(self.world.plain, self.criterion)
        return [{(node, a) for node, a in self.world.weights if (node[0], a) in there} for there in hits]

    def decides(self, node: Any) -> bool:
        return self.world.kept.verdict(node[1]) is not None

    def holds(self, nodes: list[Any]) -> bool:
        return self.world.kept.last(nodes[-1][1])

    def observed(self) -> float:
        seen = list(self.world.path.states)
        if self.world.path.last_recorded:
            return float(self.holds(seen))
        return sum(p * self.holds([j]) for j, p in self.world.nominal[seen[-1], self.world.path.actions[-1]].items())


@st.composite
def asked_formulas(draw: st.DrawFn, rules: tuple[str, ...], **sizes: Any) -> AskedFormula:
    plain = draw(worlds(**sizes))
    some = st.lists(st.sampled_from(plain.states), min_size=1, max_size=2, unique=True)
    A, B = draw(some), draw(some)
    kept = draw(st.sampled_from(kinds(A, B, draw(st.integers(0, plain.T - 1)))))
    rule = draw(st.sampled_from(rules))
    world = Remembering(plain, kept)
    one = AskedFormula(world, rule, draw(criteria_for(rule)), {"A": A, "B": B})
    assume(not one.decides(world.path.states[0]))
    return one
