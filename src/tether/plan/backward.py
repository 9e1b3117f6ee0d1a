"""Backward induction: V_t(s, c) for one k or for all of them, layer by layer.

A (k, m)-CF policy (the paper's Definition 5) maximises the expected return of the counterfactual MDP
among policies that take allowed pairs only (`tether.influence.rules`) and change at most m actions:

    V_t(s, c) = max over allowed a of R + γ·Σ_s' P_cf,t(s'|s,a)·V_{t+1}(s', c - [a ≠ a_t])        c ≥ 0

V_T is the final reward, and V is -∞ if nothing is allowed. `tether.observation.changes` says what counts as a change.
One backward pass gives every c. Ties go to the observed action, then to the lowest index, so that nothing is changed
without reason.

With all m changes left nothing was changed yet. So s is the observed state, and the observed action has a certain
outcome there. Column c = m is therefore needed on the observed path alone (`_ObservedPath`). Elsewhere c ≤ m - 1; with
c = 0 only the observed action is taken.

If the objective is a property (`tether.plan.objective`), paths end before T in states that decide it (`Graph.ended`).
Such a state earns its final reward, for every time, k and c.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tether._foundation.arrays import Floats, Ints, places_among
from tether._kernels.parallel import CHUNKS, use_cores
from tether._kernels.scratch import scratch_array
from tether.conditioning.conditioned import CounterfactualMDP
from tether.conditioning.layers import Graph
from tether.conditioning.rows import Rows
from tether.errors import Problem, QueryError
from tether.influence.nodes import Nodes, layer_parts, run_count
from tether.influence.thresholds import Thresholds
from tether.model.form import pair_states
from tether.observation.changes import nothing_to_change
from tether.observation.earned import model_return
from tether.plan.rewards import ExpectedRewards, without_rewards

if TYPE_CHECKING:
    from tether._kernels.layer import LayerNodes, LayerRows
    from tether._kernels.plan import Limits, Objective, Values
    from tether.model.mdp import MDP

__all__ = ["Progress", "Solved", "choice_type", "observed_value", "plan_step", "solve_backward"]

_EVERY_K = np.empty(0, np.int16)
"""Used instead of the index of the first k that reaches each node, if there is only one k."""

Progress = Callable[[int, int], None]
"""Called with the number of time steps that are done, and the number of all."""


def observed_value(cf: CounterfactualMDP) -> float:
    """Return of the observed path; the expected return if the last outcome was not recorded.

    If the objective is a property (`tether.plan.objective`): 1 if it held, 0 if not.
    """
    return model_return(cf.mdp, cf.observation)


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """The result of backward induction.

    ``values[i, c]`` is V_0(s_0, c) for the i-th k. If copies of a model are side by side, ``of_copies`` has the same
    for each copy. If choices were kept, ``choices[t][node, c]`` is the number of the chosen pair among those of the
    node's state. It is -1 if nothing is allowed. It is also -1 for c = m off the observed path, because a plan never
    gets there with all its changes left.
    """

    of_copies: Floats
    nodes: tuple[Nodes, ...]
    choices: tuple[Ints, ...]

    @property
    def values(self) -> Floats:
        """V_0(s_0, c) for each k, of the first copy; mostly there is only one."""
        first: Floats = self.of_copies[0]
        return first


class _Numbers(NamedTuple):
    """How many numbers a node has at some time t, off the observed path.

    There is one number per distinct k and per needed c, and the size of the node, if it has one. The numbers of one
    node begin ``step`` numbers after those of the node before. Kernels read four numbers at a time; with steps of four
    they never read across two lines of the cache.
    """

    n_ks: int
    columns: int
    step: int


@dataclass(frozen=True, slots=True, eq=False)
class _Problem:
    """What is to be solved: for which k and m, on which nodes of each layer, with which rewards.

    ``sized`` is 1 if ties must be distinguished from differences: if choices are kept and m > 1. Otherwise it is 0.
    """

    thresholds: Thresholds
    ks: Ints
    m: int
    sized: int
    numbers: tuple[_Numbers, ...]
    index_of_k: Ints
    kept: list[Ints]
    first_k: list[Ints]
    nodes: tuple[Nodes, ...]
    rewards: ExpectedRewards
    bonus: tuple[Floats, ...] | None

    def of_edits(self, t: int, edits: Rows, at: Ints | slice) -> Floats:
        """Expected rewards of the edited rows of step t at positions ``at``."""
        of_edits = self.rewards.of_edits(t, edits, remember=isinstance(at, slice))
        return of_edits if self.bonus is None else of_edits + self.bonus[t][at]

    def needed(self, t: int) -> Ints | None:
        """Positions of the edited rows that planning needs; None for all of them.

        With no change left, these are the rows of the observed action. In an absorbing state without that action, all
        rows are needed.
        """
        graph = self.thresholds.graph
        form, observed, pairs = graph.mdp.form, int(graph.observation.actions[t]), graph.layers[t].edits.pairs
        if self.numbers[t].columns > 1 or isinstance(graph.layers[t].edits, Rows):
            return None
        states, kept = pair_states(form.pair_start, pairs), self.nodes[t].states
        free = kept[nothing_to_change(form, kept, observed)]
        is_taken = (form.pair_action[pairs] == observed) | np.isin(states, free)
        return np.flatnonzero(is_taken & np.isin(states, kept))

    def offsets(self, t: int) -> Ints:
        """Where the κ of the pairs of each node of layer t begin."""
        offsets, kept = self.thresholds.offsets[t], self.kept[t]
        return offsets[:-1] if kept.size == offsets.size - 1 else offsets[kept]


def solve_backward(
    thresholds: Thresholds,
    ks: Ints,
    m: int,
    *,
    keep: bool = False,
    bonus: tuple[Floats, ...] | None = None,
    rewarded: bool = True,
    progress: Progress | None = None,
) -> Solved:
    """Backward induction over the nodes that s_0 can reach, for each of ``ks`` (ascending) and c = 0 … m ≤ T changes.

    ``keep`` keeps the choices; it needs a single k. ``bonus`` is added to the rewards of each step's edited rows, for
    trade-offs; without ``rewarded`` there are no other rewards. ``progress(done, T)`` is called after each time step;
    an error that it raises ends the induction.
    """
    graph, T = thresholds.graph, thresholds.graph.T
    rewards = ExpectedRewards.of(graph) if rewarded else ExpectedRewards(without_rewards(graph.mdp))
    problem = _problem(thresholds, ks, m, keep, rewards, bonus)
    tables = _Tables(problem, rewarded)
    path = _ObservedPath(problem, tables)
    choices: list[Ints] = []
    number = choice_type(graph.mdp)
    with np.errstate(invalid="ignore", over="ignore"):  # values of forbidden pairs are read, but not used
        for t in range(T - 1, -1, -1):
            shape = problem.nodes[t].size if keep else 0, min(m, T - t) + 1
            choice = np.full(shape, -1, dtype=number)
            rewards_of_pairs = problem.rewards.of_pairs(t, problem.nodes[t].states)
            if problem.numbers[t].columns > 0:
                _solve_layer(problem, t, rewards_of_pairs, tables, choice)
                tables.end(t)
            if m <= T - t and t < graph.end:
                chosen = path.step(t, rewards_of_pairs)
                if keep:
                    choice[_positions(problem.nodes[t], graph, t), m] = chosen
            choice.flags.writeable = False
            choices.append(choice)
            if progress is not None:
                progress(T - t, T)
    values = np.empty((graph.copies, ks.size, m + 1))
    values[..., :m] = tables.read(0, graph.states_of_copies(int(graph.observation.states[0])))[..., :m]
    values[..., m] = path.value
    return Solved(values, problem.nodes, tuple(reversed(choices)))


def plan_step(nodes: LayerNodes, rows: LayerRows, limits: Limits, goal: Objective, values: Values) -> None:
    """One layer of backward induction, on all cores if the layer is large; see `tether._kernels.plan`."""
    from tether._kernels.plan import plan_all_nodes, plan_nodes, scratch_for

    if not use_cores(nodes.states.size):
        scratch, chosen = scratch_for(values, limits.n_ks, 1)
        plan_nodes(nodes, rows, limits, goal, values, 0, nodes.states.size, scratch[0, 0], scratch[0, 1], chosen[0])
    else:
        plan_all_nodes(nodes, rows, limits, goal, values, *scratch_for(values, limits.n_ks, CHUNKS))


def choice_type(mdp: MDP) -> type[np.signedinteger[Any]]:
    """A small integer type that can number the actions of a state; choices are most of the memory of a large plan."""
    return np.int8 if mdp.n_actions <= np.iinfo(np.int8).max else np.int32  # kernels are compiled for each type


def _problem(
    thresholds: Thresholds, ks: Ints, m: int, keep: bool, rewards: ExpectedRewards, bonus: tuple[Floats, ...] | None
) -> _Problem:
    T = thresholds.graph.T
    index_of_k = np.searchsorted(ks, np.arange(T + 3)).astype(np.int16)
    kept, first_k = _worth_planning(thresholds, ks, m, index_of_k)
    nodes = tuple(layer.only(which) for layer, which in zip(thresholds.nodes, kept, strict=True))
    sized = int(keep and m > 1)
    numbers = tuple(_numbers(thresholds, index_of_k[T - t + 1], ks.size, m, sized, t) for t in range(T + 1))
    return _Problem(thresholds, ks, m, sized, numbers, index_of_k, kept, first_k, nodes, rewards, bonus)


def _numbers(thresholds: Thresholds, last_k: int, n_ks: int, m: int, sized: int, t: int) -> _Numbers:
    """The numbers of a node at time t; ``last_k`` is the index of the first k ≥ T - t + 1.

    Larger k allow nothing more, except under `assured`: they share the numbers of this k.
    """
    n_ks = n_ks if thresholds.rule == "assured" else min(n_ks, 1 + int(last_k))
    columns = 1 if t == thresholds.graph.T else min(m, thresholds.graph.T - t + 1)
    used = sized + n_ks * columns
    return _Numbers(n_ks, columns, -(-used // 4) * 4 if used > 2 or sized else used)


def _worth_planning(thresholds: Thresholds, ks: Ints, m: int, index_of_k: Ints) -> tuple[list[Ints], list[Ints]]:
    """Positions of the nodes of each layer that some of ``ks`` reaches, and the index of the first k that does.

    For a single k the index is not needed and left out. In large layers the nodes may then include some that no allowed
    pair leads to: finding them would cost as much as planning for them. With m = 0 only the observed states are reached
    before the end.
    """
    T = thresholds.graph.T
    if m == 0:
        end = thresholds.graph.end
        kept = [_positions(thresholds.nodes[t], thresholds.graph, t) for t in range(end)]
        kept += [np.empty(0, np.int64)] * (T - end)
        return [*kept, np.arange(thresholds.nodes[T].size)], [_EVERY_K] * T
    if ks.size == 1:
        return thresholds.within(int(ks[0])), [_EVERY_K] * T
    kept = [np.flatnonzero(reach <= ks[-1]) for reach in thresholds.reach]
    return kept, [index_of_k[np.minimum(thresholds.reach[t][kept[t]], T + 2)] for t in range(T)]


def _solve_layer(problem: _Problem, t: int, of_pairs: Floats, tables: _Tables, choice: Ints) -> None:
    from tether._kernels.plan import Limits, Objective, Values

    thresholds, nodes = problem.thresholds, problem.nodes[t]
    mdp, observed = thresholds.graph.mdp, int(thresholds.graph.observation.actions[t])
    (ks_after, columns_after, step_after), (n_ks, columns, step) = problem.numbers[t + 1], problem.numbers[t]
    after = tables.layer(t + 1), step_after, columns_after, ks_after
    before = tables.layer(t), step, columns
    offsets, first_k = problem.offsets(t), np.minimum(problem.first_k[t], n_ks - 1)
    kappa = thresholds.kappa[t]
    if kappa.max(initial=0) <= problem.ks[0]:  # every pair is allowed: κ is not needed
        kappa = kappa[:0]
    for part in layer_parts(thresholds.graph, t, nodes, thresholds.influenced[t], needed=problem.needed(t)):
        plan_step(
            part.layer,
            part.rows,
            Limits(kappa, offsets[part.nodes], problem.index_of_k, first_k[part.nodes], n_ks),
            Objective(of_pairs, problem.of_edits(t, part.edits, part.at), mdp.discount, observed),
            Values(*after, *before, problem.sized, choice[part.nodes]),
        )


class _Tables:
    """V of two layers, used in turn; flat over [run, state], as the kernel takes them."""

    def __init__(self, problem: _Problem, rewarded: bool) -> None:
        from tether._kernels.plan import SPARE

        self._problem, self._spare = problem, SPARE
        graph, nodes = problem.thresholds.graph, problem.nodes
        self._n_states, self._T = graph.mdp.n_states, graph.T
        self._rows = run_count(problem.thresholds.nodes) * self._n_states
        touched = max(layer.size for layer in nodes)
        steps = [numbers.step for numbers in problem.numbers]
        used = touched / self._rows
        sizes = [self._rows * max(steps[even::2]) + SPARE for even in (0, 1)]
        self._layers = [scratch_array(size, np.float64, touched=int(used * size)) for size in sizes]
        for array in self._layers:
            array[-SPARE:] = 0.0
        self._final = graph.mdp.final_reward if rewarded else None
        self._ended = graph.ended
        self._write_final(self._T, nodes[self._T].places(self._n_states), nodes[self._T].states)

    def end(self, t: int) -> None:
        """Write V of the states of layer t in which paths end."""
        if self._ended is not None and t > 0:
            states = self._ended.states[t]
            for run in range(self._rows // self._n_states):
                self._write_final(t, states + run * self._n_states, states)

    def _write_final(self, t: int, places: Ints, states: Ints) -> None:
        """Write V of states where the path ends: their final reward, for every k and c."""
        last, table = self.final(states), self._by_node(t)
        where = slice(None) if places.size == len(table) else places
        table[where] = last[:, None]
        if self._problem.sized:
            table[where, 0] = np.abs(last)

    def final(self, states: Ints) -> Floats:
        """The final reward of each of some states."""
        earned: Floats = np.zeros(states.size) if self._final is None else self._final[states]
        return earned

    def layer(self, t: int) -> Floats:
        """All numbers of a layer, and the spare ones."""
        return self._layers[t % 2][: self._rows * self._problem.numbers[t].step + self._spare]

    def _by_node(self, t: int) -> Floats:
        return self.layer(t)[: -self._spare].reshape(self._rows, -1)

    def read(self, t: int, places: Ints) -> Floats:
        """V of some nodes, by place: (node, k, c)."""
        n_ks, columns, _ = self._problem.numbers[t]
        sized = self._problem.sized
        numbers = self._by_node(t)[places, sized : sized + n_ks * columns]
        index_of_k = np.minimum(np.arange(self._problem.ks.size), n_ks - 1)
        return numbers.reshape(len(places), n_ks, columns)[:, index_of_k]


class _ObservedPath:
    """V_t(s_t, m): with all changes left on the observed path, step by step from the end."""

    def __init__(self, problem: _Problem, tables: _Tables) -> None:
        self._problem, self._tables = problem, tables
        graph = problem.thresholds.graph
        self._known = graph.end <= graph.T - max(problem.m, 1)  # whether ``value`` has the values of the next step
        self.value = np.empty((graph.copies, problem.ks.size))
        self._tried = np.empty(graph.mdp.n_actions)
        if self._known:  # the path ends early, in a state that decides the property
            self.value[:] = tables.final(graph.observation.states[graph.end : graph.end + 1])

    def step(self, t: int, of_pairs: Floats) -> Ints:
        """One step back; returns the number of the chosen pair among those of the state, for the first k."""
        from tether._kernels.plan import ROUNDING, Limits, Objective
        from tether._kernels.plan_path import OnPath, ValuesAfter, plan_observed

        problem, thresholds, graph = self._problem, self._problem.thresholds, self._problem.thresholds.graph
        observed = graph.observation
        position = _positions(thresholds.nodes[t], graph, t)
        chosen, offsets = np.empty(position.size, np.int64), thresholds.offsets[t][position]
        n_ks, columns, step = problem.numbers[t + 1]
        after = ValuesAfter(self._tables.layer(t + 1), step, columns, n_ks, problem.sized)
        path = OnPath(
            int(observed.pairs[t] - graph.mdp.form.pair_start[observed.states[t]]),
            graph.states_of_copies(int(observed.states[t + 1])),
            self.value,
            self._known,
            problem.m > 0,
            ROUNDING * (graph.T - t),
            chosen,
            self._tried,
        )
        for part in layer_parts(graph, t, thresholds.nodes[t].only(position), thresholds.influenced[t]):
            limits = Limits(thresholds.kappa[t], offsets[part.nodes], problem.index_of_k, _EVERY_K, problem.ks.size)
            of_edits = problem.of_edits(t, part.edits, part.at)
            goal = Objective(of_pairs, of_edits, graph.mdp.discount, int(observed.actions[t]))
            if not plan_observed(part.layer, part.rows, limits, goal, after, path, part.first):
                message = (
                    "the mechanism does not give the observed action in the observed state its observed outcome for "
                    "certain; every causal model that agrees with the episode does"
                )
                raise QueryError(Problem(message, time=t, place=f"t = {t}"))
        self._known = True
        return chosen


def _positions(nodes: Nodes, graph: Graph, t: int) -> Ints:
    """Position of the observed state among nodes, with a run of 0 uninfluenced steps; for each copy."""
    positions: Ints = places_among(nodes.states, graph.states_of_copies(int(graph.observation.states[t])))
    return positions
