"""An epidemic in a small population, with a stock of vaccine (the paper's appendix).

A state is (S, I, V): susceptible, infected, vaccines left. The actions are to do nothing (NIL), or to remove one
infected (V_I) or one susceptible (V_S) person by vaccination. The number of new infections is then hypergeometric. The
reward is minus the number of infected.

The model of ten people has 2,541 states, and all are listed. That of two hundred people has sixteen million; an episode
can reach a few thousand of them, and only these are explored.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import comb
from typing import NamedTuple

from tether._foundation.words import counted
from tether.cases.case import Case
from tether.errors import QueryError
from tether.mdp import MDP
from tether.observation.path import Path

_POPULATION, _STEPS = 10, 7
_WORDS = {"NIL": "do nothing", "V_I": "vaccinate an infected person", "V_S": "vaccinate a susceptible person"}


class EpidemicState(NamedTuple):
    """(S, I, V): susceptible, infected, vaccines left; equal to the plain tuple."""

    S: int
    I: int
    V: int

    def __repr__(self) -> str:
        return f"({self.S}, {self.I}, {self.V})"


def epidemic(*, population: int = _POPULATION, steps: int = _STEPS) -> Case:
    """The paper's outbreak: population 10, 20 doses, 2,541 states (S, I, V) with V fastest; or a larger one.

    Two conventions of the released table are kept, because the published sizes depend on them. Neither changes the
    states that an episode of seven steps can reach. First, states with S + I > 10 are in the table; their rows are cut
    off at I ≤ 10 and normalised. Second, an empty population has no rows, and no action empties the population: the
    hypergeometric distribution is not defined for nobody.

    The observed outbreak had no vaccination for seven steps. The label ``over`` has the states without infected people.

    Parameters
    ----------
    population : int
        How many people: one of them is infected, and there are two doses per person. If it is not 10, the model has
        only the states that such an episode can reach.
    steps : int
        Length of the episode. If it is not 7, the model also has only the states that the episode can reach. The
        observed outbreak then takes the most probable step each time.

    Examples
    --------
    >>> import tether
    >>> epidemic = tether.cases.epidemic()
    >>> epidemic.mdp.actions_in((9, 1, 20))
    ('NIL', 'V_I', 'V_S')
    >>> epidemic.mdp.row((9, 1, 20), "NIL")
    (((8, 2, 20), (9, 1, 20)), array([0.9, 0.1]))
    >>> tether.cases.epidemic(population=50, steps=4)  # of 262,701 states in all
    <Case epidemic: 84 states, 3 actions; paths observed>
    """
    for name, value, least in (("population", population, 2), ("steps", steps, 1)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise QueryError(f"{name} must be a whole number ≥ {least}, not {value!r}")
    if (population, steps) == (_POPULATION, _STEPS):
        observed = [(9, 1), (8, 2), (7, 3), (4, 6), (2, 8), (1, 9), (1, 9), (1, 9)]
        states = [EpidemicState(S, I, 2 * _POPULATION) for S, I in observed]
        return _case(_labelled(_listed()), Path(states, ["NIL"] * _STEPS))
    states = _likeliest_course(population, steps)
    mdp = _labelled(_explored(states[0], steps))
    return _case(mdp, Path(states, ["NIL"] * steps))


def _case(mdp: MDP, path: Path) -> Case:
    steps, first, last = counted(path.T, "step"), path.states[0].I, path.states[-1].I
    story = f"Nobody was vaccinated in {steps}; the number of infected people went from {first} to {last}."
    return Case("epidemic", mdp, {"observed": path}, stories={"observed": story}, words=_WORDS, noun="outbreak")


def _labelled(mdp: MDP) -> MDP:
    return mdp.with_labels({"over": lambda state: state.I == 0})


@lru_cache(maxsize=1)
def _listed() -> MDP:
    """The released table, with all states; made once."""
    everyone, doses = range(_POPULATION + 1), range(2 * _POPULATION + 1)
    states = [EpidemicState(S, I, V) for S in everyone for I in everyone for V in doses]
    rows = [
        (state, action, after, chance, -state.I)
        for state in states
        for action in actions(state)
        for after, chance in _within_population(step(state, action)).items()
    ]
    return MDP.from_table(*zip(*rows, strict=True), states=states, actions=["NIL", "V_I", "V_S"])


def _explored(start: EpidemicState, steps: int) -> MDP:
    """The model of the states that can be reached from ``start``."""
    return MDP.from_function(start, actions, step, lambda state, action: -state.I, horizon=steps)


def _likeliest_course(population: int, steps: int) -> list[EpidemicState]:
    """An outbreak without vaccination that takes the most probable step each time."""
    course = [EpidemicState(population - 1, 1, 2 * population)]
    for _ in range(steps):
        outcomes = step(course[-1], "NIL")
        course.append(max(outcomes, key=outcomes.__getitem__))
    return course


def actions(state: EpidemicState) -> list[str]:
    """Available actions: a vaccination needs a person of that kind and a dose; the last person is never removed."""
    people = state.S + state.I
    available = ["NIL"] if people > 0 else []
    if state.I > 0 and state.V > 0 and people > 1:
        available.append("V_I")
    if state.S > 0 and state.V > 0 and people > 1:
        available.append("V_S")
    return available


def step(state: EpidemicState, action: str) -> dict[EpidemicState, float]:
    """Outcomes and probabilities: first the vaccinated person leaves, then the infection spreads."""
    S, I, V = state
    if action == "V_I":
        I, V = I - 1, V - 1
    elif action == "V_S":
        S, V = S - 1, V - 1
    spread = _hypergeometric(S + I, min(S, I), S)
    return {EpidemicState(S - k, I + k, V): chance for k, chance in spread}


def _hypergeometric(M: int, n: int, N: int) -> Iterator[tuple[int, float]]:
    """P(k marked among N drawn from M with n marked) = C(n, k)·C(M - n, N - k) / C(M, N), for each possible k.

    Computed in whole numbers, each from the one before; only the last division rounds.
    """
    least, most, all_ways = max(0, N + n - M), min(n, N), comb(M, N)
    ways = comb(n, least) * comb(M - n, N - least)
    for k in range(least, most + 1):
        yield k, ways / all_ways
        ways = ways * (n - k) * (N - k) // ((k + 1) * (M - n - N + k + 1))


def _within_population(outcomes: dict[EpidemicState, float]) -> dict[EpidemicState, float]:
    kept = {after: chance for after, chance in outcomes.items() if after.I <= _POPULATION}
    if len(kept) == len(outcomes):
        return outcomes
    total = sum(kept.values())
    return {after: chance / total for after, chance in kept.items()}
