"""Hidden diabetes over many patients: two models that make up the mixed one, and what is counted, on a few patients."""

import numpy as np
import pytest

import tether
from tether.cases.hidden_diabetes import split_by_diabetes
from tether_reproduce import exact_numbers, types_of_patients
from tether_reproduce.diabetes_section import by_states, mixed_model
from tether_reproduce.types_of_patients import (
    ADVISERS,
    Beside,
    advise,
    compare_policies,
    one_change_table,
    patients,
    several_changes_table,
    shares_table,
)


@pytest.fixture(scope="module")
def full():
    return tether.cases.sepsis().mdp


def test_the_mixed_model_is_the_mean_of_the_types(full):
    types, mixed = split_by_diabetes(full), mixed_model(full)
    rng = np.random.default_rng(0)
    for state in rng.choice(720, 20, replace=False).tolist():
        name = mixed.states[state]
        for action in mixed.actions:
            mean = {}
            for kind, mdp in types.models.items():
                for j, chance in zip(*mdp.row(name, action), strict=True):
                    mean[j] = mean.get(j, 0.0) + types.prior(name)[kind] * chance
            assert dict(zip(*mixed.row(name, action), strict=True)) == pytest.approx(mean)


def followed(plan, known):
    """What a plan without the flag is worth in the world of one who knows it, history by history."""
    mdp = known.mdp
    value, mass = 0.0, {(known.path.states[0],): 1.0}
    for t in range(known.T):
        onward = {}
        for states, chance in mass.items():
            action = plan.action([tuple(state)[1:] for state in states])
            value += chance * mdp.reward(states[-1], action)
            for j, likely in zip(*known.row(t, states[-1], action), strict=True):
                onward[(*states, j)] = chance * likely
        mass = onward
    if mdp.final_reward is None:
        return value
    return value + sum(chance * float(mdp.final_reward[mdp.state_index(one[-1])]) for one, chance in mass.items())


def test_the_value_for_the_patient_is_that_of_her_own_world(full):
    """The plan of the posterior, followed in the counterfactual MDP of the patient with her diabetes."""
    path = full.simulate("optimal", 2, start=full.states[1009], rng=3, noise=0.5)
    types = split_by_diabetes(full)
    one = compare_policies(full, types, path, (0.0, 0.0, 0.0, 1.0), "holds")
    shorter = tether.Path([tuple(state)[1:] for state in path.states], path.actions)
    plan = tether.counterfactual(types, shorter).plan(m=2)
    known = tether.counterfactual(full, path)
    assert one.typed == pytest.approx(followed(plan, known), abs=1e-8)
    assert one.typed <= known.plan(3, 2).value + 1e-8


def test_what_is_counted(full, monkeypatch):
    some = [Beside(0.0, 10.0, 12.0, 20.0, 20.1, 0.9, "holds"), Beside(0.0, 5.0, 5.0, 4.0, 8.0, 0.1, "does not hold")]
    rows = {row[0]: row[1] for row in shares_table({"optimal": some}).rows}
    assert rows["the posterior is better than the best of all k"] == "1 of 2"
    assert rows["the posterior is as good as the policy that knows"] == "1 of 2"
    assert rows["the posterior is at least as good as no tether"] == "1 of 2"
    assert rows["mean value: posterior over types"] == "12.0"
    starts = types_of_patients.first_states(full)
    assert len(set(starts)) == types_of_patients.PATIENTS
    assert all(full.states[state].diabetic for state in starts)


def test_the_patient_of_the_paper_is_answered_by_what_her_episode_says_of_her(full):
    """She is diabetic: the posterior's plan is worth what one who knows expects; the mixed model promises too much."""
    case = tether.cases.hidden_diabetes()
    cf, T = tether.counterfactual(case.types, case.path), case.path.T
    known = tether.counterfactual(full, tether.cases.sepsis().path)
    mixed = tether.counterfactual(mixed_model(full), case.path)
    assert cf.posterior["diabetic"] == 1.0
    for m in (0, 1, 2):
        best = known.plan(T + 1, m).value
        assert cf.plan(m=m).value == pytest.approx(best, abs=1e-8)
        assert mixed.plan(T + 1, m).value >= best - 1e-8
    assert mixed.plan(T + 1, 2).value == pytest.approx(-2269.585, abs=1e-3)
    steps = cf.plan(m=2).explain(certificate=False)
    assert [steps.happened(step) for step in steps.steps[3:]] == [("died", "")] * 7
    unclear = tether.counterfactual(case.types, case.paths["unclear"])
    first, did, after = unclear.path.states[0], unclear.path.actions[0], unclear.path.states[1]
    like = [dict(zip(*mdp.row(first, did), strict=True))[after] for mdp in case.types.models.values()]
    assert unclear.posterior["diabetic"] == pytest.approx(0.2 * like[1] / (0.8 * like[0] + 0.2 * like[1]))


@pytest.mark.parametrize("t", [0, 1, 4, 8])
def test_what_the_episode_says_of_the_type_does_not_fade(t):
    case = tether.cases.hidden_diabetes()
    cf = tether.counterfactual(case.types, case.paths["suboptimal"])
    state, action = case.path.states[0], "ventilation + vasopressors"
    assert cf.strength(t, state, action, "type") == pytest.approx(cf.strength(0, state, action, "type"), abs=1e-12)
    assert cf.strength(t, state, action, "type") == pytest.approx(0.56, abs=5e-3)
    assert (cf.strength(t, state, action, "luck") > 0.5) == (t == 0)


def test_in_39_of_40_patients_the_posterior_picks_the_change_of_one_who_knows_and_the_mixed_model_in_31():
    assert exact_numbers.moved(exact_numbers.hidden_numbers()) == []


def test_what_is_promised_and_what_is_true_of_two_changes():
    """True gains history by history, in the world of the patient; nobody gains more than one who knows."""
    full, mixed, types = by_states()
    found = advise(full, mixed, types, 2, 0, 2)
    for one, (diabetic, knows, seen) in zip(found[:1], patients(full, types, 1, 0), strict=True):
        plan = tether.counterfactual(types, seen).plan(m=2)
        gain = followed(plan, knows) - knows.plan(7, 0).value
        assert one.diabetic == diabetic
        assert one.true["posterior over types"] == pytest.approx(gain, abs=1e-6)
        assert one.promised["posterior over types"] == pytest.approx(plan.gain)
        assert all(one.true[name] <= one.known + 1e-6 for name in ADVISERS)
    table, single = several_changes_table(found), one_change_table(found)
    assert [row[0] for row in table.rows][:2] == ["all (2)"] * 2
    assert all(row[1].endswith("of 2") for row in single.rows)
