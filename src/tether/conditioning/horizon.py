"""Beyond the record: up to which time an episode is asked about, and who acts after its last recorded step.

An episode may end early: a fall, a death. Under other actions it might have gone on. Its record has T steps; it is
asked about up to a horizon H ≥ T. The steps T … H - 1 have no observation: their rows are those of the model, nothing
in them is influenced, every pair is allowed, and no action counts as a change. So they are a question about the plain
model, and all that the steps before need to know of them is what each state is worth at T (`Rest.worth`): it takes the
place of the final reward.

The observed path stays in its last state if that is absorbing. If it is not, the record was cut; then both the path and
the counterfactual are worth at T what the model expects from there.

In an absorbing state nothing is decided: what a record has after it (a treatment of the dead) is not a decision that a
plan could change. So with a horizon the record ends where it enters an absorbing state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.checks import whole_number
from tether.errors import Problem, QueryError
from tether.model.model_record import ModelRecord
from tether.model.practice import learned_counts
from tether.observation.changes import absorbing
from tether.observation.path import Observation, Path


@dataclass(frozen=True, slots=True)
class Horizon:
    """Up to which time, and who acts after the record.

    Attributes
    ----------
    until : int or None
        H; None: until the episode ends under usual practice.
    then : "best", "usual" or a policy
    """

    until: int | None
    then: Any


@dataclass(frozen=True, slots=True, eq=False)
class Ends:
    """How episodes end, from each state, if each pair is taken with its share until they do.

    Attributes
    ----------
    shares : array (pairs,)
    states : array
        In which an episode can end, ascending.
    chance : array (states of the model, ends)
    worth : array (states of the model,)
        Expected return, with the final reward.
    """

    shares: Floats
    states: Ints
    chance: Floats
    worth: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Rest:
    """What follows the record, for one objective (`tether.plan.afterwards`).

    Attributes
    ----------
    steps : int
        How many steps are followed one by one.
    decide : callable
        What is done at each time T … T + steps - 1, as a chain takes it (`tether.core.chain.Decide`).
    worth : array (states,)
        What each state is worth at T.
    last : array (states,) or None
        What each state is worth after these steps: the final reward, or what still follows.
    final : array (states,) or None
        The final reward.
    ends : Ends or None
        How episodes end under usual practice, if it goes on until they do.
    """

    steps: int
    decide: Callable[[int, Any], Any]
    worth: Floats
    last: Floats | None
    final: Floats | None
    ends: Ends | None = None


def make_horizon(mdp: ModelRecord, seen: Observation, horizon: Any, then: Any) -> Horizon | None:
    """The horizon of an episode, checked; None if nothing is asked about after its record.

    By default it is that of the model, if that is longer and the record ends in an absorbing state. In a learned model
    without a horizon it is the end of the episode under usual practice.
    """
    if isinstance(then, str) and then not in ("best", "usual", "random"):
        raise QueryError(Problem(f"then is 'best', 'usual', 'random' or a policy, not {then!r}", value=then))
    if isinstance(then, str) and then == "usual":
        learned_counts(mdp)
    if horizon is not None:
        until = whole_number("horizon", horizon, 1)
        if until < seen.T and not ended_early(mdp, seen, until):
            raise QueryError(
                Problem(f"the horizon {until:,} is less than the {seen.T:,} steps of the episode", value=until)
            )
        if mdp.horizon is not None and until > mdp.horizon:
            raise QueryError(f"the horizon {until:,} is more than that of the model ({mdp.horizon:,})")
        return Horizon(until, then)
    if mdp.counts is not None and mdp.horizon is None:
        if not isinstance(then, str) or then == "random":
            message = "a policy that acts after the record needs a horizon: how many steps it acts for"
            raise QueryError(Problem(message, fix="give horizon="))
        return Horizon(None, "usual")
    ends = ended_early(mdp, seen, seen.T)
    return Horizon(mdp.horizon, then) if mdp.horizon is not None and mdp.horizon > seen.T and ends else None


def ended_early(mdp: ModelRecord, seen: Observation, by: int) -> bool:
    """Whether an episode was in an absorbing state at time ``by``."""
    return bool(seen.states[by] >= 0 and absorbing(mdp.form, seen.states[by : by + 1])[0])


def up_to_its_end(mdp: ModelRecord, seen: Observation, path: Path) -> tuple[Observation, Path]:
    """The record up to the first absorbing state: what comes after it is no decision."""
    over = np.flatnonzero((seen.states[:-1] >= 0) & absorbing(mdp.form, np.maximum(seen.states[:-1], 0)))
    T = max(1, int(over[0])) if over.size else seen.T
    if T == seen.T:
        return seen, path
    rewards = None if path.rewards is None else path.rewards[:T]
    shorter = Path(path.states[: T + 1], path.actions[:T], rewards, path.outcome)
    kept = replace(seen, states=seen.states[: T + 1], actions=seen.actions[:T], pairs=seen.pairs[:T], rewards=rewards)
    return kept, shorter
