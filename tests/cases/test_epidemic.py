"""The epidemic with other populations: the same laws, exactly, and the part of it that an episode can reach."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tether
from tether.cases.epidemic import EpidemicState, _explored, _hypergeometric, actions, step


@st.composite
def draws(draw):
    M = draw(st.integers(1, 400))
    return M, draw(st.integers(0, M)), draw(st.integers(0, M))


@given(draws())
def test_the_law_is_hypergeometric_to_the_last_bit(draw):
    """Against the formula in whole numbers: a fraction rounds once, to the nearest float."""
    M, n, N = draw
    exact = {k: Fraction(comb(n, k) * comb(M - n, N - k), comb(M, N)) for k in range(min(n, N) + 1)}
    assert sum(exact.values()) == 1
    assert dict(_hypergeometric(M, n, N)) == {k: float(chance) for k, chance in exact.items() if chance}


def test_what_is_explored_is_part_of_the_table():
    case = tether.cases.epidemic()
    part = _explored(case.path.states[0], case.path.T)
    assert part.horizon == 7
    for state in part.states:
        for action in part.actions_in(state):
            mine, table = part.row(state, action), case.mdp.row(state, action)
            assert dict(zip(*mine, strict=True)) == pytest.approx(dict(zip(*table, strict=True)), rel=1e-14)
            assert part.reward(state, action) == case.mdp.reward(state, action)
    whole, explored = (tether.counterfactual(mdp, case.path) for mdp in (case.mdp, part))
    assert [set(whole.reachable(t)) for t in range(8)] == [set(explored.reachable(t)) for t in range(8)]
    assert np.allclose(whole.sweep().values, explored.sweep().values, rtol=1e-12)


def can_follow(state):
    """Where one step can lead: who is vaccinated leaves, then up to min(S, I) people fall ill."""
    S, I, V = state  # noqa: E741
    after = set()
    for s, i, v in [(S, I, V), (S, I - 1, V - 1), (S - 1, I, V - 1)]:
        if min(s, i, v) >= 0 and s + i > 0:
            # Of S people met, at least those must be infected for whom there are not enough well ones to meet.
            fewest = max(0, s + min(s, i) - (s + i))
            after |= {(s - k, i + k, v) for k in range(fewest, min(s, i) + 1)}
    return after


def test_two_hundred_people():
    """Of 201·201·401 = 16,200,801 states (S, I, V), fifteen steps reach 3,095."""
    case = tether.cases.epidemic(population=200, steps=15)
    assert repr(case) == "<Case epidemic: 3,095 states, 3 actions; paths observed>"
    assert case.mdp.horizon == case.path.T == 15
    reached = layer = {(199, 1, 400)}
    for _ in range(15):
        layer = {after for state in layer for after in can_follow(state)} - reached
        reached = reached | layer
    assert set(case.mdp.states) == reached
    assert all(type(state) is EpidemicState for state in case.mdp.states)
    assert case.path.states[:6] == (
        (199, 1, 400),
        (198, 2, 400),
        (196, 4, 400),
        (192, 8, 400),
        (184, 16, 400),
        (169, 31, 400),
    )


@pytest.mark.compiled
def test_two_hundred_people_and_one_vaccination():
    case = tether.cases.epidemic(population=200, steps=15)
    plan = tether.counterfactual(case.mdp, case.path).plan(k=16, m=1)
    assert plan.value == -1  # the one who is ill is vaccinated at once: ill for one step
    assert plan.observed_value == -sum(state.I for state in case.path.states[:-1])


@given(st.integers(2, 60), st.integers(1, 6))
def test_the_observed_outbreak_takes_the_likeliest_course(population, steps):
    path = tether.cases.epidemic(population=population, steps=steps + 7).path  # other than the paper's
    assert steps + 7 == path.T
    assert path.states[0] == (population - 1, 1, 2 * population)
    for before, action, after in zip(path.states, path.actions, path.states[1:], strict=False):
        outcomes = step(before, action)
        assert action == "NIL"
        assert outcomes[after] == max(outcomes.values())


def test_nobody_is_vaccinated_last():
    assert actions(EpidemicState(0, 1, 3)) == ["NIL"]
    assert actions(EpidemicState(1, 1, 3)) == ["NIL", "V_I", "V_S"]
    assert actions(EpidemicState(1, 1, 0)) == ["NIL"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"population": 1}, "population must be a whole number ≥ 2, not 1"),
        ({"population": 10.0}, "population must be a whole number ≥ 2, not 10.0"),
        ({"steps": 0}, "steps must be a whole number ≥ 1, not 0"),
        ({"steps": True}, "steps must be a whole number ≥ 1, not True"),
    ],
)
def test_what_cannot_be(options, message):
    with pytest.raises(tether.QueryError) as caught:
        tether.cases.epidemic(**options)
    assert str(caught.value) == message
