"""P(worse) and P(better): by enumeration of all replays on small models, between bounds on large ones; a known case."""

import math

import numpy as np
import pytest
from brute import follow, influenced
from hypothesis import assume, given
from hypothesis import strategies as st
from worlds import FEWER, RULES, criteria_for, in_package, rules_and_criteria, worlds

import tether
from tether.core.risk import chances
from tether.evaluation.plan_risk import Risk, _replays
from tether.plan.plan_record import PlanRecord


def by_enumeration(world, plan, hits):
    """(worse, better): the chances of all replays, one by one."""
    seen, sign = world.observed_return(), -1.0 if plan.minimise else 1.0
    returns = [(chance, world.worth(pairs, last)) for chance, pairs, last in follow(world, plan, hits)[0]]
    close = 1e-9 * max(1.0, abs(seen))
    worse = math.fsum(chance for chance, one in returns if sign * (one - seen) < -close)
    return worse, math.fsum(chance for chance, one in returns if sign * (one - seen) > close)


@FEWER
@given(worlds(max_steps=4), rules_and_criteria(), st.booleans(), st.data())
def test_the_chances_are_those_of_all_replays(world, asked, minimise, data):
    rule, criterion = asked
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(0, world.T))
    plan = world.cf.plan(k, m, rule=rule, influence=in_package(criterion), minimise=minimise)
    worse, better = by_enumeration(world, plan, influenced(world, criterion))
    assert plan.risk.is_exact
    assert plan.risk.worse == pytest.approx(worse, abs=1e-9)
    assert plan.risk.better == pytest.approx(better, abs=1e-9)


@FEWER
@given(worlds(max_steps=4), st.sampled_from([1, 30, 10_000]), st.sampled_from(RULES), st.data())
def test_bounds_contain_the_chances_of_all_replays(world, work, rule, data):
    """No return is kept apart (``most`` is 0), so all are rounded to a grid, from very coarse to fine."""
    criterion = data.draw(criteria_for(rule))
    plan = world.cf.plan(world.T + 1, world.T, rule=rule, influence=in_package(criterion))
    found = Risk(*(float(one[0]) for one in chances(_replays(plan), most=0, work=work)))
    worse, better = by_enumeration(world, plan, influenced(world, criterion))
    assert found.worse_low - 1e-9 <= worse <= found.worse_high + 1e-9
    assert found.better_low - 1e-9 <= better <= found.better_high + 1e-9
    assert (found.worse, found.better) == (found.worse_high, found.better_low)  # the careful side of each


@FEWER
@given(worlds(max_steps=4), st.booleans(), st.data())
def test_of_a_property_the_chances_are_its_value(world, minimise, data):
    others = [s for s in world.states if s != world.path.states[0]]
    assume(others and world.path.last_recorded)
    goal = data.draw(st.lists(st.sampled_from(others), min_size=1, unique=True))
    plan = world.cf.plan(world.T + 1, 2, objective=tether.reach(goal), minimise=minimise)
    moved = plan.risk.better - plan.risk.worse
    assert (-moved if minimise else moved) == pytest.approx(plan.value - plan.observed_value, abs=1e-9)


# --- Large: more returns than are kept apart --------------------------------------------------------


def returns_of(plan: PlanRecord) -> dict[float, float]:
    """The distribution of the return, node by node in dictionaries."""
    cf, mdp = plan.cf, plan.cf.mdp
    now = {(cf.path.states[0], plan.m): {0.0: 1.0}}
    for t in range(cf.T):
        after: dict[tuple[object, int], dict[float, float]] = {}
        for (s, c), returns in now.items():
            a, done = plan.action(t, s, c), cf.path.actions[t]
            left, reward = c - (a != done and done in mdp.actions_in(s)), mdp.reward(s, a)
            for j, p in zip(*cf.row(t, s, a), strict=True):
                there = after.setdefault((j, left), {})
                for earned, mass in returns.items():
                    there[earned + reward] = there.get(earned + reward, 0.0) + mass * p
        now = after
    found: dict[float, float] = {}
    for returns in now.values():
        for earned, mass in returns.items():
            found[earned] = found.get(earned, 0.0) + mass
    return found


@pytest.fixture(scope="module")
def treated():
    """A sepsis patient who was treated well half of the time."""
    mdp = tether.cases.sepsis().mdp
    return tether.counterfactual(mdp, mdp.simulate("optimal", 10, start=mdp.states[777], rng=2, noise=0.5))


def test_a_gain_under_every_causal_model_and_yet_worse_in_one_replay_of_twelve(treated):
    """METHOD: "holds under every causal model", and worse than what happened in 8.6 % of replays; exactly, 8.53 %."""
    plan = treated.plan(m=2)
    assert plan.certify().verdict == "holds"
    found = returns_of(plan)
    worse = math.fsum(p for one, p in found.items() if one < plan.observed_value)
    assert plan.risk.is_exact
    assert plan.risk.worse == pytest.approx(worse, abs=1e-12)
    assert plan.risk.worse == pytest.approx(0.0853, abs=5e-5)
    said = plan.explain().sentences(str)
    assert "Of 100 replays, 9 end worse than what happened, and 91 better." in said
    assert any("expected" in one and "under every causal model" in one for one in said)


@pytest.fixture(scope="module")
def large(treated):
    """A plan of many replays, and the distribution of its return."""
    plan = treated.plan(11, 4)
    return plan, returns_of(plan)


@pytest.mark.parametrize(("most", "work", "apart"), [(2_000_000, 1, 0.0), (100, 3e8, 1e-3), (100, 1e6, 0.99)])
def test_bounds_on_a_large_episode(large, most, work, apart):
    """Exact where there is room for every return; else bounds that contain the exact chance, near with much work."""
    plan, found = large
    for level in (plan.observed_value, plan.value, 1000.0):
        replays = _replays(plan)._replace(observed=np.array([level]))
        got = Risk(*(float(one[0]) for one in chances(replays, most=most, work=work)))
        worse = math.fsum(p for one, p in found.items() if one < level - 1e-6)
        better = math.fsum(p for one, p in found.items() if one > level + 1e-6)
        assert got.worse_low - 1e-9 <= worse <= got.worse_high + 1e-9
        assert got.better_low - 1e-9 <= better <= got.better_high + 1e-9
        assert got.worse_high - got.worse_low <= apart
        assert got.better_high - got.better_low <= apart
