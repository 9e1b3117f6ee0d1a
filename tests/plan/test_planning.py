"""Plans: the best values against all policies and against a recursion, what a plan promises, and how ties go."""

import math
from itertools import product

import numpy as np
import pytest
from brute import Best, Promise, Visit, best_by_recursion, best_of_all, count_policies, follow, influenced
from hypothesis import assume, given
from hypothesis import strategies as st
from planned import close, every_layer_is_large
from worlds import (
    FEWER,
    ON_PAIRS,
    RULES,
    SUPPORT,
    World,
    criteria_for,
    in_package,
    rules_and_criteria,
    tiny_worlds,
    worlds,
)

import tether


def grows(values):
    """Whether an array never falls along its first axis, but for rounding."""
    return bool(np.all(np.diff(values, axis=0) >= -1e-10))


# --- Values over random worlds -------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@FEWER
@given(data=st.data(), world=tiny_worlds())
def test_values_by_all_policies(rule, data, world):
    assume(count_policies(world) <= 600)
    criterion = data.draw(criteria_for(rule))
    values = world.cf.sweep(rule=rule, influence=in_package(criterion)).values
    close(values, best_of_all(world, rule, influenced(world, criterion)))


@pytest.mark.parametrize("rule", RULES)
@given(data=st.data(), world=worlds())
def test_values_by_recursion(rule, data, world):
    criterion = data.draw(criteria_for(rule))
    values = world.cf.sweep(rule=rule, influence=in_package(criterion)).values
    close(values, best_by_recursion(world, rule, influenced(world, criterion)))


@given(worlds(), rules_and_criteria())
def test_a_plan_is_worth_what_the_sweep_says(world, asked):
    rule, criterion = asked
    table = world.cf.sweep(rule=rule, influence=in_package(criterion))
    assert table.values.shape == (world.T + 1, world.T + 1)
    for k, m in product(range(1, world.T + 2), range(world.T + 1)):
        plan = world.cf.plan(k, m, rule=rule, influence=in_package(criterion))
        assert (plan.k, plan.m, plan.rule) == (k, m, rule)
        close(plan.value, table.values[k - 1, m])
        assert plan.observed_value == table.observed_value


@given(worlds(), rules_and_criteria(), st.data())
def test_however_a_layer_is_cut_into_pieces_the_bits_are_the_same(world, asked, data):
    rule, criterion = asked
    ask = {"rule": rule, "influence": in_package(criterion)}
    m = data.draw(st.integers(0, world.T))
    whole = world.cf.sweep(**ask), world.cf.plan(world.T, m, **ask)
    with pytest.MonkeyPatch.context() as patch:
        every_layer_is_large(patch, data.draw(st.integers(1, 9)))
        pieces = world.cf.sweep(**ask), world.cf.plan(world.T, m, **ask)
    assert whole[0].values.tobytes() == pieces[0].values.tobytes()
    assert whole[1].value == pieces[1].value
    for one, other in zip(whole[1].chain.taken, pieces[1].chain.taken, strict=True):
        np.testing.assert_array_equal(one.pairs, other.pairs)


# --- Facts ---------------------------------------------------------------------------------------


@given(worlds(), rules_and_criteria())
def test_without_changes_the_value_is_the_observed_return(world, asked):
    rule, criterion = asked
    table = world.cf.sweep(rule=rule, influence=in_package(criterion))
    close(table.values[:, 0], world.observed_return())
    close(table.observed_value, world.observed_return())


@given(worlds(), rules_and_criteria())
def test_values_grow_with_k_and_with_m(world, asked):
    rule, criterion = asked
    values = world.cf.sweep(rule=rule, influence=in_package(criterion)).values
    assert np.all(np.isfinite(values))
    assert grows(values)
    assert grows(values.T)


@given(worlds())
def test_beyond_the_end_there_is_no_constraint(world):
    """k ≥ T + 1 is the best policy with m changes alone, whatever the rule and the test."""
    everything = Best(world, "definition", [], world.T + 1)
    everything.kept = [set(world.weights)] * world.T
    free = [everything.value(0, world.path.states[0], m, 0) for m in range(world.T + 1)]
    for rule, criterion in [
        *((rule, SUPPORT) for rule in RULES),
        *product(ON_PAIRS, [("tv", 0.0), ("effective", 0.9)]),
    ]:
        close(world.cf.sweep(rule=rule, influence=in_package(criterion), ks=[world.T + 1]).values[0], free)


@given(worlds(), st.data())
def test_assurance_costs(world, data):
    influence = in_package(data.draw(criteria_for("assured")))
    assured, defined = (world.cf.sweep(rule=rule, influence=influence).values for rule in ("assured", "definition"))
    assert np.all(assured <= defined + 1e-10)


# --- What a plan does ----------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@given(data=st.data(), world=worlds())
def test_a_plan_keeps_its_promises_whatever_happens(rule, data, world):
    criterion = data.draw(criteria_for(rule))
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(0, world.T))
    plan = world.cf.plan(k, m, rule=rule, influence=in_package(criterion))
    hits = influenced(world, criterion)
    happening, asked = follow(world, plan, hits)
    assert math.fsum(chance for chance, _, _ in happening) == pytest.approx(1.0)
    promise = Promise.of(world, happening)
    close(promise.value, plan.value)
    assert promise.changes <= m
    assert promise.keeps_to(world, rule, hits, k)
    visited = asked if rule == "assured" else {visit._replace(run=0) for visit in asked}
    for t, s, c, run in product(range(world.T), world.states, range(m + 2), range(world.T)):
        visit = Visit(t, s, c, run if rule == "assured" else 0)
        assert (plan.action(t, s, c, uninfluenced=run) is not None) == (visit in visited)


@given(worlds(), rules_and_criteria(), st.data())
def test_the_value_is_the_mean_return_over_the_chain(world, asked, data):
    rule, criterion = asked
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(0, world.T))
    plan = world.cf.plan(k, m, rule=rule, influence=in_package(criterion))
    chain, discount, labels = plan.chain, world.discount, plan.cf.mdp.states
    mass = chain.occupancy()
    parts = []
    for t, (link, reached) in enumerate(zip(chain.links, mass, strict=False)):
        assert reached.sum() == pytest.approx(1.0)
        parts += (discount**t * reached[link.source] * link.probability * link.reward).tolist()
    ends = zip(mass[-1], chain.visits[-1].states, strict=True)
    parts += [discount**world.T * p * world.last(labels[int(s)]) for p, s in ends]
    close(math.fsum(parts), plan.value)
    assert [int(chain.visits[0].states[0]), int(chain.visits[0].changes[0])] == [
        labels.index(world.path.states[0]),
        m,
    ]


# --- Ties ----------------------------------------------------------------------------------------


def favourite(world, t, s, best):
    """Of actions that are equally good: the observed one, then the first in the model's order."""
    return world.path.actions[t] if world.path.actions[t] in best else best[0]


def check_choices(world, rule, criterion, k, m, slack):
    hits = influenced(world, criterion)
    plan, best = world.cf.plan(k, m, rule=rule, influence=in_package(criterion)), Best(world, rule, hits, k)
    _, asked = follow(world, plan, hits)
    for t, s, c, run in asked:
        run_now = run if rule == "assured" else 0
        values = {a: best.action_value(t, (s, a), c, run_now) for a in world.available(s)}
        top = max(values.values())
        tied = [a for a, value in values.items() if value >= top - slack]
        nearly = [a for a, value in values.items() if value >= top - 1e-8]
        if tied == nearly:  # else rounding might decide
            assert plan.action(t, s, c, uninfluenced=run) == favourite(world, t, s, tied)
        else:
            assert plan.action(t, s, c, uninfluenced=run) in nearly


@given(worlds(exact=True), rules_and_criteria(), st.data())
def test_ties_go_to_the_observed_action_then_to_the_first(world, asked, data):
    """With rows that are certain and rewards that are whole nothing is rounded, and ties abound."""
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(0, world.T))
    check_choices(world, *asked, k, m, slack=0.0)


@given(worlds(), rules_and_criteria(), st.data())
def test_ties_are_ties_in_spite_of_rounding(world, asked, data):
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(0, world.T))
    check_choices(world, *asked, k, m, slack=1e-13)


@given(worlds(), rules_and_criteria())
def test_where_nothing_is_gained_nothing_is_changed(world, asked):
    rule, criterion = asked
    world.R = world.final = None
    plan = world.cf.plan(world.T + 1, world.T, rule=rule, influence=in_package(criterion))
    assert plan.value == 0.0
    happening, _ = follow(world, plan, influenced(world, criterion))
    assert all(pairs == world.observed for _, pairs, _ in happening)


def test_off_the_observed_path_the_observed_action_is_still_preferred():
    # Leaving pays at once; then nothing does. In "here" all three are available, in "there" not the observed one.
    weights = {("start", a): {"start": 1.0} for a in ("first", "seen", "third")}
    weights["start", "third"] = {"here": 0.5, "there": 0.5}
    weights |= {("here", a): {"here": 1.0} for a in ("first", "seen", "third")}
    weights |= {("there", a): {"there": 1.0} for a in ("first", "third")}
    R = np.zeros((2, 3, 3))
    R[0, 0, 2] = 1.0
    path = tether.Path(["start"] * 3, ["seen"] * 2)
    plan = World(["start", "here", "there"], ["first", "seen", "third"], weights, path, R, "tsa").cf.plan(3, 2)
    assert plan.action(0, "start", 2) == "third"
    assert plan.action(1, "here", 1) == "seen"
    assert plan.action(1, "there", 1) == "first"


@pytest.mark.parametrize("observed", ["low", "high"])
def test_a_tie_that_rounding_breaks(observed):
    # 0.1 + 0.2 + 0.3 is worth as much as 0.3 + 0.2 + 0.1: in floating point one is a little more, either way.
    weights = {("start", way): {way: 1.0} for way in ("low", "high")}
    weights |= {(way, a): {way: 1.0} for way in ("low", "high") for a in ("low", "high")}
    R = np.zeros((4, 3, 2))
    R[1:, 1] = [[0.1], [0.2], [0.3]]
    R[1:, 2] = [[0.3], [0.2], [0.1]]
    path = tether.Path(["start", *[observed] * 4], [observed] * 4)
    plan = World(["start", "low", "high"], ["low", "high"], weights, path, R, "tsa").cf.plan(5, 4)
    assert plan.value == pytest.approx(0.6)
    assert plan.action(0, "start", 4) == observed
