"""What is said while a command works."""

import io
import time

import pytest
from commands import run
from rich.console import Console

from tether.cli import screen


def test_why_the_first_answer_takes_long_is_said_while_it_lasts(monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr(screen, "Console", lambda **_options: Console(file=shown, force_terminal=True, width=200))
    monkeypatch.setattr(screen, "_PATIENCE", 0.0)

    def waited_for(words: str) -> bool:
        latest = time.monotonic() + 60
        while words not in shown.getvalue() and time.monotonic() < latest:
            time.sleep(0.01)
        return words in shown.getvalue()

    monkeypatch.setattr(screen, "_LONG", 600.0)
    with screen.progress() as say:
        say("planning")
        assert waited_for("planning …")
        assert "compiles" not in shown.getvalue()
    monkeypatch.setattr(screen, "_LONG", 0.3)
    with screen.progress() as say:
        say("planning")
        assert waited_for("planning … (the first answer of an installation compiles code, once: about half a minute)")


def test_nobody_is_told_in_a_pipe(monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr(screen, "Console", lambda **_options: Console(file=shown, force_terminal=False))
    with screen.progress() as say:
        say("planning")
    assert shown.getvalue() == ""


@pytest.mark.parametrize("name", ["long-" * 30, "a name with spaces " * 8 + "and an end"])
def test_the_name_of_a_file_stays_in_one_piece(tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    file = folder / "m.csv"
    file.write_text("state,action,next_state,probability\na,x,a,0.5\n")
    assert str(file) in run("check", file, code=1)
    file.write_text("state,action,next_state,probability\na,x,a,1\n")
    assert str(folder / "m.drn") in run("convert", file, folder / "m.drn")
