"""A log in a CSV or TSV file that is larger than memory, also compressed: read piece by piece.

It is first read once, to find how many rows it has, whether its ids are whole numbers, and whether the rows of each
episode follow each other. If they do not, a file that is not too large is read as a whole instead.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tether._foundation.arrays import Ints
from tether._foundation.problems import Source
from tether.errors import FileError, Problem
from tether.io.columns import TextTable, columns_of
from tether.io.delimited import Text, cells_of, scan, text_pieces
from tether.io.files import table_kind
from tether.io.logs import log_columns
from tether.io.values import are_all_whole
from tether.logs.batches import FileStamps, PiecewiseLog, Seen, changes_of, last_change

_WHOLE, _WHOLE_PACKED = 1 << 24, 1 << 21
"""A file of up to this many bytes, or this many compressed bytes, is read as a whole."""

_MOST = 1 << 31
"""Up to this many bytes a text is read as a whole if the rows of its episodes are not together."""

_BLOCK = 1 << 22
"""How many bytes are read at once."""


def is_large_text(log: str | os.PathLike[str]) -> bool:
    """Whether a log is a CSV or TSV file that is not simply read as a whole."""
    if table_kind(log) not in ("csv", "tsv"):
        return False
    return os.path.getsize(log) > (_WHOLE_PACKED if os.fspath(log).lower().endswith(".gz") else _WHOLE)


@dataclass(frozen=True, eq=False)
class TextLog(PiecewiseLog):
    """A text file whose episodes follow each other.

    ``size`` is how many rows it has, ``contents`` a hash of what it holds, ``texts`` are the columns that do not hold
    whole numbers only.
    """

    size: int
    contents: str
    texts: frozenset[str]

    @property
    def n_rows(self) -> int:
        """Counted when it was opened."""
        return self.size

    def digest(self) -> str:
        """Of the contents, and how they are read."""
        return hashlib.sha256(f"{self.contents} {self.reading!r}".encode()).hexdigest()

    def pieces(self) -> Iterator[tuple[Any, int, Source | None]]:
        """Whole episodes, some megabytes at a time, with the lines of their rows."""
        wanted, optional = log_columns(**self.reading)
        names = [*wanted.values(), *optional.values()]
        waiting: list[Any] = []
        parts: list[_Part] = []
        for text in _texts(self.name, self.reading):
            table = cells_of(text, names)
            waiting.append(table)
            parts.append(_Part(text, 0, table.num_rows))
            joined = pa.concat_tables(waiting)
            cut = last_change(_ids(joined.column(wanted["episode"]), self.has_whole_ids)) if joined.num_rows else 0
            if cut > 0:
                before, parts = _divided(parts, cut)
                yield self._piece(joined.slice(0, cut), before), cut, None
            waiting = [joined.slice(cut).combine_chunks()]
        if waiting and waiting[0].num_rows:
            yield self._piece(waiting[0], parts), waiting[0].num_rows, None

    def _piece(self, table: Any, parts: list[_Part]) -> TextTable:
        def lines() -> Ints:
            return np.concatenate([scan(part.text).lines[part.low : part.high] for part in parts])

        return TextTable(table, Source(self.name, lines), self.texts)


@dataclass(frozen=True, slots=True)
class _Part:
    """The rows ``low … high - 1`` of a piece of text."""

    text: Text
    low: int
    high: int


def _divided(parts: list[_Part], cut: int) -> tuple[list[_Part], list[_Part]]:
    """The first rows of some parts, and the others."""
    before: list[_Part] = []
    after: list[_Part] = []
    for part in parts:
        middle = min(part.high, part.low + max(cut, 0))
        cut -= part.high - part.low
        before += [_Part(part.text, part.low, middle)] if middle > part.low else []
        after += [_Part(part.text, middle, part.high)] if part.high > middle else []
    return before, after


def _texts(name: str, reading: dict[str, Any], noted: Any = lambda _: None) -> Iterator[Text]:
    wanted, _ = log_columns(**reading)
    return text_pieces(name, list(wanted.values()), "\t" if table_kind(name) == "tsv" else None, noted, _BLOCK)


def open_text(log: str | os.PathLike[str], reading: dict[str, Any]) -> TextLog | None:
    """Read a text once; None if it must be read as a whole, because the rows of episodes are not together."""
    name, (wanted, optional) = os.fspath(log), log_columns(**reading)
    size, rows, digest, ids = 0, 0, hashlib.sha256(), _Ids()
    stamps = FileStamps.of([name])  # before the first look at it

    def noted(data: bytes) -> None:
        nonlocal size
        size += len(data)
        digest.update(data)

    texts: set[str] = set()
    for text in _texts(name, reading, noted):
        table = cells_of(text, [*wanted.values(), *optional.values()])
        if table.num_rows:
            if not rows:
                one = TextTable(table.slice(0, 1), _source_of(text))
                columns_of(one, [*wanted], rename=wanted, text=[*wanted], blank=[*wanted])  # which says what is missing
            texts |= {one for one in {*table.column_names} - texts if not are_all_whole(table.column(one))}
            ids.add(table.column(wanted["episode"]), text)
            rows += table.num_rows
    if not rows:
        return None
    if ids.apart is not None and size > _MOST:
        fix = "a log of this size is read piece by piece: sort it by episode"
        episode, line = ids.apart
        raise FileError(Problem(f"the rows of the episode {episode} are not together", file=name, line=line, fix=fix))
    if ids.apart is not None:
        return None
    whole = wanted["episode"] not in texts
    return TextLog(name, reading, whole, rows, digest.hexdigest(), frozenset(texts), stamps=stamps)


class _Ids:
    """The ids of a log as they come: the first that came before, and its line."""

    def __init__(self) -> None:
        self.apart: tuple[str, int] | None = None
        self._last: str | None = None
        self._seen = Seen()

    def add(self, column: Any, text: Text) -> None:
        """Check the ids of a piece."""
        ids = _ids(column).combine_chunks()
        begins = np.concatenate(([0], changes_of(ids)))
        found = ids.take(pa.array(begins))
        if found[0].as_py() == self._last:
            begins, found = begins[1:], found.slice(1)
        self._last = ids[len(ids) - 1].as_py()
        if not len(found):
            return
        _, first_of = np.unique(np.asarray(found.dictionary_encode().indices), return_index=True)
        came_before = self._seen.again(found.to_pylist())
        came_before[np.setdiff1d(np.arange(len(found)), first_of)] = True
        again = np.flatnonzero(came_before)
        if again.size and self.apart is None:
            first = int(again[0])
            self.apart = found[first].as_py(), _source_of(text).line(int(begins[first])) or 0


def _ids(column: Any, whole: bool = False) -> Any:
    """Ids as the reader of logs distinguishes them: without spaces around them; as a whole number, 1.0 is 1."""
    trimmed = pc.utf8_trim_whitespace(column)
    return pc.replace_substring_regex(trimmed, r"\.0+$", "") if whole else trimmed


def _source_of(text: Text) -> Source:
    return Source(text.file, lambda: scan(text).lines)
