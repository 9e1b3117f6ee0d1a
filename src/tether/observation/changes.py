"""What counts as a change of an observed action.

An action other than the observed one is a change, with one exception: in an absorbing state (every available action
leads back to it for certain) where the observed action is not available, no action is a change. There was no other
choice.

This is what m counts. Sentences and tables about a policy leave out more: in an absorbing state where every action
earns the same, nothing is left to do, and no action changes anything. The best plans take the observed action there;
other policies need not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._foundation.arrays import Flags, Ints, spans, starts
from tether.model.form import Form

_NO_ACTION = -1
"""The index of an action that no state has."""


def is_change(form: Form, states: Ints, pairs: Ints, observed: int) -> Flags:
    """Whether taking each of ``pairs``, in the state beside it, changes the observed action."""
    differs: Flags = form.pair_action[pairs] != observed
    return differs & ~nothing_to_change(form, states, observed)


def changes_something(form: Form, t: int, states: Ints, pairs: Ints, observed: int) -> Flags:
    """Whether taking each of ``pairs`` changes the observed action, and something is left to do at step t."""
    differs = is_change(form, states, pairs, observed)
    some = np.flatnonzero(differs)
    differs[some] = ~nothing_left(form, t, states[some])
    return differs


def nothing_left(form: Form, t: int, states: Ints) -> Flags:
    """Which of ``states`` are absorbing, and earn the same at step t whatever is done."""
    found = absorbing(form, states)
    some = np.flatnonzero(found)
    if some.size:
        pairs, first = _pairs_of(form, states[some])
        rewards = form.rewards.at(t)
        earned = rewards[form.row_start[pairs]] if form.rewards.by_entry else rewards[pairs]
        found[some] = np.minimum.reduceat(earned, first) == np.maximum.reduceat(earned, first)
    return found


def done_then(form: Form, times: Ints, states: Ints, actions: Ints) -> Ints:
    """The observed action of some observed steps; -1 where nothing was left to do: what is recorded there is filler."""
    found = np.array(actions, np.int64)
    for t in np.unique(times).tolist():
        some = np.flatnonzero(times == t)
        found[some[nothing_left(form, t, np.asarray(states, np.int64)[some])]] = _NO_ACTION
    return found


def absorbing(form: Form, states: Ints) -> Flags:
    """Which of ``states`` are absorbing: every action leads back, for certain. A state without actions is not."""
    return nothing_to_change(form, states, _NO_ACTION)


def nothing_to_change(form: Form, states: Ints, observed: int) -> Flags:
    """Which of ``states`` are absorbing and do not have the observed action: no action is a change there."""
    begin, end = form.pair_start[states], form.pair_start[np.asarray(states, np.int64) + 1]
    found = np.zeros(states.size, dtype=bool)
    some = np.flatnonzero(end > begin)
    some = some[_stays(form, begin[some], states[some])]  # usually few states have a first action that leads back
    if some.size:
        pairs, first = _pairs_of(form, states[some])
        bound = _stays(form, pairs, np.repeat(states[some], end[some] - begin[some])) & (
            form.pair_action[pairs] != observed
        )
        found[some] = np.logical_and.reduceat(bound, first)
    return found


def _pairs_of(form: Form, states: Ints) -> tuple[Ints, Ints]:
    """The pairs of some states one after the other, and where those of each state begin among them."""
    begin, end = form.pair_start[states], form.pair_start[np.asarray(states, np.int64) + 1]
    return spans(begin, end)[1], starts(end - begin)[:-1]


def pairs_with(form: Form, states: Ints, action: int) -> Ints:
    """The pair of each of some states and one action; -1 where it is not available."""
    pairs, first = _pairs_of(form, states)
    owner = np.repeat(np.arange(states.size), np.diff(first, append=pairs.size))
    here = form.pair_action[pairs] == action
    found = np.full(states.size, -1, dtype=np.int64)
    found[owner[here]] = pairs[here]
    return found


def _stays(form: Form, pairs: Ints, states: Ints) -> Any:
    """Whether each pair leads back to its state for certain."""
    start = form.row_start[pairs]
    return (form.row_start[pairs + 1] - start == 1) & (form.next_state[start] == states)
