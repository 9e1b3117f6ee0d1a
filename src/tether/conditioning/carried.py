"""What an episode says about a model, carried over to its product with a memory (`tether.model.product`).

The luck of a step belongs to the model's own next states. So its noise is inferred in the model, and rows are replayed
there: a row of the product has the same numbers, and its next states, in the same order, with what remains then.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from tether._foundation.arrays import Ints, read_only
from tether.conditioning.edited_rows import ObservedStep, Rows, spans
from tether.conditioning.mechanism import Candidates, NoisePosterior
from tether.model.form import Form, pair_states
from tether.model.product import Memory


def step_within(memory: Memory, t: int, pair: int, outcome: int) -> ObservedStep:
    """A step that was observed in the product, in the model itself."""
    reached = int(memory.state[outcome]) if outcome >= 0 else -1
    return ObservedStep.of(memory.mdp.form, t, int(memory.pair[pair]), reached)


def carried_step(memory: Memory, step: ObservedStep, pair: int, outcome: int) -> ObservedStep:
    """A step of the model in the product: each of its outcomes with everything that may remain."""
    states = memory.all_of(step.next_state)
    chance = step.probability[np.searchsorted(step.next_state, memory.state[states])]
    kind = step.next_state.dtype
    return ObservedStep(step.t, read_only(states.astype(kind)), read_only(chance), outcome, pair)


def carried_posterior(memory: Memory, posterior: NoisePosterior | None) -> NoisePosterior | None:
    """What is known about the noise of a step of the model, for rows of the product."""
    return None if posterior is None else _Carried(memory, posterior)


@dataclass(frozen=True, slots=True, eq=False)
class _Carried:
    memory: Memory
    posterior: NoisePosterior

    @property
    def key(self) -> Hashable:
        return self.posterior.key

    def changes(self, candidates: Candidates) -> Ints:
        wanted = _Within(self.memory, candidates)
        found = self.posterior.changes(wanted)
        if found is wanted.met:
            return candidates.meeting()
        every = candidates.all()
        changed: Ints = every[np.isin(self.memory.pair[every], found)]
        return changed

    def replay(self, form: Form, pairs: Ints) -> Rows:
        memory = self.memory
        own, which = np.unique(memory.pair[pairs], return_inverse=True)
        rows = self.posterior.replay(memory.mdp.form, own)
        owner, item = spans(rows.start[which], rows.start[which + 1])
        before = memory.memory[pair_states(form.pair_start, pairs)]
        start = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.diff(rows.start)[which])))
        next_state = memory.onward(before[owner], rows.next_state[item]).astype(rows.next_state.dtype)
        return Rows(pairs, start, next_state, rows.probability[item], rows.strength[which])


class _Within:
    """Candidates of the product, as pairs of the model."""

    def __init__(self, memory: Memory, candidates: Candidates) -> None:
        self._memory, self._candidates = memory, candidates
        self.met: Ints | None = None

    def all(self) -> Ints:
        return np.unique(self._memory.pair[self._candidates.all()])

    def meeting(self) -> Ints:
        if self.met is None:
            self.met = np.unique(self._memory.pair[self._candidates.meeting()])
        return self.met
