"""Three more mechanisms in closed form: other assumptions on how the luck of two pairs is related.

No data can show which mechanism is right: each of them agrees with the model and with the episode. With p the observed
row, o its outcome and q the row in question, the counterfactual row x is

- `Independent`: x = q, the luck of one pair says nothing about another;
- `Comonotone`: outcomes are put in an order and one uniform number decides for every pair; x_j is the overlap of
  [F_p(o-), F_p(o)] with [F_q(j-), F_q(j)], divided by p_o;
- `Maximal`: the same outcome as often as possible; x_o = min(1, q_o / p_o), the rest is proportional to (q - p)⁺.

The observed pair itself leads to o for certain, under each of them. The last two change rows of disjoint support as
well. Each is consistent: Σ_o p_o · x^(o) = q.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from tether._foundation.arrays import Ints
from tether.conditioning.closed_form import ClosedForm
from tether.conditioning.edited_rows import ObservedStep
from tether.conditioning.mechanism import ExactMechanism, NoisePosterior
from tether.core.batch import COMONOTONE, INDEPENDENT, MAXIMAL
from tether.errors import QueryError
from tether.model.model_record import ModelRecord


@dataclass(frozen=True, slots=True)
class Independent(ExactMechanism):
    """The luck of one pair says nothing about another: only the observed pair itself is known to repeat its outcome.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> cf = tether.counterfactual(grid.mdp, grid.path, mechanism="independent")
    >>> cf.row(2, 2, "left")  # as the model says; the robot went down
    ((1, 2, 3, 6), array([0.9       , 0.03333333, 0.03333333, 0.03333333]))
    >>> cf.row(2, 2, "down")
    ((6,), array([1.]))
    """

    name: ClassVar[str] = "independent"

    def infer(self, step: ObservedStep) -> NoisePosterior:
        """Nothing is inferred for other pairs."""
        return ClosedForm(step, INDEPENDENT)


@dataclass(frozen=True, slots=True)
class Maximal(ExactMechanism):
    """The maximal coupling: the observed outcome happens again as often as the two rows allow.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> cf = tether.counterfactual(grid.mdp, grid.path, mechanism="maximal")
    >>> cf.row(2, 2, "left")  # the robot fell into the pit, 6: x = 0.033 / 0.9, and the rest to the left
    ((1, 6), array([0.96296296, 0.03703704]))
    """

    name: ClassVar[str] = "maximal"

    def infer(self, step: ObservedStep) -> NoisePosterior:
        """Keep the observed row and outcome."""
        return ClosedForm(step, MAXIMAL)


@dataclass(frozen=True, slots=True)
class Comonotone(ExactMechanism):
    """Outcomes in one order, and one uniform number per step for every pair: good luck is good luck for every action.

    Parameters
    ----------
    order : list of states, function, or None
        The order of outcomes: all states of the model, lowest first; or a function of a state's name, to sort the
        states by its value (states of equal value in the model's order). None: the model's own order.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> cf = tether.counterfactual(grid.mdp, grid.path, mechanism="comonotone", order=lambda cell: -cell)
    >>> cf.row(2, 2, "left")  # the number was among the lowest 0.9; going left these lead to 6, 3, 2 and then 1
    ((1, 2, 3, 6), array([0.88888889, 0.03703704, 0.03703704, 0.03703704]))
    """

    name: ClassVar[str] = "comonotone"

    order: Iterable[Any] | Callable[[Any], Any] | None = None
    rank: Ints | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.order is not None and not callable(self.order):
            if isinstance(self.order, str) or not isinstance(self.order, Iterable):
                raise QueryError(f"order must be a list of states or a function of a state, not {self.order!r}")
            object.__setattr__(self, "order", tuple(self.order))

    def prepare(self, mdp: ModelRecord) -> Comonotone:
        """A copy of the mechanism that holds the rank of each state of ``mdp`` in its order."""
        if self.order is None:
            return self
        if callable(self.order):
            values = [self.order(mdp.states[s]) for s in range(mdp.n_states)]
            try:
                places = sorted(range(mdp.n_states), key=values.__getitem__)
            except TypeError as error:
                raise QueryError(f"order: the function's values cannot be sorted: {error}") from None
        else:
            places = [mdp.state_index(state) for state in self.order]
            if len(places) != mdp.n_states or len(set(places)) != mdp.n_states:
                entries = f"{len(places):,} entries, {len(set(places)):,} of them different"
                raise QueryError(f"order must name each of the model's {mdp.n_states:,} states once; it has {entries}")
        rank = np.empty(mdp.n_states, np.int64)
        rank[places] = np.arange(mdp.n_states)
        return replace(self, rank=rank)

    def infer(self, step: ObservedStep) -> NoisePosterior:
        """Which uniform numbers lead from the observed pair to its outcome."""
        if self.order is not None and self.rank is None:
            raise QueryError("this mechanism has an order of states; prepare it for a model first: prepare(mdp)")
        return ClosedForm(step, COMONOTONE, self.rank)
