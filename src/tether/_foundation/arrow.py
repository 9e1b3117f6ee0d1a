"""Names as columns of Arrow tables; from there to pandas, polars or Parquet.

Names keep their type if Arrow has one for all of them: whole numbers, numbers, text, truth values, dates. Named
tuples and dataclasses become structs. Plain tuples of one length become structs too, with fields named by position.
Names of several types, or of any other type, become text. All names of the model decide the type, so that two tables of
one model can be put together.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Flags, Ints
from tether.errors import QueryError

if TYPE_CHECKING:
    import pandas
    import pyarrow


def as_pandas(table: pyarrow.Table) -> pandas.DataFrame:
    """An Arrow table as a pandas one; a struct becomes a column of dictionaries.

    Whole numbers and truth values stay such where some are missing: such a column has the type ``Int64`` or ``boolean``
    of pandas.
    """
    try:
        import pandas
    except ImportError:
        raise QueryError("a pandas table needs pandas: pip install pandas") from None
    frame, kinds = table.to_pandas(), {"int64": pandas.Int64Dtype(), "bool": pandas.BooleanDtype()}
    for name in table.column_names:
        column = table[name]
        if column.null_count and str(column.type) in kinds:
            frame[name] = column.to_pandas(types_mapper={column.type: kinds[str(column.type)]}.get)
    return frame


class Tabular:
    """A result that can be an Arrow table can be a pandas table too."""

    __slots__ = ()

    def to_arrow(self) -> pyarrow.Table:
        """The result as an Arrow table."""
        raise NotImplementedError

    def to_pandas(self) -> pandas.DataFrame:
        """The result as a pandas table; pandas must be installed."""
        return as_pandas(self.to_arrow())


class NameColumn:
    """The names of a model's states or actions, ready to be taken by index."""

    def __init__(self, labels: Sequence[Any]) -> None:
        self.labels = labels

    @cached_property
    def _kind(self) -> Any:
        return _kind(self.labels)

    @property
    def type(self) -> Any:
        """The Arrow type that fits all of them."""
        return _type(self._kind)

    def take(self, indices: Ints, empty: Flags | None = None) -> Any:
        """Names by index; missing where ``empty`` is true; ``empty`` may be longer."""
        import pyarrow as pa

        used, at = _numbered(indices)
        names = [_as(self._kind, self.labels[int(i)]) for i in used]
        items = pa.array([*names, None], type=self.type)
        if empty is not None:
            at = np.concatenate((at, np.full(empty.size - at.size, used.size)))
            at[empty] = used.size
        return items.take(pa.array(at))


def _numbered(indices: Ints) -> tuple[Ints, Ints]:
    """The distinct indices, ascending, and which of them each is; without sorting, where there are many."""
    if not indices.size or indices.max() > 4 * indices.size:
        used, at = np.unique(indices, return_inverse=True)
        return used, at.reshape(-1)
    there = np.zeros(int(indices.max()) + 1, bool)
    there[indices] = True
    return np.flatnonzero(there), (np.cumsum(there) - 1)[indices]


def name_array(items: Sequence[Any], among: Sequence[Any] | None = None) -> Any:
    """Some names, None for missing ones, in the type that fits all of ``among``."""
    import pyarrow as pa

    kind = _kind(items if among is None else among)
    return pa.array([None if item is None else _as(kind, item) for item in items], type=_type(kind))


def table_of(kind: type, records: Sequence[Any], names: Mapping[str, Sequence[Any]]) -> pyarrow.Table:
    """One row per record of a kind, one column per field that is a number, a text or a truth value, or in ``names``.

    ``names`` has, for each field of names, all names that decide its type.
    """
    import pyarrow as pa

    columns = {}
    for field in dataclasses.fields(kind):
        values = [getattr(record, field.name) for record in records]
        plain = _PLAIN_FIELDS.get(str(field.type).removesuffix(" | None"))
        if field.name in names:
            columns[field.name] = name_array(values, names[field.name])
        elif plain is not None:
            columns[field.name] = pa.array(values, type=getattr(pa, plain)())
    return pa.table(columns)


_PLAIN_FIELDS = {"bool": "bool_", "int": "int64", "float": "float64", "str": "string"}
_PLAIN: dict[type, str] = {
    bool: "bool_",
    int: "int64",
    float: "float64",
    str: "string",
    bytes: "binary",
    dt.date: "date32",
    dt.datetime: "timestamp",
}


def _kind(items: Sequence[Any]) -> Any:
    """The type that fits all items: one of Python's, a list of (field, type) for a struct, or str."""
    there = [item for item in items if item is not None]
    types = set(map(type, there))
    if types == {int, float}:
        return float if all(abs(item) <= 2**53 for item in there) else str
    if len(types) != 1:
        return str
    (only,) = types
    if only is int:
        return int if all(-(2**63) <= item < 2**63 for item in there) else str
    if only is dt.datetime:
        return only if all(item.tzinfo is None for item in there) else str
    if only in _PLAIN:
        return only
    names = _field_names(only, there)
    return [(name, _kind([_parts(item)[i] for item in there])) for i, name in enumerate(names)] or str


def _field_names(kind: type, items: Sequence[Any]) -> list[str]:
    """The names of the parts that names of a type have; empty for names without parts."""
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    if not issubclass(kind, tuple):
        return []
    named = getattr(kind, "_fields", None)
    if named is not None:
        return list(named)
    lengths = set(map(len, items))
    return [str(i) for i in range(lengths.pop())] if len(lengths) == 1 else []


def _parts(item: Any) -> Sequence[Any]:
    if isinstance(item, tuple):
        return item
    return [getattr(item, field.name) for field in dataclasses.fields(item)]


def _as(kind: Any, item: Any) -> Any:
    """A name in the form that Arrow takes."""
    if kind is str:
        return str(item).encode("utf-8", "replace").decode("utf-8")
    if isinstance(kind, list):
        parts = zip(kind, _parts(item), strict=True)
        return {name: None if part is None else _as(one, part) for (name, one), part in parts}
    return item


def _type(kind: Any) -> Any:
    import pyarrow as pa

    if isinstance(kind, list):
        return pa.struct([(name, _type(one)) for name, one in kind])
    return pa.timestamp("us") if kind is dt.datetime else getattr(pa, _PLAIN[kind])()
