"""docs/command-line.md says what the command line does: its examples run and print what it shows, in order."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from tether.cli import main
from tether.cli.group import COMMANDS

PAGE = Path(__file__).parent.parent.parent / "docs" / "command-line.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(?P<kind>\w+)(?: (?P<file>\S+))?\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


def calls(body):
    """Each call of a block, and what the page shows it to print."""
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        call, _, shown = part.partition("\n")
        yield shlex.split(call), shown


def alike(text):
    """Without what changes from version to version."""
    return re.sub(r'"version":"[^"]*"', '"version":""', text)


@pytest.mark.compiled
def test_the_examples_print_what_the_page_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    ran = 0
    for block in BLOCK.finditer(TEXT):
        if block["kind"] == "csv":
            Path(block["file"]).write_text(block["body"], encoding="utf-8")
        for (program, *arguments), shown in calls(block["body"]) if block["kind"] == "console" else ():
            assert program == "tether"
            done = CliRunner().invoke(main, arguments)
            assert done.exit_code in (0, 1), done.output
            if shown.strip() != "…":
                assert alike(done.output) == alike(shown), arguments
            if "--json" not in arguments:
                assert max(map(len, done.output.splitlines()), default=0) <= 80, done.output
            ran += 1
    assert ran >= len(COMMANDS) - 2


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_place_on_the_page(name):
    headings = re.findall(r"^## (.*)$", TEXT, re.MULTILINE)
    assert any(name in heading.split() for heading in headings)
    assert f"`tether {name}`" in TEXT


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_on_the_page(name):
    """But for --help and --json, which all have."""
    import click

    command = main.get_command(click.Context(main), name)
    for parameter in command.params:
        longest = max(parameter.opts, key=len)
        if isinstance(parameter, click.Option) and longest != "--json":
            assert any(re.search(rf"`{option}[ `]", TEXT) for option in parameter.opts), longest
