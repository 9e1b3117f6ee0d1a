"""Names of states and actions on disk: each comes back with its type, or is refused."""

import datetime
import enum
import pickle
import sys
from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from savedmodels import ARRAYS, assert_same, forge, labelled, refused, twin_of

import tether
import tether.model.storage.writing_names
from tether import MDP
from tether.errors import FileError

pytestmark = pytest.mark.usefixtures("memory")


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


@pytest.fixture
def columns(monkeypatch):
    """Names become columns, however few they are."""
    monkeypatch.setattr(tether.model.storage.writing_names, "LISTED", 0)


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
        assert states.missing("s77", "state").message.startswith(
            "the model has no state 's77'; it has 10 states: 's0',"
        )
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
    assert str(states[0]) == "row 1, column 2"
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
