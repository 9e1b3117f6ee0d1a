"""Saving a model, and opening it again."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tether._version import __version__
from tether._writing import written
from tether.errors import FileError, Problem
from tether.model.counts import Counts
from tether.model.form import Form, Rewards, Rounding
from tether.model.labels import LabelSets
from tether.model.mdp import MDP
from tether.model.storage.checks import DTYPES, check_everything, check_places, checksum, expected_shapes
from tether.model.storage.columns import LabelReader
from tether.model.storage.labels import LabelWriter
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

__all__ = ["load", "save"]

_OTHER = ("<i8", "<f8", "|b1", "|u1")  # of counts, and of labels in columns
_AGAIN = "save the model again with MDP.save, or copy its directory again as a whole"


def save(mdp: MDP, directory: str | os.PathLike[str]) -> None:
    """Write a model to a directory; see `tether.MDP.save`."""
    folder = Path(directory)
    _check_replaceable(folder)
    labels = LabelWriter()
    states, actions = labels.write(mdp.states, "state"), labels.write(mdp.actions, "action")
    arrays = _arrays_of(mdp) | labels.arrays
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
            named_tuples=labels.named_tuples(),
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
    folder = Path(directory)
    meta = read_meta(folder)
    arrays = _open_all(folder, meta)
    check_places(folder, meta, arrays)
    reader = LabelReader(str(folder), arrays, meta.named_tuples)
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
    if check:
        check_everything(folder, meta, arrays, form)
        for labels in (states, actions):
            labels.find(labels[0])  # which looks at all of them
    counts = None
    if meta.counts is not None:
        told = msgspec.structs.asdict(meta.counts)
        counts = Counts(arrays["counts"], dropped=arrays["dropped"].reshape(-1, 3), **told)
    label_sets = LabelSets({name: arrays[f"label_{i}"] for i, name in enumerate(meta.labels)})
    return MDP(states, actions, form, meta.horizon, meta.discount, arrays.get("final_reward"), counts, label_sets)


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
    numbers = (counts.episodes, counts.steps, counts.unrecorded, counts.minimum, counts.end)
    return CountsMeta(float(counts.prior), *(int(number) for number in numbers))


def _check_replaceable(folder: Path) -> None:
    """A directory is replaced only where nothing but a saved model is lost."""
    if folder.is_dir():
        fine, what = not any(folder.iterdir()) or is_ours(folder), "this directory holds other files than a saved model"
    else:
        fine, what = not folder.exists(), "this is a file"
    if not fine:
        message = f"{folder}: {what}, and would be lost; give another name, or remove it first"
        raise FileError(Problem(message, file=str(folder)))


def _write(folder: Path, name: str, array: Any) -> ArrayMeta:
    array = np.ascontiguousarray(array, dtype=DTYPES.get(name))
    file = folder / f"{name}.npy"
    np.save(file, array, allow_pickle=False)
    return ArrayMeta(array.dtype.str, array.shape, file.stat().st_size, checksum(array))


def _open_all(folder: Path, meta: Meta) -> dict[str, Any]:
    """Every array, mapped, read-only, of the expected type and shape; all that is wrong with them at once."""
    expected = expected_shapes(meta)
    arrays: dict[str, Any] = {}
    problems: list[Problem] = []
    for name in dict.fromkeys((*expected, *meta.arrays)):
        file = folder / f"{name}.npy"
        try:
            arrays[name] = _open(file, name, meta, expected.get(name))
        except (ValueError, OSError, EOFError) as error:
            told = (error.strerror or error) if isinstance(error, OSError) else error
            problems.append(Problem(f"{file}: {told}; {_AGAIN}", file=str(file)))
    if problems:
        raise FileError(problems)
    return arrays


def _open(file: Path, name: str, meta: Meta, shape: tuple[int, ...] | None) -> Any:
    described = meta.arrays.get(name)
    if not name.isidentifier():
        raise ValueError("no array of a model has such a name")
    if described is None:
        raise ValueError("model.json does not speak of it, but a model needs it")
    if not file.is_file():
        raise ValueError("the file is missing")
    size = file.stat().st_size
    if size != described.bytes:
        what = "cut off" if size < described.bytes else "too long"
        raise ValueError(f"it is {what}: {size:,} bytes, where {described.bytes:,} were written")
    mapped = _map(file)
    found, saved = (mapped.dtype.str, mapped.shape), (described.dtype, described.shape)
    if found != saved or mapped.flags.fnc:
        order = " by columns" if mapped.flags.fnc else ""
        raise ValueError(f"it holds {_told(*found)}{order}, where {_told(*saved)} was written")
    dtypes = (DTYPES[name],) if name in DTYPES else _OTHER
    if name.startswith("label_"):
        dtypes = ("<i4",)
    shape = shape or (mapped.size,)
    if mapped.dtype.str not in dtypes or mapped.shape != shape:
        raise ValueError(f"it holds {_told(*found)}, where this model needs {_told(' or '.join(dtypes), shape)}")
    return np.asarray(mapped)  # a plain array: kernels are compiled for those


def _told(dtype: str, shape: tuple[int, ...]) -> str:
    return f"{dtype} of shape {shape}"


def _map(file: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of a head that NumPy has to guess at
            return np.lib.format.open_memmap(file, mode="r")
    except OSError:
        raise
    except Exception as error:  # a damaged head can make NumPy's parser fail in many ways
        raise ValueError(f"its head is not that of a .npy file ({error})") from None
