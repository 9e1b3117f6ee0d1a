"""The best plan for an individual whose type was never recorded, and what it leads to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from tether._foundation.arrays import Flags, Floats
from tether._foundation.arrow import Tabular
from tether._foundation.checks import whole_number
from tether._foundation.markup import Displayed
from tether._foundation.rounding import gain_of
from tether._foundation.words import number
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.errors import QueryError
from tether.influence.advisable import Advisable, make_advisable
from tether.influence.kappa import not_to_advise
from tether.influence.one_step import GivenInfluence as Influence
from tether.influence.rules import GivenRule as Rule
from tether.model.properties import Property, make_property
from tether.observation.changes import is_change
from tether.observation.earned import model_return
from tether.plan.hidden_types import TypedValues
from tether.plan.objective import asked, negated
from tether.plan.tether_record import tether
from tether.plan.typed_record import TypedRecord

if TYPE_CHECKING:
    import pyarrow

    from tether._kernels.vectors import StepRows
    from tether.core.thresholds import Forbidden


class Node(NamedTuple):
    """Where a plan can be: a state, the changes that are left, and which vector it follows."""

    state: int
    left: int
    vector: int


def worlds(cf: TypedRecord, objective: Property | None = None, minimise: bool = False) -> list[CounterfactualRecord]:
    """The counterfactual MDP of each possible type in which the values are returns; negated with ``minimise``."""
    make_property(objective)
    found = [asked(one, objective, minimise) for one in cf.by_type.values()]
    if not minimise:
        return found
    graphs = [negated(one.graph) for one in found]
    return [replace(one, mdp=graph.mdp, graph=graph) for one, graph in zip(found, graphs, strict=True)]


def typed_values(
    cf: TypedRecord,
    k: int | None,
    m: int,
    rule: Rule = "definition",
    influence: str | Influence = "support",
    objective: Property | None = None,
    minimise: bool = False,
    above: float = 0.0,
    every_m: bool = False,
    advisable: Advisable | None = None,
) -> TypedValues:
    """The vectors of all plans with at most m changes, within k for every type that is likelier than ``above``.

    ``advisable`` says which changes may be advised; those that are too rare in the log of such a type may not be.
    """
    if rule == "assured":
        raise QueryError("rule 'assured' counts the steps of one type; for hidden types: 'definition', or another")
    if not 0.0 <= above < 1.0:
        raise QueryError(f"above is a probability from 0 to below 1, not {above!r}")
    limits: list[Any] = []
    if k is not None:
        for one, share in zip(cf.by_type.values(), cf.shares, strict=True):
            limit = tether(one, rule, influence, objective, minimise).thresholds()
            limits.append(limit if share > above else None)
    found = worlds(cf, objective, minimise)
    graphs, models = [one.graph for one in found], [one.mdp for one in found]
    forbidden = _not_to_advise(cf, above, advisable)
    return TypedValues(models, graphs[0].observation, cf.shares, m, graphs, limits, k or 0, every_m, forbidden)


def _not_to_advise(cf: TypedRecord, above: float, advisable: Advisable | None) -> Forbidden | None:
    """Which pairs may not be advised: by ``advisable``, or seen too rarely in the log of a type."""
    models = [cf.types.models[name] for name, share in cf.posterior.items() if share > above]
    some = [one for mdp in models if (one := not_to_advise(mdp, advisable)) is not None]
    if not some:
        return None
    return lambda t, pairs: np.logical_or.reduce([one(t, pairs) for one in some])


def advisable_for(cf: TypedRecord, only: Any, never: Any) -> Advisable | None:
    """Which changes may be advised, checked with the names that all types have."""
    return make_advisable(next(iter(cf.types.models.values())), only, never)


@dataclass(frozen=True, eq=False, repr=False)
class TypedPlanRecord:
    """The best plan for an individual whose type was never recorded; `tether.records.TypedPlan` has the questions.

    Attributes
    ----------
    k, m : int
    value, observed_value : float
        What to expect of the plan, and of what was done, averaged over types: a return, or the chance of a property.
    best_possible : float
        No plan that does not see the type is worth more (with ``minimise``, less); ``value`` itself if it is ``exact``.
    exact : bool
    objective, minimise
        What was asked for.
    advisable
        Which changes may be advised; None if nothing was said about them.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.hidden_diabetes()
    >>> plan = tether.counterfactual(case.types, case.paths["unclear"]).plan(m=1)
    >>> plan
    <TypedPlan: k = 4, m = 1: value -162.6, observed -2,050>
    >>> {name: round(value, 1) for name, value in plan.values.items()}
    {'not diabetic': 122.6, 'diabetic': -542.8}
    """

    cf: TypedRecord
    k: int
    m: int
    value: float
    observed_value: float
    best_possible: float
    exact: bool
    objective: Property | None
    minimise: bool
    vectors: TypedValues
    root: int
    advisable: Advisable | None = None

    @classmethod
    def of(
        cls,
        cf: TypedRecord,
        k: int | None,
        m: int,
        rule: Rule,
        influence: str | Influence,
        objective: Property | None,
        minimise: bool,
        above: float,
        advisable: Advisable | None = None,
    ) -> Self:
        """The best plan; see `TypedCounterfactual.plan`."""
        T = cf.T
        limit = None if k is None or whole_number("k", k, 1) > T else k
        m = min(whole_number("m", m, 0), T)
        found = typed_values(cf, limit, m, rule, influence, objective, minimise, above, advisable=advisable)
        start, shares, sign = found.start, cf.shares, -1.0 if minimise else 1.0
        root = found.best(0, start, m, shares)
        value = float(shares @ found.vectors(0, start, m)[root])
        observed = float(shares @ [model_return(mdp, found.seen) for mdp in found.models])
        most = value
        if not found.exact:
            seeing = _seeing(cf, found, k, m, rule, influence, objective, minimise)
            most = max(value, min(seeing, value + found.lost))
        numbers, k = (sign * value, sign * observed, sign * most), T + 1 if limit is None else limit
        return cls(cf, k, m, *numbers, found.exact, objective, minimise, found, root, advisable)

    @property
    def gain(self) -> float:
        """What the plan gains over what was done."""
        return gain_of(self.value, self.observed_value, self.minimise)

    @property
    def sign(self) -> float:
        """-1 where the smallest value was asked for."""
        return -1.0 if self.minimise else 1.0

    @property
    def values(self) -> dict[str, float]:
        """The value of this plan for each type that the episode leaves possible."""
        found = self.sign * self.vectors.vectors(0, self.vectors.start, self.m)[self.root]
        return {name: float(value) for name, value in zip(self.cf.possible, found, strict=True)}

    def action(self, states: Iterable[Any]) -> Any:
        """What to do at step t, after the states s_0 … s_t were met; None if the plan does not lead there."""
        mdp, at, left = self.vectors.models[0], self.root, self.m
        met = list(states)
        for t, state in enumerate(met):
            s = mdp.state_index(state)
            if t == self.cf.T or (t == 0 and s != self.vectors.start):
                return None
            choice = self.vectors.choice(t, s, left, at)
            if t + 1 == len(met):
                return mdp.actions[choice.action]
            after = mdp.state_index(met[t + 1])
            if after not in choice.after:
                return None
            left -= self.vectors.changes(t, s, choice.action)
            at = choice.after[after]
        return None

    @property
    def interval(self) -> tuple[float, float] | None:
        """For two types: the probabilities of the first one, after the episode, for which this stays the best plan.

        None for another number of types that are possible, or if the plan is not `exact`. `prior_intervals` says the
        same of the prior, for any number of types.
        """
        if len(self.cf.possible) != 2 or len(self.cf.types.models) != 2 or not self.exact:
            return None
        found = self.vectors.vectors(0, self.vectors.start, self.m)
        mine, low, high = found[self.root], 0.0, 1.0
        for other in found:
            lead, slope = mine[1] - other[1], (mine[0] - other[0]) - (mine[1] - other[1])
            if slope > 1e-15:
                low = max(low, -lead / slope)
            elif slope < -1e-15:
                high = min(high, -lead / slope)
        return float(low), float(high)

    @property
    def prior_intervals(self) -> dict[str, tuple[float, float]]:
        """For each type, how likely it may be before the episode for this to stay the best plan.

        The other types share the rest as they do now. Empty if the plan is not `exact`, or if a type is certain before.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.hidden_diabetes()
        >>> cf = tether.counterfactual(case.types, case.paths["unclear"])
        >>> {name: (round(low, 2), round(high, 2)) for name, (low, high) in cf.plan(m=1).prior_intervals.items()}
        {'not diabetic': (0.0, 1.0), 'diabetic': (0.0, 1.0)}
        """
        prior = self.cf.types.prior(self.cf.path.states[0])
        if not self.exact or max(prior.values()) >= 1.0:
            return {}
        names = self.cf.possible
        before = np.array([prior[name] for name in names])
        like = self.cf.shares / before
        found = self.vectors.vectors(0, self.vectors.start, self.m)
        ahead = (found[self.root] - found) * like  # by how much it is better than each, for each type
        return {
            name: _where_ahead(ahead, before, np.array([one == name for one in names]), prior[name]) for name in prior
        }

    @property
    def prior_interval(self) -> tuple[float, float] | None:
        """`prior_intervals` of the first of two types; None for another number of types.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.hidden_diabetes()
        >>> cf = tether.counterfactual(case.types, case.paths["unclear"])
        >>> [round(end, 2) for end in cf.plan(m=1).prior_interval]
        [0.0, 1.0]
        """
        found = self.prior_intervals
        return next(iter(found.values())) if len(self.cf.types.models) == 2 and found else None

    def onward(self, t: int, node: Node, rows: StepRows) -> Iterator[tuple[Node, int]]:
        """The nodes that can follow a node, each with its place in the ``rows`` of the step."""
        choice = self.vectors.choice(t, *node)
        left = node.left - self.vectors.changes(t, node.state, choice.action)
        pair = self.vectors.models[0].find_pair(node.state, choice.action)
        for place in range(int(rows.row_start[pair]), int(rows.row_start[pair + 1])):
            if rows.probability[place].any():
                state = int(rows.next_state[place])
                yield Node(state, min(left, self.cf.T - t - 1), choice.after[state]), place

    @cached_property
    def occupancy(self) -> tuple[dict[Node, Floats], ...]:
        """For t = 0 … T the nodes that the plan can visit, with the probability of each for each type (given it)."""
        found: list[dict[Node, Floats]] = [
            {Node(self.vectors.start, self.m, self.root): np.ones(len(self.vectors.models))}
        ]
        for t in range(self.cf.T):
            rows, after = self.vectors.step(t), dict[Node, Any]()
            for node, mass in found[-1].items():
                for one, place in self.onward(t, node, rows):
                    after[one] = after.get(one, 0.0) + mass * rows.probability[place]
            found.append({node: mass for node, mass in after.items() if mass @ self.cf.shares > 0.0})
        return tuple(found)

    def changed_pairs(self) -> set[int]:
        """The pairs of state and action, by index, that the plan takes in place of what was done."""
        mdp, found = self.vectors.models[0], set[int]()
        for t, nodes in enumerate(self.occupancy[:-1]):
            for node in nodes:
                action = self.vectors.choice(t, *node).action
                pair = mdp.find_pair(node.state, action)
                if is_change(mdp.form, np.array([node.state]), np.array([pair]), int(self.vectors.seen.actions[t]))[0]:
                    found.add(pair)
        return found

    def distribution(self, t: int) -> dict[Any, float]:
        """States that can be at time t = 0 … T if the plan is followed, and their probabilities."""
        found: dict[Any, float] = {}
        for node, mass in self.occupancy[t].items():
            name = self.vectors.models[0].states[node.state]
            found[name] = found.get(name, 0.0) + float(mass @ self.cf.shares)
        return found

    def __repr__(self) -> str:
        up_to = "" if self.exact else f" to {number(self.best_possible)}"
        value, observed = number(self.value), number(self.observed_value)
        return f"<TypedPlan: k = {self.k}, m = {self.m}: value {value}{up_to}, observed {observed}>"


def _where_ahead(ahead: Floats, before: Floats, own: Flags, share: float) -> tuple[float, float]:
    """Between which shares of one type, ``own``, no other plan is better; the others keep their proportions."""
    with_it = ahead @ own.astype(np.float64)
    without = ahead @ np.where(own, 0.0, before) / (1.0 - share)
    slope = with_it - without
    crosses = -without / np.where(slope == 0.0, 1.0, slope)
    scale = 1e-15 * np.maximum(1.0, np.abs(ahead).max(axis=1))
    low = crosses[(slope > scale) & (without < 0.0)].max(initial=0.0)
    high = crosses[(slope < -scale) & (with_it < 0.0)].min(initial=1.0)
    return float(low), float(high)


def _seeing(
    cf: TypedRecord,
    found: TypedValues,
    k: int | None,
    m: int,
    rule: Rule,
    influence: str | Influence,
    objective: Property | None,
    minimise: bool,
) -> float:
    """What no plan can exceed: the value for somebody who sees the type."""
    total, sign = 0.0, -1.0 if minimise else 1.0
    for share, one, limit in zip(
        cf.shares, cf.by_type.values(), found.thresholds or [None] * len(cf.shares), strict=True
    ):
        own = cf.T + 1 if limit is None or k is None else k
        total += float(share) * sign * tether(one, rule, influence, objective, minimise).plan(own, m).value
    return total


@dataclass(frozen=True, eq=False, repr=False)
class TypedSweep(Tabular, Displayed):
    r"""The value of the best plan for every k and m, for an individual whose type was never recorded.

    Attributes
    ----------
    ks, ms : tuple of int
    values : array (ks, ms)
    exact : array (ks,)
        Whether the values are the largest possible; otherwise they are those of plans that were found.
    observed_value : float
    minimise : bool

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.hidden_diabetes()
    >>> print(tether.counterfactual(case.types, case.paths["unclear"]).sweep(ms=[0, 1, 2]))
     k \ m        0        1        2
         1   -2,050   -2,050   -2,050
         2   -2,050   -2,050   -2,050
         3   -2,050   -162.6   -3.309
         4   -2,050   -162.6   -3.309
    """

    ks: tuple[int, ...]
    ms: tuple[int, ...]
    values: Floats
    exact: tuple[bool, ...]
    observed_value: float
    minimise: bool = False

    def value(self, k: int, m: int) -> float:
        """The value for one k and m of the table."""
        if k not in self.ks or m not in self.ms:
            raise QueryError(f"the sweep does not have k = {k}, m = {m}")
        return float(self.values[self.ks.index(k), self.ms.index(m)])

    @property
    def gains(self) -> Floats:
        """By how much each value is better than what was done."""
        return gain_of(self.values, self.observed_value, self.minimise)

    def to_arrow(self) -> pyarrow.Table:
        """One row for each k and m: k, m, value, gain, exact."""
        import pyarrow as pa

        cells = [(i, j) for i in range(len(self.ks)) for j in range(len(self.ms))]
        value = [float(self.values[cell]) for cell in cells]
        return pa.table({
            "k": [self.ks[i] for i, _ in cells],
            "m": [self.ms[j] for _, j in cells],
            "value": value,
            "gain": [gain_of(one, self.observed_value, self.minimise) for one in value],
            "exact": [self.exact[i] for i, _ in cells],
        })  # fmt: skip

    def __str__(self) -> str:
        lines = [" k \\ m" + "".join(f"{m:9d}" for m in self.ms)]
        lines += [
            f"{k:6d}" + "".join(f"{number(value):>9}" for value in row)
            for k, row in zip(self.ks, self.values.tolist(), strict=True)
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        span = f"{number(self.values.min())} … {number(self.values.max())}"
        return f"<TypedSweep: {len(self.ks)} k, {len(self.ms)} m, values {span}>"


def typed_sweep(
    cf: TypedRecord, ks: Iterable[int] | None, ms: Iterable[int] | None, about: Mapping[str, Any]
) -> TypedSweep:
    """The best value for every k and m; ``about`` has the further arguments of `typed_values`."""
    T = cf.T
    rows = tuple(range(1, T + 2)) if ks is None else tuple(whole_number("k", k, 1) for k in ks)
    columns = tuple(range(T + 1)) if ms is None else tuple(whole_number("m", m, 0) for m in ms)
    if not rows or not columns:
        raise QueryError("a sweep needs at least one k and one m")
    sign = -1.0 if about.get("minimise") else 1.0
    known: dict[int, tuple[list[float], bool]] = {}
    steps = _steps(cf, about)
    for k in rows:
        place = int(np.searchsorted(steps, k, side="right"))
        if place not in known:
            most = min(max(columns), T)
            found = typed_values(cf, k if k <= T else None, most, **about, every_m=True)
            known[place] = [float((found.vectors(0, found.start, m) @ cf.shares).max()) for m in columns], found.exact
    values = np.array([known[int(np.searchsorted(steps, k, side="right"))][0] for k in rows])
    exact = tuple(known[int(np.searchsorted(steps, k, side="right"))][1] for k in rows)
    asked_in = worlds(cf, about.get("objective"), bool(about.get("minimise")))
    observed = float(cf.shares @ [model_return(one.mdp, one.observation) for one in asked_in])
    return TypedSweep(rows, columns, sign * values, exact, sign * observed, bool(about.get("minimise")))


def _steps(cf: TypedRecord, about: Mapping[str, Any]) -> list[int]:
    """The values of k at which anything changes for any type."""
    asked_for = {name: about[name] for name in ("rule", "influence", "objective", "minimise") if name in about}
    kappa = [
        np.unique(np.concatenate([*tether(one, **asked_for).thresholds().kappa, [1, cf.T + 1]]))
        for one in cf.by_type.values()
    ]
    return [int(k) for k in np.unique(np.concatenate(kappa))]
