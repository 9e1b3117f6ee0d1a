"""A log that is read piece by piece: parts of Parquet, and text; what is damaged, lies apart or changes meanwhile."""

import gzip
import os
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet

import tether
from tether.cli import main
from tether.io import write_episodes
from tether.learning import kinds
from tether.learning.kinds import gather_kinds
from tether.logs import batches, streamed, textlog

MDP = tether.cases.grid_world().mdp
LOG = [MDP.simulate("optimal", 5 + seed % 3, rng=seed, noise=0.4) for seed in range(10)]


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch):
    monkeypatch.setattr(batches, "BATCH", 3)


def ask(place, log=LOG, mdp=MDP, **options):
    return tether.audit(mdp, log, **{"k": 3, "certify": False, "out": place, **options})


@pytest.mark.parametrize("how", ["parquet", "text", "removed"])
def test_a_log_that_changes_while_it_is_read(tmp_path, rows, monkeypatch, how):
    """The audit stops and names the file; what was answered before stays, and goes on once the log is back."""
    if how == "text":
        in_pieces(monkeypatch, 60)
        log = tmp_path / "changing.csv"
        write_episodes(LOG, log)
        changed = log
    else:
        monkeypatch.setattr(streamed, "_PIECE", 8)
        parts_of(tmp_path / "log", rows, [9, 20, 30])
        log, changed = tmp_path / "log", tmp_path / "log" / "part-3.parquet"
    before = changed.read_bytes()
    whole = ask(tmp_path / "whole", log, workers=1)

    def change(done, _rows):
        if not told:
            told.append(done)
            changed.unlink() if how == "removed" else changed.write_bytes(before[: len(before) // 2])

    told = []
    stamp = changed.stat()
    word = "removed" if how == "removed" else "changed"
    with pytest.raises(tether.FileError, match=rf"{changed.name}: the log was {word} while it was read; .* are kept"):
        ask(tmp_path / "there", log, workers=1, progress=change)
    assert list((tmp_path / "there" / "parts").glob("*.parquet"))
    changed.write_bytes(before)
    os.utime(changed, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    again = ask(tmp_path / "there", log, workers=1)
    assert again.table.equals(whole.table)
    for name in ("episodes.parquet", "decisions.parquet", "outcomes.parquet"):
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def parts_of(place, table, cuts):
    place.mkdir()
    for i, (low, high) in enumerate(zip([0, *cuts], [*cuts, table.num_rows], strict=True)):
        parquet.write_table(table.slice(low, high - low), place / f"part-{i}.parquet")


@pytest.fixture
def rows(tmp_path):
    """The log as a table, with a broken episode in it."""
    write_episodes(LOG, tmp_path / "log.parquet")
    table = parquet.read_table(tmp_path / "log.parquet")
    states = table.column("state").to_pylist()
    states[8] = 99
    return table.set_column(2, "state", pa.array(states))


def test_a_directory_of_parts_is_read_piece_by_piece(tmp_path, rows, monkeypatch):
    parquet.write_table(rows, tmp_path / "log.parquet")
    whole = tether.audit(MDP, tmp_path / "log.parquet", k=3, certify=False)
    parts_of(tmp_path / "parts", rows, [5, 6, 30])
    for piece in (4, 20, 1000):
        monkeypatch.setattr(streamed, "_PIECE", piece)
        found = tether.audit(MDP, tmp_path / "parts", k=3, certify=False)
        assert found.table.drop(["problem"]).equals(whole.table.drop(["problem"]))
        is_named = [("no state 99" in why) for why in found.problems.column("problem").to_pylist()]
        assert is_named == [True]
        assert found.paths([7]) == {7: LOG[7]}
    monkeypatch.setattr(streamed, "_WHOLE", 3)  # and a single file of so many rows
    again = ask(tmp_path / "out", tmp_path / "log.parquet")
    assert again.table.drop(["problem"]).equals(whole.table.drop(["problem"]))
    assert ask(tmp_path / "out", tmp_path / "log.parquet").table.equals(again.table)
    with pytest.raises(tether.FileError, match="no episode 70"):
        again.paths([70])
    parquet.write_table(rows.slice(3), tmp_path / "log.parquet")
    with pytest.raises(tether.FileError, match="the log is another one"):
        ask(tmp_path / "out", tmp_path / "log.parquet")


def test_places_in_pieces_and_episodes_whose_rows_lie_apart(tmp_path, rows, monkeypatch):
    monkeypatch.setattr(streamed, "_PIECE", 4)
    twice = rows.set_column(1, "t", pa.array([0 if i == 40 else t for i, t in enumerate(rows.column("t").to_pylist())]))
    parts_of(tmp_path / "parts", twice, [20])
    (why,) = [
        one for one in tether.audit(MDP, tmp_path / "parts").problems.column("problem").to_pylist() if "t" in one
    ][1:]
    assert "parts, row 4" in why
    order = np.r_[0:3, 6 : rows.num_rows, 3:6]
    parts_of(tmp_path / "apart", rows.take(order), [])
    found = {row["problem"] for row in tether.audit(MDP, tmp_path / "apart").table.to_pylist() if row["episode"] == 0}
    assert any(one and "rows are not together" in one for one in found)
    (tmp_path / "empty").mkdir()
    with pytest.raises(tether.FileError, match="no Parquet files"):
        tether.audit(MDP, tmp_path / "empty")
    parts_of(tmp_path / "unnamed", rows.rename_columns(["id", "t", "state", "action"]), [])
    with pytest.raises(tether.FileError, match="the column 'episode' is missing"):
        tether.audit(MDP, tmp_path / "unnamed")
    named = tether.audit(MDP, tmp_path / "unnamed", columns={"episode": "id"}, certify=False)
    assert len(named) == len(LOG)


def in_pieces(monkeypatch, block):
    """Let every text be read in pieces of so many bytes."""
    monkeypatch.setattr(textlog, "_WHOLE", 0)
    monkeypatch.setattr(textlog, "_WHOLE_PACKED", 0)
    monkeypatch.setattr(textlog, "_BLOCK", block)


BROKEN = """\
episode,t,state,action

0,0,0,"right"
0,1,1,
1,0,0,up
1,0,0,up
"2",0,0,right
2,1,"1",up
3,x,0,up
4,0,77,up
5,0,0,right
"""


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz", "log.tsv"])
@pytest.mark.parametrize("block", [30, 64, 1 << 20])
def test_text_is_read_piece_by_piece(tmp_path, monkeypatch, name, block):
    """The same answers, and the same problems with the same lines, as where it is read as a whole."""
    text = BROKEN.replace(",", "\t") if name.endswith(".tsv") else BROKEN
    data = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    whole = tether.audit(MDP, tmp_path / name, k=3, certify=False)
    in_pieces(monkeypatch, block)
    found = tether.audit(MDP, tmp_path / name, k=3, certify=False)
    assert isinstance(found.log, textlog.TextLog)
    assert found.log.n_rows == sum(rows for rows, _ in found.log.batches(MDP)) == 9
    assert found.table.equals(whole.table)
    assert [row["problem"].partition(": ")[0].rpartition(", ")[2] for row in found.problems.to_pylist()] == [
        "line 6", "line 9", "line 10",
    ]  # fmt: skip
    assert found.paths([2]) == whole.paths([2])


def test_what_a_column_holds_is_decided_by_all_of_it(tmp_path, monkeypatch):
    """Numbers that stand beside text are text, also in a piece that has numbers only."""
    rows = [f"{i},0,a,{'high' if i == 9 else i % 2},go,b,{i % 2}\n" for i in range(10)]
    (tmp_path / "log.csv").write_text("episode,t,kind,lactate,action,next_kind,next_lactate\n" + "".join(rows))
    reading = {"columns": {"state": "kind,lactate", "next_state": "next_kind,next_lactate"}}
    mdp = tether.learn(tether.io.read_episodes(tmp_path / "log.csv", **reading))
    in_pieces(monkeypatch, 40)
    found = tether.audit(mdp, tmp_path / "log.csv", k=1, certify=False, **reading)
    assert found.problems.num_rows == 0
    assert found.log.has_whole_ids


@pytest.mark.parametrize(("one", "other"), [("e{}", "e{} "), ("{}", "{}.0")])
def test_an_id_written_in_two_ways_is_not_cut(tmp_path, monkeypatch, one, other):
    """Spaces around an id do not count, nor does it matter how a whole number is written."""
    ids = [(one if t % 2 else other).format(i) for i in range(6) for t in range(2)]
    rows = [f"{name},{i % 2},{i % 2},{'' if i % 2 else 'right'}\n" for i, name in enumerate(ids)]
    (tmp_path / "log.csv").write_text("episode,t,state,action\n" + "".join(rows))
    whole = tether.audit(MDP, tmp_path / "log.csv", k=3, certify=False)
    for block in (30, 37, 64):
        in_pieces(monkeypatch, block)
        found = tether.audit(MDP, tmp_path / "log.csv", k=3, certify=False)
        assert isinstance(found.log, textlog.TextLog)
        assert found.table.equals(whole.table)
        assert found.problems.num_rows == 0


def test_ids_that_python_gives_one_hash_are_told_apart(tmp_path, monkeypatch):
    """-1 and -2 have the same hash, as do numbers that differ by 2**61 - 1."""
    ids = [-1, -2, 5, 2**61 + 4]
    (tmp_path / "log.csv").write_text("episode,t,state,action\n" + "".join(f"{i},0,0,right\n" for i in ids))
    in_pieces(monkeypatch, 30)
    found = tether.audit(MDP, tmp_path / "log.csv", k=3, certify=False)
    assert isinstance(found.log, textlog.TextLog)
    assert (found.table.column("episode").to_pylist(), found.problems.num_rows) == (ids, 0)


def test_text_whose_episodes_lie_apart(tmp_path, monkeypatch):
    """It is read as a whole, unless it is too large for that: then the first place is told."""
    file = tmp_path / "log.csv"
    file.write_text("episode,t,state,action\na,0,0,right\nb,0,0,right\na,1,1,\n")
    in_pieces(monkeypatch, 32)
    assert tether.audit(MDP, file, k=3, certify=False).table.column("steps").to_pylist() == [1, 1]
    monkeypatch.setattr(textlog, "_MOST", 10)
    with pytest.raises(tether.FileError, match=r"log.csv, line 4: the rows of the episode a are not together; .* sort"):
        tether.audit(MDP, file)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("episode,t,state\n1,0,0\n", "the column 'action' is missing"),
        ("episode,t,state,action\n1,0,0,up\n1,1,0\n", "line 3: 3 fields, but the header has 4 names"),
        ("episode,t,state,action\n1,0,0,up\n1,1,\udcff,up\n", "line 3: the byte 0xff is not UTF-8"),
        ('episode,t,state,action\n1,0,"0,up\n' + 40 * "1,1,0,up\n", "record of more than 0 MB; is a quote"),
        ("episode,t,state,action\n", "there is a header, but no rows"),
        ("", "the file is empty"),
    ],
)
def test_text_in_pieces_that_is_no_log(tmp_path, monkeypatch, text, words):
    in_pieces(monkeypatch, 32)
    (tmp_path / "log.csv").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(tether.FileError, match=words):
        tether.audit(MDP, tmp_path / "log.csv")


def test_another_way_of_reading_is_another_log(tmp_path, monkeypatch):
    in_pieces(monkeypatch, 64)
    (tmp_path / "log.csv").write_text("episode,t,hour,state,action\n1,0,0,0,right\n1,1,4,1,\n")
    ask(tmp_path / "out", tmp_path / "log.csv")
    with pytest.raises(tether.FileError, match="the log is another one, or changed"):
        ask(tmp_path / "out", tmp_path / "log.csv", time="hour")


@pytest.mark.parametrize("name", ["log.csv", "parts"])
def test_a_large_log_is_learned_from_piece_by_piece(tmp_path, monkeypatch, rows, name):
    monkeypatch.chdir(tmp_path)
    write_episodes(LOG, "log.csv")
    write_episodes(LOG, "whole.csv")
    parts_of(tmp_path / "parts", parquet.read_table("log.parquet"), [5, 30])
    assert CliRunner().invoke(main, ["learn", "whole.csv", "whole"]).exit_code == 0
    in_pieces(monkeypatch, 60)
    monkeypatch.setattr(streamed, "_PIECE", 10)
    done = CliRunner().invoke(main, ["learn", name, "model"])
    assert done.exit_code == 0, done.output
    found, whole = tether.MDP.load("model"), tether.MDP.load("whole")
    assert str(found.learned) == str(whole.learned)
    assert found.row(2, "down")[1].tolist() == whole.row(2, "down")[1].tolist()
    monkeypatch.setattr(kinds, "gather_kinds", lambda pieces: gathered.append(1) or gather_kinds(pieces))
    gathered = []
    assert str(tether.learn(name).learned) == str(whole.learned)
    assert gathered  # the library too reads it piece by piece
    with open("log.csv", "a") as file:
        file.write("77,0,0,up\n77,0,0,up\n")
    parts_of(tmp_path / "apart", parquet.read_table("log.parquet").take(np.r_[0:3, 9:40, 3:9]), [])
    for log, words in [("log.csv", "t = 0 is given twice"), ("apart", "its rows are not together in the log")]:
        refused = CliRunner().invoke(main, ["learn", log, "other"])
        assert refused.exit_code == 2
        assert words in " ".join(refused.output.split())


def test_a_damaged_page_of_a_part_is_an_error_that_names_it(tmp_path, rows):
    parts_of(tmp_path / "parts", rows, [20])
    whole = sorted((tmp_path / "parts").iterdir())[1].read_bytes()
    for at in range(4, len(whole) // 2, 7):
        part = sorted((tmp_path / "parts").iterdir())[1]
        part.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        with suppress(tether.TetherError):
            tether.audit(MDP, tmp_path / "parts", k=3, certify=False)


def test_parts_whose_columns_differ_are_an_error(tmp_path, rows):
    parts_of(tmp_path / "parts", rows, [20])
    first = sorted((tmp_path / "parts").iterdir())[0]
    table = parquet.read_table(first)
    parquet.write_table(table.set_column(2, "state", table.column("state").cast(pa.string())), first)
    with pytest.raises(tether.FileError, match=r"its files do not fit together: .*; give each column the same type"):
        tether.audit(MDP, tmp_path / "parts", k=3, certify=False)
