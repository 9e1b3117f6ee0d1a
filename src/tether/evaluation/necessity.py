"""Necessity over sets of causal models: the range of P(the outcome would not have happened).

The episode is followed with one action different, in a model with one reward: 1 for not ending in the outcome. The
range of its value over a set of causal models (`tether.evaluation.ranges`) is the range of the necessity.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tether._foundation.markup import Displayed
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.conditioning.layers import nominal_rollout
from tether.conditioning.model_sets import Assumption, model_set
from tether.errors import Problem, QueryError
from tether.evaluation.evaluate import evaluate_policy
from tether.evaluation.following import follow
from tether.evaluation.outcomes import Outcome
from tether.evaluation.ranges import range_of, related_range
from tether.model.properties import Property
from tether.observation.changes import nothing_to_change
from tether.plan.afterwards import chances_after
from tether.plan.best_values import observed_value
from tether.plan.objective import asked
from tether.plan.rewards import without_rewards


@dataclass(frozen=True, slots=True)
class NecessityBounds(Displayed):
    """The necessity of one decision over a set of causal models.

    Attributes
    ----------
    assume : {"nothing", "stability"}
    least, most : float
        The smallest and the largest necessity over the causal models of the set.
    gumbel_max : float
    related : (float, float) or None
        With "nothing": the smallest and the largest if the luck of different steps may be related in any way.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> one = tether.counterfactual(grid.mdp, grid.path).decisions().necessity_bounds(2, "up")[0]
    >>> one.assume, round(one.least, 3), round(one.gumbel_max, 3), round(one.most, 3)
    ('nothing', 0.776, 0.782, 0.818)
    >>> [round(end, 3) for end in one.related]
    [0.767, 0.878]
    """

    assume: Assumption
    least: float
    gumbel_max: float
    most: float
    related: tuple[float, float] | None = None

    def __str__(self) -> str:
        return f"{self.assume}: {self.least:.3g} to {self.most:.3g} (Gumbel-max {self.gumbel_max:.3g})"


def necessity_bounds(
    cf: CounterfactualRecord, t: int, action: Any, outcome: Outcome, objective: Property | None = None
) -> tuple[NecessityBounds, ...]:
    """The necessity of ``action`` at step t, under every causal model and under every stable one.

    With an ``objective`` the outcome is that it held, or that it did not.
    """
    if objective is not None:
        return _of_property(cf, t, action, objective)
    missed = np.ones(cf.mdp.n_states)
    missed[outcome.states] = 0.0
    if cf.after is not None:  # nothing was observed there: its chances do not depend on the causal model
        missed = chances_after(asked(cf, None, widely=True), missed, nominal_rollout(cf.graph).last_states)
    model = replace(without_rewards(cf.mdp), discount=1.0, final_reward=missed, counts=None, horizon=None)
    avoided = CounterfactualRecord.of(model, cf.path)
    policy = _one_change(avoided, t, action)
    gumbel_max = evaluate_policy(avoided, policy).value
    found = []
    for assume in ("nothing", "stability"):
        models = model_set(avoided, assume)
        least, most = range_of(models, policy)
        related = related_range(models, follow(models, policy), None, 1.0) if assume == "nothing" else None
        found.append(_bounds(models.assume, least, gumbel_max, most, related, 0.0))
    return tuple(found)


def _bounds(
    assume: Assumption, least: float, middle: float, most: float, related: tuple[float, float] | None, happened: float
) -> NecessityBounds:
    """How far values are from what happened, as chances."""
    first, second, third, *ends = (min(1.0, abs(one - happened)) for one in (least, middle, most, *(related or ())))
    wide = (min(ends), max(ends)) if ends else None
    return NecessityBounds(assume, min(first, third), second, max(first, third), wide)


def _of_property(cf: CounterfactualRecord, t: int, action: Any, objective: Property) -> tuple[NecessityBounds, ...]:
    """Bounds of necessity for a property: how far its probability is from the observed 1 or 0."""
    world = asked(cf, objective)
    if t >= world.graph.end:  # it is decided
        return NecessityBounds("nothing", 0.0, 0.0, 0.0, (0.0, 0.0)), NecessityBounds("stability", 0.0, 0.0, 0.0)
    happened, policy = observed_value(world), _one_change(cf, t, action)
    found = []
    for assume in ("nothing", "stability"):
        models = model_set(cf, assume)
        (least, most), middle = (
            range_of(models, policy, objective),
            evaluate_policy(models.gumbel, policy, objective=objective).value,
        )
        related = None
        if assume == "nothing":
            related = related_range(models, follow(models, policy, objective), objective, 1.0)
        found.append(_bounds(models.assume, least, middle, most, related, happened))
    return tuple(found)


def _one_change(cf: CounterfactualRecord, t: int, action: Any) -> Callable[[int, Any, Any], Any]:
    """The policy that takes the observed actions, except at one step."""
    mdp = cf.mdp

    def act(time: int, state: Any, done: Any) -> Any:
        wanted = action if time == t else done
        there = mdp.actions_in(state)
        if wanted in there:
            return wanted
        if nothing_to_change(mdp.form, np.array([mdp.state_index(state)]), mdp.actions.find(wanted))[0]:
            return there[0]  # absorbing: there is no other choice
        message = (
            f"some causal model leads to state {state!r} at t = {time}, where the observed action {wanted!r} is not "
            "available: it is unknown what would have been done there, so there are no bounds"
        )
        raise QueryError(Problem(message, state, wanted, time=time))

    return act
