"""Many episodes of one model, batch after batch: the best plan of each within k, followed exactly.

The same numbers as `tether._kernels.plan` and `tether.evaluation` give for a single episode, bit for bit: every sum is
taken in the same order. What differs is what is looked at.

- Layers are what the model can reach without the observation: a superset, in which every value is the same.
- Whether a pair is allowed is asked for one k at a time, for the rule "definition" with influence by supports. A state
  with an influenced pair is at distance 1; of any other no row is edited, so that its distance comes from the states
  that any of its actions leads to.
- Edited rows of a step depend on (s_t, a_t, s_{t+1}) alone; they lie in a pool, for all pairs of the model that meet
  the observed support.
- With c changes left, V is kept for c < m; with all m left the episode is on its observed path, which is followed apart
  (METHOD: "the column c = m is needed at the observed states only").
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._kernels.gumbel import gumbel_rows, gumbel_sizes
from tether._kernels.jit import kernel
from tether._kernels.plan import ROUNDING
from tether._kernels.sorting import lower_bound

FAR = 1 << 14
"""Further than any horizon."""


class Model(NamedTuple):
    """The arrays of a model: its form; for each state the states that any action leads to; rewards by pair."""

    pair_start: Ints
    pair_action: Ints
    row_start: Ints
    next_state: Ints
    probability: Floats
    after_start: Ints
    after_state: Ints
    reward: Floats
    final: Floats
    discount: float
    absorbing: Ints


class Pool(NamedTuple):
    """Edited rows: those of one observed transition lie side by side, pairs ascending.

    Row i, of a pair of ``state[i]``, leads to ``next_state[start[i]:start[i + 1]]``.
    """

    pair: Ints
    state: Ints
    start: Ints
    next_state: Ints
    probability: Floats
    strength: Floats
    reward: Floats


class Room(NamedTuple):
    """Scratch of one worker. Arrays by state are flat; nothing is read in them where nothing was written.

    ``mark``, ``edited`` and ``by_class`` are 0 before and after each episode.
    """

    stamp: Ints
    layer: Ints
    layer_start: Ints
    near: Ints
    okay: Ints
    edited: Ints
    value: Floats
    choice: Ints
    numbers: Floats
    by_pair: Floats
    terms: Floats
    mark: Ints
    place: Ints
    node: Ints
    mass: Floats
    by_step: Floats
    by_class: Floats
    halves: Ints
    sums: Floats


class Batch(NamedTuple):
    """Episodes in the model's indices, what their steps earned by the model, and where their edited rows lie.

    Step i has the rows ``row_end[transition[i]] … row_end[transition[i] + 1] - 1`` of the pool. An episode is left out
    where ``usable`` is 0.
    """

    start: Ints
    state: Ints
    action: Ints
    pair: Ints
    transition: Ints
    row_end: Ints
    observed: Floats
    usable: Ints


class Outcomes(NamedTuple):
    """Labels, a byte for each label and state; and the class of outcomes of every state, from 0."""

    member: Ints
    code: Ints


class Found(NamedTuple):
    """What is found of each episode, by step of its likeliest change (-1: none), and of its ends.

    Episode i has the ends ``end_start[i] … end_start[i + 1] - 1``. ``k`` is -1 of an episode that was left out.
    """

    k: Ints
    value: Floats
    strength: Floats
    influenced: Floats
    labels: Floats
    change_pair: Ints
    change_chance: Floats
    end_start: Ints
    end_code: Ints
    end_chance: Floats


@kernel
def block_sum(values: Floats, first: int, n: int) -> float:
    """The sum of up to 128 numbers, in the order in which NumPy takes it."""
    total: float = 0.0
    if n < 8:
        for i in range(first, first + n):
            total += values[i]
        return total
    a, b, c, d = values[first], values[first + 1], values[first + 2], values[first + 3]
    e, f, g, h = values[first + 4], values[first + 5], values[first + 6], values[first + 7]
    i = first + 8
    while i < first + n - n % 8:
        a += values[i]
        b += values[i + 1]
        c += values[i + 2]
        d += values[i + 3]
        e += values[i + 4]
        f += values[i + 5]
        g += values[i + 6]
        h += values[i + 7]
        i += 8
    total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    while i < first + n:
        total += values[i]
        i += 1
    return total


@kernel
def pairwise(values: Floats, first: int, n: int, halves: Ints, sums: Floats) -> float:
    """The sum of ``values[first:first + n]`` in the order in which NumPy takes it: halves of halves, then blocks.

    ``halves`` (3, 64) and ``sums`` (64) are scratch: right halves that wait, and sums of left ones that are done. A
    function that calls itself would be shorter, but does not come back from the cache of compiled ones.
    """
    waiting = 0
    while True:
        while n > 128:
            half = n // 2
            half -= half % 8
            halves[0, waiting], halves[1, waiting], halves[2, waiting] = first + half, n - half, 0
            waiting += 1
            n = half
        total = block_sum(values, first, n)
        while waiting > 0 and halves[2, waiting - 1] == 1:
            waiting -= 1
            total = sums[waiting] + total
        if waiting == 0:
            return total
        sums[waiting - 1] = total
        halves[2, waiting - 1] = 1
        first, n = halves[0, waiting - 1], halves[1, waiting - 1]


@kernel
def sort_ascending(values: Ints, first: int, n: int) -> None:
    """Sort ``values[first:first + n]`` in place: by insertion where they are few, else as a heap."""
    if n <= 24:
        for i in range(first + 1, first + n):
            one = values[i]
            j = i
            while j > first and values[j - 1] > one:
                values[j] = values[j - 1]
                j -= 1
            values[j] = one
        return
    for root in range(n // 2 - 1, -1, -1):
        sift_down(values, first, root, n)
    for end in range(n - 1, 0, -1):
        values[first], values[first + end] = values[first + end], values[first]
        sift_down(values, first, 0, end)


@kernel
def sift_down(values: Ints, first: int, root: int, n: int) -> None:
    """Let a number sink in a heap whose largest is on top."""
    one = values[first + root]
    while True:
        child = 2 * root + 1
        if child >= n:
            break
        if child + 1 < n and values[first + child + 1] > values[first + child]:
            child += 1
        if values[first + child] <= one:
            break
        values[first + root] = values[first + child]
        root = child
    values[first + root] = one


@kernel
def meeting_pairs(
    next_state: Ints, low: int, high: int, lead_start: Ints, lead_pair: Ints, seen: Ints, out: Ints
) -> int:
    """Collect the pairs that lead to an outcome of a row, ascending; ``seen``, a byte per pair, is left as found: 0."""
    n = 0
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
    sort_ascending(out, 0, n)
    return n


@kernel
def fill_pool(
    model: Model,
    pool: Pool,
    entry_reward: Floats,
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
    """Edited rows of observed transitions ``first``, … into the pool; returns how many transitions found place.

    ``row_end[i]`` is where the rows of transition i begin, and those of i + 1. An outcome of -1 was not recorded: rows
    stay nominal. ``entry_reward`` has rewards by entry, or nothing where they are by pair.
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
            if entry_reward.size > 0:
                total = 0.0
                entry = model.row_start[met[j]]
                for e in range(pool.start[begin + j], pool.start[begin + j + 1]):
                    while model.next_state[entry] != pool.next_state[e]:
                        entry += 1
                    total += pool.probability[e] * entry_reward[entry]
                pool.reward[begin + j] = total
        row_end[i + 1] = begin + n
    return observed_pair.size


@kernel
def find_layers(model: Model, room: Room, start: int, T: int, mark: int) -> int:
    """What ``start`` leads to in 0 … T steps, whatever the actions.

    The states of time t are ``room.layer[room.layer_start[2t]:room.layer_start[2t + 1]]``. ``mark`` is a number that
    no layer was marked with before; returns the last number used, below 0 where some state before T has no action.
    """
    layer, bounds, stamp = room.layer, room.layer_start, room.stamp
    layer[0] = start
    bounds[0], bounds[1] = 0, 1
    same = False
    for t in range(T):
        low, high = bounds[2 * t], bounds[2 * t + 1]
        if same:
            bounds[2 * t + 2], bounds[2 * t + 3] = low, high
            continue
        mark += 1
        n = high
        for i in range(low, high):
            s = layer[i]
            if model.pair_start[s] == model.pair_start[s + 1]:
                return -mark
            for j in range(model.after_start[s], model.after_start[s + 1]):
                after = model.after_state[j]
                if stamp[after] != mark:
                    stamp[after] = mark
                    layer[n] = after
                    n += 1
        bounds[2 * t + 2], bounds[2 * t + 3] = high, n
        if n - high == high - low:
            same = True
            for i in range(low, high):
                if stamp[layer[i]] != mark:
                    same = False
                    break
            if same:
                bounds[2 * t + 2], bounds[2 * t + 3] = low, high
    return mark


@kernel
def columns_at(m: int, T: int, t: int) -> int:
    """How many numbers c of changes left are kept at time t."""
    return 1 if t == T else min(m, T - t + 1)


@kernel
def find_observed(model: Model, s: int, action: int) -> int:
    """The pair of a state and an action, or -1."""
    begin, end = model.pair_start[s], model.pair_start[s + 1]
    guess: int = begin + action
    if guess < end and model.pair_action[guess] == action:
        return guess
    for x in range(begin, end):
        if model.pair_action[x] == action:
            return x
    return -1


@kernel
def is_pair_allowed(
    next_state: Ints, low: int, high: int, okay: Ints, near: Ints, at_next: int, is_near: bool, k: int
) -> bool:
    """Whether all successors keep an allowed pair, and influence is met within k (``is_near``: it is anyway)."""
    for i in range(low, high):
        j = at_next + next_state[i]
        if okay[j] == 0:
            return False
        if near[j] < k:
            is_near = True
    return is_near


@kernel
def plan_layer(
    model: Model, pool: Pool, room: Room, t: int, T: int, k: int, m: int, sized: int, low_row: int, high_row: int,
    action: int,
) -> None:  # fmt: skip
    """Distances, what is allowed, and V with c < m changes left, of the nodes of one layer from those of the next."""
    n_states = model.pair_start.size - 1
    here, there = (t % 2) * n_states, ((t + 1) % 2) * n_states
    near, okay, value, choice = room.near, room.okay, room.value, room.choice
    columns, columns_after = columns_at(m, T, t), columns_at(m, T, t + 1)
    width = sized + m + 1  # of a state's numbers: its size, and V by c
    v_here, v_there = here * width, there * width
    for row in range(high_row - 1, low_row - 1, -1):  # of each state the first row, counted from 1
        room.edited[pool.state[row]] = row + 1
    unconstrained = k > T
    ends_soon = t + k > T
    best, total = room.numbers[: m + 2], room.numbers[m + 2 : 2 * m + 4]
    for n in range(room.layer_start[2 * t], room.layer_start[2 * t + 1]):
        s = room.layer[n]
        begin, end = model.pair_start[s], model.pair_start[s + 1]
        first_row = room.edited[s] - 1
        any_edited = first_row >= 0
        distance = 1
        if not unconstrained and not any_edited:
            distance = FAR
            for j in range(model.after_start[s], model.after_start[s + 1]):
                distance = min(distance, near[there + model.after_state[j]])
            distance = min(distance + 1, FAR)
        near[here + s] = distance
        at_observed = find_observed(model, s, action)
        all_free = at_observed < 0 and model.absorbing[s] > 0
        is_okay, size = ends_soon, 0.0  # where the end is within k every pair is allowed, and so is all that follows
        for c in range(columns):
            best[c] = -np.inf
            choice[(t * n_states + s) * (m + 1) + c] = -1
        for turn in range(end - begin + 1):
            x = at_observed if turn == 0 else begin + turn - 1
            if x < 0 or (turn > 0 and x == at_observed):
                continue
            shift = 0 if x == at_observed or all_free else 1
            if is_okay and columns <= shift:  # nothing more can be learned of this node
                break
            row = first_row
            is_edited = False
            if any_edited:
                while row < high_row and pool.pair[row] < x:
                    row += 1
                is_edited = row < high_row and pool.pair[row] == x
            if is_edited:
                successor, chance, gain = pool.next_state, pool.probability, pool.reward[row]
                low, high = pool.start[row], pool.start[row + 1]
            else:
                successor, chance, gain = model.next_state, model.probability, model.reward[x]
                low, high = model.row_start[x], model.row_start[x + 1]
            if not ends_soon:
                if not is_pair_allowed(successor, low, high, okay, near, there, is_edited, k):
                    continue
                is_okay = True
            if columns <= shift:
                continue
            if sized > 0:
                total[m + 1] = 0.0
                for i in range(low, high):
                    total[m + 1] += chance[i] * value[v_there + successor[i] * width]
                size = max(size, abs(gain) + model.discount * total[m + 1])
            for c in range(columns_after):
                one = 0.0
                for i in range(low, high):
                    one += chance[i] * value[v_there + successor[i] * width + sized + c]
                total[c] = one
            tie = ROUNDING * size
            for c in range(columns - shift):
                found = gain + model.discount * total[min(c, columns_after - 1)]
                if found > best[c + shift] + tie:
                    best[c + shift] = found
                    choice[(t * n_states + s) * (m + 1) + c + shift] = x - begin
        okay[here + s] = is_okay
        largest = 0.0
        for c in range(columns):
            value[v_here + s * width + sized + c] = best[c]
            if largest < abs(best[c]) < np.inf:
                largest = abs(best[c])
        if sized > 0:
            value[v_here + s * width] = size + largest
    for row in range(low_row, high_row):
        room.edited[pool.state[row]] = 0


@kernel
def plan_observed(
    model: Model, pool: Pool, room: Room, t: int, T: int, k: int, m: int, sized: int, low_row: int, high_row: int,
    s: int, observed: int, known: bool, value_after: float,
) -> float:  # fmt: skip
    """V_t(s_t, m), with all changes left on the observed path; its choice is kept."""
    n_states = model.pair_start.size - 1
    there = ((t + 1) % 2) * n_states
    columns_after = columns_at(m, T, t + 1)
    width = sized + m + 1
    v_there = there * width
    edited = pool.pair[low_row:high_row]
    begin, end = model.pair_start[s], model.pair_start[s + 1]
    values, terms = room.by_pair, room.terms
    best, largest = -np.inf, 0.0
    for x in range(begin, end):
        values[x - begin] = -np.inf
        if m == 0 and x != observed:
            continue
        row = lower_bound(edited, x)
        is_edited = row < edited.size and edited[row] == x
        if is_edited:
            successor, chance, gain = pool.next_state, pool.probability, pool.reward[low_row + row]
            low, high = pool.start[low_row + row], pool.start[low_row + row + 1]
        else:
            successor, chance, gain = model.next_state, model.probability, model.reward[x]
            low, high = model.row_start[x], model.row_start[x + 1]
        if t + k <= T and not is_pair_allowed(successor, low, high, room.okay, room.near, there, is_edited, k):
            continue
        rest, size = 0.0, 0.0
        if known and x == observed:
            rest, size = value_after, abs(value_after)
        elif columns_after > 0:
            n = high - low
            for i in range(n):
                after = room.value[v_there + successor[low + i] * width + sized + columns_after - 1]
                terms[i] = chance[low + i] * after
                terms[n + i] = chance[low + i] * (abs(after) if np.isfinite(after) else 0.0)
            rest = terms[0] + pairwise(terms, 1, n - 1, room.halves, room.sums)
            size = terms[n] + pairwise(terms, n + 1, n - 1, room.halves, room.sums)
        found = gain + model.discount * rest
        if np.isnan(found):
            found = -np.inf
        values[x - begin] = found
        best = max(best, found)
        largest = max(largest, abs(gain) + model.discount * size)
    tie = ROUNDING * (T - t) * largest
    chosen = observed - begin
    if not values[chosen] >= best - tie:
        for x in range(end - begin):
            if values[x] >= best - tie:
                chosen = x
                break
    room.choice[(t * n_states + s) * (m + 1) + m] = chosen
    value: float = values[chosen]
    return value


@kernel
def plan_episode(
    model: Model, pool: Pool, room: Room, batch: Batch, first: int, T: int, k: int, m: int, keep: bool
) -> float:
    """The value of the best plan of one episode within k and m ≤ T; its choices are in ``room``."""
    n_states = model.pair_start.size - 1
    sized = 1 if keep and m > 1 else 0
    width = sized + m + 1
    here = (T % 2) * n_states
    for n in range(room.layer_start[2 * T], room.layer_start[2 * T + 1]):
        s = room.layer[n]
        room.near[here + s] = FAR
        room.okay[here + s] = 1
        room.value[(here + s) * width + sized] = model.final[s]
        if sized > 0:
            room.value[(here + s) * width] = abs(model.final[s])
    found, known = 0.0, False
    for t in range(T - 1, -1, -1):
        at = batch.transition[first + t]
        low_row, high_row = batch.row_end[at], batch.row_end[at + 1]
        if m > 0 or k <= T:
            plan_layer(model, pool, room, t, T, k, m, sized, low_row, high_row, batch.action[first + t])
        if m <= T - t:
            s, x = batch.state[first + t], batch.pair[first + t]
            found = plan_observed(model, pool, room, t, T, k, m, sized, low_row, high_row, s, x, known, found)
            known = True
    return found


@kernel
def enough_k(
    model: Model, pool: Pool, room: Room, batch: Batch, first: int, T: int, m: int, observed: float, share: float
) -> int:
    """The shortest tether that gives ``share`` of what the longest one gives; 1 where none gains anything."""
    rounding = 1e-9 * max(1.0, abs(observed))
    most = max(plan_episode(model, pool, room, batch, first, T, T, m, False) - observed, 0.0)
    if most <= rounding:
        return 1
    for k in range(1, T):
        if plan_episode(model, pool, room, batch, first, T, k, m, False) - observed >= share * most - rounding:
            return k
    return T


@kernel
def sort_nodes(node: Ints, low: int, n: int, mark: Ints) -> None:
    """Sort ``node[low:low + n]``, each of which is marked: by going through the marks where nodes are many."""
    if n * 16 < mark.size:
        sort_ascending(node, low, n)
        return
    at = low
    for key in range(mark.size):
        if mark[key]:
            node[at] = key
            at += 1


@kernel
def follow_step(
    model: Model, pool: Pool, room: Room, t: int, T: int, m: int, low_row: int, high_row: int, action: int,
    here: int, n: int, there: int, step: int, found: Found,
) -> int:  # fmt: skip
    """One step of the plan: from the nodes ``room.node[here:here + n]`` to those from ``there`` on; returns how many.

    A node is state · (m + 1) + changes left. Strength, influence and the likeliest change of the step are kept.
    """
    n_states, height = model.pair_start.size - 1, m + 1
    node, mass, mark, terms = room.node, room.mass, room.mark, room.terms
    edited = pool.pair[low_row:high_row]
    size = terms.size // 2
    met, after = 0, 0
    best_chance, best_pair = -1.0, -1
    group, group_state = 0, -1
    for i in range(n):
        s, c = node[here + i] // height, node[here + i] % height
        x = model.pair_start[s] + room.choice[(t * n_states + s) * height + min(c, m, T - t)]
        row = lower_bound(edited, x)
        is_edited = row < edited.size and edited[row] == x
        is_change = model.pair_action[x] != action
        if is_change and model.absorbing[s] > 0 and find_observed(model, s, action) < 0:
            is_change = False
        if is_edited:
            terms[met] = mass[here + i] * pool.strength[low_row + row]
            terms[size + met] = mass[here + i]
            met += 1
            low, high = pool.start[low_row + row], pool.start[low_row + row + 1]
        else:
            low, high = model.row_start[x], model.row_start[x + 1]
        if is_change:
            # Nodes of one state follow each other: those that take the same pair are summed up.
            if group_state != s:
                group, group_state = i, s
            chance = 0.0
            for other in range(group, i):
                if room.by_pair[other] == x:
                    chance += mass[here + other]
            chance += mass[here + i]
            if chance > best_chance or (chance == best_chance and x < best_pair):
                best_chance, best_pair = chance, x
        elif group_state != s:
            group, group_state = i, s
        room.by_pair[i] = x if is_change else -1
        room.place[here + i] = (low << 1) | (1 if is_edited else 0)
        room.place[room.place.size // 2 + here + i] = high
        onward = c - (1 if is_change else 0)
        for j in range(low, high):
            s_after = pool.next_state[j] if is_edited else model.next_state[j]
            key = s_after * height + onward
            if mark[key] == 0:
                mark[key] = 1
                node[there + after] = key
                after += 1
    room.by_step[t] = pairwise(terms, 0, met, room.halves, room.sums)
    room.by_step[room.by_step.size // 2 + t] = pairwise(terms, size, met, room.halves, room.sums)
    found.change_pair[step] = best_pair
    found.change_chance[step] = best_chance
    return after


@kernel
def push_mass(model: Model, pool: Pool, room: Room, m: int, here: int, n: int, there: int, after: int) -> None:
    """The probability of each next node, added up in the order of the nodes before and of their rows."""
    height = m + 1
    node, mass, mark = room.node, room.mass, room.mark
    sort_nodes(node, there, after, mark)
    for i in range(after):
        mark[node[there + i]] = 0
        mass[there + i] = 0.0
        room.stamp[model.pair_start.size - 1 + node[there + i]] = i
    half = room.place.size // 2
    for i in range(n):
        low, is_edited = room.place[here + i] >> 1, room.place[here + i] & 1
        onward = node[here + i] % height - (1 if room.by_pair[i] >= 0 else 0)
        for j in range(low, room.place[half + here + i]):
            if is_edited:
                key, chance = pool.next_state[j] * height + onward, pool.probability[j]
            else:
                key, chance = model.next_state[j] * height + onward, model.probability[j]
            mass[there + room.stamp[model.pair_start.size - 1 + key]] += mass[here + i] * chance


@kernel
def tell_ends(outcomes: Outcomes, room: Room, m: int, here: int, n: int, episode: int, found: Found) -> bool:
    """The probability of each label and of each class of outcomes at the end; False where there is no place for it."""
    height, terms = m + 1, room.terms
    node, mass = room.node, room.mass
    for number in range(outcomes.member.shape[0]):
        size, last = 0, -1
        for i in range(n):
            s = node[here + i] // height
            if outcomes.member[number, s] == 0:
                continue
            if s == last:
                terms[size - 1] += mass[here + i]
            else:
                terms[size] = mass[here + i]
                size += 1
            last = s
        found.labels[episode, number] = min(1.0, pairwise(terms, 0, size, room.halves, room.sums))
    begin = found.end_start[episode]
    end = begin
    for i in range(n):
        code = outcomes.code[node[here + i] // height]
        if room.by_class[code] == 0.0:
            if end == found.end_code.size:
                for j in range(n):
                    room.by_class[outcomes.code[node[here + j] // height]] = 0.0
                return False
            if mass[here + i] > 0.0:
                found.end_code[end] = code
                end += 1
        room.by_class[code] += mass[here + i]
    sort_ascending(found.end_code, begin, end - begin)
    for i in range(begin, end):
        found.end_chance[i] = room.by_class[found.end_code[i]]
        room.by_class[found.end_code[i]] = 0.0
    found.end_start[episode + 1] = end
    return True


@kernel
def answer_episodes(
    model: Model, pool: Pool, room: Room, batch: Batch, outcomes: Outcomes, k: int, m: int, share: float,
    first_episode: int, found: Found,
) -> int:  # fmt: skip
    """Plan, and follow the plan, for the episodes from ``first_episode`` on; ``k`` of 0 is the shortest that is enough.

    Returns the episode at which there was no more place for ends, or their number.
    """
    n_states = model.pair_start.size - 1
    half = room.node.size // 2
    stamp = 0
    for s in range(n_states):
        room.stamp[s] = 0
    for episode in range(first_episode, batch.start.size - 1):
        first, T = batch.start[episode], batch.start[episode + 1] - batch.start[episode]
        found.end_start[episode + 1] = found.end_start[episode]
        found.k[episode] = -1
        if batch.usable[episode] == 0:
            continue
        stamp = find_layers(model, room, batch.state[first], T, stamp)
        if stamp < 0:
            stamp = -stamp
            continue
        allowed = min(m, T)
        if k == 0:
            limit = enough_k(model, pool, room, batch, first, T, allowed, batch.observed[episode], share)
        else:
            limit = min(k, T + 1)
        found.value[episode] = plan_episode(model, pool, room, batch, first, T, limit, allowed, True)
        here, n = 0, 1
        room.node[0], room.mass[0] = batch.state[first] * (allowed + 1) + allowed, 1.0
        for t in range(T):
            there = half - here
            at = batch.transition[first + t]
            after = follow_step(
                model, pool, room, t, T, allowed, batch.row_end[at], batch.row_end[at + 1], batch.action[first + t],
                here, n, there, first + t, found,
            )  # fmt: skip
            push_mass(model, pool, room, allowed, here, n, there, after)
            here, n = there, after
        found.strength[episode] = pairwise(room.by_step, 0, T, room.halves, room.sums) / T
        found.influenced[episode] = pairwise(room.by_step, room.by_step.size // 2, T, room.halves, room.sums)
        if not tell_ends(outcomes, room, allowed, here, n, episode, found):
            return episode
        found.k[episode] = limit
    return batch.start.size - 1
