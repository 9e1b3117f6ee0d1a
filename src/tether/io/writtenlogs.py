"""Logs written in other ways: another encoding, decimal commas, days before months, names in several spellings.

The text is rewritten as the reader of logs expects it, and keeps its lines, so that problems are found where they are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from tether._foundation.arrays import Ints
from tether._foundation.problems import Source
from tether._foundation.words import folded
from tether.errors import FileError, Problem, QueryError
from tether.io.columns import TextTable
from tether.io.delimited import Text, cells_of, header_of, scan
from tether.io.files import check_text, read_bytes, table_kind
from tether.model.names import Names, make_names
from tether.observation.episodes import Episodes

DAY_FIRST = re.compile(r"(\d{1,2})[/.-](\d{1,2})[/.-](\d{4})(.*)", re.DOTALL)
"""A date with the day first; what follows is the time of day."""


def as_expected(
    log: Any,
    wanted: Mapping[str, str],
    optional: Mapping[str, str],
    *,
    decimal: str = ".",
    encoding: str = "",
    day_first: bool = False,
) -> Any:
    """A log whose text is what `tether.io.read_episodes` expects; the same log if nothing is to be changed.

    ``wanted`` and ``optional`` are the names in the log of its columns, by what they are here.
    """
    if decimal not in (".", ","):
        raise QueryError(Problem(f"decimal must be '.' or ',', not {decimal!r}", value=decimal, argument="decimal"))
    if decimal == "." and not encoding and not day_first:
        return log
    if not isinstance(log, str | os.PathLike) or table_kind(log) not in ("csv", "tsv"):
        raise QueryError("decimal=, encoding= and day_first= are about a text file: CSV or TSV")
    names = [*wanted.values(), *optional.values()]
    text = _decoded(os.fspath(log), encoding, list(wanted.values()))
    table = cells_of(text, names)
    for here, name in {**wanted, **optional}.items():
        if here in ("t", "reward") and name in table.column_names:
            table = _rewritten(table, name, decimal == ",", day_first and here == "t")
    return TextTable(table, Source(text.file, lambda: scan(text).lines), frozenset())


def _decoded(name: str, encoding: str, wanted: Sequence[str]) -> Text:
    """The text of a file, in UTF-8, whatever encoding it was written in."""
    data = read_bytes(name)
    if encoding:
        try:
            data = data.decode(encoding).encode()
        except LookupError:
            what = f"encoding: there is none of the name {encoding!r}"
            raise QueryError(Problem(what, value=encoding, fix="such as latin-1", argument="encoding")) from None
        except UnicodeDecodeError as error:
            what = f"the byte 0x{data[error.start]:02x} is not {encoding}"
            raise FileError(Problem(what, file=name, line=data.count(b"\n", 0, error.start) + 1)) from None
    else:
        check_text(name, data)
    return header_of(name, data.removeprefix(b"\xef\xbb\xbf"), wanted, "\t" if table_kind(name) == "tsv" else None)


def _rewritten(table: Any, name: str, comma: bool, day_first: bool) -> Any:
    """The table with the cells of a column as the reader expects numbers and dates; each distinct cell once."""
    column = table.column(name).combine_chunks().dictionary_encode()
    cells = [_cell(cell or "", comma, day_first) for cell in column.dictionary.to_pylist()]
    new = pa.array(cells, pa.string()).take(column.indices)
    return table.set_column(table.column_names.index(name), name, new)


def _cell(cell: str, comma: bool, day_first: bool) -> str:
    """A number with a decimal point, a date as yyyy-mm-dd; any other cell as it is.

    >>> _cell("0,5", True, False), _cell("3/1/2024 08:30", False, True), _cell("x,y", True, True)
    ('0.5', '2024-01-03 08:30', 'x,y')
    """
    date = DAY_FIRST.fullmatch(cell.strip()) if day_first else None
    if date is not None:
        day, month, year, rest = date.groups()
        return f"{year}-{int(month):02}-{int(day):02}{rest}"
    return cell.replace(",", ".") if comma and re.fullmatch(r"\s*[+-]?\d*,\d+\s*", cell) else cell


def fold_names(log: Episodes) -> Episodes:
    """The episodes with names in lower case, without accents and extra spaces; names that become equal are one.

    Examples
    --------
    >>> import tether
    >>> from tether.io.writtenlogs import fold_names
    >>> fold_names(tether.Episodes.from_paths([tether.Path(["Sick", "sick ", "Well"], ["Café", "cafe"])]))[0]
    <Path: 2 steps, 'sick' –'cafe'→ 'sick' –'cafe'→ 'well'>
    """
    states, to_state = _folded(log.states, "state")
    actions, to_action = _folded(log.actions, "action")
    after = np.where(log.next_state >= 0, to_state[log.next_state], -1)
    changed = replace(log, states=states, actions=actions, state=to_state[log.state], action=to_action[log.action])
    changed = replace(changed, next_state=after)
    if log.outcomes is None or log.outcome is None:
        return changed
    outcomes, to_outcome = _folded(log.outcomes, "outcome")
    return replace(changed, outcomes=outcomes, outcome=np.where(log.outcome >= 0, to_outcome[log.outcome], -1))


def _folded(names: Names, noun: str) -> tuple[Names, Ints]:
    """Names without differences of spelling, and the index there of each of the given ones."""
    found: dict[Any, int] = {}
    index = [found.setdefault(_fold(name), len(found)) for name in names]
    return make_names(list(found), None, noun), np.array(index, dtype=np.int64)


def _fold(name: Any) -> Any:
    if isinstance(name, tuple):
        parts = [_fold(part) for part in name]
        return type(name)(*parts) if hasattr(name, "_fields") else tuple(parts)
    return folded(name) if isinstance(name, str) else name
