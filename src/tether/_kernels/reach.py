"""Walking through the graph layer by layer: what a layer leads to, and which of its rows matter."""

from __future__ import annotations

from tether._foundation.arrays import Ints
from tether._kernels.jit import kernel


@kernel
def successors(states: Ints, pair_start: Ints, row_start: Ints, next_state: Ints, seen: Ints, out: Ints) -> int:
    """States that the nominal rows of ``states`` lead to, each once, in the order met; returns how many.

    ``seen`` is a byte a state, all 0 before and after.
    """
    n = 0
    for s in states:
        for i in range(row_start[pair_start[s]], row_start[pair_start[s + 1]]):
            j = next_state[i]
            if seen[j] == 0:
                seen[j] = 1
                out[n] = j
                n += 1
    for i in range(n):
        seen[out[i]] = 0
    return n


@kernel
def still_reached(
    states: Ints, pair_start: Ints, row_start: Ints, next_state: Ints, edited: Ints, wanted: Ints, n_wanted: int
) -> None:
    """Clear in ``wanted``, one byte per state, what the nominal rows of ``states`` lead to; stop at the last.

    Rows of ``edited`` pairs (ascending) are not looked at.
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
    """Collect in ``out`` the pairs of ``states`` with a successor that is ``marked``, a byte a state; how many."""
    n = 0
    for s in states:
        for x in range(pair_start[s], pair_start[s + 1]):
            for i in range(row_start[x], row_start[x + 1]):
                if marked[next_state[i]]:
                    out[n] = x
                    n += 1
                    break
    return n
