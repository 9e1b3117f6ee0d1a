"""A model that was opened from disk pickles as its file; one that was not, or whose file is gone, as its contents."""

import copy
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from savedmodels import assert_same, is_mapped

import tether
from tether import MDP
from tether.errors import FileError
from tether.model import storage


def learned():
    case = tether.cases.sepsis()
    paths = [case.mdp.simulate("random", 10, start=case.path.states[0], rng=seed) for seed in range(200)]
    return tether.learn([*paths, case.path], prior=1)


@pytest.fixture
def opened(tmp_path):
    learned().save(tmp_path / "m")
    return MDP.load(tmp_path / "m"), tmp_path / "m"


def again(thing):
    return pickle.loads(pickle.dumps(thing))


def size(thing):
    return len(pickle.dumps(thing))


def test_a_model_from_disk_pickles_as_its_file(opened):
    mdp, file = opened
    assert size(mdp) < 400 < 20_000 < size(learned())
    twin = again(mdp)
    assert_same(mdp, twin)
    assert is_mapped(twin.form.probability)
    assert twin.place == mdp.place
    assert_same(mdp, copy.deepcopy(mdp))
    assert mdp.place.file == str(file)


def test_a_model_with_another_objective_pickles_without_what_lies_on_disk(opened):
    """Its rows, and the counts behind them, are still there; what is new goes along."""
    mdp, _ = opened
    changed = mdp.with_objective(discount=0.5)
    assert changed.place is None
    assert size(changed) < size(mdp.in_memory()) / 4
    twin = again(changed)
    assert_same(changed, twin)
    assert is_mapped(twin.form.probability)
    assert is_mapped(twin.counts.transitions)


def test_names_stay_on_disk(tmp_path):
    n = 5000
    names = [f"state {i}" for i in range(n)]
    MDP.from_table(names, ["x"] * n, names, [1.0] * n).save(tmp_path / "m")
    mdp = MDP.load(tmp_path / "m")
    assert size(mdp.states) < 400
    assert again(mdp.states) == mdp.states
    assert size(mdp.with_objective(discount=0.5)) < 2000
    (tmp_path / "m").unlink()
    assert size(mdp.states) > 10 * n
    assert again(mdp.states) == mdp.states


def test_changed_rows_have_no_file(opened):
    """Drawn models share a form's fields but for the probabilities: they must not come back as what lies on disk."""
    mdp, _ = opened
    drawn = tether.posterior(mdp, draws=1, rng=0).draw(0)
    assert drawn.place is None
    assert drawn.form.place is None
    assert_same(drawn, again(drawn))
    assert not np.array_equal(again(drawn).form.probability, mdp.form.probability)
    renamed = mdp.with_names(actions=[f"a{i}" for i in range(mdp.n_actions)])
    assert list(again(renamed).actions) == list(renamed.actions)


def test_where_the_file_is_gone_the_contents_are_pickled(opened):
    mdp, file = opened
    file.unlink()
    text = pickle.dumps(mdp)
    assert len(text) > 20_000
    assert_same(mdp, pickle.loads(text))


def test_where_another_model_lies_the_contents_are_pickled(opened):
    mdp, file = opened
    tether.cases.grid_world().mdp.save(file)
    assert_same(mdp, again(mdp))


def test_the_same_model_saved_again_is_the_same_file(opened):
    mdp, file = opened
    text = pickle.dumps(mdp)
    mdp.save(file)
    assert_same(mdp, pickle.loads(text))


@pytest.mark.parametrize("part", ["model", "form", "counts"])
def test_a_model_that_changed_meanwhile_is_refused(opened, part):
    mdp, file = opened
    text = pickle.dumps(mdp if part == "model" else getattr(mdp, part))
    tether.cases.grid_world().mdp.save(file)
    with pytest.raises(FileError) as caught:
        pickle.loads(text)
    assert str(caught.value) == (
        f"{file}: another model was saved there since this one was pickled; save the model there again, or pickle "
        "mdp.in_memory(), which carries all numbers along"
    )
    file.unlink()
    with pytest.raises(FileError, match="the model was there when it was pickled, and is not any more"):
        pickle.loads(text)


def test_in_memory_carries_all_along(opened):
    mdp, file = opened
    mdp = mdp.with_objective(final_reward=np.arange(mdp.n_states)).with_labels({"some": list(mdp.states)[:3]})
    free = mdp.in_memory()
    file.unlink()
    assert free.place is None
    assert_same(mdp, free)
    assert not any(is_mapped(array) for array in (free.form.probability, free.rewards.values, free.counts.transitions))
    assert_same(mdp, again(free))
    assert list(again(free).labels["some"]) == list(mdp.labels["some"])


def test_the_parts_of_a_model_are_read_together(opened, monkeypatch):
    """A changed model is pickled in parts: the file of all of them is verified once."""
    mdp, _ = opened
    text = pickle.dumps(mdp.with_objective(discount=0.5))
    loads, load = [], storage.load
    monkeypatch.setattr(storage, "load", lambda file, kind: loads.append(file) or load(file, kind))
    for _ in range(2):
        assert_same(mdp.with_objective(discount=0.5), pickle.loads(text))
    assert len(loads) == 1


READ = """
import os, pickle, sys
os.chdir("/")
mdp = pickle.load(sys.stdin.buffer)
print(mdp, mdp.place.file)
"""


def test_another_process_elsewhere_opens_it(opened, monkeypatch):
    """A relative name is remembered with the folder it was meant in."""
    _, file = opened
    monkeypatch.chdir(file.parent)
    mdp = MDP.load("m")
    done = subprocess.run([sys.executable, "-c", READ], input=pickle.dumps(mdp), capture_output=True, check=True)
    assert done.stdout.decode() == f"{mdp} {os.path.abspath('m')}\n"
