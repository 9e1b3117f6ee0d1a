"""Backward induction: one layer of V_t(s, c), for every number c of changes left and for several k at once.

Values of a layer are flat: those of node (run, state) begin at ``(run·S + state)·n_ks·columns``, first all c for
the first k, then all c for the next. The number of columns is a multiple of four, so that four sums at a time stay
in registers; columns beyond those asked for are what more changes would give. Nothing is read where nothing was
written: a pair is taken for k only if its successors are allowed for k.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from tether._kernels.jit import kernel, parallel_kernel
from tether._kernels.layer import LayerNodes, LayerRows
from tether._kernels.memory import AHEAD, FETCH_FROM, LONGEST, Index, prefetch
from tether._kernels.sorting import is_in, lower_bound
from tether._types import Floats, Ints

_ROUNDING = 8 * 2.0**-52
"""Values that differ by less than this, relative to the largest that went into them, are tied."""

_CLOSE = 1e-9
"""Values that differ by less than this, relatively, are looked at more closely for a tie."""


# Unsigned indices: a signed one is tested for being negative each time.
ZERO, ONE, TWO, THREE, FOUR = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
NONE = np.int64(-1)

_LEFT = np.int64(-2)
"""Stands for the choice of a node that the quick kernel left to the careful one."""

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
    """V of this layer and the next, flat, with their numbers of columns c (multiples of four); and the choices.

    Beyond its last column V of the next layer does not change any more. ``choice[node, c]``, if it has columns, is
    the number of the chosen pair among those of the state, -1 where none is allowed (the value is then -∞).
    """

    after: Floats
    columns_after: int
    before: Floats
    columns: int
    choice: Ints


class Scratch(NamedTuple):
    """What is known of the pairs of one node, in the order they are tried; room for some threads side by side."""

    pair: Ints
    edit: Ints
    from_k: Ints
    gain: Floats


@kernel
def _is_rounding(
    difference: float, gain: float, discount: float, start: Index, stop: Index, next_state: Ints,
    edit_probability: Floats, edit_at: Index, edit: int, after: Floats, place: Index, width: Index,
) -> bool:  # fmt: skip
    """Whether a difference is small beside what it was computed from: the largest |V_{t+1}| of a row's outcomes.

    That of outcome s' stands at ``place + s'·width``.
    """
    largest = 0.0
    for i in range(start, stop):
        if edit < 0 or edit_probability[edit_at + i - start] > 0.0:
            size_there = abs(after[place + np.uint64(next_state[i]) * width])
            if largest < size_there < np.inf:
                largest = size_there
    return difference <= _ROUNDING * (abs(gain) + discount * largest)


@kernel
def _plan_plain_nodes(
    states: Ints, rows: LayerRows, limits: Limits, goal: Objective, values: Values, low_node: int, high_node: int
) -> None:
    """`_plan_nodes` at its barest, for a single k, which is nearly every node of a plan on a large model.

    Nodes with edited rows, and those where two actions are so close that they may be tied, are left to
    `_plan_nodes`, marked in ``choice``.
    """
    pair_start, pair_action, row_start, next_state, probability = (
        rows.pair_start, rows.pair_action, rows.row_start, rows.next_state, rows.probability,
    )  # fmt: skip
    edited = rows.edited
    kappa, pair_offset = limits.kappa, limits.pair_offset
    reward, discount, observed = goal.reward, goal.discount, goal.observed
    after, before, choice = values.after, values.before, values.choice
    width, kept = np.uint64(values.columns), np.uint64(choice.shape[1])
    largest_allowed = lower_bound(limits.index_of_k, 1) - 1
    fetch = after.size * 8 >= FETCH_FROM
    e = lower_bound(edited, pair_start[states[low_node]]) if low_node < high_node else 0
    for node in range(low_node, high_node):
        here = np.uint64(node)
        s = np.uint64(states[here])
        if fetch and node + AHEAD < high_node:
            ahead = np.uint64(states[here + np.uint64(AHEAD)])
            soon = np.uint64(row_start[np.uint64(pair_start[ahead])])
            until = np.uint64(row_start[np.uint64(pair_start[ahead + ONE])])
            if until - soon <= np.uint64(LONGEST):
                for i in range(soon, until):
                    prefetch(after, np.uint64(next_state[i]) * width)
        begin, end = np.uint64(pair_start[s]), np.uint64(pair_start[s + ONE])
        while e < edited.size and edited[e] < begin:
            e += 1
        unsure = e < edited.size and edited[e] < end
        kappa_at = np.uint64(pair_offset[here])
        at_observed = end
        for pair in range(begin, end):
            if pair_action[pair] == observed:
                at_observed = np.uint64(pair)
        column = ZERO
        while column < width and not unsure:
            b0, b1, b2, b3 = -np.inf, -np.inf, -np.inf, -np.inf
            x0, x1, x2, x3 = NONE, NONE, NONE, NONE
            for turn in range(end - begin + ONE):
                x = at_observed if turn == 0 else begin + turn - ONE
                if x == end or (turn > 0 and x == at_observed) or kappa[kappa_at + x - begin] > largest_allowed:
                    continue
                is_change = x != at_observed
                place = column - ONE if is_change and column > ZERO else column
                v0, v1, v2, v3 = 0.0, 0.0, 0.0, 0.0
                for i in range(np.uint64(row_start[x]), np.uint64(row_start[x + ONE])):
                    p = probability[i]
                    there = np.uint64(next_state[i]) * width + place
                    v0 += p * after[there]
                    v1 += p * after[there + ONE]
                    v2 += p * after[there + TWO]
                    v3 += p * after[there + THREE]
                gain, number = reward[x], np.int64(x - begin)
                v0, v1 = gain + discount * v0, gain + discount * v1
                v2, v3 = gain + discount * v2, gain + discount * v3
                if is_change and column == ZERO:
                    v0, v1, v2, v3 = -np.inf, v0, v1, v2
                if v0 > b0:
                    unsure = unsure or v0 - b0 < _CLOSE * (abs(gain) + abs(b0))
                    b0, x0 = v0, number
                if v1 > b1:
                    unsure = unsure or v1 - b1 < _CLOSE * (abs(gain) + abs(b1))
                    b1, x1 = v1, number
                if v2 > b2:
                    unsure = unsure or v2 - b2 < _CLOSE * (abs(gain) + abs(b2))
                    b2, x2 = v2, number
                if v3 > b3:
                    unsure = unsure or v3 - b3 < _CLOSE * (abs(gain) + abs(b3))
                    b3, x3 = v3, number
            to = s * width + column
            before[to] = b0
            before[to + ONE] = b1
            before[to + TWO] = b2
            before[to + THREE] = b3
            if column < kept:
                choice[here, column] = x0
            if column + ONE < kept:
                choice[here, column + ONE] = x1
            if column + TWO < kept:
                choice[here, column + TWO] = x2
            if column + THREE < kept:
                choice[here, column + THREE] = x3
            column += FOUR
        if unsure:
            choice[here, ZERO] = _LEFT


@kernel
def _are_plain(nodes: LayerNodes, limits: Limits, goal: Objective, values: Values) -> bool:
    """Whether `_plan_plain_nodes` can do them."""
    whole = values.columns == values.columns_after and values.choice.shape[1] > 0
    single = limits.n_ks == 1 and limits.kappa.size > 0 and limits.first_k.size == 0
    return whole and single and goal.observed >= 0 and not goal.by_entry and not nodes.with_runs


@kernel
def _plan_nodes(
    nodes: LayerNodes,
    rows: LayerRows,
    limits: Limits,
    goal: Objective,
    values: Values,
    low_node: int,
    high_node: int,
    scratch: Scratch,
    scratch_at: int,
    only_left: bool,
) -> None:
    """V_t(node, c) = max over allowed a of R + γ·Σ P_cf·V_{t+1}(s', c - [a ≠ a_t]), for each k; for some nodes.

    In each node the observed action is tried first, then the others in their order, and where choices are kept
    only what is better by more than rounding replaces what was tried before: ties change nothing.
    Column c looks at column c of the next layer if the action is the observed one, else at c - 1. The scratch has
    room for the pairs of any state from ``scratch_at`` on. ``only_left``: only those that `_plan_plain_nodes` left.
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
    tried_pair, tried_edit, tried_from, tried_gain = scratch
    width, width_after = np.uint64(n_ks * columns), np.uint64(n_ks * columns_after)
    largest_kappa = index_of_k.size - 1
    kept = np.uint64(choice.shape[1])
    fetch = after.size * 8 >= FETCH_FROM
    e = lower_bound(edited, pair_start[states[low_node]]) if low_node < high_node else 0
    for node in range(low_node, high_node):
        here = np.uint64(node)
        if only_left and choice[here, ZERO] != _LEFT:
            continue
        s = np.uint64(states[here])
        if fetch and not only_left and node + AHEAD < high_node:
            ahead = np.uint64(states[here + np.uint64(AHEAD)])
            soon = np.uint64(row_start[np.uint64(pair_start[ahead])])
            until = np.uint64(row_start[np.uint64(pair_start[ahead + ONE])])
            if until - soon <= np.uint64(LONGEST):
                for i in range(soon, until):
                    prefetch(after, np.uint64(next_state[i]) * width_after)
        run = np.uint64(runs[here]) if with_runs else ZERO
        first = first_k[here] if first_k.size > 0 else 0
        begin, end = np.uint64(pair_start[s]), np.uint64(pair_start[s + ONE])
        # List the pairs that are allowed for some k, the observed one first.
        while e < edited.size and edited[e] < begin:
            e += 1
        has_edits = e < edited.size and edited[e] < end
        kappa_at = np.uint64(pair_offset[here]) if kappa.size > 0 else ZERO
        tried_at = np.uint64(scratch_at) + ONE
        tried_end = tried_at
        with_observed = False
        edit_here = e
        for x in range(begin, end):
            from_k = first
            if kappa.size > 0:
                from_k = max(from_k, index_of_k[np.uint64(min(kappa[kappa_at + x - begin], largest_kappa))])
            edit = -1
            if has_edits and edit_here < edited.size and edited[edit_here] == x:
                edit = edit_here
                edit_here += 1
            if from_k >= n_ks:
                continue
            gain = 0.0 if by_entry else reward[x]
            if by_entry:
                start, stop = np.uint64(row_start[x]), np.uint64(row_start[x + ONE])
                if edit < 0:
                    for i in range(start, stop):
                        gain += probability[i] * reward[i]
                else:
                    edit_at = np.uint64(edit_start[edit])
                    for i in range(start, stop):
                        gain += edit_probability[edit_at + i - start] * reward[i]
            if edit >= 0 and bonus.size > 0:
                gain += bonus[edit]
            to = tried_end
            if pair_action[x] == observed:
                with_observed = True
                to = tried_at - ONE
            else:
                tried_end += ONE
            tried_pair[to] = x
            tried_edit[to] = edit
            tried_from[to] = from_k
            tried_gain[to] = gain
        if with_observed:
            tried_at -= ONE
        for ki in range(first, n_ks):
            at = (run * np.uint64(n_states) + s) * width + np.uint64(ki * columns)
            for block in range(np.uint64(columns) // FOUR):
                column = block * FOUR
                b0, b1, b2, b3 = -np.inf, -np.inf, -np.inf, -np.inf
                x0, x1, x2, x3 = NONE, NONE, NONE, NONE
                for tried in range(tried_at, tried_end):
                    if tried_from[tried] > ki:
                        continue
                    pair = np.uint64(tried_pair[tried])
                    edit = tried_edit[tried]
                    gain = tried_gain[tried]
                    is_change = observed >= 0 and not (with_observed and tried == tried_at)
                    base = np.uint64(ki * columns_after)
                    if with_runs and not is_in(influenced, int(pair)):
                        base += (run + ONE) * np.uint64(n_states) * width_after
                    beyond = column >= np.uint64(columns_after)
                    if beyond:
                        base += np.uint64(columns_after) - FOUR
                    elif is_change and column > ZERO:
                        base += column - ONE
                    else:
                        base += column
                    start, stop = np.uint64(row_start[pair]), np.uint64(row_start[pair + ONE])
                    edit_at = np.uint64(edit_start[edit]) if edit >= 0 else ZERO
                    v0, v1, v2, v3 = 0.0, 0.0, 0.0, 0.0
                    if edit < 0:
                        for i in range(start, stop):
                            p = probability[i]
                            there = base + np.uint64(next_state[i]) * width_after
                            v0 += p * after[there]
                            v1 += p * after[there + ONE]
                            v2 += p * after[there + TWO]
                            v3 += p * after[there + THREE]
                    else:  # it may have entries without probability, which lead where no value was written
                        for i in range(start, stop):
                            p = edit_probability[edit_at + i - start]
                            if p != 0.0:
                                there = base + np.uint64(next_state[i]) * width_after
                                v0 += p * after[there]
                                v1 += p * after[there + ONE]
                                v2 += p * after[there + TWO]
                                v3 += p * after[there + THREE]
                    if beyond:
                        v0, v1, v2 = v3, v3, v3
                    v0, v1, v2, v3 = (
                        gain + discount * v0,
                        gain + discount * v1,
                        gain + discount * v2,
                        gain + discount * v3,
                    )
                    if is_change and column == ZERO:
                        v0, v1, v2, v3 = -np.inf, v0, v1, v2
                    if kept == ZERO:
                        b0 = v0 if v0 > b0 else b0
                        b1 = v1 if v1 > b1 else b1
                        b2 = v2 if v2 > b2 else b2
                        b3 = v3 if v3 > b3 else b3
                        continue
                    number = np.int64(pair - begin)
                    # Where the four values came from: one to the left for a change in the first block.
                    f0, f1, f2, f3 = base, base + ONE, base + TWO, base + THREE
                    if beyond:
                        f0, f1, f2 = f3, f3, f3
                    elif is_change and column == ZERO:
                        f1, f2, f3 = f0, f1, f2
                    if v0 > b0 and (
                        v0 - b0 >= _CLOSE * (abs(gain) + abs(b0))
                        or not _is_rounding(
                            v0 - b0, gain, discount, start, stop, next_state,
                            edit_probability, edit_at, edit, after, f0, width_after,
                        )
                    ):  # fmt: skip
                        b0, x0 = v0, number
                    if v1 > b1 and (
                        v1 - b1 >= _CLOSE * (abs(gain) + abs(b1))
                        or not _is_rounding(
                            v1 - b1, gain, discount, start, stop, next_state,
                            edit_probability, edit_at, edit, after, f1, width_after,
                        )
                    ):  # fmt: skip
                        b1, x1 = v1, number
                    if v2 > b2 and (
                        v2 - b2 >= _CLOSE * (abs(gain) + abs(b2))
                        or not _is_rounding(
                            v2 - b2, gain, discount, start, stop, next_state,
                            edit_probability, edit_at, edit, after, f2, width_after,
                        )
                    ):  # fmt: skip
                        b2, x2 = v2, number
                    if v3 > b3 and (
                        v3 - b3 >= _CLOSE * (abs(gain) + abs(b3))
                        or not _is_rounding(
                            v3 - b3, gain, discount, start, stop, next_state,
                            edit_probability, edit_at, edit, after, f3, width_after,
                        )
                    ):  # fmt: skip
                        b3, x3 = v3, number
                to = at + column
                before[to] = b0
                before[to + ONE] = b1
                before[to + TWO] = b2
                before[to + THREE] = b3
                if column < kept:
                    choice[here, column] = x0
                if column + ONE < kept:
                    choice[here, column + ONE] = x1
                if column + TWO < kept:
                    choice[here, column + TWO] = x2
                if column + THREE < kept:
                    choice[here, column + THREE] = x3


def scratch_for(pairs: int, threads: int) -> tuple[Scratch, int]:
    """Scratch for nodes of so many pairs at most, for some threads; and how far apart theirs lie."""
    stride = pairs + 1 + _CACHE_LINE  # no two threads write to one cache line
    size = stride * threads
    return Scratch(np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size)), stride


@kernel
def plan_layer(
    nodes: LayerNodes, rows: LayerRows, limits: Limits, goal: Objective, values: Values, scratch: Scratch
) -> None:
    """All nodes of a layer, one after the other; see `_plan_nodes`."""
    plain = _are_plain(nodes, limits, goal, values)
    if plain:
        _plan_plain_nodes(nodes.states, rows, limits, goal, values, 0, nodes.states.size)
    _plan_nodes(nodes, rows, limits, goal, values, 0, nodes.states.size, scratch, 0, plain)


@parallel_kernel
def plan_layer_parallel(
    nodes: LayerNodes,
    rows: LayerRows,
    limits: Limits,
    goal: Objective,
    values: Values,
    scratch: Scratch,
    stride: int,
    chunks: int,
) -> None:
    """The same in pieces, on all cores; the result does not depend on how many.

    A function of its own, not the one above compiled twice: numba's cache knows functions by name.
    """
    size = nodes.states.size
    plain = _are_plain(nodes, limits, goal, values)
    for chunk in numba.prange(chunks):
        low, high = chunk * size // chunks, (chunk + 1) * size // chunks
        if plain:
            _plan_plain_nodes(nodes.states, rows, limits, goal, values, low, high)
        _plan_nodes(nodes, rows, limits, goal, values, low, high, scratch, chunk * stride, plain)


@kernel
def _solve_states(
    rows: LayerRows,
    goal: Objective,
    after: Floats,
    before: Floats,
    choice: Ints,
    low: int,
    high: int,
) -> None:
    """V_t(s) = max over a of R + γ·Σ P·V_{t+1}(s') in the plain model, without limits; for some states."""
    pair_start, row_start, next_state, probability = (
        rows.pair_start, rows.row_start, rows.next_state, rows.probability,
    )  # fmt: skip
    edit_probability = rows.edit_probability
    reward, by_entry, discount = goal.reward, goal.by_entry, goal.discount
    fetch = after.size * 8 >= FETCH_FROM
    last = np.uint64(row_start[pair_start[high]])
    for s in range(np.uint64(low), np.uint64(high)):
        best, chosen = -np.inf, NONE
        if fetch:
            soon = np.uint64(row_start[np.uint64(pair_start[s])]) + np.uint64(LONGEST)
            until = np.uint64(row_start[np.uint64(pair_start[s + ONE])]) + np.uint64(LONGEST)
            for i in range(soon, min(until, last)):
                prefetch(after, np.uint64(next_state[i]))
        begin = np.uint64(pair_start[s])
        for x in range(begin, np.uint64(pair_start[s + ONE])):
            start, stop = np.uint64(row_start[x]), np.uint64(row_start[x + ONE])
            gain, rest = 0.0, 0.0
            for i in range(start, stop):
                rest += probability[i] * after[np.uint64(next_state[i])]
            if by_entry:
                for i in range(start, stop):
                    gain += probability[i] * reward[i]
            else:
                gain = reward[x]
            value = gain + discount * rest
            if value > best and (
                value - best >= _CLOSE * (abs(gain) + abs(best))
                or not _is_rounding(
                    value - best, gain, discount, start, stop, next_state,
                    edit_probability, ZERO, -1, after, ZERO, ONE,
                )
            ):  # fmt: skip
                best, chosen = value, np.int64(x - begin)
        before[s] = best
        choice[s] = chosen


@kernel
def solve_layer(rows: LayerRows, goal: Objective, after: Floats, before: Floats, choice: Ints) -> None:
    """All states, one after the other; see `_solve_states`."""
    _solve_states(rows, goal, after, before, choice, 0, before.size)


@parallel_kernel
def solve_layer_parallel(
    rows: LayerRows, goal: Objective, after: Floats, before: Floats, choice: Ints, chunks: int
) -> None:
    """The same in pieces, on all cores."""
    size = before.size
    for chunk in numba.prange(chunks):
        low, high = chunk * size // chunks, (chunk + 1) * size // chunks
        _solve_states(rows, goal, after, before, choice, low, high)
