"""The plain model of a property: episodes rest where it is decided, and only ending where it holds earns anything.

`tether.plan.objective` says why this gives the probability of the property.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints
from tether._kernels.scratch import scratch_array
from tether.conditioning.edited_rows import spans
from tether.model.form import Form, Rewards, pair_states
from tether.model.model_record import ModelRecord
from tether.model.properties import Decided, Property


def asked_model(mdp: ModelRecord, objective: Property | None) -> tuple[ModelRecord, Decided | None]:
    """The plain model in which the values are returns, and which states decide the property (None without one)."""
    if objective is None:
        return mdp, None
    decided = objective.on(mdp)
    return resting_model(mdp, decided), decided


def resting_model(mdp: ModelRecord, decided: Decided) -> ModelRecord:
    """The model in which every action of a state that decides leads back to it, and only the end earns anything."""
    form = mdp.form
    start, kept, certain = entries_at_rest(form, decided.ended)
    next_state, probability = form.next_state[kept], form.probability[kept]
    next_state[certain] = pair_states(form.pair_start, np.searchsorted(start, certain))
    probability[certain] = 1.0
    nothing: Floats = scratch_array(mdp.n_pairs, np.float64)
    rests = Form(
        form.pair_start,
        form.pair_action,
        start,
        next_state,
        probability,
        Rewards(nothing, by_entry=False),
        form.rounding,
        form.terminal,
    )
    return replace(mdp, form=rests, discount=1.0, final_reward=decided.holds.astype(np.float64))


def counts_at_rest(form: Form, transitions: Ints, decided: Decided) -> Ints:
    """How often each entry of the model of `asked_model` was seen: nothing is counted where a property is decided."""
    _, kept, certain = entries_at_rest(form, decided.ended)
    left = transitions[kept]
    left[certain] = 0
    return left


def entries_at_rest(form: Form, ended: Flags) -> tuple[Ints, Flags, Ints]:
    """Where rows start if those of some states have one entry; which entries are kept; where the new entries are."""
    states = np.flatnonzero(ended)
    _, resting = spans(form.pair_start[states], form.pair_start[states + 1])
    lengths = np.diff(form.row_start)
    kept = np.ones(form.next_state.size, dtype=bool)
    _, left_out = spans(form.row_start[resting] + 1, form.row_start[resting + 1])
    kept[left_out] = False
    lengths[resting] = 1
    start = np.concatenate((np.zeros(1, form.row_start.dtype), np.cumsum(lengths, dtype=form.row_start.dtype)))
    return start, kept, start[resting]
