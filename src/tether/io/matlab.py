"""Checks that a MATLAB file (version 5 to 7) is complete, before scipy reads it.

scipy trusts the sizes and types in such a file and can crash on a damaged one, beyond the reach of any exception.
The format: a header of 128 bytes, then elements, each a type and a size in 8 bytes (or, if small, in 4 with its
data in the other 4) and its data, filled up to a multiple of 8. A matrix is an element made of elements.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import islice
from math import prod
from struct import unpack_from
from typing import NamedTuple

import numpy as np

from tether.io.files import File, file_error, too_large

_WIDTH = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 4, 9: 8, 12: 8, 13: 8, 16: 1, 17: 2, 18: 4}
"""Bytes per item, by type of element."""
_MATRIX, _COMPRESSED = 14, 15
_KINDS = {*_WIDTH, _MATRIX, _COMPRESSED}
_MOST = 1_000_000
"""How many parts an array may have: one cell per state."""
_CELL, _CHAR, _SPARSE, _NUMBERS = 1, 4, 5, range(6, 16)
_DEEPEST = 20


class _DamagedError(Exception):
    """Some part does not fit; says which."""


class _Element(NamedTuple):
    kind: int
    data: bytes


def check_matlab(file: File, data: bytes, limit: int) -> dict[str, bool]:
    """The names of a file's arrays, and whether each is of numbers, text or cells of them; no struct, no object.

    Raises a `FileError` if the sizes and types do not fit together, or if it unpacks to more than ``limit`` bytes.
    """
    if data[:8] == b"\x89HDF\r\n\x1a\n" or data[124:126] in (b"\x00\x02", b"\x02\x00"):
        raise file_error(file, "MATLAB saved it in version 7.3; save it again: save(file, '-v7')")
    if data[126:128] not in (b"IM", b"MI"):
        raise file_error(file, "this is not a MATLAB file of version 5 to 7, whatever its name says")
    order = "<" if data[126:128] == b"IM" else ">"
    found = {}
    left = limit
    try:
        for element in _elements(data[128:], order):
            matrix = element
            if element.kind == _COMPRESSED:
                inflated = _inflated(element.data, left + 1)
                left -= len(inflated)
                if left < 0:
                    raise too_large(file, limit)
                matrix, *others = islice(_elements(inflated, order), 2)
                if others:
                    raise _DamagedError("a compressed element of several")
            if matrix.kind != _MATRIX or not matrix.data:
                raise _DamagedError("an element that is no array")
            name, plain = _check_matrix(matrix.data, order, 0)
            found[name] = plain
    except _DamagedError as error:
        raise file_error(file, f"it cannot be read as a MATLAB file; it is damaged or cut off: {error}") from None
    return found


def _elements(data: bytes, order: str) -> Iterator[_Element]:
    at = 0
    while at < len(data):
        if len(data) - at < 8:
            raise _DamagedError("it ends within the head of an element")
        kind, size = unpack_from(f"{order}II", data, at)
        start = at + 8
        if kind >> 16:  # a small element
            kind, size, start = kind & 0xFFFF, kind >> 16, at + 4
            at = start + 4
            if size > 4:
                raise _DamagedError(f"a small element of {size} bytes")
        else:
            at = start + size if kind == _COMPRESSED else start + size + -size % 8
        if kind not in _KINDS:
            raise _DamagedError(f"an element of the unknown type {kind}")
        if start + size > len(data):
            raise _DamagedError(f"an element of {size:,} bytes, of which {len(data) - start:,} are there")
        yield _Element(kind, data[start : start + size])


def _inflated(data: bytes, limit: int) -> bytes:
    """Compressed data, unpacked as far as ``limit`` bytes."""
    packed = zlib.decompressobj()
    try:
        inflated = packed.decompress(data, limit)
    except zlib.error as error:
        raise _DamagedError(f"compressed data: {error}") from None
    if len(inflated) < limit and not packed.eof:
        raise _DamagedError("compressed data without an end")
    if not inflated:
        raise _DamagedError("an empty element")
    return inflated


def _check_matrix(data: bytes, order: str, depth: int) -> tuple[str, bool]:
    """Flags, dimensions, name, then what the class of the array asks for."""
    parts = list(islice(_elements(data, order), _MOST + 1))
    if len(parts) > _MOST:
        raise _DamagedError(f"an array of more than {_MOST:,} parts")
    if len(parts) < 3 or [part.kind for part in parts[:3]] != [6, 5, 1] or len(parts[0].data) != 8:
        raise _DamagedError("an array without flags, dimensions or name")
    flags = int(np.frombuffer(parts[0].data, f"{order}u4", 1)[0])
    sides = [int(side) for side in np.frombuffer(parts[1].data, f"{order}i4")] if len(parts[1].data) % 4 == 0 else []
    if len(sides) < 2 or min(sides) < 0:
        raise _DamagedError("an array without proper dimensions")
    which, values, plain = flags & 0xFF, parts[3:], True
    if which == _CELL:
        plain = _check_cells(values, prod(sides), order, depth)
    elif which == _SPARSE:
        _check_sparse(values, sides)
    elif which == _CHAR:
        if len(values) != 1 or _count(values[0]) < prod(sides):  # a letter may take several bytes
            raise _DamagedError(f"a text of {prod(sides):,} letters that holds fewer")
    elif which in _NUMBERS:
        complex_parts = 2 if flags & 0x0800 else 1
        if len(values) != complex_parts or any(_count(value) != prod(sides) for value in values):
            raise _DamagedError(f"an array of {prod(sides):,} items that holds another number of them")
    else:
        plain = False  # a struct, an object, a function: not supported, and not read
    return parts[2].data.decode("latin-1"), plain


def _check_cells(values: list[_Element], count: int, order: str, depth: int) -> bool:
    if len(values) != count or any(value.kind != _MATRIX for value in values) or depth > _DEEPEST:
        raise _DamagedError(f"a cell array of {count:,} cells that holds {len(values):,}")
    plain = [_check_matrix(value.data, order, depth + 1)[1] for value in values if value.data]
    return all(plain)


def _check_sparse(values: list[_Element], sides: list[int]) -> None:
    if len(values) not in (3, 4) or len(sides) != 2:
        raise _DamagedError("a sparse matrix without rows, columns or values")
    rows, columns, *numbers = (_count(value) for value in values)
    if columns != sides[1] + 1 or any(number > rows for number in numbers):
        raise _DamagedError("a sparse matrix whose parts differ in length")


def _count(value: _Element) -> int:
    """How many items an element holds."""
    width = _WIDTH.get(value.kind)
    if width is None or len(value.data) % width:
        raise _DamagedError(f"data of type {value.kind} and {len(value.data):,} bytes")
    return len(value.data) // width
