"""Whether the arrays of a saved model form a valid model.

Kernels trust indices: an index out of bounds would make them read, or write, elsewhere. So every number is checked
before a model is used; `tether.model.storage.checked` remembers this.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tether._foundation.arrays import Ints
from tether._foundation.problems import Complaints, Source
from tether.model.form import TOLERANCE, Form
from tether.model.storage.meta import Meta

__all__ = ["DTYPES", "check_arrays", "checksum", "expected_shapes"]

_CHUNK = 1 << 16

Arrays = dict[str, Any]

DTYPES = {
    "pair_start": "<i8",
    "pair_action": "<i4",
    "row_start": "<i8",
    "next_state": "<i4",
    "probability": "<f8",
    "rewards": "<f8",
    "terminal": "<i4",
    "final_reward": "<f8",
}
"""Element types of a model's arrays: those that kernels are compiled for. Counts and columns of names vary."""


def expected_shapes(meta: Meta) -> dict[str, tuple[int, ...]]:
    """The arrays a model must have, and the shapes that fit each other."""
    sizes = {name: array.shape[0] if len(array.shape) == 1 else -1 for name, array in meta.arrays.items()}
    pairs, entries = sizes.get("pair_action", -1), sizes.get("next_state", -1)
    rewards = (pairs if meta.rewards.of == "pair" else entries,)
    shapes: dict[str, tuple[int, ...]] = {
        "pair_start": (meta.states.n + 1,),
        "pair_action": (pairs,),
        "row_start": (pairs + 1,),
        "next_state": (entries,),
        "probability": (entries,),
        "rewards": rewards if meta.rewards.steps is None else (meta.rewards.steps, *rewards),
        "terminal": (sizes.get("terminal", -1),),
    }
    if "final_reward" in meta.arrays:
        shapes["final_reward"] = (meta.states.n,)
    if meta.counts is not None:
        shapes["counts"] = (entries,)
        shapes["dropped"] = (sizes.get("dropped", 0) // 3 * 3,)  # flat: state, action, count; state, …
    for i in range(len(meta.labels)):
        shapes[f"label_{i}"] = (sizes.get(f"label_{i}", -1),)
    return shapes


def check_arrays(folder: Path, meta: Meta, arrays: Arrays, form: Form) -> None:
    """Read every array: its checksum, and whether it can be part of a model."""
    problems = [
        (name, "its contents are not what was saved: the checksum does not fit")
        for name, array in arrays.items()
        if checksum(array) != meta.arrays[name].crc32
    ]
    problems += _structure(meta, arrays)
    if not problems:
        problems = [*_rows(form)]
    _raise_any(folder, problems)


def checksum(array: Ints) -> int:
    """CRC-32 of an array's elements as they lie in the file."""
    flat, total = array.reshape(-1).view(np.uint8), 0
    for low in range(0, flat.size, 1 << 26):
        total = zlib.crc32(flat[low : low + (1 << 26)].data, total)
    return total


def _raise_any(folder: Path, problems: list[tuple[str, str]]) -> None:
    complaints, fix = Complaints(Source()), "save the model again with MDP.save, or copy its directory again as a whole"
    for name, message in problems:
        complaints.add(message, file=str(folder / f"{name}.npy"), fix=fix)
    complaints.raise_any()


def _all(size: int) -> Iterator[slice]:
    """Everything, in chunks; each includes the first item of the next, so that all neighbours are compared."""
    for low in range(0, size, _CHUNK):
        yield slice(low, low + _CHUNK + 1)


def _structure(meta: Meta, arrays: Arrays) -> list[tuple[str, str]]:
    """What contradicts the form of a model."""
    n_states, n_actions = meta.states.n, meta.actions.n
    problems: list[tuple[str, str]] = []

    def look(name: str, fine: Callable[[Any], Any], message: str) -> None:
        flat = arrays[name].reshape(-1)
        if not all(np.all(fine(flat[place])) for place in _all(flat.size)):
            problems.append((name, message))

    for name, of in (("pair_start", "pair_action"), ("row_start", "next_state")):
        offsets = arrays[name]
        if offsets[0] != 0 or offsets[-1] != arrays[of].size:
            end = arrays[of].size
            problems.append((name, f"it runs from {offsets[0]:,} to {offsets[-1]:,}, not from 0 to {end:,}"))
    look("pair_start", lambda part: np.diff(part) >= 0, "it is not ascending")
    look("row_start", lambda part: np.diff(part) > 0, "it is not ascending")
    look("pair_action", lambda part: (part >= 0) & (part < n_actions), f"not all are actions, 0 … {n_actions - 1:,}")
    look("next_state", lambda part: (part >= 0) & (part < n_states), f"not all are states, 0 … {n_states - 1:,}")
    look("terminal", lambda part: (part >= 0) & (part < n_states), f"not all are states, 0 … {n_states - 1:,}")
    look("terminal", lambda part: np.diff(part) > 0, "it is not ascending")
    for name in (f"label_{i}" for i in range(len(meta.labels))):
        look(name, lambda part: (part >= 0) & (part < n_states), f"not all are states, 0 … {n_states - 1:,}")
        look(name, lambda part: np.diff(part) > 0, "it is not ascending")
    look("probability", lambda part: (part > 0) & (part <= 1 + TOLERANCE), "not all are probabilities above 0")
    for name in ("rewards", "final_reward"):
        if name in arrays:
            look(name, np.isfinite, "not all are finite numbers")
    if "counts" in arrays:
        look("counts", lambda part: part >= 0, "not all are counts, 0 or more")
        problems += _dropped(arrays["dropped"].reshape(-1, 3), n_states, n_actions)
    if meta.counts is not None and not -1 <= meta.counts.end < n_states:
        problems.append(("counts", f"the state of ends, {meta.counts.end:,}, is none of 0 … {n_states - 1:,}"))
    return problems


def _dropped(dropped: Ints, n_states: int, n_actions: int) -> list[tuple[str, str]]:
    fine = (dropped >= 0) & (dropped < np.array([n_states, n_actions, np.iinfo(np.int64).max]))
    return [] if fine.all() else [("dropped", "not all are states, actions and counts")]


def _rows(form: Form) -> Iterator[tuple[str, str]]:
    """Whether actions ascend within states, next states within rows, and every row sums to 1."""
    if not _ascending(form.pair_action, form.pair_start):
        yield "pair_action", "the actions of a state are not ascending"
    if not _ascending(form.next_state, form.row_start):
        yield "next_state", "the next states of a row are not ascending"
    for place in _all(form.pair_action.size):
        starts = form.row_start[place]
        sums = np.add.reduceat(form.probability[starts[0] : starts[-1]], starts[:-1] - starts[0])
        if np.any(np.abs(sums - 1.0) > TOLERANCE):
            yield "probability", "a row does not sum to 1"
            return


def _ascending(items: Ints, starts: Ints) -> bool:
    """Whether items ascend strictly from each start to the next."""
    for place in _all(items.size):
        fine = np.diff(items[place]) > 0
        low, high = np.searchsorted(starts, (place.start + 1, place.start + 1 + fine.size))
        fine[starts[low:high] - place.start - 1] = True  # between two rows any order is allowed
        if not fine.all():
            return False
    return True
