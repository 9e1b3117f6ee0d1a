"""Options that say how a model is to be read and what it is worth."""

import json
from dataclasses import fields

import numpy as np
import pytest
from click.testing import CliRunner

import tether
from tether.cli import main

CASE = tether.cases.grid_world()


def run(*arguments, code=0):
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == code, done.output
    return done.output


def test_a_final_reward_counts():
    got = json.loads(run("explain", "case:grid-world", "-k", 7, "-m", 1, "--final-reward", "15=500", "--json"))
    mdp = CASE.mdp.with_objective(final_reward={15: 500.0})
    assert got["value"] == tether.counterfactual(mdp, CASE.path).plan(7, 1).value
    assert got["value"] != tether.counterfactual(CASE.mdp, CASE.path).plan(7, 1).value


@pytest.mark.parametrize("given", ["500", "15=", "15=much", "=3"])
def test_a_final_reward_that_is_none(given):
    assert "expected STATE=VALUE" in run("explain", "case:grid-world", "--final-reward", given, code=2)


def test_a_final_reward_of_a_state_that_is_not_there():
    assert "no state" in run("explain", "case:grid-world", "--final-reward", "nowhere=1", code=2)


def test_rewards_by_transition_go_to_a_drn_file_as_means(tmp_path):
    table = tmp_path / "m.csv"
    table.write_text("state,action,next_state,probability,reward\na,x,a,0.5,2\na,x,b,0.5,4\nb,x,b,1,0\n")
    target = tmp_path / "m.drn"
    assert "(On the command line: --mean-rewards.)" in run("convert", table, target, code=2)
    assert not target.exists()
    run("convert", table, target, "--mean-rewards")
    assert tether.io.read_drn(target).reward("a", "x") == 3


def test_one_of_several_reward_models_is_named(tmp_path):
    file = tmp_path / "m.drn"
    file.write_text(
        "@type: MDP\n@parameters\n\n@reward_models\ncost time\n@nr_states\n1\n@nr_choices\n1\n@model\n"
        "state 0 [0, 0] init\n\taction go [3, 5]\n\t\t0 : 1\n"
    )
    path = tmp_path / "path.csv"
    path.write_text("t,state,action\n0,0,go\n1,0,\n")
    assert "(On the command line: --reward-model NAME.)" in run("check", file, code=2)
    assert json.loads(run("sweep", file, path, "--reward-model", "time", "--json"))["observed_value"] == 5


def test_with_an_objective_no_rewards_are_read(tmp_path):
    """So that nobody has to say which, and is then told that they do not count."""
    file, path = tmp_path / "m.drn", tmp_path / "path.csv"
    file.write_text(
        "@type: MDP\n@parameters\n\n@reward_models\ncost time\n@nr_states\n2\n@nr_choices\n2\n@model\n"
        "state 0 [0, 0] init\n\taction go [3, 5]\n\t\t1 : 1\nstate 1 [0, 0] goal\n\taction go [3, 5]\n\t\t1 : 1\n"
    )
    path.write_text("t,state,action\n0,0,go\n1,1,\n")
    assert json.loads(run("explain", file, path, "-k", 1, "--objective", "reach goal", "--json"))["value"] == 1
    assert "--reward-model: this is about rewards" in run(
        "explain", file, path, "--objective", "reach goal", "--reward-model", "time", code=2
    )


def test_states_that_prism_cannot_name_are_numbered_and_that_is_said(tmp_path):
    assert "written as numbers" not in run("convert", "case:epidemic", tmp_path / "e.tra")
    table = tmp_path / "m.csv"
    table.write_text("state,action,next_state,probability\nsick,treat,well,1\nwell,treat,well,1\n")
    assert "written as numbers" in run("convert", table, tmp_path / "m.tra")


def test_an_explanation_prints_its_sentences():
    explanation = tether.counterfactual(CASE.mdp, CASE.path).plan(7, 1).explain()
    assert str(explanation) == "\n".join(explanation.sentences(str))
    assert all(step.gain == 0 for step in explanation.steps[:2])


def test_what_the_command_line_opens_the_library_opens_by_the_same_names():
    mdp = tether.io.open_model("case:grid-world")
    cf = tether.counterfactual(mdp, tether.io.open_path("case:grid-world", mdp))
    got = json.loads(run("evaluate", "case:grid-world", "--policy", "optimal", "--json"))
    assert cf.evaluate(tether.io.open_policy("optimal", cf)).value == got["value"]


def test_a_check_is_a_call_of_the_library_too(tmp_path):
    file = tmp_path / "m.csv"
    file.write_text("state,action,next_state,probability\na,go,a,0.5\nb,go,b,1\nb,go,c,x\n")
    found = tether.io.check(file)
    got = json.loads(run("check", file, "--json", code=1))
    assert not found.sound
    assert found.mdp is None
    assert [one.message for one in found.problems] == [one["message"] for one in got["problems"]]
    assert tether.io.check(CASE.mdp, CASE.path).coverage.ever == 16
    with pytest.raises(tether.FileError, match="there is no such file"):
        tether.io.check(tmp_path / "nowhere.csv")


@pytest.mark.parametrize("command", [["explain"], ["report", "-o", "page.html"]])
def test_kappa_is_computed_once_for_what_needs_every_k(command, tmp_path, monkeypatch):
    from tether.plan import tether_record as tethered

    asked, compute = [], tethered.thresholds
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        tethered, "thresholds", lambda *of, up_to, **how: asked.append(up_to) or compute(*of, up_to=up_to, **how)
    )
    run(*command, "case:toy", "-k", 2, "--rule", "assured", "--no-certificate")
    assert asked == [5]  # T + 1


@pytest.fixture
def arrays(tmp_path, monkeypatch):
    """A model as arrays by other names, one without rewards, one as a table without a suffix; and a path."""
    monkeypatch.chdir(tmp_path)
    P = np.array([[[0.7, 0.3, 0], [0.2, 0.5, 0.3], [0, 0, 1]], [[0.9, 0.1, 0], [0.6, 0.3, 0.1], [0, 0, 1]]])
    R = np.array([[0.0, -1.0], [-1.0, -2.0], [-10.0, -10.0]])
    np.savez("named.npz", T=P, worth=R, states=["well", "ill", "dead"], actions=["wait", "treat"])
    np.savez("free.npz", P=P, states=["well", "ill", "dead"], actions=["wait", "treat"])
    (tmp_path / "path.csv").write_text("t,status,action\n0,well,wait\n1,ill,wait\n2,dead,\n")
    (tmp_path / "path.json").write_text('{"states": ["well", "ill", "dead"], "actions": ["wait", "wait"]}')
    tether.io.write_table(tether.io.read_arrays("named.npz", transitions="T", rewards="worth"), "table.csv")
    (tmp_path / "table.csv").rename("table.txt")
    return tmp_path


NAMED = ("--column", "P=T", "--column", "R=worth")


def test_arrays_of_other_names_are_named_by_column(arrays):
    of_path = ("--column", "state=status")  # MODEL cannot have it: it is of the path
    got = json.loads(run("sweep", "named.npz", "path.csv", *NAMED, *of_path, "--json"))
    assert got["observed_value"] == -1
    free = json.loads(run("sweep", "free.npz", "path.csv", "--column", "R=", *of_path, "--json"))
    assert free["observed_value"] == 0
    run("convert", "named.npz", "saved", *NAMED)
    assert tether.MDP.load("saved").reward("ill", "treat") == -2
    log = (arrays / "path.csv").read_text().replace("\n", "\n1,").removesuffix("1,")
    (arrays / "log.csv").write_text(f"episode,{log}")
    audited = json.loads(run("audit", "named.npz", "log.csv", "-o", "audit", *NAMED, *of_path, "--json"))
    assert (audited["episodes"], audited["problems"]) == (1, 0)


def test_arrays_of_other_names_open_in_python_as_the_explorer_says(arrays):
    from tether.cli.explore_command import _opening
    from tether.cli.options import Episode

    given = dict.fromkeys(field.name for field in fields(Episode)) | {
        "terminal": (),
        "final_reward": {},
        "path_columns": {},
    }
    opening = _opening(Episode(**(given | {"model": "free.npz", "path": "path.json", "columns": {"R": ""}})))
    assert "mdp = tether.io.open_model('free.npz', rewards=None)" in opening.python
    assert opening.command[-2:] == ("--column", "R=")


def test_the_format_that_is_said_decides_whose_the_columns_are(arrays):
    (arrays / "table.txt").write_text((arrays / "table.txt").read_text().replace("probability", "chance"))
    run("sweep", "table.txt", "path.json", "--format", "csv", "--column", "probability=chance")


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (
            ["check", "named.npz", "--column", "state=s"],
            "--column state: named.npz has arrays, not columns. If they have",
        ),
        (["convert", "named.npz", "x.csv", "--column", "reward="], "--column R= if there are no rewards."),
        (["check", "saved", "--column", "state=s"], "--column state: saved has no columns."),
        (["check", "named.npz", "--time", "hour"], "--time is about PATH, and there is none."),
        (["explore", "--no-browser", "--column", "state=s"], "--column: MODEL is missing."),
        (["certify", "case:toy", "--policy-column", "state=s"], "there is no --policy."),
        (["evaluate", "case:toy", "--policy", "optimal", "--policy-column", "state=s"], "optimal is a policy by name"),
        (["explain", "named.npz", "path.json", *NAMED, "--column", "action=a"], "lists have no columns of other names"),
        (["explain", "named.npz", "path.csv"], "(On the command line: --column P=NAME.)"),
    ],
)
def test_a_column_that_nothing_could_have_is_refused(arrays, call, why):
    (arrays / "saved").mkdir()
    assert why in run(*call, code=2)


def test_a_tolerance_for_rounded_files(tmp_path):
    table = tmp_path / "m.csv"
    table.write_text("state,action,next_state,probability\na,x,a,0.333\na,x,b,0.666\nb,x,b,1\n")
    assert "(On the command line: if the file was rounded, --tolerance NUMBER.)" in run("check", table, code=1)
    assert "a sound model" in " ".join(run("check", table, "--tolerance", 0.01).split())
    table.write_text("state,action,next_state,probability\na,x,a,0.3333333\na,x,b,0.6666666\nb,x,b,1\n")
    assert "a sound model" in " ".join(run("check", table).split())
    assert "expected 1 (tolerance 0)" in " ".join(run("check", table, "--tolerance", 0, code=1).split())
