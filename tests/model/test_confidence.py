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
    mdp = tether.learn(paths, prior=0)
    found = row_intervals(mdp, 0.95)
    assert found.count == 3 + 1 + 4  # each outcome and elsewhere; a single outcome is the complement of elsewhere
    assert found.level == pytest.approx(1 - 0.05 / 8)
    pairs = [mdp.pair_index("s", action) for action in "abc"]
    np.testing.assert_allclose(found.elsewhere[pairs], [1 - (0.05 / 8) ** (1 / n) for n in (8, 4, 9)], rtol=1e-12)
    once = mdp.entries(pairs[1])
    assert found.lower[once].tolist() == pytest.approx([(0.05 / 8) ** 0.25])  # four times of four: nothing is certain
    assert found.upper[once].tolist() == [1.0]
    ended = mdp.pair_index("x", "a")
    assert found.elsewhere[ended] == 0.0
    assert found.lower[mdp.entries(ended)].tolist() == [1.0]


def test_a_pair_never_seen_with_its_outcome_may_lead_anywhere():
    paths = [tether.Path(["s", after], ["a"]) for after in "xxy"] + [tether.Path(["s"], ["b"])]
    mdp = tether.learn(paths)
    found, pair = row_intervals(mdp, 0.95), mdp.pair_index("s", "b")
    assert found.elsewhere[pair] == 1.0
    assert (found.lower[mdp.entries(pair)].tolist(), found.upper[mdp.entries(pair)].tolist()) == ([0, 0], [1, 1])


def worst(values, lower, upper, elsewhere, smallest):
    """The smallest expectation over the rows that intervals allow: what the head of the module says."""
    row, rest = lower.copy(), 1.0 - lower.sum()
    away = min(rest, elsewhere)
    rest -= away
    for j in np.argsort(values):
        more = min(rest, upper[j] - lower[j])
        row[j] += more
        rest -= more
    return float(row @ values + away * smallest)


@pytest.mark.parametrize("trials", [1, 4, 30, 200])
def test_a_guarantee_holds_also_where_outcomes_were_never_seen(trials):
    """Of 300 rows with rare outcomes that the log may lack: the worst expectation is above the truth in at most 7 %."""
    rng, wrong, without = np.random.default_rng(trials), 0, 0
    for _ in range(300):
        p = rng.dirichlet(np.full(6, 0.3))
        values = rng.normal(size=6)
        names = np.array(list("tuvwxy"))
        paths = [tether.Path(["s", after], ["a"]) for after in rng.choice(names, trials, p=p).tolist()]
        mdp = tether.learn(paths, prior=0)
        found, pair = row_intervals(mdp, 0.95), mdp.pair_index("s", "a")
        at = mdp.entries(pair)
        own = np.array([values[list(names).index(mdp.states[int(j)])] for j in mdp.form.next_state[at]])
        bounds = own, found.lower[at], found.upper[at]
        wrong += worst(*bounds, found.elsewhere[pair], values.min()) > p @ values + 1e-12
        without += (
            worst(own, found.lower[at] + (own.size == 1) * (1 - found.lower[at]), found.upper[at], 0.0, 0) > p @ values
        )
    assert wrong <= 0.07 * 300
    assert trials > 4 or without > 0.1 * 300  # and this is why


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
