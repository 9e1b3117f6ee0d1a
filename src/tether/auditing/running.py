"""An audit from the first batch to the tables: finished batches are kept, missing ones are answered."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from contextlib import closing
from dataclasses import asdict
from typing import Any

from tether._foundation.problems import LIMIT
from tether.auditing.answer_arrays import Answers
from tether.auditing.cluster import Written
from tether.auditing.directory import Directory, Tables
from tether.auditing.placebos import Measured
from tether.auditing.tables import TableMaker, Tally
from tether.auditing.where import Selection
from tether.auditing.workers import Workers
from tether.errors import PathError, Problem
from tether.logs.batches import Log
from tether.logs.cohort import Cohort
from tether.mdp import MDP

Progress = Callable[[int, int], None]
"""Called with how many rows of the log are done, and how many there are."""


def run_in_memory(
    log: Log,
    mdp: MDP,
    naming: TableMaker,
    workers: Workers,
    selection: Selection | None,
    *,
    strict: bool,
    progress: Progress | None,
) -> dict[str, Any]:
    """The tables of an audit, by name."""
    import pyarrow as pa

    tally, found, tables = Tally(), {}, {}
    batches = Batches(log, mdp, selection, (), progress)
    for number, answers in workers.answers(batches):
        _check(answers, strict)
        batches.report(number)
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
    naming: TableMaker,
    hire: Callable[[], Workers],
    selection: Selection | None,
    directory: Directory,
    *,
    strict: bool,
    progress: Progress | None,
    placebo: Callable[[], Measured | None],
) -> Tables:
    """Answer the batches that are missing, each into its file, measure the placebos, and make the tables."""
    count = answer_missing(log, mdp, hire, selection, directory, strict, progress)
    measured = placebo()
    return directory.finish(naming, count, None if measured is None else asdict(measured))


def answer_missing(
    log: Log,
    mdp: MDP,
    hire: Callable[[], Workers],
    selection: Selection | None,
    directory: Directory,
    strict: bool,
    progress: Progress | None,
) -> int:
    """Answer the batches whose files are missing, each into its file; returns how many batches the log has."""
    batches = Batches(log, mdp, selection, directory.parts.find_sound(), progress)
    if batches.is_any_missing():  # otherwise no worker is started
        with closing(hire()) as workers:
            for number, answers in workers.answers(batches):
                _check(answers, strict)
                if not isinstance(answers, Written):  # otherwise the worker has written it
                    directory.parts.write(number, answers, log.id_type)
                batches.report(number)
    return batches.count


class Batches:
    """The batches of a log that are not done, numbered; `report` tells the progress when one more is done."""

    def __init__(
        self, log: Log, mdp: MDP, selection: Selection | None, done: Container[int], progress: Progress | None
    ) -> None:
        self._all = enumerate(log.batches(mdp))
        self._selection, self._done, self._progress = selection, done, progress
        self._rows: dict[int, int] = {}
        self._n_rows, self._rows_done = log.n_rows, 0
        self._next: tuple[int, Cohort] | None = None
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
                return number, cohort if self._selection is None else self._selection.of_batch(cohort)
            self.report(number)
        return None

    def report(self, number: int) -> None:
        """A batch is done."""
        self._rows_done += self._rows.pop(number)
        if self._progress is not None:
            self._progress(self._rows_done, self._n_rows)


def _check(answers: Answers | Written, strict: bool) -> None:
    """Raise the problems of a batch, if the audit is strict."""
    if strict and answers.wrong:
        listed = [Problem(why, value=one, episode=one) for one, why in answers.wrong]
        raise PathError(listed[:LIMIT], total=len(listed))
