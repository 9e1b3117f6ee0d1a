"""Delimited text (CSV, TSV): into an Arrow table, and back from a row of it to its line.

Arrow reads the text, at full speed, and a large one directly from its file. Only if something is wrong, the text is
read again, record by record, to find the lines: a quoted field may contain line breaks, so the line of a row is not
its number. A text larger than memory comes in pieces of whole records, each of which knows its first line.
"""

from __future__ import annotations

import codecs
import csv
import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

from tether._foundation.arrays import Ints
from tether._foundation.problems import LIMIT, Complaints
from tether._foundation.words import counted
from tether.errors import FileError, Problem
from tether.io.files import File, check_text, checked_text, file_error, lines_of, name_of, opened_bytes, opened_text

BLOCK = 1 << 24
"""How many bytes are read at once; no record is longer."""

IN_MEMORY = 1 << 24
"""A larger file is read piece by piece: its text is never in memory as a whole, unless something is wrong."""

PIECE = 1 << 21
"""How much of such a file Arrow gets at once: little, so that it is still in the processor's cache."""

_HEAD = 1 << 16
"""The header of such a file must be in its first bytes, this many; otherwise it is read as a whole."""

_END = "\0end\0"  # no text with a NUL gets this far


class Text(NamedTuple):
    """A delimited text whose header was read; ``data`` is None for a large text, which stays in its file."""

    file: str
    delimiter: str
    names: list[str]
    data: bytes | None
    start: int  # where in the text the header ends,
    first_line: int  # and the line that begins there
    max_unpacked: int | str | None = None

    def content(self) -> bytes:
        """All of the text, checked to be UTF-8; read now if it is not in memory."""
        return checked_text(self.file, self.max_unpacked) if self.data is None else self.data


class RecordScan(NamedTuple):
    """The result of reading record by record.

    Attributes
    ----------
    lines : array
        The line of each record with the right number of fields.
    wrong : list of (line, message)
        The first records with another number of fields, or with a quote that is never closed.
    total : int
        How many of those there are.
    longest : int
        The length of the longest record, in characters or bytes.
    """

    lines: Ints
    wrong: list[tuple[int, str]]
    total: int
    longest: int


def read_text(file: File, wanted: Sequence[str], delimiter: str | None, max_unpacked: int | str | None = None) -> Text:
    """Read a delimited text as far as its header.

    By default ``delimiter`` is the one of comma, semicolon and tab with which most of the wanted names are found.
    """
    name = name_of(file)
    text = _text_in_file(name, wanted, delimiter, max_unpacked)
    return header_of(name, checked_text(file, max_unpacked), wanted, delimiter) if text is None else text


def _text_in_file(
    name: str, wanted: Sequence[str], delimiter: str | None, max_unpacked: int | str | None
) -> Text | None:
    """The header of a large file, from its first bytes; None if it is small, cannot be read twice, or is unusual."""
    if not os.path.isfile(name) or os.path.getsize(name) <= IN_MEMORY:
        return None
    with opened_bytes(name, max_unpacked) as stream:
        head = stream.read(_HEAD).removeprefix(codecs.BOM_UTF8)
    head = head[: head.rfind(b"\n") + 1]
    try:
        check_text(name, head)
        text = header_of(name, head, wanted, delimiter)
    except FileError:  # the reader of the whole file reports it
        return None
    return text._replace(data=None, max_unpacked=max_unpacked) if text.start < len(head) else None


def header_of(name: str, data: bytes, wanted: Sequence[str], delimiter: str | None) -> Text:
    """The header in the bytes of a file, or of its beginning; the delimiter as in `read_text`."""
    if not data or data.isspace():
        header = f"a header with the columns {', '.join(wanted)}"
        raise file_error(name, Problem("the file is empty", expectation=header))
    tried, error = [], None
    for one in [delimiter] if delimiter else [",", ";", "\t"]:
        try:
            tried.append(_header(name, data, one))
        except csv.Error as found:
            error = error or found
    if not tried:
        raise file_error(name, f'the header cannot be read: {error}; is a quote (") never closed?', line=1)
    return max(tried, key=lambda text: len({*wanted} & {*text.names}))


def _header(file: str, data: bytes, delimiter: str) -> Text:
    """The first record that is not blank: the names of the columns."""
    used = 0

    def counting() -> Iterator[str]:
        nonlocal used
        for line in lines_of(data):
            used += len(line.encode())
            yield line

    reader = csv.reader(counting(), delimiter=delimiter)
    names: list[str] = next((record for record in reader if record), [])
    return Text(file, delimiter, [one.strip() for one in names], data, used, reader.line_num + 1)


def table_of_text(text: Text, chosen: dict[int, Any]) -> tuple[Any, bool]:
    """The chosen columns (position → Arrow type) as an Arrow table, and whether `scan` should look for bad records.

    Records with the wrong number of fields are left out. Columns are named by position.
    """
    if text.data is None:
        return _table_of_file(text, chosen)
    body = pa.py_buffer(text.data).slice(text.start) if text.start < len(text.data) else pa.py_buffer(b"\n")
    quotes = text.data.count(b'"', text.start) if text.data.find(b'"', text.start) >= 0 else 0  # finding is faster
    with pa.BufferReader(body) as source:
        table, left_out = _parsed(source, text, chosen, quotes > 0, min(BLOCK, body.size), body.size > BLOCK)
    return table, left_out or quotes % 2 == 1  # Arrow accepts a quote that is never closed


def _table_of_file(text: Text, chosen: dict[int, Any]) -> tuple[Any, bool]:
    """The chosen columns of a text that stays in its file, and whether to look for bad records; see `table_of_text`.

    Few texts have quotes, line breaks in a field, or records of megabytes. So the first try ignores these; if it meets
    one, the text is read again.
    """
    try:
        table, is_suspect, quotes = _table_of_pieces(text, chosen, False, PIECE)
    except (pa.ArrowException, OSError):
        quotes = 1
    if quotes:
        table, is_suspect, quotes = _table_of_pieces(text, chosen, True, BLOCK)
    return table, is_suspect or quotes % 2 == 1


def _table_of_pieces(text: Text, chosen: dict[int, Any], has_quotes: bool, block: int) -> tuple[Any, bool, int]:
    """The result of `_parsed` for a file, and how many quotes it has."""
    with opened_text(text.file, text.start, text.max_unpacked, quotes_expected=has_quotes) as stream:
        try:
            with pa.PythonFile(stream, "r") as source:
                found = _parsed(source, text, chosen, has_quotes, block, use_threads=True)
        finally:
            stream.raise_any()
    return *found, stream.quotes


def _parsed(
    source: Any, text: Text, chosen: dict[int, Any], has_quotes: bool, block: int, use_threads: bool
) -> tuple[Any, bool]:
    """What Arrow reads, and whether it left out records with the wrong number of fields."""
    left_out = False

    def skip(_: Any) -> str:
        nonlocal left_out
        left_out = True
        return "skip"

    types = {str(i): kind for i, kind in chosen.items()}
    table = arrow_csv.read_csv(
        source,
        read_options=arrow_csv.ReadOptions(
            # Threads let go of the text a moment after the table is there. If Python ends in that moment, it aborts;
            # a large table takes longer to be made use of than that.
            use_threads=use_threads,
            column_names=[str(i) for i in range(len(text.names))],
            block_size=block,
        ),
        parse_options=arrow_csv.ParseOptions(
            delimiter=text.delimiter, newlines_in_values=has_quotes, invalid_row_handler=skip
        ),
        convert_options=arrow_csv.ConvertOptions(
            column_types=types, include_columns=list(types), null_values=[], strings_can_be_null=False, check_utf8=False
        ),
    )
    return table, left_out


def table_as_text(text: Text, chosen: Sequence[int], complaints: Complaints) -> tuple[Any, bool]:
    """The chosen columns as text, as `table_of_text` returns them; if even that fails, all problems are raised."""
    try:
        return table_of_text(text, dict.fromkeys(chosen, pa.string()))
    except (pa.ArrowException, OSError) as error:
        records = scan(text)
        complaints.add_lines(records.wrong, records.total)
        if records.longest > BLOCK:
            complaints.add(f"a record of {records.longest / 1e6:,.0f} MB", expectation=f"at most {BLOCK >> 20} MB")
        complaints.raise_any()
        raise file_error(text.file, f"it cannot be read as CSV: {error}") from None


def scan(text: Text) -> RecordScan:
    """Read record by record: the line of each, and which are wrong."""
    data = text.content()
    lone_return = data.count(b"\r", text.start) != data.count(b"\r\n", text.start)
    if data.find(b'"', text.start) < 0 and not lone_return:
        return _scan_lines(text, data)
    lines = array("q")
    wrong: list[tuple[int, str]] = []
    total, begin, offset, longest = 0, 0, text.first_line, 0
    reader = csv.reader(chain(lines_of(data, text.start), [f"{_END}{text.delimiter}{_END}"]), delimiter=text.delimiter)
    try:
        for record in reader:
            line, begin = offset + begin, reader.line_num
            longest = max(longest, sum(map(len, record)))
            message = _wrong(record, len(text.names))
            if message is None:
                lines.append(line)
            elif message:
                total += 1
                if len(wrong) < LIMIT:
                    wrong.append((line, message))
    except csv.Error as error:
        total += 1
        wrong.append((offset + begin, f'this record cannot be read: {error}; is a quote (") never closed?'))
    return RecordScan(np.array(lines, dtype=np.int64), wrong, total, longest)


def _scan_lines(text: Text, content: bytes) -> RecordScan:
    """Scan a text without quotes: a record is a line, and the separators of all lines are counted at once."""
    data = np.frombuffer(content, np.uint8, offset=text.start)
    if not data.size:
        return RecordScan(np.empty(0, np.int64), [], 0, 0)
    ends = np.flatnonzero(data == ord("\n"))
    if data[-1] != ord("\n"):
        ends = np.append(ends, data.size)
    starts = np.concatenate(([0], ends[:-1] + 1))
    blank = (ends == starts) | ((ends == starts + 1) & (data[starts] == ord("\r")))
    separators = np.flatnonzero(data == ord(text.delimiter))
    fields = np.diff(np.searchsorted(separators, starts), append=separators.size) + 1
    right = fields == len(text.names)
    wrong = np.flatnonzero(~right & ~blank)
    miscounted = [(int(i) + text.first_line, _miscounted(int(fields[i]), len(text.names))) for i in wrong[:LIMIT]]
    longest = int((ends - starts).max())
    return RecordScan(np.flatnonzero(right & ~blank) + text.first_line, miscounted, int(wrong.size), longest)


def _wrong(record: list[str], n_fields: int) -> str | None:
    """What is wrong with a record: None if nothing is, empty for a blank record or the end."""
    if record and record[-1].endswith(_END):
        if record == [_END, _END]:
            return ""
        return 'a quote (") is never closed: the rest of the file is one field; close it, or write it twice'
    if len(record) == n_fields:
        return None
    if not record:
        return ""
    return _miscounted(len(record), n_fields)


def _miscounted(found: int, n_fields: int) -> str:
    names = counted(n_fields, "name")
    return f"{counted(found, 'field')}, but the header has {names}; a field that holds the separator must be quoted"


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
