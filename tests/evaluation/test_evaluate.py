"""Evaluation against enumeration of every episode, and drawing from a plan."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from brute import allowed, has_run, influenced
from enumerate import CaseWorld, Law, assert_evaluates, assert_tailored, by_plan, hits_of, questions
from hypothesis import given
from hypothesis import strategies as st
from worlds import in_package

import tether


def ask(question):
    world, rule, criterion, k, m = question
    plan = world.cf.plan(k, m, rule=rule, influence=in_package(criterion))
    hit = hits_of(world, criterion)
    return plan, Law(world, by_plan(world, plan, hit)), hit


# --- Against enumeration -------------------------------------------------------------------------


@given(questions(max_states=5, max_steps=4))
def test_a_plan_by_enumeration(question):
    plan, law, hit = ask(question)
    outlook = plan.evaluate()
    assert_evaluates(outlook, law)
    assert_tailored(outlook, law, hit)
    assert outlook.mean == pytest.approx(plan.value, rel=1e-11, abs=1e-11 * law.scale())


@given(questions(max_states=4, max_steps=3), st.sampled_from(["function", "mapping"]))
def test_a_feature_by_enumeration(question, form):
    plan, law, _ = ask(question)
    worth = {s: (i**2 - 3) / 7 for i, s in enumerate(question.world.states)}
    course = plan.evaluate().feature(worth if form == "mapping" else worth.get)
    assert course.mean.shape == course.std.shape == (law.T + 1,)
    for t in range(law.T + 1):
        assert course.mean[t] == pytest.approx(law.mean(lambda one, t=t: worth[one.states[t]]), abs=1e-11)
        assert course.std[t] == pytest.approx(law.std(lambda one, t=t: worth[one.states[t]]), abs=1e-11)


@pytest.mark.parametrize(("k", "m"), [(3, 1), (6, 2), (7, 3)])
def test_the_epidemic_by_enumeration(epidemic, k, m):
    world = CaseWorld(epidemic)
    hit = hits_of(world, ("support", 0.0))
    plan = epidemic.plan(k, m)
    law, outlook = Law(world, by_plan(world, plan, hit)), plan.evaluate()
    assert len(law.episodes) > 1
    assert_evaluates(outlook, law)
    assert_tailored(outlook, law, hit)
    for name in ("S", "I", "V"):
        course = outlook.feature(name)
        for t in range(8):
            assert course.mean[t] == pytest.approx(law.mean(lambda one, t=t, n=name: getattr(one.states[t], n)))
            expected = law.std(lambda one, t=t, n=name: getattr(one.states[t], n))
            assert course.std[t] == pytest.approx(expected, abs=1e-11)


def test_the_toy_by_enumeration():
    toy = tether.cases.toy()
    mdp = toy.mdp.with_objective(discount=0.5, final_reward={"s7": 16.0})
    cf = tether.counterfactual(mdp, toy.path)
    outlook = cf.plan(k=5, m=4).evaluate()
    assert outlook.mean == 0.5**4 * 16.0
    assert outlook.returns.mean.tolist() == [0.0] * 5  # the final reward is not part of the way
    # Supports: {s2, s3}, {s5}, {s7}, {s7}; the observed actions are kept (a tie), and every step meets its own.
    assert outlook.tailoring.influenced.tolist() == [1.0] * 4
    assert outlook.tailoring.strength.tolist() == [0.5, 0.0, 0.0, 0.0]  # only s0 –a0→ s2 was not sure
    assert outlook.tailoring.longest_run == 0
    assert outlook.tailoring.longest_run_probability == 1.0


# --- No spread where there is no chance ----------------------------------------------------------


@given(questions(max_states=5, max_steps=4))
def test_without_changes_everything_is_as_observed(question):
    world, rule, criterion, k, _ = question
    outlook = world.cf.plan(k, 0, rule=rule, influence=in_package(criterion)).evaluate()
    for t, s in enumerate(world.path.states):
        assert outlook.distribution(t)[0] == (s,)
        assert outlook.distribution(t)[1].tolist() == [1.0]
        assert outlook.likeliest(t) == (s, 1.0)
    for t, a in enumerate(world.path.actions):
        assert outlook.actions(t) == {a: 1.0}
    if world.path.last_recorded:
        assert outlook.likeliest_path() == (world.path, 1.0)
    assert outlook.changed.tolist() == [0.0] * world.T
    if world.path.last_recorded:
        assert outlook.std == 0.0
        assert outlook.returns.std.tolist() == [0.0] * (world.T + 1)
    assert outlook.mean == pytest.approx(world.observed_return(), rel=1e-12, abs=1e-12)


def test_a_return_without_chance_has_no_spread_at_all(grid, epidemic):
    for cf, observed, feature in ((grid, -897.0, float), (epidemic, -38.0, "I")):
        outlook = cf.plan(k=1, m=0).evaluate()
        assert outlook.mean == observed
        assert outlook.std == 0.0
        assert not outlook.returns.std.any()
        assert not outlook.feature(feature).std.any()


def test_parts_that_vary_but_cancel_leave_no_spread():
    # One of three states with 0.1, 0.2, 0.7; what the way there earns, the next step takes back.
    P = np.zeros((4, 1, 4))
    P[0, 0] = [0, 0.1, 0.2, 0.7]
    P[[1, 2, 3], 0, [1, 2, 3]] = 1.0
    earned = np.array([0.1, 0.7, 1000 / 3])
    R = np.zeros((2, 4, 1, 4))
    R[0, 0, 0, 1:] = earned
    R[1, [1, 2, 3], 0, [1, 2, 3]] = -earned
    mdp = tether.MDP.from_arrays(P, R)
    outlook = mdp.evaluate("random", 2)
    assert outlook.returns.std[1] == pytest.approx(np.sqrt(np.cov(earned, aweights=[0.1, 0.2, 0.7], ddof=0)))
    assert outlook.std == 0.0  # 2e-6 if moments were carried along instead of deviations
    assert outlook.returns.std[2] == 0.0
    assert repr(outlook) == "<Evaluation: 2 steps, return 0>"
    # The same where only the final reward takes it back.
    mdp = tether.MDP.from_arrays(P, R[0]).with_objective(final_reward=[0.0, *(-earned)])
    assert mdp.evaluate("random", 1).std == 0.0
    assert mdp.evaluate("random", 1).returns.std[1] > 100


def test_what_is_certain_has_no_spread_whatever_its_probabilities_sum_to():
    """Rows of thirds, tenths and sevenths sum to 1 only up to rounding; the return is 0.1 a step in any case."""
    for parts in (3, 7, 10):
        P = np.zeros((parts, 2, parts))
        P[:, 0] = 1 / parts
        P[:, 1, 0], P[:, 1, 1:] = 0.1, 0.9 / (parts - 1)
        mdp = tether.MDP.from_arrays(P, np.full((parts, 2), 0.1)).with_labels({"any": range(parts)})
        path = mdp.simulate("random", 9, rng=parts)
        plan = tether.counterfactual(mdp, path).plan(k=9, m=9)
        outlook = plan.evaluate()
        assert (outlook.std, outlook.returns.std.max(), outlook.feature(lambda _: 0.7).std.max()) == (0.0, 0.0, 0.0)
        assert outlook.feature(lambda _: 0.7).mean.tolist() == [0.7] * 10
        holds = mdp.evaluate("random", 9, objective=tether.reach("any"))
        assert (holds.mean, holds.std) == (1.0, 0.0)
        shown = [repr(outlook), outlook._repr_html_(), repr(outlook.returns), outlook.returns._repr_html_()]
        shown += [str(plan.explain()), repr(plan), str(mdp.evaluate("optimal", 9)), str(mdp.describe())]
        assert not [text for text in shown if re.search(r"e-[0-9]", text)]
        assert plan.gain == 0.0


def test_a_small_spread_of_values_that_differ_is_kept():
    mdp = tether.MDP.from_arrays([[[1 - 1e-30, 1e-30]], [[0, 1]]], [[[0, 1]], [[0, 0]]])
    outlook = mdp.evaluate("random", 1)
    assert outlook.std == pytest.approx(1e-15)
    assert repr(outlook) == "<Evaluation: 1 steps, return 1e-30>"


def test_a_spread_beside_a_large_mean():
    # A million ± 1: 1e12 and 1e12 + 1 cannot be told apart well enough.
    P = [[[0, 0.5, 0.5]], [[0, 1, 0]], [[0, 0, 1]]]
    mdp = tether.MDP.from_arrays(P, [[[0, 1e6 - 1, 1e6 + 1]], [[0, 0, 0]], [[0, 0, 0]]])
    outlook = mdp.evaluate("random", 1)
    assert outlook.mean == 1e6
    assert outlook.std == 1.0


# --- The paper's figure --------------------------------------------------------------------------

# Mean number of infected, from the paper's figure: 1,000 simulated episodes of policies that were themselves computed
# from sampled rows. So the simulation's standard error, and as much again for the rows: five of them are allowed.
PUBLISHED = {
    (3, 1): [1, 2, 3, 6, 8, 9, 8.118, 8.208],
    (6, 4): [1, 2, 3, 3.548, 4.191, 4.618, 4.482, 4.922],
    (7, 4): [1, 2, 1.91, 1.704, 1.486, 1.269, 2.163, 2.955],
    (8, 1): [1, 0, 0, 0, 0, 0, 0, 0],
}


@pytest.mark.parametrize(("k", "m"), PUBLISHED)
@pytest.mark.parametrize("rule", ["definition", "published"])
def test_the_mean_infected_of_the_paper(epidemic, rule, k, m):
    course = epidemic.plan(k, m, rule=rule).evaluate().feature("I")
    off = np.abs(course.mean - PUBLISHED[k, m])
    assert np.all(off <= 5 * course.std / np.sqrt(1000))  # 0 where there is no chance


def test_the_spread_of_the_paper(epidemic):
    published = [0, 0, 0.28618, 0.62320, 0.81351, 0.90146, 1.58506, 2.09690]  # of the same figure, for (7, 4)
    course = epidemic.plan(7, 4).evaluate().feature("I")
    np.testing.assert_allclose(course.std, published, atol=0.06)
    # V_I at t = 1 leaves eight susceptible and one infected: it infects another with 8/9, nobody with 1/9.
    assert course.mean[2] == pytest.approx(17 / 9)
    assert course.std[2] == pytest.approx(np.sqrt(8) / 9)


# --- Questions -----------------------------------------------------------------------------------


def test_an_action_given_a_state_the_plan_never_reaches(grid):
    outlook = grid.plan(k=1, m=0).evaluate()
    assert outlook.actions(3, 15) == {}
    assert outlook.actions(3, 6) == {"up": 1.0}
    assert outlook.actions_among(3, [6, 15]) == {"up": 1.0}
    assert outlook.actions_among(3, []) == {}
    with pytest.raises(tether.QueryError, match="the model has no state 16"):
        outlook.actions(3, 16)


@pytest.mark.parametrize("t", [-1, 12, 1.0, "0", None, True], ids=repr)
@pytest.mark.parametrize("ask", ["distribution", "likeliest"])
def test_a_time_at_which_nothing_is(grid, ask, t):
    with pytest.raises(tether.QueryError, match="t must be a whole number from 0 to 11, not") as error:
        getattr(grid.plan(1, 0).evaluate(), ask)(t)
    assert error.value.problems[0].value == t


def test_there_is_no_action_at_the_end(grid):
    outlook = grid.plan(1, 0).evaluate()
    assert outlook.likeliest(11) == (6, 1.0)
    with pytest.raises(tether.QueryError, match="from 0 to 10, not 11"):
        outlook.actions(11)


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        ("R", "the states have no feature 'R'; it has S, I, V"),
        ("count", "the states have no feature 'count'; it has S, I, V"),  # a method of tuples, no feature
        (3, "a feature is a name, a function of the state or a mapping, not 3"),
        ({}, r"the feature says nothing for state \(9, 1, 20\)"),
        (lambda s: "many", r"the feature of state \(9, 1, 20\) is 'many', not a finite number"),
        (lambda s: None, "is None, not a finite number"),
        (lambda s: float("nan"), "is nan, not a finite number"),
        (lambda s: 1 / s.S if s.S < 9 else -np.inf, "is -inf, not a finite number"),
    ],
)
def test_features_that_are_none(epidemic, feature, message):
    with pytest.raises(tether.QueryError, match=message):
        epidemic.plan(1, 0).evaluate().feature(feature)


def test_labels_without_names_need_a_function(grid):
    outlook = grid.plan(1, 0).evaluate()
    with pytest.raises(tether.QueryError, match="no feature 'row'; their names have no named parts; give a function"):
        outlook.feature("row")
    assert outlook.feature(lambda cell: cell // 4).mean.tolist() == [0.0] * 3 + [1.0] * 9


def test_a_plan_of_another_counterfactual(grid, epidemic):
    plan = epidemic.plan(7, 4)
    with pytest.raises(tether.QueryError, match=r"made for another counterfactual MDP; .*plan\.on"):
        grid.evaluate(plan)
    again = epidemic.evaluate(plan)
    assert (again.mean, again.std) == (plan.evaluate().mean, plan.evaluate().std)


def test_a_plan_may_be_measured_by_another_test_of_influence(grid):
    plan = grid.plan(7, 4)
    test = tether.tv(0.5)
    by_table = {(t, s): a for t in range(11) for s in range(16) if (a := _only(plan.evaluate().actions(t, s)))}
    other = grid.evaluate(plan, influence=test).tailoring
    assert other.influenced.sum() < plan.evaluate().tailoring.influenced.sum()
    assert other.influenced == pytest.approx(grid.evaluate(by_table, influence=test).tailoring.influenced)


def _only(actions):
    return dict(actions) or None


# --- Drawing -------------------------------------------------------------------------------------


@given(questions(max_states=6, max_steps=4), st.integers(0, 99))
def test_every_draw_is_possible_and_keeps_its_promise(question, seed):
    world, rule, criterion, k, m = question
    plan, _, _ = ask(question)
    hits = influenced(world, criterion)
    kept = None if rule == "assured" else allowed(world, rule, hits, k)
    drawn = plan.sample(8, rng=seed)
    assert len(drawn) == 8
    assert drawn.states.shape == (8, world.T + 1)
    assert drawn.actions.shape == (8, world.T)
    for path, states, actions, value in zip(drawn.paths, drawn.states, drawn.actions, drawn.returns, strict=True):
        assert path.states == tuple(world.states[s] for s in states)
        assert path.actions == tuple(world.actions[a] for a in actions)
        assert path.states[0] == world.path.states[0]
        pairs = list(zip(path.states, path.actions, strict=False))
        for t, pair in enumerate(pairs):
            assert path.states[t + 1] in world.rows[t][pair]
        assert sum(world.changed(t, s, a) for t, (s, a) in enumerate(zip(path.states, path.actions, strict=False))) <= m
        if kept is None:
            assert not has_run([pair in hits[t] for t, pair in enumerate(pairs)], k)
        else:
            assert all(pair in kept[t] for t, pair in enumerate(pairs))
        assert value == pytest.approx(world.worth(pairs, path.states[-1]), rel=1e-12, abs=1e-12)
        tether.counterfactual(world.cf.mdp, path)  # a path of the model, and one to go on from


@pytest.mark.parametrize(("k", "m"), [(7, 4), (12, 11)])
def test_draws_come_as_often_as_they_should(grid, k, m):
    n = 20_000
    plan = grid.plan(k, m)
    outlook, drawn = plan.evaluate(), plan.sample(n, rng=5)
    for t in range(12):
        labels, chance = outlook.distribution(t)
        share = np.bincount(drawn.states[:, t], minlength=16) / n
        error = np.sqrt(chance * (1 - chance) / n)
        assert np.all(np.abs(share[list(labels)] - chance) <= 5 * error + 10 / n * (error > 0))
        assert share[list(labels)].sum() == pytest.approx(1.0)
    assert abs(drawn.returns.mean() - outlook.mean) <= 5 * outlook.std / np.sqrt(n)
    fourth = np.mean(((drawn.returns - outlook.mean) / outlook.std) ** 4)  # a rare fall into the pit weighs heavily
    assert abs(drawn.returns.std() - outlook.std) <= 5 * outlook.std * np.sqrt((fourth - 1) / n) / 2


def test_steps_depend_on_each_other_as_they_should(epidemic):
    # Not only each time on its own: the pair (s_t, s_{t+1}) comes as often as the product of state and row.
    n = 20_000
    plan = epidemic.plan(7, 4)
    outlook, drawn = plan.evaluate(), plan.sample(n, rng=11)
    for path in drawn.paths[:50]:
        assert path.states[0] == (9, 1, 20)
    together = {}
    for before, after in zip(drawn.states[:, 3], drawn.states[:, 4], strict=True):
        together[int(before), int(after)] = together.get((int(before), int(after)), 0) + 1 / n
    link, mass = outlook.chain.links[3], outlook.occupancy[3]
    expected = {}
    for source, target, p in zip(link.source, link.target, link.probability, strict=True):
        key = (int(outlook.chain.visits[3].states[source]), int(outlook.chain.visits[4].states[target]))
        expected[key] = expected.get(key, 0.0) + mass[source] * p
    assert set(together) <= set(expected)
    for key, chance in expected.items():
        assert abs(together.get(key, 0.0) - chance) <= 5 * np.sqrt(chance * (1 - chance) / n) + 10 / n


def test_the_same_seed_draws_the_same(grid):
    plan = grid.plan(7, 4)
    one, two, other = plan.sample(50, rng=3), plan.sample(50, rng=np.random.default_rng(3)), plan.sample(50, rng=4)
    for name in ("states", "actions", "returns"):
        assert np.array_equal(getattr(one, name), getattr(two, name))
    assert not np.array_equal(one.states, other.states)
    assert one.paths == two.paths
    generator = np.random.default_rng(3)
    assert not np.array_equal(plan.sample(50, rng=generator).states, plan.sample(50, rng=generator).states)
    assert np.array_equal(plan.sample().states, plan.sample(5, rng=0).states)  # as the command line draws them


@pytest.mark.parametrize("n", [0, -1, 1.0, "3", None, True], ids=repr)
def test_a_number_of_draws_that_is_none(grid, n):
    with pytest.raises(tether.QueryError, match=f"n must be a whole number ≥ 1, not {n!r}"):
        grid.plan(1, 0).sample(n)


# --- How records print ---------------------------------------------------------------------------


def records(cf):
    plan = cf.plan(k=7, m=4)
    outlook = plan.evaluate()
    front = cf.pareto(m=2)
    return {
        "plan": plan,
        "evaluation": outlook,
        "nominal evaluation": cf.mdp.evaluate("random", 3),
        "course": outlook.returns,
        "feature": outlook.feature(lambda cell: cell),
        "tailoring": outlook.tailoring,
        "trajectories": plan.sample(3, rng=0),
        "path": plan.sample(3, rng=0).paths[0],
        "sweep": cf.sweep(),
        "front": front,
        "point": front.points[0],
        "why": cf.why(0, 0, "up", k=3),
        "classes": cf.classify(k=3, t=2),
        "solution": cf.mdp.solve(5),
        "counterfactual": cf,
        "model": cf.mdp,
    }


def test_records_print_in_one_line(grid):
    for name, record in records(grid).items():
        shown = repr(record)
        assert shown.startswith("<"), name
        assert shown.endswith(">"), name
        assert "\n" not in shown, name
        assert "0x" not in shown, name  # no memory address


def test_what_records_say(grid):
    shown = {name: repr(record) for name, record in records(grid).items()}
    outlook = grid.plan(7, 4).evaluate()
    steps = outlook.tailoring.expected_influenced_steps
    assert shown["evaluation"] == f"<Evaluation: 11 steps, return 374.7 ± 394.7, {steps:.2f} of 11 steps influenced>"
    assert shown["nominal evaluation"].startswith("<Evaluation: 3 steps, return ")
    assert "influenced" not in shown["nominal evaluation"]
    assert shown["course"] == "<Course: 12 times, 0 … 374.7 ± 394.7>"
    assert shown["trajectories"].startswith("<Trajectories: 3 of 11 steps, mean return ")
    assert shown["solution"] == "<Solution: 5 steps, 16 states>"
    run, chance = outlook.tailoring.longest_run, outlook.tailoring.longest_run_probability
    assert shown["tailoring"].endswith(f"longest uninfluenced run {run} (probability {chance:.3g})>")


class _Balanced(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.cells = [], 0

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.cells += tag == "td"

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_a_notebook_shows_tables(grid):
    cells = {"sweep": 12 * 12, "path": 12 * 3}
    for name, record in records(grid).items():
        if hasattr(record, "_repr_html_"):
            page = _Balanced()
            page.feed(record._repr_html_())
            assert page.open == [], name
            assert page.cells == cells.get(name, page.cells) > 0, name
    assert cells.keys() <= {name for name, record in records(grid).items() if hasattr(record, "_repr_html_")}
