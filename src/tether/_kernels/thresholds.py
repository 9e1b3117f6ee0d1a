"""κ: the smallest k at which each pair is allowed, one layer at a time, from the last to the first.

Arrays over the nodes of the *next* layer are indexed ``[run, state]``. Each kernel goes through the
nodes of a layer and their pairs in order; arrays "pair by pair" are in that order.
"""

from __future__ import annotations

import numba
import numpy as np

from tether._kernels.jit import kernel, parallel_kernel
from tether._kernels.layer import LayerNodes, LayerRows
from tether._kernels.memory import AHEAD, FETCH_FROM, LONGEST, prefetch
from tether._kernels.sorting import is_in, lower_bound
from tether._types import Ints

FAR = 1 << 14
"""Further than any horizon: stands for ∞ where a threshold is stored as a small integer."""

ONE, TWO = np.uint64(1), np.uint64(2)  # unsigned indices: a signed one is tested for being negative each time

_STRETCH = np.uint64(16)
"""Entries of a row that are read before it is asked whether the rest can matter."""


@kernel
def nearest_influence(nodes: LayerNodes, rows: LayerRows, near_next: Ints, near: Ints, own: Ints) -> None:
    """dist_t(s,a) = 1 if (s,a) is influenced at t, else 1 + min over successors and their actions of dist_{t+1}.

    Writes it pair by pair to ``own`` and its minimum over actions to ``near[state]``.
    """
    states = nodes.states
    pair_start, row_start, next_state = rows.pair_start, rows.row_start, rows.next_state
    edited, edit_start, edit_probability = rows.edited, rows.edit_start, rows.edit_probability
    influenced = rows.influenced
    n = 0
    for s in states:
        best = FAR
        e = lower_bound(edited, pair_start[s])
        for x in range(pair_start[s], pair_start[s + 1]):
            edit = -1
            if e < edited.size and edited[e] == x:
                edit = edit_start[e]
                e += 1
            distance = FAR
            if edit >= 0 and is_in(influenced, x):
                distance = 1
            else:
                start = row_start[x]
                for i in range(start, row_start[x + 1]):
                    if edit < 0 or edit_probability[edit + i - start] > 0.0:
                        distance = min(distance, near_next[next_state[i]] + 1)
                        if distance == 2:  # no nearer without influence here
                            break
            own[n] = distance
            best = min(best, distance)
            n += 1
        near[s] = best


@kernel
def node_distance(states: Ints, rows: LayerRows, targets: Ints, node_next: Ints, node: Ints) -> None:
    """Steps from (t, s) to the nearest target node, in the time-layered graph of the nominal model.

    ``targets`` are the target states of this layer (ascending), at distance 0.
    """
    pair_start, row_start, next_state = rows.pair_start, rows.row_start, rows.next_state
    for s in states:
        distance = FAR
        if is_in(targets, s):
            distance = 0
        else:
            for i in range(row_start[pair_start[s]], row_start[pair_start[s + 1]]):
                distance = min(distance, node_next[next_state[i]] + 1)
        node[s] = min(distance, FAR)


@kernel
def furthest_node(nodes: LayerNodes, rows: LayerRows, node: Ints, node_next: Ints, own: Ints) -> None:
    """max(1, distance of s at t, distances of the counterfactually possible successors at t+1), pair by pair."""
    states = nodes.states
    pair_start, row_start, next_state = rows.pair_start, rows.row_start, rows.next_state
    edited, edit_start, edit_probability = rows.edited, rows.edit_start, rows.edit_probability
    n = 0
    for s in states:
        e = lower_bound(edited, pair_start[s])
        for x in range(pair_start[s], pair_start[s + 1]):
            edit = -1
            if e < edited.size and edited[e] == x:
                edit = edit_start[e]
                e += 1
            furthest = max(1, node[s])
            start = row_start[x]
            for i in range(start, row_start[x + 1]):
                if edit < 0 or edit_probability[edit + i - start] > 0.0:
                    furthest = max(furthest, node_next[next_state[i]])
            own[n] = furthest
            n += 1


@kernel
def spread_depth(states: Ints, rows: LayerRows, depth: Ints, round_number: int) -> int:
    """One round of a reverse breadth-first search: states with a successor at the depth before; how many."""
    pair_start, row_start, next_state = rows.pair_start, rows.row_start, rows.next_state
    found = 0
    for s in states:
        if depth[s] < FAR:
            continue
        for i in range(row_start[pair_start[s]], row_start[pair_start[s + 1]]):
            if depth[next_state[i]] == round_number - 1:
                depth[s] = round_number
                found += 1
                break
    return found


@kernel
def deepest_successor(nodes: LayerNodes, rows: LayerRows, depth: Ints, own: Ints) -> None:
    """max(1, largest depth among the nominal successors), pair by pair."""
    states = nodes.states
    pair_start, row_start, next_state = rows.pair_start, rows.row_start, rows.next_state
    n = 0
    for s in states:
        for x in range(pair_start[s], pair_start[s + 1]):
            deepest = 1
            for i in range(row_start[x], row_start[x + 1]):
                deepest = max(deepest, depth[next_state[i]])
            own[n] = deepest
            n += 1


@kernel
def run_length(nodes: LayerNodes, rows: LayerRows, own: Ints) -> None:
    """1 for an influenced pair; otherwise one more than the run of uninfluenced steps it makes, pair by pair."""
    states, runs = nodes.states, nodes.runs
    pair_start = rows.pair_start
    influenced = rows.influenced
    n = 0
    for node in range(states.size):
        s = states[node]
        for x in range(pair_start[s], pair_start[s + 1]):
            own[n] = 1 if is_in(influenced, x) else runs[node] + 2
            n += 1


@kernel
def close_thresholds(
    nodes: LayerNodes, rows: LayerRows, cap: int, highest: int, kappa_next: Ints, kappa: Ints, kappa_pair: Ints
) -> int:
    """κ_t(s,a) = max(own_t(s,a), max over successors of κ_{t+1}(s')), κ_t(s) = min over a.

    ``kappa_pair`` holds the rule's own threshold, pair by pair, and is overwritten by κ; the own
    threshold counts for at most ``cap`` = T - t + 1. ``highest`` is what no κ of the next layer exceeds.
    ``kappa[run, state]`` gets the minimum; the largest of these minima is returned (∞ where a state has no pair).
    """
    states, runs, with_runs = nodes.states, nodes.runs, nodes.with_runs
    pair_start, row_start, next_state = rows.pair_start, rows.row_start, rows.next_state
    edited, edit_start, edit_probability = rows.edited, rows.edit_start, rows.edit_probability
    influenced = rows.influenced
    n, largest = 0, 0
    for node in range(states.size):
        s, run = states[node], runs[node] if with_runs else 0
        best = FAR
        e = lower_bound(edited, pair_start[s])
        for x in range(pair_start[s], pair_start[s + 1]):
            edit = -1
            if e < edited.size and edited[e] == x:
                edit = edit_start[e]
                e += 1
            worst = min(kappa_pair[n], cap)
            run_next = 0
            if with_runs and not is_in(influenced, x):
                run_next = run + 1
            start = row_start[x]
            for i in range(start, row_start[x + 1]):
                if edit < 0 or edit_probability[edit + i - start] > 0.0:
                    worst = max(worst, kappa_next[run_next, next_state[i]])
                    if worst >= highest:
                        break
            kappa_pair[n] = worst
            best = min(best, worst)
            n += 1
        kappa[run, s] = best
        largest = max(largest, best)
    return largest


@kernel
def _close_nodes(
    states: Ints,
    rows: LayerRows,
    offsets: Ints,
    cap: int,
    highest: int,
    after: Ints,
    before: Ints,
    kappa_pair: Ints,
    low_node: int,
    high_node: int,
) -> None:
    """`nearest_influence` and `close_thresholds` in one, for some nodes without runs: each row is read once.

    ``after[2·state]`` is the distance to the nearest influence and ``after[2·state + 1]`` the κ of the state at
    t + 1, side by side so that one fetch brings both; ``before`` is the same at t. The κ of pairs go to
    ``kappa_pair`` from ``offsets[node]`` on.
    """
    pair_start, row_start, next_state = rows.pair_start, rows.row_start, rows.next_state
    edited, edit_start, edit_probability = rows.edited, rows.edit_start, rows.edit_probability
    influenced = rows.influenced
    fetch = after.size * 2 >= FETCH_FROM
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
                    prefetch(after, np.uint64(next_state[i]) * TWO)
        begin, end = np.uint64(pair_start[s]), np.uint64(pair_start[s + ONE])
        while e < edited.size and edited[e] < begin:
            e += 1
        nearest, best = FAR, FAR
        to = np.uint64(offsets[here])
        for x in range(begin, end):
            start, stop = np.uint64(row_start[x]), np.uint64(row_start[x + ONE])
            distance, worst = FAR, 1
            if e < edited.size and edited[e] == x:
                at = np.uint64(edit_start[e])
                e += 1
                for i in range(start, stop):
                    if edit_probability[at + i - start] > 0.0:
                        j = np.uint64(next_state[i]) * TWO
                        distance = min(distance, after[j] + 1)
                        worst = max(worst, after[j + ONE])
                if is_in(influenced, x):
                    distance = 1
            else:
                done = start
                while done < stop:
                    upto = min(done + _STRETCH, stop)
                    for entry in range(done, upto):
                        j = np.uint64(next_state[entry]) * TWO
                        distance = min(distance, after[j] + 1)
                        worst = max(worst, after[j + ONE])
                    done = upto
                    if distance <= 2 and worst >= highest:  # neither can get any further
                        break
            worst = max(worst, min(distance, cap))
            kappa_pair[to + x - begin] = worst
            nearest, best = min(nearest, distance), min(best, worst)
        before[s * TWO] = nearest
        before[s * TWO + ONE] = best


@kernel
def close_definition(
    states: Ints, rows: LayerRows, offsets: Ints, cap: int, highest: int, after: Ints, before: Ints, kappa_pair: Ints
) -> None:
    """All nodes of a layer, one after the other; see `_close_nodes`."""
    _close_nodes(states, rows, offsets, cap, highest, after, before, kappa_pair, 0, states.size)


@parallel_kernel
def close_definition_parallel(
    states: Ints,
    rows: LayerRows,
    offsets: Ints,
    cap: int,
    highest: int,
    after: Ints,
    before: Ints,
    kappa_pair: Ints,
    chunks: int,
) -> None:
    """The same in pieces, on all cores; the result does not depend on how many."""
    size = states.size
    for chunk in numba.prange(chunks):
        low, high = chunk * size // chunks, (chunk + 1) * size // chunks
        _close_nodes(states, rows, offsets, cap, highest, after, before, kappa_pair, low, high)


@kernel
def mark_allowed(nodes: LayerNodes, rows: LayerRows, kappa_pair: Ints, offsets: Ints, k: int, seen: Ints) -> None:
    """Mark in ``seen[run·S + state]`` what the pairs of ``nodes`` that are allowed for ``k`` lead to."""
    states, runs, with_runs, n_states = nodes
    pair_start, row_start, next_state = rows.pair_start, rows.row_start, rows.next_state
    edited, edit_start, edit_probability = rows.edited, rows.edit_start, rows.edit_probability
    influenced = rows.influenced
    for node in range(states.size):
        s, run = states[node], runs[node] if with_runs else 0
        e = lower_bound(edited, pair_start[s])
        for x in range(pair_start[s], pair_start[s + 1]):
            edit = -1
            if e < edited.size and edited[e] == x:
                edit = edit_start[e]
                e += 1
            if kappa_pair[offsets[node] + x - pair_start[s]] > k:
                continue
            run_next = 0
            if with_runs and not is_in(influenced, x):
                run_next = run + 1
            base = np.uint64(run_next * n_states)
            start = row_start[x]
            for i in range(start, row_start[x + 1]):
                if edit < 0 or edit_probability[edit + i - start] > 0.0:
                    seen[base + np.uint64(next_state[i])] = 1


@kernel
def any_allowed(kappa_pair: Ints, offsets: Ints, k: int, out: Ints) -> None:
    """For each node, whether some pair of it is allowed for ``k``."""
    for node in range(out.size):
        out[node] = 0
        for n in range(offsets[node], offsets[node + 1]):
            if kappa_pair[n] <= k:
                out[node] = 1
                break


@kernel
def spread_reach(
    nodes: LayerNodes, rows: LayerRows, kappa_pair: Ints, reach: Ints, reach_next: Ints, met: Ints
) -> None:
    """The smallest k at which a node is reached: min over the pairs that lead to it of max(their node's, their κ).

    ``reach`` is given node by node; ``reach_next[run·S + state]`` must hold FAR for the nodes of the next layer.
    ``met[k]`` is set for each k at which a pair comes into reach; its last item stands for all beyond.
    """
    states, runs, with_runs, n_states = nodes
    pair_start, row_start, next_state = rows.pair_start, rows.row_start, rows.next_state
    edited, edit_start, edit_probability = rows.edited, rows.edit_start, rows.edit_probability
    influenced = rows.influenced
    n = 0
    for node in range(states.size):
        s, run = states[node], runs[node] if with_runs else 0
        e = lower_bound(edited, pair_start[s])
        for x in range(pair_start[s], pair_start[s + 1]):
            edit = -1
            if e < edited.size and edited[e] == x:
                edit = edit_start[e]
                e += 1
            k = max(reach[node], kappa_pair[n])
            met[min(k, met.size - 1)] = 1
            n += 1
            if k >= FAR:
                continue
            run_next = 0
            if with_runs and not is_in(influenced, x):
                run_next = run + 1
            base = np.uint64(run_next * n_states)
            start = row_start[x]
            for i in range(start, row_start[x + 1]):
                if edit < 0 or edit_probability[edit + i - start] > 0.0:
                    j = base + np.uint64(next_state[i])
                    reach_next[j] = min(reach_next[j], k)


@kernel
def next_runs(nodes: LayerNodes, rows: LayerRows, longest: int, seen: Ints) -> None:
    """Mark in ``seen[run, state]`` the (state, run) that can follow, with runs of at most ``longest``."""
    states, runs, with_runs = nodes.states, nodes.runs, nodes.with_runs
    pair_start, row_start, next_state = rows.pair_start, rows.row_start, rows.next_state
    edited, edit_start, edit_probability = rows.edited, rows.edit_start, rows.edit_probability
    influenced = rows.influenced
    for node in range(states.size):
        s = states[node]
        e = lower_bound(edited, pair_start[s])
        for x in range(pair_start[s], pair_start[s + 1]):
            edit = -1
            if e < edited.size and edited[e] == x:
                edit = edit_start[e]
                e += 1
            run_next = 0
            if with_runs and not is_in(influenced, x):
                run_next = runs[node] + 1
            if run_next > longest:
                continue
            start = row_start[x]
            for i in range(start, row_start[x + 1]):
                if edit < 0 or edit_probability[edit + i - start] > 0.0:
                    seen[run_next, next_state[i]] = 1
