"""Mistake or luck for every episode of a log: one row per episode, from arrays of all its steps at once.

The values of the plain model are computed once for the log; see `tether.evaluation.review`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.arrow import NameColumn, Tabular, name_array
from tether.auditing.cohort import Cohort, find_episodes
from tether.evaluation.review import BatchReview, horizons, review_batch
from tether.evaluation.standard import Standard
from tether.model.mdp import MDP
from tether.model.properties import Property, make_property
from tether.observation.episodes import Episodes
from tether.observation.path import Path

if TYPE_CHECKING:
    import pyarrow

__all__ = ["LargestMistakes", "LogReview", "review_log"]


class LargestMistakes(NamedTuple):
    """The largest mistake of each episode; arrays (episodes,), -1 and 0.0 where there is none.

    ``state``, ``action`` and ``best`` are indices of the model. ``cost`` is what it cost of the return (discounted).
    """

    t: Ints
    state: Ints
    action: Ints
    best: Ints
    cost: Floats


@dataclass(frozen=True, eq=False)
class LogReview(Tabular):
    """The review of every episode of a log.

    Attributes
    ----------
    mdp : MDP
    cohort : Cohort
        The episodes in the model's indices; ``cohort.problem`` says why one has no numbers.
    found : BatchReview
        The numbers: by episode, and by step.
    """

    mdp: MDP
    cohort: Cohort
    found: BatchReview

    @property
    def largest(self) -> LargestMistakes:
        """The largest mistake of each episode."""
        at, steps, actions = self.found.largest, self.found.steps, self.mdp.form.pair_action
        some = np.flatnonzero(at >= 0)
        columns = np.full((4, at.size), -1)
        cost = np.zeros(at.size)
        step = at[some]
        best = actions[steps.best[step]]
        columns[:, some] = steps.t[step], self.cohort.state[step], self.cohort.action[step], best
        cost[some] = steps.weight[step] * steps.mistake[step]
        t, state, action, best = columns
        return LargestMistakes(t, state, action, best, cost)

    def to_arrow(self) -> pyarrow.Table:
        """One row per episode: expected, mistakes, luck, observed, unlike, and the largest mistake; null if broken.

        ``largest_mistake`` has the fields t, state, action, best and cost; it is null without a mistake.
        """
        import pyarrow as pa

        found, largest = self.found, self.largest
        columns: dict[str, Any] = {"episode": name_array(self.cohort.ids)}
        for which in ("expected", "mistakes", "luck", "observed", "unlike"):
            columns[which] = pa.array(getattr(found, which), mask=np.isnan(found.expected))
        none = largest.t < 0
        states, actions = NameColumn(self.mdp.states), NameColumn(self.mdp.actions)
        fields = {
            "t": pa.array(largest.t),
            "state": states.take(np.maximum(largest.state, 0)),
            "action": actions.take(np.maximum(largest.action, 0)),
            "best": actions.take(np.maximum(largest.best, 0)),
            "cost": pa.array(largest.cost),
        }
        columns["largest_mistake"] = pa.StructArray.from_arrays(
            list(fields.values()), names=list(fields), mask=pa.array(none)
        )
        return pa.table(columns)


def review_log(
    mdp: MDP,
    episodes: Episodes | Iterable[Path] | Mapping[Any, Path],
    against: Any = "best",
    *,
    objective: Property | None = None,
    minimise: bool = False,
    horizon: int | None = None,
) -> LogReview:
    """Mistake or luck of every episode of a log, as `tether.review` has it for one.

    By default an episode that ended in an absorbing state is judged over as many steps as the longest of the log has,
    or the horizon of the model, if it has one.

    Examples
    --------
    >>> import tether
    >>> from tether.auditing.reviewed import review_log
    >>> grid = tether.cases.grid_world()
    >>> found = review_log(grid.mdp, {"fell": grid.path})
    >>> found.found.mistakes.round(3).tolist(), found.largest.t.tolist(), found.largest.cost.round(3).tolist()
    ([1324.39], [2], [1257.751])
    """
    log = episodes if isinstance(episodes, Episodes) else Episodes.from_paths(episodes)
    cohort = find_episodes(mdp, log, {})
    standard = Standard(mdp, against, make_property(objective), bool(minimise))
    return LogReview(mdp, cohort, review_batch(standard, cohort, horizons(mdp, cohort, horizon)))
