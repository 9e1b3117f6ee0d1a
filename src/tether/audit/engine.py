"""How a batch is answered: prepared once per process, then asked for batch after batch."""

from __future__ import annotations

from collections.abc import Callable

from tether.audit.answering import Asked, answer_each
from tether.audit.answers import Answers
from tether.audit.cohort import Cohort
from tether.audit.compiled import Engine, is_usual
from tether.audit.question import Question
from tether.model.mdp import MDP

__all__ = ["Answering", "prepare"]

Answering = Callable[[Cohort], Answers]
"""A batch to its answers."""


def prepare(mdp: MDP, question: Question) -> Answering:
    """What answers batches for a model and a question."""
    asked = Asked.of(mdp, question)
    if is_usual(mdp, question):
        return Engine(asked)
    return lambda cohort: answer_each(asked, cohort)
