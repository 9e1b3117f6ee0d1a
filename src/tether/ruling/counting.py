"""The log read once: how often each step was seen, in the part that rules are chosen on and in the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints
from tether.errors import Problem, QueryError
from tether.evaluation.outcomes import outcome_classes
from tether.logs.batches import Log
from tether.logs.cohort import Cohort
from tether.ruling.recorded import Recorded, RuleWorld

if TYPE_CHECKING:
    from tether.auditing.where import Selection

CHOOSING, REPORTING = 0, 1
"""The part of a log on which rules are chosen, and the part on which they are reported."""


@dataclass(frozen=True, slots=True, eq=False)
class LogCounts:
    """What a log has, by part: choosing, reporting.

    Attributes
    ----------
    episodes : array (2,)
    broken : int
        How many episodes cannot be used.
    transitions : array (2, entries)
    visits : array (2, pairs)
        How often each pair was taken, before the end of the episode.
    first, horizon : array (kinds,)
        The states in which episodes begin, and up to which time they are judged: each combination once.
    starts : array (2, kinds)
        How many episodes begin so.
    ends : dict
        Of each end that occurs: how often, and the mean return.
    """

    episodes: Ints
    broken: int
    transitions: Ints
    visits: Ints
    first: Ints
    horizon: Ints
    starts: Ints
    ends: dict[str, tuple[int, float]]

    def weights(self, part: int | None) -> Floats:
        """How many episodes begin in each way, in a part of the log or in all of it."""
        found: Floats = (self.starts.sum(axis=0) if part is None else self.starts[part]).astype(float)
        return found

    def of(self, name: str, part: int | None) -> Ints:
        """Transitions or visits of a part of the log, or of all of it."""
        both = getattr(self, name)
        found: Ints = both.sum(axis=0) if part is None else both[part]
        return found


def is_held_out(cohort: Cohort, holdout: float, seed: int) -> Flags:
    """Which episodes of a batch belong to the part that rules are reported on; it depends on seed and place alone."""
    drawn = np.random.default_rng((seed, cohort.first)).random(len(cohort))
    return np.asarray(drawn < holdout)


def count_log(
    world: RuleWorld,
    log: Log,
    holdout: float,
    seed: int,
    selection: Selection | None,
    tell: Callable[[int], None] | None = None,
) -> LogCounts:
    """Count the steps of a log; ``tell`` is called with how many more rows are read."""
    form, mdp = world.mdp.form, world.mdp
    episodes, broken = np.zeros(2, np.int64), 0
    transitions = np.zeros((2, form.next_state.size), np.int64)
    visits = np.zeros((2, form.pair_action.size), np.int64)
    begun: dict[tuple[int, int], list[int]] = {}
    names, codes = outcome_classes(mdp, np.arange(mdp.n_states))
    ended, earned = np.zeros(len(names), np.int64), np.zeros(len(names))
    for n_rows, batch in log.batches(mdp):
        cohort = batch if selection is None else selection.of_batch(batch)
        found = Recorded.of(world, cohort)
        part = is_held_out(cohort, holdout, seed)[found.place].astype(np.int64)
        broken += len(cohort) - len(found)
        episodes += np.bincount(part, minlength=2)
        of_step = part[found.owner]
        np.add.at(visits, (of_step, found.pair), 1)
        np.add.at(transitions, (of_step, world.entries(found.pair, found.outcome)), 1)
        keys, times = np.unique(np.stack((found.first, found.horizon, part)), axis=1, return_counts=True)
        for s, h, p, n in np.vstack((keys, times)).T.tolist():
            begun.setdefault((s, h), [0, 0])[p] += n
        np.add.at(ended, codes[found.end], 1)
        np.add.at(earned, codes[found.end], world.sign * found.total)
        if tell is not None:
            tell(n_rows)
    if not episodes.sum():
        if selection is not None and not broken:
            message = f"the condition {selection.where.text!r} holds for no episode of the log"
            raise QueryError(Problem(message, value=selection.where.text, argument="where"))
        raise QueryError(Problem("the log has no episode that can be used", fix="tether check says why"))
    kinds = sorted(begun)
    ends = {
        name: (int(n), float(total / n)) for name, n, total in zip(names, ended, earned, strict=True) if name and n > 0
    }
    first, horizon = (np.array([kind[i] for kind in kinds], np.int64) for i in (0, 1))
    starts = np.array([begun[kind] for kind in kinds], np.int64).reshape(-1, 2).T
    return LogCounts(episodes, broken, transitions, visits, first, horizon, np.ascontiguousarray(starts), ends)
