"""Output to the terminal: text that fits its width, progress on standard error, names that can be shown."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import click
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tether.cli.doing import note_doing, spoken

if TYPE_CHECKING:
    from tether.explanation.verdicts import Verdict

_GLUE = "\ue000"
"""Stands for a space at which a line must not be broken."""


COMPILING = "the first answer of an installation compiles code, once: about half a minute …"

_PATIENCE, _LONG = 0.4, 2.0
"""Seconds before progress is shown (most commands are finished sooner), and before it says why it takes long."""


def put(*what: str | Text | Table, style: str = "") -> None:
    """Print sentences and tables to standard output, fitted to its width, without spaces at the ends of lines.

    In a pipe they are without colour, and as wide as COLUMNS says, or 80. A sentence is as wide as its longest word, so
    that the name of a file stays in one piece. What an episode and a step are called is as the log has it.
    """
    sys.stdout.write(_fitted(Console(highlight=False, markup=False, emoji=False), what, style))


def under_headings(verdicts: Iterable[Verdict], parts: Iterable[Iterable[str]]) -> Iterator[str | Text]:
    """Sentences under three headings: each a question and its answer in a word, bold on a terminal."""
    for verdict, said in zip(verdicts, parts, strict=True):
        yield Text(f"{verdict.question} {verdict.word}", "bold")
        yield from said


def wrapped(message: str) -> str:
    """A message for standard error: in a terminal broken at words, elsewhere as it is."""
    screen = Console(stderr=True, highlight=False, markup=False, emoji=False)
    return _fitted(screen, [message]).rstrip("\n") if screen.is_terminal else message


def _fitted(screen: Console, what: Iterable[str | Text | Table], style: str = "") -> str:
    nouns, width = spoken(), screen.width or 80  # COLUMNS=0 says nothing
    with screen.capture() as captured:
        for one in what:
            sentence = _glued(nouns(one)) if isinstance(one, str) else ""
            screen.width = max([width, *map(cell_len, sentence.split())])
            screen.print(Text(sentence) if isinstance(one, str) else one, style=style or None)
    lines = captured.get().replace(_GLUE, " ").splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _glued(sentence: str) -> str:
    """``t = 5``, ``33 %`` and the names of files that were typed stay on one line."""
    context = click.get_current_context(silent=True)
    for typed in map(str, context.params.values() if context else ()):
        if " " in typed and os.path.exists(typed):
            sentence = sentence.replace(typed, typed.replace(" ", _GLUE))
    sentence = re.sub(r"\b([tkm]) ([=≥]) (\d)", rf"\1{_GLUE}\2{_GLUE}\3", sentence)
    return re.sub(r"(\d) %", rf"\1{_GLUE}%", sentence)


class Say(Protocol):
    """Says what is being done, and what would need less memory."""

    def __call__(self, doing: str, less: str = "") -> None: ...


@contextmanager
def progress() -> Iterator[Say]:
    """Say what is being done, on standard error and only in a terminal: ``say("reading the model", READING)``.

    If that takes long, it also says that the first answer of an installation compiles code.
    """
    screen = Console(stderr=True, highlight=False, markup=False, emoji=False)
    if not screen.is_terminal:
        yield note_doing
        return
    status, over, begun = screen.status(""), threading.Event(), threading.Lock()

    def begin() -> None:
        with begun:
            if not over.is_set():
                status.start()

    last = ""

    def say(doing: str, less: str = "") -> None:
        nonlocal last
        last = f"{doing} …"
        note_doing(doing, less)
        status.update(Text(last))

    timers = [
        threading.Timer(_PATIENCE, begin),
        threading.Timer(_LONG, lambda: status.update(Text(f"{last} ({COMPILING.removesuffix(' …')})"))),
    ]
    for timer in timers:
        timer.daemon = True
        timer.start()
    try:
        yield say
    finally:
        for timer in timers:
            timer.cancel()
        over.set()
        with begun:
            status.stop()


def plain_table(*columns: str, right: Iterable[int] = (), header: bool = True) -> Table:
    """A table without lines; the columns numbered in ``right`` are aligned right."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False, show_header=header)
    flush = set(right)
    for i, column in enumerate(columns):
        table.add_column(Text(column), justify="right" if i in flush else "left", overflow="fold", vertical="top")
    return table


def decimals(values: Iterable[float]) -> int:
    """How many decimals a column of these values needs, so that the largest has four or five digits."""
    largest = max((abs(value) for value in values if abs(value) != float("inf")), default=0.0)
    return 0 if largest >= 10_000 else 1 if largest >= 1000 else 2 if largest >= 1 else 4


def signed(value: float, places: int) -> str:
    """A difference with its sign; empty for zero."""
    text = f"{value:+,.{places}f}"
    return text if text.strip("+-0.,") else "0"
