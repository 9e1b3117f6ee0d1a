"""The answers to a batch: every episode planned, followed, and certified if that is asked for."""

from __future__ import annotations

from tether._kernels.audit.arrays import (
    Batch,
    Certifying,
    Following,
    Found,
    Model,
    Outcomes,
    Planning,
    Pool,
)
from tether._kernels.audit.certify import certify_episode
from tether._kernels.audit.follow import follow_episode, tell_ends
from tether._kernels.audit.layers import find_distances, find_layers, forget_edited
from tether._kernels.audit.plan import enough_k, plan_episode
from tether._kernels.jit import kernel


@kernel
def answer_episodes(
    model: Model, pool: Pool, planning: Planning, following: Following, certifying: Certifying, batch: Batch,
    outcomes: Outcomes, k: int, m: int, share: float, most_nodes: int, first_episode: int, found: Found,
) -> int:  # fmt: skip
    """Answer the episodes from ``first_episode`` on; ``k`` of 0 is the shortest tether that is enough.

    Plans that come to more than ``most_nodes`` nodes under Gumbel-max get no certificate. Returns the episode at which
    there was no more place for its ends or its certificate, or the number of episodes.
    """
    n_states = model.pair_start.size - 1
    stamp = k - k  # not a literal, for which the layers would be compiled once more
    for s in range(n_states):
        planning.stamp[s] = 0
    for episode in range(first_episode, batch.start.size - 1):
        first, T = batch.start[episode], batch.start[episode + 1] - batch.start[episode]
        found.end_start[episode + 1] = found.end_start[episode]
        found.k[episode] = -1
        if batch.usable[episode] == 0:
            continue
        start = batch.state[first]
        stamp = find_layers(model, planning.stamp, planning.layer, planning.layer_start, start, T, stamp)
        if stamp < 0:
            stamp = -stamp
            continue
        changes, limit = min(m, T), min(k, T + 1)
        find_distances(model, pool, planning, batch, first, T, limit <= T)
        if k == 0:
            limit = enough_k(model, pool, planning, batch, first, T, changes, batch.observed[episode], share)
        found.value[episode] = plan_episode(model, pool, planning, batch, first, T, limit, changes, limit > 0)
        forget_edited(n_states, pool, planning.edited, batch, first, T)
        here, n, nodes = follow_episode(
            model, pool, planning.choice, following, batch, first, T, changes, episode, found
        )  # fmt: skip
        if nodes <= most_nodes and not certify_episode(
            model, pool, batch, first, T, changes, planning.choice, following.mark, planning.value, certifying,
            episode, found,
        ):  # fmt: skip
            return episode
        if not tell_ends(outcomes, following, changes, here, n, episode, found):
            return episode
        found.k[episode] = limit
    return batch.start.size - 1
