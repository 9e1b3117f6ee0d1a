"""The cache of compiled kernels: nobody else's code, nobody's old code, and never a reason to stop."""

import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numba
import pytest

from tether._kernels import cache
from tether._kernels import place as kernel_place
from tether._kernels.cache import KernelCache
from tether._kernels.place import find_place, source_key

PACKAGE = Path(kernel_place.__file__).parents[1]

compiled = pytest.mark.compiled


@pytest.fixture
def unwritable(tmp_path):
    """A place nobody can write to, root included: below a regular file."""
    (tmp_path / "file").write_text("not a directory")
    return tmp_path / "file" / "cache"


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """The place is looked for anew, and the next trouble is the first one."""
    find_place.cache_clear()
    kernel_place._once.cache_clear()
    yield
    find_place.cache_clear()
    kernel_place._once.cache_clear()


# --- Which place -----------------------------------------------------------------------------------


def test_a_temporary_directory_where_others_can_replace_ours_is_not_used(tmp_path, unwritable, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(kernel_place.tempfile, "gettempdir", lambda: str(tmp_path))
    tmp_path.chmod(0o777)
    assert tmp_path not in list(kernel_place._parents())
    tmp_path.chmod(0o1777)
    assert list(kernel_place._parents())[-1] == tmp_path
    tmp_path.chmod(0o700)
    assert list(kernel_place._parents())[-1] == tmp_path
    monkeypatch.setattr(kernel_place.tempfile, "gettempdir", lambda: str(unwritable))
    assert unwritable not in list(kernel_place._parents())


def test_the_first_place_that_can_be_written_to(tmp_path, unwritable, monkeypatch):
    monkeypatch.setattr(kernel_place, "_parents", lambda: iter([unwritable, tmp_path / "second", tmp_path / "third"]))
    place = find_place()
    assert place.parent == tmp_path / "second"
    assert not (tmp_path / "third").exists()


def test_the_users_own_choice_is_the_only_place(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert list(kernel_place._parents()) == [tmp_path]


def test_no_place_is_said_once_and_is_no_error(unwritable, monkeypatch):
    monkeypatch.setattr(kernel_place, "_parents", lambda: iter([unwritable]))
    with pytest.warns(RuntimeWarning, match=r"has no place.*answers are the same.*NUMBA_CACHE_DIR"):
        assert find_place() is None
    find_place.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert find_place() is None


def test_without_sources_there_is_no_key_and_so_no_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_place, "__file__", str(tmp_path / "archive.zip" / "place.py"))
    with pytest.warns(RuntimeWarning, match="sources are not files"):
        assert find_place() is None


def test_directories_of_old_sources_are_removed_but_for_the_last(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_place, "_parents", lambda: iter([tmp_path]))
    for age in range(kernel_place._KEYS_KEPT + 3):
        old = tmp_path / f"tether-kernels-{age}"
        old.mkdir(mode=0o700)
        (old / "something").write_text("x")
        os.utime(old, (1e9 - age, 1e9 - age))
    (tmp_path / "something-else").mkdir()
    place = find_place()
    left = {one.name for one in tmp_path.iterdir()}
    assert left == {place.name, "something-else", *(f"tether-kernels-{age}" for age in range(kernel_place._KEYS_KEPT))}


def test_the_key_changes_with_any_source(tmp_path):
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_text("a = 1")
    other.write_text("b = 1")
    keys = {source_key([one, other])}
    other.write_text("b = 2")
    keys.add(source_key([one, other]))
    other.write_text("b = 1")
    keys.add(source_key([one]))
    assert len(keys) == 3
    assert source_key([one, other]) in keys


# --- Trouble ---------------------------------------------------------------------------------------


def double(x):
    return x * 2


def compile_in(place):
    """Compile a small function with its cache in ``place``, as kernels are."""
    function = numba.njit(double)
    function._cache = KernelCache(double, lambda: place)
    assert function(21) == 42
    return sum(function.stats.cache_hits.values())


@compiled
def test_what_was_compiled_is_found_again(tmp_path):
    assert compile_in(tmp_path) == 0
    assert compile_in(tmp_path) == 1
    (file,) = tmp_path.iterdir()
    assert file.name.startswith("test_kernel_cache.double-")
    function = numba.njit(double)
    function._cache = KernelCache(double, lambda: tmp_path)
    function._cache.flush()
    assert list(tmp_path.iterdir()) == []


@compiled
@pytest.mark.parametrize("damage", [lambda _: b"", lambda old: old[:40], lambda old: old[:-9] + b"x" + old[-8:]])
def test_a_damaged_file_is_made_anew(tmp_path, damage):
    compile_in(tmp_path)
    (file,) = tmp_path.iterdir()
    good = file.read_bytes()
    file.write_bytes(damage(good))
    with pytest.warns(RuntimeWarning, match="damaged"):
        assert compile_in(tmp_path) == 0
    assert compile_in(tmp_path) == 1


@compiled
def test_a_file_that_cannot_be_read_or_replaced(tmp_path):
    compile_in(tmp_path)
    (file,) = tmp_path.iterdir()
    file.unlink()
    file.mkdir()
    (file / "inside").write_text("a directory in the way")
    with pytest.warns(RuntimeWarning, match="cannot be read") as caught:
        assert compile_in(tmp_path) == 0
    assert len(caught) == 1  # and not once more for writing


@compiled
def test_a_full_disk(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache, "_write_whole", full)
    with pytest.warns(RuntimeWarning, match="No space left") as caught:
        assert compile_in(tmp_path) == 0
    assert len(caught) == 1


@compiled
def test_a_write_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def broken(self, target):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "replace", broken)
    with pytest.warns(RuntimeWarning, match="Input/output"):
        compile_in(tmp_path)
    assert list(tmp_path.iterdir()) == []


@compiled
def test_a_directory_that_is_removed_meanwhile(tmp_path):
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        compile_in(tmp_path / "gone")


@compiled
def test_disabled_it_is_not_asked(tmp_path):
    function = numba.njit(double)
    function._cache = KernelCache(double, lambda: tmp_path)
    function._cache.disable()
    function(1)
    assert list(tmp_path.iterdir()) == []
    function._cache.enable()
    function(1.0)
    assert len(list(tmp_path.iterdir())) == 1
    assert function.stats.cache_path == tmp_path


# --- In a process of its own -----------------------------------------------------------------------

FOUND = """
import numpy as np
from tether._kernels.sorting import is_in
print(is_in(np.array([2, 3, 5]), 3), is_in(np.array([2, 3, 5]), 4))
"""


def run(source, **environment):
    """Run a script in a process of its own, with these variables; its output and what it said beside."""
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    return done.stdout, done.stderr


@compiled
def test_an_answer_without_any_cache(unwritable):
    answer, said = run(FOUND, NUMBA_CACHE_DIR=str(unwritable))
    assert answer == "True False\n"
    assert said.count("RuntimeWarning") == 1


@compiled
def test_a_warm_cache_does_not_hide_a_broken_kernel(tmp_path):
    """A change in one file must reach the kernels of other files that call it."""
    copy = tmp_path / "src" / "tether"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    head = "from tether._kernels.jit import kernel\n"
    inner, outer = copy / "_kernels" / "inner.py", copy / "_kernels" / "outer.py"
    outer.write_text(head + "from tether._kernels.inner import value\n\n@kernel\ndef ask():\n    return value()\n")
    for number in (1, 2):
        inner.write_text(head + f"\n@kernel\ndef value():\n    return {number}\n")
        answer, _ = run(
            "from tether._kernels.outer import ask; print(ask())",
            PYTHONPATH=str(copy.parent),
            NUMBA_CACHE_DIR=str(tmp_path / "cache"),
        )
        assert int(answer) == number
