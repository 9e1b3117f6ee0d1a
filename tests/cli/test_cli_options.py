"""Options that say how a model is to be read and what it is worth."""

import json

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
    from tether.plan import tethered

    asked, compute = [], tethered.thresholds
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tethered, "thresholds", lambda *of, up_to: asked.append(up_to) or compute(*of, up_to=up_to))
    run(*command, "case:toy", "-k", 2, "--rule", "assured", "--no-certificate")
    assert asked == [5]  # T + 1
