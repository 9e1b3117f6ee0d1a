"""Independent, comonotone and maximal: against joint distributions written out in full, and by their properties."""

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from effort import tries
from hypothesis import given
from hypothesis import strategies as st
from twins import (
    ASKED,
    SEEN,
    as_floats,
    asked,
    condition,
    dense,
    episodes,
    normalised,
    observations,
    two_rows,
    whole_weights,
)

import tether
from tether.influence.one_step import Support, influenced_pairs

NAMES = ("independent", "comonotone", "maximal")
EXACT = 1e-12


# --- Joint distributions of two outcomes, written out -----------------------------------------------


def independent_joint(p, q):
    return {(i, j): x * y for (i, x), (j, y) in product(enumerate(p), enumerate(q))}


def comonotone_joint(p, q):
    """One uniform number for both: walk along it from 0 to 1, from one boundary of either to the next."""
    ends_p, ends_q = list(np.cumsum(p)), list(np.cumsum(q))
    marks = sorted({Fraction(0), *ends_p, *ends_q})
    joint = dict.fromkeys(product(range(len(p)), range(len(q))), Fraction(0))
    for left, right in pairwise(marks):
        middle = (left + right) / 2
        i = next(n for n, end in enumerate(ends_p) if middle < end)
        j = next(n for n, end in enumerate(ends_q) if middle < end)
        joint[i, j] += right - left
    return joint


def maximal_joint(p, q):
    """As much as possible on the diagonal; what is left over of both, independently."""
    joint = dict.fromkeys(product(range(len(p)), range(len(q))), Fraction(0))
    for i in range(len(p)):
        joint[i, i] = min(p[i], q[i])
    left = 1 - sum(joint.values())
    for i, j in joint:
        if left:
            joint[i, j] += max(p[i] - q[i], 0) * max(q[j] - p[j], 0) / left
    return joint


JOINTS = {"independent": independent_joint, "comonotone": comonotone_joint, "maximal": maximal_joint}


def coupled(name, p, q, o, order=None):
    """The row of q given that p led to ``o``, from the joint distribution."""
    p, q = normalised(p), normalised(q)
    order = list(range(len(p))) if order is None else order
    joint = JOINTS[name]([p[j] for j in order], [q[j] for j in order])
    at = order.index(o)
    return [joint[at, order.index(j)] / p[o] for j in range(len(q))]


def off_by(row, exact):
    return float(max(abs(Fraction(float(x)) - y) for x, y in zip(row, exact, strict=True)))


# --- Rows ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@given(seen=whole_weights())
def test_a_row_is_what_the_joint_distribution_says(name, seen):
    exact = coupled(name, *seen)
    row = asked(
        [float(x) / sum(seen.p) for x in seen.p], [float(x) / sum(seen.q) for x in seen.q], seen.o, mechanism=name
    )
    assert off_by(row, exact) < EXACT
    assert [x > 0 for x in row] == [x > 0 for x in exact]


TINY = (1e-300, 1e-150, 1e-30, 1e-17, 3e-17, 1e-16, 1e-12, 1e-9)


def rows_with_tiny_probabilities(rng):
    """Two rows of some outcomes, many of them tiny and many as likely in both rows, and an outcome of the first."""
    n = int(rng.integers(2, 7))

    def draw():
        kinds = rng.integers(0, 4, n)
        large = rng.choice([rng.random(n), rng.integers(1, 4, n).astype(float)])
        row = np.where(kinds == 0, 0.0, np.where(kinds < 3, rng.choice(TINY, n) * rng.integers(1, 3, n), large))
        row[rng.integers(n)] = rng.choice([0.25, 0.5, 1.0, rng.random()])
        return row

    p, q = draw(), draw()
    if rng.random() < 0.5:  # equal up to a few outcomes
        q = np.where(rng.random(n) < 0.7, p, q)
    if q.sum() == 0:
        q = p[::-1]
    p, q = p / p.sum(), q / q.sum()
    return p.tolist(), q.tolist(), int(rng.choice(np.flatnonzero(p)))


@pytest.mark.parametrize("name", ["comonotone", "maximal"])
def test_tiny_probabilities_are_not_lost_beside_large_ones(name):
    rng, wrong = np.random.default_rng(22), []
    for _ in range(tries(500, 1500)):
        p, q, o = rows_with_tiny_probabilities(rng)
        mdp = two_rows(p, q)
        cf = condition(mdp, o, mechanism=name)
        stored = [dense(cf.nominal_row(0, len(p), action), len(p)) for action in (SEEN, ASKED)]
        exact = coupled(name, *(row.tolist() for row in stored), o)
        row = dense(cf.row(0, len(p), ASKED), len(p))
        if any(
            abs(Fraction(x) - y) > y / 10**9 + Fraction(1, 10**12) for x, y in zip(row.tolist(), exact, strict=True)
        ):
            wrong.append((p, q, o, row, [float(x) for x in exact]))
    assert not wrong, f"{len(wrong)} rows, the first: {wrong[0]}"


@pytest.mark.parametrize("name", ["comonotone", "maximal"])
def test_a_tiny_outcome_in_the_middle_of_equal_rows_is_itself(name):
    p, q = [0.25, 0.25, 1e-300, 0.5], [0.25, 0.25, 1e-200, 0.5]
    assert asked(p, q, 2, mechanism=name).tolist() == [0, 0, 1, 0]
    assert asked([0.75, 0.25, 0.0], [3e-300, 0.0, 1.0], 0, mechanism=name)[0] == pytest.approx(4e-300, rel=1e-12)
    # Observed is what only q has less of: all of it goes where q has more.
    assert asked([1e-300, 1.0, 0.0], [0.0, 1.0, 0.0], 0, mechanism=name).tolist() == [0, 1, 0]


@given(whole_weights(), st.randoms())
def test_a_comonotone_row_in_any_order(seen, random):
    n = len(seen.p)
    order = random.sample(range(n), n)
    mdp = two_rows(as_floats(seen.p), as_floats(seen.q))
    cf = condition(mdp, seen.o, mechanism="comonotone", order=[*order, n])
    row, exact = dense(cf.row(0, n, ASKED), n), coupled("comonotone", *seen, order=order)
    assert off_by(row, exact) < EXACT
    by_key = condition(mdp, seen.o, mechanism="comonotone", order=[*order, n].index)
    assert dense(by_key.row(0, n, ASKED), n).tobytes() == row.tobytes()


@pytest.mark.parametrize("name", NAMES)
@given(seen=observations())
def test_a_row_is_a_distribution_and_its_strength_the_distance(name, seen):
    n = len(seen.p)
    cf = condition(two_rows(seen.p, seen.q), seen.o, mechanism=name)
    row, nominal = dense(cf.row(0, n, ASKED), n), dense(cf.nominal_row(0, n, ASKED), n)
    assert np.all(np.isfinite(row))
    assert row.min() >= 0
    assert abs(row.sum() - 1) < EXACT
    assert cf.strength(0, n, ASKED) == pytest.approx(np.abs(row - nominal).sum() / 2, abs=1e-15)
    assert cf.standard_error(0, n, ASKED).max() == 0


@pytest.mark.parametrize("name", NAMES)
@given(seen=observations(least=12))
def test_consistency(name, seen):
    """Averaged over what could have been observed, the rows are the nominal one: Σ_o p_o · x^(o) = q."""
    n, mdp = len(seen.p), two_rows(seen.p, seen.q)
    cf = condition(mdp, seen.o, mechanism=name)
    p, q = dense(cf.nominal_row(0, n, SEEN), n), dense(cf.nominal_row(0, n, ASKED), n)
    rows = [dense(condition(mdp, o, mechanism=name).row(0, n, ASKED), n) * p[o] for o in range(n) if p[o] > 0]
    np.testing.assert_allclose(sum(rows), q, rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", ["gumbel-max", *NAMES])
@given(seen=observations())
def test_the_observed_pair_repeats_its_outcome(name, seen):
    cf = condition(two_rows(seen.p, seen.p), seen.o, mechanism=name)
    assert cf.row(0, len(seen.p), SEEN)[0] == (seen.o,)
    assert cf.row(0, len(seen.p), SEEN)[1].tolist() == [1.0]
    if name != "independent":  # another pair with the same row does the same
        assert cf.row(0, len(seen.p), ASKED)[0] == (seen.o,)


@pytest.mark.parametrize("name", ["independent", "maximal"])
@given(seen=whole_weights(), random=st.randoms())
def test_relabelling_changes_nothing(name, seen, random):
    n = len(seen.p)
    place = random.sample(range(n), n)
    p, q = as_floats(seen.p), as_floats(seen.q)
    moved = asked([p[i] for i in place], [q[i] for i in place], place.index(seen.o), mechanism=name)
    np.testing.assert_allclose(moved, asked(p, q, seen.o, mechanism=name)[place], rtol=0, atol=1e-13)


def test_maximal_by_hand():
    # p = (1/2, 1/2, 0), q = (1/4, 1/2, 1/4), o = 0: stays with 1/4 / 1/2; the rest goes where q has more than p, to 2.
    assert asked([0.5, 0.5, 0.0], [0.25, 0.5, 0.25], 0, mechanism="maximal").tolist() == [0.5, 0.0, 0.5]


def test_comonotone_by_hand():
    # The number was in [0, 1/2]: its lower half leads to 0 under q, its upper half to 1.
    assert asked([0.5, 0.5, 0.0], [0.25, 0.5, 0.25], 0, mechanism="comonotone").tolist() == [0.5, 0.5, 0.0]
    # The other way round 2 comes first, with 1/4; the number was in [1/2, 1].
    backwards = asked([0.5, 0.5, 0.0], [0.25, 0.5, 0.25], 0, mechanism="comonotone", order=[3, 2, 1, 0])
    assert backwards.tolist() == [0.5, 0.5, 0.0]
    backwards = asked([0.5, 0.5, 0.0], [0.25, 0.5, 0.25], 1, mechanism="comonotone", order=[3, 2, 1, 0])
    assert backwards.tolist() == [0.0, 0.5, 0.5]


@pytest.mark.parametrize("name", ["comonotone", "maximal"])
def test_rows_of_disjoint_support_change_as_well(name):
    p, q = [0.3, 0.7, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]
    rows = [asked(p, q, o, mechanism=name) for o in (0, 1)]
    if name == "comonotone":
        assert rows[0].tolist() == [0, 0, 1, 0]
        np.testing.assert_allclose(rows[1], [0, 0, 2 / 7, 5 / 7])
    else:
        assert rows[0].tolist() == rows[1].tolist() == q


# --- In the engine ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@given(episode=episodes())
def test_every_row_and_every_layer(name, episode):
    mdp = episode.mdp()
    cf = tether.counterfactual(mdp, episode.path, mechanism=name)
    reached = {episode.path.states[0]}
    for t in range(episode.path.T):
        assert set(cf.reachable(t)) == reached
        observed = episode.path.states[t], episode.path.actions[t]
        after = set()
        for s, a in episode.weights:
            if t == episode.path.T - 1 and not episode.path.last_recorded:
                exact = normalised(episode.row(s, a))
            elif (s, a) == observed:
                exact = [Fraction(j == episode.path.states[t + 1]) for j in episode.states]
            else:
                o = episode.states.index(episode.path.states[t + 1])
                exact = coupled(name, episode.row(*observed), episode.row(s, a), o)
            labels, row = cf.row(t, s, a)
            assert labels == tuple(j for j, x in zip(episode.states, exact, strict=True) if x)
            np.testing.assert_allclose(row, [float(x) for x in exact if x], rtol=0, atol=EXACT)
            after |= set(labels) if s in reached else set()
        # The test `support` is about supports, whatever the mechanism changes.
        meet = {mdp.pair_index(s, a) for s, a in episode.weights if s in reached and episode.meets(t, s, a)}
        assert set(influenced_pairs(cf.graph, t, Support()).tolist()) == meet
        assert meet <= set(cf.graph.layers[t].edits.pairs.tolist())
        reached = after
    assert set(cf.reachable(episode.path.T)) == reached


@pytest.mark.parametrize("name", NAMES)
@given(episode=episodes())
def test_what_holds_of_plans_holds_under_every_mechanism(name, episode):
    """The observed path is always allowed and worth what was observed; more k and more m never hurt."""
    mdp = episode.mdp()
    cf = tether.counterfactual(mdp, episode.path, mechanism=name)
    values = cf.sweep().values
    np.testing.assert_allclose(values[:, 0], cf.sweep().observed_value, atol=1e-12)
    assert np.all(np.diff(values, axis=0) >= -1e-12)
    assert np.all(np.diff(values, axis=1) >= -1e-12)


# --- Options ---------------------------------------------------------------------------------------


def test_what_an_order_must_be():
    grid = tether.cases.toy()

    def ask(order):
        return tether.counterfactual(grid.mdp, grid.path, mechanism="comonotone", order=order)

    states = list(grid.mdp.states)
    with pytest.raises(tether.QueryError, match=r"order must name each of the model's 8 states once; it has 7 entries"):
        ask(states[1:])
    with pytest.raises(tether.QueryError, match=r"8 entries, 7 of them different"):
        ask([states[0], *states[:-1]])
    with pytest.raises(tether.QueryError, match="nowhere"):
        ask([*states[:-1], "nowhere"])
    with pytest.raises(tether.QueryError, match="list of states or a function"):
        ask("s0")
    with pytest.raises(tether.QueryError, match="list of states or a function"):
        ask(7)
    with pytest.raises(tether.QueryError, match="cannot be sorted"):
        ask(lambda state: state if state == "s0" else 1)
    with pytest.raises(tether.QueryError, match=r"'comonotone' takes order; got samples="):
        tether.counterfactual(grid.mdp, grid.path, mechanism="comonotone", samples=1)
    built = tether.Comonotone(iter(states))
    assert built.order == tuple(states)
    with pytest.raises(tether.QueryError, match="prepare"):
        built.infer(tether.counterfactual(grid.mdp, grid.path).graph.layers[0].observed)
    assert repr(tether.Comonotone()) == "Comonotone(order=None)"
    assert tether.Maximal() == tether.Maximal()
    assert tether.counterfactual(grid.mdp, grid.path, mechanism=built).mechanism == built
