"""How much of a plan is about its episode: the mean strength of its steps from the first change on.

Strength is how much of a row's probability the observation moves. Before the first change a plan repeats what was done:
these steps say nothing about it. With π the plan, and c_t the changes that are left,

    about = Σ_t E[strength_t ; changed before t or at t] / Σ_t P(changed before t or at t)

It is 1 if nothing is ever changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints
from tether._kernels.jit import kernel, piece
from tether.core.backward import Choices, Problem
from tether.core.batch import Edits, Layer, Model, Nodes
from tether.core.follow import Visits
from tether.core.plan import find_pair, is_absorbing
from tether.core.slots import enter, slots_for, successor

__all__ = ["Measured", "Strengths", "about_episode", "measure", "since_change", "strengths"]


class Strengths(NamedTuple):
    """What is taken at one time: the episode, its probability, its strength; and whether something was changed."""

    episode: Ints
    mass: Floats
    strength: Floats
    since_change: Flags


def about_episode(n: int, steps: Iterable[Strengths]) -> Floats:
    """How much of what is taken is about each of n episodes; see the module."""
    moved, taken = np.zeros(n), np.zeros(n)
    for one in steps:
        some = np.flatnonzero(one.since_change)
        episode, mass = one.episode[some], one.mass[some]
        moved += np.bincount(episode, mass * one.strength[some], minlength=n)
        taken += np.bincount(episode, mass, minlength=n)
    return _ratio(moved, taken)


def strengths(layer: Layer, visits: Visits, of_rows: Floats, most: int) -> Strengths:
    """The strengths of what is taken in a layer; ``of_rows`` has one for each row of its edits, ``most`` is m."""
    strength, edited = np.zeros(visits.node.size), np.flatnonzero(visits.edit >= 0)
    strength[edited] = of_rows[layer.edits.row[visits.edit[edited]]]
    episode = np.searchsorted(layer.nodes.first, visits.node, side="right") - 1
    return Strengths(episode, visits.mass, strength, since_change(visits.changes, visits.changed, most))


def since_change(changes: Ints, changed: Ints, most: int) -> Flags:
    """Whether something was changed before a step, or is changed at it; ``changes`` are those that were left, of m."""
    since: Flags = (changes < most) | (changed > 0)
    return since


def _ratio(moved: Floats, taken: Floats) -> Floats:
    return np.minimum(np.divide(moved, taken, out=np.ones_like(moved), where=taken > 0), 1.0)


class Measured(NamedTuple):
    """Of the plans for every k and m: how much is about the episode, and the standard deviation of the return.

    Both are by episode, k (as in the problem) and m = 0 … the m of the problem.
    """

    about: Floats
    std: Floats


class _Worth(NamedTuple):
    """Rewards of one time, by pair or by entry of the model; strengths of the edits; final rewards; γ."""

    reward: Floats
    by_entry: bool
    strength: Floats
    final: Floats
    discount: float


class _Columns(NamedTuple):
    """How many k there are at one time, and how many changes left for each."""

    n_ks: int
    columns: int


StrengthsOf = Callable[[int, Layer, Any], Floats]
"""Strengths of the edited pairs of a part of the layer at time t, with its edits by number."""


def measure(
    problem: Problem,
    choices: list[Choices],
    strength_of: StrengthsOf,
    reward_at: Callable[[int], Floats],
    by_entry: bool,
) -> Measured:
    """Measure the plans of a solved problem (`tether.core.backward.solve` with ``keep``) for each k and m, in one pass.

    With fewer changes left than m, something was changed: all that follows counts. ``reward_at(t)`` has the rewards by
    pair or by entry of the model.
    """
    model, steps, layers = problem.model, problem.steps, problem.layers
    T, B, K, M = len(layers) - 1, len(steps), int(problem.ks.size), problem.m
    path = np.zeros((B, K, M + 1, 3))
    after, width_after = np.zeros((layers[T].size, 1, 4)), _Columns(1, 1)
    after[:, 0, _VALUE] = problem.final[layers[T].nodes.states]
    for t in range(T - 1, -1, -1):
        layer, chosen = layers[t], choices[t]
        width = _Columns(chosen.of_node.shape[1] // chosen.columns, chosen.columns)
        before = np.zeros((layer.size, width.n_ks * width.columns, 4))
        going = steps.at(t)
        going[t >= problem.ends] = -1
        observed, pair, outcome = (
            np.where(going >= 0, column[np.maximum(going, 0)], -1)
            for column in (steps.action, steps.pair, steps.outcome)
        )
        observed = steps.item(steps.action, t)
        slots = slots_for(layers[t + 1].nodes, model.n_states)
        for nodes, numbers, part in layer.parts():
            worth = _Worth(reward_at(t), by_entry, strength_of(t, part, numbers), problem.final, problem.discount)
            _measure_layer(
                model, part.nodes, part.edits, layers[t + 1].nodes, slots, worth, chosen.of_node[nodes], chosen.on_path,
                width, width_after, before[nodes], after, observed, pair, outcome, path,
            )  # fmt: skip
        after, width_after = before, width
    return Measured(_ratio(path[..., _MOVED], path[..., _STEPS]), np.sqrt(path[..., 2]))


_MOVED, _STEPS, _VALUE, _VARIANCE = 0, 1, 2, 3


@kernel
def _row(model: Model, nodes: Nodes, edits: Edits, node: int, number: int) -> Any:
    """Where the row of a pair is: its place among the edits (-1 if nominal), and the first and last entry."""
    at = nodes.offsets[node] + number
    e = np.searchsorted(edits.position, at)
    if e < edits.position.size and edits.position[e] == at:
        r = edits.row[e]
        return e, edits.start[r], edits.start[r + 1]
    x = model.pair_start[nodes.states[node]] + number
    return -1, model.row_start[x], model.row_start[x + 1]


@kernel
def _expect(
    model: Model, nodes: Nodes, edits: Edits, slots: Ints, worth: _Worth, node: int, number: int, after: Floats,
    column: int, out: Floats,
) -> None:  # fmt: skip
    """The four numbers of taking a pair: strength and steps from here on, value, and variance of the return."""
    s = nodes.states[node]
    x = model.pair_start[s] + number
    e, start, stop = _row(model, nodes, edits, node, number)
    next_state, probability = model.next_state, model.probability
    if e >= 0:
        next_state, probability = edits.next_state, edits.probability
    base = 0
    if nodes.runs.size > 0 and not (e >= 0 and edits.influenced[e] > 0):
        base = (nodes.runs[node] + 1) * (model.pair_start.size - 1)
    moved, steps, value, spread, square = 0.0, 0.0, 0.0, 0.0, 0.0
    for turn in range(2):  # first the mean, then what differs from it
        entry = model.row_start[x]
        for i in range(start, stop):
            reward = worth.reward[x] if not worth.by_entry else 0.0
            if worth.by_entry:
                while model.next_state[entry] != next_state[i]:
                    entry += 1
                reward = worth.reward[entry]
            j, p = successor(slots, base, next_state[i]), probability[i]
            gain = reward + worth.discount * after[j, column, 2]
            if turn == 0:
                value += p * gain
                moved += p * after[j, column, 0]
                steps += p * after[j, column, 1]
                spread += p * after[j, column, 3]
            else:
                square += p * (gain - value) ** 2
    out[0] = moved + (worth.strength[e] if e >= 0 else 0.0)
    out[1] = steps + 1.0
    out[2] = value
    out[3] = square + worth.discount**2 * spread


@kernel
def _measure_layer(
    model: Model, nodes: Nodes, edits: Edits, after_nodes: Nodes, slots: Ints, worth: _Worth, choice: Ints,
    on_path: Ints, width: _Columns, width_after: _Columns, before: Floats, after: Floats, observed: Ints, pair: Ints,
    outcome: Ints, path: Floats,
) -> None:  # fmt: skip
    out = np.empty(4)
    for b in range(nodes.first.size - 1):
        enter(after_nodes, b, model.pair_start.size - 1, slots)
        on = -1
        s_path = np.searchsorted(model.pair_start, pair[b], side="right") - 1 if pair[b] >= 0 else -1
        for node in range(nodes.first[b], nodes.first[b + 1]):
            s = nodes.states[node]
            if s == s_path and on < 0:
                on = node
            if nodes.offsets[node] == nodes.offsets[node + 1]:
                for c in range(before.shape[1]):
                    before[node, c, 2] = worth.final[s]
                continue
            at_observed = find_pair(model, s, observed[b])
            free = observed[b] < 0 or (at_observed < 0 and is_absorbing(model, s))
            for ki in range(width.n_ks):
                of_k = min(ki, width_after.n_ks - 1) * width_after.columns
                for c in range(width.columns):
                    number = choice[node, ki * width.columns + c]
                    if number < 0:
                        continue  # nothing is allowed, so a plan never gets here
                    left = c if free or number == at_observed else c - 1
                    column = of_k + min(left, width_after.columns - 1)
                    _expect(model, nodes, edits, slots, worth, node, number, after, column, out)
                    before[node, ki * width.columns + c] = out
        if on >= 0:
            _measure_path(
                model, nodes, edits, slots, worth, choice, on_path, width, width_after, after, b, on,
                pair[b] - model.pair_start[s_path], outcome[b] >= 0, path, out,
            )  # fmt: skip


@piece
def _measure_path(
    model: Model, nodes: Nodes, edits: Edits, slots: Ints, worth: _Worth, choice: Ints, on_path: Ints, width: _Columns,
    width_after: _Columns, after: Floats, b: int, node: int, at_observed: int, is_known: bool, path: Floats,
    out: Floats,
) -> None:  # fmt: skip
    """One step back on the observed path, where all changes are left; path has strength, steps and variance."""
    most = path.shape[2] - 1
    for ki in range(path.shape[1]):
        of_k = min(ki, width_after.n_ks - 1) * width_after.columns
        for m in range(most + 1):
            number = on_path[b, ki]
            if m < most:
                number = choice[node, min(ki, width.n_ks - 1) * width.columns + min(m, width.columns - 1)]
            if number == at_observed and is_known:
                path[b, ki, m, 2] *= worth.discount**2
                continue
            left = m if number == at_observed else m - 1
            column = of_k + min(left, width_after.columns - 1)
            _expect(model, nodes, edits, slots, worth, node, number, after, column, out)
            path[b, ki, m, 0] = out[0] if number != at_observed else 0.0
            path[b, ki, m, 1] = out[1] if number != at_observed else 0.0
            path[b, ki, m, 2] = out[3]
