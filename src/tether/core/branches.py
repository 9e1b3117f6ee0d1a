"""Many sequences of actions, followed side by side."""

from __future__ import annotations

from tether._foundation.arrays import Floats, Ints
from tether._kernels.jit import kernel

__all__ = ["follow_branches"]


@kernel
def follow_branches(
    begin: Ints, row: Ints, mass: Floats, runs: Ints, row_start: Ints, next_state: Ints, probability: Floats,
    reward: Floats, n_states: int, place: Ints, nodes: Ints, chance: Floats, earned: Floats,
) -> int:  # fmt: skip
    """One step on: write (state, branch, run) of each node that a branch comes to, and its probability; how many.

    The nodes of branch b are ``begin[b] … begin[b + 1] - 1``: there a ``row`` is taken with probability ``mass``, with
    ``runs`` after it. ``earned`` adds up what each branch earns. ``place`` is scratch by run and state, 0 before.
    """
    n = 0
    for b in range(begin.size - 1):
        first = n
        for i in range(begin[b], begin[b + 1]):
            run, of_row = runs[i], row[i]
            for e in range(row_start[of_row], row_start[of_row + 1]):
                at, share = run * n_states + next_state[e], mass[i] * probability[e]
                if place[at] <= first:  # nothing yet, or the node of a branch before
                    nodes[0, n], nodes[1, n], nodes[2, n], chance[n] = next_state[e], b, run, 0.0
                    n += 1
                    place[at] = n
                chance[place[at] - 1] += share
                earned[b] += share * reward[e]
    return n
