"""A quantity over time, in numbers: its mean and spread, and what is possible."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tether._foundation.arrays import Floats
from tether._foundation.markup import html_table
from tether._foundation.words import with_spread


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Course:
    """A quantity over time: its mean and spread (standard deviation) at each t.

    Attributes
    ----------
    mean, std : array
    lowest, highest : array
        The smallest and the largest value that can happen at each t. Mean ± std may lie outside them.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> infected = tether.counterfactual(case.mdp, case.path).plan(k=3, m=1).evaluate().feature("I")
    >>> infected.mean.round(2), infected.std.round(2)
    (array([1.  , 2.  , 3.  , 6.  , 8.  , 9.  , 8.11, 8.21]), array([0.  , 0.  , 0.  , 0.  , 0.  , 0.  , 0.31, 0.41]))
    """

    mean: Floats
    std: Floats
    lowest: Floats
    highest: Floats

    def band(self) -> tuple[Floats, Floats]:
        """One standard deviation below and above the mean, cut off at what is possible.

        Examples
        --------
        >>> import tether
        >>> patient = tether.cases.sepsis()
        >>> returns = tether.counterfactual(patient.mdp, patient.path).plan(k=8, m=3).evaluate().returns
        >>> low, high = returns.band()
        >>> (returns.mean + returns.std)[4].round(1), high[4]  # four steps cannot bring more than 200
        (np.float64(288.1), np.float64(200.0))
        """
        return np.maximum(self.mean - self.std, self.lowest), np.minimum(self.mean + self.std, self.highest)

    def __repr__(self) -> str:
        first, last = (with_spread(self.mean[i], self.std[i]) for i in (0, -1))
        return f"<Course: {self.mean.size} times, {first} … {last}>"

    def _repr_html_(self) -> str:
        rows = [(t, f"{a:.6g}", f"{b:.4g}") for t, (a, b) in enumerate(zip(self.mean, self.std, strict=True))]
        return html_table(("t", "mean", "standard deviation"), rows)
