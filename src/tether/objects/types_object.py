"""`Types`: models of individuals whose type was never recorded; what an episode says of it, and plans that use that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tether._foundation.arrays import Floats
from tether._foundation.checks import whole_number
from tether._foundation.markup import Displayed
from tether._foundation.rounding import gain_of
from tether._foundation.words import number, percent
from tether.errors import PathError, Problem, QueryError
from tether.model.model_record import ModelRecord
from tether.objects.counterfactual_object import CounterfactualMDP
from tether.observation.changes import is_change
from tether.observation.path import Path
from tether.plan.hidden_types import TypedValues, worst_and_best

__all__ = ["TypedCounterfactual", "TypedPlan", "Types"]


class Types:
    """Models of several types of individuals, of which the log does not say who is which.

    Parameters
    ----------
    models : mapping
        The model of each type, by name. All have the same states and actions, and the same actions in each state.
    prior : mapping
        How likely each type is, before the episode is seen; a number, or a mapping from first states to numbers.

    Examples
    --------
    >>> import tether
    >>> def ward(dies):
    ...     rows = [("sick", "wait", "dead", dies), ("sick", "wait", "sick", 1 - dies), ("sick", "treat", "well", 1.0)]
    ...     return tether.MDP.from_table(*zip(*rows), terminal=["dead", "well"])
    >>> types = tether.Types({"frail": ward(0.9), "robust": ward(0.1)}, prior={"frail": 0.2, "robust": 0.8})
    >>> types
    <Types: frail 20 %, robust 80 %>
    >>> cf = tether.counterfactual(types, tether.Path(["sick", "sick", "dead"], ["wait", "wait"]))
    >>> {name: round(share, 2) for name, share in cf.posterior.items()}
    {'frail': 0.2, 'robust': 0.8}
    """

    def __init__(self, models: Mapping[str, ModelRecord], prior: Mapping[str, Any]) -> None:
        if not models:
            raise QueryError("there must be at least one type: tether.Types({'a name': mdp}, prior={'a name': 1.0})")
        if set(models) != set(prior):
            raise QueryError(
                f"prior must name the types {', '.join(map(repr, models))}, not {', '.join(map(repr, prior))}"
            )
        self.models, self._prior = dict(models), dict(prior)
        first = next(iter(models.values()))
        for name, mdp in models.items():
            same = tuple(mdp.states) == tuple(first.states) and tuple(mdp.actions) == tuple(first.actions)
            same = same and np.array_equal(mdp.form.pair_start, first.form.pair_start)
            if not same or not np.array_equal(mdp.form.pair_action, first.form.pair_action):
                message = f"the model of type {name!r} has other states, or other actions, than the first"
                raise QueryError(Problem(message, value=name, fix="build all models with the same names"))
            if mdp.discount != first.discount:
                raise QueryError(f"the model of type {name!r} has another discount than the first")
        if not any(isinstance(share, Mapping) for share in self._prior.values()):
            self.prior(None)

    def prior(self, state: Any) -> dict[str, float]:
        """How likely each type is in an episode that begins in a state."""
        found = {}
        for name in self.models:
            share = self._prior[name]
            if isinstance(share, Mapping):
                if state not in share:
                    raise QueryError(Problem(f"prior says nothing of type {name!r} in state {state!r}", state))
                share = share[state]
            found[name] = float(share)
        total = sum(found.values())
        if min(found.values()) < 0 or abs(total - 1.0) > 1e-9:
            raise QueryError(f"prior is not a distribution: {', '.join(f'{one:g}' for one in found.values())}")
        return found

    def __repr__(self) -> str:
        if any(isinstance(share, Mapping) for share in self._prior.values()):
            return f"<Types: {', '.join(self.models)}; the prior depends on the first state>"
        return f"<Types: {', '.join(f'{name} {percent(share)}' for name, share in self.prior(None).items())}>"


@dataclass(frozen=True, eq=False, repr=False)
class TypedCounterfactual(Displayed):
    """What an episode says of the hidden type, and what should have been done; made by `tether.counterfactual`.

    Attributes
    ----------
    types : Types
    path : Path

    Examples
    --------
    >>> import tether
    >>> def ward(dies):
    ...     rows = [("sick", "wait", "dead", dies), ("sick", "wait", "sick", 1 - dies), ("sick", "treat", "well", 1.0)]
    ...     return tether.MDP.from_table(*zip(*rows), terminal=["dead", "well"])
    >>> types = tether.Types({"frail": ward(0.9), "robust": ward(0.1)}, prior={"frail": 0.2, "robust": 0.8})
    >>> tether.counterfactual(types, tether.Path(["sick", "dead"], ["wait"]))
    <TypedCounterfactual: 1 step; frail 69 %, robust 31 %>
    """

    types: Types
    path: Path

    @cached_property
    def posterior_over_time(self) -> dict[str, Floats]:
        """The probability of each type before the first step and after each: arrays of T + 1 numbers."""
        states, actions = self.path.states, self.path.actions
        weights = [np.array(list(self.types.prior(states[0]).values()))]
        for s, a, after in zip(states, actions, [*states[1:], None], strict=False):
            seen = weights[-1].copy()
            if after is not None:
                rows = [dict(zip(*mdp.row(s, a), strict=True)) for mdp in self.types.models.values()]
                seen *= [row.get(after, 0.0) for row in rows]
            if seen.sum() <= 0.0:
                raise PathError(
                    Problem(f"no type can go from {s!r} with {a!r} to {after!r}", s, a, time=len(weights) - 1)
                )
            weights.append(seen / seen.sum())
        table = np.array(weights)
        return {name: table[:, i] for i, name in enumerate(self.types.models)}

    @property
    def posterior(self) -> dict[str, float]:
        """What the episode says of the type: the probability of each."""
        return {name: float(shares[-1]) for name, shares in self.posterior_over_time.items()}

    @cached_property
    def by_type(self) -> dict[str, CounterfactualMDP]:
        """The counterfactual MDP of each type that the episode leaves possible."""
        some = {name for name, share in self.posterior.items() if share > 0.0}
        return {n: CounterfactualMDP.of(mdp, self.path) for n, mdp in self.types.models.items() if n in some}

    def strength(self, t: int, state: Any, action: Any, channel: str = "total") -> float:
        """How much the episode changes what is to be expected of an action at step t, as a total variation.

        The ``"luck"`` of the step changes the row of each type; what the episode says of the ``"type"`` changes how
        much each type counts. The ``"total"`` is at most their sum. The second does not fade with time; k counts luck.

        Examples
        --------
        >>> import tether
        >>> def ward(dies):
        ...     rows = [("sick", "wait", "dead", dies), ("sick", "wait", "sick", 1 - dies)]
        ...     rows += [("sick", "treat", "well", 1.0)]
        ...     return tether.MDP.from_table(*zip(*rows), terminal=["dead", "well"])
        >>> types = tether.Types({"frail": ward(0.9), "robust": ward(0.1)}, prior={"frail": 0.2, "robust": 0.8})
        >>> cf = tether.counterfactual(types, tether.Path(["sick", "dead"], ["wait"]))
        >>> [round(cf.strength(0, "sick", "wait", channel), 2) for channel in ("luck", "type", "total")]
        [0.35, 0.39, 0.74]
        """
        if channel not in ("total", "luck", "type"):
            raise QueryError(f"channel must be 'total', 'luck' or 'type', not {channel!r}")
        prior = self.types.prior(self.path.states[0])
        mixed: tuple[dict[Any, float], ...] = ({}, {}, {})
        for name, mdp in self.types.models.items():
            share, plain = self.posterior[name], dict(zip(*mdp.row(state, action), strict=True))
            own = dict(zip(*self.by_type[name].row(t, state, action), strict=True)) if share > 0 else {}
            for into, weight, row in zip(mixed, (share, share, prior[name]), (own, plain, plain), strict=True):
                for j, chance in row.items():
                    into[j] = into.get(j, 0.0) + weight * float(chance)
        one, other = {"luck": mixed[:2], "type": mixed[1:], "total": mixed[::2]}[channel]
        return 0.5 * sum(abs(one.get(j, 0.0) - other.get(j, 0.0)) for j in one.keys() | other.keys())

    def plan(self, k: int | None = None, m: int = 1) -> TypedPlan:
        """The best plan for somebody who sees states, not the type, and may learn the type on the way.

        A pair is allowed if it is allowed within ``k`` for every type that the episode leaves possible; by default
        there is no tether. With one or two types, and with m = 1, it is the best; otherwise `TypedPlan.exact` says so.

        Examples
        --------
        >>> import tether
        >>> def ward(dies):
        ...     rows = [("sick", "wait", "dead", dies), ("sick", "wait", "sick", 1 - dies)]
        ...     rows += [("sick", "treat", "dead", 0.3), ("sick", "treat", "well", 0.7)]
        ...     mdp = tether.MDP.from_table(*zip(*rows), terminal=["dead", "well"])
        ...     return mdp.with_objective(final_reward={"well": 1.0, "sick": 0.5})
        >>> types = tether.Types({"frail": ward(0.9), "robust": ward(0.1)}, prior={"frail": 0.2, "robust": 0.8})
        >>> plan = tether.counterfactual(types, tether.Path(["sick", "sick", "dead"], ["wait", "wait"])).plan(m=1)
        >>> plan.action(["sick"]), plan.exact
        ('treat', True)
        """
        cfs = list(self.by_type.values())
        T = cfs[0].T
        k = T + 1 if k is None else whole_number("k", k, 1)
        posterior = np.array([self.posterior[name] for name in self.by_type])
        values = TypedValues(cfs, posterior, k)
        m = min(whole_number("m", m, 0), T)
        start = int(cfs[0].observation.states[0])
        number_ = values.best(0, start, m, posterior)
        value = float(posterior @ values.at(0, start, m)[number_].values)
        most = value
        if not values.exact:
            most = float(sum(p * cf.plan(k=k, m=m).value for p, cf in zip(posterior, cfs, strict=True)))
        observed = float(posterior @ values.at(0, start, 0)[values.best(0, start, 0, posterior)].values)
        return TypedPlan(self, k, m, value, observed, most, values.exact, values, number_)

    def __repr__(self) -> str:
        shares = ", ".join(f"{name} {percent(share)}" for name, share in self.posterior.items())
        steps = len(self.path.actions)
        return f"<TypedCounterfactual: {steps} step{'' if steps == 1 else 's'}; {shares}>"


@dataclass(frozen=True, eq=False, repr=False)
class TypedPlan(Displayed):
    """The best plan for an individual whose type was never recorded; made by `TypedCounterfactual.plan`.

    Attributes
    ----------
    k, m : int
    value, observed_value : float
        The expected return with the plan, and with what was done.
    best_possible : float
        No plan that does not see the type is worth more; ``value`` itself if the plan is ``exact``.
    exact : bool

    Examples
    --------
    >>> import tether
    >>> def ward(dies):
    ...     rows = [("sick", "wait", "dead", dies), ("sick", "wait", "sick", 1 - dies)]
    ...     rows += [("sick", "treat", "dead", 0.3), ("sick", "treat", "well", 0.7)]
    ...     mdp = tether.MDP.from_table(*zip(*rows), terminal=["dead", "well"])
    ...     return mdp.with_objective(final_reward={"well": 1.0})
    >>> types = tether.Types({"frail": ward(0.9), "robust": ward(0.1)}, prior={"frail": 0.5, "robust": 0.5})
    >>> plan = tether.counterfactual(types, tether.Path(["sick", "dead"], ["wait"])).plan(m=1)
    >>> plan
    <TypedPlan: k = 2, m = 1: value 0.6286, observed 0>
    >>> {name: round(value, 3) for name, value in plan.values.items()}
    {'frail': 0.667, 'robust': 0.286}
    """

    cf: TypedCounterfactual
    k: int
    m: int
    value: float
    observed_value: float
    best_possible: float
    exact: bool
    _values: TypedValues
    _root: int

    @property
    def gain(self) -> float:
        """What the plan gains over what was done."""
        return gain_of(self.value, self.observed_value)

    @property
    def values(self) -> dict[str, float]:
        """The value of this plan for each type that the episode leaves possible."""
        start = int(self._values.cfs[0].observation.states[0])
        found = self._values.at(0, start, self.m)[self._root].values
        return {name: float(value) for name, value in zip(self.cf.by_type, found, strict=True)}

    def action(self, states: list[Any]) -> Any:
        """What to do at step t, after the states s_0 … s_t were met; None if the plan does not lead there."""
        first = self._values.cfs[0]
        mdp, at, left = first.mdp, self._root, self.m
        for t, state in enumerate(states):
            s = mdp.state_index(state)
            if t == first.T or (t == 0 and s != int(first.observation.states[0])):
                return None
            choice = self._values.at(t, s, left)[at]
            if t + 1 == len(states):
                return mdp.actions[choice.action]
            after = mdp.state_index(states[t + 1])
            if after not in choice.after:
                return None
            pair = np.array([mdp.find_pair(s, choice.action)])
            left -= int(is_change(mdp.form, np.array([s]), pair, int(first.observation.actions[t]))[0])
            at = choice.after[after]
        return None

    @property
    def interval(self) -> tuple[float, float] | None:
        """For two types: the posterior probabilities of the first one for which this stays the best plan."""
        if len(self._values.cfs) != 2 or not self.exact:
            return None
        start = int(self._values.cfs[0].observation.states[0])
        found = self._values.at(0, start, self.m)
        mine, low, high = found[self._root].values, 0.0, 1.0
        for other in found:
            lead, slope = mine[1] - other.values[1], (mine[0] - other.values[0]) - (mine[1] - other.values[1])
            if slope > 1e-15:
                low = max(low, -lead / slope)
            elif slope < -1e-15:
                high = min(high, -lead / slope)
        return float(low), float(high)

    def certify(self) -> tuple[float, float]:
        """The worst and the best value under every causal model in which luck is unrelated: Σ_z ρ_z·(that of type z).

        Where only other causal models than Gumbel-max lead, the plan takes the observed action; if that is not
        available, the worst (best) of all counts.

        Examples
        --------
        >>> import tether
        >>> def ward(dies):
        ...     rows = [("sick", "wait", "dead", dies), ("sick", "wait", "sick", 1 - dies)]
        ...     rows += [("sick", "treat", "dead", 0.3), ("sick", "treat", "well", 0.7)]
        ...     mdp = tether.MDP.from_table(*zip(*rows), terminal=["dead", "well"])
        ...     return mdp.with_objective(final_reward={"well": 1.0})
        >>> types = tether.Types({"frail": ward(0.9), "robust": ward(0.1)}, prior={"frail": 0.5, "robust": 0.5})
        >>> plan = tether.counterfactual(types, tether.Path(["sick", "dead"], ["wait"])).plan(m=1)
        >>> [round(end, 3) for end in plan.certify()]
        [0.6, 0.8]
        """
        shares = [self.cf.posterior[name] for name in self.cf.by_type]
        ends = [worst_and_best(self._values, z, self._root, self.m) for z in range(len(shares))]
        worst, best = (float(np.dot(shares, side)) for side in zip(*ends, strict=True))
        return worst, best

    def __repr__(self) -> str:
        up_to = "" if self.exact else f" to {number(self.best_possible)}"
        value, observed = number(self.value), number(self.observed_value)
        return f"<TypedPlan: k = {self.k}, m = {self.m}: value {value}{up_to}, observed {observed}>"
