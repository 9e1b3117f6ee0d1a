"""Models drawn from what a log leaves possible: they have the Dirichlet's moments and the model's structure."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from learned import clinic
from logs import logs
from scipy import stats
from worlds import FEWER

import tether
from tether.learning.learn import learn
from tether.learning.posterior import posterior
from tether.observation.episodes import Episodes


def shares(mdp, draws, state, action, rng=0):
    return np.array([model.row(state, action)[1] for model in posterior(mdp, draws, rng=rng).models()])


@pytest.mark.parametrize("prior", [0.0, 0.01, 0.5, 1.0, 30.0])
def test_rows_have_the_mean_and_spread_of_a_dirichlet(prior):
    paths = [tether.Path(["s", j], ["x"]) for j in "aaaabbc"]
    mdp = learn(paths, prior, **({"support": "all"} if prior else {}))  # "s" itself was never seen to follow
    drawn = shares(mdp, 4000, "s", "x")
    counts = np.array([n for n in (0, 4, 2, 1) if n or prior]) + prior
    mean = counts / counts.sum()
    variance = mean * (1 - mean) / (counts.sum() + 1)
    np.testing.assert_allclose(drawn.sum(axis=1), 1.0, rtol=1e-12)
    assert np.all(np.abs(drawn.mean(axis=0) - mean) < 5 * np.sqrt(variance / 4000))
    assert np.all(np.abs(drawn.var(axis=0) - variance) < 0.15 * variance + 1e-5)


@pytest.mark.parametrize(("a", "b", "prior"), [(1, 1, 0.0), (5, 2, 0.5), (1, 1, 20.0), (40, 1, 1.0)])
def test_a_row_of_two_outcomes_is_a_beta(a, b, prior):
    mdp = learn([tether.Path(["s", j], ["x"]) for j in "t" * a + "u" * b], prior)
    drawn = shares(mdp, 1000, "s", "x", rng=3)[:, 0]
    assert stats.kstest(drawn, stats.beta(a + prior, b + prior).cdf).pvalue > 1e-3


def test_rows_are_independent():
    drawn = np.hstack([shares(clinic(), 2000, "sick", action)[:, :1] for action in ("treat", "wait")])
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 5 / np.sqrt(2000)


def test_tiny_concentrations_leave_every_outcome_possible():
    """Of a prior of 1e-12 nearly all draws give all to one outcome; the others keep a number above 0."""
    paths = [tether.Path(["s", j], ["x"]) for j in "ab"]
    mdp = learn(paths, 1e-12, support=lambda _s, _a: ["a", "b", "s"])
    drawn = shares(mdp, 200, "s", "x")
    assert np.all(drawn > 0)
    assert np.all(drawn[:, 0] <= 1e-300)  # never seen: U^(1e12), far below what a float can hold
    np.testing.assert_allclose(drawn.sum(axis=1), 1.0, rtol=1e-12)


@given(logs(), st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 5))
@FEWER
def test_draws_share_all_but_probabilities(log, prior, i):
    mdp = learn(Episodes.from_columns(**log.columns()), prior, empty_rewards="mean").with_objective(discount=0.5)
    draws = posterior(mdp, 6, rng=1)
    model = draws.draw(i)
    lengths = np.diff(mdp.form.row_start)
    assert model.form.next_state is mdp.form.next_state
    assert model.form.row_start is mdp.form.row_start
    assert model.rewards is mdp.rewards
    assert (model.states, model.actions, model.discount) == (mdp.states, mdp.actions, 0.5)
    assert model.counts is None
    assert not model.form.probability.flags.writeable
    assert np.all(model.form.probability > 0)
    np.testing.assert_allclose(np.add.reduceat(model.form.probability, mdp.form.row_start[:-1]), 1.0, rtol=1e-12)
    assert np.all(model.form.probability[np.repeat(lengths == 1, lengths)] == 1.0)  # nothing to be unsure of
    assert draws.start.size == np.count_nonzero(lengths > 1)


def test_the_same_seed_gives_the_same_models_in_any_order():
    mdp = clinic()
    first = [model.form.probability for model in posterior(mdp, 4, rng=7).models()]
    again = posterior(mdp, 4, rng=np.random.default_rng(7))
    for i in (3, 1, 0, 2):
        np.testing.assert_array_equal(again.draw(i).form.probability, first[i])
    np.testing.assert_array_equal(posterior(mdp, 1, rng=7).draw(0).form.probability, first[0])
    assert len({array.tobytes() for array in first}) == 4
    other = posterior(mdp, 4, rng=8).draw(0).form.probability
    assert not np.array_equal(other, first[0])


def test_a_model_without_uncertainty():
    mdp = learn([tether.Path(["a", "b"], ["x"])], prior=1)
    draws = posterior(mdp, 2, rng=0)
    assert repr(draws) == "<Posterior: 2 draws of a model learned from 1 episode; 0 of 2 rows are uncertain>"
    np.testing.assert_array_equal(draws.draw(1).form.probability, mdp.form.probability)
