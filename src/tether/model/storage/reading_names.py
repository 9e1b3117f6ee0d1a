"""Names from disk: listed ones at once, columns of them when they are needed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, overload

import msgspec

from tether._foundation.arrays import Ints
from tether.errors import FileError, ModelError, Problem
from tether.model.names import Names, make_names, name_list
from tether.model.place import Part, Place, pickled_as
from tether.model.storage.meta import MODEL, ColumnMeta, NamedTupleMeta, NamesMeta
from tether.model.storage.named import class_of

__all__ = ["NameReader"]

_CHUNK = 1 << 16
_DAMAGE = (KeyError, IndexError, TypeError, ValueError, RecursionError, msgspec.DecodeError)


@dataclass(frozen=True, slots=True)
class NameReader:
    """Turns a description back into names."""

    folder: str
    place: Place
    arrays: dict[str, Any]
    named_tuples: tuple[NamedTupleMeta, ...]

    def read(self, meta: NamesMeta, noun: str) -> Names:
        """The names described; columns are not read before they are needed."""
        file = f"{self.folder}/{MODEL}"
        try:
            classes = [class_of(named.module, named.name, named.fields) for named in self.named_tuples]
            if meta.listed is not None:
                return make_names([_restored(item, classes) for item in meta.listed], meta.n, noun)
            if meta.column is not None:
                return _StoredNames(self._column(meta.column, classes), meta.n, self.folder, self.place, noun)
            return make_names(None, meta.n, noun)
        except (ModelError, KeyError, IndexError, TypeError, ValueError, RecursionError) as error:
            message = f"its {noun} names are not what MDP.save writes ({error}); save the model again"
            raise FileError(Problem(message, file=file)) from None

    def _column(self, meta: ColumnMeta, classes: list[Any]) -> _Column:
        if meta.kind == "tuple":
            places = tuple(self._column(place, classes) for place in meta.items)
            return _Tuples(None if meta.named is None else classes[meta.named], places)
        values = self.arrays[meta.array]
        if meta.kind == "number":
            return _Numbers(values)
        texts = _Texts(values, self.arrays[meta.ends])
        return texts if meta.kind == "text" else _Json(texts, classes)


class _Column:
    """A column of names: any stretch of it as a list."""

    __slots__ = ()

    @abstractmethod
    def part(self, low: int, high: int) -> list[Any]: ...

    @abstractmethod
    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class _Numbers(_Column):
    values: Ints

    def __len__(self) -> int:
        return int(self.values.size)

    def part(self, low: int, high: int) -> list[Any]:
        return list(self.values[low:high].tolist())


@dataclass(frozen=True, slots=True)
class _Texts(_Column):
    utf8: Ints
    ends: Ints

    def __len__(self) -> int:
        return int(self.ends.size)

    def part(self, low: int, high: int) -> list[Any]:
        begin = int(self.ends[low - 1]) if low else 0
        ends = (self.ends[low:high] - begin).tolist()
        text = self.utf8[begin : begin + ends[-1]].tobytes() if ends else b""
        return [text[one:two].decode() for one, two in zip([0, *ends], ends, strict=False)]


@dataclass(frozen=True, slots=True)
class _Json(_Column):
    texts: _Texts
    classes: list[Any]

    def __len__(self) -> int:
        return len(self.texts)

    def part(self, low: int, high: int) -> list[Any]:
        return [_restored(msgspec.json.decode(text), self.classes) for text in self.texts.part(low, high)]


@dataclass(frozen=True, slots=True)
class _Tuples(_Column):
    named: Any
    places: tuple[_Column, ...]

    def __len__(self) -> int:
        return len(self.places[0])

    def part(self, low: int, high: int) -> list[Any]:
        rows = zip(*(place.part(low, high) for place in self.places), strict=True)
        return list(rows if self.named is None else map(partial(tuple.__new__, self.named), rows))


def _restored(item: Any, classes: list[Any]) -> Any:
    if not isinstance(item, dict):
        return item
    if "tuple" in item:
        parts = tuple(_restored(part, classes) for part in item["tuple"])
        return parts if "named" not in item else tuple.__new__(classes[item["named"]], parts)
    return int(item["int"]) if "int" in item else float(item["float"])


class _StoredNames(Names):
    """Names as columns on disk: one is decoded when it is used, all of them when one is first searched for."""

    __slots__ = ("_column", "_folder", "_listed", "_n", "_noun", "_place")

    def __init__(self, column: _Column, n: int, folder: str, place: Place, noun: str) -> None:
        if len(column) != n:
            raise ValueError(f"{len(column):,} in columns for {n:,} {noun}s")
        self._column, self._n, self._folder, self._place, self._noun = column, n, folder, place, noun
        self._listed: Names | None = None

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, i: int) -> Any: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[Any]: ...
    def __getitem__(self, i: int | slice) -> Any:
        if self._listed is not None:
            return self._listed[i]
        wanted = range(self._n)[i]
        if isinstance(wanted, int):
            return self._part(wanted, wanted + 1)[0]
        if wanted.step == 1:
            return tuple(self._part(wanted.start, wanted.stop))
        return tuple(self[one] for one in wanted)

    def __iter__(self) -> Iterator[Any]:
        for low in range(0, self._n, _CHUNK):
            yield from self._part(low, min(low + _CHUNK, self._n))

    def find(self, name: Any) -> int:
        if self._listed is None:
            try:
                self._listed = make_names(list(self), self._n, self._noun)
            except ModelError as error:
                raise self._broken(error) from None
        return self._listed.find(name)

    def _part(self, low: int, high: int) -> list[Any]:
        try:
            return self._column.part(low, high)
        except _DAMAGE as error:
            raise self._broken(error) from None

    def _broken(self, error: Exception) -> FileError:
        message = f"its {self._noun} names are damaged ({error}); save the model again with MDP.save"
        return FileError(Problem(message, file=self._folder))

    def __reduce__(self) -> tuple[Any, ...]:
        part: Part = "states" if self._noun == "state" else "actions"
        if self._place.is_there():
            return pickled_as(self._place, part, ())
        return make_names, (tuple(self), None, self._noun)

    def __repr__(self) -> str:
        return f"Names({name_list(self[:2])}, … {self[self._n - 1]!r}: {self._n:,} names)"
