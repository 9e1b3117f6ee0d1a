"""What is guaranteed of plans: the worst expected return of each episode of a batch over a set of causal models.

A plan is followed through all nodes (state, changes left) that some causal model can reach. Where Gumbel-max leads, the
plan says what to take. Elsewhere it takes the observed action; where that is not available, the worst of all actions
counts. More changes left than steps left are worth as much as one change per step: such nodes are merged.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._kernels.jit import kernel
from tether._kernels.sets import Nominal, Observed, RowLimits, RowScratch, extreme_row, limits_for, row_scratch_for
from tether.core.batch import Layer, Model, Steps
from tether.core.follow import Visits
from tether.core.plan import find_pair, is_absorbing

__all__ = ["Worth", "worst_values"]

_UNKNOWN = -1


class Worth(NamedTuple):
    """What a step, and the end, are worth: rewards by time (one row if they do not depend on it), final rewards, γ.

    Rewards are by pair, or by entry of the model. Larger is better.
    """

    reward: Floats
    by_entry: bool
    final: Floats
    discount: float


class _Taken(NamedTuple):
    """The pairs that plans take, those of each time and episode side by side from ``start[t, b]`` on."""

    start: Ints
    state: Ints
    changes: Ints
    pair: Ints


def worst_values(
    model: Model, steps: Steps, layers: list[Layer], visits: list[Visits], most: int, worth: Worth,
    kinds: tuple[int, ...], wanted: Ints,
) -> Floats:  # fmt: skip
    """The worst expected return of the plan of each ``wanted`` episode, for each set (`tether._kernels.sets`)."""
    taken = _taken(model, steps, layers, visits)
    longest = int(np.diff(model.row_start).max(initial=1))
    size = 1 << 12
    found = np.empty((wanted.size, len(kinds)))
    done = 0
    while done < wanted.size:
        nodes = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
        done = _worst_of_batch(
            model, steps.start, steps.state, steps.action, steps.pair, steps.outcome, taken, most, worth,
            np.array(kinds), wanted, done, *nodes,
            np.zeros((most + 1) * model.n_states, np.int64), np.zeros((2, (most + 1) * model.n_states)),
            limits_for(longest), row_scratch_for(longest), np.empty(0), found,
        )  # fmt: skip
        size *= 4  # an episode that needs more is begun again
    return found


def _taken(model: Model, steps: Steps, layers: list[Layer], visits: list[Visits]) -> _Taken:
    start, states, changes, pairs, before = [], [], [], [], 0
    for layer, some in zip(layers, visits, strict=False):
        start.append(before + np.searchsorted(some.node, layer.nodes.first))
        states.append(layer.nodes.states[some.node].astype(np.int64))
        changes.append(some.changes)
        pairs.append(layer.pairs(model, some.position))
        before += some.node.size
    none = np.empty(0, np.int64)
    columns = (np.concatenate([none, *column]) for column in (states, changes, pairs))
    return _Taken(np.array(start).reshape(-1, len(steps) + 1), *columns)


@kernel
def _onward(model: Model, s: int, pair: int, action: int, changes: int, left: int) -> int:
    """The changes left after a pair is taken; no more than the steps left."""
    is_change = model.pair_action[pair] != action
    if is_change and find_pair(model, s, action) < 0 and is_absorbing(model, s):
        is_change = False
    return min(max(changes - 1, 0) if is_change else changes, left)


@kernel
def _visit(
    model: Model, start: int, T: int, first_state: int, action: Ints, observed: Ints, outcome: Ints, taken: _Taken,
    b: int, most: int, begin: Ints, state: Ints, changes: Ints, pair: Ints, mark: Ints,
) -> bool:  # fmt: skip
    """All nodes that some causal model can reach, and the pair taken there; False if there are too many for the arrays.

    The nodes of time t are those from ``begin[t]`` on. ``mark`` is 0 before and after.
    """
    n_states = model.pair_start.size - 1
    state[0], changes[0] = first_state, min(most, T)
    begin[0], begin[1] = 0, 1
    fits = True
    for t in range(T):
        for v in range(taken.start[t, b], taken.start[t, b + 1]):
            mark[min(taken.changes[v], T - t) * n_states + taken.state[v]] = taken.pair[v] + 1
        for i in range(begin[t], begin[t + 1]):
            known = mark[changes[i] * n_states + state[i]]
            pair[i] = _UNKNOWN
            if known > 0:
                pair[i] = known - 1
            else:
                number = find_pair(model, state[i], action[start + t])
                if number >= 0:
                    pair[i] = model.pair_start[state[i]] + number
        for v in range(taken.start[t, b], taken.start[t, b + 1]):
            mark[min(taken.changes[v], T - t) * n_states + taken.state[v]] = 0
        n = begin[t + 1]
        for i in range(begin[t], begin[t + 1]):
            low, high = pair[i], pair[i] + 1
            if pair[i] == _UNKNOWN:
                low, high = model.pair_start[state[i]], model.pair_start[state[i] + 1]
            for x in range(low, high):
                after = _onward(model, state[i], x, action[start + t], changes[i], T - t - 1)
                if n + model.row_start[x + 1] - model.row_start[x] > state.size:
                    fits = False
                    break
                is_certain = x == observed[start + t] and outcome[start + t] >= 0
                for e in range(model.row_start[x], model.row_start[x + 1]):
                    j = model.next_state[e]
                    if (is_certain and j != outcome[start + t]) or mark[after * n_states + j] != 0:
                        continue
                    mark[after * n_states + j] = -1
                    state[n], changes[n] = j, after
                    n += 1
        for i in range(begin[t + 1], n):
            mark[changes[i] * n_states + state[i]] = 0
        if not fits:
            return False
        begin[t + 2] = n
    return True


@kernel
def _worst_of_pair(
    model: Model, x: int, t: int, step: Observed, worth: Worth, value: Floats, base: int, kind: int, limits: RowLimits,
    row: RowScratch, nothing: Floats,
) -> float:  # fmt: skip
    """The smallest expected value of a pair over the set; ``value`` is by place, from ``base`` on by state."""
    low, high = model.row_start[x], model.row_start[x + 1]
    rewards = worth.reward[t if worth.reward.shape[0] > 1 else 0]
    is_certain = x == step.pair and step.outcome >= 0
    for e in range(low, high):
        j = model.next_state[e]
        gain = rewards[e] if worth.by_entry else rewards[x]
        if not is_certain or j == step.outcome:
            gain += worth.discount * value[base + j]
        row.value[e - low] = gain
    nominal = Nominal(model.next_state[low:high], model.probability[low:high], nothing, nothing)
    return extreme_row(nominal, row.value, high - low, x, step, kind, 1.0, limits, row)


@kernel
def _worst_of_batch(
    model: Model, start: Ints, first_states: Ints, action: Ints, observed: Ints, outcome: Ints, taken: _Taken,
    most: int, worth: Worth, kinds: Ints, wanted: Ints, done: int, state: Ints, changes: Ints, pair: Ints, mark: Ints,
    value: Floats, limits: RowLimits, row: RowScratch, nothing: Floats, found: Floats,
) -> int:  # fmt: skip
    """Write the worst values of the wanted episodes from ``done`` on; returns how many are done."""
    n_states = model.pair_start.size - 1
    for at in range(done, wanted.size):
        b = wanted[at]
        T = start[b + 1] - start[b]
        begin = np.empty(T + 2, np.int64)
        if not _visit(
            model, start[b], T, first_states[start[b]], action, observed, outcome, taken, b, most, begin, state,
            changes, pair, mark,
        ):  # fmt: skip
            return at
        for number in range(kinds.size):
            for i in range(begin[T], begin[T + 1]):
                value[T % 2, changes[i] * n_states + state[i]] = worth.final[state[i]]
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
                    first, last = pair[i], pair[i] + 1
                    if pair[i] == _UNKNOWN:
                        first, last = model.pair_start[state[i]], model.pair_start[state[i] + 1]
                    worst = np.inf
                    for y in range(first, last):
                        after = _onward(model, state[i], y, action[start[b] + t], changes[i], T - t - 1)
                        base = after * n_states
                        here = _worst_of_pair(
                            model, y, t, step, worth, value[(t + 1) % 2], base, kinds[number], limits, row, nothing
                        )
                        worst = min(worst, here)
                    value[t % 2, changes[i] * n_states + state[i]] = worst
            found[at, number] = value[0, changes[0] * n_states + state[0]]
    return wanted.size
