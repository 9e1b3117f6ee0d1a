"""Plans of a single change, for every k at once.

With one change left the episode is on its observed path; with none left only the observed action is taken. So the value
of a state after the change, W_t(s), does not depend on k: only whether the state may be reached does. Beside W are kept

    κ_t(s)  the smallest k at which some pair is allowed in s
    f_t(s)  the smallest k at which the observed actions are allowed in s and in all states that they lead to

The plan within k is then found by going back along the observed path. Only states that one change and then the observed
actions lead to are needed, as long as κ follows from the observed action alone.
"""

from __future__ import annotations

import numpy as np

from tether._foundation.arrays import Ints
from tether._kernels.audit.arrays import Batch, Model, Planning, RowPool
from tether._kernels.audit.plan import ALLOWED, NEAR, plan_observed
from tether._kernels.audit.search import find_observed, row_of_pair, rows_of_state
from tether._kernels.jit import kernel, part_of_kernel
from tether._kernels.thresholds import FAR


@kernel
def find_needed(model: Model, batch: Batch, first: int, T: int, stamp: Ints, state: Ints, start: Ints) -> bool:
    """The states that one change at some time, and then the observed actions, lead to.

    The states of time t are ``state[start[t]:start[t + 1]]``. ``stamp`` is as in `find_layers`. Returns False if an
    observed action is not available: then more states are needed.
    """
    start[0], start[1] = 0, 0
    n = 0
    for t in range(T):
        mark = stamp[stamp.size - 1] + 1
        stamp[stamp.size - 1] = mark
        s, action = batch.state[first + t], batch.action[first + t]
        for j in range(model.after_start[s], model.after_start[s + 1]):
            after = model.after_state[j]
            stamp[after] = mark
            state[n] = after
            n += 1
        for i in range(start[t], start[t + 1]):
            x = find_observed(model.pair_start, model.pair_action, state[i], action)
            if x < 0:
                if model.absorbing[state[i]] == 0:
                    return False
                x = model.pair_start[state[i]]
            for e in range(model.row_start[x], model.row_start[x + 1]):
                after = model.next_state[e]
                if stamp[after] != mark:
                    stamp[after] = mark
                    state[n] = after
                    n += 1
        start[t + 2] = n
    return True


@part_of_kernel
def first_k(
    next_state: Ints,
    low: int,
    high: int,
    kappa: Ints,
    distance: Ints,
    after: int,
    is_edited: bool,
    steps: int,
    most: int,
) -> int:
    """The smallest k at which a pair is allowed, with ``steps`` steps left; ``most`` if it is not smaller."""
    nearest = 0 if is_edited else FAR - 1
    largest = 0
    for i in range(low, high):
        largest = max(largest, kappa[after + next_state[i]])
        if largest >= most:
            return most
        nearest = min(nearest, distance[after + next_state[i]])
    return max(largest, min(nearest + 1, steps + 1))


@kernel
def weigh_states(
    model: Model, pool: RowPool, planning: Planning, batch: Batch, first: int, T: int, least: int, state: Ints,
    start: Ints, stride: int,
) -> bool:  # fmt: skip
    """W, κ and f of some states of each layer, and the choice with no change left.

    The states of time t are ``state[start[stride * t]:start[stride * t + 1]]``: those of `find_needed` (stride 1), or
    of `find_layers` (2). With stride 1, κ may need more states: then False is returned. A κ of at most ``least`` need
    not be exact.
    """
    n_states = model.pair_start.size - 1
    worth, kappa, feasible, distance = planning.worth, planning.kappa, planning.feasible, planning.distance
    for i in range(start[stride * T], start[stride * T + 1]):
        at = T * n_states + state[i]
        worth[at], kappa[at], feasible[at] = model.final[state[i]], 1, 1
    for t in range(T - 1, -1, -1):
        after = (t + 1) * n_states
        transition, action = batch.transition[first + t], batch.action[first + t]
        high_row = batch.row_end[transition + 1]
        is_any_allowed = t + least > T
        for i in range(start[stride * t], start[stride * t + 1]):
            s = state[i]
            here = t * n_states + s
            begin, end = model.pair_start[s], model.pair_start[s + 1]
            at_observed = find_observed(model.pair_start, model.pair_action, s, action)
            is_free = at_observed < 0 and model.absorbing[s] > 0
            first_row, best = planning.edited[here] - 1, -np.inf
            last_row = rows_of_state(first_row, high_row, end - begin)
            smallest, all_smallest = FAR, FAR
            chosen = -1
            bound = least
            if not is_any_allowed:
                bound = max(least, min(distance[here], T - t + 1))
            for turn in range(end - begin + 1):  # the observed action first: it nearly always decides
                x = at_observed if turn == 0 else begin + turn - 1
                if x < 0 or (turn > 0 and x == at_observed):
                    continue
                is_taken = is_free or turn == 0
                if not is_taken and (is_any_allowed or stride == 1 or smallest <= bound):
                    break
                is_edited, successor, chance, gain, low, high = row_of_pair(model, pool, first_row, last_row, x)
                one = 1
                if not is_any_allowed:
                    most = FAR if is_taken else smallest
                    one = first_k(successor, low, high, kappa, distance, after, is_edited, T - t, most)
                    smallest = min(smallest, one)
                if not is_taken:
                    continue
                total = 0.0
                for e in range(low, high):
                    total += chance[e] * worth[after + successor[e]]
                found = gain + model.discount * total
                if found > best:
                    best, chosen, all_smallest = found, x - begin, one
                    if not is_any_allowed:
                        for e in range(low, high):
                            all_smallest = max(all_smallest, feasible[after + successor[e]])
            if is_any_allowed:
                smallest = 1
            elif stride == 1 and smallest > bound:
                return False
            worth[here], kappa[here], feasible[here] = best, smallest, all_smallest
            planning.choice[2 * here] = chosen
    return True


@kernel
def plan_one_change(model: Model, pool: RowPool, planning: Planning, batch: Batch, first: int, T: int, k: int) -> float:
    """The value of the best plan of one change within k; its choices along the observed path are in ``planning``."""
    n_states = model.pair_start.size - 1
    found, known = 0.0, k < 0  # not a literal: this would be compiled a second time for it
    m, sized = T // T, T - T
    for t in range(T - 1, -1, -1):
        s, x = batch.state[first + t], batch.pair[first + t]
        there = ((t + 1) % 2) * n_states
        for i in range(model.after_start[s], model.after_start[s + 1]):
            after = model.after_state[i]
            at = (t + 1) * n_states + after
            planning.flag[there + after] = (ALLOWED if planning.kappa[at] <= k else 0) | (
                NEAR if planning.distance[at] < k else 0
            )
            planning.value[2 * (there + after)] = planning.worth[at] if planning.feasible[at] <= k else -np.inf
        at = batch.transition[first + t]
        found = plan_observed(
            model, pool, planning, t, T, k, m, sized, batch.row_end[at], batch.row_end[at + 1], s, x, known, found
        )
        known = True
    return found
