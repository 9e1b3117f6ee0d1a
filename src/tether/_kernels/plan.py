"""Backward induction: one layer of V_t(s, c), for every number c of changes left and for several k at once.

Values of a layer are flat: those of node (run, state) begin at ``(run·S + state)·width`` with
``width = n_ks·columns``, first all c for the first k, then all c for the next. Nothing is read where
nothing was written: a pair is taken for k only if its successors are allowed for k.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from tether._kernels.jit import inlined, kernel, parallel_kernel
from tether._kernels.layer import LayerNodes, LayerRows, is_in, lower_bound
from tether.form import Floats, Ints

_ROUNDING = 8 * 2.0**-52
"""Values that differ by less than this, relative to the largest that went into them, are tied."""

_CLOSE = 1e-9
"""Values that differ by less than this, relatively, are looked at more closely for a tie."""


class Objective(NamedTuple):
    """What a step is worth: R(s,a) by pair or R(s,a,s') by entry, a bonus for edited rows (empty: none), γ.

    ``observed`` is the action that counts as no change; where it is negative no action counts as one.
    """

    reward: Floats
    by_entry: bool
    bonus: Floats
    discount: float
    observed: int


class Limits(NamedTuple):
    """What is allowed, for each of several k.

    Pair x of a node is allowed for the k of index ``index_of_k[κ]`` and beyond (its last item stands for any larger
    κ), its κ standing in ``kappa`` from ``pair_offset`` on; all are where ``kappa`` is empty. A node matters from
    the k of index ``first_k`` on.
    """

    kappa: Ints
    pair_offset: Ints
    index_of_k: Ints
    first_k: Ints
    n_ks: int


class Values(NamedTuple):
    """V of this layer and the next, flat, with their numbers of columns c; and the choices of this one.

    ``choice[node, c]``, if it has columns, is the number of the chosen pair among those of the state, -1 where
    none is allowed (the value is then -∞).
    """

    after: Floats
    columns_after: int
    before: Floats
    columns: int
    choice: Ints


@inlined
def _row_values(
    start: int, end: int, next_state: Ints, probability: Floats, shift: int, edited: bool,
    after: Floats, base: int, low: int, high: int, scratch: Floats, at: int,
) -> None:  # fmt: skip
    """Σ P·V_{t+1} into the scratch, columns ``low`` to ``high``; the probability of entry i is that of i + shift.

    Four columns at a time, so that sums stay in registers. Only an edited row has entries without probability;
    they lead where no value was written.
    """
    c = low
    while c + 4 <= high:
        v0, v1, v2, v3 = 0.0, 0.0, 0.0, 0.0
        for i in range(start, end):
            p = probability[i + shift]
            if edited and p == 0.0:
                continue
            there = (base + next_state[i]) * high + c
            v0 += p * after[there]
            v1 += p * after[there + 1]
            v2 += p * after[there + 2]
            v3 += p * after[there + 3]
        scratch[at + c] = v0
        scratch[at + c + 1] = v1
        scratch[at + c + 2] = v2
        scratch[at + c + 3] = v3
        c += 4
    while c < high:
        v0 = 0.0
        for i in range(start, end):
            p = probability[i + shift]
            if edited and p == 0.0:
                continue
            v0 += p * after[(base + next_state[i]) * high + c]
        scratch[at + c] = v0
        c += 1


@kernel
def _largest_behind(
    start: int, end: int, next_state: Ints, probability: Floats, shift: int,
    after: Floats, base: int, width: int, column: int,
) -> float:  # fmt: skip
    """The largest |V_{t+1}| of a row in one column: the scale of the rounding error of its sum."""
    largest = 0.0
    for i in range(start, end):
        if probability[i + shift] > 0.0:
            size = abs(after[(base + next_state[i]) * width + column])
            if largest < size < np.inf:
                largest = size
    return largest


def _plan_layer(
    nodes: LayerNodes, rows: LayerRows, limits: Limits, goal: Objective, values: Values, scratch: Floats, chunks: int
) -> None:
    """V_t(node, c) = max over allowed a of R + γ·Σ P_cf·V_{t+1}(s', c - [a ≠ a_t]), for each k.

    In each node the observed action is tried first, then the others in their order, and where choices are kept
    only what is better by more than rounding replaces what was tried before: ties change nothing.
    Column c looks at column c of the next layer if the action is the observed one, else at c - 1; beyond its last
    column nothing changes. The nodes are cut into ``chunks`` pieces, each with ``n_ks·columns_after`` of the scratch;
    the result does not depend on how many.
    """
    states, runs, with_runs, n_states = nodes
    pair_start, pair_action, row_start, next_state, probability = (
        rows.pair_start, rows.pair_action, rows.row_start, rows.next_state, rows.probability,
    )  # fmt: skip
    edited, edit_start, edit_probability = rows.edited, rows.edit_start, rows.edit_probability
    influenced = rows.influenced
    kappa, pair_offset, index_of_k, first_k, n_ks = limits
    reward, by_entry, bonus, discount, observed = goal
    after, columns_after, before, columns, choice = values
    width, width_after = n_ks * columns, n_ks * columns_after
    size = states.size
    keep = choice.shape[1] > 0
    for chunk in numba.prange(chunks):
        scratch_at = chunk * width_after
        for node in range(chunk * size // chunks, (chunk + 1) * size // chunks):
            s = states[node]
            run = runs[node] if with_runs else 0
            first = first_k[node] if first_k.size > 0 else 0
            at = (run * n_states + s) * width
            for c in range(first * columns, width):
                before[at + c] = -np.inf
            for c in range(choice.shape[1]):
                choice[node, c] = -1
            begin, end = pair_start[s], pair_start[s + 1]
            first_edit = lower_bound(edited, begin)
            for turn in range(2):
                e = first_edit
                for x in range(begin, end):
                    edit = -1
                    if e < edited.size and edited[e] == x:
                        edit = e
                        e += 1
                    is_observed = pair_action[x] == observed
                    if is_observed != (turn == 0):
                        continue
                    k_from = first
                    if kappa.size > 0:
                        smallest = min(kappa[pair_offset[node] + x - begin], index_of_k.size - 1)
                        k_from = max(first, index_of_k[smallest])
                    used = 0 if is_observed or observed < 0 else 1
                    if k_from >= n_ks or used >= columns:
                        continue
                    base = 0
                    if with_runs and not is_in(influenced, x):
                        base = (run + 1) * n_states
                    low = k_from * columns_after
                    start, stop = row_start[x], row_start[x + 1]
                    gain = 0.0
                    if edit < 0:
                        _row_values(
                            start, stop, next_state, probability, 0, False, after, base, low, width_after,
                            scratch, scratch_at,
                        )  # fmt: skip
                        if by_entry:
                            for i in range(start, stop):
                                gain += probability[i] * reward[i]
                    else:
                        shift = edit_start[edit] - start
                        _row_values(
                            start, stop, next_state, edit_probability, shift, True, after, base, low, width_after,
                            scratch, scratch_at,
                        )  # fmt: skip
                        if by_entry:
                            for i in range(start, stop):
                                gain += edit_probability[i + shift] * reward[i]
                        if bonus.size > 0:
                            gain += bonus[edit]
                    if not by_entry:
                        gain += reward[x]
                    straight = min(columns - used, columns_after)
                    for ki in range(k_from, n_ks):
                        rest_at = scratch_at + ki * columns_after
                        best_at = at + ki * columns + used
                        if not keep:
                            for c in range(straight):
                                candidate = gain + discount * scratch[rest_at + c]
                                best = before[best_at + c]
                                before[best_at + c] = candidate if candidate > best else best
                            for c in range(straight, columns - used):
                                candidate = gain + discount * scratch[rest_at + columns_after - 1]
                                best = before[best_at + c]
                                before[best_at + c] = candidate if candidate > best else best
                            continue
                        for c in range(columns - used):
                            column = ki * columns_after + min(c, columns_after - 1)
                            candidate = gain + discount * scratch[scratch_at + column]
                            best = before[best_at + c]
                            if not candidate > best:  # nor is 0·(-∞), without a future that counts
                                continue
                            if candidate - best < _CLOSE * (abs(gain) + abs(best)):
                                if edit < 0:
                                    largest = _largest_behind(
                                        start, stop, next_state, probability, 0, after, base, width_after, column
                                    )
                                else:
                                    largest = _largest_behind(
                                        start, stop, next_state, edit_probability, edit_start[edit] - start,
                                        after, base, width_after, column,
                                    )  # fmt: skip
                                if candidate - best <= _ROUNDING * (abs(gain) + discount * largest):
                                    continue
                            before[best_at + c] = candidate
                            choice[node, used + c] = x - begin


plan_layer = kernel(_plan_layer)
plan_layer_parallel = parallel_kernel(_plan_layer)
