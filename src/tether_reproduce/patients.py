"""Patients of the sepsis simulator of Oberst and Sontag (ICML 2019), drawn as in its released experiment.

A patient starts untreated, is diabetic with probability 0.2, and is neither dead nor discharged. The physician knows
everything and follows the best policy, but takes any other action with probability 0.05. An episode ends with death
(-1), with discharge (+1), or after 20 steps (0). The learner sees neither diabetes nor glucose: 144 states.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from tether.cases.sepsis import SHAPE, is_death, is_discharge, transitions
from tether_reproduce.draws import Floats, Ints

STEPS = 20
N_ACTIONS = 8
N_SEEN = 144
_HALF = 720
_DISCOUNT = 0.99
OTHER = 0.05
"""The probability that the physician takes another action than the best."""

_DIABETIC = (0.8, 0.2)
FIRST_LEVELS, FIRST_OXYGEN = (0.25, 0.5, 0.25), (0.2, 0.8)
FIRST_GLUCOSE = ((0.05, 0.15, 0.6, 0.15, 0.05), (0.01, 0.05, 0.15, 0.6, 0.19))


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """The simulator: transitions sorted by pair (state · 8 + action), the first states, and the physician's policy.

    ``start`` has the first transition of each pair, and the number of transitions at its end.
    """

    start: Ints
    next_state: Ints
    probability: Floats
    first: Floats
    physician: Ints


@dataclass(frozen=True, slots=True, eq=False)
class PatientLog:
    """Episodes: states (n, 21) and actions (n, 20), -1 after the end; the outcome -1, 0 or 1 of each."""

    states: Ints
    actions: Ints
    outcome: Ints

    @property
    def steps(self) -> Ints:
        """How many steps each episode has."""
        counted: Ints = np.count_nonzero(self.actions >= 0, axis=1)
        return counted


def make_world(*, as_released: bool) -> World:
    """The simulator with the mistake of the released one (glucose of non-diabetic patients), or without."""
    s, a, j, probability = transitions(as_released=as_released)
    order = np.lexsort((j, s * N_ACTIONS + a))
    pair, j, probability = (s * N_ACTIONS + a)[order], j[order], probability[order]
    start = np.searchsorted(pair, np.arange(2 * _HALF * N_ACTIONS + 1))
    physician = [_best_of_half(half, pair, j, probability) for half in (0, 1)]
    return World(start, j, probability, _first_states(), np.concatenate(physician))


def _best_of_half(half: int, pair: Ints, j: Ints, probability: Floats) -> Ints:
    """The best policy of one population. As in the released code, death and discharge do not end the episode."""
    s, a = np.divmod(pair, N_ACTIONS)
    here = s // _HALF == half
    P = np.zeros((N_ACTIONS, _HALF, _HALF))
    P[a[here], s[here] % _HALF, j[here] % _HALF] = probability[here]
    return best_policy(P, P @ end_outcome()[:_HALF])


def best_policy(P: Floats, reward: Floats) -> Ints:
    """The best action of every state with an infinite horizon and a discount of 0.99; the first of equally good ones.

    ``P`` is by action, state and next state, ``reward`` by action and state.
    """
    every = np.arange(P.shape[1])
    policy: Ints = reward.argmax(axis=0)
    while True:
        value = np.linalg.solve(np.eye(every.size) - _DISCOUNT * P[policy, every], reward[policy, every])
        each = reward + _DISCOUNT * (P @ value)
        better = each.max(axis=0) > each[policy, every] + 1e-10
        if not better.any():
            best: Ints = (each >= each.max(axis=0) - 1e-10).argmax(axis=0)
            return best
        policy = np.where(better, each.argmax(axis=0), policy)


def end_outcome() -> Floats:
    """The outcome of each state: -1 for death, 1 for discharge, 0 if the episode goes on."""
    return is_discharge().astype(np.float64) - is_death().astype(np.float64)


def _first_states() -> Floats:
    """The probability that each state is a patient's first."""
    untreated = np.eye(8)[0]
    populations = [
        share * reduce(np.kron, (FIRST_LEVELS, FIRST_LEVELS, FIRST_OXYGEN, glucose, untreated))
        for share, glucose in zip(_DIABETIC, FIRST_GLUCOSE, strict=True)
    ]
    chance: Floats = np.where(end_outcome() == 0, np.concatenate(populations), 0.0)
    chance /= chance.sum()
    return chance


def draw_log(world: World, n: int, rng: np.random.Generator) -> PatientLog:
    """``n`` episodes under the physician."""
    states, actions = np.full((n, STEPS + 1), -1), np.full((n, STEPS), -1)
    outcome, reward = np.zeros(n, dtype=np.int64), end_outcome()
    states[:, 0] = rng.choice(world.first.size, n, p=world.first)
    below = np.concatenate((np.zeros(1), np.cumsum(world.probability)))
    going = np.arange(n)
    for t in range(STEPS):
        s = states[going, t]
        a = world.physician[s]
        other = (a + rng.integers(1, N_ACTIONS, going.size)) % N_ACTIONS
        a = np.where(rng.random(going.size) < OTHER, other, a)
        low, high = world.start[s * N_ACTIONS + a], world.start[s * N_ACTIONS + a + 1]
        at = below[low] + rng.random(going.size) * (below[high] - below[low])
        entry = np.clip(np.searchsorted(below, at, side="right") - 1, low, high - 1)
        actions[going, t], states[going, t + 1] = a, world.next_state[entry]
        outcome[going] = reward[states[going, t + 1]]
        going = going[outcome[going] == 0]
    return PatientLog(states, actions, outcome)


def seen(states: Ints) -> Ints:
    """The seen part of each state, without diabetes and glucose: a number among 144; -1 for no state."""
    _, hr, bp, oxygen, _, *treated = np.unravel_index(np.maximum(states, 0), SHAPE)
    shown: Ints = np.ravel_multi_index((hr, bp, oxygen, *treated), (3, 3, 2, 2, 2, 2))
    return np.where(states < 0, -1, shown)


def all_outcomes(died: Any, discharged: Any) -> Floats:
    """The probabilities of the three outcomes (death, no end, discharge) from those of death and discharge."""
    return np.stack((died, np.maximum(1.0 - died - discharged, 0.0), discharged), axis=-1)


def truth_for_all(world: World, policy: Ints) -> Floats:
    """The exact probabilities of death, no end after 20 steps, and discharge, under a policy of the seen part."""
    pairs = np.arange(world.first.size) * N_ACTIONS + policy[seen(np.arange(world.first.size))]
    lengths, is_taken = np.diff(world.start), np.zeros(world.start.size - 1, dtype=bool)
    is_taken[pairs] = True
    taken = np.repeat(is_taken, lengths)
    s, j, probability = np.repeat(pairs // N_ACTIONS, lengths[pairs]), world.next_state[taken], world.probability[taken]
    before, ended = world.first, np.zeros(2)
    ends = np.stack((is_death(), is_discharge()))
    for _ in range(STEPS):
        chance = np.bincount(j, before[s] * probability, minlength=pairs.size)
        ended += ends @ chance
        before = np.where(ends.any(axis=0), 0.0, chance)
    return all_outcomes(*ended)
