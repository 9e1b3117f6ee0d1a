"""Models on disk: they come back as they were, mapped and not read; what is damaged is refused, and says so."""

import datetime
import enum
import importlib
import json
import os
import pickle
import pkgutil
import subprocess
import sys
import zlib
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pytest
from brute import worlds
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import tether
import tether._kernels
import tether.model.storage.writing_names
from tether import MDP
from tether.errors import FileError
from tether.model.counts import Counts
from tether.model.storage.meta import Meta, write_meta

ARRAYS = ["pair_start", "pair_action", "row_start", "next_state", "probability", "rewards", "terminal"]
AGAIN = "save the model again with MDP.save, or copy its directory again as a whole"


class Cell(tuple):
    """A tuple that is no named tuple."""


class Place(namedtuple("Place", ["row", "column"])):
    __slots__ = ()

    def __repr__(self):
        return f"{self.row}/{self.column}"


class Colour(enum.Enum):
    RED = 1


@dataclass(frozen=True)
class Patient:
    age: int


def arrays_of(mdp):
    form = mdp.form
    found = {name: getattr(form, name) for name in ARRAYS if name != "rewards"}
    found |= {"rewards": form.rewards.values, "final_reward": mdp.final_reward}
    return found | {"counts": None if mdp.counts is None else mdp.counts.transitions}


def assert_same(mdp, twin):
    """Bit for bit, and label for label, each of the same type."""
    for name, array in arrays_of(mdp).items():
        other = arrays_of(twin)[name]
        if array is None:
            assert other is None
            continue
        assert type(other) is np.ndarray  # no np.memmap: kernels would be compiled for that anew
        assert (other.dtype, other.shape) == (array.dtype, array.shape)
        assert other.tobytes() == array.tobytes()
        assert not other.flags.writeable
    assert (twin.horizon, twin.discount) == (mdp.horizon, mdp.discount)
    assert twin.form.rounding == mdp.form.rounding
    assert twin.rewards.by_entry == mdp.rewards.by_entry
    assert list(map(repr, twin.states)) == list(map(repr, mdp.states))
    assert list(map(repr, twin.actions)) == list(map(repr, mdp.actions))
    assert twin.states == mdp.states
    assert twin.actions == mdp.actions


def labelled(states):
    """A model with given states, each leading to itself."""
    n = len(states)
    return MDP.from_table(states, ["stay"] * n, states, [1.0] * n, states=states)


def twin_of(mdp, folder, **options):
    mdp.save(folder)
    return MDP.load(folder, **options)


def refused(folder, **options):
    with pytest.raises(FileError) as caught:
        MDP.load(folder, **options)
    return caught.value


@pytest.fixture(autouse=True)
def own_memory(monkeypatch, tmp_path_factory):
    """What was checked is remembered for the test, not for the user who runs it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def columns(monkeypatch):
    """Names become columns, however few they are."""
    monkeypatch.setattr(tether.model.storage.writing_names, "LISTED", 0)


@pytest.fixture
def saved(tmp_path):
    """A model with something of everything, saved."""
    mdp = MDP.from_table(
        ["sun", "sun", "rain", "rain"],
        ["walk", "walk", "walk", "dance"],
        ["sun", "rain", "rain", "home"],
        [0.75, 0.25, 1.0, 1.0],
        [4, -4, 1, 9],
        terminal=["home"],
    )
    mdp = mdp.with_objective(discount=0.9, final_reward={"home": 5.0})
    counts = Counts(np.arange(mdp.n_transitions), 0.5, 3, 10, 1, 2, np.array([[1, 1, 1]]), 2)
    mdp = MDP(mdp.states, mdp.actions, mdp.form, 7, mdp.discount, mdp.final_reward, counts)
    mdp.save(tmp_path / "weather")
    return mdp, tmp_path / "weather"


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


# Names.

numbers = st.one_of(st.booleans(), st.integers(), st.floats(allow_nan=False))
atoms = st.one_of(numbers, st.text(max_size=5))
parts = st.recursive(
    st.one_of(atoms, st.none()), lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6
).filter(lambda item: item is not None)
named = st.builds(Place, atoms, st.one_of(st.none(), parts))
kinds = [
    st.booleans(),
    st.integers(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(),
    st.tuples(st.integers(0, 9), st.text(max_size=3)),
    st.tuples(st.tuples(st.booleans(), st.floats(allow_nan=False)), st.text(max_size=3)),
    named,
    parts,
    st.one_of(parts, named),
]
label_lists = st.sampled_from(kinds).flatmap(lambda kind: st.lists(kind, min_size=1, max_size=12, unique=True))


@pytest.mark.parametrize("listed", [0, 4096])
@given(labels=label_lists)
def test_labels_come_back_with_their_types(tmp_path_factory, listed, labels):
    folder = tmp_path_factory.mktemp("models") / "m"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tether.model.storage.writing_names, "LISTED", listed)
        mdp = labelled(labels)
        mdp.save(folder)
    twin = MDP.load(folder, check=True)
    assert_same(mdp, twin)
    assert list(map(type, twin.states)) == list(map(type, mdp.states))
    assert [twin.states.find(label) for label in labels] == list(range(len(labels)))
    assert twin.states.find("no such label") == labelled(labels).states.find("no such label")


def test_labels_in_columns_are_a_sequence(tmp_path, columns):
    labels = [f"s{i}" for i in range(10)]
    mdp = labelled(labels)
    states = twin_of(mdp, tmp_path / "m").states
    for _ in range(2):  # before and after one was searched for
        assert (states[3], states[-1], states[2:4], states[::-3]) == ("s3", "s9", ("s2", "s3"), tuple(labels[::-3]))
        assert list(states) == labels
        assert repr(states) == "Names('s0', 's1', … 's9': 10 names)"
        with pytest.raises(IndexError):
            states[10]
        assert "s7" in states
        assert states.index("s7") == 7
        assert states.missing("s77", "state").startswith("the model has no state 's77'; it has 10 states: 's0', 's1'")
    assert hash(states) == hash(mdp.states)
    assert repr(twin_of(labelled(["only"]), tmp_path / "n").states) == "Names('only', … 'only': 1 names)"


def test_a_column_that_is_damaged_is_refused(tmp_path, columns):
    labelled(["a", "b"]).save(tmp_path / "m")
    file = tmp_path / "m" / "state_names.npy"
    file.write_bytes(file.read_bytes()[:-2] + b"\xff\xff")
    assert "state_names.npy: its contents are not what was saved" in str(refused(tmp_path / "m"))


@pytest.mark.parametrize(
    ("text", "message"), [(b"\xff\xff", "can't decode"), (b"aa", "'a' is given twice")], ids=["no text", "twice"]
)
def test_a_column_that_holds_no_names_is_refused_when_it_is_needed(tmp_path, columns, text, message):
    """A column is not looked at before; it may have been crafted, so that its checksum fits."""
    labelled(["a", "b"]).save(tmp_path / "m")
    forge(tmp_path / "m", "state_names", np.frombuffer(text, np.uint8))
    mdp = MDP.load(tmp_path / "m")
    with pytest.raises(FileError, match=f"its state names are damaged .*{message}.*; save the model again"):
        mdp.states.find("a")


def test_a_column_of_json_that_is_none(tmp_path, columns):
    labelled([1, "b"]).save(tmp_path / "m")
    for text in (b'1"b', b"[[[[", b'{"tuple"'):
        forge(tmp_path / "m", "state_names", np.frombuffer(text, np.uint8))
        forge(tmp_path / "m", "state_names_ends", np.array([1, len(text)]))
        mdp = MDP.load(tmp_path / "m")
        with pytest.raises(FileError, match="its state names are damaged"):
            list(mdp.states)


def test_labels_that_are_counted_cost_nothing(tmp_path):
    n = 100_000
    mdp = MDP.from_table(np.arange(n), np.zeros(n, int), np.arange(n), np.ones(n))
    twin = twin_of(mdp, tmp_path / "m")
    assert (tmp_path / "m" / "model.json").stat().st_size < 3000
    assert sorted(path.stem for path in (tmp_path / "m").glob("*.npy")) == sorted(ARRAYS)
    assert repr(twin.states) == "Names(0 … 99,999)"


def test_many_labels_are_columns(tmp_path):
    labels = [Place(i // 100, f"c{i % 100}") for i in range(5000)]
    twin = twin_of(labelled(labels), tmp_path / "m", check=True)
    assert (tmp_path / "m" / "model.json").stat().st_size < 5000
    assert twin.states[4321] == Place(43, "c21")
    assert twin.states.find((43, "c21")) == 4321


@pytest.mark.parametrize("listed", [0, 4096])
def test_numpy_numbers_within_tuples_come_back_plain(tmp_path, monkeypatch, listed):
    monkeypatch.setattr(tether.model.storage.writing_names, "LISTED", listed)
    mdp = labelled([(np.int64(1), np.float32(0.5), np.str_("a")), (np.int64(2), np.float32(0.25), np.str_("b"))])
    twin = twin_of(mdp, tmp_path / "m")
    assert twin.states == mdp.states
    assert repr(twin.states).endswith("Names((1, 0.5, 'a'), (2, 0.25, 'b'))" if listed else "2 names)")
    assert list(map(type, twin.states[0])) == [int, float, str]


@pytest.mark.parametrize("listed", [0, 4096])
def test_a_named_tuple_whose_class_is_gone(tmp_path, monkeypatch, listed):
    monkeypatch.setattr(tether.model.storage.writing_names, "LISTED", listed)
    labelled([Place(1, 2), Place(3, 4)]).save(tmp_path / "m")
    monkeypatch.delattr(sys.modules[__name__], "Place")
    states = MDP.load(tmp_path / "m").states
    assert repr(states[0]) == "Place(row=1, column=2)"
    assert states[1].column == 4
    assert states.find((3, 4)) == 1
    assert type(states[0]) is type(states[1])
    again = pickle.loads(pickle.dumps(states))
    assert list(again) == [(1, 2), (3, 4)]
    assert again[0].row == 1


def test_a_class_that_has_changed_is_not_taken(tmp_path, monkeypatch):
    labelled([Place(1, 2)]).save(tmp_path / "m")
    monkeypatch.setattr(sys.modules[__name__], "Place", namedtuple("Place", ["x", "y"]))
    assert MDP.load(tmp_path / "m").states[0]._fields == ("row", "column")


@pytest.mark.parametrize("listed", [0, 4096])
@pytest.mark.parametrize(
    "label",
    [
        Colour.RED,
        Patient(3),
        frozenset({1}),
        datetime.date(2020, 1, 1),
        b"bytes",
        Cell((1, 2)),
        (1, Patient(3)),
        ((1, frozenset()), 2),
        "\udc80",
        np.datetime64("2020-01-01T00:00:00.000000001"),
    ],
    ids=str,
)
def test_labels_that_cannot_be_saved(tmp_path, monkeypatch, listed, label):
    monkeypatch.setattr(tether.model.storage.writing_names, "LISTED", listed)
    mdp = labelled(["fine", (label, 1)] if isinstance(label, np.datetime64) else ["fine", label])
    with pytest.raises(FileError) as caught:
        mdp.save(tmp_path / "m")
    bad = mdp.states[1]
    assert str(caught.value) == (
        f"the state {bad!r}, of type {type(bad).__name__}, cannot be saved: names are saved where they are numbers, "
        "texts, truth values or (named) tuples of these; give it another name with mdp.with_names(states=…)"
    )
    assert caught.value.problems[0].state == bad
    assert list(tmp_path.iterdir()) == []
    assert_same(mdp.with_names(states=[0, 1]), twin_of(mdp.with_names(states=[0, 1]), tmp_path / "m"))


def test_an_action_that_cannot_be_saved(tmp_path):
    mdp = MDP.from_table(["s"], [Colour.RED], ["s"], [1.0])
    with pytest.raises(FileError, match=r"the action <Colour.RED: 1>, of type Colour, .*mdp.with_names\(actions=…\)"):
        mdp.save(tmp_path / "m")


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
        f"{target}: this directory holds other files than a saved model, and would be lost; "
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


# Damage to the arrays.

FILES = [*ARRAYS, "final_reward", "counts", "dropped"]


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_missing(saved, name):
    _, folder = saved
    file = folder / f"{name}.npy"
    file.unlink()
    error = refused(folder)
    assert str(error) == f"{file}: the file is missing; {AGAIN}"
    assert error.problems[0].file == str(file)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_cut_off_or_too_long(saved, name):
    _, folder = saved
    file = folder / f"{name}.npy"
    content = file.read_bytes()
    size = len(content)
    for length in {0, 1, 10, 100, size - 1}:
        file.write_bytes(content[:length])
        assert str(refused(folder)) == f"{file}: it is cut off: {length} bytes, where {size} were written; {AGAIN}"
    file.write_bytes(content + b"\0")
    assert str(refused(folder)) == f"{file}: it is too long: {size + 1} bytes, where {size} were written; {AGAIN}"


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_the_right_size_that_is_something_else(saved, name):
    _, folder = saved
    file = folder / f"{name}.npy"
    file.write_bytes(b"PK\3\4" + bytes(file.stat().st_size - 4))
    assert str(refused(folder)).startswith(f"{file}: its head is not that of a .npy file (")


@pytest.mark.parametrize("name", [name for name in FILES if name != "terminal"])
def test_another_element_type(saved, name):
    _, folder = saved
    file = folder / f"{name}.npy"
    array = np.load(file)
    other = np.dtype("<f4") if array.itemsize == 4 else np.dtype("<u8")
    np.save(file, array.astype(other))
    shape = array.shape
    assert str(refused(folder)) == (
        f"{file}: it holds {other.str} of shape {shape}, where {array.dtype.str} of shape {shape} was written; {AGAIN}"
    )


def test_fortran_order_is_not_ours(tmp_path):
    rewards = np.arange(8.0).reshape(2, 2, 2)
    MDP.from_arrays(np.full((2, 2, 2), 0.5), rewards, reward_axes="tsa").save(tmp_path / "m")
    file = tmp_path / "m" / "rewards.npy"
    np.save(file, np.asfortranarray(np.load(file)))
    assert "rewards.npy: it holds <f8 of shape (2, 4) by columns, where <f8 of shape (2, 4) was written" in str(
        refused(tmp_path / "m")
    )


def test_all_that_is_wrong_is_said_at_once(saved):
    _, folder = saved
    (folder / "rewards.npy").unlink()
    (folder / "probability.npy").write_bytes(b"")
    error = refused(folder)
    assert str(error).splitlines()[0] == "2 problems:"
    assert [Path(problem.file).stem for problem in error.problems] == ["probability", "rewards"]


def test_a_directory_in_the_place_of_a_file(saved):
    _, folder = saved
    (folder / "rewards.npy").unlink()
    (folder / "rewards.npy").mkdir()
    assert "rewards.npy: the file is missing" in str(refused(folder))


@pytest.mark.skipif(os.name != "posix" or os.getuid() == 0, reason="who may do everything may read everything")
def test_a_file_that_may_not_be_read(saved):
    _, folder = saved
    (folder / "rewards.npy").chmod(0)
    assert "rewards.npy: Permission denied" in str(refused(folder))


@given(st.sampled_from(FILES), st.integers(0), st.integers(1, 255))
def test_any_byte_changed_is_found(tmp_path_factory, name, where, change):
    """A byte of the head may be one that means nothing: then the model is the same."""
    folder = tmp_path_factory.mktemp("models") / "m"
    mdp = MDP.from_table(["a", "a", "b"], ["x"] * 3, ["a", "b", "c"], [0.25, 0.75, 1.0], [1, 2, 3], terminal=["c"])
    mdp = mdp.with_objective(final_reward={"c": 1.0})
    mdp = MDP(mdp.states, mdp.actions, mdp.form, None, 1.0, mdp.final_reward, Counts(np.arange(4), 1.0))
    mdp.save(folder)
    file = folder / f"{name}.npy"
    content = bytearray(file.read_bytes())
    where %= len(content)
    content[where] ^= change
    file.write_bytes(content)
    if where >= 128:  # NumPy's head is of this size
        assert str(file) in str(refused(folder))
        return
    try:
        twin = MDP.load(folder)
    except FileError:
        return
    assert_same(mdp, twin)


def forge(folder, name, array, checksum=True):
    """Put another array in the place of one, as if it had been saved so."""
    np.save(folder / f"{name}.npy", array)
    meta = json.loads((folder / "model.json").read_text())
    meta["arrays"][name] |= {
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "bytes": (folder / f"{name}.npy").stat().st_size,
        "crc32": zlib.crc32(array.tobytes()),
    }
    write_meta(folder, msgspec.convert(meta, Meta))


def changed(array, at, value):
    array = array.copy()
    array[at] = value
    return array


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("pair_start", lambda x: changed(x, 0, 1), "it runs from 1 to 5, not from 0 to 5"),
        ("pair_start", lambda x: changed(x, -1, 4), "it runs from 0 to 4, not from 0 to 5"),
        ("pair_start", lambda x: changed(x, 1, 4), "it is not ascending"),
        ("row_start", lambda x: changed(x, 1, 0), "it is not ascending"),
        ("row_start", lambda x: changed(x, -1, 99), "it runs from 0 to 99, not from 0 to 6"),
        ("pair_action", lambda x: changed(x, 2, 2), "not all are actions, 0 … 1"),
        ("pair_action", lambda x: changed(x, 2, -1), "not all are actions, 0 … 1"),
        ("next_state", lambda x: changed(x, 2, 3), "not all are states, 0 … 2"),
        ("next_state", lambda x: changed(x, 2, -1), "not all are states, 0 … 2"),
        ("terminal", lambda x: changed(x, 0, 3), "not all are states, 0 … 2"),
        ("probability", lambda x: changed(x, 0, 0.0), "not all are probabilities above 0"),
        ("probability", lambda x: changed(x, 0, np.nan), "not all are probabilities above 0"),
        ("probability", lambda x: changed(x, 0, 1.1), "not all are probabilities above 0"),
        ("rewards", lambda x: changed(x, 0, np.inf), "not all are finite numbers"),
        ("final_reward", lambda x: changed(x, 0, np.nan), "not all are finite numbers"),
        ("counts", lambda x: changed(x, 0, -1), "not all are counts, 0 or more"),
        ("dropped", lambda x: changed(x, 0, 3), "not all are states, actions and counts"),
        ("dropped", lambda x: changed(x, 1, 2), "not all are states, actions and counts"),
        ("dropped", lambda x: changed(x, 2, -1), "not all are states, actions and counts"),
        ("probability", lambda x: x[:-1], "it holds <f8 of shape (5,), where this model needs <f8 of shape (6,)"),
        ("rewards", lambda x: x[:, None], "it holds <f8 of shape (6, 1), where this model needs <f8 of shape (6,)"),
        ("rewards", lambda x: x[:3], "it holds <f8 of shape (3,), where this model needs <f8 of shape (6,)"),
        ("final_reward", lambda x: x[:2], "it holds <f8 of shape (2,), where this model needs <f8 of shape (3,)"),
        ("pair_start", lambda x: x[:3], "it holds <i8 of shape (3,), where this model needs <i8 of shape (4,)"),
        (
            "next_state",
            lambda x: x.astype("<i8"),
            "it holds <i8 of shape (6,), where this model needs <i4 of shape (6,)",
        ),
        ("counts", lambda x: x.astype("<i2"), "it holds <i2 of shape (6,), where this model needs <i8 or <f8 or"),
        ("pair_action", lambda x: x.reshape(1, -1), "it holds <i4 of shape (1, 5)"),
    ],
)
def test_numbers_that_are_no_model_are_found_on_opening(saved, name, change, message):
    _, folder = saved
    forge(folder, name, change(np.load(folder / f"{name}.npy")))
    assert f"{name}.npy: {message}" in str(refused(folder))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("pair_action", lambda x: changed(x, [1, 2], [1, 0]), "the actions of a state are not ascending"),
        ("next_state", lambda x: changed(x, [0, 1], [1, 0]), "the next states of a row are not ascending"),
        ("next_state", lambda x: changed(x, [0, 1], [1, 1]), "the next states of a row are not ascending"),
        ("probability", lambda x: changed(x, 0, 0.5), "a row does not sum to 1"),
    ],
)
def test_rows_that_are_no_rows_are_found_on_opening(saved, name, change, message):
    _, folder = saved
    forge(folder, name, change(np.load(folder / f"{name}.npy")))
    assert str(refused(folder)) == f"{folder / name}.npy: {message}; {AGAIN}"


@given(npst.arrays(np.int8, st.integers(2, 40), elements=st.integers(0, 3)), st.data())
def test_the_check_finds_what_does_not_ascend(steps, data):
    """Against Python's own sorting, in pieces small enough that their seams matter."""
    from tether.model.storage import checks

    cuts = sorted(data.draw(st.sets(st.integers(1, steps.size - 1))))
    starts = np.array([0, *cuts, steps.size])
    rows = [list(row) for row in np.split(steps, cuts)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "_CHUNK", 3)
        assert checks._ascending(steps, starts) == all(row == sorted(set(row)) for row in rows)


# Damage to model.json, and directories that are something else.


def test_no_such_directory():
    error = refused("no-such-model")
    assert str(error) == "no-such-model: there is no such directory; a saved model is one that MDP.save wrote"
    assert error.problems[0].file == "no-such-model"
    assert isinstance(error, tether.TetherError)


def test_a_file_is_no_model(tmp_path):
    (tmp_path / "m").write_text("dear")
    assert str(refused(tmp_path / "m")) == (
        f"{tmp_path / 'm'}: this is a file; a saved model is one that MDP.save wrote: a directory"
    )


def test_a_directory_without_a_description(tmp_path):
    assert str(refused(tmp_path)) == (
        f"{tmp_path}: there is no model.json in it; a saved model is one that MDP.save wrote"
    )


def test_a_newer_format(saved):
    _, folder = saved
    file = folder / "model.json"
    file.write_text('{"format": "tether model", "version": 2, "tether": "9.0", "states": "said otherwise"}')
    assert str(refused(folder)) == (
        f"{file}: format 2, written by tether 9.0; this is tether {tether.__version__}, which reads up to format 1: "
        "upgrade it (pip install --upgrade tether)"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "this does not describe a saved model"),
        (b"dear", "this does not describe a saved model"),
        (b"[]", "this does not describe a saved model"),
        (b'{"a": 1}', "this does not describe a saved model"),
        (b"\xff\xfe", "this does not describe a saved model"),
        (b'{"format": "tether model", "version": 1, "horizon": "\xff"}', "this does not describe a saved model"),
        (b'{"format": "tether model", "version": 1, "x": ' + b"[" * 100_000, "this does not describe a saved model"),
        (b'{"format": "tether model", "version": 1, "x": "\\ud800"}', "this does not describe a saved model"),
        (b'{"format": "pickle", "version": 1}', "its format is 'pickle', not 'tether model'"),
        (b'{"format": "tether model", "version": 1}', "this does not describe a saved model"),
        (b'{"format": "tether model", "version": "1"}', "this does not describe a saved model"),
    ],
)
def test_a_description_that_is_something_else(saved, text, message):
    _, folder = saved
    (folder / "model.json").write_bytes(text)
    assert str(refused(folder)).startswith(f"{folder / 'model.json'}: {message}")


@pytest.mark.parametrize("depth", [100, 900, 100_000])
def test_a_description_nested_deeply(saved, depth):
    """Nested names are legal to some depth; too deep, or not hashable, they are refused in words."""
    _, folder = saved
    text = (folder / "model.json").read_text()
    nested = '{"tuple": [' * depth + "1" + "]}" * depth
    (folder / "model.json").write_text(text.replace('"sun"', nested, 1))
    assert str(refused(folder)).startswith(f"{folder / 'model.json'}: ")


def test_a_description_that_is_no_text_is_not_replaced(saved):
    _, folder = saved
    (folder / "model.json").write_bytes(b'{"format": "tether model", "version": 1, "x": ' + b"[" * 100_000)
    with pytest.raises(FileError, match="holds other files than a saved model"):
        labelled(["b"]).save(folder)


@pytest.mark.parametrize("name", ["a\0b", "a/\0"])
def test_a_name_with_nul(tmp_path, name):
    for ask in (MDP.load, labelled(["a"]).save):
        with pytest.raises(FileError, match="no name of a directory has the character NUL in it") as caught:
            ask(f"{tmp_path}/{name}")
        assert "\0" not in str(caught.value)


@pytest.mark.parametrize("name", [None, 3, ["a"]])
def test_a_name_that_is_none(name):
    for ask in (MDP.load, labelled(["a"]).save):
        with pytest.raises(tether.QueryError, match="expected the name of a directory, not "):
            ask(name)


def test_a_description_cut_off_anywhere(saved):
    _, folder = saved
    text = (folder / "model.json").read_bytes()
    for length in range(0, len(text) - 2, 7):
        (folder / "model.json").write_bytes(text[:length])
        assert "this does not describe a saved model" in str(refused(folder))


def test_a_description_changed_by_hand(saved):
    _, folder = saved
    text = (folder / "model.json").read_text()
    assert '"discount": 0.9' in text
    (folder / "model.json").write_text(text.replace('"discount": 0.9', '"discount": 0.8'))
    assert str(refused(folder)) == (
        f"{folder / 'model.json'}: it was changed after it was written: its checksum does not fit; {AGAIN}"
    )


@pytest.mark.parametrize("change", [{"discount": 2.0}, {"horizon": 0}, {"states": {"n": 0}}, {"more": 1}])
def test_a_description_that_cannot_be(saved, change):
    _, folder = saved
    meta = json.loads((folder / "model.json").read_text()) | change
    (folder / "model.json").write_text(json.dumps(meta))
    assert "this does not describe a saved model" in str(refused(folder))


def rewritten(folder, **change):
    meta = json.loads((folder / "model.json").read_text())
    write_meta(folder, msgspec.convert(meta | change, Meta))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"states": {"n": 3, "listed": ["sun", "rain"]}}, "states= gives 2 names, but the model has 3 states"),
        ({"states": {"n": 3, "listed": ["sun", "rain", "sun"]}}, "'sun' is given twice"),
        ({"states": {"n": 3, "listed": ["sun", "rain", {"what": 1}]}}, "float"),
        ({"states": {"n": 3, "listed": ["sun", "rain", {"tuple": [1], "named": 0}]}}, "index out of range"),
        ({"states": {"n": 3, "listed": ["sun", "rain", [1]]}}, "cannot be hashed"),
        ({"states": {"n": 3, "column": {"kind": "number", "array": "no"}}}, "no"),
        ({"states": {"n": 3, "column": {"kind": "number", "array": "rewards"}}}, "6 in columns for 3 states"),
        ({"states": {"n": 3, "column": {"kind": "tuple"}}}, "index out of range"),
        ({"named_tuples": [{"module": "os", "name": "class", "fields": ["x"]}]}, "class"),
    ],
)
def test_labels_that_are_none(saved, change, message):
    _, folder = saved
    rewritten(folder, **change)
    error = str(refused(folder))
    assert error.startswith(f"{folder / 'model.json'}: its state names are not what MDP.save writes (")
    assert message in error


def test_an_array_with_a_name_that_leads_elsewhere(saved):
    _, folder = saved
    meta = json.loads((folder / "model.json").read_text())
    rewritten(folder, arrays=meta["arrays"] | {"../secret": meta["arrays"]["rewards"]})
    assert "no array of a model has such a name" in str(refused(folder))


def test_an_array_that_is_not_described(saved):
    _, folder = saved
    meta = json.loads((folder / "model.json").read_text())
    del meta["arrays"]["probability"]
    rewritten(folder, arrays=meta["arrays"])
    assert "probability.npy: model.json does not list it, but a model needs it" in str(refused(folder))
