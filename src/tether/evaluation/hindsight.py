"""What of a plan's gain could be foreseen, and what only hindsight knows.

A counterfactual plan knows how every step ended; nobody who decided did. The *fair plan* (`tether.plan.foresight`)
keeps to the same limits and maximises what could be expected at the time. Both are valued with the luck of the episode:

    gain = (value of the fair plan - observed)  +  (value of the plan - value of the fair plan)
         =  foresight                           +   hindsight                                       hindsight ≥ 0

Where changes have a price (``cost``), all of these are less the expected price of what each plan changes.

The *foreseeable gain* F of the episode has no limits: the value, with the luck of the episode, of the plain model's
best policy, less the observed return. Over many episodes its mean is the mean of the mistakes (`tether.review`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats, Ints
from tether._foundation.arrow import Tabular, table_of
from tether._foundation.markup import Displayed, facts, html_table
from tether._foundation.rounding import gain_of
from tether.conditioning.model_sets import model_set
from tether.errors import QueryError
from tether.evaluation.plain import best_for_anyone
from tether.evaluation.ranges import range_of
from tether.evaluation.review import SURE, probability_better
from tether.model.form import Form
from tether.model.model_record import ModelRecord
from tether.observation.changes import changes_something, done_then, pairs_with
from tether.plan.best_values import solve_backward
from tether.plan.foresight import Foresight
from tether.plan.objective import best_within
from tether.plan.plan_record import PlanRecord
from tether.plan.robust_record import RobustPlanRecord
from tether.plan.walks import chain_value

if TYPE_CHECKING:
    import pyarrow

_ROUNDING = 1e-11
"""Differences up to this share of the numbers that were added up are rounding."""


@dataclass(frozen=True, eq=False, repr=False)
class Hindsight:
    """How much of the gain of a plan could be foreseen, and how much only hindsight knows.

    Attributes
    ----------
    plan, fair : Plan
        The plan, and the fair one: the same limits, without hindsight.
    foresight : float
        The gain of the fair plan. It may be negative: good decisions can have bad luck.
    hindsight : float
        The rest of the gain, never negative.
    foreseeable : float
        F: the gain of the plain model's best policy, without limits, with the luck of this episode.

    Examples
    --------
    >>> import tether
    >>> patient = tether.cases.sepsis()
    >>> found = tether.counterfactual(patient.mdp, patient.path).plan(k=9, m=2).hindsight
    >>> found
    <Hindsight: of a gain of 2868, foresight 0, hindsight 2868; foreseeable 0>
    """

    plan: PlanRecord
    fair: PlanRecord
    foresight: float
    hindsight: float
    foreseeable: float

    @property
    def gain(self) -> float:
        """The gain of the plan, less the price of its changes: foresight and hindsight together."""
        return _net_gain(self.plan)

    @cached_property
    def foresight_range(self) -> tuple[float, float]:
        """(smallest, largest) foresight over every causal model that agrees with the model and the episode.

        Examples
        --------
        >>> import tether
        >>> grid = tether.cases.grid_world()
        >>> found = tether.counterfactual(grid.mdp, grid.path).plan(k=6, m=4).hindsight
        >>> [round(one, 1) for one in found.foresight_range]
        [1255.5, 1331.2]
        """
        return self._gains(self.fair)

    @cached_property
    def hindsight_range(self) -> tuple[float, float]:
        """Bounds on the hindsight over every causal model: it is never outside, but they need not be attained.

        They come from the range of each plan: the models that are extreme for one need not be so for the other.
        """
        both = zip(self.plan.chain.taken, self.fair.chain.taken, strict=True)
        if all(np.array_equal(one.pairs, other.pairs) for one, other in both):
            return 0.0, 0.0  # the plan is the fair one
        plan, fair = self._gains(self.plan), self.foresight_range
        return plan[0] - fair[1], plan[1] - fair[0]

    @cached_property
    def foreseeable_range(self) -> tuple[float, float]:
        """(smallest, largest) foreseeable gain over every causal model."""
        plan = self.plan
        return self._ordered(*range_of(model_set(plan.cf, "nothing"), "optimal", plan.objective, plan.minimise))

    def _gains(self, plan: PlanRecord) -> tuple[float, float]:
        return self._ordered(*range_of(model_set(plan.cf, "nothing"), plan, net=True))

    def _ordered(self, one: float, other: float) -> tuple[float, float]:
        """Gains over the observed value, the smaller first."""
        gains = (gain_of(value, self.plan.observed_value, self.plan.minimise) for value in (one, other))
        low, high = sorted(gains)
        return low, high

    def __repr__(self) -> str:
        return (
            f"<Hindsight: of a gain of {self.gain:.4g}, foresight {self.foresight:.4g}, "
            f"hindsight {self.hindsight:.4g}; foreseeable {self.foreseeable:.4g}>"
        )

    def _repr_html_(self) -> str:
        named = ("gain", self.gain), ("foresight", self.foresight), ("hindsight", self.hindsight)
        return facts([(name, f"{one:.6g}") for name, one in (*named, ("foreseeable", self.foreseeable))])


@dataclass(frozen=True, slots=True)
class AdvisedChange(Displayed):
    """A change that a plan advises, and whether it was better at the time.

    Attributes
    ----------
    t : int
    state : name
        Where the plan makes the change.
    instead_of : name or None
        The observed action of the step; None where the observed episode had ended, and nothing was done.
    action : name
        What the plan does.
    probability : float
        How likely a replay is to make it.
    advantage : float or None
        What the action was expected to gain over the observed one, by the plain model, deciding at best after it;
        negative if the model expects it to be worse for anyone in that state. None where the observed action is not
        available, and where the observed episode had ended.
    chance : float or None
        How likely it is that the action is better: 1 or 0 in a model that was given; in a learned one, how surely its
        log shows it.

    Examples
    --------
    >>> import tether
    >>> patient = tether.cases.sepsis()
    >>> change = tether.counterfactual(patient.mdp, patient.path).plan(k=9, m=1).changes[0]
    >>> change.t, change.better_at_the_time, round(change.advantage, 1)
    (2, False, -323.5)
    """

    t: int
    state: Any
    instead_of: Any
    action: Any
    probability: float
    advantage: float | None
    chance: float | None = None

    @property
    def better_at_the_time(self) -> bool | None:
        """Whether the action was better by what could be known then; None where there is no observed one to compare."""
        return None if self.advantage is None else self.advantage > 0

    @property
    def is_claimed(self) -> bool:
        """Whether it is called better: in a learned model only beyond what estimation can produce."""
        return bool(self.better_at_the_time) and (self.chance is None or self.chance >= SURE)


class AdvisedChanges(tuple[AdvisedChange, ...], Tabular):
    """The changes that a plan advises, by time, then the likeliest first; a tuple of `AdvisedChange`.

    Examples
    --------
    >>> import tether
    >>> grid = tether.cases.grid_world()
    >>> changes = tether.counterfactual(grid.mdp, grid.path).plan(k=6, m=1).changes
    >>> len(changes), changes.to_arrow().select(["t", "state", "action"]).slice(0, 1).to_pylist()
    (1, [{'t': 2, 'state': 2, 'action': 'right'}])
    """

    mdp: ModelRecord

    def to_arrow(self) -> pyarrow.Table:
        """One row per change, with the fields of `AdvisedChange` as columns."""
        import pyarrow as pa

        actions = self.mdp.actions
        table = table_of(AdvisedChange, self, {"state": self.mdp.states, "instead_of": actions, "action": actions})
        better = pa.array([change.better_at_the_time for change in self], type=pa.bool_())
        return table.append_column("better_at_the_time", better)

    def _repr_html_(self) -> str:
        words = {True: "yes", False: "no", None: ""}
        head = ("t", "state", "instead of", "do", "probability", "better at the time")
        return html_table(
            head,
            [
                (
                    one.t,
                    one.state,
                    "" if one.instead_of is None else one.instead_of,
                    one.action,
                    f"{one.probability:.3g}",
                    words[one.better_at_the_time],
                )
                for one in self
            ],
        )


def fair_plan(plan: PlanRecord) -> PlanRecord:
    """The plan within the same limits that maximises what could be expected at the time; see `Plan.fair`."""
    if isinstance(plan, RobustPlanRecord):
        raise QueryError("a plan with a guaranteed value is not compared with a fair one: ask cf.plan(k, m).fair")
    if plan.constraint is not None or plan.price:
        raise QueryError("a plan that gave up value for something else is not compared with a fair one")
    question = plan.question
    found = question.thresholds_for(plan.k)
    standard = best_within(plan.cf, plan.objective, plan.minimise)
    view = Foresight(standard, plan.T, plan.cf.observation.states[:1])
    solved = solve_backward(
        question.weighed(found), np.array([plan.k]), plan.m, keep=True, advisable=plan.advisable, view=view
    )
    made = question.planned(found, solved, plan.k, plan.m)
    return replace(made, value=_within(plan, chain_value(plan.asked.mdp, made.chain)))


def hindsight_of(plan: PlanRecord, fair: PlanRecord) -> Hindsight:
    """Foresight and hindsight of a plan, compared with its fair one; see `Plan.hindsight`."""
    foresight = _net_gain(fair)
    hindsight = max(0.0, _net_gain(plan) - foresight)
    best = _within(plan, best_for_anyone(plan.cf, plan.objective, plan.minimise).value)
    return Hindsight(plan, fair, foresight, hindsight, gain_of(best, plan.observed_value, plan.minimise))


def advised_changes(plan: PlanRecord) -> AdvisedChanges:
    """The changes that a plan advises; see `Plan.changes`."""
    mdp, chain, occupancy = plan.cf.mdp, plan.chain, plan.chain.occupancy()
    form, pairs, weights = mdp.form, [], []
    for t, decided in enumerate(chain.taken):
        states, seen = chain.visits[t].states[decided.source], int(plan.cf.observation.actions[t])
        differs = changes_something(form, t, states, decided.pairs, seen) & ~chain.at_rest(t)
        some = np.flatnonzero(differs & (occupancy[t][decided.source] > 0))
        distinct, which = np.unique(decided.pairs[some], return_inverse=True)
        pairs.append(distinct)
        weights.append(np.bincount(which, occupancy[t][decided.source[some]] * decided.probability[some]))
    standard, record = best_within(plan.cf, plan.objective, plan.minimise), plan.cf.observation
    before = done_then(form, np.arange(len(pairs)), record.states[: len(pairs)], record.actions)
    instead = [_observed_pairs(form, some, action) for some, action in zip(pairs, before.tolist(), strict=True)]
    asked = [np.unique(np.concatenate((some, done[done >= 0]))) for some, done in zip(pairs, instead, strict=True)]
    values, sizes = standard.of_pairs(plan.T, asked)
    found: list[AdvisedChange] = []
    for t, (some, done, weight) in enumerate(zip(pairs, instead, weights, strict=True)):
        for i in np.argsort(-weight, kind="stable"):
            pair, taken = int(some[i]), int(done[i])
            state = mdp.states[int(np.searchsorted(form.pair_start, pair, side="right")) - 1]
            instead_of = None if before[t] < 0 else mdp.actions[int(before[t])]
            advised = mdp.actions[int(form.pair_action[pair])]
            advantage = chance = None
            if taken >= 0:
                at = np.searchsorted(asked[t], [pair, taken])
                advantage = _difference(values[t][at], sizes[t][at])
                chance = probability_better(standard, pair, taken, advantage)
            found.append(AdvisedChange(t, state, instead_of, advised, float(min(weight[i], 1.0)), advantage, chance))
    made = AdvisedChanges(found)
    made.mdp = mdp
    return made


def _difference(values: Floats, sizes: Floats) -> float:
    """How much better the first of two values is; exactly 0 if that may be rounding."""
    apart = float(values[0] - values[1])
    return 0.0 if abs(apart) <= _ROUNDING * float(sizes.max()) else apart


def _observed_pairs(form: Form, pairs: Ints, action: int) -> Ints:
    """The pair of the observed action in the state of each pair, -1 where it is not available."""
    states = np.searchsorted(form.pair_start, pairs, side="right") - 1
    return pairs_with(form, states, action)


def _net_gain(plan: PlanRecord) -> float:
    return plan.gain - plan.paid


def _within(plan: PlanRecord, value: float) -> float:
    return value if plan.objective is None else float(np.clip(value, 0.0, 1.0))
