"""Mistake or luck for every episode of a log: one row per episode, from arrays of all its steps at once.

The values of the plain model are computed once for the log; see `tether.evaluation.review`. In an audit a model that is
too large for a table of all values is solved batch by batch, for the states that these episodes could reach.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.arrow import NameColumn, Tabular, name_array
from tether._foundation.rounding import gain_of, rounding_of
from tether.auditing.answer_arrays import Answers
from tether.auditing.answering import PreparedQuestion
from tether.errors import QueryError
from tether.evaluation.review import BatchReview, StepReviews, horizons, review_batch
from tether.logs.cohort import Cohort, find_episodes
from tether.mdp import MDP
from tether.model.properties import Property, make_property
from tether.observation.episodes import Episodes
from tether.observation.path import Path
from tether.plan.standard import Standard

if TYPE_CHECKING:
    import pyarrow


class LargestMistakes(NamedTuple):
    """The largest mistake of each episode; arrays (episodes,), -1 and 0.0 where there is none.

    ``state``, ``action`` and ``best`` are indices of the model. ``cost`` is what it cost of the return (discounted),
    ``probability`` how likely it is that it is one: below 1 only in a learned model.
    """

    t: Ints
    state: Ints
    action: Ints
    best: Ints
    cost: Floats
    probability: Floats


_MOST_VALUES = 1 << 24
"""A table of the values of all states at all times has at most so many."""


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
        cost, probability = np.zeros((2, at.size))
        step = at[some]
        best = actions[steps.best[step]]
        columns[:, some] = steps.t[step], self.cohort.state[step], self.cohort.action[step], best
        cost[some], probability[some] = steps.cost[step], steps.probability[step]
        t, state, action, best = columns
        return LargestMistakes(t, state, action, best, cost, probability)

    def to_arrow(self) -> pyarrow.Table:
        """One row per episode: expected, mistakes, claimed, luck, observed, unlike, largest_mistake; null if broken.

        ``largest_mistake`` has the fields t, state, action, best, cost and probability; it is null without a mistake.
        """
        import pyarrow as pa

        found = self.found
        columns: dict[str, Any] = {"episode": name_array(self.cohort.ids)}
        for which in ("expected", "mistakes", "claimed", "luck", "observed", "unlike"):
            columns[which] = pa.array(getattr(found, which), mask=np.isnan(found.expected))
        names = NameColumn(self.mdp.states), NameColumn(self.mdp.actions)
        columns["largest_mistake"] = mistake_column(self.largest, *names)
        return pa.table(columns)


def mistake_column(largest: LargestMistakes, states: NameColumn, actions: NameColumn) -> Any:
    """The largest mistake of each episode as a column of structs, null where there is none."""
    import pyarrow as pa

    fields = {
        "t": pa.array(largest.t),
        "state": states.take(np.maximum(largest.state, 0)),
        "action": actions.take(np.maximum(largest.action, 0)),
        "best": actions.take(np.maximum(largest.best, 0)),
        "cost": pa.array(largest.cost),
        "probability": pa.array(largest.probability),
    }
    return pa.StructArray.from_arrays(list(fields.values()), names=list(fields), mask=pa.array(largest.t < 0))


def reviewed(asked: PreparedQuestion, answers: Answers, cohort: Cohort) -> Answers:
    """The answers to a batch, with mistake and luck of its episodes, judged against the best of the plain model.

    Where an episode can reach a state without any action, nothing was to be expected: its cells stay empty.
    """
    standard = standard_of(asked)
    some = np.flatnonzero(answers.is_answered & (np.diff(cohort.start) > 0))
    part = cohort.only(some)
    try:
        return _with_review(asked, standard, answers, some, part)
    except QueryError:
        fit = [i for i, place in enumerate(some) if _can_be_judged(asked, standard, cohort, int(place))]
        return _with_review(asked, standard, answers, some[fit], part.only(np.array(fit, np.int64)))


def standard_of(asked: PreparedQuestion) -> Standard:
    """What decisions are judged against, with its values if there are not too many; made once."""
    return asked.once("standard", lambda: _standard(asked))


def _standard(asked: PreparedQuestion) -> Standard:
    mdp, question = asked.mdp, asked.question
    standard, longest = Standard(mdp, "best", question.objective, question.minimise), longest_of(asked)
    few = mdp.n_states * (longest + 1) <= _MOST_VALUES
    return standard.tabulated(longest) if few and standard.by_steps_left else standard


def longest_of(asked: PreparedQuestion) -> int:
    """Over how many steps an episode is judged that ended early: those of the longest of the log, or of the model."""
    counts = asked.mdp.counts
    longest = max(asked.question.longest, 0 if counts is None else counts.longest)
    return asked.question.horizon or max(longest, asked.mdp.horizon or 0)


def _can_be_judged(asked: PreparedQuestion, standard: Standard, cohort: Cohort, place: int) -> bool:
    """Whether the plain model has a value for one episode."""
    alone = cohort.only(np.array([place]))
    try:
        until = horizons(asked.mdp, alone, asked.question.horizon, longest_of(asked))
        review_batch(replace(standard, kept=()), alone, until)
    except QueryError:
        return False
    return True


def _with_review(asked: PreparedQuestion, standard: Standard, answers: Answers, some: Ints, part: Cohort) -> Answers:
    """The answers, with the review of the episodes ``some``, whose steps are those of ``part``."""
    if some.size == 0:
        return replace(answers, foreseeable=np.full(len(answers), np.nan))
    found = review_batch(standard, part, horizons(asked.mdp, part, asked.question.horizon, longest_of(asked)))
    columns = {name: getattr(answers, name).copy() for name in ("expected", "mistakes", "claimed", "luck")}
    for name, column in columns.items():
        column[some] = getattr(found, name)
    columns["foreseeable"] = np.full(len(answers), np.nan)
    columns["foreseeable"][some] = gain_of(answers.foreseeable[some], found.observed, asked.question.minimise)
    largest = LogReview(asked.mdp, part, found).largest
    for name, values in largest._asdict().items():
        columns[f"mistake_{name}"] = getattr(answers, f"mistake_{name}").copy()
        columns[f"mistake_{name}"][some] = values
    steps, owner = found.steps, np.repeat(some, np.diff(part.start))
    open_ones = np.flatnonzero(~steps.ended)
    columns |= {
        "decision_start": np.searchsorted(owner[open_ones], np.arange(len(answers) + 1)),
        "decision_pair": np.asarray(part.pair[open_ones], np.int64),
        "decision_best": steps.best[open_ones],
        "decision_cost": steps.cost[open_ones],
        "decision_claimed": steps.is_claimed[open_ones].astype(np.int64),
        "decision_turn": _turns(steps)[open_ones],
    }
    return replace(answers, **columns)


def _turns(steps: StepReviews) -> Ints:
    """Whether each step turned out better (1) or worse (-1) than was to be expected before its decision, or as well."""
    turn = steps.luck - steps.mistake
    found: Ints = np.where(np.abs(turn) <= rounding_of(steps.expected), 0.0, np.sign(turn)).astype(np.int64)
    return found


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
