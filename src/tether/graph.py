"""The layered graph: which states there are at each time, and which rows differ from the nominal ones.

Rules, plans and evaluations all walk the same kind of graph. Three of them are of use:

- what s_0 can reach in the counterfactual MDP: the one plans are made on (``cf.graph``);
- `everywhere`: every state at every time, for questions about states s_0 cannot reach, and for the
  sizes the paper counts;
- `nominal_rollout`: what s_0 could have reached without the observation, as the paper draws it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tether.form import Ints
from tether.mechanism import ObservedStep, Posterior, Rows
from tether.model import MDP
from tether.observation import Observation

__all__ = ["Graph", "Layer", "everywhere", "meeting", "nominal_rollout", "replay", "successors"]


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """One time step t < T: its states (ascending), its edited rows, and what was observed."""

    states: Ints
    edits: Rows
    observed: ObservedStep


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Layers t = 0 … T-1 and the states at T."""

    mdp: MDP
    observation: Observation
    layers: tuple[Layer, ...]
    last_states: Ints

    @property
    def T(self) -> int:
        """Number of steps."""
        return len(self.layers)

    def states(self, t: int) -> Ints:
        """States at time t = 0 … T."""
        return self.last_states if t == self.T else self.layers[t].states


def replay(mdp: MDP, posterior: Posterior | None, pairs: Ints) -> Rows:
    """Counterfactual rows of ``pairs``; nominal ones where the outcome was not recorded."""
    return Rows.nominal(mdp.form, pairs) if posterior is None else posterior.replay(mdp.form, pairs)


def meeting(mdp: MDP, states: Ints, support: Ints) -> Ints:
    """Pairs of ``states`` whose support meets ``support``, ascending: the only rows that can change."""
    from tether._kernels.gumbel import which_meet

    form = mdp.form
    most = int(np.sum(form.pair_start[states + 1] - form.pair_start[states]))
    met = np.empty(most, dtype=np.int64)
    n = which_meet(states, form.pair_start, form.row_start, form.next_state, support, met)
    return met[:n].copy()


def successors(mdp: MDP, states: Ints, edits: Rows, seen: Ints) -> Ints:
    """States that can follow ``states``, ascending; the same array again where nothing changes.

    ``seen`` is scratch: a byte a state, all 0, touched only where the walk goes.
    """
    from tether._kernels.reach import successors as kernel

    form = mdp.form
    lengths = form.row_start[form.pair_start[states + 1]] - form.row_start[form.pair_start[states]]
    out = np.empty(min(mdp.n_states, int(lengths.sum())), dtype=np.int32)
    n = kernel(
        states,
        form.pair_start,
        form.row_start,
        form.next_state,
        edits.pairs,
        edits.start,
        edits.probability,
        seen,
        out,
    )
    after = np.sort(out[:n])
    if np.array_equal(after, states):
        return states
    after.flags.writeable = False
    return after


def everywhere(graph: Graph, posteriors: tuple[Posterior | None, ...]) -> Graph:
    """Every state of the model at every time."""
    mdp = graph.mdp
    states = np.arange(mdp.n_states, dtype=np.int32)
    layers = []
    for layer, posterior in zip(graph.layers, posteriors, strict=True):
        pairs = meeting(mdp, states, layer.observed.next_state)
        layers.append(Layer(states, replay(mdp, posterior, pairs), layer.observed))
    return Graph(mdp, graph.observation, tuple(layers), states)


def nominal_rollout(graph: Graph) -> Graph:
    """What s_0 can reach under the nominal rows; supports still tell which pairs are influenced."""
    mdp = graph.mdp
    seen = np.zeros(mdp.n_states, dtype=np.uint8)
    states = graph.layers[0].states
    layers = []
    for layer in graph.layers:
        edits = Rows.nominal(mdp.form, meeting(mdp, states, layer.observed.next_state))
        layers.append(Layer(states, edits, layer.observed))
        states = successors(mdp, states, edits, seen)
    return Graph(mdp, graph.observation, tuple(layers), states)
