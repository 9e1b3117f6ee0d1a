"""Which axis of an array is which: the shape decides if only one order fits, otherwise the user.

``P[s, a, s']`` is the order "SAS" of this package, ``P[a, s, s']`` the "ASS" of pymdptoolbox, and ``P(s, s', a)``
the "SSA" of its MATLAB ancestor. With as many actions as states a cube could be any of them; then it is not guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tether.errors import ModelError, Problem, QueryError

ORDERS = ("SAS", "ASS", "SSA")
REWARD_ORDERS = ("S", "SA", "AS", "SAS", "ASS", "SSA", "TSA", "TSAS")


def is_sparse(value: Any) -> bool:
    """Whether this is a sparse matrix of scipy."""
    return hasattr(value, "tocsr")


def transition_array(P: Any, name: str, order: str | None) -> Any:
    """Transitions as `tether.MDP.from_arrays` takes them: (S, A, S), or a list of A sparse matrices."""
    if order is not None and order not in ORDERS:
        raise QueryError(f"order= must be one of {_listed(ORDERS)}, not {order!r}")
    if isinstance(P, list):
        return _by_action(P, name, order)
    if is_sparse(P) or (P.ndim == 2 and P.shape[0] == P.shape[1]):
        return _by_action([P], name, order)  # MATLAB drops a last axis of length 1
    if P.ndim != 3:
        raise ModelError(f"{name} has shape {P.shape}; expected (S, A, S), (A, S, S) or (S, S, A)")
    fits = [one for one in ORDERS if _square(P.shape, one)]
    return np.moveaxis(P, *_MOVES[_decide(fits, order, f"{name} has shape {P.shape}", "order", P.size == 1)])


def reward_array(R: Any, name: str, S: int, A: int, order: str | None, given: str | None) -> tuple[Any, str | None]:
    """Rewards as `tether.MDP.from_arrays` takes them, and their axes.

    ``order`` is the given order of the transitions. It also applies to rewards with three axes, unless ``given`` is
    another.
    """
    if given is not None and given not in REWARD_ORDERS:
        raise QueryError(f"reward_order= must be one of {_listed(REWARD_ORDERS)}, not {given!r}")
    if isinstance(R, list):
        R = _stacked_rewards(R, name, S, A)
        if isinstance(R, list):
            return R, None
        given = given or ("AS" if R.ndim == 2 else "ASS")
    elif is_sparse(R):
        R = R.toarray()
    if R.ndim == 2 and R.shape in ((S, 1), (1, S)) and A > 1 and given in (None, "S"):
        R = R.reshape(-1)  # MATLAB's vectors are matrices
    axes = _reward_axes(R, name, S, A, order, given)
    if axes == "S":
        return np.repeat(R[:, None], A, axis=1), "sa"
    if axes == "AS":
        return R.T, "sa"
    return (np.moveaxis(R, *_MOVES[axes]), "sas") if axes in ORDERS else (R, axes.lower())


_MOVES = {"SAS": (0, 0), "ASS": (0, 1), "SSA": (2, 1)}


def _square(shape: tuple[int, ...], order: str) -> bool:
    first, second = (i for i in range(3) if order[i] == "S")
    return shape[first] == shape[second]


def _reward_axes(R: Any, name: str, S: int, A: int, order: str | None, given: str | None) -> str:
    sizes = {"S": S, "A": A}
    fits = [
        axes
        for axes in REWARD_ORDERS
        if R.ndim == len(axes) and all(R.shape[i] == sizes.get(axis, R.shape[i]) for i, axis in enumerate(axes))
    ]
    if given is None:
        fits = [axes for axes in fits if axes != "TSA"]  # if it fits by accident, R(s,a,s') is meant
    if given is None and order in fits:
        return str(order)
    text = f"{name} has shape {R.shape} for {S:,} states and {A:,} actions"
    return _decide(fits, given, text, "reward_order", S == A == 1)


def _decide(fits: Sequence[str], given: str | None, shape: str, option: str, same: bool) -> str:
    """The one order that fits, or the given one if it fits; ``same`` means that all orders give the same result."""
    if given is not None:
        if given not in fits:
            fit = f"what fits is {_listed(fits)}" if fits else "no order fits"
            raise ModelError(Problem(f"{shape}, which is not {option}={given!r}; {fit}", value=given, argument=option))
        return given
    if not fits:
        known = ORDERS if option == "order" else REWARD_ORDERS
        raise ModelError(f"{shape}, which fits none of {_listed(known)} (S states, A actions, T steps)")
    if len(fits) > 1 and not same:
        choices = " or ".join(f"{option}={one!r}" for one in fits)
        raise ModelError(
            Problem(f"{shape}, which fits {_listed(fits)}", fix=f"say which it is: {choices}", argument=option)
        )
    return fits[0]


def _by_action(matrices: list[Any], name: str, order: str | None) -> Any:
    """One (S, S) matrix per action, dense or sparse."""
    if order not in (None, "ASS"):
        raise ModelError(f"{name} has one matrix per action, which is order='ASS', not {order!r}")
    if not matrices:
        raise ModelError(f"{name} is an empty list; expected one (S, S) matrix per action")
    shape = (matrices[0].shape[0],) * 2 if matrices[0].ndim else None
    for a, matrix in enumerate(matrices):
        if matrix.shape != shape:
            raise ModelError(f"{name}[{a}] has shape {matrix.shape}; expected one square (S, S) matrix per action")
    if not any(map(is_sparse, matrices)):
        return np.stack(matrices, axis=1)
    return _all_sparse(matrices)


def _all_sparse(matrices: list[Any]) -> list[Any]:
    from scipy import sparse

    return [matrix if is_sparse(matrix) else sparse.csr_array(matrix) for matrix in matrices]


def _stacked_rewards(matrices: list[Any], name: str, S: int, A: int) -> Any:
    """One vector (S,) or matrix (S, S) per action."""
    if len(matrices) != A:
        raise ModelError(f"{name} has {len(matrices)} parts; expected one for each of {A} actions")
    flat = ((S, 1), (1, S)) if S > 1 else ()
    vectors = [one.reshape(-1) if not is_sparse(one) and one.shape in flat else one for one in matrices]
    shapes = {one.shape for one in vectors}
    if shapes not in ({(S,)}, {(S, S)}):
        text = ", ".join(sorted(map(str, shapes)))
        raise ModelError(f"the parts of {name} have shapes {text}; expected all ({S},) or all ({S}, {S})")
    return _all_sparse(vectors) if any(map(is_sparse, vectors)) else np.stack(vectors)


def _listed(orders: Sequence[str]) -> str:
    return ", ".join(map(repr, orders))
