"""Limits: how long a tether is needed, and what a longer one, or more changes, would add."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._foundation.arrays import Ints
from tether._foundation.checks import whole_number
from tether._foundation.rounding import gain_of, rounding_of
from tether._foundation.words import number
from tether.errors import QueryError
from tether.plan.plan_record import PlanRecord
from tether.plan.sweep import Sweep

SHARE = 0.9
"""A tether is long enough if it gives this share of what the longest one gives."""


ABOUT = 0.1
"""A plan is about its episode if at least this much of it is (`tether.core.about`)."""


def enough_k(table: Sweep, m: int, share: float = SHARE) -> int | None:
    """The shortest tether in a sweep that gives at least ``share`` of what its longest one gives, with m changes.

    The longest tether is k = T: with k = T + 1 there is no tether. None if no tether in the table gains anything.

    Examples
    --------
    >>> import tether
    >>> from tether.plan.limits import enough_k
    >>> case = tether.cases.epidemic()
    >>> table = tether.counterfactual(case.mdp, case.path).sweep()
    >>> [enough_k(table, m) for m in range(4)]
    [None, 7, 7, 7]
    """
    number = isinstance(share, int | float | np.integer | np.floating) and not isinstance(share, bool)
    if not number or not 0 < share <= 1:
        raise QueryError(f"share must be a number above 0 and at most 1, not {share!r}")
    gained = np.where(table.ks <= table.cf.T, table.gains[:, _column(table, m)], -np.inf)
    return int(shortest(table.ks, gained, table.rounding, share)) or None


def about_k(table: Sweep, m: int, about: float = ABOUT) -> int | None:
    """The tether with the largest gain of those whose plan is about the episode; the shortest of equals.

    The sweep must have measured it (``measures=["about_episode"]``). The longest tether is k = T: with k = T + 1 there
    is none. None if no plan that gains something is about the episode.

    Examples
    --------
    >>> import tether
    >>> from tether.plan.limits import about_k
    >>> grid = tether.cases.grid_world()
    >>> table = tether.counterfactual(grid.mdp, grid.path).sweep(measures=["about_episode"])
    >>> about_k(table, 1), about_k(table, 1, about=0.001)
    (None, 6)
    """
    if table.about_episode is None:
        raise QueryError('how much of each plan is about the episode was not asked for: measures=["about_episode"]')
    column = _column(table, m)
    fits = (table.about_episode[:, column] >= about) & (table.ks <= table.cf.T)
    return int(shortest(table.ks, np.where(fits, table.gains[:, column], -np.inf), table.rounding)) or None


def shortest(ks: Ints, gains: Any, rounding: Any, share: float = 1.0) -> Any:
    """The least of ``ks`` with at least ``share`` of the largest gain, by the last axis; 0 where nothing is gained."""
    most = np.max(gains, axis=-1, initial=0.0)
    enough, large = gains >= np.expand_dims(share * most - rounding, -1), np.iinfo(np.int64).max
    return np.where(most <= rounding, 0, np.min(np.where(enough, ks, large), axis=-1, initial=large))


def _column(table: Sweep, m: int) -> int:
    m = min(whole_number("m", m, 0), table.cf.T)
    column = np.flatnonzero(table.ms == m)
    if not column.size:
        raise QueryError(f"m = {m} was not asked for in this sweep")
    return int(column[0])


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit (k, m), the best value within it, and how much more that is than within the plan's own limits."""

    k: int
    m: int
    value: float
    added: float


@dataclass(frozen=True, slots=True)
class Beyond:
    """What larger limits than a plan's would give.

    Attributes
    ----------
    longer : Limit or None
        The next k at which m changes gain more; None if no k does.
    free : Limit
        The same m without a tether, k = T + 1.
    more : Limit or None
        The next m that gains more within the same k; None if none does.
    most : Limit
        The smallest m that gains all that can be gained within the same k.
    minimise : bool
        Whether less is a gain.
    without_limit : bool
        Whether the plan keeps to a limit (``subject_to``), and these values do not.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> beyond = tether.counterfactual(case.mdp, case.path).plan(k=6, m=2).explain().beyond
    >>> beyond.longer.k, round(beyond.longer.added, 2), beyond.most.m
    (7, 6.49, 4)
    >>> for sentence in beyond.sentences():
    ...     print(sentence)
    A longer tether would add 6.495 with k = 7, and 25.08 without any (k = 8).
    More changes would add 2.21 with m = 3, and 3.177 at most (m = 4).
    """

    longer: Limit | None
    free: Limit
    more: Limit | None
    most: Limit
    minimise: bool = False
    without_limit: bool = False

    @property
    def _verb(self) -> str:
        return "save" if self.minimise else "add"

    def sentences(self) -> list[str]:
        """What a larger k and a larger m would add, in a sentence each."""
        sentences = [self._tether(), self._changes()]
        if self.without_limit:
            return [f"Without the limit on the chance: {one[0].lower()}{one[1:]}" for one in sentences]
        return sentences

    def _tether(self) -> str:
        if self.longer is None:
            return f"A longer tether (a larger k) would {self._verb} nothing."
        if self.longer.k == self.free.k:
            return f"Only without a tether (k = {self.free.k}) could more be gained: {number(self.free.added)} more."
        text = f"A longer tether would {self._verb} {number(self.longer.added)} with k = {self.longer.k}"
        if number(self.free.added) == number(self.longer.added):
            return f"{text}, and no more beyond."
        return f"{text}, and {number(self.free.added)} without any (k = {self.free.k})."

    def _changes(self) -> str:
        if self.more is None:
            return f"More changes (a larger m) would {self._verb} nothing."
        text = f"More changes would {self._verb} {number(self.more.added)} with m = {self.more.m}"
        if self.more.m == self.most.m:
            return f"{text}, and no more beyond."
        return f"{text}, and {number(self.most.added)} at most (m = {self.most.m})."


def beyond(plan: PlanRecord) -> Beyond:
    """What larger limits than a plan's would give; see `Explanation.beyond`."""
    # Two sweeps, one row and one column: the whole table of a long path in a large model would fill the memory.
    tethers = plan.sweep(ms=[plan.m])
    changes = plan.sweep(ks=[plan.k])
    sign = -1.0 if plan.minimise else 1.0
    by_k, by_m = sign * tethers.values[:, 0], sign * changes.values[0]
    best = by_m[plan.m]  # the plan's own value, unless it gave up value for influence
    longer = np.flatnonzero(_more(by_k, best) & (tethers.ks > plan.k))
    more = np.flatnonzero(_more(by_m, best) & (changes.ms > plan.m))
    all_gained = max(int(np.flatnonzero(~_more(by_m[-1], by_m))[0]), plan.m)

    def limit(k: int, m: int, value: float) -> Limit:
        return Limit(k, m, sign * float(value), gain_of(float(value), float(best)))

    return Beyond(
        limit(int(tethers.ks[longer[0]]), plan.m, by_k[longer[0]]) if longer.size else None,
        limit(plan.T + 1, plan.m, by_k[-1]),
        limit(plan.k, int(more[0]), by_m[more[0]]) if more.size else None,
        limit(plan.k, all_gained, by_m[all_gained]),
        plan.minimise,
        plan.constraint is not None,
    )


def _more(values: Any, than: Any) -> Any:
    """Whether values are larger by more than rounding."""
    with np.errstate(invalid="ignore"):  # -∞ less -∞: nothing is allowed in either
        return values - than > rounding_of(than)
