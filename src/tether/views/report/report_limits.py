"""Other limits: the table for every k and m; if that would take long, only for those next to the plan's."""

from __future__ import annotations

from collections.abc import Callable

from tether._foundation.markup import HeatTable, heat
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.plan.plan_record import PlanRecord
from tether.plan.sweep import Sweep

COLUMNS = 12
"""How many m are shown; if there are more, some are left out."""

_WORK = 1e9
"""Up to this amount of work the whole table takes seconds."""


def work_of_table(cf: CounterfactualRecord) -> float:
    """How much work the table for every k and m is: states over time, times k, times m."""
    return cf.graph.n_nodes * (cf.T + 1.0) ** 2


def limits_around(plan: PlanRecord, suggest: Callable[[], int | None]) -> tuple[list[int] | None, list[int] | None]:
    """The k and m of the table: None for all; if that would take long, those next to the plan's.

    They always include the k that ``suggest`` returns, and up to m = 3.
    """
    if work_of_table(plan.cf) <= _WORK:
        return None, None
    ks = sorted({max(1, plan.k // 2), plan.k, suggest() or plan.k, plan.T, plan.T + 1})
    return ks, list(range(min(max(plan.m + 1, 3), plan.T) + 1))


def sweep_around(plan: PlanRecord) -> Sweep:
    """The table for every k and m; if that would take long, for limits next to the plan's."""
    ks, ms = limits_around(plan, lambda: plan.question.suggested_k(plan.m))
    return plan.sweep(ks=ks, ms=ms)


def table_of(
    table: Sweep, plan: PlanRecord, suggested: int | None, link: Callable[[int, int], str] | None = None
) -> HeatTable:
    """The table, shaded, the plan's own limits outlined; ``link`` says where a click on a (k, m) leads."""
    return heat(
        table.ks,
        table.ms,
        table.values,
        table.observed_value,
        (plan.k, plan.m),
        merge=True,
        wide=COLUMNS,
        suggested=suggested,
        link=link,
        minimise=table.minimise,
    )
