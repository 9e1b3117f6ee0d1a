"""Backward induction: one layer of V_t(s, c), for some numbers c of changes left and for several k at once.

The numbers of a node (run, state) are side by side, from ``(run·S + state)·step`` on: all c for the first k, then all c
for the next. If choices are kept (for a single k), the first number of a node is its *size*: a bound on the absolute
values that were added up to its values. Rounding errors are relative to it. Actions are tied if their values differ by
less than `ROUNDING` times the size.

A node is computed in one of three ways, by how many numbers it has: one number, of the observed action alone (plans
with one change); up to four numbers, which stay in registers (plans with two or three); or any number, in memory.

Only values that were written are read: a pair is taken for k only if its successors are allowed for k.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._kernels.four_sums import four_sums
from tether._kernels.jit import kernel, parallel_kernel, part_of_kernel
from tether._kernels.layer import LayerNodes, LayerRows
from tether._kernels.memory import AHEAD, FETCH_FROM, Index, prefetch_successors
from tether._kernels.sorting import is_in, lower_bound, seek

ROUNDING = 8 * 2.0**-52
"""Values are tied if they differ by less than this times their size."""

# Indices are unsigned: a signed index is tested for being negative each time.
ZERO, ONE, TWO, THREE, FOUR = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)

SPARE = 3
"""Arrays of values have this many more numbers after the last node: four are read at a time, not all are used."""

_CACHE_LINE = 16
"""How many numbers apart two threads write: two cache lines of 64 bytes."""


class Objective(NamedTuple):
    """What a step is worth: expected rewards by pair and by edited row, γ; and what counts as a change.

    ``observed`` is the observed action; any other action is a change. If ``observed`` is negative, no action is a
    change. In an absorbing state without the observed action, no action is a change (`tether.observation.changes`).
    """

    reward: Floats
    edit_reward: Floats
    discount: float
    observed: int


class Limits(NamedTuple):
    """What is allowed, for each of several k.

    A pair with threshold κ is allowed from the k of index ``index_of_k[κ]`` on; its last item is for any larger κ. The
    κ of the pairs of a node begin at ``pair_offset`` in ``kappa``. If ``kappa`` is empty, all pairs are allowed. A node
    is needed from the k of index ``first_k`` on.
    """

    kappa: Ints
    pair_offset: Ints
    index_of_k: Ints
    first_k: Ints
    n_ks: int


class Values(NamedTuple):
    """V of the next layer and of this one, with their numbers of columns c and of k; and the choices.

    The numbers of one node begin ``step`` numbers after those of the node before; the last ones may be unused. V of the
    next layer is the same for every column after its last one, and for every k after its last one. ``sized`` is 1 if
    nodes have a size, else 0. ``choice[node, c]``, if it has rows, is the number of the chosen pair among those of the
    state, -1 if none is allowed (the value is then -∞).
    """

    after: Floats
    step_after: int
    columns_after: int
    ks_after: int
    before: Floats
    step: int
    columns: int
    sized: int
    choice: Ints


@part_of_kernel
def find_pair(pair_action: Ints, begin: np.uint64, end: np.uint64, action: int) -> np.uint64:
    """The pair of a state with an action, or ``end``; the first try is its place if every action is available."""
    guess = begin + np.uint64(max(action, 0))
    if guess < end and pair_action[guess] == action:
        return guess
    for x in range(begin, end):
        if pair_action[x] == action:
            return np.uint64(x)
    return end


@part_of_kernel
def is_absorbing(s: Index, begin: Index, end: Index, row_start: Ints, next_state: Ints) -> bool | np.bool_:
    """Whether every action of a state leads back to it for certain."""
    for x in range(begin, end):
        start = np.uint64(row_start[x])
        if np.uint64(row_start[x + ONE]) - start != ONE or np.uint64(next_state[start]) != s:
            return False
    return begin < end


@part_of_kernel
def _expectation(
    next_state: Ints, probability: Floats, start: Index, stop: Index, after: Floats, base: Index
) -> float | np.floating[Any]:
    """Expectation under a row, if every successor has one number."""
    total = 0.0
    for i in range(start, stop):
        total += probability[i] * after[base + np.uint64(next_state[i])]
    return total


@part_of_kernel
def _add_up(
    next_state: Ints,
    probability: Floats,
    start: Index,
    stop: Index,
    after: Floats,
    base: Index,
    step: Index,
    width: Index,
    low: Index,
    total: Floats,
) -> None:
    """Expectation under a row of each of the numbers of its successors, from ``low`` on.

    Four at a time; up to three sums after the last number are not used. A single number is computed by itself, because
    it is frequent: plans with one change have it.
    """
    if step == ONE:
        total[ZERO] = _expectation(next_state, probability, start, stop, after, base)
    else:
        for c in range(low, width, FOUR):
            one, two, three, four = four_sums(next_state, probability, start, stop, after, base + c, step)
            total[c] = one
            total[c + ONE] = two
            total[c + TWO] = three
            total[c + THREE] = four


@part_of_kernel
def _better(
    best: float | np.floating[Any], chosen: Any, value: float | np.floating[Any], tie: float, number: Any
) -> tuple[Any, Any]:
    """The better of the best so far and a value, each with its number; a gain of less than ``tie`` does not count."""
    is_better = value > best + tie
    return value if is_better else best, number if is_better else chosen


@part_of_kernel
def finite_size(value: float) -> float:
    """The absolute value; 0 if it is infinite, which means not allowed."""
    return abs(value) if abs(value) < np.inf else 0.0


@kernel
def plan_nodes(
    nodes: LayerNodes,
    rows: LayerRows,
    limits: Limits,
    goal: Objective,
    values: Values,
    low_node: int,
    high_node: int,
    total: Floats,
    best: Floats,
    chosen: Ints,
) -> None:
    """V_t(node, c) = max over allowed a of R + γ·Σ P_cf·V_{t+1}(s', c - [a ≠ a_t]), for each k; for some nodes.

    In each node the observed action is tried first, then the others in their order, so a tie changes nothing. Column c
    is computed from column c of the next layer if the action is no change, else from column c - 1. With no change left
    only the observed action is tried. ``total``, ``best`` and ``chosen`` are scratch for the numbers of one node.
    """
    states, runs, with_runs, n_states = nodes
    pair_start, pair_action, row_start, next_state, probability = (
        rows.pair_start, rows.pair_action, rows.row_start, rows.next_state, rows.probability,
    )  # fmt: skip
    edited, edit_start, edit_next, edit_probability = (
        rows.edited, rows.edit_start, rows.edit_next, rows.edit_probability,
    )  # fmt: skip
    influenced = rows.influenced
    kappa, pair_offset, index_of_k, first_k = limits.kappa, limits.pair_offset, limits.index_of_k, limits.first_k
    n_ks = np.uint64(limits.n_ks)
    reward, edit_reward, discount, observed = goal
    after, before, choice = values.after, values.before, values.choice
    sized, columns, columns_after = np.uint64(values.sized), np.uint64(values.columns), np.uint64(values.columns_after)
    last_k_after = np.uint64(values.ks_after) - ONE
    width_after = sized + (last_k_after + ONE) * columns_after
    step, step_after = np.uint64(values.step), np.uint64(values.step_after)
    one_run = np.uint64(n_states) * step_after
    without_changes = observed >= 0 and columns == ONE
    # The three ways: a node has one number, or up to four, or any.
    one_number = without_changes and step == ONE and step_after == ONE and not with_runs
    one_k = limits.n_ks == values.ks_after == 1 and values.sized == 1
    few_numbers = one_k and observed >= 0 and TWO <= columns <= THREE and step == step_after == FOUR
    largest_kappa = index_of_k.size - 1
    fetch = after.size * 8 >= FETCH_FROM
    e = lower_bound(edited, pair_start[states[low_node]]) if low_node < high_node else 0
    for node in range(np.uint64(low_node), np.uint64(high_node)):
        s = np.uint64(states[node])
        begin, end = np.uint64(pair_start[s]), np.uint64(pair_start[s + ONE])
        if fetch and node + np.uint64(AHEAD) < np.uint64(high_node):
            ahead = np.uint64(states[node + np.uint64(AHEAD)])
            first_pair, last_pair = np.uint64(pair_start[ahead]), np.uint64(pair_start[ahead + ONE])
            if without_changes:
                first_pair = find_pair(pair_action, first_pair, last_pair, observed)
                last_pair = min(first_pair + ONE, last_pair)
            prefetch_successors(first_pair, last_pair, row_start, next_state, after, step_after)
        run = np.uint64(runs[node]) if with_runs else ZERO
        first = np.uint64(first_k[node]) if first_k.size > 0 else ZERO
        kappa_at = np.uint64(pair_offset[node]) if kappa.size > 0 else ZERO
        at_observed = find_pair(pair_action, begin, end, observed)
        all_free = observed < 0 or (at_observed == end and is_absorbing(s, begin, end, row_start, next_state))
        to = (run * np.uint64(n_states) + s) * step + sized
        if one_number and not all_free:  # the observed action alone: most of the work of plans with one change
            value, number, x = -np.inf, np.int64(-1), at_observed
            if x < end and (kappa.size == 0 or index_of_k[min(kappa[kappa_at + x - begin], largest_kappa)] == 0):
                number = np.int64(x - begin)
                e = seek(edited, e, np.int64(x))
                if e < edited.size and np.uint64(edited[e]) == x:
                    value = edit_reward[e] + discount * _expectation(
                        edit_next, edit_probability, np.uint64(edit_start[e]), np.uint64(edit_start[e + 1]), after, ZERO
                    )
                else:
                    value = reward[x] + discount * _expectation(
                        next_state, probability, np.uint64(row_start[x]), np.uint64(row_start[x + ONE]), after, ZERO
                    )
            before[to] = value
            if choice.shape[0] > 0:
                choice[node, 0] = number
            continue
        tries = ONE if without_changes and not all_free else end - begin + ONE
        size, best_0, best_1, best_2 = 0.0, -np.inf, -np.inf, -np.inf
        chosen_0, chosen_1, chosen_2 = np.int64(-1), np.int64(-1), np.int64(-1)
        if not few_numbers:
            for c in range(first * columns, n_ks * columns):
                best[c] = -np.inf
                chosen[c] = -1
        e = seek(edited, e, np.int64(begin))
        any_edited = e < edited.size and np.uint64(edited[e]) < end
        for turn in range(tries):
            x = at_observed if turn == ZERO else begin + turn - ONE
            if x == end or (turn > ZERO and x == at_observed):
                continue
            from_k = first
            if kappa.size > 0:
                from_k = max(from_k, np.uint64(index_of_k[min(kappa[kappa_at + x - begin], largest_kappa)]))
            if from_k >= n_ks:
                continue
            if any_edited:
                e = seek(edited, e, np.int64(x))
            is_edited = any_edited and e < edited.size and np.uint64(edited[e]) == x
            base = ZERO
            if with_runs and not (is_edited and is_in(influenced, np.int64(x))):
                base = (run + ONE) * one_run
            if is_edited:
                gain, successor, chance = edit_reward[e], edit_next, edit_probability
                start, stop = np.uint64(edit_start[e]), np.uint64(edit_start[e + 1])
            else:
                gain, successor, chance = reward[x], next_state, probability
                start, stop = np.uint64(row_start[x]), np.uint64(row_start[x + ONE])
            if few_numbers:
                rest, at_0, at_1, at_2 = four_sums(successor, chance, start, stop, after, base, FOUR)
                # If there are more changes than steps, the last change has no use.
                at_1 = at_0 if columns_after < TWO else at_1
                at_2 = at_1 if columns_after < THREE else at_2
                size = max(size, abs(gain) + discount * rest)
                tie, number, free = ROUNDING * size, np.int64(x - begin), x == at_observed or all_free
                value_0 = gain + discount * at_0 if free else -np.inf
                value_1 = gain + discount * (at_1 if free else at_0)
                value_2 = gain + discount * (at_2 if free else at_1)
                best_0, chosen_0 = _better(best_0, chosen_0, value_0, tie, number)
                best_1, chosen_1 = _better(best_1, chosen_1, value_1, tie, number)
                best_2, chosen_2 = _better(best_2, chosen_2, value_2, tie, number)
                continue
            low = ZERO if sized else min(from_k, last_k_after) * columns_after
            _add_up(successor, chance, start, stop, after, base, step_after, width_after, low, total)
            if sized:
                size = max(size, abs(gain) + discount * total[ZERO])
            shift = ZERO if x == at_observed or all_free else ONE
            tie, number = ROUNDING * size, np.int64(x - begin)
            # From the last k back, because the number after those of one k is the first of the next k.
            for back in range(n_ks - from_k):
                ki = n_ks - ONE - back
                at, source = ki * columns + shift, sized + min(ki, last_k_after) * columns_after
                # If there are more changes than steps, the last change has no use.
                total[source + columns_after] = total[source + columns_after - ONE]
                for c in range(columns - shift):
                    value = gain + discount * total[source + c]
                    best[at + c], chosen[at + c] = _better(best[at + c], chosen[at + c], value, tie, number)
        if few_numbers:
            best_2 = best_2 if columns == THREE else best_1
            before[to - ONE] = size + max(finite_size(best_0), finite_size(best_1), finite_size(best_2))
            before[to] = best_0
            before[to + ONE] = best_1
            before[to + TWO] = best_2
            if choice.shape[0] > 0:
                choice[node, 0] = chosen_0
                choice[node, 1] = chosen_1
                if columns == THREE:
                    choice[node, 2] = chosen_2
            continue
        for c in range(first * columns, n_ks * columns):
            before[to + c] = best[c]
        if sized:
            largest = 0.0
            for c in range(columns):
                largest = max(largest, finite_size(best[c]))
            before[to - ONE] = size + largest
        if choice.shape[0] > 0:
            for c in range(columns):
                choice[node, c] = chosen[c]


def scratch_for(values: Values, n_ks: int, chunks: int) -> tuple[Floats, Ints]:
    """Scratch for the numbers of one node, for each of some pieces of a layer."""
    numbers = values.sized + n_ks * max(values.columns, values.columns_after) + SPARE + 1
    numbers += _CACHE_LINE  # no two threads write to one cache line
    return np.empty((chunks, 2, numbers)), np.empty((chunks, numbers), np.int64)


@parallel_kernel
def plan_all_nodes(
    nodes: LayerNodes, rows: LayerRows, limits: Limits, goal: Objective, values: Values, scratch: Floats, chosen: Ints
) -> None:
    """All nodes of a layer in pieces, on all cores; the result does not depend on how many cores there are."""
    size, chunks = nodes.states.size, scratch.shape[0]
    for chunk in numba.prange(chunks):
        low, high = chunk * size // chunks, (chunk + 1) * size // chunks
        plan_nodes(nodes, rows, limits, goal, values, low, high, scratch[chunk, 0], scratch[chunk, 1], chosen[chunk])
