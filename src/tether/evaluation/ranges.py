"""The value of a given policy over a set of causal models: the worst, the best, and the model that is worst for it.

The recursion of robust plans (`tether.plan.robust_record`) with the policy's own actions π, over all nodes that it can
visit under some model of the set (`tether.evaluation.following`):

    W_t(s) = Σ_a π(a|s) · min (max) over x in X of Σ_j x_j·(R(s,a,j) + γ·W_{t+1}(j))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.rounding import rounding_of
from tether.conditioning.counterfactual_record import CounterfactualRecord, with_mechanism
from tether.conditioning.edited_rows import Rows, spans
from tether.conditioning.given import GivenRows
from tether.conditioning.model_sets import ModelSet
from tether.core.chain import Link, Visits
from tether.errors import Problem, QueryError
from tether.evaluation.following import Followed, follow
from tether.model.form import pair_states
from tether.model.properties import Property
from tether.observation.changes import is_change
from tether.plan.afterwards import chain_after
from tether.plan.objective import asked_set
from tether.plan.plan_record import PlanRecord
from tether.plan.robust_record import RobustPlanRecord

if TYPE_CHECKING:
    from tether.core.robust import RowsTaken

_CLOSE = 1e-12
"""The tolerance of a breakdown point."""


@dataclass(frozen=True, slots=True)
class Range:
    """The value of a policy under Gumbel-max, its worst and best over a set, and its breakdown point."""

    value: float
    worst: float
    best: float
    breakdown: float


@dataclass(frozen=True, slots=True)
class Survival:
    """How a policy fares beyond the causal models of a set.

    Attributes
    ----------
    worst, best : float
        The range with hidden causes up to the strength that was asked about.
    gamma_star : float
        The strength that undoes the gain; 1 if none is guaranteed without hidden causes, infinite if none undoes it.
    related : (float, float)
        The range if the luck of different steps may be related in any way.
    """

    worst: float
    best: float
    gamma_star: float
    related: tuple[float, float]


def range_of(
    models: ModelSet, policy: Any, objective: Property | None = None, minimise: bool = False, *, net: bool = False
) -> tuple[float, float]:
    """(worst, best) expected return, or probability, of a plan or policy over the set; see `Robust.range`.

    With ``net``, less the expected price of the changes of a plan (``cost``).
    """
    if isinstance(policy, PlanRecord):
        minimise, objective = policy.minimise, policy.objective if objective is None else objective
    followed = follow(models, policy, objective, minimise)
    if net:
        followed = _less_prices(followed, policy)
    values = PolicyValues(asked_set(models, objective), followed)
    least, most = values.at(1.0)[0], values.at(1.0, -1.0)[0]
    return (most, least) if minimise else (least, most)


def _less_prices(followed: Followed, plan: PlanRecord) -> Followed:
    """What was followed, with rewards less the price of each change of a plan."""
    about, form, actions = plan.advisable, followed.models.gumbel.mdp.form, plan.cf.observation.actions
    if about is None or about.cost is None:
        return followed
    ended = followed.models.gumbel.graph.ended
    price = np.zeros(followed.pairs.size)
    for t, (begin, end) in enumerate(zip(followed.first[:-1].tolist(), followed.first[1:].tolist(), strict=True)):
        pairs = followed.pairs[begin:end]
        states = pair_states(form.pair_start, pairs)
        differs = is_change(form, states, pairs, int(actions[t]))
        some = np.flatnonzero(differs if ended is None else differs & ~ended.mask[states])
        price[begin + some] = about.prices(t, pairs[some])
    paid = np.repeat(price, np.diff(followed.starts))
    return replace(followed, reward=followed.reward + paid if plan.minimise else followed.reward - paid)


def best_case(plan: RobustPlanRecord) -> float:
    """The value of a robust plan under the model of its set that is best for it."""
    return range_of(plan.robust.models, plan)[1]


def ranges_with_breakdown(
    sets: tuple[ModelSet, ...],
    followed: Followed,
    observed: float,
    objective: Property | None = None,
    minimise: bool = False,
) -> tuple[Range, ...]:
    """The range of a policy over each of several sets, and its breakdown points.

    The breakdown point is the smallest ε at which (1 - ε)·(Gumbel-max row) + ε·(worst row of the set), used at every
    step, brings the value down to the observed return; 1 if none does, 0 if there is no gain to begin with.

    The policy was ``followed`` through a set that contains all of them.
    """
    return tuple(_range(PolicyValues(asked_set(models, objective), followed), observed, minimise) for models in sets)


def survival(
    models: ModelSet,
    followed: Followed,
    observed: float,
    gamma: float,
    share: Floats,
    objective: Property | None,
    minimise: bool,
) -> Survival:
    """What is left of a gain with hidden causes, and if luck is related over time, for the set of all causal models.

    ``share`` is how often each pair is taken in its state; see `tether.conditioning.model_sets.Confounding`.
    """
    from tether.core.extremes import undoing_strengths

    sign = -1.0 if minimise else 1.0
    level = sign * observed + 1e-12 * max(1.0, abs(observed))

    def extreme(strength: float, side: float) -> float:
        return PolicyValues(asked_set(models.confounded(strength, share), objective), followed).at(1.0, side)[0]

    def above(_: Ints, strengths: Floats) -> Floats:
        return np.array([sign * extreme(float(one), sign) - level for one in strengths])

    gamma_star = float(undoing_strengths(above, 1)[0])
    least, most = related_range(models, followed, objective, observed)
    related = (most, least) if minimise else (least, most)
    return Survival(extreme(gamma, sign), extreme(gamma, -sign), gamma_star, related)


def related_range(
    models: ModelSet, followed: Followed, objective: Property | None, observed: float
) -> tuple[float, float]:
    """The range if the luck of different steps may be related in any way (`tether.core.related`)."""
    from tether.core.related import lowest_mean

    asked = asked_set(models, objective)
    mdp, T = asked.gumbel.mdp, asked.gumbel.T
    after: tuple[Link, ...] = ()
    final = followed.last_worth
    world = followed.models.gumbel
    if world.rest is not None:
        none = np.zeros(followed.last_states.size, np.int64)
        ended = None if world.graph.ended is None else world.graph.ended.mask
        chain = chain_after(world.mdp, ended, T, world.rest, Visits(followed.last_states, none, none))
        last = chain.visits[-1].states
        final, after = np.zeros(last.size) if world.rest.last is None else world.rest.last[last], chain.links
    share = np.where(followed.undecided[followed.source] > 0, 1.0, followed.share)  # every action there may be taken
    found = []
    for sign in (1.0, -1.0):
        links = []
        for t in range(T):
            rows = np.arange(followed.first[t], followed.first[t + 1])
            owner = np.repeat(rows, np.diff(followed.starts)[rows])
            entries = np.arange(followed.starts[rows[0]], followed.starts[rows[-1] + 1])
            step, possible = asked.steps[t], followed.there[entries] >= 0
            mass = mdp.form.probability[followed.entries[entries]] / step.chance
            if step.outcome >= 0:
                mass = np.where(followed.pairs[owner] == step.pair, 1.0, mass)
            reward = sign * followed.reward[entries][possible]
            source, target = followed.source[owner] - followed.node_start[t], followed.there[entries]
            source, target = source[possible], target[possible] - followed.node_start[t + 1]
            pairs = followed.pairs[owner][possible]
            links.append(Link(source, target, pairs, (share[owner] * mass)[possible], reward, owner[possible]))
        links += [replace(one, reward=sign * one.reward) for one in after]
        found.append(sign * lowest_mean(links, sign * final, mdp.discount, rounding_of(observed)))
    return found[0], found[1]


def _range(values: PolicyValues, observed: float, minimise: bool) -> Range:
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


def worst_model(models: ModelSet, policy: Any) -> CounterfactualRecord:
    """The model of the set that is worst for a plan or policy; see `Robust.worst_model`.

    If a plan takes one pair with different numbers of changes left, the row is the worst one for the largest number.
    """
    if models.intervals is not None:
        why = "with confidence= the worst model may lead where nobody was seen to go: there is no such model to look at"
        raise QueryError(Problem(why, fix="leave out confidence=", argument="confidence"))
    followed = follow(models, policy)
    values = PolicyValues(models, followed)
    values.at(1.0)
    form, rows = models.gumbel.mdp.form, []
    for begin, end in zip(followed.first[:-1].tolist(), followed.first[1:].tolist(), strict=True):
        order = begin + np.lexsort((-followed.changes[begin:end], followed.pairs[begin:end]))
        pairs, first = np.unique(followed.pairs[order], return_index=True)
        _, item = spans(followed.starts[order[first]], followed.starts[order[first] + 1])
        rows.append(Rows.from_entries(form, pairs, values.rows[item]))
    mechanism = GivenRows(tuple(rows), models.member)
    return with_mechanism(models.gumbel, mechanism)


class PolicyValues:
    """Expected returns of a policy over a set of models; ``rows`` are the extreme rows of the last computation.

    ``last`` is what each node is worth where it has no rows; by default the final reward of the last states.
    """

    def __init__(
        self, models: ModelSet, followed: Followed, last: Floats | None = None, discount: float | None = None
    ) -> None:
        from tether._kernels.sets import row_scratch_for

        mdp = models.gumbel.mdp
        self._discount, self._undecided = mdp.discount if discount is None else discount, followed.undecided
        self._taken: RowsTaken = followed.limited(models)
        self._last = np.zeros(followed.undecided.size) if last is None else last
        if last is None:
            self._last[followed.node_start[-2] :] = followed.last_worth
        self.rows = np.empty(followed.entries.size)
        self._room = row_scratch_for(followed.longest)

    def at(self, share: float, sign: float = 1.0) -> tuple[float, float]:
        """Expected return from s_0, and how it changes with ``share``.

        Each row is a mixture: ``share`` of the worst (``sign`` = 1) or best (-1) row of the set, the rest Gumbel-max.
        """
        from tether.core.robust import followed_values

        value, slope = np.where(self._undecided, sign * np.inf, self._last), np.zeros(self._last.size)
        how = sign, share, self._discount
        followed_values(self._taken, self._undecided, *how, value, slope, self.rows, self._room)
        return float(value[0]), float(slope[0])
