"""What could be known, how much is about each episode, and single replays: the columns of an audit by single calls."""

import pytest

import tether


def log(policy, episodes, steps=6):
    mdp = tether.cases.sepsis().mdp
    return mdp, {i: mdp.simulate(policy, steps, start=mdp.states[777], rng=i) for i in range(episodes)}


@pytest.mark.compiled
def test_the_best_policy_makes_no_mistake_in_any_of_a_thousand_episodes():
    """And yet hindsight gains something in many of them: the audit says so, and accuses nobody."""
    mdp = tether.cases.sepsis().mdp
    audit = tether.audit(mdp, mdp.simulate("optimal", 6, start=mdp.states[777], rng=1, n=1000), k=4, certify=False)
    assert set(audit.table.column("mistakes").to_pylist()) == {0.0} == set(audit.table.column("claimed").to_pylist())
    assert audit.table.column("largest_mistake").null_count == 1000
    assert audit.top().num_rows == 0
    assert audit.summary.hindsight_only == audit.summary.gained.size > 50
    foreseeable = audit.table.column("foreseeable").to_numpy()
    assert abs(foreseeable.mean()) <= 1e-9 * 1000  # the best policy is what was done
    said = audit.sentences()
    assert "In all of them every decision was the model's best at the time." in said
    assert "All of this is hindsight only: nobody could know it at the time." in said
    assert set(audit.decisions.column("mistakes").to_pylist()) == {0}


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
