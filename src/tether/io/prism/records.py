"""Lines of indices, a number and perhaps a name, by the million: ``0 1 3 0.25 east``.

Lines are taken in chunks, and a chunk is converted column by column. Only a chunk in which that fails is
looked at line by line, to say which lines are wrong; comments (``#``) and blank lines are then passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TextIO

import numpy as np

from tether._problems import Complaints
from tether._types import Floats, Ints
from tether.io.explicit import NO_LABEL
from tether.io.plaintext import cut, number, numbered, whole

__all__ = ["Records", "Shape", "first_line", "read_records"]

_CHUNK = 1 << 21


class Shape(NamedTuple):
    """What a line holds: whole numbers, a number, and a label if ``labelled`` allows one."""

    indices: tuple[str, ...]
    value: str
    labelled: bool

    def __str__(self) -> str:
        return " ".join([*self.indices, self.value, *(["[action]"] if self.labelled else [])])


class Records(NamedTuple):
    """Lines as columns; ``label`` is an index in ``names``, or `NO_LABEL`."""

    indices: list[Ints]
    value: Floats
    label: Ints
    line: Ints
    names: list[str]

    def take(self, kept: Ints) -> Records:
        """Some of the records."""
        return Records(
            [column[kept] for column in self.indices], self.value[kept], self.label[kept], self.line[kept], self.names
        )


class _Codes(dict[str, int]):
    """Numbers names as they come."""

    def __missing__(self, name: str) -> int:
        self[name] = len(self)
        return self[name]


def first_line(handle: TextIO) -> tuple[int, str, list[str]]:
    """The first line that says something, its number (0 if there is none), and the comments before it."""
    comments: list[str] = []
    for line, text in numbered(handle):
        if text and not text.startswith("#"):
            return line, text, comments
        if text:
            comments.append(text)
    return 0, "", comments


def read_records(handle: TextIO, line: int, shape: Shape, complaints: Complaints) -> Records:
    """Read the rest of a file, ``line`` being the number of its next line."""
    codes = _Codes()
    parts = [_columns([[] for _ in shape.indices], [], [], [])]
    while text := handle.read(_CHUNK) + handle.readline():
        part = _by_column(text, line, shape, codes)
        parts.append(_by_line(text, line, shape, codes, complaints) if part is None else part)
        line += text.count("\n")
    indices = [np.concatenate([part.indices[i] for part in parts]) for i in range(len(shape.indices))]
    value, label, lines = (np.concatenate([part[i] for part in parts]) for i in (1, 2, 3))
    return Records(indices, value, label, lines, list(codes))


def _by_column(text: str, line: int, shape: Shape, codes: _Codes) -> Records | None:
    """A chunk, if every line is as it should be; else None."""
    n = len(shape.indices)
    words = _grid(text, n + 1, n + 2 if shape.labelled else n + 1)
    if words is None:
        return None
    joined = ["".join(column) for column in words[: n + 1]]
    if not all(column.isascii() and column.isdigit() for column in joined[:n]) or "_" in joined[n]:
        return None
    try:
        indices = [list(map(int, column)) for column in words[:n]]
        label = [codes[word] if word else NO_LABEL for word in words[n + 1]]
        part = _columns(indices, list(map(float, words[n])), label, range(line, line + len(label)))
    except (ValueError, OverflowError):
        return None
    sound = joined[n].isascii() and np.isfinite(part.value).all() and max(map(np.max, part.indices)) < 10**18
    return part if sound else None


def _grid(text: str, least: int, most: int) -> list[list[str]] | None:
    """The words of a text by column, if each line has as many as it should; empty where a line has no label."""
    text = text.rstrip()
    n_lines = text.count("\n") + 1
    words = f"{text}\n".replace("\n", " ; ").split()  # all at once, with the ends of lines among them
    width = words.index(";")
    if len(words) == n_lines * (width + 1) and words[width :: width + 1].count(";") == n_lines:
        if not least <= width <= most:
            return None
        columns = [words[i :: width + 1] for i in range(width)]
        return columns if width > least else [*columns, [""] * n_lines]
    ends = np.array([i for i, word in enumerate(words) if word == ";"])
    widths = np.diff(ends, prepend=-1) - 1
    if ends.size != n_lines or not np.isin(widths, (least, most)).all():
        return None
    starts = (ends - widths).tolist()
    columns = [[words[start + i] for start in starts] for i in range(least)]
    labelled = zip((ends - 1).tolist(), (widths > least).tolist(), strict=True)
    return [*columns, [words[last] if there else "" for last, there in labelled]]


def _by_line(chunk: str, line: int, shape: Shape, codes: _Codes, complaints: Complaints) -> Records:
    """The good lines of a chunk; the others are noted."""
    kept: list[tuple[list[int], float, int, int]] = []
    for at, text in numbered(chunk.split("\n"), line):
        if not text or text.startswith("#"):
            continue
        try:
            kept.append((*_one(text.split(), shape, codes), at))
        except ValueError as error:
            complaints.add(str(error) or f"expected '{shape}', found {cut(text)}{_hint(text)}", line=at)
    columns = [[indices[i] for indices, *_ in kept] for i in range(len(shape.indices))]
    return _columns(columns, [row[1] for row in kept], [row[2] for row in kept], [row[3] for row in kept])


def _one(row: list[str], shape: Shape, codes: _Codes) -> tuple[list[int], float, int]:
    n = len(shape.indices)
    if len(row) not in (n + 1, n + 2 if shape.labelled else n + 1):
        raise ValueError
    nouns = [*shape.indices, shape.value]
    numbers: list[float] = []
    for noun, text, convert in zip(nouns, row, [*[whole] * n, number], strict=False):
        try:
            numbers.append(convert(text))
        except ValueError as error:
            if ":" in "".join(row):
                raise ValueError from None
            raise ValueError(f"{noun}: {error}") from None
    return [int(index) for index in numbers[:n]], numbers[n], codes[row[-1]] if len(row) == n + 2 else NO_LABEL


def _hint(text: str) -> str:
    if ":" in text:
        return "; it looks like PRISM's row form, which is not read: export without -exportrows"
    return ""


def _columns(indices: list[list[int]], value: list[float], label: list[int], line: Sequence[int]) -> Records:
    wide = [np.array(column, dtype=np.int64) for column in indices]
    return Records(wide, np.array(value, dtype=np.float64), np.array(label, np.int64), np.array(line, np.int64), [])
