"""The value of the best policy for every k and m at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tether._foundation.arrays import Floats, Ints, read_only
from tether._foundation.arrow import Tabular
from tether._foundation.checks import whole_number
from tether._foundation.markup import heat
from tether._foundation.rounding import gain_of, rounding_of
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.errors import Problem, QueryError
from tether.influence.advisable import Advisable
from tether.influence.one_step import Influence
from tether.influence.rules import Rule
from tether.model.properties import Property, objective_name

if TYPE_CHECKING:
    import os

    import pyarrow
    from matplotlib.axes import Axes

    from tether.plan.saved_results import SavedSweep

_MEASURES = ("about_episode", "std")


def checked_measures(given: Iterable[str]) -> tuple[str, ...]:
    """The names of what is measured of each plan of a sweep; an error for an unknown one."""
    wanted = (given,) if isinstance(given, str) else tuple(given)
    unknown = [name for name in wanted if name not in _MEASURES]
    if unknown:
        message = f"measures= a sweep can measure {' and '.join(_MEASURES)}, not {unknown[0]!r}"
        raise QueryError(Problem(message, value=unknown[0]))
    return wanted


@dataclass(frozen=True, eq=False, repr=False)
class Sweep(Tabular):
    """The value of the best policy for every k and m.

    Attributes
    ----------
    ks, ms : array
        The k and m of the table; 1 … T + 1 and 0 … T by default.
    values : array (ks, ms)
        ``values[k - 1, m]`` by default.
    sizes : array (ks,)
        Nodes (t, s), t = 0 … T, that s_0 reaches through allowed pairs.
    distinct : array
        The values of k at which anything changes.
    observed_value : float
    objective : Property or None
        The property whose probabilities the values are; None for returns.
    minimise : bool
        Whether the best is the smallest.
    advisable : Advisable or None
        Which changes could be advised, and what they cost: values are less the expected price of the changes.
    about_episode, std : array (ks, ms) or None
        How much of each plan is about this episode (`Plan.about_episode`), and the standard deviation of its return;
        None if they were not asked for (``measures``).
    guaranteed : str
        What the values are guaranteed under, if they are those of `tether.robust`: ``assuming nothing``. Empty if not.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> table = tether.counterfactual(case.mdp, case.path).sweep()
    >>> table.values[3 - 1, 1].round(3), table.sizes
    (np.float64(-37.111), array([  8,  10,  14,  26,  58, 121, 171, 215]))
    """

    cf: CounterfactualRecord
    rule: Rule
    influence: Influence
    ks: Ints
    ms: Ints
    values: Floats
    sizes: Ints
    distinct: Ints
    observed_value: float
    objective: Property | None = None
    minimise: bool = False
    advisable: Advisable | None = None
    about_episode: Floats | None = None
    std: Floats | None = None
    guaranteed: str = ""

    @property
    def gains(self) -> Floats:
        """The gain of each k and m over the observed path: how much larger its value is; with ``minimise``, smaller.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.counterfactual(case.mdp, case.path).sweep(ks=[7], ms=[0, 1]).gains.round(2)
        array([[ 0.  , 10.17]])
        """
        return gain_of(self.values, self.observed_value, self.minimise)

    @property
    def rounding(self) -> float:
        """The largest gain that may be only rounding.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> table = tether.counterfactual(case.mdp, case.path).sweep()
        >>> table.rounding, table.ks[(table.gains > table.rounding).any(axis=1)].min()  # 1e-9 of the observed -38
        (3.8e-08, np.int64(3))
        """
        return rounding_of(self.observed_value)

    @property
    def is_complete(self) -> bool:
        """Whether every k from 1 to T + 1 and every m from 0 to T is here.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> cf = tether.counterfactual(case.mdp, case.path)
        >>> cf.sweep().is_complete, cf.sweep(ks=[7]).is_complete
        (True, False)
        """
        return np.unique(self.ks).size == np.unique(self.ms).size == self.cf.T + 1

    def value(self, k: int, m: int) -> float:
        """The value for one k and m of the table; k beyond T + 1 means T + 1, m beyond T means T."""
        T = self.cf.T
        row = np.flatnonzero(self.ks == min(whole_number("k", k, 1), T + 1))
        column = np.flatnonzero(self.ms == min(whole_number("m", m, 0), T))
        if not (row.size and column.size):
            raise QueryError(f"k = {k}, m = {m} was not asked for in this sweep")
        return float(self.values[row[0], column[0]])

    def part(self, ks: Ints, ms: Ints) -> Sweep:
        """The table for some of its k and m."""
        rows = [int(np.flatnonzero(self.ks == k)[0]) for k in ks]
        columns = [int(np.flatnonzero(self.ms == m)[0]) for m in ms]
        at = np.ix_(rows, columns)
        values, about, std = (
            None if one is None else read_only(one[at]) for one in (self.values, self.about_episode, self.std)
        )
        for array in (ks, ms):
            array.flags.writeable = False
        assert values is not None
        return replace(self, ks=ks, ms=ms, values=values, sizes=self.sizes[rows], about_episode=about, std=std)

    @cached_property
    def layered_sizes(self) -> Ints:
        """The paper's count: nodes of the pruned graph grown from every state that keeps an allowed pair at t = 0.

        It needs the whole model at every time, so it is computed when first used.
        """
        from tether.plan.tether_record import tether

        question = tether(self.cf, self.rule, self.influence, self.objective, advisable=self.advisable)
        found = question.thresholds_everywhere(int(self.ks.max(initial=1)))
        return found.sizes(self.ks)

    def lost(self, m: int) -> Floats:
        """What each k costs at ``m``: the gain without influence constraints minus the gain at k."""
        T = self.cf.T
        column = np.flatnonzero(self.ms == min(whole_number("m", m, 0), T))
        if not (column.size and np.any(self.ks == T + 1)):
            raise QueryError(f"the loss needs m = {m} and k = {T + 1} among those asked for in the sweep")
        gains = self.gains[:, column[0]]
        loss: Floats = gains[self.ks == T + 1][0] - gains
        return loss

    def without_model(self) -> SavedSweep:
        """The table with its settings, but without the model: what `save` writes; small to pickle.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.counterfactual(case.mdp, case.path).sweep(ks=[3]).without_model().settings["rule"]
        'definition'
        """
        from tether.plan.saved_results import sweep_without_model

        return sweep_without_model(self)

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write the table with its settings as one Arrow file; `tether.io.read_sweep` reads it.

        Examples
        --------
        >>> import tempfile, tether
        >>> case = tether.cases.epidemic()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tether.counterfactual(case.mdp, case.path).sweep().save(f"{folder}/sweep.arrow")
        """
        self.without_model().save(file)

    def to_arrow(self) -> pyarrow.Table:
        """The table in rows k, m, value, gain, size, as an Arrow table; ``.to_pandas()`` makes a dataframe of it.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> table = tether.counterfactual(case.mdp, case.path).sweep(ks=[3], ms=[0, 1])
        >>> table.to_arrow().select(["k", "m", "size"]).to_pylist()
        [{'k': 3, 'm': 0, 'size': 14}, {'k': 3, 'm': 1, 'size': 14}]
        """
        from tether.plan.plan_tables import sweep_table

        return sweep_table(self)

    def plot(self, m: int | None = None, ax: Axes | None = None) -> Axes:
        """Draw the table, shaded, or for one ``m`` the value against k; returns the axes.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> table = tether.counterfactual(case.mdp, case.path).sweep()
        >>> table.plot().get_ylabel(), table.plot(m=2).get_xlabel()
        ('length of the tether k (steps)', 'length of the tether k (steps)')
        """
        from tether.figures.heat import plot_heat
        from tether.figures.tradeoffs import plot_lost
        from tether.plan.limits import enough_k

        if m is None:
            return plot_heat(self, ax)
        if not isinstance(m, int | np.integer) or isinstance(m, bool):
            raise QueryError(f"m must be a whole number, or None for the whole table, not {m!r}")
        return plot_lost(self, int(m), ax, suggested=enough_k(self, int(m)))

    def __repr__(self) -> str:
        about = objective_name(self.objective, self.minimise)
        return (
            f"<Sweep: k = {self.ks[0]} … {self.ks[-1]}, m = {self.ms[0]} … {self.ms[-1]}, {self.rule}, "
            f"{self.influence}{', guaranteed ' if self.guaranteed else ''}{self.guaranteed}: "
            f"values {self.values.min():.4g} … {self.values.max():.4g}, "
            f"observed {self.observed_value:.4g}{', ' if about else ''}{about}>"
        )

    def __str__(self) -> str:
        decimals = 2 if self.objective is None else 4
        width = max(8, *(len(f"{value:.{decimals}f}") for value in self.values.reshape(-1))) + 1
        head = "k \\ m".rjust(6) + "".join(f"{m:>{width}}" for m in self.ms)
        rows = [
            f"{k:>6}" + "".join(f"{value:>{width}.{decimals}f}" for value in row)
            for k, row in zip(self.ks, self.values, strict=True)
        ]
        return "\n".join([head, *rows])

    def _repr_html_(self) -> str:
        from tether.plan.limits import enough_k

        suggested = enough_k(self, 1) if 1 in self.ms else None
        table = self.ks, self.ms, self.values, self.observed_value
        return heat(*table, suggested=suggested, minimise=self.minimise).html()
