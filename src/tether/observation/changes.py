"""What counts as a change of an observed action.

An action other than the observed one is a change, with one exception: in an absorbing state (every available action
leads back to it for certain) where the observed action is not available, no action is a change. Nobody can be said to
have chosen otherwise there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._foundation.arrays import Flags, Ints
from tether.model.form import Form

__all__ = ["is_change", "nothing_to_change"]


def is_change(form: Form, states: Ints, pairs: Ints, observed: int) -> Flags:
    """Whether taking each of ``pairs``, in the state beside it, changes the observed action."""
    differs: Flags = form.pair_action[pairs] != observed
    return differs & ~nothing_to_change(form, states, observed)


def nothing_to_change(form: Form, states: Ints, observed: int) -> Flags:
    """Which of ``states`` are absorbing and do not have the observed action: no action is a change there."""
    begin, end = form.pair_start[states], form.pair_start[np.asarray(states, np.int64) + 1]
    found = np.zeros(states.size, dtype=bool)
    some = np.flatnonzero(end > begin)
    some = some[_stays(form, begin[some], states[some])]  # few have even a first action that leads back
    if some.size:
        lengths = end[some] - begin[some]
        first = np.cumsum(lengths) - lengths
        pairs = np.arange(int(lengths.sum())) + np.repeat(begin[some] - first, lengths)
        bound = _stays(form, pairs, np.repeat(states[some], lengths)) & (form.pair_action[pairs] != observed)
        found[some] = np.logical_and.reduceat(bound, first)
    return found


def _stays(form: Form, pairs: Ints, states: Ints) -> Any:
    """Whether each pair leads back to its state for certain."""
    start = form.row_start[pairs]
    return (form.row_start[pairs + 1] - start == 1) & (form.next_state[start] == states)
