"""How likely replays under a rule end better or worse than what happened, under Gumbel-max: forward, by return.

A pass over (state, return so far). Chances are exact while these are few. If there would be more than there is room
for, the least likely ways on are left out and their chance is counted as unknown: it could be better or worse.
"""

from __future__ import annotations

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._kernels.jit import kernel
from tether.core.batch import Model
from tether.core.replays import (
    EMPTY,
    Layers,
    Practice,
    Rows,
    Suffixes,
    Worth,
    at_end,
    find_node,
    is_over,
    know,
    rows_for,
    take,
    weigh,
)

ROOM = 1 << 11
"""How many (state, return) one time may have before the least likely are left out."""

_LEAST = 1e-9
"""Ways on that are less likely than this are left out first; ten times as much if this is not enough."""


def chances_ahead(
    model: Model, practice: Practice, worth: Worth, episodes: Suffixes, room: int = ROOM
) -> tuple[Floats, Floats]:
    """The chance of each episode to end better, and worse, than it did: (least, most), equal where it is exact."""
    found = np.zeros((episodes.time.size, 3))
    table = 1 << (2 * room - 1).bit_length()
    layers = Layers(
        np.zeros(3, np.int64), np.empty(2 * room, np.int64), np.empty(2 * room), np.empty((2, table), np.int64), room
    )
    widest = int(np.diff(model.pair_start).max(initial=1))
    _ahead(
        model, practice, worth, episodes, layers, np.empty(2 * room), rows_for(model), np.empty(widest, np.int64),
        np.empty(widest), found,
    )  # fmt: skip
    better, worse, unknown = np.clip(found, 0.0, 1.0).T
    return np.stack((better, np.minimum(better + unknown, 1.0)), 1), np.stack(
        (worse, np.minimum(worse + unknown, 1.0)), 1
    )


@kernel
def _ahead(
    model: Model, practice: Practice, worth: Worth, episodes: Suffixes, layers: Layers, mass: Floats, rows: Rows,
    pairs: Ints, chances: Floats, found: Floats,
) -> None:  # fmt: skip
    _, states, earned, table, room = layers
    row_start, next_state, pair_start = model.row_start, model.next_state, model.pair_start
    reward_of, by_entry, final, rest, discount = worth.reward, worth.by_entry, worth.final, worth.rest, worth.discount
    known, clock, edited = rows.known, rows.clock, rows.probability
    nearest = np.int64(0)  # a literal would be a type of its own
    for b in range(episodes.time.size):
        first, last = episodes.start[b], episodes.start[b + 1]
        t0, horizon, target = episodes.time[b], episodes.horizon[b], episodes.total[b]
        close = 1e-9 * max(1.0, abs(target))
        states[0], earned[0], mass[0] = episodes.state[first], episodes.earned[b], 1.0
        count, least = 1, 0.0
        for k in range(horizon - t0):
            is_seen = first + k < last
            seen = episodes.pair[first + k] if is_seen else -1
            outcome = episodes.outcome[first + k] if is_seen else -1
            here = episodes.state[first + k] if is_seen else -1
            row, gamma = t0 + k if reward_of.shape[0] > 1 else 0, discount ** (t0 + k)
            weigh(model, seen, rows, 1.0)
            clock[0] += 1
            old, new = (k % 2) * room, ((k + 1) % 2) * room
            if 4 * count < room:  # else there would be too many again
                least = 0.1 * least if least > _LEAST else 0.0
            while True:
                n, better, worse, unknown = 0, 0.0, 0.0, 0.0
                table[(k + 1) % 2, :] = EMPTY
                fits = True
                for node in range(old, old + count):
                    s = states[node]
                    if known[s] != clock[0]:
                        know(model, s, seen, outcome, rows)
                    taken = take(model, practice, s, seen if s == here else -1, pairs, chances)
                    for i in range(taken):
                        x = pairs[i]
                        for e in range(row_start[x], row_start[x + 1]):
                            chance = mass[node] * chances[i] * edited[e]
                            if chance == 0.0:
                                continue
                            j, reward = next_state[e], reward_of[row, e if by_entry else x]
                            so_far = earned[node] + gamma * reward
                            if t0 + k + 1 == horizon or is_over(pair_start, rest, j):
                                score = so_far + gamma * discount * at_end(
                                    final, rest, discount, j, horizon - t0 - k - 1
                                )
                                if score > target + close:
                                    better += chance
                                elif score < target - close:
                                    worse += chance
                                continue
                            if chance < least:
                                unknown += chance
                                continue
                            at = find_node(table, states, earned, (k + 1) % 2, j, so_far, nearest, close)
                            if table[(k + 1) % 2, at] == EMPTY:
                                if n == room:
                                    fits = False
                                    break
                                table[(k + 1) % 2, at] = new + n
                                states[new + n], earned[new + n], mass[new + n] = j, so_far, 0.0
                                n += 1
                            mass[table[(k + 1) % 2, at]] += chance
                        if not fits:
                            break
                    if not fits:
                        break
                if fits:
                    break
                least = 10.0 * least if least > 0.0 else _LEAST
            found[b, 0] += better
            found[b, 1] += worse
            found[b, 2] += unknown
            weigh(model, seen, rows, 0.0)
            count = n
            if n == 0:
                break
