"""The plain model: solved, simulated and evaluated, against enumeration and an induction of its own."""

import math
from itertools import product

import numpy as np
import pytest
from enumerate import Law, assert_evaluates, by_table, tables
from hypothesis import assume, given
from hypothesis import strategies as st
from worlds import worlds

import tether
from tether.evaluation.plain import best_for_anyone


@pytest.fixture(autouse=True, scope="module")
def _quiet():
    """With the JIT off NumPy warns of 0·(-∞), an infeasible future that does not count; compiled code does not."""
    with np.errstate(invalid="ignore"):
        yield


@pytest.fixture(scope="module")
def grid():
    return tether.cases.grid_world().mdp


def explored(horizon=3):
    """Stay or go up, from 0, for so many steps; the reward is where one is. The last state is known, not explored."""
    return tether.MDP.from_function(
        0, lambda s: ["stay", "up"], lambda s, a: {s + (a == "up"): 1.0}, lambda s, a: s, horizon=horizon
    )


def action_values(world, t, s, after):
    """R + γ·Σ P·V of each action that leads nowhere without a way on; ``after`` gives V_{t+1}."""
    found = {}
    for a in world.available(s):
        row = world.nominal[s, a]
        if all(after[j] > -math.inf for j in row):
            found[a] = math.fsum(p * (world.earn(t, s, a, j) + world.discount * after[j]) for j, p in row.items())
    return found


def induction(world, T):
    """V_t(s) for t = 0 … T, and the values of the actions behind it."""
    values = [{s: world.last(s) for s in world.states}]
    behind = []
    for t in range(T - 1, -1, -1):
        behind.append({s: action_values(world, t, s, values[-1]) for s in world.states})
        values.append({s: max(behind[-1][s].values(), default=-math.inf) for s in world.states})
    return values[::-1], behind[::-1]


# --- The optimal plan --------------------------------------------------------------------------------


@given(worlds(), st.integers(1, 9))
def test_however_the_states_are_cut_into_pieces_the_bits_are_the_same(world, pieces):
    whole = world.cf.mdp.solve(world.T)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tether._kernels.parallel.LARGE", 1)
        patch.setattr("tether.core.plan.CHUNKS", pieces)
        cut = world.cf.mdp.solve(world.T)
    assert whole.values.tobytes() == cut.values.tobytes()
    np.testing.assert_array_equal(whole.choices, cut.choices)


@given(worlds())
def test_values_by_induction(world):
    solution = world.cf.mdp.solve(world.T)
    values, behind = induction(world, world.T)
    for t in range(world.T + 1):
        for s in world.states:
            assert solution.value(s, t) == pytest.approx(values[t][s], rel=1e-12, abs=1e-11)
    for t in range(world.T):
        for s in world.states:
            a = solution.action(t, s)
            if not world.available(s):
                assert a is None
            else:
                assert behind[t][s][a] == pytest.approx(values[t][s], rel=1e-12, abs=1e-11)


@given(worlds(max_states=3, max_actions=2, max_steps=3, widest=2))
def test_no_policy_does_better(world):
    # Every deterministic policy of time and state: what is random or remembers more is a mixture of these.
    where = [(t, s) for t in range(world.T) for s in world.states if world.available(s)]
    assume(math.prod(len(world.available(s)) for _, s in where) <= 600)
    start = world.path.states[0]
    worths = []
    for choice in product(*(world.available(s) for _, s in where)):
        table = {at: {a: 1.0} for at, a in zip(where, choice, strict=True)}
        law = Law(world, by_table(table), nominal=True)
        worths.append(law.mean(law.total))
    assert world.cf.mdp.solve(world.T).value(start) == pytest.approx(max(worths), rel=1e-11, abs=1e-11)


@given(worlds(exact=True))
def test_ties_go_to_the_lowest_index(world):
    solution = world.cf.mdp.solve(world.T)
    _, behind = induction(world, world.T)
    for t in range(world.T):
        for s in world.states:
            tried = behind[t][s]
            assert solution.action(t, s) == max(tried, key=tried.get, default=None)  # the first of the best


def test_rounding_does_not_break_a_tie():
    # 0.1 + 0.2 is more than 0.3 by one rounding: still a tie, so the first.
    assert 0.1 + 0.2 > 0.3
    mdp = tether.MDP.from_arrays(np.ones((1, 2, 1)), [[0.3, 0.1 + 0.2]], actions=["first", "second"])
    assert mdp.solve(1).action(0, 0) == "first"
    mdp = tether.MDP.from_arrays(np.ones((1, 2, 1)), [[0.3, 0.3 + 1e-12]], actions=["first", "second"])
    assert mdp.solve(1).action(0, 0) == "second"


def test_a_solution_by_hand():
    # Two steps, discount 1/2: "wait" earns 1; "work" earns 0 and, half the time, leads to a rest that earns 8.
    mdp = tether.MDP.from_table(
        ["desk", "desk", "desk", "rest"],
        ["wait", "work", "work", "wait"],
        ["desk", "desk", "rest", "rest"],
        [1.0, 0.5, 0.5, 1.0],
        [1.0, 0.0, 0.0, 8.0],
    ).with_objective(discount=0.5, final_reward={"desk": 4.0})
    solution = mdp.solve(2)
    # t = 1: wait 1 + ½·4 = 3; work ½·(½·4 + ½·0) = 1; rest 8.  t = 0: wait 1 + ½·3 = 2.5; work ½·(½·3 + ½·8) = 2.75.
    assert [solution.value("desk", t) for t in range(3)] == [2.75, 3.0, 4.0]
    assert [solution.value("rest", t) for t in range(3)] == [12.0, 8.0, 0.0]
    assert [solution.action(t, "desk") for t in range(2)] == ["work", "wait"]
    assert solution(0, "desk") == "work"
    assert (solution.horizon, repr(solution)) == (2, "<Solution: 2 steps, 2 states>")


def test_states_at_the_frontier_have_no_action():
    solution = explored(3).solve(3)
    assert solution.value(0) == 0 + 1 + 2  # up, up, and whatever
    assert solution.action(0, 0) == solution.action(1, 1) == "up"
    assert solution.action(0, 3) is None
    assert [solution.value(3, t) for t in range(4)] == [-math.inf] * 3 + [0.0]
    assert solution.action(0, 2) == "stay"  # up would end at the frontier before the end
    assert solution.value(2, 0) == 6.0
    assert solution.value(2, 1) == 4.0


def test_no_further_than_the_model_was_explored():
    # Solving for four steps would have to avoid the frontier, and call that the best: 5 instead of 6.
    for ask in (explored(3).solve, lambda steps: explored(3).evaluate("random", steps)):
        with pytest.raises(tether.QueryError, match=r"4 steps are more than the horizon of the model \(3\)"):
            ask(4)
    with pytest.raises(tether.QueryError, match=r"4 steps are more than the horizon of the model \(3\)"):
        explored(3).simulate("random", 4)
    assert explored(4).solve(4).value(0) == 6.0


def test_as_many_steps_as_the_model_is_good_for(grid):
    mdp = explored(3)
    assert mdp.solve().horizon == mdp.simulate("random", rng=0).T == 3
    assert mdp.evaluate("random").mean == mdp.evaluate("random", 3).mean
    for ask in (grid.solve, lambda: grid.evaluate("random"), lambda: grid.simulate("random")):
        with pytest.raises(tether.QueryError, match=r"how many steps\? This model has no horizon"):
            ask()


def test_no_further_than_there_are_rewards():
    mdp = tether.MDP.from_arrays(np.ones((1, 1, 1)), np.array([[[1.0]], [[2.0]]]), reward_axes="tsa")
    assert mdp.solve(2).value(0) == 3.0
    assert mdp.solve(1).value(0) == 1.0
    with pytest.raises(tether.QueryError, match=r"3 steps are more than the horizon of the model \(2\)"):
        mdp.solve(3)


def test_the_grid_is_solved_like_an_unconstrained_plan(grid):
    # With an outcome nobody recorded there is no counterfactual: the plan without limits is the solution.
    path = tether.Path([0], ["right"])
    cf = tether.counterfactual(grid, path)
    for s in range(16):
        assert grid.solve(1).value(s) == max(grid.reward(s, a) for a in grid.actions)
    assert cf.plan(k=2, m=1).value == grid.solve(1).value(0)


@pytest.mark.parametrize("horizon", [0, -1, 1.5, "3", True], ids=repr)
def test_a_horizon_that_is_none(grid, horizon):
    for ask in (grid.solve, lambda steps: grid.simulate("random", steps), lambda steps: grid.evaluate("random", steps)):
        with pytest.raises(tether.QueryError, match=f"must be a whole number ≥ 1, not {horizon!r}"):
            ask(horizon)


@pytest.mark.parametrize("t", [-1, 5, 1.0, "0", None, True], ids=repr)
def test_a_time_without_an_action(grid, t):
    with pytest.raises(tether.QueryError, match="t must be a whole number from 0 to 4, not") as error:
        grid.solve(5).action(t, 0)
    assert error.value.problems[0].value == t


@pytest.mark.parametrize("t", [-1, 6, 1.0, "0", None, True], ids=repr)
def test_a_time_without_a_value(grid, t):
    assert grid.solve(5).value(0, 5) == 0.0
    with pytest.raises(tether.QueryError, match="t must be a whole number from 0 to 5, not"):
        grid.solve(5).value(0, t)


def test_states_a_solution_does_not_know(grid):
    solution = grid.solve(5)
    for ask in (lambda: solution.value("pit"), lambda: solution.action(0, "pit")):
        with pytest.raises(tether.QueryError, match="the model has no state 'pit'"):
            ask()


def test_a_solution_cannot_be_changed(grid):
    solution = grid.solve(2)
    for array in (solution.values, solution.choices):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


# --- Evaluation ----------------------------------------------------------------------------------------


@given(worlds(max_states=4, max_steps=3), st.data())
def test_a_policy_by_enumeration(world, data):
    table = data.draw(tables(world, mixed=True))
    start = data.draw(st.sampled_from([s for s in world.states if world.available(s)]))
    outlook = world.cf.mdp.evaluate(lambda t, s: table[t, s], world.T, start=start)
    assert_evaluates(outlook, Law(world, by_table(table), nominal=True, start=start))
    assert outlook.changed is None
    assert outlook.tailoring is None


@given(worlds(max_states=5, max_steps=4))
def test_the_optimal_policy_is_worth_its_value(world):
    mdp, start = world.cf.mdp, world.path.states[0]
    solution = mdp.solve(world.T)
    named, given_ = mdp.evaluate("optimal", world.T, start=start), mdp.evaluate(solution, world.T, start=start)
    assert named.mean == given_.mean == pytest.approx(solution.value(start), rel=1e-11, abs=1e-11)
    assert named.std == given_.std


def test_without_a_start_it_is_the_only_initial_state(grid):
    from_5 = grid.with_labels({"init": [5]})
    assert from_5.evaluate("random", 4).mean == grid.evaluate("random", 4, start=5).mean
    assert from_5.simulate("random", 4, rng=0) == grid.simulate("random", 4, start=5, rng=0)
    assert from_5.simulate("random", 4, start=6, rng=0).states[0] == 6
    assert from_5.solve(4).value() == grid.solve(4).value(5) != grid.solve(4).value() == grid.solve(4).value(0)
    assert from_5.solve(4).value(t=2) == grid.solve(4).value(5, 2)


@pytest.mark.parametrize(
    ("ask", "argument"),
    [
        (lambda mdp: mdp.evaluate("random", 4), "start"),
        (lambda mdp: mdp.simulate("random", 4), "start"),
        (lambda mdp: mdp.solve(4).value(), "state"),
    ],
)
def test_of_several_initial_states_one_must_be_given(grid, ask, argument):
    with pytest.raises(tether.QueryError) as caught:
        ask(grid.with_labels({"init": [5, 7]}))
    assert str(caught.value) == (
        f"in which state does it start? The model has 2 with the label 'init': 5, 7; give one: {argument}=5"
    )


def test_without_a_start_it_is_the_first_state(grid):
    assert grid.evaluate("random", 3).likeliest(0) == (0, 1.0)
    assert grid.evaluate("random", 3, start=15).mean == 300.0
    assert grid.simulate("random", 3, rng=0).states[0] == 0
    with pytest.raises(tether.QueryError, match="the model has no state 16"):
        grid.evaluate("random", 3, start=16)


def test_no_observation_no_plan(grid):
    case = tether.cases.grid_world()
    plan = tether.counterfactual(case.mdp, case.path).plan(7, 4)
    with pytest.raises(
        tether.QueryError,
        match=r"a policy is a function, .* or 'random', not a Plan",
    ):
        grid.evaluate(plan, 11)


# --- Simulation ----------------------------------------------------------------------------------------


@given(worlds(max_steps=4), st.sampled_from(["optimal", "random", "given"]), st.data())
def test_an_episode_can_have_happened(world, policy, data):
    mdp = world.cf.mdp
    start = data.draw(st.sampled_from([s for s in world.states if world.available(s)]))
    noise = data.draw(st.sampled_from([0.0, 0.5, 1.0]))
    table = data.draw(tables(world, mixed=True))
    given_ = (lambda t, s: table[t, s]) if policy == "given" else policy
    seed = data.draw(st.integers(0, 99))
    path = mdp.simulate(given_, world.T, start=start, rng=seed, noise=noise)
    assert isinstance(path, tether.Path)
    assert path.T == world.T
    assert path.last_recorded
    assert path.states[0] == start
    for t, (s, a) in enumerate(zip(path.states, path.actions, strict=False)):
        assert path.states[t + 1] in world.nominal[s, a]
        if noise == 0 and policy == "given":
            assert a in table[t, s]
        if noise == 0 and policy == "optimal":
            assert a == mdp.solve(world.T).action(t, s)
    assert mdp.simulate(given_, world.T, start=start, rng=seed, noise=noise) == path
    assert tether.counterfactual(mdp, path).plan(1, 0).value == pytest.approx(
        world.worth(list(zip(path.states, path.actions, strict=False)), path.states[-1]), rel=1e-12, abs=1e-12
    )


def test_the_same_seed_simulates_the_same(grid):
    one = grid.simulate("random", 30, rng=1)
    assert one == grid.simulate("random", 30, rng=np.random.default_rng(1))
    assert one != grid.simulate("random", 30, rng=2)
    generator = np.random.default_rng(1)
    assert grid.simulate("random", 30, rng=generator) != grid.simulate("random", 30, rng=generator)


def test_episodes_come_as_often_as_they_should(grid):
    n, rng = 2000, np.random.default_rng(8)
    outlook = grid.evaluate("random", 4, start=5)
    ends = [grid.simulate("random", 4, start=5, rng=rng).states[-1] for _ in range(n)]
    labels, chance = outlook.distribution(4)
    assert set(ends) <= set(labels)
    for label, p in zip(labels, chance, strict=True):
        assert abs(ends.count(label) / n - p) <= 5 * math.sqrt(p * (1 - p) / n) + 5 / n


def test_noise_comes_as_often_as_it_should(grid):
    n, rng = 3000, np.random.default_rng(9)
    first = [grid.simulate(lambda s: "down", 1, start=0, rng=rng, noise=0.4).actions[0] for _ in range(n)]
    for action in grid.actions:  # 0.6 for what the policy says, and 0.4 shared by all four
        p = 0.1 + 0.6 * (action == "down")
        assert abs(first.count(action) / n - p) <= 5 * math.sqrt(p * (1 - p) / n)


@pytest.mark.parametrize("noise", [-0.1, 1.1, math.nan, math.inf, "0.1", None, True, [0.1]], ids=repr)
def test_noise_that_is_none(grid, noise):
    with pytest.raises(tether.QueryError, match="noise must be a number from 0 to 1, not"):
        grid.simulate("random", 3, noise=noise)


def test_what_cannot_be_simulated(grid):
    with pytest.raises(tether.QueryError, match="the model has no state 'home'"):
        grid.simulate("random", 3, start="home")
    with pytest.raises(tether.QueryError, match="a policy by name is 'observed', 'optimal' or 'random', not 'best'"):
        grid.simulate("best", 3)
    with pytest.raises(tether.QueryError, match="t = 0: the policy names 'fly' in state 0"):
        grid.simulate(lambda s: "fly", 3)
    with pytest.raises(tether.QueryError, match="state 3 has no available action"):
        explored(3).simulate("random", 2, start=3)
    with pytest.raises(tether.QueryError, match="t = 0: the policy names None in state 3; available are"):
        explored(3).simulate("optimal", 2, start=3)


@pytest.mark.compiled
@given(worlds(max_states=5, max_steps=4), st.booleans(), st.booleans())
def test_the_best_for_anyone_needs_no_look_at_what_is_out_of_reach(world, minimise, asked):
    """As the whole model solved, then evaluated state by state."""
    cf = world.conditioned()
    wanted = tether.reach([world.states[-1]]) if asked and world.path.states[0] != world.states[-1] else None
    solution = cf.mdp.solve(cf.T, objective=wanted, minimise=minimise)
    try:
        slow = cf.evaluate(solution, objective=wanted)
    except tether.errors.QueryError:  # no way avoids a state without actions
        with pytest.raises(tether.errors.QueryError, match="names None"):
            best_for_anyone(cf, wanted, minimise)
        return
    fast = best_for_anyone(cf, wanted, minimise)
    assert fast.value == slow.value
    assert np.array_equal(fast.changed, slow.changed)
    for one, other in zip(fast.occupancy, slow.occupancy, strict=True):
        assert np.array_equal(one, other)


def test_many_episodes_at_once():
    mdp = tether.cases.grid_world().mdp
    log = mdp.simulate("optimal", 6, n=3, rng=4, noise=0.2)
    generator = np.random.default_rng(4)
    assert tuple(log.values()) == tuple(mdp.simulate("optimal", 6, rng=generator, noise=0.2) for _ in range(3))
    with pytest.raises(tether.QueryError, match="n must be a whole number ≥ 1"):
        mdp.simulate("random", 6, n=0)
