"""The processes of an audit: none outlives its parent, one that dies is replaced, and what is kept is right."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest
from click.testing import CliRunner
from pages import undrawn
from systems import posix

import tether
from tether.auditing import workers
from tether.cli import main
from tether.io import write_episodes
from tether.logs import batches

pytestmark = posix

TABLES = ("episodes.parquet", "decisions.parquet", "outcomes.parquet")
GRID = tether.cases.grid_world().mdp

# Two parts without a way from one to the other: what happens in one is never asked in the other.
APART = tether.MDP.from_table(
    ["calm", "calm", "wild", "wild", "end"],
    ["stay", "go", "stay", "go", "stay"],
    ["calm", "end", "wild", "end", "end"],
    [1.0, 1.0, 1.0, 1.0, 1.0],
    [0.0, 1.0, 0.0, 1.0, 0.0],
)
CALM, WILD = tether.Path(["calm", "calm", "end"], ["stay", "go"]), tether.Path(["wild", "wild"], ["stay"])


def words(folder, workers):
    """``tether audit`` of a log."""
    asked = ["audit", "case:grid-world", folder / "log.csv", "-o", folder / "out", "--policy", "random"]
    return [*map(str, asked), "--workers", str(workers), "--reports", "0", "--no-certificate"]


BY_BATCHES = "from tether.logs import batches; batches.BATCH = 1; from tether.cli import main; main()"
PAUSE = """
import time
from tether.auditing.directory import Parts
write, done = Parts.write, []
def write_or_wait(parts, *rest):
    done.append(1)
    number = len(done)
    write(parts, *rest)
    time.sleep(60 if number == 4 else 0)
Parts.write = write_or_wait
"""
"""A process that waits there, however slow the machine is, until a signal ends it."""


def command(folder, before=""):
    """The same as a process, in a batch per episode, by two processes."""
    return [sys.executable, "-c", before + BY_BATCHES, *words(folder, 2)]


def answer(folder):
    """The same in this process. It says nothing but the answer."""
    with pytest.MonkeyPatch.context() as patch, undrawn():
        patch.setattr(batches, "BATCH", 1)
        done = CliRunner().invoke(main, words(folder, 1))
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout


def run(call, **options):
    return subprocess.run(call, capture_output=True, text=True, timeout=120, check=False, **options)


def wait_for_parts(folder, n=4):
    """Until some batches are done."""
    until = time.monotonic() + 300
    while len(list(folder.glob("out/parts/*.parquet"))) < n and time.monotonic() < until:
        time.sleep(0.01)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A log, and the tables of its audit."""
    folder = tmp_path_factory.mktemp("whole")
    write_episodes([GRID.simulate("random", 4, rng=seed) for seed in range(20)], folder / "log.csv")
    assert "20 episodes: 2 danger, 18 still under way." in answer(folder)
    return folder


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT", "SIGKILL"])
def test_a_parent_takes_its_processes_with_it(tmp_path, whole, name):
    """Whatever ends the parent: its processes end, what is done is kept, and the same command goes on quietly."""
    number = getattr(signal, name)
    shutil.copy(whole / "log.csv", tmp_path)
    with subprocess.Popen(
        command(tmp_path, PAUSE), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as parent:
        wait_for_parts(tmp_path)
        children = psutil.Process(parent.pid).children(recursive=True)
        os.kill(parent.pid, number)
        out, error = parent.communicate(timeout=120)
    gone, alive = psutil.wait_procs(children, timeout=120)
    assert (len(gone) >= 2, alive, out) == (True, [], "")
    if number != signal.SIGKILL:
        how = "interrupted" if number == signal.SIGINT else f"ended by {name}"
        told = f"\ntether: {how}; the same command continues where it stopped\n"
        assert (parent.returncode, error) == (128 + number, told)
    assert list(tmp_path.glob("out/parts/*.parquet"))
    assert not (tmp_path / "out" / "episodes.parquet").exists()
    if number == signal.SIGKILL:
        again = run(command(tmp_path))
        assert (again.returncode, again.stderr) == (0, "")
    else:  # the directory does not know how many processes there were
        answer(tmp_path)
    for table in TABLES:
        assert (tmp_path / "out" / table).read_bytes() == (whole / "out" / table).read_bytes()


@pytest.mark.compiled
def test_an_ignored_hangup_stays_ignored(tmp_path, whole):
    shutil.copy(whole / "log.csv", tmp_path)
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(["nohup", *command(tmp_path)], **pipes, text=True) as parent:
        wait_for_parts(tmp_path, 1)
        os.kill(parent.pid, signal.SIGHUP)
        out, _ = parent.communicate(timeout=60)
    assert parent.returncode == 0
    assert "20 episodes: 2 danger, 18 still under way." in out


def deadly(file, times):
    """A policy that ends its process in the wild part, so many times."""

    def policy(state):
        if state == "wild" and os.getpid() != policy.home:
            with open(file, "a+") as marks:
                marks.seek(0)
                if len(marks.read()) < times:
                    marks.write("x")
                    marks.flush()
                    os.kill(os.getpid(), signal.SIGKILL)
        return "stay"

    policy.home = os.getpid()
    return policy


def test_a_process_that_is_killed_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "BATCH", 3)
    log = [CALM] * 7 + [WILD] + [CALM] * 5
    policy = deadly(tmp_path / "marks", 1)
    found = tether.audit(APART, log, policy=policy, workers=2)
    assert (tmp_path / "marks").read_text() == "x"
    assert found.table.equals(tether.audit(APART, log, policy=policy, workers=1).table)
    assert found.problems.num_rows == 0


def test_an_episode_that_kills_again_and_again_is_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "BATCH", 2)
    log = [CALM] * 3 + [WILD] + [CALM]
    policy = deadly(tmp_path / "marks", 1000)
    found = tether.audit(APART, log, policy=policy, workers=2, certify=False)
    assert found.problems.to_pylist() == [{"episode": 3, "problem": workers._FATAL}]
    rest = [i for i in range(len(log)) if i != 3]
    expected = tether.audit(APART, log, policy=policy, workers=1, certify=False)
    assert found.table.take(rest).equals(expected.table.take(rest))
    monkeypatch.setattr(workers, "_MOST_FATAL", 0)
    with pytest.raises(tether.QueryError, match=r"more than 0 episodes ended the processes .* fewer workers"):
        tether.audit(APART, [CALM, WILD], policy=policy, workers=2, certify=False)


def test_what_a_policy_prints_is_not_in_the_answer_and_its_error_is_its_own(capfd):
    def loud(state):
        sys.stdout.write("loud")
        return "stay"

    def wrong(state):
        raise KeyError("a policy's own error")

    tether.audit(APART, [CALM, WILD], policy=loud, workers=2, certify=False)
    out, error = capfd.readouterr()
    assert out == ""
    assert "loud" in error
    with pytest.raises(KeyError, match="a policy's own error"):
        tether.audit(APART, [CALM, WILD], policy=wrong, workers=2, certify=False)


SCRIPT = """
import sys, tether
mdp = tether.cases.grid_world().mdp
class Own:
    def __call__(self, state):
        return "right"
log = [mdp.simulate("random", 4, rng=seed) for seed in range(8)]
print(len(tether.audit(mdp, log, policy=Own(), workers=2, certify=False)))
"""


def test_a_script_needs_no_guard_and_may_define_the_policy_itself(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = run([sys.executable, str(tmp_path / "script.py")])
    assert (done.stdout, done.stderr) == ("8\n", "")


SHORT_OF_MEMORY = """
import tether
def start_with_little(parent, sent):
    import resource, tether_start
    tether_start.start_worker(parent, sent)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 27, 1 << 27))
from tether.auditing import workers
workers.tether_start = type("Little", (), {"start_worker": staticmethod(start_with_little)})
mdp = tether.cases.grid_world().mdp
log = [mdp.simulate("random", 4, rng=seed) for seed in range(8)]
try:
    tether.audit(mdp, log, policy="random", workers=2)
except tether.QueryError as error:
    print(error)
"""


def test_processes_that_cannot_start_are_told_in_a_sentence():
    """Memory runs out while they import the package: they say so, or die of it."""
    done = run([sys.executable, "-c", SHORT_OF_MEMORY])
    assert done.stderr == ""
    assert re.fullmatch(
        r"the processes of the audit ended before they were ready \(.+\), as where memory runs out; "
        r"use fewer workers \(workers=1\)\n",
        done.stdout,
    )


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("NUMBA_NUM_THREADS", "0", "NUMBA_NUM_THREADS is 0; expected a number from 1; set it, or remove it"),
        ("NUMBA_NUM_THREADS", "many", "NUMBA_NUM_THREADS is many; expected a number from 1; set it, or remove it"),
        ("SOURCE_DATE_EPOCH", "now", "SOURCE_DATE_EPOCH must be a number of seconds, not 'now'"),
    ],
)
def test_what_libraries_cannot_read_in_the_environment_is_refused(name, value, said):
    """NumPy reads SOURCE_DATE_EPOCH, and numba its threads, when they are imported."""
    done = run([sys.executable, "-m", "tether", "explain", "case:toy"], env={**os.environ, name: value})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"tether: {said}\n"
