"""ICU-Sepsis against its own arrays and its published baselines, and what is said when the data are not there."""

import importlib.util
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

import tether
from tether.cases import icu_data as icu
from tether.cases.icu_sepsis import icu_sepsis
from tether.errors import FileError, QueryError

SPEC = importlib.util.find_spec("icu_sepsis")


@pytest.fixture(scope="module")
def case():
    return icu_sepsis()


@pytest.fixture(scope="module")
def arrays():
    with np.load(Path(SPEC.submodule_search_locations[0], "envs/assets/dynamics.npz")) as archive:
        return {name: archive[name] for name in archive}


def test_rows_and_rewards_are_those_of_the_package(case, arrays):
    mdp = case.mdp
    assert (mdp.n_states, mdp.n_actions, mdp.n_pairs) == (716, 25, 716 * 25)
    rng = np.random.default_rng(0)
    for s, a in zip(rng.integers(0, 713, 100), rng.integers(0, 25, 100), strict=True):
        after, chances = mdp.row(mdp.states[s], mdp.actions[a])
        expected = np.flatnonzero(arrays["tx_mat"][s, a])
        assert [mdp.state_index(state) for state in after] == expected.tolist()
        np.testing.assert_allclose(chances, arrays["tx_mat"][s, a, expected], rtol=1e-12)
        for j, state in zip(expected, after, strict=True):
            assert mdp.reward(mdp.states[s], mdp.actions[a], state) == arrays["r_mat"][s, a, j]


def test_an_episode_is_over_once(case):
    """In the data, death and survival lead on to 715; here each absorbs, and survival is rewarded on arrival only."""
    for state in ("death", "survival", "after the end"):
        for action in case.mdp.actions:
            assert case.mdp.row(state, action)[0] == (state,)
            assert case.mdp.reward(state, action) == 0
    assert case.mdp.reward(534, "fluids 0, vasopressors 0", "death") == 0
    assert list(case.mdp.labels) == ["death", "survival", "after the end"]
    assert case.mdp.labels["death"] == {"death"}
    assert pickle.loads(pickle.dumps(case)).sofa.tolist() == case.sofa.tolist()


def test_actions_are_fluids_by_vasopressors(case):
    """Index 5·fluids + vasopressors: fluids without vasopressors, 5, 10, 15 and 20, are what most states admit."""
    assert case.mdp.actions[0] == "fluids 0, vasopressors 0"
    assert case.mdp.actions[5] == "fluids 1, vasopressors 0"
    assert case.mdp.actions[24] == "fluids 4, vasopressors 4"
    assert case.admissible[0] == tuple(f"fluids {level}, vasopressors 0" for level in (1, 2, 3, 4))


@pytest.mark.parametrize(("who", "returns", "length"), [("expert", 0.78, 9.22), ("random", 0.78, 9.45)])
def test_published_baselines(case, who, returns, length):
    """Mean return and length of an episode, as the package's documentation gives them (from samples)."""
    mdp, over = case.mdp, 713
    policy = case.expert if who == "expert" else np.full((716, 25), 1 / 25)
    form = mdp.form
    chances = policy.reshape(-1)  # every action is available everywhere: pairs are in this order
    P = np.zeros((716, 716))
    source = np.repeat(np.arange(716 * 25), np.diff(form.row_start))
    np.add.at(P, (source // 25, form.next_state), form.probability * chances[source])
    earned = np.zeros(716)
    np.add.at(earned, source // 25, form.probability * chances[source] * mdp.rewards.values)
    inside = np.eye(over) - P[:over, :over]
    assert case.initial[:over] @ np.linalg.solve(inside, earned[:over]) == pytest.approx(returns, abs=0.01)
    assert case.initial[:over] @ np.linalg.solve(inside, np.ones(over)) == pytest.approx(length, abs=0.05)


def test_the_observed_patient_was_treated_as_experts_treat(case):
    path = case.path
    assert path.states[-1] == "death"
    for s, a in zip(path.states, path.actions, strict=False):
        assert case.expert[case.mdp.state_index(s), case.mdp.action_index(a)] > 0
        assert a in case.admissible[case.mdp.state_index(s)]
    assert case.initial[case.mdp.state_index(path.states[0])] > 0
    tether.observation.path.observe(case.mdp, path)  # raises where a step is impossible


@pytest.mark.compiled
def test_from_the_patient_to_a_plan(case):
    cf = tether.counterfactual(case.mdp, case.path)
    table = cf.sweep(ks=[1, 2, 3], ms=[2])
    chances = [table.value(k, 2) for k in (1, 2, 3)]
    assert 0 < chances[0] < chances[1] < chances[2] < 1  # of survival within the observed eleven steps
    assert 0 < cf.evaluate(case.expert).mean < cf.plan(12, 11).value


def test_admissible_actions_only():
    """2,238 of the 17,825 pairs of the 713 states of patients, and all of those where an episode is over."""
    case = icu_sepsis(inadmissible="unavailable")
    mdp = case.mdp
    assert mdp.n_pairs == 2238 + 3 * 25
    for s in range(713):
        assert mdp.actions_in(s) == case.admissible[s]
        taken = np.flatnonzero(case.expert[s])
        assert {mdp.actions[int(a)] for a in taken} <= set(case.admissible[s])
    np.testing.assert_allclose(case.expert.sum(axis=1), 1, rtol=1e-12)
    tether.observation.path.observe(mdp, case.path)


def test_the_packages_numbers():
    case = icu_sepsis(numbers=True)
    assert case.path.states[-1] == 713
    assert case.path.actions[0] == 15
    assert case.admissible[0] == (5, 10, 15, 20)
    assert case.mdp.labels["death"] == {713}
    assert case.mdp.labels["survival"] == {714}


def test_only_data_are_read(case):
    assert repr(case) == "<Case icu-sepsis: 716 states, 25 actions; paths death>"
    assert "icu_sepsis" not in sys.modules
    assert not case.expert.flags.writeable


def test_unknown_option():
    with pytest.raises(QueryError, match="inadmissible= must be 'mean' or 'unavailable', not 'terminate'"):
        icu_sepsis(inadmissible="terminate")


def test_without_the_package(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(QueryError) as caught:
        icu_sepsis()
    assert str(caught.value) == (
        "the data of ICU-Sepsis come with the package icu-sepsis, which is not installed: "
        "pip install 'tether[icu-sepsis]'"
    )


def small_arrays(monkeypatch):
    """Two states and two actions, so that files can be made and damaged by hand."""
    monkeypatch.setattr(icu, "_STATES", 2)
    monkeypatch.setattr(icu, "_ACTIONS", 2)
    shapes = {"tx_mat": (2, 2, 2), "r_mat": (2, 2, 2), "d_0": (2,), "expert_policy": (2, 2), "sofa_scores": (2,)}
    monkeypatch.setattr(icu, "_SHAPES", shapes)
    return {name: np.zeros(shape) for name, shape in shapes.items()}


def test_data_of_another_shape_or_damaged(tmp_path, monkeypatch):
    arrays = small_arrays(monkeypatch)
    npz, txt = tmp_path / "dynamics.npz", tmp_path / "admissible_actions.txt"
    txt.write_text("1 2\n0\n0 1\n")

    def told():
        with pytest.raises(FileError) as caught:
            icu.read_icu_sepsis(tmp_path)
        return str(caught.value)

    assert "dynamics.npz: there is no such file" in told()
    np.savez(npz, **arrays)
    assert icu.read_icu_sepsis(tmp_path).admissible == ((0,), (0, 1))
    np.savez(npz, **(arrays | {"d_0": np.zeros(3)}))
    assert "the array d_0 has shape (3,) and type float64; expected (2,) finite numbers" in told()
    np.savez(npz, **(arrays | {"d_0": np.array([np.nan, 0])}))
    assert "the array d_0" in told()
    np.savez(npz, **{name: array for name, array in arrays.items() if name != "d_0"})
    assert "the array d_0 is missing" in told()
    np.savez(npz, **(arrays | {"d_0": np.array([{}, {}], dtype=object)}))
    assert "it cannot be read" in told()
    np.savez(npz, **arrays)
    npz.write_bytes(npz.read_bytes()[:-200])
    assert "it cannot be read" in told()
    npz.write_bytes(b"hello")
    assert "it cannot be read" in told()
    np.savez(npz, **arrays)
    txt.write_text("1 2\n0\n")
    assert "2 lines; expected 3" in told()
    txt.write_text("1 2\n0\n7\n")
    assert "admissible_actions.txt, line 3: expected actions 0 … 1 of state 1" in told()
    txt.write_bytes(b"\xff")
    assert "cannot be read" in told()
    txt.unlink()
    assert "there is no such file" in told()
