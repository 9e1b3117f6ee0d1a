"""Backward induction along the observed path: V_t(s_t, m), with all m changes left.

On the path the observed action has a certain outcome and uses no change: it leads to V_{t+1}(s_{t+1}, m), the same
question one step later. Another action leaves m - 1 changes: its values are in the last column that
`tether._kernels.plan` found for the next layer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._kernels.jit import kernel, part_of_kernel
from tether._kernels.layer import LayerNodes, LayerRows
from tether._kernels.plan import Limits, Objective, finite_size
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
    copy. ``value[copy, k]`` is V_{t+1} there, if ``known``; the kernel writes V_t to it. ``others`` says whether
    another action may be taken. Values are tied if they differ by less than ``tie`` times the absolute values that
    were added up. The kernel writes the number of the chosen pair for the first k to ``chosen[copy]``. ``tried`` is
    scratch for one number per pair of a state.
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
    next_state: Ints, probability: Floats, start: int, stop: int, after: Floats, base: int, step: int
) -> tuple[float, float]:
    """Expectation under a row of one number of each successor, and of its absolute value."""
    total, size = 0.0, 0.0
    for i in range(start, stop):
        value = after[base + next_state[i] * step]
        total += probability[i] * value
        size += probability[i] * finite_size(value)
    return total, size


@kernel
def plan_observed(
    nodes: LayerNodes, rows: LayerRows, limits: Limits, goal: Objective, after: ValuesAfter, path: OnPath, low: int
) -> bool:
    """One step back; ``nodes`` are copies of the observed state, from copy ``low`` on.

    If actions are tied, the observed one is taken, else the first. Returns False if the observed action is not certain
    to have its observed outcome: then the values are wrong.
    """
    states, edited, step = nodes.states, rows.edited, after.step
    pair, path_value, tried = path.pair, path.value, path.tried
    largest_kappa, certain = limits.index_of_k.size - 1, True
    for node in range(states.size):
        begin, copy = rows.pair_start[states[node]], node + low
        n_pairs = rows.pair_start[states[node] + 1] - begin
        for ki in range(limits.n_ks):
            column = after.sized + min(ki + 1, after.n_ks) * after.columns - 1
            best, largest = -np.inf, 0.0
            for number in range(n_pairs):
                x = begin + number
                tried[number] = -np.inf
                if number != pair and not path.others:
                    continue
                if limits.index_of_k[min(limits.kappa[limits.pair_offset[node] + number], largest_kappa)] > ki:
                    continue
                e = lower_bound(edited, x)
                is_edited = e < edited.size and edited[e] == x
                base = column
                if nodes.with_runs and not (is_edited and is_in(rows.influenced, x)):
                    base += nodes.n_states * step
                if is_edited:
                    gain, successor, chance = goal.edit_reward[e], rows.edit_next, rows.edit_probability
                    start, stop = rows.edit_start[e], rows.edit_start[e + 1]
                else:
                    gain, successor, chance = goal.reward[x], rows.next_state, rows.probability
                    start, stop = rows.row_start[x], rows.row_start[x + 1]
                if number == pair and path.known:
                    rest, size = path_value[copy, ki], abs(path_value[copy, ki])
                    certain &= stop - start == 1 and successor[start] == path.outcome[copy]
                else:
                    rest, size = _look_ahead(successor, chance, start, stop, after.values, base, step)
                value = gain + goal.discount * rest
                tried[number] = -np.inf if np.isnan(value) else value  # NaN is 0·(-∞): the discount is 0
                best, largest = max(best, tried[number]), max(largest, abs(gain) + goal.discount * size)
            least = best - path.tie * largest
            chosen = pair
            if not tried[chosen] >= least:
                chosen = 0
                while not tried[chosen] >= least:
                    chosen += 1
            path_value[copy, ki] = tried[chosen]
            if ki == 0:
                path.chosen[copy] = chosen
    return certain
