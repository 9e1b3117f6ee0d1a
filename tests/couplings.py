"""Slow twins of the sets of causal models: linear programmes over couplings, and over the published boxes."""

import numpy as np
from scipy.optimize import linprog

from tether._foundation.arrays import read_only
from tether._kernels.sets import (
    PUBLISHED_MONOTONICITY,
    PUBLISHED_STABILITY,
    Nominal,
    Observed,
    extreme_row,
    limits_for,
    row_scratch_for,
)


def asked_row(states, q, low=(), high=()):
    """A row as the library passes it to the kernel, which would be compiled again for any other kind of array."""
    ends = (read_only(np.asarray(each, float)) for each in (low, high))
    return Nominal(read_only(np.asarray(states, np.int32)), read_only(q), 0, *ends, 0, 0.0)


def seen_row(states, p, outcome, pair, chance):
    """The same for the observed step."""
    return Observed(read_only(np.asarray(states, np.int32)), read_only(p), int(outcome), pair, float(chance))


def extreme_of(row, values, pair, observed, kind, sign):
    """The extreme expectation over a row, and its probabilities."""
    n, scratch = values.size, row_scratch_for(values.size)
    found = extreme_row(row, values, 0, n, pair, observed, kind, sign, limits_for(n), scratch)
    return found, scratch.x[:n]


def over_couplings(p, q, o, values, sign, *, stable):
    """min or max of Σ_j π(o, j)·V_j / p_o over all joint laws π of the two outcomes.

    Stable (Oberst & Sontag, for every outcome i of the observed pair): π(i, j) = 0 if i ≠ j and q_i/p_i ≥ q_j/p_j.
    """
    n = p.size
    cost = np.zeros((n, n))
    cost[o] = sign * values / p[o]
    margins = [np.add.outer(np.eye(n)[i], np.zeros(n)).ravel() for i in range(n)]
    margins += [np.add.outer(np.zeros(n), np.eye(n)[j]).ravel() for j in range(n)]
    forbidden = np.zeros((n, n), dtype=bool)
    if stable and np.any((p > 0) & (q > 0)):
        both = (p[:, None] > 0) & (p[None, :] > 0) & ~np.eye(n, dtype=bool)
        forbidden = both & (q[:, None] * p[None, :] >= q[None, :] * p[:, None] * (1 - 1e-13))
    bounds = [(0, 0) if one else (0, None) for one in forbidden.ravel()]
    solved = linprog(cost.ravel(), A_eq=np.array(margins), b_eq=np.concatenate((p, q)), bounds=bounds, method="highs")
    assert solved.status == 0, solved.message
    return sign * solved.fun


def in_a_box(p, q, o, values, sign, kind):
    """min or max over the published boxes, written down as they are printed."""
    caps, floors = np.minimum(1.0, q / p[o]), np.zeros(p.size)
    if kind in (PUBLISHED_STABILITY, PUBLISHED_MONOTONICITY) and np.any((p > 0) & (q > 0)):
        for j in range(p.size):
            if j != o and p[j] > 0 and q[o] * p[j] >= q[j] * p[o] * (1 - 1e-13):
                caps[j] = 0.0
            if kind == PUBLISHED_MONOTONICITY and j == o:
                floors[j] = q[o]
            elif kind == PUBLISHED_MONOTONICITY and p[j] > 0:
                caps[j] = min(caps[j], q[j])
    ones = np.ones((1, p.size))
    solved = linprog(
        sign * values, A_eq=ones, b_eq=[1.0], bounds=list(zip(floors, np.maximum(caps, floors), strict=True))
    )
    assert solved.status == 0, solved.message
    return sign * solved.fun


def over_intervals(p_low, p_high, q_low, q_high, o, values, sign):
    """min or max of Σ_j π(o, j)·V_j / p_o over all rows p and q within their intervals, and all joint laws π of them.

    It is a ratio of linear functions: everything is scaled by s = 1 / p_o, so that the row of o sums to 1. Without an
    outcome (``o`` None) it is the expectation of V over the rows q within their intervals.
    """
    n = values.size
    if o is None:
        solved = linprog(sign * values, A_eq=np.ones((1, n)), b_eq=[1.0], bounds=list(zip(q_low, q_high, strict=True)))
        assert solved.status == 0, solved.message
        return sign * solved.fun
    rows = np.array([np.add.outer(np.eye(n)[i], np.zeros(n)).ravel() for i in range(n)])
    columns = np.array([np.add.outer(np.zeros(n), np.eye(n)[j]).ravel() for j in range(n)])
    cost = np.zeros((n, n))
    cost[o] = sign * values
    within = [
        np.column_stack((side * sums, -side * ends))
        for sums, low, high in ((rows, p_low, p_high), (columns, q_low, q_high))
        for side, ends in ((1.0, high), (-1.0, low))
    ]
    equal = np.vstack((np.append(rows[o], 0.0), np.append(np.ones(n * n), -1.0)))
    solved = linprog(
        np.append(cost.ravel(), 0.0),
        A_ub=np.vstack(within),
        b_ub=np.zeros(4 * n),
        A_eq=equal,
        b_eq=[1.0, 0.0],
        method="highs",
    )
    assert solved.status == 0, solved.message
    return sign * solved.fun
