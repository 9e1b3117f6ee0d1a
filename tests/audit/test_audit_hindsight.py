"""What could be known, how much is about each episode, and single replays: the columns of an audit by single calls."""

import pytest

import tether


def log(policy, episodes, steps=6):
    mdp = tether.cases.sepsis().mdp
    return mdp, {i: mdp.simulate(policy, steps, start=mdp.states[777], rng=i) for i in range(episodes)}


def test_the_best_policy_makes_no_mistake():
    mdp, paths = log("optimal", 20, 10)
    table = tether.audit(mdp, paths, certify=False).table
    assert table.column("mistakes").to_pylist() == [0.0] * 20
    assert table.column("foreseeable").to_pylist() == [0.0] * 20
    assert table.column("largest_mistake").null_count == 20


@pytest.mark.parametrize("asked", [{}, {"never": [0], "cost": 20.0}])
def test_columns_by_single_calls(asked):
    mdp, paths = log("random", 5)
    rows = tether.audit(mdp, paths, m=2, certify=False, **asked).table.to_pylist()
    for path, row in zip(paths.values(), rows, strict=True):
        cf = tether.counterfactual(mdp, path)
        plan = cf.plan(m=2, **asked)
        assert (row["k"], row["value"]) == (plan.k, pytest.approx(plan.value, abs=1e-9))
        assert row["about_episode"] == pytest.approx(plan.about_episode, abs=1e-12)
        assert plan.risk.worse_low - 1e-9 <= row["p_worse"] <= 1.0
        assert row["foreseeable"] == pytest.approx(cf.review(horizon=6).foreseeable, abs=1e-9)
