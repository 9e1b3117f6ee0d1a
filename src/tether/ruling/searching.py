"""Which rules are worth a replay: all rules ranked by what they would change, from counts and the plain model.

In a learned model the advantage of an action over usual practice is drawn towards 0 as far as the log demands
(`tether.practice`); the score of a rule is its sum over the visits that the rule changes. In a model that was given the
advantages are the model's own, step by step. No episode is replayed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

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

SURE = 0.95
"""A rule of a learned model is chosen only if it is better than usual practice with at least this probability."""


@dataclass(frozen=True, slots=True)
class Gain:
    """What rules change per episode in the plain model, and the probability that this is above 0."""

    mean: float
    better: float


class Ranked(NamedTuple):
    """A rule that may be worth a replay, with what it adds, and the score by which it was ranked."""

    candidate: Candidate
    gain: Gain
    score: float


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
    def _standard(self) -> Standard:
        return Standard(self.mdp, "usual", self.world.objective, self.world.minimise)

    @cached_property
    def advantages(self) -> Floats:
        """For a learned model: the advantage of each pair over usual practice, drawn towards 0."""
        return self._standard.advantages[0]

    @property
    def episodes(self) -> float:
        """How many episodes there are."""
        return float(self.weight.sum())

    def value_of(self, values: Values) -> float:
        """The mean value of a practice over the episodes."""
        return float(self.weight @ values.of_starts(self.first, self.horizon) / self.episodes)

    def gain(self, rules: Sequence[Candidate], before: Sequence[Candidate] = ()) -> Gain:
        """What rules add to usual practice with those ``before``, in the plain model; if it was learned, how surely."""
        old, new = (apply_rules(self.usual, self.world.pair_state, one) for one in (before, [*before, *rules]))
        base = self._with(old) if before else self.values
        gain = self.value_of(self._with(new)) - self.value_of(base)
        if not self.is_learned:
            return Gain(gain, 0.5 if gain == 0 else float(gain > 0))
        from scipy.special import ndtr

        mean, sd = self._standard.unpooled
        moved = (new.T @ self.visits - old.T @ self.visits) / max(self.episodes, 1.0)  # how much more pairs are taken
        spread = float(np.sqrt(np.sum((moved * sd) ** 2)))
        return Gain(gain, 0.5 if spread == 0 or gain == 0 else float(ndtr(float(moved @ mean) / spread)))

    def _with(self, ruled: Any) -> Values:
        """What usual practice is worth once rules have changed it."""
        return Values(self.world, self.mdp, np.asarray(self.usual @ ruled).ravel())

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
            return [n * share / max(self.episodes, 1.0)], [self.advantages]
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
        self, edits: Sequence[Edit], conditions: Sequence[tuple[Condition, Flags]], many: int,
        before: Sequence[Candidate] = (),
    ) -> Iterator[list[Ranked]]:  # fmt: skip
        """Rules on top of others by their scores, so ``many`` at a time; among these by what they add."""
        held = apply_rules(self.usual, self.world.pair_state, before) if before else None
        scores = self.scores(edits, conditions, held)
        ranked = self._possible(edits, conditions, scores)
        while several := list(islice(ranked, many)):
            found = [Ranked(one, self.gain([one], before), score) for one, score in several]
            yield sorted(found, key=lambda one: -one.gain.mean)

    def _possible(
        self, edits: Sequence[Edit], conditions: Sequence[tuple[Condition, Flags]], scores: Floats
    ) -> Iterator[tuple[Candidate, float]]:
        """Rules that could help, and that ask for nothing that a log never has; the highest scores first."""
        for place in np.argsort(-scores, axis=None, kind="stable"):
            row, column = divmod(int(place), len(conditions))
            if scores[row, column] < 0:
                return
            one = Candidate.of(self.world, *conditions[column], edits[row])
            asked = one.to[one.touched & (self.visits > 0)]
            if asked.size and not (self.is_learned and one.edit.do is not None and not self.visits[asked].any()):
                yield one, float(scores[row, column])

    def is_sure(self, gain: Gain) -> bool:
        """Whether rules surely add something: more than 0; in a learned model with a high probability."""
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
