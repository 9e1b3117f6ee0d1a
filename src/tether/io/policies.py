"""Policies by name or from a file: a table with columns state, action and, where wanted, t and probability."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from tether._foundation.problems import Complaints
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.errors import QueryError
from tether.io.names_as_text import Words
from tether.io.opening import must_exist
from tether.model.model_record import ModelRecord

__all__ = ["NAMED", "open_policy"]

NAMED = ("optimal", "observed", "random")

_TOLERANCE = 1e-4
"""How far from 1 probabilities may sum: those of a policy are often written with a few digits."""


def open_policy(
    source: str | os.PathLike[str], cf: CounterfactualRecord | ModelRecord, *, columns: Mapping[str, str] | None = None
) -> Any:
    """A policy that `CounterfactualMDP.evaluate` takes.

    Parameters
    ----------
    source : str or path
        ``"optimal"``: the best in the plain model, for anyone. ``"observed"``: what was done, whatever happens.
        ``"random"``: each available action equally likely. Or a CSV, Parquet or Arrow file with the columns
        ``state`` and ``action``; with a column ``t`` it depends on time, with a column ``probability`` it is random.
        Or a scheduler that Storm wrote as JSON (``--exportscheduler best.json``), without memory.
    cf : CounterfactualMDP or MDP
        What it is for.
    columns : mapping, optional
        The names of the columns in the file: ``{"state": "s"}``.

    Examples
    --------
    >>> import tether
    >>> from tether.io import open_policy
    >>> case = tether.cases.epidemic()
    >>> cf = tether.counterfactual(case.mdp, case.path)
    >>> cf.evaluate(open_policy("observed", cf)).value
    -38.0
    """
    source = os.fspath(source)
    if not os.path.exists(source):
        if source in NAMED:
            if columns:
                raise QueryError(f"{source} is a policy by name, not a file: columns cannot be given with it")
            return source
        if not os.path.splitext(source)[1]:
            raise QueryError(f"{source}: there is no such file; a policy by name is {', '.join(NAMED)}")
        must_exist(source)
    mdp = cf if isinstance(cf, ModelRecord) else cf.mdp
    if source.lower().endswith(".json"):
        if columns:
            raise QueryError(f"{source} is a scheduler of Storm, not a table: columns cannot be given with it")
        from tether.io.schedulers import read_scheduler

        return read_scheduler(source, mdp)
    return _from_file(source, mdp, columns)


def _from_file(file: str, mdp: ModelRecord, rename: Mapping[str, str] | None) -> dict[Any, dict[Any, float]]:
    from tether.io.columns import read_columns

    columns = read_columns(file, ["state", "action"], ["t", "probability"], rename, text=["state", "action"])
    states, actions = Words(mdp.states, "state"), Words(mdp.actions, "action")
    times, chances = columns.get("t"), columns.get("probability")
    complaints = columns.complaints
    policy: dict[Any, dict[Any, float]] = {}
    first: dict[Any, int] = {}
    for row in range(columns.n_rows):
        t = None if times is None else times[row].item()
        try:
            state, action = states.find(columns["state"][row]), actions.find(columns["action"][row])
            _check_pair(mdp, state, action, t)
        except QueryError as error:
            complaints.add(error.problems[0], row=row)
            continue
        key = state if t is None else (t, state)
        answer = policy.setdefault(key, {})
        if action in answer or (answer and chances is None):
            before = columns.source.place(first[key])
            fix = "leave one, or add a column 'probability'"
            complaints.add(f"{_at(t, state)} was given before ({before})", row=row, state=state, time=t, fix=fix)
        elif not answer:
            first[key] = row
        answer[action] = 1.0 if chances is None else float(chances[row])
    for key, row in first.items() if chances is not None else ():
        t = None if times is None else times[row].item()
        _normalise(policy[key], _at(t, key if t is None else key[1]), row, complaints)
    complaints.raise_any()
    return policy


def _at(t: int | None, state: Any) -> str:
    return f"state {state!r}" if t is None else f"t = {t}, state {state!r}"


def _check_pair(mdp: ModelRecord, state: Any, action: Any, t: Any) -> None:
    if t is not None and not (isinstance(t, int) and t >= 0):
        raise QueryError(f"t must be a whole number from 0, not {t!r}")
    mdp.pair_index(state, action)


def _normalise(answer: dict[Any, float], at: str, row: int, complaints: Complaints) -> None:
    """Probabilities written with a few digits still sum to 1."""
    total = sum(answer.values())
    text = ", ".join(f"{chance:g}" for chance in answer.values())
    if not all(chance >= 0 for chance in answer.values()):
        complaints.add(f"the probabilities are {text}", row=row, place=at, fix="none may be negative")
    elif not abs(total - 1) <= _TOLERANCE:
        complaints.add(f"the probabilities {text} sum to {total:g}", row=row, place=at, value=total, expectation="1")
    else:
        answer.update({action: chance / total for action, chance in answer.items()})
