"""The answers to a batch: every episode is planned, followed, and, if wanted, certified."""

from __future__ import annotations

from tether._kernels.audit.arrays import (
    Batch,
    Certifying,
    Following,
    Found,
    LabelArrays,
    Model,
    Planning,
    RowPool,
)
from tether._kernels.audit.certify import certify_episode
from tether._kernels.audit.follow import follow_episode, tell_ends
from tether._kernels.audit.layers import find_distances, find_layers, forget_edited
from tether._kernels.audit.one_change import find_needed, plan_one_change, weigh_states
from tether._kernels.audit.plan import plan_episode
from tether._kernels.jit import kernel, part_of_kernel


@part_of_kernel
def prepare_one_change(
    model: Model, pool: RowPool, planning: Planning, batch: Batch, first: int, T: int, least: int
) -> None:
    """Weigh the states that plans of one change need; if that is not enough, all states that the episode reaches."""
    is_done = find_needed(model, batch, first, T, planning.stamp, planning.needed, planning.needed_start)
    state, start, stride = planning.needed, planning.needed_start, 1
    for turn in range(2):
        if turn == 1:
            state, start, stride = planning.layer, planning.layer_start, 2
        if turn == 1 or is_done:
            is_done = weigh_states(model, pool, planning, batch, first, T, least, state, start, stride)
        if is_done:
            break


@part_of_kernel
def plan_within(
    model: Model, pool: RowPool, planning: Planning, batch: Batch, first: int, T: int, k: int, m: int, share: float,
    observed: float, found: Found, episode: int,
) -> int:  # fmt: skip
    """Plan within k; if k is 0, within the shortest tether with at least ``share`` of the gain of the longest one.

    Returns k, which is 1 if no tether gains anything; the value is kept.
    """
    rounding, most = 1e-9 * max(1.0, abs(observed)), 0.0
    tried, keep = T if k == 0 else k, k > 0
    while True:
        if m == 1:
            value = plan_one_change(model, pool, planning, batch, first, T, tried)
        else:
            value = plan_episode(model, pool, planning, batch, first, T, tried, m, keep)
        if keep:
            found.value[episode] = value
            return tried
        if most == 0.0:  # the longest one comes first
            most = value - observed
            keep = most <= rounding or T == 1
            tried = 1
        elif value - observed >= share * most - rounding:
            keep = True
        else:
            tried += 1
            keep = tried == T


@kernel
def answer_episodes(
    model: Model, pool: RowPool, planning: Planning, following: Following, certifying: Certifying, batch: Batch,
    outcomes: LabelArrays, k: int, m: int, share: float, most_nodes: int, first_episode: int, found: Found,
) -> int:  # fmt: skip
    """Answer the episodes from ``first_episode`` on; ``k`` of 0 is the shortest tether that is enough.

    Plans that reach more than ``most_nodes`` nodes under Gumbel-max get no certificate. Returns the number of episodes;
    or, if an array was too short for the ends or the certificate of an episode, the number of that episode.
    """
    n_states = model.pair_start.size - 1
    for episode in range(first_episode, batch.start.size - 1):
        first, T = batch.start[episode], batch.start[episode + 1] - batch.start[episode]
        found.end_start[episode + 1] = found.end_start[episode]
        found.k[episode] = -1
        if batch.usable[episode] == 0:
            continue
        start = batch.state[first]
        if not find_layers(model, planning.stamp, planning.layer, planning.layer_start, start, T):
            continue
        changes, limit = min(m, T), min(k, T + 1)
        find_distances(model, pool, planning, batch, first, T, limit <= T)
        if changes == 1:
            prepare_one_change(model, pool, planning, batch, first, T, max(limit, 1))
        limit = plan_within(
            model, pool, planning, batch, first, T, limit, changes, share, batch.observed[episode], found, episode
        )
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
