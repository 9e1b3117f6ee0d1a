"""Files appear whole or not at all, and what was there before stays until they do."""

import contextlib
import errno
import os
import re
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from effort import tries
from stopping import stopped_after
from systems import posix
from writers import version_of

import tether
from tether._foundation import writing
from tether._foundation.writing import read_together, written, written_into
from tether.errors import FileError


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def fails(target, error):
    """Write, but not to the end."""
    with written(target) as partial:
        partial.write_text("half")
        raise error


def test_a_file_appears_when_it_is_complete(tmp_path):
    target = tmp_path / "model.txt"
    with written(target) as partial:
        partial.write_text("new")
        assert not target.exists()
        assert partial.parent.parent == tmp_path  # the same file system: renaming is one step
        assert partial.parent.name.startswith(".tether-")
        assert stat.S_IMODE(partial.parent.stat().st_mode) == 0o700
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


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt(), SystemExit(1)])
def test_what_fails_leaves_what_was_there(tmp_path, error):
    target = tmp_path / "model"
    target.write_text("old")
    with pytest.raises(type(error)):
        fails(target, error)
    assert names(tmp_path) == ["model"]
    assert target.read_text() == "old"


def test_a_new_directory_appears_when_it_is_complete(tmp_path):
    """Also in the place of an empty one; one with files in it stays."""
    (tmp_path / "empty").mkdir()
    for name in ("new", "empty"):
        with written(tmp_path / name) as partial:
            partial.mkdir()
            (partial / "a").write_text("new")
        assert names(tmp_path / name) == ["a"]
    with pytest.raises(FileError, match="new: it cannot be written"), written(tmp_path / "new") as partial:
        partial.mkdir()
    with pytest.raises(FileError, match="new: it cannot be written"), written(tmp_path / "new") as partial:
        partial.write_text("a file")
    assert names(tmp_path / "new") == ["a"]
    assert names(tmp_path) == ["empty", "new"]


def test_two_writers_do_not_meet(tmp_path):
    """Two threads, or two nested uses, of one process write under different names; the last to finish stays."""
    with written(tmp_path / "model") as first:
        first.write_text("first")
        with written(tmp_path / "model") as second:
            second.write_text("second")
        assert (tmp_path / "model").read_text() == "second"
    assert (tmp_path / "model").read_text() == "first"
    assert names(tmp_path) == ["model"]


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


# Permissions, symbolic links, names that are none.


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@posix
def test_permissions_stay(tmp_path):
    target = tmp_path / "secret.csv"
    target.write_text("old")
    target.chmod(0o640)
    with written(target) as partial:
        partial.write_text("new")
    assert (mode(target), target.read_text()) == (0o640, "new")
    with written_into(tmp_path) as made:
        (made / "secret.csv").write_text("newer")
    assert (mode(target), target.read_text()) == (0o640, "newer")


@posix
@pytest.mark.parametrize("together", [True, False])
def test_a_symbolic_link_stays_one(tmp_path, together):
    (tmp_path / "store").mkdir()
    real, link = tmp_path / "store" / "real.csv", tmp_path / "link.csv"
    real.write_text("old")
    link.symlink_to("store/real.csv")
    if together:
        with written_into(tmp_path) as made:
            (made / "link.csv").write_text("new")
    else:
        with written(link) as partial:
            partial.write_text("new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert (names(tmp_path), names(tmp_path / "store")) == (["link.csv", "store"], ["real.csv"])


@posix
def test_a_symbolic_link_to_nothing_is_followed(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with written(tmp_path / "link") as partial:
        partial.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_name_with_nul(tmp_path):
    with pytest.raises(FileError, match="no name of a file has the character NUL in it") as caught, written("a\0b"):
        pytest.fail("nothing should be written")
    assert "\0" not in str(caught.value)
    with pytest.raises(FileError, match="NUL"), written_into(f"{tmp_path}/a\0b"):
        pytest.fail("nothing should be written")


@posix
def test_a_pipe_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="this is a device or a pipe, not a file"), written(tmp_path / "pipe"):
        pytest.fail("nothing should be written")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_long_name(tmp_path):
    """The name it is written under is no longer than its own."""
    with written(tmp_path / ("m" * 255)) as partial:
        partial.write_text("new")
    assert names(tmp_path) == ["m" * 255]


# Sets of files.


def write_set(folder, names, error=None):
    with written_into(folder) as made:
        for name in names:
            (made / name).write_text("new")
        if error is not None:
            raise error


def test_a_set_of_files_appears_together(tmp_path):
    (tmp_path / "a").write_text("old")
    (tmp_path / "other").write_text("other")
    with written_into(tmp_path) as made:
        for name in "abc":
            (made / name).write_text("new")
        assert (tmp_path / "a").read_text() == "old"
    assert names(tmp_path) == ["a", "b", "c", "other"]
    assert {(tmp_path / name).read_text() for name in "abc"} == {"new"}


def test_a_set_of_files_that_fails(tmp_path):
    (tmp_path / "a").write_text("old")
    (tmp_path / "b").mkdir()
    with pytest.raises(RuntimeError):
        write_set(tmp_path, "a", RuntimeError())
    with pytest.raises(FileError, match="b: it cannot be written: there is a directory of this name"):
        write_set(tmp_path, "ab")
    with pytest.raises(FileError, match="there is no such folder"), written_into(tmp_path / "no" / "folder"):
        pytest.fail("nothing should be written")
    assert names(tmp_path) == ["a", "b"]
    assert (tmp_path / "a").read_text() == "old"


@pytest.mark.parametrize("at", [0, 1, 2, 3])
def test_a_set_of_files_stopped_while_it_is_moved_is_one_without_its_last_file(tmp_path, monkeypatch, at):
    """Whoever reads "b" finds the others as they were written with it."""
    for name in "abcd":
        (tmp_path / name).write_text("old")
    with stopped_after(at, monkeypatch), written_into(tmp_path, last="b") as made:
        for name in "abcd":
            (made / name).write_text("new")
    assert [(tmp_path / name).read_text() for name in "acd"] == ["new"] * at + ["old"] * (3 - at)
    assert names(tmp_path) == ["a", "c", "d"]
    with written_into(tmp_path, last="b") as made:
        for name in "abcd":
            (made / name).write_text("newer")
    assert {(tmp_path / name).read_text() for name in "abcd"} == {"newer"}


@posix
def test_the_last_file_keeps_its_permissions(tmp_path):
    (tmp_path / "a").write_text("old")
    (tmp_path / "a").chmod(0o640)
    with written_into(tmp_path, last="a") as made:
        (made / "a").write_text("new")
    assert (mode(tmp_path / "a"), (tmp_path / "a").read_text()) == (0o640, "new")


def test_what_is_replaced_without_end_is_not_read_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "_TRIES", 3)
    seen = []

    def changes():
        seen.append(1)
        (tmp_path / "a").write_text("x" * len(seen))

    with pytest.raises(FileError, match="it is replaced again and again while it is read"):
        read_together([tmp_path / "a"], changes)
    assert len(seen) == 3


# Other processes: beside a writer, killed writers, two writers.


def python(code, *arguments):
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


ENDLESS = """
    import sys
    sys.path.insert(0, sys.argv.pop())
    from writers import write_for_ever
    print("begins", flush=True)
    write_for_ever(*sys.argv[1:])
"""
TESTS = Path(__file__).parent.parent


def first_version(folder):
    for name in "abcd":
        (folder / name).write_text("first " * 1000)


@pytest.mark.parametrize(("kind", "writers"), [("file", 1), ("file", 2), ("files", 1)])
def test_beside_writers_every_reading_is_of_one_version(tmp_path, kind, writers):
    first_version(tmp_path)
    running = [python(ENDLESS, tmp_path, kind, who, TESTS) for who in range(writers)]
    versions, wanted, latest = set(), {str(who) for who in range(writers)}, time.monotonic() + 300
    try:
        for one in running:
            assert one.stdout.readline() == "begins\n"
        while time.monotonic() < latest and not (
            len(versions) >= tries(20, 100) and {version.split()[0] for version in versions} >= wanted
        ):
            with contextlib.suppress(FileError):  # on a busy machine the files are replaced faster than they are read
                versions.add(version_of(tmp_path, kind))
        still_at_it = [one.poll() is None for one in running]
    finally:
        for one in running:
            one.kill()
        said = [one.communicate()[1] for one in running]
    assert all(still_at_it), said
    assert len(versions) >= tries(20, 100)
    assert {version.split()[0] for version in versions} >= wanted


KILLS = """
    import contextlib, os, random, signal, sys, time
    from pathlib import Path
    from tether.errors import FileError
    folder, kind, source, times = sys.argv[1:]
    sys.path.insert(0, source)
    from writers import version_of, write_for_ever
    delays, whole = random.Random(1), 0
    for i in range(int(times)):
        child = os.fork()
        if child == 0:
            write_for_ever(folder, kind, i)
        try:
            version = ""
            while version != str(i):
                assert os.waitpid(child, os.WNOHANG) == (0, 0)
                with contextlib.suppress(FileError):  # replaced faster than it is read
                    version = version_of(Path(folder), kind).split()[0]
            time.sleep(delays.random() * 0.003)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        try:
            assert version_of(Path(folder), kind).split()[0] == str(i)
            whole += 1
        except FileError:
            assert kind == "files"  # it was killed between two files: the last one is missing
    print(whole)
"""


@posix
@pytest.mark.parametrize("kind", ["file", "files"])
def test_a_writer_killed_anywhere_leaves_a_whole_version_or_none(tmp_path, kind):
    first_version(tmp_path)
    done = python(KILLS, tmp_path, kind, TESTS, tries(15, 60))
    output, errors = done.communicate()
    assert errors == ""
    assert int(output) == tries(15, 60) if kind == "file" else int(output) > 0
    assert all(re.fullmatch(r"[abcd]|\.tether-.*\.tmp", name) for name in names(tmp_path))
