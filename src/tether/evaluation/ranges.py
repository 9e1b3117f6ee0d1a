"""The value of a given policy over a set of causal models: the worst, the best, and the model that is worst for it.

The same recursion as for robust plans (`tether.plan.robust`), with the policy's own actions π, over all nodes that it
can visit under some model of the set (`tether.evaluation.following`):

    W_t(s) = Σ_a π(a|s) · min (max) over x in X of Σ_j x_j·(R(s,a,j) + γ·W_{t+1}(j))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tether.conditioning.conditioned import CounterfactualMDP, counterfactual
from tether.conditioning.given import GivenRows
from tether.conditioning.rows import Rows, spans
from tether.conditioning.sets import ModelSet
from tether.evaluation.following import Followed, follow
from tether.model.properties import Property
from tether.plan.objective import asked_set
from tether.plan.plan import Plan

if TYPE_CHECKING:
    from tether._kernels.robust import RowsTaken

__all__ = ["Range", "range_of", "ranges_with_breakdown", "worst_model"]

_CLOSE = 1e-12
"""The tolerance of a breakdown point."""


@dataclass(frozen=True, slots=True)
class Range:
    """The value of a policy under Gumbel-max, its worst and best over a set, and its breakdown point."""

    value: float
    worst: float
    best: float
    breakdown: float


def range_of(models: ModelSet, policy: Any, objective: Property | None = None) -> tuple[float, float]:
    """(worst, best) expected return, or probability, of a plan or policy over the set; see `Robust.range`."""
    objective, minimise = _asked_of(policy, objective)
    values = _Values(asked_set(models, objective), follow(models, policy, objective))
    least, most = values.at(1.0)[0], values.at(1.0, -1.0)[0]
    return (most, least) if minimise else (least, most)


def _asked_of(policy: Any, objective: Property | None) -> tuple[Property | None, bool]:
    """The objective of a plan; for any other policy, the given one."""
    if isinstance(policy, Plan) and objective is None:
        return policy.objective, policy.minimise
    return objective, isinstance(policy, Plan) and policy.minimise


def ranges_with_breakdown(
    sets: tuple[ModelSet, ...], policy: Any, observed: float, objective: Property | None = None, minimise: bool = False
) -> tuple[Range, ...]:
    """The range of a plan or policy over each of several sets, and its breakdown points.

    The breakdown point is the smallest ε at which (1 - ε)·(Gumbel-max row) + ε·(worst row of the set), used at every
    step, brings the value down to the observed return; 1 if none does, 0 if there is no gain to begin with.

    The first set must contain the others: its nodes are followed once for all of them.
    """
    followed = follow(sets[0], policy, objective, minimise)
    return tuple(_range(_Values(asked_set(models, objective), followed), observed, minimise) for models in sets)


def _range(values: _Values, observed: float, minimise: bool) -> Range:
    """If less is better, the worst value is the largest. Signs are then reversed, so that more is better here."""
    sign = -1.0 if minimise else 1.0
    value, worst, best = (values.at(*how)[0] for how in ((0.0,), (1.0, sign), (1.0, -sign)))
    level = sign * observed + 1e-12 * max(1.0, abs(observed))
    if sign * value <= level:
        return Range(value, worst, best, 0.0)
    if sign * worst > level:
        return Range(value, worst, best, 1.0)

    def above(share: float) -> tuple[float, float]:
        found, slope = values.at(share, sign)
        return sign * found - level, sign * slope

    return Range(value, worst, best, _where_zero(above, sign * value - level, sign * worst - level))


def _where_zero(above: Callable[[float], tuple[float, float]], at_0: float, at_1: float) -> float:
    """The smallest x in 0 … 1 at which a falling function is no longer above 0. It is above 0 at 0, and not at 1.

    ``above`` also returns the slope, for Newton's method. If a step would leave the interval, and at every sixth step,
    the interval is halved instead, so that the search is never slow.
    """
    low, high, x, tries = 0.0, 1.0, at_0 / (at_0 - at_1), 0
    while high - low > _CLOSE:
        x = min(max(x, low + 0.5 * _CLOSE), high - 0.5 * _CLOSE)  # inside the interval, so that both ends move
        found, slope = above(x)
        low, high, tries = (x, high, tries + 1) if found > 0 else (low, x, tries + 1)
        beyond = 0.25 * _CLOSE if found > 0 else -0.25 * _CLOSE  # beyond the zero: the other end comes near too
        x = x - found / slope + beyond if slope < 0.0 else np.inf
        if not low < x < high or tries % 6 == 0:
            x = 0.5 * (low + high)
    return high


def worst_model(models: ModelSet, policy: Any) -> CounterfactualMDP:
    """The model of the set that is worst for a plan or policy; see `Robust.worst_model`.

    If a plan takes one pair with different numbers of changes left, the row is the worst one for the largest number.
    """
    followed = follow(models, policy)
    values = _Values(models, followed)
    values.at(1.0)
    form, rows = models.gumbel.mdp.form, []
    for begin, end in zip(followed.first[:-1].tolist(), followed.first[1:].tolist(), strict=True):
        order = begin + np.lexsort((-followed.changes[begin:end], followed.pairs[begin:end]))
        pairs, first = np.unique(followed.pairs[order], return_index=True)
        _, item = spans(followed.starts[order[first]], followed.starts[order[first] + 1])
        rows.append(Rows.from_entries(form, pairs, values.rows[item]))
    mechanism = GivenRows(tuple(rows), models.member)
    return counterfactual(models.gumbel.mdp, models.gumbel.path, mechanism=mechanism)


class _Values:
    """Expected returns of a policy over a set of models; ``rows`` are the extreme rows of the last computation."""

    def __init__(self, models: ModelSet, followed: Followed) -> None:
        from tether._kernels.sets import row_scratch_for

        mdp = models.gumbel.mdp
        self._discount, self._undecided = mdp.discount, followed.undecided
        self._taken: RowsTaken = followed.limited(models)
        self._last = np.zeros(followed.undecided.size)
        if mdp.final_reward is not None:
            self._last[followed.node_start[-2] :] = mdp.final_reward[followed.last_states]
        self.rows = np.empty(followed.entries.size)
        self._room = row_scratch_for(followed.longest)

    def at(self, share: float, sign: float = 1.0) -> tuple[float, float]:
        """Expected return from s_0, and how it changes with ``share``.

        Each row is a mixture: ``share`` of the worst (``sign`` = 1) or best (-1) row of the set, the rest Gumbel-max.
        """
        from tether._kernels.robust import followed_values

        value, slope = np.where(self._undecided, sign * np.inf, self._last), np.zeros(self._last.size)
        how = sign, share, self._discount
        followed_values(self._taken, self._undecided, *how, value, slope, self.rows, self._room)
        return float(value[0]), float(slope[0])
