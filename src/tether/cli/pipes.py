"""``-`` in place of a file's name: standard input for MODEL, PATH or a log, standard output for what is written."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click

from tether.errors import FileError, ModelError, PathError, QueryError

PIPE = "-"
"""The word that stands for standard input or standard output."""

_INPUT = "standard input"
_KEY = "tether.standard_input"

_MODELS = {
    ".drn": r"@type|//",
    ".tra": r"[0-9]+ [0-9]+( [0-9]+)?[ ]*\r?\n",
    ".prism": r"(?:dtmc|mdp|probabilistic|nondeterministic)\b",
    ".jani": r'\{[^\0]*"jani-version"',
}
"""How models begin that are no tables."""


def input_file(word: str, what: str) -> str:
    """The file that a word names; for ``-`` one of standard input, until the command ends.

    ``what`` is the argument that the word was given for. Standard input can be only one of them.
    """
    if word != PIPE:
        return word
    context = click.get_current_context()
    if _KEY in context.meta:
        before, file = context.meta[_KEY]
        if before != what:
            raise click.UsageError(f"{before} and {what} cannot both come from standard input; give a file for one.")
        return str(file)
    data = sys.stdin.buffer.read()
    if not data.strip():
        raise click.UsageError("- is standard input, and nothing came from there.")
    folder = context.with_resource(tempfile.TemporaryDirectory(prefix="tether-", ignore_cleanup_errors=True))
    file = Path(folder, f"input{_model_suffix(data) if what == 'MODEL' else _suffix(data)}")
    file.write_bytes(data)
    context.meta[_KEY] = what, file
    return str(file)


def _suffix(data: bytes) -> str:
    """What a path or a log is: JSON, a trace of PRISM, an Arrow or a Parquet file, or else CSV."""
    from tether.io.prism.traces import is_trace

    head = data[:64].decode(errors="replace").lstrip("\ufeff \t\r\n")
    if head[:1] in ("{", "["):
        return ".json"
    return ".txt" if is_trace(head) else _of_table(data)


def _model_suffix(data: bytes) -> str:
    """What a model is: DRN, PRISM's transitions or language, JANI, or a table."""
    head = data[:4096].decode(errors="replace").lstrip("\ufeff \t\r\n")
    for suffix, pattern in _MODELS.items():
        if re.match(pattern, head):
            return suffix
    return _of_table(data)


def _of_table(data: bytes) -> str:
    if data.startswith(b"ARROW1"):
        return ".arrow"
    if data.startswith(b"PAR1"):
        return ".parquet"
    return ".tsv" if b"\t" in data.partition(b"\n")[0] else ".csv"


@contextmanager
def read_from(word: str, what: str = "PATH") -> Iterator[str]:
    """The file that a word names, as `input_file`; what is wrong with standard input is said of it."""
    file = input_file(word, what)
    try:
        yield file
    except (FileError, ModelError, PathError, QueryError) as error:
        if word != PIPE:
            raise
        problems = [replace(one, file=_INPUT) if one.file == file else one for one in error.problems]
        raise type(error)(problems, total=error.total) from None


@contextmanager
def written_to(output: Path) -> Iterator[Path]:
    """The file to write; for ``-`` a temporary CSV, which then goes to standard output."""
    if str(output) != PIPE:
        yield output
        return
    with tempfile.TemporaryDirectory(prefix="tether-") as folder:
        file = Path(folder, "output.csv")
        yield file
        sys.stdout.flush()
        sys.stdout.buffer.write(file.read_bytes())
        sys.stdout.buffer.flush()


def refuse_both(output: Path | None, as_json: bool) -> None:
    """An error if the file and the answer as JSON should both go to standard output."""
    if output is not None and str(output) == PIPE and as_json:
        raise click.UsageError("--output - and --json cannot both go to standard output; give a file.")
