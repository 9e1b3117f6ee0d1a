"""Lines of indices, a number and perhaps a name, by the million: ``0 1 3 0.25 east``.

Lines are read in chunks, and Arrow converts a chunk column by column. Only if that fails, the chunk is read line by
line, to say which lines are wrong. Comments (``#``), blank lines, several spaces between words and fractions are also
read this way.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, TextIO

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.problems import Complaints
from tether.io.explicit import NO_LABEL
from tether.io.plaintext import numbered, parsed_number, quoted, whole

__all__ = ["LineShape", "Records", "first_line", "read_records"]

_CHUNK = 1 << 21


class LineShape(NamedTuple):
    """What a line has: whole numbers, a number, and, if ``labelled``, perhaps a name."""

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
    """Numbers names in the order in which they appear."""

    def __missing__(self, name: str) -> int:
        self[name] = len(self)
        return self[name]


def first_line(handle: TextIO) -> tuple[int, str, list[str]]:
    """The number of the first line that is not blank or a comment (0 if there is none), the line, and the comments."""
    comments: list[str] = []
    for line, text in numbered(handle):
        if text and not text.startswith("#"):
            return line, text, comments
        if text:
            comments.append(text)
    return 0, "", comments


def read_records(handle: TextIO, line: int, shape: LineShape, complaints: Complaints) -> Records:
    """Read the rest of a file; ``line`` is the number of its next line."""
    codes = _Codes()
    parts = [_columns([[] for _ in shape.indices], [], [], [])]
    while text := handle.read(_CHUNK) + handle.readline():
        part = _by_column(text, line, shape, codes)
        parts.append(_by_line(text, line, shape, codes, complaints) if part is None else part)
        line += text.count("\n")
    indices = [np.concatenate([part.indices[i] for part in parts]) for i in range(len(shape.indices))]
    value, label, lines = (np.concatenate([part[i] for part in parts]) for i in (1, 2, 3))
    return Records(indices, value, label, lines, list(codes))


def _by_column(text: str, line: int, shape: LineShape, codes: _Codes) -> Records | None:
    """The records of a chunk, if every line has the right shape; else None."""
    if "0x" in text or "0X" in text:  # Arrow reads hexadecimal numbers
        return None
    n = len(shape.indices)
    table = _table(text, n, shape.labelled)
    if table is None and shape.labelled:
        bare = re.compile(rf"^((?:[^ \n]+ ){{{n}}}[^ \n]+)$", re.MULTILINE)
        table = _table(bare.sub(r"\1 ", text), n, True)  # lines without a name get an empty one
    if table is None:
        return None
    *indices, value = (column.to_numpy() for column in table.columns[: n + 1])
    if any((column < 0).any() or (column >= 10**18).any() for column in indices) or not np.isfinite(value).all():
        return None
    lines = np.arange(line, line + len(table), dtype=np.int64)
    label = _codes(table.columns[-1], codes) if shape.labelled else np.full_like(lines, NO_LABEL)
    return Records(indices, value, label, lines, [])


def _table(text: str, n_indices: int, labelled: bool) -> Any:
    """Lines as an Arrow table, or None if one does not have the right shape."""
    import pyarrow as pa
    from pyarrow import csv

    types = [*[pa.int64()] * n_indices, pa.float64(), *([pa.dictionary(pa.int32(), pa.string())] if labelled else [])]
    columns = {str(i): kind for i, kind in enumerate(types)}
    content = text.encode()
    try:
        # Without threads: one that still converts when Python ends, as after an error, would abort the process.
        return csv.read_csv(
            pa.BufferReader(content),
            csv.ReadOptions(use_threads=False, column_names=list(columns), block_size=len(content) + 1),
            csv.ParseOptions(delimiter=" ", quote_char=False, ignore_empty_lines=False),
            csv.ConvertOptions(column_types=columns, null_values=[], strings_can_be_null=False),
        )
    except pa.ArrowInvalid:
        return None


def _codes(column: Any, codes: _Codes) -> Ints:
    """The numbers of names, `NO_LABEL` for an empty name."""
    parts = [
        np.array([codes[name] if name else NO_LABEL for name in part.dictionary.to_pylist()])[part.indices]
        for part in column.chunks
    ]
    return np.concatenate(parts)


def _by_line(chunk: str, line: int, shape: LineShape, codes: _Codes, complaints: Complaints) -> Records:
    """The records of the valid lines of a chunk; the other lines are problems."""
    kept: list[tuple[list[int], float, int, int]] = []
    for at, text in numbered(chunk.split("\n"), line):
        if not text or text.startswith("#"):
            continue
        try:
            kept.append((*_one(text.split(), shape, codes), at))
        except ValueError as error:
            complaints.add(str(error) or f"expected '{shape}', found {quoted(text)}{_hint(text)}", line=at)
    columns = [[indices[i] for indices, *_ in kept] for i in range(len(shape.indices))]
    return _columns(columns, [row[1] for row in kept], [row[2] for row in kept], [row[3] for row in kept])


def _one(row: list[str], shape: LineShape, codes: _Codes) -> tuple[list[int], float, int]:
    n = len(shape.indices)
    if len(row) not in (n + 1, n + 2 if shape.labelled else n + 1):
        raise ValueError
    nouns = [*shape.indices, shape.value]
    numbers: list[float] = []
    for noun, text, convert in zip(nouns, row, [*[whole] * n, parsed_number], strict=False):
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
