"""A ward in four states: small enough to check by hand, and rich enough for a tether to matter."""

from __future__ import annotations

from tether.cases.case import Case
from tether.mdp import MDP
from tether.observation.path import Path

_LEADS_TO = {
    ("sick", "wait"): {"sick": 0.55, "worse": 0.35, "well": 0.10},
    ("sick", "treat"): {"sick": 0.40, "worse": 0.10, "well": 0.50},
    ("worse", "wait"): {"sick": 0.05, "worse": 0.75, "dead": 0.20},
    ("worse", "treat"): {"sick": 0.30, "worse": 0.55, "dead": 0.15},
}
_DYING = -100.0

_PATIENTS = {
    "patient 10": (["sick", "sick", "sick", "worse", "dead"], ["wait"] * 4),
    "patient 4": (["sick", "worse", "worse", "sick", "well"], ["wait", "treat", "treat", "treat"]),
    "patient 7": (["sick", "sick", "worse", "worse", "dead"], ["treat"] * 4),
    "patient 12": (["sick", "worse", "worse", "worse", "worse"], ["wait", "wait", "wait", "treat"]),
}
_STORIES = {
    "patient 10": "Sick, waited four times, died.",
    "patient 4": "Sick, waited once, was treated three times, and went home well.",
    "patient 7": "Sick, was treated four times, and died.",
    "patient 12": "Sick, waited three times, was treated once, and was still worse.",
}


def ward() -> Case:
    """Patients who are sick, worse, well or dead, and who wait or are treated; well and dead end the stay.

    A made-up model, for first steps. A death counts -100. Labels: ``well`` and ``dead``. Its numbers were chosen so
    that the plan on the shortest tether is about its episode: an illustration, and no evidence that plans usually are.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.ward()
    >>> case.path.states, case.story
    (('sick', 'sick', 'sick', 'worse', 'dead'), 'Sick, waited four times, died.')
    """
    rows = [(pair, after, p) for pair, outcomes in _LEADS_TO.items() for after, p in outcomes.items()]
    mdp = MDP.from_table(
        state=[state for (state, _), _, _ in rows],
        action=[action for (_, action), _, _ in rows],
        next_state=[after for _, after, _ in rows],
        probability=[p for _, _, p in rows],
        reward=[_DYING * (after == "dead") for _, after, _ in rows],
        terminal=["well", "dead"],
    )
    paths = {name: Path(*seen) for name, seen in _PATIENTS.items()}
    return Case("ward", mdp, paths, stories=_STORIES, noun="patient")
