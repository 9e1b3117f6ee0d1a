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

from tether._foundation.arrays import Flags, Floats, Ints, read_only
from tether._kernels.jit import kernel
from tether.core.backward import Choices, Problem
from tether.core.batch import Edits, Layer, Model, Nodes, at_time
from tether.core.follow import Decided
from tether.core.plan import find_pair, is_absorbing
from tether.core.slots import enter, slots_for, successor


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


def strengths(layer: Layer, visits: Decided, of_rows: Floats, most: int) -> Strengths:
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
    *,
    with_std: bool = True,
) -> Measured:
    """Measure the plans of a solved problem (`tether.core.backward.solve` with ``keep``) for each k and m, in one pass.

    With fewer changes left than m, something was changed: all that follows counts. ``reward_at(t)`` has the rewards by
    pair or by entry of the model. Without ``with_std`` the standard deviations are not computed: they are NaN.
    """
    model, steps, layers = problem.model, problem.steps, problem.layers
    T, B, K, M = len(layers) - 1, len(steps), int(problem.ks.size), problem.m
    path = np.zeros((B, K, M + 1, 3))
    after, width_after = np.zeros((layers[T].size, 1, 4)), _Columns(1, 1)
    after[:, 0, _VALUE] = at_time(problem.final, T)[layers[T].nodes.states]
    for t in range(T - 1, -1, -1):
        layer, chosen = layers[t], choices[t]
        width = _Columns(chosen.of_node.shape[1] // chosen.columns, chosen.columns)
        before = np.zeros((layer.size, width.n_ks * width.columns, 4))
        going = steps.at(t)
        going[t >= problem.ends] = -1
        seen, outcome = (
            np.where(going >= 0, column[np.maximum(going, 0)], -1) for column in (steps.state, steps.outcome)
        )
        observed = steps.item(steps.action, t)
        slots = slots_for(layers[t + 1].nodes, model.n_states)
        for nodes, numbers, part in layer.parts():
            of_part = reward_at(t), strength_of(t, part, numbers), at_time(problem.final, t)
            reward, strength, final = map(read_only, of_part)
            worth = _Worth(reward, by_entry, strength, final, problem.discount)
            _measure_layer(
                model, part.nodes, part.edits, layers[t + 1].nodes, slots, worth, chosen.of_node[nodes], chosen.on_path,
                width, width_after, before[nodes], after, observed, seen, outcome, path, with_std,
            )  # fmt: skip
        after, width_after = before, width
    std = np.sqrt(path[..., 2]) if with_std else np.full(path.shape[:3], np.nan)
    return Measured(_ratio(path[..., _MOVED], path[..., _STEPS]), std)


_MOVED, _STEPS, _VALUE = 0, 1, 2


@kernel
def _measure_layer(
    model: Model, nodes: Nodes, edits: Edits, after_nodes: Nodes, slots: Ints, worth: _Worth, choice: Ints,
    on_path: Ints, width: _Columns, width_after: _Columns, before: Floats, after: Floats, observed: Ints, seen: Ints,
    outcome: Ints, path: Floats, with_std: bool,
) -> None:  # fmt: skip
    """The numbers of each node for each k and c; and one step back on the observed path, for each k and m.

    Each is that of one pair, which is chosen there: strength and steps from here on, value, and variance of the return.
    On the path all changes are left; ``seen`` has its states, -1 if it has ended. It has strength, steps and variance.
    """
    # Records are unpacked first: reading a field within a loop would count references there.
    pair_start, _, row_start, next_state, probability = model
    node_first, states, runs, offsets = nodes
    position, row, influenced, edit_start, edit_next, edit_probability = edits
    reward, by_entry, strength, final, discount = worth
    n_states, asks, e, limits = pair_start.size - 1, width.n_ks * width.columns, 0, path.shape[2]
    for b in range(node_first.size - 1):
        enter(after_nodes, b, n_states, slots)
        is_ahead = seen[b] >= 0
        for node in range(node_first[b], node_first[b + 1]):
            s, begin = states[node], offsets[node]
            if begin == offsets[node + 1]:
                for c in range(asks):
                    before[node, c, 2] = final[s]
                continue
            at_observed = find_pair(model, s, observed[b])
            free = observed[b] < 0 or (at_observed < 0 and is_absorbing(model, s))
            while e < position.size and position[e] < begin:
                e += 1
            of_path = 0
            if is_ahead and s == seen[b]:  # of several nodes the first, with a run of 0
                is_ahead, of_path = False, path.shape[1] * limits
            for ask in range(asks + of_path):
                is_path = ask >= asks
                if is_path:
                    ki, left = (ask - asks) // limits, (ask - asks) % limits
                    number = np.int64(on_path[b, ki])
                    if left < limits - 1:
                        number = np.int64(
                            choice[node, min(ki, width.n_ks - 1) * width.columns + min(left, width.columns - 1)]
                        )
                    if number == at_observed and outcome[b] >= 0:
                        path[b, ki, left, 2] *= discount**2
                        continue
                else:
                    ki, left = ask // width.columns, ask % width.columns
                    number = np.int64(choice[node, ask])
                    if number < 0:
                        continue  # nothing is allowed, so a plan never gets here
                m = left
                if number != at_observed and (is_path or not free):
                    left -= 1
                column = min(ki, width_after.n_ks - 1) * width_after.columns + min(left, width_after.columns - 1)
                x, at, base = pair_start[s] + number, e, 0
                while at < position.size and position[at] < begin + number:
                    at += 1
                is_edited = at < position.size and position[at] == begin + number
                if runs.size > 0 and not (is_edited and influenced[at] > 0):
                    base = (runs[node] + 1) * n_states
                r = row[at] if is_edited else x
                start, stop = (edit_start[r], edit_start[r + 1]) if is_edited else (row_start[r], row_start[r + 1])
                moved, steps, value, spread, square = 0.0, 1.0, 0.0, 0.0, 0.0
                if is_edited:
                    moved = strength[at]
                for turn in range(2 if with_std else 1):  # first the mean, then what differs from it
                    entry = row_start[x]
                    for i in range(start, stop):
                        after_i = edit_next[i] if is_edited else next_state[i]
                        j, p = successor(slots, base, after_i), edit_probability[i] if is_edited else probability[i]
                        if turn == 0:
                            moved += p * after[j, column, 0]
                            steps += p * after[j, column, 1]
                        if not with_std:
                            continue
                        gain = 0.0 if by_entry else reward[x]
                        if by_entry:
                            while next_state[entry] != after_i:
                                entry += 1
                            gain = reward[entry]
                        gain += discount * after[j, column, 2]
                        if turn == 0:
                            value += p * gain
                            spread += p * after[j, column, 3]
                        else:
                            square += p * (gain - value) ** 2
                spread = square + discount**2 * spread
                if is_path:
                    path[b, ki, m, 0] = moved if number != at_observed else 0.0
                    path[b, ki, m, 1] = steps if number != at_observed else 0.0
                    path[b, ki, m, 2] = spread
                else:
                    before[node, ask, 0], before[node, ask, 1] = moved, steps
                    before[node, ask, 2], before[node, ask, 3] = value, spread
