"""How long a tether is long enough?"""

from __future__ import annotations

import numpy as np

from tether._checks import whole_number
from tether.errors import QueryError
from tether.plan.sweep import Sweep

__all__ = ["SHARE", "enough_k"]

SHARE = 0.9
"""What part of the gain that any tether allows is enough."""


def enough_k(table: Sweep, m: int, share: float = SHARE) -> int | None:
    """The shortest tether that gives at least ``share`` of what the longest one gives, with m changes.

    The longest tether is k = T: with k = T + 1 there is none. Of the k in the table; None where no tether among
    them gains anything.

    Examples
    --------
    >>> import tether
    >>> from tether.plan.enough import enough_k
    >>> case = tether.cases.epidemic()
    >>> table = tether.counterfactual(case.mdp, case.path).sweep()
    >>> [enough_k(table, m) for m in range(4)]
    [None, 7, 7, 7]
    >>> enough_k(table, 1, share=0.5)
    6
    """
    number = isinstance(share, int | float | np.integer | np.floating) and not isinstance(share, bool)
    if not number or not 0 < share <= 1:
        raise QueryError(f"share must be a number above 0 and at most 1, not {share!r}")
    m = min(whole_number("m", m, 0), table.cf.T)
    column = np.flatnonzero(table.ms == m)
    if not column.size:
        raise QueryError(f"m = {m} was not asked for in this sweep")
    tied = table.ks <= table.cf.T
    gained = table.values[tied, column[0]] - table.observed_value
    most = float(gained.max(initial=0.0))
    rounding = 1e-9 * max(1.0, abs(table.observed_value))
    if most <= rounding:
        return None
    return int(table.ks[tied][gained >= share * most - rounding].min())
