"""Columns from files: what they become, and where their rows are."""

import csv
import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tablefiles import LABELS, SAME, TEXT, WANTED, in_a_folder, read, refusal

import tether
from tether.errors import FileError
from tether.io.columns import columns_of, read_columns
from tether.io.files import table_kind

# --- What is read ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAME)
def test_the_same_table_in_every_kind_of_file(write, name):
    columns = read(write(name, SAME[name]))
    assert columns.n_rows == 2
    assert columns["state"].tolist() == [0, 1]
    assert columns["state"].dtype == np.int64
    assert columns["action"].tolist() == ["go", "go"]
    assert columns["probability"].tolist() == [0.5, 1.0]
    assert "reward" not in columns
    assert columns.get("reward") is None


def test_the_kind_can_be_said(write):
    assert read(write("a.txt", TEXT), kind="csv").n_rows == 2
    assert table_kind("a.csv.gz") == "csv"
    assert table_kind("a.parquet.gz") is None
    known = ".csv, .tsv, .parquet, .pq, .arrow, .feather, .ipc, .xlsx, .xlsm"
    expected = f"a.txt: the name does not say what table this is; expected one of {known}"
    assert refusal(write("a.txt", TEXT)) == expected


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["3", "-1", "0"], [3, -1, 0]),
        (["3.0", "1"], [3, 1]),  # as dataframes write ints in a column where one was missing
        (["007", "1"], ["007", "1"]),
        (["+1", "1"], ["+1", "1"]),
        (["-0", "1"], ["-0", "1"]),
        (["-0", "0", "-1"], ["-0", "0", "-1"]),
        (["-07", "1"], ["-07", "1"]),
        (["00", "1"], ["00", "1"]),
        (["0x7", "1"], ["0x7", "1"]),
        (["0", "-1", "10"], [0, -1, 10]),
        (["1.5", "1"], ["1.5", "1"]),
        (["NA", "null"], ["NA", "null"]),
        (["true", "nan"], ["true", "nan"]),
        (["2020-01-01", "1"], ["2020-01-01", "1"]),
        (["9223372036854775808", "1"], ["9223372036854775808", "1"]),
        (["-9223372036854775808", "1"], [-(2**63), 1]),
        ([" a ", "\u00e9"], ["a", "\u00e9"]),
        (['"say ""hi"""', "b,c"], ['say "hi"', "b,c"]),
    ],
)
def test_labels_of_a_text_file_are_whole_numbers_or_text(write, cells, expected):
    lines = [cell if cell.startswith('"') else f'"{cell}"' for cell in cells]
    columns = read(write("a.csv", "state\n" + "\n".join(lines)), ["state"])
    assert columns["state"].tolist() == expected


def test_columns_of_the_same_things_are_of_the_same_type(write):
    file = write("a.csv", "state,next_state,action\n0,1,0\n1,end,1\n")
    columns = read(file, ["state", "next_state", "action"], ["state", "next_state", "action"])
    assert columns["state"].tolist() == ["0", "1"]
    assert columns["next_state"].tolist() == ["1", "end"]
    assert columns["action"].tolist() == [0, 1]


def test_cells_that_may_be_empty(write):
    file = write("a.csv", "state,action,probability\n0,3.0,1\n1,,\n")
    columns = read(file, blank=["action", "probability"])
    assert columns["action"].tolist() == [3, None]
    assert columns["probability"][0] == 1.0
    assert np.isnan(columns["probability"][1])
    frame = pd.DataFrame({"state": [0, 1], "action": [3, None], "probability": [1, None]})
    for table in (frame, {name: list(frame[name]) for name in frame}):
        columns = columns_of(table, WANTED, text=LABELS, blank=["action", "probability"])
        assert columns["action"].tolist() == [3, None]
        assert np.isnan(columns["probability"][1])


def test_numbers_of_a_text_file(write):
    cells = ["0.5", " 1e-3 ", "+4", "1.", ".5", "nan", "-inf", "1e999", "1e-999"]
    numbers = read(write("a.csv", "n\n" + "\n".join(cells)), ["n"], [])["n"]
    assert numbers[[0, 1, 2, 3, 4, 6, 7, 8]].tolist() == [0.5, 1e-3, 4, 1, 0.5, -np.inf, np.inf, 0]
    assert np.isnan(numbers[5])
    assert read(write("b.csv", "n\n1\n2.0\n"), ["n"], [])["n"].dtype == np.int64


def test_columns_can_have_other_names(write):
    file = write("a.csv", "s,action,p\n0,go,1\n")
    columns = read(file, rename={"state": "s", "probability": "p"})
    assert columns["state"].tolist() == [0]
    assert repr(columns) == f"<Columns: {file}, 1 row of state, action, probability>"
    with pytest.raises(tether.QueryError, match="there is no column 'probabilty' to map; expected one of state"):
        read(file, rename={"probabilty": "p"})


# --- Lines -------------------------------------------------------------------------------------

cell = st.text(st.sampled_from('ab ,"\n\r;\t'), min_size=1, max_size=4).filter(lambda text: text.strip(" \n\r\t") != "")


@in_a_folder
@given(
    rows=st.lists(st.tuples(cell, cell), min_size=1, max_size=8),
    blanks=st.sets(st.integers(0, 8)),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_a_row_knows_its_line_whatever_its_cells_hold(tmp_path, rows, blanks, end):
    # The twin: lines are counted while the text is put together.
    text, expected = f"state,action{end}", []
    for i, row in enumerate(rows):
        text += end * (i in blanks)
        expected.append(len((text + "x").splitlines()))
        text += ",".join('"' + one.replace('"', '""') + '"' for one in row) + end
    file = tmp_path / "a.csv"
    file.write_bytes(text.encode())
    columns = read_columns(file, ["state", "action"], text=["state", "action"])
    assert columns["state"].tolist() == [state.strip() for state, _ in rows]
    assert [columns.source.line(row) for row in range(len(rows))] == expected
    assert columns.source.place(0) == f"line {expected[0]}"


def test_rows_of_other_files_are_counted_from_1(write):
    columns = read(write("a.parquet", SAME["a.parquet"]))
    assert (columns.source.line(1), columns.source.place(1)) == (None, "row 2")


BODY = st.text(st.sampled_from('",\n\r ab1.'), max_size=30)


@in_a_folder
@given(body=BODY)
@example(body='"a","b\n')
@example(body='a"b,1\n"c"d,2\n')
@example(body='"\n')
@example(body=',\r"')
def test_arrow_and_pythons_csv_agree_or_the_file_is_refused(tmp_path, body):
    file = tmp_path / "a.csv"
    file.write_bytes(f"x,y\n{body}".encode())
    records = [record for record in csv.reader(io.StringIO(body, newline="")) if record]
    try:
        columns = read_columns(file, ["x", "y"], text=["x", "y"], blank=["x", "y"])
    except FileError:
        assert not records or any(len(record) != 2 for record in records) or body.count('"') % 2
        return
    assert [[str(one or "") for one in (x, y)] for x, y in zip(columns["x"], columns["y"], strict=True)] == [
        [as_read(one, [record[i] for record in records]) for i, one in enumerate(record)] for record in records
    ]
    # The quick count of lines where no quotes are, and the careful one, are of the same records.
    assert columns.source.line(columns.n_rows - 1) <= len((f"x,y\n{body}" + "x").splitlines())


def as_read(one, column):
    """A label as it is read: without spaces around it, as a whole number if all are."""
    column = [other.strip() for other in column if other.strip()]
    whole = all(
        other.removesuffix(".0").isdigit() and str(int(float(other))) == other.removesuffix(".0") for other in column
    )
    return one.strip().removesuffix(".0") if whole else one.strip()
