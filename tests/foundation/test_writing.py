"""Files and directories appear whole or not at all, and what was there before stays until they do."""

import ctypes
import errno
import os
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from effort import tries
from stopping import stopped_after
from writers import place_of, version_of

import tether
from tether._foundation import writing
from tether._foundation.writing import read_together, written, written_into
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


@pytest.fixture
def no_exchange(monkeypatch):
    """As on a system, or a disk, where two directories cannot change places in one step."""
    monkeypatch.setattr(writing, "_exchanger", lambda: None)


@pytest.mark.usefixtures("no_exchange")
def test_a_directory_replaces_another_where_they_cannot_change_places(tmp_path):
    fill(tmp_path / "model", "old")
    with written(tmp_path / "model") as partial:
        fill(partial)
    assert names(tmp_path) == ["model"]
    assert (tmp_path / "model" / "a.txt").read_text() == "new"


@pytest.mark.usefixtures("no_exchange")
@pytest.mark.parametrize("error", [OSError(errno.EACCES, "no"), KeyboardInterrupt()])
def test_an_old_directory_comes_back_if_the_new_one_cannot_take_its_place(tmp_path, monkeypatch, error):
    """Between the two renames the old directory has another name; stopped just there, it gets its own back."""
    target = tmp_path / "model"
    fill(target, "old")
    rename = Path.rename

    def refuses(self, other):
        if self.parent.name.endswith(".ready"):
            raise error
        return rename(self, other)

    monkeypatch.setattr(Path, "rename", refuses)
    expected = FileError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected), written(target) as partial:
        fill(partial)
    assert names(tmp_path) == ["model"]
    assert (target / "a.txt").read_text() == "old"


def test_a_disk_that_cannot_exchange_is_found_out(tmp_path, monkeypatch):
    def unsupported(one, other):
        ctypes.set_errno(errno.EINVAL)
        return -1

    monkeypatch.setattr(writing, "_exchanger", lambda: unsupported)
    test_a_directory_replaces_a_full_one_as_a_whole(tmp_path)


def test_two_writers_do_not_meet(tmp_path):
    """Two threads, or two nested uses, of one process write under different names; the last to finish stays."""
    with written(tmp_path / "model") as first:
        fill(first, "first")
        with written(tmp_path / "model") as second:
            fill(second, "second")
        assert (tmp_path / "model" / "a.txt").read_text() == "second"
    assert (tmp_path / "model" / "a.txt").read_text() == "first"
    assert names(tmp_path) == ["model"]


# Permissions, symbolic links, names that are none.


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


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


def test_permissions_of_a_directory_stay(tmp_path):
    target = tmp_path / "model"
    fill(target, "old")
    target.chmod(0o750)
    (target / "a.txt").chmod(0o600)
    with written(target) as partial:
        fill(partial)
        (partial / "b.txt").write_text("more")
    assert (mode(target), mode(target / "a.txt")) == (0o750, 0o600)
    assert (target / "a.txt").read_text() == "new"


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


def test_a_symbolic_link_to_a_directory_stays_one(tmp_path):
    fill(tmp_path / "first", "old")
    (tmp_path / "model").symlink_to("first")
    with written(tmp_path / "model") as partial:
        fill(partial)
    assert (tmp_path / "model").is_symlink()
    assert (tmp_path / "first" / "a.txt").read_text() == "new"
    assert names(tmp_path) == ["first", "model"]


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


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_set_of_files_stopped_while_it_takes_its_place(tmp_path, monkeypatch, at):
    """Before the first file nothing has changed; after it, whoever reads next goes on with the others."""
    for name in "abc":
        (tmp_path / name).write_text("old")
    with stopped_after(at, monkeypatch):
        write_set(tmp_path, "abc")
    files = [tmp_path / name for name in "abc"]
    texts = read_together(files, lambda: {file.read_text() for file in files})
    assert texts == {"new" if at else "old"}
    assert names(tmp_path) == ["a", "b", "c"]


def test_what_another_user_left_ready_is_not_taken(tmp_path):
    """It would put their files in the place of ours. A directory that others may write into is as bad."""
    left = tmp_path / ".tether-00000000-1-00000000.ready"
    left.mkdir(mode=0o777)
    left.chmod(0o777)
    (left / "a").write_text("theirs")
    (tmp_path / "a").write_text("ours")
    assert read_together([tmp_path / "a"], (tmp_path / "a").read_text) == "ours"
    with written(tmp_path / "b") as partial:
        partial.write_text("new")
    assert (tmp_path / "a").read_text() == "ours"


def test_reading_goes_on_when_a_lock_is_not_given_back(tmp_path, monkeypatch):
    import fcntl

    monkeypatch.setattr(writing, "_PATIENCE", 0.01)
    handle = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    (tmp_path / "a").write_text("here")
    assert read_together([tmp_path / "a"], (tmp_path / "a").read_text) == "here"
    with written_into(tmp_path) as made:
        (made / "a").write_text("new")
    assert (tmp_path / "a").read_text() == "new"
    os.close(handle)


def test_what_is_replaced_without_end_is_not_read_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "_TRIES", 3)
    seen = []

    def changes():
        seen.append(1)
        (tmp_path / "a").write_text("x" * len(seen))

    with pytest.raises(FileError, match="it is replaced again and again while it is read"):
        read_together([tmp_path / "a"], changes)
    assert len(seen) == 3


def test_a_writer_without_the_lock_that_meets_another_just_there_tries_again(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "_exchanger", lambda: None)
    final, rename, others = tmp_path / "model", Path.rename, []

    def meets_another(self, target):
        if Path(target) == final and not others:
            others.append(1)
            final.mkdir()
            (final / "a").write_text("of another writer")
        return rename(self, target)

    final.mkdir()
    (final / "a").write_text("old")
    monkeypatch.setattr(Path, "rename", meets_another)
    with written(final) as partial:
        partial.mkdir()
        (partial / "a").write_text("new")
    assert others
    assert (final / "a").read_text() == "new"
    assert names(tmp_path) == ["model"]


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
KINDS = [("directory", "yes"), ("directory", "no"), ("files", "yes")]


def first_version(folder, kind):
    place = place_of(folder, kind)
    place.mkdir(exist_ok=True)
    for name in "abcd":
        (place / name).write_text("first")
    return place


def test_what_another_writer_moves_away_meanwhile_is_no_device(tmp_path, monkeypatch):
    """It was there at one look and gone at the next."""
    monkeypatch.setattr(Path, "exists", lambda path, **_options: path == tmp_path / "model" or os.path.exists(path))
    with written(tmp_path / "model") as partial:
        partial.write_text("whole")
    assert (tmp_path / "model").read_text() == "whole"


@pytest.mark.parametrize(("kind", "exchange"), KINDS)
@pytest.mark.parametrize("writers", [1, 2])
def test_beside_writers_every_reading_is_of_one_version(tmp_path, kind, exchange, writers):
    place = first_version(tmp_path, kind)
    running = [python(ENDLESS, tmp_path, kind, exchange, who, TESTS) for who in range(writers)]
    for one in running:
        assert one.stdout.readline() == "begins\n"
    versions, wanted, latest = set(), {str(who) for who in range(writers)}, time.monotonic() + 60
    while time.monotonic() < latest and not (
        len(versions) >= tries(20, 100) and {version.split()[0] for version in versions} >= wanted
    ):
        versions.add(version_of(place))
    still_at_it = [one.poll() is None for one in running]
    for one in running:
        one.kill()
    said = [one.communicate()[1] for one in running]
    assert all(still_at_it), said
    assert len(versions) >= tries(20, 100)
    assert {version.split()[0] for version in versions} >= wanted


KILLS = """
    import os, random, signal, sys, time
    from pathlib import Path
    from tether._foundation import writing
    folder, kind, exchange, source, times = sys.argv[1:]
    sys.path.insert(0, source)
    from writers import place_of, version_of, write_for_ever
    place = place_of(Path(folder), kind)
    delays = random.Random(1)
    for i in range(int(times)):
        child = os.fork()
        if child == 0:
            write_for_ever(folder, kind, exchange, i)
        while version_of(place).split()[0] != str(i):
            assert os.waitpid(child, os.WNOHANG) == (0, 0)
        time.sleep(delays.random() * 0.003)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert version_of(place).split()[0] == str(i)
"""


@pytest.mark.parametrize(("kind", "exchange"), KINDS)
def test_a_writer_killed_anywhere_leaves_a_whole_version_and_no_rubbish(tmp_path, kind, exchange):
    first_version(tmp_path, kind)
    done = python(KILLS, tmp_path, kind, exchange, TESTS, tries(15, 60))
    assert done.communicate() == ("", "")
    assert done.returncode == 0
    with written(tmp_path / "e") as partial:  # the next to write tidies up
        partial.write_text("new")
    assert names(tmp_path) == (["e", "model"] if kind == "directory" else ["a", "b", "c", "d", "e"])


def test_work_of_the_living_is_left_alone(tmp_path):
    with written(tmp_path / "a") as first:
        first.write_text("first")
        with written(tmp_path / "b") as second:
            second.write_text("second")
        assert first.exists()
    foreign = tmp_path / ".tether-ffffffff-999999-00000000.tmp"  # of another machine: nobody here knows
    foreign.mkdir(mode=0o700)
    with written(tmp_path / "c") as third:
        third.write_text("third")
    assert foreign.exists()
