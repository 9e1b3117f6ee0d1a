"""Which limit on whole paths a question has: a budget of distance, or a chance to lose touch with the episode."""

from __future__ import annotations

from tether._foundation.checks import whole_number
from tether.errors import QueryError
from tether.plan.limited import LimitedPlanRecord
from tether.plan.lost_chance import with_chance
from tether.plan.path_budget import budgeted
from tether.plan.tether_record import TetherRecord


def limited_plan(
    tied: TetherRecord, k: int | None, m: int, budget: float | None, lost: float | None, has_constraint: bool
) -> LimitedPlanRecord:
    """The best plan with one of the limits; see `CounterfactualMDP.plan`."""
    if has_constraint or (budget is not None and lost is not None):
        raise QueryError("give one of subject_to=, budget= and lost=")
    m = min(whole_number("m", m, 0), tied.cf.T)
    if lost is not None:
        if k is None:
            raise QueryError("lost= is about k uninfluenced steps in a row: give k")
        return with_chance(tied, min(whole_number("k", k, 1), tied.cf.T + 1), m, lost)
    return budgeted(tied, tied.cf.T + 1 if k is None else min(whole_number("k", k, 1), tied.cf.T + 1), m, budget)
