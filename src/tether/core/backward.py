"""Backward induction over all layers of a batch: the best value of each episode for every k and c, and the choices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints
from tether._kernels.scratch import scratch_array
from tether.core.batch import NO_EDITS, NO_RUNS, Layer, Model, Nodes, Reached, Steps, at_time
from tether.core.plan import ROUNDING, Goal, Limits, Numbers, OnPath, plan_layer

RewardsOf = Callable[[int, Layer, Any], tuple[Floats, Floats]]
"""Expected rewards at time t for a part of a layer, with its edits by number: of the pairs of the model, at least those
of its nodes, and of its edited pairs."""

_EVERY_PAIR = np.empty(0, np.int16)
_NOWHERE = np.empty(0, np.bool_)
_NO_PRICE = np.empty(0)
_NO_REWARDS = np.empty(0), np.empty(0)


class UncertainError(Exception):
    """An observed pair does not have its observed outcome for certain, at time ``t``."""

    def __init__(self, t: int) -> None:
        super().__init__(t)
        self.t = t


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """What is to be solved on the layers of a batch.

    Attributes
    ----------
    kappa : for each time, κ of the pairs of the layer; empty where all pairs are allowed
    ks : ascending; the k to solve for
    m : how many changes, at most the length of the longest episode
    rewards, final, discount : what a step, and the end, are worth; ``final`` by the time of the end, one row if that
        does not matter
    ends : the time at which the path of each episode ends: T_b, or earlier where a property is decided on it
    with_runs : nodes have runs: then a larger k may allow more at any time
    price_at : what taking each pair of the model costs if that is a change, at a time, at least for the pairs of a
        part of the layer; None for nothing
    rounding : values are tied if they differ by less than this times their size
    least, free : for each time, how many changes must be left to take each pair, and the nodes where any action may be
        taken if the observed one is not available; None for no such limit, and no such node
    left : for each layer, the most changes that can be left at each node (`tether.core.changes_left`): what no
        plan needs is not computed; None for all m everywhere
    """

    model: Model
    steps: Steps
    layers: Sequence[Reached]
    kappa: list[Ints]
    ks: Ints
    m: int
    rewards: RewardsOf
    final: Floats
    discount: float
    ends: Ints
    with_runs: bool = False
    price_at: Callable[[int, Layer], Floats] | None = None
    rounding: float = ROUNDING
    least: list[Ints] | None = None
    free: list[Flags] | None = None
    left: list[Ints] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Choices:
    """What is chosen at one time: the number of a pair among those of its state, -1 if nothing is allowed.

    ``of_node[node, i * columns + c]`` for the i-th k with c changes left; ``on_path[b, i]`` on the observed path of
    episode b, with all m left. From some k on all k allow the same: only the first of these has columns.
    """

    of_node: Ints
    on_path: Ints
    columns: int

    def of_k(self, episode: Ints, which: Ints) -> Choices:
        """What is chosen for one k of each episode, by number; ``episode`` is that of each node."""
        n, width = self.of_node.shape
        each = self.of_node.reshape(n, width // self.columns, self.columns)
        of_node = each[np.arange(n), np.minimum(which[episode[:n]], each.shape[1] - 1)]
        return Choices(of_node, np.take_along_axis(self.on_path, which[:, None], axis=1), self.columns)


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """``values[b, i, c]`` is V_0 of episode b for the i-th k and c changes; the choices at each time, if kept."""

    values: Floats
    choices: list[Choices]


def solve(problem: Problem, *, keep: bool = False, progress: Callable[[int, int], None] | None = None) -> Solved:
    """Backward induction from the end; ``keep`` keeps the choices for every k."""
    model, steps, layers, m = problem.model, problem.steps, problem.layers, problem.m
    T, B, n_ks = len(layers) - 1, len(steps), int(problem.ks.size)
    index_of_k = np.searchsorted(problem.ks, np.arange(T + 3)).astype(np.int64)
    value, known = _path_ends(problem, n_ks)
    most = max(int(np.diff(layer.nodes.offsets).max(initial=0)) for layer in layers)
    number: Any = np.int8 if most < 127 else np.int32
    choices: list[Choices] = []
    after, numbers_after = np.empty((0, 4)), Numbers(1, 1, 0)
    after_nodes = Layer(
        Nodes(np.zeros(B + 1, np.int64), np.empty(0, np.int32), NO_RUNS, np.zeros(1, np.int64)), NO_EDITS
    ).nodes
    for t in range(T, -1, -1):
        layer = layers[t]
        numbers = _numbers(problem, T, t, int(index_of_k[T - t + 1]), n_ks, sized=keep and m > 1)
        before: Floats = scratch_array((layer.size, numbers.width), np.float64, touched=layer.size)
        going = steps.at(t)
        going[t >= problem.ends] = -1
        is_last, final = t == T, at_time(problem.final, t)
        chosen = np.full((B, n_ks), -1, np.int64)
        pair, outcome = (
            np.where(going >= 0, column[np.maximum(going, 0)], -1) for column in (steps.pair, steps.outcome)
        )
        path = OnPath(pair, outcome, known, value, chosen, m, T - t)
        kept = layer.size if keep and not is_last and m else 0
        of_node = np.full((kept, numbers.n_ks * numbers.columns), -1, number)
        if m == 0:  # only the path counts; other nodes matter where a path ends
            before[:] = final[layer.nodes.states][:, None]
        observed, kappa = steps.item(steps.action, t), _EVERY_PAIR if is_last else problem.kappa[t]
        certain = True
        for nodes, edits, part in layer.parts(_wanted(problem, layer, observed, numbers, path)):
            worth = _NO_REWARDS if is_last else problem.rewards(t, part, edits)
            price = _NO_PRICE if problem.price_at is None or is_last else problem.price_at(t, part)
            goal = Goal(*worth, final, problem.discount, observed, price, problem.rounding)
            offsets = layer.nodes.offsets
            pairs = slice(offsets[nodes.start], offsets[nodes.stop])
            least, free, left = (
                _at(problem.least, t, is_last, pairs, _EVERY_PAIR),
                _at(problem.free, t, is_last, nodes, _NOWHERE),
                _at(problem.left, t, is_last, nodes, _EVERY_PAIR),
            )
            limits = Limits(kappa[pairs] if kappa.size else kappa, index_of_k, least, free, left)
            certain &= plan_layer(
                model, part, after_nodes, limits, goal, before[nodes], numbers, after, numbers_after, of_node[nodes],
                path if part is layer else _in_part(model, part, path), m > 0,
            )  # fmt: skip
        if not certain:
            raise UncertainError(t)
        if keep and not is_last:
            choices.append(Choices(of_node, chosen, numbers.columns))
        after, numbers_after, after_nodes = before, numbers, layer.nodes
        if progress is not None and not is_last:
            progress(T - t, T)
    return Solved(_first_values(problem, after, numbers_after, value, n_ks), choices[::-1])


def _at(of_layers: list[Any] | None, t: int, is_last: bool, part: slice, none: Any) -> Any:
    """The numbers of a part of layer t, if there are any."""
    return none if of_layers is None or is_last else of_layers[t][part]


def _numbers(problem: Problem, T: int, t: int, last_k: int, n_ks: int, *, sized: bool) -> Numbers:
    """The numbers of a node at time t. Without runs every k ≥ T - t + 1 allows the same: one of them is enough."""
    n_ks = n_ks if problem.with_runs else min(n_ks, 1 + last_k)
    return Numbers(n_ks, max(1, min(problem.m, T - t + 1)), int(sized))


def _wanted(problem: Problem, layer: Reached, observed: Ints, numbers: Numbers, path: OnPath) -> Ints | None:
    """The edits that planning needs, by number; None for all of them.

    With no change left off the path, these are the edits of the observed action and of the state on the path; and of
    absorbing states without that action.
    """
    if numbers.columns > 1 or isinstance(layer, Layer):
        return None
    model, node = problem.model, layer.node_of(layer.position)
    states, pairs = layer.nodes.states[node], layer.pairs(problem.model, layer.position)
    on_path = np.searchsorted(model.pair_start, path.pair[0], side="right") - 1
    free = np.ones(layer.size, np.bool_)
    free[layer.node_of(np.flatnonzero(model.pair_action[layer.pairs(model)] == observed[0]))] = False
    return np.flatnonzero((model.pair_action[pairs] == observed[0]) | (states == on_path) | free[node])


def _in_part(model: Model, part: Layer, path: OnPath) -> OnPath:
    """The path of an episode, for a part of its layer: it has ended for parts that do not have its node."""
    state = np.searchsorted(model.pair_start, path.pair[0], side="right") - 1
    return path if state in part.nodes.states else path._replace(pair=np.full(1, -1))


def _path_ends(problem: Problem, n_ks: int) -> tuple[Floats, Ints]:
    """V at the end of each observed path, and whether it is known: not where the last outcome was not recorded."""
    steps, ends = problem.steps, problem.ends
    last = np.where(ends > 0, steps.outcome[np.maximum(steps.start[:-1] + ends - 1, 0)], -1)
    known = (last >= 0).astype(np.int64)
    value = np.zeros((len(steps), n_ks))
    some = np.flatnonzero(last >= 0)
    time = np.minimum(ends[some], len(problem.final) - 1)
    value[some] = problem.final[time, last[some]][:, None]
    return value, known


def _first_values(problem: Problem, values: Floats, numbers: Numbers, on_path: Floats, n_ks: int) -> Floats:
    first, m = problem.layers[0].nodes.first[:-1], problem.m
    found = np.empty((len(problem.steps), n_ks, m + 1))
    if m:
        used = values[first, numbers.sized : numbers.sized + numbers.n_ks * numbers.columns]
        table = used.reshape(first.size, numbers.n_ks, numbers.columns)
        index = np.minimum(np.arange(n_ks), numbers.n_ks - 1)
        found[:, :, :m] = table[:, index][:, :, np.minimum(np.arange(m), numbers.columns - 1)]
    found[:, :, m] = on_path
    return found
