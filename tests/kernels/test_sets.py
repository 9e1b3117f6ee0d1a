"""Extreme rows of the sets of causal models, against linear programming over couplings; how the sets are nested."""

import numpy as np
import pytest
from couplings import asked_row, extreme_of, in_a_box, over_couplings, seen_row
from hypothesis import given
from hypothesis import strategies as st

from tether._kernels.sets import NOTHING, PUBLISHED_MONOTONICITY, PUBLISHED_STABILITY, STABILITY

KINDS = [NOTHING, STABILITY, PUBLISHED_STABILITY, PUBLISHED_MONOTONICITY]


@st.composite
def steps(draw, most=5):
    """p, q, o and values: with zeros, ties, disjoint supports, point masses, two outcomes."""
    n = draw(st.integers(1, most))
    weights = st.lists(st.sampled_from([0, 0, 1, 1, 2, 3, 7]), min_size=n, max_size=n).filter(any)
    uneven = st.lists(st.floats(1e-4, 1.0), min_size=n, max_size=n)
    p, q = (np.array(draw(weights | uneven), dtype=float) for _ in range(2))
    p, q = p / p.sum(), q / q.sum()
    o = draw(st.sampled_from(np.flatnonzero(p).tolist()))
    values = np.array(draw(st.lists(st.integers(-3, 3) | st.floats(-5, 5), min_size=n, max_size=n)), dtype=float)
    return p, q, o, values


def extreme(p, q, o, values, kind, sign):
    """The extreme expectation, and its row over all outcomes."""
    seen, asked = np.flatnonzero(p), np.flatnonzero(q)
    observed = seen_row(seen, p[seen], o, -1, p[o])
    found, chances = extreme_of(asked_row(asked, q[asked]), values[asked], 0, observed, kind, sign)
    row = np.zeros(p.size)
    row[asked] = chances
    return found, row


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("kind", KINDS)
@given(step=steps())
def test_against_linear_programming(kind, sign, step):
    p, q, o, values = step
    found, row = extreme(p, q, o, values, kind, sign)
    if kind in (NOTHING, STABILITY):
        wanted = over_couplings(p, q, o, values, sign, stable=kind == STABILITY)
    else:
        wanted = in_a_box(p, q, o, values, sign, kind)
    assert found == pytest.approx(wanted, abs=1e-9)
    assert row.sum() == pytest.approx(1.0, abs=1e-12)
    assert row.min() >= 0.0
    assert row @ values == pytest.approx(found, abs=1e-12)


@given(step=steps(most=8))
def test_the_sets_are_nested_and_nothing_is_the_widest(step):
    p, q, o, values = step
    low = {kind: extreme(p, q, o, values, kind, 1.0)[0] for kind in KINDS}
    high = {kind: extreme(p, q, o, values, kind, -1.0)[0] for kind in KINDS}
    for inner, outer in (
        (STABILITY, PUBLISHED_STABILITY),
        (PUBLISHED_STABILITY, NOTHING),
        (PUBLISHED_MONOTONICITY, PUBLISHED_STABILITY),
    ):
        assert low[inner] >= low[outer] - 1e-9
        assert high[inner] <= high[outer] + 1e-9


@given(step=steps(most=8))
def test_the_worst_case_of_nothing_is_a_lower_tail_mean(step):
    """The mean over the worst part, of size p_o, of the nominal row."""
    p, q, o, values = step
    left, total = p[o], 0.0
    for j in np.argsort(values, kind="stable"):
        part = min(q[j], left)
        total, left = total + part * values[j], left - part
    assert extreme(p, q, o, values, NOTHING, 1.0)[0] == pytest.approx(total / p[o], abs=1e-9)


def test_two_outcomes_are_a_single_point_under_stability():
    # METHOD: p = (.5, .5), q = (.4, .6), o = 0 gives x = (.8, .2); the published intervals give [0, .8] and [.4, .8].
    p, q, up = np.array([0.5, 0.5]), np.array([0.4, 0.6]), np.array([1.0, 0.0])
    for sign in (1.0, -1.0):
        assert extreme(p, q, 0, up, STABILITY, sign)[1] == pytest.approx([0.8, 0.2])
    assert [extreme(p, q, 0, up, PUBLISHED_MONOTONICITY, sign)[0] for sign in (1.0, -1.0)] == pytest.approx([0.4, 0.8])
    assert [extreme(p, q, 0, up, PUBLISHED_STABILITY, sign)[0] for sign in (1.0, -1.0)] == pytest.approx([0.0, 0.8])


@pytest.mark.parametrize("kind", KINDS)
def test_the_observed_pair_is_certain_and_an_unrecorded_outcome_says_nothing(kind):
    q, values = np.array([0.25, 0.75]), np.array([3.0, -1.0])
    row, seen = asked_row([4, 9], q), seen_row([4, 9], q, 4, 7, 0.25)
    assert extreme_of(row, values, 7, seen, kind, 1.0)[0] == 3.0
    found, chances = extreme_of(row, values, 7, seen._replace(outcome=-1), kind, 1.0)
    assert (found, chances.tolist()) == (0.0, [0.25, 0.75])


@pytest.mark.parametrize("kind", KINDS)
def test_long_rows(kind):
    """Longer than what is sorted by insertion; the order of the outcomes does not matter."""
    rng = np.random.default_rng(5)
    n = 200
    p, q, values = rng.random(n), rng.random(n), rng.normal(size=n).round(1)
    p, q = p / p.sum(), q / q.sum()
    shuffled = rng.permutation(n)
    back = np.argsort(shuffled)
    for sign in (1.0, -1.0):
        found, _ = extreme(p, q, 17, values, kind, sign)
        again, _ = extreme(p[shuffled], q[shuffled], int(back[17]), values[shuffled], kind, sign)
        assert found == pytest.approx(again, rel=1e-12)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@given(step=steps(), rarity=st.sampled_from([1e-7, 1e-40, 1e-300]))
def test_what_was_hardly_possible_gives_a_wider_set(sign, step, rarity):
    """Rounding would eat the nested caps: the set is then stability at the observed outcome, which contains it."""
    p, q, o, values = step
    rare = p.copy()
    rare[o] = rarity
    rest = np.arange(p.size) != o
    if rare[rest].sum() == 0.0:
        return
    rare[rest] /= rare[rest].sum()
    found, row = extreme(rare, q, o, values, STABILITY, sign)
    assert found == extreme(rare, q, o, values, PUBLISHED_STABILITY, sign)[0]
    assert row.sum() == pytest.approx(1.0)
