"""``--objective`` and ``--minimise`` wherever a plan or a value is asked for."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import tether
from tether.cli import main


def call(*arguments):
    done = CliRunner().invoke(main, [str(one) for one in arguments])
    return done.exit_code, done.output


def answer(*arguments):
    code, output = call(*arguments, "--json")
    assert code in (0, 1), output
    return json.loads(output)


AVOID, REACH = ("--objective", "avoid danger"), ("--objective", "reach danger")


def test_explain(grid):
    plan = grid.plan(6, 2, objective=tether.avoid("danger"))
    printed = answer("explain", "case:grid-world", "-k", 6, "-m", 2, *AVOID)
    assert (printed["objective"], printed["minimise"], printed["observed_value"]) == ("avoid danger", False, 0.0)
    assert printed["value"] == plan.value
    assert sum(step["gain"] for step in printed["steps"]) == pytest.approx(plan.gain)
    code, output = call("explain", "case:grid-world", "-k", 6, "-m", 2, *AVOID)
    assert code == 0
    flat = " ".join(output.split())
    assert "The chance that danger is avoided is 99 % (" in flat
    assert "Asked for: the largest chance that danger is avoided, within the episode" in flat
    assert "what the step adds to the chance that danger is avoided" in flat
    assert "return" not in flat


def test_the_other_way_round():
    least = answer("sweep", "case:grid-world", "--objective", "reach danger", "--minimise", "-k", "1-12", "-m", "0-2")
    most = answer("sweep", "case:grid-world", *AVOID, "-k", "1-12", "-m", "0-2")
    for one, other in zip(least["values"], most["values"], strict=True):
        assert one == pytest.approx([1 - value for value in other])
    assert (least["observed_value"], most["observed_value"]) == (1.0, 0.0)
    assert least["enough"] == most["enough"]


def test_a_cost_is_minimised(grid):
    assert answer("explain", "case:grid-world", "-k", 6, "-m", 1, "--minimise")["value"] == pytest.approx(
        grid.plan(6, 1, minimise=True).value
    )
    _, output = call("sweep", "case:grid-world", "--minimise", "-k", 6, "-m", 1)
    assert "the smallest expected return" in " ".join(output.split())


def test_choose_k_has_a_direction():
    chosen = answer("choose-k", "case:grid-world", "-m", 2, "--at-least", 0.5, *AVOID)
    least = answer(
        "choose-k", "case:grid-world", "-m", 2, "--at-most", 0.5, "--objective", "reach danger", "--minimise"
    )
    assert chosen["k"] == least["k"] is not None
    for wrong in (["--at-most", 0.5], ["--at-least", 0.5, "--minimise"], []):
        code, output = call("choose-k", "case:grid-world", "-m", 2, *wrong)
        assert code == 2
        assert "give the value to reach with" in output


def test_evaluate_why_and_sample(grid, tmp_path):
    printed = answer("evaluate", "case:grid-world", "--policy", "optimal", *AVOID)
    assert printed["value"] == grid.evaluate("optimal", objective=tether.avoid("danger")).value
    assert "The chance that danger is avoided" in " ".join(
        call("evaluate", "case:grid-world", "--policy", "random", *AVOID)[1].split()
    )
    why = answer("why", "case:grid-world", "-t", 5, "-k", 1, *AVOID)
    assert {one["reason"] for one in why["answers"]} == {"decided"}
    drawn = answer("sample", "case:grid-world", "-k", 6, "-m", 1, "-n", 20, *AVOID, "-o", tmp_path / "log.csv")
    for one in drawn["trajectories"]:
        assert (one["states"][-1] == 6) == (one["value"] == 0.0)
        assert one["states"].count(6) <= 1  # the episode ends there
    assert Path(tmp_path / "log.csv").stat().st_size > 0
    assert "it does not hold" in call("sample", "case:grid-world", "-k", 1, "-m", 0, "-n", 2, *AVOID)[1]


def test_decisions_certify_and_robust(grid):
    lived = tether.avoid("danger")
    printed = answer("decisions", "case:grid-world", *AVOID)
    assert [one["value"] for one in printed["decisions"]] == [row.value for row in grid.decisions(lived).rows]
    assert printed["outcome"] == "danger is reached"
    _, output = call("decisions", "case:grid-world", *AVOID)
    assert "chance: that danger is avoided, had only this action been different." in " ".join(output.split())
    plan = grid.plan(6, 2, objective=lived)
    sure = answer("certify", "case:grid-world", "-k", 6, "-m", 2, *AVOID)["certificate"]
    assert sure["nothing"]["worst"] == plan.certify().nothing.worst
    robust = answer("robust", "case:grid-world", "-k", 6, "-m", 2, *AVOID, "--assume", "nothing")
    assert robust["value"] >= sure["nothing"]["worst"] - 1e-9
    assert any(one.startswith("A chance of at least") for one in robust["sentences"])


def test_report(tmp_path):
    code, output = call("report", "case:grid-world", "-k", 6, "-m", 2, *AVOID, "-o", tmp_path / "page.html")
    assert code == 0, output
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "The chance that danger is avoided" in page
    assert "expected return" not in page.lower()


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        ("avoid", "is none of 'reach GOAL', 'avoid BAD', 'until HOLD GOAL'"),
        ("until goal", "is none of"),
        ("avoid 'danger", "is none of"),
        ("avoid the pit", 'or the name of a state; put quotes around a name that has spaces: avoid "NAME"'),
        ("avoid dangr", "the model has no label or state called 'dangr'; its labels are 'goal', 'danger'"),
        ("until danger goal", "it is decided at t = 0"),
    ],
)
def test_an_objective_that_cannot_be(objective, message):
    code, output = call("explain", "case:grid-world", "--objective", objective)
    assert code == 2
    assert message in " ".join(output.replace("│", " ").split())


def test_a_legend_tells_what_the_table_has():
    def told(*options):
        code, output = call("explain", "case:grid-world", *options)
        assert code == 0, output
        return " ".join(output.split())

    falls = told("-k", 6, "-m", 1, "--objective", "reach danger", "--minimise")
    assert "adds: what the step takes from the chance that danger is reached, against what was observed." in falls
    assert "adds: what the step adds to the return over what was observed." in told("-k", 6, "-m", 1)
    nothing = told("-k", 1, "-m", 0)
    assert "* the action changes" not in nothing
    assert "elsewhere:" not in nothing
    assert "% how likely" not in nothing
    assert "* the action changes. %" in told("-k", 6, "-m", 1)
    assert "* the action changes; elsewhere: in other states than the likeliest. %" in told("-k", 8, "-m", 3)


@pytest.mark.parametrize("option", [("--discount", "0.9"), ("--final-reward", "15=3")])
@pytest.mark.parametrize("command", ["explain", "sweep", "evaluate --policy random", "why -t 0 -k 1"])
def test_rewards_do_not_go_with_a_property(command, option):
    code, output = call(*command.split(), "case:grid-world", *option, *AVOID)
    assert code == 2
    assert f"{option[0]}: this is about rewards, and with --objective 'avoid danger' none counts" in " ".join(
        output.split()
    )


def test_a_limit_on_a_probability(grid, tmp_path):
    plan = grid.plan(6, 2, subject_to=(tether.reach("danger"), 0.1))
    limit = ("case:grid-world", "-k", 6, "-m", 2, "--subject-to", "reach danger 0.1")
    found = answer("explain", *limit)
    assert found["value"] == plan.value
    assert found["constraint"]["probability"] == plan.constraint.probability <= 0.1
    assert (found["constraint"]["objective"], found["constraint"]["limit"]) == ("reach danger", 0.1)
    assert "Asked for: a chance of at most 10 % (0.1) that danger is reached" in " ".join(
        call("explain", *limit)[1].split()
    )
    code, output = call("report", *limit, "-o", tmp_path / "page.html", "--no-certificate")
    assert code == 0, output
    page = (tmp_path / "page.html").read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")
    assert "a chance of at most 10 % (0.1) that danger is reached" in page
    assert "subject_to=(tether.reach(&#39;danger&#39;), 0.1)" in page


@pytest.mark.parametrize(
    ("limit", "problem"),
    [
        ("reach danger", "expected a property and a probability, as in 'reach died 0.1'"),
        ("0.1", "expected a property and a probability"),
        ("reach 0.1", "is none of 'reach GOAL'"),
        ("reach danger 2", "the limit is a probability, from 0 to 1, not 2.0"),
        ("reach danger 0.001", "the smallest that is possible is 0.0055"),
    ],
)
def test_a_limit_that_cannot_be(limit, problem):
    code, output = call("explain", "case:grid-world", "-k", 6, "-m", 2, "--subject-to", limit)
    assert code == 2
    assert problem in " ".join(output.replace("│", " ").split())


def test_what_remains_is_said_in_short(grid):
    wanted = tether.reach("1").then("goal", within=9) & tether.avoid("danger")
    words = ("-k", 6, "-m", 3, "--objective", "1 then goal within 9 and avoid danger")
    printed = answer("explain", "case:grid-world", *words)
    assert (printed["value"], printed["objective"]) == (grid.plan(6, 3, objective=wanted).value, str(wanted))
    code, output = call("explain", "case:grid-world", *words)
    assert code in (0, 1)
    flat = " ".join(output.split())
    assert "the chance that 1 is reached" not in flat
    assert "state 1 is reached and later goal, within 9 steps and danger is avoided" in flat
    assert "16 states" in flat
    assert "Tracked" not in flat
    assert "F (" not in flat
    evaluated = answer("evaluate", "case:grid-world", "--policy", "optimal", *words[-2:])
    assert evaluated["value"] == grid.evaluate("optimal", objective=wanted).value


@pytest.fixture
def walk(tmp_path):
    """A PRISM model with two reward structures, and an episode of three steps."""
    files = {
        "walk.tra": "3 4 6\n0 0 0 0.5 go\n0 0 1 0.5 go\n1 0 2 0.9 go\n1 0 0 0.1 go\n1 1 0 1 back\n2 0 2 1 stay\n",
        "walk.sta": "(x,wet)\n0:(0,false)\n1:(1,false)\n2:(2,true)\n",
        "walk.lab": '0="init" 1="deadlock" 2="done"\n0: 0\n2: 2\n',
        "walk1.srew": '# Reward structure "fuel"\n3 2\n0 1\n1 2\n',
        "walk2.srew": '# Reward structure "gain"\n3 1\n2 1\n',
        "trace.txt": "action step x wet\n- 0 0 false\ngo 1 1 false\nback 2 0 false\ngo 3 0 false\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path / "walk.tra", tmp_path / "trace.txt"


def test_an_objective_names_rewards_direction_and_steps(walk):
    def sweep(*words):
        return {name: answer("sweep", *walk, *words)[name] for name in ("values", "minimise", "objective", "T")}

    gain = sweep("--reward-model", "gain")
    assert sweep("--objective", 'R{"gain"}max=? [ C ]') == gain
    fuel = sweep("--objective", 'R{"fuel"}min=? [ C<=2 ]')
    assert (fuel["minimise"], fuel["objective"], fuel["T"]) == (True, None, 2)
    mdp = tether.io.read_prism(walk[0], reward_model="fuel")
    path = tether.io.read_path(walk[1], mdp).first(2)
    assert fuel["values"] == tether.counterfactual(mdp, path).sweep(minimise=True).values.tolist()
    least = sweep("--objective", 'Pmin=? [ F<=2 "done" ]')
    assert least == sweep("--objective", "reach done within 2", "--minimise")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--objective", "R=? [ C ]"), "several reward structures"),
        (("--objective", 'R{"fule"}=? [ C ]'), "there are no rewards 'fule'"),
        (("--reward-model", "gain", "--objective", 'R{"fuel"}=? [ C ]'), "'gain', but the objective asks for 'fuel'"),
        (("--objective", 'R{"fuel"}=? [ C ]', "--reward-model", "gain"), "'gain', but the objective asks for 'fuel'"),
        (("--objective", 'R{"fuel"}=? [ F "done" ]'), "rewards until a state is reached"),
        (("--objective", 'P=? [ F "done" & F wet ]'), "put parentheses: (F a) & (F b)"),
    ],
)
def test_what_an_objective_may_not_say(walk, words, message):
    code, output = call("sweep", *walk, *words)
    assert code == 2
    assert message in " ".join(output.replace("│", " ").split())


def test_a_policy_has_no_direction(walk):
    code, output = call("evaluate", *walk, "--policy", "random", "--objective", 'Pmin=? [ F "done" ]')
    assert code == 2
    assert "nothing is chosen here" in " ".join(output.split())
