"""Directories of types: whatever is damaged, exchanged or half written is refused, in a sentence."""

import errno
import shutil

import pytest

import tether
from tether.io import read_types
from tether.model import storage


def ward(dies):
    rows = [("sick", "wait", "dead", dies), ("sick", "wait", "sick", 1 - dies), ("sick", "treat", "well", 1.0)]
    return tether.MDP.from_table(*zip(*rows, strict=True), terminal=["dead", "well"])


def types_of(*dies):
    return tether.Types(
        {f"type {i}": ward(one) for i, one in enumerate(dies)}, {f"type {i}": 1 / len(dies) for i in range(len(dies))}
    )


@pytest.fixture
def saved(tmp_path):
    types_of(0.9, 0.1).save(tmp_path / "types")
    return tmp_path / "types"


def chances(types):
    return [dict(zip(*mdp.row("sick", "wait"), strict=True))["dead"] for mdp in types.models.values()]


def test_what_is_saved_comes_back_and_replaces_what_was_there(saved):
    assert chances(read_types(saved)) == [0.9, 0.1]
    types_of(0.3, 0.2).save(saved)
    assert chances(read_types(saved)) == [0.3, 0.2]
    assert sorted(file.name for file in saved.iterdir()) == ["type-0.tether", "type-1.tether", "types.json"]


@pytest.mark.parametrize("change", [('"prior": 0.5', '"prior": 0.4'), ("type 0", "type 2"), ("}", "} "), ("]", "")])
def test_a_list_that_was_changed_is_refused(saved, change):
    file = saved / "types.json"
    text = file.read_text()
    file.write_text(text.replace(*change))
    if change == ("}", "} "):  # only how it is written
        assert chances(read_types(saved)) == [0.9, 0.1]
        return
    for prior in (None, {"type 0": 0.5, "type 1": 0.5}):
        with pytest.raises(tether.FileError, match=r"types\.json: .*list of types.*; save the types again"):
            read_types(saved, prior)


@pytest.mark.parametrize("text", [b"", b"[]", b"[" * 100_000, b'{"format": "\xff"}', b'{"types": [{}]}', b"1e999"])
def test_another_list_is_refused(saved, text):
    (saved / "types.json").write_bytes(text)
    with pytest.raises(tether.FileError, match=r"types\.json: this is not a list of types that Types.save wrote"):
        read_types(saved)


def test_models_that_are_exchanged_or_saved_again_are_refused(saved):
    first, second = saved / "type-0.tether", saved / "type-1.tether"
    kept = first.read_bytes()
    first.write_bytes(second.read_bytes())
    with pytest.raises(tether.FileError, match=r"type-0.tether: this is not the model of type 'type 0'"):
        read_types(saved)
    second.write_bytes(kept)
    with pytest.raises(tether.FileError, match="this is not the model of type 'type 0'"):
        read_types(saved)
    first.write_bytes(kept)
    second.unlink()
    with pytest.raises(tether.FileError, match=r"type-1.tether: there is no such file"):
        read_types(saved)
    ward(0.5).save(second)
    with pytest.raises(tether.FileError, match="this is not the model of type 'type 1'"):
        read_types(saved)


def test_a_full_disk_leaves_the_types_that_were_there(saved, monkeypatch):
    before = {file.name: file.read_bytes() for file in saved.iterdir()}
    save, done = storage.save, []

    def fill(mdp, file):
        done.append(file)
        if len(done) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return save(mdp, file)

    monkeypatch.setattr(storage, "save", fill)
    with pytest.raises(tether.FileError, match="it cannot be written: No space left on device"):
        types_of(0.3, 0.2).save(saved)
    assert {file.name: file.read_bytes() for file in saved.iterdir()} == before
    shutil.rmtree(saved)
    saved.write_text("a file")
    with pytest.raises(tether.FileError, match="saved to a directory, and this is a file"):
        types_of(0.3).save(saved)
    with pytest.raises(tether.FileError, match="it cannot be made"):
        types_of(0.3).save(saved / "below")


@pytest.mark.parametrize("prior", [{"a": float("nan")}, {"a": -1.0}, {"a": 0.5}])
def test_what_is_no_distribution_is_refused(prior):
    with pytest.raises(tether.QueryError, match="prior is not a distribution"):
        tether.Types({"a": ward(0.5)}, prior)


def test_the_name_of_a_type_is_a_text():
    with pytest.raises(tether.QueryError, match="the name of a type must be a text, not 1"):
        tether.Types({1: ward(0.5)}, {1: 1.0})
