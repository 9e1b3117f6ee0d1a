"""Limits on whole paths beside recursions over what was met: a budget of distance, and a chance to be lost."""

import itertools

import numpy as np
import pytest
from effort import tries

import tether


def small(seed, T=3, S=3):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(S), size=(S, 2))
    P[rng.random(P.shape) < 0.35] = 0.0
    P[..., seed % S] += 1e-3
    P /= P.sum(axis=-1, keepdims=True)
    R, final = rng.integers(-3, 4, (S, 2)).astype(float), rng.integers(-3, 4, S).astype(float)
    mdp = tether.MDP.from_arrays(P, R).with_objective(final_reward=final, discount=0.9)
    return tether.counterfactual(mdp, mdp.simulate("random", T, rng=seed, start=0))


def free(cf, t, s):
    """Nobody has a choice in an absorbing state without the observed action."""
    return cf.path.actions[t] not in cf.mdp.actions_in(s)


def distance(cf, t, s, a):
    seen = dict(zip(*cf.nominal_row(t, cf.path.states[t], cf.path.actions[t]), strict=True))
    row = dict(zip(*cf.nominal_row(t, s, a), strict=True))
    return 0.5 * sum(abs(seen.get(j, 0.0) - row.get(j, 0.0)) for j in seen.keys() | row.keys())


def by_budget(cf, t, s, left, rest, k):
    """The best value if every path keeps to what is left; -∞ if none does."""
    if t == cf.T:
        return float(cf.mdp.final_reward[cf.mdp.state_index(s)])
    best = -np.inf
    for a in cf.mdp.actions_in(s):
        change, far = int(a != cf.path.actions[t] and not free(cf, t, s)), distance(cf, t, s, a)
        if change > left or far > rest + 1e-9 or cf.why(t, s, a, k=k).needed > k:
            continue
        value = cf.mdp.reward(s, a)
        for j, chance in zip(*cf.row(t, s, a), strict=True):
            value += cf.mdp.discount * chance * by_budget(cf, t + 1, j, left - change, rest - far, k)
        best = max(best, value)
    return best


@pytest.mark.parametrize("seed", range(tries(4, 30)))
def test_a_budget_beside_a_recursion(seed):
    cf = small(seed)
    before = -np.inf
    for budget, m in itertools.product((0.0, 0.4, 0.9, 1.5, 3.0), (1, 3)):
        for k in (2, cf.T + 1):
            plan = cf.plan(k=k, m=m, budget=budget)
            assert plan.value == pytest.approx(by_budget(cf, 0, 0, m, budget, k), abs=1e-10)
            assert plan.spent <= budget + 1e-9
            check_followed(plan)
        if m == 3:
            assert plan.value >= before - 1e-12
            before = plan.value
    assert cf.plan(m=2, budget=cf.T).value == pytest.approx(cf.plan(k=cf.T + 1, m=2).value, abs=1e-12)
    assert cf.plan(m=2, budget=cf.T, minimise=True).value == pytest.approx(
        cf.plan(k=cf.T + 1, m=2, minimise=True).value, abs=1e-12
    )


def check_risk(plan):
    """Every path of the plan is better, equal or worse than what happened."""
    cf, ends = plan.cf, []

    def follow(t, key, chance, earned):
        name = cf.mdp.states[key.state]
        if t == cf.T:
            ends.append((chance, earned + cf.mdp.discount**t * float(cf.mdp.final_reward[key.state])))
            return
        where = plan.nodes[t][key]
        action = cf.mdp.actions[int(cf.mdp.form.pair_action[where.pair])]
        earned += cf.mdp.discount**t * cf.mdp.reward(name, action)
        for j, likely in zip(*cf.row(t, name, action), strict=True):
            follow(t + 1, where.after[cf.mdp.state_index(j)], chance * likely, earned)

    follow(0, next(iter(plan.nodes[0])), 1.0, 0.0)
    worse, better = (
        sum(chance for chance, value in ends if side * (value - plan.observed_value) > 1e-9) for side in (-1, 1)
    )
    assert (plan.risk.worse, plan.risk.better) == pytest.approx((worse, better), abs=1e-12)


def check_followed(plan):
    """The nodes of the plan give its value, and no path spends more than it says."""
    cf, value = plan.cf, 0.0
    for t, layer in enumerate(plan.nodes[:-1]):
        assert sum(where.chance for where in layer.values()) == pytest.approx(1.0)
        for key, where in layer.items():
            action = cf.mdp.actions[int(cf.mdp.form.pair_action[where.pair])]
            value += cf.mdp.discount**t * where.chance * cf.mdp.reward(cf.mdp.states[key.state], action)
            assert set(where.after) == {cf.mdp.state_index(j) for j in cf.row(t, cf.mdp.states[key.state], action)[0]}
    check_risk(plan)
    for key, where in plan.nodes[-1].items():
        value += cf.mdp.discount**cf.T * where.chance * float(cf.mdp.final_reward[key.state])
    assert value == pytest.approx(plan.value, abs=1e-10)


def all_plans(cf, t, s, left, run, k, influenced):
    """Value and chance not to be lost of every deterministic plan, pruned to what may be best for some weights."""
    if t == cf.T:
        return [(float(cf.mdp.final_reward[cf.mdp.state_index(s)]), float(run < k))]
    found = []
    for a in cf.mdp.actions_in(s):
        change = int(a != cf.path.actions[t] and not free(cf, t, s))
        if change > left or cf.why(t, s, a, k=k).needed > k:
            continue
        onward = run if run >= k else 0 if (t, s, a) in influenced else run + 1
        sums = [(cf.mdp.reward(s, a), 0.0)]
        for j, chance in zip(*cf.row(t, s, a), strict=True):
            after = all_plans(cf, t + 1, j, left - change, onward, k, influenced)
            sums = list({
                (v + cf.mdp.discount * chance * w, p + chance * q) for (v, p), (w, q) in itertools.product(sums, after)
            })  # fmt: skip
        found += sums
    return [one for one in found if not any(x[0] >= one[0] and x[1] >= one[1] and x != one for x in found)]


def influenced_by_hand(cf):
    def seen(t):
        return set(cf.nominal_row(t, cf.path.states[t], cf.path.actions[t])[0])

    return {
        (t, s, a)
        for t, s in itertools.product(range(cf.T), cf.mdp.states)
        for a in cf.mdp.actions_in(s)
        if seen(t) & set(cf.nominal_row(t, s, a)[0])
    }


@pytest.mark.parametrize("seed", range(tries(4, 30)))
def test_a_chance_to_be_lost_between_two_rules(seed):
    cf = small(seed)
    influenced = influenced_by_hand(cf)
    for k, m in itertools.product((1, 2), (1, 2)):
        tied = [cf.plan(k=k, m=m, lost=share) for share in (0.0, 0.1, 0.5, 1.0)]
        assert tied[0].value == pytest.approx(cf.plan(k=k, m=m, rule="assured").value, abs=1e-12)
        assert tied[-1].value == pytest.approx(cf.plan(k=k, m=m).value, abs=1e-12)
        assert np.all(np.diff([plan.value for plan in tied]) >= -1e-12)
        every = all_plans(cf, 0, 0, m, 0, k, influenced)
        for plan in tied:
            assert plan.probability <= plan.lost + 1e-12
            check_followed(plan)
            deterministic = max(v for v, stays in every if stays >= 1 - plan.lost - 1e-12)
            assert plan.value <= deterministic + 1e-10
            most = plan.value if plan.mixture_value is None else plan.mixture_value
            assert most >= deterministic - 1e-10  # the mixture of two neighbours is best of all, also of drawn ones
            assert any(abs(v - plan.value) < 1e-10 and abs(1 - p - plan.probability) < 1e-10 for v, p in every)


def test_the_grid_world_may_be_lost_rarely():
    """`assured` needs k = 9 to gain anything; a chance of 1 in 20,000 is enough for k = 8."""
    case = tether.cases.grid_world()
    cf = tether.counterfactual(case.mdp, case.path)
    assert cf.plan(k=8, m=6, rule="assured").gain == 0.0
    plan = cf.plan(k=8, m=6, lost=1e-4)
    assert plan.value == pytest.approx(472.328, abs=1e-3)
    assert 0 < plan.probability < 5e-5
    table = plan.to_arrow()
    assert table.num_rows == sum(map(len, plan.nodes[:-1]))
    assert sum(plan.distribution(5).values()) == pytest.approx(1.0)


def test_limits_go_with_a_property():
    case = tether.cases.grid_world()
    cf, goal = tether.counterfactual(case.mdp, case.path), tether.reach([15])
    best = cf.plan(k=12, m=6, objective=goal).value
    assert cf.plan(k=12, m=6, objective=goal, lost=1.0).value == pytest.approx(best, abs=1e-12)
    assert cf.plan(m=6, objective=goal, budget=11).value == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        ({"budget": -1}, "budget is a number from 0"),
        ({"lost": 1.5, "k": 2}, "lost is a probability"),
        ({"lost": 0.1}, "give k"),
        ({"lost": 0.1, "budget": 1, "k": 2}, "give one of subject_to=, budget= and lost="),
        ({"budget": 1, "rule": "assured"}, "rule 'assured' counts runs"),
        ({"lost": 0.1, "k": 2, "rule": "assured"}, "rule 'assured' is lost=0"),
        ({"budget": 1, "cost": 2}, "budget="),
    ],
)
def test_what_limits_refuse(ask, why):
    with pytest.raises(tether.QueryError, match=why):
        small(0).plan(**ask)


def test_a_decided_property_stays_decided_where_states_may_be_lost():
    """Also where a state is decided early, and no path that goes on leads there later."""
    for seed in range(tries(6, 24)):
        rng = np.random.default_rng(seed)
        P = rng.dirichlet(np.ones(3), size=(3, 2))
        P[rng.random(P.shape) < 0.2] = 0.0
        P[..., 0] += 1e-3
        mdp = tether.MDP.from_arrays(P / P.sum(axis=-1, keepdims=True), np.zeros((3, 2)))
        cf = tether.counterfactual(mdp, mdp.simulate("random", 4, rng=seed, start=0))
        for objective in (tether.reach([1]), tether.avoid([2])):
            free = cf.plan(k=5, m=3, objective=objective)
            assert cf.plan(k=5, m=3, objective=objective, lost=1.0).value == pytest.approx(free.value, abs=1e-12)
            assert cf.plan(k=5, m=3, objective=objective, budget=99).value == pytest.approx(free.value, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_the_certificate_of_a_plan_without_a_real_limit_is_that_of_the_plan(seed):
    rng = np.random.default_rng(seed)
    P, R = rng.dirichlet(np.ones(3), size=(3, 2)), rng.normal(size=(3, 2))
    mdp = tether.MDP.from_arrays(P, R).with_objective(final_reward=rng.normal(size=3), discount=0.9)
    cf = tether.counterfactual(mdp, mdp.simulate("random", 4, rng=seed, start=0))
    for about in ({}, {"minimise": True}, {"objective": tether.reach([1])}):
        known = cf.plan(k=5, m=1, **about)
        for limit in ({"budget": 99}, {"lost": 1.0}):
            plan = cf.plan(k=5, m=1, **about, **limit)
            mine, theirs = plan.certify(gamma=2.0), known.certify(gamma=2.0)
            for what in ("value", "observed_value", "worst", "best", "verdict"):
                assert getattr(mine, what) == pytest.approx(getattr(theirs, what), abs=1e-9)
            assert mine.related == pytest.approx(theirs.related, abs=1e-9)
            assert plan.about_episode == pytest.approx(known.about_episode, abs=1e-9)
            assert (plan.risk.worse, plan.risk.better) == pytest.approx((known.risk.worse, known.risk.better), abs=1e-9)
            assert mine.gamma_star == pytest.approx(theirs.gamma_star, rel=1e-6)
            for one, other in ((mine.nothing, theirs.nothing), (mine.stability, theirs.stability)):
                assert (one.worst, one.best) == pytest.approx((other.worst, other.best), abs=1e-9)
            more = cf.plan(k=5, m=3, **about, **limit)  # it remembers more, and may not know where others lead
            low, high = sorted((more.certify().nothing.worst, more.certify().nothing.best))
            assert low - 1e-9 <= more.value <= high + 1e-9


def test_a_plan_with_a_limit_is_explained_step_by_step(tmp_path):
    case = tether.cases.grid_world()
    cf = tether.counterfactual(case.mdp, case.path)
    for plan in (cf.plan(m=6, budget=9), cf.plan(k=8, m=6, lost=0.01)):
        found = plan.explain()
        table = plan.to_arrow().to_pylist()
        for step in found.steps:
            here = [row for row in table if row["t"] == step.t]
            changed = sum(row["probability"] for row in here if row["action"] != row["observed_action"])
            # after the goal and in the danger nothing is left to change; the observed action is available everywhere
            assert step.changed == pytest.approx(changed, abs=1e-12)
            assert step.chance == pytest.approx(plan.distribution(step.t)[step.planned_state], abs=1e-12)
        assert "right instead of down at step 2" in found.verdicts(str).change
        assert str(found.certificate) == found.sentences(str)[-1]
        assert found.certificate.nothing.worst <= plan.value <= found.certificate.nothing.best
        page = plan.report(tmp_path / "limit.html").read_text(encoding="utf-8")
        assert "right instead of down" in page
        assert found.to_arrow().num_rows == cf.T
    nothing = cf.plan(m=0, budget=0).explain(certificate=False)
    assert "nothing is expected to be better" in nothing.parts()[0][-1]
    assert [one.word for one in nothing.verdicts()] == ["Mistakes.", "Yes.", "Certain."]
