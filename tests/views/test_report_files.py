"""The file of a report: its place, its bytes, its date; and what is on disk after an error."""

import datetime as dt
import os
import re
import subprocess
import sys

import pytest
from pages import PLANS, Position, read, walk, write

import tether
from tether.views.report import report

# --- Errors, and what is on disk after them ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": 3}, "features must map names to functions"),
        ({"features": "I"}, "features must map names to functions"),
        ({"features": {"x": 3}}, "feature 'x': expected a function"),
        ({"features": ["nothing"]}, "the states have no field 'nothing'; they have S, I, V"),
        ({"features": {"x": "count"}}, "the states have no field 'count'; they have S, I, V"),  # a method of tuples
        ({"features": {"x": lambda state: 1 / (state.I - 2)}}, ": ZeroDivisionError: division by zero"),
        ({"features": {"x": lambda state: 1 // 0}}, "feature 'x' has no value for state ("),
        ({"features": {"x": lambda state: float("nan")}}, "is nan, not a finite number"),
        ({"state_name": "I"}, "state_name must be a function of a name, not 'I'"),
        ({"action_name": lambda action: action.nothing}, "action_name failed for 'NIL': AttributeError"),
        ({"date": "today"}, "date must be a datetime.date, not 'today'"),
        ({"about": "file.csv"}, "about must map names to values"),
    ],
)
def test_errors_name_what_is_wrong_and_write_nothing(tmp_path, outbreak, options, message):
    plan, _ = outbreak
    file = tmp_path / "report.html"
    file.write_text("as before")
    with pytest.raises(tether.QueryError, match=re.escape(message)):
        plan.report(file, **options)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert file.read_text() == "as before"


def test_only_plans_are_reported(tmp_path, outbreak):
    with pytest.raises(tether.QueryError, match=r"expected a plan, made by cf\.plan"):
        report(outbreak[0].cf, tmp_path / "report.html")


@pytest.mark.usefixtures("only_words")
def test_a_place_that_cannot_be_written(tmp_path, outbreak):
    plan, _ = outbreak
    with pytest.raises(tether.errors.FileError, match=re.escape(f"{tmp_path}/no/report.html: it cannot be written")):
        plan.report(tmp_path / "no" / "report.html")
    (tmp_path / "taken").mkdir()
    with pytest.raises(tether.errors.FileError, match="taken: it cannot be written"):
        plan.report(tmp_path / "taken")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_the_same_plan_gives_the_same_bytes(tmp_path):
    plans = [walk(12, 8, [Position(i, i % 2 == 0, "abc"[i // 4]) for i in range(12)]).plan(4, 2) for _ in range(2)]
    day = dt.date(2024, 2, 29)
    first, second = (plan.report(tmp_path / f"{i}.html", date=day).read_bytes() for i, plan in enumerate(plans))
    assert first == second


def test_the_same_bytes_whatever_the_hash_seed(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    code = """
import sys, tether
case = tether.cases.toy()  # its states are strings, whose hashes differ
tether.counterfactual(case.mdp, case.path).plan(2, 1).report(sys.argv[1])
"""
    here, there = PLANS["toy"]().report(tmp_path / "here.html"), tmp_path / "there.html"
    subprocess.run([sys.executable, "-c", code, str(there)], check=True, env={**os.environ, "PYTHONHASHSEED": "1"})
    assert here.read_bytes() == there.read_bytes()


@pytest.mark.usefixtures("only_words")
def test_the_default_file(tmp_path, monkeypatch, outbreak):
    monkeypatch.chdir(tmp_path)
    assert outbreak[0].report().name == "report.html"
    assert (tmp_path / "report.html").exists()


# --- The date -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("only_words")
def test_the_date_is_today_or_as_told(tmp_path, monkeypatch, outbreak):
    plan, _ = outbreak
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    before = dt.date.today()
    part = write(plan, tmp_path).parts["What made this report"]
    assert any(f"date{day.isoformat()}" in part.replace("\n", "") for day in (before, dt.date.today()))
    for date in (dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 12)):
        assert "2024-02-29" in write_on(plan, tmp_path, date)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert "1970-01-02" in write(plan, tmp_path).parts["What made this report"]
    for wrong in ("soon", "\u0663", "9" * 30, "9" * 5000):  # also other digits than ours, and other millennia
        monkeypatch.setenv("SOURCE_DATE_EPOCH", wrong)
        with pytest.raises(tether.QueryError, match=f"SOURCE_DATE_EPOCH must be a number of seconds, not '{wrong}'"):
            plan.report(tmp_path / "report.html")


def write_on(plan, folder, date):
    return read(plan.report(folder / "report.html", date=date)).parts["What made this report"]
