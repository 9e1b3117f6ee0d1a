"""Copies of a model side by side, as one model.

State s of the i-th copy is i·S + s, its pair x is i·P + x, and its entry e is i·E + e. No transition leads from one
copy to another. So a question about the whole answers the same question for all copies at once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether.model.form import Form, Rewards
from tether.model.names import make_names

if TYPE_CHECKING:
    from tether.model.model_record import ModelRecord

_Kind = TypeVar("_Kind", bound="ModelRecord")


def copied_model(mdp: _Kind, probability: Floats) -> _Kind:
    """Copies of a model that differ in their probabilities: ``probability`` has one row per copy.

    Its states are named by numbers, and have no labels. A single copy is the model itself, with other probabilities.
    """
    n = len(probability)
    if n == 1:
        return replace(mdp, form=replace(mdp.form, probability=probability[0]), counts=None)
    final = None if mdp.final_reward is None else np.tile(mdp.final_reward, n)
    form = copied_form(mdp.form, n, probability.reshape(-1))
    return type(mdp)(make_names(None, n * mdp.n_states, "state"), mdp.actions, form, mdp.horizon, mdp.discount, final)


def copied_form(form: Form, n: int, probability: Floats) -> Form:
    """``n`` copies of the arrays of a model, with these probabilities."""
    n_states, values = form.pair_start.size - 1, form.rewards.values
    return Form(
        shifted_starts(form.pair_start, n),
        np.tile(form.pair_action, n),
        shifted_starts(form.row_start, n),
        shifted(form.next_state, n, n_states),
        probability,
        Rewards(np.concatenate([values] * n, axis=-1), form.rewards.by_entry),
        form.rounding,
        shifted(form.terminal, n, n_states),
    )


def shifted(index: Ints, n: int, size: int) -> Ints:
    """Indices of the first copy in each of ``n``, copy after copy; ``size`` is how many there are per copy."""
    all_copies = np.arange(n, dtype=np.int64)[:, None] * size + index
    return all_copies.astype(index.dtype).reshape(-1)


def shifted_starts(start: Ints, n: int) -> Ints:
    """Starts of the spans of ``n`` copies, copy after copy, then the end of the last span.

    ``start`` has the starts of the spans of one copy, and their end.
    """
    return np.append(shifted(start[:-1], n, int(start[-1])), np.array([n * int(start[-1])], start.dtype))
