"""What is guaranteed of a plan: its worst case over all causal models, and over all stable ones.

The plan is followed through all nodes that some causal model can reach. In nodes that Gumbel-max never reaches, the
plan takes the observed action; if that is not available, the worst of all actions counts. The numbers are those of
`tether.evaluation.following`. More changes left than steps left are worth as much as one change per step: such nodes
are merged.
"""

from __future__ import annotations

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._kernels.audit.arrays import Batch, Certifying, Found, Model, RowPool
from tether._kernels.audit.search import edited_row, find_observed
from tether._kernels.jit import kernel, part_of_kernel
from tether._kernels.sets import NOTHING, STABILITY, Nominal, Observed, extreme_row

_SEEN, _MET = 1, 2
"""Marks of a node: some causal model leads there; Gumbel-max leads there."""


@part_of_kernel
def visit_row(
    model: Model, pool: RowPool, low_row: int, high_row: int, x: int, outcome: int, is_met: bool, height: int,
    onward: int, mark: Ints, node: Ints, n: int,
) -> int:  # fmt: skip
    """Mark the nodes that a pair leads to, and add the new ones to ``node``.

    If the pair has a certain outcome, it is ``outcome``; otherwise that is -1. Returns the number of nodes. ``node``
    must be long enough for a whole row more.
    """
    for e in range(model.row_start[x], model.row_start[x + 1]):
        if outcome >= 0 and model.next_state[e] != outcome:
            continue
        key = model.next_state[e] * height + onward
        if mark[key] == 0:
            node[n] = key
            n += 1
            mark[key] = _SEEN
    if is_met:
        row = edited_row(pool, low_row, high_row, x)
        if row >= 0:
            for e in range(pool.start[row], pool.start[row + 1]):
                mark[pool.next_state[e] * height + onward] = _SEEN | _MET
        else:
            for e in range(model.row_start[x], model.row_start[x + 1]):
                mark[model.next_state[e] * height + onward] = _SEEN | _MET
    return n


@part_of_kernel
def visit_layers(
    model: Model, pool: RowPool, batch: Batch, first: int, T: int, m: int, choice: Ints, mark: Ints,
    certifying: Certifying,
) -> bool:  # fmt: skip
    """All nodes that the plan can reach, and the pair it takes there; False if an array is too short for them.

    ``mark``, by node, is 0 before and after.
    """
    n_states, height = model.pair_start.size - 1, m + 1
    start, node, pair, is_met = certifying.start, certifying.node, certifying.pair, certifying.is_met
    longest = certifying.next_state.size
    node[0], is_met[0] = batch.state[first] * height + m, 1
    start[0], start[1] = 0, 1
    for t in range(T):
        at, action = batch.transition[first + t], batch.action[first + t]
        is_placed, n = True, start[t + 1]
        for i in range(start[t], start[t + 1]):
            s, c = node[i] // height, node[i] % height
            at_observed = find_observed(model.pair_start, model.pair_action, s, action)
            x = at_observed
            if is_met[i] > 0:
                x = model.pair_start[s] + choice[(t * n_states + s) * height + min(c, m, T - t)]
            pair[i] = x
            begin, end = (x, x + 1) if x >= 0 else (model.pair_start[s], model.pair_start[s + 1])
            for y in range(begin, end):
                is_change = model.pair_action[y] != action and (at_observed >= 0 or model.absorbing[s] == 0)
                onward = min(max(c - 1, 0) if is_change else c, T - t - 1)
                outcome = batch.next_state[first + t] if y == batch.pair[first + t] else -1
                if n + longest > node.size:
                    is_placed = False
                    break
                n = visit_row(
                    model, pool, batch.row_end[at], batch.row_end[at + 1], y, outcome, is_met[i] > 0, height, onward,
                    mark, node, n,
                )  # fmt: skip
        for i in range(start[t + 1], n):
            is_met[i] = mark[node[i]] & _MET
            mark[node[i]] = 0
        if not is_placed:
            return False
        start[t + 2] = n
    return True


@part_of_kernel
def worst_of_row(
    model: Model, x: int, step: Observed, kind: int, height: int, onward: int, value: Floats, after: int,
    certifying: Certifying,
) -> float:  # fmt: skip
    """The smallest expected value of a pair over the causal models of the set."""
    low, n = model.row_start[x], model.row_start[x + 1] - model.row_start[x]
    next_state, probability = certifying.next_state, certifying.probability
    limits, row = certifying.limits, certifying.row
    is_certain = x == step.pair and step.outcome >= 0
    for j in range(n):
        s = model.next_state[low + j]
        next_state[j], probability[j] = s, model.probability[low + j]
        worth = model.entry_reward[low + j] if model.entry_reward.size > 0 else model.reward[x]
        if not is_certain or s == step.outcome:
            worth += model.discount * value[after + s * height + onward]
        row.value[j] = worth
    nominal = Nominal(next_state[:n], probability[:n], certifying.nothing[:n], certifying.nothing[:n])
    return extreme_row(nominal, row.value, n, x, step, kind, 1.0, limits, row)


@part_of_kernel
def worst_value(
    model: Model, batch: Batch, first: int, T: int, m: int, kind: int, value: Floats, certifying: Certifying
) -> float:
    """The worst expected return of the plan over a set of causal models."""
    half, height = value.size // 2, m + 1
    start, node = certifying.start, certifying.node
    for i in range(start[T], start[T + 1]):
        value[(T % 2) * half + node[i]] = model.final[node[i] // height]
    for t in range(T - 1, -1, -1):
        here, after = (t % 2) * half, ((t + 1) % 2) * half
        x, outcome, action = batch.pair[first + t], batch.next_state[first + t], batch.action[first + t]
        low, high = model.row_start[x], model.row_start[x + 1]
        chance = 1.0
        for e in range(low, high):
            if model.next_state[e] == outcome:
                chance = model.probability[e]
        step = Observed(model.next_state[low:high], model.probability[low:high], outcome, x, chance)
        for i in range(start[t], start[t + 1]):
            s, c = node[i] // height, node[i] % height
            y = certifying.pair[i]
            begin, end = (y, y + 1) if y >= 0 else (model.pair_start[s], model.pair_start[s + 1])
            is_free = model.absorbing[s] > 0 and find_observed(model.pair_start, model.pair_action, s, action) < 0
            worst = np.inf
            for y in range(begin, end):
                is_change = model.pair_action[y] != action and not is_free
                onward = min(max(c - 1, 0) if is_change else c, T - t - 1)
                worst = min(worst, worst_of_row(model, y, step, kind, height, onward, value, after, certifying))
            value[here + node[i]] = worst
    found: float = value[node[0]]
    return found


@kernel
def certify_episode(
    model: Model, pool: RowPool, batch: Batch, first: int, T: int, m: int, choice: Ints, mark: Ints, value: Floats,
    certifying: Certifying, episode: int, found: Found,
) -> bool:  # fmt: skip
    """The two worst cases of a plan; False if an array is too short for all nodes that it can reach."""
    if not visit_layers(model, pool, batch, first, T, m, choice, mark, certifying):
        return False
    for i in range(2):
        kind = NOTHING if i == 0 else STABILITY
        worst = worst_value(model, batch, first, T, m, kind, value, certifying)
        found.worst[episode, i] = worst
        if i == 0 and worst - batch.observed[episode] > 1e-6 * max(1.0, abs(batch.observed[episode])):
            found.worst[episode, 1] = worst  # the gain holds under all causal models: also under the stable ones
            break
    return True
