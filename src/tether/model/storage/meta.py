"""What ``model.json`` says: the format and its version, the names, and what each array must look like."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from tether._version import __version__
from tether.errors import FileError, Problem

__all__ = [
    "FORMAT",
    "MODEL",
    "VERSION",
    "ArrayMeta",
    "ColumnMeta",
    "CountsMeta",
    "Meta",
    "NamedTupleMeta",
    "NamesMeta",
    "RewardsMeta",
    "RoundingMeta",
    "is_ours",
    "read_meta",
    "write_meta",
]

FORMAT = "tether model"
VERSION = 1
MODEL = "model.json"

_Positive = Annotated[int, msgspec.Meta(ge=1)]
_Count = Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]

_UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)

_WHAT = "a saved model is one that MDP.save wrote"
_AGAIN = "save the model again with MDP.save, or copy its directory again as a whole"


class ArrayMeta(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One ``.npy`` file: its element type, shape, size of the file, and a checksum of its elements."""

    dtype: str
    shape: tuple[int, ...]
    bytes: int
    crc32: int


class NamedTupleMeta(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A class made by `collections.namedtuple` or `typing.NamedTuple`."""

    module: str
    name: str
    fields: tuple[str, ...]


class ColumnMeta(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Names as columns; see `tether.model.storage.writing_names`."""

    kind: Literal["number", "text", "json", "tuple"]
    array: str = ""
    ends: str = ""
    named: int | None = None
    items: tuple[ColumnMeta, ...] = ()


class NamesMeta(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Names: 0 … n-1 if nothing else is given, or a list, or columns."""

    n: _Count
    listed: list[Any] | None = None
    column: ColumnMeta | None = None


class RewardsMeta(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """R(s, a) or R(s, a, s'), and for how many steps, if they depend on time."""

    of: Literal["pair", "entry"]
    steps: _Positive | None


class RoundingMeta(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """As `tether.model.form.Rounding`."""

    rows: int
    largest: float
    tolerance: float


class CountsMeta(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """As `tether.model.counts.Counts`, without its arrays."""

    prior: float
    episodes: int
    steps: int
    unrecorded: int
    minimum: int
    end: int
    empty_rewards: Literal["", "last", "zero", "mean"] = ""
    empty: int = 0
    unplaced: int = 0


class Meta(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of ``model.json``; ``checksum`` is over all the rest; the array ``label_i`` belongs to ``labels[i]``."""

    format: str
    version: int
    tether: str
    states: NamesMeta
    actions: NamesMeta
    named_tuples: tuple[NamedTupleMeta, ...]
    rewards: RewardsMeta
    horizon: _Positive | None
    discount: _Share
    rounding: RoundingMeta
    counts: CountsMeta | None
    labels: tuple[str, ...]
    arrays: dict[str, ArrayMeta]
    checksum: int = 0


class _Head(msgspec.Struct):
    """What every version of the format begins with."""

    format: str
    version: int
    tether: str = "?"
    arrays: dict[str, Any] = {}


def write_meta(folder: Path, meta: Meta) -> None:
    """Write ``model.json``, readable, with its checksum."""
    meta = msgspec.structs.replace(meta, checksum=_checksum(meta))
    (folder / MODEL).write_bytes(msgspec.json.format(msgspec.json.encode(meta), indent=2) + b"\n")


def read_meta(folder: Path) -> tuple[bytes, Meta]:
    """Read ``model.json`` and check its format and version; returns its bytes and its contents."""
    if not folder.exists():
        raise _error(folder, f"there is no such directory; {_WHAT}")
    if not folder.is_dir():
        raise _error(folder, f"this is a file; {_WHAT}: a directory")
    file = folder / MODEL
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        raise _error(folder, f"there is no {MODEL} in it; {_WHAT}") from None
    except OSError as error:
        raise _error(file, f"it cannot be read: {error.strerror or error}") from error
    try:
        head = msgspec.json.decode(text, type=_Head)
    except _UNREADABLE as error:
        raise _error(file, f"this does not describe a saved model ({error}); {_AGAIN}") from None
    if head.format != FORMAT:
        raise _error(file, f"its format is {head.format!r}, not {FORMAT!r}; {_WHAT}")
    if head.version > VERSION:
        raise _error(
            file,
            f"format {head.version}, written by tether {head.tether}; this is tether {__version__}, which reads up to "
            f"format {VERSION}: upgrade it (pip install --upgrade tether)",
        )
    try:
        meta = msgspec.json.decode(text, type=Meta)
        unchanged = meta.checksum == _checksum(meta)
    except _UNREADABLE as error:
        raise _error(file, f"this does not describe a saved model ({error}); {_AGAIN}") from None
    if not unchanged:
        raise _error(file, f"it was changed after it was written: its checksum does not fit; {_AGAIN}")
    return text, meta


def is_ours(folder: Path) -> bool:
    """Whether a directory contains only a saved model, of any version."""
    try:
        head = msgspec.json.decode((folder / MODEL).read_bytes(), type=_Head)
    except (OSError, *_UNREADABLE):
        return False
    known = {MODEL, *(f"{name}.npy" for name in head.arrays)}
    return head.format == FORMAT and all(found.name in known for found in folder.iterdir())


def _checksum(meta: Meta) -> int:
    return zlib.crc32(msgspec.json.encode(msgspec.structs.replace(meta, checksum=0), order="sorted"))


def _error(file: Path, message: str) -> FileError:
    return FileError(Problem(message, file=str(file)))
