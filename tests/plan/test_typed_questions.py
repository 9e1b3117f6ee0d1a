"""Hidden types: every question of a counterfactual MDP, beside the models of the types and beside enumeration."""

import itertools

import numpy as np
import pytest
from effort import tries
from scipy.optimize import linprog
from test_hidden_types import by_beliefs, typed

import tether
from tether.plan import hidden_types

RULES = ("definition", "published", "printed")


def world_of(seed, T=3):
    types, path = typed(seed, 2, T, zeros=seed % 2 == 1)
    return tether.counterfactual(types, path)


def histories(cf, weights, policy, rows):
    """Every history under a policy of histories, with its weight by type."""
    found = [((cf.path.states[0],), (), weights)]
    for t in range(cf.T):
        onward = []
        for states, actions, mass in found:
            action = policy(t, states, actions)
            table = [rows(z, t, states[-1], action) for z in range(len(mass))]
            for j in set().union(*table):
                seen = [w * row.get(j, 0.0) for w, row in zip(mass, table, strict=True)]
                if sum(seen) > 0:
                    onward.append(((*states, j), (*actions, action), seen))
        found = onward
    return found


def returns(mdp, states, actions):
    total = sum(mdp.discount**t * mdp.reward(s, a) for t, (s, a) in enumerate(zip(states, actions, strict=False)))
    return total + mdp.discount ** len(actions) * float(mdp.final_reward[mdp.state_index(states[-1])])


@pytest.mark.parametrize("seed", range(4))
def test_a_plan_followed_history_by_history_has_its_value_and_its_distribution(seed):
    cf = world_of(seed)
    plan, mdp, cfs = cf.plan(m=2), cf.types.models["z0"], list(cf.by_type.values())

    def rows(z, t, s, a):
        return dict(zip(*cfs[z].row(t, s, a), strict=True))

    found = histories(cf, list(cf.shares), lambda t, states, _: plan.action(states), rows)
    assert sum(sum(mass) for *_, mass in found) == pytest.approx(1.0)
    value = sum(sum(mass) * returns(mdp, states, actions) for states, actions, mass in found)
    assert value == pytest.approx(plan.value, abs=1e-12)
    outlook = plan.evaluate()
    square = sum(sum(mass) * (returns(mdp, states, actions) - value) ** 2 for states, actions, mass in found)
    assert outlook.std == pytest.approx(np.sqrt(square), abs=1e-9)
    for i, name in enumerate(outlook.stds):
        own = sum(mass[i] * (returns(mdp, states, actions) - plan.values[name]) ** 2 for states, actions, mass in found)
        assert outlook.stds[name] == pytest.approx(np.sqrt(own / cf.shares[i]), abs=1e-9)
    seen = returns(mdp, cf.path.states, cf.path.actions)
    ends = [(sum(mass), returns(mdp, states, actions) - seen) for states, actions, mass in found]
    assert plan.risk.worse == pytest.approx(sum(mass for mass, more in ends if more < -1e-9), abs=1e-12)
    assert plan.risk.better == pytest.approx(sum(mass for mass, more in ends if more > 1e-9), abs=1e-12)
    for t in range(cf.T + 1):
        by_hand = {}
        for states, _, mass in found:
            by_hand[states[t]] = by_hand.get(states[t], 0.0) + sum(mass)
        assert plan.evaluate().distribution(t) == pytest.approx(by_hand, abs=1e-12)
    assert all(sum(a != b for a, b in zip(actions, cf.path.actions, strict=True)) <= 2 for _, actions, _ in found)
    certificate = plan.certify()
    assert certificate.worst - 1e-9 <= plan.value <= certificate.best + 1e-9


def test_all_policies_of_histories_enumerated_over_types_and_noise():
    """T = 2, two actions: every function of (s_0), (s_0, s_1) to actions, with at most m changes on every history."""
    for seed in range(3):
        cf = world_of(seed, T=2)
        mdp, cfs = cf.types.models["z0"], list(cf.by_type.values())
        first, others = cf.path.states[0], list(mdp.states)

        def rows(z, t, s, a, cfs=cfs):
            return dict(zip(*cfs[z].row(t, s, a), strict=True))

        best = {}
        for acts in itertools.product(mdp.actions, repeat=1 + len(others)):
            table = {(first,): acts[0], **{(first, s): a for s, a in zip(others, acts[1:], strict=True)}}
            found = histories(cf, list(cf.shares), lambda t, states, _, table=table: table[states], rows)
            most = max(sum(a != b for a, b in zip(one, cf.path.actions, strict=True)) for _, one, _ in found)
            value = sum(sum(mass) * returns(mdp, states, actions) for states, actions, mass in found)
            best[most] = max(best.get(most, -np.inf), value)
        for m in range(3):
            expected = max(value for most, value in best.items() if most <= m)
            assert cf.plan(m=m).value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_one_type_gives_the_answers_of_its_model(seed):
    types, path = typed(seed, 1, 4, zeros=True)
    mdp = types.models["z0"]
    twice = tether.Types({"a": mdp, "b": mdp}, prior={"a": 0.3, "b": 0.7})
    usual = tether.counterfactual(mdp, path)
    for one in (types, twice):
        cf = tether.counterfactual(one, path)
        for rule in RULES:
            assert cf.sweep(rule=rule).values == pytest.approx(usual.sweep(rule=rule).values, abs=1e-12)
        for minimise in (False, True):
            plan = cf.plan(k=2, m=2, minimise=minimise)
            assert plan.value == pytest.approx(usual.plan(k=2, m=2, minimise=minimise).value, abs=1e-12)
            own, known = cf.plan(m=2, minimise=minimise).risk, usual.plan(k=5, m=2, minimise=minimise).risk
            assert (own.worse, own.better) == pytest.approx((known.worse, known.better), abs=1e-12)
            goal = tether.reach([1])
            if path.states[0] != 1:
                asked = cf.plan(m=2, objective=goal, minimise=minimise)
                tied = cf.plan(k=2, m=2, objective=goal, minimise=minimise)
                assert tied.value == pytest.approx(
                    usual.plan(k=2, m=2, objective=goal, minimise=minimise).value, abs=1e-12
                )
                known = usual.plan(k=5, m=2, objective=goal, minimise=minimise)
                assert (asked.value, asked.observed_value) == pytest.approx(
                    (known.value, known.observed_value), abs=1e-12
                )
            mine, theirs = cf.review(minimise=minimise), usual.review(minimise=minimise)
            for what in ("expected", "mistakes", "luck", "observed"):
                assert getattr(mine, what) == pytest.approx(getattr(theirs, what), abs=1e-9)
            assert [one.mistake for one in mine.steps] == pytest.approx([one.mistake for one in theirs.steps], abs=1e-9)
            star = theirs.gamma_star
            assert mine.gamma_star == (None if star is None else pytest.approx(star, rel=1e-6))
        assert cf.evaluate("random").value == pytest.approx(usual.evaluate("random").value, abs=1e-12)
        assert cf.evaluate("random").std == pytest.approx(usual.evaluate("random").std, abs=1e-9)
        for field in ("value", "mistake", "strength", "needed_k"):
            mine, theirs = ([getattr(row, field) for row in one.decisions().rows] for one in (cf, usual))
            assert mine == pytest.approx(theirs, abs=1e-9)
        assert cf.decisions().sentences(str) == usual.decisions().sentences(str)[: len(cf.decisions().sentences(str))]
        for t, s, a in itertools.product(range(4), mdp.states, mdp.actions):
            assert dict(zip(*cf.row(t, s, a), strict=True)) == pytest.approx(
                dict(zip(*usual.row(t, s, a), strict=True)), abs=1e-12
            )


@pytest.mark.parametrize("seed", range(4))
def test_the_best_single_decision_is_the_plan_of_one_change(seed):
    cf = world_of(seed)
    best = max(row.value for row in cf.decisions().rows)
    assert cf.plan(m=1).value == pytest.approx(best, abs=1e-12)
    table = cf.sweep()
    for k, m in itertools.product((1, 2, 4), (0, 1, 3)):
        assert table.value(k, m) == pytest.approx(cf.plan(k=k, m=m).value, abs=1e-12)
    assert np.all(np.diff(table.values, axis=0) >= -1e-12)
    assert np.all(np.diff(table.values, axis=1) >= -1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_mistakes_are_those_of_a_recursion_over_beliefs(seed):
    cf = world_of(seed)
    models = list(cf.types.models.values())

    def best(t, s, weights, action=None):
        if t == cf.T:
            return sum(weights) * float(models[0].final_reward[s])
        found = []
        for a in models[0].actions if action is None else [action]:
            table = [dict(zip(*mdp.row(s, a), strict=True)) for mdp in models]
            total = sum(weights) * models[0].reward(s, a)
            for j in set().union(*table):
                seen = [w * row.get(j, 0.0) for w, row in zip(weights, table, strict=True)]
                total += models[0].discount * best(t + 1, j, seen)
            found.append(total)
        return max(found)

    review, over_time = cf.review(), cf.posterior_over_time
    for step in review.steps:
        belief = [over_time[name][step.t] for name in cf.types.models]
        expected = best(step.t, step.state, belief)
        assert step.expected == pytest.approx(expected, abs=1e-9)
        assert step.mistake == pytest.approx(expected - best(step.t, step.state, belief, step.action), abs=1e-9)
    assert review.expected - review.mistakes + review.luck == pytest.approx(review.observed, abs=1e-9)


def test_three_types_are_judged_where_it_is_certain_which_action_is_best(monkeypatch):
    types, path = typed(5, 3, 3)
    cf = tether.counterfactual(types, path)
    review = cf.review()
    assert cf.plan(m=1).explain().sentences(str)[:2] == review.verdict(str) == cf.decisions().sentences(str)[:2]
    assert tether.audit(types, [path]).rows[0].claimed == review.mistakes > 0
    monkeypatch.setattr(hidden_types, "MOST", 1)
    explanation = cf.plan(m=1).explain()
    assert explanation.review is None
    assert "too many ways to act to be sure" in explanation.verdicts(str).luck.sentences[0]
    with pytest.raises(tether.QueryError, match="3 types needs more than"):
        cf.review()


def test_an_absorbing_state_in_which_actions_earn_differently_has_decisions():
    rows = [("ill", "wait", "home", 0.5, 0), ("ill", "wait", "ill", 0.5, 0), ("ill", "treat", "home", 1.0, -1)]
    rows += [("home", "wait", "home", 1.0, 0), ("home", "treat", "home", 1.0, 2)]
    mdp = tether.MDP.from_table(*zip(*rows, strict=True))
    path = tether.Path(["ill", "home", "home"], ["wait", "wait"])
    types = tether.Types({"a": mdp, "b": mdp}, prior={"a": 0.5, "b": 0.5})
    mine, theirs = tether.counterfactual(types, path).review(), tether.review(mdp, path)
    assert [(one.action, one.best, one.mistake) for one in mine.steps] == [
        (one.action, one.best, pytest.approx(one.mistake)) for one in theirs.steps
    ]
    assert mine.largest().action == "wait"
    assert str(mine) == str(theirs)


def test_what_is_over_for_one_type_alone_is_not_over():
    """At home those who are well stay; the others fall ill again. Nobody waits at home."""

    def model(stay):
        rows = [("ill", "wait", "home", 0.5, 0), ("ill", "wait", "ill", 0.5, 0), ("ill", "treat", "home", 1.0, 0)]
        rows += [("home", "treat", "home", stay, 0), ("home", "rest", "home", stay, 1)]
        rows += [("home", do, "ill", 1 - stay, 0) for do in ("treat", "rest") if stay < 1]
        return tether.MDP.from_table(*zip(*rows, strict=True), states=["ill", "home"])

    path = tether.Path(["ill", "ill", "ill", "ill"], ["wait", "wait", "wait"])
    for stays, counted in (((1.0, 0.5), 1.0), ((1.0, 1.0), 0.0)):
        models = {f"{i}": model(stay) for i, stay in enumerate(stays)}
        plan = tether.counterfactual(tether.Types(models, {"0": 0.5, "1": 0.5}), path).plan(m=3)
        explanation = plan.explain()
        step = explanation.steps[1]
        assert (step.planned_state, step.planned) == ("home", "rest")
        assert explanation.plans(step) == ("home", "rest")
        assert step.changed == pytest.approx(counted)


def test_beliefs_along_a_counterfactual_history_are_those_of_bayes():
    cf = world_of(2)
    plan = cf.plan(m=2)
    names = list(cf.types.models)
    state = next(iter(cf.row(0, cf.path.states[0], plan.action(cf.path.states[:1]))[0]))
    history = tether.Path([cf.path.states[0], state], [plan.action(cf.path.states[:1])])
    given, before = cf.beliefs(history)
    seen = [
        cf.posterior[z] * dict(zip(*cf.by_type[z].row(0, history.states[0], history.actions[0]), strict=True))[state]
        for z in names
    ]
    plain = cf.types.prior(None)
    plain = [
        plain[z] * dict(zip(*cf.types.models[z].row(history.states[0], history.actions[0]), strict=True))[state]
        for z in names
    ]
    assert list(given.values()) == pytest.approx([one / sum(seen) for one in seen])
    assert list(before.values()) == pytest.approx([one / sum(plain) for one in plain])
    for s, a in itertools.product(range(3), range(2)):
        luck, of_type, total = (cf.strength(1, s, a, one, history=history) for one in ("luck", "type", "total"))
        assert total <= luck + of_type + 1e-12
    with pytest.raises(tether.PathError, match="begins in"):
        cf.beliefs(tether.Path([(cf.path.states[0] + 1) % 3, 0], [0]))


def test_the_interval_of_the_prior_is_that_of_the_advice():
    for seed in (0, 2, 4, 6):  # those of odd seeds may rule out a type
        cf = world_of(seed)
        plan = cf.plan(m=1)
        low, high = plan.prior_interval
        advice = [plan.action(cf.path.states[: t + 1]) for t in range(cf.T)]
        for share in (low + 1e-6, 0.5 * (low + high), high - 1e-6):
            other = tether.counterfactual(tether.Types(cf.types.models, {"z0": share, "z1": 1 - share}), cf.path).plan(
                m=1
            )
            met = [other.action(cf.path.states[: t + 1]) for t in range(cf.T)]
            assert met == advice or other.value == pytest.approx(
                sum(other.cf.posterior[z] * value for z, value in plan.values.items()), abs=1e-9
            )


@pytest.mark.parametrize("n_types", [2, 3])
def test_the_intervals_of_the_prior_are_those_in_which_no_plan_is_better(n_types):
    narrow = 0
    for seed in range(tries(6, 40)):
        types, path = typed(seed, n_types, 3)
        cf = tether.counterfactual(types, path)
        plan, prior = cf.plan(m=2), types.prior(None)
        assert plan.exact
        assert (plan.prior_interval == plan.prior_intervals["z0"]) if n_types == 2 else plan.prior_interval is None
        for name, (low, high) in plan.prior_intervals.items():
            narrow += low > 0.0 or high < 1.0
            assert low - 1e-9 <= prior[name] <= high + 1e-9
            beyond = [share for share in (low - 1e-3, high + 1e-3) if 0.0 < share < 1.0]
            for share in (low + 1e-6, 0.5 * (low + high), high - 1e-6, *beyond):
                moved = {z: share if z == name else one * (1 - share) / (1 - prior[name]) for z, one in prior.items()}
                other = tether.counterfactual(tether.Types(types.models, moved), path)
                same = sum(other.posterior[z] * value for z, value in plan.values.items())
                best = other.plan(m=2).value
                assert best > same + 1e-9 if share in beyond else best == pytest.approx(same, abs=1e-6)
    assert narrow


def test_a_policy_is_certified_as_the_mean_of_its_certificates():
    for seed in (1, 2):
        cf = world_of(seed)
        for policy, about in (
            ("random", {}),
            ("optimal", {"minimise": True}),
            ("random", {"objective": tether.avoid([2])}),
        ):
            found = tether.certify(cf, policy, gamma=1.5, **about)
            each = [tether.certify(one, policy, gamma=1.5, **about) for one in cf.by_type.values()]
            for what in ("value", "observed_value", "worst", "best"):
                mean = float(cf.shares @ [getattr(one, what) for one in each])
                assert getattr(found, what) == pytest.approx(mean, abs=1e-12), what
            assert found.nothing == pytest.approx(cf.shares @ [[one.nothing.worst, one.nothing.best] for one in each])
            assert found.related == pytest.approx(cf.shares @ [one.related for one in each])
        plan = cf.plan(m=1)
        assert tether.certify(cf, plan) == plan.certify()


def lowest(values, chance, least, most):
    """The smallest mean of values over x ≤ y / chance with y between two rows, both of sum 1; by linear programming."""
    n = len(values)
    rows = np.hstack([np.eye(n), -np.eye(n) / chance])
    sums = np.kron(np.eye(2), np.ones(n))
    ends = [(0, None)] * n + list(zip(least, most, strict=True))
    found = linprog(np.concatenate([values, np.zeros(n)]), rows, np.zeros(n), sums, [1.0, 1.0], bounds=ends)
    assert found.status == 0
    return found.fun


def worst_of_type(one, t_changed, action, gamma, sign):
    """The worst (``sign`` = 1) value of one change, then what was done, over causal models with hidden causes."""
    mdp, path = one.mdp, one.path

    def value(t, s):
        if t == len(path.actions):
            return sign * float(mdp.final_reward[s])
        a, seen = action if t == t_changed else path.actions[t], (path.states[t], path.actions[t])
        states, q = mdp.row(s, a)
        observed = dict(zip(*mdp.row(*seen), strict=True))[path.states[t + 1]]
        reward = sign * mdp.reward(s, a)
        if (s, a) == seen:
            return reward + mdp.discount * value(t + 1, path.states[t + 1])
        worth = np.array([reward + mdp.discount * value(t + 1, j) for j in states])
        share = 1.0 / len(mdp.actions)
        low, high = share + (1 - share) / gamma, share + (1 - share) * gamma
        return lowest(worth, observed, low / high * q, high / low * q)

    return sign * value(0, path.states[0])


def related_of_type(one, t_changed, action):
    """(worst, best) of one change, then what was done, if luck is related over time: every path, one by one."""
    mdp, path, found = one.mdp, one.path, []

    def follow(t, s, mass, earned):
        if t == len(path.actions):
            found.append((earned + mdp.discount**t * float(mdp.final_reward[s]), mass))
            return
        a, seen = action if t == t_changed else path.actions[t], (path.states[t], path.actions[t])
        earned += mdp.discount**t * mdp.reward(s, a)
        if (s, a) == seen:
            return follow(t + 1, path.states[t + 1], mass, earned)
        observed = dict(zip(*mdp.row(*seen), strict=True))[path.states[t + 1]]
        for j, q in zip(*mdp.row(s, a), strict=True):
            follow(t + 1, j, mass * q / observed, earned)

    follow(0, path.states[0], 1.0, 0.0)

    def mean(some):
        left, total = 1.0, 0.0
        for earned, mass in some:
            total, left = total + earned * min(mass, left), left - min(mass, left)
        return total

    return mean(sorted(found)), mean(sorted(found, reverse=True))


def test_certificates_of_types_beside_linear_programmes_and_all_paths():
    some = 0
    for seed in range(tries(6, 30)):
        cf = world_of(seed)
        plan = cf.plan(m=1)
        changed = [t for t in range(3) if plan.action(cf.path.states[: t + 1]) != cf.path.actions[t]]
        if not changed or changed[0] is None:
            continue
        t, some = changed[0], some + 1
        action = plan.action(cf.path.states[: t + 1])
        found = plan.certify(gamma=1.7)
        worlds = list(cf.by_type.values())
        for gamma, ends in ((1.0, found.nothing), (1.7, (found.worst, found.best))):
            for end, sign in zip(ends, (1.0, -1.0), strict=True):
                each = [worst_of_type(one, t, action, gamma, sign) for one in worlds]
                assert end == pytest.approx(float(cf.shares @ each), abs=1e-8)
        related = np.array([related_of_type(one, t, action) for one in worlds]).T @ cf.shares
        assert found.related == pytest.approx(related.tolist(), abs=1e-9)
        if 1.0 < found.gamma_star < np.inf:
            at = plan.certify(gamma=found.gamma_star)
            assert at.worst == pytest.approx(plan.observed_value, abs=1e-6)
    assert some >= 3


@pytest.mark.parametrize("seed", [2, 6, 11])
def test_certificates_of_one_type_and_of_equal_types_are_those_of_the_model(seed):
    types, path = typed(seed, 1, 4, zeros=seed % 2 == 1)
    mdp = types.models["z0"]
    usual = tether.counterfactual(mdp, path)
    twice = tether.Types({"a": mdp, "b": mdp}, prior={"a": 0.3, "b": 0.7})
    for minimise, objective in ((False, None), (True, None), (False, tether.reach([1])), (True, tether.avoid([2]))):
        about = {"m": 3, "minimise": minimise, "objective": objective}
        known = usual.plan(k=5, **about).certify(gamma=2.0)
        for one in (types, twice):
            plan = tether.counterfactual(one, path).plan(k=5, **about)
            assert plan.value == pytest.approx(known.value, abs=1e-12)
            found = plan.certify(gamma=2.0)
            assert found.nothing == pytest.approx((known.nothing.worst, known.nothing.best), abs=1e-12)
            assert (found.worst, found.best) == pytest.approx((known.worst, known.best), abs=1e-12)
            assert found.related == pytest.approx(known.related, abs=1e-12)
            assert found.gamma_star == pytest.approx(known.gamma_star, rel=1e-6)
            assert found.worse == pytest.approx(known.worse, abs=1e-12)
            assert found.better == pytest.approx(known.better, abs=1e-12)
            assert ("single replays" in str(found)) == ("single replays" in str(known))
            assert ("It could not have ended worse" in str(found)) == ("It could not have ended worse" in str(known))


def test_what_types_refuse():
    cf = world_of(0)
    for ask, why in (
        (lambda: cf.plan(rule="assured"), "rule 'assured'"),
        (lambda: cf.plan(above=1.0), "above is a probability"),
        (lambda: cf.evaluate(cf.plan()), "plan.evaluate"),
        (lambda: cf.plan().certify(gamma=0.5), "gamma must be"),
        (lambda: cf.strength(0, 0, 0, "noise"), "channel must be"),
        (lambda: cf.explore("z9"), "leaves the types"),
        (lambda: tether.audit(cf.types, [cf.path], workers=2), "workers= is not for types"),
        (lambda: tether.audit(cf.types, [cf.path], gamma=0.5), "gamma must be"),
        (
            lambda: tether.rules(cf.types, [cf.path]),
            "the same for everybody.*2 hidden types; learn one model",
        ),
        (lambda: tether.robust(cf.types, cf.path), "for one model, and these are 2 hidden types"),
        (lambda: tether.review(cf.types, cf.path), r"a review is of one model.*counterfactual\(types, path\)\.review"),
        (lambda: tether.Types({"a": 3}, {"a": 1.0}), "the model of type 'a' must be a tether.MDP"),
        (lambda: tether.Types(cf.types.models, {"z0": "half", "z1": 0.5}), "prior of type 'z0' must be a number"),
        (lambda: tether.Types([cf.types.models["z0"]], [1.0]), "models and prior are mappings"),
        (lambda: tether.certify(cf, cf.plan(), minimise=True), "a plan is judged by its own objective"),
        (lambda: cf.sweep(ks=[]), "at least one k"),
    ):
        with pytest.raises(tether.QueryError, match=why):
            ask()


@pytest.mark.parametrize("seed", range(tries(4, 20)))
def test_only_and_never_beside_a_recursion_over_beliefs(seed):
    cf = world_of(seed)
    T, some = cf.T, np.random.default_rng(seed)
    meant = {(t, s, a) for t in range(T) for s in cf.types.models["z0"].states for a in (0, 1) if some.random() < 0.4}

    def which(t, state, action):
        return (t, state, action) in meant

    for m, minimise in itertools.product((1, 2), (False, True)):
        for given, allowed in (
            ({"never": which}, lambda *change: change not in meant),
            ({"only": which}, lambda *change: change in meant),
            ({"only": {"step": [0, 2]}}, lambda t, _s, _a: t != 1),
        ):
            plan = cf.plan(m=m, minimise=minimise, **given)
            assert plan.value == pytest.approx(by_beliefs(cf, m, allowed, -1 if minimise else 1), abs=1e-12)
            assert cf.sweep(ks=[T + 1], ms=[m], minimise=minimise, **given).values[0, 0] == pytest.approx(plan.value)


def test_an_audit_begins_with_mistakes_and_is_ordered_by_them():
    cf = world_of(1)
    log = {str(i): cf.types.models[f"z{i % 2}"].simulate("random", 3, rng=i, start=0) for i in range(8)}
    audit = tether.audit(cf.types, log, m=1)
    reviews = {name: tether.counterfactual(cf.types, path).review() for name, path in log.items()}
    costs = [row.claimed for row in audit.rows]
    assert costs == sorted(costs, reverse=True)
    assert costs == pytest.approx([reviews[row.episode].mistakes for row in audit.rows])
    bad = sum(cost > 0 for cost in costs)
    assert 0 < bad < len(log)
    assert f"In {bad} of them" in str(audit)
    assert str(audit).index("mistake that could be known") < str(audit).index("With hindsight")
    table = audit.to_arrow().to_pylist()
    for row, one in zip(audit.rows, table, strict=True):
        worst, plan = reviews[row.episode].largest(), tether.counterfactual(cf.types, log[row.episode]).plan(m=1)
        assert one["p_worse"] == (plan.risk.worse if plan.gain > 0 else 0.0)
        assert (one["largest_mistake"] is None) == (worst is None)
        assert one["expected"] - one["mistakes"] + one["luck"] == pytest.approx(one["observed"])
        if row.step is not None:
            step = reviews[row.episode]
            less = step.cost(row.step, row.did) - step.cost(row.step, row.instead)
            assert one["known_then"] == ("better" if less > 0 else "not better")


def test_an_audit_has_the_plans_of_its_episodes_and_lists_the_impossible_ones():
    cf = world_of(1)
    other = cf.types.models["z1"].simulate("random", 3, rng=9, start=0)
    audit = tether.audit(cf.types, {"a": cf.path, "b": other}, m=1)
    for row in audit.rows:
        path = {"a": cf.path, "b": other}[row.episode]
        plan = tether.counterfactual(cf.types, path).plan(m=1)
        sure = plan.certify()
        assert row.verdict == (sure.verdict if plan.gain > 0 else None)
        assert row.gamma_star == pytest.approx(sure.gamma_star if plan.gain > 0 else np.nan, nan_ok=True)
        assert (row.value, row.observed) == (plan.value, plan.observed_value)
        if row.step is not None:
            assert plan.action(path.states[: row.step + 1]) == row.instead != row.did
    rows = [("s", "go", "t", 1.0), ("t", "go", "t", 1.0)]
    mdp = tether.MDP.from_table(*zip(*rows, strict=True), states=["s", "t"])
    found = tether.audit(tether.Types({"any": mdp}, {"any": 1.0}), {"x": tether.Path(["t", "s"], ["go"])})
    assert not found.rows
    assert "no type can go from" in found.broken["x"]
    with pytest.raises(tether.PathError, match="no type can go"):
        tether.audit(tether.Types({"any": mdp}, {"any": 1.0}), {"x": tether.Path(["t", "s"], ["go"])}, strict=True)


def test_where_those_who_acted_saw_the_type_what_they_did_says_something_of_it(tmp_path):
    """Against Bayes' rule by hand, and back from a directory; a review is then asked of each type."""
    types, path = typed(4, 2, 3)
    practice = {
        "z0": {s: {0: 0.9, 1: 0.1} for s in range(3)},
        "z1": {0: 1, 1: {0: 0.2, 1: 0.8}, 2: {0: 0.5, 1: 0.5}},
    }
    seen = tether.Types(types.models, types.prior(None), practice=practice)
    path = tether.Path(path.states, [1 if s == 0 else a for s, a in zip(path.states, path.actions, strict=False)])
    weights = dict(seen.prior(None))
    for s, a, j in zip(path.states, path.actions, path.states[1:], strict=False):
        for name, mdp in seen.models.items():
            done = practice[name][s]
            weights[name] *= done.get(a, 0.0) if isinstance(done, dict) else float(done == a)
            weights[name] *= dict(zip(*mdp.row(s, a), strict=True))[j]
    cf, plain = tether.counterfactual(seen, path), tether.counterfactual(types, path)
    assert cf.posterior == pytest.approx({name: one / sum(weights.values()) for name, one in weights.items()})
    assert cf.posterior != pytest.approx(plain.posterior, abs=1e-3)
    for name in seen.models:  # the world of each type is the same
        assert cf.by_type[name].plan(4, 2).value == plain.by_type[name].plan(4, 2).value
    mean = sum(cf.posterior[z] * value for z, value in cf.plan(m=2).values.items())
    assert cf.plan(m=2).value == pytest.approx(mean) == pytest.approx(by_beliefs(cf, 2))
    assert not cf.plan(m=1).certify().practice_assumed
    alone = [tether.certify(cf.by_type[z], "random", gamma=2.0, practice=practice[z]).worst for z in practice]
    assert tether.certify(cf, "random", gamma=2.0).worst == pytest.approx(float(cf.shares @ alone))
    with pytest.raises(tether.QueryError, match="review one type"):
        cf.review()
    assert cf.plan().explain().review is None
    cf.plan().report(tmp_path / "page.html")
    assert "saw the type: outcomes count, and what was done" in (tmp_path / "page.html").read_text(encoding="utf-8")
    seen.save(tmp_path / "types")
    again = tether.counterfactual(tether.io.read_types(tmp_path / "types"), path)
    assert again.posterior == cf.posterior
    for wrong, why in (
        ({"z0": practice["z0"]}, "practice must name the types"),
        ({**practice, "z1": {0: 1}}, "says nothing of state 1"),
        ({**practice, "z1": {**practice["z1"], 2: {0: 0.7}}}, "that add up to 1"),
    ):
        with pytest.raises(tether.QueryError, match=why):
            tether.Types(types.models, types.prior(None), practice=wrong)
