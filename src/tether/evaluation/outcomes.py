"""How an episode ends: which states count as outcomes, and how likely each outcome is.

A state is an outcome if it has a label ("died") other than ``init``, or if no action leads out of it. The class of a
labelled state is all states with that label. An absorbing state without a label is a class of its own. A learned model
whose log names the outcomes of its episodes has no others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether.model.labels import name_text
from tether.model.model_record import ModelRecord
from tether.observation.changes import nothing_to_change

UNDER_WAY = "still under way"
"""What is said of an episode that has no outcome yet."""

_NO_ACTION = -1
"""The index of an action that no state has."""


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """A class of outcomes: its name, and its states by index, ascending."""

    name: str
    states: Ints


def absorbing(mdp: ModelRecord, states: Ints) -> Any:
    """Which of ``states`` are absorbing: no action leads out of them."""
    form = mdp.form
    stuck = form.pair_start[states] == form.pair_start[np.asarray(states, np.int64) + 1]
    return stuck | nothing_to_change(form, states, _NO_ACTION)


def is_end(mdp: ModelRecord, states: Ints) -> Any:
    """Which of ``states`` are absorbing, and not only because the records of a log were cut off there."""
    return absorbing(mdp, states) & ~np.isin(states, mdp.cut)


def outcome_of(mdp: ModelRecord, state: int) -> Outcome | None:
    """The class of a state, by index: its first label, or the state itself if it is absorbing; None for other states.

    Examples
    --------
    >>> import tether
    >>> from tether.evaluation.outcomes import outcome_of
    >>> mdp = tether.cases.grid_world().mdp
    >>> outcome_of(mdp, mdp.state_index(15)).name, outcome_of(mdp, mdp.state_index(3))
    ('goal', None)
    """
    for name, members in mdp.label_sets.ends.items():
        if np.isin(state, members):
            return Outcome(name, members)
    here = np.array([state])
    return Outcome(name_text(mdp.states[state]), here) if is_end(mdp, here)[0] else None


def outcome_probabilities(mdp: ModelRecord, states: Ints, probability: Floats) -> dict[str, float]:
    """The probability of each label, and of each absorbing state without a label, from a distribution over states."""
    return {name: float(chance[0]) for name, chance in outcome_chances(mdp, states, probability[None]).items()}


def every_end(mdp: ModelRecord, states: Ints, probability: Floats) -> dict[str, float]:
    """`outcome_probabilities`, and the probability of none of them, so that disjoint outcomes add up to 1.

    Empty for a model without outcomes.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> plan = tether.counterfactual(grid.mdp, grid.path).plan(k=6, m=1)
    >>> {name: round(chance, 2) for name, chance in every_end(grid.mdp, *plan.evaluate().ends).items()}
    {'goal': 0.0, 'danger': 0.07, 'still under way': 0.93}
    """
    found = outcome_probabilities(mdp, states, probability)
    if found:
        names, code = outcome_classes(mdp, states)
        found[UNDER_WAY] = float(probability[code == names.index("")].sum())
    return found


def outcome_chances(mdp: ModelRecord, states: Ints, probability: Floats) -> dict[str, Floats]:
    """The probability of each outcome (label, or absorbing state without one) in each row of ``probability``.

    Each row is a distribution over ``states``.
    """
    found: dict[str, Floats] = {}
    labelled = np.zeros(states.size, dtype=bool)
    for name, members in mdp.label_sets.ends.items():
        has = np.isin(states, members)
        labelled |= has
        found[name] = np.minimum(1.0, probability[:, has].sum(axis=1))
    own = np.flatnonzero(~labelled & np.any(probability > 0, axis=0))
    for i in own[is_end(mdp, states[own])]:
        name = name_text(mdp.states[int(states[i])])
        found[name] = found.get(name, 0.0) + probability[:, i]
    return found


def outcome_classes(mdp: ModelRecord, states: Ints) -> tuple[list[str], Ints]:
    """Names of classes that have no state in common, and the class of each state.

    States with the same labels are one class; an absorbing state without a label is a class of its own; all other
    states are the class "".

    Examples
    --------
    >>> import numpy as np, tether
    >>> from tether.evaluation.outcomes import outcome_classes
    >>> mdp = tether.cases.grid_world().mdp.with_labels({"corner": [0, 15]})
    >>> names, code = outcome_classes(mdp, np.array([0, 1, 6, 15]))
    >>> [names[i] for i in code]
    ['corner', '', 'danger', 'goal, corner']
    """
    names = [""] * states.size
    for name, members in mdp.label_sets.ends.items():
        for i in np.flatnonzero(np.isin(states, members)):
            names[i] = f"{names[i]}, {name}" if names[i] else name
    unlabelled = np.array([i for i, name in enumerate(names) if not name], dtype=np.int64)
    for i in unlabelled[is_end(mdp, states[unlabelled])]:
        names[i] = name_text(mdp.states[int(states[i])])
    found = {name: i for i, name in enumerate(dict.fromkeys([*names, ""]))}
    return list(found), np.array([found[name] for name in names], dtype=np.int64)
