"""What a plan for hidden types is worth, whatever the causal model of each type is.

Given the type the world is as for a single model, and the episode says the same of the type under all its causal
models: the probability of what happened is that of the MDP. So each worst and best value is Σ_z ρ_z·(that of type z),
as exact as for one model. Hidden causes come anew at each step, within each type; who is of which type was hidden
from those who acted.

A plan for hidden types, followed wherever some causal model of one type leads.

A node remembers which vector the plan follows there. Where an outcome is possible for no type under Gumbel-max, it
follows the vector that is best for the posterior. Nodes that Gumbel-max does not lead to at all are unknown to it: it
takes the observed action there; if that is not available, every action is followed, and the worst (best) counts.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np

from tether._foundation.arrays import Flags, Floats, Ints
from tether._foundation.arrow import Tabular
from tether._foundation.markup import Displayed
from tether._foundation.rounding import gain_of, rounding_of
from tether._foundation.words import counted, number
from tether.conditioning.model_sets import (
    UNRELATED_LUCK,
    ModelSet,
    check_gamma,
    is_practice_assumed,
    left_with_hidden_causes,
    model_set,
)
from tether.core.chain import Taken, Visits
from tether.errors import QueryError
from tether.evaluation.following import Followed, follow, or_as_observed, walk
from tether.evaluation.plan_risk import Chances, Risk, chances_over, replays_in_words, risk_over_types
from tether.evaluation.ranges import PolicyValues, related_range
from tether.evaluation.sightings import ENOUGH
from tether.model.practice import strongest_in_words
from tether.model.properties import Property
from tether.plan.best_values import observed_value
from tether.plan.objective import asked, asked_set
from tether.plan.policy import shares_of_pairs
from tether.plan.typed_plan import TypedPlanRecord
from tether.plan.typed_record import TypedRecord


class TypeFollowed:
    """A plan or policy followed under the causal models of one type; ``models`` are those without the property."""

    def __init__(self, models: ModelSet, followed: Followed, objective: Property | None) -> None:
        self.models, self.followed, self.objective = models, followed, objective

    @classmethod
    def of_plan(cls, models: ModelSet, plan: TypedPlanRecord) -> Self:
        """A plan for hidden types."""
        followed = _follow(asked_set(models, plan.objective, plan.minimise), plan)
        return cls(models, followed, plan.objective)

    @classmethod
    def of_policy(cls, models: ModelSet, policy: Any, objective: Property | None, minimise: bool) -> Self:
        """A policy of the state, which does not see the type."""
        return cls(models, follow(models, policy, objective, minimise), objective)

    @property
    def value(self) -> float:
        """Value of the plan under Gumbel-max."""
        return PolicyValues(asked_set(self.models, self.objective), self.followed).at(0.0)[0]

    def extreme(self, gamma: float, share: Floats, side: float) -> float:
        """The smallest (``side`` = 1) or largest (-1) value, with hidden causes up to ``gamma``."""
        models = asked_set(self.models.confounded(gamma, share), self.objective)
        return PolicyValues(models, self.followed).at(1.0, side)[0]

    def related(self, observed: float) -> tuple[float, float]:
        """The smallest and the largest value if the luck of different steps may be related in any way."""
        return related_range(self.models, self.followed, self.objective, observed)


def _follow(models: ModelSet, plan: TypedPlanRecord) -> Followed:
    """Nodes remember, as their run, the number of their vector and 1; 0 where the plan does not know the node."""
    values, form = plan.vectors, models.gumbel.mdp.form
    place = values.rows.places(form)

    shares = plan.cf.shares

    def cells(t: int, states: Ints, changes: Ints) -> Ints:
        layer = values.layers[t]
        return np.where(
            layer.place[states] >= 0, layer.place[states] * layer.columns + np.minimum(changes, layer.columns - 1), -1
        )

    @lru_cache(maxsize=2)
    def likely(t: int) -> Ints:
        """For each node of a layer, and for none at the end, the number and 1 of the vector best for the posterior."""
        start, worth = values.layers[t].start, values.layers[t].values @ shares
        best = [int(np.argmax(worth[i:j])) + 1 if j > i else 0 for i, j in itertools.pairwise(start.tolist())]
        return np.array([*best, 0])

    followed: dict[int, Ints] = {}

    def decide(t: int, visits: Visits, met: Flags) -> tuple[Taken, Flags]:
        layer = values.layers[t]
        known = met & (visits.runs > 0)
        first = layer.start[np.maximum(cells(t, visits.states, visits.changes), 0)]
        followed[t] = np.where(known, first + visits.runs - 1, -1)
        pairs = np.where(known, layer.pair[np.where(known, followed[t], 0)], -1)
        taken, undecided = or_as_observed(models, t, visits, pairs)
        left = np.maximum(visits.changes[taken.source] - values.changed(t)[taken.pairs], 0)
        return replace(taken, changes=left), undecided

    def onward(t: int, _visits: Visits, taken: Taken, owner: Ints, entries: Ints) -> Ints:
        layer, found = values.layers[t], followed.pop(t)[taken.source][owner]
        left = np.minimum(taken.changes, values.T - t - 1)[owner]
        runs = likely(t + 1)[cells(t + 1, form.next_state[entries], left)]
        known = np.flatnonzero(found >= 0)
        begin = values.rows.row_start[taken.pairs[owner[known]]]
        after = layer.back[layer.back_start[found[known]] + place[entries[known]] - begin]
        runs[known] = np.where(after >= 0, after + 1, runs[known])
        return runs

    start = Visits(*(np.array([one]) for one in (values.start, min(plan.m, values.T), plan.root + 1)))
    return walk(models, start, decide, onward)


_UNLIKELY = 0.05
"""Types that are less likely do not decide whether an advised action was seen often enough."""


@dataclass(frozen=True, slots=True)
class TypedCertificate(Tabular, Displayed):
    """The worst and the best value of a plan over every causal model of each type; made by `TypedPlan.certify`.

    Each is Σ_z ρ_z·(that of type z).

    Attributes
    ----------
    nothing : (float, float)
        The worst and the best over every causal model in which the luck of one step says nothing about the luck of
        another, given the type.
    worst, best : float
        With hidden causes up to ``gamma`` as well.
    gamma : float
        How strong these are: they change the odds of every action at most so many times, at each step anew. 1 is none.
    gamma_star : float
        How strong hidden causes must be to undo the gain; infinite if none can, 1 if no gain is guaranteed.
    worse, better : (float, float) or None
        (smallest, largest) chance that a single replay ends worse, and better, than what happened, as of
        `tether.records.Certificate`; None where they were not computed.
    related : (float, float)
        The worst and the best if, given the type, the luck of different steps may be related in any way: bounds that
        hold, and are not always attained.
    value, observed_value : float
        Under Gumbel-max, and of what was done.
    by_type : mapping of name to (worst, best)
        ``nothing`` of each type.
    objective, minimise
        What the plan was made for.
    practice_assumed : bool
        As of `tether.records.Certificate`.
    compared : str
        As of `tether.records.Certificate`.
    episodes, least_seen : int or None
        For learned models: from how many episodes, and how often the log of some type has the advised action that it
        has least often; types that are less than 5 % likely do not count. None if nothing is advised, and of a policy.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> types = tether.Types({"any": case.mdp}, prior={"any": 1.0})
    >>> found = tether.counterfactual(types, case.path).plan(k=3, m=1).certify(gamma=2.0)
    >>> round(found.worst, 3), round(found.gamma_star, 3), [round(end, 3) for end in found.related]
    (-37.309, 5.547, [-37.137, -37.0])
    """

    nothing: tuple[float, float]
    worst: float
    best: float
    gamma: float
    gamma_star: float
    related: tuple[float, float]
    value: float
    observed_value: float
    by_type: dict[str, tuple[float, float]]
    objective: Property | None = None
    minimise: bool = False
    practice_assumed: bool = False
    compared: str = ""
    episodes: int | None = None
    least_seen: int | None = None
    worse: tuple[float, float] | None = None
    better: tuple[float, float] | None = None

    @property
    def verdict(self) -> str:
        """Whether the gain holds.

        ``"holds"`` if even the worst is a gain, ``"never worse"`` if it is what happened, ``"fails"`` if not even the
        best is a gain, otherwise ``"open"``. ``"seen too rarely"`` in place of the first for learned models, as of
        `tether.records.Certificate`.
        """
        margin, sign = rounding_of(self.observed_value), -1.0 if self.minimise else 1.0
        least, most = (sign * (end - self.observed_value) for end in self.nothing)
        if least > margin:
            rarely = self.least_seen is not None and self.least_seen < ENOUGH
            return "seen too rarely" if rarely else "holds"
        if most <= margin:
            return "fails"
        return "never worse" if least >= -margin else "open"

    @property
    def hidden_causes(self) -> list[str]:
        """What is left of the gain with hidden causes of actions and outcomes; empty if there is no gain to lose.

        Examples
        --------
        >>> import tether
        >>> case = tether.cases.epidemic()
        >>> types = tether.Types({"any": case.mdp}, prior={"any": 1.0})
        >>> print(*tether.counterfactual(types, case.path).plan(k=3, m=1).certify(practice="random").hidden_causes)
        The gain survives hidden reasons that changed the odds of an action by less than 5.54 times.
        """
        star = self.gamma_star if self.verdict == "holds" else None
        left = left_with_hidden_causes(self.gamma, _span(self.worst, self.best), star, self.practice_assumed)
        return [*left, self.compared] if star is not None and self.compared else left

    def to_arrow(self) -> Any:
        """One row per assumption: assume, worst, best, the guaranteed gain."""
        import pyarrow as pa

        named = {"nothing": self.nothing, "hidden causes": (self.worst, self.best), "related luck": self.related}
        worst, best = zip(*named.values(), strict=True)
        gains = [gain_of(one, self.observed_value, self.minimise) for one in worst]
        return pa.table({"assume": list(named), "worst": worst, "best": best, "gain": gains})

    def __str__(self) -> str:
        what = {
            "holds": "It is expected to do better than what happened",
            "seen too rarely": "No gain can be said to hold",
            "never worse": "It is not expected to do worse than what happened",
            "open": "Whether it is expected to do better than what happened depends on the causal model",
            "fails": "It is not expected to do better than what happened",
        }[self.verdict]
        if self.verdict == "never worse" and self.worse is not None and self.worse[1] == 0.0:
            what = "It could not have ended worse"
        over = f"every causal model of each type {UNRELATED_LUCK}"
        value = "expected return" if self.objective is None else f"chance that {self.objective.in_words}"
        said = [f"{what}: over {over}, the {value} is {_span(*self.nothing)}; observed {number(self.observed_value)}."]
        if self.verdict == "seen too rarely":
            seen = "once" if self.least_seen == 1 else counted(self.least_seen or 0, "time")
            said.append(f"But an advised action was seen {seen} in somebody of a type, and {ENOUGH} times are needed.")
        elif self.verdict == "never worse":
            said.append("That it does better rests on an assumption that no data can test.")
        if self.episodes is not None and self.verdict != "fails":
            said.append("This takes the learned probabilities as right.")
        wider = _span(*self.related)
        if wider != _span(*self.nothing):
            lost = self.verdict == "holds" and gain_of(self.related[0], self.observed_value, self.minimise) <= 0.0
            guaranteed = ", and no gain is guaranteed" if lost else ""
            said.append(f"If the luck of different steps may be related, it is {wider}{guaranteed}.")
        return " ".join([*said, *replays_in_words(self.worse), *self.hidden_causes])


def typed_certificate(
    plan: TypedPlanRecord, gamma: float = 1.0, practice: Any = None, *, compare: bool = True
) -> TypedCertificate:
    """The certificate of a plan; ``practice`` says how often each action is usually taken, of whatever type one is.

    ``compare``: whether to say how strong a recorded variable would have been, and how single replays may end.
    """
    followed = [TypeFollowed.of_plan(model_set(one, "nothing"), plan) for one in plan.cf.by_type.values()]
    values = plan.value, plan.observed_value
    found = _certified(plan.cf, followed, values, plan.objective, plan.minimise, gamma, practice)
    compared = strongest_in_words(plan.cf.types.together) if compare and 1.0 < found.gamma_star < np.inf else ""
    worse, better = _chances(plan, followed) if compare else (None, None)
    return replace(found, least_seen=_least_seen(plan), compared=compared, worse=worse, better=better)


def _chances(plan: TypedPlanRecord, followed: list[TypeFollowed]) -> Chances | tuple[None, None]:
    """The chances that a replay ends worse, and better, over every causal model of each type."""
    total = np.zeros((2, 2))
    for one, world, share in zip(followed, plan.cf.by_type.values(), plan.cf.shares.tolist(), strict=True):
        observed = observed_value(asked(world, plan.objective, plan.minimise))
        found = chances_over(asked_set(one.models, plan.objective), one.followed, observed, plan.minimise)
        if found is None:
            return None, None
        total += share * np.array(found)
    worse, better = np.minimum(total, 1.0).tolist()
    return (worse[0], worse[1]), (better[0], better[1])


def risk_of_typed(plan: TypedPlanRecord) -> Risk:
    """The chances that a replay under a plan ends worse, or better, than what happened."""
    worlds, found = plan.cf.by_type.values(), []
    for one, share in zip(worlds, plan.cf.shares.tolist(), strict=True):
        followed = TypeFollowed.of_plan(model_set(one, "nothing"), plan).followed
        found.append((share, followed, observed_value(asked(one, plan.objective, plan.minimise))))
    return risk_over_types(found, plan.minimise)


def _least_seen(plan: TypedPlanRecord) -> int | None:
    """How often the log of a type has the action that the plan advises and that it has least often."""
    types, advised = plan.cf.types, []
    for name, share in plan.cf.posterior.items():
        counts = types.models[name].counts
        if counts is None or share < _UNLIKELY:
            continue
        seen = np.add.reduceat(counts.transitions, types.models[name].form.row_start[:-1])
        advised += [seen[pair] for pair in plan.changed_pairs()]
    return int(min(advised)) if advised else None


def certify_typed(
    cf: TypedRecord, policy: Any, gamma: float, practice: Any, objective: Property | None, minimise: bool
) -> TypedCertificate:
    """The certificate of a plan, or of a policy of the state that does not see the type; see `tether.certify`."""
    if isinstance(policy, TypedPlanRecord):
        if objective is not None or minimise:
            raise QueryError("a plan is judged by its own objective: leave out objective= and minimise=")
        return typed_certificate(policy, gamma, practice)
    worlds = list(cf.by_type.values())
    followed = [TypeFollowed.of_policy(model_set(one, "nothing"), policy, objective, minimise) for one in worlds]
    value = float(cf.shares @ [one.value for one in followed])
    observed = float(cf.shares @ [observed_value(asked(one, objective, minimise)) for one in worlds])
    return _certified(cf, followed, (value, observed), objective, minimise, gamma, practice)


def _certified(
    cf: TypedRecord,
    followed: list[TypeFollowed],
    values: tuple[float, float],
    objective: Property | None,
    minimise: bool,
    gamma: float,
    practice: Any,
) -> TypedCertificate:
    """The certificate of what was followed for each type; ``values`` are its own and that of what was done."""
    from tether.core.extremes import undoing_strengths

    gamma, sign, shares, observed = check_gamma(gamma), -1.0 if minimise else 1.0, cf.shares, values[1]
    worlds = list(cf.by_type.values())
    usual, own = (cf.types.usual, cf.types.own_practice) if practice is None else (None, None)
    if own is not None:
        taken = [own[name] for name in cf.possible]
    else:
        taken = [shares_of_pairs(one.mdp, practice) if usual is None else usual for one in worlds]

    def extremes(strength: float, side: float) -> Floats:
        return np.array([one.extreme(strength, own, side) for one, own in zip(followed, taken, strict=True)])

    level = sign * observed + 1e-12 * max(1.0, abs(observed))

    def above(_: Ints, strengths: Floats) -> Floats:
        return np.array([sign * float(shares @ extremes(float(one), sign)) - level for one in strengths])

    ends = np.stack([extremes(1.0, sign), extremes(1.0, -sign)])
    wide = ends if gamma == 1.0 else np.stack([extremes(gamma, sign), extremes(gamma, -sign)])
    least, most = np.array([one.related(observed) for one in followed]).T @ shares
    return TypedCertificate(
        nothing=(float(ends[0] @ shares), float(ends[1] @ shares)),
        worst=float(wide[0] @ shares),
        best=float(wide[1] @ shares),
        gamma=gamma,
        gamma_star=float(undoing_strengths(above, 1)[0]),
        related=(float(most), float(least)) if minimise else (float(least), float(most)),
        value=values[0],
        observed_value=observed,
        by_type={name: (float(low), float(high)) for name, (low, high) in zip(cf.possible, ends.T, strict=True)},
        objective=objective,
        minimise=minimise,
        episodes=cf.types.episodes,
        practice_assumed=usual is None and own is None and is_practice_assumed(worlds[0].mdp, practice),
    )


def _span(worst: float, best: float) -> str:
    low, high = sorted((worst, best))
    return number(low) if number(low) == number(high) else f"from {number(low)} to {number(high)}"
