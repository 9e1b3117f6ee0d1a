"""What a person at a terminal sees while a command works."""

import io
import time

from commands import run
from rich.console import Console

from tether._kernels.compiling import compiling
from tether.cli import screen


def test_that_kernels_are_compiled_is_said_while_it_lasts(monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr(screen, "Console", lambda **_options: Console(file=shown, force_terminal=True))
    monkeypatch.setattr(screen, "_PATIENCE", 0.0)

    def waited_for(words: str) -> bool:
        latest = time.monotonic() + 10
        while words not in shown.getvalue() and time.monotonic() < latest:
            time.sleep(0.01)
        return words in shown.getvalue()

    with screen.progress() as say:
        say("planning")
        assert waited_for("planning …")
        with compiling():
            assert waited_for("compiling (once) …")
        shown.truncate(0)
        assert waited_for("planning …")


def test_nobody_is_told_in_a_pipe(monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr(screen, "Console", lambda **_options: Console(file=shown, force_terminal=False))
    with screen.progress() as say, compiling():
        say("planning")
    assert shown.getvalue() == ""


def test_the_name_of_a_file_stays_in_one_piece(tmp_path):
    folder = tmp_path / ("long-" * 30)
    folder.mkdir()
    file = folder / "m.csv"
    file.write_text("state,action,next_state,probability\na,x,a,0.5\n")
    assert str(file) in run("check", file, code=1)
    file.write_text("state,action,next_state,probability\na,x,a,1\n")
    assert str(folder / "m.drn") in run("convert", file, folder / "m.drn")
