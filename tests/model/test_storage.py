"""Models on disk: they come back as they were, mapped and not read, and what is there already is not lost."""

import importlib
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from savedmodels import arrays_of, assert_same, labelled, twin_of
from worlds import worlds

import tether
import tether._kernels
from tether import MDP
from tether.errors import FileError

pytestmark = pytest.mark.usefixtures("memory")

# Round trips.


@given(world=worlds())
def test_a_model_comes_back_as_it_was(tmp_path_factory, world):
    folder = tmp_path_factory.mktemp("models") / "m"
    cf = world.cf
    twin = twin_of(cf.mdp, folder, check=True)
    assert_same(cf.mdp, twin)
    assert_same(cf.mdp, MDP.load(str(folder)))


@given(world=worlds(max_states=5, max_steps=3))
def test_it_gives_the_same_answers(tmp_path_factory, world):
    twin = twin_of(world.cf.mdp, tmp_path_factory.mktemp("models") / "m")
    mine, its = (tether.counterfactual(mdp, world.path).sweep().values for mdp in (world.cf.mdp, twin))
    assert mine.tobytes() == its.tobytes()


def test_all_that_a_model_can_have(saved):
    mdp, folder = saved
    twin = MDP.load(folder, check=True)
    assert_same(mdp, twin)
    assert twin.counts.prior == 0.5
    assert (twin.counts.episodes, twin.counts.steps, twin.counts.unrecorded) == (3, 10, 1)
    assert (twin.counts.minimum, twin.counts.end) == (2, 2)
    assert twin.counts.dropped.tolist() == [[1, 1, 1]]
    assert twin.horizon == 7
    assert twin.form.terminal.tolist() == [2]
    assert repr(twin.describe()) == repr(mdp.describe())


def test_a_model_that_was_loaded_is_saved_again_onto_itself(saved):
    mdp, folder = saved
    first = MDP.load(folder)
    first.save(folder)
    assert_same(mdp, MDP.load(folder, check=True))
    assert_same(mdp, first)  # still mapped from files that have no name any more


def test_rounding_is_remembered(tmp_path):
    mdp = MDP.from_table(["a"], ["x"], ["a"], [1 - 1e-7])
    assert twin_of(mdp, tmp_path / "m").form.rounding.rows == 1


@pytest.mark.parametrize(
    "case", [tether.cases.toy, tether.cases.grid_world, tether.cases.epidemic, tether.cases.sepsis]
)
def test_the_cases(tmp_path, case):
    mdp = case().mdp
    twin = twin_of(mdp, tmp_path / "m", check=True)
    assert_same(mdp, twin)
    assert type(twin.states[0]) is type(mdp.states[0])


# Mapped, and shared.


def test_arrays_are_mapped(saved):
    _, folder = saved
    for array in arrays_of(MDP.load(folder)).values():
        base = array
        while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
            base = base.base
        assert isinstance(base, np.memmap)
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
        with pytest.raises(ValueError, match=r"cannot set WRITEABLE flag|WRITEABLE"):
            array.flags.writeable = True


LOOK = """
import sys, tether, tether.model.storage
def anonymous():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon")) * 1024
before = anonymous()
mdp = tether.MDP.load(sys.argv[1])
mdp.row(7, 0)
print(mdp.nbytes, anonymous() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux says how much memory is not of a file")
def test_opening_reads_next_to_nothing(tmp_path):
    n = 500_000
    s = np.arange(n)
    MDP.from_table(s, np.zeros(n, int), (s + 1) % n, np.ones(n)).save(tmp_path / "m")
    done = subprocess.run([sys.executable, "-c", LOOK, tmp_path / "m"], capture_output=True, text=True, check=True)
    size, used = map(int, done.stdout.split())
    assert size > 15e6
    assert used < 1.5e6


KEEP = """
import sys, tether
mdp = tether.MDP.load(sys.argv[1])
print(mdp, flush=True)
input()
print(mdp.row(0, "up"))
"""


def test_another_process_reads_it_while_it_is_replaced(tmp_path):
    """It keeps what it opened, after the directory has become another model; who opens it then gets the new one."""
    case = tether.cases.grid_world()
    case.mdp.save(tmp_path / "m")
    command = [sys.executable, "-c", KEEP, tmp_path / "m"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline().strip() == repr(case.mdp)
        labelled(["a", "b"]).save(tmp_path / "m")
        output, _ = other.communicate("\n")
    assert output.strip() == repr(case.mdp.row(0, "up"))
    assert list(MDP.load(tmp_path / "m").states) == ["a", "b"]
    assert os.listdir(tmp_path) == ["m"]


@pytest.mark.compiled
def test_kernels_are_not_compiled_anew(tmp_path):
    case = tether.cases.epidemic()
    twin = twin_of(case.mdp, tmp_path / "m")
    answer = [
        tether.counterfactual(case.mdp, case.path).plan(k=4, m=2, rule=rule) for rule in ("definition", "assured")
    ]
    before = compiled()
    again = [tether.counterfactual(twin, case.path).plan(k=4, m=2, rule=rule) for rule in ("definition", "assured")]
    assert [plan.value for plan in again] == [plan.value for plan in answer]
    assert compiled() == before
    assert sum(map(len, before.values())) > 5


def compiled():
    """The signatures that every kernel was compiled for."""
    found = {}
    for module in pkgutil.iter_modules(tether._kernels.__path__, "tether._kernels."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if hasattr(value, "signatures"):
                found[f"{module.name}.{name}"] = [str(signature) for signature in value.signatures]
    return found


# What is there already.


def test_a_saved_model_is_replaced(tmp_path):
    labelled(["a"]).save(tmp_path / "m")
    labelled(["b"]).save(tmp_path / "m")
    assert list(MDP.load(tmp_path / "m").states) == ["b"]
    assert os.listdir(tmp_path) == ["m"]


def test_an_empty_directory_is_taken(tmp_path):
    assert_same(labelled(["a"]), twin_of(labelled(["a"]), tmp_path))


def others(folder):
    folder.mkdir()
    (folder / "thesis.txt").write_text("dear")


def a_model_and_more(folder):
    labelled(["a"]).save(folder)
    (folder / "notes.txt").write_text("dear")


def not_ours(folder):
    folder.mkdir()
    (folder / "model.json").write_text('{"format": "another", "version": 1}')


def not_json(folder):
    folder.mkdir()
    (folder / "model.json").write_text("dear")


@pytest.mark.parametrize("fill", [others, a_model_and_more, not_ours, not_json])
def test_other_directories_are_not_replaced(tmp_path, fill):
    target = tmp_path / "m"
    fill(target)
    before = {path.name: path.read_bytes() for path in target.iterdir()}
    with pytest.raises(FileError) as caught:
        labelled(["b"]).save(target)
    assert str(caught.value) == (
        f"{target}: this directory contains other files than a saved model, and would be lost; "
        "give another name, or remove it first"
    )
    assert {path.name: path.read_bytes() for path in target.iterdir()} == before
    assert os.listdir(tmp_path) == ["m"]


def test_a_file_is_not_replaced(tmp_path):
    (tmp_path / "m").write_text("dear")
    with pytest.raises(FileError, match="this is a file, and would be lost; give another name, or remove it first"):
        labelled(["b"]).save(tmp_path / "m")
    assert (tmp_path / "m").read_text() == "dear"


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(FileError, match="it cannot be written: there is no folder"):
        labelled(["b"]).save(tmp_path / "no" / "m")


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_an_interrupted_write_leaves_the_old_model(saved, monkeypatch, error):
    mdp, folder = saved
    write, written = np.save, []

    def fails(file, *args, **options):
        written.append(file)
        if len(written) == 4:
            raise error
        write(file, *args, **options)

    monkeypatch.setattr(np, "save", fails)
    with pytest.raises(FileError if isinstance(error, OSError) else KeyboardInterrupt):
        labelled(["b"]).save(folder)
    assert len(written) == 4
    assert os.listdir(folder.parent) == ["weather"]
    assert_same(mdp, MDP.load(folder, check=True))
