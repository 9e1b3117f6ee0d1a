"""Tables in Excel workbooks (.xlsx): read, not written. Dates are times, blank rows are left out.

The table is the sheet whose first row that is not blank has the columns. Hidden sheets are left out. The value of a
formula is the one that was saved with it. openpyxl reads the workbook row by row; it is imported only here.
"""

from __future__ import annotations

import os
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from tether._foundation.arrays import Ints
from tether.errors import FileError, Problem, QueryError
from tether.io.arrowfiles import guarded
from tether.io.files import ARCHIVE_END, File, check_archive, ends_of, file_error, name_of, too_large, unpacked_limit

_MOST_ROWS = 1_048_576
"""The most rows that a sheet can have; a damaged file may claim more."""

_AT_ONCE = 1000
"""How many rows are read at a time; the warnings of openpyxl are off meanwhile."""

_WORKBOOK = "an Excel workbook"
_OF_ZIP = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError, UnicodeError)
_OLE = b"\xd0\xcf\x11\xe0"
_ERRORS = frozenset({"#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!"})


@dataclass(frozen=True, slots=True)
class Sheet:
    """A sheet of an open workbook: the names of its columns, and the row of its header, from 1."""

    file: str
    opened: Any
    names: list[str]
    header: int

    def read(self, columns: Sequence[int]) -> tuple[list[list[Any]], Ints]:
        """Some columns, by position, without blank rows; and the row of each in the sheet, counted from 0."""
        kept: list[list[Any]] = [[] for _ in columns]
        rows: list[int] = []
        most = max(columns, default=0) + 1
        cells = self.opened.iter_rows(self.header + 1, _MOST_ROWS, 1, most, values_only=True)
        for row, values in enumerate(_guarded(self.file, cells), start=self.header):
            if all(_is_blank(value) for value in values):
                continue
            rows.append(row)
            for column, place in zip(kept, columns, strict=True):
                column.append(self._cell(values[place] if place < len(values) else None, place, row))
        return kept, np.array(rows, dtype=np.int64)

    def _cell(self, value: Any, place: int, row: int) -> Any:
        if isinstance(value, str):
            value = value.strip()
            if value in _ERRORS:
                what = f"the cell in the column {self.names[place]!r} has the error {value}"
                raise FileError(Problem(what, value=value, file=self.file, row=row, fix="correct the formula"))
        return value


@contextmanager
def open_sheet(file: File, wanted: Sequence[str], max_unpacked: int | str | None = None) -> Iterator[Sheet]:
    """The sheet of a workbook that has most of the wanted columns; an error if two have all of them."""
    name = name_of(file)
    _check_archive(name, max_unpacked)
    with _opened(name) as book:
        yield _chosen(name, [found for sheet in book.worksheets for found in _header(name, sheet)], wanted)


def _chosen(name: str, sheets: list[Sheet], wanted: Sequence[str]) -> Sheet:
    if not sheets:
        header = f"a header with the columns {', '.join(wanted)}"
        raise file_error(name, Problem("the workbook is empty", expectation=header))
    fits = [sheet for sheet in sheets if {*wanted} <= {*sheet.names}]
    if len(fits) > 1:
        titles = " and ".join(repr(sheet.opened.title) for sheet in fits)
        raise file_error(name, Problem(f"the sheets {titles} both have the columns", fix="hide or remove one"))
    return max(sheets, key=lambda sheet: len({*wanted} & {*sheet.names}))


def _header(file: str, sheet: Any) -> list[Sheet]:
    """The sheet with its header, if it is visible and not empty."""
    if sheet.sheet_state != "visible":
        return []
    sheet.reset_dimensions()  # the dimensions in a file may be wrong
    for number, row in enumerate(_guarded(file, sheet.iter_rows(max_row=_MOST_ROWS, values_only=True)), start=1):
        if not all(_is_blank(cell) for cell in row):
            return [Sheet(file, sheet, ["" if cell is None else str(cell).strip() for cell in row], number)]
    return []


def _check_archive(name: str, max_unpacked: int | str | None) -> None:
    """A workbook is a ZIP archive of XML: refuse other files, archives that unpack to too much, and XML entities."""
    head, _ = ends_of(name, 4)
    if not head:
        raise file_error(name, Problem("the file is empty", expectation="an Excel workbook"))
    if head == _OLE:
        fix = "save it as .xlsx, without a password"
        raise file_error(name, Problem("this is an old Excel file (.xls), or one with a password", fix=fix))
    limit = unpacked_limit(os.path.getsize(name), max_unpacked)
    guarded(name, _WORKBOOK, lambda: _check_members(name, limit), _OF_ZIP)


def _check_members(name: str, limit: int) -> None:
    with zipfile.ZipFile(name) as archive:
        check_archive(archive, ends_of(name, ARCHIVE_END)[1])
        members = archive.infolist()
        if sum(member.file_size for member in members) > limit:
            raise too_large(name, limit)
        for member in members:
            with archive.open(member) as stream:
                if b"<!DOCTYPE" in stream.read(4096):
                    raise file_error(name, f"{member.filename} in it has a DOCTYPE, which no workbook needs")


@contextmanager
def _opened(name: str) -> Iterator[Any]:
    """A workbook, closed at the end."""
    try:
        from openpyxl import load_workbook
    except ImportError:
        fix = "pip install 'tether[excel]', or save the sheet as CSV"
        raise QueryError(Problem("reading Excel files needs openpyxl", fix=fix)) from None
    book = _quietly(name, lambda: load_workbook(name, read_only=True, data_only=True))
    try:
        yield book
    finally:
        book.close()


def _guarded(name: str, rows: Iterator[Any]) -> Iterator[Any]:
    """Rows of a sheet, read many at a time."""
    while some := _quietly(name, lambda: list(islice(rows, _AT_ONCE))):
        yield from some


def _quietly(name: str, read: Callable[[], Any]) -> Any:
    """What openpyxl reads, without warnings about styles and extensions; its errors are of many types."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return guarded(name, _WORKBOOK, read, Exception)


def _is_blank(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())
