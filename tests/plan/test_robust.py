"""Robust plans and ranges: published and exact numbers, a recursion with a linear programme per pair, properties."""

import copy
import math

import numpy as np
import pytest
from brute import Best, influenced
from couplings import in_a_box, over_couplings
from effort import tries
from hypothesis import assume as assume_
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import FEWER, RULES, tiny_worlds, worlds

import tether
from tether._kernels.sets import NOTHING, PUBLISHED_MONOTONICITY, PUBLISHED_STABILITY, STABILITY
from tether.explanation.answer_data import explanation_data

KINDS = {
    "nothing": NOTHING,
    "stability": STABILITY,
    "published-stability": PUBLISHED_STABILITY,
    "published-monotonicity": PUBLISHED_MONOTONICITY,
}


# --- The numbers -----------------------------------------------------------------------------------------


def follow_up_grid(chance):
    """The GridWorld of the follow-up: 16 cells, state rewards, the final state's reward counted."""
    reward = np.zeros(16)
    for value, cells in {
        1: [1, 4, 5],
        2: [2, 8, 9],
        3: [3, 10, 12],
        4: [7, 13],
        5: [11, 14],
        -100: [6],
        100: [15],
    }.items():
        reward[cells] = value
    P = np.zeros((16, 4, 16))
    moves = [(-1, 0), (0, 1), (1, 0), (0, -1)]
    for s in range(16):
        for a in range(4):
            if s in (6, 15):
                P[s, a, s] = 1.0
                continue
            for b, (down, right) in enumerate(moves):
                row, column = s // 4 + down, s % 4 + right
                to = 4 * row + column if 0 <= row < 4 and 0 <= column < 4 else s
                P[s, a, to] += chance if a == b else (1 - chance) / 3
    mdp = tether.MDP.from_arrays(P, np.repeat(reward[:, None], 4, axis=1))
    return mdp.with_objective(final_reward=reward)


CATASTROPHIC = tether.Path([0, 1, 2, *[6] * 8], [1, 1, 2, *[0] * 7])
ALMOST = tether.Path([0, 1, 2, 1, 2, 1, 2, 1, 0, 4, 8], [0, 1, 3, 1, 2, 1, 3, 3, 2, 2])
ALMOST_LOW = tether.Path([0, 1, 2, 1, 0, 4, 8, 9, 10, 9, 10], [1, 0, 1, 3, 1, 2, 3, 2, 0, 2])


@pytest.mark.parametrize(
    ("chance", "path", "observed", "gumbel", "assume", "worst", "best", "gumbel_at_worst"),
    [
        (0.9, CATASTROPHIC, -797.0, 438.0, "published-monotonicity", 428.8, 453.6, 428.8),
        (0.9, CATASTROPHIC, -797.0, 438.0, "nothing", 426.9, 462.5, 426.9),
        (0.9, ALMOST, 13.0, 440.1, "published-monotonicity", 277.1, 513.0, 213.9),
        (0.9, ALMOST, 13.0, 440.1, "nothing", 138.9, 515.0, None),
        (0.4, ALMOST_LOW, 17.0, 26.0, "published-monotonicity", 17.0, 441.7, -471.1),
    ],
)
def test_the_follow_ups_grid_worlds(chance, path, observed, gumbel, assume, worst, best, gumbel_at_worst):
    mdp = follow_up_grid(chance)
    cf = tether.counterfactual(mdp, path)
    free = cf.plan(cf.T + 1, cf.T)
    assert (free.observed_value, round(free.value, 1)) == (observed, gumbel)
    guaranteed = tether.robust(mdp, path, assume=assume)
    assert round(guaranteed.plan(cf.T + 1, cf.T).value, 1) == worst
    assert round(guaranteed.best_possible(cf.T + 1, cf.T), 1) == best
    if gumbel_at_worst is not None:
        assert round(guaranteed.range(free)[0], 1) == gumbel_at_worst


def test_the_follow_ups_catastrophic_path_for_each_m():
    mdp = follow_up_grid(0.9)
    guaranteed = tether.robust(mdp, CATASTROPHIC, assume="published-monotonicity")
    values = guaranteed.sweep(ks=[11], ms=range(6)).values[0]
    assert values.round(1).tolist() == [-797.0, -14.5, 3.2, 23.2, 289.2, 337.5]
    plan = tether.counterfactual(mdp, CATASTROPHIC).plan(11, 10)
    assert np.round(guaranteed.range(plan), 1).tolist() == [428.8, 453.6]
    assert np.round(tether.robust(mdp, CATASTROPHIC, assume="nothing").range(plan), 1).tolist() == [426.9, 462.5]


RANGES = [
    (tether.cases.epidemic, 3, 1, -37.111, -37.123, -37.012),
    (tether.cases.epidemic, 6, 4, -22.900, -26.788, -17.009),
    (tether.cases.epidemic, 7, 4, -11.278, -14.444, -7.500),
    (tether.cases.epidemic, 8, 1, -1.0, -1.0, -1.0),
    (tether.cases.grid_world, 6, 1, -10.242, -12.095, 21.570),
    (tether.cases.grid_world, 6, 4, 374.717, 358.540, 434.227),
    (tether.cases.grid_world, 12, 11, 548.117, 536.872, 572.941),
    (tether.cases.sepsis, 9, 1, -4579.87, -6850.0, -2432.61),
    (tether.cases.sepsis, 9, 2, -3981.75, -6850.0, -1869.72),
    (tether.cases.sepsis, 9, 7, -2786.53, -6850.0, 71.06),
    (tether.cases.sepsis, 11, 10, -2759.56, -8950.0, 6061.3),
]


@pytest.mark.parametrize(("case", "k", "m", "value", "worst", "best"), RANGES)
def test_the_range_of_the_plan_that_gumbel_max_recommends(case, k, m, value, worst, best):
    made = case()
    plan = tether.counterfactual(made.mdp, made.path).plan(k, m)
    found = tether.robust(made.mdp, made.path, assume="nothing").range(plan)
    digits = 0.006 if case is tether.cases.sepsis else 0.0006
    assert plan.value == pytest.approx(value, abs=digits)
    assert found == pytest.approx((worst, best), abs=0.06 if best == 6061.3 else digits)


def test_the_best_guaranteed_plan_for_the_patient_is_to_change_nothing():
    patient = tether.cases.sepsis()
    plan = tether.robust(patient.mdp, patient.path, assume="nothing").plan(9, 2)
    assert (plan.value, plan.best_case, plan.observed_value) == (-6850.0, -6850.0, -6850.0)
    assert not plan.explain().changes


@pytest.mark.parametrize(
    ("case", "k", "m", "verdict"),
    [
        (tether.cases.epidemic, 6, 4, "holds"),
        (tether.cases.grid_world, 6, 1, "holds"),
        (tether.cases.sepsis, 9, 2, "never worse"),
        (tether.cases.sepsis, 11, 10, "could do harm"),
    ],
)
def test_verdicts(case, k, m, verdict):
    made = case()
    found = tether.counterfactual(made.mdp, made.path).plan(k, m).certify()
    assert found.verdict == verdict
    assert (found.nothing.breakdown > 1 - 1e-9) == (verdict != "could do harm")
    assert found.nothing.worst <= found.stability.worst <= found.value <= found.stability.best <= found.nothing.best


# --- Against a recursion with a linear programme per pair ------------------------------------------------


def possible(world, kind):
    """The same world with the rows that some model of the set can have: only which outcomes are possible matters."""
    if kind != NOTHING:
        return world
    other = copy.copy(world)
    rows = []
    for t in range(world.T):
        rows.append(dict(world.nominal))
        if t + 1 < len(world.path.states):
            rows[t][world.observed[t]] = {world.path.states[t + 1]: 1.0}
    vars(other)["rows"] = rows
    return other


class Guaranteed(Best):
    """V_t(s, c) with the worst row of each pair."""

    def __init__(self, world, kind, rule, hits, k):
        super().__init__(possible(world, kind), rule, hits, k)
        self.kind = kind

    def action_value(self, t, pair, c, run):
        world = self.world
        if super().action_value(t, pair, c, run) == -math.inf:
            return -math.inf
        after, left = self.run_after(t, pair, run), c - world.changed(t, *pair)
        worth = {
            j: world.earn(t, *pair, j) + world.discount * self.value(t + 1, j, left, after) for j in world.rows[t][pair]
        }
        return self.worst(t, pair, np.array([worth.get(j, 0.0) for j in world.states]))

    def worst(self, t, pair, values):
        world = self.world
        if t + 1 == len(world.path.states) or pair == world.observed[t]:
            return math.fsum(p * values[world.states.index(j)] for j, p in world.rows[t][pair].items())
        p, q = (
            np.array([row.get(j, 0.0) for j in world.states])
            for row in (world.nominal[world.observed[t]], world.nominal[pair])
        )
        o = world.states.index(world.path.states[t + 1])
        if self.kind in (NOTHING, STABILITY):
            return over_couplings(p, q, o, values, 1.0, stable=self.kind == STABILITY)
        return in_a_box(p, q, o, values, 1.0, self.kind)


@pytest.mark.parametrize("assume", KINDS)
@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=tries(5, 60))
@given(world=tiny_worlds())
def test_against_a_linear_programme_per_pair(assume, rule, world):
    world.samples = 0  # what is possible, and not what a few draws met
    assume_(all(p > 1e-5 for row in world.nominal.values() for p in row.values()))  # the programmes know no less
    guaranteed = tether.robust(world.cf.mdp, world.path, assume=assume)
    table = guaranteed.sweep(rule=rule)
    hits = influenced(world, ("support", 0.0))
    start = world.path.states[0]
    for k in range(1, world.T + 2):
        twin = Guaranteed(world, KINDS[assume], rule, hits, k)
        for m in range(world.T + 1):
            wanted = twin.value(0, start, m, 0)
            assert table.values[k - 1, m] == pytest.approx(wanted, rel=1e-7, abs=1e-7)
    plan = guaranteed.plan(world.T, world.T, rule=rule)
    assert plan.value == pytest.approx(table.value(world.T, world.T), rel=1e-9, abs=1e-9)


class Permitted(Guaranteed):
    """The same with changes that may not be advised, or have a price."""

    def __init__(self, world, kind, rule, hits, k, permits, price=0.0):
        super().__init__(world, kind, rule, hits, k)
        self.permits, self.price = permits, price

    def action_value(self, t, pair, c, run):
        changed = self.world.changed(t, *pair)
        if changed and not self.permits(t, *pair):
            return -math.inf
        return super().action_value(t, pair, c, run) - changed * self.price


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=tries(5, 60))
@given(world=tiny_worlds(), data=st.data())
def test_only_never_and_cost_against_a_linear_programme_per_pair(rule, world, data):
    world.samples = 0
    assume_(all(p > 1e-5 for row in world.nominal.values() for p in row.values()))
    assume = data.draw(st.sampled_from(["nothing", "stability"]))
    some = data.draw(st.sampled_from([0, world.actions[0], data.draw(st.sampled_from(sorted(world.weights)))]))
    only = data.draw(st.booleans())

    def permits(t, s, a):
        return (some in (a, (s, a)) or (some == 0 and t == 0)) == only

    price = data.draw(st.sampled_from([None, 0.5, 2.0]))
    guaranteed = tether.robust(world.cf.mdp, world.path, assume=assume)
    limits = {"only" if only else "never": some, "cost": price}
    table, hits = guaranteed.sweep(rule=rule, **limits), influenced(world, ("support", 0.0))
    for k in range(1, world.T + 2):
        twin = Permitted(world, KINDS[assume], rule, hits, k, permits, price or 0.0)
        for m in range(world.T + 1):
            wanted = twin.value(0, world.path.states[0], m, 0)
            assert table.values[k - 1, m] == pytest.approx(wanted, rel=1e-7, abs=1e-7)
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(0, world.T))
    plan = guaranteed.plan(k, m, rule=rule, **limits)
    if price is None:
        assert plan.value == pytest.approx(table.value(k, m), rel=1e-9, abs=1e-9)
    else:  # what it guarantees before the price; the worst model for both need not be that for either
        assert plan.value == guaranteed.range(plan)[0]
        assert plan.value >= table.value(k, m) - 1e-9
    assert np.array_equal(plan.sweep().values, table.values)
    assert all(permits(one.t, one.state, one.action) for one in plan.changes)


# --- The actions that a guarantee rests on ---------------------------------------------------------------


def said(plan, explanation):
    """The policy that a reader of an explanation can follow: the listed changes, and otherwise the observed action."""
    changed = {(one.t, one.state, one.changes_left, one.uninfluenced): one.action for one in explanation.elsewhere}
    for row in plan.to_arrow().to_pylist():
        if row["changed"] and row["probability"] > 0:
            changed[row["t"], row["state"], row["changes_left"], row.get("uninfluenced", 0)] = row["action"]
    return changed


def kept(world, kind, hits, rule, decide, m):
    """The worst value of a policy that is asked for its action in every node that some model leads to."""
    twin = Guaranteed(world, kind, rule, hits, world.T + 1)
    at = twin.world

    def go(t, s, c, run):
        if t == world.T:
            return at.last(s)
        pair = (s, decide(t, s, c, run))
        left, after = c - at.changed(t, *pair), twin.run_after(t, pair, run)
        assert left >= 0
        worth = {j: at.earn(t, *pair, j) + at.discount * go(t + 1, j, left, after) for j in at.rows[t][pair]}
        return twin.worst(t, pair, np.array([worth.get(j, 0.0) for j in world.states]))

    return go(0, world.path.states[0], m, 0)


@pytest.mark.parametrize("assume", ["nothing", "stability"])
@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=tries(8, 60))
@given(world=tiny_worlds(), data=st.data())
def test_the_actions_one_can_read_keep_the_guaranteed_value(assume, rule, world, data):
    world.samples = 0
    assume_(all(p > 1e-5 for row in world.nominal.values() for p in row.values()))
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(1, world.T))
    plan = tether.robust(world.cf.mdp, world.path, assume=assume).plan(k, m, rule=rule)
    hits, explanation = influenced(world, ("support", 0.0)), plan.explain(certificate=False)
    listed = said(plan, explanation)
    one_run = rule != "assured"

    def asked_for(t, s, c, run):
        action = plan.action(t, s, c, uninfluenced=run)
        assert action is not None
        return action

    def as_listed(t, s, c, run):
        action = listed.get((t, s, c, 0 if one_run else run))
        if action is None:  # in an absorbing state without the observed action nothing can be changed
            action = world.path.actions[t] if (s, world.path.actions[t]) in world.weights else world.available(s)[0]
        return action

    near = 1e-7 * max(1.0, abs(plan.value))
    assert kept(world, KINDS[assume], hits, rule, asked_for, m) == pytest.approx(plan.value, abs=near)
    if all(world.available(s) for s in world.states):
        assert kept(world, KINDS[assume], hits, rule, as_listed, m) >= plan.value - near


def hidden_advice():
    """Whoever takes b may come to j under another causal model than Gumbel-max, and has to take y there."""
    rows = [
        ("s", "a", "o", 0.5, 0.0), ("s", "a", "j", 0.5, 0.0), ("s", "b", "o", 0.6, 10.0), ("s", "b", "j", 0.4, 10.0),
        ("o", "x", "end", 1.0, 5.0), ("o", "y", "end", 1.0, 5.0),
        ("j", "x", "end", 1.0, 0.0), ("j", "y", "end", 1.0, 5.0),
    ]  # fmt: skip
    mdp = tether.MDP.from_table(*zip(*rows, strict=True), terminal=["end"])
    return tether.robust(mdp, tether.Path(["s", "o", "end"], ["a", "x"]), assume="nothing").plan(k=3, m=2)


def test_a_robust_plan_says_what_to_do_where_only_other_causal_models_lead():
    plan = hidden_advice()
    assert plan.value == 15.0
    assert plan.action(1, "j", 1) == "y"
    table = {(row["t"], row["state"], row["changes_left"]): row for row in plan.to_arrow().to_pylist()}
    assert table[1, "j", 1]["action"] == "y"
    assert table[1, "j", 1]["probability"] == 0.0
    assert table[1, "o", 1]["probability"] == 1.0
    explanation = plan.explain()
    assert explanation.answer().change[0] == (
        "Change up to 2 actions: at step 0 'b' instead of 'a'; "
        "at step 1 in 'j', where only other causal models lead, 'y' instead of 'x'."
    )
    assert repr(explanation) == "<Explanation: k = 3, m = 2, 2 of 2 steps change>"
    (one,) = explanation_data(explanation)["elsewhere"]
    assert (one["t"], one["state"], one["changes_left"], one["action"]) == (1, "j", 1, "y")
    assert not tether.robust(plan.cf.mdp, plan.cf.path, assume="stability").plan(k=3, m=2).explain().elsewhere


@pytest.mark.parametrize("rule", RULES)
@FEWER
@given(world=worlds(), data=st.data())
def test_what_must_hold(rule, world, data):
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(0, world.T))
    mdp, path = world.cf.mdp, world.path
    plan = tether.counterfactual(mdp, path).plan(k, m, rule=rule)
    near = 1e-9 * max(1.0, abs(plan.value), abs(plan.observed_value))
    plans = {assume: tether.robust(mdp, path, assume=assume).plan(k, m, rule=rule) for assume in KINDS}
    ranges = {assume: tether.robust(mdp, path, assume=assume).range(plan) for assume in KINDS}
    for assume, guaranteed in plans.items():
        assert guaranteed.value >= plan.observed_value - near
        assert guaranteed.best_case >= guaranteed.value - near
        worst, _ = tether.robust(mdp, path, assume=assume).range(guaranteed)
        assert worst == pytest.approx(guaranteed.value, rel=1e-9, abs=near)
    for assume in ("nothing", "stability", "published-stability"):  # these contain Gumbel-max
        assert ranges[assume][0] - near <= plan.value <= ranges[assume][1] + near
    for inner, outer in (("stability", "published-stability"), ("published-monotonicity", "published-stability")):
        assert ranges[inner][0] >= ranges[outer][0] - near
        assert ranges[inner][1] <= ranges[outer][1] + near


@pytest.mark.parametrize("assume", KINDS)
@FEWER
@given(world=worlds(), data=st.data())
def test_the_worst_model_attains_the_worst_case(assume, world, data):
    """For a policy of time and state; and it is one of the set."""
    mdp, path = world.cf.mdp, world.path
    choices = {
        (t, s): data.draw(st.sampled_from(world.available(s)))
        for t in range(world.T)
        for s in world.states
        if world.available(s)
    }
    guaranteed = tether.robust(mdp, path, assume=assume)

    def policy(t, state):
        return choices[t, state]

    worst, best = guaranteed.range(policy)
    model = guaranteed.worst_model(policy)
    near = 1e-9 * max(1.0, abs(worst), abs(best))
    assert model.evaluate(policy).value == pytest.approx(worst, rel=1e-9, abs=near)
    for t in range(world.T):
        for s, a in world.weights:
            names, lower, upper = guaranteed.bounds(t, s, a)
            row = dict(zip(*model.row(t, s, a), strict=True))
            assert {name for name, chance in row.items() if chance > 1e-12} <= set(names)  # 1 - 1e-300 is 1
            for name, low, high in zip(names, lower, upper, strict=True):
                assert low - 1e-9 <= row.get(name, 0.0) <= high + 1e-9


@pytest.mark.parametrize("assume", KINDS)
@FEWER
@given(world=worlds())
def test_the_worst_model_attains_the_worst_case_of_a_plan_without_limits(assume, world):
    """With as many changes as steps a plan does not look at the changes left: neither can the adversary."""
    mdp, path = world.cf.mdp, world.path
    cf = tether.counterfactual(mdp, path)
    plan = cf.plan(world.T + 1, world.T)
    known = {
        (t, mdp.states[int(s)]): mdp.actions[int(mdp.form.pair_action[pair])]
        for t in range(world.T)
        for s, pair in zip(plan.chain.visits[t].states, plan.chain.taken[t].pairs, strict=True)
    }

    def policy(t, state):
        return known.get((t, state), path.actions[t])

    guaranteed = tether.robust(mdp, path, assume=assume)
    reached = [(t, s) for t in range(world.T) for s in guaranteed.models.possible.reachable(t)]
    assume_(all((t, s) in known or path.actions[t] in mdp.actions_in(s) for t, s in reached))
    worst, best = guaranteed.range(plan)
    near = 1e-9 * max(1.0, abs(worst), abs(best))
    assert guaranteed.worst_model(plan).evaluate(policy).value == pytest.approx(worst, rel=1e-9, abs=near)


@given(world=worlds(), data=st.data())
def test_bounds_are_tight_and_hold_gumbel_max(world, data):
    t = data.draw(st.integers(0, world.T - 1))
    s, a = data.draw(st.sampled_from(sorted(world.weights, key=str)))
    exact = dict(zip(*tether.counterfactual(world.cf.mdp, world.path).row(t, s, a), strict=True))
    widths = {}
    for assume in KINDS:
        names, lower, upper = tether.robust(world.cf.mdp, world.path, assume=assume).bounds(t, s, a)
        assert list(names) == sorted(names, key=world.states.index)
        assert np.all(lower <= upper + 1e-12)
        assert lower.sum() <= 1 + 1e-9
        assert upper.sum() >= 1 - 1e-9
        widths[assume] = dict(zip(names, upper - lower, strict=True))
        if assume != "published-monotonicity":
            for name, low, high in zip(names, lower, upper, strict=True):
                assert low - 1e-9 <= exact.get(name, 0.0) <= high + 1e-9
    for name, width in widths["stability"].items():
        assert width <= widths["published-stability"][name] + 1e-9 <= widths["nothing"][name] + 2e-9


# --- Bad input ----------------------------------------------------------------------------------------


def test_what_there_is():
    case = tether.cases.epidemic()
    with pytest.raises(tether.QueryError, match=r"assume must be one of 'nothing', 'stability'.*, not 'monotonicity'"):
        tether.robust(case.mdp, case.path, assume="monotonicity")
    with pytest.raises(tether.QueryError, match="influence is tested by 'support' alone"):
        tether.robust(case.mdp, case.path).plan(3, 1, influence=tether.tv(0.5))
    other = tether.cases.grid_world()
    plan = tether.counterfactual(other.mdp, other.path).plan(3, 1)
    with pytest.raises(tether.QueryError, match="made for another model or another path"):
        tether.robust(case.mdp, case.path).range(plan)
