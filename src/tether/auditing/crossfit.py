"""Cross-fitted answers: each plan is chosen and valued by models that did not see its episode, and not by the same one.

The models of all folds (`tether.learning.folds`) stand side by side as one. The episodes of a batch are conditioned on
their two models, planned on both, and each plan is followed on the model that did not choose it. An answer is the mean
of the two; its limits and changes are those of the plan that the other folds have chosen.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats
from tether.auditing.answering import PreparedQuestion
from tether.auditing.batch_plans import Batch, Plans
from tether.auditing.followed import Followed, World
from tether.core.batch import Steps
from tether.learning.folds import fold_models
from tether.learning.posterior import posterior
from tether.logs.cohort import Cohort
from tether.model.practice import practice


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

        ``until`` is their horizon (`tether.auditing.beyond`). With draws, also the values of each episode in models
        that the counts of each fold leave possible, (2 × draws, n): those of either plan, because half of the log knows
        less than the mean of two halves would say.
        """
        question = self._asked.question
        T = int(np.diff(part.start).max())
        batches = self.batches(self.world.beyond(until, T), part)
        plans = [one.planned(question.k, question.m) for one in batches]
        return exchanged(batches, plans), self._in_draws(part, plans, until, T) if self._drawn else None

    def asked_of(self, episode: Any) -> PreparedQuestion:
        """The question to the model of the other folds, for an episode that is answered alone."""
        model = int(self.folds.models(self.folds.blocks([episode]))[0][0])
        plain = replace(self._asked.question, split=None)
        alone: PreparedQuestion = self._asked.once(
            f"alone {model}", lambda: PreparedQuestion.of(self._models[model], plain)
        )
        return alone

    def _in_draws(self, part: Cohort, plans: list[Plans], until: int, T: int) -> Floats:
        draws = self._asked.question.draws
        found = np.empty((draws, 2, len(part)))
        for i in range(draws):
            drawn = np.stack([one.draw(i).form.probability for one in self._drawn])
            world = World.of(self._asked, drawn, self._shares).beyond(until, T)
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
