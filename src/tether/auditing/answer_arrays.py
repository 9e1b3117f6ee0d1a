"""The answers for a batch of episodes: arrays by index, the same whoever computed them; kept on disk in this form.

Names come last (`tether.auditing.tables`): indices are small, and can be counted without names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether.evaluation.outcomes import is_end
from tether.mdp import MDP
from tether.model.model_record import ModelRecord

if TYPE_CHECKING:
    import pyarrow

NONE, UNRECORDED, UNKNOWN = -1, -2, -3
"""Codes of an end that is no outcome, of one that was not recorded, and of an episode that was not answered."""


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """The answers to some episodes, one item each; changes and ends from ``…_start[i]`` to ``…_start[i + 1] - 1``.

    A missing number is NaN, a missing index -1. ``said`` is how an episode ended by a column of the log, if the model
    has no such outcome; None if the model has all outcomes. From ``expected`` on: what was decided, and what could be
    known at the time (`tether.auditing.reviewed`); a decision is a step in which something was left to decide. Before
    the review, ``foreseeable`` is the value of the plain model's best policy with the luck of the episode.
    """

    ids: list[Any]
    problem: list[str | None]
    steps: Ints
    observed: Floats
    logged: Floats
    outcome: Ints
    value: Floats
    gain: Floats
    k: Ints
    m: Ints
    change_start: Ints
    change_t: Ints
    change_state: Ints
    change_observed: Ints
    change_advised: Ints
    change_probability: Floats
    labels: Floats
    end_start: Ints
    end_outcome: Ints
    end_probability: Floats
    strength: Floats
    influenced_steps: Floats
    guaranteed_gain: Floats
    gamma_star: Floats
    verdict: Ints
    least_seen: Ints
    credible_low: Floats
    credible_high: Floats
    model_value: Floats
    about_episode: Floats
    p_worse: Floats
    foreseeable: Floats
    worse_end: Ints
    expected: Floats
    mistakes: Floats
    claimed: Floats
    luck: Floats
    mistake_t: Ints
    mistake_state: Ints
    mistake_action: Ints
    mistake_best: Ints
    mistake_cost: Floats
    mistake_probability: Floats
    decision_start: Ints
    decision_pair: Ints
    decision_best: Ints
    decision_cost: Floats
    decision_claimed: Ints
    decision_turn: Ints
    said: list[str | None] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def is_answered(self) -> Any:
        """Which episodes have an answer."""
        return np.array([one is None for one in self.problem], dtype=bool)

    @property
    def wrong(self) -> list[tuple[Any, str]]:
        """The episodes without an answer, and why."""
        return [(one, why) for one, why in zip(self.ids, self.problem, strict=True) if why is not None]

    def to_arrow(self, id_type: Any) -> pyarrow.Table:
        """The answers as an Arrow table with one row per episode, for a file."""
        import pyarrow as pa

        columns: dict[str, Any] = {
            "ids": pa.array(self.ids, type=id_type),
            "problem": pa.array(self.problem, pa.string()),
        }
        if self.said is not None:
            columns["said"] = pa.array(self.said, pa.string())
        for name in _PLAIN:
            columns[name] = pa.array(getattr(self, name))
        for start, names in _LISTS.items():
            offsets = pa.array(getattr(self, start).astype(np.int32))
            for name in names:
                columns[name] = pa.ListArray.from_arrays(offsets, pa.array(getattr(self, name)))
        width = self.labels.shape[1]
        offsets = pa.array(np.arange(len(self) + 1, dtype=np.int32) * width)
        columns["labels"] = pa.ListArray.from_arrays(offsets, pa.array(self.labels.reshape(-1)))
        return pa.table(columns)

    @classmethod
    def from_arrow(cls, table: pyarrow.Table, n_labels: int) -> Answers:
        """The answers that `to_arrow` wrote, for a model with ``n_labels``."""
        texts = [name for name in ("ids", "problem", "said") if name in table.column_names]
        found: dict[str, Any] = {name: table.column(name).to_pylist() for name in texts}
        for name in _PLAIN:
            found[name] = table.column(name).to_numpy()
        for start, names in _LISTS.items():
            lists = {name: table.column(name).combine_chunks() for name in names}
            first = lists[names[0]]
            found[start] = np.asarray(first.offsets).astype(np.int64) - (first.offsets[0].as_py() if len(first) else 0)
            found |= {name: np.asarray(one.flatten()) for name, one in lists.items()}
        flat = np.asarray(table.column("labels").combine_chunks().flatten(), dtype=np.float64)
        found["labels"] = flat.reshape(table.num_rows, n_labels)
        return cls(**found)


_LISTS = {
    "change_start": ("change_t", "change_state", "change_observed", "change_advised", "change_probability"),
    "end_start": ("end_outcome", "end_probability"),
    "decision_start": ("decision_pair", "decision_best", "decision_cost", "decision_claimed", "decision_turn"),
}
_WHOLE = ("steps", "outcome", "k", "m", "least_seen", "worse_end")
_NUMBERS = ("observed", "logged", "value", "gain", "strength", "influenced_steps", "guaranteed_gain", "gamma_star")
_KINDS: dict[str, type[np.generic]] = {
    **dict.fromkeys(_WHOLE, np.int64),
    **dict.fromkeys((*_NUMBERS, "credible_low", "credible_high", "model_value"), np.float64),
    **dict.fromkeys(("about_episode", "p_worse", "foreseeable"), np.float64),
    "verdict": np.int8,
}
_REVIEWED: dict[str, type[np.generic]] = {
    **dict.fromkeys(("expected", "mistakes", "claimed", "luck", "mistake_cost", "mistake_probability"), np.float64),
    **dict.fromkeys(("mistake_t", "mistake_state", "mistake_action", "mistake_best"), np.int64),
}
_PLAIN = (*_KINDS, *_REVIEWED)


def unanswered(ids: list[Any], problem: list[str | None], n_labels: int) -> Answers:
    """No answers, and why."""
    n, columns = len(ids), not_reviewed(len(ids))
    for name, kind in _KINDS.items():
        columns[name] = np.full(n, np.nan if kind is np.float64 else UNKNOWN if name == "outcome" else -1, kind)
    for start in ("change_start", "end_start"):
        columns[start] = np.zeros(n + 1, np.int64)
        columns |= {name: np.empty(0, float if name.endswith("probability") else np.int64) for name in _LISTS[start]}
    return Answers(ids=ids, problem=problem, labels=np.full((n, n_labels), np.nan), **columns)


def not_reviewed(n: int) -> dict[str, Any]:
    """The columns of `tether.auditing.reviewed` for n episodes, before they are known."""
    missing = {name: np.full(n, np.nan if kind is np.float64 else -1, kind) for name, kind in _REVIEWED.items()}
    none = np.empty(0, np.int64)
    whole = dict.fromkeys(("decision_pair", "decision_best", "decision_claimed", "decision_turn"), none)
    decisions = {**whole, "decision_cost": np.empty(0)}
    return missing | {"decision_start": np.zeros(n + 1, np.int64)} | decisions


def join(parts: Sequence[Answers]) -> Answers:
    """The answers to several batches as those to one batch."""
    columns: dict[str, Any] = {}
    for one in fields(Answers):
        found = [getattr(part, one.name) for part in parts]
        if one.name in _LISTS:
            before = np.cumsum([0, *(starts[-1] for starts in found)])
            columns[one.name] = np.concatenate(
                [[0], *(starts[1:] + shift for starts, shift in zip(found, before[:-1], strict=True))]
            ).astype(np.int64)
        elif one.name in ("ids", "problem", "said"):
            columns[one.name] = None if found[0] is None else [item for part in found for item in part]
        else:
            columns[one.name] = np.concatenate(found)
    return Answers(**columns)


def sets_apart(mdp: ModelRecord) -> bool:
    """Whether episodes that are still under way are told apart: in a learned model in which episodes end.

    What they would gain is a guess about an end that nobody saw. In a model that was given, the length of the record is
    part of the question.
    """
    return mdp.counts is not None and bool(np.setdiff1d(mdp.form.terminal, [*mdp.cut, mdp.counts.end]).size)


def outcome_codes(mdp: MDP) -> Ints:
    """The class of outcomes of every state: the number of its first label; labels + s where the state s is absorbing
    without a label; -1 for all others. See `tether.evaluation.outcomes`.
    """
    codes = np.full(mdp.n_states, NONE, dtype=np.int64)
    for number, members in reversed(list(enumerate(mdp.label_sets.ends.values()))):
        codes[members] = number
    others = np.flatnonzero(codes == NONE)
    own = others[is_end(mdp, others)]
    codes[own] = len(mdp.label_sets.ends) + own
    return codes


# ---- Answers of a batch, collected ---------------------------------------------------------------------------------
# The answers to a cohort, by episode and by step, as they are found batch after batch.


NOT_SEEN = np.iinfo(np.int64).max
"""How often the advised actions of an episode were seen, if none is advised."""


class AnswerTable:
    """The answers to a cohort, by episode and by step, as they are found batch after batch."""

    def __init__(self, start: Ints, labels: int, problem: list[str | None]) -> None:
        episodes, steps = start.size - 1, int(start[-1])
        self.problem = list(problem)
        names = "value", "observed", "strength", "influenced", "guaranteed", "gamma_star"
        for name in (*names, "about", "p_worse", "best", "credible_low", "credible_high"):
            setattr(self, name, np.full(episodes, np.nan))
        self.value: Floats
        self.observed: Floats
        self.strength: Floats
        self.influenced: Floats
        self.guaranteed: Floats
        self.gamma_star: Floats
        self.about: Floats
        self.p_worse: Floats
        self.best: Floats
        self.credible_low: Floats
        self.credible_high: Floats
        self.k, self.verdict = np.full(episodes, -1, np.int64), np.full(episodes, -1, np.int8)
        self.least_seen = np.full(episodes, NOT_SEEN, np.int64)
        self.answered = np.zeros(episodes, bool)
        self.labels = np.full((episodes, labels), np.nan)
        self.change_pair, self.change_chance = np.full(steps, -1, np.int64), np.zeros(steps)
        self._ends: list[tuple[Ints, Ints, Floats]] = []
        self._start = start

    def add(self, name: str, episodes: Ints, amounts: Floats) -> None:
        """Add to a column of some episodes; a number that is not known yet counts 0."""
        column = getattr(self, name)
        before = column[episodes]
        column[episodes] = np.where(np.isnan(before), 0.0, before) + amounts

    def first_step(self, episodes: Ints) -> Ints:
        """The first step of each of some episodes."""
        first: Ints = self._start[episodes]
        return first

    def add_ends(self, episode: Ints, code: Ints, chance: Floats) -> None:
        """Add the probability of each class of outcomes of some episodes."""
        kept = chance > 0
        self._ends.append((episode[kept], code[kept], chance[kept]))

    def ends(self, episodes: int) -> tuple[Ints, Ints, Floats]:
        """Where the ends of each episode begin; the class of outcomes of each end, ascending; its probability."""
        none = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        episode, code, chance = (np.concatenate(column) for column in zip(none, *self._ends, strict=True))
        width = int(code.max(initial=0)) + 2
        keys, which = np.unique(episode * width + code + 1, return_inverse=True)
        total: Floats = np.bincount(which.reshape(-1), chance, keys.size).astype(np.float64, copy=False)
        return np.searchsorted(keys // width, np.arange(episodes + 1)), keys % width - 1, total
