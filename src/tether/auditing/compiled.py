"""The engine for many episodes: a batch is planned, followed and certified in compiled code, without Python's lock.

Its numbers are those of the single calls (`tether.auditing.answering`), bit for bit. It answers the usual question:
plans by the rule "definition" with influence by supports, and rewards that do not depend on time. Work is shared: the
edited rows of an observed transition are computed once for all episodes with this transition, and scratch is reused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether.auditing.answering import PreparedQuestion, answer_one
from tether.auditing.answers import UNKNOWN, UNRECORDED, Answers, Row, gather
from tether.auditing.cohort import Cohort
from tether.auditing.memory import (
    certifying_scratch,
    following_scratch,
    model_arrays,
    outcome_arrays,
    place_for,
    planning_scratch,
)
from tether.auditing.question import Question
from tether.auditing.returns import last_states, logged_returns, observed_returns
from tether.auditing.sharing import SharedRows, leads_to
from tether.errors import TetherError
from tether.evaluation.certificate import MOST_NODES, guaranteed_gain, verdict_number
from tether.influence.one_step import Support
from tether.influence.thresholds import MAX_STEPS
from tether.model.mdp import MDP
from tether.plan.limits import SHARE

if TYPE_CHECKING:
    from tether._kernels.audit.arrays import Found

__all__ = ["Engine", "is_usual"]

_MOST_ENTRIES = 50_000_000
"""The most transitions of a model for which the predecessors of each state are computed."""

_NODES = 1 << 12
"""The first size of the scratch for certificates, in nodes; it is doubled if there are more."""


def is_usual(mdp: MDP, question: Question) -> bool:
    """Whether this engine answers the question."""
    return (
        question.policy is None
        and question.objective is None
        and not question.minimise
        and not question.draws
        and question.rule == "definition"
        and isinstance(question.influence, Support)
        and mdp.rewards.horizon is None
        and mdp.n_transitions <= _MOST_ENTRIES
    )


class Engine:
    """Answers batches, one at a time: every thread has its own."""

    def __init__(self, asked: PreparedQuestion) -> None:
        self._asked, mdp = asked, asked.mdp
        self._model = asked.once("model", lambda: model_arrays(mdp))
        self._outcomes = asked.once("outcomes", lambda: outcome_arrays(mdp, asked.codes))
        self._rows = asked.once("rows", lambda: SharedRows(mdp, self._model, *leads_to(mdp)))
        self._longest = 0

    def __call__(self, cohort: Cohort) -> Answers:
        """The answers to a batch."""
        observed = observed_returns(self._asked.mdp, cohort)
        return self._answers(cohort, observed, self._solve(cohort, observed))

    def _prepare(self, longest: int) -> None:
        """Make sure that there is scratch for episodes of this length."""
        if longest > self._longest:
            mdp, m = self._asked.mdp, min(self._asked.question.m, longest)
            self._longest, self._planning = longest, planning_scratch(mdp, longest, m)
            self._following = following_scratch(mdp, longest, m)
            self._certifying = certifying_scratch(mdp, longest, _NODES)

    def _solve(self, cohort: Cohort, observed: Floats) -> Found:
        from tether._kernels.audit.answer import answer_episodes
        from tether._kernels.audit.arrays import Batch

        question, steps = self._asked.question, np.diff(cohort.start)
        longest = int(steps.max(initial=1))
        self._prepare(longest)
        transition, row_end, pool = self._rows.of(cohort.pair, cohort.next_state)
        batch = Batch(
            start=cohort.start,
            state=cohort.state,
            action=cohort.action,
            pair=cohort.pair,
            next_state=cohort.next_state,
            transition=transition,
            row_end=row_end,
            observed=observed,
            usable=((steps > 0) & (steps <= MAX_STEPS)).astype(np.uint8),
        )
        found = place_for(len(cohort), cohort.state.size, self._outcomes.member.shape[0])
        k, m = 0 if question.k is None else question.k, min(question.m, longest)
        most_nodes, first = MOST_NODES if question.certify else 0, 0
        while True:
            first = answer_episodes(
                self._model, pool, self._planning, self._following, self._certifying, batch, self._outcomes, k, m,
                SHARE, most_nodes, first, found,
            )  # fmt: skip
            if first == len(cohort):
                return found
            found = self._with_more_place(found, first)

    def _with_more_place(self, found: Found, episode: int) -> Found:
        """More space: for the ends of an episode, if they could be too many; otherwise for certificates."""
        mdp = self._asked.mdp
        if found.end_code.size - found.end_start[episode] >= mdp.n_states:
            self._certifying = certifying_scratch(mdp, self._longest, 2 * self._certifying.node.size)
            return found
        more = found.end_code.size + mdp.n_states
        code, chance = np.pad(found.end_code, (0, more)), np.pad(found.end_chance, (0, more))
        return found._replace(end_code=code, end_chance=chance)

    def _answers(self, cohort: Cohort, observed: Floats, found: Found) -> Answers:
        asked, form = self._asked, self._asked.mdp.form
        answered, steps, last = found.k > 0, np.diff(cohort.start), last_states(cohort)
        outcome = np.where(last >= 0, asked.codes[np.maximum(last, 0)], UNRECORDED)
        changed = np.flatnonzero(found.change_pair >= 0)
        owner = np.repeat(np.arange(len(cohort)), steps)[changed]
        pairs = found.change_pair[changed]
        guaranteed_gain, verdict = _certified(found.worst, observed)
        nan = np.full(len(cohort), np.nan)
        answers = Answers(
            ids=cohort.ids,
            problem=list(cohort.problem),
            steps=np.where(answered, steps, -1),
            observed=np.where(answered, observed, np.nan),
            logged=np.where(answered, logged_returns(asked.mdp, cohort), np.nan),
            outcome=np.where(answered, outcome, UNKNOWN),
            value=np.where(answered, found.value, np.nan),
            gain=np.where(answered, found.value - observed, np.nan),
            k=found.k,
            m=np.where(answered, np.minimum(asked.question.m, steps), -1),
            change_start=np.searchsorted(owner, np.arange(len(cohort) + 1)),
            change_t=changed - cohort.start[owner],
            change_state=np.searchsorted(form.pair_start, pairs, side="right") - 1,
            change_observed=cohort.action[changed],
            change_advised=form.pair_action[pairs].astype(np.int64),
            change_probability=found.change_chance[changed],
            labels=found.labels,
            end_start=found.end_start,
            end_outcome=found.end_code[: found.end_start[-1]] - 1,
            end_probability=found.end_chance[: found.end_start[-1]],
            strength=np.where(answered, found.strength, np.nan),
            influenced_steps=np.where(answered, found.influenced, np.nan),
            guaranteed_gain=guaranteed_gain,
            verdict=verdict,
            credible_low=nan,
            credible_high=nan,
            model_value=nan,
        )
        unanswered = [i for i, why in enumerate(cohort.problem) if why is None and not answered[i]]
        return answers if not unanswered else self._one_by_one(cohort, answers, unanswered)

    def _one_by_one(self, cohort: Cohort, answers: Answers, unanswered: list[int]) -> Answers:
        """Answer the episodes that the kernel leaves out, by the single calls, and put them among the others."""
        rows: list[Row | str] = [answers.row(i) for i in range(len(answers))]
        for i in unanswered:
            try:
                rows[i] = answer_one(self._asked, cohort.observation(i))
            except TetherError as error:
                rows[i] = str(error)
        return gather(cohort.ids, rows, answers.labels.shape[1])


def _certified(worst: Floats, observed: Floats) -> tuple[Floats, Ints]:
    """Guaranteed gains and verdicts, from the worst cases under every causal model and under every stable one."""
    every, stable = (guaranteed_gain(one, observed) for one in worst.T)
    is_known: Any = ~np.isnan(worst[:, 0])
    verdict: Ints = np.where(is_known, verdict_number(every, stable), -1).astype(np.int8)
    return np.where(is_known, every, np.nan), verdict
