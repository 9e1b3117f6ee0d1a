"""Columns from dataframes: what they become, and every way they can be wrong."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tablefiles import LABELS, WANTED

import tether
from tether.io.columns import columns_of


def frame_refusal(frame, wanted=WANTED, text=LABELS, **options):
    with pytest.raises(tether.ModelError) as caught:
        columns_of(frame, wanted, text=text, **options)
    return str(caught.value)


class ArrowOnly:
    """A dataframe of which nothing is known but that it exports Arrow."""

    def __init__(self, frame):
        self.__arrow_c_stream__ = frame.__arrow_c_stream__


class InterchangeOnly:
    """A dataframe of which nothing is known but that it speaks the older interchange."""

    def __init__(self, frame):
        self.__dataframe__ = frame.__dataframe__


PLAIN = {"state": [0, 1], "action": ["go", "go"], "probability": [0.5, 1.0], "other": [b"x", None]}


@pytest.mark.parametrize(
    "make",
    [
        pd.DataFrame,
        pl.DataFrame,
        lambda columns: pl.DataFrame(columns).lazy(),
        pa.table,
        pa.record_batch,
        lambda columns: pa.table(columns).to_reader(),
        lambda columns: ArrowOnly(pl.DataFrame(columns)),
        lambda columns: InterchangeOnly(pa.table(columns).drop(["other"])),
        dict,
        lambda columns: {name: np.array(values) for name, values in columns.items()},
        lambda columns: {name: pl.Series(values) for name, values in columns.items()},
        lambda columns: pd.DataFrame(columns).astype({"action": "category"}),
        lambda columns: pl.DataFrame(columns).with_columns(pl.col("action").cast(pl.Categorical)),
        lambda columns: pl.DataFrame(columns).with_columns(pl.col("state").cast(pl.Float64)),
    ],
)
def test_the_same_table_from_every_dataframe(make):
    columns = columns_of(make(PLAIN), WANTED, text=LABELS)
    assert columns["state"].tolist() == [0, 1]
    assert columns["state"].dtype == np.int64
    assert columns["action"].tolist() == ["go", "go"]
    assert columns["probability"].tolist() == [0.5, 1.0]
    assert (columns.file, columns.source.place(1)) == (None, "row 1")


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, dict])
@pytest.mark.parametrize(
    ("given_labels", "expected"),
    [
        (["1", "2"], ["1", "2"]),  # a typed column means what it says
        ([True, False], [True, False]),
        ([0.5, 1.0], [0.5, 1.0]),
        ([(0, "a"), (1, "b")], [(0, "a"), (1, "b")]),
        ([[0, 1], [2]], [(0, 1), (2,)]),
        (
            [datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)],
            [datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)],
        ),
        ([2**63, 1], [2**63, 1]),
    ],
)
def test_labels_of_a_dataframe_are_what_its_types_say(make, given_labels, expected):
    if make in (pl.DataFrame, pa.table) and isinstance(given_labels[0], tuple):
        given_labels = [{"x": x, "y": y} for x, y in given_labels]  # they know no tuples, but records
    if make is pa.table and given_labels[0] == 2**63:
        given_labels = pa.array(given_labels, pa.uint64())
    frame = make({"state": given_labels, "action": ["go", "go"], "probability": [1, 1]})
    assert columns_of(frame, WANTED, text=LABELS)["state"].tolist() == expected


@pytest.mark.parametrize("make", [pd.DataFrame, dict])
def test_labels_of_several_types(make):
    mixed = [0, "a", (1, 2)]
    frame = make({"state": mixed, "action": ["go"] * 3, "probability": [1] * 3})
    assert columns_of(frame, WANTED, text=LABELS)["state"].tolist() == mixed


def test_an_array_of_several_columns_has_tuples_for_labels():
    table = {"state": np.array([[9, 1], [8, 2]]), "action": [0, 0], "probability": [1, 1]}
    assert columns_of(table, WANTED, text=LABELS)["state"].tolist() == [(9, 1), (8, 2)]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ([1, 2], "expected a dataframe (pandas, polars, …), an Arrow table, or a dict of columns, not list"),
        ({**PLAIN, "state": "ab"}, "the column 'state' is 'ab'; expected a list or an array"),
        ({**PLAIN, "state": [0]}, "the columns differ in length: state 1, action 2, probability 2"),
        ({"state": [], "action": [], "probability": []}, "there are no rows"),
        (
            {**PLAIN, "state": [0, {1}]},
            "row 1: {1} in the column 'state' cannot be a name, it is not hashable; use a tuple",
        ),
        ({**PLAIN, "probability": [1, "0.5"]}, "row 1: found '0.5' in the column 'probability'; expected a number"),
        ({**PLAIN, "probability": [1, [2]]}, "row 1: found [2] in the column 'probability'; expected a number"),
        ({**PLAIN, "state": [0, None]}, "row 1: the cell in the column 'state' is empty; expected a name"),
        (
            pd.DataFrame({**PLAIN, "state": [0, None]}),
            "row 1: the cell in the column 'state' is empty; expected a name",
        ),
        (
            pl.DataFrame({**PLAIN, "probability": [0.5, None]}),
            "row 1: the cell in the column 'probability' is empty; expected a number",
        ),
        (
            pl.DataFrame({**PLAIN, "probability": ["0.5", "1"]}),
            "the column 'probability' holds text, not numbers; convert it first",
        ),
        (
            pl.DataFrame({**PLAIN, "probability": [datetime.date(2020, 1, 1)] * 2}),
            "the column 'probability' holds date32[day], not numbers",
        ),
        (
            pa.table({**PLAIN, "state": pa.array([2**62, 0], pa.timestamp("s"))}),
            "the column 'state' holds timestamp[s], which cannot be read as names",
        ),
        (
            pd.DataFrame(PLAIN).set_index("state"),
            "the column 'state' is missing; found 'action', 'probability', 'other'; if a column has "
            "another name, map it: columns={'state': '<its name there>'}",
        ),
    ],
)
def test_what_is_wrong_with_a_dataframe(table, expected):
    assert frame_refusal(table).startswith(expected)


def test_the_error_of_a_dataframe_can_be_another():
    with pytest.raises(tether.PathError):
        columns_of(None, WANTED, error=tether.PathError)
