"""Models on disk: they come back as they were, mapped and not read, and what is there already is not lost."""

import errno
import importlib
import os
import pkgutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from savedmodels import ARRAYS, arrays_of, assert_same, is_mapped, labelled, read_file, twin_of, write_file
from systems import posix
from worlds import worlds

import tether
import tether._kernels
from tether import MDP
from tether.errors import FileError
from tether.model.counts import Counts
from tether.model.labels import LabelSets

# Round trips.


@given(world=worlds())
def test_a_model_comes_back_as_it_was(tmp_path_factory, world):
    file = tmp_path_factory.mktemp("models") / "m"
    twin = twin_of(world.cf.mdp, file)
    assert_same(world.cf.mdp, twin)
    assert_same(world.cf.mdp, MDP.load(str(file)))
    twin.save(file)
    assert_same(world.cf.mdp, MDP.load(file))


def count_numbers(most):
    return {
        "prior": st.floats(0, 1e3) | st.integers(0, 3),
        **dict.fromkeys(("episodes", "steps", "unrecorded", "minimum", "empty", "unplaced"), st.integers(0, 2**40)),
        "end": st.integers(-1, most).map(int),
        "empty_rewards": st.sampled_from(["", "last", "zero", "mean"]),
    }


@given(world=worlds(), data=st.data())
def test_all_that_a_model_may_have_comes_back(tmp_path_factory, world, data):
    """Labels, counts as whole numbers or not, a final reward, a discount and a horizon, whatever the rewards."""
    mdp, draw = world.cf.mdp, data.draw
    finite = st.floats(-1e9, 1e9)
    kind = draw(st.sampled_from([np.int64, np.float64]))
    seen = draw(st.lists(st.integers(0, 99), min_size=mdp.n_transitions, max_size=mdp.n_transitions))
    dropped = draw(st.lists(st.tuples(*(st.integers(0, n - 1) for n in (mdp.n_states, mdp.n_actions, 9))), max_size=3))
    numbers = draw(st.fixed_dictionaries(count_numbers(mdp.n_states - 1)))
    counts = Counts(np.array(seen, kind), dropped=np.array(dropped, np.int64).reshape(-1, 3), **numbers)
    finals = draw(st.none() | st.lists(finite, min_size=mdp.n_states, max_size=mdp.n_states))
    labels = draw(
        st.dictionaries(st.text(min_size=1, max_size=5), st.sets(st.integers(0, mdp.n_states - 1)), max_size=3)
    )
    full = MDP(
        mdp.states,
        mdp.actions,
        mdp.form,
        draw(st.none() | st.integers(1, 10**6)),
        draw(st.floats(0, 1)),
        None if finals is None else np.array(finals),
        draw(st.sampled_from([None, counts])),
        LabelSets({name: sorted(states) for name, states in labels.items()}),
    )
    assert_same(full, twin_of(full, tmp_path_factory.mktemp("models") / "m"))


@given(world=worlds(max_states=5, max_steps=3))
def test_it_gives_the_same_answers(tmp_path_factory, world):
    twin = twin_of(world.cf.mdp, tmp_path_factory.mktemp("models") / "m")
    mine, its = (tether.counterfactual(mdp, world.path).sweep().values for mdp in (world.cf.mdp, twin))
    assert mine.tobytes() == its.tobytes()


def test_all_that_a_model_can_have(saved):
    mdp, file = saved
    twin = MDP.load(file)
    assert_same(mdp, twin)
    assert twin.counts.prior == 0.5
    assert (twin.counts.episodes, twin.counts.steps, twin.counts.unrecorded) == (3, 10, 1)
    assert (twin.counts.minimum, twin.counts.end) == (2, 2)
    assert twin.counts.dropped.tolist() == [[1, 1, 1]]
    assert twin.horizon == 7
    assert twin.form.terminal.tolist() == [2]
    assert repr(twin.describe()) == repr(mdp.describe())


def test_a_model_that_was_loaded_is_saved_again_onto_itself(saved):
    mdp, file = saved
    first = MDP.load(file)
    first.save(file)
    assert_same(mdp, MDP.load(file))
    assert_same(mdp, first)  # still mapped from a file that has no name any more


def test_the_same_model_gives_the_same_bytes(tmp_path, saved):
    mdp, file = saved
    mdp.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == file.read_bytes()


def test_other_programs_can_read_the_arrays(saved):
    """A reader of safetensors that knows nothing of models (`savedmodels.read_file`) finds them, and what is told."""
    mdp, file = saved
    metadata, model, arrays = read_file(file)
    assert metadata == {"format": "tether model", "version": "1", "tether": tether.__version__}
    assert (model["n_states"], model["n_actions"], model["horizon"], model["discount"]) == (3, 2, 7, 0.9)
    for name in ARRAYS:
        assert arrays[name].tobytes() == arrays_of(mdp)[name].tobytes()
    assert arrays["final_reward"].tolist() == [0, 0, 5]
    write_file(file, metadata, model, arrays)  # what another program writes is read
    assert_same(mdp, MDP.load(file))


def test_names_that_count_need_no_bytes(tmp_path):
    n = 100_000
    mdp = MDP.from_table(np.arange(n), np.zeros(n, int), np.arange(n), np.ones(n))
    twin = twin_of(mdp, tmp_path / "m")
    assert sorted(read_file(tmp_path / "m")[2]) == sorted(ARRAYS)
    assert (tmp_path / "m").stat().st_size < mdp.nbytes + 2000
    assert repr(twin.states) == "Names(0 … 99,999)"


def test_numbers_of_numpy_are_numbers(saved):
    mdp, file = saved
    whole = ("episodes", "steps", "unrecorded", "minimum", "end", "empty", "unplaced")
    numbers = {name: np.int64(getattr(mdp.counts, name)) for name in whole} | {"prior": np.float64(0.1)}
    mdp = replace(mdp, counts=replace(mdp.counts, **numbers), horizon=np.int64(9), discount=np.float32(0.5))
    twin = twin_of(mdp, file)
    assert_same(mdp, twin)
    assert [type(getattr(twin.counts, name)) for name in ("prior", *whole)] == [float] + [int] * 7


def test_rounding_is_remembered(tmp_path):
    mdp = MDP.from_table(["a"], ["x"], ["a"], [1 - 1e-7])
    assert twin_of(mdp, tmp_path / "m").form.rounding.rows == 1


@pytest.mark.parametrize(
    "case", [tether.cases.toy, tether.cases.grid_world, tether.cases.epidemic, tether.cases.sepsis]
)
def test_the_cases(tmp_path, case):
    mdp = case().mdp
    twin = twin_of(mdp, tmp_path / "m")
    assert_same(mdp, twin)
    assert type(twin.states[0]) is type(mdp.states[0])


# Mapped, and shared.


def test_arrays_are_mapped(saved):
    _, file = saved
    for array in arrays_of(MDP.load(file)).values():
        assert is_mapped(array)
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
def test_opening_holds_next_to_nothing(tmp_path):
    n = 500_000
    s = np.arange(n)
    MDP.from_table(s, np.zeros(n, int), (s + 1) % n, np.ones(n)).save(tmp_path / "m")
    done = subprocess.run([sys.executable, "-c", LOOK, tmp_path / "m"], capture_output=True, text=True, check=True)
    size, used = map(int, done.stdout.split())
    assert size > 15e6
    assert used < 2e6


KEEP = """
import sys, tether
mdp = tether.MDP.load(sys.argv[1])
print(mdp, flush=True)
input()
print(mdp.row(0, "up"))
"""


def test_another_process_reads_it_while_it_is_replaced(tmp_path):
    """It keeps what it opened, after the file has become another model; who opens it then gets the new one."""
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
    for folder in ("tether._kernels", "tether.core"):
        for module in pkgutil.iter_modules(importlib.import_module(folder).__path__, f"{folder}."):
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


def test_an_empty_file_is_taken(tmp_path):
    (tmp_path / "m").touch()
    assert_same(labelled(["a"]), twin_of(labelled(["a"]), tmp_path / "m"))


def test_a_damaged_model_is_replaced(saved):
    _, file = saved
    file.write_bytes(file.read_bytes()[:-100])
    assert_same(labelled(["a"]), twin_of(labelled(["a"]), file))


@pytest.mark.parametrize("content", [b"dear", b"\0" * 200, b'{"__metadata__":{"format":"pt"}}'.rjust(40, b"\1")])
def test_another_file_is_not_replaced(tmp_path, content):
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(FileError) as caught:
        labelled(["b"]).save(tmp_path / "m")
    assert str(caught.value) == (
        f"{tmp_path / 'm'}: this is not a saved model, and would be lost; give another name, or remove it first"
    )
    assert (tmp_path / "m").read_bytes() == content


def test_a_directory_is_not_replaced(tmp_path):
    with pytest.raises(FileError) as caught:
        labelled(["b"]).save(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: this is a directory; a model is saved as one file; give the name of a file"
    )
    assert list(tmp_path.iterdir()) == []


@posix
def test_a_symbolic_link_stays_one(tmp_path):
    labelled(["a"]).save(tmp_path / "real")
    (tmp_path / "m").symlink_to("real")
    labelled(["b"]).save(tmp_path / "m")
    assert (tmp_path / "m").is_symlink()
    assert list(MDP.load(tmp_path / "real").states) == ["b"]


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(FileError, match="it cannot be written: there is no folder"):
        labelled(["b"]).save(tmp_path / "no" / "m")


@pytest.mark.parametrize("name", ["a\0b", "a/\0"])
def test_a_name_with_nul(tmp_path, name):
    for ask in (MDP.load, labelled(["a"]).save):
        with pytest.raises(FileError, match="no name of a file has the character NUL in it") as caught:
            ask(f"{tmp_path}/{name}")
        assert "\0" not in str(caught.value)


@pytest.mark.parametrize("name", [None, 3, ["a"]])
def test_a_name_that_is_none(name):
    for ask in (MDP.load, labelled(["a"]).save):
        with pytest.raises(tether.QueryError, match="expected the name of a file, not "):
            ask(name)


class _Stops:
    """A file that is written to for some time, and then is not."""

    def __init__(self, handle, writes, error):
        self.handle, self.writes, self.error = handle, writes, error

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.handle.close()

    def write(self, content):
        if not self.writes:
            raise self.error
        self.writes -= 1
        return self.handle.write(content)


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("writes", [0, 1, 5, 9])
def test_an_interrupted_write_leaves_the_old_model(saved, monkeypatch, writes, error):
    mdp, file = saved
    opened = Path.open
    kind = FileError if isinstance(error, OSError) else KeyboardInterrupt
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda path, mode: _Stops(opened(path, mode), writes, error))
        with pytest.raises(kind) as caught:
            labelled(["b"]).save(file)
    if kind is FileError:
        assert str(caught.value) == f"{file}: it cannot be written: No space left on device"
    assert os.listdir(file.parent) == ["weather"]
    assert_same(mdp, MDP.load(file))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is always full")
def test_a_full_disk(tmp_path, monkeypatch):
    """A real one: what is buffered fails when the file is closed."""
    opened = Path.open
    monkeypatch.setattr(Path, "open", lambda path, mode: opened(Path("/dev/full"), mode))
    with pytest.raises(FileError, match="m: it cannot be written: No space left on device"):
        labelled(["b"]).save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []
