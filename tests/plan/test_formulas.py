"""Properties that are remembered on the way, and bounds: against their meaning on paths, and worlds that remember."""

import math
import pickle
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from deciding import best_by_recursion, best_of_all, count_policies, size
from enumerate import Law, tables
from hypothesis import assume, given
from hypothesis import strategies as st
from remembering import (
    asked_formulas,
    both,
    either,
    finally_,
    formulas,
    globally,
    implied,
    negated,
    next_,
    now,
    release,
    until,
    weak,
)
from worlds import FEWER, RULES, in_package, worlds

import tether
from tether.model.path_formula import automaton, negation, sets_of
from tether.model.properties import parse_property
from tether.model.property_words import as_formal

NEAR = {"abs": 1e-12, "rel": 1e-9}
LETTERS = "abcd"
MDP = tether.MDP.from_table([*LETTERS], ["go"] * 4, [*LETTERS], [1.0] * 4).with_labels({s: [s] for s in LETTERS})
ATOMS = [now('"a"', {"a"}), now('"b"', {"b"}), now('("a" | "c")', {"a", "c"}), now("true", set(LETTERS))]


def holds(tree, path):
    """Whether an automaton accepts a path."""
    masks = {
        one: np.array([s == one for s in LETTERS]) if isinstance(one, str) else one.on(MDP) for one in sets_of(tree)
    }
    made = automaton(tree, masks, as_formal)
    memory = made.first
    for s in path:
        memory = int(made.after[memory, LETTERS.index(s)])
    return bool(made.holds[memory])


@given(formulas(ATOMS), st.lists(st.sampled_from(LETTERS), min_size=1, max_size=7))
def test_formulas_mean_what_they_say(said, path):
    """Of every path, and its negation the opposite; written and read again they are the same."""
    assume(any(sign in said.text for sign in "FGXUWR"))
    asked = parse_property(f"P=? [ {said.text} ]")
    assert holds(asked.tree, path) == said.means(path, 0)
    assert holds(negation(asked.tree), path) == (not said.means(path, 0))
    if asked.remembers:
        assert holds(parse_property(str(asked)).tree, path) == said.means(path, 0)


A, B = ATOMS[:2]
NESTED = [
    finally_(both(A, finally_(B, 0, None)), 0, 1), finally_(finally_(B, 0, None), 0, 0), next_(globally(B, 1, 2)),
    until(A, finally_(B, 1, 1), 1, 2), globally(implied(A, finally_(B, 0, 1)), 0, 2), negated(next_(next_(A))),
    finally_(both(A, next_(finally_(B, 0, 1))), 0, None), release(B, either(A, next_(B))), weak(A, globally(B, 0, 1)),
]  # fmt: skip


@pytest.mark.parametrize("said", NESTED, ids=lambda said: said.text)
def test_nested_formulas_on_every_short_path(said):
    tree = parse_property(f"P=? [ {said.text} ]").tree
    for length in range(1, 6):
        for path in product("abd", repeat=length):
            assert holds(tree, path) == said.means(list(path), 0), path


@pytest.mark.parametrize(
    ("asked", "same"),
    [
        ("reach a within 8", tether.reach("a", within=8)),
        ("a then b", tether.reach("a").then("b")),
        ("reach a then 'the b' then c within 9", tether.reach("a").then("the b").then("c", within=9)),
        (
            "reach a & avoid b within 2 and until c d",
            tether.reach("a") & tether.avoid("b", within=2) & tether.until("c", "d"),
        ),
        ('P=? [ F<=8 "a" ]', tether.reach("a", within=8)),
        ('P=? [ G<4 !"a" ]', tether.avoid("a", within=3)),
        ('P=? [ (F "a") & (G !"b") ]', tether.reach("a") & tether.avoid("b")),
        ('P=? [ F ("a" & (X (F "b"))) ]', tether.reach("a").then("b")),
        ('P=? [ !(F<=2 "a") ]', tether.avoid("a", within=2)),
    ],
)
def test_two_ways_to_write_it(asked, same):
    assert parse_property(asked) == same
    assert parse_property(str(same)) == same


def test_in_words():
    one = tether.reach("a", within=3) & tether.avoid("b")
    assert one.in_words == "a is reached within 3 steps and b is avoided"
    assert one.failed_in_words == "a is avoided within 3 steps or b is reached"
    order = tether.reach("a").then("b", within=1)
    assert order.in_words == "a is reached and later b, within 1 step"
    assert order.failed_in_words == "it is not so that a is reached and later b, within 1 step"
    with pytest.raises(tether.QueryError, match=r"then\(\) goes on from reach"):
        tether.avoid("a").then("b")
    with pytest.raises(tether.QueryError, match="within must be a whole number"):
        tether.reach("a", within=-1)


def sweep(one, **options):
    cf = one.conditioned()
    return cf.sweep(rule=one.rule, influence=in_package(one.criterion), objective=one.objective, **options)


@FEWER
@given(asked_formulas(RULES, max_states=4, max_actions=2, max_steps=3, widest=2), st.booleans())
def test_the_best_of_all_policies(one, minimise):
    assume(count_policies(one) <= 2000)
    table = sweep(one, minimise=minimise)
    assert table.values == pytest.approx(best_of_all(one, minimise), **NEAR)
    assert table.observed_value == pytest.approx(one.observed(), **NEAR)
    if one.rule != "assured":
        assert table.sizes.tolist() == [size(one, one.hits, k) for k in table.ks]


@FEWER
@given(asked_formulas(RULES), st.booleans(), st.data())
def test_one_plan_in_a_larger_world(one, minimise, data):
    T = one.world.T
    k, m = data.draw(st.integers(1, T + 1)), data.draw(st.integers(0, T))
    options = {"rule": one.rule, "influence": in_package(one.criterion), "objective": one.objective}
    plan = one.conditioned().plan(k, m, minimise=minimise, **options)
    assert plan.value == pytest.approx(best_by_recursion(one, k, m, minimise), **NEAR)
    assert plan.evaluate().value == pytest.approx(plan.value, **NEAR)
    assert followed(one, plan) == pytest.approx(plan.value, **NEAR)


def followed(one, plan):
    """The probability under a plan, asked for each action by the state and what remains."""
    world, names = one.world.plain, plan.cf.mdp.states

    def go(t, s, name, node, c, run):
        if t == world.T or one.decides(node):
            assert t == world.T or plan.action(t, name, c, uninfluenced=run) is None
            return float(one.holds([node]))
        a = plan.action(t, name, c, uninfluenced=run)
        left, after = c - one.world.changed(t, node, a), 0 if (node, a) in one.hits[t] else run + 1
        rows = zip(*plan.cf.row(t, name, a), strict=True)
        onward = [(j, p) for j, p in rows]
        assert {j.state: p for j, p in onward} == pytest.approx(world.rows[t][s, a], **NEAR)
        return math.fsum(
            p * go(t + 1, j.state, j, (j.state, one.world.read(node[1], j.state)), left, after) for j, p in onward
        )

    first = plan.cf.path.states[0]
    assert first in names
    return go(0, first.state, first, one.world.path.states[0], plan.m, 0)


@FEWER
@given(worlds(), st.data())
def test_within_n_steps_is_about_the_first_n(world, data):
    """A bound is the question about the first steps alone; in formulas too, if all of it is bounded."""
    some = data.draw(st.lists(st.sampled_from(world.states), min_size=1, unique=True))
    assume(world.path.states[0] not in some)
    n, rule = data.draw(st.integers(1, world.T)), data.draw(st.sampled_from(RULES))
    cf, path = world.conditioned(), world.path
    mdp = cf.mdp if cf.mdp.horizon is None else replace(cf.mdp, horizon=n)  # nothing is asked after n steps
    cut = tether.counterfactual(mdp, tether.Path(path.states[: n + 1], path.actions[:n]), cf.mechanism)
    for bounded, without in (
        (tether.reach(some, within=n), tether.reach(some)),
        (tether.avoid(some, within=n), tether.avoid(some)),
        (~tether.reach(some, within=n), tether.avoid(some)),
        (tether.until(world.states, some, within=n), tether.reach(some)),
    ):
        expected, found = cut.sweep(rule=rule, objective=without), cf.sweep(rule=rule, objective=bounded)
        assert found.values.tolist() == expected.values.tolist()
        assert found.sizes.tolist() == expected.sizes.tolist()


@FEWER
@given(asked_formulas(("definition",)), st.data())
def test_a_policy_is_evaluated_for_a_formula(one, data):
    plain = one.world.plain
    table = data.draw(tables(plain, mixed=True))
    law = Law(plain, lambda so_far: table[so_far.t, so_far.states[-1]])
    outlook = one.conditioned().evaluate(table, objective=one.objective)

    def nodes(states):
        memory, found = one.world.kept.first, []
        for s in states:
            memory = one.world.read(memory, s)
            found.append((s, memory))
        return found

    assert outlook.value == pytest.approx(law.mean(lambda ep: one.holds(nodes(ep.states))), **NEAR)


def test_an_audit_within_n_steps_is_each_episode_within_n_steps():
    case = tether.cases.grid_world()
    log = {i: case.mdp.simulate("random", 7 + i % 3, start=0, rng=i) for i in range(3)}
    for objective in (tether.reach("goal", within=5), tether.avoid("danger", within=5)):
        table = tether.audit(case.mdp, log, k=3, m=2, objective=objective).to_pandas().set_index("episode")
        for i, path in log.items():
            plan = tether.counterfactual(case.mdp, path).plan(3, 2, objective=objective)
            row = table.loc[i]
            assert (row.observed, row.value, row.steps) == pytest.approx((plan.observed_value, plan.value, 5), **NEAR)
            review = tether.review(case.mdp, path, objective=objective)
            assert (row.mistakes, row.expected) == pytest.approx((review.mistakes, review.expected), abs=1e-9)
    with pytest.raises(tether.QueryError, match=r"an audit asks about one of tether\.reach, avoid and until"):
        tether.audit(case.mdp, log, objective=tether.reach("goal") & tether.avoid("danger"))
    with pytest.raises(tether.QueryError, match="does not take a bound"):
        tether.rules(case.mdp, log, objective=tether.reach("goal", within=5))


def test_robust_within_n_steps_is_the_first_n():
    case = tether.cases.grid_world()
    sure = tether.robust(case.mdp, case.path, assume="nothing")
    first = tether.robust(case.mdp, case.path.first(5), assume="nothing")
    bounded, without = tether.reach("danger", within=5), tether.reach("danger")
    plan, same = (one.plan(3, 2, objective=about, minimise=True) for one, about in ((sure, bounded), (first, without)))
    assert (plan.value, plan.T) == (same.value, 5)
    assert sure.range(plan) == first.range(same)
    assert sure.best_possible(3, 2, objective=bounded) == first.best_possible(3, 2, objective=without)
    cf = tether.counterfactual(case.mdp, case.path)
    assert cf.plan(3, 2, objective=bounded).certify().worst == pytest.approx(
        tether.counterfactual(case.mdp, case.path.first(5)).plan(3, 2, objective=without).certify().worst
    )
    joined = tether.reach("goal") & tether.avoid("danger")
    with pytest.raises(tether.QueryError, match="remember what was met before"):
        sure.plan(3, 2, objective=joined)
    with pytest.raises(tether.QueryError, match="remember what was met before"):
        cf.plan(3, 2, objective=joined).certify()


@FEWER
@given(asked_formulas(("definition",)), st.booleans())
def test_the_plain_model_is_solved_for_a_formula(one, minimise):
    world, plain, best = one.world, one.world.plain, min if minimise else max

    def value(t, node):
        if t == world.T or one.decides(node):
            return float(one.holds([node]))
        rows = [world.nominal[node, a] for a in world.available(node)]
        return best(math.fsum(p * value(t + 1, j) for j, p in row.items()) for row in rows)

    mdp, start = one.conditioned().mdp, plain.path.states[0]
    solution = mdp.solve(world.T, objective=one.objective, minimise=minimise)
    expected = value(0, world.path.states[0])
    assert solution.value(start) == pytest.approx(expected, **NEAR)
    mine = mdp.evaluate(solution, world.T, start=start, objective=one.objective)
    assert mine.value == pytest.approx(expected, **NEAR)


def test_a_plan_for_a_formula_goes_through_a_pickle_and_to_other_models():
    case = tether.cases.grid_world()
    cf = tether.counterfactual(case.mdp, case.path)
    wanted = tether.reach([1]).then("goal")
    plan = cf.plan(6, 3, objective=wanted)
    again = pickle.loads(pickle.dumps(plan))
    assert (again.value, again.objective) == (plan.value, wanted)
    assert cf.evaluate(plan).value == pytest.approx(plan.value)
    assert plan.action(1, 1, 3) == plan.action(1, tether.records.Tracked(1, 'F "goal"'), 3)
    with pytest.raises(tether.QueryError, match="more than one thing left to do; say what remains"):
        plan.action(3, 5, 2)
    with pytest.raises(tether.QueryError, match="depends on what remains"):
        case.mdp.evaluate(plan.on(case.mdp), plan.T, start=0)
    assert case.mdp.evaluate(plan.on(case.mdp), plan.T, start=0, objective=wanted).value > 0


def test_what_follows_the_record_of_a_learned_model_and_up_to_a_horizon():
    """A formula that says no more than avoid or reach has the same values, also after the record."""
    grid = tether.cases.grid_world()
    learned = tether.learn([grid.mdp.simulate("random", 9, start=0, rng=i) for i in range(40)])
    early = grid.mdp.simulate("random", 4, start=0, rng=3)
    worlds_ = [
        tether.counterfactual(learned, early),
        tether.counterfactual(learned, early, horizon=7),
        tether.counterfactual(learned, early, horizon=7, then="usual"),
        tether.counterfactual(grid.mdp, early, horizon=7),
        tether.counterfactual(grid.mdp, early, horizon=7, then="random"),
    ]
    for cf in worlds_:
        for simple, options in ((tether.reach([5]), {}), (tether.avoid([6]), {"minimise": True})):
            joined = simple | (tether.reach([13]) & tether.avoid([13]))  # the second part never holds
            expected = cf.plan(3, 2, objective=simple, **options)
            found = cf.plan(3, 2, objective=joined, **options)
            assert found.objective.remembers
            assert found.value == pytest.approx(expected.value, **NEAR)
            assert found.observed_value == pytest.approx(expected.observed_value, **NEAR)
    assert found.explain().sentences()
