"""README's commands run, from a copy of the repository's examples, and print what it shows."""

import contextlib
import re
import runpy
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from pages import undrawn

import tether
from tether.cli import main

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(console|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.compiled
def test_the_commands_run_and_print_what_is_shown(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("tether.views.audit.audit_page._REPORTS", 1)
    output, ran = "", []
    for kind, body in BLOCK.findall(TEXT):
        if kind == "text":
            for part in body.split("…\n"):
                assert part in output
            continue
        for line in body.splitlines():
            program, *arguments = shlex.split(line.split("  #")[0])
            if program != "make":
                assert program == "tether"
                if arguments[0] == "explore":  # it serves until it is stopped; tests/explorer
                    continue
                # The reports beside an audit have tests in tests/views: here one, without drawings.
                with undrawn() if arguments[0] == "audit" else contextlib.nullcontext():
                    done = CliRunner().invoke(main, arguments)
                assert done.exit_code == 0, (line, done.output)
                output = done.output
                ran.append(line)
    assert sum("explain" in line for line in ran) == 5  # FrozenLake, ICU-Sepsis, a PRISM model, a log, a property
    assert (tmp_path / "patient.html").stat().st_size < 1e6


def test_the_ward_is_what_its_program_makes(tmp_path):
    made = runpy.run_path(str(ROOT / "examples" / "make_ward.py"))["patients"]()
    tether.io.write_episodes(made, tmp_path / "ward.csv")
    assert (tmp_path / "ward.csv").read_bytes() == (ROOT / "examples" / "ward.csv").read_bytes()


def test_what_it_links_to_is_there():
    for target in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert (ROOT / target).exists(), target
