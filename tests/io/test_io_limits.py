"""What a file may unpack to, what is no array or no path, and that nothing but our own errors leaves a reader."""

import gzip
import io
import json
import re
import struct
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import openpyxl
import pyarrow as pa
import pytest
from effort import tries
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import ipc, parquet

import tether
from tether.io import (
    read_arrays,
    read_drn,
    read_episodes,
    read_model,
    read_path,
    read_prism,
    read_table,
    write_model,
    write_path,
)
from tether.io.files import VARIABLE, read_bytes, unpacked_limit

HEAD = b"state,action,next_state,probability\n"


def bomb(file, megabytes):
    """A compressed table of many equal rows, all of them sound."""
    rows = b"a,go,a,1\n" * (megabytes * 1_000_000 // 9)
    file.write_bytes(gzip.compress(HEAD + rows, compresslevel=1))
    return file


# --- Limits ------------------------------------------------------------------------------------


def test_a_small_file_does_not_fill_the_memory(tmp_path):
    file = bomb(tmp_path / "bomb.csv.gz", 300)
    assert file.stat().st_size < 2_000_000
    with pytest.raises(tether.FileError, match="unpacks to more than 256 MB") as caught:
        read_table(file)
    (problem,) = caught.value.problems
    assert problem.argument == "max_unpacked"
    assert "max_unpacked=" in problem.fix
    assert VARIABLE in problem.fix


def test_the_limit_can_be_set(tmp_path, monkeypatch):
    file = bomb(tmp_path / "some.csv.gz", 2)
    with pytest.raises(tether.FileError, match="unpacks to more than 1 MB"):
        read_table(file, max_unpacked=1_000_000)
    with pytest.raises(tether.FileError, match="unpacks to more than 1 MB"):
        read_model(file, max_unpacked="1 MB")
    with pytest.raises(tether.FileError, match="unpacks to more than 1 MB"):
        read_path(file, max_unpacked="1 MB", columns={"state": "next_state"})
    monkeypatch.setenv(VARIABLE, "1 MB")
    with pytest.raises(tether.FileError, match="unpacks to more than 1 MB"):
        read_bytes(file)
    assert len(read_bytes(file, "3 MB")) > 1_900_000  # what is said wins over the environment


def test_logs_and_explicit_files_have_the_limit_too(tmp_path):
    def zipped(name, text):
        file = tmp_path / name
        file.write_bytes(gzip.compress(text.encode() + b"\n" * 600_000))
        return file

    log = zipped("log.csv.gz", "episode,t,state,action\n1,0,a,go\n")
    tra = zipped("m.tra.gz", "1 1 1\n0 0 0 1 go\n")
    drn = zipped("m.drn.gz", "@type: MDP\n@nr_states\n1\n@model\nstate 0 init\n\taction go\n\t\t0 : 1\n")
    for read, file in ((read_episodes, log), (read_prism, tra), (read_drn, drn)):
        with pytest.raises(tether.FileError, match=r"unpacks to more than 0\.3 MB"):
            read(file, max_unpacked="300 kB")
        read(file, max_unpacked="900 kB")


def test_the_files_beside_prism_transitions_have_the_limit_too(tmp_path):
    tra = tmp_path / "m.tra"
    tra.write_text("1 1 1\n0 0 0 1 go\n")
    texts = {
        "states": "(x)\n0:(3)\n",
        "labels": '0="init"\n0: 0\n',
        "state_rewards": "1 1\n0 2\n",
        "transition_rewards": "1 1 1\n0 0 0 5\n",
    }
    for argument, text in texts.items():
        file = tmp_path / f"{argument}.gz"
        file.write_bytes(gzip.compress(text.encode() + b"\n" * 600_000))
        with pytest.raises(tether.FileError, match=r"unpacks to more than 0\.3 MB"):
            read_prism(tra, **{argument: file}, max_unpacked="300 kB")
        assert read_prism(tra, **{argument: file}, max_unpacked="900 kB").n_states == 1


@pytest.mark.parametrize("wrong", ["much", "-1", "0", "1 PB", True, 1.5e300])
def test_what_is_no_limit(wrong):
    with pytest.raises(tether.QueryError, match="is not a size; expected bytes"):
        unpacked_limit(1, wrong)


def test_a_limit_in_the_environment_that_is_none(monkeypatch):
    monkeypatch.setenv(VARIABLE, "lots")
    with pytest.raises(tether.QueryError, match="the environment variable TETHER_MAX_UNPACKED: 'lots' is not a size"):
        unpacked_limit(1)


def test_what_is_read_in_pieces_may_be_larger_than_memory(monkeypatch):
    assert unpacked_limit(10**9) == 8_000_000_000
    assert unpacked_limit(10**9, in_pieces=True) == 100_000_000_000
    monkeypatch.setenv(VARIABLE, "1 MB")
    assert unpacked_limit(10**9, in_pieces=True) == 1_000_000


@pytest.mark.parametrize("said", ["2MB", "2 mb", "2000 kB", 2_000_000, "2000000", "0.002 GB"])
def test_ways_to_say_a_size(said):
    assert unpacked_limit(1, said) == 2_000_000


def test_an_npz_file_is_not_unpacked_beyond_the_limit(tmp_path):
    np.savez_compressed(tmp_path / "zeros.npz", P=np.zeros((300, 1, 300)))
    with pytest.raises(tether.FileError, match="unpacks to more than"):
        read_arrays(tmp_path / "zeros.npz", rewards=None, max_unpacked=500_000)


def test_a_parquet_table_has_no_more_rows_than_fit(tmp_path):
    columns = {
        name: pa.array(np.zeros(1_000_000, np.int64)) for name in ("state", "action", "next_state", "probability")
    }
    parquet.write_table(pa.table(columns), tmp_path / "zeros.parquet")
    with pytest.raises(tether.FileError, match="its table of 1,000,000 rows unpacks to more than 20 MB"):
        read_table(tmp_path / "zeros.parquet", max_unpacked="20 MB")


def test_an_arrow_file_is_not_unpacked_beyond_the_limit(tmp_path):
    batch = pa.record_batch({"state": pa.array(np.zeros(100_000, np.int64))})
    options = ipc.IpcWriteOptions(compression="zstd")
    with ipc.new_file(str(tmp_path / "zeros.arrow"), batch.schema, options=options) as writer:
        for _ in range(10):
            writer.write_batch(batch)
    with pytest.raises(tether.FileError, match="unpacks to more than 4 MB"):
        read_table(tmp_path / "zeros.arrow", max_unpacked="4 MB")


def mat_file(*elements):
    return b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + b"".join(elements)


def compressed(data):
    packed = zlib.compress(data)
    return struct.pack("<II", 15, len(packed)) + packed


@pytest.mark.parametrize(
    "data",
    [
        compressed(bytes(4_000_000)),
        compressed(struct.pack("<II", 14, 4_000_000) + bytes(4_000_000)),
        compressed(struct.pack("<II", 14, 0) * 400_000),
        compressed(struct.pack("<II", 14, 1_600_000) + struct.pack("<II", 14, 0) * 200_000),
    ],
    ids=["zeros", "a matrix of zeros", "many empty ones", "a matrix of many empty ones"],
)
def test_compressed_zeros_are_refused_at_once(tmp_path, data):
    (tmp_path / "zeros.mat").write_bytes(mat_file(data))
    with pytest.raises(tether.FileError, match="damaged or cut off"):  # 8.7 s for 16 KB before it was checked first
        read_arrays(tmp_path / "zeros.mat")


def test_a_mat_file_is_not_unpacked_beyond_the_limit(tmp_path):
    (tmp_path / "zeros.mat").write_bytes(mat_file(compressed(bytes(4_000_000))))
    with pytest.raises(tether.FileError, match="unpacks to more than 1 MB"):
        read_arrays(tmp_path / "zeros.mat", max_unpacked="1 MB")


# --- What is not what it seems -------------------------------------------------------------------


def test_a_member_of_an_archive_that_is_no_array(tmp_path):
    file = tmp_path / "a.npz"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("P", b"not an array")
        archive.writestr("R.npy", b"nor this")
    with pytest.raises(tether.FileError, match=r"a\.npz: 'P' is no array of NumPy"):
        read_arrays(file)


@pytest.mark.parametrize("depth", [25, 300, 900, 5_000, 100_000])
def test_a_path_that_is_nested_deep(tmp_path, depth):
    file = tmp_path / "deep.json"
    file.write_text('{"states": [' + "[" * depth + "1" + "]" * depth + '], "actions": ["x"]}')
    with pytest.raises(tether.FileError, match=r"deep\.json: "):
        read_path(file)


def test_problems_of_several_kinds_in_one_table_keep_their_order(tmp_path):
    file = tmp_path / "a.csv"
    file.write_bytes(HEAD + b"a,go,a,x\nb,go,,1\nc,go\n,go,c,1\n")
    with pytest.raises(tether.FileError) as caught:
        read_table(file)
    assert [problem.line for problem in caught.value.problems] == [2, 3, 4, 5]


# --- Fuzz ----------------------------------------------------------------------------------------


def valid_files():
    """The bytes of one small model, and of one path, in every format that is one file."""
    case = tether.cases.grid_world()
    made = {}
    with TemporaryDirectory() as folder:
        for suffix in (".csv", ".tsv", ".csv.gz", ".parquet", ".arrow", ".npz", ".mat", ".drn"):
            file = Path(folder, f"grid{suffix}")
            write_model(case.mdp, file)
            made[suffix] = file.read_bytes()
        for suffix in (".csv", ".json"):
            file = Path(folder, f"path{suffix}")
            write_path(case.path, file)
            made[f"path{suffix}"] = file.read_bytes()
    return made


VALID = valid_files()


def mutated(data, rng, n):
    """Some bytes changed, cut out or put in."""
    out = bytearray(data)
    for _ in range(n):
        at = int(rng.integers(0, len(out) + 1))
        kind = rng.integers(4)
        if kind == 0 and at < len(out):
            out[at] = int(rng.integers(256))
        elif kind == 1:
            del out[at : at + int(rng.integers(1, 9))]
        elif kind == 2:
            out[at:at] = bytes(rng.integers(0, 256, int(rng.integers(1, 9)), dtype=np.uint8))
        else:
            out[at:at] = rng.choice([b"\xff", b"\0", b'"', b",", b"-1", b"nan", b"1e999", b"[", b"\n"])
    return bytes(out)


@pytest.mark.parametrize("kind", VALID)
@settings(max_examples=tries(25, 200))
@given(seed=st.integers(0, 2**32), n=st.integers(1, 12))
def test_a_damaged_file_is_read_or_refused(tmp_path_factory, kind, seed, n):
    file = tmp_path_factory.getbasetemp() / f"damaged{kind if kind.startswith('.') else '.' + kind}"
    file.write_bytes(mutated(VALID[kind], np.random.default_rng(seed), n))
    read = read_path if kind.startswith("path") else read_model
    with suppress(tether.TetherError):
        read(file)


@settings(max_examples=100, deadline=None)
@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.sampled_from(["states", "actions", "t", "state", "x"]), inner)
        ),
        max_leaves=20,
    )
)
def test_any_json_is_read_or_refused(tmp_path_factory, value):
    file = tmp_path_factory.getbasetemp() / "any.json"
    file.write_text(json.dumps(value))
    with suppress(tether.TetherError):
        read_path(file)


def test_npz_members_of_any_bytes(tmp_path):
    rng = np.random.default_rng(0)
    stream = io.BytesIO()
    np.save(stream, np.eye(3))
    for seed in range(60):
        with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("P.npy", mutated(stream.getvalue(), np.random.default_rng(seed), int(rng.integers(1, 6))))
        with suppress(tether.TetherError):
            read_arrays(tmp_path / "a.npz", rewards=None)


def test_a_limit_in_the_environment_that_is_none_is_refused_for_every_file(monkeypatch, tmp_path):
    """Also for one that is not compressed: a setting that is wrong is not passed over."""
    monkeypatch.setenv(VARIABLE, "x")
    for name in ("a.csv", "a.drn", "a.tra", "a.arrow", "a.npz"):
        (tmp_path / name).write_bytes(b"state,action,next_state,probability\na,b,c,1\n")
        with pytest.raises(tether.QueryError, match="TETHER_MAX_UNPACKED: 'x' is not a size"):
            tether.io.read_model(tmp_path / name)


def test_an_archive_whose_directory_is_cut_is_refused(tmp_path):
    """The entry after it is hidden in the comment of another one; a model without its names would be another one."""
    mdp = tether.MDP.from_table(["a", "b"], ["go", "go"], ["b", "b"], [1.0, 1.0])
    for name in ("a.npz", "a.xlsx"):
        file = tmp_path / name
        if name == "a.npz":
            write_model(mdp, file)
        else:
            book = openpyxl.Workbook()
            for row in (["state", "action", "next_state", "probability"], ["a", "go", "b", 1], ["b", "go", "b", 1]):
                book.active.append(row)
            book.save(file)
        assert tuple(read_model(file).states) == ("a", "b")
        data = bytearray(file.read_bytes())
        entries = [found.start() for found in re.finditer(b"PK\x01\x02", data)]
        comment = slice(entries[-2] + 32, entries[-2] + 34)
        size = int.from_bytes(data[comment], "little") + data.rfind(b"PK\x05\x06") - entries[-1]
        data[comment] = size.to_bytes(2, "little")
        file.write_bytes(data)
        with pytest.raises(tether.FileError, match="files are found, not as many as its directory says"):
            read_model(file)
