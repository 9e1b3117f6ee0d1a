"""The one tabular form of every model; `tether.model.finish` checks and completes it.

Pairs (state, action) are numbered state by state, actions ascending; each pair has a row of
possible next states, ascending, with their probabilities, all positive::

    state s      owns the pairs    pair_start[s]   … pair_start[s+1] - 1
    pair x       has the action    pair_action[x]
    pair x       owns the entries  row_start[x]    … row_start[x+1] - 1
    entry e      leads to          next_state[e]   with probability[e]

A pair that is absent is an action that is not available. Rewards belong to pairs, R(s,a), or to
entries, R(s,a,s'), and may carry a leading time axis; a reward that is the same for every entry
of each row is kept by pair.

Episodes end in absorbing states: a state is *absorbing* if every action that is available in it leads back to it for
certain. A state declared terminal (``terminal=``, the same for every way of building a model) has no rows of its own:
it gets every action, each leading back to it for a reward of 0. A state may also be absorbing by its own rows, with
fewer actions and with rewards. If the observed action is not available there, taking another one does not count as a
change: there was no other choice.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether.core.batch import Model

if TYPE_CHECKING:
    from tether.model.storage import SavedFile


TOLERANCE = 1e-6
"""How far from 1 the sum of a row may be: a smaller difference counts as rounding."""

ROUNDED = 0.01
"""How far from 1 the sum of a row may be so that numbers of few digits are the likely reason."""

LARGEST_REWARD = 1e150
"""The largest size of a reward: ten thousand can be added up, and squared for their spread, without overflow."""


@dataclass(frozen=True, slots=True, eq=False)
class Rewards:
    """Rewards of a model.

    Attributes
    ----------
    values : array
        ``(pairs,)`` or ``(entries,)``, with a leading time axis where they depend on time.
    by_entry : bool
        True for R(s,a,s').
    """

    values: Floats
    by_entry: bool

    @property
    def horizon(self) -> int | None:
        """The number of steps with rewards; None if rewards do not depend on time."""
        return int(self.values.shape[0]) if self.values.ndim == 2 else None

    def at(self, t: int) -> Floats:
        """The rewards of step ``t``."""
        layer: Floats = self.values[t] if self.values.ndim == 2 else self.values
        return layer


@dataclass(frozen=True, slots=True)
class Rounding:
    """How far the given rows were from summing to 1, before they were normalised."""

    rows: int
    largest: float
    tolerance: float


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Form:
    """The arrays of a model, read-only; see the head of this file."""

    pair_start: Ints
    pair_action: Ints
    row_start: Ints
    next_state: Ints
    probability: Floats
    rewards: Rewards
    rounding: Rounding
    terminal: Ints
    place: SavedFile | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        for array in (self.pair_start, self.pair_action, self.row_start, self.next_state, self.probability):
            array.flags.writeable = False
        self.rewards.values.flags.writeable = False
        self.terminal.flags.writeable = False

    def __reduce__(self) -> tuple[Any, ...]:
        # By the constructor, not field by field: a pickle does not keep arrays read-only.
        contents = Form, tuple(getattr(self, one.name) for one in fields(self) if one.init)
        return contents if self.place is None else self.place.reduce("form", contents)


def model_of(form: Form) -> Model:
    """The arrays of a model as the engine takes them."""
    return Model(form.pair_start, form.pair_action, form.row_start, form.next_state, form.probability)


def pair_states(pair_start: Ints, pairs: Ints | int) -> Any:
    """State of each of some pairs."""
    return np.searchsorted(pair_start, pairs, side="right") - 1


def all_pair_states(pair_start: Ints) -> Ints:
    """State of every pair.

    >>> all_pair_states(np.array([0, 2, 3])).tolist()
    [0, 0, 1]
    """
    return np.repeat(np.arange(pair_start.size - 1), np.diff(pair_start))
