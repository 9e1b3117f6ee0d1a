"""Models as arrays and tables: round trips through `from_arrays` and `from_table`."""

import numpy as np
import pytest
from hypothesis import given
from worlds import worlds

import tether
from tether.errors import ModelError, QueryError


def same(one, other):
    for name in ("pair_start", "pair_action", "row_start", "next_state"):
        np.testing.assert_array_equal(getattr(one.form, name), getattr(other.form, name))
    np.testing.assert_allclose(one.form.probability, other.form.probability, rtol=1e-15)
    np.testing.assert_allclose(one.to_arrays().R, other.to_arrays().R, rtol=1e-15)


@given(worlds())
def test_dense_and_sparse_arrays_come_back(world):
    mdp = world.cf.mdp
    P, R = mdp.to_arrays()
    axes = "t" * (mdp.rewards.horizon is not None) + ("sas" if mdp.rewards.by_entry else "sa")
    names = {"states": mdp.states, "actions": mdp.actions}
    same(tether.MDP.from_arrays(P, R, reward_axes=axes, **names), mdp)
    if axes == "tsas":
        with pytest.raises(QueryError, match="no sparse form"):
            mdp.to_arrays(sparse=True)
        return
    P, R = mdp.to_arrays(sparse=True)
    same(tether.MDP.from_arrays(P, R, reward_axes=None if axes == "sas" else axes, **names), mdp)


@given(worlds())
def test_the_table_comes_back(world):
    mdp = world.cf.mdp
    if mdp.rewards.horizon is not None:
        lengths = {len(one) for one in mdp.to_arrow()["reward"].to_pylist()}
        assert lengths == {mdp.rewards.horizon}
        return
    table = mdp.to_pandas() if not isinstance(mdp.states[0], tuple) else None
    if table is None:
        return
    columns = (table[name] for name in ("state", "action", "next_state", "probability", "reward"))
    same(tether.MDP.from_table(*columns, states=mdp.states, actions=mdp.actions), mdp)


@given(worlds())
def test_rewards_can_be_replaced(world):
    mdp = world.cf.mdp
    zero = mdp.with_rewards(np.zeros((mdp.n_states, mdp.n_actions)))
    assert not zero.rewards.values.any()
    assert zero.horizon == mdp.horizon or mdp.rewards.horizon is not None
    by_function = mdp.with_rewards(lambda s, a, after: float(mdp.states.index(after)))
    P, R = by_function.to_arrays()
    expected = np.where(P > 0, np.arange(mdp.n_states), 0.0)
    if R.ndim == 2:  # the same for every outcome of each row
        R = np.where(P > 0, R[:, :, None], 0.0)
    np.testing.assert_array_equal(R, expected)


def test_what_is_refused(monkeypatch):
    grid = tether.cases.grid_world().mdp
    with pytest.raises(ModelError, match="R has shape"):
        grid.with_rewards(np.zeros((3, 3)))
    with pytest.raises(ModelError, match="reward"):
        grid.with_rewards(lambda s, a: float("nan"))
    with pytest.raises(ModelError, match="the reward of 0, 'up' is not a number"):
        grid.with_rewards(lambda s, a: "much")
    with pytest.raises(tether.ModelError, match="rewards cannot be a mapping; give an array, or a function: lambda"):
        grid.with_rewards({15: 1.0})
    monkeypatch.setattr("tether.model.as_arrays.LARGEST_DENSE", 100)
    with pytest.raises(QueryError, match="sparse=True"):
        grid.to_arrays()


def test_a_learned_model_with_other_rewards_is_pooled_again():
    log = tether.cases.grid_world().mdp.simulate("random", 12, rng=0)
    mdp = tether.learn(tether.Episodes.from_paths([log] * 20))
    changed = mdp.with_rewards(lambda s, a: 1.0)
    assert changed.learned is not None
    assert changed.counts.pooling.reward_sd == 0.0
