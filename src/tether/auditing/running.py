"""An audit from the first batch to the tables: finished batches are kept, missing ones are answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._foundation.problems import LIMIT
from tether.auditing.answers import UNRECORDED, Answers, outcome_codes
from tether.auditing.cluster import Written
from tether.auditing.cohort import Cohort
from tether.auditing.directory import Directory, write_part
from tether.auditing.logs import Log
from tether.auditing.tables import TableMaker, Tally
from tether.auditing.where import Where
from tether.auditing.workers import Workers
from tether.conditioning.conditioned import counterfactual
from tether.errors import PathError, Problem
from tether.model.mdp import MDP
from tether.model.properties import Property
from tether.observation.earned import earned
from tether.observation.indices import path_of
from tether.plan.backward import observed_value
from tether.plan.objective import asked

__all__ = ["Condition", "Progress", "chosen", "run_in_directory", "run_in_memory"]

Progress = Callable[[int, int], None]
"""Called with how many rows of the log are done, and how many there are."""


def run_in_memory(
    log: Log, mdp: MDP, workers: Workers, where: Condition | None, *, strict: bool, progress: Progress | None
) -> dict[str, Any]:
    """The tables of an audit, by name."""
    import pyarrow as pa

    naming, tally, found, tables = TableMaker(mdp, log.id_type), Tally(), {}, {}
    batches = _Batches(log, mdp, where, set(), progress)
    for number, answers in workers.answers(batches):
        _note(answers, strict)
        batches.tell(number)
        assert isinstance(answers, Answers)
        found[number], tables[number] = answers, naming.episodes(answers)  # while others are at work
    for number in sorted(found):
        tally.add(found[number])
    return {
        "episodes": pa.concat_tables([tables[number] for number in sorted(tables)]),
        "decisions": tally.decisions(naming),
        "outcomes": tally.outcomes(naming),
    }


def run_in_directory(
    log: Log,
    mdp: MDP,
    hire: Callable[[], Workers],
    where: Condition | None,
    directory: Directory,
    *,
    strict: bool,
    progress: Progress | None,
) -> None:
    """Answer the batches that are missing, each into its file, and make the tables."""
    batches = _Batches(log, mdp, where, directory.done(), progress)
    if batches.is_any_missing():  # otherwise no worker is started
        with closing(hire()) as workers:
            for number, answers in workers.answers(batches):
                _note(answers, strict)
                if isinstance(answers, Answers):  # otherwise the worker has written it
                    write_part(directory.part(number), answers, log.id_type)
                batches.tell(number)
    directory.finish(TableMaker(mdp, log.id_type), batches.count)


class _Batches:
    """The batches of a log that are not finished, numbered; `done` reports each finished one."""

    def __init__(self, log: Log, mdp: MDP, where: Condition | None, done: set[int], progress: Progress | None) -> None:
        self._all = enumerate(log.batches(mdp))
        self._mdp, self._where, self._done, self._progress = mdp, where, done, progress
        self._rows: dict[int, int] = {}
        self._n_rows, self._rows_done = log.n_rows, 0
        self._next: tuple[int, Cohort] | None = None
        self._codes = outcome_codes(mdp) if where is not None else None
        self.count = 0

    def is_any_missing(self) -> bool:
        """Whether there is anything to do."""
        self._next = self._advance()
        return self._next is not None

    def __iter__(self) -> Iterator[tuple[int, Cohort]]:
        while True:
            one = self._next or self._advance()
            self._next = None
            if one is None:
                return
            yield one

    def _advance(self) -> tuple[int, Cohort] | None:
        for number, (rows, cohort) in self._all:
            self.count = number + 1
            self._rows[number] = rows
            if number not in self._done:
                kept = cohort if self._where is None else chosen(self._mdp, cohort, self._where, self._codes)
                return number, kept
            self.tell(number)
        return None

    def tell(self, number: int) -> None:
        """A batch is done."""
        self._rows_done += self._rows.pop(number)
        if self._progress is not None:
            self._progress(self._rows_done, self._n_rows)


@dataclass(frozen=True, slots=True)
class Condition:
    """Which episodes to ask about, and the question: ``observed`` is the observed value."""

    where: Where
    objective: Property | None


def chosen(mdp: MDP, cohort: Cohort, condition: Condition, codes: Any) -> Cohort:
    """The episodes of a batch for which a condition holds; broken ones stay, to be listed."""
    naming = TableMaker(mdp, None)
    kept = []
    for i, problem in enumerate(cohort.problem):
        if problem is not None or condition.where.holds(_known(mdp, cohort, i, condition, codes, naming)):
            kept.append(i)
    return cohort.only(np.array(kept, dtype=np.int64))


def _known(mdp: MDP, cohort: Cohort, i: int, condition: Condition, codes: Any, naming: TableMaker) -> dict[str, Any]:
    """The columns of an episode that a condition uses."""
    seen, where = cohort.observation(i), condition.where
    known: dict[str, Any] = {"episode": cohort.ids[i], "steps": seen.T}
    if "observed" in where.names:
        known["observed"] = observed_value(asked(counterfactual(mdp, seen), condition.objective))
    if "logged" in where.names:
        found = earned(mdp, seen, path_of(mdp, seen))
        known["logged"] = None if found is None else found.logged
    if "outcome" in where.names:
        last, said = int(seen.states[-1]), None if cohort.said is None else cohort.said[i]
        known["outcome"] = said or naming.outcome_name(UNRECORDED if last < 0 else int(codes[last]))
    return known


def _note(answers: Answers | Written, strict: bool) -> None:
    """With ``strict``, raise the problems of a batch."""
    if strict and answers.wrong:
        listed = [Problem(why, value=one, episode=one) for one, why in answers.wrong]
        raise PathError(listed[:LIMIT], total=len(listed))
