"""What if: against recursion over every path, in every small world."""

from __future__ import annotations

import math
from typing import Any

import pytest
from brute import Best, has_run, influenced, smallest_k
from hypothesis import assume, given
from hypothesis import strategies as st
from worlds import SUPPORT, World, in_package, rules_and_criteria, tiny_worlds

import tether
from tether.errors import QueryError


class Twin:
    """The same question by recursion: what is done, what it is worth, and which paths it can take."""

    def __init__(self, world: World, actions: dict[int, Any], best_from: int) -> None:
        self.world, self.actions, self.best_from = world, actions, best_from
        self.best = Best(world, "definition", influenced(world, SUPPORT), world.T + 1)

    def action(self, t: int, s: Any) -> Any:
        there, seen = self.world.available(s), self.world.path.actions[t]
        wanted = self.actions.get(t, seen)
        if t < self.best_from and wanted in there:
            return wanted
        if t < self.best_from and seen in there:
            return seen
        first = sorted(there, key=lambda a: a != seen)  # ties go to the observed action
        return max(first, key=lambda a: self.best.action_value(t, (s, a), self.world.T, 0))

    def value(self, t: int, s: Any) -> float:
        if t == self.world.T:
            return self.world.last(s)
        a = self.action(t, s)
        row = self.world.rows[t][s, a].items()
        return math.fsum(p * (self.world.earn(t, s, a, j) + self.world.discount * self.value(t + 1, j)) for j, p in row)

    def paths(self, t: int, s: Any) -> list[list[tuple[Any, Any]]]:
        if t == self.world.T:
            return [[]]
        a = self.action(t, s)
        return [[(s, a), *rest] for j in self.world.rows[t][s, a] for rest in self.paths(t + 1, j)]


@st.composite
def questions(draw):
    world = draw(tiny_worlds())
    times = st.integers(0, world.T - 1)
    actions = draw(st.dictionaries(times, st.sampled_from(world.actions), max_size=3))
    return world, actions, draw(st.none() | times)


@given(questions())
def test_it_is_what_recursion_says(question):
    world, actions, best_from = question
    asked = world.cf.what_if(actions, best_from)
    twin = Twin(world, actions, world.T if best_from is None else best_from)
    expected = twin.value(0, world.path.states[0])
    assert asked.value == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert world.cf.evaluate(asked.policy).value == pytest.approx(expected, rel=1e-9, abs=1e-9)
    if not world.samples:  # a few draws give a value that no causal model gives exactly
        assert asked.certificate.nothing.worst <= expected + 1e-9 * max(1.0, abs(expected))


@given(questions(), rules_and_criteria())
def test_the_tether_it_needs(question, rule_and_criterion):
    """The smallest k that allows every pair of every path that can be taken."""
    (world, actions, _), (rule, criterion) = question, rule_and_criterion
    hits = influenced(world, criterion)
    asked = world.cf.what_if(actions, rule=rule, influence=in_package(criterion))
    paths = Twin(world, actions, world.T).paths(0, world.path.states[0])
    if rule == "assured":
        runs = [[pair in hits[t] for t, pair in enumerate(path)] for path in paths]
        expected = next(k for k in range(1, world.T + 2) if not any(has_run(flags, k) for flags in runs))
    else:
        needed = smallest_k(world, rule, hits)
        expected = max(needed.get((t, *pair), world.T + 1) for path in paths for t, pair in enumerate(path))
    assert asked.needed_k == expected


@given(questions(), st.sampled_from(["reach", "avoid"]), st.data())
def test_a_property_in_place_of_the_return(question, kind, data):
    """The probability over every path that can be taken; best from 0 on is the best there is."""
    world, actions, _ = question
    others = [state for state in world.states if state != world.path.states[0]]  # else it is decided before anything
    assume(others)
    named = data.draw(st.lists(st.sampled_from(others), min_size=1, unique=True))
    objective = getattr(tether, kind)(named)
    asked = world.cf.what_if(actions, objective=objective)
    assert asked.value == pytest.approx(world.cf.evaluate(asked.policy, objective=objective).value, abs=1e-12)
    met = meets(Twin(world, actions, world.T), set(named), 0, world.path.states[0])
    assert asked.value == pytest.approx(met if kind == "reach" else 1.0 - met, abs=1e-12)
    best = world.cf.what_if(best_from=0, objective=objective)
    assert best.value == pytest.approx(world.cf.plan(world.T + 1, world.T, objective=objective).value, abs=1e-12)
    assert 1 <= asked.needed_k <= world.T + 1
    assert asked.certificate is None
    assert asked.sentences()


def meets(twin, goal, t, s):
    if s in goal:
        return 1.0
    if t == twin.world.T:
        return 0.0
    return math.fsum(p * meets(twin, goal, t + 1, j) for j, p in twin.world.rows[t][s, twin.action(t, s)].items())


def test_nothing_changed_and_everything_best(epidemic):
    assert epidemic.what_if().value == epidemic.what_if({}).observed_value == -38.0
    assert str(epidemic.what_if()).startswith("Everything as observed.")
    best = epidemic.what_if(best_from=0)
    assert best.value == epidemic.plan(k=8, m=7).value
    assert best.needed_k == 8
    assert "No tether allows this" in best.sentences()[-1]
    assert best.sentences()[0].startswith("From step 0 on the best actions")


def test_what_is_wrong_is_said(epidemic):
    with pytest.raises(QueryError, match=r"t = 3: .*'V_X'"):
        epidemic.what_if({3: "V_X"})
    with pytest.raises(QueryError, match="must map times"):
        epidemic.what_if(["V_I"])
    with pytest.raises(QueryError, match="7"):
        epidemic.what_if({7: "V_I"})


def test_it_shows_itself(epidemic):
    asked = epidemic.what_if({5: "V_I"})
    assert repr(asked) == "<WhatIf: value -37.11, observed -38, 1 changed, k ≥ 3>"
    assert "-37.11" in asked._repr_html_()
    assert isinstance(asked, tether.records.WhatIf)
