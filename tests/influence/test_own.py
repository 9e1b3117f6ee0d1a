"""Tests of influence and rules of one's own, against the definitions by brute force; in audits, and wrong ones."""

import math
from functools import partial

import numpy as np
import pandas
import pytest
from brute import best_of_all, distance, influenced
from hypothesis import assume, given
from hypothesis import strategies as st
from worlds import FEWER, SUPPORT, worlds

import tether
from tether.explanation.terms import limits_in_words


def hits_by(world, holds):
    """Influenced pairs: those that share an outcome with the observed one and pass the test; and the observed one."""
    return [
        {pair for pair in hits if holds(t, pair) or pair == world.observed[t]}
        for t, hits in enumerate(influenced(world, SUPPORT))
    ]


def near(limit, p, observed, q):  # total variation, computed by the test itself
    return bool(0.5 * np.abs(p - q).sum() <= limit)


@st.composite
def tables(draw, world):
    timed, seed = draw(st.booleans()), draw(st.integers(0, 999))
    shape = (len(world.states), len(world.actions))
    return np.random.default_rng(seed).random((world.T, *shape) if timed else shape)


def at(world, table, t, pair):
    s, a = world.states.index(pair[0]), world.actions.index(pair[1])
    return table[t, s, a] if table.ndim == 3 else table[s, a]


@FEWER
@given(
    st.data(), worlds(max_states=3, max_actions=2, max_steps=2, widest=2), st.sampled_from(["definition", "assured"])
)
def test_a_test_of_ones_own_by_trying_every_policy(data, world, rule):
    table = data.draw(tables(world)) < 0.4
    hits = hits_by(world, lambda t, pair: at(world, table, t, pair))
    found = world.cf.sweep(rule=rule, influence=tether.InfluenceTest(table)).values
    assert found == pytest.approx(best_of_all(world, rule, hits), rel=1e-9, abs=1e-9)


@given(worlds(), st.sampled_from(["definition", "assured"]), st.sampled_from([0.2113, 0.7109]))
def test_a_function_that_is_total_variation(world, rule, limit):
    assume(world.path.last_recorded)  # a function is not asked about a step without an outcome
    mine, built_in = tether.InfluenceTest(partial(near, limit), "near"), tether.tv(limit)
    one, other = (world.cf.tether(rule=rule, influence=test) for test in (mine, built_in))
    assert one.to_arrow().equals(other.to_arrow())
    p = [world.nominal[pair] for pair in world.observed]
    hits = hits_by(world, lambda t, pair: distance(p[t], world.nominal[pair]) <= limit)
    assert hits == influenced(world, ("tv", limit))


def allowed_by(world, own, k):
    """The definition of a rule of one's own, without the engine."""
    kept = [None] * world.T + [None]
    for t in range(world.T - 1, -1, -1):
        kept[t] = {
            pair for pair in world.weights
            if (t + k > world.T or own(t, pair) <= k or pair == world.observed[t])
            and all(t + 1 == world.T or any((j, a) in kept[t + 1] for a in world.available(j))
                    for j in world.rows[t][pair])
        }  # fmt: skip
    return kept[:-1]


@given(st.data(), worlds())
def test_a_rule_of_ones_own_by_its_definition(data, world):
    table = (1 + 5 * data.draw(tables(world))).astype(int)
    by_table, by_name = (tether.TetherRule(one) for one in (table, lambda t, s, a: at(world, table, t, (s, a))))
    rows = world.cf.tether(rule=by_table).to_arrow()
    assert rows.equals(world.cf.tether(rule=by_name).to_arrow())
    for k in range(1, world.T + 2):
        kept = allowed_by(world, lambda t, pair: at(world, table, t, pair), k)
        for row in rows.to_pylist():
            is_kept = (row["state"], row["action"]) in kept[row["t"]]
            assert is_kept == (row["kappa"] is not None and row["kappa"] <= k)
    why = world.cf.why(0, k=1, rule=by_table)
    assert [one.allowed for one in why] == [
        (one.state, one.action) in allowed_by(world, lambda t, pair: at(world, table, t, pair), 1)[0] for one in why
    ]
    assert "own table" in str(world.cf.plan(1, 1, rule=by_table))


def test_the_definition_given_as_a_rule(grid):
    """Thresholds that are read from one rule make another rule with the same answers."""
    own = np.full((11, 16, 4), 99)
    for row in grid.tether().to_arrow().to_pylist():
        own[row["t"], row["state"], grid.mdp.actions.index(row["action"])] = row["kappa"]
    one, other = grid.sweep(rule=tether.TetherRule(own)), grid.sweep()
    assert np.array_equal(one.values, other.values)
    assert np.array_equal(one.sizes, other.sizes)


def test_they_are_taken_by_every_call(grid):
    test, rule = (
        tether.InfluenceTest(partial(near, 0.5), "near"),
        tether.TetherRule(lambda t, s, a: 1 + s % 3, "thirds"),
    )
    for how in ({"influence": test}, {"rule": rule}, {"rule": rule, "influence": test}):
        plan = grid.plan(k=3, m=2, **how)
        assert plan.value >= plan.observed_value
        assert all(name in repr(plan) for name in map(str, how.values()))
        assert str(next(iter(how.values()))) in limits_in_words(plan)
        assert grid.plan(k=3, m=2, objective=tether.reach("goal"), **how).value >= 0
        assert len(grid.pareto(k=3, m=2, against=tether.reach("danger"), **how).points)
        assert len(grid.pareto(k=3, m=2, against=tether.reach([4]), **how).points)  # a state that can be left
        assert grid.classify(t=3, k=3, **how)
        assert grid.to_mdp(k=3, **how).n_states
        assert plan.certify().nothing.gain <= plan.gain + 1e-9
        assert plan.without_model().settings["rule"] == str(how.get("rule", "definition"))
        assert grid.plan(k=3, m=2, **how).cf is grid
    assert grid.evaluate("random", influence=test).tailoring.expected_influenced_steps <= 11


def test_uncertainty_of_a_learned_model():
    log = [tether.cases.toy().mdp.simulate("random", 3, rng=seed) for seed in range(60)]
    mdp = tether.learn(log, prior=1).with_objective(final_reward=lambda s: float(str(s) == "s6"))
    cf = tether.counterfactual(mdp, log[0])
    rule = tether.TetherRule(lambda t, s, a: 1 + (str(a) == "a1"), "no a1")
    plan = cf.plan(k=2, m=2, rule=rule, influence=tether.InfluenceTest(lambda p, observed, q: True, "all"))
    assert plan.uncertainty(draws=5).values.size == 5
    assert cf.sweep(rule=rule).values.shape == (4, 4)


# --- Audits ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
def test_in_an_audit(workers, tmp_path):
    mdp = tether.cases.grid_world().mdp
    log = [mdp.simulate("random", 4 + seed % 3, start=seed % 4, rng=seed) for seed in range(12)]
    how = {
        "rule": tether.TetherRule(1 + np.arange(64).reshape(16, 4) % 4, "fourths"),
        "influence": tether.InfluenceTest(partial(near, 0.5), "near"),
    }
    audit = tether.audit(mdp, log, k=2, m=2, horizon=6, certify=False, workers=workers, out=tmp_path, **how)
    gains = [tether.counterfactual(mdp, path, horizon=6).plan(2, 2, **how).gain for path in log]
    assert audit.table.column("gain").to_pylist() == pytest.approx(gains)
    other = {**how, "influence": tether.InfluenceTest(partial(near, 0.4), "near")}  # the same name, another test
    with pytest.raises(tether.FileError, match="another question was asked"):
        tether.audit(mdp, log, k=2, m=2, horizon=6, certify=False, workers=1, out=tmp_path, **other)


# --- Wrong ones --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"influence": np.ones((3, 4), bool)}, r"has the shape \(3, 4\); its shape is .* \(16, 4\)"),
        ({"influence": np.ones((16, 4))}, "table of truth values"),
        ({"influence": lambda p, observed, q: 1}, "returns True or False, not 1"),
        ({"influence": np.ones((2, 16, 4), bool)}, "has only 2 steps"),
        ({"influence": 3}, "a test of your own is"),
        ({"rule": np.zeros((16, 4), int)}, "whole numbers from 1"),
        ({"rule": np.full((16, 4), 1.5)}, "whole numbers from 1, or infinite; this one has 1.5"),
        ({"rule": np.full((16, 4), np.nan)}, "this one has nan"),
        ({"rule": [[1, 2], [3]]}, "lists of this one have different lengths"),
        ({"rule": pandas.DataFrame(np.ones((16, 4), int))}, "not a DataFrame; a rule of your own is"),
        ({"rule": np.ones((4, 16), int)}, "shape"),
        ({"rule": lambda t, state, action: 0.5}, "a whole number from 1, the smallest k, or infinity, not 0.5"),
        ({"rule": lambda t, state, action: True}, "not True"),
        ({"rule": 3}, "a rule of your own is"),
    ],
)
def test_what_is_no_test_and_no_rule(grid, how, said):
    """As it is, or in its class."""
    kinds = {"influence": tether.InfluenceTest, "rule": tether.TetherRule}
    with pytest.raises(tether.QueryError, match=said):
        grid.plan(k=2, m=1, **{name: kinds[name](one) if callable(one) or isinstance(one, np.ndarray) else one
                               for name, one in how.items()})  # fmt: skip
    with pytest.raises(tether.QueryError, match=said):
        grid.plan(k=2, m=1, **how)


def test_infinity_is_a_threshold_that_no_k_reaches(grid):
    by_function = grid.sweep(rule=lambda t, state, action: math.inf if state % 2 else 2).values
    table = np.where(np.arange(16) % 2, np.inf, 2)[:, None].repeat(4, axis=1)
    large = grid.sweep(rule=np.where(np.isinf(table), grid.T + 1, 2).astype(int))
    assert np.array_equal(grid.sweep(rule=table).values, by_function)
    assert np.array_equal(large.values[: grid.T], by_function[: grid.T])


@pytest.mark.parametrize("lacking", [tether.tv, tether.effective])
def test_a_test_without_its_eps(grid, lacking):
    with pytest.raises(tether.QueryError, match=f"tether.{lacking.__name__} lacks its eps"):
        grid.plan(k=2, m=1, influence=lacking)


def test_a_function_or_a_table_needs_no_class(grid):
    """It is the same question, also in an audit, and keeps its name."""
    test, rule = partial(near, 0.5), lambda t, state, action: 1 + state % 3
    assert isinstance(test, tether.Influence)
    assert isinstance(rule, tether.Rule)
    table = 1 + np.arange(64).reshape(16, 4) % 4
    for name, one, kind in (
        ("influence", test, tether.InfluenceTest),
        ("influence", table > 2, tether.InfluenceTest),
        ("influence", (table > 2).tolist(), tether.InfluenceTest),
        ("rule", rule, tether.TetherRule),
        ("rule", table, tether.TetherRule),
        ("rule", table.tolist(), tether.TetherRule),
        ("rule", table.astype(float), tether.TetherRule),
    ):
        by_class, plain = (grid.plan(k=2, m=2, **{name: this}) for this in (kind(one), one))
        assert (plain.value, str(getattr(plain, name))) == (by_class.value, str(getattr(by_class, name)))
        audits = [tether.audit(grid.mdp, [grid.path], k=2, certify=False, **{name: this}) for this in (kind(one), one)]
        assert audits[0].table == audits[1].table
