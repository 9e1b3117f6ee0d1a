"""Files and directories appear whole or not at all, and what was there before stays until they do."""

import errno
import os
from pathlib import Path

import pytest

import tether
from tether._writing import written
from tether.errors import FileError


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def fill(partial, text="new"):
    partial.mkdir()
    (partial / "a.txt").write_text(text)


def fails(target, error, directory=False):
    """Write, but not to the end."""
    with written(target) as partial:
        fill(partial) if directory else partial.write_text("half")
        raise error


def test_a_file_appears_when_it_is_complete(tmp_path):
    target = tmp_path / "model.txt"
    with written(target) as partial:
        partial.write_text("new")
        assert not target.exists()
        assert partial.parent == tmp_path  # the same file system: renaming is one step
        assert partial.name.startswith(".")
    assert names(tmp_path) == ["model.txt"]
    assert target.read_text() == "new"


def test_a_file_is_replaced(tmp_path):
    target = tmp_path / "model.txt"
    target.write_text("old")
    with written(str(target)) as partial:
        partial.write_text("new")
        assert target.read_text() == "old"
    assert names(tmp_path) == ["model.txt"]
    assert target.read_text() == "new"


def test_a_directory_appears_when_it_is_complete(tmp_path):
    with written(tmp_path / "model") as partial:
        fill(partial)
        assert not (tmp_path / "model").exists()
    assert names(tmp_path) == ["model"]
    assert names(tmp_path / "model") == ["a.txt"]


def test_a_directory_replaces_a_full_one_as_a_whole(tmp_path):
    target = tmp_path / "model"
    target.mkdir()
    (target / "b.txt").write_text("old")
    with written(f"{target}/") as partial:
        fill(partial)
        assert names(target) == ["b.txt"]
    assert names(tmp_path) == ["model"]
    assert names(target) == ["a.txt"]


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt(), SystemExit(1)])
@pytest.mark.parametrize("directory", [True, False])
def test_what_fails_leaves_what_was_there(tmp_path, directory, error):
    target = tmp_path / "model"
    fill(target, "old") if directory else target.write_text("old")
    with pytest.raises(type(error)):
        fails(target, error, directory)
    assert names(tmp_path) == ["model"]
    assert (target / "a.txt" if directory else target).read_text() == "old"


def test_what_fails_before_anything_is_written(tmp_path):
    with pytest.raises(RuntimeError), written(tmp_path / "model"):
        raise RuntimeError
    assert names(tmp_path) == []


def test_trouble_with_the_disk_is_an_error_that_names_the_file(tmp_path):
    target = tmp_path / "model"
    with pytest.raises(FileError) as caught:
        fails(target, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert str(caught.value) == f"{target}: it cannot be written: No space left on device"
    assert caught.value.problems[0].file == str(target)
    assert isinstance(caught.value, tether.TetherError)
    assert names(tmp_path) == []


def test_a_folder_that_is_not_there(tmp_path):
    target = tmp_path / "no" / "model"
    with pytest.raises(FileError) as caught, written(target) as partial:
        partial.write_text("new")
    assert str(caught.value) == f"{target}: it cannot be written: there is no folder {tmp_path / 'no'}"


@pytest.mark.parametrize("target", [".", "..", "/", ""])
def test_a_name_that_is_none(target):
    with pytest.raises(FileError, match="it cannot be written: give a name in a folder"), written(target):
        pytest.fail("nothing should be written")


def test_a_file_does_not_replace_a_directory(tmp_path):
    fill(tmp_path / "model", "old")
    with pytest.raises(FileError, match="it cannot be written"), written(tmp_path / "model") as partial:
        partial.write_text("new")
    assert names(tmp_path) == ["model"]
    assert (tmp_path / "model" / "a.txt").read_text() == "old"


def test_a_directory_does_not_replace_a_file(tmp_path):
    (tmp_path / "model").write_text("old")
    with pytest.raises(FileError, match="it cannot be written"), written(tmp_path / "model") as partial:
        fill(partial)
    assert names(tmp_path) == ["model"]
    assert (tmp_path / "model").read_text() == "old"


@pytest.mark.parametrize("error", [OSError(errno.EACCES, "no"), KeyboardInterrupt()])
def test_an_old_directory_comes_back_if_the_new_one_cannot_take_its_place(tmp_path, monkeypatch, error):
    """Between the two renames the old directory has another name; stopped just there, it gets its own back."""
    target = tmp_path / "model"
    fill(target, "old")
    rename = Path.replace

    def refuses(self, other):
        if self.name.endswith(".tmp"):
            raise error
        return rename(self, other)

    monkeypatch.setattr(Path, "replace", refuses)
    expected = FileError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected), written(target) as partial:
        fill(partial)
    assert names(tmp_path) == ["model"]
    assert (target / "a.txt").read_text() == "old"


def test_two_writers_do_not_meet(tmp_path):
    """Two threads, or two nested uses, of one process write under different names; the last to finish stays."""
    with written(tmp_path / "model") as first:
        fill(first, "first")
        with written(tmp_path / "model") as second:
            fill(second, "second")
        assert (tmp_path / "model" / "a.txt").read_text() == "second"
    assert (tmp_path / "model" / "a.txt").read_text() == "first"
    assert names(tmp_path) == ["model"]
