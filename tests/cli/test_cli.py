"""The command line as a whole: help, errors, exit codes, widths, colours, and JSON from every command."""

import datetime
import json
import re
import shlex
from pathlib import Path

import click
import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from pages import undrawn
from pyarrow import ArrowException

import tether
from tether._foundation.words import shown
from tether.cli import main
from tether.cli.group import COMMANDS
from tether.cli.hints import hints
from tether.cli.screen import decimals, signed
from tether.explanation.answer_data import as_data
from tether.io.models import write_model
from tether.io.paths import write_path

PAGE = (Path(__file__).parent.parent.parent / "docs" / "command-line.md").read_text(encoding="utf-8")


def run(*arguments, **env):
    return CliRunner().invoke(main, [str(one) for one in arguments], env={"COLUMNS": "80", **env})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A directory with the model and the path of Grid World, and a log of episodes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "tether.explorer.server.Explorer.run", lambda self: self._socket.close()
    )  # no waiting for Ctrl-C
    grid = tether.cases.grid_world()
    write_model(grid.mdp, "model.csv")
    write_path(grid.path, "path.csv")
    rows = ["episode,t,state,action,reward"]
    for name, path in {"robot": grid.path, "other": grid.mdp.simulate("random", 11, rng=3)}.items():
        for t in range(path.T):
            reward = grid.mdp.reward(path.states[t], path.actions[t])
            rows.append(f"{name},{t},{path.states[t]},{path.actions[t]},{reward}")
        rows.append(f"{name},{path.T},{path.states[-1]},,")
    (tmp_path / "log.csv").write_text("\n".join(rows) + "\n")
    grouped = [f"{name}{row},{name}" for name in "ab" for row in rows[1:]]
    (tmp_path / "groups.csv").write_text("\n".join([f"{rows[0]},room", *grouped]) + "\n")
    with undrawn():
        yield tmp_path


# One call of every command.
CALLS = {
    "explain": ["explain", "case:grid-world", "-k", "6", "-m", "2"],
    "review": ["review", "case:grid-world"],
    "sweep": ["sweep", "case:grid-world"],
    "choose-k": ["choose-k", "case:grid-world", "-m", "1", "--at-least", "-100"],
    "why": ["why", "case:grid-world", "-t", "2", "-k", "3"],
    "what-if": ["what-if", "case:grid-world", "--at", "2=right"],
    "decisions": ["decisions", "case:grid-world", "-m", "2"],
    "certify": ["certify", "case:grid-world", "-k", "6", "-m", "1"],
    "robust": ["robust", "case:grid-world", "-k", "6", "-m", "1"],
    "evaluate": ["evaluate", "case:grid-world", "--policy", "optimal"],
    "sample": ["sample", "case:grid-world", "-k", "6", "-n", "7"],
    "report": ["report", "case:grid-world", "-k", "6", "-o", "page.html"],
    "check": ["check", "model.csv", "path.csv"],
    "convert": ["convert", "model.csv", "saved"],
    "simulate": ["simulate", "model.csv", "--steps", "5", "--seed", "1", "-o", "drawn.csv"],
    "learn": ["learn", "log.csv", "learned"],
    "audit": ["audit", "model.csv", "log.csv", "-o", "audited", "-k", "6", "--workers", "1"],
    "rules": ["rules", "model.csv", "log.csv", "-o", "ruled", "--workers", "1"],
    "evaluate-rule": ["evaluate-rule", "model.csv", "log.csv", "-o", "judged", "--where", "2", "--do", "left"],
    "compare": ["compare", "model.csv", "groups.csv", "--by", "room", "--episodes", "steps > 5"],
    "cases": ["cases", "toy", "toys"],
    "explore": ["explore", "case:grid-world", "--no-browser"],
    "demo": ["demo"],
    "reproduce": ["reproduce", "toy"],
}

# What only compiled kernels can do in a second: the demonstration has the sepsis model.
SLOW = {"demo"}


def each_command(*left_out):
    marks = {name: [pytest.mark.compiled] if name in SLOW else [] for name in CALLS}
    return [pytest.param(name, marks=marks[name], id=name) for name in CALLS if name not in left_out]


def test_every_command_is_called_below():
    assert set(CALLS) == set(COMMANDS)


def test_help_lists_every_command_and_the_exit_codes():
    help_text = run("--help").output
    for name in COMMANDS:
        assert re.search(rf"^  {name} +\S", help_text, re.MULTILINE), name
    for code in ("0 success", "1 check found", "2 wrong use or bad input", "130 interrupted"):
        assert code in " ".join(help_text.split())
    assert run("-h").output == help_text
    assert run("--version").output == f"tether, version {tether.__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_has_an_example_and_json(name):
    help_text = run(name, "--help").output
    assert re.search(rf"Examples?:\n +tether {name}", help_text), help_text
    assert "--json" in help_text
    assert all(len(line) <= 80 for line in help_text.splitlines())


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_of_help_are_calls_that_parse(name):
    """An example that names an option that does not exist would mislead."""
    help_text = run(name, "--help").output
    for line in re.findall(r"^ +tether (\S.*)$", help_text.partition("Example")[2], re.MULTILINE):
        first, *words = shlex.split(line)
        main.get_command(click.Context(main), first).make_context(first, words)


@pytest.mark.parametrize("name", each_command())
def test_in_a_pipe_no_line_is_wider_than_the_terminal_and_nothing_is_coloured(folder, name):
    """At 60 columns; what is printed at 80 is compared to the last sign with the pages of docs/ (tests/docs)."""
    done = run(*CALLS[name], COLUMNS="60")
    assert done.exit_code == 0, done.output
    assert max(len(line) for line in done.stdout.splitlines()) <= 60
    assert done.stdout.strip()
    assert "\x1b" not in done.output


def test_colours_are_where_they_are_wanted_and_not_where_they_are_not(folder):
    forced = run(*CALLS["sweep"], FORCE_COLOR="1", TERM="xterm-256color")
    assert "\x1b[38;5;16;48;5;" in forced.output  # shaded
    plain = run(*CALLS["sweep"], FORCE_COLOR="1", TERM="xterm-256color", NO_COLOR="1")
    assert "48;5" not in plain.output
    bare = run(*CALLS["sweep"])
    assert re.sub(r"\x1b\[[0-9;]*m", "", forced.output) == bare.output  # the same table, readable without colour
    few = run(*CALLS["sweep"], FORCE_COLOR="1", TERM="xterm-16color")
    assert "-897.0" in few.output


@pytest.mark.parametrize("name", each_command())
def test_json_is_json_and_every_field_is_on_the_page(folder, name):
    done = run(*CALLS[name], "--json")
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    if name == "reproduce":
        assert answer["sections"][0]["name"] == "toy"
        return
    assert (answer["command"], answer["version"]) == (name, tether.__version__)
    page = PAGE.partition("## JSON")[2]
    (row,) = re.findall(rf"^\| `{name}` \| (.*) \|$", page, re.MULTILINE)
    assert [field for field in answer if f"`{field}`" not in row] == ["command", "version"]
    nested = {field for part in ("tailoring", "beyond") for field in answer.get(part, {})}
    nested |= {field for step in (answer["steps"] if name in ("explain", "evaluate") else []) for field in step}
    assert [field for field in nested if isinstance(field, str) and f"`{field}`" not in page] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fly"], "No such command 'fly'"),
        (["explain"], "Missing argument 'MODEL'"),
        (["explain", "model.csv"], "PATH is missing"),
        (["explain", "sepsis"], "sepsis: there is no such file; did you mean case:sepsis?"),
        (["explain", "case:toy", "-k", "0"], "0 is not in the range x>=1"),
        (["explain", "case:toy", "-m", "-1"], "-1 is not in the range x>=0"),
        (["explain", "case:toy", "--rule", "mine"], "'mine' is not one of 'definition'"),
        (["explain", "case:toy", "--influence", "tv:2"], "eps must be a number with 0 ≤ eps < 1"),
        (["explain", "case:toy", "--influence", "tv:x"], "'tv:x' is not 'support', 'tv:EPS' or 'effective:EPS'"),
        (["explain", "case:toy", "--influence", "much"], "'much' is not 'support'"),
        (["explain", "case:toy", "--rule", "printed", "--influence", "tv:0.5"], "tether: "),
        (["explain", "case:toy", "--discount", "2"], "discount must be a number from 0 to 1, not 2.0"),
        (["explain", "case:toy", "--features", "S"], "the states have no S; their names have no named"),
        (["explain", "case:toy", "--features", ","], "no part of a state is named"),
        (["explain", "case:toy", "--draws", "5"], "this model was not learned from episodes"),
        (["explain", "model.csv", "path.csv", "--column", "state"], "expected OURS=YOURS, as in state=s"),
        (["explain", "model.csv", "path.csv", "--column", "state=s"], "(On the command line: --column OURS=YOURS"),
        (["explain", "model.csv", "path.csv", "--format", "xls"], "there is no format 'xls'; there are csv"),
        (["explain", "model.csv", "path.csv", "--order", "ass"], "order= does not apply to the format csv"),
        (["explain", "model.csv", "log.csv"], "(On the command line: name one of its episodes, FILE#ID.)"),
        (["explain", "model.csv", "log.csv#bob"], "there is no episode 'bob'; there are 2 episodes"),
        (["sweep", "case:toy", "-k", "3-1"], "expected numbers and ranges, as in 2,3,7-9"),
        (["sweep", "case:toy", "-k", "x"], "expected numbers and ranges"),
        (["sweep", "case:toy", "-k", "0"], "ks must be a whole number ≥ 1, not 0"),
        (["choose-k", "case:toy", "-m", "1"], "give the value to reach with --at-least"),
        (["choose-k", "case:toy", "-m", "1", "--at-least", "nan"], "at_least must be a finite number"),
        (["why", "case:toy", "-t", "9", "-k", "1"], "t must be a whole number from 0 to 3, not 9"),
        (["why", "case:toy", "-t", "0", "-k", "1", "--action", "a9"], "the model has no action 'a9'"),
        (["why", "case:toy", "-t", "0", "-k", "1", "--state", "s9"], "the model has no state 's9'"),
        (["why", "case:toy", "-t", "0", "-k", "1", "--uninfluenced", "2"], "tether: "),
        (["evaluate", "case:toy", "--policy", "best"], "a policy by name is optimal, observed, random"),
        (["check", "nowhere.csv"], "tether: nowhere.csv: there is no such file"),
        (["check", "model.csv", "nowhere.csv"], "tether: nowhere.csv: there is no such file"),
        (["convert", "model.csv", "model.xls"], "the name does not say what format this is in"),
        (["convert", "model.csv", "no/where.csv"], "tether: no/where.csv: "),
        (["simulate", "model.csv"], "(On the command line: --steps 10.)"),
        (["simulate", "model.csv", "--steps", "2", "--start", "99"], "the model has no state '99'"),
        (["simulate", "model.csv", "--steps", "2", "--policy", "observed"], "needs an observed episode"),
        (["simulate", "model.csv", "--steps", "2", "-n", "2", "-o", "log.json"], "log.json: the name does not say"),
        (["learn", "nolog.csv", "out"], "tether: nolog.csv: there is no such file"),
        (["learn", "log.csv", "out.csv"], "a name without a suffix is a saved model"),
        (["learn", "log.csv", "out", "--prior", "-1"], "tether: "),
        (["learn", "path.csv", "out"], "the column 'episode' is missing"),
        (["cases", "toy"], "OUT is missing"),
        (["cases", "moon"], "there is no case 'moon'; there are case:ward, case:toy, "),
        (["cases", "moon", "out"], "there is no case 'case:moon'"),
        (["cases", "toy", "."], "it exists and is not an empty directory"),
        (["cases", "toy", "model.csv"], "it exists and is not an empty directory"),
        (["report", "case:toy", "-o", "no/page.html"], "tether: no/page.html: "),
        (["sample", "case:toy", "-n", "0"], "0 is not in the range x>=1"),
        (["sample", "case:toy", "-o", "log.xls"], "tether: log.xls: "),
    ],
)
def test_wrong_use_and_bad_input_are_a_sentence_and_write_nothing(folder, arguments, message):
    before = sorted(folder.rglob("*"))
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.output
    assert sorted(folder.rglob("*")) == before


def test_an_error_of_the_system_is_a_sentence(monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied", "secret.csv")

    monkeypatch.setattr("tether.io.open_model", refuse)
    done = run("check", "case:toy")
    assert (done.exit_code, done.stderr) == (2, "tether: secret.csv: Permission denied\n")


def test_too_little_memory_is_a_sentence(monkeypatch):
    def fill(*_, **__):
        raise MemoryError

    monkeypatch.setattr("tether.io.open_model", fill)
    done = run("sweep", "case:toy")
    assert done.exit_code == 2
    assert done.stderr.startswith("tether: there is not enough memory while reading case:toy")


@pytest.mark.parametrize(
    "error",
    [
        ImportError("libarrow_compute.so.2600: failed to map segment from shared object"),
        ImportError("bad install\n\nOriginal error was: libgfortran.so.5: failed to map segment from shared object\n"),
        OSError(12, "Cannot allocate memory"),
        RuntimeError("can't start new thread"),
        ArrowException("Unknown error: Failed to launch worker thread: Resource temporarily unavailable"),
    ],
)
def test_too_little_memory_to_load_a_library_is_a_sentence(monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("tether.io.open_model", fail)
    done = run("sweep", "case:toy")
    assert done.exit_code == 2
    last = str(error).strip().splitlines()[-1]
    assert done.stderr.startswith(f"tether: there is not enough memory while reading case:toy ({last})")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("error", [ImportError("no module named 'pyarow'"), RuntimeError("a fault of ours")])
def test_other_errors_are_not_called_too_little_memory(monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("tether.io.open_model", fail)
    done = run("sweep", "case:toy")
    assert done.exception is error


def test_too_little_memory_names_what_it_was_too_little_for(monkeypatch):
    def fill(*_, **__):
        raise MemoryError("Unable to allocate 3 GiB")

    monkeypatch.setattr(tether.records.CounterfactualMDP, "sweep", fill)
    stderr = run("sweep", "case:toy").stderr
    assert "not enough memory while planning for every k and m (Unable to allocate 3 GiB); fewer k and m" in stderr
    monkeypatch.setattr("tether.io.open_model", fill)
    stderr = run("sweep", "case:toy").stderr
    assert "while reading case:toy (Unable to allocate 3 GiB); a saved model (tether convert MODEL FILE)" in stderr


@pytest.mark.parametrize(
    ("typed", "meant"), [("explian", "explain"), ("choosek", "choose-k"), ("choose_k", "choose-k"), ("Sweep", "sweep")]
)
def test_a_mistyped_command_gets_a_suggestion(typed, meant):
    done = run(typed, "case:toy")
    assert done.exit_code == 2
    assert f"No such command {typed!r}. Did you mean {meant!r}?" in done.stderr


def test_a_mistyped_option_gets_a_suggestion():
    assert "Did you mean '--rule'?" in run("explain", "case:toy", "--rulle", "assured").stderr


def test_an_interrupt_is_not_an_error_of_ours(monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("tether.io.open_model", interrupt)
    done = run("sweep", "case:toy")
    assert (done.exit_code, done.stderr) == (130, "\ntether: interrupted\n")


def test_a_reader_that_has_gone_is_no_error(monkeypatch):
    def gone(*_, **__):
        raise BrokenPipeError

    monkeypatch.setattr("tether.cli.screen.put", gone)
    done = run("choose-k", "case:toy", "-m", "1", "--at-least", "0")
    assert (done.exit_code, done.output) == (0, "")


def test_labels_are_shown_as_text_that_cannot_move_the_cursor():
    assert shown("plain → label") == "plain → label"
    assert shown("a\x1b[2Jb\n") == "a\\x1b[2Jb\\n"
    assert shown((1, "x")) == "(1, 'x')"


def test_numbers_are_shown_as_precisely_as_they_need():
    assert [decimals([value]) for value in (0.5, 12.0, 1234.5, 99999.0)] == [4, 2, 1, 0]
    assert decimals([]) == decimals([float("-inf")]) == 4
    assert [signed(value, 2) for value in (1.5, -0.25, 0.0, -0.001, 1234.5)] == [
        "+1.50",
        "-0.25",
        "0",
        "0",
        "+1,234.50",
    ]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        (True, True),
        (7, 7),
        (2**80, str(2**80)),
        (0.1, 0.1),
        (float("-inf"), None),
        ("é", "é"),
        ("\ud800", "\\ud800"),
        ((1, ("a", 2.5)), [1, ["a", 2.5]]),
        (tether.cases.epidemic().path.states[0], {"S": 9, "I": 1, "V": 20}),
        (datetime.date(2024, 5, 1), "2024-05-01"),
        (frozenset(), "frozenset()"),
    ],
)
def test_every_label_is_a_json_value(given, expected):
    assert json.loads(msgspec.json.encode(as_data(given))) == expected


def test_hints_say_what_python_says_in_words_of_the_command_line():
    order = tether.errors.Problem("P has shape (2, 2, 2)", fix="say which it is: order='SAS'", argument="order")
    assert hints([order, order, tether.errors.Problem("nothing of this kind")]) == [
        "(On the command line: --order AXES.)"
    ]


def test_an_array_file_without_rewards_is_no_dead_end(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("model.npz", P=np.ones((2, 1, 1)))
    done = run("check", "model.npz")
    assert done.exit_code == 1
    told = " ".join(done.output.split())
    assert "there is no array 'R'" in told
    assert "(On the command line: --column R=NAME, or --column R= if there are none.)" in told
    assert run("check", "model.npz", "--column", "R=", "--order", "ASS").exit_code == 0
