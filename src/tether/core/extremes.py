"""What is guaranteed of plans and policies: the worst expected return of each episode over a set of causal models.

A plan is followed through all nodes (state, changes left) that some causal model can reach; under `assured` a node also
has the run of uninfluenced steps just passed. Where Gumbel-max leads, the plan says what to take. Elsewhere it takes
the observed action; where that is not available, the worst of all actions counts. More changes left than steps left are
worth as much as one change per step: such nodes are merged. A policy says what it takes in every state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tether._foundation.arrays import Floats, Ints, read_only
from tether._kernels.jit import kernel, piece
from tether._kernels.order import first_from
from tether._kernels.sets import (
    INTERVALS,
    Nominal,
    Observed,
    RowLimits,
    RowScratch,
    extreme_row,
    limits_for,
    row_scratch_for,
)
from tether.core.batch import Layer, Model, Steps, StuckError, starts
from tether.core.follow import Decided
from tether.core.plan import is_change

_ALL = -1
"""In place of the first option of a node: all its actions are, and the worst counts."""

LARGEST = 1e6
"""Hardly any gain is undone by stronger hidden causes alone: the search begins below."""

_CLOSE = 1e-10
"""How exactly a strength is found, in proportion to it."""


class Worth(NamedTuple):
    """What a step, and the end, are worth: rewards and final rewards by time (one row if they do not depend on it), γ.

    Rewards are by pair, or by entry of the model. Larger is better.
    """

    reward: Floats
    by_entry: bool
    final: Floats
    discount: float


class Hidden(NamedTuple):
    """Hidden causes (`tether.conditioning.model_sets.Confounding`): Γ of each wanted episode, and μ of each pair."""

    gamma: Floats
    share: Floats


class Taken(NamedTuple):
    """The pairs that are taken, those of time t and episode b from ``start[t, b]`` on, in the order of their states.

    If they are ``shared``, those of the first are those of all episodes. ``changes`` are those left, ``run`` the
    uninfluenced steps just passed. Pairs that make a run end are ``influenced``, by time and episode in the same way;
    if ``by_support``, these and all that can lead where the observed pair could have led. There are less than
    ``n_runs`` runs.
    """

    start: Ints
    state: Ints
    changes: Ints
    run: Ints
    pair: Ints
    share: Floats
    influenced_start: Ints
    influenced: Ints
    by_support: bool
    n_runs: int
    shared: bool


def taken_by_plans(
    model: Model, steps: Steps, layers: list[Layer], visits: list[Decided], *, by_support: bool = True
) -> Taken:
    """What plans take where Gumbel-max leads; ``by_support`` says how influence is tested."""
    start, columns, before = [], [], 0
    influenced_start, influenced = [], [np.empty(0, np.int64)]
    with_runs = layers[0].nodes.runs.size > 0
    for layer, some in zip(layers, visits, strict=False):
        start.append(before + np.searchsorted(some.node, layer.nodes.first))
        nodes = layer.nodes
        run = nodes.runs[some.node] if with_runs else np.zeros(some.node.size, np.int64)
        columns.append((nodes.states[some.node], some.changes, run, some.pairs(model, layer)))
        before += some.node.size
        if with_runs:
            begin, pairs = _influenced(model, layer)
            influenced_start.append(begin + sum(map(len, influenced)))
            influenced.append(pairs)
    none = np.empty(0, np.int64)
    state, changes, runs, pair = (
        np.concatenate([none, *column]).astype(np.int64) for column in zip(*columns, strict=True)
    )
    return Taken(
        np.array(start).reshape(-1, len(steps) + 1), state, changes, runs, pair, np.ones(pair.size),
        np.array(influenced_start, np.int64).reshape(-1, len(steps) + 1), np.concatenate(influenced), by_support,
        steps.longest + 2 if with_runs else 1, False,
    )  # fmt: skip


def _influenced(model: Model, layer: Layer) -> tuple[Ints, Ints]:
    """The influenced pairs of each episode in a layer, ascending; and where those of each episode begin."""
    position = layer.edits.position[layer.edits.influenced > 0]
    n_pairs = int(model.pair_action.size)
    keys = np.unique(layer.episode()[layer.node_of(position)] * n_pairs + layer.pairs(model, position))
    return np.searchsorted(keys, np.arange(layer.nodes.first.size) * n_pairs), keys % n_pairs


def taken_by_policy(model: Model, steps: Steps, decide: Callable[[int, Ints], tuple[Ints, Ints, Floats]]) -> Taken:
    """What a policy takes in all states that some causal model can lead to.

    ``decide(t, states)`` returns where the pairs of each state begin, the pairs, and the probability of each.
    """
    states, start, columns, before = np.unique(steps.state[steps.start[:-1]]), [], [], 0
    for t in range(steps.longest):
        begin, pairs, share = decide(t, states)
        count = np.diff(begin)
        if not count.all():
            raise StuckError
        columns.append((np.repeat(states, count), pairs, share))
        start.append((before, before + pairs.size))
        before += pairs.size
        low, high = model.row_start[pairs], model.row_start[pairs + 1]
        entry = np.arange(int(np.sum(high - low))) + np.repeat(low - starts(high - low)[:-1], high - low)
        is_there = np.zeros(model.n_states, np.bool_)
        is_there[model.next_state[entry]] = True
        states = np.flatnonzero(is_there)
    state, pair, share = (np.concatenate(column) for column in zip(*columns, strict=True))
    zero, none = np.zeros(pair.size, np.int64), np.empty(0, np.int64)
    of_runs = np.empty((0, len(steps) + 1), np.int64), none
    return Taken(np.array(start), state.astype(np.int64), zero, zero, pair, share, *of_runs, True, 1, True)


def worst_values(
    model: Model, steps: Steps, taken: Taken, most: int, worth: Worth, kinds: tuple[int, ...], wanted: Ints,
    hidden: Hidden | None = None,
) -> Floats:  # fmt: skip
    """The worst expected return of each ``wanted`` episode, for each set (`tether._kernels.sets`).

    With ``hidden`` causes the set is all causal models with hidden causes, whatever ``kinds`` says.
    """
    hidden = Hidden(np.ones(wanted.size), np.empty(0)) if hidden is None else hidden
    worth = worth._replace(reward=read_only(worth.reward), final=read_only(worth.final))
    longest = int(np.diff(model.row_start).max(initial=1))
    places = (most + 1) * taken.n_runs * model.n_states
    size = 1 << 12
    found = np.empty((wanted.size, len(kinds)))
    done = 0
    while done < wanted.size:
        nodes = np.empty((4, size), np.int64)
        done = _worst_of_batch(
            model, steps.start, steps.state, steps.action, steps.pair, steps.outcome, taken, most, worth,
            np.array(kinds), wanted, done, nodes, np.zeros(places, np.int64), np.zeros((2, places)),
            limits_for(longest), row_scratch_for(longest), hidden, np.empty((2, longest)), found,
        )  # fmt: skip
        size *= 4  # an episode that needs more is begun again
    return found


def undoing_strengths(above: Callable[[Ints, Floats], Floats], count: int) -> Floats:
    """For each of some episodes, the strength of hidden causes that undoes its gain; infinite if none does.

    ``above(episodes, gamma)`` is the worst value less the observed one; it falls as Γ grows, and may then stay the
    same. Where it is not above 0 at Γ = 1, the strength is 1; where it does not fall below 0 for any Γ, it is infinite.
    In between, 1/Γ is found by secants through the last two positive values, a little to the right and to the left of
    where they meet 0, and by halving.
    """
    every = np.arange(count)
    at_1, at_largest = (above(every, np.full(count, gamma)) for gamma in (1.0, LARGEST))
    found: Floats = np.where(at_1 > 0.0, np.inf, 1.0)
    strong = np.flatnonzero(at_largest > 0.0)  # undone by outcomes that the model calls almost impossible, or never
    never = strong[above(strong, np.full(strong.size, np.inf)) > -_CLOSE * at_1[strong]]
    some = np.setdiff1d(np.flatnonzero(at_1 > 0.0), never)
    beyond = at_largest[some] > 0.0
    low, high = np.where(beyond, 1e-300, 1.0 / LARGEST), np.where(beyond, 1.0 / LARGEST, 1.0)
    of_high = np.where(beyond, at_largest[some], at_1[some])
    before, of_before = high.copy(), of_high.copy()  # the positive value before the last one
    side = 1.0
    while some.size:
        middle, x = np.sqrt(low) * np.sqrt(high), np.full(some.size, np.nan)
        if side != 0.0:
            with np.errstate(invalid="ignore", divide="ignore"):
                x = high - of_high * (before - high) / (of_before - of_high)
                x *= 1.0 + 0.4 * _CLOSE * side
        x = np.where((x > low) & (x < high), x, middle)
        here = above(some, 1.0 / x)
        positive = here > 0.0
        before, of_before = np.where(positive, high, before), np.where(positive, of_high, of_before)
        low, high, of_high = np.where(positive, low, x), np.where(positive, x, high), np.where(positive, here, of_high)
        found[some] = 1.0 / high
        on = high > low * (1.0 + _CLOSE)
        some, low, high, of_high = some[on], low[on], high[on], of_high[on]
        before, of_before = before[on], of_before[on]
        side = {1.0: -1.0, -1.0: 0.0, 0.0: 1.0}[side]
    return found


@piece
def _meets(model: Model, x: int, y: int) -> bool:
    """Whether two pairs can lead to the same state."""
    i, j = model.row_start[x], model.row_start[y]
    while i < model.row_start[x + 1] and j < model.row_start[y + 1]:
        if model.next_state[i] == model.next_state[j]:
            return True
        if model.next_state[i] < model.next_state[j]:
            i += 1
        else:
            j += 1
    return False


@kernel
def _onward(
    model: Model, taken: Taken, t: int, b: int, s: int, memory: int, pair: int, action: int, observed: int, left: int
) -> int:
    """The changes left and the run after a pair is taken, as one number; no more changes than the steps left."""
    n_runs = taken.n_runs
    changes = memory // n_runs
    if is_change(model, s, pair - model.pair_start[s], action):
        changes = max(changes - 1, 0)
    run = 0
    if n_runs > 1:
        low, high = taken.influenced_start[t, b], taken.influenced_start[t, b + 1]
        at = first_from(taken.influenced, low, high, pair)
        is_influenced = at < high and taken.influenced[at] == pair
        if not is_influenced and not (taken.by_support and _meets(model, pair, observed)):
            run = memory % n_runs + 1
    return min(changes, left) * n_runs + run


@piece
def _options(
    model: Model, taken: Taken, t: int, b: int, s: int, memory: int, action: int, left: int
) -> tuple[Any, Any]:
    """The first option of a node, and how many there are: places in ``taken``; `_ALL`; or -2 - pair for one pair."""
    of = 0 if taken.shared else b
    low, high = taken.start[t, of], taken.start[t, of + 1]
    v = first_from(taken.state, low, high, s)
    if taken.shared:
        first = v
        while v < high and taken.state[v] == s:
            v += 1
        return first, v - first
    found = -1
    while v < high and taken.state[v] == s:
        if min(taken.changes[v], left) * taken.n_runs + taken.run[v] == memory:
            found = v
        v += 1
    if found >= 0:
        return found, 1
    begin, end = model.pair_start[s], model.pair_start[s + 1]
    for x in range(begin, end):
        if model.pair_action[x] == action:
            return -2 - x, 1
    return _ALL, end - begin


@piece
def _pair(model: Model, taken: Taken, s: int, first: int, number: int) -> Any:
    """The pair of an option of a node."""
    if first >= 0:
        return taken.pair[first + number]
    return model.pair_start[s] + number if first == _ALL else -2 - first


@kernel
def _visit(
    model: Model, start: int, T: int, first_state: int, action: Ints, observed: Ints, outcome: Ints, taken: Taken,
    b: int, most: int, begin: Ints, nodes: Ints, mark: Ints,
) -> bool:  # fmt: skip
    """All nodes that some causal model can reach, and their options; False if there are too many for the arrays.

    A node has a state, its changes left and run, its first option and how many. The nodes of time t are those from
    ``begin[t]`` on. ``mark`` is 0 before and after.
    """
    n_states = model.pair_start.size - 1
    nodes[0, 0], nodes[1, 0] = first_state, min(most, T) * taken.n_runs
    begin[0], begin[1] = 0, 1
    fits = True
    for t in range(T):
        n, x_observed, o = begin[t + 1], observed[start + t], outcome[start + t]
        for i in range(begin[t], begin[t + 1]):
            s, memory = nodes[0, i], nodes[1, i]
            nodes[2, i], nodes[3, i] = _options(model, taken, t, b, s, memory, action[start + t], T - t)
            for number in range(nodes[3, i]):
                x = _pair(model, taken, s, nodes[2, i], number)
                after = 0
                if memory > 0 or taken.n_runs > 1:  # else no change is left, and no run is remembered
                    after = _onward(model, taken, t, b, s, memory, x, action[start + t], x_observed, T - t - 1)
                if n + model.row_start[x + 1] - model.row_start[x] > nodes.shape[1]:
                    fits = False
                    break
                is_certain = x == x_observed and o >= 0
                for e in range(model.row_start[x], model.row_start[x + 1]):
                    j = model.next_state[e]
                    if (is_certain and j != o) or mark[after * n_states + j] != 0:
                        continue
                    mark[after * n_states + j] = 1
                    nodes[0, n], nodes[1, n] = j, after
                    n += 1
        for i in range(begin[t + 1], n):
            mark[nodes[1, i] * n_states + nodes[0, i]] = 0
        if not fits:
            return False
        begin[t + 2] = n
    return True


@piece
def _weights(share: float, gamma: float) -> tuple[float, float]:
    """How much more rarely, and more often, a hidden cause can be met among all than among those who took an action."""
    if share >= 1.0:
        return 1.0, 1.0
    return share + (1.0 - share) / gamma, share + (1.0 - share) * gamma


@kernel
def _worst_of_node(
    model: Model, s: int, memory: int, first: int, count: int, t: int, action: int, left: int, b: int, taken: Taken,
    step: Observed, worth: Worth, value: Floats, kind: int, limits: RowLimits, row: RowScratch, hidden: Hidden,
    gamma: float, ends: Floats,
) -> float:  # fmt: skip
    """The smallest expected value of the options of a node over the set; ``value`` is that of the nodes after it.

    ``left`` is how many steps are left after this one.
    """
    # Records are unpacked first: reading a field within a loop would count references there.
    pair_start, _, row_start, next_state, probability = model
    reward, by_entry, _, discount = worth
    values, shares, outcome, observed = row.value, hidden.share, step.outcome, step.pair
    n_states, at = pair_start.size - 1, t if reward.shape[0] > 1 else 0
    remembers = memory > 0 or taken.n_runs > 1  # else no change is left, and no run is remembered
    lower, upper = ends[0], ends[1]
    light, heavy = 1.0, 1.0
    if gamma > 1.0:
        kind = INTERVALS
        light, heavy = _weights(shares[observed], gamma)
    worst = np.inf if first == _ALL else 0.0
    for option in range(count):
        x = _pair(model, taken, s, first, option)
        base = 0
        if remembers:
            base = _onward(model, taken, t, b, s, memory, x, action, observed, left) * n_states
        low, high = row_start[x], row_start[x + 1]
        is_certain = x == observed and outcome >= 0
        for e in range(low, high):
            j = next_state[e]
            gain = reward[at, e if by_entry else x]
            if not is_certain or j == outcome:
                gain += discount * value[base + j]
            values[e - low] = gain
        n = high - low
        if gamma > 1.0:
            own_light, own_heavy = _weights(shares[x], gamma)
            least, most = own_light / heavy, own_heavy / light
            if x == observed:
                least, most = 1.0, 1.0
            for e in range(n):
                lower[e], upper[e] = least * probability[low + e], most * probability[low + e]
        nominal = Nominal(next_state, probability, low, lower, upper, 0, 0.0)
        here = extreme_row(nominal, values, 0, n, x, step, kind, 1.0, limits, row)
        if first == _ALL:
            worst = min(worst, here)
        else:
            worst += here if first < 0 else taken.share[first + option] * here
    return worst


@kernel
def _worst_of_batch(
    model: Model, start: Ints, first_states: Ints, action: Ints, observed: Ints, outcome: Ints, taken: Taken,
    most: int, worth: Worth, kinds: Ints, wanted: Ints, done: int, nodes: Ints, mark: Ints, value: Floats,
    limits: RowLimits, row: RowScratch, hidden: Hidden, ends: Floats, found: Floats,
) -> int:  # fmt: skip
    """Write the worst values of the wanted episodes from ``done`` on; returns how many are done."""
    n_states = model.pair_start.size - 1
    for at in range(done, wanted.size):
        b = wanted[at]
        T = start[b + 1] - start[b]
        begin = np.empty(T + 2, np.int64)
        if not _visit(
            model, start[b], T, first_states[start[b]], action, observed, outcome, taken, b, most, begin, nodes, mark
        ):
            return at
        for number in range(kinds.size):
            end = min(T, worth.final.shape[0] - 1)
            for i in range(begin[T], begin[T + 1]):
                value[T % 2, nodes[1, i] * n_states + nodes[0, i]] = worth.final[end, nodes[0, i]]
            for t in range(T - 1, -1, -1):
                x = observed[start[b] + t]
                low, high = model.row_start[x], model.row_start[x + 1]
                chance = 1.0
                for e in range(low, high):
                    if model.next_state[e] == outcome[start[b] + t]:
                        chance = model.probability[e]
                step = Observed(
                    model.next_state[low:high], model.probability[low:high], outcome[start[b] + t], x, chance
                )
                for i in range(begin[t], begin[t + 1]):
                    s, memory, first = nodes[0, i], nodes[1, i], nodes[2, i]
                    value[t % 2, memory * n_states + s] = _worst_of_node(
                        model, s, memory, first, nodes[3, i], t, action[start[b] + t], T - t - 1, b, taken, step, worth,
                        value[(t + 1) % 2], kinds[number], limits, row, hidden, hidden.gamma[at], ends,
                    )  # fmt: skip
            found[at, number] = value[0, nodes[1, 0] * n_states + nodes[0, 0]]
    return wanted.size
