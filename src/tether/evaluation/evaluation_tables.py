"""Evaluations and shares as Arrow tables: one row per time and state, one row per changed step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tether._foundation.arrow import NameColumn

if TYPE_CHECKING:
    from tether.evaluation.evaluate import Evaluation
    from tether.evaluation.shares import Shares


def evaluation_table(outlook: Evaluation) -> pa.Table:
    """One row per time and state; see `Evaluation.to_arrow`."""
    times, states, chances = [], [], []
    for t, visits in enumerate(outlook.chain.visits):
        here, index = np.unique(visits.states, return_inverse=True)
        times.append(np.full(here.size, t))
        states.append(here)
        chances.append(np.bincount(index.reshape(-1), outlook.occupancy[t], minlength=here.size))
    return pa.table(
        {
            "t": pa.array(np.concatenate(times)),
            "state": NameColumn(outlook.mdp.states).take(np.concatenate(states)),
            "probability": pa.array(np.concatenate(chances)),
        }
    )


def shares_table(shares: Shares) -> pa.Table:
    """One row per changed step; see `Shares.to_arrow`."""
    names = ("share", "alone", "changed")
    columns = {name: pa.array([getattr(one, name) for one in shares.steps], type=pa.float64()) for name in names}
    return pa.table({"t": pa.array([one.t for one in shares.steps], type=pa.int64()), **columns})
