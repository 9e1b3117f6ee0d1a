"""States that remember whether a property was decided: for plans that weigh the return against a property.

Such a plan continues after the property is decided, and its best actions may depend on how it was decided. If nothing
leads out of the states that decide (a dead patient stays dead), the last state of an episode says whether the property
held. Otherwise the state has to remember it: there is one copy of every state while the property is open, and one for
each way in which it can be decided. Rows, rewards and actions are the same in each copy; only a transition that decides
the property leads from one copy to another.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether.conditioning.counterfactual_record import CounterfactualRecord, cached_with
from tether.conditioning.edited_rows import ObservedStep, Rows, spans
from tether.conditioning.layers import Graph, Layer
from tether.errors import Problem, QueryError
from tether.model.form import Rewards
from tether.model.labels import LabelSets
from tether.model.model_record import ModelRecord
from tether.model.names import Tracked, make_names
from tether.model.properties import Decided, Property
from tether.model.side_by_side import copied_form, shifted, shifted_starts
from tether.observation.path import Path
from tether.plan.afterwards import expected_after, in_copies
from tether.plan.objective import asked, asked_key, with_rest
from tether.plan.resting import resting_model
from tether.plan.rewards import without_rewards

Status = Literal["open", "holds", "fails"]


def tracked(
    cf: CounterfactualRecord, objective: Property, minimise: bool = False
) -> tuple[CounterfactualRecord, Floats]:
    """The counterfactual MDP whose last state says whether the property held, and for each state 1 if it did, or 0.

    It is ``cf`` itself if nothing leads out of the states that decide the property.
    """
    return cached_with(cf, ("tracked", objective, minimise), lambda: _with_rest(cf, objective, minimise))


def _with_rest(cf: CounterfactualRecord, objective: Property, minimise: bool) -> tuple[CounterfactualRecord, Floats]:
    """What `tracked` returns; after the record what is best for the value is done, or what ``then`` says."""
    made, holds = _tracked(cf, objective)
    rest = asked(cf, None, minimise).rest
    if rest is None:
        return made, holds
    decided, states = objective.on(cf.mdp), cf.graph.last_states
    resting = replace(without_rewards(resting_model(cf.mdp, decided)), discount=1.0)
    still_open = states[~decided.ended[states]]
    chance = expected_after(resting, decided, cf.T, rest, still_open, resting.final_reward)
    holds = holds.copy()
    holds[still_open] = chance
    if made is not cf:
        copied = in_copies(rest, made.mdp, made.mdp.n_states // cf.mdp.n_states)
        for less in (False, True):
            cached_with(made, asked_key(None, less), lambda: with_rest(made, copied))
    return made, holds


def _tracked(cf: CounterfactualRecord, objective: Property) -> tuple[CounterfactualRecord, Floats]:
    decided = objective.on(cf.mdp)
    first = int(cf.observation.states[0])
    if decided.ended[first]:
        state = cf.mdp.states[first]
        message = (
            f"{objective}: it is decided at t = 0: the episode begins in state {state!r}; there is nothing to weigh"
        )
        raise QueryError(Problem(message, state, time=0))
    if _stays_decided(cf.mdp, decided):
        return cf, decided.holds.astype(np.float64)
    return _Copies(cf, decided).made()


def _stays_decided(mdp: ModelRecord, decided: Decided) -> bool:
    """Whether every state that can follow a deciding state decides in the same way."""
    form, states = mdp.form, np.flatnonzero(decided.ended)
    owner, pairs = spans(form.pair_start[states], form.pair_start[states + 1])
    entry_owner, entry = spans(form.row_start[pairs], form.row_start[pairs + 1])
    after, before = form.next_state[entry], states[owner[entry_owner]]
    return bool(np.all(decided.ended[after] & (decided.holds[after] == decided.holds[before])))


class _Copies:
    """The states of a model, one copy per status: first the open ones, then the decided ones."""

    def __init__(self, cf: CounterfactualRecord, decided: Decided) -> None:
        self._cf, self._decided = cf, decided
        ways = [bool(one) for one in np.unique(decided.holds[decided.ended])[::-1]]
        self._status: list[Status] = ["open", *("holds" if one else "fails" for one in ways)]
        self._S, self._P = cf.mdp.n_states, cf.mdp.n_pairs
        # Where an open transition leads: to the same copy, or to the copy of the status that the next state decides.
        copy = np.zeros(self._S, dtype=np.int64)
        for i, way in enumerate(ways, start=1):
            copy[decided.ended & (decided.holds == way)] = i
        self._first = np.arange(self._S) + copy * self._S

    def made(self) -> tuple[CounterfactualRecord, Floats]:
        cf, mdp = self._cf, self._model()
        holds = np.concatenate(
            [self._decided.holds, *(np.full(self._S, status == "holds") for status in self._status[1:])]
        ).astype(np.float64)
        seen = cf.observation
        met = np.flatnonzero(self._decided.ended[seen.states[: cf.T + (seen.states[-1] >= 0)]])
        since = int(met[0]) if met.size else cf.T + 1
        copy = 0 if since > cf.T else int(self._first[seen.states[since]] // self._S)
        later = np.arange(cf.T + 1) >= since
        states = np.where(seen.states < 0, -1, seen.states + later * copy * self._S)
        observation = replace(seen, states=states, pairs=seen.pairs + later[:-1] * copy * self._P)
        layers = tuple(self._layer(layer, int(observation.pairs[t])) for t, layer in enumerate(cf.graph.layers))
        graph = Graph(mdp, observation, layers, self._everywhere(cf.graph.last_states))
        names = [mdp.states[int(s)] for s in states if s >= 0]
        path = Path(names, cf.path.actions, cf.path.rewards)
        return replace(cf, mdp=mdp, path=path, graph=graph, posteriors=(None,) * cf.T), holds

    def _model(self) -> ModelRecord:
        mdp, form, n = self._cf.mdp, self._cf.mdp.form, len(self._status)
        names = make_names([Tracked(name, status) for status in self._status for name in mdp.states], None, "state")
        open_next, order = self._sorted(form.row_start, self._first[form.next_state])
        entries, copied = form.next_state.size, copied_form(form, n, np.tile(form.probability, n))
        next_state, probability, values = (
            array.copy() for array in (copied.next_state, copied.probability, copied.rewards.values)
        )
        next_state[:entries], probability[:entries] = open_next, form.probability[order]
        if form.rewards.by_entry:
            values[..., :entries] = form.rewards.values[..., order]
        rewards, terminal = Rewards(values, form.rewards.by_entry), np.empty(0, form.terminal.dtype)
        copied = replace(copied, next_state=next_state, probability=probability, rewards=rewards, terminal=terminal)
        sets = {name: self._everywhere(members.indices) for name, members in mdp.labels.items()}
        labels = LabelSets(sets, mdp.label_sets.sides)
        final = None if mdp.final_reward is None else np.tile(mdp.final_reward, n)
        return type(mdp)(names, mdp.actions, copied, mdp.horizon, mdp.discount, final, None, labels)

    def _everywhere(self, states: Ints) -> Ints:
        """Some states in every copy."""
        return shifted(states, len(self._status), self._S).astype(np.int32)

    def _sorted(self, start: Ints, next_state: Ints) -> tuple[Ints, Ints]:
        """Rows with their next states in order again, and where each entry was."""
        owner = np.repeat(np.arange(start.size - 1), np.diff(start))
        order = np.lexsort((next_state, owner))
        return next_state[order], order

    def _layer(self, layer: Layer, pair: int) -> Layer:
        edits, n = layer.edits.rows(), len(self._status)
        open_next, order = self._sorted(edits.start, self._first[edits.next_state])
        rows = Rows(
            shifted(edits.pairs, n, self._P),
            shifted_starts(edits.start, n),
            np.concatenate([open_next, *(edits.next_state + i * self._S for i in range(1, n))]).astype(np.int32),
            np.concatenate([edits.probability[order], *([edits.probability] * (n - 1))]),
            np.tile(edits.strength, n),
        )
        seen = layer.observed
        support = self._everywhere(seen.next_state).astype(seen.next_state.dtype)
        observed = ObservedStep(seen.t, support, np.tile(seen.probability, n), seen.outcome, pair)
        meeting = shifted(layer.meeting, n, self._P)
        meeting.flags.writeable = False
        going = layer.states[~self._decided.ended[layer.states]]
        others = self._everywhere(layer.states)[layer.states.size :] if seen.t else going[:0]
        states = np.concatenate([going, others]).astype(np.int32)
        states.flags.writeable = False
        own = np.array([seen.pair + i * self._P for i in range(n)])
        return Layer(states, rows, observed, meeting, own)
