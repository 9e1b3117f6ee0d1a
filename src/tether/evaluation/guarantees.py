"""Guarantees for each k: how far the value of the best plan for each tether can be from what Gumbel-max expects."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether.conditioning.model_sets import Assumption, model_set
from tether.evaluation.evaluate import evaluate_plan
from tether.evaluation.ranges import best_case, range_of
from tether.model.properties import Property
from tether.plan.plan_record import PlanRecord
from tether.plan.robust_record import RobustPlanRecord

_REACH = 100_000
"""How many states over time can be in reach. For larger models, the other k are left out."""

_MOST = 12
"""How many different plans are evaluated at most."""


@dataclass(frozen=True, slots=True, eq=False)
class GuaranteesByK:
    """What the best plan of each k is worth: under Gumbel-max, at worst and at best.

    Attributes
    ----------
    ks : array
        The k at which more becomes allowed, ascending; only some, if there are very many.
    values, worst, best : array
        Expected return under Gumbel-max, and its range over the set.
    m : int
    assume : str
        The set.
    observed_value : float
    objective : Property or None
        The property whose probability the values are; None for returns.

    Examples
    --------
    >>> import tether
    >>> from tether.evaluation.guarantees import guarantees_by_k
    >>> patient = tether.cases.sepsis()
    >>> by_k = guarantees_by_k(tether.counterfactual(patient.mdp, patient.path).plan(k=9, m=10))
    >>> by_k.ks.tolist(), by_k.worst.round().tolist()
    ([1, 8, 9, 10, 11], [-6850.0, -6850.0, -6850.0, -8950.0, -8950.0])
    """

    ks: Ints
    values: Floats
    worst: Floats
    best: Floats
    m: int
    assume: Assumption
    observed_value: float
    objective: Property | None = None


def guarantees_by_k(plan: PlanRecord) -> GuaranteesByK | None:
    """The question of a plan, answered for each k; None if the model is too large for it.

    For a plan of `tether.robust` the range is over the set of that plan, otherwise over every causal model.
    """
    cf = plan.cf
    if cf.graph.n_nodes > _REACH:
        return None
    ks = _different(plan)
    if isinstance(plan, RobustPlanRecord):
        robust = plan.robust
        plans = [
            robust.plan(int(k), plan.m, rule=plan.rule, objective=plan.objective, minimise=plan.minimise) for k in ks
        ]
        ranges = [(one.value, best_case(one)) for one in plans]
        values, assume = [evaluate_plan(one).value for one in plans], plan.assume
    else:
        question, models = plan.question, model_set(cf, "nothing")
        best = [question.plan(int(k), plan.m) for k in ks]
        ranges = [range_of(models, one) for one in best]
        values, assume = [one.value for one in best], models.assume
    worst, highest = np.array(ranges).T
    return GuaranteesByK(ks, np.array(values), worst, highest, plan.m, assume, plan.observed_value, plan.objective)


def _different(plan: PlanRecord) -> Ints:
    """The k at which more becomes allowed, and k = T + 1. If there are very many, some of them and the plan's own k."""
    ks = plan.sweep(ms=[plan.m]).distinct
    own = ks[ks <= plan.k][-1]
    if ks.size > _MOST:
        ks = ks[np.linspace(0, ks.size - 1, _MOST).round().astype(np.int64)]
    found: Ints = np.unique([*ks.tolist(), own, plan.T + 1])
    return found
