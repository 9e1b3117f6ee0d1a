"""Trade-offs: value against a measure of influence, where influence has a price and not a limit.

Instead of forbidding what is not influenced, pay for what is: maximise E[Σ R] + λ·E[Σ w], with w either the
strength of the row taken (the exact total variation that the observation makes) or its closeness, 1 - the total
variation between the pair's nominal row and the observed one (the paper's appendix). As λ goes from 0 to ∞ the best
policies run through the supported points of the Pareto front of value against the expected measure: the corners of
its concave hull. They are found exactly, by dichotomy: between two known points, solve for the λ at
which both are worth the same; either something better is found, a new corner, or the two are neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tether._checks import whole_number
from tether._html import facts, grid
from tether._types import Floats
from tether.counterfactual.conditioned import CounterfactualMDP
from tether.counterfactual.layers import Graph
from tether.errors import QueryError
from tether.influence.one_step import distances
from tether.influence.thresholds import Thresholds
from tether.model.form import Rewards
from tether.plan.backward import observed_value, solve_backward
from tether.plan.plan import Plan
from tether.plan.tethered import Tethered

if TYPE_CHECKING:
    import pandas
    import pyarrow
    from matplotlib.axes import Axes

__all__ = ["Front", "Point", "pareto"]

Measure = Literal["strength", "closeness"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Point:
    """One point of the front.

    Attributes
    ----------
    price : float
        A λ for which its plan is the best; 0 for the most valuable, ∞ for the largest measure.
    value : float
        Expected return.
    measure : float
        What it is weighed against: the expected total strength, or closeness, over the T steps.
    plan : Plan

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> tether.counterfactual(case.mdp, case.path).pareto(m=1).points[0]
    <Point: value -1, measure 0 of 7, λ = 0>
    """

    price: float
    value: float
    measure: float
    plan: Plan

    def __repr__(self) -> str:
        return f"<Point: value {self.value:.4g}, measure {self.measure:.4g} of {self.plan.T}, λ = {self.price:.4g}>"

    def _repr_html_(self) -> str:
        measure = f"{self.measure:.4g} of {self.plan.T}"
        return facts([("value", f"{self.value:.6g}"), ("measure", measure), ("λ", f"{self.price:.4g}")])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Front:
    """The supported points of value against a measure, from the most valuable to the one with the largest measure.

    Attributes
    ----------
    points : tuple of Point
    lost : array (T + 1,)
        What each k = 1 … T + 1 costs: the value without influence constraints less the value at k.
    against : {"strength", "closeness"}
        What the measure is.
    complete : bool
        False if the search was stopped at ``limit`` points.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> front = tether.counterfactual(case.mdp, case.path).pareto(m=2)
    >>> front
    <Front: 2 points, value -1 … -38, strength 0 … 2.9 of 7>
    >>> front.lost.round(1)  # for k = 1 … 8
    array([37. , 37. , 36.1, 33.2, 31.1, 25.1, 18.6,  0. ])
    """

    points: tuple[Point, ...]
    lost: Floats
    m: int
    against: Measure
    complete: bool

    @property
    def values(self) -> Floats:
        """Value of each point."""
        return np.array([point.value for point in self.points])

    @property
    def measures(self) -> Floats:
        """Expected total strength, or closeness, of each point."""
        return np.array([point.measure for point in self.points])

    def to_arrow(self) -> pyarrow.Table:
        """The points in rows price, value and the measure (its column is called what it is), as an Arrow table.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> front = tether.counterfactual(case.mdp, case.path).pareto(m=2)
        >>> front.to_arrow().slice(0, 1).to_pylist()
        [{'price': 0.0, 'value': -1.0, 'strength': 0.0, 'k': 8, 'm': 2}]
        """
        from tether.explanation.arrow import front_table

        return front_table(self)

    def to_pandas(self) -> pandas.DataFrame:
        """The same as a pandas table; pandas must be installed."""
        from tether.explanation.arrow import as_pandas

        return as_pandas(self.to_arrow())

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw value against the measure; returns the axes. See `tether.views.figures.plot_pareto`.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.counterfactual(case.mdp, case.path).pareto(m=2).plot().get_ylabel()
        'value of the initial state'
        """
        from tether.views.figures import plot_pareto

        return plot_pareto(self, ax)

    def __repr__(self) -> str:
        first, last = self.points[0], self.points[-1]
        return (
            f"<Front: {len(self.points)} points, value {first.value:.4g} … {last.value:.4g}, "
            f"{self.against} {first.measure:.2g} … {last.measure:.2g} of {first.plan.T}>"
        )

    def _repr_html_(self) -> str:
        head = ("λ", "value", f"{self.against}, of {self.points[0].plan.T}")
        return grid(head, [(f"{p.price:.4g}", f"{p.value:.6g}", f"{p.measure:.4g}") for p in self.points])


def pareto(
    question: Tethered, k: int | None, m: int, against: Any, limit: int, progress: Callable[[int], None] | None = None
) -> Front:
    """Value against expected strength or closeness; see `CounterfactualMDP.pareto`."""
    if against not in ("strength", "closeness"):
        raise QueryError(f"against must be 'strength' or 'closeness', not {against!r}")
    cf = question.cf
    m = min(whole_number("m", m, 0), cf.T)
    k = cf.T + 1 if k is None else min(whole_number("k", k, 1), cf.T + 1)
    limit = whole_number("limit", limit, 2)
    found = question.thresholds(k)
    found = replace(found, graph=_worth_at_the_start(found.graph))
    points, complete = _Search(cf, found, k, m, _weights(cf, against)).corners(limit, progress)
    return Front(tuple(points), question.sweep(ms=[m]).lost(m), m, against, complete)


def _worth_at_the_start(graph: Graph) -> Graph:
    """The same graph with rewards already discounted: what a planner then adds to them as a price is not."""
    mdp, T = graph.mdp, graph.T
    if mdp.discount == 1.0:
        return graph
    worth = np.power(mdp.discount, np.arange(T + 1, dtype=np.float64))
    rewards = Rewards(np.stack([worth[t] * mdp.rewards.at(t) for t in range(T)]), mdp.rewards.by_entry)
    final = None if mdp.final_reward is None else worth[T] * mdp.final_reward
    return replace(graph, mdp=replace(mdp, form=replace(mdp.form, rewards=rewards), discount=1.0, final_reward=final))


def _weights(cf: CounterfactualMDP, against: Measure) -> tuple[Floats, ...]:
    """The measure of each edited row of each step; it is 0 for every other row."""
    if against == "strength":
        return tuple(layer.edits.strength for layer in cf.graph.layers)
    return tuple(1.0 - distances(cf.graph, t) for t in range(cf.T))


@dataclass(frozen=True, slots=True)
class _Search:
    cf: CounterfactualMDP
    found: Thresholds
    k: int
    m: int
    weights: tuple[Floats, ...]

    def corners(self, limit: int, progress: Callable[[int], None] | None) -> tuple[list[Point], bool]:
        """All corners between the two extremes, or as many as ``limit`` allows; ``progress`` is told how many."""
        top, tied = self.solve(0.0), self.solve(np.inf)
        points = [top, tied]
        open_ends = [(top, tied)]
        scale = max(abs(top.value), abs(tied.value), top.value - tied.value, 1e-300)
        while open_ends and len(points) < limit:
            left, right = open_ends.pop()
            if progress is not None:
                progress(len(points))
            lost, gained = left.value - right.value, right.measure - left.measure
            if lost <= 1e-12 * scale or gained <= 1e-12:
                continue
            price = lost / gained
            middle = self.solve(price)
            above = (middle.value - left.value) + price * (middle.measure - left.measure)
            if above <= 1e-11 * (scale + price * self.cf.T):
                continue
            points.append(middle)
            open_ends += [(left, middle), (middle, right)]
        kept = _undominated(points, scale)
        # Of points equal in value, or in the measure, the better was found at another price; it is best at these too.
        kept[-1] = replace(kept[-1], price=np.inf)
        kept[0] = replace(kept[0], price=0.0)
        return kept, not open_ends

    def solve(self, price: float) -> Point:
        """The best plan at one price, and its two coordinates, exactly."""
        cf = self.cf
        if np.isinf(price):
            solved = solve_backward(
                self.found, np.array([self.k]), self.m, keep=True, bonus=self.weights, rewarded=False
            )
        else:
            bonus = tuple(price * weight for weight in self.weights)
            solved = solve_backward(self.found, np.array([self.k]), self.m, keep=True, bonus=bonus)
        plan = Plan(
            cf,
            self.k,
            self.m,
            self.found.rule,
            self.found.influence,
            np.nan,
            observed_value(cf),
            solved.nodes,
            solved.choices,
            self.found.influenced,
            price,
        )
        occupancy = plan.chain.occupancy()
        value = self._value(plan, occupancy)
        return Point(price, value, self._measure(plan, occupancy), replace(plan, value=value))

    def _value(self, plan: Plan, occupancy: list[Floats]) -> float:
        """Expected return, discounted, of what the plan visits."""
        mdp, chain = self.cf.mdp, plan.chain
        total = 0.0
        for t, link in enumerate(chain.links):
            total += mdp.discount**t * float(np.sum(occupancy[t][link.source] * link.probability * link.reward))
        if mdp.final_reward is not None:
            total += mdp.discount**chain.T * float(occupancy[-1] @ mdp.final_reward[chain.visits[-1].states])
        return total

    def _measure(self, plan: Plan, occupancy: list[Floats]) -> float:
        total = 0.0
        for t, decided in enumerate(plan.chain.taken):
            at = self.cf.graph.layers[t].edits.locate(decided.pairs)
            edited = at >= 0
            total += float(np.sum(occupancy[t][decided.source][edited] * self.weights[t][at[edited]]))
        return total


def _undominated(points: list[Point], scale: float) -> list[Point]:
    """Points in order of falling value and rising measure, without those that another one makes pointless."""
    kept: list[Point] = []
    for point in sorted(points, key=lambda one: (-one.value, -one.measure)):
        if kept and point.measure <= kept[-1].measure + 1e-12:
            continue
        if kept and kept[-1].value - point.value <= 1e-12 * scale:
            kept.pop()
        kept.append(point)
    return kept
