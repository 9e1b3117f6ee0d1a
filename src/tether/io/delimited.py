"""Delimited text (CSV, TSV): into an Arrow table, and back from a row of it to its line.

Arrow reads the text, at full speed. Only when something is wrong is the text read again, record by
record, to find the lines: a quoted field may hold line breaks, so a row's line is not its number.
"""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from tether._foundation.arrays import Ints
from tether._foundation.problems import LIMIT, Complaints
from tether._foundation.words import counted
from tether.errors import Problem
from tether.io.files import File, checked_text, file_error, lines_of, name_of

__all__ = ["BLOCK", "Records", "Text", "header_of", "read_text", "scan", "table_as_text", "table_of_text"]

BLOCK = 1 << 24
"""What is read at once; no record is longer."""

_END = "\0end\0"  # no text with a NUL gets this far


class Text(NamedTuple):
    """A delimited text whose header was read."""

    file: str
    delimiter: str
    names: list[str]
    data: bytes
    start: int  # where in the data the header ends,
    first_line: int  # and the line that begins there


class Records(NamedTuple):
    """What a reading record by record found.

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

    Without ``delimiter`` it is the one of comma, semicolon and tab that makes most of the wanted names appear.
    """
    return header_of(name_of(file), checked_text(file, max_unpacked), wanted, delimiter)


def header_of(name: str, data: bytes, wanted: Sequence[str], delimiter: str | None) -> Text:
    """The same of the bytes of a file, or of its beginning."""
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
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    left_out = False

    def skip(_: Any) -> str:
        nonlocal left_out
        left_out = True
        return "skip"

    types = {str(i): kind for i, kind in chosen.items()}
    body = pa.py_buffer(text.data).slice(text.start) if text.start < len(text.data) else pa.py_buffer(b"\n")
    quotes = text.data.count(b'"', text.start) if text.data.find(b'"', text.start) >= 0 else 0  # to find is faster
    table = arrow_csv.read_csv(
        pa.BufferReader(body),
        read_options=arrow_csv.ReadOptions(
            # Threads let go of the text a moment after the table is there. If Python ends in that moment, it aborts;
            # a large table takes longer to be made use of than that.
            use_threads=body.size > BLOCK,
            column_names=[str(i) for i in range(len(text.names))],
            block_size=min(BLOCK, body.size),
        ),
        parse_options=arrow_csv.ParseOptions(
            delimiter=text.delimiter, newlines_in_values=quotes > 0, invalid_row_handler=skip
        ),
        convert_options=arrow_csv.ConvertOptions(
            column_types=types, include_columns=list(types), null_values=[], strings_can_be_null=False, check_utf8=False
        ),
    )
    return table, left_out or quotes % 2 == 1  # Arrow takes a quote that is never closed for one that is


def table_as_text(text: Text, chosen: Sequence[int], complaints: Complaints) -> tuple[Any, bool]:
    """The same with every cell as text; where even that cannot be read, all that is wrong is raised."""
    import pyarrow as pa

    try:
        return table_of_text(text, dict.fromkeys(chosen, pa.string()))
    except (pa.ArrowException, OSError) as error:
        records = scan(text)
        complaints.add_lines(records.wrong, records.total)
        if records.longest > BLOCK:
            complaints.add(f"a record of {records.longest / 1e6:,.0f} MB", expectation=f"at most {BLOCK >> 20} MB")
        complaints.raise_any()
        raise file_error(text.file, f"it cannot be read as CSV: {error}") from None


def scan(text: Text) -> Records:
    """Read record by record: the line of each, and which are wrong."""
    lone_return = text.data.count(b"\r", text.start) != text.data.count(b"\r\n", text.start)
    if text.data.find(b'"', text.start) < 0 and not lone_return:
        return _scan_lines(text)
    lines = array("q")
    wrong: list[tuple[int, str]] = []
    total, begin, offset, longest = 0, 0, text.first_line, 0
    reader = csv.reader(
        chain(lines_of(text.data, text.start), [f"{_END}{text.delimiter}{_END}"]), delimiter=text.delimiter
    )
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
    return Records(np.array(lines, dtype=np.int64), wrong, total, longest)


def _scan_lines(text: Text) -> Records:
    """The same where no quotes are: a record is a line, and its separators can be counted for all at once."""
    data = np.frombuffer(text.data, np.uint8, offset=text.start)
    if not data.size:
        return Records(np.empty(0, np.int64), [], 0, 0)
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
    return Records(np.flatnonzero(right & ~blank) + text.first_line, miscounted, int(wrong.size), longest)


def _wrong(record: list[str], n_fields: int) -> str | None:
    """What is wrong with a record: None for nothing, no words for one that is blank or the end."""
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
