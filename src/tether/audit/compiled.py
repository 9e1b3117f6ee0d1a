"""The engine for many episodes: a batch is planned and followed in compiled code, which needs no lock of Python.

Its numbers are those of the single calls (`tether.audit.answering`), bit for bit. It answers the usual question: plans
by the rule "definition" with influence by supports, and rewards that do not depend on time. Work is shared: the edited
rows of an observed transition are computed once for all episodes that have it, and scratch is used again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._kernels.scratch import scratch_array as room
from tether.audit.answering import Asked, answer_one, certified
from tether.audit.answers import UNKNOWN, UNRECORDED, VERDICTS, Answers, Row, gather
from tether.audit.cohort import Cohort
from tether.audit.question import Question
from tether.counterfactual.rows import spans
from tether.errors import TetherError
from tether.influence.one_step import Support
from tether.influence.thresholds import MAX_STEPS
from tether.model.mdp import MDP
from tether.observation.changes import nothing_to_change
from tether.observation.earned import earned, model_return
from tether.observation.indices import path_of
from tether.plan.limits import SHARE
from tether.plan.rewards import ExpectedRewards

if TYPE_CHECKING:
    from tether._kernels.audit import Found, Model, Pool, Room

__all__ = ["Engine", "is_usual"]

_MOST_ENTRIES = 50_000_000
"""Transitions of a model up to which it is worth knowing what leads to each state."""

_POOL = 64 << 20
"""How many bytes of edited rows an engine keeps for the batches to come; beyond, it begins anew."""


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

    def __init__(self, asked: Asked) -> None:
        from tether._kernels.audit import Outcomes

        self._asked, mdp = asked, asked.mdp
        self._model = asked.once("model", lambda: _model(mdp))
        member = np.zeros((len(mdp.label_sets), mdp.n_states), dtype=np.uint8)
        for number, states in enumerate(mdp.label_sets.values()):
            member[number, states] = 1
        self._outcomes = Outcomes(member, asked.codes + 1)
        self._rows = _EditedRows(mdp, self._model, *asked.once("leads", lambda: _leads(mdp)))
        self._room: Room | None = None
        self._longest = 0

    def __call__(self, cohort: Cohort) -> Answers:
        """The answers to a batch."""
        steps = np.diff(cohort.start)
        observed = self._observed(cohort, steps)
        usable = (steps > 0) & (steps <= MAX_STEPS)
        found = self._solve(cohort, observed, usable, int(steps.max(initial=1)))
        return self._told(cohort, steps, observed, found)

    def _solve(self, cohort: Cohort, observed: Floats, usable: Any, longest: int) -> Found:
        from tether._kernels.audit import Batch, answer_episodes

        question, model = self._asked.question, self._model
        m = min(question.m, longest)
        if self._room is None or longest > self._longest:
            self._longest, self._room = longest, _scratch(self._asked.mdp, longest, m)
        transition, row_end, pool = self._rows.of(cohort.pair, cohort.next_state)
        batch = Batch(
            cohort.start,
            cohort.state,
            cohort.action,
            cohort.pair,
            transition,
            row_end,
            observed,
            usable.astype(np.uint8),
        )
        found = _found(len(cohort), cohort.state.size, self._outcomes.member.shape[0])
        k, first = 0 if question.k is None else question.k, 0
        while True:
            first = answer_episodes(model, pool, self._room, batch, self._outcomes, k, m, SHARE, first, found)
            if first == len(cohort):
                return found
            more = found.end_code.size + self._asked.mdp.n_states
            code, chance = np.pad(found.end_code, (0, more)), np.pad(found.end_chance, (0, more))
            found = found._replace(end_code=code, end_chance=chance)

    def _observed(self, cohort: Cohort, steps: Ints) -> Floats:
        """The return of what was done, by the model, of every episode; as `model_return` adds it up."""
        mdp, values = self._asked.mdp, self._asked.mdp.rewards.at(0)
        if mdp.rewards.by_entry:
            each = np.zeros(cohort.pair.size)
            recorded = np.flatnonzero(cohort.next_state >= 0)
            each[recorded] = values[_entries(mdp, cohort.pair[recorded], cohort.next_state[recorded])]
        else:
            each = values[cohort.pair]
        total = self._returns(cohort, steps, each)
        if mdp.rewards.by_entry or mdp.final_reward is not None:
            for i in np.flatnonzero(_last(cohort, steps) == -1).tolist():  # the expected one, in the order of NumPy
                total[i] = model_return(mdp, cohort.observation(i))
        return total

    def _logged(self, cohort: Cohort, steps: Ints) -> Floats:
        """The same by the log's own rewards; an unknown one counts 0."""
        if cohort.reward is None:
            return np.full(len(cohort), np.nan)
        mdp = self._asked.mdp
        unknown = np.isnan(cohort.reward)
        total = self._returns(cohort, steps, np.where(unknown, 0.0, cohort.reward))
        owner = np.repeat(np.arange(len(cohort)), steps)
        total[np.bincount(owner, ~unknown, minlength=len(cohort)) == 0] = np.nan  # it has no rewards at all
        if mdp.final_reward is not None:
            for i in np.flatnonzero(_last(cohort, steps) == -1).tolist():
                seen = cohort.observation(i)
                by_log = earned(mdp, seen, path_of(mdp, seen))
                total[i] = np.nan if by_log is None else by_log.logged
        return total

    def _returns(self, cohort: Cohort, steps: Ints, each: Floats) -> Floats:
        """Discounted sums, step by step from the first one."""
        mdp, total = self._asked.mdp, np.zeros(len(cohort))
        for t in range(int(steps.max(initial=0))):
            here = np.flatnonzero(steps > t)
            total[here] += mdp.discount**t * each[cohort.start[here] + t]
        if mdp.final_reward is not None:
            last = _last(cohort, steps)
            ended = np.flatnonzero(last >= 0)
            power = np.array([mdp.discount ** int(T) for T in steps[ended]])
            total[ended] = total[ended] + power * mdp.final_reward[last[ended]]
        return total

    def _told(self, cohort: Cohort, steps: Ints, observed: Floats, found: Found) -> Answers:
        asked, form = self._asked, self._asked.mdp.form
        answered = found.k > 0
        last = _last(cohort, steps)
        outcome = np.where(last >= 0, asked.codes[np.maximum(last, 0)], UNRECORDED)
        changed = np.flatnonzero(found.change_pair >= 0)
        owner = np.repeat(np.arange(len(cohort)), steps)[changed]
        pairs = found.change_pair[changed]
        nan, none = np.full(len(cohort), np.nan), np.full(len(cohort), -1, dtype=np.int8)
        answers = Answers(
            ids=cohort.ids,
            problem=list(cohort.problem),
            steps=np.where(answered, steps, -1),
            observed=np.where(answered, observed, np.nan),
            logged=np.where(answered, self._logged(cohort, steps), np.nan),
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
            guaranteed_gain=nan,
            verdict=none,
            credible_low=nan,
            credible_high=nan,
            model_value=nan,
        )
        if asked.question.certify:
            answers = self._certified(cohort, answers, last)
        unanswered = [i for i, why in enumerate(cohort.problem) if why is None and not answered[i]]
        return answers if not unanswered else self._one_by_one(cohort, answers, unanswered)

    def _certified(self, cohort: Cohort, answers: Answers, last: Ints) -> Answers:
        """With certificates, by the single call. A plan that changes nothing is as good as what was done, whatever the
        causal model is.
        """
        gain, verdict = np.full(len(cohort), np.nan), np.full(len(cohort), -1, dtype=np.int8)
        for i in np.flatnonzero(answers.k > 0).tolist():
            if answers.change_start[i] == answers.change_start[i + 1] and last[i] >= 0:
                gain[i], verdict[i] = 0.0, VERDICTS.index("never worse")
                continue
            certificate = certified(self._asked, cohort.observation(i), int(answers.k[i]))
            if certificate is not None:
                gain[i], verdict[i] = certificate.gain, VERDICTS.index(certificate.verdict)
        return replace(answers, guaranteed_gain=gain, verdict=verdict)

    def _one_by_one(self, cohort: Cohort, answers: Answers, unanswered: list[int]) -> Answers:
        """Episodes that the kernel leaves out, by the single calls, put among the others."""
        rows: list[Row | str] = [answers.row(i) for i in range(len(answers))]
        for i in unanswered:
            try:
                rows[i] = answer_one(self._asked, cohort.observation(i))
            except TetherError as error:
                rows[i] = str(error)
        return gather(cohort.ids, rows, answers.labels.shape[1])


def _last(cohort: Cohort, steps: Ints) -> Ints:
    """The last state of each episode, -1 where it was not recorded, -2 where there is no episode."""
    last = np.full(len(cohort), -2, dtype=np.int64)
    there = np.flatnonzero(steps > 0)
    last[there] = cohort.next_state[cohort.start[there + 1] - 1]
    return last


def _entries(mdp: MDP, pairs: Ints, outcomes: Ints) -> Ints:
    from tether.audit.cohort import search

    start = mdp.form.row_start
    return search(mdp.form.next_state, start[pairs], start[pairs + 1], outcomes)


def _model(mdp: MDP) -> Model:
    """The model as the kernel takes it."""
    from tether._kernels.audit import Model

    form, n = mdp.form, mdp.n_states
    every = np.arange(n)
    lengths = form.row_start[form.pair_start[1:]] - form.row_start[form.pair_start[:-1]]
    keys = np.unique(np.repeat(every, lengths) * np.int64(n) + form.next_state)
    after_start = np.searchsorted(keys, np.arange(n + 1) * np.int64(n))
    reward = np.array(ExpectedRewards(mdp).of_pairs(0, every)) if mdp.rewards.by_entry else mdp.rewards.at(0)
    final = np.zeros(n) if mdp.final_reward is None else mdp.final_reward
    return Model(
        pair_start=_read_only(form.pair_start),
        pair_action=_read_only(form.pair_action),
        row_start=_read_only(form.row_start),
        next_state=_read_only(form.next_state),
        probability=_read_only(form.probability),
        after_start=_read_only(after_start),
        after_state=_read_only((keys % n).astype(np.int32)),
        reward=_read_only(reward),
        final=_read_only(final),
        discount=mdp.discount,
        absorbing=_read_only(nothing_to_change(form, every, -1).astype(np.uint8)),
    )


def _leads(mdp: MDP) -> tuple[Ints, Ints]:
    """The pairs that lead to each state: where those of a state begin, and the pairs."""
    form = mdp.form
    order = np.argsort(form.next_state, kind="stable")
    pair, _ = spans(form.row_start[:-1], form.row_start[1:])
    return np.searchsorted(form.next_state[order], np.arange(mdp.n_states + 1)), pair[order]


def _read_only(array: Any) -> Any:
    """Kernels are compiled for one kind of array."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def _scratch(mdp: MDP, longest: int, m: int) -> Room:
    from tether._kernels.audit import Room

    n, height = mdp.n_states, m + 1
    row = int(np.diff(mdp.form.row_start).max(initial=1))
    most = n * height + row
    return Room(
        stamp=room(n + n * height, np.int64),
        layer=room(n * (longest + 1), np.int32),
        layer_start=np.zeros(2 * longest + 2, np.int64),
        near=room(2 * n, np.int16),
        okay=room(2 * n, np.uint8),
        edited=room(n, np.int64),
        value=room(2 * n * (height + 1), np.float64),
        choice=room(longest * n * height, np.int32),
        numbers=np.zeros(2 * m + 4),
        by_pair=room(most + mdp.n_actions, np.float64),
        terms=room(2 * most, np.float64),
        mark=room(n * height, np.uint8),
        place=room(4 * n * height, np.int64),
        node=room(2 * n * height, np.int64),
        mass=room(2 * n * height, np.float64),
        by_step=np.zeros(2 * longest),
        by_class=room(len(mdp.label_sets) + n + 1, np.float64),
        halves=np.zeros((3, 64), np.int64),
        sums=np.zeros(64),
    )


def _found(episodes: int, steps: int, labels: int) -> Found:
    from tether._kernels.audit import Found

    return Found(
        k=np.full(episodes, -1, dtype=np.int64),
        value=np.full(episodes, np.nan),
        strength=np.zeros(episodes),
        influenced=np.zeros(episodes),
        labels=np.full((episodes, labels), np.nan),
        change_pair=np.full(steps, -1, dtype=np.int64),
        change_chance=np.zeros(steps),
        end_start=np.zeros(episodes + 1, np.int64),
        end_code=np.zeros(16 * episodes, np.int64),
        end_chance=np.zeros(16 * episodes),
    )


class _EditedRows:
    """Edited rows by observed transition, kept from batch to batch up to a limit."""

    def __init__(self, mdp: MDP, model: Model, lead_start: Ints, lead_pair: Ints) -> None:
        self._mdp, self._model = mdp, model
        self._lead_start, self._lead_pair = lead_start, lead_pair
        form, n = mdp.form, mdp.n_states
        self._values = mdp.rewards.at(0) if mdp.rewards.by_entry else np.empty(0)
        longest = int(np.diff(form.row_start).max(initial=1))
        self._weight, self._seen = room(n, np.float64), room(mdp.n_pairs, np.uint8)
        self._met, self._size = room(mdp.n_pairs, np.int64), room(mdp.n_pairs, np.int64)
        self._nominal = room(mdp.n_pairs, np.bool_)
        self._numbers, self._places = np.empty((2, longest)), np.empty((3, longest), np.int64)
        self._pool = _grown(None, 1 << 14, 1 << 17, form.next_state.dtype)
        self._forget()

    def _forget(self) -> None:
        """Begin anew, in the same memory."""
        self._keys = np.empty(0, np.int64)
        self._row_end = np.zeros(1, np.int64)

    @property
    def _used(self) -> int:
        """How many bytes the rows take."""
        rows, pool = int(self._row_end[-1]), self._pool
        entries = int(pool.start[rows]) if rows else 0
        return sum(
            array.itemsize * (entries if name in ("next_state", "probability") else rows)
            for name, array in pool._asdict().items()
        )

    def of(self, pairs: Ints, outcomes: Ints) -> tuple[Ints, Ints, Pool]:
        """For each step the number of its transition; where the rows of each transition lie; and the rows."""
        if self._used > _POOL:
            self._forget()
        wanted = pairs * (self._mdp.n_states + 1) + outcomes + 1
        new = np.setdiff1d(wanted, self._keys)
        self._add(new)
        order = np.argsort(self._keys)
        transition: Ints = order[np.searchsorted(self._keys[order], wanted)] if wanted.size else wanted
        return transition, self._row_end, self._pool

    def _add(self, new: Ints) -> None:
        from tether._kernels.audit import fill_pool

        first = self._keys.size
        self._keys = np.concatenate((self._keys, new))
        self._row_end = np.concatenate((self._row_end, np.zeros(new.size, np.int64)))
        pairs, outcomes = self._keys // (self._mdp.n_states + 1), self._keys % (self._mdp.n_states + 1) - 1
        while first < self._keys.size:
            first = fill_pool(
                self._model, self._pool, self._values, pairs, outcomes, self._row_end, self._lead_start,
                self._lead_pair, self._weight, self._seen, self._met, self._nominal, self._size, self._numbers,
                self._places, first,
            )  # fmt: skip
            if first < self._keys.size:
                pool = self._pool
                self._pool = _grown(pool, 2 * pool.pair.size, 2 * pool.next_state.size, pool.next_state.dtype)


def _grown(pool: Pool | None, rows: int, entries: int, dtype: Any) -> Pool:
    """A larger pool with the same rows in it."""
    from tether._kernels.audit import Pool

    kinds = {"pair": np.int64, "state": np.int64, "start": np.int64, "next_state": dtype, "probability": np.float64}
    kinds |= {"strength": np.float64, "reward": np.float64}
    arrays = {}
    for name, kind in kinds.items():
        array = np.zeros(entries if name in ("next_state", "probability") else rows + 1, dtype=kind)
        if pool is not None:
            before = getattr(pool, name)
            array[: before.size] = before
        arrays[name] = array
    return Pool(**arrays)
