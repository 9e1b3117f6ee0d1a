"""Sepsis patients of whom nobody knows who has diabetes: the paper's motivating example, as two types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tether._foundation.markup import Displayed
from tether.cases.sepsis import describe, is_death, is_discharge, sepsis
from tether.mdp import MDP
from tether.model.several_types import Types
from tether.observation.path import Path

_SHARE = {"not diabetic": 0.8, "diabetic": 0.2}
"""The paper's: one patient in five has diabetes."""

_UNCLEAR = [777, 788, 788, 788]
"""Of a diabetic patient, by index in the model that knows: antibiotics in place of ventilation, and death."""


class PatientState(NamedTuple):
    """A patient's vital signs and treatments, without what nobody recorded."""

    heart_rate: str
    systolic_bp: str
    oxygen: str
    glucose: str
    antibiotics: bool
    vasopressors: bool
    ventilation: bool

    def in_words(self, parts: Iterable[str]) -> str:
        """Some parts of the state in words."""
        return describe(self, parts)

    def __str__(self) -> str:
        return describe(self, self._fields)


@dataclass(frozen=True, slots=True, eq=False)
class TypedCase(Displayed):
    """Models of several hidden types, and the paths observed.

    Attributes
    ----------
    name : str
    types : Types
    paths : mapping of str to Path
    stories : mapping of str to str
        What happened on each path.
    noun : str
        What an episode is about.

    Examples
    --------
    >>> import tether
    >>> tether.cases.hidden_diabetes().types
    <Types: not diabetic 80 %, diabetic 20 %>
    """

    name: str
    types: Types
    paths: Mapping[str, Path]
    stories: Mapping[str, str]
    noun: str = "patient"

    @property
    def path(self) -> Path:
        """The first path."""
        return next(iter(self.paths.values()))


def hidden_diabetes() -> TypedCase:
    """The sepsis model as two types of patients, with 720 states each, and one patient in five diabetic.

    The paths are those of `tether.cases.sepsis`, of diabetic patients, with the diabetes left out; and one more, after
    which it is not clear who the patient was.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.hidden_diabetes()
    >>> cf = tether.counterfactual(case.types, case.path)
    >>> {name: round(share, 3) for name, share in cf.posterior.items()}
    {'not diabetic': 0.0, 'diabetic': 1.0}
    >>> round(cf.plan(m=2).value, 1)
    -3981.7
    >>> unclear = tether.counterfactual(case.types, case.paths["unclear"])
    >>> round(unclear.posterior["diabetic"], 2)
    0.43
    """
    full = sepsis()
    types = split_by_diabetes(full.mdp)
    names = first_model(types).states
    paths = {
        name: Path([names[full.mdp.state_index(state) % 720] for state in path.states], path.actions)
        for name, path in full.paths.items()
    }
    done = [full.mdp.actions[4], full.mdp.actions[0], full.mdp.actions[0]]
    paths["unclear"] = Path([names[state % 720] for state in _UNCLEAR], done)
    stories = {name: story.replace("A diabetic patient", "A patient") for name, story in full.stories.items()}
    stories["unclear"] = "A patient on ventilation got antibiotics in its place, and died at step 1."
    return TypedCase("hidden diabetes", types, paths, stories)


def split_by_diabetes(full: MDP) -> Types:
    """The two populations of a model of sepsis as types, over the 720 states without the diabetes flag."""
    form, half = full.form, full.n_states // 2
    names = [PatientState(*tuple(label)[1:]) for label in full.states[:half]]
    owner = np.repeat(np.arange(full.n_pairs), np.diff(form.row_start))
    states, actions = owner // full.n_actions, owner % full.n_actions
    labels = {"died": is_death()[:half], "discharged": is_discharge()[:half]}
    models = {}
    for z, name in enumerate(_SHARE):
        own = states // half == z
        rows = states[own] % half, actions[own], form.next_state[own] % half, form.probability[own]
        mdp = MDP.from_table(*rows, form.rewards.values[owner[own]]).with_names(states=names, actions=full.actions)
        models[name] = mdp.with_labels(labels, good="discharged", bad="died")
        if full.final_reward is not None:
            models[name] = models[name].with_objective(final_reward=full.final_reward[:half])
    return Types(models, prior=_SHARE)


def first_model(types: Types) -> MDP:
    """The model of the first type: all have the same names."""
    found = next(iter(types.models.values()))
    assert isinstance(found, MDP)
    return found
