"""Robust backward induction: one layer of the best guaranteed value, the adversary choosing the row of each pair.

    V_t(s, c) = max over allowed a of min over x in X of Σ_j x_j·(R(s,a,j) + γ·V_{t+1}(j, c - [a ≠ a_t]))

Numbers of a node (run, state) lie side by side, one for each c. With all m changes left only the observed states are
ever met, because the observed pair leads where it led under every model: off the path the last number is not computed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tether._kernels.jit import kernel
from tether._kernels.layer import LayerNodes, LayerRows
from tether._kernels.sets import Observed, RowScratch, extreme_row
from tether._kernels.sorting import lower_bound
from tether._types import Floats, Ints

_TIE = 64 * 2.0**-52
"""Values that differ by less than this, relative to what was added up on the way to them, are tied."""


class Goal(NamedTuple):
    """What a step is worth, and what counts as a change.

    ``reward`` is by pair, or by entry of the model; ``observed`` is the observed action, ``seen`` the observed state;
    in states marked in ``free`` no action is a change. So many ``steps`` are left, this one included.
    """

    reward: Floats
    by_entry: bool
    discount: float
    observed: int
    seen: int
    free: Ints
    steps: int


@kernel
def robust_nodes(
    nodes: LayerNodes,
    rows: LayerRows,
    kappa: Ints,
    offsets: Ints,
    k: int,
    goal: Goal,
    step: Observed,
    kind: int,
    after: Floats,
    before: Floats,
    columns: int,
    choice: Ints,
    value: Floats,
    room: RowScratch,
) -> None:
    """V_t(node, c) of each node for c < ``columns``, and the number of the chosen pair; -∞ and -1 where there is none.

    ``value`` is scratch for the values of one row.
    """
    states, runs, with_runs, n_states = nodes
    pair_start, pair_action, row_start = rows.pair_start, rows.pair_action, rows.row_start
    next_state, probability, influenced = rows.next_state, rows.probability, rows.influenced
    for node in range(states.size):
        s = states[node]
        run = runs[node] if with_runs else 0
        begin, end = pair_start[s], pair_start[s + 1]
        here = (run * n_states + s) * columns
        computed = columns if s == goal.seen or columns == 1 else columns - 1
        for c in range(columns):
            before[here + c] = -np.inf
            choice[node, c] = -1
        for attempt in range(2):  # the observed action first: ties change nothing
            for x in range(begin, end):
                is_observed = pair_action[x] == goal.observed
                if is_observed != (attempt == 0) or kappa[offsets[node] + x - begin] > k:
                    continue
                change = 0 if is_observed or goal.free[s] != 0 else 1
                onward = 0
                if with_runs:
                    at = lower_bound(influenced, x)
                    onward = 0 if at < influenced.size and influenced[at] == x else run + 1
                start = row_start[x]
                n = row_start[x + 1] - start
                gain = 0.0 if goal.by_entry else goal.reward[x]
                for c in range(change, computed):
                    size = abs(gain)
                    for j in range(n):
                        there = (onward * n_states + next_state[start + j]) * columns + c - change
                        value[j] = goal.discount * after[there]
                        if goal.by_entry:
                            value[j] += goal.reward[start + j]
                    worst = gain + extreme_row(
                        next_state[start : start + n],
                        probability[start : start + n],
                        value,
                        n,
                        x,
                        step,
                        kind,
                        1.0,
                        room,
                    )
                    best = before[here + c]
                    if worst > best + _TIE * goal.steps * (size + abs(worst) + (abs(best) if best > -np.inf else 0.0)):
                        before[here + c] = worst
                        choice[node, c] = x - begin


class RowsTaken(NamedTuple):
    """The rows that a policy takes in a layer, one after the other: where each starts, and its entries.

    ``gumbel`` is the probability of each entry under Gumbel-max; ``there`` is which node of the next layer it leads to,
    -1 where no model of the set leads; ``reward`` is by entry; ``pairs`` says whose rows they are.
    """

    starts: Ints
    next_state: Ints
    probability: Floats
    gumbel: Floats
    there: Ints
    reward: Floats
    pairs: Ints


@kernel
def followed_rows(
    taken: RowsTaken,
    step: Observed,
    kind: int,
    sign: float,
    share: float,
    discount: float,
    after: Floats,
    value: Floats,
    out: Floats,
    row: Floats,
    room: RowScratch,
) -> None:
    """What each row is worth: (1 - share)·(under Gumbel-max) + share·(under the extreme row); and the extreme rows.

    ``after`` is what the nodes of the next layer are worth, ``value`` scratch for one row.
    """
    for i in range(taken.pairs.size):
        start, stop = taken.starts[i], taken.starts[i + 1]
        n = stop - start
        expected = 0.0
        for j in range(n):
            there = taken.there[start + j]
            value[j] = taken.reward[start + j] + (discount * after[there] if there >= 0 else 0.0)
            expected += taken.gumbel[start + j] * value[j]
        if share == 0.0:
            out[i] = expected
            continue
        extreme = extreme_row(
            taken.next_state[start:stop],
            taken.probability[start:stop],
            value,
            n,
            taken.pairs[i],
            step,
            kind,
            sign,
            room,
        )
        out[i] = extreme if share == 1.0 else (1.0 - share) * expected + share * extreme
        for j in range(n):
            row[start + j] = room.x[j]


@kernel
def extreme_rows(
    starts: Ints,
    next_state: Ints,
    probability: Floats,
    value: Floats,
    pairs: Ints,
    step: Observed,
    kind: int,
    sign: float,
    out: Floats,
    row: Floats,
    room: RowScratch,
) -> None:
    """The extreme expectation of each of some rows, and the rows that attain it, entry for entry."""
    for i in range(pairs.size):
        start, stop = starts[i], starts[i + 1]
        n = stop - start
        out[i] = extreme_row(
            next_state[start:stop], probability[start:stop], value[start:stop], n, pairs[i], step, kind, sign, room
        )
        for j in range(n):
            row[start + j] = room.x[j]
