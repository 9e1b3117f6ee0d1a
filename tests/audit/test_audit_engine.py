"""A batch on the engine against the calls for single episodes: every kind of question, in whatever model."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hospital import hospital, learned, log_of
from hypothesis import given
from hypothesis import strategies as st
from singly import answer_each
from worlds import worlds

import tether
from tether.auditing import batched, followed
from tether.auditing.answering import PreparedQuestion
from tether.auditing.audit_question import make_question
from tether.auditing.batched import Engine
from tether.auditing.reviewed import reviewed
from tether.conditioning.mechanisms import make_mechanism
from tether.core import rows
from tether.evaluation import certificate
from tether.logs.batches import open_log


def cohort_of(mdp, log):
    (batch,) = [cohort for _, cohort in open_log(log).batches(mdp)]
    return batch


def question(
    k, m, certify=False, rule="definition", influence="support", objective=None, minimise=False, policy=None, how=None,
    mdp=None,
):  # fmt: skip
    asked = make_question(k, m, rule, influence, objective, certify, policy, 0, 0, minimise)
    return asked if how is None else replace(asked, mechanism=make_mechanism(how, {}, mdp))


def check_same(mdp, log, asked, solver=None):
    cohort = cohort_of(mdp, log)
    prepared = PreparedQuestion.of(mdp, replace(asked, longest=int(np.diff(cohort.start).max())))
    both = (solver or Engine(prepared))(cohort), answer_each(prepared, cohort)
    found, expected = (reviewed(prepared, answers, cohort) for answers in both)
    for field in fields(expected):
        one, other = getattr(found, field.name), getattr(expected, field.name)
        if isinstance(other, np.ndarray) and other.dtype.kind == "f":
            near = 1e-6 if field.name == "gamma_star" else 1e-11  # where a slowly falling value is 0
            np.testing.assert_allclose(one, other, rtol=near, atol=1e-11, err_msg=field.name)
        elif isinstance(other, np.ndarray):
            np.testing.assert_array_equal(one, other, field.name)
        else:
            assert one == other, field.name


def log_in(world):
    mdp, start, T = world.cf.mdp, world.path.states[0], world.path.T
    log = [world.path, mdp.simulate("random", T, start=start, rng=1), tether.Path(["unknown"], world.path.actions[:1])]
    log.append(tether.Path(log[1].states, log[1].actions, [None, *np.arange(0.1, T)][:T]))
    if T > 1:
        log.append(mdp.simulate("random", T - 1, start=start, rng=2))
    return mdp.with_labels({"end": mdp.states[:2], "last": mdp.states[-1:]}), log


KS, MS = st.one_of(st.none(), st.integers(1, 7)), st.integers(0, 6)


@given(worlds(), KS, MS, st.booleans())
def test_a_batch_gives_the_answers_of_the_single_calls(world, k, m, certify):
    check_same(*log_in(world), question(k, m, certify))


@given(worlds(), KS, MS)
def test_a_batch_of_one_episode(world, k, m):
    check_same(world.cf.mdp, [world.path], question(k, m, certify=True))


@given(
    worlds(), KS, MS,
    st.sampled_from([
        ("published", "support"), ("printed", "support"), ("assured", "support"), ("definition", tether.tv(0.4)),
        ("assured", tether.effective(0.1)), ("definition", tether.effective(0.0)),
        ("assured", tether.InfluenceTest(lambda p, observed, q: bool(q[observed] > p[observed] / 2))),
        (tether.TetherRule(lambda t, state, action: 1 + (t + len(str((state, action)))) % 3), tether.tv(0.4)),
    ]),
    st.booleans(),
)  # fmt: skip
def test_every_rule_and_every_test_of_influence(world, k, m, how, minimise):
    rule, influence = how
    check_same(*log_in(world), question(k, m, rule=rule, influence=influence, minimise=minimise))


def as_often(p, observed, q):
    """The observed outcome as often as the two rows allow; the others in their proportions."""
    x = q * (1 - min(1, q[observed] / p[observed])) / max(1 - q[observed], 1e-300)
    x[observed] = min(1, q[observed] / p[observed]) if q[observed] > 0 else 0
    return x / x.sum()


class Alternating:
    """Independent at even times, the maximal coupling at odd ones: a mechanism that knows the time."""

    name = "alternating"

    def infer(self, step):
        return (tether.Maximal() if step.t % 2 else tether.Independent()).infer(step)

    def standard_error(self, probability):
        return np.zeros_like(probability)


MECHANISMS = st.sampled_from([
    "independent", "maximal", "comonotone", tether.Comonotone(lambda s: -hash(s) % 7), as_often, Alternating(),
    tether.SampledGumbelMax(50, rng=1),
])  # fmt: skip


@given(
    worlds(), KS, MS, MECHANISMS, st.booleans(), st.sampled_from(["definition", "published", "printed", "assured"]),
    st.sampled_from(["support", tether.tv(0.4), tether.effective(0.1)]),
)  # fmt: skip
def test_every_mechanism(world, k, m, how, certify, rule, influence):
    mdp, log = log_in(world)
    rule = rule if influence == "support" or rule == "assured" else "definition"
    check_same(mdp, log, question(k, m, certify, rule, influence, how=how, mdp=mdp))


@given(worlds(), MECHANISMS, st.sampled_from(["observed", "optimal", "random"]), st.booleans())
def test_policies_under_every_mechanism(world, how, policy, certify):
    mdp, log = log_in(world)
    check_same(mdp, log, question(None, 1, certify, policy=policy, how=how, mdp=mdp))


@given(worlds(), KS, MS, MECHANISMS, st.booleans(), st.sampled_from([tether.reach, tether.avoid]))
def test_objectives_under_every_mechanism(world, k, m, how, minimise, kind):
    mdp, log = log_in(world)
    check_same(mdp, log, question(k, m, objective=kind("end"), minimise=minimise, how=how, mdp=mdp))


@given(worlds(), KS, MS, st.sampled_from(["support", tether.tv(0.4), tether.effective(0.1)]))
def test_certificates_of_plans_that_remember_runs(world, k, m, influence):
    check_same(*log_in(world), question(k, m, certify=True, rule="assured", influence=influence))


@given(
    worlds(), KS, MS, st.sampled_from(["definition", "published", "printed", "assured"]), st.booleans(),
    st.sampled_from([tether.reach, tether.avoid]), st.sampled_from(["end", "last"]),
)  # fmt: skip
def test_every_objective_in_both_directions(world, k, m, rule, minimise, kind, label):
    check_same(*log_in(world), question(k, m, rule=rule, objective=kind(label), minimise=minimise))


@given(worlds(), st.sampled_from(["observed", "optimal", "random"]), st.booleans())
def test_policies(world, policy, certify):
    check_same(*log_in(world), question(None, 1, certify, policy=policy))


@given(worlds(), st.booleans())
def test_minimised_returns_have_certificates(world, certify):
    check_same(*log_in(world), question(None, 2, certify, minimise=True))


@given(worlds(), MS)
def test_chances_to_end_worse_are_bounds_where_there_are_many_returns(world, m):
    """Episodes of different lengths in one batch, each rounded on its own."""
    mdp, log = log_in(world)
    prepared = PreparedQuestion.of(mdp, question(None, m))
    exact = Engine(prepared)(cohort_of(mdp, log)).p_worse
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(followed, "_RETURNS", 0)
        rounded = Engine(prepared)(cohort_of(mdp, log)).p_worse
    assert np.array_equal(np.isnan(exact), np.isnan(rounded))
    known = ~np.isnan(exact)
    assert (rounded[known] >= exact[known] - 1e-9).all()
    assert (rounded[known] <= exact[known] + 1e-3).mean() >= 0.5


def test_mechanisms_are_answered_for_whole_batches(monkeypatch):
    """No episode is left to the single calls; and an audit says which mechanism it is about."""
    monkeypatch.setattr(batched, "certified_alone", None)
    case = tether.cases.grid_world()
    log = [case.path, *(case.mdp.simulate("optimal", 8, rng=seed, noise=0.4) for seed in range(4))]
    for how in ("independent", "maximal", "comonotone", as_often, Alternating()):
        found = tether.audit(case.mdp, log, m=2, mechanism=how, workers=1)
        cf = tether.counterfactual(case.mdp, case.path, mechanism=how)
        assert found.table["gain"][0].as_py() == pytest.approx(cf.plan(m=2).gain, rel=1e-11)
        assert found.question["mechanism"] == cf.mechanism.name


def test_a_policy_of_time_and_state():
    mdp = tether.cases.grid_world().mdp
    log = [mdp.simulate("random", T, start=T, rng=T) for T in (3, 5, 3)]
    policy = lambda t, s: {"up": 0.25, "right": 0.75} if t % 2 else "down"  # noqa: E731
    check_same(mdp, log, question(None, 1, policy=policy))
    check_same(mdp, log, question(None, 1, certify=True, policy=policy))


def test_a_policy_of_what_was_done():
    """It is another one for each episode: each is a batch of one."""
    mdp = tether.cases.grid_world().mdp
    log = [mdp.simulate("random", T, start=T, rng=T) for T in (3, 5, 3)]
    policy = lambda t, s, done: "up" if done == "down" else done  # noqa: E731
    check_same(mdp, log, question(None, 1, certify=True, policy=policy))


def test_draws_of_a_learned_model():
    mdp = learned(log := log_of(hospital(3, 1.0), 200, 3))
    check_same(mdp, {i: log[i] for i in range(6)}, replace(question(None, 1, certify=True), draws=5))


def test_an_episode_without_an_answer_leaves_the_others_together(monkeypatch):
    """The single calls are asked for its reason alone."""
    mdp = tether.MDP.from_function(
        0, lambda _s: ["go", "stay"], lambda s, a: {s + 1: 0.5, s: 0.5} if a == "go" else {s: 1.0},
        lambda s, a: s + 2.0 * (a == "go"), horizon=2,
    )  # fmt: skip
    log = [tether.Path([0, 1, 1], ["go", "stay"]) for _ in range(20)]
    log[13] = tether.Path([1, 1, 1], ["stay", "stay"])
    check_same(mdp, log, question(3, 1, certify=True))
    asked, alone = [], batched.certified_alone
    monkeypatch.setattr(batched, "certified_alone", lambda of, seen: asked.append(seen) or alone(of, seen))
    found = Engine(PreparedQuestion.of(mdp, question(3, 1, certify=True)))(cohort_of(mdp, log))
    assert [number for number, _ in found.wrong] == [13]
    assert len(asked) == 1


def test_a_state_that_nothing_leads_to():
    mdp = tether.MDP.from_table(
        state=["door", "door", "ward", "ward", "ward"],
        action=["in", "in", "wait", "treat", "treat"],
        next_state=["ward", "dead", "dead", "well", "dead"],
        probability=[0.9, 0.1, 1.0, 0.5, 0.5],
        reward=[0, 0, 0, 1, 0],
        terminal=["well", "dead"],
    )
    log = [tether.Path(["door", "ward", "dead"], ["in", "wait"]), tether.Path(["door", "dead"], ["in"])]
    check_same(mdp, log, question(None, 1, certify=True))
    check_same(mdp, log, question(None, 1, objective=tether.reach("well")))


def test_ways_that_are_too_unlikely_for_a_number():
    """s3 is possible at t = 2, with a probability of 1e-600, which is 0 as a number."""
    rows = [("s0", "y", "s0", 1.0, 0), ("s0", "x", "s1", 1.0, 1), ("s0", "x", "s2", 1e-300, 1)]
    rows += [("s1", a, "s1", 1.0, 1) for a in "xy"]
    rows += [(s, a, j, p, 0) for a in "xy" for s, j, p in (("s2", "s2", 1.0), ("s2", "s3", 1e-300), ("s3", "s3", 1.0))]
    mdp = tether.MDP.from_table(*map(list, zip(*rows, strict=True)))
    check_same(mdp, [tether.Path(["s0"] * 4, ["y"] * 3)], question(4, 1))
    found = Engine(PreparedQuestion.of(mdp, question(4, 1)))(cohort_of(mdp, [tether.Path(["s0"] * 4, ["y"] * 3)]))
    assert (found.gain.tolist(), found.p_worse.tolist()) == ([3.0], [0.0])


def test_a_state_without_actions_that_luck_rules_out():
    mdp = tether.MDP.from_function(
        0,
        lambda _s: ["go", "stay"],
        lambda s, a: {s + 1: 0.5, s: 0.5} if a == "go" else {s: 1.0},
        lambda s, a: s + 2.0 * (a == "go"),
        horizon=2,
    )
    fine = tether.Path([0, 1, 1], ["go", "stay"])
    check_same(mdp, [tether.Path([1, 1, 1], ["go", "go"]), fine], question(3, 1))
    # Here another action can lead to it: the same reason as of the single call.
    check_same(mdp, [tether.Path([1, 1, 1], ["stay", "stay"]), fine], question(3, 1, certify=True))


def test_plans_that_come_to_very_much_have_no_certificate(monkeypatch):
    case = tether.cases.grid_world()
    for module in (batched, certificate):
        monkeypatch.setattr(module, "MOST_NODES", 15)
    log = [case.path, case.mdp.simulate("optimal", 5, rng=1)]
    check_same(case.mdp, log, question(9, 1, certify=True))
    found = Engine(PreparedQuestion.of(case.mdp, question(9, 1, True)))(cohort_of(case.mdp, log))
    assert (found.verdict >= 0).tolist() == [False, True]


@pytest.mark.compiled
def test_a_ward():
    mdp = tether.cases.sepsis().mdp
    log = [mdp.simulate("optimal", 8 + i % 5, start=mdp.states[97 * i % 1440], rng=i, noise=0.3) for i in range(12)]
    check_same(mdp, log, question(None, 1, certify=True))
    check_same(mdp, log[:4], question(None, 2, certify=True))
    check_same(mdp, log[8:9], question(2, 1, certify=True))  # a batch of one is no policy


@pytest.mark.compiled
def test_batches_share_rows_until_they_are_too_many(monkeypatch):
    mdp = tether.cases.sepsis().mdp
    prepared = PreparedQuestion.of(mdp, question(5, 1))
    solver = Engine(prepared)
    log = [mdp.simulate("optimal", 8, start=mdp.states[97 * i % 1440], rng=i, noise=0.3) for i in range(6)]
    check_same(mdp, log, question(5, 1), solver)
    kept = solver._world.store.nbytes
    check_same(mdp, log, question(5, 1), solver)
    assert solver._world.store.nbytes == kept
    monkeypatch.setattr(rows, "LIMIT", 0)
    check_same(mdp, log[:1], question(5, 1), solver)
    assert solver._world.store.nbytes < kept


def test_a_batch_keeps_its_rows_when_the_store_begins_again(monkeypatch):
    """Episodes are conditioned on two models of a learned one: the second batch must not take the rows of the first."""
    truth = hospital(3, 1.0)
    log = log_of(truth, 400, 3)
    mdp, some = learned(log), {i: log[i] for i in range(40)}
    expected = tether.audit(mdp, some, certify=False).table
    monkeypatch.setattr(rows, "LIMIT", 0)
    assert tether.audit(mdp, some, certify=False).table.equals(expected)
    assert any(gain != 0 for gain in expected.column("gain").to_pylist())


def test_certificates_leave_cross_fitted_gains_as_they_are():
    """Also where a plan's runs are those of another mechanism, and each episode has its certificate alone."""
    log = log_of(hospital(3, 1.0), 200, 3)
    mdp, some = learned(log), {i: log[i] for i in (0, 1, 7)}
    asked = {"k": 3, "rule": "assured", "influence": tether.tv(0.4), "mechanism": "maximal", "workers": 1}
    both = [tether.audit(mdp, some, certify=certify, **asked).table for certify in (True, False)]
    assert both[0]["gain"].to_pylist() == both[1]["gain"].to_pylist()
    assert both[0]["gain"][0].as_py() > 0
    assert both[0]["guaranteed_gain"].null_count == 0
