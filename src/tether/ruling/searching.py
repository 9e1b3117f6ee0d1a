"""Which rules are worth a replay: all rules ranked by what they would change, from counts and the plain model.

In a learned model the advantage of an action over usual practice is drawn towards 0 as far as the log demands
(`tether.practice`); the score of a rule is its sum over the visits that the rule changes. In a model that was given the
advantages are the model's own, step by step. No episode is replayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints, summed
from tether.learning.learn import relearned
from tether.logs.cohort import search
from tether.mdp import MDP
from tether.plan.standard import Standard
from tether.ruling.conditions import Condition
from tether.ruling.counting import LogCounts
from tether.ruling.edits import Edit
from tether.ruling.practised import Candidate, Values, apply_rules, usual_shares
from tether.ruling.recorded import RuleWorld

__all__ = ["Gain", "Part", "permuted"]

SURE = 0.95
"""A rule of a learned model is chosen only if it is better than usual practice with at least this probability."""


@dataclass(frozen=True, slots=True)
class Gain:
    """What rules change in the plain model: per episode; its standard deviation; the probability that it is above 0."""

    mean: float
    sd: float
    better: float


@dataclass(frozen=True, eq=False)
class Part:
    """What is known from a part of a log, or from all of it: usual practice, starts, and a model.

    Attributes
    ----------
    world : RuleWorld
    mdp : MDP
        The model as it was given; or, if it was learned, what this part of the log alone teaches.
    visits : array (pairs,)
    first, horizon, weight : array
        How episodes begin.
    """

    world: RuleWorld
    mdp: MDP
    visits: Ints
    first: Ints
    horizon: Ints
    weight: Floats

    @classmethod
    def of(cls, world: RuleWorld, counts: LogCounts, part: int | None) -> Part:
        """A part of a log; None for all of it."""
        mdp, transitions = world.mdp, counts.of("transitions", part)
        if mdp.counts is not None and part is not None:
            mdp = relearned(mdp, transitions, int(counts.episodes[part]))
        weight = counts.weights(part)
        some = weight > 0
        return cls(world, mdp, counts.of("visits", part), counts.first[some], counts.horizon[some], weight[some])

    @property
    def is_learned(self) -> bool:
        """Whether the model was learned from a log."""
        return self.mdp.counts is not None

    @cached_property
    def usual(self) -> Floats:
        """Usual practice: the share of each pair in its state."""
        return usual_shares(self.world, self.visits)

    @cached_property
    def values(self) -> Values:
        """What usual practice is worth."""
        return Values(self.world, self.mdp, self.usual)

    @cached_property
    def advantages(self) -> tuple[Floats, Floats]:
        """For a learned model: the advantage of each pair over usual practice, drawn towards 0; and its spread."""
        mean, sd, _ = Standard(self.mdp, "usual", self.world.objective, self.world.minimise).advantages
        return mean, sd

    @property
    def episodes(self) -> float:
        """How many episodes there are."""
        return float(self.weight.sum())

    def value_of(self, values: Values) -> float:
        """The mean value of a practice over the episodes."""
        return float(self.weight @ values.of_starts(self.first, self.horizon) / self.episodes)

    def gain(self, rules: Sequence[Candidate]) -> Gain:
        """V(π_b with the rules) - V(π_b) in the plain model; with its uncertainty, if the model was learned."""
        ruled = apply_rules(self.usual, self.world.pair_state, rules)
        share = np.asarray(self.usual @ ruled).ravel()
        gain = self.value_of(Values(self.world, self.mdp, share)) - self.value_of(self.values)
        if not self.is_learned:
            return Gain(gain, 0.0, 0.5 if gain == 0 else float(gain > 0))
        from scipy.special import ndtr

        _, sd = self.advantages
        moved = ruled.T @ self.visits - self.visits  # how many more steps take each pair
        spread = float(np.sqrt(np.sum((moved * sd) ** 2))) / max(self.episodes, 1.0)
        return Gain(gain, spread, 0.5 if spread == 0 else float(ndtr(gain / spread)))

    def scores(
        self, edits: Sequence[Edit], conditions: Sequence[tuple[Condition, Flags]], before: Any = None
    ) -> Floats:
        """The score of each edit (row) in each condition (column): what it changes per episode, to the first order.

        ``before`` is K of rules that hold already.
        """
        everywhere = np.ones(self.world.mdp.n_states, bool)
        share = self.usual if before is None else np.asarray(self.usual @ before).ravel()
        taken, worth = self._visits(share)
        member = np.stack([states for _, states in conditions]).astype(float)
        found = np.empty((len(edits), len(conditions)))
        for row, edit in enumerate(edits):
            to = Candidate.of(self.world, conditions[0][0], everywhere, edit).to
            total = np.zeros(self.world.mdp.n_states)
            for weight, value in zip(taken, worth, strict=True):
                after = value[np.maximum(to, 0)]
                if np.any(to < 0):
                    after = np.where(to < 0, self._others(share, value), after)
                total += summed(self.world.pair_state, weight * (after - value), total.size)
            found[row] = member @ total
        return found

    def _visits(self, share: Floats) -> tuple[list[Floats], list[Floats]]:
        """How often each pair is taken per episode, and what it is worth: over all time, or step by step."""
        if self.is_learned:
            n = summed(self.world.pair_state, self.visits, self.world.mdp.n_states)[self.world.pair_state]
            return [n * share / max(self.episodes, 1.0)], [self.advantages[0]]
        values, horizon = Values(self.world, self.mdp, share), int(self.horizon.max(initial=1))
        tables = values.tables(horizon)
        reached = values.occupancy(self.first, self.weight, horizon)
        gamma = self.world.worth.discount
        taken = [gamma**t * share * reached[t][self.world.pair_state] for t in range(horizon)]
        return taken, [values.action_values(t, tables[t + 1]) for t in range(horizon)]

    def _others(self, share: Floats, value: Floats) -> Floats:
        """The mean value of whatever else is usual, in place of each pair."""
        state, n = self.world.pair_state, self.world.mdp.n_states
        rest = summed(state, share, n)[state] - share
        total = summed(state, share * value, n)[state] - share * value
        return np.where(rest > 1e-12, total / np.where(rest > 1e-12, rest, 1.0), value)

    def candidates(
        self, edits: Sequence[Edit], conditions: Sequence[tuple[Condition, Flags]], most: int,
        before: Sequence[Candidate] = (),
    ) -> list[tuple[Candidate, Gain]]:  # fmt: skip
        """The best rules on top of others: ranked by their scores, then by what they change in the plain model."""
        held = apply_rules(self.usual, self.world.pair_state, before) if before else None
        scores = self.scores(edits, conditions, held)
        base = self.gain(before).mean if before else 0.0
        found: list[tuple[Candidate, Gain]] = []
        for place in np.argsort(-scores, axis=None, kind="stable"):
            row, column = divmod(int(place), len(conditions))
            if len(found) >= 2 * most or scores[row, column] < 0:
                break
            one = Candidate.of(self.world, *conditions[column], edits[row])
            seen = self.visits[one.touched]
            asked = one.to[one.touched & (self.visits > 0)]
            if not seen.any() or (self.is_learned and one.edit.do is not None and not self.visits[asked].any()):
                continue
            gain = self.gain([*before, one])
            alone = replace(gain, mean=gain.mean - base)
            found.append((one, gain if not before else alone))
        found.sort(key=lambda pair: -pair[1].mean)
        return found[:most]

    def is_chosen(self, gain: Gain) -> bool:
        """Whether a rule may be chosen: better than usual practice, in a learned model with a high probability."""
        return gain.mean > 1e-12 and (not self.is_learned or gain.better >= SURE)


def permuted(mdp: MDP, transitions: Ints, rng: np.random.Generator) -> Ints:
    """The transitions of a log whose actions were permuted within each state: whatever they show then is chance."""
    form = mdp.form
    entry_pair = np.repeat(np.arange(form.pair_action.size), np.diff(form.row_start))
    state = np.searchsorted(form.pair_start, entry_pair, side="right") - 1
    step = np.repeat(np.arange(transitions.size), transitions)
    order = np.lexsort((rng.random(step.size), state[step]))
    pair, outcome = entry_pair[step], form.next_state[step][order]
    found = np.zeros(transitions.size, np.int64)
    low, high = form.row_start[pair], form.row_start[pair + 1]
    entry = search(form.next_state, low, high, outcome)
    np.add.at(found, entry[entry >= 0], 1)
    return found
