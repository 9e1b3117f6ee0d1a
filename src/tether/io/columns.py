"""Columns of a table: from a CSV, Parquet, Arrow or Excel file, or from any dataframe, to arrays of names and numbers.

A column has either names (states, actions, episodes) or numbers. All problems of a table are reported at
once, each with its line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tether._foundation.problems import Complaints, Located, Source, common_length
from tether._foundation.words import counted
from tether.errors import FileError, ModelError, Problem, QueryError
from tether.io.arrowfiles import open_arrow, open_parquet
from tether.io.delimited import Text, read_text, scan, table_as_text, table_of_text
from tether.io.files import File, changed, file_error, name_of, table_kind, unknown_table
from tether.io.spreadsheets import Sheet, open_sheet
from tether.io.values import (
    cut_repr,
    labels_of_arrow,
    labels_of_list,
    labels_of_text,
    numbers_of_arrow,
    numbers_of_list,
)
from tether.model.encode import Coded
from tether.model.names import plain

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Columns:
    """Columns of equal length, by name, and where each of their rows came from.

    Attributes
    ----------
    values : dict of array or Coded
        Whole numbers as ints, other numbers as floats, other names by code (`tether.model.encode.Coded`). Optional
        columns that the table does not have are not in it.
    n_rows : int
    complaints : Complaints
        A collector of the problems of these rows: ``add(what, row=…)``, then ``raise_any()``. With ``collect`` it
        already has the cells that could not be read.
    """

    values: Mapping[str, Array | Coded]
    n_rows: int
    complaints: Complaints

    @property
    def source(self) -> Source:
        """Where the rows are."""
        return self.complaints.source

    @property
    def file(self) -> str | None:
        """The file, or None for a table in memory."""
        return self.source.file

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def __contains__(self, name: object) -> bool:
        return name in self.values

    def get(self, name: str) -> Any:
        """A column, or None if the table does not have it."""
        return self.values.get(name)

    def __repr__(self) -> str:
        return f"<Columns: {self.file or 'a table'}, {counted(self.n_rows, 'row')} of {', '.join(self.values)}>"


class TextTable(NamedTuple):
    """Rows of a delimited text: an Arrow table with every cell as text, and where its rows are.

    ``texts`` are the columns that contain more than whole numbers, also in other rows of the file.
    """

    table: Any
    source: Source
    texts: frozenset[str] = frozenset()


def read_columns(
    file: File,
    wanted: Sequence[str],
    optional: Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
    text: Sequence[str] = (),
    blank: Sequence[str] = (),
    kind: str | None = None,
    alike: Sequence[Sequence[str]] = (("state", "next_state"),),
    max_unpacked: int | str | None = None,
    collect: bool = False,
) -> Columns:
    """Read columns of a CSV, TSV, Parquet, Arrow or Excel file.

    Parameters
    ----------
    file : path
        Its suffix says what it is; ``.csv.gz`` and ``.tsv.gz`` are decompressed.
    wanted, optional : sequence of str
        Columns that must be there, and columns that may be.
    rename : mapping, optional
        The names in the file of columns that have other names there: ``{"state": "s"}``.
    text : sequence of str
        Columns of names; all others are numbers.
    blank : sequence of str
        Columns whose cells may be empty: None among names, NaN among numbers.
    kind : {"csv", "tsv", "parquet", "arrow", "xlsx"}, optional
        What the file is, whatever its suffix.
    alike : sequence of sequences of str
        Columns of names of the same things: in a text file they are all whole numbers, or all text.
    max_unpacked : int or str, optional
        To how many bytes a compressed file may unpack; see `tether.io.files.unpacked_limit`.
    collect : bool
        Whether cells that cannot be read are left in `Columns.complaints`, for the caller to raise with all other
        problems. Such a number is NaN.
    """
    name = name_of(file)
    kind = kind or table_kind(file)
    if kind is None:
        raise unknown_table(name)
    plan = _Plan(wanted, optional, rename or {}, text, blank, alike, collect)
    if kind in ("csv", "tsv"):
        return _of_text(read_text(file, plan.sought(), "\t" if kind == "tsv" else None, max_unpacked), plan)
    if kind == "xlsx":
        with open_sheet(file, plan.sought(), max_unpacked) as sheet:
            return _of_sheet(sheet, plan)
    names, load = (open_parquet if kind == "parquet" else open_arrow)(file, max_unpacked)
    complaints = Complaints(Source(name))
    chosen = plan.choose(names, complaints)
    return _of_arrow(load([names[i] for i in chosen.values()]), plan, list(chosen), complaints)


def columns_of(
    table: Any,
    wanted: Sequence[str],
    optional: Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
    text: Sequence[str] = (),
    blank: Sequence[str] = (),
    error: Located = ModelError,
    alike: Sequence[Sequence[str]] = (),
    collect: bool = False,
) -> Columns:
    """Columns of a table in memory: a dataframe, an Arrow table, anything that exports one, or a dict of columns.

    ``error`` is the class to raise if the table is not as expected. A `TextTable` is a piece of a text file, and is
    read like one.
    """
    plan = _Plan(wanted, optional, rename or {}, text, blank, alike, collect)
    if isinstance(table, TextTable):
        return _of_text_table(table, plan, Complaints(table.source, FileError))
    complaints = Complaints(Source(), error)
    if isinstance(table, Mapping):
        return _of_lists(table, plan, complaints)
    table = collected(table)
    names = frame_names(table)
    if names is not None:
        chosen = plan.choose(names, complaints)
        some = [names[i] for i in chosen.values()]
        arrow = frame_to_arrow(table, some, error)
        if arrow is None:
            return _of_lists({one: table[one] for one in some}, plan, complaints)
    else:
        arrow = frame_to_arrow(table, None, error)
        chosen = plan.choose(arrow.column_names, complaints)
        arrow = arrow.select(list(chosen.values()))
    return _of_arrow(arrow, plan, list(chosen), complaints)


def unknown_column(name: Any, known: Sequence[str]) -> QueryError:
    """The error for a name that ``columns=`` cannot map."""
    what, can = f"there is no column {name!r} to map", f"one of {', '.join(known)}"
    return QueryError(Problem(what, value=name, place="columns=", expectation=can, argument="columns"))


@dataclass(frozen=True, slots=True)
class _Plan:
    """Which columns to read, under which names, and what they contain."""

    wanted: Sequence[str]
    optional: Sequence[str]
    rename: Mapping[str, str]
    text: Sequence[str]
    blank: Sequence[str]
    alike: Sequence[Sequence[str]] = ()
    collect: bool = False

    def __post_init__(self) -> None:
        known = [*self.wanted, *self.optional]
        for key in self.rename:
            if key not in known:
                raise unknown_column(key, known)

    def shown(self, name: str) -> str:
        """The name of a column as its user knows it."""
        return self.rename.get(name, name)

    def sought(self) -> list[str]:
        """The names in the file of the columns that must be there."""
        return [self.rename.get(name, name) for name in self.wanted]

    def choose(self, there: Sequence[Any], complaints: Complaints) -> dict[str, int]:
        """The position of each column that is to be read; an error if one that must be there is not."""
        chosen: dict[str, int] = {}
        missing = []
        for name in (*self.wanted, *self.optional):
            sought = self.rename.get(name, name)
            places = [i for i, one in enumerate(there) if one == sought]
            if len(places) > 1:
                complaints.add(f"the column {sought!r} is there {len(places)} times", fix="rename or drop one")
            elif places:
                chosen[name] = places[0]
            elif name in self.wanted or name in self.rename:
                missing.append(name)
        if missing:
            complaints.add(self._missing(missing, there, complaints.source.find_lines is not None))
        complaints.raise_any()
        return chosen

    def made(self, values: Mapping[str, Array | Coded], rows: int, complaints: Complaints) -> Columns:
        """The columns that were read; problems are raised, unless they are collected and about cells only."""
        if not (self.collect and complaints.only_of_rows):
            complaints.raise_any()
        return Columns(values, rows, complaints)

    def _missing(self, missing: list[str], there: Sequence[Any], text: bool) -> Problem:
        sought = ", ".join(repr(self.rename.get(name, name)) for name in missing)
        found = ", ".join(cut_repr(one) for one in there[:20]) + (", …" if len(there) > 20 else "")
        what = f"the column {sought} is missing" if len(missing) == 1 else f"the columns {sought} are missing"
        if text and not {*self.sought()} & {*there}:
            what = f"{what} (the first line must name the columns)"
        alike = {_letters(one): one for one in there if isinstance(one, str)}
        guess = {name: alike.get(_letters(name), "<its name there>") for name in missing}
        fix = f"if a column has another name, map it: columns={guess!r}"
        return Problem(f"{what}; found {found or 'none'}", value=tuple(missing), fix=fix, argument="columns")


def _letters(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _of_text(text: Text, plan: _Plan) -> Columns:
    """Numbers as Arrow reads them; if a cell is not a number, all cells as text, to find it."""
    complaints = Complaints(Source(text.file, lambda: scan(text).lines))
    chosen = plan.choose(text.names, complaints)
    types = {i: pa.string() if name in plan.text else pa.float64() for name, i in chosen.items()}
    try:
        table, suspect = table_of_text(text, types)
    except (pa.ArrowException, OSError):
        table, suspect = table_as_text(text, list(types), complaints)
    if suspect:
        records = scan(text)
        complaints.add_lines(records.wrong, records.total)
        if text.data is None and not records.total and records.lines.size != table.num_rows:
            raise changed(text.file)
    if table.num_rows == 0 and not complaints.total:
        raise file_error(text.file, "there is a header, but no rows")
    columns = {name: table.column(str(i)) for name, i in chosen.items()}
    return _of_cells(columns, table.num_rows, plan, complaints)


def _of_text_table(text: TextTable, plan: _Plan, complaints: Complaints) -> Columns:
    chosen = plan.choose(text.table.column_names, complaints)
    columns = {name: text.table.column(i) for name, i in chosen.items()}
    return _of_cells(columns, text.table.num_rows, plan, complaints, text.texts)


def _of_cells(
    columns: Mapping[str, Any], rows: int, plan: _Plan, complaints: Complaints, texts: frozenset[str] = frozenset()
) -> Columns:
    """The columns of a text file; there may be none, if all of them are optional."""
    values = _labels(columns, plan, complaints, texts)
    for name, column in columns.items():
        if name not in plan.text:
            values[name] = numbers_of_arrow(column, plan.shown(name), complaints, text=True, blank=name in plan.blank)
    return plan.made(values, rows, complaints)


def _labels(
    columns: Mapping[str, Any], plan: _Plan, complaints: Complaints, texts: frozenset[str]
) -> dict[str, Array | Coded]:
    """The columns of names of a text file; columns of the same things are read together."""
    together = [tuple(name for name in group if name in columns) for group in plan.alike]
    alone = [(name,) for name in columns if name in plan.text and not any(name in group for group in together)]
    found: dict[str, Array | Coded] = {}
    blank = [plan.shown(name) for name in plan.blank]
    for group in [*together, *alone]:
        shown = {plan.shown(name): columns[name] for name in group}
        as_text = not texts.isdisjoint(shown)
        labels = labels_of_text(shown, complaints, blank, as_text=as_text) if shown else {}
        found |= {name: labels[plan.shown(name)] for name in group}
    return found


def _of_arrow(table: Any, plan: _Plan, names: list[str], complaints: Complaints) -> Columns:
    """The columns of an Arrow table, which are the ones named, in their order."""
    if table.num_rows == 0 and not complaints.total:
        complaints.add("there are no rows")
    values: dict[str, Array | Coded] = {}
    for name, column in zip(names, table.columns, strict=True):
        if name in plan.text:
            values[name] = labels_of_arrow(column, plan.shown(name), complaints, blank=name in plan.blank)
        else:
            values[name] = numbers_of_arrow(column, plan.shown(name), complaints, text=False, blank=name in plan.blank)
    return plan.made(values, table.num_rows, complaints)


def _of_sheet(sheet: Sheet, plan: _Plan) -> Columns:
    """The columns of a sheet; its cells have the types that Excel gives them."""
    complaints = Complaints(Source(sheet.file))
    chosen = plan.choose(sheet.names, complaints)
    lists, rows = sheet.read(list(chosen.values()))
    if not rows.size:
        raise file_error(sheet.file, "there is a header, but no rows")
    complaints = Complaints(Source(sheet.file, rows=rows))
    values: dict[str, Array | Coded] = {}
    for name, items in zip(chosen, lists, strict=True):
        convert = labels_of_list if name in plan.text else numbers_of_list
        values[name] = convert(items, plan.shown(name), complaints, blank=name in plan.blank)
    return plan.made(values, rows.size, complaints)


def _of_lists(table: Mapping[Any, Any], plan: _Plan, complaints: Complaints) -> Columns:
    names = list(table)
    chosen = plan.choose(names, complaints)
    lists = {}
    for name, i in chosen.items():
        column = table[names[i]]
        if isinstance(column, str) or not hasattr(column, "__iter__"):
            complaints.add(f"the column {names[i]!r} is {cut_repr(column)}", expectation="a list or an array")
        else:
            lists[name] = plain(column)
    complaints.raise_any()
    rows = common_length(lists, complaints.error)
    if rows == 0:
        complaints.add("there are no rows")
    complaints.raise_any()
    values: dict[str, Array | Coded] = {}
    for name, items in lists.items():
        convert = labels_of_list if name in plan.text else numbers_of_list
        values[name] = convert(items, plan.shown(name), complaints, blank=name in plan.blank)
    return plan.made(values, rows, complaints)


def collected(frame: Any) -> Any:
    """The rows of a lazy dataframe (polars' LazyFrame); any other dataframe as it is."""
    return frame.collect() if hasattr(frame, "collect") and hasattr(frame, "collect_schema") else frame


def frame_names(frame: Any) -> list[Any] | None:
    """The names of a dataframe's columns, if columns can also be taken from it by name."""
    names = getattr(frame, "column_names", None)
    if names is None:
        names = getattr(frame, "columns", None)
    if names is None or callable(names) or not hasattr(frame, "__getitem__"):
        return None
    return list(names)


def frame_to_arrow(frame: Any, some: list[Any] | None, error: Located) -> Any:
    """An Arrow table of some columns, or of all; None if Arrow has no type for their contents."""
    try:
        if some is not None:
            frame = frame.select(some) if isinstance(frame, pa.Table | pa.RecordBatch) else frame[some]
        if isinstance(frame, pa.Table):
            return frame
        if isinstance(frame, pa.RecordBatchReader):
            return frame.read_all()
        if hasattr(frame, "__arrow_c_stream__") or hasattr(frame, "__arrow_c_array__"):
            return pa.table(frame)
        if hasattr(frame, "__dataframe__"):
            from pyarrow.interchange import from_dataframe

            return from_dataframe(frame)
    except Exception as cause:  # the dataframe's own code, which may raise anything
        if some is not None:
            return None
        reason = str(cause).partition("\n")[0]
        raise error(f"the {type(frame).__name__} cannot be read as an Arrow table: {reason}") from None
    wanted = "a dataframe (pandas, polars, …), an Arrow table, or a dict of columns"
    raise error(f"expected {wanted}, not {type(frame).__name__}")
