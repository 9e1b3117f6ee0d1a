"""Draws under any policy, on the same noise; how returns are distributed; plans as arrays."""

import numpy as np
import pytest
from brute import influenced
from enumerate import Law, by_plan, hits_of, questions
from hypothesis import given
from worlds import in_package

import tether


def ask(question):
    world, rule, criterion, k, m = question
    plan = world.cf.plan(k, m, rule=rule, influence=in_package(criterion))
    return plan, Law(world, by_plan(world, plan, hits_of(world, criterion)))


# --- The distribution of a return -----------------------------------------------------------------


@given(questions(max_states=5, max_steps=4))
def test_a_distribution_by_enumeration(question):
    plan, law = ask(question)
    found = plan.evaluate().return_distribution()
    ends = sorted((question.world.worth(list(zip(one.states, one.actions, strict=False)), one.states[-1]), one.chance)
                  for one in law.episodes)  # fmt: skip
    worth, chance = np.array(ends).T
    assert found.probabilities.sum() == pytest.approx(1.0)
    assert np.all(np.diff(found.values) > 0)
    assert found.mean == pytest.approx(plan.value, rel=1e-9, abs=1e-9)
    for limit in found.values:
        assert found.chance(at_most=limit) == pytest.approx(chance[worth <= limit + 1e-8].sum(), abs=1e-9)
        assert found.chance(at_least=limit) == pytest.approx(chance[worth >= limit - 1e-8].sum(), abs=1e-9)
    for share in (0.05, 0.37, 1.0):
        below = np.cumsum(chance)
        left, total = share, 0.0  # the lowest episodes, one after another, until the share is full
        for value, mass in zip(worth, chance, strict=True):
            total += min(mass, left) * value
            left = max(0.0, left - mass)
        assert found.cvar(share) == pytest.approx(total / share, rel=1e-7, abs=1e-7)
        at = min(int(np.searchsorted(below, share - 1e-9)), worth.size - 1)
        assert found.quantile(share) == pytest.approx(worth[at], abs=1e-6)


def test_a_distribution_by_hand():
    mdp = tether.MDP.from_arrays([[[0.2, 0.3, 0.5]], [[0, 1, 0]], [[0, 0, 1]]]).with_objective(final_reward=[0, 10, 20])
    found = mdp.evaluate("random", 1, start=0).return_distribution()
    assert found.to_arrow().to_pylist() == [
        {"value": 0.0, "probability": 0.2, "at_most": 0.2},
        {"value": 10.0, "probability": 0.3, "at_most": 0.5},
        {"value": 20.0, "probability": 0.5, "at_most": 1.0},
    ]
    assert (found.quantile(0.2), found.quantile(0.21), found.quantile(1)) == (0.0, 10.0, 20.0)
    assert found.cvar(0.4) == pytest.approx(5.0)
    assert found.cvar(0.6, largest=True) == pytest.approx((0.5 * 20 + 0.1 * 10) / 0.6)
    for wrong in (-0.1, 1.1, "half", float("nan")):
        with pytest.raises(tether.QueryError, match="share"):
            found.quantile(wrong)
    with pytest.raises(tether.QueryError, match="at_most= or at_least="):
        found.chance()


def test_what_follows_at_its_mean_has_no_distribution():
    seen = [("treat", "sick"), ("treat", "well"), ("wait", "dead"), ("wait", "sick")] * 5
    log = [tether.Path(["sick", after], [did]) for did, after in seen]
    mdp = tether.learn(log, prior=1).with_objective(final_reward={"well": 1.0})
    cf = tether.counterfactual(mdp, tether.Path(["sick", "sick"], ["wait"]))
    with pytest.raises(tether.QueryError, match="mean"):
        cf.evaluate("observed").return_distribution()
    assert cf.sample("observed", 50).return_distribution().mean > 0
    ended = tether.counterfactual(mdp, tether.Path(["sick", "dead"], ["wait"]), horizon=4)
    outlook = ended.evaluate(lambda state: "treat")
    assert outlook.return_distribution().mean == pytest.approx(outlook.value)


# --- The same noise --------------------------------------------------------------------------------

ROWS = np.array([[0.5, 0.3, 0.2, 0.0], [0.1, 0.2, 0.3, 0.4], [0.0, 0.6, 0.0, 0.4]])
"""What three actions in the first state lead to."""


def one_step(outcome):
    P = np.zeros((4, 3, 4))
    P[0], P[1:] = ROWS, np.eye(4)[1:, None]
    mdp = tether.MDP.from_arrays(P, np.zeros((4, 3)))
    return tether.counterfactual(mdp, ([0, outcome], [0]))


@pytest.mark.parametrize("outcome", [0, 2])
def test_two_policies_meet_the_noise_of_the_causal_model(outcome):
    """What two actions lead to together, against Gumbel noise that is drawn and kept where it explains the outcome."""
    n, cf = 40_000, one_step(outcome)
    drawn = [cf.sample(np.full(4, a), n, rng=7).states[:, 1] for a in range(3)]
    assert np.all(drawn[0] == outcome)  # what was done leads where it led
    noise = np.random.default_rng(3).gumbel(size=(12 * n, 4))
    with np.errstate(divide="ignore"):
        won = [np.argmax(noise + np.log(row), axis=1) for row in ROWS]
    kept = won[0] == outcome
    for i in range(4):
        for j in range(4):
            expected = np.mean((won[1] == i)[kept] & (won[2] == j)[kept])
            share = np.mean((drawn[1] == i) & (drawn[2] == j))
            assert abs(share - expected) <= 5 * np.sqrt(max(expected, 1e-4) * (1 / n + 1 / kept.sum()))


@pytest.mark.parametrize("mechanism", ["gumbel-max", "gumbel-max-sampled", "maximal", "independent"])
def test_equal_actions_lead_to_equal_states(grid, mechanism):
    cf = tether.counterfactual(grid.mdp, grid.path, mechanism)
    plan = cf.plan(k=12, m=2)
    one, other, random = (cf.sample(policy, 400, rng=5) for policy in (plan, "observed", "random"))
    assert np.array_equal(one.states, plan.sample(400, rng=5).states)
    assert np.all(other.states == grid.observation.states)
    for some in (one, random):
        error = 5 * some.returns.std() / np.sqrt(400)
        assert abs(some.returns.mean() - cf.evaluate(plan if some is one else "random").value) <= error
    same = np.all(one.actions[:, :1] == random.actions[:, :1], axis=1)
    assert np.array_equal(one.states[same, 1], random.states[same, 1])


def test_draws_as_a_table(grid):
    drawn = grid.sample("random", 20, objective=tether.reach("danger"))
    frame = drawn.to_pandas()
    assert {str(kind) for kind in frame.dtypes[["draw", "t", "state"]]} == {"int64"}
    for i, path in enumerate(drawn.paths):
        mine = frame[frame["draw"] == i]
        assert tuple(mine["state"]) == path.states
        assert tuple(mine["action"][:-1]) == path.actions
        assert mine["action"].isna().tolist() == [False] * path.T + [True]


# --- Plans as arrays and tables --------------------------------------------------------------------


@given(questions(max_states=5, max_steps=4))
def test_a_plan_as_arrays(question):
    world, rule, *_ = question
    plan, _ = ask(question)
    shape = (world.T, len(world.states), plan.m + 1) + ((world.T + 1,) if rule == "assured" else ())
    assert plan.policy.shape == shape
    assert plan.values.shape == (world.T + 1, *shape[1:])
    first = (0, world.states.index(world.path.states[0]), plan.m) + ((0,) if rule == "assured" else ())
    assert plan.values[first] == pytest.approx(plan.value, rel=1e-9, abs=1e-9)
    known = np.argwhere(plan.policy >= 0)
    table = {(row["t"], row["state"], row["changes_left"], row.get("uninfluenced", 0)): row["action"]
             for row in plan.to_arrow().to_pylist() if row["t"] < world.T}  # fmt: skip
    assert len(known) == len(table)
    for t, s, c, *run in known.tolist():
        action, name = world.actions[plan.policy[t, s, c, *run]], world.states[s]
        assert action == plan.action(t, name, c, uninfluenced=run[0] if run else 0)
        left = c - world.changed(t, name, action)
        step = [] if not run else [0 if (name, action) in _hits(question)[t] else run[0] + 1]
        expected = sum(
            p * (world.earn(t, name, action, j)
                 + world.discount * plan.values[t + 1, world.states.index(j), left, *step])
            for j, p in world.rows[t][name, action].items()
        )  # fmt: skip
        assert plan.values[t, s, c, *run] == pytest.approx(expected, rel=1e-9, abs=1e-9)


def _hits(question):
    return influenced(question.world, question.criterion)


def test_a_plan_for_a_property_as_arrays(grid):
    plan = grid.plan(k=12, m=2, objective=tether.reach("goal"))
    assert plan.values[0, 0, 2] == pytest.approx(plan.value)
    assert np.all(plan.policy[:, 15] == -1)  # decided: nothing is done there
    assert np.nanmax(plan.values[:, 15]) == 1.0


@given(questions(max_states=5, max_steps=4))
def test_thresholds_as_a_table(question):
    world, rule, criterion, k, _ = question
    tied = world.cf.tether(rule=rule, influence=in_package(criterion))
    hits = _hits(question)
    for row in tied.to_arrow().to_pylist():
        assert row["influenced"] == ((row["state"], row["action"]) in hits[row["t"]])
        why = tied.why(row["t"], row["state"], row["action"], k=k, uninfluenced=row.get("uninfluenced", 0))
        assert why.needed == row["kappa"]


def test_whole_numbers_stay_whole(grid):
    frame = tether.Path([1, 2, 3], [4, 5], rewards=[1, None]).to_pandas()
    assert frame["action"].dtype == "Int64"
    assert frame["action"].tolist()[:2] == [4, 5]
    assert frame["reward"].isna().tolist() == [False, True, True]
    assert tether.Path(["a"], ["go"]).to_arrow()["state"].to_pylist() == ["a", None]
    certificate = grid.plan(k=6, m=4).certify(gamma=2.0)
    table = certificate.to_pandas().set_index("assume")
    assert table.loc["hidden causes", "worst"] == certificate.worst
    assert table.loc["nothing", "gain"] == certificate.gain


# --- Plans as policies of other models --------------------------------------------------------------


@given(questions(max_states=5, max_steps=4))
def test_a_plan_on_its_own_model_is_the_plan(question):
    world, _, criterion, *_ = question
    plan, _ = ask(question)
    again = world.conditioned()
    found = again.evaluate(plan.on(again), influence=in_package(criterion))
    assert found.value == pytest.approx(plan.value, rel=1e-9, abs=1e-9)
    drawn = again.sample(plan.on(again), 5, rng=1)
    assert np.array_equal(drawn.states, plan.sample(5, rng=1).states)


def test_a_plan_is_drawn_in_the_plain_model(grid):
    """It remembers its changes, so draws have the distribution that is evaluated."""
    mdp, plan = grid.mdp, grid.plan(k=12, m=3)
    log = mdp.simulate(plan.on(mdp), 11, n=600, start=0, rng=1)
    exact = mdp.evaluate(plan.on(mdp), 11, start=0)
    for t in (1, 4, 11):
        found = np.bincount([log[i].states[t] for i in log.ids], minlength=16) / 600
        expected = dict(zip(*exact.distribution(t), strict=True))
        assert max(abs(found[cell] - expected.get(cell, 0.0)) for cell in range(16)) < 0.08
    for i in log.ids:
        changed = 0
        for t, state in enumerate(log[i].states[:-1]):
            advised = plan.action(t, state, 3 - changed)
            did = log[i].actions[t]
            assert did == (grid.path.actions[t] if advised is None else advised)
            changed = min(3, changed + (did != grid.path.actions[t]))
    with pytest.raises(tether.QueryError, match="a plan is followed as it is: noise=0"):
        mdp.simulate(plan.on(mdp), 11, start=0, noise=0.1)


def test_a_plan_on_a_finer_model(grid):
    plan = grid.plan(k=12, m=3)
    mdp = grid.mdp
    finer = mdp.with_names(states=[(cell // 4, cell % 4) for cell in range(16)])
    found = finer.evaluate(plan.on(finer, lift=lambda cell: 4 * cell[0] + cell[1]), 11, start=(0, 0))
    assert found.value == pytest.approx(mdp.evaluate(plan.on(mdp), 11, start=0).value)
    assert not found.changed
    strange = mdp.with_names(states=[f"cell {cell}" for cell in range(16)])
    recorded = strange.evaluate(plan.on(strange), 11, start="cell 0")  # it knows no state: what was recorded is done
    assert recorded.value == pytest.approx(mdp.evaluate(lambda t, cell: grid.path.actions[t], 11, start=0).value)
    with pytest.raises(tether.QueryError, match="11 steps; it says nothing about t = 11"):
        mdp.evaluate(plan.on(mdp), 12, start=0)
    with pytest.raises(tether.QueryError, match="none of the plan's actions"):
        plan.on(mdp.with_names(actions=[1, 2, 3, 4]))
