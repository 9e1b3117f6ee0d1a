"""Columns from files and dataframes: what they become, where their rows are, and every way they can be wrong."""

import csv
import datetime
import gzip
import io

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from modelfiles import mutated
from pyarrow import feather, ipc, parquet

import tether
from tether.errors import FileError
from tether.io.columns import columns_of, read_columns, table_kind

WANTED = ["state", "action", "probability"]
LABELS = ["state", "action"]
TEXT = "state,action,probability\n0,go,0.5\n1,go,1\n"
TABLE = pa.table({"state": [0, 1], "action": ["go", "go"], "probability": [0.5, 1.0]})

in_a_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.fixture
def write(tmp_path):
    """Write bytes or text under a name; give the file's path as text."""

    def write(name, data):
        file = tmp_path / name
        file.write_bytes(data.encode() if isinstance(data, str) else data)
        return str(file)

    return write


def read(file, wanted=WANTED, text=LABELS, **options):
    return read_columns(file, wanted, text=text, **options)


def refusal(file, *args, **options):
    """The message of the error, without the folder."""
    with pytest.raises(FileError) as caught:
        read(file, *args, **options)
    for problem in caught.value.problems:
        assert problem.file == file
    return str(caught.value).replace(file.rpartition("/")[0] + "/", "")


def frame_refusal(frame, wanted=WANTED, text=LABELS, **options):
    with pytest.raises(tether.ModelError) as caught:
        columns_of(frame, wanted, text=text, **options)
    return str(caught.value)


# --- What is read ------------------------------------------------------------------------------


def stream_of(table):
    sink = io.BytesIO()
    with ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def bytes_of(table, how):
    sink = pa.BufferOutputStream()
    how(table, sink)
    return sink.getvalue().to_pybytes()


SAME = {
    "a.csv": TEXT.encode(),
    "a.CSV": TEXT.encode(),
    "bom.csv": b"\xef\xbb\xbf" + TEXT.encode(),
    "windows.csv": TEXT.replace("\n", "\r\n").encode(),
    "mac.csv": TEXT.replace("\n", "\r").encode(),
    "unended.csv": TEXT.rstrip().encode(),
    "blank.csv": TEXT.replace("\n", "\n\n").encode(),
    "late.csv": b"\n\n" + TEXT.encode(),
    "spaced.csv": TEXT.replace(",", " , ").encode(),
    "quoted.csv": b'"state","action","probability"\n"0","go","0.5"\n"1","go","1"\n',
    "semicolon.csv": TEXT.replace(",", ";").encode(),
    "tabs.csv": TEXT.replace(",", "\t").encode(),
    "more.csv": b"x,state,probability,action,x\n7,0,0.5,go,\xc3\xa9\n,1,1e0,go,8\n",
    "a.tsv": TEXT.replace(",", "\t").encode(),
    "a.csv.gz": gzip.compress(TEXT.encode(), mtime=0),  # the same bytes, and so the same test, in every process
    "a.tsv.gz": gzip.compress(TEXT.replace(",", "\t").encode(), mtime=0),
    "a.parquet": bytes_of(TABLE, parquet.write_table),
    "a.pq": bytes_of(TABLE.select([2, 0, 1]), parquet.write_table),
    "a.arrow": bytes_of(TABLE, feather.write_feather),
    "a.feather": bytes_of(TABLE, feather.write_feather),
    "stream.arrow": stream_of(TABLE),
}


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


# --- Dataframes --------------------------------------------------------------------------------


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
            "the column 'state' is missing; found 'action', 'probability', 'other'; where a column has "
            "another name, map it: columns={'state': '<its name there>'}",
        ),
    ],
)
def test_what_is_wrong_with_a_dataframe(table, expected):
    assert frame_refusal(table).startswith(expected)


def test_the_error_of_a_dataframe_can_be_another():
    with pytest.raises(tether.PathError):
        columns_of(None, WANTED, error=tether.PathError)


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


# --- What is wrong -----------------------------------------------------------------------------

HEAD = "state,action,probability\n"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("", "a.csv: the file is empty; expected a header with the columns state, action, probability"),
        (" \n\n", "a.csv: the file is empty; expected a header with the columns state, action, probability"),
        (HEAD, "a.csv: there is a header, but no rows"),
        (HEAD + "\n\n", "a.csv: there is a header, but no rows"),
        (HEAD + "0,go,x\n", "a.csv, line 2: found 'x' in the column 'probability'; expected a number"),
        (HEAD + "0,go,1/2\n", "a.csv, line 2: found '1/2' in the column 'probability'; expected a number"),
        (
            HEAD + '0,go,"0,5"\n',
            "a.csv, line 2: found '0,5' in the column 'probability'; expected a number; write it with a decimal point",
        ),
        (HEAD + "0,go,1\n\n,go,1\n", "a.csv, line 4: the cell in the column 'state' is empty; expected a name"),
        (HEAD + "0,go,1\n1,go, \n", "a.csv, line 3: the cell in the column 'probability' is empty; expected a number"),
        (
            HEAD + "0,go,1\n1,go\n",
            "a.csv, line 3: 2 fields, but the header has 3 names; a field that holds the separator must be quoted",
        ),
        (
            HEAD + '0,"g\no",1\n1,go,1,7\n',
            "a.csv, line 4: 4 fields, but the header has 3 names; a field that holds the separator must be quoted",
        ),
        (
            HEAD + '0,go,1\n1,"go,1\n2,go,1\n',
            'a.csv, line 3: a quote (") is never closed: the rest of the file is one field; close it, or write it '
            "twice",
        ),
        (
            'probability,state,action\n1,0,go\n1,0,"go\n1,2,go\n',  # as many fields as there should be
            'a.csv, line 3: a quote (") is never closed: the rest of the file is one field; close it, or write it '
            "twice",
        ),
        (
            HEAD + '0,"' + "x\n" * 200_000,
            'a.csv, line 2: this record cannot be read: field larger than field limit (131072); is a quote (") never '
            "closed?",
        ),
        (
            '"' + HEAD + "x\n" * 200_000,
            'a.csv, line 1: the header cannot be read: field larger than field limit (131072); is a quote (") never '
            "closed?",
        ),
        (HEAD.encode() + b"0,caf\xe9,1\n", "a.csv, line 2: the byte 0xe9 is not UTF-8; save the file as UTF-8 text"),
        (
            HEAD.encode() + b"0,g\0o,1\n",
            "a.csv, line 2: a NUL byte: this is not text, or not in UTF-8; save it as UTF-8 text",
        ),
        (TEXT.encode("utf-16"), "a.csv: this is not UTF-8 text but UTF-16; save it as UTF-8"),
        (SAME["a.parquet"], "a.csv: this is not UTF-8 text but a Parquet file; name it .parquet"),
        (SAME["a.csv.gz"], "a.csv: this is not UTF-8 text but compressed with gzip; add .gz to its name"),
        (
            "0,go,1\n1,go,1\n",
            "a.csv: the columns 'state', 'action', 'probability' are missing (the first line must name the columns); "
            "found '0', 'go', '1'; where a column has another name, map it: columns={'state': '<its name "
            "there>', 'action': '<its name there>', 'probability': '<its name there>'}",
        ),
        (
            "State,action,p\n0,go,1\n",
            "a.csv: the columns 'state', 'probability' are missing; found 'State', 'action', 'p'; where a column has "
            "another name, map it: columns={'state': 'State', 'probability': '<its name there>'}",
        ),
        (
            "state,action,probability,state\n0,go,1,2\n",
            "a.csv: the column 'state' is there 2 times; rename or drop one",
        ),
    ],
)
def test_what_is_wrong_with_a_text_file(write, data, expected):
    assert refusal(write("a.csv", data)) == expected


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        (
            "a.csv.gz",
            SAME["a.csv.gz"][:-9],
            "a.csv.gz: the file is cut off: its compressed data has no end; copy it again",
        ),
        ("a.csv.gz", TEXT, "a.csv.gz: its name ends in .gz, but it is not gzip data, or damaged: Not a gzipped file"),
        ("a.parquet", b"", "a.parquet: the file is empty; expected a Parquet file"),
        ("a.parquet", TEXT, "a.parquet: this is not a Parquet file, whatever its name says"),
        (
            "a.parquet",
            SAME["a.parquet"][:-5],
            "a.parquet: the file is cut off: it begins as Parquet, but does not end so; copy it again",
        ),
        (
            "a.parquet",
            b"PAR1PAR1",
            "a.parquet: it cannot be read as a Parquet file; it is damaged, or something else: ",
        ),
        ("a.arrow", b"", "a.arrow: the file is empty; expected an Arrow file"),
        ("a.arrow", TEXT, "a.arrow: it cannot be read as an Arrow file; it is damaged, or something else: "),
        (
            "a.arrow",
            SAME["a.arrow"][:-5],
            "a.arrow: it cannot be read as an Arrow file; it is damaged, or something else: ",
        ),
        (
            "a.parquet",
            bytes_of(
                pa.table({"state": [0, None], "action": ["go", ""], "probability": [None, 1.0]}), parquet.write_table
            ),
            "3 problems:\n"
            "  - a.parquet, row 1: the cell in the column 'probability' is empty; expected a number\n"
            "  - a.parquet, row 2: the cell in the column 'state' is empty; expected a name\n"
            "  - a.parquet, row 2: the cell in the column 'action' is empty; expected a name",
        ),
        (
            "a.parquet",
            bytes_of(TABLE.slice(0, 0), parquet.write_table),
            "a.parquet: there are no rows",
        ),
    ],
)
def test_what_is_wrong_with_other_files(write, name, data, expected):
    assert refusal(write(name, data)).startswith(expected)


def test_very_long_lines(write):
    names = WANTED + [f"c{i}" for i in range(30_000)]
    wide = write("a.csv", ",".join(names) + "\n" + ",".join(["1"] * len(names)) + "\n")
    assert read(wide)["action"].tolist() == [1]
    long = write("b.csv", HEAD + "0," + "x" * 2**24 + ",1\n")
    assert read(long)["action"][0] == "x" * 2**24
    longer = write("c.csv", HEAD + "0,go,1\n" + "0," + "x" * 2**25 + ",1\n")
    assert refusal(longer) == "c.csv: a record of 34 MB; expected at most 16 MB"
    open_quote = write("d.csv", HEAD + "0,go,1\n" + '0,"' + "x,1\n" * 2**23)
    assert refusal(open_quote).startswith("d.csv, line 3: this record cannot be read: field larger than field limit")


def test_all_problems_come_at_once_in_the_order_of_the_lines(write):
    file = write("a.csv", HEAD + "0,go,1\n1,go\n,go,x\n2,go,1,1\n3,,\n")
    assert refusal(file).splitlines() == [
        "6 problems:",
        "  - a.csv, line 3: 2 fields, but the header has 3 names; a field that holds the separator must be quoted",
        "  - a.csv, line 4: the cell in the column 'state' is empty; expected a name",
        "  - a.csv, line 4: found 'x' in the column 'probability'; expected a number",
        "  - a.csv, line 5: 4 fields, but the header has 3 names; a field that holds the separator must be quoted",
        "  - a.csv, line 6: the cell in the column 'action' is empty; expected a name",
        "  - a.csv, line 6: the cell in the column 'probability' is empty; expected a number",
    ]


@pytest.mark.parametrize("bad", ["0,go\n", ",go,1\n", "0,go,x\n", '0,"go"\n'])
def test_many_problems_are_counted_and_the_first_hundred_kept(write, bad):
    file = write("a.csv", HEAD + bad * 1234)
    with pytest.raises(FileError) as caught:
        read(file)
    assert caught.value.total == 1234
    assert [problem.line for problem in caught.value.problems] == list(range(2, 102))


@pytest.mark.parametrize("bad", ["7,go,O.5", "7,,0.5", "7,go", "7,g\0o,1"])
@pytest.mark.parametrize("quoted", [False, True])
def test_one_bad_row_among_very_many_is_named(write, monkeypatch, bad, quoted):
    # Enough text for several of the blocks in which Arrow reads.
    monkeypatch.setattr("tether.io.delimited.BLOCK", 1 << 20)
    n = 100_000
    rows = ["7,go,0.5" + 20 * "0"] * n
    rows[n - 10] = bad
    first = '"7",go,1\n' if quoted else "7,go,1\n"
    line = refusal(write("a.csv", HEAD + first + "\n".join(rows) + "\n")).partition(":")[0]
    assert line == f"a.csv, line {n - 10 + 3:,}"


@pytest.mark.parametrize("name", [None, 3, b"a.csv", ""])
def test_what_is_no_file_name(name):
    with pytest.raises(tether.QueryError, match="expected the name of a file, not"):
        read(name)


def test_files_that_are_not_there(tmp_path):
    assert refusal(f"{tmp_path}/no.csv") == "no.csv: there is no such file"
    (tmp_path / "folder.csv").mkdir()
    assert refusal(f"{tmp_path}/folder.csv") == "folder.csv: this is a directory, not a file"
    with pytest.raises(tether.FileError, match="is not the name of a file"):
        read("a\0b.csv")


# --- Fuzz --------------------------------------------------------------------------------------


def no_crash(file, data):
    file.write_bytes(data)
    try:
        columns = read_columns(file, WANTED, ["reward"], text=LABELS)
    except tether.TetherError:
        return
    assert {len(values) for values in columns.values.values()} == {columns.n_rows}
    assert columns.source.line(columns.n_rows - 1) >= columns.n_rows


@in_a_folder
@given(data=st.one_of(st.binary(max_size=60), st.binary(max_size=60).map(lambda tail: HEAD.encode() + tail)))
def test_random_bytes_as_text(tmp_path, data):
    for name in ("a.csv", "a.tsv"):
        no_crash(tmp_path / name, data)
    no_crash(tmp_path / "a.csv.gz", data)
    no_crash(tmp_path / "b.csv.gz", gzip.compress(data, mtime=0))


@in_a_folder
@given(data=mutated(TEXT.encode() + b'"2\n3",stay,-1e-3\n\n4,"go ""on""",nan\n'))
def test_mutated_text(tmp_path, data):
    no_crash(tmp_path / "a.csv", data)


@in_a_folder
@given(data=mutated(SAME["a.csv.gz"]))
def test_mutated_gzip(tmp_path, data):
    no_crash(tmp_path / "a.csv.gz", data)


@in_a_folder
@given(data=st.binary(max_size=100))
def test_random_bytes_as_parquet_and_arrow(tmp_path, data):
    no_crash(tmp_path / "a.parquet", data)
    no_crash(tmp_path / "b.parquet", b"PAR1" + data + b"PAR1")
    no_crash(tmp_path / "a.arrow", data)
    no_crash(tmp_path / "b.arrow", b"ARROW1\0\0" + data + b"ARROW1")
