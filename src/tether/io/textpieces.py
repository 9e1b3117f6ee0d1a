"""Delimited text larger than memory: whole records, some megabytes at a time, each piece knowing its first line."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tether._foundation.problems import Complaints
from tether.errors import Problem
from tether.io.delimited import BLOCK, Text, header_of, scan, table_as_text
from tether.io.files import File, check_text, file_error, name_of, opened_bytes

__all__ = ["cells_of", "text_pieces"]


def text_pieces(
    file: File,
    wanted: Sequence[str],
    delimiter: str | None,
    noted: Callable[[bytes], Any] = lambda _: None,
    block: int = BLOCK,
) -> Iterator[Text]:
    """A text in pieces of whole records, in order; ``noted`` gets all its bytes, to hash them.

    ``wanted`` are columns that should be there, as for `tether.io.delimited.read_text`.
    """
    name, header, rest, line = name_of(file), None, b"", 1
    with opened_bytes(file, in_pieces=True) as stream:
        while True:
            read = stream.read(block)
            noted(read)
            data = rest + read
            if header is None and len(read) == block and not _last_record(data):
                rest = _not_too_long(name, data, line, block)
                continue
            if header is None:
                data = data.removeprefix(codecs.BOM_UTF8)
                check_text(name, data[: _last_record(data)] if read else data)
                header = header_of(name, data, wanted, delimiter)
                data, line = data[header.start :], header.first_line
            cut = _last_record(data) if len(read) == block else len(data)
            if cut == 0 and len(read) == block:
                rest = _not_too_long(name, data, line, block)
                continue
            piece, rest = data[:cut], data[cut:]
            check_text(name, piece, line)
            if piece:
                yield header._replace(data=piece, start=0, first_line=line)
            line += piece.count(b"\n")
            if len(read) < block:
                return


def _not_too_long(name: str, data: bytes, line: int, block: int) -> bytes:
    if len(data) > 4 * block:
        what = f"a record of more than {len(data) >> 20} MB"
        fix = 'is a quote (") never closed, or has the file no line ends?'
        raise file_error(name, Problem(what, fix=fix), line)
    return data


def _last_record(data: bytes) -> int:
    """Where the last record that is complete ends: after a line break outside of quotes; 0 where there is none."""
    if data.find(b'"') < 0:
        return data.rfind(b"\n") + 1
    signs = np.frombuffer(data, np.uint8)
    quotes, breaks = np.flatnonzero(signs == ord('"')), np.flatnonzero(signs == ord("\n"))
    outside = breaks[np.searchsorted(quotes, breaks) % 2 == 0]
    return int(outside[-1]) + 1 if outside.size else 0


def cells_of(text: Text, columns: Sequence[str]) -> Any:
    """Some columns of a piece, by name, every cell as text; records with too many or too few fields are an error."""
    places = [i for i, name in enumerate(text.names) if name in columns]
    complaints = Complaints(text.file)
    table, is_suspect = table_as_text(text, places, complaints)
    if is_suspect:
        records = scan(text)
        complaints.add_lines(records.wrong, records.total)
        complaints.raise_any()
    return table.rename_columns([text.names[i] for i in places])
