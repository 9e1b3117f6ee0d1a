"""``tether explain`` for somebody whose type was never recorded."""

import html
from dataclasses import replace

import pytest
from click.testing import CliRunner
from commands import json_of, words

import tether
from tether.cli import main
from tether.io.models import write_model
from tether.io.paths import write_path


def ward(dies):
    rows = [("sick", "wait", "dead", dies), ("sick", "wait", "sick", 0.9 - dies), ("sick", "wait", "well", 0.1)]
    rows += [("sick", "treat", "dead", 0.3), ("sick", "treat", "well", 0.7)]
    mdp = tether.MDP.from_table(*zip(*rows, strict=True), terminal=["dead", "well"])
    return mdp.with_objective(final_reward={"well": 1.0, "sick": 0.8})


@pytest.fixture
def clinic(tmp_path):
    types = tether.Types(
        {"diabetic": ward(0.6), "not diabetic": ward(0.05)}, prior={"diabetic": 0.2, "not diabetic": 0.8}
    )
    path = tether.Path(["sick", "sick", "dead"], ["wait", "wait"])
    types.save(tmp_path / "types")
    write_path(path, tmp_path / "path.csv")
    return types, path, tmp_path


def test_a_directory_of_types(clinic):
    types, path, folder = clinic
    answer = json_of("explain", folder / "types", folder / "path.csv", "-m", 2)
    plan = tether.counterfactual(types, path).plan(m=2)
    assert (answer["value"], answer["exact"], answer["posterior"]) == (plan.value, True, plan.cf.posterior)
    assert answer["sentences"] == plan.explain().sentences(str)
    assert answer["steps"][0]["planned"] == "treat"
    review = plan.cf.review()
    assert answer["review"]["mistakes"] == review.mistakes
    assert [step["luck"] for step in answer["review"]["steps"]] == [step.luck for step in review.steps]
    assert answer["risk"]["worse_high"] == plan.risk.worse
    said = words("explain", folder / "types", folder / "path.csv")
    assert [one.word in said for one in plan.explain().verdicts(str)] == [True] * 3
    assert "P(diabetic)" in said


def test_other_questions_about_types(clinic):
    types, path, folder = clinic
    cf, asked = tether.counterfactual(types, path), (folder / "types", folder / "path.csv")
    found = json_of("decisions", *asked)
    assert found["sentences"] == cf.decisions().sentences(str)
    assert [row["mistake"] for row in found["decisions"]] == [row.mistake for row in cf.decisions().rows]
    assert found["sentences"][0] in words("decisions", *asked)
    table = json_of("sweep", *asked, "-m", "0-2", "--never", "step=0 action=treat")
    assert table["values"] == cf.sweep(ms=[0, 1, 2], never={"step": 0, "action": "treat"}).values.tolist()
    assert "not seeing the type" in words("sweep", *asked)
    sure = json_of("certify", *asked, "--gamma", 2)["certificate"]
    assert (sure["worst"], sure["gamma_star"]) == (cf.plan().certify(2.0).worst, cf.plan().certify().gamma_star)
    assert "every causal model of each type" in words("certify", *asked)
    answer = json_of("explain", *asked, "--only", "1")
    assert answer["value"] == cf.plan(only=1).value < cf.plan().value
    for option in (["decisions", "-m", 2], ["certify", "--policy", "random"], ["sweep", "--cost", "1"]):
        refused = CliRunner().invoke(main, [option[0], *map(str, asked), *map(str, option[1:])])
        assert refused.exit_code == 2
        assert "is not for types" in refused.output


def test_types_from_files_with_another_prior(clinic):
    types, path, folder = clinic
    for name, mdp in types.models.items():
        write_model(replace(mdp, final_reward=None), folder / f"{name}.csv")
    options = [f"--type={name}={folder / name}.csv" for name in types.models]
    options += ["--prior", "diabetic=0.5", "--prior", "not diabetic=0.5"]
    options += ["--final-reward", "well=1", "--final-reward", "sick=0.8"]
    answer = json_of("explain", *options, folder / "path.csv", "-k", 2)
    other = tether.Types(types.models, prior={"diabetic": 0.5, "not diabetic": 0.5})
    assert answer["value"] == pytest.approx(tether.counterfactual(other, path).plan(k=2).value, abs=1e-12)


def test_a_saved_prior_by_first_state_is_read_again(clinic):
    types, _, folder = clinic
    by_state = tether.Types(types.models, {"diabetic": {"sick": 0.3}, "not diabetic": {"sick": 0.7}})
    by_state.save(folder / "other")
    read = tether.io.read_types(folder / "other")
    assert read.prior("sick") == by_state.prior("sick")
    assert read.by_first_state
    assert tether.io.read_types(folder / "other", prior={"diabetic": 1.0, "not diabetic": 0.0}).prior(None)
    with pytest.raises(tether.FileError, match="this is a file"):
        types.save(folder / "path.csv")
    with pytest.raises(tether.FileError, match="no such directory"):
        tether.io.read_types(folder / "nowhere")
    (folder / "other" / "types.json").write_text("{}")
    with pytest.raises(tether.FileError, match="not a list of types"):
        tether.io.read_types(folder / "other")
    (folder / "empty").mkdir()
    with pytest.raises(tether.FileError, match="no models of types"):
        tether.io.read_types(folder / "empty")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["types", "path.csv", "--draws", "5"], "--draws is not for types"),
        (["types"], "expected PATH alone after --type"),
        (["--type", "diabetic", "path.csv"], "expected NAME=MODEL"),
        (["--type", "a=case:toy", "path.csv"], "how likely is each type?"),
        (["case:toy", "--prior", "a=1"], "--prior is about types"),
        (["types", "path.csv", "--prior", "a"], "expected NAME=SHARE"),
        (["types", "path.csv", "--prior", "a=1"], "prior must name the types"),
    ],
)
def test_what_is_refused(clinic, options, why, monkeypatch):

    monkeypatch.chdir(clinic[2])
    done = CliRunner().invoke(main, ["explain", *options])
    assert done.exit_code != 0
    assert why in " ".join((done.output + str(done.stderr)).split())


def test_the_embedded_patient_whose_diabetes_was_never_recorded():
    answer = json_of("explain", "case:hidden-diabetes", "-m", 2)
    assert answer["posterior"] == {"not diabetic": 0.0, "diabetic": 1.0}
    assert answer["value"] == pytest.approx(-3981.75, abs=0.01)
    assert answer["verdict"] == "never worse"
    assert answer["prior_intervals"] == {"not diabetic": [0.0, 1.0], "diabetic": [0.0, 1.0]}
    said = words("explain", "case:hidden-diabetes-unclear")
    assert "the type is not diabetic with a chance of 57 %" in said
    for words_given, why in (
        (["robust", "case:hidden-diabetes"], "models of several hidden types"),
        (["report", "case:hidden-diabetes", "--features", "glucose"], "--features is not for types"),
        (["explain", "case:hidden-diabetes-nobody"], "has no path 'nobody'"),
        (["explain", "case:hidden-diabetess"], "did you mean case:hidden-diabetes"),
    ):
        done = CliRunner().invoke(main, words_given)
        assert done.exit_code != 0
        assert why in " ".join((done.output + str(done.stderr) + str(done.exception)).split())


def test_the_page_of_types_has_the_answer_of_the_terminal(clinic):
    _, _, folder = clinic
    told = json_of("explain", folder / "types", folder / "path.csv", "-m", 2)
    written = json_of("report", folder / "types", folder / "path.csv", "-m", 2, "-o", folder / "page.html")
    assert {**told, "command": 0, "file": 0, "bytes": 0} == {**written, "command": 0, "file": 0, "bytes": 0}
    page = html.unescape((folder / "page.html").read_text(encoding="utf-8"))
    assert told["sentences"][0] in " ".join(page.split())
    assert "no tether, m = 2. Written to" in words(
        "report", folder / "types", folder / "path.csv", "-m", 2, "-o", folder / "page.html"
    )


def test_a_review_of_types_is_that_of_the_library(clinic):
    types, path, folder = clinic
    found = tether.counterfactual(types, path).review()
    answer = json_of("review", folder / "types", folder / "path.csv")
    assert answer["sentences"] == found.sentences(str)
    assert (answer["expected"], answer["mistakes"], answer["luck"], answer["T"]) == (
        found.expected, found.mistakes, found.luck, 2
    )  # fmt: skip
    assert answer["foreseeable"] is None
    assert "better" in words("review", folder / "types", folder / "path.csv")
    done = CliRunner().invoke(main, ["review", "case:hidden-diabetes", "--against", "usual"])
    assert "--against is not for types" in done.output + str(done.stderr)
