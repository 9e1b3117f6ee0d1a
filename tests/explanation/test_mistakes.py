"""Mistake or luck in words, as a table, in a notebook, as a drawing and on the command line."""

import json
import pickle
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from drawings import drawn
from learned import clinic
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import tether
from tether.cli import main
from tether.figures.style import BAD
from tether.views.figures import plot_review, review_in_text


def of_case(name):
    case = getattr(tether.cases, name)()
    return tether.counterfactual(case.mdp, case.path).review()


SAID = {
    "sepsis": [
        "Every decision was the model's best at the time.",
        "The death was bad luck, most of it at step 2.",
        "Expected -2,370, mistakes 0, luck -4,480: it came to -6,850.",
        "With the luck of this episode, the model's best decisions would have come to the same.",
    ],
    "epidemic": [
        "6 decisions were mistakes that could be known at the time; together they cost 35.9. The largest: at step 1, "
        "NIL instead of V_I cost 15.8 of the expected return.",
        "Bad luck cost 1.14 more, the largest part at step 2.",
        "Expected -1, mistakes -35.9, luck -1.14: it came to -38.",
        "With the luck of this episode, the model's best decisions would have come to 37 better than what happened; "
        "only this number rests on the causal model.",
        "No hidden reason, however strong, makes the decision at step 1 right, if what the model calls impossible is "
        "impossible.",
    ],
}


@pytest.mark.parametrize("name", SAID)
def test_what_is_said(name):
    review = of_case(name)
    assert review.sentences(str) == SAID[name]
    assert str(review) == "\n".join(SAID[name])


def step_model(**rows):
    """One step: each action with its outcomes, and 1 for "good"."""
    table = [("here", a, j, p, float(j == "good")) for a, row in rows.items() for j, p in row.items()]
    return tether.MDP.from_table(*map(list, zip(*table, strict=True)), terminal=["good", "bad"])


def first_words(mdp, action, end, **options):
    return tether.review(mdp, tether.Path(["here", end], [action]), **options).sentences(str)


def test_one_mistake_is_named_with_its_cost_and_that_it_could_be_known():
    mdp = step_model(careful={"good": 0.9, "bad": 0.1}, rash={"good": 0.4, "bad": 0.6})
    assert first_words(mdp, "rash", "bad")[:3] == [
        "One decision was a mistake that could be known at the time: at step 0, rash instead of careful cost 0.5 of "
        "the expected return.",
        "Bad luck cost 0.4 more, all of it at step 0.",
        "Expected 0.9, mistakes -0.5, luck -0.4: it came to 0.",
    ]
    # A bad decision that went well is still a mistake, and luck.
    assert first_words(mdp, "rash", "good")[1] == "Good luck gave 0.6, all of it at step 0."
    assert first_words(mdp, "rash", "bad", objective=tether.avoid("bad"))[0].endswith(
        "rash instead of careful lowered the chance that bad is avoided from 90 % to 40 %."
    )
    assert first_words(mdp, "rash", "bad", objective=tether.reach("bad"), minimise=True)[:3] == [
        "One decision was a mistake that could be known at the time: at step 0, rash instead of careful raised the "
        "chance that bad is reached from 10 % to 60 %.",
        "Bad luck cost 40 percentage points more, all of it at step 0.",
        "Expected a chance of 10 % that bad is reached, mistakes +50 percentage points, luck +40 percentage points: "
        "bad is reached.",
    ]


def test_what_luck_did():
    sure = step_model(go={"good": 1.0}, stay={"bad": 1.0})
    assert first_words(sure, "go", "good")[:2] == [
        "Every decision was the model's best at the time.",
        "Luck played no part.",
    ]
    coin = step_model(go={"good": 0.5, "bad": 0.5}, stay={"bad": 1.0})
    assert first_words(coin, "go", "good")[1] == "It went better than expected by good luck, all of it at step 0."
    assert first_words(coin, "go", "bad")[1] == "The end, bad, was bad luck, all of it at step 0."
    alone = step_model(go={"good": 0.5, "bad": 0.5})
    assert first_words(alone, "go", "bad")[0].startswith("There was nothing to decide")


def test_what_was_over_at_the_beginning():
    grid = tether.cases.grid_world()
    cf = tether.counterfactual(grid.mdp, grid.path)
    for against in ("best", "random"):
        review = cf.review(against, objective=tether.reach([0]))  # where it begins
        assert (review.expected, review.observed, review.foreseeable) == (1.0, 1.0, 0.0)
        assert review.sentences(str)[0] == "There was nothing to decide: it was over at the beginning."


def test_a_learned_model_says_that_it_may_err():
    mdp = clinic()
    said = tether.review(mdp, tether.Path(["sick", "dead"], ["wait"])).sentences(str)
    assert said[0].startswith("No decision can be called a mistake")
    said = tether.review(mdp, tether.Path(["sick", "dead"], ["treat"])).sentences(str)
    assert said[0] == "Every decision was the model's best at the time."


def test_nothing_is_done_after_the_end():
    review = of_case("sepsis")
    assert [step.action for step in review.steps[3:]] == [None] * 7 == [step.best for step in review.steps[3:]]
    assert "no treatment" not in review._repr_html_() + str(review) + review_in_text(review)
    assert "ended" in review._repr_html_()


def test_as_a_table_and_as_a_pickle():
    review = of_case("epidemic")
    rows = review.to_arrow().to_pylist()
    assert [row["mistake"] for row in rows] == [step.mistake for step in review.steps]
    assert review.to_pandas()["action"].tolist() == ["NIL"] * 7
    again = pickle.loads(pickle.dumps(review))
    assert (again.mistakes, again.foreseeable) == (review.mistakes, review.foreseeable)
    assert tether.review(review.mdp, review.cf.path).foreseeable is None


# --- The waterfall ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sepsis", "epidemic", "grid_world"])
def test_the_waterfall_leads_from_what_was_expected_to_what_happened(name):
    review = of_case(name)
    ax = review.plot()
    drawn(ax)
    bars = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in ax.patches]
    level = review.expected
    assert level in bars[0]
    for low, high in bars[1:-1]:
        assert min(abs(level - low), abs(level - high)) == pytest.approx(0.0, abs=1e-9)
        level = high if abs(level - low) < abs(level - high) else low
    assert level == pytest.approx(review.observed)
    assert review.observed in bars[-1]
    assert ax.get_title("left") == review.headline().replace("-", "−")
    assert ax.get_legend() is None


def test_only_mistakes_have_the_colour_of_what_is_bad():
    review = of_case("grid_world")
    ax = plot_review(review, Figure().add_subplot())
    bad = [label.get_text() for label, bar in zip(ax.get_yticklabels(), ax.patches, strict=True)
              if to_hex(bar.get_facecolor()) == BAD.lower()]  # fmt: skip
    assert bad == ["step 0: right instead of down", "step 1: right instead of down", "step 2: down instead of right"]
    assert not any(to_hex(bar.get_facecolor()) == BAD.lower() for bar in of_case("sepsis").plot().patches)


def test_many_steps_share_two_bars():
    table = [(s, a, j, 0.5 + (0.3 if (a == j) else -0.3), float(j)) for s in (0, 1) for a in (0, 1) for j in (0, 1)]
    mdp = tether.MDP.from_table(*map(list, zip(*table, strict=True)))
    review = tether.review(mdp, mdp.simulate("random", 40, rng=2))
    ax = review.plot()
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert len(names) <= 14
    parts = sum((step.mistake != 0) + (step.luck != 0) for step in review.steps)
    shared = [int(re.search(r"\d+", name)[0]) for name in names if "other" in name]
    assert sum(shared) + len(names) - 2 - len(shared) == parts > 40
    ends = [end for bar in ax.patches for end in (bar.get_x(), bar.get_x() + bar.get_width())]
    assert min(abs(end - review.observed) for end in ends) < 1e-9


@pytest.mark.parametrize("name", ["sepsis", "epidemic", "grid_world"])
def test_the_documentation_has_the_words_of_each_drawing(name):
    page = Path(__file__).parents[2] / "docs" / "mistake-or-luck.md"
    figure = f"figures/review-{name.replace('_', '-')}.png"
    assert f"![{review_in_text(of_case(name))}]({figure})" in page.read_text(encoding="utf-8")
    assert (page.parent / figure).exists()


# --- The command line -------------------------------------------------------------------------------


def test_the_command_prints_the_sentences_and_the_table(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    done = CliRunner().invoke(main, ["review", "case:sepsis"])
    assert done.exit_code == 0
    said = ["Mistake or luck? Luck.", *(one.replace("this episode", "this patient") for one in SAID["sepsis"])]
    assert done.output.splitlines()[:5] == said
    assert "3–9  ended: nothing to decide" in done.output
    assert "no treatment" not in done.output


def test_the_command_prints_json():
    done = CliRunner().invoke(main, ["review", "case:grid-world", "--against", "random", "--horizon", "12", "--json"])
    data = json.loads(done.output)
    grid = tether.cases.grid_world()
    review = tether.counterfactual(grid.mdp, grid.path, horizon=12).review("random")
    for name in ("expected", "mistakes", "luck", "observed", "unlike", "foreseeable", "horizon"):
        assert data[name] == pytest.approx(getattr(review, name), rel=1e-12)
    assert [step["luck"] for step in data["steps"]] == [step.luck for step in review.steps]
    assert data["sentences"] == review.sentences(str)


def test_the_command_takes_a_policy_from_a_file(tmp_path):
    policy = tmp_path / "policy.csv"
    policy.write_text("cell,action\n" + "".join(f"{s},right\n" for s in range(16)))
    options = ["--against", str(policy), "--policy-column", "state=cell", "--json"]
    done = CliRunner().invoke(main, ["review", "case:grid-world", *options])
    grid = tether.cases.grid_world()
    assert json.loads(done.output)["mistakes"] == tether.review(grid.mdp, grid.path, lambda s: "right").mistakes
    done = CliRunner().invoke(main, ["review", "case:grid-world", "--against", "usual"])
    assert (done.exit_code, "for a learned model only" in done.output) == (2, True)
