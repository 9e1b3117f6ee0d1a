"""A description (model.json) that is damaged or of something else is refused, and the error says so."""

import json

import msgspec
import pytest
from savedmodels import AGAIN, labelled, refused

import tether
from tether import MDP
from tether.errors import FileError
from tether.model.storage.meta import Meta, write_meta

pytestmark = pytest.mark.usefixtures("memory")


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
    with pytest.raises(FileError, match="contains other files than a saved model"):
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
