"""``tether explore``: what it offers, what it prints, how it stops."""

import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

import tether
from tether.cli import main
from tether.explorer.offered import Cases, LogEpisodes, OfTypes, One
from tether.io.models import write_model
from tether.io.paths import write_path

pytestmark = pytest.mark.compiled

WARD = Path(__file__).parent.parent.parent / "examples" / "ward.csv"


@pytest.fixture
def served(monkeypatch):
    """What was served, in place of serving it."""
    found = []

    def run(explorer):
        explorer._socket.close()
        found.append(explorer)

    monkeypatch.setattr("tether.explorer.server.Explorer.run", run)
    return found


def explore(*words):
    return CliRunner().invoke(main, ["explore", "--no-browser", *map(str, words)])


def test_without_arguments_the_cases(served):
    done = explore()
    assert done.exit_code == 0
    assert isinstance(served[0].offered, Cases)
    assert done.stdout == f"{served[0].address}\n"  # on a line of its own
    assert done.stdout.startswith("http://127.0.0.1:")


def test_a_directory_of_types(served, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    grid = tether.cases.grid_world()
    tether.Types({"one": grid.mdp, "same": grid.mdp}, prior={"one": 0.3, "same": 0.7}).save("types")
    write_path(grid.path, "path.csv")
    assert explore("types", "path.csv").exit_code == 0
    offered = served[-1].offered
    assert isinstance(offered, OfTypes)
    assert offered.names == ("same", "one")
    assert offered.cf.posterior == pytest.approx({"one": 0.3, "same": 0.7})
    refused = explore("types")
    assert refused.exit_code == 2
    assert "expected TYPES PATH" in refused.stderr
    assert "are not for types" in explore("types", "path.csv", "--horizon", "20").stderr
    one_model = CliRunner().invoke(main, ["sweep", "types", "path.csv"])
    assert one_model.exit_code == 2
    assert "several hidden types" in one_model.stderr


def test_a_model_and_a_path_or_a_log(served, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    grid = tether.cases.grid_world()
    write_model(grid.mdp, "model.csv")
    write_path(grid.path, "path.csv")
    assert explore("model.csv", "path.csv", "--discount", "0.9").exit_code == 0
    one = served[-1].offered
    assert isinstance(one, One)
    assert one.opening.command == ("model.csv", "path.csv", "--discount", "0.9")
    names: dict = {}
    exec("\n".join(one.opening.python), names)
    assert names["path"] == one.cf.path
    assert names["mdp"].discount == 0.9
    tether.learn(tether.io.read_episodes(WARD), prior=1).save("ward")
    assert explore("ward", WARD).exit_code == 0
    log = served[-1].offered
    assert isinstance(log, LogEpisodes)
    entry = log.entry("3")
    assert entry.opening.command == ("ward", f"{WARD}#{log.episodes.ids[3]}")
    exec("\n".join(entry.opening.python), names)
    assert names["path"] == log.episodes[log.episodes.ids[3]]


def test_a_log_ranked_by_its_audit(served, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = tether.io.read_episodes(WARD)
    mdp = tether.learn(log, prior=1)
    mdp.save("ward")
    found = tether.audit(mdp, WARD, k=2, where="steps > 2", out="audit")
    assert 0 < len(found) < len(log)
    assert explore("ward", WARD, "--audit", "audit").exit_code == 0
    listed = served[-1].offered.listed()
    top = found.top(1).to_pylist()[0]
    assert listed[0].name == str(top["episode"])
    gain = f"hindsight gains {top['gain']:.4g}, {top['verdict']}" if top["gain"] > 0 else "nothing to gain"
    assert listed[0].about == f"mistakes cost {top['claimed']:.4g}, {gain}"
    assert {one.about for one in listed[len(found) :]} == {"no answer in the audit"}
    assert len(listed) == len(log)
    tether.audit(mdp, WARD, k=2, m=0, out="none")
    assert explore("ward", WARD, "--audit", "none").exit_code == 0
    assert {one.about.rsplit(", ")[-1] for one in served[-1].offered.listed()} == {"nothing to gain"}
    assert "goes with a log" in explore("case:toy", "--audit", "audit").stderr
    (tmp_path / "empty").mkdir()
    assert "there is no audit in this directory" in explore("ward", WARD, "--audit", "empty").stderr
    (tmp_path / "audit" / "episodes.parquet").write_bytes(b"PAR1")
    assert "not what the audit wrote" in explore("ward", WARD, "--audit", "audit").stderr


def test_what_cannot_be_served_is_said(served):
    done = explore("missing.csv", "path.csv")
    assert (done.exit_code, served) == (2, [])
    assert "no such file" in done.stderr
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = explore("case:toy", "--port", taken.getsockname()[1])
        assert done.exit_code == 2
        assert "cannot listen" in done.stderr


def test_another_address_is_asked_for_and_warned_about(served):
    done = explore("case:toy", "--listen", "0.0.0.0")
    assert "warning" in done.stderr
    assert "other machines" in done.stderr
    assert "warning" not in explore("case:toy").stderr


@pytest.mark.skipif(os.name == "nt", reason="signals are others there")
def test_ctrl_c_ends_it(tmp_path):
    """In a process of its own: it answers, and one Ctrl-C ends it, quietly and at once."""
    command = [sys.executable, "-m", "tether", "explore", "case:toy", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    address = process.stdout.readline().strip()
    with urllib.request.urlopen(address, timeout=120) as answer:
        assert answer.status == 200
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(address[:-1] + "x", timeout=120)
    process.send_signal(signal.SIGINT)
    _, output = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert "Traceback" not in output
