"""Edited rows: for an observed transition, the counterfactual row of every pair that meets its support."""

from __future__ import annotations

from tether._foundation.arrays import Floats, Ints
from tether._kernels.audit.arrays import Model, RowPool
from tether._kernels.gumbel import gumbel_rows, gumbel_sizes
from tether._kernels.jit import kernel
from tether._kernels.sorting import lower_bound, sort_ascending


@kernel
def meeting_pairs(
    next_state: Ints, low: int, high: int, lead_start: Ints, lead_pair: Ints, seen: Ints, out: Ints
) -> int:
    """Collect the pairs that lead to an outcome of a row, ascending; ``seen``, one byte per pair, stays 0."""
    n = low - low  # not a literal: the sorting would be compiled a second time for it
    for e in range(low, high):
        s = next_state[e]
        for i in range(lead_start[s], lead_start[s + 1]):
            x = lead_pair[i]
            if seen[x] == 0:
                seen[x] = 1
                out[n] = x
                n += 1
    for i in range(n):
        seen[out[i]] = 0
    sort_ascending(out, low - low, n)
    return n


@kernel
def fill_pool(
    model: Model,
    pool: RowPool,
    observed_pair: Ints,
    outcome: Ints,
    row_end: Ints,
    lead_start: Ints,
    lead_pair: Ints,
    weight: Floats,
    seen: Ints,
    met: Ints,
    nominal: Ints,
    size: Ints,
    numbers: Floats,
    places: Ints,
    first: int,
) -> int:
    """Write the edited rows of the observed transitions from ``first`` on to the pool.

    Returns the number of transitions; or, if the pool is too small, the first transition that is not in it. The rows of
    transition i are ``row_end[i] … row_end[i + 1] - 1``. An outcome of -1 was not recorded: rows stay nominal.
    """
    for i in range(first, observed_pair.size):
        x = observed_pair[i]
        low, high = model.row_start[x], model.row_start[x + 1]
        n = meeting_pairs(model.next_state, low, high, lead_start, lead_pair, seen, met)
        begin = row_end[i]
        if begin + n + 1 > pool.pair.size:
            return i
        for e in range(low, high):
            weight[model.next_state[e]] = model.probability[e]
        if outcome[i] >= 0:
            gumbel_sizes(
                0, n, met, model.row_start, model.next_state, model.probability, weight, high - low == 1, outcome[i],
                nominal, size,
            )  # fmt: skip
        else:
            for j in range(n):
                size[j] = model.row_start[met[j] + 1] - model.row_start[met[j]]
        at = pool.start[begin]
        for j in range(n):
            pool.pair[begin + j] = met[j]
            pool.state[begin + j] = lower_bound(model.pair_start, met[j] + 1) - 1
            at += size[j]
            pool.start[begin + j + 1] = at
        if at > pool.next_state.size:
            for e in range(low, high):
                weight[model.next_state[e]] = 0.0
            return i
        if outcome[i] >= 0:
            gumbel_rows(
                0, n, met, model.row_start, model.next_state, model.probability, weight, outcome[i], nominal,
                pool.start[begin:], pool.next_state, pool.probability, pool.strength[begin:], numbers, places,
            )  # fmt: skip
        else:
            for j in range(n):
                pool.strength[begin + j] = 0.0
                for e in range(size[j]):
                    entry = model.row_start[met[j]] + e
                    pool.next_state[pool.start[begin + j] + e] = model.next_state[entry]
                    pool.probability[pool.start[begin + j] + e] = model.probability[entry]
        for e in range(low, high):
            weight[model.next_state[e]] = 0.0
        for j in range(n):
            pool.reward[begin + j] = model.reward[met[j]]
            if model.entry_reward.size > 0:
                total = 0.0
                entry = model.row_start[met[j]]
                for e in range(pool.start[begin + j], pool.start[begin + j + 1]):
                    while model.next_state[entry] != pool.next_state[e]:
                        entry += 1
                    total += pool.probability[e] * model.entry_reward[entry]
                pool.reward[begin + j] = total
        row_end[i + 1] = begin + n
    return observed_pair.size
