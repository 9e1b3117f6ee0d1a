"""Models as tables: one row per transition, in a CSV, Parquet or Arrow file or in a dataframe.

The columns are state, action, next_state, probability and, if there are rewards, reward. A table has only
transitions: no discount, no horizon, no counts. `tether.MDP.save` keeps all of a model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from tether.errors import ModelError, Problem
from tether.io.arrowfiles import label_column, write_arrow
from tether.io.columns import Columns, columns_of, read_columns
from tether.io.files import File, file_error, table_kind, unknown_table
from tether.io.names_as_text import word_to_label
from tether.mdp import MDP
from tether.model.encode import Coded
from tether.model.form import TOLERANCE, all_pair_states
from tether.model.from_table import form_from_table

_WANTED = ("state", "action", "next_state", "probability")
_LABELS = ("state", "action", "next_state")


def read_table(
    file: File,
    *,
    columns: Mapping[str, str] | None = None,
    states: Iterable[Any] | None = None,
    actions: Iterable[Any] | None = None,
    terminal: Iterable[Any] = (),
    tolerance: float = TOLERANCE,
    kind: str | None = None,
    max_unpacked: int | str | None = None,
) -> MDP:
    r"""Read a model from a table of transitions.

    In a text file, names become ints if all of them are whole numbers; otherwise they are text, without the spaces
    around it. In other files the column's type decides.

    Parameters
    ----------
    file : path
        ``.csv``, ``.tsv`` (also ``.gz`` of both), ``.parquet``, ``.arrow``, ``.feather`` or ``.xlsx``, with the columns
        state, action, next_state, probability and, if there are rewards, reward. Other columns are ignored.
    columns : mapping, optional
        The names of columns in the file, if they differ: ``{"state": "s", "probability": "p"}``.
    states, actions, terminal, tolerance
        As in `tether.MDP.from_table`.
    kind : {"csv", "tsv", "parquet", "arrow"}, optional
        The kind of file; by default its suffix decides.
    max_unpacked : int or str, optional
        The most bytes that a compressed file may unpack to: ``"4 GB"``. By default 256 MB, or 100 times its size if
        that is more.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from tether.io import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "clinic.csv")
    ...     _ = file.write_text("state,action,next_state,p\nsick,treat,well,0.8\nsick,treat,sick,0.2\n")
    ...     read_table(file, columns={"probability": "p"}, terminal=["well"])
    <MDP: 2 states, 1 action, 2 pairs, 3 transitions>
    """
    read = read_columns(file, _WANTED, ["reward"], columns, text=_LABELS, kind=kind, max_unpacked=max_unpacked)
    return _model(read, states, actions, terminal, tolerance, own=True)


def from_dataframe(
    frame: Any,
    *,
    columns: Mapping[str, str] | None = None,
    states: Iterable[Any] | None = None,
    actions: Iterable[Any] | None = None,
    terminal: Iterable[Any] = (),
    tolerance: float = TOLERANCE,
) -> MDP:
    """Build a model from a dataframe of transitions: pandas, polars, Arrow, or a dict of columns.

    Parameters
    ----------
    frame
        Anything that exports Arrow (``__arrow_c_stream__``) or the dataframe interchange
        (``__dataframe__``), or a mapping of columns; with the columns that `read_table` knows.
    columns, states, actions, terminal, tolerance
        As in `read_table`.

    Examples
    --------
    >>> import pandas
    >>> from tether.io import from_dataframe
    >>> frame = pandas.DataFrame({"state": [0], "action": ["go"], "next_state": [1], "probability": [1.0]})
    >>> from_dataframe(frame, terminal=[1])
    <MDP: 2 states, 1 action, 2 pairs, 2 transitions>
    """
    read = columns_of(frame, _WANTED, ["reward"], columns, text=_LABELS)
    return _model(read, states, actions, terminal, tolerance)


def write_table(mdp: MDP, file: File, *, kind: str | None = None) -> None:
    """Write a model as a table of transitions: CSV, TSV, Parquet or Arrow, by the file's suffix.

    Names that are not all whole numbers are written as text, a tuple as ``(9, 1, 20)``. States without rows that no
    transition leads to are not in the table. When the table is read again, names that are not whole numbers are in the
    order in which they appear.

    Parameters
    ----------
    mdp : MDP
        Without a horizon, a discount, a final reward or counts, which a table cannot hold.
    file : path
    kind : {"csv", "tsv", "parquet", "arrow"}, optional
        The kind of file to write; by default its suffix decides.

    Examples
    --------
    >>> import tempfile, tether
    >>> from tether.io import read_table, write_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_table(tether.cases.grid_world().mdp, f"{folder}/grid.csv")
    ...     read_table(f"{folder}/grid.csv")
    <MDP: 16 states, 4 actions, 64 pairs, 220 transitions>
    """
    kind = kind or table_kind(file)
    if kind is None:
        raise unknown_table(file)
    check_plain(mdp, file, "a table")
    write_arrow(_arrow(mdp, file, kind), file, kind)


def check_plain(mdp: MDP, file: File, what: str) -> None:
    """Refuse a model that has more than transitions and rewards, and name what would be lost."""
    beyond = {
        f"rewards that depend on time (for {mdp.rewards.horizon} steps)": mdp.rewards.horizon is not None,
        f"the horizon {mdp.horizon}": mdp.horizon is not None and mdp.rewards.horizon is None,
        f"the discount {mdp.discount:g}": mdp.discount != 1.0,
        "the final reward": mdp.final_reward is not None,
        "the counts that it was learned from": mdp.counts is not None,
    }
    lost = [one for one, there in beyond.items() if there]
    if lost:
        fix = "save it as a model, which can: mdp.save('<file>')"
        problem = Problem(f"{what} cannot hold what this model has: {', '.join(lost)}", fix=fix, argument="save")
        raise file_error(file, problem)


def _model(read: Columns, states: Any, actions: Any, terminal: Any, tolerance: float, own: bool = False) -> MDP:
    try:
        state_names, action_names, form = form_from_table(
            read["state"],
            read["action"],
            read["next_state"],
            read["probability"],
            read.get("reward"),
            states=states,
            actions=actions,
            terminal=_like(read, terminal),
            tolerance=tolerance,
            source=read.source,
            own=own,
        )
    except ModelError as error:  # a problem with an argument has no row, but it belongs to this file
        problems = [replace(problem, file=read.file) for problem in error.problems]
        raise ModelError(problems, total=error.total) from None
    return MDP(state_names, action_names, form)


def _like(read: Columns, terminal: Any) -> Any:
    """Names as ints if the names in the file are ints: on the command line they are text."""
    numbers = not isinstance(read["next_state"], Coded) and read["next_state"].dtype.kind in "iu"
    if isinstance(terminal, str) or not isinstance(terminal, Iterable) or not numbers:
        return terminal
    return [word_to_label(name) if isinstance(name, str) else name for name in terminal]


def _arrow(mdp: MDP, file: File, kind: str) -> Any:
    form = mdp.form
    lengths = np.diff(form.row_start)
    states = label_column(mdp.states, "state", file, kind)
    actions = label_column(mdp.actions, "action", file, kind)
    pairs = np.repeat(np.arange(mdp.n_pairs), lengths)
    rewards = mdp.rewards.values if mdp.rewards.by_entry else mdp.rewards.values[pairs]
    return pa.table(
        {
            "state": states.take(pa.array(all_pair_states(form.pair_start)[pairs])),
            "action": actions.take(pa.array(form.pair_action[pairs])),
            "next_state": states.take(pa.array(form.next_state)),
            "probability": pa.array(form.probability),
            "reward": pa.array(rewards),
        }
    )
