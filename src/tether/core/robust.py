"""Robust backward induction: one layer of the best guaranteed value; an adversary chooses the row of each pair.

    V_t(s, c) = max over allowed a of min over x in X of Σ_j x_j·(R(s,a,j) + γ·V_{t+1}(j, c - [a ≠ a_t]))

less the price of a if it is a change and changes have a price.

The numbers of a node (run, state) are side by side, one for each c. With all m changes left only the observed states
are met, because under every model the observed pair leads to its observed outcome. So off the path the last number is
not computed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._kernels.jit import kernel, piece
from tether._kernels.order import first_from, sort_by
from tether._kernels.sets import (
    Nominal,
    Observed,
    RowLimits,
    RowScratch,
    can_happen,
    expectation,
    extreme_row,
    fill_row,
    limit_row,
    width,
)
from tether.core.batch import Model, Nodes

_TIE = 64 * 2.0**-52
"""Values are tied if they differ by less than this, relative to the absolute values that were added up."""


class Goal(NamedTuple):
    """What a step is worth, and what counts as a change.

    ``reward`` is by pair, or by entry of the model; ``observed`` is the observed action, ``seen`` the observed state;
    in states marked in ``free`` no action is a change. ``steps`` is how many are left, with this one. ``price`` is what
    taking each pair costs if that is a change; empty if nothing costs.
    """

    reward: Floats
    by_entry: bool
    discount: float
    observed: int
    seen: int
    free: Ints
    steps: int
    price: Floats


class Models(NamedTuple):
    """A set of causal models at one step: the observed step, the kind of set, and whether its worst row is wanted.

    ``lower`` and ``upper`` are by entry of the model if its probabilities are intervals, ``elsewhere`` by pair;
    otherwise they are empty. ``there`` is what follows elsewhere, worth without the reward of a pair. ``sign`` is 1 for
    the worst row of the set, -1 for the best.
    """

    step: Observed
    kind: int
    sign: float
    lower: Floats
    upper: Floats
    elsewhere: Floats
    there: float


@piece
def _never_seen(elsewhere: Floats, pair: int) -> float:
    """The largest probability that a pair leads where it was never seen to lead."""
    return elsewhere[pair] if elsewhere.size > 0 else 0.0


@kernel
def robust_nodes(
    model: Model,
    nodes: Nodes,
    influenced: Ints,
    kappa: Ints,
    offsets: Ints,
    k: int,
    goal: Goal,
    models: Models,
    after: Floats,
    before: Floats,
    columns: int,
    choice: Ints,
    limits: RowLimits,
    scratch: RowScratch,
) -> None:
    """V_t(node, c) of each node for c < ``columns``, and the number of the chosen pair; -∞ and -1 if there is none.

    The sets say what an observed step changes; ``influenced`` are the influenced pairs, ascending.
    """
    pair_start, pair_action, row_start, next_state, probability = model
    _, states, runs, _ = nodes
    n_states, with_runs = pair_start.size - 1, runs.size > 0
    step, kind, sign, lower, upper, elsewhere, beyond = models
    order, value = scratch.order, scratch.value
    nothing = np.int64(0)  # a literal would be a type of its own
    for node in range(states.size):
        s = states[node]
        run = runs[node] if with_runs else 0
        begin, end = pair_start[s], pair_start[s + 1]
        here = (run * n_states + s) * columns
        needed = columns if s == goal.seen or columns == 1 else columns - 1
        computed = min(needed, goal.steps + 1)  # more changes than steps are worth as much as one change per step
        for c in range(columns):
            before[here + c] = -np.inf
            choice[node, c] = -1
        for attempt in range(2):  # the observed action first, so a tie changes nothing
            for x in range(begin, end):
                is_observed = pair_action[x] == goal.observed
                if is_observed != (attempt == 0) or kappa[offsets[node] + x - begin] > k:
                    continue
                change = 0 if is_observed or goal.free[s] != 0 else 1
                if change >= computed:
                    continue
                onward = 0
                if with_runs:
                    at = first_from(influenced, 0, influenced.size, x)
                    onward = 0 if at < influenced.size and influenced[at] == x else run + 1
                start, stop = row_start[x], row_start[x + 1]
                n = stop - start
                gain = 0.0 if goal.by_entry else goal.reward[x]
                if change > 0 and goal.price.size > 0:
                    gain -= goal.price[x]
                unseen = _never_seen(elsewhere, x)
                row = Nominal(next_state, probability, start, lower, upper, start, unseen)
                how = limit_row(row, n, x, step, kind, limits, nothing, scratch)
                wide = width(how, n)
                for j in range(wide):
                    order[j] = j
                for c in range(change, computed):
                    kept = True  # whether the limits can be kept in every state that some model of the set leads to
                    for j in range(n):
                        there = (onward * n_states + next_state[start + j]) * columns + c - change
                        value[j] = goal.reward[start + j] if goal.by_entry else 0.0
                        if after[there] > -np.inf:
                            value[j] += goal.discount * after[there]
                        elif can_happen(how, limits, j):
                            kept = False
                            break
                    if not kept:
                        continue
                    if wide > n:
                        value[n] = beyond
                    sort_by(value, order, nothing, wide)
                    fill_row(how, limits, nothing, wide, order, nothing, sign, step.chance, scratch)
                    found = gain + expectation(wide, scratch.x, value)
                    best = before[here + c]
                    size = abs(gain) + abs(found) + (abs(best) if best > -np.inf else 0.0)
                    if found > best + _TIE * goal.steps * size:
                        before[here + c] = found
                        choice[node, c] = x - begin
        for c in range(computed, needed):
            before[here + c] = before[here + computed - 1]
            choice[node, c] = choice[node, computed - 1]


class RowsTaken(NamedTuple):
    """The rows that a policy takes, layer after layer: where the entries of each row begin, its node, its probability.

    By entry: ``gumbel`` is its probability under Gumbel-max; ``there`` is the node it leads to, -1 if no model of the
    set leads there; ``reward``; and ``order``, which sorts the outcomes of each row by value and is kept from one call
    to the next. By row: ``how`` and ``chance`` say how the extreme row is found, within which ``limits``; ``least`` and
    ``most`` what *elsewhere* is worth at worst and at best. ``order`` and ``limits`` have one item more for each row.
    """

    starts: Ints
    source: Ints
    share: Floats
    gumbel: Floats
    there: Ints
    reward: Floats
    order: Ints
    how: Ints
    chance: Floats
    limits: RowLimits
    least: Floats
    most: Floats


@kernel
def limit_rows(
    starts: Ints,
    next_state: Ints,
    probability: Floats,
    pairs: Ints,
    first: int,
    last: int,
    models: Models,
    entries: Ints,
    how: Ints,
    limits: RowLimits,
    scratch: RowScratch,
) -> None:
    """The limits of the rows ``first`` … ``last - 1``, all of one step. ``entries``: their entries in the model."""
    step, kind, _, lower, upper, elsewhere, _ = models
    for i in range(first, last):
        start, stop = starts[i], starts[i + 1]
        n = stop - start
        unseen = _never_seen(elsewhere, pairs[i])
        row = Nominal(next_state, probability, start, lower, upper, entries[start], unseen)
        how[i] = limit_row(row, n, pairs[i], step, kind, limits, start + i, scratch)


@kernel
def followed_values(
    taken: RowsTaken,
    undecided: Ints,
    sign: float,
    mixed: float,
    discount: float,
    value: Floats,
    slope: Floats,
    row: Floats,
    scratch: RowScratch,
) -> None:
    """The value of each node, from the last layer back; and its derivative by ``mixed``, in ``slope``.

    Rows are (1 - mixed)·(Gumbel-max) + mixed·(extreme row); the extreme rows are written to ``row``. At ``undecided``
    nodes the worst (best) of the rows counts. Before the call ``value`` has the values of the nodes of the last layer,
    ±∞ at undecided nodes and 0 elsewhere; ``slope`` is 0.
    """
    starts, source, share, gumbel, there, reward, orders, how, chance, limits, least, most = taken
    worth, x = scratch.value, scratch.x
    for i in range(source.size - 1, -1, -1):
        start, stop = starts[i], starts[i + 1]
        n = stop - start
        usual, usual_slope = 0.0, 0.0
        for j in range(n):
            node = there[start + j]
            worth[j] = reward[start + j] + (discount * value[node] if node >= 0 else 0.0)
            if mixed < 1.0 and gumbel[start + j] > 0.0:
                usual += gumbel[start + j] * worth[j]
                usual_slope += gumbel[start + j] * discount * slope[node]
        found, found_slope = usual, usual_slope
        if mixed > 0.0:
            wide = width(how[i], n)
            if wide > n:
                worth[n] = least[i] if sign > 0.0 else most[i]
            sort_by(worth, orders, start + i, wide)
            fill_row(how[i], limits, start + i, wide, orders, start + i, sign, chance[i], scratch)
            extreme, extreme_slope = x[n] * worth[n] if wide > n else 0.0, 0.0
            for j in range(n):
                row[start + j] = x[j]
                if x[j] > 0.0:
                    extreme += x[j] * worth[j]
                    if there[start + j] >= 0:
                        extreme_slope += x[j] * discount * slope[there[start + j]]
            found, found_slope = extreme, extreme_slope
            if mixed < 1.0:
                found = (1.0 - mixed) * usual + mixed * extreme
                found_slope = (1.0 - mixed) * usual_slope + mixed * extreme_slope + extreme - usual
        node = source[i]
        if undecided[node] == 0:
            value[node] += share[i] * found
            slope[node] += share[i] * found_slope
        elif sign * found < sign * value[node]:
            value[node], slope[node] = found, found_slope


@kernel
def extreme_rows(
    starts: Ints,
    next_state: Ints,
    probability: Floats,
    value: Floats,
    pairs: Ints,
    models: Models,
    entries: Ints,
    out: Floats,
    row: Floats,
    limits: RowLimits,
    scratch: RowScratch,
) -> None:
    """The extreme expectation of each of some rows, and the rows that attain it, entry for entry."""
    step, kind, sign, lower, upper, elsewhere, _ = models
    for i in range(pairs.size):
        start, stop = starts[i], starts[i + 1]
        n = stop - start
        unseen = _never_seen(elsewhere, pairs[i])
        one = Nominal(next_state, probability, start, lower, upper, entries[start], unseen)
        out[i] = extreme_row(one, value, start, n, pairs[i], step, kind, sign, limits, scratch)
        for j in range(n):
            row[start + j] = scratch.x[j]
