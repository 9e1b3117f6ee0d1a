"""Saved models that are damaged, crafted, or replaced while they are read: refused, or right, and never a crash."""

import errno
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from effort import tries
from savedmodels import DAMAGED, assert_same, forge, read_file, refused, write_file
from systems import posix

import tether
from tether import MDP
from tether.model.storage import is_saved_model

TESTS = Path(__file__).parent


def run(code, *arguments):
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def small():
    case = tether.cases.grid_world()
    mdp = tether.learn([case.mdp.simulate("random", 11, rng=seed) for seed in range(20)] + [case.path], prior=1)
    return mdp.with_objective(final_reward={14: 5.0})


# What is not there, or something else.


def test_no_such_file():
    error = refused("no-such-model")
    assert str(error) == "no-such-model: there is no such file; a saved model is a file that MDP.save wrote"
    assert error.problems[0].file == "no-such-model"
    assert isinstance(error, tether.TetherError)


def test_a_directory_is_no_model(tmp_path):
    assert str(refused(tmp_path)) == f"{tmp_path}: this is a directory; a saved model is a file that MDP.save wrote"


@posix
def test_a_pipe_is_no_model(tmp_path):
    os.mkfifo(tmp_path / "m")
    assert str(refused(tmp_path / "m")) == (
        f"{tmp_path / 'm'}: this is a device or a pipe; a saved model is a file that MDP.save wrote"
    )
    assert not is_saved_model(tmp_path / "m")  # it does not wait for a writer


@pytest.mark.parametrize("content", [b"", b"dear", b"PK\3\4" + bytes(200), b"\xff" * 200])
def test_another_file_is_no_model(tmp_path, content):
    (tmp_path / "m").write_bytes(content)
    assert str(refused(tmp_path / "m")) == (
        f"{tmp_path / 'm'}: this is not a saved model: a saved model is a file that MDP.save wrote"
    )


def test_a_file_that_may_not_be_read(saved, monkeypatch):
    """The system refuses to open it, as it does for anyone but root."""
    _, file = saved

    def refuse(path, *_how):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "open", refuse)
    assert str(refused(file)) == f"{file}: it cannot be read: Permission denied"


def test_another_version_of_the_format(saved):
    _, file = saved
    metadata, model, arrays = read_file(file)
    write_file(file, metadata | {"version": "2", "tether": "9.0"}, model | {"more": 1}, arrays)
    assert str(refused(file)) == (
        f"{file}: format 2, written by tether 9.0; this is tether {tether.__version__}, which reads format 1; "
        "read it with that version, or upgrade this one (pip install --upgrade tether)"
    )


# Damaged.


def test_every_byte_counts(saved):
    """Whatever byte is another one, and however: the file is refused before any of it is used."""
    mdp, file = saved
    content, random, sentences = file.read_bytes(), np.random.default_rng(0), set()
    for place in range(len(content)):
        for change in random.choice([1, 128, 255, int(random.integers(1, 256))], tries(1, 4), replace=False):
            damaged = bytearray(content)
            damaged[place] ^= change
            file.write_bytes(damaged)
            sentences.add(str(refused(file)).removeprefix(f"{file}: "))
    assert sentences == {DAMAGED, "this is not a saved model: a saved model is a file that MDP.save wrote"}
    file.write_bytes(content)
    assert_same(mdp, MDP.load(file))


def test_a_file_that_is_cut_off_anywhere_or_too_long(saved):
    _, file = saved
    content = file.read_bytes()
    for length in range(0, len(content), tries(3, 1)):
        file.write_bytes(content[:length])
        refused(file)
    for more in (b"\0", b"\0" * 32, content[-32:], content):
        file.write_bytes(content + more)
        assert str(refused(file)) == f"{file}: {DAMAGED}"


def test_two_bytes_exchanged_or_a_part_repeated(saved):
    _, file = saved
    content, random = file.read_bytes(), np.random.default_rng(0)
    for _ in range(300):
        low, high = sorted(map(int, random.integers(0, len(content), 2)))
        for damaged in (
            content[:low] + content[high:],
            content[:high] + content[low:],
            content[:low] + content[low:high][::-1] + content[high:],
        ):
            file.write_bytes(damaged)
            if damaged != content:
                refused(file)


def test_nothing_is_mapped_or_decoded_before_it_is_verified(saved, monkeypatch):
    _, file = saved
    content = bytearray(file.read_bytes())
    content[-33] ^= 1
    file.write_bytes(content)
    monkeypatch.setattr(tether.model.storage.mmap, "mmap", lambda *_given, **_options: pytest.fail("it was mapped"))
    assert str(refused(file)) == f"{file}: {DAMAGED}"
    content[-33] ^= 1
    content[-1] ^= 1
    file.write_bytes(content)
    monkeypatch.setattr(
        tether.model.storage.msgspec.json, "decode", lambda *_given, **_options: pytest.fail("it was decoded")
    )
    assert str(refused(file)) == f"{file}: {DAMAGED}"


# Crafted: all checksums fit.


def changed(array, at, value):
    array = array.copy()
    array[at] = value
    return array


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("pair_start", lambda x: changed(x, 0, 1)),
        ("pair_start", lambda x: changed(x, -1, 4)),
        ("pair_start", lambda x: changed(x, 1, 4)),
        ("pair_start", lambda x: np.array([0, 2**63 - 1, -(2**63), 5])),  # ascending, if differences overflow
        ("pair_start", lambda x: x[:-1]),
        ("row_start", lambda x: changed(x, 1, 0)),
        ("row_start", lambda x: changed(x, -1, 99)),
        ("row_start", lambda x: x.astype("<i4")),
        ("pair_action", lambda x: changed(x, 2, 2)),
        ("pair_action", lambda x: changed(x, 2, -1)),
        ("next_state", lambda x: changed(x, 2, 3)),
        ("next_state", lambda x: changed(x, 2, -1)),
        ("next_state", lambda x: changed(x, [0, 1], [1, 0])),
        ("next_state", lambda x: x.reshape(2, 3)),
        ("probability", lambda x: x[:-1]),
        ("probability", lambda x: x.astype("<i8")),
        ("rewards", lambda x: x[:-1]),
        ("rewards", lambda x: x.reshape(1, 1, -1)),
        ("terminal", lambda x: changed(x, 0, 3)),
        ("final_reward", lambda x: x[:-1]),
        ("counts", lambda x: x[:-1]),
        ("counts", lambda x: changed(x, 0, -1)),
        ("dropped", lambda x: changed(x, (0, 0), 3)),
        ("dropped", lambda x: changed(x, (0, 1), 2)),
        ("dropped", lambda x: x.reshape(-1)),
    ],
)
def test_arrays_that_do_not_fit_each_other(saved, name, change):
    _, file = saved
    forge(file, name, change(read_file(file)[2][name]))
    error = str(refused(file))
    assert error.startswith(f"{file}: this is not what MDP.save writes (")
    assert "cannot be part of a model" in error


@pytest.mark.parametrize(
    "changes",
    [
        {"discount": 2.0},
        {"horizon": 0},
        {"n_states": 0},
        {"n_states": 2},
        {"n_actions": 1},
        {"more": 1},
        {"labels": ["a"]},
        {"counts": {"prior": 1.0, "end": 3}},
        {"counts": {"prior": 1.0, "end": 1.5}},
        {"counts": {"prior": 1.0, "what": 1}},
        {"by_entry": False},
    ],
)
def test_a_description_that_cannot_be(saved, changes):
    _, file = saved
    forge(file, **changes)
    assert str(refused(file)).startswith(f"{file}: this is not what MDP.save writes (")


def test_an_array_that_is_missing(saved):
    _, file = saved
    metadata, model, arrays = read_file(file)
    for name in arrays.keys() - {"final_reward", "state_names", "action_names"}:
        write_file(file, metadata, model, {other: array for other, array in arrays.items() if other != name})
        assert str(refused(file)).startswith(f"{file}: this is not what MDP.save writes ('{name}')")


CRAFTED = """
    import sys
    sys.path[:0] = sys.argv[2:]
    import numpy as np
    import tether
    from savedmodels import forge, read_file
    from pathlib import Path
    file = Path(sys.argv[1])
    case = tether.cases.grid_world()
    random, found = np.random.default_rng(1), 0
    for name in ("pair_start", "pair_action", "row_start", "next_state", "terminal", "dropped", "counts"):
        right = read_file(file)[2][name]
        for value in (-1, -(2**31), 2**31 - 1, 16, 99, int(right.max(initial=0)) + 1):
            for at in random.integers(right.size, size=2) if right.size else ():
                wrong = right.copy()
                wrong.reshape(-1)[at] = value
                forge(file, name, wrong)
                try:
                    mdp = tether.MDP.load(file)
                    tether.counterfactual(mdp, case.path).plan(k=12, m=11)
                except tether.TetherError:
                    found += 1
        forge(file, name, right)
    tether.MDP.load(file)
    print(found > 50 or found)
"""


def test_a_crafted_file_cannot_make_kernels_write_elsewhere(tmp_path):
    small().save(tmp_path / "m")
    done = run(CRAFTED, tmp_path / "m", TESTS, TESTS.parent)
    assert done.communicate() == ("True\n", "")


# Replaced while it is read.


def rubbish(folder):
    """How many temporary directories writers left that were killed; nothing else is there but the model."""
    left = set(os.listdir(folder)) - {"m"}
    assert all(name.startswith(".tether-") and name.endswith(".tmp") for name in left)
    return len(left)


WRITER = """
    import itertools, sys
    import numpy as np, tether
    folder, sizes = sys.argv[1], eval(sys.argv[2])
    print("begins", flush=True)
    for n in itertools.cycle(sizes):
        s = np.arange(n)
        tether.MDP.from_table(s, s * 0, (s + 1) % n, np.ones(n), np.full(n, float(n))).save(folder)
"""


def ring(n):
    s = np.arange(n)
    return MDP.from_table(s, s * 0, (s + 1) % n, np.ones(n), np.full(n, float(n)))


@posix
def test_beside_writers_every_model_that_opens_is_one_that_was_saved(tmp_path):
    """Rewards say how many states the model was made with; a mixture of two would say something else."""
    ring(5).save(tmp_path / "m")
    sizes = [[7, 7], [9, 11]]
    running = [run(WRITER, tmp_path / "m", sizes[i]) for i in range(2)]
    seen = set()
    try:
        for one in running:
            assert one.stdout.readline() == "begins\n"
        latest = time.monotonic() + 300
        while len(seen) < tries(10, 30) and time.monotonic() < latest:
            mdp = MDP.load(tmp_path / "m")
            assert set(mdp.rewards.values) == {float(mdp.n_states)}
            assert mdp.form.pair_action.size == mdp.n_states
            seen.add((mdp.n_states, os.stat(tmp_path / "m").st_ino))
        assert [one.poll() for one in running] == [None] * 2
    finally:
        for one in running:
            one.kill()
            one.communicate()
    assert len(seen) >= tries(10, 30)
    assert {n for n, _ in seen} - {5} <= {n for part in sizes for n in part}
    assert rubbish(tmp_path) <= 2


KILLED = """
    import os, random, signal, sys, time
    sys.path[:0] = sys.argv[3:]
    from test_storage_damage import ring
    from tether import MDP
    folder, delays = sys.argv[1], random.Random(3)
    for i in range(int(sys.argv[2])):
        child = os.fork()
        if child == 0:
            while True:
                ring(100 + i).save(folder)
        while MDP.load(folder).n_states != 100 + i:
            assert os.waitpid(child, os.WNOHANG) == (0, 0)
        time.sleep(delays.random() * 0.005)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert set(MDP.load(folder).rewards.values) == {100.0 + i}
"""


def test_a_writer_that_is_killed_leaves_a_model_under_the_name(tmp_path):
    ring(5).save(tmp_path / "m")
    done = run(KILLED, tmp_path / "m", tries(8, 25), TESTS, TESTS.parent)
    assert done.communicate() == ("", "")
    assert done.returncode == 0
    assert rubbish(tmp_path) <= tries(8, 25)
