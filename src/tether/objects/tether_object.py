"""`Tethered`: the tethered question, whose plans can explain themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tether._foundation.arrow import Tabular
from tether._foundation.kinds_of_records import Shown
from tether._foundation.markup import Displayed
from tether.model.properties import Property
from tether.objects.counterfactual_object import CounterfactualMDP
from tether.objects.plan_object import Plan
from tether.plan.best_values import Progress
from tether.plan.plan_record import PlanRecord
from tether.plan.tether_record import TetherRecord

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, eq=False, repr=False)
class Tethered(Shown, Tabular, TetherRecord, Displayed):
    """The question under one rule, one test of influence and one objective; made by `CounterfactualMDP.tether`.

    Attributes
    ----------
    cf : CounterfactualMDP
    rule : {"definition", "published", "printed", "assured"}
        What k means; see `tether.influence.rules`.
    influence
        When a pair counts as influenced; see `tether.influence.one_step`.
    objective : Property or None
        The property whose probability is asked for; None for the return.
    minimise : bool
        Whether the smallest value is the best.
    advisable : Advisable or None
        Which changes may be advised, and what they cost; None for all, at no price.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> tied = tether.counterfactual(case.mdp, case.path).tether(rule="definition", influence="support")
    >>> tied
    <Tethered: definition, support, 7 steps>
    >>> tied.enough_k(m=2), tied.choose_k(m=2, at_least=-30.0)
    (7, 6)
    >>> tied.plan(k=7, m=4)
    <Plan: k = 7, m = 4, definition, support: value -11.28, observed -38>
    """

    cf: CounterfactualMDP

    kind: ClassVar[type[PlanRecord]] = Plan
    _internal: ClassVar[frozenset[str]] = frozenset(
        {
            "asked",
            "key",
            "kind",
            "length",
            "nbytes",
            "planned",
            "signed",
            "thresholds_everywhere",
            "thresholds_for",
            "values",
            "weighed",
        }
    )

    def plan(
        self,
        k: int | None = None,
        m: int = 1,
        *,
        subject_to: tuple[Property, float] | None = None,
        progress: Progress | None = None,
    ) -> Plan:
        """The best policy within k that changes at most m actions; see `CounterfactualMDP.plan`.

        ``progress(done, T)`` is called after each time step of the planning; what it raises ends it.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.counterfactual(case.mdp, case.path).tether().plan()
        <Plan: k = 7, m = 1, definition, support: value -27.83, observed -38>
        """
        return Plan.over(super().plan(k, m, subject_to=subject_to, progress=progress))

    def to_arrow(self) -> pyarrow.Table:
        """The thresholds: one row for every t, state and action that s_0 can reach.

        Columns: t, state, action, whether the pair is influenced, and ``kappa``, the smallest k that allows it; empty
        if none does. Under the rule `assured` also the uninfluenced steps just passed.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.grid_world()
        >>> tied = tether.counterfactual(case.mdp, case.path).tether()
        >>> tied.to_arrow().slice(0, 1).to_pylist()
        [{'t': 0, 'state': 0, 'action': 'up', 'influenced': True, 'kappa': 6}]
        """
        from tether.plan.plan_tables import thresholds_table

        return thresholds_table(self)
