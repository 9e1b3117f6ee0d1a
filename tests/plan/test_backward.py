"""Backward induction at its limits: absorbing states, many actions, long horizons, little memory."""

import errno
import mmap
import time

import numpy as np
import pytest
from effort import tries
from hypothesis import assume, given
from hypothesis import strategies as st
from worlds import World, in_package, rules_and_criteria, tiny_worlds, worlds

import tether
from tether.observation.changes import nothing_to_change
from tether.plan.best_values import solve_backward

RULES = ("definition", "published", "printed", "assured")


# --- Absorbing states -----------------------------------------------------------------------------


def escape(steps, exit_actions):
    """A way on for ``steps`` steps that pays -1 each, and a way out, to a state that only leads back to itself."""
    weights = {("way", "on"): {"way": 1.0}, ("way", "leave"): {"home": 1.0}}
    weights |= {("home", a): {"home": 1.0} for a in exit_actions}
    actions = ["on", "leave", "rest"]
    R = np.zeros((2, 3))
    R[0] = -1.0
    path = tether.Path(["way"] * (steps + 1), ["on"] * steps)
    return World(["way", "home"], actions, weights, path, R, "sa")


@pytest.mark.parametrize("exit_actions", [["rest"], ["leave", "rest"], ["on", "leave", "rest"]])
@pytest.mark.parametrize("m", [1, 2])
def test_resting_where_nothing_else_can_be_done_is_no_change(exit_actions, m):
    # One change, at once, ends the costs whatever the actions of the state at the end are called.
    plan = escape(6, exit_actions).cf.plan(7, m)
    assert plan.value == -1.0
    outlook = plan.evaluate()
    assert outlook.changed.tolist() == [1, 0, 0, 0, 0, 0]
    assert plan.to_arrow()["changed"].to_pylist()[:-1] == [True, False, False, False, False, False]


def test_resting_somewhere_else_is_a_change():
    # "home" leads on to "yard" now: it is not absorbing, and "rest" there is a choice.
    weights = {("way", "on"): {"way": 1.0}, ("way", "leave"): {"home": 1.0}, ("home", "rest"): {"yard": 1.0}}
    weights["yard", "rest"] = {"yard": 1.0}
    R = np.array([[-1.0, -1.0, 0.0], [0.0] * 3, [0.0] * 3])
    path = tether.Path(["way"] * 4, ["on"] * 3)
    world = World(["way", "home", "yard"], ["on", "leave", "rest"], weights, path, R, "sa")
    # With one change nobody gets through "home"; with two, "yard" is free.
    assert [world.cf.plan(4, m).value for m in range(3)] == [-3.0, -3.0, -1.0]


@given(worlds())
def test_where_there_is_nothing_to_change(world):
    mdp = world.cf.mdp
    states = np.arange(mdp.n_states, dtype=np.int32)
    for t, action in enumerate(world.path.actions):
        found = nothing_to_change(mdp.form, states, mdp.actions.index(action))
        for s, name in enumerate(mdp.states):
            others = [a for a in world.available(name) if a != action]
            expected = bool(world.available(name)) and all(world.changed(t, name, a) == 0 for a in others)
            assert found[s] == (expected and action not in world.available(name))


# --- Many actions, and ties over long horizons ------------------------------------------------------


def test_more_actions_than_a_small_integer_counts():
    n = 40_000
    reward = np.zeros(n)
    reward[39_999] = 1.0
    mdp = tether.MDP.from_table(["s"] * n, range(n), ["s"] * n, [1.0] * n, reward=reward)
    plan = tether.counterfactual(mdp, tether.Path(["s"] * 3, [0, 0])).plan(3, 2)
    assert plan.value == 2.0
    assert [plan.action(0, "s", 2), plan.action(1, "s", 1)] == [39_999, 39_999]


def fork(seed, n=6, T=200):
    """A fork whose two ways lead to mirror images of one chain: the same numbers, with the states in another order.

    The episode stays before the fork, at a cost, and says nothing of what is behind it.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)
    left, right = 2 + np.arange(n), 2 + n + order
    P, R = np.zeros((2 * n + 2, 2, 2 * n + 2)), np.zeros((2 * n + 2, 2))
    P[0, 0, 0], P[0, 1, 1], R[0, 0] = 1.0, 1.0, -100.0
    P[1, 0, left] = P[1, 1, right] = rng.dirichlet(np.ones(n))
    for s in range(n):
        P[left[s], 0, left] = P[right[s], 0, right] = rng.dirichlet(np.ones(n))
        R[left[s], 0] = R[right[s], 0] = rng.normal(scale=10.0)
    for s in range(2, 2 * n + 2):
        P[s, 1], R[s, 1] = P[s, 0], R[s, 0]
    return tether.MDP.from_arrays(P, R), tether.Path([0] * (T + 1), [0] * T)


@pytest.mark.parametrize("seed", range(tries(5, 20)))
def test_over_long_horizons_ties_are_still_ties(seed):
    mdp, path = fork(seed)
    plan = tether.counterfactual(mdp, path).plan(201, 3)
    assert plan.action(0, 0, 3) == 1
    visited = plan.chain.visits
    assert [plan.action(t, int(s), 2) for t in range(1, 200) for s in visited[t].states] == [0] * sum(
        visited[t].size for t in range(1, 200)
    )
    assert [mdp.solve(200).action(t, 1) for t in (0, 100, 199)] == [0, 0, 0]


# --- Large layers ------------------------------------------------------------------------------------


@given(worlds(), rules_and_criteria(), st.data())
def test_on_all_cores_the_choices_are_the_same(world, asked, data):
    """In every node, not only in those that are visited."""
    assume(world.T >= 2)
    rule, criterion = asked
    found = world.cf.tether(rule=rule, influence=in_package(criterion)).thresholds()
    m, k = data.draw(st.integers(2, min(3, world.T))), np.array([data.draw(st.integers(1, world.T + 1))])
    alone = solve_backward(found, k, m, keep=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tether._kernels.parallel.LARGE", 1)
        on_all_cores = solve_backward(found, k, m, keep=True)
    assert alone.values.tobytes() == on_all_cores.values.tobytes()
    for one, another in zip(alone.choices, on_all_cores.choices, strict=True):
        np.testing.assert_array_equal(one, another)


# --- Memory that is too small -----------------------------------------------------------------------


def test_memory_that_the_system_does_not_give(monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    cf = escape(6, ["on", "rest"]).cf
    monkeypatch.setattr("tether._kernels.scratch._LARGE", 0)
    monkeypatch.setattr(mmap, "mmap", refuse)
    with pytest.raises(tether.QueryError, match=r"the system gives no memory for an array of .* GiB .*Cannot"):
        cf.sweep(rule="assured")


# --- What constrains nothing costs nothing -----------------------------------------------------------


@given(tiny_worlds(), st.sampled_from(RULES))
def test_beyond_the_end_no_rule_looks_at_runs(world, rule):
    plan = world.cf.plan(world.T + 1, world.T, rule=rule)
    assert all(nodes.runs.size == 0 for nodes in plan.nodes)
    assert plan.value == pytest.approx(world.cf.sweep(rule="definition").value(world.T + 1, world.T))


def test_long_runs_in_no_time():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.full(12, 0.2), size=(12, 2))
    mdp = tether.MDP.from_arrays(P, rng.normal(size=(12, 2)))
    plan = tether.counterfactual(mdp, mdp.simulate("random", 100, rng=1)).plan(101, 60)
    tailoring = plan.evaluate().tailoring
    start = time.process_time()
    chance = tailoring.run_at_least
    assert time.process_time() - start < 5.0  # it took 14 s
    assert chance[0] == 1.0
    assert np.all(np.diff(chance) <= 1e-12)
