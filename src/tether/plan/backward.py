"""Backward induction: V_t(s, c) for one k or for all of them, layer by layer.

A (k, m)-CF policy (the paper's Definition 5) maximises the expected return of the counterfactual MDP
among policies that take allowed pairs only (`tether.influence.rules`) and change at most m actions:

    V_t(s, c) = max over allowed a of R + γ·Σ_s' P_cf,t(s'|s,a)·V_{t+1}(s', c - [a ≠ a_t])        c ≥ 0

with V_T the final reward and -∞ where nothing is allowed. One backward pass gives every c; ties go to
the observed action, then to the lowest index, so that nothing is changed without reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._kernels.parallel import CHUNKS, use_cores
from tether._kernels.scratch import room
from tether._types import Floats, Ints
from tether.counterfactual.conditioned import CounterfactualMDP
from tether.influence.rules import Nodes, Thresholds, layer_rows, run_count
from tether.observation.earned import model_return

if TYPE_CHECKING:
    from tether._kernels.layer import LayerNodes, LayerRows
    from tether._kernels.plan import Limits, Objective, Scratch, Values
    from tether.model.mdp import MDP

__all__ = ["Solved", "choice_type", "observed_value", "solve_backward"]


def observed_value(cf: CounterfactualMDP) -> float:
    """Return of the observed path; expected, for a last step whose outcome was not recorded."""
    return model_return(cf.mdp, cf.observation)


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """What backward induction found.

    ``values[i, c]`` is V_0(s_0, c) for the i-th k. Where choices were kept, ``choices[t][node, c]`` is the number of
    the chosen pair among those of the node's state.
    """

    values: Floats
    nodes: tuple[Nodes, ...]
    choices: tuple[Ints, ...]


def solve_backward(
    found: Thresholds,
    ks: Ints,
    m: int,
    *,
    keep: bool = False,
    bonus: tuple[Floats, ...] | None = None,
    rewarded: bool = True,
) -> Solved:
    """Backward induction over the nodes that s_0 can reach, for each of ``ks`` (ascending) and c = 0 … m changes.

    ``keep`` keeps the choices, of a single k. ``bonus`` is added to the rewards of each step's edited rows,
    for trade-offs; without ``rewarded`` it is all there is.
    """
    from tether._kernels.plan import Limits, Objective, Values, scratch_for

    graph, mdp, T = found.graph, found.graph.mdp, found.graph.T
    index_of_k = np.searchsorted(ks, np.arange(T + 3)).astype(np.int16)
    kept, first_k = _worth_planning(found, ks, index_of_k)
    nodes = tuple(layer.only(which) for layer, which in zip(found.nodes, kept, strict=True))
    rows_of_values = run_count(found.nodes) * mdp.n_states * ks.size
    touched = max(layer.size for layer in nodes) * ks.size
    layers = [room((rows_of_values, _columns(m, left)), np.float64, touched=touched).reshape(-1) for left in (T, T - 1)]
    final = None if mdp.final_reward is None or not rewarded else mdp.final_reward
    after = layers[T % 2][: rows_of_values * _columns(m, 0)]
    _write_final_values(after, final, nodes[T], mdp.n_states, ks.size * _columns(m, 0))
    scratch, stride = scratch_for(mdp.n_actions, CHUNKS)
    choices: list[Ints] = []
    with np.errstate(invalid="ignore"):  # with the JIT off NumPy warns of 0·(-∞); the kernel knows what it means
        for t in range(T - 1, -1, -1):
            left = T - t  # steps, and so changes, that can still be made
            choice = np.empty((nodes[t].size, min(m, left) + 1 if keep else 0), dtype=choice_type(mdp))
            before = layers[t % 2][: rows_of_values * _columns(m, left)]
            reward = mdp.rewards.at(t) if rewarded else np.zeros_like(mdp.rewards.at(t))
            _backward_step(
                nodes[t].arguments(mdp.n_states),
                layer_rows(graph, t, found.influenced[t]),
                Limits(found.kappa[t], found.offsets[t][kept[t]], index_of_k, first_k[t], ks.size),
                Objective(
                    reward,
                    mdp.rewards.by_entry,
                    np.empty(0) if bonus is None else bonus[t],
                    mdp.discount,
                    int(graph.observation.actions[t]),
                ),
                Values(after, _columns(m, left - 1), before, _columns(m, left), choice),
                scratch,
                stride,
            )
            after = before
            choice.flags.writeable = False
            choices.append(choice)
    start = int(graph.observation.states[0])
    first = after.reshape(-1, mdp.n_states, ks.size, _columns(m, T))[0, start]
    return Solved(first[:, : m + 1].copy(), nodes, tuple(reversed(choices)))


def _columns(m: int, left: int) -> int:
    """Columns of V with so many steps left, one for each number of changes: a multiple of four, as the kernel wants."""
    return (min(m, left) // 4 + 1) * 4


def choice_type(mdp: MDP) -> type[np.signedinteger[Any]]:
    """The smallest integer that can number the actions of a state; choices are the bulk of a large plan."""
    return np.int8 if mdp.n_actions < 128 else np.int16


def _worth_planning(found: Thresholds, ks: Ints, index_of_k: Ints) -> tuple[list[Ints], list[Ints]]:
    """Positions of the nodes of each layer that some of ``ks`` reaches, and the index of the first k that does.

    For a single k that index says nothing and is left out; nodes that no allowed pair leads to may then be among
    them where a layer is so large that finding out would cost as much as planning for them.
    """
    if ks.size == 1:
        return found.within(int(ks[0])), [np.empty(0, np.int16)] * found.graph.T
    kept = [np.flatnonzero(reach <= ks[-1]) for reach in found.reach]
    T = found.graph.T
    return kept, [index_of_k[np.minimum(found.reach[t][kept[t]], T + 2)] for t in range(T)]


def _backward_step(
    nodes: LayerNodes,
    rows: LayerRows,
    limits: Limits,
    goal: Objective,
    values: Values,
    scratch: Scratch,
    stride: int,
) -> None:
    """One layer of backward induction, on all cores where the layer is large; see `tether._kernels.plan`."""
    from tether._kernels.plan import plan_layer, plan_layer_parallel

    if not use_cores(nodes.states.size):
        plan_layer(nodes, rows, limits, goal, values, scratch)
    else:
        plan_layer_parallel(nodes, rows, limits, goal, values, scratch, stride, CHUNKS)


def _write_final_values(values: Floats, final_reward: Floats | None, nodes: Nodes, n_states: int, width: int) -> None:
    """V_T(s, c): the same in each of the ``width`` columns, one for each k and c."""
    final = np.zeros(nodes.size) if final_reward is None else final_reward[nodes.states]
    rows = nodes.states if nodes.runs is None else nodes.runs.astype(np.int64) * n_states + nodes.states
    values.reshape(-1, width)[rows] = final[:, None]
