"""Trade-offs: value against a measure of influence, or against the probability of a property, at a price.

Instead of forbidding pairs that are not influenced, reward those that are: maximise E[Σ R] + λ·E[Σ w]. Here w is the
strength of the row taken (the total variation between it and the nominal row); or its closeness, 1 - the total
variation between the pair's nominal row and the observed one (the paper's appendix). As λ goes from 0 to ∞, the best
policies go through the supported points of the Pareto front of value against the expected measure: the corners of
its concave hull. They are found exactly, by dichotomy. Between two known points, solve for the λ at which both are
worth the same. Either this gives a better point, which is a new corner, or the two are neighbours.

Against a property (died), w is minus the probability that it holds: the front goes from the most valuable plan to the
plan with the smallest probability. The property does not end the episode here. The state says whether it was decided,
or is extended to say so (`tether.plan.tracked`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tether._foundation.arrays import Floats
from tether._foundation.arrow import Tabular
from tether._foundation.checks import whole_number
from tether._foundation.markup import facts, html_table
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.errors import QueryError
from tether.influence.kappa import Thresholds
from tether.influence.one_step import distances
from tether.model.form import Rewards
from tether.model.properties import Property
from tether.plan.best_values import Solved, solve_backward
from tether.plan.plan_record import PlanRecord
from tether.plan.rewards import without_rewards
from tether.plan.tether_record import TetherRecord
from tether.plan.tracked import tracked
from tether.plan.walks import chain_value

if TYPE_CHECKING:
    import pyarrow
    from matplotlib.axes import Axes

Measure = Literal["strength", "closeness"] | Property


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
        The second coordinate: the expected total strength, or closeness, over the T steps; or the probability of a
        property.
    plan : Plan
    against : {"strength", "closeness"} or Property
        What the measure is.

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
    plan: PlanRecord
    against: Measure = "strength"

    def __repr__(self) -> str:
        measure = f"measure {self.measure:.4g} of {self.plan.T}"
        if isinstance(self.against, Property):
            measure = f"probability {self.measure:.4g}"
        return f"<Point: value {self.value:.4g}, {measure}, λ = {self.price:.4g}>"

    def _repr_html_(self) -> str:
        of = "" if isinstance(self.against, Property) else f" of {self.plan.T}"
        measure = f"{self.measure:.4g}{of}"
        return facts([("value", f"{self.value:.6g}"), ("measure", measure), ("λ", f"{self.price:.4g}")])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Front(Tabular):
    """The supported points of value against a measure, from the most valuable to the one with the largest measure.

    Against a property, the last point has the smallest probability of it.

    Attributes
    ----------
    points : tuple of Point
    lost : array (T + 1,)
        What each k = 1 … T + 1 costs: the value without influence constraints less the value at k.
    against : {"strength", "closeness"} or Property
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
        """Expected total strength, or closeness, of each point; or the probability of the property."""
        return np.array([point.measure for point in self.points])

    def to_arrow(self) -> pyarrow.Table:
        """The points in rows price, value and the measure (under its own name), as an Arrow table.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> front = tether.counterfactual(case.mdp, case.path).pareto(m=2)
        >>> front.to_arrow().slice(0, 1).to_pylist()
        [{'price': 0.0, 'value': -1.0, 'strength': 0.0, 'k': 8, 'm': 2}]
        """
        from tether.plan.plan_tables import front_table

        return front_table(self)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw value against the measure; returns the axes. See `tether.views.figures.plot_pareto`.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.counterfactual(case.mdp, case.path).pareto(m=2).plot().get_ylabel()
        'value of the initial state'
        """
        from tether.figures.tradeoffs import plot_pareto

        return plot_pareto(self, ax)

    def __repr__(self) -> str:
        first, last = self.points[0], self.points[-1]
        of = "" if isinstance(self.against, Property) else f" of {first.plan.T}"
        return (
            f"<Front: {len(self.points)} points, value {first.value:.4g} … {last.value:.4g}, "
            f"{self.against} {first.measure:.2g} … {last.measure:.2g}{of}>"
        )

    def _repr_html_(self) -> str:
        of = "" if isinstance(self.against, Property) else f", of {self.points[0].plan.T}"
        head = ("λ", "value", f"{self.against}{of}")
        return html_table(head, [(f"{p.price:.4g}", f"{p.value:.6g}", f"{p.measure:.4g}") for p in self.points])


def pareto(
    question: TetherRecord,
    k: int | None,
    m: int,
    against: Any,
    limit: int,
    progress: Callable[[int], None] | None = None,
) -> Front:
    """Value against expected strength or closeness, or a property; see `CounterfactualMDP.pareto`."""
    if against not in ("strength", "closeness") and not isinstance(against, Property):
        raise QueryError(f"against must be 'strength', 'closeness' or a property (tether.reach …), not {against!r}")
    T = question.cf.T
    m = min(whole_number("m", m, 0), T)
    k = T + 1 if k is None else min(whole_number("k", k, 1), T + 1)
    limit = whole_number("limit", limit, 2)
    lost = question.sweep(ms=[m]).lost(m)
    if isinstance(against, Property):
        search = against_property(question, k, m, against)
    else:
        found = question.thresholds(k)
        search = _AgainstInfluence(question, _worth_at_the_start(found), k, m, _weights(question.asked, against))
    points, complete = search.corners(limit, progress)
    shown = (replace(one, value=one.plan.value, measure=search.shown(one.measure), against=against) for one in points)
    return Front(tuple(shown), lost, m, against, complete)


def against_property(question: TetherRecord, k: int, m: int, against: Property) -> _Search:
    """The search for the front of a return against the probability of a property."""
    if question.objective is not None:
        raise QueryError(
            f"a return can be weighed against {against}, but not the objective {question.objective}: a plan for a "
            "property ends where it is decided, and says nothing about another property"
        )
    if question.advisable is not None:
        raise QueryError(f"with only= and never= a plan cannot be weighed against {against}: leave out one of them")
    cf, holds = tracked(question.cf, against, question.minimise)
    inside = replace(question, cf=cf)
    return _AgainstProperty(inside, _worth_at_the_start(inside.thresholds(k)), k, m, holds)


def _worth_at_the_start(found: Thresholds) -> Thresholds:
    """Thresholds on a graph whose rewards are already discounted: a price added to them is then not discounted."""
    graph = found.graph
    mdp, T = graph.mdp, graph.T
    if mdp.discount == 1.0:
        return found
    worth = np.power(mdp.discount, np.arange(T + 1, dtype=np.float64))
    rewards = Rewards(np.stack([worth[t] * mdp.rewards.at(t) for t in range(T)]), mdp.rewards.by_entry)
    final = None if mdp.final_reward is None else worth[T] * mdp.final_reward
    mdp = replace(mdp, form=replace(mdp.form, rewards=rewards), discount=1.0, final_reward=final)
    return replace(found, graph=replace(graph, mdp=mdp))


def _weights(cf: CounterfactualRecord, against: Measure) -> tuple[Floats, ...]:
    """The measure of each edited row of each step; it is 0 for every other row."""
    if against == "strength":
        return tuple(layer.edits.strengths() for layer in cf.graph.layers)
    return tuple(1.0 - distances(cf.graph, t) for t in range(cf.T))


@dataclass(frozen=True, slots=True)
class _Search:
    """Finds the corners of a front, where more value and more of the measure are better.

    ``found`` has the thresholds on the graph whose rewards, discounted to the start, are the value.
    """

    question: TetherRecord
    found: Thresholds
    k: int
    m: int

    def planned(self, price: float) -> Solved:
        """Backward induction at one price; at ∞, for the measure alone."""
        raise NotImplementedError

    def measured(self, plan: PlanRecord, occupancy: list[Floats]) -> float:
        """The measure of a plan, exactly."""
        raise NotImplementedError

    def shown(self, measure: float) -> float:
        """The measure as it is shown."""
        return measure

    def corners(self, limit: int, progress: Callable[[int], None] | None) -> tuple[list[Point], bool]:
        """All corners between the two extremes, or as many as ``limit`` allows; ``progress`` receives their number."""
        top, tied = self.solve(0.0), self.solve(np.inf)
        points = [top, tied]
        open_ends = [(top, tied)]
        scale = _scale(top, tied)
        while open_ends and len(points) < limit:
            left, right = open_ends.pop()
            if progress is not None:
                progress(len(points))
            if left.value - right.value <= 1e-12 * scale:
                continue
            middle = self._between(left, right, scale)
            if middle is None:
                continue
            points.append(middle)
            open_ends += [(left, middle), (middle, right)]
        kept = _undominated(points, scale)
        # If two points are equal in value, or in the measure, the better one is also the best at the other's price.
        kept[-1] = replace(kept[-1], price=np.inf)
        kept[0] = replace(kept[0], price=0.0)
        return kept, not open_ends

    def around(self, wanted: float) -> tuple[Point, Point | None]:
        """The neighbouring corners below and above the measure ``wanted``; the same twice if it is the most valuable.

        Of the most valuable plans this is the one with the largest measure. The second is None if no plan reaches
        ``wanted``: the first then has the largest measure of all.
        """
        left, right = self.solve(0.0), self.solve(np.inf)
        if right.measure < wanted:
            return right, None
        scale = _scale(left, right)
        best = left.value - 1e-12 * scale
        if right.value >= best:
            return right, right
        while (middle := self._between(left, right, scale)) is not None:
            if middle.value >= best or middle.measure < wanted:
                left = middle
            else:
                right = middle
        if left.measure >= wanted:
            return left, left
        return (right, right) if left.value - right.value <= 1e-12 * scale else (left, right)

    def _between(self, left: Point, right: Point, scale: float) -> Point | None:
        """A point above the line through two points, of less and of more measure; None if they are neighbours."""
        gained = right.measure - left.measure
        if gained <= 1e-12:
            return None
        price = max(0.0, (left.value - right.value) / gained)
        middle = self.solve(price)
        above = (middle.value - left.value) + price * (middle.measure - left.measure)
        return None if above <= 1e-11 * (scale + price * self.question.cf.T) else middle

    def solve(self, price: float) -> Point:
        """The best plan at one price, and its two coordinates, exactly."""
        question, solved = self.question, self.planned(price)
        plan = replace(question.planned(self.found, solved, self.k, self.m), price=price)
        occupancy = plan.chain.occupancy()
        value = chain_value(plan.asked.mdp, plan.chain, occupancy)
        gained = -value if question.minimise else value
        return Point(price, gained, self.measured(plan, occupancy), replace(plan, value=value))


@dataclass(frozen=True, slots=True)
class _AgainstInfluence(_Search):
    """Against the weights of the edited rows of each step."""

    weights: tuple[Floats, ...]

    def planned(self, price: float) -> Solved:
        found, ks = self.question.weighed(self.found), np.array([self.k])
        if np.isinf(price):
            return solve_backward(found, ks, self.m, keep=True, bonus=self.weights, rewarded=False)
        bonus = tuple(price * weight for weight in self.weights)
        return solve_backward(found, ks, self.m, keep=True, bonus=bonus)

    def measured(self, plan: PlanRecord, occupancy: list[Floats]) -> float:
        total = 0.0
        for t, decided in enumerate(plan.chain.taken):
            at = plan.asked.graph.layers[t].edits.locate(decided.pairs)
            edited = at >= 0
            total += float(np.sum(occupancy[t][decided.source][edited] * self.weights[t][at[edited]]))
        return total


@dataclass(frozen=True, slots=True)
class _AgainstProperty(_Search):
    """Against the probability that a property does not hold: ``holds`` says for each last state whether it holds."""

    holds: Floats

    def planned(self, price: float) -> Solved:
        found = self.question.weighed(self.found)
        mdp = found.graph.mdp
        if np.isinf(price):
            mdp = replace(without_rewards(mdp), final_reward=-self.holds)
        else:
            final = np.zeros(mdp.n_states) if mdp.final_reward is None else mdp.final_reward
            mdp = replace(mdp, final_reward=final - price * self.holds)
        priced = replace(found, graph=replace(found.graph, mdp=mdp))
        return solve_backward(priced, np.array([self.k]), self.m, keep=True)

    def measured(self, plan: PlanRecord, occupancy: list[Floats]) -> float:
        return -min(1.0, float(occupancy[-1] @ self.holds[plan.chain.visits[-1].states]))

    def shown(self, measure: float) -> float:
        return 0.0 - measure


def _scale(left: Point, right: Point) -> float:
    """How large the values of a front are: differences are compared with it."""
    return max(abs(left.value), abs(right.value), left.value - right.value, 1e-300)


def _undominated(points: list[Point], scale: float) -> list[Point]:
    """Points in order of falling value and rising measure, without dominated ones."""
    kept: list[Point] = []
    for point in sorted(points, key=lambda one: (-one.value, -one.measure)):
        if kept and point.measure <= kept[-1].measure + 1e-12:
            continue
        if kept and kept[-1].value - point.value <= 1e-12 * scale:
            kept.pop()
        kept.append(point)
    return kept
