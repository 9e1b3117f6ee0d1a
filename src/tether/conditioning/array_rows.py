"""Counterfactual rows of arrays: the closed forms, for other programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tether._foundation.arrays import Floats, Ints
from tether.conditioning.edited_rows import ObservedStep
from tether.conditioning.gumbel_max import GumbelMax
from tether.conditioning.mechanism import Mechanism
from tether.conditioning.mechanisms import infer, make_mechanism
from tether.conditioning.row_function import RowOf
from tether.errors import Problem, QueryError
from tether.model.form import TOLERANCE, Form, Rewards, Rounding
from tether.model.model_record import ModelRecord
from tether.model.names import make_names


def counterfactual_row(
    p: npt.ArrayLike,
    observed: npt.ArrayLike,
    q: npt.ArrayLike,
    mechanism: str | Mechanism | RowOf = GumbelMax.name,
    **options: Any,
) -> Floats:
    """What the row ``q`` would have given with the luck of a step in which the row ``p`` gave ``observed``.

    Parameters
    ----------
    p, q : array (..., n)
        Probabilities of the same n outcomes: of the pair that was observed, and of the pair in question. Leading axes
        are broadcast against each other and against those of ``observed``.
    observed : int, or array of int (...)
        Index of the outcome that happened; ``p`` must allow it.
    mechanism, **options
        As in `tether.counterfactual`. ``order=`` of "comonotone" is in indices of outcomes.

    Returns
    -------
    array (..., n)
        Each row sums to 1. Under "gumbel-max" the closed form of the Gumbel-max structural causal model: no sampling.

    Examples
    --------
    >>> import tether
    >>> tether.counterfactual_row([0.5, 0.5], 1, [0.25, 0.75])  # 1 happened, and q makes it likelier: it stands
    array([0., 1.])
    >>> tether.counterfactual_row([0.5, 0.3, 0.2], [0, 1, 2], [0.2, 0.3, 0.5]).round(3)
    array([[0.4  , 0.138, 0.462],
           [0.   , 0.769, 0.231],
           [0.   , 0.   , 1.   ]])
    >>> tether.counterfactual_row([0.5, 0.3, 0.2], 0, [0.2, 0.3, 0.5], mechanism="maximal")
    array([0.4, 0. , 0.6])
    """
    given, asked, outcome = _rows(p, "p"), _rows(q, "q"), _outcomes(observed)
    if given.shape[-1] != asked.shape[-1]:
        raise QueryError(f"p and q must be about the same outcomes; p has {given.shape[-1]}, q has {asked.shape[-1]}")
    try:
        shape = np.broadcast_shapes(given.shape[:-1], asked.shape[:-1], outcome.shape)
    except ValueError:
        shapes = f"p {given.shape}, observed {outcome.shape}, q {asked.shape}"
        raise QueryError(f"the leading axes do not fit together: {shapes}") from None
    n = given.shape[-1]
    given, asked = (np.broadcast_to(one, (*shape, n)).reshape(-1, n) for one in (given, asked))
    outcome = np.broadcast_to(outcome, shape).reshape(-1)
    _check_possible(given, outcome)
    mdp = _model_of_rows(asked)
    chosen = make_mechanism(mechanism, options, mdp)
    result = np.zeros(asked.shape)
    kinds, kind = np.unique(np.column_stack((given, outcome)), axis=0, return_inverse=True)
    for i in range(len(kinds)):
        pairs = np.flatnonzero(kind.reshape(-1) == i)
        row, outcome_of = kinds[i, :n], int(kinds[i, n])
        possible = np.flatnonzero(row)
        step = ObservedStep(0, possible.astype(np.int32), row[possible], outcome_of)
        result[pairs] = infer(mdp, chosen, step).replay(mdp.form, pairs).dense(n)
    return result.reshape(*shape, n)


def _rows(values: npt.ArrayLike, name: str) -> Floats:
    try:
        rows = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise QueryError(f"{name} must be an array of probabilities, not {values!r}") from None
    if rows.ndim == 0 or rows.shape[-1] == 0:
        raise QueryError(f"{name} must have one probability for each outcome, along its last axis")
    total = rows.sum(axis=-1)
    bad = ~(np.all(np.isfinite(rows) & (rows >= 0.0), axis=-1) & (np.abs(total - 1.0) <= TOLERANCE))
    if np.any(bad):
        at = tuple(int(i) for i in np.argwhere(np.atleast_1d(bad))[0])
        place = f"{name}[{', '.join(map(str, at))}]" if rows.ndim > 1 else name
        wrong = float(np.atleast_1d(total)[at])
        raise QueryError(Problem(f"{place} is not a distribution: it sums to {wrong:.9g}", value=wrong, place=place))
    normalised: Floats = rows / total[..., None]
    return normalised


def _outcomes(observed: npt.ArrayLike) -> Ints:
    outcome = np.asarray(observed)
    if outcome.dtype.kind not in "iu":
        raise QueryError(f"observed must be the index of an outcome, or an array of them, not {observed!r}")
    return outcome.astype(np.int64)


def _check_possible(p: Floats, outcome: Ints) -> None:
    n = p.shape[-1]
    outside = np.flatnonzero((outcome < 0) | (outcome >= n))
    if outside.size:
        wrong = int(outcome[outside[0]])
        raise QueryError(Problem(f"observed is {wrong}; there are outcomes 0 … {n - 1}", value=wrong))
    never = np.flatnonzero(p[np.arange(outcome.size), outcome] == 0.0)
    if never.size:
        wrong = int(outcome[never[0]])
        raise QueryError(Problem(f"outcome {wrong} was observed, but p gives it probability 0", value=wrong))


def _model_of_rows(rows: Floats) -> ModelRecord:
    """A model whose first state has one action for each row; mechanisms take rows from a model."""
    pair, outcome = np.nonzero(rows)
    count, n = rows.shape
    pair_start = np.full(n + 1, count, np.int64)
    pair_start[0] = 0
    row_start = np.searchsorted(pair, np.arange(count + 1))
    form = Form(
        pair_start,
        np.arange(count, dtype=np.int32),
        row_start,
        outcome.astype(np.int32),
        rows[pair, outcome],
        Rewards(np.zeros(count), by_entry=False),
        Rounding(0, 0.0, TOLERANCE),
        np.empty(0, np.int64),
    )
    return ModelRecord(make_names(None, n, "state"), make_names(None, count, "action"), form)
