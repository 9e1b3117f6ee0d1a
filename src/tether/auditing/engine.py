"""How batches are answered: on the engine; one by one where draws of learned models are asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from tether.auditing.answering import PreparedQuestion, answer_each
from tether.auditing.answers import Answers
from tether.auditing.batched import Engine
from tether.auditing.question import Question
from tether.auditing.reviewed import reviewed
from tether.logs.cohort import Cohort

__all__ = ["Answering", "is_compiled", "prepare"]

Answering = Callable[[Cohort], Answers]
"""Type of a function that answers one batch."""


def is_compiled(question: Question) -> bool:
    """Whether most of the work is compiled code, which threads run side by side.

    Policies are asked in Python, and draws of learned models are answered one by one.
    """
    return question.policy is None and not question.draws


def prepare(asked: PreparedQuestion) -> Answering:
    """A function that answers batches, one at a time: one for each thread."""
    answer: Answering = partial(answer_each, asked) if asked.question.draws else Engine(asked)
    return lambda cohort: reviewed(asked, _with_outcomes(answer(cohort), cohort), cohort)


def _with_outcomes(found: Answers, cohort: Cohort) -> Answers:
    """The answers with the outcomes that only the log has."""
    return found if cohort.said is None else replace(found, said=cohort.said)
