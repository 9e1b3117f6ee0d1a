"""A placebo: the log of a learned model with its actions permuted within each state.

No action has an effect then, and nothing else has changed: states, outcomes, and how often each action was taken in
each state stay as they are. What an audit finds in a placebo, it finds by chance.

The permutation is one of the steps behind the counts of the model, state by state. So the counts of every block of the
log (`tether.learning.folds`), and the episodes that are asked about, are of one placebo. Rewards of a step depend on
its state and outcome alone: they have the mean over all actions. The placebo is learned as the log was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tether._foundation.arrays import Floats, Ints, summed
from tether.learning.folds import Folds
from tether.logs.cohort import Cohort, search
from tether.mdp import MDP
from tether.model.form import Form, Rewards
from tether.model.pooling import StateCounts, pool, pooled_rows, state_counts
from tether.model.practice import learned_counts

_AT_ONCE = 1 << 22
"""How many steps are permuted at once."""


def shuffled(mdp: MDP, folds: Folds, cohort: Cohort, seed: tuple[int, ...]) -> tuple[MDP, Folds, Cohort]:
    """A placebo of a learned model, its counts by block, and some episodes of the log as they are in it."""
    rng = np.random.default_rng(seed)
    counts = state_counts(mdp.form, folds.counts.sum(axis=0))
    wide = _wide(mdp.form, counts)
    pairs = _usual_pairs(mdp.form, counts, cohort, rng)
    found = np.zeros((len(folds.counts), wide.next_state.size), dtype=np.int64)
    block, entry = _steps(mdp.form, folds, cohort)
    first_group = np.searchsorted(counts.group_state, np.arange(mdp.n_states))
    asked = _Asked(block, entry, mdp.form.next_state.size)
    for cells, entries in _slots(folds, counts):
        state = counts.pair_state[counts.entry_pair[entries]]
        order = np.lexsort((rng.random(entries.size), state))
        pair = np.empty(entries.size, np.int64)
        pair[np.argsort(state, kind="stable")] = counts.entry_pair[entries[order]]
        np.add.at(found, (cells, wide.row_start[pair] + counts.group[entries] - first_group[state]), 1)
        steps, slots = asked.among(cells, entries)
        pairs[steps] = pair[slots]
    placebo, kept = _learned(mdp, wide, found.sum(axis=0))
    actions = mdp.form.pair_action[pairs].astype(np.int64)
    return placebo, replace(folds, counts=found[:, kept]), replace(cohort, pair=pairs, action=actions)


class _Asked:
    """The steps of the episodes that are asked about, by block and transition: each is one of the steps permuted."""

    def __init__(self, block: Ints, entry: Ints, n_entries: int) -> None:
        self._n = n_entries
        self._steps = np.flatnonzero(entry >= 0)
        key = block[self._steps] * n_entries + entry[self._steps]
        order = np.argsort(key, kind="stable")
        self._steps, self._key = self._steps[order], key[order]
        first = np.searchsorted(self._key, self._key)
        self._rank = np.arange(self._key.size) - first

    def among(self, cells: Ints, entries: Ints) -> tuple[Ints, Ints]:
        """The steps that are among some steps of the log, sorted by transition and block; and where."""
        key = cells * self._n + entries
        order = np.argsort(key, kind="stable")
        at = np.searchsorted(key[order], self._key) + self._rank
        there = at < key.size
        there[there] = key[order][at[there]] == self._key[there]
        return self._steps[there], order[at[there]]


def _slots(folds: Folds, counts: StateCounts) -> Iterator[tuple[Ints, Ints]]:
    """The steps behind the counts, as block and entry; some states at a time."""
    entries = np.flatnonzero(counts.of_entry > 0)
    state = counts.pair_state[counts.entry_pair[entries]]
    entries = entries[np.argsort(state, kind="stable")]
    state = counts.pair_state[counts.entry_pair[entries]]
    before = np.cumsum(counts.of_state[: counts.of_state.size]) - counts.of_state
    part = (before // _AT_ONCE)[state]
    for number in np.unique(part):
        some = entries[part == number]
        times = folds.counts[:, some]
        cell, at = np.nonzero(times)
        often = times[cell, at]
        yield np.repeat(cell, often), np.repeat(some[at], often)


def _steps(form: Form, folds: Folds, cohort: Cohort) -> tuple[Ints, Ints]:
    """Block and entry of each step; -1 for one whose outcome was not recorded."""
    block = np.repeat(folds.blocks(cohort.ids), np.diff(cohort.start))
    pair = cohort.pair
    entry = search(form.next_state, form.row_start[pair], form.row_start[pair + 1], cohort.next_state)
    return block, np.where(cohort.next_state >= 0, entry, -1)


def _usual_pairs(form: Form, counts: StateCounts, cohort: Cohort, rng: np.random.Generator) -> Ints:
    """For each step an action of usual practice, drawn: for those that are not among the counts of the model."""
    total = np.concatenate((np.zeros(1), np.cumsum(counts.of_pair)))
    low, high = form.pair_start[cohort.state], form.pair_start[cohort.state + 1]
    wanted = total[low] + rng.random(low.size) * (total[high] - total[low])
    found = np.searchsorted(total, wanted, side="right") - 1
    return np.where(total[high] > total[low], np.clip(found, low, high - 1), cohort.pair).astype(np.int64)


def _wide(form: Form, counts: StateCounts) -> Form:
    """The form in which what followed any action of a state may follow all, for the same reward."""
    n = counts.of_state.size
    first = np.searchsorted(counts.group_state, np.arange(n + 1))
    size = np.diff(first)[counts.pair_state]
    start = np.concatenate((np.zeros(1, np.int64), np.cumsum(size)))
    pair = np.repeat(np.arange(size.size), size)
    group = np.arange(pair.size) - start[pair] + first[counts.pair_state[pair]]
    values = np.atleast_2d(form.rewards.values)
    by_entry = values if form.rewards.by_entry else values[:, counts.entry_pair]
    weight = np.where(counts.of_group[counts.group] > 0, counts.of_entry, 1.0)
    total = summed(counts.group, weight, counts.share.size)
    mean = np.stack([summed(counts.group, weight * one, total.size) / total for one in by_entry])
    rewards = mean[:, group] if form.rewards.values.ndim == 2 else mean[0, group]
    return replace(
        form,
        row_start=start.astype(form.row_start.dtype),
        next_state=counts.group_outcome[group].astype(form.next_state.dtype),
        probability=counts.share[group],
        rewards=Rewards(np.ascontiguousarray(rewards), True),
    )


def _learned(mdp: MDP, wide: Form, times: Ints) -> tuple[MDP, Ints]:
    """The model of a placebo, learned as ``mdp`` was; and which transitions of ``wide`` it has."""
    log = learned_counts(mdp)
    if log.pooling is not None:
        of_states, pooling = pool(
            wide, times, discount=mdp.discount, final_reward=mdp.final_reward, longest=log.longest
        )
        form = replace(wide, probability=pooled_rows(of_states, pooling.rho))
        return replace(mdp, form=form, counts=replace(log, transitions=times, pooling=pooling)), np.arange(times.size)
    pair = np.repeat(np.arange(wide.pair_action.size), np.diff(wide.row_start))
    of_pair = summed(pair, times, wide.pair_action.size)
    kept = np.flatnonzero((times > 0) | (of_pair[pair] == 0))
    weight: Floats = times[kept] + log.prior
    total = summed(pair[kept], weight, of_pair.size)[pair[kept]]
    probability = np.where(total > 0, weight / np.where(total > 0, total, 1.0), wide.probability[kept])
    probability = np.where(of_pair[pair[kept]] > 0, probability, wide.probability[kept])
    size = np.bincount(pair[kept], minlength=of_pair.size)
    form = replace(
        wide,
        row_start=np.concatenate((np.zeros(1, np.int64), np.cumsum(size))).astype(wide.row_start.dtype),
        next_state=wide.next_state[kept],
        probability=probability,
        rewards=Rewards(np.ascontiguousarray(wide.rewards.values[..., kept]), True),
    )
    return replace(mdp, form=form, counts=replace(log, transitions=times[kept])), kept
