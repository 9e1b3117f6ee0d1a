"""Plans and sweeps: the best values against all policies and against a recursion, and what a plan promises."""

import math
import re
from functools import cache
from itertools import pairwise, product

import numpy as np
import pytest
from brute import (
    FEWER,
    ON_PAIRS,
    RULES,
    SUPPORT,
    Best,
    Promise,
    Visit,
    World,
    best_by_recursion,
    best_of_all,
    count_policies,
    criteria_for,
    follow,
    in_package,
    influenced,
    rules_and_criteria,
    tiny_worlds,
    worlds,
)
from hypothesis import assume, given
from hypothesis import strategies as st

import tether


def close(a, b):
    """Equal but for rounding; -∞ is equal to itself only."""
    np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def grows(values):
    """Whether an array never falls along its first axis, but for rounding."""
    return bool(np.all(np.diff(values, axis=0) >= -1e-10))


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


# --- Values over random worlds -------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@FEWER
@given(data=st.data(), world=tiny_worlds())
def test_values_by_all_policies(rule, data, world):
    assume(count_policies(world) <= 600)
    criterion = data.draw(criteria_for(rule))
    values = world.cf.sweep(rule=rule, influence=in_package(criterion)).values
    close(values, best_of_all(world, rule, influenced(world, criterion)))


@pytest.mark.parametrize("rule", RULES)
@given(data=st.data(), world=worlds())
def test_values_by_recursion(rule, data, world):
    criterion = data.draw(criteria_for(rule))
    values = world.cf.sweep(rule=rule, influence=in_package(criterion)).values
    close(values, best_by_recursion(world, rule, influenced(world, criterion)))


@given(worlds(), rules_and_criteria())
def test_a_plan_is_worth_what_the_sweep_says(world, asked):
    rule, criterion = asked
    table = world.cf.sweep(rule=rule, influence=in_package(criterion))
    assert table.values.shape == (world.T + 1, world.T + 1)
    for k, m in product(range(1, world.T + 2), range(world.T + 1)):
        plan = world.cf.plan(k, m, rule=rule, influence=in_package(criterion))
        assert (plan.k, plan.m, plan.rule) == (k, m, rule)
        close(plan.value, table.values[k - 1, m])
        assert plan.observed_value == table.observed_value


def every_layer_is_large(patch, pieces):
    """Large layers are done on all cores, piece by piece; and nodes that are not reached may be among the planned."""
    for module in ("_kernels.parallel", "influence.thresholds"):
        patch.setattr(f"tether.{module}.LARGE", 1)
    for module in ("influence.nodes", "plan.backward"):
        patch.setattr(f"tether.{module}.CHUNKS", pieces)


@given(worlds(), rules_and_criteria(), st.data())
def test_however_a_layer_is_cut_into_pieces_the_bits_are_the_same(world, asked, data):
    rule, criterion = asked
    ask = {"rule": rule, "influence": in_package(criterion)}
    m = data.draw(st.integers(0, world.T))
    whole = world.cf.sweep(**ask), world.cf.plan(world.T, m, **ask)
    with pytest.MonkeyPatch.context() as patch:
        every_layer_is_large(patch, data.draw(st.integers(1, 9)))
        pieces = world.cf.sweep(**ask), world.cf.plan(world.T, m, **ask)
    assert whole[0].values.tobytes() == pieces[0].values.tobytes()
    assert whole[1].value == pieces[1].value
    for one, other in zip(whole[1].chain.taken, pieces[1].chain.taken, strict=True):
        np.testing.assert_array_equal(one.pairs, other.pairs)


# --- Facts ---------------------------------------------------------------------------------------


@given(worlds(), rules_and_criteria())
def test_without_changes_the_value_is_the_observed_return(world, asked):
    rule, criterion = asked
    table = world.cf.sweep(rule=rule, influence=in_package(criterion))
    close(table.values[:, 0], world.observed_return())
    close(table.observed_value, world.observed_return())


@given(worlds(), rules_and_criteria())
def test_values_grow_with_k_and_with_m(world, asked):
    rule, criterion = asked
    values = world.cf.sweep(rule=rule, influence=in_package(criterion)).values
    assert np.all(np.isfinite(values))
    assert grows(values)
    assert grows(values.T)


@given(worlds())
def test_beyond_the_end_there_is_no_constraint(world):
    """k ≥ T + 1 is the best policy with m changes alone, whatever the rule and the test."""
    everything = Best(world, "definition", [], world.T + 1)
    everything.kept = [set(world.weights)] * world.T
    free = [everything.value(0, world.path.states[0], m, 0) for m in range(world.T + 1)]
    for rule, criterion in [
        *((rule, SUPPORT) for rule in RULES),
        *product(ON_PAIRS, [("tv", 0.0), ("effective", 0.9)]),
    ]:
        close(world.cf.sweep(rule=rule, influence=in_package(criterion), ks=[world.T + 1]).values[0], free)


@given(worlds(), st.data())
def test_assurance_costs(world, data):
    influence = in_package(data.draw(criteria_for("assured")))
    assured, defined = (world.cf.sweep(rule=rule, influence=influence).values for rule in ("assured", "definition"))
    assert np.all(assured <= defined + 1e-10)


# --- What a plan does ----------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@given(data=st.data(), world=worlds())
def test_a_plan_keeps_its_promises_whatever_happens(rule, data, world):
    criterion = data.draw(criteria_for(rule))
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(0, world.T))
    plan = world.cf.plan(k, m, rule=rule, influence=in_package(criterion))
    hits = influenced(world, criterion)
    happening, asked = follow(world, plan, hits)
    assert math.fsum(chance for chance, _, _ in happening) == pytest.approx(1.0)
    promise = Promise.of(world, happening)
    close(promise.value, plan.value)
    assert promise.changes <= m
    assert promise.keeps_to(world, rule, hits, k)
    visited = asked if rule == "assured" else {visit._replace(run=0) for visit in asked}
    for t, s, c, run in product(range(world.T), world.states, range(m + 2), range(world.T)):
        visit = Visit(t, s, c, run if rule == "assured" else 0)
        assert (plan.action(t, s, c, run) is not None) == (visit in visited)


@given(worlds(), rules_and_criteria(), st.data())
def test_the_value_is_the_mean_return_over_the_chain(world, asked, data):
    rule, criterion = asked
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(0, world.T))
    plan = world.cf.plan(k, m, rule=rule, influence=in_package(criterion))
    chain, discount, labels = plan.chain, world.discount, plan.cf.mdp.states
    mass = chain.occupancy()
    parts = []
    for t, (link, reached) in enumerate(zip(chain.links, mass, strict=False)):
        assert reached.sum() == pytest.approx(1.0)
        parts += (discount**t * reached[link.source] * link.probability * link.reward).tolist()
    ends = zip(mass[-1], chain.visits[-1].states, strict=True)
    parts += [discount**world.T * p * world.last(labels[int(s)]) for p, s in ends]
    close(math.fsum(parts), plan.value)
    assert [int(chain.visits[0].states[0]), int(chain.visits[0].changes[0])] == [
        labels.index(world.path.states[0]),
        m,
    ]


# --- Ties ----------------------------------------------------------------------------------------


def favourite(world, t, s, best):
    """Of actions that are equally good: the observed one, then the first in the model's order."""
    return world.path.actions[t] if world.path.actions[t] in best else best[0]


def check_choices(world, rule, criterion, k, m, slack):
    hits = influenced(world, criterion)
    plan, best = world.cf.plan(k, m, rule=rule, influence=in_package(criterion)), Best(world, rule, hits, k)
    _, asked = follow(world, plan, hits)
    for t, s, c, run in asked:
        run_now = run if rule == "assured" else 0
        values = {a: best.action_value(t, (s, a), c, run_now) for a in world.available(s)}
        top = max(values.values())
        tied = [a for a, value in values.items() if value >= top - slack]
        nearly = [a for a, value in values.items() if value >= top - 1e-8]
        if tied == nearly:  # else rounding might decide
            assert plan.action(t, s, c, run) == favourite(world, t, s, tied)
        else:
            assert plan.action(t, s, c, run) in nearly


@given(worlds(exact=True), rules_and_criteria(), st.data())
def test_ties_go_to_the_observed_action_then_to_the_first(world, asked, data):
    """With rows that are certain and rewards that are whole nothing is rounded, and ties abound."""
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(0, world.T))
    check_choices(world, *asked, k, m, slack=0.0)


@given(worlds(), rules_and_criteria(), st.data())
def test_ties_are_ties_in_spite_of_rounding(world, asked, data):
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(0, world.T))
    check_choices(world, *asked, k, m, slack=1e-13)


@given(worlds(), rules_and_criteria())
def test_where_nothing_is_gained_nothing_is_changed(world, asked):
    rule, criterion = asked
    world.R = world.final = None
    plan = world.cf.plan(world.T + 1, world.T, rule=rule, influence=in_package(criterion))
    assert plan.value == 0.0
    happening, _ = follow(world, plan, influenced(world, criterion))
    assert all(pairs == world.observed for _, pairs, _ in happening)


def test_off_the_observed_path_the_observed_action_is_still_preferred():
    # Leaving pays at once; then nothing does. In "here" all three are available, in "there" not the observed one.
    weights = {("start", a): {"start": 1.0} for a in ("first", "seen", "third")}
    weights["start", "third"] = {"here": 0.5, "there": 0.5}
    weights |= {("here", a): {"here": 1.0} for a in ("first", "seen", "third")}
    weights |= {("there", a): {"there": 1.0} for a in ("first", "third")}
    R = np.zeros((2, 3, 3))
    R[0, 0, 2] = 1.0
    path = tether.Path(["start"] * 3, ["seen"] * 2)
    plan = World(["start", "here", "there"], ["first", "seen", "third"], weights, path, R, "tsa").cf.plan(3, 2)
    assert plan.action(0, "start", 2) == "third"
    assert plan.action(1, "here", 1) == "seen"
    assert plan.action(1, "there", 1) == "first"


@pytest.mark.parametrize("observed", ["low", "high"])
def test_a_tie_that_rounding_breaks(observed):
    # 0.1 + 0.2 + 0.3 is worth as much as 0.3 + 0.2 + 0.1: in floating point one is a little more, either way.
    weights = {("start", way): {way: 1.0} for way in ("low", "high")}
    weights |= {(way, a): {way: 1.0} for way in ("low", "high") for a in ("low", "high")}
    R = np.zeros((4, 3, 2))
    R[1:, 1] = [[0.1], [0.2], [0.3]]
    R[1:, 2] = [[0.3], [0.2], [0.1]]
    path = tether.Path(["start", *[observed] * 4], [observed] * 4)
    plan = World(["start", "low", "high"], ["low", "high"], weights, path, R, "tsa").cf.plan(5, 4)
    assert plan.value == pytest.approx(0.6)
    assert plan.action(0, "start", 4) == observed


# --- Sweeps --------------------------------------------------------------------------------------


@given(worlds(), rules_and_criteria(), st.data())
def test_a_sweep_of_some_is_a_part_of_the_sweep_of_all(world, asked, data):
    rule, criterion = asked
    T = world.T
    ks = data.draw(st.lists(st.integers(1, T + 3), min_size=1, max_size=6))  # in any order, and more than once
    ms = data.draw(st.lists(st.integers(0, T + 2), min_size=1, max_size=6))
    whole, part = (
        world.cf.sweep(rule=rule, influence=in_package(criterion), **given)
        for given in ({}, {"ks": ks, "ms": np.array(ms)})
    )
    rows, columns = [min(k, T + 1) for k in ks], [min(m, T) for m in ms]
    assert part.ks.tolist() == rows
    assert part.ms.tolist() == columns
    close(part.values, whole.values[np.ix_(np.array(rows) - 1, columns)])
    assert part.sizes.tolist() == whole.sizes[np.array(rows) - 1].tolist()
    assert part.layered_sizes.tolist() == whole.layered_sizes[np.array(rows) - 1].tolist()
    assert part.observed_value == whole.observed_value


@given(worlds(), rules_and_criteria(), st.data())
def test_the_smallest_k_that_reaches_a_threshold(world, asked, data):
    rule, criterion = asked
    m = data.draw(st.integers(0, world.T + 2))
    values = world.cf.sweep(rule=rule, influence=in_package(criterion)).values[:, min(m, world.T)]
    for threshold in (*values.tolist(), values[-1] + 0.5, values[0] - 0.5, *np.mean(list(pairwise(values)), axis=1)):
        reached = [k for k, value in enumerate(values, start=1) if value >= threshold]
        answer = world.cf.choose_k(m, threshold, rule=rule, influence=in_package(criterion))
        assert answer == (reached[0] if reached else None)


@cache
def case(name, path="observed"):
    one = getattr(tether.cases, name)()
    return tether.counterfactual(one.mdp, one.paths[path])


def test_a_sweep_answers_by_k_and_m():
    table = case("epidemic").sweep(ks=[8, 3], ms=[1, 5])
    assert table.value(3, 1) == table.values[1, 0]
    assert table.value(100, 5) == table.values[0, 1] == -1.0
    with pytest.raises(tether.QueryError, match=r"k = 4, m = 1 was not asked for"):
        table.value(4, 1)
    with pytest.raises(tether.QueryError, match=r"k = 3, m = 2 was not asked for"):
        table.value(3, 2)
    with pytest.raises(tether.QueryError, match=r"k must be a whole number ≥ 1, not 0"):
        table.value(0, 1)


def test_what_each_k_costs():
    table = case("epidemic").sweep()
    np.testing.assert_array_equal(table.lost(1), table.values[-1, 1] - table.values[:, 1])
    assert table.lost(1)[-1] == 0
    with pytest.raises(tether.QueryError, match=r"needs m = 3 and k = 8 among those asked for"):
        case("epidemic").sweep(ms=[1]).lost(3)
    with pytest.raises(tether.QueryError, match=r"needs m = 1 and k = 8 among those asked for"):
        case("epidemic").sweep(ks=[1, 7]).lost(1)


def test_results_cannot_be_changed():
    table = case("epidemic").sweep(ms=[1])
    for array in (table.values, table.ks, table.ms):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    plan = case("epidemic").plan(3, 1)
    with pytest.raises(AttributeError):
        plan.value = 0.0


def test_results_print_well():
    plan = case("epidemic").plan(7, 4)
    assert repr(plan) == "<Plan: k = 7, m = 4, definition, support: value -11.28, observed -38>"
    table = case("epidemic").sweep(ks=[2, 8], ms=[0, 1])
    assert repr(table) == ("<Sweep: k = 2 … 8, m = 0 … 1, definition, support: values -38 … -1, observed -38>")
    assert str(table).splitlines() == [
        " k \\ m        0        1",
        "     2   -38.00   -38.00",
        "     8   -38.00    -1.00",
    ]
    html = table._repr_html_()
    assert "<th scope='col'>m&nbsp;=&nbsp;1</th>" in html
    cells = re.findall(r"<td style='([^']*)'>([^<]*)</td>", html)
    assert [text for _, text in cells] == ["−38.00", "−38.00", "−38.00", "−1.00"]
    assert ["background" in style for style, _ in cells] == [False, False, False, True]  # only what gains is shaded


# --- The paper's models --------------------------------------------------------------------------

# Values for m = 1 … 12 once k is large enough; m = 12 means 11, the number of steps. As published for k = 12, to
# the digits of its table and within the error of its sampled rows; to three digits by independent brute force.
GRID = [-10.242, 4.240, 42.638, 374.717, 433.687, 483.325, 527.879, 541.159, 547.107, 548.116, 548.117, 548.117]
GRID_FIRST_K = {"published": 7, "printed": 7, "definition": 6, "assured": 10}


@pytest.mark.parametrize("rule", RULES)
def test_grid_world(rule):
    table = case("grid_world").sweep(rule=rule, ms=range(13))
    assert table.observed_value == -897
    first = GRID_FIRST_K[rule]
    improved = table.values[first - 1 :]
    np.testing.assert_allclose(improved, [[-897, *GRID]] * len(improved), rtol=0, atol=5e-4)
    assert np.all(table.values[: first - 1 - (rule == "assured")] == -897)


def test_grid_world_assured_comes_in_two_steps():
    # Checked by independent brute force: k = 9 is enough for up to six changes, not for more.
    values = case("grid_world").sweep(rule="assured", ks=[8, 9], ms=range(1, 13)).values
    assert np.all(values[0] == -897)
    np.testing.assert_allclose(values[1, :6], GRID[:6], rtol=0, atol=5e-4)
    assert np.all(values[1, 6:] < np.array(GRID[6:]) - 1)
    assert np.all(values[1, 6:] > GRID[5])


# Rows k = 1 … 8 for m = 1 … 7. Checked by independent brute force; the four rules agree.
EPIDEMIC = [
    [-38.0] * 7,
    [-38.0] * 7,
    [-37.111] * 7,
    [-35.191] + [-34.229] * 6,
    [-33.911, -32.075] + [-31.125] * 5,
    [-29.635, -26.077, -23.867] + [-22.900] * 4,
    [-27.835, -19.582, -14.132, -11.278] + [-10.222] * 3,
    [-1.0] * 7,
]


@pytest.mark.parametrize("rule", RULES)
def test_epidemic(rule):
    table = case("epidemic").sweep(rule=rule)
    assert table.observed_value == -38
    np.testing.assert_allclose(table.values[:, 1:], EPIDEMIC, rtol=0, atol=5e-4)
    assert np.all(table.values[:, 0] == -38)


@pytest.mark.compiled
@pytest.mark.parametrize(("rule", "first"), [("definition", 8), ("published", 9)])
def test_sepsis(rule, first):
    # The exact table, catastrophic path: checked by independent brute force. (The paper's table was sampled.)
    table = case("sepsis", "catastrophic").sweep(rule=rule, ms=range(8))
    assert table.observed_value == -6850
    assert np.all(table.values[: first - 1] == -6850)
    expected = [-6850, -4579.87, -3981.75, -3608.88, -3303.19, -3052.44, -2872.35, -2786.53]
    np.testing.assert_allclose(table.values[first - 1 :], [expected] * (12 - first), rtol=0, atol=5e-3)


@pytest.mark.compiled
@pytest.mark.parametrize("rule", ["definition", "assured"])
def test_on_all_cores_the_bits_are_the_same(rule, monkeypatch):
    cf = case("sepsis", "catastrophic")
    on_one = cf.sweep(rule=rule).values, cf.plan(9, 3, rule=rule)
    every_layer_is_large(monkeypatch, 64)
    on_all = cf.sweep(rule=rule).values, cf.plan(9, 3, rule=rule)
    assert on_all[0].tobytes() == on_one[0].tobytes()
    assert on_all[1].value == on_one[1].value
    for many, one in zip(on_all[1].chain.taken, on_one[1].chain.taken, strict=True):
        np.testing.assert_array_equal(many.pairs, one.pairs)


def test_toy_as_the_definitions_say():
    # No numbers are published for it, and it has no rewards: with 1 for each state's number, against brute force.
    toy = tether.cases.toy()
    mdp = toy.mdp
    states, actions = list(mdp.states), list(mdp.actions)
    weights = {(s, a): dict(zip(*mdp.row(s, a), strict=True)) for s in states for a in mdp.actions_in(s)}
    R = np.repeat(np.arange(len(states), dtype=float)[:, None], len(actions), axis=1)
    world = World(states, actions, weights, toy.path, R, "sa")
    for rule in RULES:
        hits = influenced(world, SUPPORT)
        close(world.cf.sweep(rule=rule).values, best_of_all(world, rule, hits))


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
        assured.action(0, "sick", 1, -1)
