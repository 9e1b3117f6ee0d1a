"""Copies of a model side by side: each is the model, and nothing leads from one to another."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from worlds import FEWER, tiny_worlds

import tether
from tether.model.side_by_side import copied_model, shifted, shifted_starts


@given(tiny_worlds(), st.integers(1, 4), st.randoms())
@FEWER
def test_each_copy_is_the_model(world, n, random):
    """Row by row, by name: the copies have the model's actions and rewards, and their own probabilities."""
    mdp = world.cf.mdp
    mdp = mdp.with_objective(discount=0.5, final_reward=[float(s) for s in range(mdp.n_states)])
    S = mdp.n_states
    probability = np.array([[random.random() for _ in range(mdp.n_transitions)] for _ in range(n)])
    copies = copied_model(mdp, probability)
    assert (copies.n_states, copies.n_pairs, copies.n_transitions) == (n * S, n * mdp.n_pairs, n * mdp.n_transitions)
    assert (copies.actions, copies.discount, copies.horizon) == (mdp.actions, 0.5, mdp.horizon)
    assert not copies.form.probability.flags.writeable
    for i in range(n):
        for s, name in enumerate(mdp.states):
            here = copies.states[i * S + s]
            assert copies.actions_in(here) == mdp.actions_in(name)
            assert copies.final_reward[i * S + s] == mdp.final_reward[s]
            for action in mdp.actions_in(name):
                entries = mdp.entries(mdp.pair_index(name, action))
                after, chance = copies.row(here, action)
                wanted, _ = mdp.row(name, action)
                assert after == tuple(copies.states[i * S + mdp.state_index(j)] for j in wanted)
                np.testing.assert_array_equal(chance, probability[i, entries])
                for j, there in zip(wanted, after, strict=True):
                    assert copies.reward(here, action, there) == mdp.reward(name, action, j)


def test_indices_keep_their_type():
    start = np.array([0, 2, 3], np.int32)
    assert shifted(start, 2, 10).tolist() == [0, 2, 3, 10, 12, 13]
    assert shifted_starts(start, 2).tolist() == [0, 2, 3, 5, 6]
    assert shifted(start, 2, 10).dtype == shifted_starts(start, 2).dtype == np.int32


def test_rewards_that_depend_on_time():
    mdp = tether.MDP.from_arrays([[[0.5, 0.5]], [[0.0, 1.0]]], np.arange(8.0).reshape(2, 2, 1, 2), reward_axes="tsas")
    copies = copied_model(mdp, np.tile(mdp.form.probability, (3, 1)))
    for i in range(3):
        for t in range(2):
            assert copies.reward(2 * i, 0, 2 * i + 1, t) == mdp.reward(0, 0, 1, t)
