"""Hidden types: recursions over beliefs, one type and equal types, what an episode says of the type, properties."""

import numpy as np
import pytest
from effort import tries
from scipy.optimize import linprog

import tether
from tether._kernels.best_somewhere import best_somewhere
from tether._kernels.vectors import MANY
from tether.plan import hidden_types


def typed(seed, n_types, T, *, zeros=False):
    """Random models of some types with the same rewards, a prior, and an episode of the first type."""
    rng = np.random.default_rng(seed)
    S, A = 3, 2
    R, final = rng.integers(-3, 4, (S, A)).astype(float), rng.integers(-3, 4, S).astype(float)
    models = {}
    for z in range(n_types):
        P = rng.dirichlet(np.ones(S), size=(S, A))
        if zeros:
            P[rng.random(P.shape) < 0.2] = 0.0
            P[..., 0] += 1e-3
            P /= P.sum(axis=-1, keepdims=True)
        models[f"z{z}"] = tether.MDP.from_arrays(P, R).with_objective(final_reward=final, discount=0.9)
    prior = dict(zip(models, rng.dirichlet(np.ones(n_types)).tolist(), strict=True))
    path = models["z0"].simulate("random", T, rng=seed, start=0)
    return tether.Types(models, prior), path


def by_beliefs(cf, m, allowed=lambda *change: True, sign=1):
    """The best value by recursion over states, changes left and weights of the types; ``allowed`` of (t, s, a)."""
    cfs, path = list(cf.by_type.values()), cf.path

    def value(t, s, left, weights):
        mdp = cfs[0].mdp
        if t == len(path.actions):
            return sum(weights) * float(mdp.final_reward[s])
        found = []
        for a in mdp.actions:
            after = left - (a != path.actions[t])
            if after < 0 or (a != path.actions[t] and not allowed(t, s, a)):
                continue
            rows = [dict(zip(*one.row(t, s, a), strict=True)) for one in cfs]
            total = sum(weights) * float(mdp.rewards.at(t)[mdp.pair_index(s, a)])
            for j in set().union(*rows):
                seen = [w * row.get(j, 0.0) for w, row in zip(weights, rows, strict=True)]
                total += mdp.discount * value(t + 1, j, after, seen)
            found.append(total)
        return sign * max(sign * one for one in found)

    return value(0, path.states[0], m, [cf.posterior[name] for name in cf.by_type])


@pytest.mark.parametrize(("n_types", "m"), [(2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (3, 3), (4, 1), (4, 3)])
def test_plans_against_a_recursion_over_beliefs(n_types, m):
    for seed in range(tries(4, 40)):
        types, path = typed(seed, n_types, 3, zeros=seed % 2 == 1)
        cf = tether.counterfactual(types, path)
        plan = cf.plan(m=m)
        best = by_beliefs(cf, m)
        assert plan.value <= best + 1e-12
        assert plan.best_possible >= best - 1e-12
        assert plan.exact
        assert plan.value == pytest.approx(best, abs=1e-12)
        assert sum(cf.posterior[name] * value for name, value in plan.values.items()) == pytest.approx(plan.value)


def test_too_many_vectors_leave_a_bracket_and_it_is_known_how_wide_it_is(monkeypatch):
    monkeypatch.setattr(hidden_types, "MOST", 3)
    left = narrower = 0
    for seed in range(3, 7):
        cf = tether.counterfactual(*typed(seed, 4, 3))
        plan = cf.plan(m=3)
        left += not plan.exact
        assert plan.value <= by_beliefs(cf, 3) + 1e-12 <= plan.best_possible + 2e-12
        assert plan.exact or plan.best_possible <= plan.value + plan.vectors.lost + 1e-12
        seeing = sum(share * one.plan(4, 3).value for share, one in zip(cf.shares, cf.by_type.values(), strict=True))
        narrower += plan.best_possible < seeing - 1e-9
    assert left
    assert narrower


def is_best_somewhere(vector, others):
    """Whether some weights make a vector better than all others, by the solver of SciPy."""
    n, types = others.shape
    rows = np.column_stack([others - vector, np.ones(n)])
    found = linprog([0.0] * types + [-1.0], rows, np.zeros(n), [[1.0] * types + [0.0]], [1.0],
                    bounds=[(0, None)] * types + [(None, None)])  # fmt: skip
    return -found.fun


def test_vectors_that_are_best_somewhere_are_those_of_a_linear_programme():
    for seed in range(tries(6, 60)):
        rng = np.random.default_rng(seed)
        values = rng.normal(size=(int(rng.integers(1, 25)), int(rng.integers(2, 6))))
        if seed % 2:  # ties, equal vectors, and vectors on a segment between others
            values = np.round(values)
            values = np.concatenate([values, values[:2], 0.5 * (values[:1] + values[-1:])])
        kept, lost = best_somewhere(values, 1000)
        assert lost == 0.0
        weights = rng.dirichlet(np.ones(values.shape[1]), size=300)
        assert (values[kept] @ weights.T).max(axis=0) == pytest.approx((values @ weights.T).max(axis=0), abs=1e-11)
        for i in range(len(values)):
            others = values[np.setdiff1d(kept, i)]
            if others.size and i not in kept:
                assert is_best_somewhere(values[i], others) <= 1e-9
            if others.size and i in kept and not seed % 2:
                assert is_best_somewhere(values[i], others) > 0.0
        few, lost = best_somewhere(values, max(1, len(kept) - 1))
        assert (values @ weights.T).max(axis=0).max() <= (values[few] @ weights.T).max(axis=0).max() + lost + 1e-11
        assert ((values @ weights.T).max(axis=0) <= (values[few] @ weights.T).max(axis=0) + lost + 1e-11).all()


def test_hundreds_of_vectors_of_two_types_lose_nothing(monkeypatch):
    """As neighbours that are equal up to rounding are merged; beside the plan that merges none."""
    rng, S, A = np.random.default_rng(0), 30, 3
    R = rng.integers(-3, 4, (S, A)).astype(float)
    models = {name: tether.MDP.from_arrays(rng.dirichlet(np.full(S, 0.3), size=(S, A)), R) for name in ("a", "b")}
    path = models["a"].simulate("random", 8, rng=1, start=0)
    cf = tether.counterfactual(tether.Types(models, {"a": 0.5, "b": 0.5}), path)
    plan = cf.plan(m=8)
    monkeypatch.setattr(hidden_types.TypedValues, "_most", lambda *_: MANY)
    every = cf.plan(m=8)
    merged, all_of_them = (len(one.vectors.vectors(0, 0, 8)) for one in (plan, every))
    assert 256 < merged < all_of_them
    assert plan.exact
    assert plan.value == pytest.approx(every.value, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_one_type_and_equal_types_give_the_plan_of_the_model(seed):
    types, path = typed(seed, 1, 4)
    mdp = types.models["z0"]
    twice = tether.Types({"a": mdp, "b": mdp}, prior={"a": 0.3, "b": 0.7})
    usual = tether.counterfactual(mdp, path)
    for k in range(1, 6):
        for m in (0, 1, 2):
            plan = usual.plan(k=k, m=m)
            for one in (types, twice):
                found = tether.counterfactual(one, path).plan(k=k, m=m)
                assert found.exact
                assert found.value == pytest.approx(plan.value, abs=1e-12)
                assert found.observed_value == pytest.approx(plan.observed_value, abs=1e-12)
    certificate = usual.plan(k=5, m=2).certify().nothing
    for one in (types, twice):
        found = tether.counterfactual(one, path).plan(k=5, m=2).certify()
        ends = found.worst, found.best
        assert ends[0] <= certificate.worst + 1e-9 or ends[0] == pytest.approx(certificate.worst)
        assert ends == pytest.approx((certificate.worst, certificate.best), abs=1e-9)


def test_the_posterior_is_that_of_bayes_and_decides_where_luck_is_related():
    """One coin for two steps is a hidden type: the episode says which, and the advice is to change nothing."""
    rows = [("start", "b", "C", 1.0), ("A", "a", "poor", 1.0), ("B", "a", "fair", 1.0)]
    ends = {"poor": 0.0, "fair": 1.0, "well": 2.0, "dead": -1.0}
    models = {}
    for name, first, last in (("heads", "A", "dead"), ("tails", "B", "well")):
        own = [*rows, ("start", "a", first, 1.0), ("C", "a", last, 1.0)]
        own = [(*one[:3], one[3]) for one in own]
        columns = list(zip(*own, strict=True))
        states = ["start", "A", "B", "C", *ends]
        models[name] = tether.MDP.from_table(*columns, states=states, terminal=list(ends)).with_objective(
            final_reward=ends
        )
    types = tether.Types(models, prior={"heads": 0.5, "tails": 0.5})
    cf = tether.counterfactual(types, tether.Path(["start", "A", "poor"], ["a", "a"]))
    assert cf.posterior == {"heads": 1.0, "tails": 0.0}
    assert cf.posterior_over_time["heads"].tolist() == [0.5, 1.0, 1.0]
    plan = cf.plan(m=1)
    assert (plan.value, plan.gain, plan.action(["start"])) == (0.0, 0.0, "a")


def test_the_interval_of_beliefs_is_that_of_the_advice():
    types, path = typed(2, 2, 3)
    cf = tether.counterfactual(types, path)
    plan = cf.plan(m=1)
    low, high = plan.interval
    share = cf.posterior["z0"]
    assert low <= share <= high
    for inside in (low + 1e-9, 0.5 * (low + high), high - 1e-9):
        weights = np.array([inside, 1.0 - inside])
        best = plan.vectors.best(0, 0, 1, weights)
        assert weights @ plan.vectors.vectors(0, 0, 1)[best] == pytest.approx(
            weights @ np.array(list(plan.values.values())), abs=1e-9
        )


def test_the_two_channels_of_strength():
    types, path = typed(5, 2, 3)
    cf = tether.counterfactual(types, path)
    for t in range(3):
        for state in range(3):
            for action in range(2):
                luck, of_type, total = (cf.strength(t, state, action, one) for one in ("luck", "type", "total"))
                assert 0 <= total <= luck + of_type + 1e-12
    sure = tether.Types(types.models, prior={"z0": 1.0, "z1": 0.0})
    alone, usual = tether.counterfactual(sure, path), tether.counterfactual(types.models["z0"], path)
    for action in range(2):
        assert alone.strength(1, 0, action, "type") == pytest.approx(0.0, abs=1e-12)
        names, row = usual.row(1, 0, action)
        known = dict(zip(names, row, strict=True))
        plain = dict(zip(*types.models["z0"].row(0, action), strict=True))
        apart = 0.5 * sum(abs(known.get(j, 0.0) - plain.get(j, 0.0)) for j in plain)
        assert alone.strength(1, 0, action) == pytest.approx(apart, abs=1e-12)


def test_a_prior_may_depend_on_the_first_state_and_must_be_a_distribution():
    types, path = typed(0, 2, 2)
    by_state = tether.Types(types.models, prior={"z0": {0: 0.5}, "z1": {0: 0.5}})
    assert by_state.prior(0) == {"z0": 0.5, "z1": 0.5}
    with pytest.raises(tether.QueryError, match="prior says nothing of type 'z0' in state 1"):
        by_state.prior(1)
    with pytest.raises(tether.QueryError, match="not a distribution"):
        tether.Types(types.models, prior={"z0": 0.5, "z1": 0.6})
    with pytest.raises(tether.QueryError, match="prior must name the types"):
        tether.Types(types.models, prior={"z0": 1.0})
    other = tether.MDP.from_arrays(np.ones((2, 1, 2)) / 2)
    with pytest.raises(tether.QueryError, match="has other states"):
        tether.Types({"a": types.models["z0"], "b": other}, prior={"a": 0.5, "b": 0.5})
    with pytest.raises(tether.QueryError, match="under Gumbel-max alone"):
        tether.counterfactual(types, path, "independent")


def test_two_types_with_few_vectors_lose_no_more_than_is_said(monkeypatch):
    """With fewer vectors the plan is one that can be followed, and the best is at most what was lost above it."""
    some = 0
    for seed in range(6):
        cf = tether.counterfactual(*typed(seed, 2, 5))
        best = cf.plan(m=5)
        assert best.exact
        with monkeypatch.context() as few:
            few.setattr(hidden_types.TypedValues, "_most", lambda *_: 2)
            plan = cf.plan(m=5)
        some += not plan.exact
        assert plan.value <= best.value + 1e-12 <= plan.best_possible + 2e-12
        assert plan.exact or plan.best_possible - plan.value <= plan.vectors.lost + 1e-12
        mean = sum(cf.posterior[name] * value for name, value in plan.values.items())
        assert mean == pytest.approx(plan.value, abs=1e-12)
    assert some
