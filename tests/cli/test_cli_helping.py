"""``--help`` in groups; errors broken at words; what a log calls its things, in every command that speaks of them."""

import re

import click
import pytest
from click.testing import CliRunner
from commands import run, words

from tether.cli.group import COMMANDS, main
from tether.cli.helping import Grouped

OWN = [name for name, module in COMMANDS.items() if module is not None]


@pytest.mark.parametrize("name", OWN)
def test_options_stand_in_groups(name):
    command = main.get_command(click.Context(main), name)
    assert isinstance(command, Grouped)
    shown = re.split(r"^  Examples?:$", run(name, "--help"), flags=re.MULTILINE)[0]
    groups = re.split(r"^(?=\w[\w ]+:$)", shown, flags=re.MULTILINE)[1:]
    counts = {part.partition(":")[0]: len(re.findall(r"^  -", part, re.MULTILINE)) for part in groups}
    assert sum(counts.values()) == sum(isinstance(one, click.Option) for one in command.params) + 1  # and --help
    assert max(counts.values()) <= 15, counts
    if name == "explain":
        assert list(counts) == [
            *("Options", "A type that was never recorded", "How sure it is", "Words and pages"),
            *("Reading what happened", "Reading MODEL"),
        ]


@pytest.mark.parametrize(
    "call",
    [
        ("explain", "/there/is/no/such/place/model.csv", "path.csv"),
        ("explain", "case:ward", "--objective", "win"),
        ("explain", "case:ward", "case:nowhere"),
    ],
)
def test_in_a_terminal_errors_are_broken_at_words(call):
    def said(**terminal):
        done = CliRunner().invoke(main, call, env={"COLUMNS": "80", **terminal})
        assert done.exit_code == 2
        return done.stderr

    lines = said(FORCE_COLOR="1").splitlines()
    assert max(map(len, lines)) <= 80
    assert " ".join(" ".join(lines).split()) == " ".join(said().split())
    assert len(said().splitlines()) < len(lines)  # a pipe gets the sentence in one line


@pytest.mark.parametrize(
    "call",
    [
        ("explain", "case:ward", "-k", 1),
        ("review", "case:ward"),
        ("decisions", "case:ward"),
        ("sample", "case:ward", "-k", 1),
        ("certify", "case:ward", "-k", 1),
        ("what-if", "case:ward", "--at", "3=treat"),
        ("evaluate", "case:ward", "--policy", "optimal"),
        ("simulate", "case:ward", "--steps", 4, "-n", 3, "--seed", 1),
    ],
)
def test_the_log_s_own_names(call):
    plain, named = words(*call), words(*call, "--episode-name", "client", "--step-name", "visit")
    assert ("client" in named) or ("visit" in named)
    assert "this patient" not in named
    assert not re.search(r"\b(this|each) episode\b|\bat step\b|\d steps\b", named), named
    assert len(named.split()) == len(plain.split())


def test_names_of_files_and_options_keep_their_words(tmp_path):
    file = tmp_path / "step-episodes.csv"
    file.write_text("state,action,next_state,probability\na,go,b,1\n")
    assert "step-episodes.csv" in run("check", file, "--step-name", "visit", "--episode-name", "client", code=1)
