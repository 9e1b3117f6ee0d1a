"""--only, --never and --cost: what they mean is what the library is asked."""

import json

import pytest
from click.testing import CliRunner

import tether
from tether.cli import main
from tether.cli.parsing import advising
from tether.views.audit.audit_words import audit_question_in_words

GRID = tether.cases.grid_world()
SEPSIS = tether.cases.sepsis()


def run(*arguments, code=0):
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == code, done.output
    return done.output


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2", {"step": [2]}),
        ("2-4", {"step": [2, 3, 4]}),
        ("right", {"action": "right"}),
        ("step=2-3 action=right", {"step": [2, 3], "action": "right"}),
        ("state=2 action=right", {"state": 2, "action": "right"}),
        ("state=goal", {"state": "goal"}),  # a label
        ("action='right'", {"action": "right"}),
    ],
)
def test_what_a_change_is(text, wanted):
    assert advising(GRID.mdp, (text,), (), ()) == {"only": [wanted]}
    assert advising(GRID.mdp, (), (text, "0"), ()) == {"never": [wanted, {"step": [0]}]}


def test_a_name_with_spaces():
    """Alone as it is, in quotes beside something else."""
    both = "antibiotics + ventilation", "step=2 action='antibiotics + ventilation'"
    assert advising(SEPSIS.mdp, both, (), ())["only"] == [{"action": both[0]}, {"step": [2], "action": both[0]}]


@pytest.mark.parametrize(
    ("costs", "wanted"), [(("5",), 5.0), (("right=2", "down=0.5"), {"right": 2.0, "down": 0.5}), ((), None)]
)
def test_what_a_price_is(costs, wanted):
    assert advising(GRID.mdp, (), (), costs).get("cost") == wanted


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--only", "fly"), "no action"),
        (("--only", "4-2"), "no action"),
        (("--never", "step=two"), "is no step"),
        (("--never", "time=2"), "expected a step, an action"),
        (("--never", "state="), "expected a step, an action"),
        (("--only", "action=it's"), "no closing quotation"),
        (("--only", "it's"), "no action"),
        (("--only", ""), "expected a step, an action"),
        (("--cost", "much"), "expected a price"),
        (("--cost", "fly=1"), "no action"),
        (("--cost", "-1"), "a price is a number from 0"),
        (("--cost", "nan"), "a price is a number from 0"),
        (("--cost", "1", "--cost", "right=2"), "one price for all changes, or one for each action"),
    ],
)
def test_what_is_refused(options, message):
    assert message in run("explain", "case:grid-world", "-k", 6, "-m", 1, *options, code=2)


@pytest.mark.compiled
def test_the_plan_is_that_of_the_library():
    got = json.loads(run("explain", "case:grid-world", "-k", 6, "-m", 2, "--never", "2", "--cost", "right=3", "--json"))
    plan = tether.counterfactual(GRID.mdp, GRID.path).plan(6, 2, never=2, cost={"right": 3.0})
    assert (got["value"], got["paid"]) == (plan.value, plan.paid)
    assert got["advisable"] == str(plan.advisable) == "never at step 2, a change to right costs 3"
    assert all(one["t"] != 2 for one in got["changes"])


@pytest.mark.compiled
def test_an_answer_says_which_changes_may_be_advised():
    said = " ".join(run("explain", "case:grid-world", "-k", 6, "-m", 2, "--never", "2", "--cost", "right=3").split())
    assert "m = 2: at most 2 actions may change; never at step 2, a change to right costs 3." in said
    asked = tether.audit(GRID.mdp, [GRID.path], k=6, never=[2], certify=False).question
    assert "(m = 1; never at step 2)" in audit_question_in_words(asked)
