"""Backward induction for one episode: V_t(s, c) for one k or for all of them.

A (k, m)-CF policy (the paper's Definition 5) maximises the expected return of the counterfactual MDP
among policies that take allowed pairs only (`tether.influence.rules`) and change at most m actions:

    V_t(s, c) = max over allowed a of R + γ·Σ_s' P_cf,t(s'|s,a)·V_{t+1}(s', c - [a ≠ a_t])        c ≥ 0

V_T is the final reward, and V is -∞ if nothing is allowed. `tether.observation.changes` says what counts as a change.
The engine (`tether.core.backward`) finds every c in one pass.

If the objective is a property (`tether.plan.objective`), paths end before T in states that decide it (`Graph.ended`).
Such a state earns its final reward, for every time, k and c.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._kernels.scratch import scratch_array
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.conditioning.edited_rows import Rows
from tether.core.batch import Layer, Nodes
from tether.errors import Problem, QueryError
from tether.influence.advisable import Advisable
from tether.influence.kappa import Thresholds
from tether.model.form import model_of
from tether.observation.earned import model_return
from tether.plan.rewards import ExpectedRewards, without_rewards

if TYPE_CHECKING:
    from tether.core.about import Measured
    from tether.core.backward import Problem as EngineProblem
    from tether.core.backward import Solved as EngineSolved

Progress = Callable[[int, int], None]
"""Called with the number of time steps that are done, and the number of all."""

_KEPT = 1 << 26
"""How many choices are kept at a time."""

View = Callable[["EngineProblem"], "EngineProblem"]
"""A problem of the engine, seen in another way."""


def observed_value(cf: CounterfactualRecord) -> float:
    """Return of the observed path; the expected return if the last outcome was not recorded.

    If the objective is a property (`tether.plan.objective`): 1 if it held, 0 if not.
    """
    return model_return(cf.mdp, cf.observation)


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """The result of backward induction.

    ``of_copies[i]`` are the values for the i-th copy of the model (`Graph.copies`). If choices were kept,
    ``choices[t][node, c]`` is the number of the chosen pair among those of the node's state. It is -1 if nothing is
    allowed. It is also -1 for c = m off the observed path, because a plan never gets there with all its changes left.
    """

    of_copies: Floats
    nodes: tuple[Nodes, ...]
    choices: tuple[Ints, ...]

    @property
    def values(self) -> Floats:
        """V_0(s_0, c) for each k, of the first copy; mostly there is only one."""
        first: Floats = self.of_copies[0]
        return first


def solve_backward(
    thresholds: Thresholds,
    ks: Ints,
    m: int,
    *,
    keep: bool = False,
    bonus: tuple[Floats, ...] | None = None,
    rewarded: bool = True,
    advisable: Advisable | None = None,
    view: View | None = None,
    progress: Progress | None = None,
) -> Solved:
    """Backward induction over the nodes that s_0 can reach, for each of ``ks`` (ascending) and c = 0 … m ≤ T changes.

    ``keep`` keeps the choices; it needs a single k. ``bonus`` is added to the rewards of each step's edited rows, for
    trade-offs; without ``rewarded`` there are no other rewards. ``advisable`` has the price of changes: values are then
    less that price. ``view`` changes what is solved (`tether.plan.foresight`). ``progress(done, T)`` is called after
    each time step; an error that it raises ends the induction.
    """
    problem = _problem(thresholds, ks, m, bonus, rewarded, advisable)
    solved = _solve(problem if view is None else view(problem), keep, progress)
    choices = tuple(
        _with_path(thresholds, t, m, one.of_node, one.on_path[:, 0]) for t, one in enumerate(solved.choices)
    )
    return Solved(solved.values, thresholds.nodes, choices)


def measure_backward(
    thresholds: Thresholds,
    ks: Ints,
    m: int,
    *,
    advisable: Advisable | None = None,
    progress: Progress | None = None,
) -> tuple[Floats, Measured]:
    """The values of `solve_backward` and what `tether.core.about` measures of the plans, for each of ``ks`` and c.

    Choices are kept until they are measured, for so many k at a time as there is memory for (`_KEPT`).
    """
    from tether.core.about import Measured

    each = sum(layer.size for layer in thresholds.layers) * (m + 1)
    size = max(1, _KEPT // max(each, 1))
    parts = [_measured(thresholds, ks[i : i + size], m, advisable, progress) for i in range(0, ks.size, size)]
    values, about, std = (np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True))
    return values, Measured(about, std)


def _measured(
    thresholds: Thresholds, ks: Ints, m: int, advisable: Advisable | None, progress: Progress | None
) -> tuple[Floats, Floats, Floats]:
    from tether.core.about import measure

    graph, problem = thresholds.graph, _problem(thresholds, ks, m, None, True, advisable)
    solved = _solve(problem, True, progress)

    def strength_of(t: int, _part: Layer, edits: Any) -> Floats:
        found: Floats = graph.layers[t].edits.strengths()[edits]
        return found

    rewards = graph.mdp.rewards
    return solved.values, *measure(problem, solved.choices, strength_of, rewards.at, rewards.by_entry)


def _problem(
    thresholds: Thresholds,
    ks: Ints,
    m: int,
    bonus: tuple[Floats, ...] | None,
    rewarded: bool,
    advisable: Advisable | None,
) -> EngineProblem:
    from tether.core.backward import Problem as EngineProblem

    graph = thresholds.graph
    mdp = graph.mdp if rewarded else without_rewards(graph.mdp)
    expected = ExpectedRewards.of(graph) if rewarded else ExpectedRewards(mdp)
    model = model_of(graph.mdp.form)

    def rewards(t: int, layer: Layer, edits: Any) -> tuple[Floats, Floats]:
        rows = graph.layers[t].edits
        of_edits = (
            expected.of_rows(t, rows)[edits]
            if isinstance(rows, Rows)  # others are made when they are asked for, and kept nowhere
            else expected.of_edited(t, model, layer)
        )
        return expected.of_pairs(t, layer.nodes.states), of_edits if bonus is None else of_edits + bonus[t][edits]

    return EngineProblem(
        model=model,
        steps=thresholds.steps,
        layers=thresholds.layers,
        kappa=list(thresholds.kappa),
        ks=ks,
        m=m,
        rewards=rewards,
        final=(final_rewards(mdp) if rewarded else scratch_array(mdp.n_states, np.float64))[None],
        discount=graph.mdp.discount,
        ends=np.full(graph.copies, graph.end),
        with_runs=thresholds.rule == "assured",
        price_at=None if advisable is None else advisable.price_at(model),
    )


def _solve(problem: EngineProblem, keep: bool, progress: Progress | None) -> EngineSolved:
    from tether.core import backward as engine

    try:
        with np.errstate(invalid="ignore", over="ignore"):
            return engine.solve(problem, keep=keep, progress=progress)
    except engine.UncertainError as error:
        message = (
            "the mechanism does not give the observed action in the observed state its observed outcome for "
            "certain; every causal model that agrees with the episode does"
        )
        raise QueryError(Problem(message, time=error.t, place=f"t = {error.t}")) from None


def final_rewards(mdp: Any) -> Floats:
    """The final reward of every state; 0 if the model has none."""
    nothing: Floats = scratch_array(mdp.n_states, np.float64)
    return nothing if mdp.final_reward is None else mdp.final_reward


def _with_path(thresholds: Thresholds, t: int, m: int, of_node: Ints, on_path: Ints) -> Ints:
    """Choices with a column for all m changes left, which only the observed path has."""
    graph, nodes = thresholds.graph, thresholds.nodes[t]
    columns = min(m, graph.T - t) + 1
    if columns <= of_node.shape[1] and of_node.shape[0]:
        return of_node[:, :columns]
    choice = np.full((nodes.size, columns), -1, of_node.dtype)
    if of_node.shape[0]:
        choice[:, :-1] = of_node
    there = np.flatnonzero(on_path >= 0)
    state = graph.states_of_copies(int(graph.observation.states[t]))[there]
    choice[np.searchsorted(nodes.states, state), -1] = on_path[there]
    return choice
