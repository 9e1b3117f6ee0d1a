"""The engine for many episodes against the single calls: the same bits, in whatever model and for whatever k and m."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import worlds

import tether
from tether._kernels.audit.sums import pairwise
from tether._kernels.sorting import sort_ascending
from tether.auditing import compiled, engine, sharing
from tether.auditing.answering import PreparedQuestion, answer_each
from tether.auditing.compiled import Engine, is_usual
from tether.auditing.logs import open_log
from tether.auditing.question import make_question
from tether.evaluation import certificate


def cohort_of(mdp, log):
    (batch,) = [cohort for _, cohort in open_log(log).batches(mdp)]
    return batch


def question(k, m, certify=False):
    return make_question(k, m, "definition", "support", None, certify, None, 0, 0)


def check_same(mdp, log, k, m, certify=False, solver=None):
    asked, cohort = PreparedQuestion.of(mdp, question(k, m, certify)), cohort_of(mdp, log)
    assert is_usual(mdp, asked.question)
    found, expected = (solver or Engine(asked))(cohort), answer_each(asked, cohort)
    for field in fields(expected):
        one, other = getattr(found, field.name), getattr(expected, field.name)
        if isinstance(other, np.ndarray):
            np.testing.assert_array_equal(one, other, field.name)
        else:
            assert one == other, field.name


@given(worlds(), st.one_of(st.none(), st.integers(1, 7)), st.integers(0, 6), st.booleans())
def test_the_engine_gives_the_bits_of_the_single_calls(world, k, m, certify):
    mdp = world.cf.mdp
    if mdp.rewards.horizon is not None:
        assert not is_usual(mdp, question(k, m))
        return
    start, T = world.path.states[0], world.path.T
    log = [world.path, mdp.simulate("random", T, start=start, rng=1), tether.Path(["unknown"], world.path.actions[:1])]
    log.append(tether.Path(log[1].states, log[1].actions, [None, *np.arange(0.1, T)][:T]))
    check_same(mdp.with_labels({"end": mdp.states[:2], "last": mdp.states[-1:]}), log, k, m, certify)


def test_a_state_without_actions_that_luck_rules_out_is_left_to_the_single_calls():
    mdp = tether.MDP.from_function(
        0,
        lambda _s: ["go", "stay"],
        lambda s, a: {s + 1: 0.5, s: 0.5} if a == "go" else {s: 1.0},
        lambda s, a: s + 2.0 * (a == "go"),
        horizon=2,
    )
    fine = tether.Path([0, 1, 1], ["go", "stay"])
    check_same(mdp, [tether.Path([1, 1, 1], ["go", "go"]), fine], 3, 1)
    # Here another action can lead to it: the same reason as of the single call.
    check_same(mdp, [tether.Path([1, 1, 1], ["stay", "stay"]), fine], 3, 1, certify=True)


def test_certificates_make_place_for_all_that_a_plan_can_come_to(monkeypatch):
    case = tether.cases.epidemic()
    monkeypatch.setattr(compiled, "_NODES", 1)
    check_same(case.mdp, [case.path], 6, 2, certify=True)


def test_more_place_for_ends_is_no_more_place_for_certificates():
    """What an engine certifies in stays as large as it was, batch after batch, where only the ends are many."""
    states, actions = ["ill"] * 21, ["wait", *["treat"] * 20]
    ends = ["ill", *(f"end {i}" for i in range(20))]
    mdp = tether.MDP.from_table(states, actions, ends, [1.0, *[0.05] * 20], [0, *range(20)], terminal=ends[1:])
    log, asked = [tether.Path(["ill"] * 3, ["wait"] * 2)], PreparedQuestion.of(mdp, question(3, 1, certify=True))
    solver = Engine(asked)
    assert solver(cohort_of(mdp, log)).end_outcome.size == 20  # there is place for 16 per episode at first
    size = compiled.certifying_scratch(mdp, 2, compiled._NODES).node.size
    assert solver._certifying.node.size == size
    check_same(mdp, log, 3, 1, certify=True, solver=solver)
    assert solver._certifying.node.size == size


def test_plans_that_come_to_very_much_have_no_certificate(monkeypatch):
    case = tether.cases.grid_world()
    for module in (compiled, certificate):
        monkeypatch.setattr(module, "MOST_NODES", 15)
    log = [case.path, case.mdp.simulate("optimal", 5, rng=1)]
    check_same(case.mdp, log, 9, 1, certify=True)
    found = Engine(PreparedQuestion.of(case.mdp, question(9, 1, True)))(cohort_of(case.mdp, log))
    assert (found.verdict >= 0).tolist() == [False, True]


@pytest.mark.compiled
def test_the_shortest_tether_that_is_enough_is_found_for_a_ward():
    """In the sepsis model some episodes need no more than the observed actions to tell κ, others need all layers."""
    mdp = tether.cases.sepsis().mdp
    log = [mdp.simulate("optimal", 8 + i % 5, start=mdp.states[97 * i % 1440], rng=i, noise=0.3) for i in range(12)]
    check_same(mdp, log, None, 1, certify=True)
    check_same(mdp, log[:4], None, 2, certify=True)


@pytest.mark.compiled
def test_batches_share_rows_until_they_are_too_many(monkeypatch):
    mdp = tether.cases.sepsis().mdp
    log = [mdp.simulate("optimal", 6 + i, start=mdp.states[700 + 7 * i], rng=i, noise=0.3) for i in range(6)]
    solver = Engine(PreparedQuestion.of(mdp, question(4, 2)))
    for some in (log[:2], log[1:5], log[:2]):
        check_same(mdp, some, 4, 2, solver=solver)
    monkeypatch.setattr(sharing, "_MOST_BYTES", 0)
    check_same(mdp, log[4:], 4, 2, solver=solver)
    kept = cohort_of(mdp, log[4:])
    assert len(solver._rows) == len({*zip(kept.pair.tolist(), kept.next_state.tolist(), strict=True)})


def test_the_engine_is_made_when_it_is_worth_it(monkeypatch):
    mdp = tether.cases.toy().mdp
    log = [tether.cases.toy().path] * 3
    made = []
    monkeypatch.setattr(
        engine, "Engine", lambda asked: made.append(asked) or (lambda cohort: answer_each(asked, cohort))
    )
    monkeypatch.setattr(engine, "_LOADING", 0.05)  # as long as five episodes
    asked = PreparedQuestion.of(mdp, question(2, 1))
    answer, cohort = engine.prepare(asked), cohort_of(mdp, log)
    for times in (0, 1, 1):
        assert answer(cohort).value.tolist() == answer_each(asked, cohort).value.tolist()
        assert made == [asked] * times
    published = make_question(2, 1, "published", "support", None, False, None, 0, 0)
    assert len(engine.prepare(PreparedQuestion.of(mdp, published))(cohort)) == 3


@given(st.integers(0, 700), st.integers(0, 2**32 - 1))
def test_sums_are_taken_in_the_order_of_numpy(n, seed):
    rng = np.random.default_rng(seed)
    values = np.concatenate(([1e9], rng.standard_normal(n) * 10.0 ** rng.integers(-8, 8, n)))
    scratch = np.zeros((3, 64), np.int64), np.zeros(64)
    assert pairwise(values, 1, n, *scratch) == values[1:].sum()
    if n:  # as `reduceat` takes them, of one column of a table
        rest = values[1] + pairwise(values, 2, n - 1, *scratch)
        assert rest == np.add.reduceat(values[1:, None], [0])[0, 0]


@given(st.lists(st.integers(-9, 99), max_size=60))
def test_sorting(values):
    array = np.array([500, *values, -500])
    sort_ascending(array, 1, len(values))
    assert array.tolist() == [500, *sorted(values), -500]
