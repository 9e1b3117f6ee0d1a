"""The command line as a process: Ctrl-C, a pipe that closes, a start that loads nothing it does not need."""

import contextlib
import json
import os
import re
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tether
from tether.io import convert

with contextlib.suppress(ImportError):  # where there are no such terminals, these tests are left out
    import fcntl
    import pty
    import termios

TETHER = [sys.executable, "-m", "tether"]

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals and pipes as POSIX has them")


def start(*arguments, **options):
    env = {**os.environ, "COLUMNS": "80", "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        [*TETHER, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, **options
    )


def test_help_loads_neither_compilers_nor_figures_nor_arrow():
    code = (
        "import sys; sys.argv = ['tether', '--help']\n"
        "from tether.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'numba', 'matplotlib', 'pyarrow', 'scipy', 'rich', 'pandas'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "choose-k" in done.stdout


def test_the_installed_command_is_this_one():
    from importlib.metadata import entry_points

    (entry,) = entry_points(group="console_scripts", name="tether")
    assert entry.value == "tether_start:main"
    from tether_start import main

    assert entry.load() is main


def test_too_little_address_space_is_said_before_a_library_crashes_in_it():
    import resource

    little = 300 << 20
    done = subprocess.run(
        [sys.executable, "-c", "import tether_start; tether_start.main()", "--help"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (little, little)),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = "tether: this process may use 300 MB of address space, and needs 1,024 MB; raise the limit: ulimit -v"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{said} unlimited\n")


def test_a_limit_of_address_space_leaves_room_for_all_libraries(tmp_path):
    """Arrow's own allocator would reserve 1 GB at once: of 1.6 GB too little was left for the others, which crashed."""
    import resource

    convert(tether.cases.toy().mdp, tmp_path / "toy.csv")  # Arrow reads it
    limit = 1600 << 20
    env = {name: value for name, value in os.environ.items() if name != "ARROW_DEFAULT_MEMORY_POOL"}
    done = subprocess.run(
        [sys.executable, "-c", "import tether_start; tether_start.main()", "explain", tmp_path / "toy.csv", "case:toy"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        env={**env, "NUMBA_NUM_THREADS": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "toy" in done.stdout


def test_ctrl_c_while_it_starts_is_no_traceback(tmp_path):
    """The signal comes in the middle of an import: from a stand-in for a package that is loaded at the start."""
    (tmp_path / "click.py").write_text(
        "import os, signal, time\n"
        "try: os.kill(os.getpid(), signal.SIGINT); time.sleep(60)\n"
        "except BaseException as error: raise ImportError from error\n"
    )
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    code = "from tether_start import main; main()"  # what the installed command does
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=env, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"\ntether: interrupted\n")


def test_too_little_memory_to_start_is_a_sentence(tmp_path):
    """From a stand-in for a package that is loaded at the start."""
    (tmp_path / "click.py").write_text("raise ImportError('libz.so: failed to map segment from shared object')\n")
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    code = "from tether_start import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=env, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (2, b"", b"tether: there is not enough memory to start\n")


def test_python_runs_the_package_as_the_command():
    done = subprocess.run([sys.executable, "-m", "tether", "--version"], capture_output=True, check=True)
    assert done.stdout == f"tether, version {tether.__version__}\n".encode()


def test_the_documented_completion_completes_commands():
    env = {**os.environ, "COMP_WORDS": "tether expla", "COMP_CWORD": "1", "_TETHER_COMPLETE": "bash_complete"}
    done = subprocess.run([*TETHER], capture_output=True, env=env, check=True, text=True)
    assert done.stdout == "plain,explain\n"


def test_a_pipe_that_closes_is_no_error():
    with start("sample", "case:toy", "-n", "20000", "--json") as process:
        assert process.stdout.read(10) == b'{"command"'
        process.stdout.close()
        stderr = process.stderr.read()
        assert (process.wait(timeout=120), stderr) == (0, b"")


def test_a_pipe_that_closes_before_anything_is_printed():
    with start("sweep", "case:toy") as process:
        process.stdout.close()
        stderr = process.stderr.read()
        assert (process.wait(timeout=120), stderr) == (0, b"")


@pytest.fixture
def learned(tmp_path):
    """A learned model and a path of it, about which so much can be asked that there is time to interrupt."""
    from tether.io.paths import write_path
    from tether.learning.learn import learn

    grid = tether.cases.grid_world()
    mdp = learn([grid.mdp.simulate("random", 11, rng=seed) for seed in range(100)] + [grid.path], prior=1)
    mdp.save(tmp_path / "learned")
    write_path(grid.path, tmp_path / "path.csv")
    return tmp_path


@pytest.mark.skipif(sys.platform != "linux", reason="needs a pseudo-terminal")
def test_progress_is_shown_to_a_person_and_ctrl_c_stops_the_work(learned):
    screen, terminal = pty.openpty()
    call = [*TETHER, "explain", "learned", "path.csv", "-k", "4", "--draws", "100000"]
    shown = b""
    with subprocess.Popen(call, stdout=subprocess.PIPE, stderr=terminal, cwd=learned) as process:
        os.close(terminal)
        latest = time.monotonic() + 120
        while time.monotonic() < latest and b"drawing models that the log leaves possible: " not in shown:
            shown += os.read(screen, 4096)
        process.send_signal(signal.SIGINT)
        out = process.stdout.read()
        shown = b""
        with contextlib.suppress(OSError):  # the terminal was closed from the other side
            while got := os.read(screen, 4096):
                shown += got
    os.close(screen)
    assert (process.returncode, out) == (130, b"")
    assert shown.endswith(b"tether: interrupted\r\n")
    assert b"Traceback" not in shown


def test_ctrl_c_while_a_file_is_written_leaves_what_was_there(tmp_path):
    """The writer is stopped in the middle: by a signal to itself, when half of the file is there."""
    (tmp_path / "out.html").write_text("what was there")
    code = (
        "import os, pathlib, signal, sys, time\n"
        "def half(file, text, **options):\n"
        "    with open(file, 'w') as stream: stream.write(text[:1000])\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(60)\n"
        "pathlib.Path.write_text = half\n"
        "from tether.cli import main\n"
        "sys.argv = ['tether', 'report', 'case:toy', '-o', 'out.html']\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=tmp_path, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (130, b"\ntether: interrupted\n")
    assert [file.name for file in tmp_path.iterdir()] == ["out.html"]
    assert (tmp_path / "out.html").read_text() == "what was there"


def test_an_encoding_that_lacks_signs_is_no_crash():
    env = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run([*TETHER, "explain", "case:toy"], capture_output=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    assert b"s0 ? a0" in done.stdout
    as_json = subprocess.run([*TETHER, "explain", "case:toy", "--json"], capture_output=True, env=env, check=False)
    assert json.loads(as_json.stdout)["command"] == "explain"


@pytest.mark.skipif(sys.platform != "linux", reason="needs a pseudo-terminal")
@pytest.mark.parametrize("columns", [60, 80])
def test_in_a_terminal_of_that_width(columns):
    """A real terminal: as wide as it says, not as COLUMNS says; with colours, and no line that wraps."""
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    env["TERM"] = "xterm-256color"
    call = [*TETHER, "sweep", "case:grid-world"]
    with subprocess.Popen(call, stdout=terminal, stderr=terminal, stdin=terminal, env=env) as process:
        os.close(terminal)
        text = b""
        with contextlib.suppress(OSError):  # the terminal was closed from the other side
            while got := os.read(screen, 65536):
                text += got
    os.close(screen)
    assert process.returncode == 0
    assert b"48;5;" in text  # shaded
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.decode())
    lines = [line.split("\r")[-1] for line in plain.replace("\r\n", "\n").split("\n")]
    assert max(len(line) for line in lines) <= columns
    assert any("548.12" in line for line in lines)


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_standard_stream_that_is_closed_is_no_traceback(closed):
    done = subprocess.run(
        f"'{sys.executable}' -m tether check case:toy {closed}", shell=True, capture_output=True, text=True, check=True
    )
    assert "Traceback" not in done.stderr
    assert ("a sound model" in done.stdout) == (closed == "2>&-")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is always full")
@pytest.mark.parametrize("words", [["check", "case:toy"], ["audit", "--help"], ["--version"], ["--help"]])
def test_an_output_on_a_full_disk_is_a_sentence(words):
    with open("/dev/full", "w") as full:
        done = subprocess.run([*TETHER, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "tether: No space left on device\n")


def test_figures_need_no_backend(tmp_path):
    """They go into files, so one that is not installed does not matter."""
    env = {**os.environ, "MPLBACKEND": "nowhere"}
    subprocess.run(
        [*TETHER, "report", "case:toy", "-o", tmp_path / "toy.html"], env=env, capture_output=True, check=True
    )
    assert (tmp_path / "toy.html").stat().st_size > 0
