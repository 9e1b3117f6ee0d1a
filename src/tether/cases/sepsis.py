"""Sepsis patients under treatment (Oberst & Sontag, 2019), built from the simulator's rules, exactly.

A patient has four vital signs and up to three treatments. Given the treatments before and after, the four signs change
independently of each other. A sign changes by the rules of the treatments; if there is none for it, it fluctuates. So
a row of the model is the product of four small distributions. Three abnormal signs are death; no abnormal sign, with no
treatment on, is discharge.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether.cases.case import Case
from tether.mdp import MDP
from tether.observation.path import Path

_LEVELS = ("low", "normal", "high")
_OXYGEN = ("low", "normal")
_GLUCOSE = ("very low", "low", "normal", "high", "very high")
SHAPE = (2, 3, 3, 2, 5, 2, 2, 2)
"""Diabetic, heart rate, systolic bp, oxygen, glucose, antibiotics, vasopressors, ventilation; the last is fastest."""

_DEATH, _DISCHARGE = -1000.0, 1000.0

ACTIONS = tuple(
    " + ".join(name for name, on in zip(("antibiotics", "ventilation", "vasopressors"), levels, strict=True) if on)
    or "no treatment"
    for levels in product((0, 1), repeat=3)
)

_STORIES = {
    "catastrophic": (
        "A diabetic patient got ventilation and vasopressors, then antibiotics and ventilation twice, "
        "and died at step 3."
    ),
    "suboptimal": (
        "A diabetic patient got ventilation and vasopressors, then antibiotics and ventilation nine times, "
        "and was still in hospital after ten steps."
    ),
}


_TREATMENTS = ("antibiotics", "vasopressors", "ventilation")


class SepsisState(NamedTuple):
    """A patient's vital signs and treatments."""

    diabetic: bool
    heart_rate: str
    systolic_bp: str
    oxygen: str
    glucose: str
    antibiotics: bool
    vasopressors: bool
    ventilation: bool

    @property
    def abnormal(self) -> int:
        """How many of the four vital signs are not normal: 3 or more is death."""
        signs = (self.heart_rate, self.systolic_bp, self.oxygen, self.glucose)
        return sum(sign != "normal" for sign in signs)

    def in_words(self, parts: Iterable[str]) -> str:
        """Some parts of the state in words."""
        return describe(self, parts)

    def __str__(self) -> str:
        return describe(self, self._fields)


def describe(state: Any, parts: Iterable[str]) -> str:
    """Vital signs and treatments of a state in words: some parts of it, and of the treatments all or none."""
    signs = {"heart_rate": "heart rate", "systolic_bp": "bp", "oxygen": "oxygen", "glucose": "glucose"}
    wanted = set(parts)
    said = [f"{words} {getattr(state, part)}" for part, words in signs.items() if part in wanted]
    said += ["diabetic"] if "diabetic" in wanted and state.diabetic else []
    on = [name for name in _TREATMENTS if getattr(state, name)]
    treated = [f"on {', '.join(on) or 'nothing'}"] if wanted & set(_TREATMENTS) else []
    return "; ".join([", ".join(said)] * bool(said) + treated)


def sepsis() -> Case:
    """1,440 states, 8 treatments (4·antibiotics + 2·ventilation + vasopressors), ten-step paths.

    R(s, a) is the reward of the most likely next state (the paper's choice): -1000 death, -50 two abnormal
    signs, 50 one, 70 none but treated, 1000 discharge. Labels: ``died`` and ``discharged``.

    Examples
    --------
    >>> import tether
    >>> patient = tether.cases.sepsis().paths["catastrophic"]
    >>> print(patient.states[0])
    heart rate low, bp low, oxygen normal, glucose normal, diabetic; on ventilation
    >>> patient.actions[0]
    'ventilation + vasopressors'
    """
    return sepsis_from("sepsis", *transitions())


def sepsis_from(name: str, s: Ints, a: Ints, j: Ints, probability: Floats) -> Case:
    """The sepsis case over given transitions, by index; states that end an episode are always absorbing."""
    ends = np.flatnonzero(is_end())
    live = ~np.isin(s, ends)
    looping = np.repeat(ends, 8)
    s, a, j = (
        np.concatenate((column[live], added))
        for column, added in ((s, looping), (a, np.tile(np.arange(8), ends.size)), (j, looping))
    )
    probability = np.concatenate((probability[live], np.ones(looping.size)))
    order = np.lexsort((j, s * 8 + a))
    s, a, j, probability = s[order], a[order], j[order], probability[order]
    mdp = MDP.from_table(s, a, j, probability, most_likely_reward(s, a, j, probability))
    mdp = mdp.with_names(states=_states(), actions=ACTIONS)
    mdp = mdp.with_labels({"died": is_death(), "discharged": is_discharge()}, good="discharged", bad="died")
    return Case(
        name,
        mdp,
        {
            "catastrophic": _path(mdp, [777, 939, 941, *[949] * 8], [3, 6, 6, *[0] * 7]),
            "suboptimal": _path(mdp, [777, 939, 869, 869, 861, 861, 869, 861, 861, 853, 853], [3, *[6] * 9]),
        },
        stories=_STORIES,
        noun="patient",
    )


def _path(mdp: MDP, states: list[int], actions: list[int]) -> Path:
    return Path([mdp.states[s] for s in states], [mdp.actions[a] for a in actions])


def _states() -> list[SepsisState]:
    return [
        SepsisState(
            bool(diabetic), _LEVELS[hr], _LEVELS[bp], _OXYGEN[o2], _GLUCOSE[gl], bool(abx), bool(vaso), bool(vent)
        )
        for diabetic, hr, bp, o2, gl, abx, vaso, vent in product(*map(range, SHAPE))
    ]


def transitions(*, as_released: bool = False) -> tuple[Ints, Ints, Ints, Floats]:
    """All transitions as columns (state, action, next state, probability); no state is absorbing.

    ``as_released`` has the mistake of the released simulator: glucose of non-diabetic patients that should rise by one
    level becomes at most low.
    """
    n_signs = 3 * 3 * 2 * 5
    columns = []
    for diabetic, was, action in product((0, 1), product((0, 1), repeat=3), range(8)):
        abx, vent, vaso = action >> 2 & 1, action >> 1 & 1, action & 1
        was_abx, was_vaso, was_vent = was
        joint = np.kron(
            np.kron(_heart_rate(abx, was_abx), _systolic_bp(abx, was_abx, vaso, was_vaso, diabetic)),
            np.kron(_oxygen(vent, was_vent), _glucose(vaso, diabetic, as_released)),
        )
        before, after = np.nonzero(joint)
        s = (diabetic * n_signs + before) * 8 + 4 * was_abx + 2 * was_vaso + was_vent
        j = (diabetic * n_signs + after) * 8 + 4 * abx + 2 * vaso + vent
        columns.append((s, np.full(s.size, action), j, joint[before, after]))
    s, a, j, probability = (np.concatenate(column) for column in zip(*columns, strict=True))
    return s, a, j, probability


def _heart_rate(abx: int, was_abx: int) -> Floats:
    if abx:
        return _moves(3, {(2, 1): 0.5})
    if was_abx:
        return _moves(3, {(1, 2): 0.1})
    return _fluctuation(3, 0.1)


def _systolic_bp(abx: int, was_abx: int, vaso: int, was_vaso: int, diabetic: int) -> Floats:
    steps = []
    if abx:
        steps.append(_moves(3, {(2, 1): 0.5}))
    elif was_abx:
        steps.append(_moves(3, {(1, 2): 0.1}))
    if vaso:
        rises = {(1, 2): 0.9, (0, 1): 0.5, (0, 2): 0.4} if diabetic else {(0, 1): 0.7, (1, 2): 0.7}
        steps.append(_moves(3, rises))
    elif was_vaso:
        fall = 0.05 if diabetic else 0.1
        steps.append(_moves(3, {(1, 0): fall, (2, 1): fall}))
    return reduce(np.matmul, steps) if steps else _fluctuation(3, 0.1)


def _oxygen(vent: int, was_vent: int) -> Floats:
    if vent:
        return _moves(2, {(0, 1): 0.7})
    if was_vent:
        return _moves(2, {(1, 0): 0.1})
    return _fluctuation(2, 0.1)


def _glucose(vaso: int, diabetic: int, as_released: bool) -> Floats:
    if vaso:
        return _moves(5, {(level, level + 1): 0.5 for level in range(4)} if diabetic else {})
    if as_released and not diabetic:
        return _moves(5, {(0, 1): 0.1, (1, 0): 0.1, (2, 1): 0.2, (3, 2): 0.1, (3, 1): 0.1, (4, 3): 0.1, (4, 1): 0.1})
    return _fluctuation(5, 0.3 if diabetic else 0.1)


def _moves(n: int, chances: dict[tuple[int, int], float]) -> Floats:
    """A transition matrix with the given moves; otherwise the level stays."""
    matrix = np.zeros((n, n))
    for (before, after), chance in chances.items():
        matrix[before, after] = chance
    matrix[np.diag_indices(n)] = 1.0 - matrix.sum(axis=1)
    return matrix


def _fluctuation(n: int, chance: float) -> Floats:
    """One level up or down with probability ``chance`` each; at an end only one of them."""
    ups = {(level, level + 1): chance for level in range(n - 1)}
    return _moves(n, ups | {(level, level - 1): chance for level in range(1, n)})


def _abnormal() -> Ints:
    """Number of abnormal vital signs of each state."""
    _, hr, bp, o2, gl, *_ = np.unravel_index(np.arange(1440), SHAPE)
    signs: Ints = np.array([hr != 1, bp != 1, o2 != 1, gl != 2])
    counted: Ints = np.count_nonzero(signs, axis=0)
    return counted


def is_death() -> Ints:
    """Whether three or more signs of each state are abnormal."""
    return np.asarray(_abnormal() >= 3)


def is_discharge() -> Ints:
    """Whether no sign of each state is abnormal, and no treatment is on."""
    treatments = np.arange(1440) % 8
    return np.asarray((_abnormal() == 0) & (treatments == 0))


def is_end() -> Ints:
    """Whether each state is death or discharge."""
    return np.asarray(is_death() | is_discharge())


def state_reward() -> Floats:
    """Reward of each state: -1000 death, -50 two abnormal signs, 50 one, 70 none but treated, 1000 discharge."""
    by_abnormal = np.array([70.0, 50.0, -50.0, _DEATH, _DEATH])
    return np.where(is_discharge(), _DISCHARGE, by_abnormal[_abnormal()])


def most_likely_reward(s: Ints, a: Ints, j: Ints, probability: Floats) -> Floats:
    """Reward of the most likely next state of each row; of the first one if several are equal up to rounding."""
    first = np.flatnonzero(np.diff(s * 8 + a, prepend=-1))
    lengths = np.diff(first, append=s.size)
    top = np.repeat(np.maximum.reduceat(probability, first), lengths)
    likeliest = np.where(probability >= top * (1 - 1e-9), np.arange(s.size), s.size)
    winner = np.minimum.reduceat(likeliest, first)
    return np.repeat(state_reward()[j[winner]], lengths)
