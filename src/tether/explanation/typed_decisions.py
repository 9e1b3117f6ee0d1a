"""Which decisions mattered, for an individual whose type was never recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tether._foundation.arrow import Tabular, table_of
from tether._foundation.markup import Displayed
from tether._foundation.rounding import gain_of
from tether._foundation.words import number, percent
from tether.explanation.deciding import KNOWN_THEN
from tether.explanation.decisions import decide
from tether.explanation.typed_review import TypedReview, review_where_known
from tether.model.properties import Property
from tether.plan.typed_record import TypedRecord

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, slots=True)
class TypedDecision(Displayed):
    """One action at one step: what would have followed, had only this action been different.

    Attributes
    ----------
    t : int
    state, action : name
    is_observed : bool
    value : float or None
        Averaged over the types; None where, for some type, an observed action is not available later.
    gain : float or None
    values : mapping of name to float
        For each type; empty if there is no value.
    best_for : tuple of str
        The types for which no other action at this step is better.
    mistake : float or None
        What the action costs compared with the best, by what could be known at the time, also of the type; 0 for the
        best. None where that is not known (`TypedExplanation.review`).
    strength : float
        How much the episode changes what is to be expected of the action (`TypedCounterfactual.strength`).
    needed_k : int
        The shortest tether that allows the action for every type.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> types = tether.Types({"any": case.mdp}, prior={"any": 1.0})
    >>> row = tether.counterfactual(types, case.path).decisions().at(0)[1]
    >>> row.action, row.gain, row.best_for
    ('V_I', 37.0, ('any',))
    """

    t: int
    state: Any
    action: Any
    is_observed: bool
    value: float | None
    gain: float | None
    values: Mapping[str, float]
    best_for: tuple[str, ...] = ()
    mistake: float | None = None
    strength: float = 0.0
    needed_k: int = 1


@dataclass(frozen=True, eq=False, repr=False)
class TypedDecisions(Tabular, Displayed):
    """Every step of an episode and every action available there; made by `TypedCounterfactual.decisions`.

    Examples
    --------
    >>> import tether
    >>> case = tether.cases.epidemic()
    >>> types = tether.Types({"any": case.mdp}, prior={"any": 1.0})
    >>> decisions = tether.counterfactual(types, case.path).decisions()
    >>> decisions, decisions.largest().action
    (<TypedDecisions: 7 steps, 21 actions>, 'V_I')
    >>> print(decisions.sentences(str)[2])  # doctest: +NORMALIZE_WHITESPACE
    With hindsight, the decision at step 0 mattered most: V_I instead of NIL, and nothing else changed, would have given
    an expected return of -1 instead of -38. It could be known at the time that it was better.
    """

    rows: tuple[TypedDecision, ...]
    observed_value: float
    minimise: bool = False
    objective: Property | None = None
    review: TypedReview | None = None

    def at(self, t: int) -> tuple[TypedDecision, ...]:
        """The actions of a step."""
        return tuple(row for row in self.rows if row.t == t)

    def largest(self) -> TypedDecision | None:
        """The change with the largest gain; None if none gains anything."""
        some = [row for row in self.rows if row.gain is not None and row.gain > 0]
        return max(some, key=lambda row: row.gain or 0.0, default=None)

    def sentences(self, name: Callable[[Any], str] = repr) -> list[str]:
        """Mistake or luck; which single change would have helped most with hindsight, and whom."""
        most, said = self.largest(), [] if self.review is None else self.review.verdict(name)
        if most is None:
            return [*said, "No single change would have helped."]
        done = next(row for row in self.at(most.t) if row.is_observed)
        text: Callable[[float], str] = number if self.objective is None else percent
        what = "an expected return" if self.objective is None else f"a chance that {self.objective.in_words}"
        known = "" if self.review is None else KNOWN_THEN[self.review.known_then(most.t, most.action)]
        said.append(
            f"With hindsight, the decision at step {most.t} mattered most: {name(most.action)} instead of "
            f"{name(done.action)}, and nothing else changed, would have given {what} of {text(most.value or 0.0)} "
            f"instead of {text(self.observed_value)}.{known}"
        )
        others = [z for z in most.values if z not in most.best_for]
        if others:
            said.append(f"For the type {' and the type '.join(others)}, something else would have been better there.")
        return said

    def to_arrow(self) -> pyarrow.Table:
        """One row for each step and action, with the fields of `TypedDecision`, and the value for each type."""
        import pyarrow as pa

        names = {"state": [row.state for row in self.rows], "action": [row.action for row in self.rows]}
        table = table_of(TypedDecision, self.rows, names)
        for name in sorted({name for row in self.rows for name in row.values}):
            values = pa.array([row.values.get(name) for row in self.rows], type=pa.float64())
            table = table.append_column(f"value, {name}", values)
        return table

    def __str__(self) -> str:
        return "\n".join(self.sentences(str))

    def __repr__(self) -> str:
        steps = len({row.t for row in self.rows})
        return f"<TypedDecisions: {steps} step{'' if steps == 1 else 's'}, {len(self.rows)} actions>"


def typed_decisions(cf: TypedRecord, objective: Property | None, minimise: bool) -> TypedDecisions:
    """The decisions of each type, averaged."""
    by_type = {name: decide(one, objective, 1, "definition", "support", minimise) for name, one in cf.by_type.items()}
    observed = sum(cf.posterior[name] * one.observed_value for name, one in by_type.items())
    best: dict[tuple[str, int], float] = {}
    for name, one in by_type.items():
        for row in one.rows:
            if row.gain is not None:
                best[name, row.t] = max(best.get((name, row.t), row.gain), row.gain)
    rows, review = [], review_where_known(cf, objective, minimise)
    for of_types in zip(*(one.rows for one in by_type.values()), strict=True):
        first, known = of_types[0], [row.value for row in of_types]
        about = first.t, first.state, first.action, first.is_observed
        more = {
            "mistake": None if review is None else review.cost(first.t, first.action),
            "strength": cf.strength(first.t, first.state, first.action),
            "needed_k": max(row.needed_k for row in of_types),
        }
        if any(value is None for value in known):
            rows.append(TypedDecision(*about, None, None, {}, **more))
            continue
        values = {name: float(value or 0.0) for name, value in zip(by_type, known, strict=True)}
        value = sum(cf.posterior[name] * one for name, one in values.items())
        gains = {name: row.gain or 0.0 for name, row in zip(by_type, of_types, strict=True)}
        best_for = tuple(name for name, gain in gains.items() if gain >= best[name, first.t] - 1e-12)
        rows.append(TypedDecision(*about, value, gain_of(value, observed, minimise), values, best_for, **more))
    return TypedDecisions(tuple(rows), observed, minimise, objective, review)
