"""Shares: what each changed step of a plan adds to its gain, by Shapley's rule.

For a plan that changes actions at the times C, let v(C') be the value when the plan's action is taken at the times of
C' ⊆ C and the observed one at all other times. The times of C can be added one by one, in any order. The share of a
time is the mean over all orders of what it adds to v:

    share(t) = Σ over C' ⊆ C without t of |C'|!·(|C| - |C'| - 1)!/|C|! · (v(C' with t) - v(C'))

The shares sum to the gain. The action of the plan at a time may depend on the state and on how many changes were made.
At a time of C' the plan's action for the state and the changes really made is taken. If the plan has no such action,
because it would never be there, the observed one is taken. In an absorbing state without the observed action no action
is a change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats, Ints, summed
from tether._foundation.arrow import Tabular, table_of
from tether._foundation.markup import Displayed, html_table
from tether._foundation.words import number
from tether.conditioning.edited_rows import replaced
from tether.core.chain import Taken, Visits
from tether.errors import Problem, QueryError
from tether.evaluation.evaluate import evaluate_plan
from tether.evaluation.following import by_choices
from tether.model.form import model_of
from tether.observation.changes import is_change, nothing_to_change, pairs_with
from tether.plan.plan_record import PlanRecord

if TYPE_CHECKING:
    import pyarrow
    from matplotlib.axes import Axes

MOST = 12
"""The largest number of changed steps for which all subsets are computed."""


@dataclass(frozen=True, slots=True)
class Share(Displayed):
    """What one changed step adds to the gain of a plan.

    Attributes
    ----------
    t : int
    share : float
    alone : float
        The gain if no other step is changed.
    changed : float
        Probability that the plan changes the action of the step.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> tether.counterfactual(case.mdp, case.path).plan(k=3, m=1).shares().steps[0].t
    5
    """

    t: int
    share: float
    alone: float
    changed: float


@dataclass(frozen=True, slots=True, repr=False)
class Shares(Tabular):
    """The gain of a plan, shared among its changed steps; made by `Plan.shares`.

    Attributes
    ----------
    gain : float
        What the shares sum to.
    steps : tuple of Share

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> shares = tether.counterfactual(case.mdp, case.path).plan(k=7, m=2).shares()
    >>> print(shares)
    Of the gain of 18.42, 10.11 come from step 1, 8.309 from step 2.
    """

    gain: float
    steps: tuple[Share, ...]

    def __str__(self) -> str:
        if not self.steps:
            return "The plan changes nothing: there is no gain to share."
        first, *others = self.steps
        parts = [f"{number(first.share)} come from step {first.t}"]
        parts += [f"{number(one.share)} from step {one.t}" for one in others]
        return f"Of the gain of {number(self.gain)}, {', '.join(parts)}."

    def __repr__(self) -> str:
        return f"<Shares: {len(self.steps)} changed steps, gain {self.gain:.4g}>"

    def to_arrow(self) -> pyarrow.Table:
        """One row per changed step: t, share, alone, changed.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.counterfactual(case.mdp, case.path).plan(k=7, m=2).shares().to_arrow().column("t").to_pylist()
        [1, 2]
        """
        return table_of(Share, self.steps, {})

    def plot(self, ax: Axes | None = None) -> Axes:
        """One bar per changed step: its share of the gain, and what it gains alone. Returns the axes.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> tether.counterfactual(case.mdp, case.path).plan(k=7, m=2).shares().plot().get_ylabel()
        'share of the gain'
        """
        from tether.figures.decisions_figure import plot_shares

        return plot_shares(self, ax)

    def _repr_html_(self) -> str:
        head = ("t", "share of the gain", "alone", "changed")
        return html_table(
            head, [(one.t, f"{one.share:.6g}", f"{one.alone:.6g}", f"{one.changed:.3g}") for one in self.steps]
        )


def shares(plan: PlanRecord) -> Shares:
    """The Shapley share of each changed step; see `Plan.shares`."""
    changed = evaluate_plan(plan).changed
    assert changed is not None
    times = np.flatnonzero(changed > 0).tolist()
    n = len(times)
    if n > MOST:
        raise QueryError(
            f"the plan changes actions at {n} times; shares can be computed for up to {MOST}: ask for a plan with a "
            "smaller m"
        )
    values = np.empty(2**n)
    for subset, value in _values(plan, times):
        values[subset] = -value if plan.minimise else value
    members = np.array([subset.bit_count() for subset in range(2**n)])
    found = []
    for i, t in enumerate(times):
        without = np.flatnonzero((np.arange(2**n) >> i) & 1 == 0)
        weight = np.array([1.0 / (n * comb(n - 1, int(size))) for size in members[without]])
        added = values[without | (1 << i)] - values[without]
        found.append(Share(t, float(weight @ added), float(added[0]), float(changed[t])))
    return Shares(float(values[-1] - values[0]), tuple(found))


@dataclass(frozen=True, slots=True, eq=False)
class _Reached:
    """The nodes reached if the plan is followed at some times only, their probabilities, and what was earned."""

    subset: int
    visits: Visits
    mass: Floats
    earned: float


def _values(plan: PlanRecord, times: list[int]) -> Iterator[tuple[int, float]]:
    """V(C') of every subset C', given as the bits of a number. Subsets that agree up to a time share its work."""
    mdp = plan.asked.mdp
    start = Visits(*(np.array([one]) for one in (int(plan.asked.observation.states[0]), plan.m, 0)))
    open_ways = [(0, _Reached(0, start, np.ones(1), 0.0))]
    while open_ways:
        t, way = open_ways.pop()
        if t == plan.T:
            final = 0.0 if mdp.final_reward is None else float(way.mass @ mdp.final_reward[way.visits.states])
            yield way.subset, way.earned + mdp.discount**t * final
            continue
        planned, observed = by_choices(plan)(t, way.visits), _as_observed(plan, t, way.visits)
        idle = nothing_to_change(mdp.form, way.visits.states, int(plan.asked.observation.actions[t]))
        kept = np.where(observed >= 0, observed, np.where(idle, planned, -1))
        open_ways.append((t + 1, _step(plan, t, way, way.subset, _settled(plan, t, way.visits, kept, idle))))
        if t in times:
            subset = way.subset | 1 << times.index(t)
            asked = np.where(planned >= 0, planned, observed)
            open_ways.append((t + 1, _step(plan, t, way, subset, _settled(plan, t, way.visits, asked, idle))))


def _as_observed(plan: PlanRecord, t: int, visits: Visits) -> Ints:
    """The pair of each node with the observed action; -1 if it is not available."""
    return pairs_with(plan.asked.mdp.form, visits.states, int(plan.asked.observation.actions[t]))


def _settled(plan: PlanRecord, t: int, visits: Visits, pairs: Ints, idle: Any) -> Ints:
    """The pairs taken. If there is none: the first pair of a state in which nothing is a change, otherwise an error."""
    mdp = plan.asked.mdp
    pairs = np.where((pairs < 0) & idle, mdp.form.pair_start[visits.states], pairs)
    missing = np.flatnonzero(pairs < 0)
    if missing.size:
        state, action = mdp.states[int(visits.states[missing[0]])], plan.asked.path.actions[t]
        message = (
            f"without some of the plan's changes the episode can be in state {state!r}, where the observed "
            f"{action!r} is not available: the gain cannot be shared among the steps"
        )
        raise QueryError(Problem(message, state, action, time=t, place=f"t = {t}"))
    return pairs


def _step(plan: PlanRecord, t: int, way: _Reached, subset: int, pairs: Ints) -> _Reached:
    """What one step earns, and where it leads."""
    from tether.core.follow import onward

    mdp, cf = plan.asked.mdp, plan.asked
    changes = way.visits.changes - is_change(mdp.form, way.visits.states, pairs, int(cf.observation.actions[t]))
    runs = np.zeros(pairs.size, np.int64)
    if plan.rule == "assured":
        runs = np.where(np.isin(pairs, plan.influenced[t]), 0, way.visits.runs + 1)
    taken, rows = Taken.for_certain(pairs, changes, runs), replaced(cf.graph.layers[t].edits, pairs)
    rewards = mdp.rewards.at(t), mdp.rewards.by_entry
    link, after = onward(model_of(mdp.form), way.visits, taken, rows, rewards)
    chance = way.mass[link.source] * link.probability
    earned = way.earned + mdp.discount**t * float(chance @ link.reward)
    return _Reached(subset, after, summed(link.target, chance, after.size), earned)
