"""How much of a model an episode is about: what can be reached from its start, and how much of that it influences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.influence.one_step import influenced_pairs, make_influence


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Coverage:
    """What an episode reaches and influences, step by step.

    Attributes
    ----------
    states : array (T + 1,)
        States that s_0 can reach in t steps of the counterfactual MDP, whatever the actions.
    pairs : array (T,)
        State–action pairs available there.
    influenced : array (T,)
        The pairs among them that the observation influences.
    likelihood : array (T,)
        The probability of the observed outcome in the model; NaN if none was recorded.
    ever : int
        States that are reached at any time.

    Examples
    --------
    >>> import tether
    >>> from tether.influence.coverage import coverage
    >>> grid = tether.cases.grid_world()
    >>> found = coverage(tether.counterfactual(grid.mdp, grid.path))
    >>> found
    <Coverage: 11 steps, 16 states reached, 184 of 512 pairs influenced>
    >>> found.likelihood.round(2)
    array([0.9, 0.9, 0.9, 1. , 1. , 1. , 1. , 1. , 1. , 1. , 1. ])
    """

    states: Ints
    pairs: Ints
    influenced: Ints
    likelihood: Floats
    ever: int

    def __repr__(self) -> str:
        return (
            f"<Coverage: {self.pairs.size} steps, {self.ever:,} states reached, "
            f"{int(self.influenced.sum()):,} of {int(self.pairs.sum()):,} pairs influenced>"
        )


def coverage(cf: CounterfactualRecord, influence: Any = "support") -> Coverage:
    """How much of the model the start of an episode can reach, and how much of that the episode influences."""
    test = make_influence(influence)
    graph, form, seen = cf.graph, cf.mdp.form, cf.observation
    layers = [graph.states(t) for t in range(cf.T + 1)]
    likelihood = np.full(cf.T, np.nan)
    for t in range(cf.T):
        entries = cf.mdp.entries(int(seen.pairs[t]))
        if seen.states[t + 1] >= 0:
            likelihood[t] = form.probability[entries][form.next_state[entries] == seen.states[t + 1]].sum()
    return Coverage(
        np.array([states.size for states in layers]),
        np.array([int(np.sum(form.pair_start[states + 1] - form.pair_start[states])) for states in layers[:-1]]),
        np.array([influenced_pairs(graph, t, test).size for t in range(cf.T)]),
        likelihood,
        int(np.unique(np.concatenate(layers)).size),
    )
