"""Expected rewards by pair and by edited row, as the planning kernel takes them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tether._foundation.arrays import Floats, Ints, read_only
from tether._kernels.scratch import scratch_array
from tether.conditioning.edited_rows import Rows, spans
from tether.conditioning.layers import Graph
from tether.core.batch import Layer, Model
from tether.model.form import Rewards
from tether.model.model_record import ModelRecord


class ExpectedRewards:
    """Expected rewards of the pairs of a model under its own rows, step by step.

    R(s,a) is used as it is. R(s,a,s') is averaged for the pairs that are needed: only once if it does not depend on
    time, and for the edited rows of a layer.
    """

    def __init__(self, mdp: ModelRecord) -> None:
        self._mdp = mdp
        self._by_entry = mdp.rewards.by_entry
        self._averages = scratch_array(mdp.n_pairs if self._by_entry else 0, np.float64)
        self._known = scratch_array(mdp.n_states if self._by_entry else 0, np.bool_)
        self._of_rows: dict[int, Floats] = {}

    @classmethod
    def of(cls, graph: Graph) -> ExpectedRewards:
        """The expected rewards of a counterfactual MDP: computed once and kept with its graph for all its questions.

        Rewards that depend on time are not kept: their averages are overwritten at each step, and several threads may
        use them.
        """
        if graph.mdp.rewards.horizon is not None:
            return cls(graph.mdp)
        if cls not in graph.kept:
            graph.kept[cls] = cls(graph.mdp)
        kept: ExpectedRewards = graph.kept[cls]
        return kept

    def of_pairs(self, t: int, states: Ints) -> Floats:
        """Rewards by pair, of the pairs of some states."""
        values = self._mdp.rewards.at(t)
        if not self._by_entry:
            return read_only(values)
        new = states if self._mdp.rewards.horizon is not None else states[~self._known[states]]
        if new.size:
            form = self._mdp.form
            _, pairs = spans(form.pair_start[new], form.pair_start[np.asarray(new, np.int64) + 1])
            owner, entry = spans(form.row_start[pairs], form.row_start[pairs + 1])
            self._averages[pairs] = np.bincount(owner, form.probability[entry] * values[entry], minlength=pairs.size)
            self._known[new] = True
        return read_only(self._averages)

    def of_rows(self, t: int, rows: Rows) -> Floats:
        """Rewards of all edited rows of step t, each averaged under it once."""
        values, form = self._mdp.rewards.at(t), self._mdp.form
        if not self._by_entry:
            found: Floats = values[rows.pairs]
            return found
        if t not in self._of_rows:
            owner, entry, probability = rows.expand(form, np.arange(rows.pairs.size))
            summed = np.bincount(owner, probability * values[entry], minlength=rows.pairs.size)
            self._of_rows[t] = summed.astype(np.float64, copy=False)
        return self._of_rows[t]

    def of_edited(self, t: int, model: Model, layer: Layer) -> Floats:
        """Rewards of the edited pairs of a layer: those of R(s,a,s') are averaged under the edited row."""
        values, pairs = self._mdp.rewards.at(t), layer.pairs(model, layer.edits.position)
        if not self._by_entry:
            rewards: Floats = values[pairs]
            return rewards
        edits = layer.edits
        owner, item = spans(edits.start[edits.row], edits.start[edits.row + 1])
        nominal_owner, entry = spans(model.row_start[pairs], model.row_start[pairs + 1])
        # Both run through the same rows in the same order, next states ascending.
        of_entries = nominal_owner * model.n_states + model.next_state[entry]
        place = np.searchsorted(of_entries, owner * model.n_states + edits.next_state[item])
        summed = np.bincount(owner, edits.probability[item] * values[entry[place]], minlength=pairs.size)
        averages: Floats = summed.astype(np.float64, copy=False)
        return averages


def without_rewards(mdp: ModelRecord) -> ModelRecord:
    """A copy of the model in which all rewards are 0."""
    zeros = scratch_array(mdp.n_pairs, np.float64)
    return replace(mdp, form=replace(mdp.form, rewards=Rewards(zeros, by_entry=False)))
