"""Rules replayed on the episodes of a batch: helped, harmed, saved and lost; and the check on held-out episodes.

Only episodes that a rule touches are replayed (`tether.core.replays`). What is kept of a batch are sums over its
episodes, so memory does not grow with the log. Intervals are over episodes: each sum is also computed with random
weights (Poisson, mean 1), many times: the bootstrap of a log that is never in memory as a whole.

The held-out gain does not trust the model alone. With V, Q and the practice learned on the other part, and ω_t(s) how
much more often the rule leads to s at t, the mean over held-out episodes of

    V_0(s_0) + Σ γ^t·( ω_t(s_t)·(Q_t(s_t, rule(a_t)) - V_t(s_t)) + ρ_t·(r_t + γ·V_{t+1}(s_{t+1}) - Q_t(s_t, a_t)) )

with ρ_t = ω_t·π_rule(a_t|s_t) / π_b(a_t|s_t), is right if either the values or the ratios are (doubly robust). The same
mean over all episodes, with values and practice of all of the log, gives the interval of the gain in a learned model:
there it takes back what pooling draws towards 0, and its spread over episodes is that of the gain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats, Ints, summed
from tether.auditing.engine import Answering
from tether.core.replays import Practice, replay
from tether.core.returns_ahead import chances_ahead
from tether.logs.cohort import Cohort
from tether.mdp import MDP
from tether.ruling.counting import is_held_out
from tether.ruling.practised import Candidate, Values, apply_rules, practice_of
from tether.ruling.recorded import Recorded, RuleWorld
from tether.ruling.searching import Part

DRAWS = 400
"""How often the episodes are weighed anew for intervals."""

NUMBERS = (
    "touched", "steps", "gain", "helped", "helped_most", "harmed", "harmed_most", "helped_low", "helped_high",
    "harmed_low", "harmed_high", "saved", "lost", "saved_low", "saved_high", "lost_low", "lost_high",
    "saved_related_low", "saved_related_high", "lost_related_low", "lost_related_high", "bad_touched",
)  # fmt: skip
"""Sums over the episodes that a rule touches; ``…_low`` and ``…_high`` hold under every causal model in which luck is
unrelated over time, ``…_related_low`` and ``…_related_high`` also if it may be related in any way.

``helped`` and ``helped_most`` are equal where returns are few enough to be exact."""


@dataclass(frozen=True, eq=False)
class Asked:
    """Rules, one on top of the other, as they are replayed: what is done; and, on held-out episodes, what it is worth.

    Attributes
    ----------
    practice : Practice
        With usual practice of all of the log.
    held : Held or None
        With values and usual practice of the other part of the log.
    own : Held or None
        With those of all of the log, if the model was learned from it.
    is_whole : bool
        Whether helped and harmed get their range under every causal model, also where returns are many.
    """

    practice: Practice
    held: Held | None
    own: Held | None = None
    is_whole: bool = True

    @classmethod
    def of(cls, rules: Sequence[Candidate], every: Part, other: Part | None, is_whole: bool = True) -> Asked:
        """Rules as they are replayed; ``other`` is the part of the log on which they were chosen."""
        matrix = apply_rules(every.usual, every.world.pair_state, rules)
        held, own = (
            None if other is None else Held.of(rules, other),
            Held.of(rules, every) if every.is_learned else None,
        )
        return cls(practice_of(every.usual, matrix), held, own, is_whole)


@dataclass(frozen=True, eq=False)
class Held:
    """Values and ratios for the check on held-out episodes; see the head of this file."""

    values: Values
    ratio: Floats
    visits: list[Floats]
    ruled: Any

    @classmethod
    def of(cls, rules: Sequence[Candidate], part: Part) -> Held:
        """From the part of the log on which the rules were chosen."""
        ruled = apply_rules(part.usual, part.world.pair_state, rules)
        share = np.asarray(part.usual @ ruled).ravel()
        values, steps = Values(part.world, part.mdp, share), int(part.horizon.max(initial=1))
        usually = part.values.occupancy(part.first, part.weight, steps)
        by_rule = values.occupancy(part.first, part.weight, steps)
        with np.errstate(divide="ignore", invalid="ignore"):
            visits = [np.where(old > 0, new / old, 0.0) for new, old in zip(by_rule, usually, strict=True)]
            ratio = np.where(part.usual > 0, share / part.usual, 0.0)
        touched = np.asarray(ruled.diagonal() != 1.0)
        return cls(values, np.where((part.usual > 0) | touched, ratio, 1.0), visits, ruled)

    def gains(self, world: RuleWorld, recorded: Recorded, some: Ints) -> Floats:
        """Of some episodes, the return under the rules by the formula above, less the return that was observed."""
        gamma, total = world.worth.discount, np.zeros(len(recorded))
        total += self.values.of_starts(recorded.first, recorded.horizon)
        owner, time = recorded.owner, recorded.time
        wanted = np.zeros(len(recorded), bool)
        wanted[some] = True
        for steps in np.unique(recorded.horizon[some]).tolist():
            tables = self.values.tables(steps)
            own = wanted[owner] & (recorded.horizon[owner] == steps)
            for t in np.unique(time[own]).tolist():
                at = np.flatnonzero(own & (time == t))
                q = self.values.action_values(t, tables[t + 1])
                pair, state = recorded.pair[at], recorded.state[at]
                often = self.visits[t][state] if t < len(self.visits) else np.zeros(at.size)
                by_rule = np.asarray(self.ruled @ q).ravel()[pair] - tables[t][state]
                luck = recorded.reward[at] + gamma * tables[t + 1][recorded.outcome[at]] - q[pair]
                total += gamma**t * summed(owner[at], often * (by_rule + self.ratio[pair] * luck), len(recorded))
        gains: Floats = (total - recorded.total)[some]
        return gains


@dataclass(frozen=True, eq=False)
class BatchNumbers:
    """The numbers of a batch: sums over its episodes.

    Attributes
    ----------
    wrong : list
        The episodes that cannot be used, each with the reason.
    counted : array (2,)
        How many episodes there are in all, and held out.
    bad : int
        How many ended badly.
    sums : array (rules, numbers)
        In the order of `NUMBERS`.
    chosen : array (rules, 2)
        Touched and harmed in the part that rules are chosen on.
    drawn : array (rules + 1, 3, draws)
        With random weights: of each rule the sums of the gain (in replays; if the model was learned, by the formula
        above) and of the held-out gain, the latter also without weights in the third row; at the end the weights
        themselves, of all episodes and of held-out ones.
    """

    wrong: list[tuple[Any, str]]
    counted: Ints
    bad: int
    sums: Floats
    chosen: Floats
    drawn: Floats

    def to_arrow(self, id_type: Any) -> Any:
        """The numbers as a table of one row, for the file of the batch."""
        import pyarrow as pa

        del id_type
        arrays = {"sums": self.sums, "chosen": self.chosen, "drawn": self.drawn}
        columns: dict[str, Any] = {name: [one.ravel().tolist()] for name, one in arrays.items()}
        columns |= {"wrong": [[why for _, why in self.wrong]], "counted": [[*self.counted.tolist(), self.bad]]}
        columns["wrong"] = pa.array(columns["wrong"], pa.list_(pa.string()))
        return pa.table(columns)

    @classmethod
    def from_arrow(cls, table: Any) -> BatchNumbers:
        """The numbers from the file of a batch."""
        row = table.to_pylist()[0]
        sums = np.array(row["sums"]).reshape(-1, len(NUMBERS))
        drawn = np.array(row["drawn"]).reshape(len(sums) + 1, 3, DRAWS)
        counted = row["counted"]
        chosen = np.array(row["chosen"]).reshape(-1, 2)
        return cls([(None, why) for why in row["wrong"]], np.array(counted[:2]), counted[2], sums, chosen, drawn)

    @classmethod
    def joined(cls, several: Sequence[BatchNumbers]) -> BatchNumbers:
        """The numbers of several batches together."""
        wrong = [one for batch in several for one in batch.wrong]
        names = ("counted", "bad", "sums", "chosen", "drawn")
        return cls(
            wrong, *(sum((getattr(batch, name) for batch in several[1:]), getattr(several[0], name)) for name in names)
        )


@dataclass(frozen=True, eq=False)
class RuleWork:
    """The question that workers answer: some rules, on every episode of a log (`tether.auditing.engine.Work`)."""

    world: RuleWorld
    rules: tuple[Asked, ...]
    holdout: float
    seed: int

    @property
    def is_compiled(self) -> bool:
        """Replays are compiled code."""
        return True

    def prepare(self, mdp: MDP) -> Callable[[], Answering]:
        """Prepare to answer batches; see `tether.auditing.engine.Work`."""
        del mdp
        return lambda: self.answer

    def unanswered(self, mdp: MDP, cohort: Cohort, why: str) -> BatchNumbers:
        """The answer to a batch that ends every process; see `tether.auditing.engine.Work`."""
        del mdp
        return self._empty([(one, why) for one in cohort.ids])

    def join(self, answers: list[BatchNumbers]) -> BatchNumbers:
        """Answers to parts of a batch as one; see `tether.auditing.engine.Work`."""
        return BatchNumbers.joined(answers)

    def _empty(self, wrong: list[tuple[Any, str]]) -> BatchNumbers:
        n = len(self.rules)
        sums, chosen = np.zeros((n, len(NUMBERS))), np.zeros((n, 2))
        return BatchNumbers(wrong, np.zeros(2, np.int64), 0, sums, chosen, np.zeros((n + 1, 3, DRAWS)))

    def answer(self, cohort: Cohort) -> BatchNumbers:
        """The numbers of a batch."""
        found, world = Recorded.of(self.world, cohort), self.world
        wrong = [(one, why) for one, why in zip(cohort.ids, cohort.problem, strict=True) if why is not None]
        empty = self._empty(wrong)
        held_out = is_held_out(cohort, self.holdout, self.seed)[found.place]
        weights = np.random.default_rng((self.seed, cohort.first, 1)).poisson(1.0, (len(cohort), DRAWS))[found.place]
        drawn = empty.drawn
        drawn[-1, 0], drawn[-1, 1] = weights.sum(axis=0), weights[held_out].sum(axis=0)
        drawn[-1, 2, :2] = len(found), held_out.sum()
        bad = 0 if world.bad is None else int(world.bad[found.end].sum())
        for number, asked in enumerate(self.rules):
            some, numbers = replay_episodes(world, asked.practice, found, asked.is_whole)
            empty.sums[number] = numbers.sum(axis=0)
            chosen = ~held_out[some]
            harmed = NUMBERS.index("harmed_most")
            empty.chosen[number] = chosen.sum(), numbers[chosen, harmed].sum()
            drawn[number, 0] = numbers[:, NUMBERS.index("gain")] @ weights[some]
            if asked.own is not None:
                drawn[number, 0] = asked.own.gains(world, found, np.arange(len(found))) @ weights
            if asked.held is not None and held_out.any():
                places = np.flatnonzero(held_out)
                gains = asked.held.gains(world, found, places)
                drawn[number, 1], drawn[number, 2, 0] = gains @ weights[places], gains.sum()
        counted = np.array([len(found), int(held_out.sum())])
        return BatchNumbers(wrong, counted, bad, empty.sums, empty.chosen, drawn)


def replay_episodes(
    world: RuleWorld, practice: Practice, recorded: Recorded, is_whole: bool = True
) -> tuple[Ints, Floats]:
    """The episodes of a batch that a rule touches, by number, and the numbers of each, in the order of `NUMBERS`."""
    touched = np.flatnonzero(practice.start[recorded.pair + 1] > practice.start[recorded.pair])
    owner = recorded.owner[touched]
    some, first = np.unique(owner, return_index=True)
    numbers = np.zeros((some.size, len(NUMBERS)))
    if some.size == 0:
        return some, numbers
    episodes, arrays = recorded.suffixes(some, touched[first]), (world.model, practice, world.worth)
    by_end = replay(*arrays, episodes, by_return=False)
    total = episodes.earned + world.worth.discount**episodes.time * by_end.mean
    columns: dict[str, Any] = {
        "touched": np.ones(some.size),
        "steps": np.bincount(np.searchsorted(some, owner), minlength=some.size),
        "gain": total - episodes.total,
    }
    if world.objective is not None:
        columns |= _named("helped", by_end.better, by_end.better_range) | _named(
            "harmed", by_end.worse, by_end.worse_range
        )
    else:
        better, worse = chances_ahead(*arrays, episodes)
        ranges = np.full((2, some.size, 2), np.nan)
        if is_whole:
            ranged = replay(*arrays, episodes, by_return=True)
            ranges[:] = ranged.better_range, ranged.worse_range
        columns |= _named("helped", better, ranges[0]) | _named("harmed", worse, ranges[1])
    if world.bad is not None:
        split = _named("saved", by_end.better, by_end.better_range) | _named("lost", by_end.worse, by_end.worse_range)
        columns |= {name: split[name] for name in split if not name.endswith("_most")}
        for name, ends in (("saved", by_end.better_related), ("lost", by_end.worse_related)):
            columns |= {f"{name}_related_low": ends[:, 0], f"{name}_related_high": ends[:, 1]}
        columns["bad_touched"] = world.bad[recorded.end[some]].astype(float)
    for name, column in columns.items():
        numbers[:, NUMBERS.index(name)] = column
    return some, numbers


def _named(name: str, chance: Floats, ranged: Floats) -> dict[str, Floats]:
    least, most = chance.T
    low, high = ranged.T
    return {name: least, f"{name}_most": most, f"{name}_low": low, f"{name}_high": high}
