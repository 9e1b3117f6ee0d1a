"""The commands on the pages of docs/ print what is shown below them, in the files that the page made before.

Blocks fenced as ```console hold calls after ``$``, and their output; ``…`` stands for what is left out. Those of
docs/command-line.md have a test of their own.
"""

import re
import shlex
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner
from test_documentation import Block, is_all_python, run

from tether.cli import main

DOCS = Path(__file__).parent.parent.parent / "docs"
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<kind>python|console)[ ]*\n(?P<body>.*?)^(?P=indent)```[ ]*$", re.MULTILINE | re.DOTALL
)
PAGES = [file for file in sorted(DOCS.glob("*.md")) if not is_all_python(file)]


def calls(body):
    """Each call of a block, without comment and broken lines, and what the page shows it to print."""
    for part in re.split(r"^\$ ", body.replace("\\\n", ""), flags=re.MULTILINE)[1:]:
        call, _, shown = part.partition("\n")
        yield shlex.split(re.sub(r"\s+# .*", "", call)), shown


def matches(shown, printed):
    """Whether that was printed, whatever stands where the page has ``…``."""
    pattern = ".*".join(re.escape(part) for part in shown.strip().split("…"))
    return re.fullmatch(pattern, printed.strip(), flags=re.DOTALL) is not None


@pytest.mark.compiled
@pytest.mark.parametrize("page", PAGES, ids=lambda file: file.name)
def test_commands_print_what_the_page_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    text, namespace = page.read_text(encoding="utf-8"), {"__name__": "__main__"}
    for block in FENCE.finditer(text):
        body = textwrap.dedent(block["body"])
        if block["kind"] == "python":
            run(Block(text.count("\n", 0, block.start("body")) + 1, body), str(page), namespace)
            continue
        for (program, *arguments), shown in calls(body):
            if program != "pip":  # nothing is installed here
                assert program == "tether"
                done = CliRunner().invoke(main, arguments)
                assert done.exit_code == 0, done.output
                assert matches(shown, done.output), f"tether {shlex.join(arguments)}\n{done.output}"
                if "--json" not in arguments:
                    assert max(map(len, done.output.splitlines()), default=0) <= 80, done.output


def test_pages_with_commands_are_found():
    assert {"start.md", "learning-from-logs.md", "own-files.md"} <= {page.name for page in PAGES}


def test_calls_are_taken_apart():
    body = "$ pip install .   # all of it\n$ tether learn log.csv#10 \\\n    out\nDone.\n\nWell.\n"
    assert list(calls(body)) == [
        (["pip", "install", "."], ""),
        (["tether", "learn", "log.csv#10", "out"], "Done.\n\nWell.\n"),
    ]


@pytest.mark.parametrize(
    ("shown", "expected"), [("a\n…\nd\n", True), ("a…d", True), ("a\nd", False), ("…d", True), ("…c", False)]
)
def test_dots_stand_for_what_is_left_out(shown, expected):
    assert matches(shown, "a\nb\nc\nd\n") is expected
