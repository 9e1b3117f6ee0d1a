"""Saving a model, and opening it again."""

from __future__ import annotations

import math
import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np

from tether._foundation.problems import Complaints, Source
from tether._foundation.writing import read_together, written
from tether._version import __version__
from tether.errors import FileError, Problem, QueryError
from tether.model.counts import Counts
from tether.model.form import Form, Rewards, Rounding
from tether.model.labels import LabelSets
from tether.model.mdp import MDP
from tether.model.names import make_names
from tether.model.place import Place
from tether.model.storage.checked import Version
from tether.model.storage.checks import DTYPES, check_arrays, checksum, expected_shapes
from tether.model.storage.meta import (
    FORMAT,
    VERSION,
    ArrayMeta,
    CountsMeta,
    Meta,
    RewardsMeta,
    RoundingMeta,
    is_ours,
    read_meta,
    write_meta,
)
from tether.model.storage.reading_names import NameReader
from tether.model.storage.writing_names import NameWriter

__all__ = ["in_memory", "load", "save"]

_OTHER = ("<i8", "<f8", "|b1", "|u1")  # of counts, and of names in columns
_AGAIN = "save the model again with MDP.save, or copy its directory again as a whole"


def save(mdp: MDP, directory: str | os.PathLike[str]) -> None:
    """Write a model to a directory; see `tether.MDP.save`."""
    folder = _folder(directory)
    _check_replaceable(folder)
    names = NameWriter()
    states, actions = names.write(mdp.states, "state"), names.write(mdp.actions, "action")
    arrays = _arrays_of(mdp) | names.arrays
    rounding = mdp.form.rounding
    with written(folder) as partial:
        partial.mkdir()
        described = {name: _write(partial, name, array) for name, array in arrays.items()}
        meta = Meta(
            format=FORMAT,
            version=VERSION,
            tether=__version__,
            states=states,
            actions=actions,
            named_tuples=names.named_tuples(),
            rewards=RewardsMeta("entry" if mdp.rewards.by_entry else "pair", mdp.rewards.horizon),
            horizon=None if mdp.horizon is None else int(mdp.horizon),
            discount=mdp.discount,
            rounding=RoundingMeta(rounding.rows, rounding.largest, rounding.tolerance),
            counts=None if mdp.counts is None else _counts_meta(mdp.counts),
            labels=tuple(mdp.label_sets),
            arrays=described,
        )
        write_meta(partial, meta)


def load(directory: str | os.PathLike[str], check: bool = False) -> MDP:
    """Open a saved model; see `tether.MDP.load`."""
    folder = _folder(directory)
    return read_together([os.path.realpath(folder)], lambda: _load(folder, check_again=check))


def _load(folder: Path, check_again: bool) -> MDP:
    described, meta = read_meta(folder)
    place = Place.of(folder, described)
    opened = _open_all(folder, meta)
    arrays = {name: array for name, (array, _) in opened.items()}
    reader = NameReader(str(folder), place, arrays, meta.named_tuples)
    states, actions = reader.read(meta.states, "state"), reader.read(meta.actions, "action")
    form = Form(
        arrays["pair_start"],
        arrays["pair_action"],
        arrays["row_start"],
        arrays["next_state"],
        arrays["probability"],
        Rewards(arrays["rewards"], by_entry=meta.rewards.of == "entry"),
        Rounding(meta.rounding.rows, meta.rounding.largest, meta.rounding.tolerance),
        arrays["terminal"],
    )
    version = Version(described, tuple(status for _, status in opened.values()))
    if check_again or not version.was_checked():
        is_settled = version.is_settled()
        check_arrays(folder, meta, arrays, form)
        if is_settled:
            version.remember()
    if check_again:
        for names in (states, actions):
            names.find(names[0])  # this reads all of them
    counts = None
    if meta.counts is not None:
        numbers = msgspec.structs.asdict(meta.counts)
        counts = Counts(arrays["counts"], dropped=arrays["dropped"].reshape(-1, 3), **numbers)
    label_sets = LabelSets({name: arrays[f"label_{i}"] for i, name in enumerate(meta.labels)})
    final_reward = arrays.get("final_reward")
    mdp = MDP(states, actions, form, meta.horizon, meta.discount, final_reward, counts, label_sets)
    for part in (mdp, form, counts):
        if part is not None:
            object.__setattr__(part, "place", place)  # not set by the constructor: a changed copy has no place
    return mdp


def in_memory(mdp: MDP) -> MDP:
    """A copy of a model that needs no file; see `tether.MDP.in_memory`."""
    form, rewards, counts = mdp.form, mdp.form.rewards, mdp.counts
    copied = Form(
        form.pair_start.copy(),
        form.pair_action.copy(),
        form.row_start.copy(),
        form.next_state.copy(),
        form.probability.copy(),
        Rewards(rewards.values.copy(), rewards.by_entry),
        form.rounding,
        form.terminal.copy(),
    )
    if counts is not None:
        counts = replace(counts, transitions=counts.transitions.copy(), dropped=counts.dropped.copy())
    return replace(
        mdp,
        states=make_names(mdp.states, mdp.n_states, "state"),
        actions=make_names(mdp.actions, mdp.n_actions, "action"),
        form=copied,
        final_reward=None if mdp.final_reward is None else mdp.final_reward.copy(),
        counts=counts,
        label_sets=LabelSets({name: states.copy() for name, states in mdp.label_sets.items()}),
    )


def _folder(directory: Any) -> Path:
    if not isinstance(directory, str | os.PathLike):
        raise QueryError(f"expected the name of a directory, not {directory!r}")
    if "\0" in os.fspath(directory):
        name = repr(os.fspath(directory))
        raise FileError(Problem("no name of a directory has the character NUL in it", file=name))
    return Path(directory)


def _arrays_of(mdp: MDP) -> dict[str, Any]:
    form = mdp.form
    arrays: dict[str, Any] = {
        "pair_start": form.pair_start,
        "pair_action": form.pair_action,
        "row_start": form.row_start,
        "next_state": form.next_state,
        "probability": form.probability,
        "rewards": form.rewards.values,
        "terminal": form.terminal,
    }
    if mdp.final_reward is not None:
        arrays["final_reward"] = mdp.final_reward
    if mdp.counts is not None:
        whole = mdp.counts.transitions.dtype.kind in "iu"
        arrays["counts"] = mdp.counts.transitions.astype("<i8" if whole else "<f8", copy=False)
        arrays["dropped"] = mdp.counts.dropped.astype("<i8", copy=False).reshape(-1)
    arrays |= {f"label_{i}": indices for i, indices in enumerate(mdp.label_sets.values())}
    return arrays


def _counts_meta(counts: Counts) -> CountsMeta:
    return CountsMeta(
        prior=float(counts.prior),
        episodes=int(counts.episodes),
        steps=int(counts.steps),
        unrecorded=int(counts.unrecorded),
        minimum=int(counts.minimum),
        end=int(counts.end),
        empty_rewards=counts.empty_rewards,
        empty=int(counts.empty),
        unplaced=int(counts.unplaced),
    )


def _check_replaceable(folder: Path) -> None:
    """A directory is replaced only if it contains nothing but a saved model."""
    if folder.is_dir():
        fine = not any(folder.iterdir()) or is_ours(folder)
        what = "this directory contains other files than a saved model"
    else:
        fine, what = not folder.exists(), "this is a file"
    if not fine:
        fix = "give another name, or remove it first"
        raise FileError(Problem(f"{what}, and would be lost", file=str(folder), fix=fix))


def _write(folder: Path, name: str, array: Any) -> ArrayMeta:
    array = np.ascontiguousarray(array, dtype=DTYPES.get(name))
    file = folder / f"{name}.npy"
    np.save(file, array, allow_pickle=False)
    return ArrayMeta(array.dtype.str, array.shape, file.stat().st_size, checksum(array))


def _open_all(folder: Path, meta: Meta) -> dict[str, tuple[Any, os.stat_result]]:
    """Every array, mapped, read-only, of the expected type and shape; one error lists all problems."""
    expected = expected_shapes(meta)
    opened: dict[str, tuple[Any, os.stat_result]] = {}
    complaints = Complaints(Source())
    for name in dict.fromkeys((*expected, *meta.arrays)):
        file = folder / f"{name}.npy"
        try:
            opened[name] = _open(file, name, meta, expected.get(name))
        except (ValueError, OSError, EOFError) as error:
            reason = (error.strerror or error) if isinstance(error, OSError) else error
            complaints.add(str(reason), file=str(file), fix=_AGAIN)
    complaints.raise_any()
    return opened


def _open(file: Path, name: str, meta: Meta, shape: tuple[int, ...] | None) -> tuple[Any, os.stat_result]:
    described = meta.arrays.get(name)
    if not name.isidentifier():
        raise ValueError("no array of a model has such a name")
    if described is None:
        raise ValueError("model.json does not list it, but a model needs it")
    if not file.is_file():
        raise ValueError("the file is missing")
    with file.open("rb") as handle:
        status = os.fstat(handle.fileno())
        if status.st_size != described.bytes:
            what = "cut off" if status.st_size < described.bytes else "too long"
            raise ValueError(f"it is {what}: {status.st_size:,} bytes, where {described.bytes:,} were written")
        dtype, found, by_columns = _head(handle)
        if (dtype.str, found) != (described.dtype, described.shape) or by_columns:
            order = " by columns" if by_columns else ""
            saved = _shown(described.dtype, described.shape)
            raise ValueError(f"it holds {_shown(dtype.str, found)}{order}, where {saved} was written")
        dtypes = ("<i4",) if name.startswith("label_") else (DTYPES[name],) if name in DTYPES else _OTHER
        needed = shape or (math.prod(found),)
        if dtype.str not in dtypes or found != needed:
            text = f"it holds {_shown(dtype.str, found)}, where this model needs {_shown(' or '.join(dtypes), needed)}"
            raise ValueError(text)
        mapped = np.memmap(handle, dtype, "r", handle.tell(), found)
    return np.asarray(mapped), status  # a plain array: kernels are compiled for those


def _shown(dtype: str, shape: tuple[int, ...]) -> str:
    return f"{dtype} of shape {shape}"


def _head(handle: BinaryIO) -> tuple[Any, tuple[int, ...], bool]:
    """Element type, shape and order of an array, from the head of its file; the handle is then at its elements."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # if NumPy has to guess at a head
            if np.lib.format.read_magic(handle) != (1, 0):
                raise ValueError("another version of it")
            shape, by_columns, dtype = np.lib.format.read_array_header_1_0(handle)
    except OSError:
        raise
    except Exception as error:  # a damaged head can make NumPy's parser fail in many ways
        raise ValueError(f"its head is not that of a .npy file ({error})") from None
    return dtype, shape, by_columns and len(shape) > 1
