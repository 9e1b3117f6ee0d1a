"""`-`: a path or a log from standard input, episodes to standard output."""

import json

import pytest
from click.testing import CliRunner
from commands import json_of

import tether
from tether.cli import main
from tether.io import read_model, write_model


def piped(*arguments, given="", code=0):
    done = CliRunner().invoke(main, [str(one) for one in arguments], input=given, env={"COLUMNS": "80"})
    assert done.exit_code == code, done.output
    return done.stdout if code == 0 else done.stderr


@pytest.fixture
def grid(tmp_path):
    write_model(tether.cases.grid_world().mdp, tmp_path / "grid.drn")
    return tmp_path / "grid.drn"


def test_an_episode_goes_from_simulate_to_explain(grid, tmp_path):
    text = piped("simulate", grid, "--steps", 6, "--seed", 4, "-o", "-")
    json_of("simulate", grid, "--steps", 6, "--seed", 4, "-o", tmp_path / "same.csv")
    assert text == (tmp_path / "same.csv").read_text()
    answer = json.loads(piped("explain", grid, "-", "-k", 3, "--json", given=text))
    wanted = json_of("explain", grid, tmp_path / "same.csv", "-k", 3)
    assert {**answer, "path": ""} == {**wanted, "path": ""}
    assert answer["path"] == "-"


@pytest.mark.parametrize(
    "text",
    [
        '{"states": [0, 4], "actions": ["down"]}',
        "t,state,action\n0,0,down\n1,4,\n",
        "action step s\n- 0 0\ndown 1 4\n",
    ],
)
def test_the_three_kinds_of_text_are_told_apart(grid, text):
    assert json.loads(piped("check", grid, "-", "--json", given=text))["T"] == 1


def test_a_log_goes_from_simulate_and_from_sample_to_learn(grid, tmp_path):
    log = piped("simulate", grid, "--steps", 6, "-n", 30, "--seed", 4, "-o", "-")
    piped("learn", "-", tmp_path / "learned", given=log)
    (tmp_path / "log.csv").write_text(log)
    wanted = tether.learn(tmp_path / "log.csv")
    assert read_model(tmp_path / "learned").n_transitions == wanted.n_transitions
    drawn = piped("sample", "case:grid-world", "-k", 6, "-n", 3, "-o", "-")
    assert drawn.startswith("episode,t,state,action,reward\n")
    assert tether.Episodes is type(tether.io.read_episodes(_saved(tmp_path, drawn)))


def _saved(folder, text):
    (folder / "drawn.csv").write_text(text)
    return folder / "drawn.csv"


def test_what_is_wrong_is_said_of_standard_input(grid):
    wrong = piped("explain", grid, "-", given="t,state,action\n0,0,down\n1,99,\n", code=2)
    assert wrong.startswith("tether: standard input, line 3: t = 1: the model has no state")
    assert "nothing came from there" in piped("explain", grid, "-", code=2)
    assert "cannot both go to standard output" in piped("simulate", grid, "--steps", 2, "-o", "-", "--json", code=2)
