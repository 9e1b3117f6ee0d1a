"""Backward induction along the observed path: V_t(s_t, m), with all m changes left.

The observed action has a certain outcome there, and leaves all changes: V_{t+1}(s_{t+1}, m), which is the same question
one step later. Another action leaves m - 1 of them: the last column of the values that `tether._kernels.plan` found for
the layer after.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._kernels.jit import kernel, part_of_kernel
from tether._kernels.layer import LayerNodes, LayerRows
from tether._kernels.memory import Index
from tether._kernels.plan import ONE, Limits, Objective
from tether._kernels.sorting import is_in, lower_bound

__all__ = ["OnPath", "ValuesAfter", "plan_observed"]


class ValuesAfter(NamedTuple):
    """V of the next layer, with its numbers per node as in `tether._kernels.plan.Values`."""

    values: Floats
    step: int
    columns: int
    n_ks: int
    sized: int


class OnPath(NamedTuple):
    """What is known of the observed path at a step, in each copy of the model.

    ``pair`` is the observed pair, as a number among those of the state. ``outcome`` is the observed next state of each
    copy. ``value[copy, k]`` is V_{t+1} there where ``known``, and becomes V_t. ``others`` says whether another action
    may be taken at all, ``tie`` which part of all that was added up is rounding. ``chosen[copy]`` becomes the number
    of the chosen pair for the first k. ``tried`` is scratch for one number per pair of a state.
    """

    pair: int
    outcome: Ints
    value: Floats
    known: bool
    others: bool
    tie: float
    chosen: Ints
    tried: Floats


@part_of_kernel
def _look_ahead(
    next_state: Ints, probability: Floats, start: Index, stop: Index, after: Floats, base: Index, step: Index
) -> tuple[float, float]:
    """Expectation under a row of one number of each of its successors, and of its size."""
    total, size = 0.0, 0.0
    for i in range(start, stop):
        value = after[base + np.uint64(next_state[i]) * step]
        total += probability[i] * value
        size += probability[i] * (abs(value) if abs(value) < np.inf else 0.0)
    return total, size


@kernel
def plan_observed(
    nodes: LayerNodes, rows: LayerRows, limits: Limits, goal: Objective, after: ValuesAfter, path: OnPath, low: int
) -> bool:
    """One step back; ``nodes`` are copies of the observed state, from copy ``low`` on.

    Of actions that are tied the observed one is taken, else the first. Returns False where the observed action is
    not certain to have its observed outcome: then the values are of no use.
    """
    states, _, with_runs, n_states = nodes
    pair_start, row_start, next_state, probability = (
        rows.pair_start, rows.row_start, rows.next_state, rows.probability,
    )  # fmt: skip
    edited, edit_start, edit_next, edit_probability = (
        rows.edited, rows.edit_start, rows.edit_next, rows.edit_probability,
    )  # fmt: skip
    influenced = rows.influenced
    kappa, index_of_k, largest_kappa = limits.kappa, limits.index_of_k, limits.index_of_k.size - 1
    reward, edit_reward, discount, _ = goal
    later, step, columns, tried = after.values, np.uint64(after.step), np.uint64(after.columns), path.tried
    certain = True
    for node in range(states.size):
        s, copy = np.uint64(states[node]), node + low
        begin = np.uint64(pair_start[s])
        n_pairs = np.int64(np.uint64(pair_start[s + ONE]) - begin)
        for ki in range(limits.n_ks):
            column = np.uint64(after.sized) + np.uint64(min(ki + 1, after.n_ks)) * columns - ONE
            best, largest = -np.inf, 0.0
            for number in range(n_pairs):
                x = begin + np.uint64(number)
                is_observed = number == path.pair
                tried[number] = -np.inf
                if not (is_observed or path.others):
                    continue
                if kappa.size > 0:
                    allowed_from = index_of_k[min(kappa[limits.pair_offset[node] + number], largest_kappa)]
                    if allowed_from > ki:
                        continue
                e = lower_bound(edited, np.int64(x))
                is_edited = e < edited.size and np.uint64(edited[e]) == x
                base = column
                if with_runs and not (is_edited and is_in(influenced, np.int64(x))):
                    base += np.uint64(n_states) * step
                if is_edited:
                    gain, successor, chance = edit_reward[e], edit_next, edit_probability
                    start, stop = np.uint64(edit_start[e]), np.uint64(edit_start[e + 1])
                else:
                    gain, successor, chance = reward[x], next_state, probability
                    start, stop = np.uint64(row_start[x]), np.uint64(row_start[x + ONE])
                if is_observed and path.known:
                    rest = path.value[copy, ki]
                    size = abs(rest)
                    certain &= stop - start == ONE and successor[start] == path.outcome[copy]
                else:
                    rest, size = _look_ahead(successor, chance, start, stop, later, base, step)
                value = gain + discount * rest
                tried[number] = -np.inf if np.isnan(value) else value  # 0·(-∞), where nothing later counts
                best, largest = max(best, tried[number]), max(largest, abs(gain) + discount * size)
            least = best - path.tie * largest
            chosen = path.pair
            if not tried[chosen] >= least:
                chosen = 0
                while not tried[chosen] >= least:
                    chosen += 1
            path.value[copy, ki] = tried[chosen]
            if ki == 0:
                path.chosen[copy] = chosen
    return certain
