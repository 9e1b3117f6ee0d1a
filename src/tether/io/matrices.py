"""Models as arrays: NumPy's ``.npz`` and MATLAB's ``.mat``, in this package's order and in that of MDP toolboxes.

No pickles are loaded: a pickle can run any code. `tether.io.axes` says which axis is which.
"""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tether._foundation.writing import written
from tether.errors import ModelError, Problem, QueryError
from tether.io.arrowfiles import damaged, guarded
from tether.io.axes import ORDERS, is_sparse, reward_array, transition_array
from tether.io.files import File, check_archive, file_error, name_of, read_bytes, too_large, unpacked_limit
from tether.io.matlab import check_matlab
from tether.io.model_tables import check_plain
from tether.io.names_as_text import are_whole, texts_of
from tether.mdp import MDP
from tether.model.form import TOLERANCE, all_pair_states
from tether.model.names import Names, name_list

_DENSEST = 1 << 28
"""More numbers than this are not written as a dense array (2 GB)."""


def read_arrays(
    file: File,
    *,
    transitions: str = "P",
    rewards: str | None = "R",
    order: str | None = None,
    reward_order: str | None = None,
    states: Iterable[Any] | None = None,
    actions: Iterable[Any] | None = None,
    terminal: Iterable[Any] = (),
    tolerance: float = TOLERANCE,
    kind: str | None = None,
    max_unpacked: int | str | None = None,
) -> MDP:
    """Read a model from the arrays of an ``.npz`` or ``.mat`` file.

    Parameters
    ----------
    file : path
        ``.npz``, or ``.mat`` up to MATLAB's version 7.
    transitions, rewards : str
        The names of the arrays; ``rewards=None`` if there are none. Transitions are an array (S, A, S),
        (A, S, S) or (S, S, A), or a cell array of one (S, S) matrix per action, sparse or not; a row that is all
        zero is an action that is not available. Rewards are (S,), (S, A), (A, S), or have three axes as transitions.
    order : {"SAS", "ASS", "SSA"}, optional
        The order of transitions, and of rewards with three axes. Needed if the shape fits several, as with equal
        numbers of actions and states.
    reward_order : {"S", "SA", "AS", "SAS", "ASS", "SSA", "TSA", "TSAS"}, optional
        The order of rewards, if neither their shape nor ``order`` decides it.
    states, actions : iterable of hashable, optional
        Names; by default those in the file's arrays ``states`` and ``actions``, as `write_arrays` writes them,
        else 0 … n-1 (MATLAB counts from 1).
    terminal, tolerance
        As in `tether.MDP.from_arrays`.
    kind : {"npz", "mat"}, optional
        What the file is, whatever its suffix.
    max_unpacked : int or str, optional
        To how many bytes the file may unpack; see `read_table`.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from tether.io import read_arrays
    >>> P = np.zeros((2, 3, 3))  # (A, S, S): two actions, three states
    >>> P[0] = np.eye(3)
    >>> P[1] = [[0, 1, 0], [0, 0, 1], [0, 0, 1]]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/walk.npz", P=P, R=[0.0, 0.0, 1.0])
    ...     read_arrays(f"{folder}/walk.npz").row(0, 1)
    ((1,), array([1.]))
    """
    name = name_of(file)
    arrays = (_open_mat if _is_mat(file, kind) else _open_npz)(name, max_unpacked)
    P = arrays.array(transitions, "transitions")
    R = None if rewards is None else arrays.array(rewards, "rewards")
    try:
        P = transition_array(P, transitions, order)
        S, A = (P[0].shape[0], len(P)) if isinstance(P, list) else P.shape[:2]
        axes = None
        if R is not None:
            R, axes = reward_array(R, str(rewards), S, A, order, reward_order)
        return MDP.from_arrays(
            P,
            R,
            states=arrays.labels("states", S) if states is None else states,
            actions=arrays.labels("actions", A) if actions is None else actions,
            terminal=terminal,
            tolerance=tolerance,
            reward_axes=axes,
        )
    except ModelError as error:
        raise ModelError([replace(one, file=name) for one in error.problems], total=error.total) from None


def write_arrays(mdp: MDP, file: File, *, order: str = "SAS", sparse: bool = False, kind: str | None = None) -> None:
    """Write a model as arrays P and R to an ``.npz`` or ``.mat`` file; its names as ``states`` and ``actions``.

    Names that are not all whole numbers are written as text. R has two axes (S, A), or three in the order of P.

    Parameters
    ----------
    mdp : MDP
        Without a horizon, a discount, a final reward or counts.
    file : path
    order : {"SAS", "ASS", "SSA"}
    sparse : bool
        Write P, and R where it has three axes, as a cell array with one sparse matrix per action (``.mat`` only).
    kind : {"npz", "mat"}, optional
        What to write, whatever the suffix.

    Examples
    --------
    >>> import tempfile, tether
    >>> from tether.io import read_arrays, write_arrays
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_arrays(tether.cases.grid_world().mdp, f"{folder}/grid.npz", order="ASS")
    ...     read_arrays(f"{folder}/grid.npz")
    <MDP: 16 states, 4 actions, 64 pairs, 220 transitions>
    """
    name, mat = name_of(file), _is_mat(file, kind)
    if order not in ORDERS:
        raise QueryError(f"order= must be one of {', '.join(map(repr, ORDERS))}, not {order!r}")
    if sparse and (not mat or order != "ASS"):
        raise QueryError("sparse=True writes one matrix per action: it goes with a .mat file and order='ASS'")
    check_plain(mdp, name, "an array file")
    size = mdp.n_states**2 * mdp.n_actions
    if not sparse and size > _DENSEST:
        fix = "write a table (.parquet), or sparse matrices (.mat, order='ASS', sparse=True)"
        raise file_error(name, f"dense arrays of this model would hold {size:,} numbers; {fix}")
    arrays = _sparse_arrays(mdp) if sparse else _dense_arrays(mdp, order)
    arrays |= {
        "states": _label_array(mdp.states, "state", name),
        "actions": _label_array(mdp.actions, "action", name),
    }
    with written(file) as partial, open(partial, "wb") as stream:
        if mat:
            from scipy.io import savemat

            savemat(stream, {key: _for_matlab(value) for key, value in arrays.items()}, do_compression=True)
        else:
            np.savez_compressed(stream, allow_pickle=False, **arrays)


_guarded = partial(guarded, errors=Exception)  # neither NumPy nor scipy says what a damaged file may raise


@dataclass(frozen=True, slots=True)
class _Arrays:
    """The arrays of a file, each read when it is used; ``refusal`` says why one is not plain numbers or text."""

    file: str
    names: list[str]
    read: Callable[[str], Any]
    refusal: Callable[[str], Problem | None]

    def array(self, name: str, option: str) -> Any:
        """An array of numbers, a sparse matrix, or a list of either."""
        if name not in self.names:
            none = ", or rewards=None if there are none" if option == "rewards" else ""
            fix = f"say which holds the {option}: {option}='<its name>'{none}"
            what = f"there is no array {name!r}; found {name_list(self.names) or 'none'}"
            raise file_error(self.file, Problem(what, value=name, fix=fix, argument=option))
        wrong = self.refusal(name)
        if wrong is not None:
            raise file_error(self.file, wrong)
        value = self.read(name)
        self._check_sparse(value, name)
        if isinstance(value, np.ndarray) and value.dtype == object:
            value = [np.asarray(one) if not is_sparse(one) else one for one in value.reshape(-1)]
        for one in value if isinstance(value, list) else [value]:
            if not is_sparse(one) and one.dtype.kind not in "fiub":
                what = f"{name!r} holds {one.dtype}, not numbers"
                raise file_error(self.file, Problem(what, value=name, expectation="an array of numbers"))
        return value

    def _check_sparse(self, value: Any, name: str) -> None:
        """Indices beyond a sparse matrix would be read from other memory."""
        for one in value.reshape(-1) if isinstance(value, np.ndarray) and value.dtype == object else [value]:
            try:
                if is_sparse(one):
                    one.tocsc().check_format(full_check=True)
            except (ValueError, TypeError, IndexError) as error:
                raise file_error(self.file, f"the sparse matrix {name!r} is damaged: {error}") from None

    def labels(self, name: str, count: int) -> list[Any] | None:
        """Names that were written beside the arrays, if there are."""
        if name not in self.names or self.refusal(name) is not None:
            return None
        value = self.read(name)
        if is_sparse(value) or value.size != count or value.dtype.kind not in "iuUO":
            return None  # another array of that name
        cells = _guarded(self.file, "an array file", value.reshape(-1).tolist)  # a damaged text has impossible letters
        items = [str(one[0]) if isinstance(one, np.ndarray) and one.size else one for one in cells]
        return items if all(isinstance(one, str | int) for one in items) else None


def _is_mat(file: File, kind: str | None) -> bool:
    suffix = Path(file).suffix.lower() if kind is None else f".{kind}"
    if suffix not in (".npz", ".mat"):
        raise file_error(file, "the name does not say what this is; expected .npz or .mat")
    return suffix == ".mat"


def _open_npz(file: str, max_unpacked: int | str | None) -> _Arrays:
    data = read_bytes(file)
    if data.startswith(b"\x93NUMPY"):
        raise file_error(file, "this is a single NumPy array (.npy); expected several: np.savez(file, P=P, R=R)")
    if not data.startswith(b"PK"):
        raise file_error(file, "this is not an .npz file, whatever its name says; np.savez(file, P=P, R=R) makes one")
    opened = _guarded(file, "an .npz file", lambda: np.load(io.BytesIO(data), allow_pickle=False))
    _guarded(file, "an .npz file", lambda: check_archive(opened.zip, data))
    limit = unpacked_limit(len(data), max_unpacked)
    if sum(member.file_size for member in opened.zip.infolist()) > limit:  # and no more is unpacked than is declared
        raise too_large(file, limit)

    def refusal(name: str) -> Problem | None:
        if f"{name}.npy" not in opened.zip.namelist():  # NumPy hands out the bytes of any other file in the archive
            what, fix = f"{name!r} is no array of NumPy", "np.savez(file, P=P, R=R) makes one of arrays"
            return Problem(what, value=name, fix=fix)
        if _is_pickled(opened, name):
            what = "it holds Python objects, which only a pickle can; pickles can run any code and are not loaded"
            fix = "save plain arrays instead: np.savez(file, P=np.stack(P), R=np.stack(R))"
            return Problem(what, value=name, fix=fix)
        return None

    def read(name: str) -> Any:
        member = _guarded(file, "an .npz file", lambda: opened[name])
        if not isinstance(member, np.ndarray):
            raise damaged(file, "an .npz file", ValueError(f"{name!r} does not begin like an array"))
        return member

    return _Arrays(file, list(opened.files), read, refusal)


def _is_pickled(opened: Any, name: str) -> bool:
    """Whether an array has Python objects; False if its head cannot be read, which is reported elsewhere."""
    try:
        with opened.zip.open(f"{name}.npy") as member:
            version = np.lib.format.read_magic(member)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            return bool(read(member)[2].hasobject)
    except Exception:  # as in `_guarded`, which then says what it is
        return False


def _open_mat(file: str, max_unpacked: int | str | None) -> _Arrays:
    from scipy.io import loadmat

    data = read_bytes(file)
    names = check_matlab(file, data, unpacked_limit(len(data), max_unpacked))
    # Newer versions have an option for the kind of sparse array, older ones do not.
    kind = {"spmatrix": False} if "spmatrix" in inspect.signature(loadmat).parameters else {}

    def refusal(name: str) -> Problem | None:
        what = f"{name!r} is a struct, an object or a function"
        return None if names[name] else Problem(what, value=name, expectation="an array of numbers")

    def read(name: str) -> Any:
        return _guarded(file, "a MATLAB file", lambda: loadmat(io.BytesIO(data), variable_names=[name], **kind)[name])

    return _Arrays(file, [name for name in names if not name.startswith("__")], read, refusal)


def _dense_arrays(mdp: MDP, order: str) -> dict[str, Any]:
    S, A, form = mdp.n_states, mdp.n_actions, mdp.form
    pairs = np.repeat(np.arange(mdp.n_pairs), np.diff(form.row_start))
    state, action = all_pair_states(form.pair_start), form.pair_action
    P = np.zeros((S, A, S))
    P[state[pairs], action[pairs], form.next_state] = form.probability
    R = np.zeros(P.shape if mdp.rewards.by_entry else (S, A))
    if mdp.rewards.by_entry:
        R[state[pairs], action[pairs], form.next_state] = mdp.rewards.values
    else:
        R[state, action] = mdp.rewards.values
    to = order.index("A")
    return {"P": np.moveaxis(P, 1, to), "R": np.moveaxis(R, 1, to) if R.ndim == 3 else R}


def _sparse_arrays(mdp: MDP) -> dict[str, Any]:
    from scipy import sparse

    S, form = mdp.n_states, mdp.form
    pairs = np.repeat(np.arange(mdp.n_pairs), np.diff(form.row_start))
    state = all_pair_states(form.pair_start)
    R = np.zeros((S, mdp.n_actions))
    if not mdp.rewards.by_entry:
        R[state, form.pair_action] = mdp.rewards.values

    def cells(values: Any) -> Any:
        made = np.empty(mdp.n_actions, dtype=object)
        for a in range(mdp.n_actions):
            mine = np.flatnonzero(form.pair_action[pairs] == a)
            places = (state[pairs[mine]], form.next_state[mine])
            made[a] = sparse.csc_matrix((values[mine], places), shape=(S, S))
        return made

    return {"P": cells(form.probability), "R": cells(mdp.rewards.values) if mdp.rewards.by_entry else R}


def _label_array(labels: Names, noun: str, file: str) -> Any:
    return (
        np.array(list(labels), np.int64) if are_whole(labels) else np.array(texts_of(labels, noun, file, trimmed=False))
    )


def _for_matlab(value: Any) -> Any:
    """Texts as a cell array: MATLAB's arrays of characters are padded."""
    return value.astype(object) if value.dtype.kind == "U" else value
