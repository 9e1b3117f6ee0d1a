"""Reading text files of other tools with care: files that cannot be opened, numbers that are none."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import TextIO

from tether._foundation.arrays import Ints
from tether._foundation.problems import Complaints, raise_all
from tether._foundation.words import cut
from tether.errors import Problem
from tether.io.files import File, checked_text, opened_bytes

__all__ = ["File", "add_each", "numbered", "opened_lines", "parsed_number", "quoted", "raise_all", "whole"]

_RATIONAL = re.compile(r"[+-]?[0-9]{1,4000}/[0-9]{1,4000}")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_INTERVAL = re.compile(r"\[.*,.*\]")


@contextmanager
def opened_lines(file: File, max_unpacked: int | str | None = None) -> Iterator[TextIO]:
    """Open a text file, line by line; why it cannot be read, now or further on, becomes a `FileError`."""
    with opened_bytes(file, max_unpacked) as stream:
        try:
            with TextIOWrapper(stream, encoding="utf-8-sig") as text:
                yield text
        except UnicodeDecodeError:
            checked_text(file, max_unpacked)  # raises an error with every line that is not text
            raise


def numbered(lines: Iterable[str], start: int = 1) -> Iterator[tuple[int, str]]:
    """Lines without the space around them, with their numbers."""
    for line, text in enumerate(lines, start=start):
        yield line, text.strip()


def add_each(complaints: Complaints, which: Ints, lines: Ints, message: Callable[[int], str | Problem]) -> None:
    """Note the same kind of problem of many items, each on its line."""
    complaints.add_each(which, message, lines=lines)


def quoted(text: str) -> str:
    """Text from a file as a message quotes it.

    >>> quoted("a" * 70)[-4:]
    "aa…'"
    """
    return repr(cut(text.strip(), 60))


def parsed_number(text: str) -> float:
    """A finite number written as a decimal or a fraction; `ValueError` with a reason for anything else.

    >>> parsed_number("1/8"), parsed_number("5e-1")
    (0.125, 0.5)
    """
    if "/" in text and _RATIONAL.fullmatch(text):
        above, below = (int(part) for part in text.split("/"))
        if below == 0:
            raise ValueError(f"{quoted(text)} divides by 0")
        try:
            return above / below
        except OverflowError:
            raise ValueError(f"{quoted(text)} is too large") from None
    if not _DECIMAL.fullmatch(text):
        if _INTERVAL.fullmatch(text):
            raise ValueError(f"{quoted(text)} is an interval, and models with intervals are not read")
        raise ValueError(f"expected a number, found {quoted(text)}")
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{quoted(text)} is too large")
    return value


def whole(text: str) -> int:
    """A whole number from 0; `ValueError` with a reason for anything else.

    >>> whole("12")
    12
    """
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"expected a whole number, found {quoted(text)}")
    if len(text) > 18:
        raise ValueError(f"{quoted(text)} is too large")
    return int(text)
