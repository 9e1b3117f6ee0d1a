"""Names of states and actions on disk: each comes back with its type, or is refused."""

import datetime
import enum
import pickle
import struct
import sys
from collections import namedtuple
from dataclasses import dataclass

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from savedmodels import assert_same, forge, labelled, twin_of

from tether import MDP
from tether.errors import FileError
from tether.model import stored_names
from tether.model.stored_names import decode_names, encode_names


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


@given(labels=label_lists)
def test_names_come_back_with_their_types(tmp_path_factory, labels):
    mdp = labelled(labels)
    twin = twin_of(mdp, tmp_path_factory.mktemp("models") / "m")
    assert_same(mdp, twin)
    assert list(map(type, twin.states)) == list(map(type, mdp.states))
    assert [twin.states.find(label) for label in labels] == list(range(len(labels)))
    assert twin.states.find("no such label") == mdp.states.find("no such label")


@given(labels=label_lists)
def test_names_as_bytes_and_back(labels):
    again = decode_names(encode_names(labels, "state"))
    assert list(map(typed, again)) == list(map(typed, labels))


def typed(name):
    """A name with the types, and for numbers the bits, of all its parts."""
    if isinstance(name, tuple):
        return type(name), tuple(map(typed, name))
    return type(name), struct.pack("<d", name) if isinstance(name, float) else name


def test_numbers_keep_all_their_bits():
    labels = [
        -0.0,
        (0.0, -0.0),
        float("inf"),
        (float("nan"),),
        5e-324,
        2**63,
        2**64 - 1,
        2**64,
        -(2**63) - 1,
        1 << 20_000,
    ]
    assert list(map(typed, decode_names(encode_names(labels, "state")))) == list(map(typed, labels))


def test_stored_names_are_a_sequence(tmp_path):
    labels = [f"s{i}" for i in range(20)]
    mdp = labelled(labels)
    states = twin_of(mdp, tmp_path / "m").states
    assert len(states) == 20
    assert (states[3], states[-1], states[2:4], states[::-7]) == ("s3", "s19", ("s2", "s3"), tuple(labels[::-7]))
    assert list(states) == labels
    assert repr(states) == repr(mdp.states) == "Names('s0', 's1', … 's19': 20 names)"
    with pytest.raises(IndexError):
        states[20]
    assert "s7" in states
    assert states.index("s7") == 7
    assert states.find_all(["s7", "no", ["a list"]]).tolist() == [7, -1, -1]
    assert states.missing("s77", "state").message.startswith("the model has no state 's77'; it has 20 states")
    assert hash(states) == hash(mdp.states)


def test_names_are_decoded_when_one_is_needed(tmp_path, monkeypatch):
    labelled([Place(1, 2), "b"]).save(tmp_path / "m")
    monkeypatch.setattr(stored_names, "decode_names", lambda _content: pytest.fail("not yet"))
    mdp = MDP.load(tmp_path / "m")
    assert (len(mdp.states), mdp.n_states) == (2, 2)
    monkeypatch.undo()
    assert list(mdp.states) == [Place(1, 2), "b"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xff", "malformed"),
        (b"", "truncated"),
        (msgspec.msgpack.encode(1), "unpack"),
        (msgspec.msgpack.encode(([], ["a"])), "1 names for 2 states"),
        (msgspec.msgpack.encode(([], {"what": 1})), "tuples"),
        (msgspec.msgpack.encode(([], {"tuples": [["a", "b"], ["c"]], "n": 2, "class": None})), "shorter"),
        (msgspec.msgpack.encode(([], {"tuples": [["a", "b"]], "n": 2, "class": 0})), "out of range"),
        (msgspec.msgpack.encode(([], {"kinds": [["a"]], "kind": [0, 0]})), ""),
        (msgspec.msgpack.encode(([], [["a"], "b"])), "unhashable"),
        (msgspec.msgpack.encode(([("os", "class", ["x"])], ["a", "b"])), "class"),
        (msgspec.msgpack.encode(([("os", "system", ["x"])], {"tuples": [[1, 2]], "n": 2, "class": 0})), None),
    ],
)
def test_crafted_names_are_refused_when_they_are_needed(tmp_path, content, message):
    """Their checksum fits, so they are not looked at before. A class is never one that is no named tuple."""
    labelled(["a", "b"]).save(tmp_path / "m")
    forge(tmp_path / "m", "state_names", np.frombuffer(content, np.uint8))
    mdp = MDP.load(tmp_path / "m")
    if message is None:
        assert list(mdp.states) == [(1,), (2,)]
        return
    with pytest.raises(FileError, match=f"its state names are not what MDP.save writes .*{message}.*; save the model"):
        mdp.states.find("a")


def test_names_nested_too_deeply_are_refused():
    deep = ()
    for depth in range(600):
        if depth == 100:
            assert decode_names(encode_names(["fine", deep], "state")) == ["fine", deep]
        deep = (deep,)
    with pytest.raises(FileError, match="cannot be saved"):
        encode_names(["fine", deep], "state")


def test_numpy_numbers_within_tuples_come_back_plain(tmp_path):
    mdp = labelled([(np.int64(1), np.float32(0.5), np.str_("a")), (np.int64(2), np.float32(0.25), np.str_("b"))])
    twin = twin_of(mdp, tmp_path / "m")
    assert twin.states == mdp.states
    assert repr(twin.states) == "Names((1, 0.5, 'a'), (2, 0.25, 'b'))"
    assert list(map(type, twin.states[0])) == [int, float, str]


def test_a_named_tuple_whose_class_is_gone(tmp_path, monkeypatch):
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
def test_labels_that_cannot_be_saved(tmp_path, label):
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
