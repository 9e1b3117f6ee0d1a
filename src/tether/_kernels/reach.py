"""One step of reachability in the counterfactual MDP."""

from __future__ import annotations

from tether._kernels.jit import kernel
from tether.form import Floats, Ints


@kernel
def successors(
    states: Ints,
    pair_start: Ints,
    row_start: Ints,
    next_state: Ints,
    edited: Ints,
    edit_start: Ints,
    edit_probability: Floats,
    seen: Ints,
    out: Ints,
) -> int:
    """States that ``states`` can lead to, each once, in the order met; returns how many.

    Rows are nominal but for ``edited`` pairs (ascending), where an entry may have lost all its
    probability. ``seen`` is a byte a state, all 0 before and after.
    """
    n = 0
    e = 0
    for s in states:
        for x in range(pair_start[s], pair_start[s + 1]):
            while e < edited.size and edited[e] < x:
                e += 1
            is_edited = e < edited.size and edited[e] == x
            for i in range(row_start[x], row_start[x + 1]):
                if is_edited and edit_probability[edit_start[e] + i - row_start[x]] == 0.0:
                    continue
                j = next_state[i]
                if seen[j] == 0:
                    seen[j] = 1
                    out[n] = j
                    n += 1
    for i in range(n):
        seen[out[i]] = 0
    return n
