"""A return against a property: the front against all policies, and the best plan within a limit."""

import math
from itertools import pairwise

import numpy as np
import pytest
from brute import allowed, count_policies, has_run, policies, trajectories
from deciding import asked
from hypothesis import assume, given
from hypothesis import strategies as st
from worlds import FEWER, RULES, World, in_package

import tether
from tether.model.names import Tracked


def all_points(one, k, m):
    """(value, probability) of every deterministic policy of the whole history that keeps to k and m."""
    world, hits, start, points = one.world, one.hits, one.world.path.states[0], []
    kept = None if one.rule == "assured" else allowed(world, one.rule, hits, k)
    for policy in policies(world, 0, start):
        happening = list(trajectories(world, policy, 0, start))
        if any(sum(world.changed(t, s, a) for t, (s, a) in enumerate(pairs)) > m for _, pairs, _ in happening):
            continue
        steps = [(t, pair) for _, pairs, _ in happening for t, pair in enumerate(pairs)]
        if kept is None:
            keeps = not any(has_run([p in hits[t] for t, p in enumerate(pairs)], k) for _, pairs, _ in happening)
        else:
            keeps = all(pair in kept[t] for t, pair in steps)
        if keeps:
            value = math.fsum(p * world.worth(pairs, last) for p, pairs, last in happening)
            holds = math.fsum(p for p, pairs, last in happening if one.holds([*(s for s, _ in pairs), last]))
            points.append((value, holds))
    return points


def followed(one, plan):
    """(value, probability) of a plan, by asking it for each action; with what it has to remember."""
    world, hits = one.world, one.hits
    remembers = isinstance(plan.cf.mdp.states[0], Tracked)

    def name(states):
        if not remembers:
            return states[-1]
        first = next((i for i, s in enumerate(states) if one.decides(s)), None)
        if first is None:
            return Tracked(states[-1], "open")
        return Tracked(states[-1], "holds" if one.holds(states[: first + 1]) else "fails")

    def go(t, states, pairs, c, run):
        if t == world.T:
            yield 1.0, pairs, states
            return
        a = plan.action(t, name(states), c, uninfluenced=run)
        assert a is not None
        pair = (states[-1], a)
        left, after = c - world.changed(t, *pair), 0 if pair in hits[t] else run + 1
        assert left >= 0
        for j, p in world.rows[t][pair].items():
            for chance, way, seen in go(t + 1, [*states, j], [*pairs, pair], left, after):
                yield p * chance, way, seen

    happening = list(go(0, [world.path.states[0]], [], plan.m, 0))
    value = math.fsum(p * world.worth(pairs, states[-1]) for p, pairs, states in happening)
    return value, math.fsum(p for p, _, states in happening if one.holds(states))


@FEWER
@given(asked(RULES, max_states=4, max_actions=2, max_steps=3, widest=2), st.booleans(), st.data())
def test_the_front_is_the_hull_of_all_policies(one, minimise, data):
    world = one.world
    assume(count_policies(world) <= 400)
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(0, world.T))
    cf = world.conditioned()
    question = cf.tether(rule=one.rule, influence=in_package(one.criterion), minimise=minimise)
    front = question.pareto(k, m, against=one.objective)
    sign = -1.0 if minimise else 1.0
    points = [(sign * value, holds) for value, holds in all_points(one, k, m)]
    scale = max(1.0, *(abs(value) for value, _ in points))
    near, tie = 1e-9 * scale, 1e-12 * scale
    values, chances = sign * front.values, front.measures
    assert front.complete
    assert values[0] == pytest.approx(max(value for value, _ in points), abs=near)
    assert chances[-1] == pytest.approx(min(chance for _, chance in points), abs=1e-9)
    assert chances[0] == pytest.approx(min(chance for value, chance in points if value >= values[0] - tie), abs=1e-6)
    assert values[-1] == pytest.approx(
        max(value for value, chance in points if chance <= chances[-1] + 1e-12), abs=1e-6 * scale
    )
    assert np.all(np.diff(values) < 0)
    assert np.all(np.diff(chances) < 0)
    for (left, low), (right, high) in pairwise(zip(values, chances, strict=True)):
        price = (left - right) / (low - high)
        assert max(value - price * chance for value, chance in points) <= left - price * low + near * (1 + price)
    for point in front.points:
        assert followed(one, point.plan) == pytest.approx((point.value, point.measure), abs=near)

    # The best within a limit is the first of these that keeps to it.
    limit = data.draw(st.sampled_from([0.0, 0.3, 1.0, *np.clip(chances + 1e-9, 0, 1).tolist()]))
    if chances[-1] > limit + 1e-12:
        with pytest.raises(tether.QueryError, match="the smallest that is possible is"):
            question.plan(k, m, subject_to=(one.objective, limit))
        return
    plan = question.plan(k, m, subject_to=(one.objective, limit))
    first = int(np.flatnonzero(chances <= limit + 1e-12)[0])
    assert sign * plan.value == pytest.approx(values[first], abs=1e-6 * scale)
    assert plan.constraint.probability <= limit + 1e-12
    # No plan of the same value has a smaller risk.
    least = min(chance for value, chance in points if value >= sign * plan.value - tie)
    assert plan.constraint.probability == pytest.approx(least, abs=1e-6)
    mixture = plan.constraint.mixture
    if mixture is not None:
        assert first > 0
        assert mixture.probability == pytest.approx(limit)
        weight = mixture.weights[0]
        assert 0 < weight < 1
        assert sign * mixture.value == pytest.approx(np.interp(limit, chances[::-1], values[::-1]), abs=1e-6 * scale)


@pytest.mark.parametrize("limit", [0.4, 0.5, 0.8, 1.0])
def test_of_plans_of_equal_value_the_one_with_the_smallest_risk_is_taken(limit):
    """To treat in any of three ways is worth the same; the ways differ in how many die."""
    risk = {"wait": 0.9, "one": 0.7, "two": 0.3, "three": 0.5}
    mdp = tether.MDP.from_table(
        ["sick"] * 8,
        [a for a in risk for _ in range(2)],
        ["dead", "well"] * 4,
        [p for x in risk.values() for p in (x, 1 - x)],
        reward=[0.0, 0.0] + [1.0] * 6,
        terminal=["dead", "well"],
    )
    cf = tether.counterfactual(mdp, tether.Path(["sick", "well"], ["wait"]), mechanism="independent")
    plan = cf.plan(k=2, m=1, subject_to=(tether.reach(["dead"]), limit))
    assert plan.value == 1.0
    assert plan.constraint.probability == pytest.approx(0.3)
    assert plan.action(0, "sick", 1) == "two"
    assert plan.constraint.mixture is None


def test_who_came_back_was_there():
    """A state that can be left: that it was met has to be remembered, and changes what is best after it."""
    weights = {("a", "go"): {"b": 1.0}, ("a", "stay"): {"a": 1.0}, ("b", "go"): {"a": 1.0}, ("b", "stay"): {"b": 1.0}}
    R = np.array([[1.0, 0.0], [0.0, 0.0]])  # only to go from a earns anything, and it leads to b
    world = World(["a", "b"], ["go", "stay"], weights, tether.Path(["a"] * 4, ["stay"] * 3), R, "sa")
    front = world.cf.pareto(k=4, m=3, against=tether.reach(["b"]))
    assert front.values.tolist() == [2.0, 0.0]
    assert front.measures.tolist() == [1.0, 0.0]
    assert isinstance(front.points[0].plan.cf.mdp.states[0], Tracked)
    plan = world.cf.plan(k=4, m=3, subject_to=(tether.reach(["b"]), 0.5))
    assert (plan.value, plan.constraint.probability) == (0.0, 0.0)
    assert plan.constraint.mixture.weights == (0.5, 0.5)
    assert plan.constraint.mixture.value == 1.0
    assert "Only a mixture of two plans would meet the limit exactly" in plan.constraint.sentences()[1]
    assert plan.explain().answer().change[0].startswith("Change nothing")
    assert "depends on what was met before" in plan.explain().sentences()[-1]
    with pytest.raises(tether.QueryError, match="remember what was met before"):
        plan.certify()


def test_a_robot_with_a_limit():
    case = tether.cases.grid_world()
    cf = tether.counterfactual(case.mdp, case.path)
    fell = tether.reach("danger")
    front = cf.pareto(k=6, m=1, against=fell)
    for point in front.points:
        assert point.plan.cf is cf  # who fell stays there: nothing has to be remembered
        assert point.plan.evaluate().outcomes()["danger"] == pytest.approx(point.measure)
    free = cf.plan(k=6, m=1, subject_to=(fell, 1.0))
    assert free.value == pytest.approx(cf.plan(k=6, m=1).value)
    assert free.constraint.mixture is None
    with pytest.raises(tether.QueryError, match=r"keeps the chance that danger is reached at or below 0.001"):
        cf.plan(k=6, m=1, subject_to=(fell, 0.001))


def test_a_tether_that_is_left_out_is_long_enough_for_the_limit():
    patient = tether.cases.sepsis()
    cf = tether.counterfactual(patient.mdp, patient.path)
    died = tether.reach("died")
    assert cf.enough_k(3) == 8
    with pytest.raises(tether.QueryError, match=r"or a longer tether \(k\) or more changes \(m\)"):
        cf.plan(k=8, m=3, subject_to=(died, 0.76))
    plan = cf.plan(m=3, subject_to=(died, 0.76))
    assert plan.constraint.probability <= 0.76
    with pytest.raises(tether.QueryError, match="the smallest that is possible is"):
        cf.plan(k=plan.k - 1, m=3, subject_to=(died, 0.76))
    assert cf.plan(m=3, subject_to=(died, 0.9)).k == 8
    with pytest.raises(tether.QueryError, match="no plan within k = 10 and m = 3"):
        cf.plan(m=3, subject_to=(died, 0.1))


def test_a_plan_that_costs_something_says_so():
    grid = tether.cases.grid_world()
    mdp = tether.MDP.from_table(
        ["up", "up", "up"], ["risk", "safe", "safe"], ["fallen", "home", "up"], [1.0, 0.5, 0.5], [5.0, 1.0, 1.0],
        terminal=["fallen", "home"],
    )  # fmt: skip
    cf = tether.counterfactual(mdp, tether.Path(["up", "fallen"], ["risk"]))
    found = cf.plan(k=2, subject_to=(tether.reach("fallen"), 0.1)).explain()
    assert "The expected return is 1 instead of 5: a loss of 4." in found.sentences()
    assert (
        found.beyond.sentences()[0]
        == "Without the limit on the chance: a longer tether (a larger k) would add nothing."
    )
    cheap = cf.plan(k=2, minimise=True, subject_to=(tether.avoid("fallen"), 0.1))
    assert cheap.explain().answer().follows[1] == "The return stays 5."
    assert not tether.counterfactual(grid.mdp, grid.path).plan(k=3).explain().beyond.without_limit


@pytest.mark.parametrize(
    ("subject_to", "message"),
    [
        ((tether.reach("goal"), 1.5), "from 0 to 1, not 1.5"),
        ((tether.reach("goal"), -0.1), "from 0 to 1"),
        ((tether.reach("goal"), True), "from 0 to 1"),
        ((tether.reach("goal"), math.nan), "from 0 to 1"),
        (("reach goal", 0.5), "a property and a limit"),
        (tether.reach("goal"), "a property and a limit"),
        ((tether.reach([0]), 0.5), "it is decided at t = 0"),
    ],
)
def test_limits_that_cannot_be(subject_to, message):
    grid = tether.cases.grid_world()
    with pytest.raises(tether.QueryError, match=message):
        tether.counterfactual(grid.mdp, grid.path).plan(6, 2, subject_to=subject_to)


def test_what_can_be_weighed():
    grid = tether.cases.grid_world()
    cf = tether.counterfactual(grid.mdp, grid.path)
    with pytest.raises(tether.QueryError, match="ends where it is decided"):
        cf.pareto(6, 2, objective=tether.avoid("danger"), against=tether.reach("goal"))
    with pytest.raises(tether.QueryError, match="against must be 'strength', 'closeness' or a property"):
        cf.pareto(6, 2, against="risk")
    # A property as the value, weighed against strength.
    front = cf.pareto(6, 1, objective=tether.avoid("danger"))
    assert front.values[0] == pytest.approx(cf.plan(6, 1, objective=tether.avoid("danger")).value)
    assert front.to_arrow().column_names == ["price", "value", "strength", "k", "m"]
    risk = cf.pareto(6, 1, against=tether.reach("danger"))
    assert risk.to_arrow().column_names == ["price", "value", "reach danger", "k", "m"]
    assert risk.plot().get_xlabel() == "probability that danger is reached"
