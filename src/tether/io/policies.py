"""Policies by name or from a file: a table with columns state, action and, where wanted, t and probability.

Or a scheduler of Storm, or a strategy of PRISM; both are written, too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from tether._foundation.checks import whole_number
from tether._foundation.problems import Complaints
from tether._foundation.writing import written
from tether.conditioning.counterfactual_record import CounterfactualRecord
from tether.errors import Problem, QueryError
from tether.io.files import checked_text, file_error, name_of, table_kind
from tether.io.names_as_text import Words
from tether.io.opening import must_exist
from tether.model.model_record import ModelRecord
from tether.plan.policy import depends_on_time, make_policy

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
        Or a scheduler that Storm wrote as JSON (``--exportscheduler best.json``), without memory; or a strategy that
        PRISM wrote (``-exportstrat best.txt``), of states, or of states and the number of steps before.
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
    if table_kind(source) is None and not columns:
        from tether.io.prism.strategies import is_strategy, read_strategy

        if is_strategy(checked_text(source).decode()):
            return read_strategy(source, mdp)
    return _from_file(source, mdp, columns)


def write_policy(policy: Any, mdp: ModelRecord, file: str | os.PathLike[str], *, steps: int | None = None) -> None:
    """Write a policy of a model as Storm's scheduler (``.json``) or PRISM's strategy (``.txt``), by the file's suffix.

    States and actions are those of the file that `tether.io.write_model` writes of the model for the same tool. A plan
    is a scheduler of another model: `tether.records.Plan.write`.

    Parameters
    ----------
    policy
        What `tether.MDP.evaluate` takes. A mapping may leave out states: nothing is written for them.
    mdp : MDP
        Its model.
    file : path
    steps : int, optional
        For a policy that depends on time: over how many steps. PRISM's format holds them, Storm's does not.

    Examples
    --------
    >>> import pathlib, tempfile, tether
    >>> grid = tether.cases.grid_world().mdp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tether.io.write_policy({0: "down", 4: "right"}, grid, f"{folder}/best.txt")
    ...     print(pathlib.Path(folder, "best.txt").read_text().split())
    ...     print(tether.io.open_policy(f"{folder}/best.txt", grid))
    ['(0)=down', '(4)=right']
    {0: {'down': 1.0}, 4: {'right': 1.0}}
    """
    name = name_of(file)
    suffix = os.path.splitext(name)[1].lower()
    if suffix not in (".json", ".txt"):
        fix = "name it .json for Storm, .txt for PRISM"
        raise file_error(name, Problem(f"a policy cannot be written as {suffix or 'a file without a suffix'}", fix=fix))
    by_time = _answers(policy, mdp, steps)
    without_time = {s: by_time[0][s] for s in by_time[0] if all(one.get(s) == by_time[0][s] for one in by_time)}
    depends = any(one.keys() != without_time.keys() for one in by_time)
    if suffix == ".json":
        if depends:
            what = "this policy depends on time, which a scheduler of Storm without memory cannot hold"
            raise QueryError(
                Problem(what, fix="write it for PRISM, as .txt; for a plan of an episode: plan.write(file)")
            )
        from tether.io.schedulers import scheduler_text

        text = scheduler_text(mdp, without_time)
    else:
        from tether.io.prism.strategies import strategy_lines

        times = range(len(by_time)) if depends else [None]
        every = ((t, s, by_time[t or 0]) for s in range(mdp.n_states) for t in times)
        text = "".join(strategy_lines(mdp, ((t, s, said[s]) for t, s, said in every if s in said)))
    with written(name) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


def _answers(policy: Any, mdp: ModelRecord, steps: int | None) -> list[dict[int, list[tuple[int, float]]]]:
    """At each time, or once: pairs and their probabilities, by state; states without actions are left out."""
    if steps is None and depends_on_time(mdp, policy):
        raise QueryError(Problem("over how many steps? This policy may depend on time", fix="give a number: steps=10"))
    T = 1 if steps is None else whole_number("steps", steps, 1)
    made = make_policy(mdp, policy, T)
    going = np.flatnonzero(np.diff(mdp.form.pair_start)).tolist()
    found: list[dict[int, list[tuple[int, float]]]] = []
    for t in range(T):
        here = going
        if isinstance(policy, Mapping):
            here = [s for s in going if mdp.states[s] in policy or (t, mdp.states[s]) in policy]
        found.append({s: sorted(made(t, s)) for s in here})
    if not any(found):
        raise QueryError("the policy says nothing for any state with actions: there is nothing to write")
    return found


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
            complaints.add(f"{_where(t, state)} was given before ({before})", row=row, state=state, time=t, fix=fix)
        elif not answer:
            first[key] = row
        answer[action] = 1.0 if chances is None else float(chances[row])
    for key, row in first.items() if chances is not None else ():
        t = None if times is None else times[row].item()
        _normalise(policy[key], _where(t, key if t is None else key[1]), row, complaints)
    complaints.raise_any()
    return policy


def _where(t: int | None, state: Any) -> str:
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
