"""What a sweep measures of each plan, and the tether that is chosen by it (METHOD: about this episode)."""

import math

import numpy as np
import pytest
from brute import distance, follow, influenced
from hypothesis import given
from hypothesis import strategies as st
from planned import close
from worlds import FEWER, in_package, rules_and_criteria, worlds

import tether


def about_by_episodes(world, plan, hits):
    """The mean strength of the steps from the first change on, over every episode that can happen."""
    moved = taken = 0.0
    for chance, pairs, _ in follow(world, plan, hits)[0]:
        changed = [world.changed(t, s, a) for t, (s, a) in enumerate(pairs)]
        first = next((t for t, one in enumerate(changed) if one), world.T)
        for t in range(first, world.T):
            moved += chance * distance(world.rows[t][pairs[t]], world.nominal[pairs[t]])
            taken += chance
    return moved / taken if taken > 0 else 1.0


def std_by_episodes(world, plan, hits):
    happening = follow(world, plan, hits)[0]
    mean = math.fsum(chance * world.worth(pairs, last) for chance, pairs, last in happening)
    return math.sqrt(math.fsum(c * (world.worth(pairs, last) - mean) ** 2 for c, pairs, last in happening))


@FEWER
@given(worlds(max_steps=4), rules_and_criteria(), st.data())
def test_every_plan_of_a_sweep_is_measured(world, asked, data):
    rule, criterion = asked
    ask = {"rule": rule, "influence": in_package(criterion)}
    table = world.cf.sweep(measures=["about_episode", "std"], **ask)
    close(table.values, world.conditioned().sweep(**ask).values)
    for k in range(1, world.T + 2):
        m = data.draw(st.integers(0, world.T))
        plan, hits = world.cf.plan(k, m, **ask), influenced(world, criterion)
        close(table.about_episode[k - 1, m], plan.about_episode)
        close(plan.about_episode, about_by_episodes(world, plan, hits))
        spread = std_by_episodes(world, plan, hits)
        assert table.std[k - 1, m] == pytest.approx(spread, abs=1e-6 * max(1.0, abs(plan.value)))


@FEWER
@given(worlds(max_steps=4), st.integers(1, 3))
def test_the_tether_that_is_left_out(world, m):
    """The largest gain of the tethers whose plan has at least 10 %; else the shortest that is enough, or 1."""
    m = min(m, world.T)
    plans = {k: world.cf.plan(k, m) for k in range(1, world.T + 1)}
    rounding = world.cf.sweep().rounding
    about = {k: one.gain for k, one in plans.items() if one.gain > rounding and one.about_episode >= 0.1}
    chosen = world.cf.plan(m=m).k
    if about:
        assert plans[chosen].gain >= max(about.values()) - rounding
        assert plans[chosen].about_episode >= 0.1
        assert chosen == min(k for k, gain in about.items() if gain >= max(about.values()) - rounding)
    else:
        assert chosen == (world.cf.enough_k(m) or 1)
    assert world.cf.choose_k(m, about_at_least=0.1) == (chosen if about else None)


def test_a_part_of_a_measured_table(epidemic):
    table = epidemic.sweep(measures=["std", "about_episode"])
    part = epidemic.sweep(ks=[6, 7], ms=[1, 4], measures=["about_episode"])
    np.testing.assert_array_equal(part.about_episode, table.about_episode[5:7][:, [1, 4]])
    assert epidemic.sweep(ks=[6]).about_episode is not None  # a part of what is known
    assert table.to_arrow().column_names == ["k", "m", "value", "gain", "size", "about_episode", "std"]
    assert table.std[6, 4] == pytest.approx(epidemic.plan(7, 4).evaluate().std, abs=1e-12)


def test_measures_of_a_property_and_the_smallest(epidemic):
    for asked in ({"objective": tether.reach("over")}, {"minimise": True}):
        table = epidemic.sweep(measures=["about_episode", "std"], **asked)
        for k, m in ((6, 1), (7, 3), (8, 2)):
            plan = epidemic.plan(k, m, **asked)
            assert table.about_episode[k - 1, m] == pytest.approx(plan.about_episode, abs=1e-12)
            assert table.std[k - 1, m] == pytest.approx(plan.evaluate().std, abs=1e-9)


def test_unknown_measures(epidemic):
    with pytest.raises(tether.errors.QueryError, match="about_episode and std, not 'risk'"):
        epidemic.sweep(measures=["risk"])
    with pytest.raises(tether.errors.QueryError, match="was not asked for"):
        tether.plan.limits.about_k(epidemic.tether(rule="published").sweep(), 1)
