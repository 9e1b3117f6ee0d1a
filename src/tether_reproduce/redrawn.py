"""The published log itself: the released simulator's draws, in its order, from NumPy's legacy generator.

That generator is frozen: a seed gives the same numbers in every version of NumPy. The same order of draws and the same
policies give the same patients, and the published estimates to the last printed digit.
"""

from __future__ import annotations

import numpy as np

from tether.cases.sepsis import SHAPE
from tether_reproduce.draws import Floats, Ints, cumulative, pick
from tether_reproduce.patients import (
    FIRST_GLUCOSE,
    FIRST_LEVELS,
    FIRST_OXYGEN,
    N_ACTIONS,
    OTHER,
    STEPS,
    PatientLog,
    end_outcome,
    seen,
)

RESAMPLES = 100
"""The printed numbers are means over this many resamples."""

_DIABETIC, _HR, _BP, _OXYGEN, _GLUCOSE, _ABX, _VASO, _VENT = range(8)


class Redrawing:
    """One run of the released experiment, draw after draw: the results depend on the order of calls."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.RandomState(seed)
        self._outcome = end_outcome().astype(np.int64)

    def under_physician(self, best: Ints, n: int) -> PatientLog:
        """``n`` episodes under the best policy of the full state, sometimes with other actions."""
        chances = np.full((best.size, N_ACTIONS), OTHER / (N_ACTIONS - 1))
        chances[np.arange(best.size), best] = 1.0 - OTHER
        return self._episodes(chances, n)

    def under_policy(self, policy: Ints, n: int) -> PatientLog:
        """``n`` episodes under a policy of the seen part of the state."""
        chosen = policy[seen(np.arange(self._outcome.size))]
        return self._episodes(np.eye(N_ACTIONS)[chosen], n)

    def in_model(self, step: Floats, first: Floats, reward: Floats, n: int) -> Floats:
        """The returns of ``n`` patients drawn from a learned model under its policy.

        ``step`` has the probabilities of the next state under the policy, ``first`` those of the first state; an
        episode ends at the first state whose ``reward`` is not 0.
        """
        from_here, at_first, returns = cumulative(step), cumulative(first), np.zeros(n)
        for i in range(n):
            self._rng.random_sample()  # the choice of a hidden population: there is only one
            s = self._pick(at_first)
            for _ in range(STEPS):
                self._rng.random_sample()  # the choice of an action: there is only one
                s = self._pick(from_here[s])
                returns[i] = reward[s]
                if returns[i]:
                    break
        return returns

    def resampled(self, values: Floats, weights: Floats | None = None) -> float:
        """The mean over resamples of the (weighted) mean of some numbers."""
        if weights is None:
            return float(self._rng.choice(values, size=(RESAMPLES, values.size), replace=True).mean())
        chosen = self._rng.choice(np.arange(values.size), size=(RESAMPLES, values.size), replace=True)
        each = (weights[chosen] * values[chosen]).sum(axis=1) / weights[chosen].sum(axis=1)
        return float(each.mean())

    def _episodes(self, chances: Floats, n: int) -> PatientLog:
        below = cumulative(chances)
        states, actions = np.full((n, STEPS + 1), -1), np.full((n, STEPS), -1)
        outcome = np.zeros(n, dtype=np.int64)
        self._newcomer()  # the released simulator draws one patient and does not use it
        for i in range(n):
            patient = self._newcomer()
            states[i, 0] = _state(patient)
            for t in range(STEPS):
                action = self._pick(below[states[i, t]])
                self._fluctuate(patient, self._treat(patient, action))
                actions[i, t], states[i, t + 1] = action, _state(patient)
                outcome[i] = self._outcome[states[i, t + 1]]
                if outcome[i]:
                    break
        return PatientLog(states, actions, outcome)

    def _newcomer(self) -> list[int]:
        """A patient who is neither dead nor discharged, untreated."""
        while True:
            diabetic = int(self._rng.binomial(1, 0.2))
            signs = (FIRST_LEVELS, FIRST_LEVELS, FIRST_OXYGEN, FIRST_GLUCOSE[diabetic])
            patient = [diabetic, *(self._pick(cumulative(np.array(one))) for one in signs), 0, 0, 0]
            if not self._outcome[_state(patient)]:
                return patient

    def _treat(self, patient: list[int], action: int) -> set[int]:
        """Antibiotics, ventilation, vasopressors, in this order; returns the signs that none of them touches.

        A draw is made only if something can change.
        """
        abx, vent, vaso = action >> 2 & 1, action >> 1 & 1, action & 1
        free = {_HR, _BP, _OXYGEN, _GLUCOSE}
        if abx or patient[_ABX]:
            before, after, chance = (2, 1, 0.5) if abx else (1, 2, 0.1)
            for sign in (_HR, _BP):
                if patient[sign] == before and self._happens(chance):
                    patient[sign] = after
            free -= {_HR, _BP}
        if vent or patient[_VENT]:
            before, chance = (0, 0.7) if vent else (1, 0.1)
            if patient[_OXYGEN] == before and self._happens(chance):
                patient[_OXYGEN] = 1 - before
            free -= {_OXYGEN}
        if vaso:
            self._raise_pressure(patient)
            free -= {_BP, _GLUCOSE}
        elif patient[_VASO]:
            if self._happens(0.05 if patient[_DIABETIC] else 0.1):
                patient[_BP] = max(0, patient[_BP] - 1)
            free -= {_BP}
        patient[_ABX], patient[_VASO], patient[_VENT] = abx, vaso, vent
        return free

    def _raise_pressure(self, patient: list[int]) -> None:
        pressure = patient[_BP]
        if not patient[_DIABETIC]:
            if self._happens(0.7):
                patient[_BP] = min(2, pressure + 1)
            return
        if pressure < 2:
            by_one, by_two = ((0.9, 0.9), (0.5, 0.9))[pressure == 0]
            u = self._rng.random_sample()
            patient[_BP] += int(u < by_one) or 2 * int(u < by_two)
        if self._happens(0.5):
            patient[_GLUCOSE] = min(4, patient[_GLUCOSE] + 1)

    def _fluctuate(self, patient: list[int], free: set[int]) -> None:
        """Change the signs that no treatment touches; by mistake, glucose of non-diabetic patients rises to low at most."""
        tops = {_HR: 2, _BP: 2, _OXYGEN: 1, _GLUCOSE: 4 if patient[_DIABETIC] else 1}
        for sign, top in tops.items():
            if sign in free:
                chance = 0.3 if sign == _GLUCOSE and patient[_DIABETIC] else 0.1
                u = self._rng.random_sample()
                if u < chance:
                    patient[sign] = max(0, patient[sign] - 1)
                elif u < 2 * chance:
                    patient[sign] = min(top, patient[sign] + 1)

    def _happens(self, chance: float) -> bool:
        return bool(self._rng.random_sample() < chance)

    def _pick(self, below: Floats) -> int:
        return pick(below, self._rng.random_sample())


def _state(patient: list[int]) -> int:
    """The state's index."""
    return int(np.ravel_multi_index(patient, SHAPE))
