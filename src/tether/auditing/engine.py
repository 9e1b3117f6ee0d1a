"""How batches are answered: by the single calls, or, if there are many episodes, by the compiled engine.

The answers are the same, bit for bit. The engine needs the predecessors of every state, and its kernel has to be
loaded. So for a few episodes, or for a few in a very large model, the single calls are faster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from tether.auditing.answering import PreparedQuestion, answer_each
from tether.auditing.answers import Answers
from tether.auditing.cohort import Cohort
from tether.auditing.compiled import Engine, is_usual

__all__ = ["Answering", "prepare"]

Answering = Callable[[Cohort], Answers]
"""A batch to its answers."""

_SINGLE, _LOADING, _PREPARING = 1e-2, 0.5, 7e-7
"""About how many seconds these take: one episode by itself; loading the kernel; each transition, to make the engine."""


def prepare(asked: PreparedQuestion) -> Answering:
    """A function that answers batches, one at a time: one for each thread."""
    if is_usual(asked.mdp, asked.question):
        answer: Answering = _WhenWorthIt(asked)
    else:
        answer = partial(answer_each, asked)
    return lambda cohort: _with_outcomes(answer(cohort), cohort)


def _with_outcomes(found: Answers, cohort: Cohort) -> Answers:
    """The answers with the outcomes that only the log has."""
    return found if cohort.said is None else replace(found, said=cohort.said)


class _WhenWorthIt:
    """Uses the single calls until they have taken as long as it takes to make an engine; then the engine."""

    def __init__(self, asked: PreparedQuestion) -> None:
        self._asked, self._answered = asked, 0
        self._worth = (_LOADING + _PREPARING * asked.mdp.n_transitions) / _SINGLE
        self._engine: Engine | None = None

    def __call__(self, cohort: Cohort) -> Answers:
        self._answered += len(cohort)
        if self._engine is None and self._answered >= self._worth:
            self._engine = Engine(self._asked)
        return answer_each(self._asked, cohort) if self._engine is None else self._engine(cohort)
