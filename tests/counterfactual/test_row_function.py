"""Counterfactual rows of arrays, and mechanisms made of a function."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tether
from tether.errors import QueryError


@st.composite
def rows(draw, n_rows=2):
    n = draw(st.integers(1, 5))
    weights = [
        draw(st.lists(st.sampled_from([0.0, 1e-9, 0.1, 1.0, 3.0]), min_size=n, max_size=n)) for _ in range(n_rows)
    ]
    for weight in weights:
        if not any(weight):
            weight[draw(st.integers(0, n - 1))] = 1.0
    return [np.array(weight) / sum(weight) for weight in weights]


MECHANISMS = ["gumbel-max", "independent", "comonotone", "maximal"]


@given(rows(), st.sampled_from(MECHANISMS))
def test_rows_average_to_the_nominal_row(pair, mechanism):
    """Σ_o p_o · x^(o) = q: no mechanism changes what the model says (property 5 of any coupling)."""
    p, q = pair
    possible = np.flatnonzero(p)
    x = tether.counterfactual_row(p, possible, q, mechanism)
    np.testing.assert_allclose(p[possible] @ x, q, atol=1e-12)
    np.testing.assert_allclose(x.sum(axis=1), 1.0, atol=1e-12)


def test_gumbel_rows_against_sampling_by_hand():
    """Rejection: Gumbel noise under which p gives the observed outcome, replayed on q."""
    rng = np.random.default_rng(0)
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
    noise = rng.gumbel(size=(400_000, 3))
    first, second = (np.argmax(np.log(row) + noise, axis=1) for row in (p, q))
    for observed in range(3):
        replayed = second[first == observed]
        expected = np.bincount(replayed, minlength=3) / replayed.size
        np.testing.assert_allclose(tether.counterfactual_row(p, observed, q), expected, atol=0.005)


def test_leading_axes_are_broadcast():
    p, q = np.array([[0.5, 0.5], [0.1, 0.9]]), np.array([0.3, 0.7])
    many = tether.counterfactual_row(p[:, None], np.array([0, 1]), q)
    assert many.shape == (2, 2, 2)
    for i in range(2):
        for j in range(2):
            np.testing.assert_allclose(many[i, j], tether.counterfactual_row(p[i], j, q), rtol=1e-14)


def test_rows_agree_with_the_counterfactual_mdp():
    grid = tether.cases.grid_world()
    cf = tether.counterfactual(grid.mdp, grid.path)
    P, _ = grid.mdp.to_arrays()
    x = tether.counterfactual_row(P[2, grid.mdp.action_index("down")], 6, P[2, grid.mdp.action_index("left")])
    states, chances = cf.row(2, 2, "left")
    np.testing.assert_allclose(x[list(states)], chances, rtol=1e-12)


def test_an_order_of_outcomes():
    same = tether.counterfactual_row([0.5, 0.5], 0, [0.25, 0.75], "comonotone", order=[1, 0])
    np.testing.assert_allclose(same, [0.5, 0.5])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (([0.5, 0.6], 0, [0.5, 0.5]), "p is not a distribution: it sums to 1.1"),
        (([0.5, 0.5], 0, [[0.5, 0.5], [1.0, 0.2]]), r"q\[1\] is not a distribution"),
        (([0.5, 0.5], 2, [0.5, 0.5]), "observed is 2; there are outcomes 0 … 1"),
        (([1.0, 0.0], 1, [0.5, 0.5]), "p gives it probability 0"),
        (([0.5, 0.5], 0.5, [0.5, 0.5]), "observed must be the index"),
        (([0.5, 0.5], 0, [0.2, 0.3, 0.5]), "p has 2, q has 3"),
        (([[0.5, 0.5]] * 2, [0, 1, 0], [0.5, 0.5]), "do not fit together"),
        (([0.5, np.nan], 0, [0.5, 0.5]), "p is not a distribution"),
        (("ab", 0, [0.5, 0.5]), "p must be an array of probabilities"),
        (([0.5, 0.5], 0, [0.5, 0.5], "luck"), "there is no mechanism 'luck'"),
    ],
)
def test_what_is_refused(arguments, says):
    with pytest.raises(QueryError, match=says):
        tether.counterfactual_row(*arguments)


def maximal(p, observed, q):
    stays = min(1.0, q[observed] / p[observed])
    rest = np.maximum(q - p, 0.0)
    rest[observed] = 0.0
    x = (1.0 - stays) * (rest / rest.sum() if rest.sum() else rest)
    x[observed] = stays
    return x


def test_a_function_is_a_mechanism():
    grid = tether.cases.grid_world()
    own = tether.counterfactual(grid.mdp, grid.path, mechanism=maximal)
    built_in = tether.counterfactual(grid.mdp, grid.path, mechanism="maximal")
    np.testing.assert_allclose(own.sweep().values, built_in.sweep().values, rtol=1e-12)
    assert own.mechanism.name == "maximal"
    assert isinstance(own.mechanism, tether.Mechanism)


def test_a_function_is_asked_once_for_rows_with_the_same_numbers(grid):
    """Its answers are for numbers, wherever the outcomes are: they are those of asking always."""
    asked = []

    def noted(p, observed, q):
        asked.append((grid.T, p.tobytes(), observed, q.tobytes()))
        q *= tether.counterfactual_row(p, observed, q) > 0  # what it does to its arguments is its own affair
        return q / q.sum()

    found = tether.counterfactual(grid.mdp, grid.path, mechanism=noted)
    rows = sum(layer.edits.pairs.size for layer in found.graph.layers[:-1])
    assert len(set(asked)) <= len(asked) < rows / 2
    for t in range(3):
        for state in grid.mdp.states[:6]:
            for action in grid.mdp.actions:
                if (state, action) == (grid.path.states[t], grid.path.actions[t]) or state not in found.reachable(t):
                    continue
                gumbel = dict(zip(*tether.counterfactual(grid.mdp, grid.path).row(t, state, action), strict=True))
                nominal = dict(zip(*grid.mdp.row(state, action), strict=True))
                kept = {s: nominal[s] for s in gumbel}
                expected = {s: chance / sum(kept.values()) for s, chance in kept.items()}
                assert dict(zip(*found.row(t, state, action), strict=True)) == pytest.approx(expected)


def test_an_object_that_is_nearly_a_mechanism_hears_what_it_lacks(grid):
    class Half:
        def infer(self, step):
            return tether.GumbelMax().infer(step)

    with pytest.raises(QueryError, match="Half lacks 'name', 'standard_error' of"):
        tether.counterfactual(grid.mdp, grid.path, mechanism=Half())


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda p, observed, q: q * 0.5, "does not sum to 1"),
        (lambda p, observed, q: q[:-1], "must return 4 probabilities"),
        (lambda p, observed, q: -q, "negative"),
        (lambda p, observed, q: p, "an outcome that q cannot lead to|repeat"),
    ],
)
def test_rows_of_a_function_are_checked(function, says):
    P = np.zeros((4, 2, 4))
    P[0, 0] = [0.25, 0.25, 0.25, 0.25]
    P[0, 1] = [0.5, 0.5, 0.0, 0.0]
    for s in (1, 2, 3):
        P[s, :, s] = 1.0
    mdp = tether.MDP.from_arrays(P)
    with pytest.raises(QueryError, match=says):
        tether.counterfactual(mdp, tether.Path([0, 2], [0]), mechanism=function).plan(k=2, m=1)
