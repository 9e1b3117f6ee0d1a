"""Saved models that are damaged, crafted, or replaced while they are read: refused, or right, and never a crash."""

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from effort import tries

import tether
from tether import MDP
from tether.errors import FileError
from tether.model.storage import checked, files

TESTS = Path(__file__).parent


pytestmark = pytest.mark.usefixtures("memory")


def run(code, *arguments):
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def small():
    case = tether.cases.grid_world()
    mdp = tether.learn([case.mdp.simulate("random", 11, rng=seed) for seed in range(20)] + [case.path], prior=1)
    return mdp.with_objective(final_reward={14: 5.0})


def settled(folder):
    """Files that changed a while ago: the system's clock has ticked since."""
    before = time.time_ns() - checked._SETTLED
    while max(file.stat().st_ctime_ns for file in folder.iterdir()) >= before:
        time.sleep(0.01)
        before = time.time_ns() - checked._SETTLED


# One bit.

FLIPS = """
    import random, shutil, sys
    from pathlib import Path
    import numpy as np
    import tether
    folder, path = Path(sys.argv[1]), tether.Path(eval(sys.argv[2]), eval(sys.argv[3]))
    chosen, each, counted = random.Random(int(sys.argv[4])), int(sys.argv[5]), {"refused": 0, "same": 0}

    def answer(mdp):
        cf = tether.counterfactual(mdp, path)
        known = [cf.plan(k=4, m=2, rule=rule).value for rule in ("definition", "assured")]
        return known + [list(map(repr, mdp.states)), str(mdp.describe()), str(tether.learned(mdp))]

    right = answer(tether.MDP.load(folder))
    for file in sorted(folder.iterdir()):
        content = file.read_bytes()
        places = range(8 * len(content))
        for place in chosen.sample(places, min(len(places), each)):
            damaged = bytearray(content)
            damaged[place // 8] ^= 1 << place % 8
            file.write_bytes(damaged)
            try:
                assert answer(tether.MDP.load(folder)) == right
            except (tether.errors.FileError, tether.errors.ModelError):
                counted["refused"] += 1
            else:
                counted["same"] += 1
        file.write_bytes(content)
    print(counted["refused"] > 10 * each > 10 * counted["same"] or counted)
"""


@pytest.mark.parametrize("seed", range(1, 1 + tries(1, 2)))
def test_a_flipped_bit_is_found_or_means_nothing(tmp_path, seed):
    """In the space of a head, or of model.json, a bit may mean nothing. A crash would end the other process."""
    path = tether.cases.grid_world().path
    small().save(tmp_path / "m")
    done = run(FLIPS, tmp_path / "m", list(path.states), list(path.actions), seed, tries(10, 40))
    assert done.communicate() == ("True\n", "")
    assert done.returncode == 0


# Crafted: all checksums fit.

CRAFTED = """
    import sys
    sys.path[:0] = sys.argv[2:]
    import numpy as np
    import tether
    from savedmodels import forge
    from pathlib import Path
    folder = Path(sys.argv[1])
    case = tether.cases.grid_world()
    random, found = np.random.default_rng(1), 0
    for name in ("pair_start", "pair_action", "row_start", "next_state", "terminal", "dropped", "counts"):
        right = np.load(folder / f"{name}.npy")
        for value in (-1, -(2**31), 2**31 - 1, 16, 99, int(right.max(initial=0)) + 1):
            for at in random.integers(right.size, size=2) if right.size else ():
                wrong = right.copy()
                wrong[at] = value
                forge(folder, name, wrong)
                try:
                    mdp = tether.MDP.load(folder)
                    tether.counterfactual(mdp, case.path).plan(k=12, m=11)
                except tether.TetherError:
                    found += 1
        forge(folder, name, right)
    tether.MDP.load(folder)
    print(found > 50 or found)
"""


def test_a_crafted_directory_cannot_make_kernels_write_elsewhere(tmp_path):
    small().save(tmp_path / "m")
    done = run(CRAFTED, tmp_path / "m", TESTS, TESTS.parent)
    assert done.communicate() == ("True\n", "")


# What was checked is remembered.


@pytest.fixture
def counted(monkeypatch):
    """How often files were read through."""
    calls, check = [], files.check_arrays
    monkeypatch.setattr(files, "check_arrays", lambda *given: calls.append(given) or check(*given))
    return calls


def test_a_model_is_read_through_once(tmp_path, counted, memory):
    small().save(tmp_path / "m")
    settled(tmp_path / "m")
    for _ in range(3):
        MDP.load(tmp_path / "m")
    assert len(counted) == 1
    assert len(list(memory.iterdir())) == 1
    MDP.load(tmp_path / "m", check=True)
    assert len(counted) == 2
    small().save(tmp_path / "m")  # the same numbers, in other files
    settled(tmp_path / "m")
    MDP.load(tmp_path / "m")
    assert len(counted) == 3


def test_files_that_changed_just_now_are_not_remembered(tmp_path, counted, memory, monkeypatch):
    """They could change again within one tick of the clock, and look the same."""
    monkeypatch.setattr(checked, "_SETTLED", 10**12)
    small().save(tmp_path / "m")
    for _ in range(2):
        MDP.load(tmp_path / "m")
    assert len(counted) == 2
    assert not memory.exists() or not any(memory.iterdir())


def test_a_change_after_the_check_is_found(tmp_path, counted):
    """Even one that keeps size and time of modification: the time of change is the system's."""
    small().save(tmp_path / "m")
    settled(tmp_path / "m")
    MDP.load(tmp_path / "m")
    file = tmp_path / "m" / "next_state.npy"
    before = file.stat()
    with file.open("r+b") as handle:
        handle.seek(-4, os.SEEK_END)
        handle.write(np.int32(2**30).tobytes())
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_mtime_ns == before.st_mtime_ns
    with pytest.raises(FileError, match=r"next_state\.npy: its contents are not what was saved"):
        MDP.load(tmp_path / "m")


def test_what_was_wrong_is_not_remembered(tmp_path, memory):
    small().save(tmp_path / "m")
    np.save(tmp_path / "m" / "next_state.npy", np.load(tmp_path / "m" / "next_state.npy")[::-1])
    settled(tmp_path / "m")
    for _ in range(2):
        with pytest.raises(FileError):
            MDP.load(tmp_path / "m")
    assert not memory.exists() or not any(memory.iterdir())


@pytest.mark.parametrize("how", ["open to others", "a link", "a file", "nowhere", "relative"])
def test_a_memory_that_others_could_have_made_is_not_believed(tmp_path, counted, memory, monkeypatch, how):
    small().save(tmp_path / "m")
    settled(tmp_path / "m")
    MDP.load(tmp_path / "m")
    if how == "open to others":
        memory.chmod(0o770)
    elif how == "a link":
        memory.rename(memory.with_name("elsewhere"))
        memory.symlink_to("elsewhere")
    elif how == "a file":
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "m" / "model.json"))
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere" if how == "nowhere" else "cache")
    for _ in range(2):
        MDP.load(tmp_path / "m")
    assert len(counted) == 3


def test_a_full_disk_is_no_reason_not_to_open_a_model(tmp_path, monkeypatch):
    def full(*_given, **_options):
        raise OSError(28, "No space left on device")

    small().save(tmp_path / "m")
    settled(tmp_path / "m")
    monkeypatch.setattr(Path, "touch", full)
    assert MDP.load(tmp_path / "m").n_states == small().n_states


def test_the_memory_does_not_grow_for_ever(tmp_path, monkeypatch, memory):
    monkeypatch.setattr(checked, "_KEPT", 4)
    monkeypatch.setattr(checked, "_SETTLED", -1)
    for _ in range(12):
        small().save(tmp_path / "m")
        MDP.load(tmp_path / "m")
    assert 2 <= len(list(memory.iterdir())) <= 5


# Replaced while it is read.

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


def test_beside_writers_every_model_that_opens_is_one_that_was_saved(tmp_path):
    """Rewards say how many states the model was made with; a mixture of two would say something else."""
    ring(5).save(tmp_path / "m")
    sizes = [[7, 7], [9, 11]]
    running = [run(WRITER, tmp_path / "m", sizes[i]) for i in range(2)]
    seen = set()
    try:
        for one in running:
            assert one.stdout.readline() == "begins\n"
        latest = time.monotonic() + 60
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
    ring(3).save(tmp_path / "m")
    assert os.listdir(tmp_path) == ["m"]


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
    ring(5).save(tmp_path / "m")
    assert os.listdir(tmp_path) == ["m"]
