"""Off-policy evaluation as published: the log redrawn, what is learned from it, and every episode under the policy."""

from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from msgspec import structs

import tether
from tether.cases.sepsis import is_discharge, is_end, transitions
from tether_reproduce import exact_numbers, off_policy
from tether_reproduce.findings import expected, figure_verdicts, published
from tether_reproduce.learned_policy import as_model, as_paths, learn_from, model_outcomes, policy_by_step
from tether_reproduce.patients import STEPS, PatientLog, best_policy, draw_log, make_world, seen, truth_for_all
from tether_reproduce.redrawn import Redrawing
from tether_reproduce.study import CASES


@pytest.fixture(scope="module")
def released():
    return off_policy.released_world()


@pytest.fixture(scope="module")
def small(released):
    """Few patients, and all that is computed of them."""
    return off_policy.run_experiment(released, draw_log(released, 60, np.random.default_rng(0)))


def test_the_published_log_is_drawn_again_digit_for_digit(released):
    run = Redrawing(0)
    log = run.under_physician(released.physician, 1000)
    i, t = np.nonzero(log.actions >= 0)
    pairs = log.states[i, t] * 8 + log.actions[i, t]
    for pair, after in set(zip(pairs.tolist(), log.states[i, t + 1].tolist(), strict=True)):
        assert after in released.next_state[released.start[pair] : released.start[pair + 1]]
    treated = run.under_policy(learn_from(log).policy, 1000)
    theirs = published().off_policy.estimates  # printed by the released notebook, with four digits
    assert round(run.resampled(treated.outcome.astype(float)), 4) == theirs["truth"]
    assert round(run.resampled(log.outcome.astype(float)), 4) == theirs["observed"]


def test_the_mistake_of_the_released_simulator():
    """By its source: glucose of a non-diabetic patient that rises becomes min(1, level + 1)."""
    tables = []
    for as_released in (False, True):
        s, a, j, p = transitions(as_released=as_released)
        table = np.zeros((1440, 8, 1440))
        table[s, a, j] = p
        tables.append(table)
        np.testing.assert_allclose(table.sum(axis=2), 1.0, rtol=1e-12)
    glucose = np.arange(1440) // 8 % 5
    for s in range(0, 720, 7):
        for a in range(8):
            levels = [np.bincount(glucose, table[s, a], 5) for table in tables]
            rises = np.zeros(5)
            if a % 2 == 0:  # no vasopressors: it fluctuates
                rises[min(4, glucose[s] + 1)] -= 0.1
                rises[min(1, glucose[s] + 1)] += 0.1
            np.testing.assert_allclose(levels[1] - levels[0], rises, atol=1e-12)
    assert np.array_equal(tables[0][720:], tables[1][720:])


def test_draws_of_patients_follow_the_rules(released):
    log = draw_log(released, 4000, np.random.default_rng(1))
    first = np.bincount(log.states[:, 0], minlength=1440) / 4000
    assert np.all(np.abs(first - released.first) < 5 * np.sqrt(released.first / 4000) + 1e-12)
    i, t = np.nonzero(log.actions >= 0)
    other = np.mean(log.actions[i, t] != released.physician[log.states[i, t]])
    assert abs(other - 0.05) < 4 * np.sqrt(0.05 * 0.95 / i.size)
    ended = is_end()[log.states[np.arange(4000), log.steps]]
    assert np.array_equal(ended, log.outcome != 0)
    assert set(log.steps[log.outcome == 0].tolist()) == {STEPS}


def test_the_best_policy_is_that_of_value_iteration():
    rng = np.random.default_rng(2)
    P, reward = rng.dirichlet(np.ones(6), size=(3, 6)), rng.normal(size=(3, 6))
    value = np.zeros(6)
    for _ in range(4000):
        value = (reward + 0.99 * P @ value).max(axis=0)
    assert best_policy(P, reward).tolist() == (reward + 0.99 * P @ value).argmax(axis=0).tolist()


@pytest.mark.compiled
def test_the_true_value_is_that_of_the_full_model():
    world, policy = make_world(as_released=False), np.arange(146) % 8
    mdp = tether.cases.sepsis().mdp
    start = 720 + int(np.flatnonzero(world.first[720:])[3])
    alone = replace(world, first=np.eye(1440)[start])
    found = mdp.evaluate(policy[seen(np.arange(1440))], STEPS, start=mdp.states[start]).outcomes()
    died, _, discharged = truth_for_all(alone, policy)
    assert (died, discharged) == pytest.approx((found["died"], found["discharged"]), rel=1e-10)


def test_what_is_learned_from_a_log():
    """Two patients, by hand: one dies after a step, one is discharged; and what was never tried is deadly."""
    ends = np.flatnonzero(is_end()[:720])
    dead, home = int(ends[ends % 8 == 4][0]), int(np.flatnonzero(is_discharge())[0])
    s = 300
    states, actions = np.full((2, 21), -1), np.full((2, 20), -1)
    states[0, :2], actions[0, 0] = (s, dead), 4
    states[1, :2], actions[1, 0] = (s, home), 4
    learned = learn_from(PatientLog(states, actions, np.array([-1, 1])))
    here, in_death, at_home = seen(np.array([s, dead, home]))
    assert learned.P[4, here, in_death] == learned.P[4, here, at_home] == 0.5
    assert learned.P[:, in_death, 144].tolist() == [1.0] * 8  # one count, whatever is done
    assert learned.P[:, at_home, 145].tolist() == [1.0] * 8
    assert learned.P[0, here, 144] == 1.0
    assert learned.policy[here] == 4
    assert learned.behaviour[here].tolist() == [0, 0, 0, 0, 1, 0, 0, 0]


@pytest.mark.compiled
def test_every_episode_is_what_an_audit_says_of_it(small):
    """The single calls of the library, on episodes of all kinds."""
    kinds = [np.flatnonzero(small.log.outcome == outcome)[:4] for outcome in (-1, 0, 1)]
    chosen = np.concatenate(kinds)
    log = PatientLog(small.log.states[chosen], small.log.actions[chosen], small.log.outcome[chosen])
    found = tether.audit(
        as_model(small.learned), as_paths(log), policy=policy_by_step(small.learned), certify=False, workers=1
    )
    columns = [found.table.column(name).to_numpy() for name in ("P(died)", "P(discharged)")]
    np.testing.assert_allclose(np.stack(columns, axis=1), small.ends[chosen][:, [0, 2]], atol=1e-12)
    assert found.table.column("observed").to_pylist() == log.outcome.tolist()
    np.testing.assert_allclose(
        found.table.column("model_value").to_numpy(), small.for_anyone[chosen] @ [-1, 0, 1], atol=1e-12
    )
    outcomes = {(row["observed"], row["counterfactual"]): row["episodes"] for row in found.outcomes.to_pylist()}
    names = {-1: "died", 0: "still under way", 1: "discharged"}
    for observed, i in product((-1, 0, 1), range(3)):
        wanted = small.ends[chosen][log.outcome == observed][:, i].sum()
        assert outcomes.get((names[observed], names[i - 1]), 0.0) == pytest.approx(wanted, abs=1e-12)


def test_the_matrix_and_the_estimates_are_means_over_episodes(small):
    assert small.outcomes.sum() == pytest.approx(100.0)
    returns = small.ends @ [-1, 0, 1]
    assert small.estimates["CF"] == pytest.approx(returns.mean())
    assert small.outcomes.sum(axis=0) @ [-0.01, 0, 0.01] == pytest.approx(returns.mean())
    assert small.estimates["MB"] == pytest.approx(
        (model_outcomes(small.learned)[seen(small.log.states[:, 0])] @ [-1, 0, 1]).mean()
    )
    apart = returns - small.for_anyone @ [-1, 0, 1]
    assert small.consistency.difference == pytest.approx(apart.mean())
    assert small.consistency.holds == (abs(apart.mean()) <= 3 * apart.std(ddof=1) / np.sqrt(60) + 1e-9)


def test_weights_are_products_of_ratios(small):
    for i in (0, 7, 23):
        weight = 1.0
        for s, a in zip(seen(small.log.states[i]), small.log.actions[i], strict=False):
            if a >= 0:
                weight *= (small.learned.policy[s] == a) / small.learned.behaviour[s, a]
        assert small.weights[i] == pytest.approx(weight)


def test_the_most_frequent_of_five_draws():
    chance = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])
    wanted = np.zeros((2, 3))
    for draws in product((0, 1, 2), repeat=5):
        values, counts = np.unique(draws, return_counts=True)
        wanted[:, values[np.argmax(counts)]] += np.prod(chance[:, draws], axis=1)
    np.testing.assert_allclose(off_policy.likeliest_of_draws(chance), wanted, rtol=1e-12)


@pytest.mark.compiled
def test_the_section_tells_what_differs(small, released, monkeypatch):
    few = structs.replace(published().off_policy, patients=60)
    monkeypatch.setattr(off_policy, "published", lambda: structs.replace(published(), off_policy=few))
    monkeypatch.setattr(off_policy, "released_world", lambda: released)
    monkeypatch.setattr(off_policy, "make_world", lambda as_released: released)
    redrawn = {name: published().off_policy.estimates[name] for name in ("truth", "observed", "WIS", "MB")}
    monkeypatch.setattr(off_policy, "redraw", lambda world: (small, redrawn))
    section = CASES["off_policy"](logs=2)
    causes = {one.title.split(": ")[1]: one.cause for one in figure_verdicts([section])}
    assert causes["return, drawn as published"] == "equal"
    assert causes["WIS, exact"] == "differs, for a known reason"
    assert len([one for one in section.comparisons if one.quantity == "outcomes in percent"]) == 9
    matrix, died, others = section.tables
    assert [row[0] for row in matrix.rows] == ["died", "no change", "discharged"]
    assert len(died.rows) == min(5, np.count_nonzero(small.log.outcome == -1))
    assert len(others.rows) == 3
    assert any("glucose of non-diabetic patients" in paragraph for paragraph in section.text)


def test_off_policy_is_held_to_its_numbers(monkeypatch):
    must = {what.removeprefix("Off-policy, "): one.values for what, one in expected().items()}
    redrawn = {name: must[f"{name}, drawn as published"][0] for name in ("truth", "observed", "WIS", "MB")}
    exact = {name: must[f"{name}, exact"][0] for name in ("observed", "truth", "WIS", "MB", "CF")}
    found = SimpleNamespace(estimates=exact, outcomes=np.array(must["outcomes"]).reshape(3, 3))
    monkeypatch.setattr(exact_numbers, "released_world", lambda: None)
    monkeypatch.setattr(exact_numbers, "redraw", lambda world: (found, redrawn))
    assert exact_numbers.moved(exact_numbers.off_policy_numbers()) == []
    found.estimates["CF"] += 0.0001
    sentence = "Off-policy, CF, exact: number 1 is 0.957, must be 0.9569 (1 of 1 differ)"
    assert exact_numbers.moved(exact_numbers.off_policy_numbers()) == [sentence]
