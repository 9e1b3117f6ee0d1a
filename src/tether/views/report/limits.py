"""Other limits: the table for every k and m, or for those next to the plan's where the whole table would take long."""

from __future__ import annotations

from tether._foundation.markup import heat
from tether.plan.limits import enough_k
from tether.plan.plan import Plan
from tether.plan.sweep import Sweep

__all__ = ["COLUMNS", "sweep_around", "table_of"]

COLUMNS = 12
"""How many m there is room for; of more, some are left out."""

_WORK = 1e9
"""States over time, times k, times m: up to so many the whole table takes seconds."""


def sweep_around(plan: Plan) -> tuple[Sweep, bool]:
    """The table for every k and m, or where that would take long for limits next to the plan's; and which it is.

    The limits always hold the suggested k, and up to m = 3.
    """
    cf, T = plan.cf, plan.T
    states = sum(int(cf.graph.states(t).size) for t in range(T + 1))
    if states * (T + 1.0) ** 2 <= _WORK:
        return plan.sweep(), True
    suggested = enough_k(plan.sweep(ms=[plan.m]), plan.m)
    ks = sorted({max(1, plan.k // 2), plan.k, suggested or plan.k, T, T + 1})
    ms = range(min(max(plan.m + 1, 3), T) + 1)
    return plan.sweep(ks=ks, ms=ms), False


def table_of(table: Sweep, plan: Plan, suggested: int | None) -> str:
    """The table, shaded, the plan's own limits outlined."""
    mark = (plan.k, plan.m)
    return heat(
        table.ks, table.ms, table.values, table.observed_value, mark, merge=True, wide=COLUMNS, suggested=suggested
    )
