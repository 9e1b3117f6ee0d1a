"""The counterfactual rows of every built-in mechanism, for any number of observed steps at once.

Gumbel-max is in `tether.core.gumbel`. The others are couplings of the observed row and the row in question
(`tether.conditioning.couplings` says what they mean); under each the observed pair itself repeats its outcome.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._foundation.arrays import Floats, Ints, read_only
from tether._kernels.coupling import CouplingScratch, comonotone_row, coupling_scratch_for, maximal_row
from tether._kernels.jit import kernel
from tether._kernels.order import sort_by
from tether._kernels.scratch import scratch_array
from tether.core.batch import COMONOTONE, GUMBEL_MAX, MAXIMAL, Model, Seen
from tether.core.gumbel import gumbel_rows


def rows_given(
    model: Model, seen: Seen, which: Ints, outcome: Ints, pairs: Ints, kind: int = GUMBEL_MAX,
    own: Ints | None = None, rank: Ints | None = None,
) -> tuple[Ints, Ints, Floats, Floats]:  # fmt: skip
    """Counterfactual rows of ``pairs``: where each begins, next states, probabilities, and strengths.

    Row i is that of ``pairs[i]``, given that the observed row ``which[i]`` led to ``outcome[i]``; an outcome of -1 was
    not recorded: the row stays nominal. ``own[i]`` is the observed pair, -1 if it is not known (Gumbel-max does not
    ask). ``rank`` is the place of each state in the order of "comonotone", by default that of the model; where it is
    that of one copy of a model, it holds for each.
    """
    size = int(np.sum(model.row_start[pairs + 1] - model.row_start[pairs]))
    start, strength = np.empty(pairs.size + 1, np.int64), np.empty(pairs.size)
    next_state, probability = np.empty(size, np.int32), np.empty(size)
    seen, given = Seen(*map(read_only, seen)), (read_only(which), read_only(outcome), read_only(pairs))
    out: Any = (start, next_state, probability, strength)
    weight = scratch_array(model.n_states, np.float64)
    if kind == GUMBEL_MAX:
        gumbel_rows(model, seen, *given, weight, *out)
    else:
        own = np.full(pairs.size, -1) if own is None else own
        rank = np.empty(0, np.int64) if rank is None else rank
        lengths = np.concatenate((model.row_start[pairs + 1] - model.row_start[pairs], np.diff(seen.start)))
        longest = int(lengths.max(initial=0))
        scratch = coupling_scratch_for(longest)
        order, keys, row = np.empty(longest, np.int64), np.empty((2, longest)), np.empty((2, longest))
        _coupled_rows(
            model, seen, *given, read_only(own), kind, read_only(rank), weight, order, keys, row, scratch, *out
        )
    end = int(start[-1])
    return start, next_state[:end], probability[:end], strength


@kernel
def _coupled_rows(
    model: Model, seen: Seen, which: Ints, outcome: Ints, pairs: Ints, own: Ints, kind: int, rank: Ints, weight: Floats,
    order: Ints, keys: Floats, rows: Floats, scratch: CouplingScratch, start: Ints, next_state: Ints,
    probability: Floats, strength: Floats,
) -> None:  # fmt: skip
    _, _, row_start, nominal_next, nominal = model
    seen_start, seen_next, seen_probability = seen
    row, given = rows[0], rows[1]
    n, end, at_seen = 0, 0, 0
    for i in range(pairs.size):
        first, last = seen_start[which[i]], seen_start[which[i] + 1]
        if i == 0 or which[i] != which[i - 1] or outcome[i] != outcome[i - 1]:
            for e in range(first, last):
                weight[seen_next[e]] = seen_probability[e]
            at_seen = _in_order(seen_next, first, last, rank, order, keys[0], outcome[i])
            for j in range(last - first):
                keys[1, j] = seen_probability[first + order[j]]
        low, n = row_start[pairs[i]], row_start[pairs[i] + 1] - row_start[pairs[i]]
        at = -1
        for j in range(n):
            row[j] = nominal[low + j]
            if nominal_next[low + j] == outcome[i]:
                at = j
        if outcome[i] >= 0 and pairs[i] == own[i]:
            for j in range(n):
                row[j] = 1.0 if j == at else 0.0
        elif outcome[i] >= 0 and kind == MAXIMAL:
            for j in range(n):
                given[j] = weight[nominal_next[low + j]]
            chance, observed = weight[outcome[i]], seen_probability[first:last]
            maximal_row(nominal[low : low + n], given[:n], at, observed, chance, row, scratch)
        elif outcome[i] >= 0 and kind == COMONOTONE:
            _in_order(nominal_next, low, low + n, rank, order, keys[0], -1)
            comonotone_row(nominal[low : low + n], order[:n], keys[1, : last - first], at_seen, row, scratch)
        start[i], distance = end, 0.0
        for j in range(n):
            distance += abs(row[j] - nominal[low + j])
            if row[j] != 0.0:
                next_state[end], probability[end] = nominal_next[low + j], row[j]
                end += 1
        strength[i] = 0.5 * distance
        if i == pairs.size - 1 or which[i] != which[i + 1] or outcome[i] != outcome[i + 1]:
            for e in range(first, last):
                weight[seen_next[e]] = 0.0
    start[pairs.size] = end


@kernel
def _in_order(next_state: Ints, low: int, high: int, rank: Ints, order: Ints, keys: Floats, wanted: int) -> int:
    """Write the items of a row by the rank of their states to ``order``; returns the place of the ``wanted`` state."""
    for j in range(high - low):
        order[j] = j
    if rank.size > 0:
        for j in range(high - low):
            keys[j] = rank[next_state[low + j] % rank.size]
        sort_by(keys, order, 0, high - low)
    for j in range(high - low):
        if next_state[low + order[j]] == wanted:
            return j
    return -1
