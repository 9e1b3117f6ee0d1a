"""A user's script with types: it runs, and type checkers accept it. mypy reads it in `make types`."""

import json
import pathlib
import runpy
import subprocess
import sys
import tomllib

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "typed_user.py"


def test_the_script_runs(capsys):
    runpy.run_path(str(SCRIPT), run_name="__main__")
    assert capsys.readouterr().out.startswith("right ")


def test_mypy_reads_it_strictly():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
    assert settings["strict"]
    assert SCRIPT.relative_to(ROOT).as_posix() in settings["files"]


def test_pyright_accepts_it():
    """Where pyright is installed: ``pip install 'pyright[nodejs]'``."""
    pytest.importorskip("pyright")
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout)
    assert [one["message"] for one in found["generalDiagnostics"]] == []
    assert found["summary"]["filesAnalyzed"] == 1
