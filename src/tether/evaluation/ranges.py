"""What a given policy is worth over a whole set of causal models: the worst, the best, the model that is worst for it.

The same recursion as for robust plans (`tether.plan.robust`), with the policy's own actions π, over all that it can
visit under some model of the set (`tether.evaluation.following`):

    W_t(s) = Σ_a π(a|s) · min (max) over x in X of Σ_j x_j·(R(s,a,j) + γ·W_{t+1}(j))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._types import Floats
from tether.counterfactual.conditioned import CounterfactualMDP, counterfactual
from tether.counterfactual.given import GivenRows
from tether.counterfactual.rows import Rows, nominal_start, spans
from tether.counterfactual.sets import ModelSet
from tether.evaluation.following import Followed, follow
from tether.plan.chain import collect

__all__ = ["Range", "range_of", "range_with_breakdown", "worst_model"]

_CLOSE = 1e-12
"""How closely a breakdown point is found."""


@dataclass(frozen=True, slots=True)
class Range:
    """What a policy is worth under Gumbel-max, at worst and at best over a set; and its breakdown point."""

    value: float
    worst: float
    best: float
    breakdown: float


def range_of(models: ModelSet, policy: Any) -> tuple[float, float]:
    """(worst, best) expected return of a plan or policy over the set; see `Robust.range`."""
    followed = follow(models, policy)
    return _value(models, followed, 1.0)[0], _value(models, followed, 1.0, -1.0)[0]


def range_with_breakdown(models: ModelSet, policy: Any, observed: float) -> Range:
    """The range of a plan or policy, and how far from Gumbel-max the truth may be before nothing is gained.

    The breakdown point is the smallest ε at which (1 - ε)·(Gumbel-max row) + ε·(worst row of the set), used at every
    step, brings the value down to the observed return; 1 if none does, 0 if there is no gain to begin with.
    """
    followed = follow(models, policy)
    value, worst, best = (_value(models, followed, *how)[0] for how in ((0.0,), (1.0,), (1.0, -1.0)))
    level = observed + 1e-12 * max(1.0, abs(observed))
    if value <= level:
        return Range(value, worst, best, 0.0)
    if worst > level:
        return Range(value, worst, best, 1.0)
    point = _where_zero(lambda share: _value(models, followed, share)[0] - level, value - level, worst - level)
    return Range(value, worst, best, point)


def _where_zero(above: Callable[[float], float], at_0: float, at_1: float) -> float:
    """The smallest x in 0 … 1 at which a falling function is no longer above 0: it is so at 0, and not so at 1.

    By the rule of Illinois (the line between the ends; what is held of an end that stays twice is halved), and every
    third time by halving, so that it is never slow.
    """
    low, high, at_low, at_high, moved, tries = 0.0, 1.0, at_0, at_1, 0, 0
    while high - low > _CLOSE:
        tries += 1
        guess = 0.5 * (low + high) if tries % 3 == 0 else low + (high - low) * at_low / (at_low - at_high)
        x = min(max(guess, low + 0.5 * _CLOSE), high - 0.5 * _CLOSE)  # inside, so that both ends move
        found = above(x)
        if found > 0:
            low, at_low, at_high, moved = x, found, at_high * (0.5 if moved < 0 else 1.0), -1
        else:
            high, at_high, at_low, moved = x, found, at_low * (0.5 if moved > 0 else 1.0), 1
    return high


def worst_model(models: ModelSet, policy: Any) -> CounterfactualMDP:
    """The model of the set that is worst for a plan or policy; see `Robust.worst_model`.

    Where a plan takes one pair with different numbers of changes left, the row is the worst for the largest of them.
    """
    followed = follow(models, policy)
    _, found = _value(models, followed, 1.0)
    form, rows = models.possible.mdp.form, []
    for decided, probability in zip(followed.chain.taken, found, strict=True):
        order = np.lexsort((-decided.changes, decided.pairs))
        pairs, first = np.unique(decided.pairs[order], return_index=True)
        starts = nominal_start(form, decided.pairs)
        _, item = spans(starts[order[first]], starts[order[first] + 1])
        _, entry = spans(form.row_start[pairs], form.row_start[pairs + 1])
        distance = np.abs(probability[item] - form.probability[entry])
        strength = 0.5 * np.add.reduceat(distance, nominal_start(form, pairs)[:-1])
        rows.append(Rows.from_entries(form, pairs, probability[item], strength))
    mechanism = GivenRows(tuple(rows), models.member)
    return counterfactual(models.possible.mdp, models.possible.path, mechanism=mechanism)


def _value(models: ModelSet, followed: Followed, share: float, sign: float = 1.0) -> tuple[float, list[Floats]]:
    """Expected return from s_0, and the extreme rows of each step.

    Rows are ``share`` of the worst (``sign`` = 1) or best (-1) of the set, and otherwise those of Gumbel-max.
    """
    from tether._kernels.robust import followed_rows
    from tether._kernels.sets import scratch_for

    mdp, chain = models.possible.mdp, followed.chain
    after = np.zeros(chain.visits[-1].size) if mdp.final_reward is None else mdp.final_reward[chain.visits[-1].states]
    longest = max(int(np.diff(taken.starts).max(initial=1)) for taken in followed.taken)
    scratch, row_values, found = scratch_for(longest), np.empty(longest), []
    for t in range(chain.T - 1, -1, -1):
        decided, taken = chain.taken[t], followed.taken[t]
        expected, rows = np.empty(decided.pairs.size), np.empty(taken.next_state.size)
        how = models.step(t), models.kind, sign, share, mdp.discount
        followed_rows(taken, *how, after, row_values, expected, rows, scratch)
        found.append(rows)
        before = collect(decided.source, decided.probability * expected, chain.visits[t].size)
        if followed.undecided[t].any():
            among = followed.undecided[t][decided.source]
            before[followed.undecided[t]] = sign * np.inf
            pick = np.minimum if sign > 0 else np.maximum
            pick.at(before, decided.source[among], expected[among])
        after = before
    return float(after[0]), found[::-1]
