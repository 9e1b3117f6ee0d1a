"""What figures read of the results that draw themselves (``result.plot()``), which later folders define.

Each class lists the attributes of one result, and no more; type checkers compare them with the result itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tether._foundation.arrays import Floats, Ints
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.model.properties import Property


class DrawnSweep(Protocol):
    """A `tether.records.Sweep`."""

    @property
    def ks(self) -> Ints: ...
    @property
    def ms(self) -> Ints: ...
    @property
    def values(self) -> Floats: ...
    @property
    def observed_value(self) -> float: ...
    @property
    def rounding(self) -> float: ...
    @property
    def objective(self) -> Property | None: ...
    @property
    def minimise(self) -> bool: ...
    def value(self, k: int, m: int) -> float: ...
    def lost(self, m: int) -> Floats: ...


class DrawnFront(Protocol):
    """A `tether.records.Front`; its points have a plan."""

    @property
    def points(self) -> Sequence[Any]: ...
    @property
    def values(self) -> Floats: ...
    @property
    def measures(self) -> Floats: ...
    @property
    def against(self) -> str | Property: ...


class DrawnShares(Protocol):
    """A `tether.records.Shares`; its steps have t, share and alone."""

    @property
    def steps(self) -> Sequence[Any]: ...


class DrawnDecisions(Protocol):
    """A `tether.records.Decisions`; its rows have t, action, is_observed, and the numbers that may be drawn."""

    @property
    def cf(self) -> CounterfactualRecord: ...
    @property
    def rows(self) -> Sequence[Any]: ...
    @property
    def m(self) -> int: ...
    @property
    def outcome(self) -> str | None: ...
    @property
    def observed_value(self) -> float: ...


class DrawnOutcomes(Protocol):
    """A `tether.records.Outcomes`."""

    @property
    def T(self) -> int: ...
    @property
    def classes(self) -> Sequence[str]: ...
    @property
    def observed(self) -> Floats: ...
    @property
    def plan(self) -> Floats: ...
    @property
    def optimal(self) -> Floats: ...


class DrawnReview(Protocol):
    """A `tether.records.Review`; its steps have t, action, best, mistake, luck and weight."""

    @property
    def objective(self) -> Property | None: ...
    @property
    def minimise(self) -> bool: ...
    @property
    def expected(self) -> float: ...
    @property
    def observed(self) -> float: ...
    @property
    def steps(self) -> Sequence[Any]: ...
    def headline(self) -> str: ...
