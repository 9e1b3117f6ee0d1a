"""What a learned model was learned from: how often each of its transitions was seen, and what was left out."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.words import counted

if TYPE_CHECKING:
    from tether.model.storage import SavedFile

__all__ = ["Counts"]


def _nothing() -> Ints:
    return np.empty((0, 3), dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Counts:
    """Counts behind a learned model, in the order of its entries (see `tether.model.form`).

    Attributes
    ----------
    transitions : array (entries,)
        How often each transition was seen; 0 for one that only the prior makes possible, and in terminal states.
    prior : float
        The pseudo-count that was added to each; 0 for maximum likelihood.
    episodes, steps : int
        How many episodes and steps there were.
    unrecorded : int
        How many of these steps are the last of an episode, without a recorded outcome.
    minimum : int
        How often a pair had to be seen.
    dropped : array (pairs, 3)
        Pairs seen less often, and so not available: state, action and how often it was seen.
    end : int
        Index of the state that pairs lead to whose outcome was never recorded; -1 if there is none.
    empty_rewards : {"", "last", "zero", "mean"}
        What empty rewards count as: 0, because only the last steps of episodes have rewards ("last"); 0, because that
        was asked for ("zero"); the mean of their transition ("mean"). "" if no reward is empty.
    empty : int
        How many steps have an empty reward.
    unplaced : int
        Rewards that belong to no transition, because the outcome of their step was not recorded.

    Examples
    --------
    >>> import tether
    >>> path = tether.Path(["sick", "sick", "well"], ["wait", "wait"])
    >>> counts = tether.learn(tether.Episodes.from_paths([path, path])).counts
    >>> counts
    <Counts: 4 transitions of 2 episodes, prior 0>
    >>> counts.transitions
    array([2, 2, 0])
    """

    transitions: Ints
    prior: float
    episodes: int = 0
    steps: int = 0
    unrecorded: int = 0
    minimum: int = 1
    dropped: Ints = field(default_factory=_nothing)
    end: int = -1
    empty_rewards: Literal["", "last", "zero", "mean"] = ""
    empty: int = 0
    unplaced: int = 0
    place: SavedFile | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.transitions.flags.writeable = False
        self.dropped.flags.writeable = False

    def __reduce__(self) -> tuple[Any, ...]:
        # By the constructor, as in `Form`: a pickle does not keep arrays read-only.
        contents = Counts, tuple(getattr(self, one.name) for one in fields(self) if one.init)
        return contents if self.place is None else self.place.reduce("counts", contents)

    @property
    def concentration(self) -> Floats:
        """Parameters of the Dirichlet posterior of each row, entry by entry."""
        return self.transitions.astype(np.float64) + self.prior

    def __repr__(self) -> str:
        text = counted(int(self.transitions.sum()), "transition")
        if self.episodes:
            text += f" of {counted(self.episodes, 'episode')}"
        text += f", prior {self.prior:g}"
        if self.dropped.size:
            text += f"; {counted(len(self.dropped), 'pair')} seen fewer than {self.minimum:,} times not available"
        return f"<Counts: {text}>"
