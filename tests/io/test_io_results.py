"""Saved plans and sweeps: what is read is what was saved, by Tether and by any reader of Arrow; damage is noticed."""

import pickle

import numpy as np
import pyarrow as pa
import pytest
from enumerate import questions
from hypothesis import given
from worlds import in_package

import tether
from tether.io import read_plan, read_sweep


@given(questions(max_states=5, max_steps=4))
def test_a_plan_is_read_as_it_was_saved(tmp_path_factory, question):
    world, rule, criterion, k, m = question
    plan = world.cf.plan(k, m, rule=rule, influence=in_package(criterion))
    file = tmp_path_factory.mktemp("saved") / "plan.arrow"
    plan.save(file)
    saved = read_plan(file)
    assert (saved.value, saved.observed_value, saved.gain) == (plan.value, plan.observed_value, plan.gain)
    assert saved.path.states == world.path.states
    assert saved.path.actions == world.path.actions
    assert [saved.settings[name] for name in ("k", "m", "rule", "influence", "minimise")] == [
        plan.k, plan.m, rule, str(plan.influence), False,
    ]  # fmt: skip
    for t in range(world.T):
        for s in world.states:
            for left in range(plan.m + 1):
                for run in range(t + 1 if rule == "assured" else 1):
                    there = saved.action(t, s, left, uninfluenced=run)
                    assert there == plan.action(t, s, left, uninfluenced=run)
    elsewhere = pa.ipc.open_file(str(file)).read_all()  # any program that reads Arrow
    assert elsewhere.select(plan.to_arrow().column_names).equals(plan.to_arrow())


def test_a_sweep_is_read_as_it_was_saved(grid, tmp_path):
    table = grid.sweep(ks=[6, 1, 12], ms=[0, 2], measures=["std"])
    table.save(tmp_path / "sweep.arrow")
    saved = read_sweep(tmp_path / "sweep.arrow")
    assert np.array_equal(saved.values, table.values)
    assert np.array_equal(saved.sizes, table.sizes)
    assert saved.value(12, 2) == table.value(12, 2)
    assert saved.to_arrow().equals(table.to_arrow())
    assert saved.settings["mechanism"] == "gumbel-max"
    assert saved.path == tether.Path(grid.path.states, grid.path.actions)
    with pytest.raises(tether.QueryError, match="k = 2, m = 2"):
        saved.value(2, 2)


def test_a_pickle_without_the_model_is_small():
    patient = tether.cases.sepsis()
    plan = tether.counterfactual(patient.mdp, patient.path).plan(9, 2)
    small, whole = pickle.dumps(plan.without_model()), pickle.dumps(plan)
    assert len(small) < len(whole) / 10
    again = pickle.loads(small)
    assert again.to_arrow().equals(plan.without_model().to_arrow())
    assert again.action(0, patient.path.states[0], 2) == plan.action(0, patient.path.states[0], 2)


def test_a_property_and_a_price_are_said(grid, tmp_path):
    grid.plan(k=12, m=2, objective=tether.reach("goal"), cost=0.01).save(tmp_path / "plan.arrow")
    saved = read_plan(tmp_path / "plan.arrow")
    assert saved.settings["objective"] == "reach goal"
    assert saved.settings["advisable"]
    assert "probability" in repr(saved)
    assert saved.action(3, "nowhere", 1) is None


def test_a_guarantee_is_said(grid, tmp_path):
    """What is promised in the worst case is another number than what is expected."""
    sure = tether.robust(grid.mdp, grid.path, assume="nothing", gamma=1.5)
    for made, read in ((sure.plan(6, 2), read_plan), (sure.sweep(ks=[6], ms=[2]), read_sweep)):
        made.save(tmp_path / "result.arrow")
        saved = read(tmp_path / "result.arrow")
        assert saved.settings["guaranteed"] == sure.assuming
        assert f"guaranteed {sure.assuming}" in repr(saved)
    assert f"guaranteed {sure.assuming}" in repr(sure.sweep(ks=[6], ms=[2]))
    grid.plan(6, 2).save(tmp_path / "result.arrow")
    assert not read_plan(tmp_path / "result.arrow").settings["guaranteed"]


def test_damage_is_noticed(grid, tmp_path):
    """Every changed byte is noticed, or is one that no answer depends on."""
    file, rng = tmp_path / "plan.arrow", np.random.default_rng(2)
    plan = grid.plan(k=6, m=2)
    plan.save(file)
    sound = file.read_bytes()
    right = [plan.action(t, s, c) for t in range(11) for s in range(16) for c in range(3)]
    refused = 0
    for at in rng.integers(0, len(sound), 60):
        damaged = bytearray(sound)
        damaged[at] ^= 1 << rng.integers(8)
        file.write_bytes(damaged)
        try:
            saved = read_plan(file)
        except tether.FileError:
            refused += 1
            continue
        assert [saved.action(t, s, c) for t in range(11) for s in range(16) for c in range(3)] == right
        assert saved.value == plan.value
    assert refused > 10


def test_what_is_no_saved_plan(grid, tmp_path):
    grid.sweep().save(tmp_path / "sweep.arrow")
    with pytest.raises(tether.FileError, match="this is not a plan that was saved"):
        read_plan(tmp_path / "sweep.arrow")
    with pa.ipc.new_file(str(tmp_path / "other.arrow"), grid.path.to_arrow().schema) as writer:
        writer.write_table(grid.path.to_arrow())
    with pytest.raises(tether.FileError, match="save it again: sweep"):
        read_sweep(tmp_path / "other.arrow")
    (tmp_path / "text.arrow").write_text("no Arrow")
    with pytest.raises(tether.FileError, match="an Arrow file"):
        read_plan(tmp_path / "text.arrow")
