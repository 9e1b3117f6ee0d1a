"""Backward induction: one layer of V_t(s, c), for every number c of changes left and for several k at once.

Values of a layer are flat: those of node (run, state) begin at ``(run·S + state)·width`` with
``width = n_ks·columns``, first all c for the first k, then all c for the next. Nothing is read where
nothing was written: a pair is taken for k only if its successors are allowed for k.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from tether._kernels.jit import kernel, parallel_kernel
from tether._kernels.layer import LayerNodes, LayerRows
from tether._kernels.sorting import is_in, lower_bound
from tether.form import Floats, Ints

_ROUNDING = 8 * 2.0**-52
"""Values that differ by less than this, relative to the largest that went into them, are tied."""

_CLOSE = 1e-9
"""Values that differ by less than this, relatively, are looked at more closely for a tie."""


_CACHE_LINE = 16
"""Numbers to keep between what two threads write: two lines of 64 bytes."""


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


@kernel
def _plan_nodes(
    nodes: LayerNodes,
    rows: LayerRows,
    limits: Limits,
    goal: Objective,
    values: Values,
    low_node: int,
    high_node: int,
    scratch: Floats,
    scratch_at: int,
) -> None:
    """V_t(node, c) = max over allowed a of R + γ·Σ P_cf·V_{t+1}(s', c - [a ≠ a_t]), for each k; for some nodes.

    In each node the observed action is tried first, then the others in their order, and where choices are kept
    only what is better by more than rounding replaces what was tried before: ties change nothing.
    Column c looks at column c of the next layer if the action is the observed one, else at c - 1; beyond its last
    column nothing changes. The scratch has ``n_ks·columns_after`` numbers from ``scratch_at`` on.
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
    row_width = np.uint64(width_after)
    keep = choice.shape[1] > 0
    for node in range(low_node, high_node):
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
        has_edits = first_edit < edited.size and edited[first_edit] < end
        at_observed = end
        for x in range(begin, end):
            if pair_action[x] == observed:
                at_observed = x
        for turn in range(begin - 1, end):
            x = at_observed if turn < begin else turn
            if x == end or turn == at_observed:
                continue
            is_observed = x == at_observed
            edit = -1
            if has_edits:
                edit = lower_bound(edited, x)
                if edit == edited.size or edited[edit] != x:
                    edit = -1
            k_from = first
            if kappa.size > 0:
                smallest = min(kappa[pair_offset[node] + x - begin], index_of_k.size - 1)
                k_from = max(first, index_of_k[smallest])
            used = 0 if is_observed or observed < 0 else 1
            if k_from >= n_ks or used >= columns:
                continue
            base = np.uint64(0)  # an unsigned index needs no test for being negative
            if with_runs and not is_in(influenced, x):
                base = np.uint64((run + 1) * n_states)
            low = k_from * columns_after
            start, stop = row_start[x], row_start[x + 1]
            shift = edit_start[edit] - start if edit >= 0 else 0
            gain = 0.0 if by_entry else reward[x]
            if by_entry:
                for i in range(start, stop):
                    gain += (probability[i] if edit < 0 else edit_probability[i + shift]) * reward[i]
            if edit >= 0 and bonus.size > 0:
                gain += bonus[edit]
            straight = min(columns - used, columns_after)
            if stop - start == 1 and edit < 0 and not keep:  # a row with one outcome needs no sums
                p = probability[start]
                there = (base + np.uint64(next_state[start])) * row_width
                for ki in range(k_from, n_ks):
                    rest = there + np.uint64(ki * columns_after)
                    best_at = at + ki * columns + used
                    for c in range(columns - used):
                        candidate = gain + discount * (p * after[rest + np.uint64(min(c, columns_after - 1))])
                        best = before[best_at + c]
                        before[best_at + c] = candidate if candidate > best else best
                continue
            # Σ P·V_{t+1}, four columns at a time, so that sums stay in registers. Only an edited row has entries
            # without probability; they lead where no value was written.
            c = low
            while c + 4 <= width_after:
                v0, v1, v2, v3 = 0.0, 0.0, 0.0, 0.0
                for i in range(start, stop):
                    p = probability[i]
                    if edit >= 0:
                        p = edit_probability[i + shift]
                        if p == 0.0:
                            continue
                    there = (base + np.uint64(next_state[i])) * row_width + np.uint64(c)
                    v0 += p * after[there]
                    v1 += p * after[there + np.uint64(1)]
                    v2 += p * after[there + np.uint64(2)]
                    v3 += p * after[there + np.uint64(3)]
                scratch[scratch_at + c] = v0
                scratch[scratch_at + c + 1] = v1
                scratch[scratch_at + c + 2] = v2
                scratch[scratch_at + c + 3] = v3
                c += 4
            while c < width_after:
                v0 = 0.0
                for i in range(start, stop):
                    p = probability[i]
                    if edit >= 0:
                        p = edit_probability[i + shift]
                        if p == 0.0:
                            continue
                    v0 += p * after[(base + np.uint64(next_state[i])) * row_width + np.uint64(c)]
                scratch[scratch_at + c] = v0
                c += 1
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
                        largest = 0.0  # of the |V_{t+1}| behind it: the scale of its rounding error
                        for i in range(start, stop):
                            if edit < 0 or edit_probability[i + shift] > 0.0:
                                there = (base + np.uint64(next_state[i])) * row_width + np.uint64(column)
                                size_there = abs(after[there])
                                if largest < size_there < np.inf:
                                    largest = size_there
                        if candidate - best <= _ROUNDING * (abs(gain) + discount * largest):
                            continue
                    before[best_at + c] = candidate
                    choice[node, used + c] = x - begin


@kernel
def plan_layer(nodes: LayerNodes, rows: LayerRows, limits: Limits, goal: Objective, values: Values) -> None:
    """All nodes of a layer, one after the other; see `_plan_nodes`."""
    scratch = np.empty(limits.n_ks * values.columns_after)
    _plan_nodes(nodes, rows, limits, goal, values, 0, nodes.states.size, scratch, 0)


@parallel_kernel
def plan_layer_parallel(
    nodes: LayerNodes, rows: LayerRows, limits: Limits, goal: Objective, values: Values, chunks: int
) -> None:
    """The same in pieces, on all cores; the result does not depend on how many.

    A function of its own, not the one above compiled twice: numba's cache knows functions by name.
    """
    size = nodes.states.size
    stride = limits.n_ks * values.columns_after + _CACHE_LINE  # no two threads write to one cache line
    scratch = np.empty(chunks * stride)
    for chunk in numba.prange(chunks):
        low, high = chunk * size // chunks, (chunk + 1) * size // chunks
        _plan_nodes(nodes, rows, limits, goal, values, low, high, scratch, chunk * stride)
