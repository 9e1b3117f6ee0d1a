"""The answers to a batch of episodes, on the engine: each step of an answer is taken for all episodes at once.

One episode is a batch of one. The numbers are those of the calls for a single episode, up to rounding. Batches are
planned in `tether.auditing.batch_plans`; what plans lead to is in `tether.auditing.followed`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints
from tether._foundation.rounding import gain_of
from tether.auditing.answer_arrays import NOT_SEEN, UNKNOWN, UNRECORDED, Answers, AnswerTable, not_reviewed
from tether.auditing.answering import PreparedQuestion, certified_alone, plan_alone
from tether.auditing.batch_plans import Batch, NotTogetherError, Plans
from tether.auditing.followed import (
    Followed,
    Guaranteed,
    World,
    horizons_of,
    last_states,
    logged_returns,
    up_to_their_ends,
)
from tether.auditing.reviewed import longest_of, standard_of
from tether.conditioning.sampled import SampledGumbelMax
from tether.core.batch import Steps, StuckError
from tether.errors import TetherError
from tether.evaluation.certificate import MOST_NODES, verdict_number
from tether.evaluation.review import horizons
from tether.influence.kappa import MAX_STEPS
from tether.influence.one_step import Support
from tether.learning.folds import fold_models
from tether.learning.posterior import posterior
from tether.learning.uncertainty import tails
from tether.logs.cohort import Cohort
from tether.model.practice import practice
from tether.observation.changes import done_then
from tether.observation.indices import path_of
from tether.plan.policy import follows_the_record
from tether.plan.standard import Standard

_BATCH = 128
"""How many episodes are answered at once; fewer in a very large model, because scratch is by episode and state."""

_SCRATCH = 1 << 26


class Engine:
    """Answers batches, one at a time: every thread has its own."""

    def __init__(self, asked: PreparedQuestion) -> None:
        self._asked = asked
        self._crossfit: CrossFit | None = None
        if asked.question.split is not None:
            self._crossfit = asked.once("crossfit", lambda: CrossFit(asked))
        self._world: World = self._crossfit.world if self._crossfit else asked.once("world", lambda: World.of(asked))
        policy, objective = asked.question.policy, asked.question.objective
        self._policy: Standard | None = None
        if policy is not None and not follows_the_record(policy):
            self._policy = asked.once("policy", lambda: Standard(asked.mdp, policy, objective))
        self._needs_record = policy is not None and not isinstance(policy, str) and follows_the_record(policy)

    def __call__(self, cohort: Cohort) -> Answers:
        """The answers to a batch."""
        asked, cohort = self._asked, up_to_their_ends(self._asked, cohort)
        steps = np.diff(cohort.start)
        known = np.array([one is None for one in cohort.problem], dtype=bool)
        table = AnswerTable(cohort.start, len(asked.mdp.label_sets.ends) + 2, cohort.problem)
        size = max(1, min(_BATCH, _SCRATCH // max(self._world.model.n_states, 1)))
        until = horizons_of(asked, cohort)
        fit = known & (steps > 0) & ((until <= 0) | (until >= steps))
        if asked.question.policy is None:
            fit &= steps <= MAX_STEPS
        if self._world.ended is not None:  # where a property is decided at the start, there is nothing to ask
            fit[fit] = ~self._world.ended[cohort.state[cohort.start[:-1][fit]]]
        for i in np.flatnonzero(known & ~fit).tolist():
            table.problem[i] = self._why_not(cohort, i)
        for some in self._groups(np.flatnonzero(fit), steps, until, size):
            self._answer(cohort, some, int(until[some[0]]), table)
        return self._answers(cohort, until, table)

    def _groups(self, episodes: Ints, steps: Ints, until: Ints, size: int) -> list[Ints]:
        """Episodes that are answered together.

        They have the same horizon. A policy may depend on all that was done in an episode; and where its horizon is the
        end of the record, on how many steps there are.
        """
        if self._needs_record:
            return list(episodes[:, None])
        together = self._policy is None or self._policy.shares is not None
        lengths = np.where(until > 0, 0, 0 if together else steps)
        keys = np.stack((until[episodes], lengths[episodes]), axis=1)
        _, which = np.unique(keys, axis=0, return_inverse=True)
        groups = (episodes[which.reshape(-1) == i] for i in range(int(which.max(initial=-1)) + 1))
        return [some[i : i + size] for some in groups for i in range(0, some.size, size)]

    def _answer(self, cohort: Cohort, some: Ints, until: int, table: AnswerTable) -> None:
        """Answer some episodes. If one of them has no answer, the others are found by halves."""
        question, asked = self._asked.question, self._asked
        try:
            part = cohort.only(some)
            batch = self._plain_batch(part)
            found, credible = self._followed(part, batch, until)
            judged = horizons(asked.mdp, part, question.horizon, longest_of(asked))
            best = batch.best_values(standard_of(asked), judged)
            held = self._held(part, found) if question.is_certified else None
        except (TetherError, NotTogetherError, StuckError):
            if some.size == 1:
                table.problem[some[0]] = self._why_not(cohort, int(some[0]))
                return
            for half in np.array_split(some, 2):
                self._answer(cohort, half, until, table)
            return
        for one in found:
            one.tell(asked, some, table, 1.0 / len(found))
        table.best[some] = best
        if credible is not None:
            table.credible_low[some], table.credible_high[some] = credible
        if held is not None:
            which, every, stable, gamma_star = some[held[0]], *held[1:]
            table.guaranteed[which], table.gamma_star[which] = every, gamma_star
            table.verdict[which] = verdict_number(every, stable, table.least_seen[which])

    def _why_not(self, cohort: Cohort, i: int) -> str:
        """Why an episode has no answer, as the single calls say it."""
        try:
            certified_alone(self._asked, cohort.observation(i))
        except TetherError as error:
            return str(error)
        raise RuntimeError(f"episode {cohort.ids[i]!r} has no answer, and nothing says why")

    def _plain_batch(self, part: Cohort) -> Batch:
        """The episodes on the model itself."""
        world: World = self._asked.once("world", lambda: World.of(self._asked))
        columns = (part.start, part.state, part.action, part.pair, part.next_state)
        return Batch.of(world, Steps.of(world.model, *(np.asarray(one, np.int64) for one in columns)))

    def _followed(self, part: Cohort, batch: Batch, until: int) -> tuple[list[Followed], Floats | None]:
        """What the plans of some episodes, or a policy, lead to; an answer is the mean, if there are several.

        And the ends of the credible interval of each value, (2, n), if models are drawn.
        """
        asked, question = self._asked, self._asked.question
        if self._crossfit is not None:
            found, values = self._crossfit.answer(part, until)
            return found, None if values is None else np.quantile(values, tails(0.9), axis=0)
        batch = replace(batch, world=batch.world.beyond(until))
        if question.policy is not None:
            path = path_of(asked.mdp, part.observation(0)) if self._needs_record else None
            return [batch.evaluated(asked, until, path)], None
        drawn, plans = asked.posterior, (plan_alone(asked, part.observation(i)) for i in range(len(part)))
        credible = None if drawn is None else np.transpose([drawn.of(plan).interval() for plan in plans])
        return [batch.follow(batch.planned(question.k, question.m))], credible

    def _held(self, part: Cohort, found: list[Followed]) -> tuple[Ints, Floats, Floats, Floats]:
        """Which episodes have a certificate; what they gain under all causal models and the stable ones; Γ*."""
        question, wanted = self._asked.question, np.arange(len(part))
        if question.policy is None:
            wanted = np.flatnonzero(np.max([one.nodes() for one in found], axis=0) <= MOST_NODES)
            if isinstance(question.mechanism, SampledGumbelMax):
                wanted = wanted[:0]  # a plan for sampled rows has no certificate
        by_runs = question.rule == "assured" and not isinstance(question.influence, Support) and question.policy is None
        if by_runs and self._world.gumbel is not None:
            return self._held_alone(part, wanted)
        held = Guaranteed.least([one.guaranteed(wanted) for one in found])
        return wanted, held.every, held.stable, held.strengths()

    def _held_alone(self, part: Cohort, wanted: Ints) -> tuple[Ints, Floats, Floats, Floats]:
        """`_held` for plans whose runs are those of another mechanism than Gumbel-max: one after the other."""
        asked, found = self._asked, []
        for i in wanted.tolist():
            own = asked if self._crossfit is None else self._crossfit.asked_of(part.ids[i])
            one = certified_alone(own, part.observation(i))
            assert one is not None
            found.append((one.gain, one.stability.gain, one.gamma_star))
        every, stable, gamma_star = np.reshape(np.array(found, float), (-1, 3)).T
        return wanted, every, stable, gamma_star

    def _answers(self, cohort: Cohort, until: Ints, table: AnswerTable) -> Answers:
        asked, steps, last = self._asked, np.diff(cohort.start), last_states(cohort)
        form, answered = asked.mdp.form, table.answered
        plans = asked.question.policy is None
        outcome = np.where(last >= 0, asked.codes[np.maximum(last, 0)], UNRECORDED)
        changed = np.flatnonzero(table.change_pair >= 0)
        owner, pairs = np.repeat(np.arange(len(cohort)), steps)[changed], table.change_pair[changed] % asked.mdp.n_pairs
        ends = table.ends(len(cohort))
        gain = np.where(answered, gain_of(table.value, table.observed, asked.question.minimise), np.nan)
        good, bad = table.labels[:, -2:].T
        return Answers(
            ids=cohort.ids,
            problem=table.problem,
            steps=np.where(answered, steps, -1),
            observed=np.where(answered, table.observed, np.nan),
            logged=np.where(answered, logged_returns(asked.mdp, cohort), np.nan),
            outcome=np.where(answered, outcome, UNKNOWN),
            value=np.where(answered, table.value, np.nan),
            gain=gain,
            k=np.where(answered & plans, table.k, -1),
            m=np.where(answered & plans, np.minimum(asked.question.m, steps), -1),
            change_start=np.searchsorted(owner, np.arange(len(cohort) + 1)),
            change_t=changed - cohort.start[owner],
            change_state=np.searchsorted(form.pair_start, pairs, side="right") - 1,
            change_observed=done_then(
                form, changed - cohort.start[owner], cohort.state[changed], cohort.action[changed]
            ),
            change_advised=form.pair_action[pairs].astype(np.int64),
            change_probability=table.change_chance[changed],
            labels=table.labels[:, :-2],
            end_start=ends[0],
            end_outcome=ends[1],
            end_probability=ends[2],
            strength=np.where(answered, table.strength, np.nan),
            influenced_steps=np.where(answered, table.influenced, np.nan),
            guaranteed_gain=table.guaranteed,
            gamma_star=table.gamma_star,
            verdict=table.verdict,
            least_seen=np.where(table.least_seen == NOT_SEEN, -1, table.least_seen),
            credible_low=table.credible_low,
            credible_high=table.credible_high,
            model_value=self._model_values(cohort, until, answered),
            about_episode=np.where(answered & plans, table.about, np.nan),
            p_worse=np.where(answered, table.p_worse, np.nan),
            foreseeable=np.where(answered, table.best, np.nan),
            worse_end=np.where(answered, asked.worse_ends(good, bad, gain, table.observed, last), -1),
            **not_reviewed(len(cohort)),
        )

    def _model_values(self, cohort: Cohort, until: Ints, answered: Flags) -> Floats:
        """The value of the policy for anyone who starts where each episode does; NaN where there is none.

        There is none where usual practice goes on to the end of each episode: they have no common number of steps.
        """
        values, steps = np.full(len(cohort), np.nan), np.where(until > 0, until, np.diff(cohort.start))
        answered = answered & (until != 0)
        if self._policy is None or not answered.any():
            return values
        first, lengths = np.zeros(len(cohort), np.int64), np.unique(steps[answered]).tolist()
        first[answered] = cohort.state[cohort.start[:-1][answered]]  # a broken episode may have no steps
        if not self._policy.by_steps_left:
            for T in lengths:
                some = np.flatnonzero(answered & (steps == T))
                values[some] = self._policy.values_at(0, T, first[some])
            return values
        horizon, none = lengths[-1], np.empty(0, np.int64)
        begun = [np.flatnonzero(answered & (steps == horizon - t)) for t in range(horizon)]
        for layer in self._policy.layers(horizon, [np.unique(first[some]) for some in begun], [none] * horizon):
            if layer.t < horizon:
                values[begun[layer.t]] = layer.table[first[begun[layer.t]], 1]
        return values


# ---- Episodes answered by the models of other folds ----------------------------------------------------------------
# Cross-fitted answers: each plan is chosen and valued by models that did not see its episode, and not by the same one.
#
# The models of all folds (`tether.learning.folds`) stand side by side as one. The episodes of a batch are conditioned
# on their two models, planned on both, and each plan is followed on the model that did not choose it. An answer is the
# mean of the two; its limits and changes are those of the plan that the other folds have chosen.


class CrossFit:
    """The models of all folds, and what answers batches with them."""

    def __init__(self, asked: PreparedQuestion) -> None:
        assert asked.question.split is not None
        self._asked, self.folds = asked, asked.question.split
        self._models = fold_models(asked.mdp, self.folds)
        self._shares = np.concatenate([practice(one).shares for one in self._models])
        self.world = World.of(asked, np.stack([one.form.probability for one in self._models]), self._shares)
        draws, seed = asked.question.draws, asked.question.seed
        self._drawn = tuple(posterior(one, draws, rng=seed) for one in self._models) if draws else ()

    def answer(self, part: Cohort, until: int) -> tuple[list[Followed], Floats | None]:
        """What the plans of some episodes lead to where they were not chosen, those of the other folds first.

        ``until`` is their horizon (`tether.auditing.followed`). With draws, also the values of each episode in models
        that the counts of each fold leave possible, (2 × draws, n): those of either plan, because half of the log knows
        less than the mean of two halves would say.
        """
        question = self._asked.question
        batches = self.batches(self.world.beyond(until), part)
        plans = [one.planned(question.k, question.m) for one in batches]
        return exchanged(batches, plans), self._in_draws(part, plans, until) if self._drawn else None

    def asked_of(self, episode: Any) -> PreparedQuestion:
        """The question to the model of the other folds, for an episode that is answered alone."""
        model = int(self.folds.models(self.folds.blocks([episode]))[0][0])
        plain = replace(self._asked.question, split=None)
        return self._asked.once(f"alone {model}", lambda: PreparedQuestion.of(self._models[model], plain))

    def _in_draws(self, part: Cohort, plans: list[Plans], until: int) -> Floats:
        draws = self._asked.question.draws
        found = np.empty((draws, 2, len(part)))
        for i in range(draws):
            drawn = np.stack([one.draw(i).form.probability for one in self._drawn])
            world = World.of(self._asked, drawn, self._shares).beyond(until)
            worlds = exchanged(self.batches(world, part), plans)
            found[i] = self.world.sign * np.stack([one.value for one in worlds])
        return found.reshape(2 * draws, len(part))

    def batches(self, world: World, part: Cohort) -> list[Batch]:
        """The episodes, conditioned on each of their two models."""
        n_states, n_pairs = self._asked.mdp.n_states, self._asked.mdp.n_pairs
        found = []
        for models in self.folds.models(self.folds.blocks(part.ids)):
            copy = np.repeat(models, np.diff(part.start))
            after = np.where(part.next_state >= 0, part.next_state + copy * n_states, -1)
            state, pair = part.state + copy * n_states, part.pair + copy * n_pairs
            columns = (np.asarray(one, np.int64) for one in (part.start, state, part.action, pair, after))
            found.append(Batch.of(world, Steps.of(world.model, *columns)))
        return found


def exchanged(batches: list[Batch], plans: list[Plans]) -> list[Followed]:
    """Each plan on the model that did not choose it."""
    return [replace(batches[1 - i].follow(plans[i]), observed=plans[1 - i].observed) for i in range(2)]
