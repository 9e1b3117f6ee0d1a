"""The fuzzer itself: its files are sound before they are changed, and it lists what it is there to list."""

import random

import files
import pytest

import tether
from tether.logs import batches


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch):
    monkeypatch.setattr(batches, "BATCH", 2)


@pytest.mark.parametrize("name", sorted(files.KINDS))
def test_sound_files_are_read_and_changed_ones_refused(tmp_path, name):
    sound = tmp_path / name
    sound.mkdir()
    files.KINDS[name].make(sound)
    known = {name: files.KINDS[name].read(sound)}
    sound.rename(tmp_path / "read")  # reading may write
    sound.mkdir()
    files.KINDS[name].make(sound)
    found = [files.one_case(f"test/{number}", tmp_path, [name], known) for number in range(4)]
    assert found == [None] * 4


def test_a_change_changes_something():
    data = bytes(range(256))
    new = {files.changed(data, random.Random(seed), b"")[0] for seed in range(50)}
    assert len(new - {data}) > 30


def test_crashes_tracebacks_and_other_answers_are_listed(tmp_path, monkeypatch):
    def fail(folder):
        raise KeyError("a raw one")

    def refuse(folder):
        raise tether.FileError("in a sentence")

    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "a.csv").write_text("a,b\n")
    for read, listed in (
        (fail, "some, a.csv: traceback: KeyError in ?: 'a raw one'"),
        (lambda folder: 2, "some, a.csv: another answer, without a word"),
        (lambda folder: 1, None),
        (refuse, None),
    ):
        monkeypatch.setitem(files.KINDS, "some", files.Kind(print, read, is_checked=True))
        assert files.one_case("1/1", tmp_path, ["some"], {"some": 1}) == listed
