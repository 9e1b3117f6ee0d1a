"""Reading text files of other tools with care: files that cannot be opened, numbers that are none."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO

from tether._problems import LIMIT, Complaints
from tether._types import Ints
from tether.errors import FileError, Problem, QueryError

__all__ = ["File", "add_each", "cut", "number", "numbered", "opened", "raise_all", "whole"]

File = str | os.PathLike[str]

_RATIONAL = re.compile(r"[+-]?[0-9]{1,4000}/[0-9]{1,4000}")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_INTERVAL = re.compile(r"\[.*,.*\]")
_PACKED = {b"\x1f\x8b": "gzip", b"\xfd7zXZ": "xz", b"BZh": "bzip2", b"PK\x03\x04": "zip"}


@contextmanager
def opened(file: File) -> Iterator[TextIO]:
    """Open a text file; why it cannot be read, now or further on, becomes a `FileError`."""
    if not isinstance(file, str | os.PathLike):
        raise QueryError(f"expected the name of a file, not {file!r}")
    name = os.fspath(file)
    try:
        with open(name, encoding="utf-8-sig") as handle:
            yield handle
    except FileError:
        raise
    except FileNotFoundError:
        raise FileError(Problem(f"{name}: there is no such file", file=name)) from None
    except IsADirectoryError:
        raise FileError(Problem(f"{name}: this is a directory, not a file", file=name)) from None
    except UnicodeDecodeError:
        raise FileError(_not_text(name)) from None
    except OSError as error:
        message = f"{name}: it cannot be read: {error.strerror or error}"
        raise FileError(Problem(message, file=name)) from None
    except ValueError as error:
        if "\0" not in name:
            raise
        raise FileError(Problem(f"{name!r} is not the name of a file: {error}", file=name)) from None


def _not_text(name: str) -> Problem:
    """What is the first line of a file that is not UTF-8."""
    with open(name, "rb") as handle:
        for line, content in enumerate(handle, start=1):
            at = _first_wrong(content)
            if at is not None:
                packed = [how for magic, how in _PACKED.items() if line == 1 and content.startswith(magic)]
                fix = f"it looks packed with {packed[0]}: unpack it first" if packed else "save the file as UTF-8"
                message = f"{name}, line {line:,}: this is not UTF-8 text (byte 0x{content[at]:02x}); {fix}"
                return Problem(message, file=name, line=line)
    return Problem(f"{name}: this is not UTF-8 text", file=name)


def _first_wrong(content: bytes) -> int | None:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start
    return None


def numbered(lines: Iterable[str], start: int = 1) -> Iterator[tuple[int, str]]:
    """Lines without the space around them, with their numbers."""
    for line, text in enumerate(lines, start=start):
        yield line, text.strip()


def raise_all(*all_complaints: Complaints) -> None:
    """Raise what was noted about several files as one error."""
    problems = [problem for complaints in all_complaints for problem in complaints.problems]
    if problems:
        raise FileError(problems, total=sum(complaints.total for complaints in all_complaints))


def add_each(complaints: Complaints, which: Ints, lines: Ints, message: Callable[[int], str]) -> None:
    """Note the same kind of problem of many items, spelling out only as many as are kept."""
    for item in which[:LIMIT].tolist():
        complaints.add(message(item), line=int(lines[item]))
    complaints.total += max(which.size - LIMIT, 0)


def cut(text: str, limit: int = 60) -> str:
    """Text from a file as a message quotes it.

    >>> cut("a" * 70)[-4:]
    "aa…'"
    """
    text = text.strip()
    return repr(text if len(text) <= limit else text[: limit - 1] + "…")


def number(text: str) -> float:
    """A finite number written as a decimal or a fraction; `ValueError` with a reason for anything else.

    >>> number("1/8"), number("5e-1")
    (0.125, 0.5)
    """
    if "/" in text and _RATIONAL.fullmatch(text):
        above, below = (int(part) for part in text.split("/"))
        if below == 0:
            raise ValueError(f"{cut(text)} divides by 0")
        try:
            return above / below
        except OverflowError:
            raise ValueError(f"{cut(text)} is too large") from None
    if not _DECIMAL.fullmatch(text):
        if _INTERVAL.fullmatch(text):
            raise ValueError(f"{cut(text)} is an interval, and models with intervals are not read")
        raise ValueError(f"expected a number, found {cut(text)}")
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{cut(text)} is too large")
    return value


def whole(text: str) -> int:
    """A whole number from 0; `ValueError` with a reason for anything else.

    >>> whole("12")
    12
    """
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"expected a whole number, found {cut(text)}")
    if len(text) > 18:
        raise ValueError(f"{cut(text)} is too large")
    return int(text)
