"""Logs written in other ways: one sentence with the option for each; broken episodes left out; all of it remembered."""

import pytest
from click.testing import CliRunner

import tether
from tether.cli import main
from tether.model.counts import Reading

TEXT = """patient;when;state;action;reward
ann;31/12/2024;Sick;wait;0,5
ann;1/1/2025;sick ;treat;1,5
ann;2/1/2025;Maladé;;
bob;3/1/2025;sick;Wait;0,5
bob;4/1/2025;sick;wait;0,5
bob;5/1/2025;;wait;0,5
bob;6/1/2025;well;;
"""
READING = {"columns": {"episode": "patient"}, "time": "when"}
WRITTEN = {"decimal": ",", "encoding": "latin-1", "day_first": True}


@pytest.fixture
def log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.csv").write_text(TEXT, encoding="latin-1")
    return "log.csv"


def refusal(log, **options):
    with pytest.raises(tether.TetherError) as caught:
        tether.io.read_episodes(log, **READING, **options)
    return [problem.message for problem in caught.value.problems]


def test_each_way_of_writing_is_one_sentence_with_its_option(log):
    (encoding,) = refusal(log)
    assert encoding.startswith("log.csv, line 4: the byte 0xe9 is not UTF-8")
    assert encoding.endswith("encoding='latin-1'")
    (decimal,) = refusal(log, encoding="latin-1")
    assert "line 2: found '0,5' in the column 'reward', and so in 4 more rows" in decimal
    assert decimal.endswith("say so: decimal=','")
    date, empty = refusal(log, encoding="latin-1", decimal=",")
    assert "line 2: when is '31/12/2024', neither a number nor a date and time, and so in 6 more rows" in date
    assert date.endswith("say so: day_first=True")
    assert empty == refusal(log, **WRITTEN)[0]
    assert empty == "log.csv, line 7: the cell in the column 'state' is empty; expected a name"


def test_what_is_not_an_option(log, tmp_path):
    assert refusal(log, encoding="klingon") == ["encoding: there is none of the name 'klingon'; such as latin-1"]
    assert refusal(log, decimal=";") == ["decimal must be '.' or ',', not ';'"]
    assert "not ascii" in refusal(log, encoding="ascii")[0]
    assert "are about a text file" in refusal({"episode": [1]}, decimal=",")[0]


def test_broken_episodes_are_left_out_and_counted_with_their_names(log):
    mdp = tether.learn(log, **READING, **WRITTEN, skip_broken=True)
    assert (mdp.learned.episodes, mdp.learned.skipped) == (1, 1)
    assert str(mdp.learned).startswith("Learned from 1 episode of 2 steps in all; 1 broken episode left out.")
    assert list(mdp.states) == ["Sick", "sick", "Maladé"]  # none of the broken episode
    assert list(mdp.actions) == ["wait", "treat"]
    assert mdp.reward("sick", "treat") == 1.5
    assert mdp.learned.alike == (("Sick", "sick"),)
    with pytest.raises(tether.FileError, match="the cell in the column 'state' is empty"):
        tether.learn(log, **READING, **WRITTEN)


def test_names_that_differ_only_in_spelling_are_one(log):
    mdp = tether.learn(log, **READING, **WRITTEN, skip_broken=True, fold_case=True)
    assert list(mdp.states) == ["sick", "malade"]
    assert mdp.learned.alike == ()
    ward = tether.io.read_episodes(
        {"episode": [1, 1], "t": [0, 1], "state": ["Ill", "ill"], "lactate": [1, 1], "action": ["X", ""],
         "outcome": ["", "Died "]},
        columns={"state": "state,lactate"}, fold_case=True,
    )  # fmt: skip
    assert ward[1].states[0] == ward[1].states[1] == ("ill", 1)
    assert ward[1].outcome == "died"


def test_a_model_remembers_how_its_log_was_read(log):
    tether.learn(log, **READING, **WRITTEN, skip_broken=True, fold_case=True, step="1d").save("model")
    mdp = tether.MDP.load("model")
    assert mdp.learned.reading == Reading({"episode": "patient"}, "when", "1d", **WRITTEN, fold_case=True)
    path = tether.io.open_path("log.csv#ann", mdp)
    assert path.states == ("sick", "sick", "malade")
    assert tether.counterfactual(mdp, path).T == 2
    with pytest.raises(tether.FileError, match="line 7: the state is empty"):
        tether.io.open_path("log.csv#bob", mdp)
    audit = tether.audit(mdp, log)
    assert audit.table.column("episode").to_pylist() == ["ann", "bob"]
    assert "line 7: the state is empty" in str(audit.table.to_pylist()[1])
    called = tether.io.open_path("log.csv#ann", mdp, columns={"reward": ""})
    assert called.rewards is None  # what is given counts


def test_the_command_line_needs_no_repetition(log):
    run = CliRunner().invoke
    options = ["--column", "episode=patient", "--time", "when", "--encoding", "latin-1", "--day-first"]
    done = run(main, ["learn", log, "model", *options])
    assert (done.exit_code, "(On the command line: --decimal ,.)" in done.output) == (2, True)
    done = run(main, ["learn", log, "model", *options, "--decimal", ",", "--skip-broken", "--fold-case"])
    assert done.exit_code == 0, done.output
    assert "2 actions: wait (once), treat (once)." in done.output
    done = run(main, ["explain", "model", "log.csv#ann"])
    assert done.exit_code == 0, done.output
    done = run(main, ["audit", "model", log, "-o", "audit", "--reports", "0"])
    assert done.exit_code == 0, done.output
    assert "1 episode could not be answered: bob" in done.output


def test_a_large_log_is_read_piece_by_piece_with_the_same_options(tmp_path, monkeypatch):
    monkeypatch.setattr("tether.logs.textlog._WHOLE", 10)
    rows = "episode,t,state,action\n" + "".join(
        f"{i},0,{'Sick' if i % 2 else 'sick'},go\n{i},1,well,\n" for i in range(9)
    )
    (tmp_path / "log.csv").write_text(rows + "9,0,sick,\n", encoding="utf-8")
    mdp = tether.learn(tmp_path / "log.csv", skip_broken=True, fold_case=True)
    assert (list(mdp.states), mdp.learned.episodes, mdp.learned.skipped) == (["sick", "well"], 9, 1)


@pytest.mark.parametrize("n", [3, 4, 50])
def test_empty_cells_are_one_problem_for_each_column(n):
    columns = {"episode": [*range(n), n], "t": [0] * (n + 1), "state": [None] * n + ["a"], "action": ["x"] * (n + 1)}
    with pytest.raises(tether.PathError) as caught:
        tether.io.read_episodes(columns)
    messages = [problem.message for problem in caught.value.problems]
    first = "row 0: the cell in the column 'state' is empty"
    if n <= 3:
        assert [message.partition(";")[0] for message in messages] == [
            f"row {i}: the cell in the column 'state' is empty" for i in range(n)
        ]
    else:
        assert messages == [f"{first}, and so in {n - 1} more rows; expected a name"]
