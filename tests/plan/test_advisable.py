"""Which changes may be advised, and what they cost: against all policies, under every rule (METHOD: planning)."""

import math
import pickle

import numpy as np
import pytest
from brute import Promise, count_policies, influenced, policies, smallest_k, trajectories
from hypothesis import assume, given
from hypothesis import strategies as st
from planned import close
from worlds import FEWER, RULES, SUPPORT, tiny_worlds

import tether


@st.composite
def limits(draw, world):
    """only, never and cost, and what they mean: whether a change is permitted, and its price."""
    steps = draw(st.sets(st.integers(0, world.T - 1), min_size=1))
    actions = draw(st.sets(st.sampled_from(world.actions), min_size=1))
    pair = draw(st.sampled_from(sorted(world.weights)))
    price = draw(st.sampled_from([0.5, 2.0]))
    kinds = {
        "steps": (list(steps), lambda t, s, a: t in steps),
        "actions": (list(actions), lambda t, s, a: a in actions),
        "pair": (pair, lambda t, s, a: (s, a) == pair),
        "both": ([pair, {"step": list(steps), "action": list(actions)}],
                 lambda t, s, a: (s, a) == pair or (t in steps and a in actions)),
        "test": (lambda state, action: (state, action) != pair, lambda t, s, a: (s, a) != pair),
        "timed": (lambda t, state, action: t in steps or state == pair[0], lambda t, s, a: t in steps or s == pair[0]),
    }  # fmt: skip
    which, permits = kinds[draw(st.sampled_from(sorted(kinds)))]
    asked, fits = draw(st.sampled_from([
        ({"only": which}, permits),
        ({"never": which}, lambda t, s, a: not permits(t, s, a)),
        ({}, lambda t, s, a: True),
    ]))  # fmt: skip
    some = sorted(actions)[0]
    costs, of_change = draw(st.sampled_from([
        ({}, lambda t, s, a: 0.0),
        ({"cost": price}, lambda t, s, a: price),
        ({"cost": {some: price}}, lambda t, s, a: price if a == some else 0.0),
        ({"cost": lambda t, state, action: price * t}, lambda t, s, a: price * t),
    ]))  # fmt: skip
    return asked | costs, fits, of_change


def best_of_permitted(world, rule, permits, price):
    """[k - 1, m]: the best value less the price of its changes, of all policies that keep to all limits."""
    start, hits = world.path.states[0], influenced(world, SUPPORT)
    least = {} if rule == "assured" else smallest_k(world, rule, hits)
    table = np.full((world.T + 1, world.T + 1), -math.inf)
    for policy in policies(world, 0, start):
        happening = list(trajectories(world, policy, 0, start))
        one = Promise.of(world, happening)
        if not all(permits(t, s, a) for t, s, a in one.taken if world.changed(t, s, a)):
            continue
        paid = math.fsum(
            chance * world.discount**t * price(t, s, a)
            for chance, pairs, _ in happening
            for t, (s, a) in enumerate(pairs)
            if world.changed(t, s, a)
        )
        for k in range(1, world.T + 2):
            keeps = one.keeps_to(world, rule, hits, k) if rule == "assured" else all(least[at] <= k for at in one.taken)
            if keeps:
                table[k - 1, one.changes :] = np.maximum(table[k - 1, one.changes :], one.value - paid)
    return table


@pytest.mark.parametrize("rule", RULES)
@FEWER
@given(data=st.data(), world=tiny_worlds())
def test_values_by_all_policies(rule, data, world):
    assume(count_policies(world) <= 300)
    asked, permits, price = data.draw(limits(world))
    table = world.cf.sweep(rule=rule, **asked)
    close(table.values, best_of_permitted(world, rule, permits, price))
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(0, world.T))
    plan = world.cf.plan(k, m, rule=rule, **asked)
    close(plan.value - plan.paid, table.value(k, m))
    close(plan.value, plan.evaluate().value)
    assert all(permits(one.t, one.state, one.action) for one in plan.changes)


@FEWER
@given(data=st.data(), world=tiny_worlds())
def test_minimised_is_the_negative_of_maximised(data, world):
    assume(world.R is not None)
    asked, _, _ = data.draw(limits(world))
    least = world.cf.sweep(minimise=True, **asked)
    world.R, world.final = -world.R, None if world.final is None else {s: -one for s, one in world.final.items()}
    close(least.values, -world.conditioned().sweep(**asked).values)


def test_what_was_done_is_never_forbidden(epidemic):
    """Also where a state is absorbing and does not have the observed action: no action is a change there."""
    plan = epidemic.plan(k=8, m=3, only=[])
    assert plan.value == epidemic.plan(m=0).value
    assert plan.changes == ()
    assert epidemic.plan(k=8, m=3, never=["V_I", "V_S"]).gain == 0.0


def test_a_change_that_costs_more_than_it_gains_is_not_advised(epidemic):
    free = epidemic.plan(k=7, m=4)
    dear = epidemic.plan(k=7, m=4, cost=100)
    assert dear.gain == 0.0
    assert dear.paid == 0.0
    assert free.paid == 0.0
    some = epidemic.plan(k=7, m=4, cost=5)
    assert 0.0 < some.gain < free.gain
    assert some.gain > some.paid > 0.0
    assert epidemic.sweep(cost=5).value(7, 4) == pytest.approx(some.value - some.paid, abs=1e-12)


def test_plans_and_questions_are_pickled_with_their_limits(epidemic):
    plan = epidemic.plan(k=8, m=2, never=[0, "V_S"], cost={"V_I": 0.25})
    again = pickle.loads(pickle.dumps(plan))
    assert again.value == plan.value
    assert again.paid == plan.paid
    assert str(again.advisable) == str(plan.advisable)
    assert epidemic.tether(never=[0]) is epidemic.tether(never=[0]) is not epidemic.tether(never=[1])


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"only": "treat"}, "no action 'treat'"),
        ({"only": {"stp": 2}}, "keys step, state, action"),
        ({"never": -1}, "whole number from 0"),
        ({"never": True}, "no action True"),
        ({"cost": -1.0}, "a price is a number from 0"),
        ({"cost": {"V_I": math.inf}}, "a price is a number from 0"),
        ({"cost": {"treat": 1.0}}, "no action 'treat'"),
        ({"only": lambda action: True}, "takes \\(state, action\\)"),
        ({"only": ("nowhere", "V_I")}, "no label or state called 'nowhere'"),
        ({"cost": 1.0, "subject_to": (tether.reach("over"), 0.5)}, "leave out cost="),
    ],
)
def test_limits_that_mean_nothing(epidemic, asked, message):
    with pytest.raises(tether.errors.QueryError, match=message):
        epidemic.plan(k=8, m=2, **asked)


def test_a_number_that_may_be_a_step_or_an_action():
    mdp = tether.MDP.from_arrays([[[0.5, 0.5], [0.25, 0.75]], [[0, 1], [0, 1]]], [[0, 0], [1, 1]])
    cf = tether.counterfactual(mdp, tether.Path([0, 0], [0]))
    with pytest.raises(tether.errors.QueryError, match="a step or an action"):
        cf.plan(k=2, m=1, never=1)
    assert cf.plan(k=2, m=1, never={"action": 1}).changes == ()
    assert cf.plan(k=2, m=1, never={"step": 1}).changes == cf.plan(k=2, m=1).changes
