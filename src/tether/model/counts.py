"""What a learned model was learned from: how often each of its transitions was seen, and what was left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.markup import Displayed
from tether._foundation.words import counted, percent

if TYPE_CHECKING:
    from tether.model.storage import SavedFile


@dataclass(frozen=True, slots=True)
class Pooling(Displayed):
    """How far the rows of a state's actions were drawn together; `tether.model.pooling` says how it is found.

    Attributes
    ----------
    rho : float
        The share of the variance of values within states that is between actions. 0: no effect can be shown.
    share : float
        How much of a difference between an action and usual practice is taken as an effect, on average over steps.
    pairs : int
        How many pairs of state and action were compared: those seen at least twice, where others were seen too.
    values : {"return", "ends", "rows"}
        What effects are measured in: the return; the chances of each end, in a log without rewards; single outcomes.
    likely : tuple of float
        Values of ρ that the log leaves possible, each equally likely. Intervals come from these, so that an effect that
        cannot be shown is not taken for one that is surely 0.
    reward_rho, reward_sd : float
        The same ratio for mean rewards, where rewards of one transition vary, and the spread of these; else 0.

    Examples
    --------
    >>> import tether
    >>> seen = [("treat", "well")] * 8 + [("treat", "dead")] * 2 + [("wait", "well")] * 2 + [("wait", "dead")] * 3
    >>> mdp = tether.learn([tether.Path(["sick", after], [did]) for did, after in seen])
    >>> mdp.learned.pooling.kappa
    inf
    >>> print(mdp.learned.pooling)
    No effect of any action can be shown: 2 pairs of state and action differ no more than by chance.
    """

    rho: float
    share: float
    pairs: int
    values: str
    likely: tuple[float, ...] = (0.0,)
    reward_rho: float = 0.0
    reward_sd: float = 0.0

    @property
    def kappa(self) -> float:
        """How many sightings of the state's pooled row are added to each row: 1/ρ - 1; infinite if ρ is 0."""
        return 1.0 / self.rho - 1.0 if self.rho > 0 else float("inf")

    @property
    def sentence(self) -> str:
        """How much of the differences between actions the log can show."""
        if self.pairs == 0:
            return (
                "No effect of any action can be shown: in no state were several actions seen often enough to compare."
            )
        if self.rho == 0:
            which = "one pair of state and action differs"
            if self.pairs > 1:
                which = f"{self.pairs:,} pairs of state and action differ"
            return f"No effect of any action can be shown: {which} no more than by chance."
        kappa = f"{self.kappa:,.0f}" if self.kappa >= 10 else f"{self.kappa:.2g}"
        return (
            f"{percent(self.share)} of the differences between actions count as effects, the rest as chance: each row "
            f"counts {kappa} more sightings of the common row of its state's actions (ρ = {self.rho:.2g})."
        )

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True, slots=True)
class Reading:
    """How the log of a learned model was read, so that the same log can be read again without saying it again.

    Attributes
    ----------
    columns : dict
        The names in the log of columns that have other names there; several, joined by commas, for a state.
    time, step : str
        The column of times, and how far apart they are; "" if not given.
    decimal : str
        The decimal sign.
    encoding : str
        The encoding of a text file; "" for UTF-8.
    day_first : bool
        Whether dates are written dd/mm/yyyy.
    fold_case : bool
        Whether names that differ only in case, spaces or accents are one name.
    """

    columns: dict[str, str] = field(default_factory=dict)
    time: str = ""
    step: str = ""
    decimal: str = "."
    encoding: str = ""
    day_first: bool = False
    fold_case: bool = False

    @classmethod
    def of(cls, columns: Mapping[str, Any] | None, time: str | None, step: Any, **written: Any) -> Reading:
        """The record of how a log is read, from what `tether.io.read_episodes` is given."""
        named = {
            ours: theirs if isinstance(theirs, str) else ",".join(theirs) for ours, theirs in (columns or {}).items()
        }
        apart = f"{step.total_seconds():g}s" if isinstance(step, timedelta) else "" if step is None else str(step)
        return cls(named, time or "", apart, **written)

    @property
    def options(self) -> dict[str, Any]:
        """What was given, as `tether.io.read_episodes` takes it."""
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in given.items() if value != _PLAIN.get(name, "")}


_PLAIN: dict[str, Any] = {"columns": {}, "decimal": ".", "day_first": False, "fold_case": False}
"""What `Reading` has where nothing was given, other than an empty text."""


def _nothing() -> Ints:
    return np.empty((0, 3), dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Counts(Displayed):
    """Counts behind a learned model, in the order of its entries (see `tether.model.form`).

    Attributes
    ----------
    transitions : array (entries,)
        How often each transition was seen; 0 for one that only the prior makes possible, and in terminal states.
    prior : float
        The pseudo-count that was added to each; 0 for maximum likelihood, and for pooled rows.
    episodes, steps : int
        How many episodes and steps there were.
    unrecorded : int
        How many of these steps are the last of an episode, without a recorded outcome.
    minimum : int
        How often a pair must have been seen to be advised. It is available in the model however often it was seen.
    dropped : array (pairs, 3)
        Pairs that are not available, because no outcome was recorded: state, action, 0.
    end : int
        Index of the state that pairs lead to whose outcome was never recorded; -1 if there is none.
    empty_rewards : {"", "last", "zero", "mean"}
        What empty rewards count as: 0, because only the last steps of episodes have rewards ("last"); 0, because that
        was asked for ("zero"); the mean of their transition ("mean"). "" if no reward is empty.
    empty : int
        How many steps have an empty reward.
    unplaced : int
        Rewards that belong to no transition, because the outcome of their step was not recorded.
    longest : int
        How many steps the longest episode has.
    pooling : Pooling or None
        How far the rows of a state's actions were pooled; None for a flat prior.
    reading : Reading or None
        How the log was read, if it was a file.
    skipped : int
        How many broken episodes, and broken rows of no episode, were left out.
    left_out : int
        How many episodes were taken out again, because they are asked about (`tether.learning.folds.without`).
    cut : tuple of int
        States that look like an end, by what was seen, but only because records stop there: of a log that names the
        outcomes of its episodes, and these are none.

    Examples
    --------
    >>> import tether
    >>> path = tether.Path(["sick", "sick", "well"], ["wait", "wait"])
    >>> counts = tether.learn(tether.Episodes.from_paths([path, path])).counts
    >>> counts
    <Counts: 4 transitions of 2 episodes, pooled>
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
    longest: int = 1
    pooling: Pooling | None = None
    reading: Reading | None = None
    skipped: int = 0
    left_out: int = 0
    cut: tuple[int, ...] = ()
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
        """Parameters of the Dirichlet posterior of each row, entry by entry, under a flat prior."""
        return self.transitions.astype(np.float64) + self.prior

    def __repr__(self) -> str:
        text = counted(int(self.transitions.sum()), "transition")
        if self.episodes:
            text += f" of {counted(self.episodes, 'episode')}"
        text += f", prior {self.prior:g}" if self.pooling is None else ", pooled"
        if self.minimum > 1:
            text += f"; pairs seen fewer than {self.minimum:,} times are not advised"
        return f"<Counts: {text}>"
