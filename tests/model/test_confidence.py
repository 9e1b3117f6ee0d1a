"""Simultaneous intervals of a learned model's probabilities: against SciPy, their joint coverage, what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

import tether
from tether.model.confidence import clopper_pearson, row_intervals


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 5000)), min_size=1, max_size=20), st.floats(1e-9, 0.9))
def test_against_scipy(counts, alpha):
    seen, others = np.array(counts).T
    trials = seen + others
    low, high = clopper_pearson(seen, trials, alpha)
    for x, n, one, other in zip(seen.tolist(), trials.tolist(), low, high, strict=True):
        assert one == pytest.approx(0.0 if x == 0 else beta.ppf(alpha / 2, x, n - x + 1), rel=1e-8, abs=1e-12)
        assert other == pytest.approx(1.0 if x == n else beta.isf(alpha / 2, x + 1, n - x), rel=1e-8, abs=1e-12)


def test_all_intervals_hold_at_once_as_often_as_they_say():
    rng, rows, runs = np.random.default_rng(4), np.array([[0.5, 0.3, 0.2], [0.7, 0.2, 0.1], [0.1, 0.1, 0.8]]), 2000
    seen = np.stack([rng.multinomial(40, row, size=runs) for row in rows], axis=1)
    low, high = clopper_pearson(seen.ravel(), np.full(seen.size, 40), 0.1 / 9)
    all_hold = ((low.reshape(seen.shape) <= rows) & (rows <= high.reshape(seen.shape))).all(axis=(1, 2))
    assert all_hold.mean() >= 0.9


def test_what_is_counted():
    seen = {("a", "x"): 3, ("a", "y"): 5, ("b", "x"): 4, ("c", "x"): 1, ("c", "y"): 1, ("c", "z"): 7}
    paths = [tether.Path(["s", after], [did]) for (did, after), times in seen.items() for _ in range(times)]
    found = row_intervals(tether.learn(paths, prior=0), 0.95)
    assert found.count == 1 + 0 + 3  # two outcomes are one interval, a single outcome has none
    assert found.level == pytest.approx(1 - 0.05 / 4)
    mdp = tether.learn(paths, prior=0)
    certain = mdp.entries(mdp.pair_index("s", "b"))
    assert (found.lower[certain].tolist(), found.upper[certain].tolist()) == ([1.0], [1.0])


def test_the_models_own_probabilities_are_within_also_where_a_prior_moved_them():
    mdp = tether.learn([tether.Path(["s", "x"], ["a"])] * 50, prior=100, support=lambda s, a: ["x", "y"], states="sxy")
    found = row_intervals(mdp, 0.9)
    assert found.upper[mdp.entries(mdp.pair_index("s", "a"))].tolist() == [1.0, 0.4]  # by the counts alone about 0.06


def test_what_is_refused():
    case = tether.cases.epidemic()
    with pytest.raises(tether.QueryError, match="was not learned from episodes"):
        row_intervals(case.mdp, 0.95)
    mdp = tether.learn([tether.Path(["s", "x"], ["a"])])
    for wrong in (0, 1, 1.5, True, "high"):
        with pytest.raises(tether.QueryError, match="confidence must be a number above 0 and below 1"):
            row_intervals(mdp, wrong)
