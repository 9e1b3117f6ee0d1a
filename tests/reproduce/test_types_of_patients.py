"""Hidden diabetes over many patients: two models that make up the mixed one, and what is counted, on a few patients."""

import numpy as np
import pytest

import tether
from tether_reproduce import types_of_patients
from tether_reproduce.hidden_diabetes import mixed_model, one_change_by_states
from tether_reproduce.types_of_patients import Beside, compare_policies, one_change_table, shares_table, types_of


@pytest.fixture(scope="module")
def full():
    return tether.cases.sepsis().mdp


def test_the_mixed_model_is_the_mean_of_the_types(full):
    types, mixed = types_of(full), mixed_model(full)
    rng = np.random.default_rng(0)
    for state in rng.choice(720, 20, replace=False).tolist():
        name = mixed.states[state]
        for action in mixed.actions:
            mean = {}
            for kind, mdp in types.models.items():
                for j, chance in zip(*mdp.row(name, action), strict=True):
                    mean[j] = mean.get(j, 0.0) + types.prior(name)[kind] * chance
            assert dict(zip(*mixed.row(name, action), strict=True)) == pytest.approx(mean)


def test_the_value_for_the_patient_is_that_of_her_own_world(full):
    """The plan of the posterior, followed in the counterfactual MDP of the patient with her diabetes."""
    path = full.simulate("optimal", 2, start=full.states[1009], rng=3, noise=0.5)
    types = types_of(full)
    one = compare_policies(full, types, path, (0.0, 0.0, 0.0, 1.0), "holds")
    shorter = tether.Path([tuple(state)[1:] for state in path.states], path.actions)
    plan = tether.counterfactual(types, shorter).plan(m=2)
    known = tether.counterfactual(full, path)
    value, mass = 0.0, {(path.states[0],): 1.0}
    for t in range(2):
        onward = {}
        for states, chance in mass.items():
            action = plan.action([tuple(state)[1:] for state in states])
            value += chance * full.reward(states[-1], action)
            for j, likely in zip(*known.row(t, states[-1], action), strict=True):
                onward[(*states, j)] = chance * likely
        mass = onward
    assert one.typed == pytest.approx(value, abs=1e-8)
    assert one.typed <= known.plan(3, 2).value + 1e-8


def test_what_is_counted(full, monkeypatch):
    some = [Beside(0.0, 10.0, 12.0, 20.0, 20.1, 0.9, "holds"), Beside(0.0, 5.0, 5.0, 4.0, 8.0, 0.1, "does not hold")]
    rows = {row[0]: row[1] for row in shares_table({"optimal": some}).rows}
    assert rows["the posterior is better than the best of all k"] == "1 of 2"
    assert rows["the posterior is as good as the policy that knows"] == "1 of 2"
    assert rows["the posterior is at least as good as no tether"] == "1 of 2"
    assert rows["mean value: posterior over types"] == "12.0"
    table = one_change_table(full, mixed_model(full), types_of(full), n=2)
    assert [row[0] for row in table.rows] == ["posterior over types", "mixed model"]
    assert all(row[1].endswith("of 2") for row in table.rows)
    by_states = one_change_by_states(n=2)
    assert by_states.title.endswith("rewards of states")
    assert float(by_states.rows[0][3].replace(",", "")) <= float(by_states.rows[0][4].replace(",", ""))
    starts = types_of_patients.first_states(full)
    assert len(set(starts)) == types_of_patients.PATIENTS
    assert all(full.states[state].diabetic for state in starts)
