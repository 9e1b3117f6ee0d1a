"""What a plan is worth in drawn models: every value against a slow twin."""

import itertools
from collections import Counter
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from learned import clinic
from logs import logs
from worlds import FEWER

import tether
import tether.learning.worlds as worlds_of_draws
from tether._kernels.parallel import LARGE
from tether.learning.learn import learn
from tether.learning.posterior import posterior
from tether.learning.uncertainty import ChangedAction
from tether.learning.worlds import block_size
from tether.model.labels import name_text
from tether.observation.episodes import Episodes


def chances(draws, state, action, outcome):
    """The probability of an outcome in each draw."""
    return np.array([dict(zip(*model.row(state, action), strict=True))[outcome] for model in draws.models()])


# --- What a plan is worth ----------------------------------------------------------------------------


def actions_of(plan):
    """What a plan does: (t, state, changes left, run) → action."""
    mdp, said = plan.cf.mdp, {}
    for t in range(plan.T):
        nodes, choice = plan.nodes[t], plan.choices[t]
        for node in range(nodes.size):
            s = int(nodes.states[node])
            run = 0 if nodes.runs.size == 0 else int(nodes.runs[node])
            for c in range(plan.T + 1):
                local = int(choice[node, min(c, choice.shape[1] - 1)])
                if local >= 0:
                    pair = mdp.form.pair_start[s] + local
                    said[t, mdp.states[s], c, run] = mdp.actions[int(mdp.form.pair_action[pair])]
    return said


def followed(plan, cf):
    """Expected return of a plan in another counterfactual MDP, the chance to get off it, and how it ends; by recursion.

    How it ends is the probability of each state at the end, or in which it rests, and whether nothing leads out of it.
    """
    mdp, path, said = cf.mdp, plan.cf.path, actions_of(plan)
    solution = plan.cf.mdp.solve(plan.T, objective=plan.objective, minimise=plan.minimise)
    decided = None if plan.objective is None else plan.objective.on(mdp)

    def influenced(t, s, a):
        seen = path.states[t], path.actions[t]
        if str(plan.influence) == "support":
            return bool({*mdp.row(s, a)[0]} & {*mdp.row(*seen)[0]})
        return cf.strength(t, s, a) > plan.influence.eps or (s, a) == seen

    @cache
    def go(t, s, c, run):
        bound = all(mdp.row(s, b)[0] == (s,) for b in mdp.actions_in(s))
        if decided is not None and (t == plan.T or decided.ended[mdp.states.index(s)]):
            rests = bool(decided.ended[mdp.states.index(s)])
            return float(decided.holds[mdp.states.index(s)]), 0.0, {(s, bound or rests): 1.0}
        if t == plan.T:
            final = 0.0 if mdp.final_reward is None else float(mdp.final_reward[mdp.states.index(s)])
            return final, 0.0, {(s, bound): 1.0}
        a = said.get((t, s, c, run))
        off = a is None
        if off:
            a = path.actions[t] if path.actions[t] in mdp.actions_in(s) else solution.action(t, s)
        left = c if bound and path.actions[t] not in mdp.actions_in(s) else max(c - (a != path.actions[t]), 0)
        after = run + 1 if plan.rule == "assured" and not influenced(t, s, a) else 0
        value, lost, ends = 0.0, 0.0, Counter()
        for j, p in zip(*cf.row(t, s, a), strict=True):
            onward = go(t + 1, j, left, after)
            earned = mdp.reward(s, a, j, t) + mdp.discount * onward[0]
            value += p * (earned if decided is None else onward[0])
            lost += p * onward[1]
            ends.update({end: p * chance for end, chance in onward[2].items()})
        return value, 1.0 if off else lost, ends

    return go(0, path.states[0], plan.m, 0)


def named(mdp, ends):
    """The probability of each label, and of each state without one that nothing leads out of."""
    found = Counter()
    for (s, is_bound), chance in ends.items():
        labels = [name for name, members in mdp.labels.items() if s in members]
        for name in labels or ([name_text(s)] if is_bound else []):
            found[name] += chance
    return found


@st.composite
def questions(draw):
    """A learned model, and a plan in it."""
    log = draw(logs())
    prior = draw(st.sampled_from([0.0, 0.5, 1.0, 2.0]))
    support = draw(st.sampled_from(["seen", "all"])) if prior else "seen"
    mdp = learn(Episodes.from_columns(**log.columns()), prior, support=support, empty_rewards="mean")
    finals = draw(st.lists(st.integers(-4, 4), min_size=mdp.n_states, max_size=mdp.n_states))
    mdp = mdp.with_objective(discount=draw(st.sampled_from([1.0, 0.5])), final_reward=[float(x) for x in finals])
    path = draw(st.sampled_from([*log.paths.values()]))
    rule = draw(st.sampled_from(["definition", "published", "printed", "assured"]))
    influence = "support"
    if rule in ("definition", "assured"):
        influence = draw(st.sampled_from(["support", tether.effective(0.05)]))
    k, m = draw(st.integers(1, path.T + 1)), draw(st.integers(0, path.T))
    others, objective = [s for s in mdp.states if s != path.states[0]], None
    if others and draw(st.booleans()):
        objective = draw(st.sampled_from([tether.reach, tether.avoid]))([draw(st.sampled_from(others))])
    about = {"objective": objective, "minimise": draw(st.booleans())}
    # Nothing follows the record: tests/plan/test_horizon.py is about what does.
    cf = tether.counterfactual(replace(mdp, horizon=path.T), path)
    return cf.plan(k, m, rule=rule, influence=influence, **about)


def asked_again(plan, cf):
    """The same question of another counterfactual MDP."""
    return cf.tether(rule=plan.rule, influence=plan.influence, objective=plan.objective, minimise=plan.minimise)


def worlds(plan, draws):
    """The draws, each conditioned on the path, by the public call."""
    return [tether.counterfactual(model, plan.cf.path) for model in draws.models()]


@given(questions())
@FEWER
def test_a_plan_followed_as_it_is(plan):
    draws = posterior(plan.cf.mdp, 4, rng=5)
    sure = draws.of(plan)
    assert (sure.k, sure.m, sure.value, sure.observed_value) == (plan.k, plan.m, plan.value, plan.observed_value)
    for i, cf in enumerate(worlds(plan, draws)):
        value, off, ends = followed(plan, cf)
        chance_of = {name: array[i] for name, array in sure.outcomes.items() if array[i] > 0}
        assert chance_of == pytest.approx(named(plan.cf.mdp, ends), rel=1e-9, abs=1e-12)
        assert sure.values[i] == pytest.approx(value, rel=1e-9, abs=1e-9)
        assert sure.off_plan[i] == pytest.approx(off, rel=1e-9, abs=1e-12)
        again = asked_again(plan, cf).plan(plan.k, plan.m)
        assert sure.best[i] == again.value
        assert sure.observed[i] == again.observed_value
        if (plan.k, plan.m) == (plan.T + 1, plan.T):  # without limits no policy beats the best
            sign = -1.0 if plan.minimise else 1.0
            assert sign * sure.values[i] <= sign * sure.best[i] + 1e-9


@given(questions())
@FEWER
def test_changes_that_would_be_made_again(plan):
    draws = posterior(plan.cf.mdp, 4, rng=6)
    sure, outlook = draws.of(plan), plan.evaluate()
    again = [asked_again(plan, cf).plan(plan.k, plan.m).evaluate() for cf in worlds(plan, draws)]
    wanted = []
    for t, observed in enumerate(plan.cf.path.actions):
        state, _ = outlook.likeliest(t)
        done = outlook.actions(t, state)
        if not done:  # the plan has ended there
            continue
        action = max(done, key=done.get)
        if action == observed or sorted(done.values())[-2:] == [0.5, 0.5]:
            continue
        there = [one.actions(t, state) for one in again]
        if any(sorted(actions.values())[-2:] == [0.5, 0.5] for actions in there):
            return  # a tie
        same = sum(max(actions, key=actions.get) == action for actions in there if actions)
        wanted.append(ChangedAction(t, state, observed, action, same / 4, sum(map(bool, there)) / 4))
    assert [one for one in sure.changes if one.t in {other.t for other in wanted}] == wanted


def test_a_plan_can_come_to_states_it_says_nothing_about():
    """Which outcomes an observation rules out depends on the probabilities.

    At t = 0 "x" led from "s" to "u". With "y" that is likelier still in the learned model, so there "y" cannot lead
    to "t"; in draws in which it is less likely it can. At t = 1 the plan says nothing about "t", where the observed
    action "x" is not available either: the model's own best is "w", which leads to "u" and a final reward of 7.
    """
    seen = {("x", "t"): 2, ("x", "u"): 2, ("y", "t"): 1, ("y", "u"): 4}
    paths = [tether.Path(["s", j], [a]) for (a, j), times in seen.items() for _ in range(times)]
    path = tether.Path(["s", "u", "s"], ["x", "x"])
    paths += [path, tether.Path(["t", "s"], ["z"]), tether.Path(["t", "u"], ["w"])]
    paths = [tether.Path(one.states, one.actions, [float(a == "y") for a in one.actions]) for one in paths]
    mdp = learn(paths, prior=1)
    mdp = mdp.with_objective(final_reward={"s": 1.0, "t": 3.0, "u": 7.0})
    plan = tether.counterfactual(mdp, path, horizon=path.T).plan(k=3, m=2)
    assert plan.action(0, "s", 2) == "y"
    draws = posterior(mdp, 40, rng=0)
    sure = draws.of(plan)
    # "t" after "y", given that "x" led to "u", has probability max(0, 1 - P(u|y) / P(u|x)).
    chance = np.maximum(0.0, 1 - chances(draws, "s", "y", "u") / chances(draws, "s", "x", "u"))
    np.testing.assert_allclose(sure.off_plan, chance, atol=1e-12)
    np.testing.assert_allclose(sure.values, 1 + (1 - chance) * 1 + chance * 7, rtol=1e-12)
    assert 0 < np.count_nonzero(sure.off_plan) < 40


def test_the_same_by_hand():
    """One step: P_cf("well" | treat) given that waiting killed is max(0, 1 - P(dead|treat) / P(dead|wait))."""
    mdp = clinic()
    plan = tether.counterfactual(mdp, tether.Path(["sick", "dead"], ["wait"])).plan(k=1, m=1)
    draws = posterior(mdp, 50, rng=2)
    sure = draws.of(plan)
    dead = {action: chances(draws, "sick", action, "dead") for action in ("treat", "wait")}
    np.testing.assert_allclose(sure.values, np.maximum(0.0, 1 - dead["treat"] / dead["wait"]), atol=1e-12)
    better = dead["treat"] < dead["wait"]
    assert sure.probability_better == better.mean()
    assert sure.changes == (ChangedAction(0, "sick", "wait", "treat", better.mean(), 1.0),)
    assert np.all(sure.observed == 0.0)
    low, high = sure.interval(0.5)
    assert np.mean(sure.values < low) == pytest.approx(0.25, abs=0.03)
    assert np.mean(sure.values > high) == pytest.approx(0.25, abs=0.03)
    assert sure.mean == pytest.approx(sum(sure.values) / 50)
    assert sure.std == pytest.approx(np.sqrt(sum((sure.values - sure.mean) ** 2) / 50))


def test_a_last_outcome_that_was_not_recorded_is_worth_something_else_in_each_draw():
    mdp = clinic()
    plan = tether.counterfactual(mdp, tether.Path(["sick"], ["wait"])).plan(k=1, m=1)
    draws = posterior(mdp, 30, rng=2)
    sure = draws.of(plan)
    well = {action: chances(draws, "sick", action, "well") for action in ("treat", "wait")}
    np.testing.assert_allclose(sure.observed, well["wait"], rtol=1e-12)
    np.testing.assert_allclose(sure.values, well["treat"], rtol=1e-12)
    assert sure.probability_better == np.mean(well["treat"] > well["wait"])


def test_a_plan_that_changes_nothing_is_never_better():
    mdp = clinic()
    plan = tether.counterfactual(mdp, tether.Path(["sick", "well"], ["treat"])).plan(k=1, m=1)
    sure = posterior(mdp, 20, rng=0).of(plan)
    assert sure.changes == ()
    assert sure.probability_better == 0.0
    assert np.all(sure.values == 1.0)


def test_the_mechanism_of_the_plan_is_the_mechanism_of_its_draws():
    mdp, path = clinic(), tether.Path(["sick", "dead"], ["wait"])
    mechanism = tether.SampledGumbelMax(samples=50, rng=3)
    plan = tether.counterfactual(mdp, path, mechanism).plan(k=1, m=1)
    draws = posterior(mdp, 5, rng=1)
    drawn = [tether.counterfactual(model, path, mechanism) for model in draws.models()]
    expected = [dict(zip(*cf.row(0, "sick", "treat"), strict=True)) for cf in drawn]
    assert plan.action(0, "sick", 1) == "treat"
    np.testing.assert_allclose(draws.of(plan).values, [row.get("well", 0.0) for row in expected], rtol=1e-12)


# --- Many at once ------------------------------------------------------------------------------------


MECHANISMS = [
    tether.GumbelMax(),
    tether.SampledGumbelMax(samples=20, rng=3),
    tether.Independent(),
    tether.Maximal(),
    tether.Comonotone(order=lambda state: -hash(state)),
]


@given(questions(), st.sampled_from(MECHANISMS))
@FEWER
def test_draws_asked_at_once_are_those_asked_one_by_one(plan, mechanism):
    """In blocks of any size the same bits: a draw alone is a model like any other."""
    cf = tether.counterfactual(plan.cf.mdp, plan.cf.path, mechanism)
    question = asked_again(plan, cf)
    draws = posterior(cf.mdp, 5, rng=4)
    for asked in (question.plan(plan.k, plan.m), question.sweep(ks=[1, plan.k], ms=[plan.m])):
        answers = []
        for copies in (1, 2, 5):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(worlds_of_draws, "COPIES", copies)
                answers.append(draws.of(asked))
        for name in ("values", "observed", "best", "off_plan"):
            if hasattr(answers[0], name):
                for other in answers[1:]:
                    np.testing.assert_array_equal(getattr(other, name), getattr(answers[0], name))
        if isinstance(asked, tether.records.Plan):
            for other in answers[1:]:
                assert other.changes == answers[0].changes
                assert other.outcomes.keys() == answers[0].outcomes.keys()
                for name, chances_of_draws in answers[0].outcomes.items():
                    np.testing.assert_allclose(other.outcomes[name], chances_of_draws, rtol=0, atol=1e-12)


def test_a_block_is_small():
    """100 draws of a small model are one block; a large model is drawn by itself."""
    sizes = {"n_transitions": 160, "n_states": 16, "n_pairs": 32}
    assert block_size(SimpleNamespace(**sizes), 10) == worlds_of_draws.COPIES
    for n, T in itertools.product((10, 10**3, 10**5, 10**7), (1, 30, 10**4)):
        copies = block_size(SimpleNamespace(**sizes | {"n_transitions": n}), T, plans=18)
        assert copies == 1 or copies * n * T * 9 <= worlds_of_draws.BLOCK
        assert block_size(SimpleNamespace(**sizes | {"n_states": n}), T) * n < LARGE or n >= LARGE
    assert block_size(SimpleNamespace(**sizes | {"n_transitions": 10**7}), 1) == 1


# --- Sweeps ------------------------------------------------------------------------------------------


@given(questions())
@FEWER
def test_a_sweep_is_all_its_plans(plan):
    cf, draws = plan.cf, posterior(plan.cf.mdp, 3, rng=9)
    table = asked_again(plan, cf).sweep()
    sure = draws.of(table)
    assert sure.values.shape == sure.best.shape == (3, *table.values.shape)
    one = draws.of(plan)
    np.testing.assert_allclose(sure.at(plan.k, plan.m), one.values, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(sure.observed, one.observed)
    for i, world in enumerate(worlds(plan, draws)):
        np.testing.assert_array_equal(sure.best[i], asked_again(plan, world).sweep().values)
    low, high = sure.interval(0.8)
    np.testing.assert_allclose(low, np.quantile(sure.values, 0.1, axis=0))
    np.testing.assert_allclose(high, np.quantile(sure.values, 0.9, axis=0))
    np.testing.assert_allclose(sure.mean, sure.values.sum(axis=0) / 3)
    margin = 1e-9 * np.maximum(np.abs(sure.values), np.abs(sure.observed[:, None, None]))
    gained = (-1.0 if plan.minimise else 1.0) * (sure.values - sure.observed[:, None, None])
    np.testing.assert_array_equal(sure.probability_better, np.mean(gained > margin, axis=0))


def test_limits_asked_for_in_any_order_and_twice():
    mdp = clinic()
    cf = tether.counterfactual(mdp, tether.Path(["sick", "dead"], ["wait"]))
    draws = posterior(mdp, 5, rng=0)
    every, some = draws.of(cf.sweep()), draws.of(cf.sweep(ks=[9, 1, 1], ms=[5, 0]))
    np.testing.assert_array_equal(some.values, every.values[:, [1, 0, 0]][:, :, [1, 0]])
    np.testing.assert_array_equal(some.best, every.best[:, [1, 0, 0]][:, :, [1, 0]])


# --- Are the intervals right? --------------------------------------------------------------------------


@pytest.mark.compiled
def test_intervals_hold_the_truth_as_often_as_they_say():
    """Truth drawn from the prior, episodes from the truth: a 90 % interval then holds the true value in 90 %."""
    rng = np.random.default_rng(11)
    states, actions, reps = 3, 2, 30
    path = tether.Path([0, 1], [0, 1])  # with the last outcome left open no two values are the same
    inside = 0
    for _ in range(reps):
        truth = rng.dirichlet(np.ones(states), size=(states, actions))
        mdp = tether.MDP.from_arrays(truth).with_objective(final_reward=[1.0, 0.0, 5.0])
        rows = [
            tether.Path([s, int(j)], [a])
            for s in range(states)
            for a in range(actions)
            for j in rng.choice(states, size=6, p=truth[s, a])
        ]
        model = learn(rows, prior=1, support="all", states=range(states), actions=range(actions))
        model = model.with_objective(final_reward=[1.0, 0.0, 5.0])
        plan = tether.counterfactual(model, path, horizon=path.T).plan(k=3, m=2)
        low, high = posterior(model, 40, rng=rng).of(plan).interval(0.9)
        value, _, _ = followed(plan, tether.counterfactual(mdp, path))
        inside += low <= value <= high
    # A further draw lies between the 5 % and the 95 % quantile of 40 with probability 0.9·39/41 = 0.856.
    assert abs(inside / reps - 0.856) < 4 * np.sqrt(0.856 * 0.144 / reps)
