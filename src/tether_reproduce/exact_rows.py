"""Exact counterfactual rows of a whole model, given one observed transition; and the types of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import tether
from tether.conditioning.edited_rows import ObservedStep, Rows
from tether.model.model_record import ModelRecord

__all__ = ["Floats", "Ints", "Rows", "observed_transitions", "rows_given"]

Floats = NDArray[np.float64]
Ints = NDArray[Any]


def rows_given(mdp: ModelRecord, s: int, a: int, outcome: int, pairs: Ints | None = None) -> Rows:
    """The rows of ``pairs`` (indices, ascending; all by default) under Gumbel-max, after (s, a) led to ``outcome``."""
    step = ObservedStep.of(mdp.form, 0, mdp.find_pair(s, a), outcome)
    return tether.GumbelMax().infer(step).replay(mdp.form, np.arange(mdp.n_pairs) if pairs is None else pairs)


def observed_transitions(cf: tether.records.CounterfactualMDP) -> list[tuple[int, int, int]]:
    """The observed transitions (s, a, s'), step by step, as indices."""
    states = cf.observation.states.tolist()
    return list(zip(states[:-1], cf.observation.actions.tolist(), states[1:], strict=True))
