"""A saved model: one file, which is checked completely before any of it is used.

The layout is that of safetensors, so that other programs can read the arrays::

    8 bytes    length of the header
    header     JSON: for each array its element type, shape and offsets; in ``__metadata__``, what is no array
    arrays     those of `tether.model.form`, names (`tether.model.stored_names`), counts, labels
    32 bytes   the last array, ``checksum``: SHA-256 of all bytes before the first array

The header has a CRC-32 of every array. So the last 32 bytes depend on all others, and tell one model from another.
`load` reads the file once to verify it, and then maps it: processes that open the same model share its memory.
`tether.MDP.save` and `tether.MDP.load` are the way in.
"""

from __future__ import annotations

import hashlib
import math
import mmap
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from io import BufferedReader
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_type_hints

import msgspec
import numpy as np

from tether._foundation.arrays import Ints
from tether._foundation.kinds_of_records import as_kind
from tether._foundation.writing import written
from tether._version import __version__
from tether.errors import FileError, Problem, QueryError
from tether.model.counts import Counts
from tether.model.form import Form, Rewards, Rounding
from tether.model.labels import LabelSets, Side
from tether.model.model_record import ModelRecord
from tether.model.names import Names, make_names
from tether.model.stored_names import StoredNames, encode_names

_Kind = TypeVar("_Kind", bound=ModelRecord)

VERSION = 1
"""The version of the format."""

_CHUNK = 1 << 16
_LONGEST = 100_000_000
"""The most bytes that the header of a safetensors file may have."""

_DIGEST = hashlib.sha256().digest_size
_START = b'{"__metadata__":{"format":"tether model","version":"'
"""How the header of every saved model begins, of any version."""

_TYPES = {"F64": "<f8", "I64": "<i8", "I32": "<i4", "U8": "|u1"}
"""Element types of arrays: their names in the header, and NumPy's. The largest come first in the file, so that every
array is aligned."""

_FORM = {
    "pair_start": "<i8",
    "pair_action": "<i4",
    "row_start": "<i8",
    "next_state": "<i4",
    "probability": "<f8",
    "terminal": "<i4",
}
"""Arrays of a form, with the element types that kernels are compiled for."""

_SAVED = "a saved model is a file that MDP.save wrote"
_DAMAGED = "the file is damaged or cut off: its checksum does not fit"
_AGAIN = "save the model again with MDP.save, or copy the file again"
_UNDECODABLE = (msgspec.DecodeError, UnicodeError, LookupError, TypeError, ValueError, RecursionError)

Part = Literal["model", "form", "counts", "states", "actions"]


class _Array(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An array, as the header describes it; offsets are counted from the end of the header."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


class _Metadata(msgspec.Struct, frozen=True):
    """What safetensors leaves to its users: texts by name. ``model`` is a `_Model` as JSON."""

    format: str
    version: str
    tether: str
    model: str


class _Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a model has that is no array, and the checksums of its arrays."""

    n_states: Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
    n_actions: Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
    horizon: Annotated[int, msgspec.Meta(ge=1)] | None
    discount: Annotated[float, msgspec.Meta(ge=0, le=1)]
    by_entry: bool
    rounding: Rounding
    counts: dict[str, Any] | None
    labels: tuple[str, ...]
    crc32: dict[str, int]
    sides: dict[str, Side] = {}


@dataclass(frozen=True, slots=True)
class SavedFile:
    """The file that a model was opened from: pickled instead of the model's arrays.

    Every process on the machine, or on a shared disk, can open the file again. If it is gone, or has another model,
    when the model is pickled, the arrays are pickled. If it changes between pickling and unpickling, unpickling is an
    error; it never gives another model.

    Attributes
    ----------
    file : str
        Absolute path.
    version : str
        The checksum at the end of the file.

    Examples
    --------
    >>> import pickle, tempfile, tether
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tether.cases.sepsis().mdp.save(f"{folder}/sepsis")
    ...     small = pickle.dumps(tether.MDP.load(f"{folder}/sepsis"))
    ...     len(small) < 300, pickle.loads(small)
    (True, <MDP: 1,440 states, 8 actions, 11,520 pairs, 55,910 transitions>)
    """

    file: str
    version: str

    def is_there(self) -> bool:
        """Whether the file still has this model."""
        try:
            with open(self.file, "rb") as handle:
                handle.seek(-_DIGEST, os.SEEK_END)
                return handle.read().hex() == self.version
        except OSError:
            return False

    def reduce(self, part: Part, contents: tuple[Any, ...]) -> tuple[Any, ...]:
        """The result of ``__reduce__`` for a model, or a part of one: this file, or ``contents`` if it has changed."""
        return (_reopened, (self, part, contents[0])) if self.is_there() else contents


_COUNT_FIELDS = {
    name: kind
    for name, kind in get_type_hints(Counts, localns={"SavedFile": SavedFile}).items()
    if name not in ("transitions", "dropped", "place")
}
"""What `Counts` has that is no array, with its types."""

_CountFields = msgspec.defstruct("_CountFields", list(_COUNT_FIELDS.items()), frozen=True, forbid_unknown_fields=True)


def _reopened(place: SavedFile, part: Part, kind: Any) -> Any:
    """A model of a class, or a part of one, from the file it was in when it was pickled."""
    return _opened_as(place, kind) if part == "model" else getattr(_opened(place), part)


@lru_cache(maxsize=1)
def _opened_as(place: SavedFile, kind: type[_Kind]) -> _Kind:
    mdp = as_kind(kind, _opened(place))
    object.__setattr__(mdp, "place", place)
    return mdp


@lru_cache(maxsize=1)  # the parts of one model are unpickled one after the other
def _opened(place: SavedFile) -> ModelRecord:
    fix = "save the model there again, or pickle mdp.in_memory(), which carries all numbers along"
    if not Path(place.file).exists():
        raise _error(place.file, "the model was there when it was pickled, and is not any more", fix)
    mdp = load(place.file, ModelRecord)
    if mdp.place != place:
        raise _error(place.file, "another model was saved there since this one was pickled", fix)
    return mdp


def save(mdp: ModelRecord, file: str | os.PathLike[str]) -> str:
    """Write a model to a file; see `tether.MDP.save`. Returns the checksum at its end (`SavedFile.version`)."""
    target = _path(file)
    _check_replaceable(target)
    arrays = _arrays_of(mdp)
    header = _header_of(mdp, arrays)
    checksum = hashlib.sha256(header)
    with written(target) as partial, partial.open("wb") as handle:
        handle.write(header)
        for array in arrays.values():
            handle.write(array)
        handle.write(checksum.digest())
    return checksum.hexdigest()


def load(file: str | os.PathLike[str], kind: type[_Kind]) -> _Kind:
    """Open a saved model as one of a class; see `tether.MDP.load`."""
    path = _path(file)
    if path.exists() and not path.is_file():
        raise _error(path, f"this is a {'directory' if path.is_dir() else 'device or a pipe'}; {_SAVED}")
    try:
        with path.open("rb") as handle:
            found = _verified(handle, path)
            mapped = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
        arrays = {
            name: np.frombuffer(mapped, dtype, math.prod(shape), offset).reshape(shape)
            for name, (dtype, offset, shape) in found.arrays.items()
        }
        return _model_of(found.model, arrays, SavedFile(str(path.absolute()), found.digest), kind)
    except FileError:
        raise
    except FileNotFoundError:
        raise _error(path, f"there is no such file; {_SAVED}") from None
    except OSError as error:
        raise _error(path, f"it cannot be read: {error.strerror or error}") from error
    except _UNDECODABLE as error:
        raise _error(path, f"this is not what MDP.save writes ({error})", _AGAIN) from error


def is_saved_model(file: str | os.PathLike[str]) -> bool:
    """Whether a file begins like a saved model, of any version; False if it cannot be read.

    Examples
    --------
    >>> import tempfile, tether
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tether.cases.toy().mdp.save(f"{folder}/toy")
    ...     is_saved_model(f"{folder}/toy"), is_saved_model(folder)
    (True, False)
    """
    try:
        if not os.path.isfile(file):  # from a pipe nothing may be read in vain
            return False
        with open(file, "rb") as handle:
            return handle.read(8 + len(_START))[8:] == _START
    except (OSError, ValueError):
        return False


def in_memory(mdp: _Kind) -> _Kind:
    """A copy of a model that needs no file; see `tether.MDP.in_memory`."""
    form, rewards, counts = mdp.form, mdp.form.rewards, mdp.counts
    arrays = {name: getattr(form, name).copy() for name in _FORM}
    if counts is not None:
        counts = replace(counts, transitions=counts.transitions.copy(), dropped=counts.dropped.copy())
    return replace(
        mdp,
        states=make_names(mdp.states, mdp.n_states, "state"),
        actions=make_names(mdp.actions, mdp.n_actions, "action"),
        form=replace(form, rewards=Rewards(rewards.values.copy(), rewards.by_entry), **arrays),
        final_reward=None if mdp.final_reward is None else mdp.final_reward.copy(),
        counts=counts,
        label_sets=LabelSets({name: states.copy() for name, states in mdp.label_sets.items()}, mdp.label_sets.sides),
    )


# Writing.


def _path(file: Any) -> Path:
    if not isinstance(file, str | os.PathLike):
        raise QueryError(f"expected the name of a file, not {file!r}")
    name = os.fspath(file)
    if "\0" in name:
        raise _error(repr(name), "no name of a file has the character NUL in it")
    return Path(name)


def _check_replaceable(target: Path) -> None:
    """Only a saved model is replaced, or an empty file."""
    if target.is_dir():
        raise _error(target, "this is a directory; a model is saved as one file", "give the name of a file")
    if target.is_file() and target.stat().st_size and not is_saved_model(target):
        raise _error(target, "this is not a saved model, and would be lost", "give another name, or remove it first")


def _arrays_of(mdp: ModelRecord) -> dict[str, Any]:
    """All arrays of a model in the order of the file."""
    arrays: dict[str, Any] = {name: getattr(mdp.form, name).astype(dtype, copy=False) for name, dtype in _FORM.items()}
    arrays["rewards"] = mdp.rewards.values.astype("<f8", copy=False)
    if mdp.final_reward is not None:
        arrays["final_reward"] = mdp.final_reward.astype("<f8", copy=False)
    if mdp.counts is not None:
        whole = mdp.counts.transitions.dtype.kind in "iu"
        arrays["counts"] = mdp.counts.transitions.astype("<i8" if whole else "<f8", copy=False)
        arrays["dropped"] = mdp.counts.dropped.astype("<i8", copy=False)
    arrays |= {f"label_{i}": states.astype("<i4", copy=False) for i, states in enumerate(mdp.label_sets.values())}
    for noun, names in (("state", mdp.states), ("action", mdp.actions)):
        if not isinstance(names[:0], range):  # names 0 … n-1 give a range, and need no bytes
            arrays[f"{noun}_names"] = np.frombuffer(encode_names(names, noun), np.uint8)
    ordered = sorted(arrays.items(), key=lambda item: -item[1].itemsize)
    return {name: np.ascontiguousarray(array) for name, array in ordered}


def _header_of(mdp: ModelRecord, arrays: dict[str, Any]) -> bytes:
    """The length of the header, and the header."""
    model = _Model(
        n_states=mdp.n_states,
        n_actions=mdp.n_actions,
        horizon=mdp.horizon,
        discount=mdp.discount,
        by_entry=mdp.rewards.by_entry,
        rounding=mdp.form.rounding,
        counts=None if mdp.counts is None else {name: getattr(mdp.counts, name) for name in _COUNT_FIELDS},
        labels=tuple(mdp.label_sets),
        crc32={name: zlib.crc32(array) for name, array in arrays.items()},
        sides=mdp.label_sets.sides,
    )
    text = msgspec.json.encode(model, enc_hook=lambda number: number.item()).decode()  # a number of NumPy's
    header: dict[str, Any] = {"__metadata__": _Metadata("tether model", str(VERSION), __version__, text)}
    end, codes = 0, {np.dtype(dtype): code for code, dtype in _TYPES.items()}
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        header[name] = _Array(codes[array.dtype], array.shape, (begin, end))
    header["checksum"] = _Array("U8", (_DIGEST,), (end, end + _DIGEST))
    content = msgspec.json.encode(header)
    if len(content) > _LONGEST - 8:
        raise FileError(Problem("the model has too many labels to be saved", value=len(mdp.label_sets)))
    content += b" " * (-len(content) % 8)
    return len(content).to_bytes(8, "little") + content


# Reading.


class _Contents(NamedTuple):
    """A verified file: its checksum, what is no array, and the type, offset in the file and shape of each array."""

    digest: str
    model: _Model
    arrays: dict[str, tuple[str, int, tuple[int, ...]]]


def _verified(handle: BufferedReader, path: Path) -> _Contents:
    """Verify every byte of a file, before any of it is decoded."""
    size = os.fstat(handle.fileno()).st_size
    begin = handle.read(8 + len(_START))
    if begin[8:] != _START:
        raise _error(path, f"this is not a saved model: {_SAVED}")
    length = int.from_bytes(begin[:8], "little")
    if not len(_START) <= length <= min(size - 8 - _DIGEST, _LONGEST):
        raise _error(path, _DAMAGED, _AGAIN)
    header = begin + handle.read(8 + length - len(begin))
    handle.seek(-_DIGEST, os.SEEK_END)
    digest = handle.read()
    if hashlib.sha256(header).digest() != digest:
        raise _error(path, _DAMAGED, _AGAIN)
    raw = msgspec.json.decode(header[8:], type=dict[str, msgspec.Raw])
    metadata = msgspec.json.decode(raw.pop("__metadata__"), type=_Metadata)
    if metadata.version != str(VERSION):
        written_by = f"format {metadata.version}, written by tether {metadata.tether}"
        fix = "read it with that version, or upgrade this one (pip install --upgrade tether)"
        raise _error(path, f"{written_by}; this is tether {__version__}, which reads format {VERSION}", fix)
    model = msgspec.json.decode(metadata.model, type=_Model)
    arrays = {}
    handle.seek(len(header))
    for name, text in raw.items():
        array, offset = msgspec.json.decode(text, type=_Array), handle.tell()
        dtype = _TYPES[array.dtype]
        if name == "checksum":
            break
        if _crc32(handle, math.prod(array.shape) * np.dtype(dtype).itemsize) != model.crc32[name]:
            raise _error(path, _DAMAGED, _AGAIN)
        arrays[name] = dtype, offset, array.shape
    if handle.tell() != size - _DIGEST:
        raise _error(path, _DAMAGED, _AGAIN)
    return _Contents(digest.hex(), model, arrays)


def _crc32(handle: BufferedReader, size: int) -> int:
    """CRC-32 of the next ``size`` bytes, -1 if there are fewer.

    They are read, not mapped: a disk that fails gives an OSError.
    """
    total, buffer = 0, memoryview(bytearray(min(size, _CHUNK)))
    while size > 0:
        read = handle.readinto(buffer[: min(size, _CHUNK)])
        if not read:
            return -1
        total, size = zlib.crc32(buffer[:read], total), size - read
    return total


def _model_of(model: _Model, arrays: dict[str, Any], place: SavedFile, kind: type[_Kind]) -> _Kind:
    rewards = Rewards(arrays["rewards"], model.by_entry)
    form = Form(**{name: arrays[name] for name in _FORM}, rewards=rewards, rounding=model.rounding)
    counts = None
    if model.counts is not None:
        numbers = msgspec.structs.asdict(msgspec.convert(model.counts, _CountFields))
        counts = Counts(arrays["counts"], dropped=arrays["dropped"], **numbers)
    mdp = kind(
        _names(arrays.get("state_names"), model.n_states, "state", place),
        _names(arrays.get("action_names"), model.n_actions, "action", place),
        form,
        model.horizon,
        model.discount,
        arrays.get("final_reward"),
        counts,
        LabelSets({name: arrays[f"label_{i}"] for i, name in enumerate(model.labels)}, model.sides),
    )
    for name, is_sound in _soundness(mdp):
        if not is_sound:
            raise ValueError(f"{name} cannot be part of a model")
    for part in (mdp, form, counts):
        if part is not None:
            object.__setattr__(part, "place", place)  # not set by the constructor: a changed copy has no place
    return mdp


def _names(content: Any, n: int, noun: Literal["state", "action"], place: SavedFile) -> Names:
    return make_names(None, n, noun) if content is None else StoredNames(content.data, n, noun, place)


def _soundness(mdp: ModelRecord) -> Iterator[tuple[str, Any]]:
    """Whether the type, shape and indices of each array fit the others; those after one that does not may not be read.

    Kernels trust indices. A file that was crafted, so that its checksums fit, must not make them read elsewhere.
    """
    form, counts, n, n_actions = mdp.form, mdp.counts, mdp.n_states, mdp.n_actions
    start, rows, rewards = form.pair_start, form.row_start, form.rewards
    pairs, entries = form.pair_action.size, form.next_state.size
    for name, dtype in _FORM.items():
        yield name, getattr(form, name).dtype == dtype and getattr(form, name).ndim == 1
    yield "pair_start", start.size == n + 1 and _runs(start, pairs) and _ascending(start, least=0)
    yield "row_start", rows.size == pairs + 1 and _runs(rows, entries) and _ascending(rows)
    yield "pair_action", _within(form.pair_action, n_actions) and _ascending(form.pair_action, start)
    yield "next_state", _within(form.next_state, n) and _ascending(form.next_state, rows)
    yield "probability", form.probability.size == entries
    yield "rewards", rewards.values.dtype == "<f8" and rewards.values.ndim in (1, 2)
    yield "rewards", rewards.values.shape[-1] == (entries if rewards.by_entry else pairs)
    if mdp.final_reward is not None:
        yield "final_reward", mdp.final_reward.dtype == "<f8" and mdp.final_reward.shape == (n,)
    for states in (form.terminal, *mdp.label_sets.values()):
        yield "a set of states", states.ndim == 1 and _within(states, n) and _ascending(states)
    if counts is not None:
        yield "counts", counts.transitions.shape == (entries,) and counts.transitions.min(initial=0) >= 0
        yield "counts", -1 <= counts.end < n
        yield "dropped", counts.dropped.dtype == "<i8" and counts.dropped.shape[1:] == (3,)
        yield "dropped", _within(counts.dropped[:, 0], n) and _within(counts.dropped[:, 1], n_actions)


def _runs(starts: Ints, end: int) -> bool:
    return bool(starts[0] == 0 and starts[-1] == end) and _within(starts, end + 1)


def _within(indices: Ints, n: int) -> bool:
    return indices.size == 0 or bool(indices.min() >= 0 and indices.max() < n)


def _ascending(items: Ints, starts: Ints | None = None, least: int = 1) -> bool:
    """Whether each item is at least so much more than the one before, in each row if starts of rows are given."""
    for low in range(0, items.size, _CHUNK):  # not all at once: that would be as large as the array
        fine = np.diff(items[low : low + _CHUNK + 1]) >= least
        if starts is not None:
            first, end = np.searchsorted(starts, (low + 1, low + 1 + fine.size))
            fine[starts[first:end] - low - 1] = True  # between two rows any order is allowed
        if not fine.all():
            return False
    return True


def _error(file: str | Path, message: str, fix: str = "") -> FileError:
    return FileError(Problem(message, file=str(file), fix=fix))
