"""What a policy leads to for an individual whose type was never recorded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Floats
from tether._foundation.arrow import Tabular
from tether._foundation.markup import Displayed
from tether._foundation.words import with_spread
from tether.errors import QueryError
from tether.evaluation.evaluate import Evaluation, evaluate_policy
from tether.influence.one_step import GivenInfluence as Influence
from tether.model.properties import Property
from tether.plan.typed_plan import TypedPlanRecord
from tether.plan.typed_record import TypedRecord

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, eq=False, repr=False)
class TypedEvaluation(Tabular, Displayed):
    """Exactly what to expect under a policy that does not see the type.

    Attributes
    ----------
    value : float
        The expected return, or the chance of the property, averaged over the types.
    std : float
        The standard deviation of the return, also from not knowing the type.
    values, stds : mapping of name to float
        For each type that the episode leaves possible.
    shares : mapping of name to float
        How likely each is.
    by_type : mapping of name to Evaluation
        All that is to be expected for each type under a policy of the state; empty for a plan of several types.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> types = tether.Types({"any": case.mdp}, prior={"any": 1.0})
    >>> tether.counterfactual(types, case.path).evaluate("observed")
    <TypedEvaluation: value -38; any -38>
    """

    value: float
    std: float
    values: Mapping[str, float]
    stds: Mapping[str, float]
    shares: Mapping[str, float]
    by_type: Mapping[str, Evaluation]
    over_time: tuple[Mapping[Any, float], ...]

    def distribution(self, t: int) -> dict[Any, float]:
        """States that can be at time t = 0 … T, and their probabilities.

        Examples
        --------
        >>> import tether
        >>> toy = tether.cases.toy()
        >>> types = tether.Types({"any": toy.mdp}, prior={"any": 1.0})
        >>> tether.counterfactual(types, toy.path).evaluate("observed").distribution(1)
        {'s2': 1.0}
        """
        if not 0 <= t < len(self.over_time):
            raise QueryError(f"t must be from 0 to {len(self.over_time) - 1}, not {t!r}")
        return dict(self.over_time[t])

    def to_arrow(self) -> pyarrow.Table:
        """One row for each type: type, probability, value, std."""
        import pyarrow as pa

        names = list(self.values)
        return pa.table({
            "type": names, "probability": [self.shares[name] for name in names],
            "value": [self.values[name] for name in names], "std": [self.stds[name] for name in names],
        })  # fmt: skip

    def __repr__(self) -> str:
        each = ", ".join(f"{z} {one:.4g}" for z, one in self.values.items())
        return f"<TypedEvaluation: value {with_spread(self.value, self.std)}; {each}>"


def evaluate_typed(
    cf: TypedRecord, policy: Any, influence: str | Influence, objective: Property | None
) -> TypedEvaluation:
    """A policy evaluated for each type."""
    if isinstance(policy, TypedPlanRecord):
        raise QueryError("a plan of several types depends on what was met before: ask plan.evaluate()")
    found = {name: evaluate_policy(one, policy, influence, objective) for name, one in cf.by_type.items()}
    shares = {name: cf.posterior[name] for name in found}
    mean = sum(shares[name] * one.mean for name, one in found.items())
    square = sum(shares[name] * (one.std**2 + (one.mean - mean) ** 2) for name, one in found.items())
    over_time: list[dict[Any, float]] = []
    for t in range(cf.T + 1):
        total: dict[Any, float] = {}
        for name, one in found.items():
            for state, chance in zip(*one.distribution(t), strict=True):
                total[state] = total.get(state, 0.0) + shares[name] * float(chance)
        over_time.append(total)
    values, stds = ({name: getattr(one, what) for name, one in found.items()} for what in ("mean", "std"))
    return TypedEvaluation(mean, math.sqrt(square), values, stds, shares, found, tuple(over_time))


def evaluate_typed_plan(plan: TypedPlanRecord) -> TypedEvaluation:
    """The plan followed for each type."""
    over_time = tuple(plan.distribution(t) for t in range(plan.cf.T + 1))
    names, shares = plan.cf.possible, plan.cf.shares
    own = _variances(plan)
    apart = np.array([plan.values[name] for name in names]) - plan.value
    stds = {name: math.sqrt(one) for name, one in zip(names, own.tolist(), strict=True)}
    std, likely = math.sqrt(float(shares @ (own + apart**2))), {name: plan.cf.posterior[name] for name in names}
    return TypedEvaluation(plan.value, std, plan.values, stds, likely, {}, over_time)


def _variances(plan: TypedPlanRecord) -> Floats:
    """The variance of the return of a plan for each type, from the last step to the first."""
    values, occupied, discount = plan.vectors, plan.occupancy, plan.vectors.models[0].discount
    worth = {node: values.choice(plan.cf.T, *node).values for node in occupied[-1]}
    found = {node: np.zeros(len(values.models)) for node in worth}
    for t in range(plan.cf.T - 1, -1, -1):
        rows, earned = values.step(t), values.rows.earned(t)
        here, own = {node: values.choice(t, *node).values for node in occupied[t]}, {}
        for node, mean in here.items():
            total = np.zeros(len(values.models))
            for after, place in plan.onward(t, node, rows):
                if after in worth:  # the others are impossible
                    apart = earned[place] + discount * worth[after] - mean
                    total += rows.probability[place] * (apart**2 + discount**2 * found[after])
            own[node] = total
        worth, found = here, own
    return next(iter(found.values()))
