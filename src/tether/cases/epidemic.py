"""An epidemic in a small population, with a stock of vaccine (the paper's appendix).

A state is (S, I, V): susceptible, infected, vaccines left. At each step one may do nothing (NIL) or
take one infected (V_I) or one susceptible (V_S) person out by vaccination; then the number of new
infections is hypergeometric. The reward is minus the number of infected.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import comb
from typing import NamedTuple

from tether.cases.case import Case
from tether.model import MDP
from tether.observation import Path

__all__ = ["EpidemicState", "epidemic"]

_POPULATION = 10


class EpidemicState(NamedTuple):
    """(S, I, V): susceptible, infected, vaccines left; equal to the plain tuple."""

    S: int
    I: int
    V: int

    def __repr__(self) -> str:
        return f"({self.S}, {self.I}, {self.V})"


def epidemic() -> Case:
    """Population 10, 20 doses, 2,541 states (S, I, V) with V fastest.

    Two conventions of the released table are kept because the published sizes count on them; neither
    touches what an episode of seven steps can reach. States with S + I > 10 are in the table, their rows
    cut off at I ≤ 10 and normalised. And an empty population has no rows, nor has the step that would
    empty it: the hypergeometric law of nobody is undefined.

    The observed outbreak was left alone for seven steps.

    Examples
    --------
    >>> import tether
    >>> epidemic = tether.cases.epidemic()
    >>> epidemic.mdp.actions_in((9, 1, 20))
    ('NIL', 'V_I', 'V_S')
    >>> epidemic.mdp.row((9, 1, 20), "NIL")
    (((8, 2, 20), (9, 1, 20)), array([0.9, 0.1]))
    """
    doses = 2 * _POPULATION
    states = [
        EpidemicState(S, I, V) for S in range(_POPULATION + 1) for I in range(_POPULATION + 1) for V in range(doses + 1)
    ]
    rows = [
        (state, action, after, chance, -state.I)
        for state in states
        for action in actions(state)
        for after, chance in _within_population(step(state, action)).items()
    ]
    mdp = MDP.from_table(*zip(*rows, strict=True), states=states, actions=["NIL", "V_I", "V_S"])
    observed = [(9, 1), (8, 2), (7, 3), (4, 6), (2, 8), (1, 9), (1, 9), (1, 9)]
    path = Path([EpidemicState(S, I, doses) for S, I in observed], ["NIL"] * 7)
    return Case("epidemic", mdp, {"observed": path})


def actions(state: EpidemicState) -> list[str]:
    """Actions available: one cannot vaccinate whom, or with what, there is not, nor the last person."""
    people = state.S + state.I
    available = ["NIL"] if people > 0 else []
    if state.I > 0 and state.V > 0 and people > 1:
        available.append("V_I")
    if state.S > 0 and state.V > 0 and people > 1:
        available.append("V_S")
    return available


def step(state: EpidemicState, action: str) -> dict[EpidemicState, float]:
    """Outcomes and probabilities: who is vaccinated leaves first, then the infection spreads."""
    S, I, V = state
    if action == "V_I":
        I, V = I - 1, V - 1
    elif action == "V_S":
        S, V = S - 1, V - 1
    spread = _hypergeometric(S + I, min(S, I), S)
    return {EpidemicState(S - k, I + k, V): chance for k, chance in spread}


def _hypergeometric(M: int, n: int, N: int) -> Iterator[tuple[int, float]]:
    """P(k marked among N drawn from M of which n are marked), for each possible k."""
    for k in range(max(0, N + n - M), min(n, N) + 1):
        yield k, comb(n, k) * comb(M - n, N - k) / comb(M, N)


def _within_population(outcomes: dict[EpidemicState, float]) -> dict[EpidemicState, float]:
    kept = {after: chance for after, chance in outcomes.items() if after.I <= _POPULATION}
    if len(kept) == len(outcomes):
        return outcomes
    total = sum(kept.values())
    return {after: chance / total for after, chance in kept.items()}
