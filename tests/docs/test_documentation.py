"""The documentation runs: every ```python block of README.md and docs/*.md, top to bottom, one namespace a file."""

import doctest
import re
from pathlib import Path
from typing import NamedTuple

import pytest

import tether

ROOT = Path(__file__).parent.parent.parent
COMMANDS = "```console\n$ "
"""How a block of commands begins; pages that have one run in test_documented_commands, commands and Python in turn."""


def is_all_python(file):
    return file.name in ("README.md", "command-line.md") or COMMANDS not in file.read_text(encoding="utf-8")


FILES = [file for file in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if is_all_python(file)]


class Block(NamedTuple):
    line: int
    code: str


def blocks(text):
    """The code of every block fenced as ```python, and the line of the file it starts on."""
    fence = re.compile(r"^(?P<indent> *)```python[ ]*\n(?P<code>.*?)^(?P=indent)```[ ]*$", re.MULTILINE | re.DOTALL)
    found = []
    for match in fence.finditer(text):
        indent = len(match["indent"])
        code = "".join(line[indent:] if line.strip() else "\n" for line in match["code"].splitlines(keepends=True))
        found.append(Block(text.count("\n", 0, match.start("code")) + 1, code))
    return found


def run(block, name, namespace):
    """Run a block as it stands; one written as a session, with >>>, must also print what it says it does."""
    if not block.code.lstrip().startswith(">>>"):
        exec(compile("\n" * (block.line - 1) + block.code, name, "exec"), namespace)
        return
    test = doctest.DocTestParser().get_doctest(block.code, namespace, name, name, block.line - 1)
    noted = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=noted.append, clear_globs=False)
    namespace.update(test.globs)
    assert not runner.failures, "".join(noted)


SLOW = {"icu-sepsis.md", "api.md"}  # minutes with the JIT off


@pytest.mark.parametrize(
    "file",
    [pytest.param(file, marks=pytest.mark.compiled) if file.name in SLOW else file for file in FILES],
    ids=lambda file: file.relative_to(ROOT).as_posix(),
)
def test_every_example_runs(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # an example may write a file
    namespace = {"__name__": "__main__"}
    for block in blocks(file.read_text(encoding="utf-8")):
        run(block, str(file), namespace)


def test_blocks_are_found():
    text = "# A\n\n```python\nx = 1\n```\n\n```\nnot python\n```\n\n- item\n\n  ```python\n  y = x\n\n  z = y\n  ```\n"
    assert blocks(text) == [Block(4, "x = 1\n"), Block(14, "y = x\n\nz = y\n")]


@pytest.mark.parametrize("fence", ["```pycon\nx\n```\n", "```sh\nls\n```\n", "text `python` text\n", "```\nx\n```\n"])
def test_other_blocks_are_left_alone(fence):
    assert blocks(fence) == []


def test_a_block_that_fails_names_its_line():
    with pytest.raises(ZeroDivisionError) as caught:
        run(Block(12, "x = 1\nx / 0\n"), "some.md", {})
    assert caught.traceback[-1].lineno == 12  # counted from 0: the second line of the block
    assert str(caught.traceback[-1].path).endswith("some.md")


def test_a_session_must_print_what_it_says():
    namespace = {}
    run(Block(1, ">>> x = 2\n>>> x\n2\n"), "some.md", namespace)
    run(Block(5, "assert x == 2\n"), "some.md", namespace)
    with pytest.raises(AssertionError, match="Expected"):
        run(Block(1, ">>> 1 + 1\n3\n"), "some.md", {})


def test_one_version_is_cited_everywhere():
    version = tether.__version__.removesuffix(".dev0")
    cited = {"CITATION.cff": f"version: {version}\n"}
    cited |= dict.fromkeys(("README.md", "docs/bibliography.md"), f"version = {{{version}}}")
    for name, line in cited.items():
        assert line in (ROOT / name).read_text(encoding="utf-8"), name
    assert f"\n## {version} " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
