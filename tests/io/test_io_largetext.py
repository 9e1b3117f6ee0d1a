"""Large texts and large columns: read in other ways than small ones, with the same result to the last word."""

import gzip
import os

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from systems import posix

from tether.errors import FileError
from tether.io import columns, delimited, read_table, values
from tether.io.columns import read_columns
from tether.io.files import opened_text
from tether.model import from_table

in_a_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
NAMES = ["state", "next_state", "probability"]
HEAD = "state,next_state,probability\n"


def read_both_ways(file):
    """What is read, or refused: of the text in memory, and of the text that stays in its file."""
    with pytest.MonkeyPatch.context() as patch:
        in_memory = found(file)
        patch.setattr(delimited, "IN_MEMORY", 0)
        patch.setattr(delimited, "PIECE", 64)
        patch.setattr(delimited, "_HEAD", 38)  # the mark, the header and a row
        assert delimited.read_text(file, NAMES, None).data is None
        return in_memory, found(file)


def found(file):
    try:
        read = read_columns(file, NAMES, text=NAMES[:2], blank=["next_state"])
    except FileError as error:
        return error.problems, error.total
    return [list(read[name]) for name in NAMES], [read.source.line(row) for row in range(read.n_rows)]


cell = st.sampled_from(["a", " b ", "é", "0", "7", "007", "", '"c"', '"d,\ne"', '"f""g"', 'h"i', "\0", "1,2", "x" * 70])
number = st.sampled_from(["0.5", " 1 ", "1e-3", "x", "", "0,5"])


@in_a_folder
@given(
    rows=st.lists(st.tuples(cell, cell, number), min_size=1, max_size=12),
    end=st.sampled_from(["\n", "\r\n", "\n\n"]),
    mark=st.sampled_from([b"", b"\xef\xbb\xbf"]),
    last=st.sampled_from([b"", b"\xff,a,1\n", b"\xc3"]),
    packed=st.booleans(),
)
@example(rows=[("a", "b", "1")] * 30 + [("a", '"b\nb"', "1")], end="\n", mark=b"", last=b"", packed=False)
@example(rows=[("é" * 40, "é" * 41, "1")] * 5, end="\n", mark=b"\xef\xbb\xbf", last=b"", packed=True)
@example(rows=[("a", "b", "1")] * 9, end="\n", mark=b"", last=b"\xc3", packed=False)
def test_a_text_that_stays_in_its_file_is_read_as_one_in_memory(tmp_path, rows, end, mark, last, packed):
    text = mark + (HEAD + "a,b,1\n" + "".join(",".join(row) + end for row in rows)).encode() + last
    file = tmp_path / ("a.csv.gz" if packed else "a.csv")
    file.write_bytes(gzip.compress(text) if packed else text)
    in_memory, in_file = read_both_ways(file)
    assert in_file == in_memory


def test_a_record_may_be_longer_than_a_piece(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text(HEAD + "a,b,1\n" * 20 + "a," + "b" * 1000 + ",1\n" + "a,b,1\n" * 20)
    in_memory, in_file = read_both_ways(file)
    assert in_file == in_memory
    assert in_file[0][1][20] == "b" * 1000


def test_a_header_that_is_not_soon_complete_is_read_with_the_whole_text(tmp_path, monkeypatch):
    file = tmp_path / "a.csv"
    file.write_text(HEAD.replace("\n", "," + "z" * 70_000 + "\n") + "a,b,1,0\n")
    monkeypatch.setattr(delimited, "IN_MEMORY", 0)
    assert delimited.read_text(file, NAMES, None).data is not None
    assert found(file) == ([["a"], ["b"], [1]], [2])


@posix
def test_a_pipe_is_read_once(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "IN_MEMORY", 0)
    pipe, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        stream.write(HEAD + "a,b,x\n")
    with os.fdopen(pipe), pytest.raises(FileError, match="line 2: found 'x'"):
        read_columns(f"/dev/fd/{pipe}", NAMES, text=NAMES[:2], kind="csv")


def test_a_file_that_changes_between_two_readings_is_refused(tmp_path, monkeypatch):
    file = tmp_path / "a.csv"
    file.write_bytes(b"a\nb\0\n")
    with opened_text(str(file), 2) as stream:
        assert stream.read(100) == b""
        file.write_bytes(b"a\nb\n")
        with pytest.raises(FileError, match="the file was changed while it was read; read it again"):
            stream.raise_any()
    file.write_text(HEAD + "a,b\n")
    monkeypatch.setattr(delimited, "IN_MEMORY", 0)
    scan = columns.scan
    monkeypatch.setattr(columns, "scan", lambda text: file.write_text(HEAD + "a,b,1\n") and scan(text))
    with pytest.raises(FileError, match="the file was changed while it was read"):
        read_columns(file, NAMES, text=NAMES[:2])


word = st.sampled_from(["a", "b", " a", "c ", "dd", "", "é"])


@given(chunks=st.lists(st.lists(st.tuples(word, st.integers(1, 4)), min_size=1, max_size=6), min_size=1, max_size=4))
def test_long_runs_and_many_cells_are_numbered_as_a_dict_numbers_them(chunks):
    cells = [[text for text, length in chunk for _ in range(length)] for chunk in chunks]
    column = pa.chunked_array(cells, pa.string())
    other = pa.chunked_array([["b", " x", "a"], ["", "a "]], pa.string())
    labels, codes = values.encoded_together([column, other])
    numbers = {}
    expected = [
        [numbers.setdefault(text.strip(), len(numbers)) if text.strip() else -1 for text in one.to_pylist()]
        for one in (column, other)
    ]
    assert labels == list(numbers)
    assert [one.tolist() for one in codes] == expected


def test_runs_of_empty_cells():
    column = pa.chunked_array([["a", "a", None], [None, "b", "b"], [None]], pa.string())
    found, codes = values.encoded(column)
    assert found.to_pylist() == ["a", "b"]
    assert codes.tolist() == [0, 0, -1, -1, 1, 1, -1]


def test_many_rows_are_looked_up_in_their_order():
    names = pa.array([f"name {i}" for i in range(2_500)])
    rows = np.random.default_rng(0).integers(0, 2_500, 1 << 19)
    column = pa.chunked_array([names.take(pa.array(rows))])
    labels, (first, codes) = values.encoded_together([pa.chunked_array([names[:2_000]]), column])
    assert np.array_equal(first, np.arange(2_000))
    assert np.array_equal(codes[rows < 2_000], rows[rows < 2_000])
    assert np.array_equal(np.array(labels)[codes], column.to_numpy())


@in_a_folder
@given(
    pairs=st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=6, unique=True), min_size=6, max_size=6),
    shuffled=st.booleans(),
    seed=st.integers(0, 9),
)
def test_rows_sorted_part_by_part_are_those_of_a_dict(tmp_path, pairs, shuffled, seed):
    rng = np.random.default_rng(seed)
    rows = [(f"s{s}", f"s{j}", 1 / len(after), rng.integers(5)) for s, after in enumerate(pairs) for j in after]
    if shuffled:
        rng.shuffle(rows)
        rows = [(s, j, float(p), int(float(r))) for s, j, p, r in rows]
    file = tmp_path / "a.csv"
    text = "".join(f"{s},go,{j},{p!r},{r}\n" for s, j, p, r in rows)
    file.write_text("state,action,next_state,probability,reward\n" + text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(from_table, "_PART", 3)
        mdp = read_table(file)
    chance = {(s, j): p for s, j, p, _ in rows}
    reward = {(s, j): r for s, j, _, r in rows}
    form, found = mdp.form, 0
    for x in range(mdp.n_pairs):
        state = mdp.states[x]
        entries = range(form.row_start[x], form.row_start[x + 1])
        assert [*form.next_state[entries]] == sorted({*form.next_state[entries].tolist()})
        for e in entries:
            key = state, mdp.states[form.next_state[e]]
            assert form.probability[e] == pytest.approx(chance[key])
            assert mdp.rewards.values[e if mdp.rewards.by_entry else x] == reward[key]
            found += 1
    assert found == len(rows)
