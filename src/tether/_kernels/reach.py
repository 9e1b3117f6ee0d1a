"""Walking through the graph layer by layer: the states that a layer leads to, and which of its rows can change."""

from __future__ import annotations

import numba

from tether._foundation.arrays import Ints
from tether._kernels.jit import kernel, parallel_kernel, piece


@piece
def any_marked(next_state: Ints, low: int, high: int, marked: Ints) -> bool:
    """Whether some of the entries ``low … high - 1`` lead to a ``marked`` state (one byte per state)."""
    at = low
    while at < high and marked[next_state[at]] == 0:
        at += 1
    return at < high


@parallel_kernel
def mark_successors(states: Ints, pair_start: Ints, row_start: Ints, next_state: Ints, seen: Ints, chunks: int) -> None:
    """Set to 1 in ``seen``, one byte per state, what the nominal rows of ``states`` lead to; in pieces, on all cores.

    Two pieces may set the same byte, both to 1.
    """
    size = states.size
    for chunk in numba.prange(chunks):
        for s in states[chunk * size // chunks : (chunk + 1) * size // chunks]:
            for i in range(row_start[pair_start[s]], row_start[pair_start[s + 1]]):
                j = next_state[i]
                if seen[j] == 0:
                    seen[j] = 1


@kernel
def still_reached(
    states: Ints, pair_start: Ints, row_start: Ints, next_state: Ints, edited: Ints, wanted: Ints, n_wanted: int
) -> None:
    """Clear in ``wanted``, one byte per state, what the nominal rows of ``states`` lead to; stop if nothing is left.

    Rows of ``edited`` pairs (ascending) are skipped.
    """
    e = 0
    for s in states:
        for x in range(pair_start[s], pair_start[s + 1]):
            while e < edited.size and edited[e] < x:
                e += 1
            if e < edited.size and edited[e] == x:
                continue
            for i in range(row_start[x], row_start[x + 1]):
                j = next_state[i]
                if wanted[j]:
                    wanted[j] = 0
                    n_wanted -= 1
                    if n_wanted == 0:
                        return


@kernel
def touching(states: Ints, pair_start: Ints, row_start: Ints, next_state: Ints, marked: Ints, out: Ints) -> int:
    """Collect in ``out`` the pairs of ``states`` with a ``marked`` successor (one byte per state); returns how many."""
    n = 0
    for s in states:
        for x in range(pair_start[s], pair_start[s + 1]):
            if any_marked(next_state, row_start[x], row_start[x + 1], marked):
                out[n] = x
                n += 1
    return n


@parallel_kernel
def touching_on_all_cores(
    states: Ints,
    offsets: Ints,
    pair_start: Ints,
    row_start: Ints,
    next_state: Ints,
    marked: Ints,
    out: Ints,
    counts: Ints,
) -> None:
    """Collect in ``out`` the pairs of ``states`` with a ``marked`` successor, on all cores.

    There is one piece per item of ``counts``, which becomes the number of pairs found.

    ``offsets`` says where the pairs of each state begin in an array over the pairs of all ``states``. A piece writes to
    ``out`` from the offset of its first state on.
    """
    size, parts = states.size, counts.size
    for part in numba.prange(parts):
        low, high = part * size // parts, (part + 1) * size // parts
        to = out[offsets[low] : offsets[high]]
        counts[part] = touching(states[low:high], pair_start, row_start, next_state, marked, to)


@kernel
def which_meet(pairs: Ints, row_start: Ints, next_state: Ints, marked: Ints, out: Ints) -> int:
    """Collect in ``out`` the ``pairs`` with a ``marked`` successor (one byte per state); returns how many."""
    n = 0
    for x in pairs:
        if any_marked(next_state, row_start[x], row_start[x + 1], marked):
            out[n] = x
            n += 1
    return n
