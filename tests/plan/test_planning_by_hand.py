"""Plans worked out by hand, and questions that no plan answers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import World, worlds

import tether

# --- By hand -------------------------------------------------------------------------------------


def clinic(R=None, axes=None, **options) -> World:
    """Sick on two days and waited, well on the third. Treating works with 3/4, waiting with 1/2."""
    weights = {
        ("sick", "wait"): {"sick": 0.5, "well": 0.5},
        ("sick", "treat"): {"sick": 0.25, "well": 0.75},
        ("well", "wait"): {"well": 1.0},
    }
    path = tether.Path(["sick", "sick", "well"], ["wait", "wait"])
    return World(["sick", "well"], ["wait", "treat"], weights, path, R, axes, **options)


# Given that waiting left her sick at t = 0, treating has r = (2, 2/3) for (sick, well): D(2) = 1/2 + 3/4·2 = 2, so
# she stays sick with 1/2, not 1/4. Given that waiting cured her at t = 1, treating cures with certainty (stability).


def test_rewards_of_pairs_by_hand():
    # 1 for each day that begins well, minus 1/4 for a treatment.
    cf = clinic(np.array([[0.0, -0.25], [1.0, 1.0]]), "sa").cf
    assert cf.row(0, "sick", "treat")[1].tolist() == [0.5, 0.5]
    plan = cf.plan(k=1, m=1)
    assert plan.observed_value == 0.0
    assert plan.value == pytest.approx(0.25)  # -1/4 + 1/2·1
    assert plan.gain == pytest.approx(0.25)
    assert [plan.action(0, "sick", 1), plan.action(1, "sick", 0), plan.action(1, "well", 0)] == [
        "treat",
        "wait",
        "wait",
    ]


def test_rewards_of_transitions_are_expected_under_the_counterfactual_row():
    R = np.zeros((2, 2, 2))
    R[0, 1] = [0.0, 8.0]  # for being cured by a treatment
    cf = clinic(R, "sas").cf
    # At t = 0 treating is worth 8·1/2 (6 by the nominal row), at t = 1 it is worth 8: she would have been cured.
    assert cf.sweep().values[-1].tolist() == pytest.approx([0.0, 8.0, 8.0])
    only_first = clinic(np.stack([R, np.zeros((2, 2, 2))]), "tsas").cf
    assert only_first.sweep().values[-1].tolist() == pytest.approx([0.0, 4.0, 4.0])


def test_rewards_of_a_time():
    R = np.zeros((2, 2, 2))
    R[1, 1, 0] = 3.0  # on the second day, for being well
    assert clinic(R, "tsa").cf.plan(2, 1).value == pytest.approx(1.5)
    R[0, 0, 1] = -1.6  # on the first day, for a treatment: not worth it any more
    assert clinic(R, "tsa").cf.plan(2, 1).value == 0.0


def test_discount_and_final_reward_by_hand():
    R = np.array([[-1.0, -2.0], [0.0, 0.0]])
    cf = clinic(R, "sa", discount=0.5, final={"well": 8.0}).cf
    # Waiting: -1 - 1/2·1 + 1/4·8 = 1/2. Treated at once: -2 - 1/2·(1/2·1) + 1/4·8 = -1/4.
    assert cf.plan(3, 0).value == cf.plan(3, 0).observed_value == 0.5
    best = cf.plan(3, 2)
    assert best.value == 0.5
    assert [best.action(t, "sick", 2) for t in (0, 1)] == ["wait", "wait"]


def test_a_last_outcome_that_was_not_recorded():
    world = clinic(np.array([[0.0, -0.25], [1.0, 1.0]]), "sa", final={"well": 4.0})
    world.path = tether.Path(["sick", "sick"], ["wait", "wait"])
    cf = world.cf
    # The last day is nominal: waiting cures with 1/2, treating with 3/4.
    assert cf.plan(1, 0).value == cf.plan(1, 0).observed_value == 2.0
    assert cf.plan(1, 1).value == pytest.approx(-0.25 + 0.5 * 2.0 + 0.5 * 5.0)  # treated on the first day
    assert cf.plan(1, 1).action(0, "sick", 1) == "treat"


def test_an_infeasible_promise_is_not_worth_0():
    # Going astray pays 100 at once, but the observed action is not to be had there: a second change is needed.
    weights = {
        ("road", "walk"): {"road": 1.0},
        ("road", "stray"): {"wood": 1.0},
        ("wood", "search"): {"wood": 1.0},
    }
    R = np.array([[-1.0, 100.0, 0.0], [0.0, 0.0, -1000.0]])
    world = World(
        ["road", "wood"], ["walk", "stray", "search"], weights, tether.Path(["road"] * 3, ["walk"] * 2), R, "sa"
    )
    assert world.cf.sweep().values.tolist() == [[-2, -2, -2], [-2, 99, 99], [-2, 99, 99]]  # strays on the last day
    cf = world.cf
    assert cf.plan(3, 1).action(0, "road", 1) == "walk"
    assert cf.plan(3, 1).action(1, "wood", 0) is None


# --- Bad input -----------------------------------------------------------------------------------

NOT_WHOLE = [1.0, 0.5, "1", None, True, False, [1], float("nan"), np.float64(2.0), 1j]


@pytest.mark.parametrize("k", [0, -1, *(one for one in NOT_WHOLE if one is not None)])
def test_k_must_be_a_whole_number_from_1(k):
    cf = clinic().cf
    for ask in (lambda: cf.plan(k, 1), lambda: cf.plan(k=k, m=0, rule="assured"), lambda: cf.sweep(ks=[1, k])):
        with pytest.raises(tether.QueryError, match=r"^ks? must be a whole number ≥ 1, not"):
            ask()


@pytest.mark.parametrize("m", [-1, -7, *NOT_WHOLE])
def test_m_must_be_a_whole_number_from_0(m):
    cf = clinic().cf
    for ask in (lambda: cf.plan(1, m), lambda: cf.sweep(ms=[0, m]), lambda: cf.choose_k(m, 0.0)):
        with pytest.raises(tether.QueryError, match=r"^ms? must be a whole number ≥ 0, not"):
            ask()


def test_the_offending_value_is_in_the_error():
    with pytest.raises(tether.QueryError, match=r"^k must be a whole number ≥ 1, not -3$") as caught:
        clinic().cf.plan(-3, 1)
    assert caught.value.problems[0].value == -3


@given(worlds(), st.integers(0, 10), st.integers(0, 10))
def test_beyond_the_end_k_and_m_mean_the_end(world, more_k, more_m):
    T = world.T
    plan, capped = world.cf.plan(T + 1 + more_k, T + more_m), world.cf.plan(T + 1, T)
    assert (plan.k, plan.m) == (capped.k, capped.m) == (T + 1, T)
    assert plan.value == capped.value
    assert world.cf.choose_k(T + more_m, plan.value) == world.cf.choose_k(T, plan.value)


def test_whole_numbers_of_other_kinds_will_do():
    cf = clinic().cf
    assert cf.plan(np.int64(2), np.uint8(1)).k == 2
    assert cf.sweep(ks=np.arange(1, 3), ms=iter([0, 1])).values.shape == (2, 2)
    assert cf.plan(10**30, 10**30).k == 3


def test_nothing_asked_for():
    cf = clinic().cf
    with pytest.raises(tether.QueryError, match=r"ks is empty; leave it out for all of 1 … 3"):
        cf.sweep(ks=[])
    with pytest.raises(tether.QueryError, match=r"ms is empty; leave it out for all of 0 … 2"):
        cf.sweep(ms=())


@pytest.mark.parametrize("given", [3, 2.5, True])
def test_one_number_is_not_a_list_of_them(given):
    cf = clinic().cf
    with pytest.raises(tether.QueryError, match=r"ks must be a list of whole numbers ≥ 1, not"):
        cf.sweep(ks=given)
    with pytest.raises(tether.QueryError, match=r"ms must be a list of whole numbers ≥ 0, not"):
        cf.sweep(ms=given)


@pytest.mark.parametrize("at_least", [float("nan"), float("inf"), -float("inf"), "0", None, True, [1.0], 1j])
def test_a_threshold_must_be_a_finite_number(at_least):
    with pytest.raises(tether.QueryError, match=r"^at_least must be a finite number, not"):
        clinic().cf.choose_k(1, at_least)


def test_asking_a_plan_for_what_does_not_exist():
    plan = clinic().cf.plan(1, 1)
    with pytest.raises(tether.QueryError, match=r"t must be a whole number from 0 to 1, not 2"):
        plan.action(2, "sick", 1)
    with pytest.raises(tether.QueryError, match=r"no state 'dead'"):
        plan.action(0, "dead", 1)
    for changes in (-1, 0.0, True, None):
        with pytest.raises(tether.QueryError, match=r"changes_left must be a whole number ≥ 0"):
            plan.action(0, "sick", changes)
    assured = clinic().cf.plan(1, 1, rule="assured")
    with pytest.raises(tether.QueryError, match=r"uninfluenced must be a whole number ≥ 0, not -1"):
        assured.action(0, "sick", 1, uninfluenced=-1)
