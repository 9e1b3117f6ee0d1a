"""How an episode ends, and when: as observed, under a plan, and under the policy that is best for anyone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from tether._foundation.arrays import Floats
from tether._foundation.arrow import Tabular
from tether._foundation.markup import Displayed, html_table
from tether._foundation.words import percent
from tether.evaluation.evaluate import Evaluation
from tether.evaluation.outcomes import UNDER_WAY, absorbing, outcome_classes
from tether.figures.outcomes_figure import WHO, plot_outcomes

if TYPE_CHECKING:
    import pyarrow
    from matplotlib.axes import Axes

    from tether.conditioning.counterfactual_record import CounterfactualRecord

_CLASSES = 8
"""At most this many classes are kept apart over time; if there are more, the rarest are put together."""


@dataclass(frozen=True, slots=True)
class OutcomeChance(Displayed):
    """How likely an outcome is at the end of the episode.

    Attributes
    ----------
    name : str
        A label of the model, or the name of an absorbing state without a label.
    observed : float
        1 or 0: whether it happened. A probability if the last outcome was not recorded.
    plan : float
        Under the plan.
    optimal : float
        Under the policy that is best for anyone in the plain model, with the luck of this episode.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> fell = tether.counterfactual(grid.mdp, grid.path).plan(k=6, m=2).explain().outcomes[1]
    >>> fell.name, fell.observed, round(fell.plan, 3), round(fell.optimal, 3)
    ('danger', 1.0, 0.018, 0.004)
    """

    name: str
    observed: float
    plan: float
    optimal: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Outcomes(Sequence[OutcomeChance], Tabular):
    """How likely each outcome is: at the end (a sequence of `OutcomeChance`), and at each time by class.

    Attributes
    ----------
    end : tuple of OutcomeChance
        One per label of the model, and one per absorbing state without a label that can be reached. A state may have
        several labels, so these probabilities need not sum to 1.
    classes : tuple of str
        Classes that have no state in common, for the course over time: states with the same labels, absorbing states
        without a label, and at the end, as "", all other states.
    observed, plan, optimal : array (T + 1, classes)
        Probability of each class at t = 0 … T; each row sums to 1.
    finally_ : array (3, classes)
        The same at the end, for observed, plan and optimal: after what follows the record (`tether.counterfactual`,
        ``horizon``). Without such steps it is that at T.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> outcomes = tether.counterfactual(grid.mdp, grid.path).plan(k=6, m=2).explain().outcomes
    >>> outcomes
    <Outcomes: goal under 1 % (observed 0 %), danger 2 % (observed 100 %)>
    >>> outcomes.classes, outcomes.observed[-1].tolist()
    (('danger', 'goal', ''), [1.0, 0.0, 0.0])
    """

    end: tuple[OutcomeChance, ...]
    classes: tuple[str, ...]
    observed: Floats
    plan: Floats
    optimal: Floats
    finally_: Floats

    @overload
    def __getitem__(self, index: int) -> OutcomeChance: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[OutcomeChance, ...]: ...
    def __getitem__(self, index: int | slice) -> OutcomeChance | tuple[OutcomeChance, ...]:
        return self.end[index]

    def __len__(self) -> int:
        return len(self.end)

    def __iter__(self) -> Iterator[OutcomeChance]:
        return iter(self.end)

    @property
    def T(self) -> int:
        """Number of steps."""
        return len(self.plan) - 1

    @property
    def every_end(self) -> tuple[OutcomeChance, ...]:
        """The outcomes at the end, and last that there is none yet, so that disjoint outcomes add up to 1.

        Examples
        --------
        >>> import tether
        >>> grid = tether.cases.grid_world()
        >>> outcomes = tether.counterfactual(grid.mdp, grid.path).plan(k=6, m=2).explain().outcomes
        >>> [(one.name, round(one.plan, 2)) for one in outcomes.every_end]
        [('goal', 0.0), ('danger', 0.02), ('still under way', 0.98)]
        """
        return (*self.end, OutcomeChance(UNDER_WAY, *self.finally_[:, -1].tolist())) if self.end else ()

    def to_arrow(self) -> pyarrow.Table:
        """One row per time and class: t, outcome (null: none of them), and the probabilities observed, plan, optimal.

        Examples
        --------
        >>> import tether
        >>> grid = tether.cases.grid_world()
        >>> table = tether.counterfactual(grid.mdp, grid.path).plan(k=6, m=2).explain().outcomes.to_arrow()
        >>> table.num_rows, table.slice(0, 1).to_pylist()
        (36, [{'t': 0, 'outcome': 'danger', 'observed': 0.0, 'plan': 0.0, 'optimal': 0.0}])
        """
        import pyarrow as pa

        times = self.T + 1
        names = [name or None for name in self.classes]
        chances = {who: getattr(self, who).reshape(-1) for who in ("observed", "plan", "optimal")}
        outcome = pa.array(names * times, type=pa.string())
        return pa.table({"t": np.repeat(np.arange(times), len(names)), "outcome": outcome, **chances})

    def plot(self, who: str = "plan", ax: Axes | None = None) -> Axes:
        """Outcomes over time as stacked areas, with the observed outcome above; returns the axes.

        Examples
        --------
        >>> import tether
        >>> grid = tether.cases.grid_world()
        >>> ax = tether.counterfactual(grid.mdp, grid.path).plan(k=6, m=2).explain().outcomes.plot()
        >>> ax.get_ylabel()
        'probability'
        """
        return plot_outcomes(self, who, ax)

    def __repr__(self) -> str:
        text = ", ".join(f"{one.name} {percent(one.plan)} (observed {percent(one.observed)})" for one in self.end)
        return f"<Outcomes: {text or 'none'}>"

    def _repr_html_(self) -> str:
        head = ("at the end", "what happened", "the plan", "the model's usual advice")
        return html_table(head, [(one.name, *(percent(getattr(one, who)) for who in WHO)) for one in self.every_end])


def outcomes_of(by_whom: Mapping[str, Evaluation]) -> Outcomes:
    """Outcomes at the end and over time; ``by_whom`` has an evaluation for "observed", "plan" and "optimal"."""
    ends = {who: by_whom[who].outcomes() for who in WHO}
    names = dict.fromkeys(name for who in WHO for name in ends[who])
    end = tuple(OutcomeChance(name, *(ends[who].get(name, 0.0) for who in WHO)) for name in names)
    classes, (observed, plan, optimal, last) = _over_time(by_whom)
    return Outcomes(end, classes, observed, plan, optimal, last)


def goes_on(cf: CounterfactualRecord, outlook: Evaluation) -> bool:
    """Whether the episode can go on after the objective is decided. The plan says nothing about that part."""
    ended = outlook.chain.ended
    return ended is not None and not absorbing(cf.mdp, np.flatnonzero(ended)).all()


def _over_time(by_whom: Mapping[str, Evaluation]) -> tuple[tuple[str, ...], list[Floats]]:
    """Disjoint classes, and the probability of each at each time, and at the end, for each of `WHO`."""
    mdp, ends = by_whom["plan"].mdp, [by_whom[who].ends for who in WHO]
    met = [layer.states for who in WHO for layer in by_whom[who].chain.visits]
    states = np.unique(np.concatenate([*met, *(some for some, _ in ends)]))
    names, code = outcome_classes(mdp, states)
    courses = [_course(by_whom[who], states, code, len(names)) for who in WHO]
    # First the observed outcome, then the others, the likeliest at the end first; states that are no outcome last.
    last: Floats = np.stack(
        [np.bincount(code[np.searchsorted(states, some)], p, minlength=len(names)) for some, p in ends]
    )
    weight = [(*(-round(float(course[-1, i]), 12) for course in courses), i) for i in range(len(names))]
    order = sorted((i for i, name in enumerate(names) if name), key=lambda i: weight[i])
    kept, rare = order[:_CLASSES], order[_CLASSES:]
    others: Any = [f"{len(rare)} others"] if rare else []
    none = [i for i, name in enumerate(names) if not name]
    columns = [[i] for i in kept] + ([rare] if rare else []) + [none]
    named = (*(names[i] for i in kept), *others, "")
    merged = [np.stack([one[:, some].sum(axis=1) for some in columns], axis=1) for one in (*courses, last)]
    return named, merged


def _course(outlook: Evaluation, states: Any, code: Any, size: int) -> Floats:
    rows = []
    for layer, chance in zip(outlook.chain.visits, outlook.occupancy, strict=True):
        rows.append(np.bincount(code[np.searchsorted(states, layer.states)], chance, minlength=size))
    return np.minimum(np.stack(rows), 1.0)
