"""Results as Arrow tables: one row per node, a step, a state or a limit; from there to pandas, polars or Parquet.

Names keep their type where Arrow has one for all of them: whole numbers, numbers, text, truth values, dates;
named tuples and dataclasses become structs, plain tuples of one length structs too, with fields named by
position. Names of several types, or of any other, become text. What is looked at is the labels of the whole
model, so that two tables of one model can be put together.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._foundation.arrays import Flags, Ints
from tether.errors import QueryError
from tether.observation.changes import is_change

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from tether.evaluation.evaluate import Evaluation
    from tether.evaluation.shares import Shares
    from tether.explanation.decisions import Decisions
    from tether.explanation.explain import Explanation
    from tether.explanation.outcomes import Outcomes
    from tether.model.names import Names
    from tether.plan.pareto import Front
    from tether.plan.plan import Plan
    from tether.plan.sweep import Sweep

__all__ = [
    "NameColumn",
    "as_pandas",
    "decisions_table",
    "evaluation_table",
    "explanation_table",
    "front_table",
    "outcomes_table",
    "plan_table",
    "shares_table",
    "sweep_table",
]


def sweep_table(table: Sweep) -> pyarrow.Table:
    """One row per k and m; see `Sweep.to_arrow`."""
    rows, columns = table.values.shape
    return _pyarrow().table(
        {
            "k": np.repeat(table.ks, columns),
            "m": np.tile(table.ms, rows),
            "value": np.ascontiguousarray(table.values).reshape(-1),
            "gain": table.gains.reshape(-1),
            "size": np.repeat(table.sizes, columns),
        }
    )


def front_table(front: Front) -> pyarrow.Table:
    """One row per point; see `Front.to_arrow`."""
    return _pyarrow().table(
        {
            "price": np.array([point.price for point in front.points]),
            "value": front.values,
            str(front.against): front.measures,
            "k": np.array([point.plan.k for point in front.points]),
            "m": np.array([point.plan.m for point in front.points]),
        }
    )


def outcomes_table(outcomes: Outcomes) -> pyarrow.Table:
    """One row per time and class; see `Outcomes.to_arrow`."""
    pa, times = _pyarrow(), outcomes.T + 1
    names = [name or None for name in outcomes.classes]
    return pa.table(
        {
            "t": np.repeat(np.arange(times), len(names)),
            "outcome": pa.array(names * times, type=pa.string()),
            "observed": outcomes.observed.reshape(-1),
            "plan": outcomes.plan.reshape(-1),
            "optimal": outcomes.optimal.reshape(-1),
        }
    )


def shares_table(shares: Shares) -> pyarrow.Table:
    """One row per changed step; see `Shares.to_arrow`."""
    pa = _pyarrow()
    names = ("share", "alone", "changed")
    columns = {name: pa.array([getattr(one, name) for one in shares.steps], type=pa.float64()) for name in names}
    return pa.table({"t": pa.array([one.t for one in shares.steps], type=pa.int64()), **columns})


def as_pandas(table: pyarrow.Table) -> pandas.DataFrame:
    """An Arrow table as a pandas one; a struct becomes a column of dictionaries."""
    try:
        import pandas  # noqa: F401
    except ImportError:
        raise QueryError("a pandas table needs pandas: pip install pandas") from None
    return table.to_pandas()


def plan_table(plan: Plan) -> pyarrow.Table:
    """One row per node that the plan can visit; see `Plan.to_arrow`."""
    pa, cf, chain = _pyarrow(), plan.cf, plan.chain
    actions = NameColumn(cf.mdp.actions)
    sizes = [visits.size for visits in chain.visits]
    # At T nothing is done any more; nor where the plan's objective is decided.
    last = np.concatenate([*(chain.at_rest(t) for t in range(plan.T)), np.ones(sizes[-1], dtype=bool)])

    def each(parts: list[Any], kind: Any) -> Any:
        """A column over the nodes of t < T, empty where nothing is done."""
        padded = np.concatenate([*parts, np.zeros(sizes[-1], dtype=kind)])
        return pa.array(padded, mask=last)

    pairs = [taken.pairs for taken in chain.taken]
    chosen = [cf.mdp.form.pair_action[some].astype(np.int64) for some in pairs]
    seen = [np.full(some.size, cf.observation.actions[t]) for t, some in enumerate(pairs)]
    columns = {
        "t": pa.array(np.repeat(np.arange(plan.T + 1), sizes)),
        "state": NameColumn(cf.mdp.states).take(np.concatenate([visits.states for visits in chain.visits])),
        "changes_left": pa.array(np.concatenate([visits.changes for visits in chain.visits])),
        "uninfluenced": pa.array(np.concatenate([visits.runs for visits in chain.visits])),
        "probability": pa.array(np.concatenate(chain.occupancy())),
        "action": actions.take(np.concatenate(chosen), last),
        "observed_action": actions.take(np.concatenate(seen), last),
        "changed": each([_changes(plan, t, some) for t, some in enumerate(pairs)], bool),
        "influenced": each([np.isin(some, plan.influenced[t]) for t, some in enumerate(pairs)], bool),
        "strength": each([_strengths(plan, t, some) for t, some in enumerate(pairs)], float),
    }
    if plan.rule != "assured":  # the only rule that looks at it
        del columns["uninfluenced"]
    return pa.table(columns)


def evaluation_table(outlook: Evaluation) -> pyarrow.Table:
    """One row per time and state; see `Evaluation.to_arrow`."""
    pa = _pyarrow()
    times, states, chances = [], [], []
    for t, visits in enumerate(outlook.chain.visits):
        here, index = np.unique(visits.states, return_inverse=True)
        times.append(np.full(here.size, t))
        states.append(here)
        chances.append(np.bincount(index.reshape(-1), outlook.occupancy[t], minlength=here.size))
    return pa.table(
        {
            "t": pa.array(np.concatenate(times)),
            "state": NameColumn(outlook.mdp.states).take(np.concatenate(states)),
            "probability": pa.array(np.concatenate(chances)),
        }
    )


def explanation_table(explanation: Explanation) -> pyarrow.Table:
    """One row per step; see `Explanation.to_arrow`."""
    pa, steps = _pyarrow(), explanation.steps
    states = [state for step in steps for state in (step.observed_state, step.state)]  # or groups of them
    columns: dict[str, Any] = {}
    for field in dataclasses.fields(steps[0]):
        items = [getattr(step, field.name) for step in steps]
        if field.name in ("observed_state", "state"):
            columns[field.name] = _labels(items, states)
        elif field.name in ("observed_action", "action", "instead"):
            columns[field.name] = _labels(items, explanation.plan.cf.mdp.actions)
        else:
            columns[field.name] = pa.array(items)
    return pa.table(columns)


def decisions_table(decisions: Decisions) -> pyarrow.Table:
    """One row per step and action; see `Decisions.to_arrow`."""
    pa, mdp, columns = _pyarrow(), decisions.cf.mdp, {}
    kinds = {"t": pa.int64(), "is_observed": pa.bool_(), "needed_k": pa.int64(), "reason": pa.string()}
    for field in dataclasses.fields(decisions.rows[0]):
        items = [getattr(row, field.name) for row in decisions.rows]
        if field.name in ("state", "action"):
            columns[field.name] = _labels(items, mdp.states if field.name == "state" else mdp.actions)
        else:
            columns[field.name] = pa.array(items, type=kinds.get(field.name, pa.float64()))
    return pa.table(columns)


def _changes(plan: Plan, t: int, pairs: Ints) -> Any:
    """Whether what the plan does in each node changes the observed action."""
    decided, visits = plan.chain.taken[t], plan.chain.visits[t]
    return is_change(plan.cf.mdp.form, visits.states[decided.source], pairs, int(plan.cf.observation.actions[t]))


def _strengths(plan: Plan, t: int, pairs: Ints) -> Any:
    """Total variation between the counterfactual and the nominal row of each pair."""
    edits = plan.cf.graph.layers[t].edits
    at = edits.locate(pairs)
    strength = np.zeros(pairs.size)
    strength[at >= 0] = edits.strength[at[at >= 0]]
    return strength


class NameColumn:
    """The names of a model's states or actions, ready to be taken by index."""

    def __init__(self, labels: Names) -> None:
        self.labels = labels

    @cached_property
    def _kind(self) -> Any:
        return _kind(self.labels)

    @property
    def type(self) -> Any:
        """The Arrow type that fits all of them."""
        return _type(self._kind)

    def take(self, indices: Ints, empty: Flags | None = None) -> Any:
        """Names by index; missing ones where ``empty`` says so, which may be longer."""
        used, at = np.unique(indices, return_inverse=True)
        names = [_as(self._kind, self.labels[int(i)]) for i in used]
        items = _pyarrow().array([*names, None], type=self.type)
        at = at.reshape(-1)
        if empty is not None:
            at = np.concatenate((at, np.full(empty.size - at.size, used.size)))
            at[empty] = used.size
        return items.take(_pyarrow().array(at))


def _labels(items: Sequence[Any], among: Sequence[Any] | None = None) -> Any:
    """Some labels, None where there is none, in the type that fits all of ``among``."""
    kind = _kind(items if among is None else among)
    return _pyarrow().array([None if item is None else _as(kind, item) for item in items], type=_type(kind))


_PLAIN: dict[type, str] = {
    bool: "bool_",
    int: "int64",
    float: "float64",
    str: "string",
    bytes: "binary",
    dt.date: "date32",
    dt.datetime: "timestamp",
}


def _kind(items: Sequence[Any]) -> Any:
    """The type that fits all items: one of Python's, a list of (field, type) for a struct, or str."""
    there = [item for item in items if item is not None]
    types = set(map(type, there))
    if types == {int, float}:
        return float if all(abs(item) <= 2**53 for item in there) else str
    if len(types) != 1:
        return str
    (only,) = types
    if only is int:
        return int if all(-(2**63) <= item < 2**63 for item in there) else str
    if only is dt.datetime:
        return only if all(item.tzinfo is None for item in there) else str
    if only in _PLAIN:
        return only
    names = _field_names(only, there)
    return [(name, _kind([_parts(item)[i] for item in there])) for i, name in enumerate(names)] or str


def _field_names(kind: type, items: Sequence[Any]) -> list[str]:
    """Names of the parts that labels of a type have; none for labels without parts."""
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    if not issubclass(kind, tuple):
        return []
    named = getattr(kind, "_fields", None)
    if named is not None:
        return list(named)
    lengths = set(map(len, items))
    return [str(i) for i in range(lengths.pop())] if len(lengths) == 1 else []


def _parts(item: Any) -> Sequence[Any]:
    if isinstance(item, tuple):
        return item
    return [getattr(item, field.name) for field in dataclasses.fields(item)]


def _as(kind: Any, item: Any) -> Any:
    """A label as Arrow is to be given it."""
    if kind is str:
        return str(item).encode("utf-8", "replace").decode("utf-8")
    if isinstance(kind, list):
        parts = zip(kind, _parts(item), strict=True)
        return {name: None if part is None else _as(one, part) for (name, one), part in parts}
    return item


def _type(kind: Any) -> Any:
    pa = _pyarrow()
    if isinstance(kind, list):
        return pa.struct([(name, _type(one)) for name, one in kind])
    return pa.timestamp("us") if kind is dt.datetime else getattr(pa, _PLAIN[kind])()


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise QueryError("an Arrow table needs pyarrow: pip install pyarrow") from None
    return pyarrow
