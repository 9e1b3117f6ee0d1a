"""`-`: a model, a path or a log from standard input, episodes to standard output."""

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


@pytest.mark.parametrize("name", ["grid.drn", "grid.csv", "grid.tsv", "grid.arrow", "grid.parquet", "grid"])
def test_a_model_comes_from_standard_input(grid, tmp_path, name):
    """Its kind is told from how it begins; `--column` and `--objective` are about it as about a file."""
    mdp = read_model(grid)
    if name == "grid":
        mdp.save(tmp_path / name)
    else:
        write_model(mdp, tmp_path / name)
    tether.io.write_path(tether.cases.grid_world().path, tmp_path / "path.csv")
    given = (tmp_path / name).read_bytes()
    answer = json.loads(piped("explain", "-", tmp_path / "path.csv", "-k", 3, "--json", given=given))
    wanted = json_of("explain", tmp_path / name, tmp_path / "path.csv", "-k", 3)
    assert {**answer, "model": ""} == {**wanted, "model": ""}
    assert answer["model"] == "-"


def test_columns_of_a_model_from_standard_input(grid, tmp_path):
    write_model(read_model(grid), tmp_path / "grid.csv")
    text = (tmp_path / "grid.csv").read_text().replace("probability", "p", 1)
    assert "standard input" in piped("explain", "-", "case:grid-world", given=text, code=2)
    found = json.loads(piped("check", "-", "--column", "probability=p", "--json", given=text))
    assert found["description"]["states"] == 16


def test_logs_of_audits_and_rules_come_from_standard_input(grid, tmp_path):
    log = piped("simulate", grid, "--steps", 6, "-n", 6, "--seed", 4, "-o", "-")
    options = "-o", tmp_path / "audit", "-k", 2, "--no-certificate", "--reports", 0, "--workers", 1, "--json"
    found = [json.loads(piped("audit", grid, "-", *options, given=log)) for _ in range(2)]
    assert found[0] == found[1]  # the second one goes on with the first
    episodes = tether.io.read_episodes(_saved(tmp_path, log))
    by_hand = tether.audit(read_model(grid), episodes, k=2, certify=False)
    assert (found[0]["log"], found[0]["outcomes"]) == ("-", json.loads(json.dumps(by_hand.outcomes.to_pylist())))
    edit = "--where", "0", "--do", "down", "--workers", 1, "--json", "-o", tmp_path / "rule"
    judged = json.loads(piped("evaluate-rule", grid, "-", *edit, given=log))
    wanted = tether.evaluate_rules(read_model(grid), episodes, tether.rule("0", do="down"))
    assert judged["rules"][0]["gain"] == pytest.approx(wanted.table.to_pylist()[0]["gain"])


def test_only_one_can_be_standard_input(grid, tmp_path):
    text = "MODEL and PATH cannot both come from standard input; give a file for one"
    assert text in piped("explain", "-", "-", given=grid.read_text(), code=2)
    both = piped("audit", "-", "-", "-o", tmp_path / "audit", given=grid.read_text(), code=2)
    assert "EPISODES and MODEL cannot both come from standard input" in both.replace("\n", " ")
    wrong = piped("explain", "-", "case:toy", given="@type: MDP\n", code=2)
    assert wrong.startswith("tether: standard input: the file ends before the section @model")
