"""Excel workbooks: logs, paths and tables from a sheet; dates are times; what is wrong has its row in the sheet."""

import datetime
import sys
import zipfile
from pathlib import Path

import openpyxl
import pytest
from click.testing import CliRunner

import tether
from tether.cli import main
from tether.io.logs import read_episodes, read_sound_episodes, write_episodes
from tether.io.model_tables import read_table

HEADER = ["patient", "at", "state", "action", "reward", "end"]
READING = {"columns": {"episode": "patient", "outcome": "end"}, "time": "at", "step": "4h"}


def at(hour):
    return datetime.datetime(2026, 11, 16, hour)


ROWS = [
    ["ann", at(0), "sick", "wait", 0, None],
    ["ann", at(4), "sick", "treat", 1.5, "survived"],
    [None] * 6,
    ["bob", at(8), "sick", "wait", -1, "died"],
]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(name, *sheets, hidden=()):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for i, rows in enumerate(sheets):
        sheet = book.create_sheet(f"sheet {i}")
        sheet.sheet_state = "hidden" if i in hidden else "visible"
        for row in rows:
            sheet.append(row)
    book.save(name)
    return name


def test_a_log_from_a_sheet():
    """Notes on another sheet, a blank line above the header, a blank row within: as people keep logs."""
    log = write("log.xlsx", [["notes"], ["of mine"]], [[], HEADER, *ROWS])
    episodes = read_episodes(log, **READING)
    assert episodes["ann"] == tether.Path(["sick", "sick"], ["wait", "treat"], [0, 1.5], outcome="survived")
    assert episodes["bob"] == tether.Path(["sick"], ["wait"], [-1], outcome="died")


def test_places_are_those_of_the_sheet():
    bad = [*ROWS, ["cid", at(0), "sick", "wait", "much", "died"], ["dan", at(0), "sick", "wait", 0, None]]
    bad += [["dan", at(5), "sick", "wait", 0, None]]
    log = write("log.xlsx", [[], HEADER, *bad])
    with pytest.raises(tether.FileError, match=r"log.xlsx, row 7: found 'much' in the column 'reward'; expected"):
        read_episodes(log, **READING)
    found = read_sound_episodes(log, **READING)
    messages = {found.episodes.ids[i]: problem.message for i, problem in found.broken.items()}
    assert messages == {
        "cid": "log.xlsx, row 7: the reward 'much' is not a finite number",
        "dan": "log.xlsx, row 9: episode 'dan': at = 2026-11-16 05:00:00 comes 5 h after 2026-11-16 00:00:00; "
        "expected 4 h (step=)",
    }
    assert found.episodes["ann"].rewards == (0.0, 1.5)  # a number is not cut where others are no numbers


def test_from_a_workbook_to_the_overview():
    log = write("log.xlsx", [HEADER, *ROWS])
    columns = ["episode=patient", "outcome=end"]
    learn = ["learn", log, "model", "--time", "at", *(word for one in columns for word in ("--column", one))]
    assert CliRunner().invoke(main, learn).exit_code == 0
    audit = ["audit", "model", log, "-o", "out", "-k", "2", "--time", "at", "--reports", "0"]
    shown = CliRunner().invoke(main, [*audit, *(word for one in columns for word in ("--log-column", one))])
    assert shown.exit_code == 0, shown.output
    assert "2 episodes: " in shown.output
    path = ["explain", "model", "log.xlsx#bob", "-k", "1", "--time", "at"]
    shown = CliRunner().invoke(main, [*path, *(word for one in columns for word in ("--path-column", one))])
    assert shown.exit_code == 0, shown.output


def test_a_table_of_transitions():
    table = write("model.xlsx", [["state", "action", "next_state", "probability"], [0, "go", 1, 1]])
    assert read_table(table, terminal=[1]).row(0, "go")[0] == (1,)
    assert tether.io.read_model(table, terminal=[1]).n_states == 2


def test_which_sheet_counts():
    with pytest.raises(tether.FileError, match=r"the sheets 'sheet 0' and 'sheet 1' both have the columns; hide"):
        read_episodes(write("log.xlsx", [HEADER, *ROWS], [HEADER, *ROWS]), **READING)
    assert len(read_episodes(write("log.xlsx", [HEADER, *ROWS], [HEADER, *ROWS], hidden=[0]), **READING)) == 2


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([[]], "the workbook is empty; expected a header with the columns episode, t, state, action"),
        ([["episode", "t", "state", "action"]], "there is a header, but no rows"),
        ([["episode", "t", "state"], [1, 0, "a"]], "the column 'action' is missing"),
        ([["episode", "t", "state", "action"], [1, 0, "#N/A", "go"]], "row 2: the cell .* has the error #N/A; correct"),
        ([["episode", "t", "state", "action"], [1, at(0), "a", "go"]], "the column 't' holds timestamps"),
    ],
)
def test_sheets_that_are_no_log(rows, words):
    with pytest.raises(tether.FileError, match=words):
        read_episodes(write("log.xlsx", rows))


def test_files_that_are_no_workbook(tmp_path, monkeypatch):
    file = tmp_path / "log.xlsx"
    for content, words in [
        (b"", "the file is empty; expected an Excel workbook"),
        (b"\xd0\xcf\x11\xe0 old", "this is an old Excel file"),
        (b"episode,t,state,action\n", "it cannot be read as an Excel workbook"),
    ]:
        file.write_bytes(content)
        with pytest.raises(tether.FileError, match=words):
            read_episodes(file)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("xl/workbook.xml", "<nothing/>")
    with pytest.raises(tether.FileError, match="it cannot be read as an Excel workbook"):
        read_episodes(file)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("xl/workbook.xml", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>')
    with pytest.raises(tether.FileError, match="has a DOCTYPE"):
        read_episodes(file)
    write(file, [HEADER, *ROWS])
    with pytest.raises(tether.FileError, match=r"unpacks to more than 0.001 MB"):
        read_episodes(file, **READING, max_unpacked=1000)
    with pytest.raises(tether.FileError, match=r"Excel files are read, not written; write .csv"):
        write_episodes([tether.Path(["a"], ["go"])], file)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(tether.QueryError, match=r"needs openpyxl; pip install 'tether\[excel\]'"):
        read_episodes(file, **READING)


def test_damaged_deflate_data():
    """Of any part, also of those that openpyxl does not read."""
    log = write("log.xlsx", [HEADER, *ROWS])
    with zipfile.ZipFile(log) as archive:
        offsets = [member.header_offset + 30 + len(member.filename) for member in archive.infolist()]
    with open(log, "r+b") as stream:
        for offset in offsets:
            stream.seek(offset)
            stream.write(b"\xff" * 8)
    with pytest.raises(tether.FileError, match=r"log\.xlsx: it cannot be read as an Excel workbook; it is damaged"):
        read_episodes(log, **READING)


@pytest.mark.parametrize("magic", [b"PK\x03\x04", b"PK\x01\x02"], ids=["before a part", "in the directory"])
def test_a_part_whose_name_is_no_text(magic):
    """It is said to be in UTF-8, and is not."""
    log = write("log.xlsx", [HEADER, *ROWS])
    data = bytearray(Path(log).read_bytes())
    at = data.find(magic)
    flags, name = (6, 30) if magic == b"PK\x03\x04" else (8, 46)
    data[at + flags : at + flags + 2] = (0x800).to_bytes(2, "little")
    data[at + name] = 0x8E
    Path(log).write_bytes(data)
    with pytest.raises(tether.FileError, match=r"log\.xlsx: it cannot be read as an Excel workbook; it is damaged"):
        read_episodes(log, **READING)
