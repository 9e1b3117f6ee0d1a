"""Properties as objectives: against all policies, word for word (`deciding`), under all rules, for all k and m."""

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from deciding import Asked, asked, best_by_recursion, best_of_all, count_policies, size
from enumerate import Law, tables
from hypothesis import assume, given
from hypothesis import strategies as st
from worlds import FEWER, RULES, SUPPORT, World, in_package

import tether
from tether.io.drn import write_drn
from tether.model.labels import LabelSets

NEAR = {"abs": 1e-12, "rel": 1e-9}


def sweep(one, **options):
    cf = one.world.conditioned()
    return cf.sweep(rule=one.rule, influence=in_package(one.criterion), objective=one.objective, **options)


@FEWER
@given(asked(RULES, max_states=4, max_actions=2, max_steps=3, widest=2), st.booleans())
def test_the_best_of_all_policies(one, minimise):
    assume(count_policies(one) <= 3000)
    table = sweep(one, minimise=minimise)
    assert table.values == pytest.approx(best_of_all(one, minimise), **NEAR)
    assert table.observed_value == pytest.approx(one.observed(), **NEAR)
    if one.world.path.last_recorded:
        assert table.observed_value in (0.0, 1.0)
    if one.rule != "assured":
        assert table.sizes.tolist() == [size(one, one.hits, k) for k in table.ks]


@FEWER
@given(asked(RULES), st.booleans(), st.data())
def test_one_plan_in_a_larger_world(one, minimise, data):
    k, m = data.draw(st.integers(1, one.world.T + 1)), data.draw(st.integers(0, one.world.T))
    cf = one.world.conditioned()
    question = cf.tether(rule=one.rule, influence=in_package(one.criterion), objective=one.objective, minimise=minimise)
    plan = question.plan(k, m)
    assert plan.value == pytest.approx(best_by_recursion(one, k, m, minimise), **NEAR)
    assert question.sweep(ks=[k], ms=[m]).values == pytest.approx(plan.value, **NEAR)
    assert followed(one, plan) == pytest.approx(plan.value, **NEAR)
    outlook = plan.evaluate()
    assert outlook.value == pytest.approx(plan.value, **NEAR)
    assert [mass.sum() for mass in outlook.occupancy] == pytest.approx([1.0] * (one.world.T + 1))


def followed(one, plan):
    """The probability under a plan, by asking it for each action until the property is decided."""
    world, hits = one.world, one.hits

    def go(t, states, c, run):
        s = states[-1]
        if t == world.T or one.decides(s):
            assert t == world.T or plan.action(t, s, c, uninfluenced=run) is None
            return float(one.holds(states))
        a = plan.action(t, s, c, uninfluenced=run)
        left, after = c - world.changed(t, s, a), 0 if (s, a) in hits[t] else run + 1
        assert left >= 0
        return math.fsum(p * go(t + 1, [*states, j], left, after) for j, p in world.rows[t][s, a].items())

    return go(0, [world.path.states[0]], plan.m, 0)


@FEWER
@given(asked(RULES))
def test_more_is_never_worse_and_the_observed_path_is_always_there(one):
    most, least = sweep(one), sweep(one, minimise=True)
    for table, sign in ((most, 1.0), (least, -1.0)):
        values = sign * table.values
        assert (np.diff(values, axis=0) >= -1e-12).all()
        assert (np.diff(values, axis=1) >= -1e-12).all()
        assert table.values[:, 0] == pytest.approx(np.full(table.ks.size, table.observed_value), **NEAR)
        assert ((table.values >= 0) & (table.values <= 1)).all()
    assert (most.values >= least.values - 1e-12).all()


@FEWER
@given(asked(RULES))
def test_to_avoid_is_not_to_reach(one):
    goal = [s for s in one.world.states if s in one.goal]
    assume(one.world.path.states[0] not in goal)
    reach, avoid = one._replace(kind="reach"), one._replace(kind="avoid")
    assert sweep(avoid).values == pytest.approx(1.0 - sweep(reach, minimise=True).values, **NEAR)
    assert sweep(avoid, minimise=True).values == pytest.approx(1.0 - sweep(reach).values, **NEAR)
    anywhere = one._replace(kind="until", hold=frozenset(one.world.states))
    assert (sweep(anywhere).values == sweep(reach).values).all()


@FEWER
@given(asked(("definition",)), st.data())
def test_a_policy_is_evaluated_for_a_property(one, data):
    table = data.draw(tables(one.world, mixed=True))
    world = one.world
    policy = {(t, s): shares for (t, s), shares in table.items()}
    law = Law(world, lambda so_far: table[so_far.t, so_far.states[-1]])
    outlook = world.cf.evaluate(policy, objective=one.objective)
    assert outlook.value == pytest.approx(law.mean(lambda ep: one.holds(list(ep.states))), **NEAR)
    hits = one._replace(criterion=SUPPORT).hits
    for t in range(world.T + 1):
        assert_holds_so_far(one, outlook, law, t)
    for t in range(world.T):
        assert_done_before(one, outlook, law, t, hits[t])
    nominal = world.cf.mdp.evaluate(policy, world.T, start=world.path.states[0], objective=one.objective)
    plain = Law(world, lambda so_far: table[so_far.t, so_far.states[-1]], nominal=True)
    assert nominal.value == pytest.approx(plain.mean(lambda ep: one.holds(list(ep.states))), **NEAR)


def assert_holds_so_far(one, outlook, law, t):
    holds = law.mean(lambda episode: one.holds(list(episode.states[: t + 1])))
    assert outlook.returns.mean[t] == pytest.approx(holds, **NEAR)


def assert_done_before(one, outlook, law, t, hits):
    """What is done at t, by episodes in which the property is not decided yet."""

    def among(test):
        going = [ep for ep in law.episodes if not any(one.decides(s) for s in ep.states[: t + 1])]
        return math.fsum(ep.chance for ep in going if test(ep.states[t], ep.actions[t]))

    # No action earns anything here: where all lead back to their state, nothing is left to do.
    changed = among(lambda s, a: one.world.changed(t, s, a) and not one.world.stays(s))
    assert outlook.changed[t] == pytest.approx(changed, abs=1e-12)
    assert outlook.tailoring.influenced[t] == pytest.approx(among(lambda s, a: (s, a) in hits), abs=1e-12)
    everything = among(lambda _s, _a: True)
    for action, share in outlook.actions(t).items():
        assert share == pytest.approx(among(lambda _s, a, action=action: a == action) / everything, abs=1e-9)


@FEWER
@given(asked(("definition",)), st.booleans())
def test_the_plain_model_is_solved_for_a_property(one, minimise):
    world, T = one.world, one.world.T
    best = min if minimise else max

    def value(t, s):
        if t == T or one.decides(s):
            return float(s in one.goal) if one.kind != "avoid" else float(s not in one.goal)
        rows = [world.nominal[s, a] for a in world.available(s)]
        return best(math.fsum(p * value(t + 1, j) for j, p in row.items()) for row in rows)

    solution = world.cf.mdp.solve(T, objective=one.objective, minimise=minimise)
    start = world.path.states[0]
    assert solution.value(start) == pytest.approx(value(0, start), **NEAR)
    mine = world.cf.mdp.evaluate(solution, T, start=start, objective=one.objective)
    assert mine.value == pytest.approx(value(0, start), **NEAR)


@FEWER
@given(asked(("definition",)))
def test_a_return_to_minimise_is_a_negative_one_to_maximise(one):
    world = one.world
    opposite = World(
        world.states,
        world.actions,
        world.weights,
        world.path,
        None if world.R is None else -world.R,
        world.axes,
        world.discount,
        None if world.final is None else {s: -r for s, r in world.final.items()},
        world.samples,
    )
    options = {"rule": one.rule, "influence": in_package(one.criterion)}
    least, most = world.conditioned().sweep(minimise=True, **options), opposite.conditioned().sweep(**options)
    assert (least.values == -most.values).all()
    assert least.observed_value == -most.observed_value
    assert (least.gains == most.gains).all()
    for m in range(world.T + 1):
        table = world.cf.tether(minimise=True, **options)
        assert table.enough_k(m) == opposite.cf.tether(**options).enough_k(m)
        plan = table.plan(m=m)
        assert plan.evaluate().value == pytest.approx(plan.value, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("formula", "objective", "minimise"),
    [
        ('Pmax=? [F<=9 "goal"]', tether.reach("goal"), False),
        ('Pmin=? [F<=9 "goal"]', tether.reach("goal"), True),
        ('Pmin=? [F<=9 "danger"]', tether.reach("danger"), True),
        ('Pmax=? [!"danger" U<=9 "goal"]', tether.until(lambda cell: cell != 6, "goal"), False),
    ],
)
def test_storm_says_the_same_of_the_plain_model(tmp_path, formula, objective, minimise):
    stormpy = pytest.importorskip("stormpy")
    mdp = tether.cases.grid_world().mdp
    write_drn(mdp, tmp_path / "grid.drn")
    model = stormpy.build_model_from_drn(str(tmp_path / "grid.drn"))
    found = stormpy.model_checking(model, stormpy.parse_properties(formula)[0])
    ours = mdp.solve(9, objective=objective, minimise=minimise)
    theirs = found.get_value_vector() if hasattr(found, "get_value_vector") else found.get_values()  # stormpy 2 and 1
    assert [ours.value(s) for s in mdp.states] == pytest.approx(list(theirs), abs=1e-9)


def test_a_path_may_end_with_a_run_that_goes_on_nowhere():
    """At t = 0 "leave" makes a run of one uninfluenced step, and decides: no state that goes on has such a run."""
    mdp = tether.MDP.from_table(
        ["here", "here", "here", "there", "out", "goal"],
        ["stay", "leave", "leave", "stay", "stay", "stay"],
        ["there", "out", "goal", "there", "out", "goal"],
        [1.0, 0.5, 0.5, 1.0, 1.0, 1.0],
    )
    path = tether.Path(["here", "there", "there"], ["stay", "stay"])
    wanted = tether.until(["here", "there"], ["goal"])
    assured = tether.counterfactual(mdp, path).tether(rule="assured", objective=wanted)
    assert [assured.plan(k, 1).value for k in (1, 2, 3)] == [0.0, 0.5, 0.5]
    assert assured.sweep(ms=[1]).values.tolist() == [[0.0], [0.5], [0.5]]
    sure = tether.robust(mdp, path, assume="nothing")
    assert sure.plan(2, 1, rule="assured", objective=wanted).value == 0.5


# --- By name ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def patient():
    case = tether.cases.sepsis()
    return tether.counterfactual(case.mdp, case.path)


def test_a_patient_who_might_have_lived(patient):
    lived, died = tether.avoid("died"), tether.reach("died")
    plan = patient.plan(9, 2, objective=lived)
    assert (plan.objective, plan.minimise, plan.observed_value) == (lived, False, 0.0)
    assert 0 < plan.value < 1
    assert plan.gain == plan.value
    against = patient.plan(9, 2, objective=died, minimise=True)
    assert against.value == pytest.approx(1 - plan.value)
    assert against.gain == pytest.approx(plan.gain)
    assert plan.evaluate().outcomes()["died"] == pytest.approx(against.value)
    best = patient.plan(9, 2)
    assert patient.evaluate(best, objective=lived).value == pytest.approx(1 - best.evaluate().outcomes()["died"])
    assert patient.choose_k(2, plan.value, objective=lived) <= 9
    assert patient.choose_k(2, at_most=against.value, objective=died, minimise=True) <= 9


def test_kappa_is_kept_per_objective_and_shared_by_both_directions(patient):
    lived = tether.avoid("died")
    question = patient.tether(objective=lived)
    assert question is patient.tether(objective=tether.avoid("died"))
    assert question is not patient.tether()
    assert patient.tether(objective=lived, minimise=True).thresholds() is question.thresholds()
    assert question.thresholds() is question.thresholds()


def test_a_plan_for_a_property_is_pickled_as_its_question(patient):
    plan = patient.plan(9, 2, objective=tether.avoid("died"), minimise=False)
    again = pickle.loads(pickle.dumps(plan))
    assert (again.value, again.objective, again.k) == (plan.value, plan.objective, plan.k)
    assert repr(again) == repr(plan)


def test_a_decided_state_asks_for_nothing(patient):
    question = patient.tether(objective=tether.avoid("died"))
    dead = next(iter(patient.mdp.labels["died"]))
    answer = question.why(3, dead, patient.mdp.actions_in(dead)[0], k=1)
    assert (answer.allowed, answer.needed, answer.reason) == (True, 1, "decided")
    plan = question.plan(9, 2)
    states, chance = plan.evaluate().distribution(9)
    reached = next(s for s, p in zip(states, chance, strict=True) if s in patient.mdp.labels["died"] and p > 0)
    assert plan.action(9, reached, 1) is None
    assert question.classify(t=9, k=9)[reached] != "not influenced"


def test_states_are_given_by_label_list_or_function():
    grid = tether.cases.grid_world()
    cf = tether.counterfactual(grid.mdp, grid.path)
    values = {
        cf.plan(6, 4, objective=tether.avoid(given)).value
        for given in ("danger", [6], (6,), np.array([6]), lambda s: s == 6, grid.mdp.labels["danger"])
    }
    assert len(values) == 1


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda: tether.reach("gaol"),
            "no label or state called 'gaol'; its labels are 'goal', 'danger'",
        ),
        (lambda: tether.reach([]), "reach {}: goal: no state is in this set; its labels are 'goal', 'danger'"),
        (lambda: tether.avoid(lambda s: s > 99), "no state is in this set"),
        (lambda: tether.avoid(["x"]), "'x'"),
        (lambda: tether.avoid(6), r"avoid\(bad\): a label, a list of states or a function of .* not 6: \[6\]"),
        (lambda: tether.reach([0, 15]), "it is decided at t = 0: the episode begins in state 0, where it holds"),
        (lambda: tether.until("danger", "goal"), "decided at t = 0: the episode begins in state 0, where it fails"),
        (lambda: "avoid", r"the objective 'avoid' is none of 'reach GOAL', 'avoid BAD'"),
        (lambda: {"avoid": "danger"}, r"objective must be tether.reach\(goal\), .* not {'avoid': 'danger'}"),
        (lambda: tether.reach([[1]]), "not hashable"),
    ],
)
def test_a_property_that_cannot_be(ask, message):
    grid = tether.cases.grid_world()
    cf = tether.counterfactual(grid.mdp, grid.path)
    with pytest.raises(tether.QueryError, match=message):
        cf.plan(6, 4, objective=ask())


def test_words_are_a_property():
    grid = tether.cases.grid_world()
    cf = tether.counterfactual(grid.mdp, grid.path)
    one, other = "avoid danger within 3", tether.avoid("danger", within=3)
    assert cf.plan(6, 4, objective=one).value == cf.plan(6, 4, objective=other).value


def test_a_text_names_the_state_that_reads_so():
    mdp = tether.MDP.from_table([4, 4, 5, 5], ["go", "stay"] * 2, [5, 4, 5, 4], [1.0] * 4)
    cf = tether.counterfactual(mdp, tether.Path([4, 5], ["go"]))
    assert cf.plan(2, objective=tether.avoid("5")).value == cf.plan(2, objective=tether.avoid([5])).value == 1.0
    assert tether.until("4", "5").in_words == "state 5 is reached with state 4 until then"
    both = tether.MDP.from_table([(4,), "(4,)"], ["go"] * 2, [(4,), (4,)], [1.0] * 2)
    assert tether.reach("(4,)").on(both).ended.tolist() == [False, True]  # what equals comes first


def test_a_word_that_is_no_label_may_be_a_state_written_wrong():
    mdp = tether.MDP.from_table(["worn", "broken"], ["run", "run"], ["broken", "broken"], [1.0, 1.0])
    with pytest.raises(tether.QueryError, match="called 'borken'; it has no labels; it has 2 states: 'worn', 'broken'"):
        mdp.solve(3, objective=tether.reach("borken"))


def test_a_label_of_no_state():
    grid = tether.cases.grid_world()
    mdp = replace(grid.mdp, label_sets=LabelSets({**grid.mdp.label_sets, "nowhere": []}))
    with pytest.raises(tether.QueryError, match="no state has the label 'nowhere'"):
        mdp.solve(3, objective=tether.reach("nowhere"))


def test_thresholds_have_a_direction(patient):
    with pytest.raises(tether.QueryError, match="give at_most="):
        patient.choose_k(1, 0.5, objective=tether.reach("died"), minimise=True)
    with pytest.raises(tether.QueryError, match="give at_least="):
        patient.choose_k(1, at_most=0.5)
    with pytest.raises(tether.QueryError, match="another objective"):
        patient.evaluate(patient.plan(5, 1, objective=tether.avoid("died")), objective=tether.reach("discharged"))


def test_asked_is_what_it_says():
    """The twin itself: an episode that leaves the goal has reached it; one that leaves what must hold has failed."""
    path = tether.Path(["s0", "s1", "s0"], ["a0", "a0"])
    world = World(["s0", "s1"], ["a0"], {("s0", "a0"): {"s1": 1.0}, ("s1", "a0"): {"s0": 1.0}}, path)
    assert Asked(world, "reach", frozenset(), frozenset(["s1"]), "definition", SUPPORT).observed() == 1.0
    cf = world.cf
    assert cf.plan(1, 0, objective=tether.reach(["s1"])).observed_value == 1.0
    assert cf.plan(1, 0, objective=tether.avoid(["s1"])).value == 0.0
