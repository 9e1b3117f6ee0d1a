"""The arrays that the kernels for many episodes take: the model, scratch, and space for the results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import read_only
from tether._kernels.scratch import scratch_array
from tether.model.mdp import MDP
from tether.observation.changes import nothing_to_change
from tether.plan.rewards import ExpectedRewards

if TYPE_CHECKING:
    from tether._kernels.audit.arrays import Certifying, Following, Found, LabelArrays, Model, Planning

__all__ = ["certifying_scratch", "following_scratch", "model_arrays", "outcome_arrays", "place_for", "planning_scratch"]


def model_arrays(mdp: MDP) -> Model:
    """The model as kernels take it."""
    from tether._kernels.audit.arrays import Model

    form, n = mdp.form, mdp.n_states
    every = np.arange(n)
    lengths = form.row_start[form.pair_start[1:]] - form.row_start[form.pair_start[:-1]]
    keys = np.unique(np.repeat(every, lengths) * np.int64(n) + form.next_state)
    after_start = np.searchsorted(keys, np.arange(n + 1) * np.int64(n))
    by_entry = mdp.rewards.by_entry
    reward = np.array(ExpectedRewards(mdp).of_pairs(0, every)) if by_entry else mdp.rewards.at(0)
    final = np.zeros(n) if mdp.final_reward is None else mdp.final_reward
    return Model(
        pair_start=read_only(form.pair_start),
        pair_action=read_only(form.pair_action),
        row_start=read_only(form.row_start),
        next_state=read_only(form.next_state),
        probability=read_only(form.probability),
        after_start=read_only(after_start),
        after_state=read_only((keys % n).astype(np.int32)),
        reward=read_only(reward),
        entry_reward=read_only(mdp.rewards.at(0) if by_entry else np.empty(0)),
        final=read_only(final),
        discount=mdp.discount,
        absorbing=read_only(nothing_to_change(form, every, -1).astype(np.uint8)),
    )


def outcome_arrays(mdp: MDP, codes: Any) -> LabelArrays:
    """Labels and classes of outcomes as kernels take them."""
    from tether._kernels.audit.arrays import LabelArrays

    member = np.zeros((len(mdp.label_sets.ends), mdp.n_states), dtype=np.uint8)
    for number, states in enumerate(mdp.label_sets.ends.values()):
        member[number, states] = 1
    return LabelArrays(member, codes + 1)


def planning_scratch(mdp: MDP, longest: int, m: int) -> Planning:
    """Scratch to plan with, for episodes of up to ``longest`` steps."""
    from tether._kernels.audit.arrays import Planning

    n, height = mdp.n_states, m + 1
    return Planning(
        stamp=scratch_array(n + 1, np.int64),
        layer=scratch_array(n * (longest + 1), np.int32),
        layer_start=np.zeros(2 * longest + 2, np.int64),
        needed=scratch_array(n * longest, np.int32),
        needed_start=np.zeros(longest + 2, np.int64),
        distance=scratch_array(n * (longest + 1), np.int16),
        worth=scratch_array(n * (longest + 1), np.float64),
        kappa=scratch_array(n * (longest + 1), np.int16),
        feasible=scratch_array(n * (longest + 1), np.int16),
        edited=scratch_array(n * longest, np.int32),
        flag=scratch_array(2 * n, np.uint8),
        value=scratch_array(2 * n * (height + 1), np.float64),
        choice=scratch_array(longest * n * height, np.int32),
        numbers=np.zeros(2 * m + 4),
        by_pair=np.zeros(mdp.n_actions),
    )


def following_scratch(mdp: MDP, longest: int, m: int) -> Following:
    """Scratch to follow plans with."""
    from tether._kernels.audit.arrays import Following

    nodes = mdp.n_states * (m + 1)
    return Following(
        mark=scratch_array(nodes, np.uint8),
        place=scratch_array(4 * nodes, np.int64),
        position=scratch_array(nodes, np.int64),
        node=scratch_array(2 * nodes, np.int64),
        mass=scratch_array(2 * nodes, np.float64),
        changed=scratch_array(nodes, np.int64),
        by_step=np.zeros(2 * longest),
        by_class=scratch_array(len(mdp.label_sets.ends) + mdp.n_states + 1, np.float64),
        terms=scratch_array(2 * nodes, np.float64),
        halves=np.zeros((3, 64), np.int64),
        sums=np.zeros(64),
    )


def certifying_scratch(mdp: MDP, longest: int, nodes: int) -> Certifying:
    """Scratch for certificates of plans that can reach up to a number of nodes."""
    from tether._kernels.audit.arrays import Certifying
    from tether._kernels.sets import limits_for, row_scratch_for

    row = _longest_row(mdp)
    size = nodes + row + 1
    return Certifying(
        start=np.zeros(longest + 2, np.int64),
        node=np.zeros(size, np.int64),
        pair=np.zeros(size, np.int64),
        is_met=np.zeros(size, np.uint8),
        next_state=np.zeros(row, mdp.form.next_state.dtype),
        probability=np.zeros(row),
        nothing=read_only(np.empty(0)),
        limits=limits_for(row),
        row=row_scratch_for(row),
    )


def place_for(episodes: int, steps: int, labels: int) -> Found:
    """Space for the results of a number of episodes, with a number of steps in all."""
    from tether._kernels.audit.arrays import Found

    return Found(
        k=np.full(episodes, -1, dtype=np.int64),
        value=np.full(episodes, np.nan),
        strength=np.zeros(episodes),
        influenced=np.zeros(episodes),
        worst=np.full((episodes, 2), np.nan),
        labels=np.full((episodes, labels), np.nan),
        change_pair=np.full(steps, -1, dtype=np.int64),
        change_chance=np.zeros(steps),
        end_start=np.zeros(episodes + 1, np.int64),
        end_code=np.zeros(16 * episodes, np.int64),
        end_chance=np.zeros(16 * episodes),
    )


def _longest_row(mdp: MDP) -> int:
    return int(np.diff(mdp.form.row_start).max(initial=1))
