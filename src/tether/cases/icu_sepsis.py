"""ICU-Sepsis (Choudhary, Gupta and Thomas, 2024): patients with sepsis in intensive care, estimated from MIMIC-III."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats
from tether.cases.case import Case
from tether.errors import Problem, QueryError
from tether.mdp import MDP
from tether.observation.path import Path

if TYPE_CHECKING:
    from tether.cases.icu_data import IcuSepsisData

_DEATH, _SURVIVAL, _AFTER = 713, 714, 715
_OVER = [_DEATH, _SURVIVAL, _AFTER]
_NAMES = {_DEATH: "death", _SURVIVAL: "survival", _AFTER: "after the end"}

# Drawn once from the model, its initial states and the expert policy (admissible actions only), and kept.
_PATHS = {
    "death": (
        [13, 109, 521, 306, 306, 664, 664, 10, 542, 542, 534, _DEATH],
        [15, 5, 20, 5, 5, 10, 10, 10, 15, 5, 0],
    ),
}
_STORIES = {"death": "A patient in intensive care was treated in eleven steps, and died."}


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class IcuSepsisCase(Case):
    """A `Case` with the other data of the package.

    Attributes
    ----------
    name, mdp, paths
        As in `Case`.
    expert : array (states, actions)
        The estimated policy of clinicians, as probabilities: a policy for `CounterfactualMDP.evaluate`.
    initial : array (states,)
        The probability that an episode starts in each state.
    admissible : tuple of tuple
        For each state, the names of the actions that were frequent enough to estimate their outcomes.
    sofa : array (states,)
        The mean SOFA score of patients in each state; higher is worse. It is 0 in the terminal states, also in death:
        a mean over time falls when patients die.

    Examples
    --------
    >>> import tether
    >>> icu = tether.cases.icu_sepsis()
    >>> icu, icu.expert.shape
    (<Case icu-sepsis: 716 states, 25 actions; paths death>, (716, 25))
    """

    expert: Floats
    initial: Floats
    admissible: tuple[tuple[Any, ...], ...]
    sofa: Floats


def icu_sepsis(
    data: str | os.PathLike[str] | None = None, *, inadmissible: str = "mean", numbers: bool = False
) -> IcuSepsisCase:
    """716 states, 25 treatments; reward 1 for survival. Needs the data of the package ``icu-sepsis``.

    A treatment is one of five levels of fluids and one of five levels of vasopressors. Death, survival and the state
    after both are absorbing, with no further reward: the episode is over there, and their rows in the data are not
    used. The observed patient dies at the eleventh step. Labels: ``death`` and ``survival``.

    Parameters
    ----------
    data : path, optional
        The directory of the data; by default that of the installed package.
    inadmissible : {"mean", "unavailable"}
        What to do with treatments that were too rare in a state to estimate their outcomes. By default their outcomes
        are the mean of those of the other treatments, as in versions 1 and 2 of the package's environment. Otherwise
        they are not available, and the expert policy is normalised over the available ones. A plan then often has to
        change an action, because the observed one is not available in another state.
    numbers : bool
        Name states and actions by the package's numbers instead of words, as logs of its environment do.

    Examples
    --------
    >>> import tether
    >>> icu = tether.cases.icu_sepsis()
    >>> icu.path.states[-2:], icu.path.actions[0]
    ((534, 'death'), 'fluids 3, vasopressors 0')
    >>> cf = tether.counterfactual(icu.mdp, icu.path)
    >>> cf.evaluate(icu.expert).mean > 0
    True
    """
    from tether.cases.icu_data import read_icu_sepsis

    if inadmissible not in ("mean", "unavailable"):
        message = f"inadmissible= must be 'mean' or 'unavailable', not {inadmissible!r}"
        raise QueryError(Problem(message, value=inadmissible))
    read = read_icu_sepsis(data)
    states, actions = _labels(read.P.shape[0], read.P.shape[1], numbers)
    P, expert = _restricted(read) if inadmissible == "unavailable" else (read.P, read.expert.copy())
    P[_OVER] = 0.0
    expert[_OVER] = np.eye(len(actions))[0]  # a policy needs an action in every state, also after the end
    mdp = MDP.from_arrays(P, read.R, states=states, actions=actions, terminal=[states[s] for s in _OVER])
    mdp = mdp.with_labels({"death": [states[_DEATH]], "survival": [states[_SURVIVAL]]}, good="survival", bad="death")
    paths = {
        name: Path([states[s] for s in visited], [actions[a] for a in taken])
        for name, (visited, taken) in _PATHS.items()
    }
    for array in (expert, read.initial, read.sofa):
        array.flags.writeable = False
    admissible = tuple(tuple(actions[a] for a in there) for there in read.admissible)
    return IcuSepsisCase(
        "icu-sepsis", mdp, paths, expert, read.initial, admissible, read.sofa, stories=_STORIES, noun="patient"
    )


def _labels(n_states: int, n_actions: int, numbers: bool) -> tuple[list[Any], list[Any]]:
    if numbers:
        return list(range(n_states)), list(range(n_actions))
    treatments = [f"fluids {a // 5}, vasopressors {a % 5}" for a in range(n_actions)]
    return [_NAMES.get(s, s) for s in range(n_states)], treatments


def _restricted(read: IcuSepsisData) -> tuple[Floats, Floats]:
    """Only admissible actions: the others have no rows, and the expert policy does not take them."""
    allowed = np.zeros(read.expert.shape, dtype=bool)
    for state, there in enumerate(read.admissible):
        allowed[state, list(there)] = True
    expert = np.where(allowed, read.expert, 0.0)
    total = expert.sum(axis=1, keepdims=True)
    uniform = allowed / allowed.sum(axis=1, keepdims=True)
    return read.P * allowed[:, :, None], np.where(total > 0, expert / np.where(total > 0, total, 1.0), uniform)
