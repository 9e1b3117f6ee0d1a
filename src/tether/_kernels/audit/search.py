"""Finding the pair of a state and an action, and the edited row of a pair."""

from __future__ import annotations

from tether._foundation.arrays import Floats, Ints
from tether._kernels.audit.arrays import Model, RowPool
from tether._kernels.jit import kernel, part_of_kernel

_FEW = 8


@kernel
def find_observed(pair_start: Ints, pair_action: Ints, s: int, action: int) -> int:
    """The pair of a state and an action, or -1."""
    begin, end = pair_start[s], pair_start[s + 1]
    guess: int = begin + action
    if guess < end and pair_action[guess] == action:
        return guess
    for x in range(begin, end):
        if pair_action[x] == action:
            return x
    return -1


@part_of_kernel
def edited_row(pool: RowPool, low: int, high: int, x: int) -> int:
    """The row of pair ``x`` among the edited rows ``low … high - 1``, whose pairs ascend; -1 if it is not edited."""
    end = high
    while high - low > _FEW:
        middle = (low + high) // 2
        if pool.pair[middle] < x:
            low = middle + 1
        else:
            high = middle
    while low < high and pool.pair[low] < x:
        low += 1
    return low if low < end and pool.pair[low] == x else -1


@part_of_kernel
def row_of_pair(model: Model, pool: RowPool, low: int, high: int, x: int) -> tuple[bool, Ints, Floats, float, int, int]:
    """Whether pair ``x`` has a row among the edited rows ``low … high - 1``; and its row, edited or nominal.

    A row is an array of successors, an array of probabilities, the expected reward, and its begin and end in the
    arrays.
    """
    row = edited_row(pool, low, high, x)
    if row >= 0:
        return True, pool.next_state, pool.probability, pool.reward[row], pool.start[row], pool.start[row + 1]
    return False, model.next_state, model.probability, model.reward[x], model.row_start[x], model.row_start[x + 1]


@part_of_kernel
def rows_of_state(first_row: int, high_row: int, n_pairs: int) -> int:
    """A bound for the end of the edited rows of a state that begin at ``first_row``; below 0 if it has none."""
    return min(high_row, first_row + n_pairs) if first_row >= 0 else first_row
