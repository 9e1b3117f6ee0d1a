"""Certificates: the sentence of each verdict, policies from outside, what is left out and why, a slow twin."""

import dataclasses

import numpy as np
import pytest
from couplings import over_couplings
from enumerate import tables
from hypothesis import assume as assume_
from hypothesis import given
from hypothesis import strategies as st
from worlds import FEWER, tiny_worlds, worlds

import tether
from tether._foundation.words import number
from tether.conditioning.model_sets import model_set
from tether.evaluation import certificate as certificates
from tether.evaluation.certificate import Certificate, Certified
from tether.evaluation.following import follow
from tether.evaluation.guarantees import guarantees_by_k
from tether.evaluation.ranges import ranges_with_breakdown
from tether.explanation.answer_data import explanation_data

ALL = "all of these that agree with the model and the episode"
UNRELATED = "in which the luck of one step says nothing about the luck of another"
WHICH = f"all causal models {UNRELATED} and that agree with the model and the episode"


def made(verdict, every, stable, value=1.0, observed=0.0, breakdown=1.0, gamma_star=1.0):
    ranges = [
        Certified(name, low, high, low - observed, breakdown)
        for name, (low, high) in (("nothing", every), ("stability", stable))
    ]
    beyond = {"gamma": 1.0, "worst": every[0], "best": every[1], "gamma_star": gamma_star, "related": every}
    return Certificate(value, observed, *ranges, verdict, **beyond)


@pytest.mark.parametrize(
    ("certificate", "message"),
    [
        (
            made("holds", (0.5, 2.0), (0.5, 2.0), gamma_star=1.1299),
            f"It is expected to do better than what happened, under every causal model {UNRELATED}. "
            f"The expected return is from 0.5 to 2 over {ALL}; observed 0. "
            "The gain survives hidden reasons that changed the odds of an action by less than 1.12 times.",
        ),
        (
            made("holds if stable", (-0.5, 2.0), (0.5, 1.5), breakdown=0.4),
            f"It is expected to do better than what happened under every counterfactually stable causal model "
            f"{UNRELATED}, not under every one. "
            f"The expected return is from -0.5 to 2 over {ALL}, from 0.5 to 1.5 over the stable "
            "ones; observed 0. Nothing is gained "
            "any more at 40 % of the way from Gumbel-max to the worst of them.",
        ),
        (
            made("never worse", (0.0, 2.0), (0.0, 2.0)),
            f"It is not expected to do worse than what happened, under every causal model {UNRELATED}. That it does "
            "better rests on an assumption that no data can test. "
            f"The expected return is from 0 to 2 over {ALL}; observed 0.",
        ),
        (
            dataclasses.replace(made("never worse", (0.0, 2.0), (0.0, 2.0)), worse=(0.0, 0.0)),
            "It could not have ended worse. That it ends better rests on an assumption that no data can test. The "
            f"expected return is from 0 to 2 over {WHICH}; observed 0.",
        ),
        (
            dataclasses.replace(made("never worse", (0.0, 2.0), (0.0, 2.0)), worse=(0.02, 0.167)),
            f"It is not expected to do worse than what happened, under every causal model {UNRELATED}. That it does "
            "better rests on an assumption that no data can test. "
            f"The expected return is from 0 to 2 over {ALL}; observed 0. "
            "Of 100 single replays, between 2 and 17 end worse than what happened, over all of them.",
        ),
        (
            made("never worse if stable", (-1.0, 2.0), (0.0, 2.0), breakdown=0.5),
            f"It is not expected to do worse than what happened under every counterfactually stable causal model "
            f"{UNRELATED}, but under others it could do harm. That it does better rests on an assumption that no data "
            f"can test. The expected return is from -1 to 2 over {ALL}, "
            "from 0 to 2 over the stable ones; observed 0. Nothing is gained any more at 50 % of the way from "
            "Gumbel-max to the worst of them.",
        ),
        (
            made("could do harm", (-3.0, 2.0), (-2.0, 2.0), breakdown=0.25),
            "It rests on the causal model: under others it could do harm. "
            f"The expected return is from -3 to 2 over {WHICH}, "
            "from -2 to 2 over the stable ones; observed 0. Nothing is gained any more at 25 % of the way from "
            "Gumbel-max to the worst of them.",
        ),
        (
            made("could do harm", (-3.0, -1.0), (-3.0, -1.0), value=-2.0, breakdown=0.0),
            f"Worse than what was done, under every causal model {UNRELATED}. The expected return is from -3 to -1 "
            f"over {ALL}; observed 0.",
        ),
        (
            made("could do harm", (-3.0, 1.0), (-3.0, 1.0), value=-2.0, breakdown=0.0),
            "Gumbel-max expects it to be worse than what was done; another causal model can make it better. The "
            f"expected return is from -3 to 1 over {WHICH}; observed 0.",
        ),
        (
            made("never worse", (0.0, 0.0), (0.0, 0.0), value=0.0),
            "Every causal model that agrees with the model and the episode gives the observed return.",
        ),
    ],
)
def test_the_sentence_of_each_verdict(certificate, message):
    assert certificate.sentence == str(certificate) == message


@pytest.mark.parametrize(
    ("every", "stable", "verdict"),
    [
        (1.0, 2.0, "holds"),
        (0.0, 2.0, "holds if stable"),
        (-1.0, 2.0, "holds if stable"),
        (0.0, 0.0, "never worse"),
        (-1.0, 0.0, "never worse if stable"),
        (-2.0, -1.0, "could do harm"),
    ],
)
def test_the_verdict_from_the_guaranteed_gains(every, stable, verdict):
    assert certificates.VERDICTS[certificates.verdict_number(every, stable)] == verdict


def test_any_policy_is_certified():
    case = tether.cases.grid_world()
    cf = tether.counterfactual(case.mdp, case.path)
    plan = cf.plan(6, 4)
    assert dataclasses.asdict(tether.certify(cf, plan)) == dataclasses.asdict(plan.certify())
    robust = tether.robust(case.mdp, case.path, assume="nothing")
    for policy in ("random", "optimal", lambda t, state: case.path.actions[t]):
        found = tether.certify(cf, policy)
        assert (found.nothing.worst, found.nothing.best) == pytest.approx(robust.range(policy))
        assert found.value == pytest.approx(cf.evaluate(policy).value)
    assert tether.certify(cf, "observed").is_certain


def test_a_policy_is_certified_for_what_is_asked_for():
    case = tether.cases.grid_world()
    cf = tether.counterfactual(case.mdp, case.path)
    safe = tether.avoid("danger")
    found = tether.certify(cf, "optimal", objective=safe)
    assert (found.objective, found.observed_value) == (safe, 0.0)
    assert found.value == pytest.approx(cf.evaluate("optimal", objective=safe).value)
    robust = tether.robust(case.mdp, case.path, assume="nothing")
    assert (found.nothing.worst, found.nothing.best) == pytest.approx(robust.range("optimal", objective=safe))
    fallen = tether.certify(
        cf, "optimal", objective=tether.reach("danger"), minimise=True
    )  # the same, said the other way
    assert (fallen.value, fallen.nothing.worst) == pytest.approx((1 - found.value, 1 - found.nothing.worst))
    assert (fallen.gain, fallen.verdict) == (pytest.approx(found.gain), found.verdict)
    with pytest.raises(tether.QueryError, match="a plan is judged by its own objective"):
        tether.certify(cf, cf.plan(6, 4), objective=safe)


def test_a_policy_must_know_what_other_models_lead_to():
    mdp = tether.MDP.from_table(
        ["s", "s", "s", "s", "t", "u"],
        ["a", "a", "b", "b", "a", "a"],
        ["t", "u", "t", "u", "t", "u"],
        [0.5, 0.5, 0.8, 0.2, 1.0, 1.0],
    )
    cf = tether.counterfactual(mdp, tether.Path(["s", "t", "t"], ["a", "a"]))
    policy = {"s": "b", "t": "a"}
    assert cf.evaluate(policy).value == 0.0  # Gumbel-max never leads to u
    with pytest.raises(tether.QueryError, match="the policy says nothing for state 'u' at t = 1"):
        tether.certify(cf, policy)


def mixed_value(models, plan, share):
    """The value when each row is (1 - share)·(Gumbel-max) + share·(worst), by dictionaries."""
    cf, robust = models.gumbel, models
    mdp, T = cf.mdp, cf.T

    def value(t, s, left):
        if t == T:
            return 0.0 if mdp.final_reward is None else float(mdp.final_reward[s])
        visits, most = plan.chain.visits[t], T - t  # more changes left than steps are as good as one for each step
        met = np.flatnonzero((visits.states == s) & (np.minimum(visits.changes, most) == min(left, most)))
        observed = int(cf.observation.actions[t])
        if met.size:
            pairs = [int(plan.chain.taken[t].pairs[met[0]])]
        else:
            pair = mdp.find_pair(s, observed)
            pairs = [pair] if pair >= 0 else list(range(mdp.form.pair_start[s], mdp.form.pair_start[s + 1]))
        return min(of_pair(t, s, left, pair, observed) for pair in pairs)

    def of_pair(t, s, left, pair, observed):
        from tether.observation.changes import is_change

        changed = is_change(mdp.form, np.array([s]), np.array([pair]), observed)[0]
        entries = mdp.entries(pair)
        after = mdp.form.next_state[entries]
        possible = dict(zip(*robust.possible.row(t, mdp.states[s], _action(mdp, pair)), strict=True))
        rewards = mdp.rewards.at(t)
        worth = []
        for entry, one in zip(range(entries.start, entries.stop), after.tolist(), strict=True):
            there = mdp.discount * value(t + 1, one, max(left - changed, 0)) if mdp.states[one] in possible else 0.0
            worth.append(there + float(rewards[entry] if mdp.rewards.by_entry else rewards[pair]))
        worth = np.array(worth)
        worst, _ = robust.extremes(t, np.array([pair]), worth, 1.0)
        row = dict(zip(*cf.row(t, mdp.states[s], _action(mdp, pair)), strict=True))
        gumbel = sum(row.get(mdp.states[one], 0.0) * w for one, w in zip(after.tolist(), worth, strict=True))
        return (1 - share) * gumbel + share * float(worst[0])

    return value(0, int(cf.observation.states[0]), plan.m)


def _action(mdp, pair):
    return mdp.actions[int(mdp.form.pair_action[pair])]


@pytest.mark.parametrize("assume", ["nothing", "stability"])
@FEWER
@given(world=worlds(), data=st.data())
def test_the_breakdown_point_against_a_slow_twin(assume, world, data):
    k, m = data.draw(st.integers(1, world.T + 1)), data.draw(st.integers(0, world.T))
    cf = tether.counterfactual(world.cf.mdp, world.path)
    plan = cf.plan(k, m)
    models = model_set(cf, assume)
    (found,) = ranges_with_breakdown((models,), follow(models, plan), plan.observed_value)
    near = 1e-9 * max(1.0, abs(found.worst), abs(found.best), abs(plan.observed_value))
    assert found.value == pytest.approx(plan.value, rel=1e-9, abs=near)
    for share in (0.0, 0.3, 1.0, found.breakdown):
        value = mixed_value(models, plan, share)
        if share == 1.0:
            assert found.worst == pytest.approx(value, rel=1e-9, abs=near)
        if share < found.breakdown - 1e-9:
            assert value >= plan.observed_value - near
        if share > found.breakdown + 1e-9 or share == found.breakdown < 1:
            assert value <= plan.observed_value + near


def chance_to_end(world, table, mechanism, is_meant):
    """How likely a replay is to have a return that is meant, under one mechanism: every replay counted."""
    cf = tether.counterfactual(world.cf.mdp, world.path, mechanism)

    def go(t, s, earned):
        if t == world.T:
            return float(is_meant(earned + world.discount**t * world.last(s)))
        found = 0.0
        for a, share in table[t, s].items():
            for j, p in zip(*cf.row(t, s, a), strict=True):
                found += share * p * go(t + 1, j, earned + world.discount**t * world.earn(t, s, a, j))
        return found

    return go(0, world.path.states[0], 0.0)


def extreme_chance(world, table, is_meant, sign):
    """The smallest (sign 1) or largest (-1) chance: the extreme row after every history, by a linear programme."""

    def go(t, s, earned):
        if t == world.T:
            return float(is_meant(earned + world.discount**t * world.last(s)))
        return sum(share * row(t, s, a, earned) for a, share in table[t, s].items())

    def row(t, s, a, earned):
        after = {j: go(t + 1, j, earned + world.discount**t * world.earn(t, s, a, j)) for j in world.nominal[s, a]}
        if t + 1 == len(world.path.states):
            return sum(p * after[j] for j, p in world.nominal[s, a].items())
        if (s, a) == world.observed[t]:
            return after[world.path.states[t + 1]]
        p, q = (
            np.array([of.get(j, 0.0) for j in world.states])
            for of in (world.nominal[world.observed[t]], world.nominal[s, a])
        )
        o, values = world.states.index(world.path.states[t + 1]), [after.get(j, 0.0) for j in world.states]
        return over_couplings(p, q, o, np.array(values), sign, stable=False)

    return go(0, world.path.states[0], 0.0)


@FEWER
@given(world=tiny_worlds(), data=st.data())
def test_the_chances_of_single_replays_by_enumeration(world, data):
    """They hold under every mechanism, and are the extreme ones of those that may choose again after every history."""
    world.samples = 0
    assume_(all(p > 1e-5 for row in world.nominal.values() for p in row.values()))  # the programmes know no less
    table = data.draw(tables(world, mixed=data.draw(st.booleans())))
    found = tether.certify(world.cf, table)
    seen = world.observed_return()
    close = 1e-9 * max(1.0, abs(seen))
    for bounds, is_meant in ((found.worse, lambda x: x < seen - close), (found.better, lambda x: x > seen + close)):
        for mechanism in ("gumbel-max", "comonotone", "independent", "maximal"):
            chance = chance_to_end(world, table, mechanism, is_meant)
            assert bounds[0] - 1e-9 <= chance <= bounds[1] + 1e-9
        wanted = [extreme_chance(world, table, is_meant, sign) for sign in (1.0, -1.0)]
        assert list(bounds) == pytest.approx(wanted, abs=1e-7)


def test_a_plan_too_large_is_not_certified_unless_asked_to(monkeypatch):
    case = tether.cases.grid_world()
    plan = tether.counterfactual(case.mdp, case.path).plan(6, 4)
    monkeypatch.setattr(certificates, "MOST_NODES", 100)
    explanation = plan.explain()
    nodes = sum(visits.size for visits in plan.chain.visits)
    assert explanation.certificate is None
    assert explanation.sentences(str)[-1] == (
        f"Other causal models were not considered: the plan can reach {nodes} states over time. `tether certify` "
        "considers them."
    )
    assert explanation_data(explanation)["certificate"] is None
    assert plan.certify().verdict == "holds"


def test_it_can_be_left_out():
    case = tether.cases.epidemic()
    plan = tether.counterfactual(case.mdp, case.path).plan(3, 1)
    explanation, short = plan.explain(), plan.explain(certificate=False)
    assert short.certificate is None
    assert short.sentences(str) == explanation.sentences(str)[:-1]
    data = explanation_data(explanation)["certificate"]
    assert data["verdict"] == "holds"
    assert data["sentence"] == explanation.sentences(str)[-1]
    assert data["nothing"]["worst"] == explanation.certificate.nothing.worst
    assert set(data["stability"]) == {"assume", "worst", "best", "gain", "breakdown"}
    assert explanation_data(short)["certificate"] is None


def test_a_guaranteed_plan_says_what_is_guaranteed():
    case = tether.cases.grid_world()
    plan = tether.robust(case.mdp, case.path, assume="nothing").plan(6, 4)
    explanation = plan.explain()
    expected = explanation.outlook.value
    assert expected > plan.value
    (sentence,) = [one for one in explanation.sentences(str) if one.startswith("A return")]
    assert sentence.startswith(
        f"A return of {number(plan.value)} is guaranteed under every causal model {UNRELATED}, instead of -897: a "
        f"gain of "
        f"{number(plan.gain)}. Gumbel-max expects {number(expected)} ("
    )
    data = explanation_data(explanation)
    assert (data["assume"], data["best_case"], data["expected_value"]) == ("nothing", plan.best_case, expected)
    table = tether.robust(case.mdp, case.path, assume="nothing").sweep(ms=[4])
    assert explanation.beyond.free.value == table.value(12, 4)  # guaranteed values beside guaranteed ones
    patient = tether.cases.sepsis()
    sentences = tether.robust(patient.mdp, patient.path, assume="nothing").plan(9, 2).explain().sentences(str)
    assert sentences[2] == (
        f"Change nothing: no policy within these limits is sure to do better, under every causal model {UNRELATED}."
    )


def test_guarantees_for_each_k():
    case = tether.cases.grid_world()
    cf = tether.counterfactual(case.mdp, case.path)
    found = guarantees_by_k(cf.plan(6, 4))
    for i, k in enumerate(found.ks.tolist()):
        plan = cf.plan(k, 4)
        certified = plan.certify().nothing
        assert found.values[i] == pytest.approx(plan.value)
        assert (found.worst[i], found.best[i]) == pytest.approx((certified.worst, certified.best))
    robust = tether.robust(case.mdp, case.path, assume="stability")
    found = guarantees_by_k(robust.plan(6, 4))
    assert found.worst.tolist() == [robust.plan(k, 4).value for k in found.ks.tolist()]


def test_a_model_that_ends_where_other_causal_models_lead_is_refused():
    """Explored from a step earlier: Gumbel-max does not lead to the edge of it, another causal model does."""
    rows = {("s", "a"): {"t": 0.5, "u": 0.5}, ("s", "b"): {"t": 0.8, "u": 0.2}}
    rows |= {("r", did): {"s": 1.0} for did in "ab"}
    edge = {"initial": ["r", "t"], "actions": lambda s: ["a", "b"], "step": lambda s, a: rows.get((s, a), {s: 1.0})}
    mdp = tether.MDP.from_function(**edge, horizon=2)
    plan = tether.counterfactual(mdp, tether.Path(["s", "t", "t"], ["a", "a"])).plan(3, 2)
    policy = {"s": "b", "t": "a"}
    assert tether.certify(plan.cf, plan).is_certain
    with pytest.raises(tether.PathError, match="'u' can be reached, but the model has no action there"):
        tether.certify(plan.cf, policy)
