"""The exact counterfactual row: against independent twins, by its properties, and at the edges of floating point."""

import math
import subprocess
import sys
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from effort import tries
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy import integrate
from twins import (
    ASKED,
    SEEN,
    Seen,
    as_floats,
    asked,
    check_shares,
    condition,
    decimal_row,
    dense,
    disjoint,
    exact_row,
    normalised,
    observations,
    proportional,
    race,
    tv,
    two_rows,
    whole_weights,
)

EXACT = 1e-12
"""What "exact" promises of a probability."""


def off_by(row, exact):
    """The largest error of a row, taken without rounding."""
    return float(max(abs(Fraction(x) - Fraction(y)) for x, y in zip(row, exact, strict=True)))


# --- Numbers worked out by hand ------------------------------------------------------------------


def test_three_outcomes_by_hand():
    # p = (1/2, 1/2, 0), q = (1/4, 1/2, 1/4), outcome 0: r = (2, 1, 0).
    # D = 1 + x/4 on [0, 1] and 1/2 + 3x/4 on [1, 2]: D(1) = 5/4, D(2) = 2, so P(0) = 1/2.
    # F(2) - F(1) = 1 / (5/4 · 2) = 2/5, times q_1: P(1) = 1/5.  F(1) = 4/5, so F(2) = 6/5, times q_2: P(2) = 3/10.
    row = asked([0.5, 0.5, 0.0], [0.25, 0.5, 0.25], 0)
    np.testing.assert_allclose(row, [0.5, 0.2, 0.3], rtol=0, atol=1e-15)


def test_an_outcome_that_q_excludes_by_hand():
    # p = (1/2, 1/2), q over outcomes 1 and 2 = (1/2, 1/2), outcome 0: r_1 = 1, r_2 = 0, r_0 = ∞.
    # D = 1 + x/2 on [0, 1], D(1) = 3/2; F gains 1 / (3/2) = 2/3 on [0, 1] and 1 / D(1) = 2/3 beyond.
    row = asked([0.5, 0.5, 0.0], [0.0, 0.5, 0.5], 0)
    np.testing.assert_allclose(row, [0.0, 1 / 3, 2 / 3], rtol=0, atol=1e-15)


def test_only_the_likelier_outcome_stands():
    # r = (1/2, 3/2) with o = 0: the observed outcome became twice as likely, nothing may replace it (stability).
    labels, row = condition(two_rows([0.25, 0.75], [0.5, 0.5]), 0).row(0, 2, ASKED)
    assert labels == (0,)
    assert row.tolist() == [1.0]


# --- Exactness -----------------------------------------------------------------------------------


@given(observations())
def test_exact_to_1e_12(seen):
    cf = condition(two_rows(seen.p, seen.q), seen.o)
    n = len(seen.p)
    exact = exact_row(*seen)
    assert off_by(dense(cf.row(0, n, ASKED), n), exact) < EXACT
    assert abs(cf.strength(0, n, ASKED) - float(tv(exact, normalised(seen.q)))) < EXACT


@given(whole_weights())
def test_possible_is_what_is_exactly_possible(seen):
    """Ties of p_j / q_j decide what can happen: normalisation in floating point must not break them."""
    row = asked(as_floats(seen.p), as_floats(seen.q), seen.o)
    exact = exact_row(*seen)
    assert [x > 0 for x in row] == [x > 0 for x in exact]
    assert off_by(row, exact) < EXACT


def test_a_tie_that_rounding_breaks_is_still_a_tie():
    # p = (1, 3, 6) / 10 and q = (1, 3, 2) / 6: r_0 = r_1 = 3/5, so nothing can replace outcome 0.
    p, q = [1 / 10, 3 / 10, 6 / 10], [1 / 6, 3 / 6, 2 / 6]
    assert p[1] / q[1] < p[0] / q[0]  # in floating point
    labels, row = condition(two_rows(p, q), 0).row(0, 3, ASKED)
    assert labels == (0,)
    assert row.tolist() == [1.0]


def test_what_is_nearly_a_tie_is_none():
    # r_1 / r_0 = 1 - 2e-10: outcome 1 gets about 1e-10, good to 1e-12 of probability and more.
    p, q = [0.5, 0.5], [0.5 - 5e-11, 0.5 + 5e-11]
    row, exact = asked(p, q, 0), exact_row(p, q, 0)
    assert row[1] == pytest.approx(1e-10, rel=1e-3)
    assert row[1] == pytest.approx(float(exact[1]), rel=1e-4)


@given(observations(least=100))
def test_relative_accuracy_where_nothing_is_tied(seen):
    """The observed outcome and those that p excludes are right to 12 digits, however improbable."""
    cf = condition(two_rows(seen.p, seen.q), seen.o)
    n = len(seen.p)
    p, q = dense(cf.nominal_row(0, n, SEEN), n), dense(cf.nominal_row(0, n, ASKED), n)
    row, exact = dense(cf.row(0, n, ASKED), n), exact_row(p, q, seen.o)
    for j in range(n):
        if j == seen.o or p[j] == 0:
            assert abs(Fraction(row[j]) - exact[j]) <= Fraction(EXACT) * exact[j]


@pytest.mark.parametrize(
    ("p", "q", "o"),
    [
        ([1e-300, 1.0], [0.5, 0.5], 0),  # a miracle was observed: what q says hardly matters
        ([1e-300, 1.0], [0.5, 0.5], 1),  # nothing was learnt
        ([0.5, 0.5], [1e-300, 1.0], 0),
        ([0.5, 0.5], [1e-300, 1.0], 1),
        ([1e-300, 1.0], [2e-300, 1.0], 0),
        ([2e-300, 1.0], [1e-300, 1.0], 0),
        ([1e-300, 1e-300, 1.0], [1e-300, 1.0, 1e-300], 0),
        ([0.5, 0.5, 0.0], [0.0, 1e-300, 1.0], 0),
        ([0.3, 0.7, 0.0, 0.0], [1e-200, 1e-100, 1e-300, 1.0], 1),
        ([1e-300, 0.5, 0.5], [0.0, 0.25, 0.75], 0),
    ],
)
def test_probabilities_down_to_1e_300(p, q, o):
    row, exact = asked(p, q, o), exact_row(p, q, o)
    assert off_by(row, exact) < EXACT
    for x, y in zip(row, exact, strict=True):  # and to 12 digits, each of them that is not below all floats
        assert (0 < x < 1e-307) if 0 < y < Fraction(1, 10**307) else (abs(Fraction(x) - y) <= Fraction(EXACT) * y)


_SUBNORMAL = st.sampled_from([0.0, 5e-324, 1e-320, 1e-310, 2.3e-308, 1e-200, 0.3, 1.0])
_SUBNORMAL_ROW = st.lists(_SUBNORMAL, min_size=4, max_size=4).filter(lambda w: max(w) > 0.1).map(as_floats)


@given(_SUBNORMAL_ROW, _SUBNORMAL_ROW, st.integers(0, 3))
def test_subnormal_probabilities_neither_crash_nor_give_nan(p, q, o):
    assume(p[o] > 0)
    check_extreme(p, q, o)


def test_the_largest_ratio_there_is():
    # r_0 = (1 - 2^-53) / 2^-1024 is the largest float; thirteen times 1/13 sum to a little more than 1 in
    # floating point, so D(r_0), computed, would be infinite.
    n = 13
    check_extreme([1 - 2.0**-53, *[2.0**-53 / n] * n], [2.0**-1024, *[1 / n] * n], 0)


def check_extreme(p, q, o):
    with np.errstate(over="ignore", invalid="ignore"):  # NumPy would warn with the JIT off; compiled code does not
        row = asked(p, q, o)
    assert np.all(np.isfinite(row))
    assert np.all(row >= 0)
    assert abs(math.fsum(row) - 1) < 1e-15
    assert off_by(row, exact_row(p, q, o)) < EXACT


def test_what_underflows_stays_possible():
    # q excludes the outcome, so all that q allows can happen; for j = 1, p_j / q_j overflows and P_cf = q_1²/p_1 + …
    with np.errstate(over="ignore", invalid="ignore"):
        row = asked([0.3, 0.7, 0.0], [0.0, 1e-310, 1.0], 0)
    assert 0 < row[1] < 1e-300
    assert row[2] == 1.0
    # j = 2 gets q_2 · (F(∞) - F(r_2)) with F(∞) - F(r_2) = 1 / D(r_2), r_2 = 0.4e200: about 2.5e-400.
    row = asked([0.3, 0.3, 0.4], [0.0, 1.0, 1e-200], 0)
    assert 0 < row[2] < 1e-300


def test_one_ratio_that_overflows_does_not_make_them_all_the_same():
    # q excludes the outcome and has no state outside p; r = (∞ by overflow, 0.4, 0.8): the row is influenced.
    p, q = [0.3, 0.1, 0.2, 0.4], [0.0, 1e-310, 0.5, 0.5]
    with np.errstate(over="ignore", invalid="ignore"):
        cf = condition(two_rows(p, q), 0)
        row, exact = dense(cf.row(0, 4, ASKED), 4), exact_row(p, q, 0)
    assert off_by(row, exact) < EXACT
    assert row[1] > 0
    assert cf.strength(0, 4, ASKED) == pytest.approx(float(tv(exact, normalised(q))), rel=1e-12)
    assert cf.strength(0, 4, ASKED) > 0.03


@pytest.mark.parametrize(("q", "possible"), [([1e-310, 2e-310, 1.0], (0, 1)), ([2e-310, 1e-310, 1.0], (0,))])
def test_two_ratios_that_overflow_are_compared_all_the_same(q, possible):
    # r_0 and r_1 overflow; outcome 1 can replace outcome 0 only where q_1 / p_1 > q_0 / p_0. Outcome 2 has r = 0.
    with np.errstate(over="ignore", invalid="ignore"):
        labels, row = condition(two_rows([0.5, 0.5, 0.0], q), 0).row(0, 3, ASKED)
    assert labels == (*possible, 2)
    assert row[-1] == 1.0
    assert [x > 0 for x in exact_row([0.5, 0.5, 0.0], q, 0)] == [j in labels for j in range(3)]


def long_rows(n, seed):
    """Rows of n outcomes: eight orders of magnitude, exact ties, and a tenth of the outcomes in one row only."""
    rng = np.random.default_rng(seed)
    p, q = 10.0 ** rng.uniform(-8, 0, n), 10.0 ** rng.uniform(-8, 0, n)
    tied = rng.random(n) < 0.3
    p[tied], q[tied] = rng.integers(1, 4, tied.sum()), rng.integers(1, 4, tied.sum())
    p[rng.random(n) < 0.1] = 0.0
    q[rng.random(n) < 0.1] = 0.0
    return np.array(as_floats(p)), np.array(as_floats(q))


def choices(p, q):
    """Four outcomes to observe: one that q excludes, and those of lowest, middle and highest p_j / q_j."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where((p > 0) & (q > 0), p / q, np.nan)
    order = np.argsort(ratio)[: np.count_nonzero(~np.isnan(ratio))]
    excluded = np.flatnonzero((p > 0) & (q == 0))
    return int(excluded[0]), int(order[0]), int(order[len(order) // 2]), int(order[-1])


def check_long_rows(n):
    p, q = long_rows(n, seed=n)
    mdp = two_rows(p, q)
    for o in choices(p, q):
        cf = condition(mdp, o)
        row, exact = dense(cf.row(0, n, ASKED), n), np.array(decimal_row(p, q, o))
        assert np.max(np.abs(row - exact)) < EXACT
        assert abs(math.fsum(row) - 1) < EXACT
        assert abs(cf.strength(0, n, ASKED) - tv(exact, q)) < EXACT


def test_a_thousand_outcomes():
    check_long_rows(1_000)


@pytest.mark.compiled
def test_very_many_outcomes():
    check_long_rows(tries(20_000, 100_000))


@pytest.mark.compiled
def test_a_hundred_thousand_outcomes_beside_a_likely_one():
    """Many small terms beside a large one: where a plain sum would lose digits."""
    n = 100_001
    p, q = np.full(n, 0.3 / (n - 1)), np.full(n, 0.6 / (n - 1))
    p[0], q[0] = 0.7, 0.4
    # r_0 = 7/4 and r_j = 1/2 for all others. Outcome 0 seen: D(7/4) = 7/10 + 6/10 · 7/4 = 7/4.
    row = asked(p, q, 0)
    assert abs(row[0] - 4 / 7) < EXACT
    np.testing.assert_allclose(row[1:], 3 / 7 / (n - 1), rtol=EXACT)


@given(observations(max_size=4, least=20))
def test_the_twins_agree_with_each_other(seen):
    assert off_by(decimal_row(*seen), exact_row(*seen)) < 1e-15


RACES = [
    ([0.5, 0.3, 0.2], [0.2, 0.3, 0.5], 0),
    ([0.1, 0.6, 0.3, 0.0], [0.4, 0.1, 0.2, 0.3], 0),
    ([0.1, 0.6, 0.3, 0.0], [0.4, 0.1, 0.2, 0.3], 1),
    ([0.2, 0.5, 0.3], [0.0, 0.4, 0.6], 0),  # q excludes the outcome
    ([0.25, 0.25, 0.5, 0.0], [0.1, 0.1, 0.3, 0.5], 2),  # a tie
]


@pytest.mark.parametrize(("p", "q", "o"), RACES)
def test_against_the_race_integrated_numerically(p, q, o):
    """Given the winning time m of o under p, the others run late by p_j·m: integrate over m and the new time."""
    p, q = np.array(p), np.array(q)
    others = [j for j in range(len(p)) if j != o]

    def nobody_before(x, m):
        """Probability that no outcome but o finishes before x under q."""
        return math.exp(-sum(max(0.0, q[i] * x - p[i] * m) for i in others))

    def wins(j, m):
        """Probability that j wins under q, given m."""
        last = p[o] * m / q[o] if q[o] else np.inf
        if j == o:
            return nobody_before(last, m) if q[o] else 0.0
        begin = p[j] * m / q[j] if q[j] else np.inf
        if begin >= last:
            return 0.0
        kinks = sorted({p[i] * m / q[i] for i in others if q[i] and begin < p[i] * m / q[i] < last})
        ends = [begin, *kinks, min(last, max([begin, *kinks]) + 60 / q[j])]  # beyond, less than e^-60 is left
        pieces = pairwise(ends)
        return sum(integrate.quad(lambda x: q[j] * nobody_before(x, m), a, b, epsabs=1e-11)[0] for a, b in pieces)

    nodes, weights = np.polynomial.laguerre.laggauss(40)  # ∫ … e^-m dm
    expected = [sum(w * wins(j, m) for m, w in zip(nodes, weights, strict=True)) for j in range(len(p))]
    np.testing.assert_allclose(asked(p, q, o), expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize(("p", "q", "o"), RACES)
def test_against_the_race_run_by_hand(p, q, o):
    samples = 20_000
    check_shares(race(p, q, o, samples, seed=5), asked(p, q, o), samples)


# --- The seven properties --------------------------------------------------------------------


@given(observations())
def test_1_a_row_is_a_distribution(seen):
    labels, row = condition(two_rows(seen.p, seen.q), seen.o).row(0, len(seen.p), ASKED)
    assert np.all(row > 0)  # zeros are left out
    assert list(labels) == sorted(labels)
    assert abs(math.fsum(row) - 1) <= 4 * np.finfo(float).eps


@given(observations())
@example(Seen([1.0, 1e-300], [1.0, 1e-300], 0))  # p_o rounds to 1, but other outcomes were possible
def test_2_the_observed_pair_repeats_its_outcome(seen):
    cf = condition(two_rows(seen.p, seen.p), seen.o)
    for action in (SEEN, ASKED):  # the pair itself, and another one with the same row
        labels, row = cf.row(0, len(seen.p), action)
        assert labels == (seen.o,)
        assert row.tolist() == [1.0]


@given(disjoint())
def test_3_disjoint_supports_leave_q_bit_for_bit(seen):
    n = len(seen.p)
    cf = condition(two_rows(seen.p, seen.q), seen.o)
    labels, nominal = cf.nominal_row(0, n, ASKED)
    assert cf.row(0, n, ASKED)[0] == labels
    assert cf.row(0, n, ASKED)[1].tobytes() == nominal.tobytes()
    assert cf.strength(0, n, ASKED) == 0.0
    # The counterfactual MDP need not ask the kernel here; the kernel itself must say the same.
    pair = cf.mdp.pair_index(n, ASKED)
    rows = cf.posteriors[0].replay(cf.mdp.form, np.array([pair]))
    assert rows.probability.tobytes() == nominal.tobytes()
    assert rows.strength.tolist() == [0.0]


@given(observations())
def test_4_counterfactual_stability(seen):
    n, o = len(seen.p), seen.o
    cf = condition(two_rows(seen.p, seen.q), o)
    p = [Fraction(x) for x in dense(cf.nominal_row(0, n, SEEN), n)]
    q = [Fraction(x) for x in dense(cf.nominal_row(0, n, ASKED), n)]
    possible = cf.row(0, n, ASKED)[0]
    for j in range(n):
        if j != o and p[j] > 0 and q[o] / p[o] >= q[j] / p[j]:
            assert j not in possible


@given(observations(max_size=5))
def test_5_consistency(seen):
    n = len(seen.p)
    mdp = two_rows(seen.p, seen.q)
    total = sum(p_o * dense(condition(mdp, o).row(0, n, ASKED), n) for o, p_o in enumerate(seen.p) if p_o)
    np.testing.assert_allclose(total, seen.q, rtol=0, atol=EXACT)


@given(whole_weights(max_size=5))
def test_5_consistency_is_exact_in_the_twin(seen):
    """The twin itself obeys the law of total probability, without rounding."""
    rows = {o: exact_row(seen.p, seen.q, o) for o in range(len(seen.p)) if seen.p[o]}
    p = normalised(seen.p)
    assert [sum(p[o] * row[j] for o, row in rows.items()) for j in range(len(p))] == normalised(seen.q)


@given(observations(), st.randoms(use_true_random=False))
def test_6_relabelling_changes_nothing(seen, random):
    n = len(seen.p)
    order = list(range(n))
    random.shuffle(order)
    moved = asked([seen.p[i] for i in order], [seen.q[i] for i in order], order.index(seen.o))
    plain = asked(*seen)
    np.testing.assert_allclose(moved, plain[order], rtol=0, atol=1e-14)
    assert ((moved > 0) == (plain[order] > 0)).all()


@given(observations(least=3), st.integers(0, 2**32))
def test_7_top_down_sampling_agrees(seen, seed):
    samples = 4_000
    share = asked(*seen, mechanism="gumbel-max-sampled", samples=samples, rng=seed)
    exact = np.array([float(x) for x in exact_row(*seen)])
    check_shares(share, np.where(exact < 1e-15, 0.0, exact), samples)


# --- Where the observation says nothing ---------------------------------------------------------


def says_nothing(p, q, o):
    """P_cf = q iff p_o = 1, or q is a point mass, or q_o = 0 and p_j / q_j is constant where q_j > 0."""
    p, q = normalised(p), normalised(q)
    ratios = {x / y for x, y in zip(p, q, strict=True) if y}
    return p[o] == 1 or 1 in q or (q[o] == 0 and len(ratios) == 1)


@given(st.one_of(whole_weights(), whole_weights(largest=1), proportional()))
def test_influence_is_zero_exactly_where_the_observation_says_nothing(seen):
    n = len(seen.p)
    exact, nominal = exact_row(*seen), normalised(seen.q)
    assert (exact == nominal) == says_nothing(*seen)
    cf = condition(two_rows(as_floats(seen.p), as_floats(seen.q)), seen.o)
    strength = cf.strength(0, n, ASKED)
    if says_nothing(*seen):
        assert strength == 0.0
        assert cf.row(0, n, ASKED)[0] == cf.nominal_row(0, n, ASKED)[0]
        assert cf.row(0, n, ASKED)[1].tobytes() == cf.nominal_row(0, n, ASKED)[1].tobytes()
    else:
        assert strength > 0
        assert abs(strength - float(tv(exact, nominal))) < EXACT


def test_a_constant_ratio_is_no_influence_however_its_rows_were_rounded():
    # p_j / q_j = 0.1 for j = 1 … 3; in floating point the three ratios differ in their last digit.
    q = [0.0, 0.1, 0.2, 0.7]
    p = [0.9, *(0.1 * x for x in q[1:])]
    assert len({x / y for x, y in zip(p[1:], q[1:], strict=True)}) > 1
    cf = condition(two_rows(p, q), 0)
    assert cf.strength(0, 4, ASKED) == 0.0
    assert cf.row(0, 4, ASKED)[1].tobytes() == cf.nominal_row(0, 4, ASKED)[1].tobytes()


def test_a_ratio_that_is_not_quite_constant_is_influence():
    # As above, but for p_1 and p_2 being off by 1e-10 either way: a distance of the order of 1e-10, not 0.
    p, q = [0.9, 0.01 + 1e-10, 0.02 - 1e-10, 0.07], [0.0, 0.1, 0.2, 0.7]
    strength = condition(two_rows(p, q), 0).strength(0, 4, ASKED)
    assert 1e-11 < strength < 1e-9
    assert strength == pytest.approx(float(tv(exact_row(p, q, 0), normalised(q))), rel=1e-4)


def test_overlap_is_not_influence():
    # The two rows share outcome 1, but the observed outcome 0 is impossible under q, which is a point mass.
    cf = condition(two_rows([0.5, 0.5], [0.0, 1.0]), 0)
    assert cf.strength(0, 2, ASKED) == 0.0
    # One outcome more, and the ratio is not constant: r = (∞, 1, 0). By hand above: TV((1/3, 2/3), (1/2, 1/2)) = 1/6.
    cf = condition(two_rows([0.5, 0.5, 0.0], [0.0, 0.5, 0.5]), 0)
    assert cf.strength(0, 3, ASKED) == pytest.approx(1 / 6, abs=1e-15)


@given(observations())
def test_strength_is_the_distance_between_the_two_rows(seen):
    n = len(seen.p)
    cf = condition(two_rows(seen.p, seen.q), seen.o)
    distance = tv(dense(cf.row(0, n, ASKED), n), dense(cf.nominal_row(0, n, ASKED), n))
    assert cf.strength(0, n, ASKED) == pytest.approx(distance, abs=1e-15)


def test_importing_the_package_stays_light():
    """Numba and matplotlib take seconds to load: not before they are needed."""
    source = "import sys, tether; print(*{name.partition('.')[0] for name in sys.modules})"
    run = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert "tether" in loaded
    assert loaded.isdisjoint({"numba", "llvmlite", "matplotlib", "scipy", "pandas"})
