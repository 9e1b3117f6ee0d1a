"""Other limits: the table for every k and m, or for those next to the plan's where the whole table would take long."""

from __future__ import annotations

from tether._foundation.markup import heat
from tether.plan.limits import enough_k
from tether.plan.plan import Plan
from tether.plan.sweep import Sweep

__all__ = ["COLUMNS", "limits_around", "sweep_around", "table_of"]

COLUMNS = 12
"""How many m there is room for; of more, some are left out."""

_WORK = 1e9
"""States over time, times k, times m: up to so many the whole table takes seconds."""


def limits_around(plan: Plan, suggested: int | None) -> tuple[list[int] | None, list[int] | None]:
    """The k and m of the table: None for all; where that would take long, those next to the plan's.

    They always hold the suggested k, and up to m = 3.
    """
    cf, T = plan.cf, plan.T
    states = sum(int(cf.graph.states(t).size) for t in range(T + 1))
    if states * (T + 1.0) ** 2 <= _WORK:
        return None, None
    ks = sorted({max(1, plan.k // 2), plan.k, suggested or plan.k, T, T + 1})
    return ks, list(range(min(max(plan.m + 1, 3), T) + 1))


def sweep_around(plan: Plan) -> tuple[Sweep, bool]:
    """The table for every k and m, or where that would take long for limits next to the plan's; and which it is."""
    if limits_around(plan, None) == (None, None):
        return plan.sweep(), True
    ks, ms = limits_around(plan, enough_k(plan.sweep(ms=[plan.m]), plan.m))
    return plan.sweep(ks=ks, ms=ms), False


def table_of(table: Sweep, plan: Plan, suggested: int | None) -> str:
    """The table, shaded, the plan's own limits outlined."""
    mark = (plan.k, plan.m)
    return heat(
        table.ks, table.ms, table.values, table.observed_value, mark, merge=True, wide=COLUMNS, suggested=suggested
    )
