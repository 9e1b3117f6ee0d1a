"""Drawn models, conditioned on an episode, side by side as one counterfactual MDP.

All draws have the states, pairs and transitions of the learned model, and only other probabilities. So several of them
are copies of one model (`tether.model.side_by_side`), and what is asked of each is asked of all at once: rows, κ, plans
and chains are found by the same calls as those of a single model, with the same numbers.

Copies take memory: their rows are edited anew at each step, and each plan that is followed has links of its own. A
block of draws therefore has at most `BLOCK` transitions over all steps and plans, and at most `COPIES` models; a larger
model is a block of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._kernels.parallel import LARGE
from tether.conditioning.counterfactual_record import (
    CounterfactualRecord,
    cached_with,
    conditioned_graph,
    observed_step,
)
from tether.conditioning.edited_rows import ObservedStep, Rows
from tether.conditioning.mechanism import Candidates, NoisePosterior
from tether.conditioning.mechanisms import KINDS, infer, make_mechanism
from tether.model.form import Form
from tether.model.model_record import ModelRecord
from tether.model.properties import Decided, Property
from tether.model.side_by_side import copied_model, shifted
from tether.observation.earned import model_return
from tether.plan.afterwards import side_by_side
from tether.plan.objective import asked, asked_key, resting_world, with_rest

BLOCK = 1 << 20
"""How many transitions a block of draws has, at most, over all steps and plans: 70 megabytes if all are edited."""

COPIES = 128
"""How many models are asked at once, at most: whoever waits for them wants to know how far it is."""


def block_size(mdp: ModelRecord, T: int = 1, plans: int = 1) -> int:
    """How many draws of a model are asked at once: so many that arrays stay small, and one core will do.

    They are larger the more steps an episode has, and the more plans are followed side by side: in each state a plan
    takes one of the actions.
    """
    followed = max(1, plans * mdp.n_states // mdp.n_pairs)
    return max(1, min(COPIES, BLOCK // (mdp.n_transitions * T * followed), (LARGE - 1) // mdp.n_states))


def drawn_worlds(cf: CounterfactualRecord, probability: Floats) -> CounterfactualRecord:
    """The models with the rows of ``cf`` and other probabilities (one row per model), conditioned on its episode."""
    mdp = copied_model(cf.mdp, probability)
    observed = [_step(cf, probability, t) for t in range(cf.T)]
    infer = _inference(cf, probability)
    posteriors = tuple(infer(step) if step.recorded else None for step in observed)
    graph = conditioned_graph(mdp, cf.observation, observed, posteriors)
    return CounterfactualRecord(mdp, cf.path, cf.mechanism, graph, posteriors, cf.after)


def asked_of_each(
    worlds: CounterfactualRecord, cf: CounterfactualRecord, objective: Property | None, minimise: bool = False
) -> CounterfactualRecord:
    """The worlds whose returns are what is asked for (`tether.plan.objective`); ``cf`` is the one of the learned model.

    After the record each world does what is done in the learned model.
    """
    if objective is None and cf.after is None:
        return worlds
    minimise = minimise and cf.after is not None  # it matters only after the record
    return cached_with(worlds, asked_key(objective, minimise), lambda: _asked(worlds, cf, objective, minimise))


def _asked(
    worlds: CounterfactualRecord, cf: CounterfactualRecord, objective: Property | None, minimise: bool
) -> CounterfactualRecord:
    n, copied, made = worlds.graph.copies, None, worlds
    if objective is not None:
        decided = objective.on(cf.mdp)
        copied = Decided(np.tile(decided.ended, n), np.tile(decided.holds, n))
        made = resting_world(worlds, objective, copied)
    rest = asked(cf, objective, minimise, widely=True).rest
    if rest is None:
        return made
    return with_rest(made, side_by_side(rest, made.mdp, copied, cf.T, made.graph.last_states, n))


def observed_values(worlds: CounterfactualRecord) -> Floats:
    """What the observed path is worth in each world; not the same where its end is not known."""
    seen, graph = worlds.observation, worlds.graph
    if seen.states[-1] >= 0 and worlds.rest is None:
        return np.full(graph.copies, model_return(worlds.mdp, seen))
    n_states, n_pairs = worlds.mdp.n_states // graph.copies, worlds.mdp.n_pairs // graph.copies
    in_copies = (
        replace(seen, states=np.where(seen.states < 0, -1, seen.states + i * n_states), pairs=seen.pairs + i * n_pairs)
        for i in range(graph.copies)
    )
    return np.array([model_return(worlds.mdp, one) for one in in_copies])


def _step(cf: CounterfactualRecord, probability: Floats, t: int) -> ObservedStep:
    """One observed step in all worlds."""
    n, one = len(probability), observed_step(cf.mdp, cf.observation, t)
    outcomes, chances = shifted(one.next_state, n, cf.mdp.n_states), probability[:, cf.mdp.entries(one.pair)]
    return replace(one, next_state=outcomes, probability=chances.reshape(-1), copies=n)


def _inference(cf: CounterfactualRecord, probability: Floats) -> Callable[[ObservedStep], NoisePosterior]:
    """How the noise of a step is inferred in all worlds: at once, where the mechanism can; else in each."""
    if type(cf.mechanism) in KINDS or len(probability) == 1:
        mechanism = make_mechanism(cf.mechanism, {}, cf.mdp)
        return lambda step: infer(cf.mdp, mechanism, step)
    models = [copied_model(cf.mdp, row[None]) for row in probability]
    mechanisms = [make_mechanism(cf.mechanism, {}, model) for model in models]

    def infer_in_each(step: ObservedStep) -> NoisePosterior:
        steps = (observed_step(model, cf.observation, step.t) for model in models)
        each = zip(models, mechanisms, steps, strict=True)
        return _PosteriorOfEach(tuple(infer(*one) for one in each), tuple(model.form for model in models))

    return infer_in_each


@dataclass(frozen=True, slots=True, eq=False)
class _PosteriorOfEach:
    """The posteriors of a step in several worlds, each of which knows its own model only."""

    posteriors: tuple[NoisePosterior, ...]
    forms: tuple[Form, ...]

    @property
    def key(self) -> Hashable:
        """Key of the step in the first world: the other worlds have the same step."""
        return self.posteriors[0].key

    def changes(self, candidates: Candidates) -> Ints:
        return np.concatenate(
            [
                posterior.changes(_CandidatesOfOne(candidates, low, low + self._n_pairs)) + low
                for posterior, low in zip(self.posteriors, self._first_pairs, strict=True)
            ]
        )

    def replay(self, form: Form, pairs: Ints) -> Rows:
        parts = [
            posterior.replay(own, pairs[slice(*np.searchsorted(pairs, (low, low + self._n_pairs)))] - low)
            for posterior, own, low in zip(self.posteriors, self.forms, self._first_pairs, strict=True)
        ]
        n_states = self.forms[0].pair_start.size - 1
        lengths = np.concatenate([np.diff(part.start) for part in parts])
        return Rows(
            pairs,
            np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths))),
            np.concatenate([part.next_state + i * n_states for i, part in enumerate(parts)]),
            np.concatenate([part.probability for part in parts]),
            np.concatenate([part.strength for part in parts]),
        )

    @property
    def _n_pairs(self) -> int:
        return int(self.forms[0].pair_action.size)

    @property
    def _first_pairs(self) -> list[int]:
        """The first pair of each world."""
        return [i * self._n_pairs for i in range(len(self.forms))]


@dataclass(frozen=True, slots=True, eq=False)
class _CandidatesOfOne:
    """The candidates among the pairs ``low … high - 1``, those of one world, as it knows them."""

    candidates: Candidates
    low: int
    high: int

    def all(self) -> Ints:
        return self._own(self.candidates.all())

    def meeting(self) -> Ints:
        return self._own(self.candidates.meeting())

    def _own(self, pairs: Ints) -> Ints:
        return pairs[slice(*np.searchsorted(pairs, (self.low, self.high)))] - self.low
