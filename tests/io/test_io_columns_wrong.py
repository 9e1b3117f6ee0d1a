"""Columns from files that are wrong: every way says what, where and how to mend it; none is a crash."""

import gzip
import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from modelfiles import mutated
from pyarrow import ipc, parquet
from tablefiles import HEAD, LABELS, SAME, TABLE, TEXT, WANTED, bytes_of, in_a_folder, read, refusal

import tether
from tether.errors import FileError
from tether.io.columns import read_columns

# --- What is wrong -----------------------------------------------------------------------------


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
        (
            HEAD.encode() + b"0,caf\xe9,1\n",
            "a.csv, line 2: the byte 0xe9 is not UTF-8; save the file as UTF-8 text; a log can also be read as it is: "
            "encoding='latin-1'",
        ),
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
            "found '0', 'go', '1'; if a column has another name, map it: columns={'state': '<its name "
            "there>', 'action': '<its name there>', 'probability': '<its name there>'}",
        ),
        (
            "State,action,p\n0,go,1\n",
            "a.csv: the columns 'state', 'probability' are missing; found 'State', 'action', 'p'; if a column has "
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
            "a.parquet: the file is cut off: it begins like a Parquet file, but does not end like one; copy it again",
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


@pytest.mark.parametrize("bad", ["0,go\n", "0,go,x\n", '0,"go"\n'])
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


# --- What kills pyarrow ------------------------------------------------------------------------


def damaged_arrow(seed):
    """An IPC file of dictionaries with a few bytes changed."""
    words = pa.array(["a", "b", "c"] * 30).dictionary_encode()
    table = pa.table({"state": words, "action": words, "probability": [1.0] * 90})
    sink, rng = pa.BufferOutputStream(), random.Random(seed)
    with ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    data = bytearray(sink.getvalue().to_pybytes())
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


@pytest.mark.parametrize("seed", [74, 132, 135, 366, 501])
def test_a_damaged_arrow_file_does_not_end_the_session(write, seed):
    """pyarrow 26 dies (SIGSEGV) if it is asked for the size of such a batch before the batch is validated."""
    assert "it cannot be read as an Arrow file; it is damaged" in refusal(write("a.arrow", damaged_arrow(seed)))
