"""Replays of episodes under a rule: as recorded, except the rule; and how likely they end better or worse.

A replay begins where the rule first changes what was done, with the luck of the episode. In the state that was
observed at that time it takes the recorded action, changed by the rule. In any other state it takes usual practice,
changed by the rule; so the mean over episodes is the value of that practice in the plain model.

Nodes are (state, return so far); or states alone, where the return so far does not matter. Forward, the nodes that some
causal model can reach are found; backward, the chances to end better and worse than what happened, under Gumbel-max and
at least and at most under every causal model (`NOTHING` of `tether._kernels.sets`: lower-tail means at the level of the
observed outcome's probability); and how likely they can be if the luck of different steps may be related in any way:
the sum of what `tether.core.related` lets the replays have that end so. Returns are exact while they are few. Beyond,
they are rounded down in one pass and up in another, which gives bounds: a return that is rounded down is never larger
than the true one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._kernels.jit import kernel
from tether._kernels.order import sort_by
from tether.core.batch import Model, starts
from tether.core.gumbel import SUMS, row_of_pair

MOST_NODES = 1 << 10
"""How many (state, return) one time may have before returns are rounded."""

_ROOM = 1 << 10
"""For how many nodes of one time there is room at first."""

_POINTS = 32
"""How many points a grid of rounded returns has at first."""

_MEAN, _BETTER, _WORSE, _BETTER_LOW, _BETTER_HIGH, _WORSE_LOW, _WORSE_HIGH = range(7)
_MASSES = 7
_BETTER_MASS, _REST_OF_BETTER, _WORSE_MASS, _REST_OF_WORSE, _COLUMNS = range(_MASSES, 12)
EMPTY = -1


class Practice(NamedTuple):
    """Usual practice changed by a rule: the share of each pair in its state, and what becomes of a recorded pair.

    The recorded pair x becomes ``pair[start[x]:start[x + 1]]``, with these chances; it stays where there are none.
    """

    share: Floats
    start: Ints
    pair: Ints
    chance: Floats


class Worth(NamedTuple):
    """Rewards by time (one row if they do not depend on it), by pair or by entry; final rewards by state; γ.

    ``rest`` is what a step earns in a state in which nothing happens any more, NaN for other states. ``good`` says how
    good it is to end in a state; larger is better everywhere.
    """

    reward: Floats
    by_entry: bool
    final: Floats
    discount: float
    rest: Floats
    good: Floats


class Suffixes(NamedTuple):
    """Episodes from the step on that a rule first changes: episode b has the steps ``start[b] … start[b + 1] - 1``.

    ``time`` is when they begin, ``horizon`` when they end: steps after the recorded ones have no observation.
    ``earned`` is the return before, ``total`` the return that was observed over all, ``ended`` how good its end was.
    """

    start: Ints
    state: Ints
    pair: Ints
    outcome: Ints
    time: Ints
    horizon: Ints
    earned: Floats
    total: Floats
    ended: Floats


class Replayed(NamedTuple):
    """Of each episode: the expected return, and the chances to end better and worse; at least and at most.

    ``better`` and ``worse`` are those of Gumbel-max, as (least, most) where returns were rounded. The ranges hold under
    every causal model in which luck is unrelated over time; those that are ``related`` also if it may be related.
    """

    mean: Floats
    better: Floats
    worse: Floats
    better_range: Floats
    worse_range: Floats
    better_related: Floats
    worse_related: Floats


def replay(
    model: Model, practice: Practice, worth: Worth, episodes: Suffixes, *, by_return: bool, most: int = MOST_NODES
) -> Replayed:
    """Replay some episodes; better and worse are by return, or by how good the last state is."""
    n = episodes.time.size
    side, width = np.zeros(n, np.int64), 1e-9 * np.maximum(1.0, np.abs(episodes.total))
    found = np.full((n, _COLUMNS), np.nan)
    limit = most if by_return else model.n_states
    open_ones, room = np.arange(n), 0
    while open_ones.size and room < limit:
        room = min(8 * room or _ROOM, limit)
        part = _only(episodes, open_ones)
        found[open_ones] = _replay(model, practice, worth, part, by_return, side[open_ones], width[open_ones], room)
        open_ones = open_ones[np.isnan(found[open_ones, _BETTER])]
    low, high = found, found.copy()
    if open_ones.size:
        some, span = _only(episodes, open_ones), _span(worth, _only(episodes, open_ones))
        for towards, table in ((-1, low), (1, high)):
            table[open_ones] = _rounded(model, practice, worth, some, towards, span, most)
    return Replayed(
        found[:, _MEAN],
        np.stack((low[:, _BETTER], high[:, _BETTER]), axis=1),
        np.stack((high[:, _WORSE], low[:, _WORSE]), axis=1),
        np.stack((low[:, _BETTER_LOW], high[:, _BETTER_HIGH]), axis=1),
        np.stack((high[:, _WORSE_LOW], low[:, _WORSE_HIGH]), axis=1),
        _between(low[:, _REST_OF_BETTER], high[:, _BETTER_MASS]),
        _between(high[:, _REST_OF_WORSE], low[:, _WORSE_MASS]),
    )


def _between(rest: Floats, mass: Floats) -> Floats:
    """The least and the largest chance of what may have so much probability, while all else may have so much."""
    return np.stack((np.maximum(0.0, 1.0 - rest), np.minimum(1.0, mass)), axis=1)


def _rounded(
    model: Model, practice: Practice, worth: Worth, episodes: Suffixes, side: int, span: Floats, most: int
) -> Floats:
    """The columns of each episode with returns rounded to one side, on a grid with as many points as there is room."""
    found = np.full((episodes.time.size, _COLUMNS), np.nan)
    open_ones, points = np.arange(episodes.time.size), _POINTS
    while open_ones.size:
        part, sides = _only(episodes, open_ones), np.full(open_ones.size, side, np.int64)
        room = 4 * most if points > 1 else (int(episodes.horizon.max()) + 2) * model.n_states
        width = span[open_ones] / points
        found[open_ones] = _replay(model, practice, worth, part, True, sides, width, room)
        open_ones, points = open_ones[np.isnan(found[open_ones, _BETTER])], max(1, points // 4)
    return found


def _span(worth: Worth, episodes: Suffixes) -> Floats:
    """How far apart the returns of each episode can be at most."""
    steps = episodes.horizon - episodes.time
    reward, final = worth.reward[np.isfinite(worth.reward)], worth.final[np.isfinite(worth.final)]
    span: Floats = steps * np.ptp(reward) + np.ptp(final)
    return np.maximum(span, 1e-12)


def _only(episodes: Suffixes, some: Ints) -> Suffixes:
    """Some of the episodes."""
    lengths = np.diff(episodes.start)
    kept = np.repeat(np.isin(np.arange(lengths.size), some), lengths)
    steps = (column[kept] for column in (episodes.state, episodes.pair, episodes.outcome))
    return Suffixes(starts(lengths[some]), *steps, *(column[some] for column in episodes[4:]))


def _replay(
    model: Model, practice: Practice, worth: Worth, episodes: Suffixes, by_return: bool, side: Ints, width: Floats,
    room: int,
) -> Floats:  # fmt: skip
    """The columns of each episode; NaN for one that has more than ``room`` nodes at one time."""
    found = np.full((episodes.time.size, _COLUMNS), np.nan)
    layers = int((episodes.horizon - episodes.time).max(initial=0)) + 1
    table = 1 << (2 * room - 1).bit_length()
    longest = int(np.diff(model.row_start).max(initial=1))
    widest = int(np.diff(model.pair_start).max(initial=1))
    _replay_batch(
        model, practice, worth, episodes, by_return, side, width,
        Layers(
            np.zeros(layers + 1, np.int64), np.empty(layers * room, np.int64), np.empty(layers * room),
            np.empty((layers, table), np.int64), room,
        ),
        np.empty((2, room, _COLUMNS)),
        rows_for(model),
        np.empty(widest, np.int64), np.empty(widest), np.empty((_COLUMNS, longest)), found,
    )  # fmt: skip
    return found


class Layers(NamedTuple):
    """Nodes of all times: those of time k from ``begin[k]`` on; and tables by hash of where they are, ``room`` each."""

    begin: Ints
    state: Ints
    earned: Floats
    table: Ints
    room: int


class Rows(NamedTuple):
    """Counterfactual probabilities of the model's entries, known for the states whose mark is the clock; and scratch.

    ``weight`` is the observed row by state.
    """

    probability: Floats
    known: Ints
    clock: Ints
    weight: Floats
    next_state: Ints
    row: Floats
    ratio: Floats
    order: Ints
    height: Floats


def rows_for(model: Model) -> Rows:
    """Scratch for the rows of a model."""
    n = int(np.diff(model.row_start).max(initial=1))
    return Rows(
        np.empty(model.probability.size), np.zeros(model.n_states, np.int64), np.zeros(1, np.int64),
        np.zeros(model.n_states), np.empty(n, np.int32), np.empty(n), np.empty(n), np.empty(n, np.int64),
        np.empty(n + SUMS),
    )  # fmt: skip


@kernel
def _key(earned: float, side: Any, width: float) -> int:
    """The number of a return: of the nearest multiple of the width, or of the next one below or above."""
    if side < 0:
        return int(np.floor(earned / width + 1e-9))
    if side > 0:
        return int(np.ceil(earned / width - 1e-9))
    return int(np.rint(earned / width))


@kernel
def find_node(
    table: Ints, states: Ints, earned_of: Floats, k: int, state: int, earned: float, side: Any, width: float
) -> Any:
    """Where a node is in the table of time k, or the free place where it belongs."""
    # what is called often takes arrays: each read of a field of a tuple counts references
    key = _key(earned, side, width)
    mask = np.uint64(table.shape[1] - 1)
    mixed = (np.uint64(state) + np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xD6E8FEB86659FD93)
    at = (mixed >> np.uint64(24)) & mask
    while table[k, at] != EMPTY:
        node = table[k, at]
        if states[node] == state and _key(earned_of[node], side, width) == key:
            break
        at = (at + np.uint64(1)) & mask
    return np.int64(at)


@kernel
def take(model: Model, practice: Practice, s: int, recorded: int, pairs: Ints, chances: Floats) -> int:
    """Write the pairs that are taken in a state, with their chances; ``recorded`` is the recorded pair there, or -1."""
    n = 0
    if recorded >= 0:
        low, high = practice.start[recorded], practice.start[recorded + 1]
        if low == high:
            pairs[0], chances[0] = recorded, 1.0
            return 1
        for i in range(low, high):
            pairs[n], chances[n] = practice.pair[i], practice.chance[i]
            n += 1
        return n
    for x in range(model.pair_start[s], model.pair_start[s + 1]):
        if practice.share[x] > 0.0:
            pairs[n], chances[n] = x, practice.share[x]
            n += 1
    return n


@kernel
def know(model: Model, s: int, observed: int, outcome: int, rows: Rows) -> None:
    """Compute the counterfactual rows of a state's pairs; the weights must be set."""
    rows.known[s] = rows.clock[0]
    is_certain = observed >= 0 and model.row_start[observed + 1] - model.row_start[observed] == 1
    for x in range(model.pair_start[s], model.pair_start[s + 1]):
        low, high = model.row_start[x], model.row_start[x + 1]
        meets = False
        if outcome >= 0:
            for e in range(low, high):
                meets = meets or rows.weight[model.next_state[e]] > 0.0
        if not meets:
            for e in range(low, high):
                rows.probability[e] = model.probability[e]
            continue
        if x == observed:
            for e in range(low, high):
                rows.probability[e] = 1.0 if model.next_state[e] == outcome else 0.0
            continue
        n, _ = row_of_pair(
            model.row_start, model.next_state, model.probability, x, outcome, is_certain, rows.weight,
            np.int64(0), rows.next_state, rows.row, rows.ratio, rows.order, rows.height,
        )  # fmt: skip
        i = 0
        for e in range(low, high):
            rows.probability[e] = 0.0
            if i < n and rows.next_state[i] == model.next_state[e]:
                rows.probability[e] = rows.row[i]
                i += 1


@kernel
def weigh(model: Model, observed: int, rows: Rows, factor: float) -> None:
    """Set the weights of an observed row (``factor`` 1), or clear them (0)."""
    if observed >= 0:
        for e in range(model.row_start[observed], model.row_start[observed + 1]):
            rows.weight[model.next_state[e]] = factor * model.probability[e]


@kernel
def _tail(n: int, q: Floats, value: Floats, level: float, sign: int, order: Ints) -> Any:
    """The smallest (``sign`` 1) or largest (-1) mean of a value over rows x ≤ q / level."""
    low, high = value[0], value[0]
    for j in range(1, n):
        low, high = min(low, value[j]), max(high, value[j])
    if low == high:
        return low
    total, left = 0.0, level
    if level < 1.0:
        for j in range(n):
            order[j] = j
        sort_by(value, order, np.int64(0), n)
        for i in range(n):
            j = order[i] if sign > 0 else order[n - 1 - i]
            part = min(q[j], left)
            total += part * value[j]
            left -= part
            if left <= 0.0:
                break
        if left > 0.0:  # rounding
            total += left * (high if sign > 0 else low)
        return total / level
    for j in range(n):
        total += q[j] * value[j]
    return total


@kernel
def is_over(pair_start: Ints, rest: Floats, s: int) -> bool:
    """Whether nothing happens any more in a state: it is at rest, or has no action."""
    return not np.isnan(rest[s]) or pair_start[s] == pair_start[s + 1]


@kernel
def at_end(final: Floats, rest: Floats, discount: float, s: int, steps: int) -> Any:
    """What is still earned in so many steps in a state in which nothing happens any more, or at the horizon."""
    value = final[s]
    if np.isnan(rest[s]):
        return value
    if discount == 1.0:
        return value + steps * rest[s]
    weight = discount**steps
    return weight * value + rest[s] * (1.0 - weight) / (1.0 - discount)


@kernel
def _replay_batch(
    model: Model, practice: Practice, worth: Worth, episodes: Suffixes, by_return: bool, sides: Ints, widths: Floats,
    layers: Layers, values: Floats, rows: Rows, pairs: Ints, chances: Floats, after: Floats, found: Floats,
) -> None:  # fmt: skip
    begin, states, earned, table, room = layers
    row_start, next_state, pair_start = model.row_start, model.next_state, model.pair_start
    reward, by_entry, rest = worth.reward, worth.by_entry, worth.rest
    for b in range(episodes.time.size):
        first, last = episodes.start[b], episodes.start[b + 1]
        t0, horizon, side, width = episodes.time[b], episodes.horizon[b], sides[b], widths[b]
        steps = horizon - t0
        begin[0], begin[1] = 0, 1
        states[0], earned[0] = episodes.state[first], episodes.earned[b] if by_return else 0.0
        fits = True
        for k in range(steps - 1):
            seen = episodes.pair[first + k] if first + k < last else -1
            outcome = episodes.outcome[first + k] if first + k < last else -1
            here = episodes.state[first + k] if first + k < last else -1
            row = t0 + k if reward.shape[0] > 1 else 0
            gamma = worth.discount ** (t0 + k)
            n = begin[k + 1]
            table[k + 1, :] = EMPTY
            for node in range(begin[k], begin[k + 1]):
                s = states[node]
                count = take(model, practice, s, seen if s == here else -1, pairs, chances)
                for i in range(count):
                    x = pairs[i]
                    for e in range(row_start[x], row_start[x + 1]):
                        j = next_state[e]
                        if (x == seen and j != outcome) or is_over(pair_start, rest, j):
                            continue
                        so_far = 0.0
                        if by_return:
                            so_far = earned[node] + gamma * reward[row, e if by_entry else x]
                        at = find_node(table, states, earned, k + 1, j, so_far, side, width)
                        if table[k + 1, at] == EMPTY:
                            if n - begin[k + 1] >= room:
                                fits = False
                                break
                            states[n] = j
                            earned[n] = so_far if side == 0 else _key(so_far, side, width) * width
                            table[k + 1, at] = n
                            n += 1
                    if not fits:
                        break
                if not fits:
                    break
            begin[k + 2] = n
            if not fits:
                break
        if not fits:
            continue
        for k in range(steps - 1, -1, -1):
            _evaluate(
                model, practice, worth, episodes, by_return, b, k, side, width, layers, values, rows, pairs, chances,
                after,
            )  # fmt: skip
        for column in range(_COLUMNS):
            found[b, column] = values[0, 0, column]


@kernel
def _evaluate(
    model: Model, practice: Practice, worth: Worth, episodes: Suffixes, by_return: bool, b: int, k: int, side: int,
    width: float, layers: Layers, values: Floats, rows: Rows, pairs: Ints, chances: Floats, after: Floats,
) -> None:  # fmt: skip
    """Write the columns of the nodes of time k, from those of the time after it."""
    begin, states, earned, table, _ = layers
    row_start, next_state, pair_start = model.row_start, model.next_state, model.pair_start
    reward_of, by_entry, final, discount, rest, good = worth
    edited, known, clock, _, _, _, _, order, _ = rows
    probability = model.probability
    first, last = episodes.start[b], episodes.start[b + 1]
    t, horizon = episodes.time[b] + k, episodes.horizon[b]
    is_seen = first + k < last
    seen = episodes.pair[first + k] if is_seen else -1
    outcome = episodes.outcome[first + k] if is_seen else -1
    here = episodes.state[first + k] if is_seen else -1
    row, gamma = t if reward_of.shape[0] > 1 else 0, discount**t
    target = episodes.total[b] if by_return else episodes.ended[b]
    close = 1e-9 * max(1.0, abs(target))
    weigh(model, seen, rows, 1.0)
    level = rows.weight[outcome] if outcome >= 0 else 1.0
    rows.clock[0] += 1
    for node in range(begin[k], begin[k + 1]):
        s, place = states[node], node - begin[k]
        for column in range(_COLUMNS):
            values[k % 2, place, column] = 0.0
        count = take(model, practice, s, seen if s == here else -1, pairs, chances)
        if known[s] != clock[0]:
            know(model, s, seen, outcome, rows)
        for i in range(count):
            x = pairs[i]
            low, high = row_start[x], row_start[x + 1]
            for e in range(low, high):
                j, reward = next_state[e], reward_of[row, e if by_entry else x]
                if x == seen and j != outcome:
                    for column in range(_COLUMNS):
                        after[column, e - low] = 0.0
                    continue
                so_far = earned[node] + gamma * reward if by_return else 0.0
                if t + 1 == horizon or is_over(pair_start, rest, j):
                    more = at_end(final, rest, discount, j, horizon - t - 1)
                    score = so_far + gamma * discount * more if by_return else good[j]
                    after[_MEAN, e - low] = reward + discount * more
                    better = 1.0 if score > target + close else 0.0
                    worse = 1.0 if score < target - close else 0.0
                    after[_BETTER, e - low] = after[_BETTER_LOW, e - low] = after[_BETTER_HIGH, e - low] = better
                    after[_WORSE, e - low] = after[_WORSE_LOW, e - low] = after[_WORSE_HIGH, e - low] = worse
                    after[_BETTER_MASS, e - low], after[_REST_OF_BETTER, e - low] = better, 1.0 - better
                    after[_WORSE_MASS, e - low], after[_REST_OF_WORSE, e - low] = worse, 1.0 - worse
                    continue
                found = table[k + 1, find_node(table, states, earned, k + 1, j, so_far, side, width)] - begin[k + 1]
                for column in range(_COLUMNS):
                    after[column, e - low] = values[(k + 1) % 2, found, column]
                after[_MEAN, e - low] = reward + discount * after[_MEAN, e - low]
            n, chance, q = high - low, chances[i], probability[low:high]
            for column in range(_MEAN, _WORSE + 1):
                total = 0.0
                for j in range(n):
                    total += edited[low + j] * after[column, j]
                values[k % 2, place, column] += chance * total
            if x == seen and outcome >= 0:
                for column in range(_BETTER_LOW, _COLUMNS):
                    total = 0.0
                    for j in range(n):
                        total += edited[low + j] * after[column, j]
                    values[k % 2, place, column] += chance * total
                continue
            for column in range(_MASSES, _COLUMNS):
                total = 0.0
                for j in range(n):
                    total += q[j] * after[column, j]
                values[k % 2, place, column] += chance * total / level
            for column in range(_BETTER_LOW, _MASSES):
                sign = 1 if column in (_BETTER_LOW, _WORSE_LOW) else -1
                values[k % 2, place, column] += chance * _tail(n, q, after[column], level, sign, order)
    weigh(model, seen, rows, 0.0)
