"""One observed path as a file: a table with the columns t, state, action and, if known, reward; JSON; PRISM's trace.

If the last row of a table has no action, it is the state in which the episode ended. Without such a row the
outcome of the last action was not recorded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise, zip_longest
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from tether._foundation.problems import Complaints, Source
from tether._foundation.words import counted
from tether._foundation.writing import written
from tether.errors import PathError, Problem, QueryError
from tether.io.columns import Columns, read_columns, unknown_column
from tether.io.files import TABLES, File, checked_text, ends_of, file_error, name_of, table_kind
from tether.io.logshapes import LogShape, make_shape
from tether.io.names_as_text import find_index, text_of, texts_of
from tether.io.prism.traces import is_trace, read_trace
from tether.io.values import cut_repr
from tether.mdp import MDP
from tether.model.names import Names, is_missing, make_names, plain
from tether.observation.ends import outcome_names
from tether.observation.path import Path, observe

_COLUMNS = ("t", "state", "action", "reward", "outcome")

_HEAD = 64
"""In so many bytes a file shows that it is a trace of PRISM."""

_DEEPEST = 20
"""How deep a name may be nested, as a tuple of tuples."""


def read_path(
    file: File,
    mdp: MDP | None = None,
    *,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    time: str | None = None,
    step: float | str | timedelta | None = None,
    max_unpacked: int | str | None = None,
) -> Path:
    r"""Read an observed path.

    Parameters
    ----------
    file : path
        A table (``.csv``, ``.tsv``, ``.parquet``, ``.arrow``, ``.xlsx``) with the columns t (optional: 0, 1, 2, … or
        1, 2, 3, …), state, action, reward (optional: what each step earned) and outcome (optional: how it ended, in
        any row); or JSON: ``{"states": [...], "actions": [...]}``, with "rewards" and "outcome" if they are known,
        or a list of ``{"t": 0, "state": …, "action": …, "reward": …}``. A list in JSON is a name that is a tuple.
        Or, with any other suffix, a trace of PRISM's simulator (``prism … -simpath 20 trace.txt``).
    mdp : MDP, optional
        The model of the path. States and actions are then matched with its names, if necessary by their text, and the
        path is checked against it.
    columns : mapping, optional
        The names in the file of columns that have other names there: ``{"action": "given"}``. The state may have
        several columns, as in `tether.io.read_episodes`.
    time, step
        A column of times in place of t, and how far apart these are, as in `tether.io.read_episodes`.
    max_unpacked : int or str, optional
        To how many bytes a compressed file may unpack; see `read_table`.

    Examples
    --------
    >>> import pathlib, tempfile, tether
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "outbreak.csv")
    ...     _ = file.write_text('t,state,action\n0,"(9, 1, 20)",NIL\n1,"(8, 2, 20)",\n')
    ...     tether.io.read_path(file, tether.cases.epidemic().mdp)
    <Path: 1 step, (9, 1, 20) –'NIL'→ (8, 2, 20)>
    """
    name = name_of(file)
    unknown = [key for key in columns or () if key not in _COLUMNS]
    if unknown:
        raise unknown_column(unknown[0], _COLUMNS)
    shape = make_shape(columns, time, step, _COLUMNS)
    if FilePath(file).suffix.lower() == ".json":
        if shape.parts or time is not None:
            raise QueryError(f"{name}: several columns per state, time= and step= are for tables, not for JSON")
        states, actions, rewards, outcome, source = _of_json(file, shape)
    elif table_kind(file) is not None:
        read = read_columns(
            file,
            [*shape.spread(["state"]), "action"],
            shape.spread(["t", "reward", "outcome"]),
            shape.columns,
            text=[*shape.spread(["state"]), "action", "outcome", *(["t"] if time is not None else [])],
            blank=["action", "reward", "outcome"],
            alike=(),
            max_unpacked=max_unpacked,
            collect=True,
        )
        read = replace(read, values=shape.gathered(read, read.complaints))
        _check_one_episode(read)
        states, actions, rewards, outcome, source = *_steps(read), _outcome(read), read.source
        read.complaints.raise_any()
    elif FilePath(name).is_file() and is_trace(ends_of(file, _HEAD)[0].decode(errors="replace")):
        if shape.columns or time is not None:
            raise QueryError(f"{name}: columns=, time= and step= are for tables, not for a trace of PRISM")
        states, actions, rewards, steps, source = read_trace(name, checked_text(file).decode(), mdp)
        outcome, complaints = None, Complaints(source)
        _check_times(steps, complaints)
        complaints.raise_any()
    else:
        known = f"{', '.join([*TABLES, '.json'])}, or a trace of PRISM's simulator"
        what = "this is a directory" if FilePath(name).is_dir() else "the name does not say what file this is"
        raise file_error(name, Problem(what, expectation=f"one of {known}"))
    if mdp is not None:
        states, actions = _resolved(mdp, states, actions, source)
    try:
        path = Path(states, actions, rewards, outcome)
        if mdp is not None:
            observe(mdp, path)
    except PathError as error:
        problems = [source.located(problem, problem.time) for problem in error.problems]
        raise PathError(problems, total=error.total) from None
    return path


def write_path(path: Path, file: File) -> None:
    """Write a path: CSV or TSV with the columns t, state, action (reward and outcome, if it has them), or JSON.

    Names are written as text; `read_path` with the model finds them again.

    Examples
    --------
    >>> import tempfile, tether
    >>> case = tether.cases.grid_world()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tether.io.write_path(case.path, f"{folder}/path.csv")
    ...     tether.io.read_path(f"{folder}/path.csv", case.mdp) == case.path
    True
    """
    name = name_of(file)
    suffix = FilePath(file).suffix.lower()
    if suffix == ".json":
        fields: dict[str, Any] = {"states": path.states, "actions": path.actions}
        if path.rewards is not None:
            fields["rewards"] = path.rewards
        if path.outcome is not None:
            fields["outcome"] = path.outcome
        text = json.dumps(fields, default=text_of, ensure_ascii=False)
        with written(file) as partial:
            partial.write_text(_unicode(text, name) + "\n", encoding="utf-8")
        return
    if suffix not in (".csv", ".tsv"):
        raise file_error(name, "a path is written as .csv, .tsv or .json")
    states, actions = _texts(path.states, "state", name), _texts(path.actions, "action", name)
    separator = "\t" if suffix == ".tsv" else ","
    columns = [states, actions]
    if path.rewards is not None:
        columns.append(["" if reward is None else repr(reward) for reward in path.rewards])
    names = ["t", "state", "action", "reward"][: 1 + len(columns)]
    if path.outcome is not None:
        names.append("outcome")
        columns.append([path.outcome] * len(path.states))
    rows = [
        names,
        *([str(t), *row] for t, row in enumerate(zip_longest(*columns, fillvalue=""))),
    ]
    text = "".join(separator.join(_quoted(cell, separator) for cell in row) + "\n" for row in rows)
    with written(file) as partial:
        partial.write_bytes(text.encode())  # as bytes: a name may contain any kind of line end


def _quoted(text: str, separator: str) -> str:
    """A cell of a text file, in quotes if necessary (Python's csv forgets the lone carriage return)."""
    return '"' + text.replace('"', '""') + '"' if any(sign in text for sign in (separator, '"', "\n", "\r")) else text


def _texts(labels: tuple[Any, ...], noun: str, file: str) -> list[str]:
    distinct = make_names(dict.fromkeys(labels), None, noun)
    texts = dict(zip(distinct, texts_of(distinct, noun, file, trimmed=True), strict=True))
    return [texts[label] for label in labels]


def _unicode(text: str, file: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise file_error(file, "a name holds characters that a file in UTF-8 cannot hold; rename it") from None
    return text


def _check_one_episode(read: Columns) -> None:
    """A log of many episodes is one problem, not one per episode."""
    times = read.get("t")
    pairs = [] if times is None else enumerate(pairwise(times.tolist()), start=1)
    begins = [row for row, (before, after) in pairs if after in (0, 1) and after < before]
    if len(begins) < 2:
        return
    complaints = Complaints(read.source)
    complaints.add(
        f"t begins again here, and {counted(len(begins) - 1, 'more time')} below",
        row=begins[0],
        expectation="one episode",
        fix="if this is a log, name one episode: tether.io.read_episodes(file)['<episode>']",
        argument="read_episodes",
    )
    complaints.raise_any()


def _steps(read: Columns) -> tuple[list[Any], list[Any], list[float | None] | None]:
    """States, actions and rewards of a table, row by row, its times checked."""
    complaints = read.complaints
    states, actions = plain(read["state"]), plain(read["action"])
    times = read.get("t")
    if times is not None:
        _check_times(times.tolist(), complaints)
    for row, action in enumerate(actions[:-1]):
        if action is None:
            fix = "only the last row may leave it empty, as the state of the end"
            complaints.add("the action is empty", row=row, time=row, fix=fix)
    column = read.get("reward")
    rewards = None if column is None else [None if is_missing(reward) else reward for reward in column.tolist()]
    ended = actions[-1] is None
    if ended and rewards is not None:
        rewards = _of_actions(rewards, complaints)
    return states, actions[:-1] if ended else actions, rewards


def _outcome(read: Columns) -> str | None:
    """How the episode ended, if a column says it."""
    if "outcome" not in read:
        return None
    outcomes = [(row, outcome) for row, outcome in enumerate(read["outcome"].tolist()) if outcome is not None]
    for row, outcome in outcomes[1:]:
        if outcome != outcomes[0][1]:
            first = read.source.place(outcomes[0][0])
            what = f"the outcome is {outcome!r}, but {outcomes[0][1]!r} in {first}"
            read.complaints.add(what, row=row, value=outcome, expectation="one outcome per episode")
    return outcomes[0][1] if outcomes else None


def _of_actions(rewards: list[float | None], complaints: Complaints) -> list[float | None]:
    """The rewards without that of the last row, which has no action; if it is the only one, it moves up one row."""
    *earlier, last = rewards
    if last and earlier and not any(earlier):
        return [*earlier[:-1], last]
    if last:
        what, fix = f"the reward {last!r} has no action that earned it", "a reward belongs in the row of its action"
        complaints.add(what, row=len(earlier), value=last, fix=fix)
    return earlier


def _check_times(times: list[Any], complaints: Complaints) -> None:
    """0, 1, 2, … or 1, 2, 3, …: every gap between times that could be read is noted."""
    following = [(row, *both) for row, both in enumerate(pairwise(times), start=1) if not any(map(is_missing, both))]
    wrong = [row for row, before, after in following if after != before + 1]
    if len(wrong) > 1 and 2 * len(wrong) > len(times) and all(after > before for _, before, after in following):
        before, after = times[wrong[0] - 1], times[wrong[0]]
        more = counted(len(wrong) - 1, "more time")
        complaints.add(
            f"t goes from {before:g} to {after:g}, and {more} not up by 1; t is expected to number the steps: "
            "0, 1, 2, …",
            row=wrong[0],
            value=after,
            fix="if it is a time, name its column: time='t'; to find gaps, also give the time between two rows: "
            f"step={after - before:g}",
            argument="time",
        )
        return
    if times[0] not in (0, 1) and not is_missing(times[0]):
        fix = "number the steps from 0"
        complaints.add(f"t begins at {times[0]:g}", row=0, value=times[0], expectation="0 (or 1)", fix=fix)
    for row, before, after in following:
        if after == before + 1:
            continue
        fix, argument = "steps must come in order, each once", ""
        if after > before + 1:
            fix = "the steps between are missing"
        elif after in (0, 1) and after < before:
            fix, argument = "for a file of several episodes use tether.io.read_episodes", "read_episodes"
        complaints.add(
            f"t = {after:g} follows t = {before:g}",
            row=row,
            time=int(after) if after == after // 1 else None,
            value=after,
            expectation=f"{before + 1:g}",
            fix=fix,
            argument=argument,
        )


def _of_json(file: File, shape: LogShape) -> tuple[list[Any], list[Any], list[float | None] | None, str | None, Source]:
    """States, actions, rewards and outcome of a JSON file."""
    name = name_of(file)
    text = checked_text(file).decode()
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise file_error(name, f"this is not JSON: {error.msg} (column {error.colno})", error.lineno) from None
    except (ValueError, RecursionError) as error:
        raise file_error(name, f"this JSON cannot be read: {error}") from None
    complaints = Complaints(Source(name, in_rows=False))
    key = shape.columns.get("outcome", "outcome")
    if _is_of_lists(content):
        if shape.columns:
            what, fix = "lists have no columns of other names", "call them states, actions, rewards and outcome"
            raise file_error(name, Problem(what, value=dict(shape.columns), fix=fix))
        found, outcomes = _lists(content, shape, complaints), {"outcome": content.get("outcome")}
    elif isinstance(content, list) and content and all(isinstance(record, dict) for record in content):
        found = _records(content, shape, complaints)
        outcomes = {f"[{row}].{key}": record.get(key) for row, record in enumerate(content)}
    else:
        expected = '{"states": [...], "actions": [...]}, or a list of {"t": …, "state": …, "action": …}'
        raise file_error(name, Problem("this is not a path", expectation=expected))
    outcome = None if "outcome" in shape.without else _outcome_of_rows(outcomes, key, complaints)
    complaints.raise_any()
    return *found, outcome, complaints.source


def _is_of_lists(content: Any) -> bool:
    return isinstance(content, dict) and all(isinstance(content.get(key), list) for key in ("states", "actions"))


def _lists(
    content: dict[str, Any], shape: LogShape, complaints: Complaints
) -> tuple[list[Any], list[Any], list[float | None] | None]:
    """States, actions and rewards of a JSON object with a list of states and a list of actions."""
    states = [_label(value, f"states[{t}]", complaints) for t, value in enumerate(content["states"])]
    actions = [_label(value, f"actions[{t}]", complaints) for t, value in enumerate(content["actions"])]
    rewards = None if "reward" in shape.without else content.get("rewards")
    if rewards is not None and not isinstance(rewards, list):
        expected = "a list of numbers, one per action"
        complaints.add(f"found {cut_repr(rewards)}", place="rewards", value=rewards, expectation=expected)
    return states, actions, rewards


def _records(
    records: list[dict[str, Any]], shape: LogShape, complaints: Complaints
) -> tuple[list[Any], list[Any], list[float | None] | None]:
    """States, actions and rewards of a JSON list with one object per step."""
    keys = {name: shape.columns.get(name, name) for name in _COLUMNS}
    states, actions, times = [], [], []
    rewards = None if "reward" in shape.without else [record.get(keys["reward"]) for record in records]
    for row, record in enumerate(records):
        place = f"[{row}]"
        states.append(_label(record.get(keys["state"]), f"{place}.{keys['state']}", complaints))
        action = record.get(keys["action"])
        if row < len(records) - 1 or action not in (None, ""):
            actions.append(_label(action, f"{place}.{keys['action']}", complaints))
        t = record.get(keys["t"], row)
        if isinstance(t, bool) or not isinstance(t, int):
            complaints.add(f"found {cut_repr(t)}", place=f"{place}.{keys['t']}", expectation="a whole number", value=t)
        else:
            times.append(t)
    complaints.raise_any()
    _check_times(times, complaints)
    if len(actions) < len(states) and rewards is not None:
        rewards = _of_actions(rewards, complaints)
    return states, actions, rewards


def _outcome_of_rows(values: Mapping[str, Any], heading: str, complaints: Complaints) -> str | None:
    """The only outcome among the values at some places; None if there is none."""
    for place, value in values.items():
        if isinstance(value, list | dict):
            expected = "a word, a number, true or false"
            complaints.add(f"found {cut_repr(value)}", place=place, value=value, expectation=expected)
    complaints.raise_any()
    outcomes = outcome_names([*values.values()], heading, complaints).names
    if len(outcomes) > 1:
        complaints.add(f"there are several outcomes: {', '.join(outcomes)}", expectation="one outcome per episode")
    return next(iter(outcomes), None)


def _label(value: Any, place: str, complaints: Complaints) -> Any:
    """A name in JSON: text, a number, or a list of names, which becomes a tuple."""
    try:
        return _of_value(value)
    except ValueError:
        expected = f"a name (text, a number, or a list of them, at most {_DEEPEST} deep)"
        complaints.add(f"found {cut_repr(value)}", place=place, value=value, expectation=expected)
        return None


def _of_value(value: Any, depth: int = 0) -> Any:
    if isinstance(value, list) and depth < _DEEPEST:
        return tuple(_of_value(part, depth + 1) for part in value)
    if isinstance(value, list) or value == "" or isinstance(value, dict) or is_missing(value):
        raise ValueError
    return value


def _resolved(mdp: MDP, states: list[Any], actions: list[Any], source: Source) -> tuple[list[Any], list[Any]]:
    """The names of the model for the values of a file; all unknown values are in one error."""
    complaints = Complaints(source, PathError)
    found_states = _find_all(mdp.states, "state", states, complaints)
    found_actions = _find_all(mdp.actions, "action", actions, complaints)
    complaints.raise_any()
    return found_states, found_actions


def _find_all(labels: Names, noun: str, values: list[Any], complaints: Complaints) -> list[Any]:
    found = np.full(len(values), -1)
    for t, value in enumerate(values):
        try:
            found[t] = find_index(labels, value)
        except QueryError as error:  # several names have this text
            several = error.problems[0]
            complaints.add(replace(several, what=f"the {noun} {several.what}", place=f"t = {t}", time=t), row=t)
            found[t] = 0

    def problem(t: int) -> Problem:
        return labels.missing(values[t], noun, time=t, place=f"t = {t}")

    complaints.add_each(np.flatnonzero(found < 0), problem)
    return [labels[int(i)] for i in found]
