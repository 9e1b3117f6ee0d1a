"""Saved arrays that are missing, cut off or wrong are refused, and the error says so."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from savedmodels import AGAIN, ARRAYS, assert_same, forge, refused

from tether import MDP
from tether.errors import FileError
from tether.model.counts import Counts

pytestmark = pytest.mark.usefixtures("memory")

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


def test_a_file_that_may_not_be_read(saved, monkeypatch):
    """The system refuses to open it, as it does for anyone but root."""
    _, folder = saved
    opened = Path.open

    def refuse(file, *how, **options):
        if file.name == "rewards.npy":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file))
        return opened(file, *how, **options)

    monkeypatch.setattr(Path, "open", refuse)
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
