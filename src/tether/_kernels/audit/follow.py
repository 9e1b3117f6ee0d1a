"""Following a plan exactly: the probability of every node, its changes, the strength of influence, and its ends."""

from __future__ import annotations

from tether._foundation.arrays import Ints
from tether._kernels.audit.arrays import Batch, Following, Found, LabelArrays, Model, RowPool
from tether._kernels.audit.search import edited_row, find_observed
from tether._kernels.audit.sums import pairwise
from tether._kernels.jit import kernel, part_of_kernel
from tether._kernels.sorting import sort_ascending


@part_of_kernel
def sort_nodes(node: Ints, low: int, n: int, mark: Ints) -> None:
    """Sort ``node[low:low + n]``, all of them marked; if there are many, by going through the marks."""
    if n * 16 < mark.size:
        sort_ascending(node, low, n)
        return
    at = low
    for key in range(mark.size):
        if mark[key]:
            node[at] = key
            at += 1


@part_of_kernel
def follow_step(
    model: Model, pool: RowPool, choice: Ints, following: Following, t: int, T: int, m: int, low_row: int,
    high_row: int, action: int, here: int, n: int, there: int, step: int, found: Found,
) -> int:  # fmt: skip
    """One step of the plan: from the nodes ``node[here:here + n]`` to those from ``there`` on; returns how many.

    A node is state · (m + 1) + changes left. Strength, influence and the most probable change of the step are kept.
    """
    n_states, height = model.pair_start.size - 1, m + 1
    node, mass, mark, terms = following.node, following.mass, following.mark, following.terms
    size = terms.size // 2
    met, after = here - here, 0  # not a literal: sums would be compiled a second time for it
    best_chance, best_pair = -1.0, -1
    group, group_state = 0, -1
    for i in range(n):
        s, c = node[here + i] // height, node[here + i] % height
        x = model.pair_start[s] + choice[(t * n_states + s) * height + min(c, m, T - t)]
        row = edited_row(pool, low_row, high_row, x)
        is_edited = row >= 0
        is_change = model.pair_action[x] != action
        if is_change and model.absorbing[s] > 0 and find_observed(model.pair_start, model.pair_action, s, action) < 0:
            is_change = False
        if is_edited:
            terms[met] = mass[here + i] * pool.strength[row]
            terms[size + met] = mass[here + i]
            met += 1
            low, high = pool.start[row], pool.start[row + 1]
        else:
            low, high = model.row_start[x], model.row_start[x + 1]
        if is_change:
            # Nodes of one state follow each other: the probabilities of those with the same pair are added up.
            if group_state != s:
                group, group_state = i, s
            chance = 0.0
            for other in range(group, i):
                if following.changed[other] == x:
                    chance += mass[here + other]
            chance += mass[here + i]
            if chance > best_chance or (chance == best_chance and x < best_pair):
                best_chance, best_pair = chance, x
        elif group_state != s:
            group, group_state = i, s
        following.changed[i] = x if is_change else -1
        following.place[here + i] = (low << 1) | (1 if is_edited else 0)
        following.place[following.place.size // 2 + here + i] = high
        onward = c - (1 if is_change else 0)
        for j in range(low, high):
            s_after = pool.next_state[j] if is_edited else model.next_state[j]
            key = s_after * height + onward
            if mark[key] == 0:
                mark[key] = 1
                node[there + after] = key
                after += 1
    following.by_step[t] = pairwise(terms, size - size, met, following.halves, following.sums)
    following.by_step[following.by_step.size // 2 + t] = pairwise(terms, size, met, following.halves, following.sums)
    found.change_pair[step] = best_pair
    found.change_chance[step] = best_chance
    return after


@part_of_kernel
def push_mass(
    model: Model, pool: RowPool, following: Following, m: int, here: int, n: int, there: int, after: int
) -> None:
    """The probability of each next node, added up in the order of the nodes of this step and of their rows."""
    height = m + 1
    node, mass, mark = following.node, following.mass, following.mark
    sort_nodes(node, there, after, mark)
    for i in range(after):
        mark[node[there + i]] = 0
        mass[there + i] = 0.0
        following.position[node[there + i]] = i
    half = following.place.size // 2
    for i in range(n):
        low, is_edited = following.place[here + i] >> 1, following.place[here + i] & 1
        onward = node[here + i] % height - (1 if following.changed[i] >= 0 else 0)
        for j in range(low, following.place[half + here + i]):
            if is_edited:
                key, chance = pool.next_state[j] * height + onward, pool.probability[j]
            else:
                key, chance = model.next_state[j] * height + onward, model.probability[j]
            mass[there + following.position[key]] += mass[here + i] * chance


@kernel
def tell_ends(
    outcomes: LabelArrays, following: Following, m: int, here: int, n: int, episode: int, found: Found
) -> bool:
    """The probability of each label and each class of outcomes at the end; False if an array is too short for them."""
    height, terms = m + 1, following.terms
    node, mass = following.node, following.mass
    for number in range(outcomes.member.shape[0]):
        size, last = m - m, -1
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
        found.labels[episode, number] = min(1.0, pairwise(terms, m - m, size, following.halves, following.sums))
    begin = found.end_start[episode]
    end = begin
    for i in range(n):
        code = outcomes.code[node[here + i] // height]
        if following.by_class[code] == 0.0:
            if end == found.end_code.size:
                for j in range(n):
                    following.by_class[outcomes.code[node[here + j] // height]] = 0.0
                return False
            if mass[here + i] > 0.0:
                found.end_code[end] = code
                end += 1
        following.by_class[code] += mass[here + i]
    sort_ascending(found.end_code, begin, end - begin)
    for i in range(begin, end):
        found.end_chance[i] = following.by_class[found.end_code[i]]
        following.by_class[found.end_code[i]] = 0.0
    found.end_start[episode + 1] = end
    return True


@kernel
def follow_episode(
    model: Model, pool: RowPool, choice: Ints, following: Following, batch: Batch, first: int, T: int, m: int,
    episode: int, found: Found,
) -> tuple[int, int, int]:  # fmt: skip
    """Follow a plan from the first state to the end; strength and influenced steps are kept.

    Returns the place of the last nodes, their number, and the number of nodes of all times.
    """
    here, n = T - T, T // T  # not literals: the steps would be compiled a second time for them
    total, half = n, following.node.size // 2
    following.node[0], following.mass[0] = batch.state[first] * (m + 1) + m, 1.0
    for t in range(T):
        there = half - here
        at = batch.transition[first + t]
        after = follow_step(
            model, pool, choice, following, t, T, m, batch.row_end[at], batch.row_end[at + 1], batch.action[first + t],
            here, n, there, first + t, found,
        )  # fmt: skip
        push_mass(model, pool, following, m, here, n, there, after)
        here, n = there, after
        total += n
    by_step, halves, sums = following.by_step, following.halves, following.sums
    found.strength[episode] = pairwise(by_step, here - here, T, halves, sums) / T
    found.influenced[episode] = pairwise(by_step, by_step.size // 2, T, halves, sums)
    return here, n, total
