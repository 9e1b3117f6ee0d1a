"""What rules are judged in: the model with its direction and its ends; and episodes as they are replayed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints, spans, starts, summed
from tether.core.batch import Model
from tether.core.replays import Suffixes, Worth
from tether.errors import Problem, QueryError
from tether.evaluation.outcomes import absorbing, is_end, outcome_classes
from tether.explanation.terms import is_unrewarded
from tether.logs.cohort import Cohort, search
from tether.mdp import MDP
from tether.model.form import all_pair_states, model_of
from tether.model.labels import name_text
from tether.model.names import name_list
from tether.model.properties import Property
from tether.plan.best_values import final_rewards


@dataclass(frozen=True, eq=False)
class RuleWorld:
    """A model as rules are judged in it; larger is better.

    Attributes
    ----------
    mdp : MDP
    objective : Property or None
    minimise : bool
    longest : int
        How many steps the longest episode has: one that ended early is judged over as many.
    bad : array of bool or None
        The states that are a bad end; None if there is no such thing.
    bad_name : str
    """

    mdp: MDP
    objective: Property | None
    minimise: bool
    longest: int
    bad: Flags | None = None
    bad_name: str = ""

    @property
    def is_learned(self) -> bool:
        """Whether the model was learned from a log."""
        return self.mdp.counts is not None

    @property
    def sign(self) -> float:
        """-1 if less is better."""
        return -1.0 if self.minimise else 1.0

    @cached_property
    def model(self) -> Model:
        """The arrays of the model."""
        return model_of(self.mdp.form)

    @cached_property
    def pair_state(self) -> Ints:
        """The state of each pair."""
        return all_pair_states(self.mdp.form.pair_start)

    @cached_property
    def closed(self) -> Flags:
        """The states in which nothing can be changed: absorbing ones, and those that decide the objective."""
        found = np.asarray(absorbing(self.mdp, np.arange(self.mdp.n_states)), bool)
        return found if self.objective is None else found | self.objective.on(self.mdp).ended

    @cached_property
    def worth(self) -> Worth:
        """What steps and ends are worth."""
        mdp, n = self.mdp, self.mdp.n_states
        good = np.zeros(n) if self.bad is None else np.where(self.bad, 0.0, 1.0)
        if self.objective is not None:
            decided = self.objective.on(mdp)
            rest = np.where(self.closed, 0.0, np.nan)
            nothing = np.zeros((1, mdp.n_pairs))
            return Worth(nothing, False, self.sign * decided.holds.astype(float), 1.0, rest, good)
        reward = self.sign * np.atleast_2d(mdp.rewards.values)
        rest = np.full(n, np.nan)
        if mdp.rewards.horizon is None:
            of_pair = reward[0]
            if mdp.rewards.by_entry:
                of_pair = np.add.reduceat(mdp.form.probability * reward[0], mdp.form.row_start[:-1])
            low, high = np.full(n, np.inf), np.full(n, -np.inf)
            np.minimum.at(low, self.pair_state, of_pair)
            np.maximum.at(high, self.pair_state, of_pair)
            rest[self.closed & (low == high)] = low[self.closed & (low == high)]
        final = self.sign * final_rewards(mdp)
        return Worth(np.ascontiguousarray(reward), mdp.rewards.by_entry, final, mdp.discount, rest, good)

    @cached_property
    def is_over(self) -> Flags:
        """The states in which nothing happens any more."""
        found: Flags = ~np.isnan(self.worth.rest) | (np.diff(self.mdp.form.pair_start) == 0)
        return found

    @property
    def horizon(self) -> int:
        """How many steps an episode has that ended early."""
        return max(self.longest, self.mdp.horizon or 0, 1)

    def entries(self, pairs: Ints, outcomes: Ints) -> Ints:
        """The entry of the model of each transition."""
        form = self.mdp.form
        return search(form.next_state, form.row_start[pairs], form.row_start[pairs + 1], outcomes)

    def at_end(self, state: Ints, steps: Ints) -> Floats:
        """What is still earned in some states where nothing happens any more, in so many steps."""
        rest, gamma = np.nan_to_num(self.worth.rest[state]), self.worth.discount
        weight = gamma**steps
        earned = rest * steps if gamma == 1.0 else rest * (1.0 - weight) / (1.0 - gamma)
        found: Floats = earned + np.where(np.isnan(self.worth.rest[state]), 1.0, weight) * self.worth.final[state]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """The sound episodes of a batch, each up to where nothing happens any more, or to its last recorded state.

    Attributes
    ----------
    place : array (episodes,)
        The place of each in the batch.
    start : array (episodes + 1,)
    state, pair, outcome : array (steps,)
    reward, before : array (steps,)
        What each step earned (signed, not discounted), and the discounted return before it.
    first, end, horizon : array (episodes,)
        First and last state, and up to which time the episode is judged.
    total, good : array (episodes,)
        The return over all of it, and how good its end was.
    """

    place: Ints
    start: Ints
    state: Ints
    pair: Ints
    outcome: Ints
    reward: Floats
    before: Floats
    first: Ints
    end: Ints
    horizon: Ints
    total: Floats
    good: Floats

    @classmethod
    def of(cls, world: RuleWorld, cohort: Cohort) -> Recorded:
        """The episodes of a batch; broken ones are left out."""
        sound = np.flatnonzero([why is None for why in cohort.problem]) if len(cohort) else np.empty(0, np.int64)
        sound = sound[np.diff(cohort.start)[sound] > 0]
        part = cohort.only(sound)
        lengths, state = np.diff(part.start), np.asarray(part.state, np.int64)
        owner = np.repeat(np.arange(sound.size), lengths)
        over = world.is_over[state] | (part.next_state < 0)
        time = np.arange(state.size) - part.start[owner]
        length = lengths.copy()
        np.minimum.at(length, owner[over], time[over])
        kept = time < length[owner]
        start = starts(length)
        pair, outcome = (np.asarray(one, np.int64)[kept] for one in (part.pair, part.next_state))
        first = state[part.start[:-1]] if sound.size else np.empty(0, np.int64)
        end = first.copy()
        some = length > 0
        end[some] = outcome[start[1:][some] - 1]
        closed = world.closed[end] | world.is_over[end]
        horizon = np.where(closed, np.maximum(world.horizon, length), length)
        owner, time = owner[kept], time[kept]
        worth = world.worth
        at = world.entries(pair, outcome) if worth.by_entry else pair
        reward = worth.reward[time if worth.reward.shape[0] > 1 else 0, at]
        weighed = reward * worth.discount**time
        before = np.cumsum(weighed) - weighed
        before = before - (before[start[:-1][some]] if pair.size else np.empty(0))[np.cumsum(some)[owner] - 1]
        total = summed(owner, weighed, sound.size)
        total = total + worth.discount**length * world.at_end(end, np.where(world.is_over[end], horizon - length, 0))
        return cls(
            sound, start, state[kept], pair, outcome, reward, before, first, end, horizon, total, worth.good[end]
        )

    def __len__(self) -> int:
        return int(self.place.size)

    @property
    def lengths(self) -> Ints:
        """How many steps each has."""
        return np.diff(self.start)

    @property
    def owner(self) -> Ints:
        """The episode of each step."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @property
    def time(self) -> Ints:
        """The time of each step."""
        return np.arange(self.pair.size) - self.start[self.owner]

    def suffixes(self, first: Ints, step: Ints) -> Suffixes:
        """Episodes (by number) from a step on (by place among all steps)."""
        start = starts(self.start[first + 1] - step)
        _, at = spans(step, self.start[first + 1])
        time = step - self.start[first]
        return Suffixes(
            start, self.state[at], self.pair[at], self.outcome[at], time, self.horizon[first], self.before[step],
            self.total[first], self.good[first],
        )  # fmt: skip


def refuse_unrewarded(mdp: MDP, objective: Property | None) -> None:
    """An error if all rewards are 0 and no property is asked for: then every practice is worth the same."""
    if objective is None and is_unrewarded(mdp):
        ends = [name for name in outcome_classes(mdp, np.arange(mdp.n_states))[0] if name]
        fix = "give rewards, a final reward, or ask for an outcome (objective)"
        if ends:
            fix += f": 'avoid' or 'reach' and one of the ends {name_list(ends)}, as in --objective 'avoid {ends[-1]}'"
        message = "all rewards of the model are 0, so whatever is done is worth the same"
        raise QueryError(Problem(message, fix=fix, argument="objective"))


def bad_states(world: RuleWorld, bad: Any, ends: dict[str, tuple[int, float]]) -> tuple[Flags | None, str]:
    """The states that are a bad end, and their name.

    With an objective they are those where it fails, and ``bad`` must be left out. Else ``bad`` is the name of a label
    or a state. By default it is what the model calls bad; else, of the ends that the log has (``ends``: how often, and
    the mean return), the one whose episodes did worst.
    """
    mdp, minimise = world.mdp, world.minimise
    if world.objective is not None:
        if bad is not None:
            message = (
                f"with the objective '{world.objective}' a bad end is one where it {'holds' if minimise else 'fails'}"
            )
            raise QueryError(Problem(message, value=bad, fix="leave bad= out, or the objective", argument="bad"))
        holds = world.objective.on(mdp).holds
        return (holds if minimise else ~holds), _failing(str(world.objective), minimise)
    found = np.zeros(mdp.n_states, bool)
    if bad is None:
        marked = getattr(mdp, "bad", None) or ()
        if marked:
            for name in marked:
                found[mdp.labels[name].indices] = True
            return found, ", ".join(marked)
        if len(ends) < 2:
            return None, ""
        bad = (max if minimise else min)(ends, key=lambda name: ends[name][1])
    names = [bad] if isinstance(bad, str) else list(bad)
    closed = np.flatnonzero(is_end(mdp, np.arange(mdp.n_states)))
    by_text = {name_text(mdp.states[int(s)]): int(s) for s in closed}
    for name in names:
        if name in mdp.labels:
            found[mdp.labels[name].indices] = True
        elif name in by_text:
            found[by_text[name]] = True
        else:
            there = ", ".join([*mdp.labels, *[one for one in by_text if one not in mdp.labels][:8]])
            raise QueryError(
                Problem(f"the model has no end {name!r}", value=name, fix=f"there are {there}", argument="bad")
            )
    return found, ", ".join(map(str, names))


def _failing(objective: str, minimise: bool) -> str:
    """What a property that fails (or, if it is to be minimised, holds) is called as a bad end."""
    kind, _, what = objective.partition(" ")
    if kind in ("avoid", "reach"):
        return what if (kind == "avoid") != minimise else f"not {what}"
    return objective if minimise else f"not ({objective})"
