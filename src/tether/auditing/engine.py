"""What workers do with batches: any question about a log; that of an audit is answered on the engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from tether.auditing.answer_arrays import Answers, join, unanswered
from tether.auditing.answering import PreparedQuestion
from tether.auditing.audit_question import Question
from tether.auditing.batched import Engine
from tether.auditing.reviewed import reviewed
from tether.logs.cohort import Cohort
from tether.mdp import MDP

Answering = Callable[[Cohort], Any]
"""Type of a function that answers one batch."""


class Work(Protocol):
    """A question that workers answer for every batch of a log. It is pickled and sent to them.

    An answer has ``wrong``, the episodes without an answer, and ``to_arrow(id_type)``, for the file of its batch.
    """

    @property
    def is_compiled(self) -> bool:
        """Whether most of the work is compiled code, which threads run side by side."""
        ...

    def prepare(self, mdp: MDP) -> Callable[[], Answering]:
        """Prepare what is the same for all batches; each call makes a function that answers them, one per thread."""
        ...

    def unanswered(self, mdp: MDP, cohort: Cohort, why: str) -> Any:
        """The answer to a batch of one episode that ends every process that tries."""
        ...

    def join(self, answers: list[Any]) -> Any:
        """The answers to the parts of a batch, one after the other."""
        ...


@dataclass(frozen=True)
class AuditWork:
    """The question of an audit."""

    question: Question

    @property
    def is_compiled(self) -> bool:
        """Policies are asked in Python, and draws one by one where plans are not cross-fitted."""
        asked = self.question
        return asked.policy is None and (not asked.draws or asked.split is not None)

    def prepare(self, mdp: MDP) -> Callable[[], Answering]:
        """Prepare to answer batches; see `Work`."""
        asked = PreparedQuestion.of(mdp, self.question)
        return lambda: prepare(asked)

    def unanswered(self, mdp: MDP, cohort: Cohort, why: str) -> Answers:
        """The answer to a batch that ends every process; see `Work`."""
        return replace(unanswered(cohort.ids, [why], len(mdp.label_sets.ends)), said=cohort.said)

    def join(self, answers: list[Answers]) -> Answers:
        """Answers to parts of a batch as one; see `Work`."""
        return join(answers)


def prepare(asked: PreparedQuestion) -> Answering:
    """A function that answers batches, one at a time: one for each thread."""
    answer = Engine(asked)

    def answered(cohort: Cohort) -> Answers:
        cohort = _first_steps(cohort, asked.question.steps)
        return reviewed(asked, _with_outcomes(answer(cohort), cohort), cohort)

    return answered


def _first_steps(cohort: Cohort, steps: int | None) -> Cohort:
    """The first steps of each episode."""
    if steps is None:
        return cohort
    t = np.arange(cohort.state.size) - np.repeat(cohort.start[:-1], np.diff(cohort.start))
    return cohort.keeping(t < steps)


def _with_outcomes(answers: Answers, cohort: Cohort) -> Answers:
    """The answers with the outcomes that only the log has."""
    return answers if cohort.said is None else replace(answers, said=cohort.said)
