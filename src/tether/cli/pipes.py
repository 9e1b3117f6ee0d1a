"""``-`` in place of the name of a file: standard input for PATH and a log, standard output for what is written."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click

from tether.errors import FileError, ModelError, PathError, QueryError

__all__ = ["PIPE", "read_from", "refuse_both", "written_to"]

PIPE = "-"
"""The word that stands for standard input or standard output."""

_INPUT = "standard input"


@contextmanager
def read_from(word: str) -> Iterator[str]:
    """The file that a word names; for ``-`` a temporary one of standard input: JSON, a trace of PRISM, or else CSV."""
    if word != PIPE:
        yield word
        return
    data = sys.stdin.buffer.read()
    if not data.strip():
        raise click.UsageError("- is standard input, and nothing came from there.")
    from tether.io.prism.traces import is_trace

    head = data[:64].decode(errors="replace").lstrip("\ufeff \t\r\n")
    suffix = ".json" if head[:1] in ("{", "[") else ".txt" if is_trace(head) else ".csv"
    with tempfile.TemporaryDirectory(prefix="tether-") as folder:
        file = Path(folder, f"input{suffix}")
        file.write_bytes(data)
        try:
            yield str(file)
        except (FileError, ModelError, PathError, QueryError) as error:
            problems = [replace(one, file=_INPUT) if one.file == str(file) else one for one in error.problems]
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
