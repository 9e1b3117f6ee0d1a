"""What the commands about an episode answer: the library's numbers, in JSON and in words."""

import pytest
from click.testing import CliRunner
from commands import json_of, run, words

import tether
from tether.cli import main
from tether.explanation.answer_data import as_data
from tether.explanation.terms import best_for_anyone_in_words
from tether.io.logs import read_episodes, write_episodes
from tether.io.models import write_model
from tether.io.paths import write_path
from tether.learning.learn import learn

# ---- explain ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "m"), [(3, 1), (6, 4), (8, 1), (1, 3)])
def test_explain_tells_what_the_library_explains(epidemic, k, m):
    answer = json_of("explain", "case:epidemic", "-k", k, "-m", m)
    explanation = epidemic.plan(k, m).explain()
    plan, beyond = explanation.plan, explanation.beyond
    assert (answer["k"], answer["m"], answer["T"]) == (k, m, 7)
    assert (answer["value"], answer["observed_value"], answer["gain"]) == (plan.value, -38.0, plan.gain)
    assert answer["std"] == explanation.outlook.std
    for step, one in zip(answer["steps"], explanation.steps, strict=True):
        for name in step:
            expected = getattr(one, name)
            assert step[name] == (as_data(expected) if "state" in name or "action" in name else expected), name
    for name in ("longer", "free", "more", "most"):
        limit = getattr(beyond, name)
        assert answer["beyond"][name] == (
            None if limit is None else {"k": limit.k, "m": limit.m, "value": limit.value, "added": limit.added}
        )
    assert answer["tailoring"]["longest_run"] == explanation.outlook.tailoring.longest_run
    assert answer["sentences"] == [
        *explanation.sentences(str),
        *beyond.sentences(),
        best_for_anyone_in_words(explanation),
    ]
    assert answer["sentences"][: sum(map(len, answer["answer"].values()))] == [
        one for part in answer["answer"].values() for one in part
    ]
    assert answer["uncertainty"] is None


def test_explain_in_words():
    text = run("explain", "case:epidemic", "-k", 3, "-m", 1, width=120)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "1 (8, 2, 20) → do nothing the same 0 0.64 yes" in lines
    assert "5 (1, 9, 20) → do nothing the same → vaccinate an infected person* 0 0 no" in lines
    assert "6 (1, 9, 20) → do nothing (1, 8, 19) (89 %) → do nothing +0.8889 0 no" in lines
    for sentence in (
        "Change 1 action: at step 5 vaccinate an infected person instead of do nothing.",
        "The expected return is -37.11 (at least half of the replays: -37) instead of -38: a gain of 0.8889.",
        "A longer tether would add 1.92 with k = 4, and 36.11 without any (k = 8).",
    ):
        assert sentence in " ".join(text.split())


def test_explain_without_k_takes_the_shortest_tether_that_is_enough():
    assert json_of("explain", "case:epidemic")["k"] == 7
    assert "k = 7 (the shortest tether that is enough):" in words("explain", "case:epidemic")
    assert json_of("explain", "case:toy")["k"] == 1
    assert "k = 1 (no tether gains anything):" in words("explain", "case:toy")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["-k", "8"], "k = 8: no tether; the answer may be what the model expects of anyone."),
        (["-k", "1"], "k = 1: every step is on known ground."),
        (["-k", "4"], "k = 4: wherever the plan leads, it could be back on known ground within 4 steps."),
        (["-k", "4", "--rule", "assured"], "k = 4: never 4 steps in a row off known ground."),
        (["-k", "4", "--influence", "effective:0.1"], "Rule definition, influence effective(0.1)."),
        (["-m", "0"], "m = 0: no action may change."),
    ],
)
def test_explain_says_what_the_limits_mean(options, sentence):
    assert sentence in words("explain", "case:epidemic", *options)


def test_a_model_without_rewards_is_called_that():
    assert words("explain", "case:toy").endswith("say what it is worth to end in a state (final reward).")


def test_rules_influence_and_discount_reach_the_planner(grid):
    options = ("--rule", "assured", "--influence", "effective:0.02", "--discount", "0.9")
    answer = json_of("explain", "case:grid-world", "-k", 4, "-m", 2, *options)
    cf = tether.counterfactual(grid.mdp.with_objective(discount=0.9), grid.path)
    assert answer["value"] == cf.plan(4, 2, rule="assured", influence=tether.effective(0.02)).value
    assert (answer["rule"], answer["influence"], answer["discount"]) == ("assured", "effective(0.02)", 0.9)
    tv = json_of("explain", "case:grid-world", "-k", 4, "-m", 2, "--influence", "tv:0.3")
    assert tv["value"] == grid.plan(4, 2, influence=tether.tv(0.3)).value


def test_features_take_states_together(epidemic):
    answer = json_of("explain", "case:epidemic", "-k", 6, "-m", 4, "--features", "I")
    states, chances = epidemic.plan(6, 4).evaluate().distribution(5)
    by_i: dict[int, float] = {}
    for state, chance in zip(states, chances, strict=True):
        by_i[state.I] = by_i.get(state.I, 0.0) + chance
    likeliest = max(by_i, key=lambda one: by_i[one])
    assert answer["steps"][5]["state"] == {"I": likeliest}
    assert answer["steps"][5]["state_probability"] == pytest.approx(by_i[likeliest])
    assert "I 9 → do" in words("explain", "case:epidemic", "-k", 6, "-m", 4, "--features", "I")


@pytest.mark.compiled
def test_long_states_are_told_by_what_differs():
    lines = [" ".join(line.split()) for line in run("explain", "case:sepsis", "-k", 8, "-m", 1, width=200).splitlines()]
    assert "1 bp high; on vasopressors, ventilation → antibiotics + ventilation the same 0 0.81 yes" in lines
    assert not any("as before" in line or "the same" in line for line in lines if "died" in line)


@pytest.mark.compiled
def test_an_outcome_is_told_by_its_name_and_its_own_probability():
    """Of death it was said that all is as before, and 13 %: that of the likeliest single way of being dead."""
    answer = json_of("explain", "case:sepsis", "-k", 8, "-m", 2)
    patient = tether.cases.sepsis()
    outlook = tether.counterfactual(patient.mdp, patient.path).plan(8, 2).evaluate()
    for t in (5, 10):
        died = sum(p for s, p in zip(*outlook.distribution(t), strict=True) if s in patient.mdp.labels["died"])
        step = answer["steps"][t]
        assert (step["observed_outcome"], step["outcome"]) == ("died", "died")
        assert step["outcome_probability"] == pytest.approx(died)
        assert f"died ({100 * died:.0f} %)" in words("explain", "case:sepsis", "-k", 8, "-m", 2)
    assert answer["steps"][0]["observed_outcome"] is None


def test_an_outcome_that_was_not_recorded(tmp_path):
    grid = tether.cases.grid_world()
    cut = tether.Path(grid.path.states[:-1], grid.path.actions)
    write_path(cut, tmp_path / "path.csv")
    text = run("explain", "case:grid-world", tmp_path / "path.csv", "-k", 6)
    assert "11  not recorded" in text
    assert json_of("explain", "case:grid-world", tmp_path / "path.csv", "-k", 6)["steps"][-1]["observed_state"] is None
    checked = words("check", "case:grid-world", tmp_path / "path.csv")
    assert "the last outcome is not recorded" in checked


def test_files_give_the_same_answer_as_the_case(tmp_path):
    case = tether.cases.epidemic()
    write_model(case.mdp, tmp_path / "model.parquet")
    write_path(case.path, tmp_path / "path.json")
    write_episodes({"first": case.path}, tmp_path / "log.csv")
    expected = json_of("explain", "case:epidemic", "-k", 6, "-m", 2)
    for path in (tmp_path / "path.json", f"{tmp_path / 'log.csv'}#first", "case:epidemic"):
        answer = json_of("explain", tmp_path / "model.parquet", path, "-k", 6, "-m", 2)
        assert answer["value"] == pytest.approx(expected["value"], rel=1e-13)  # states come in another order
        assert [step["action"] for step in answer["steps"]] == [step["action"] for step in expected["steps"]]


# ---- sweep, choose-k --------------------------------------------------------------------------------------------


def test_sweep_has_the_table_of_the_library(epidemic):
    answer, table = json_of("sweep", "case:epidemic"), epidemic.sweep()
    assert answer["values"] == table.values.tolist()
    assert (answer["ks"], answer["ms"]) == (list(range(1, 9)), list(range(8)))
    assert answer["sizes"] == table.sizes.tolist()
    assert answer["enough"] == [None, 7, 7, 7, 7, 7, 7, 7]
    some = json_of("sweep", "case:epidemic", "-k", "2,7-8", "-m", "1-2", "--rule", "assured")
    assert some["values"] == epidemic.sweep(rule="assured", ks=[2, 7, 8], ms=[1, 2]).values.tolist()


def test_the_table_takes_rows_and_columns_together_that_are_the_same():
    lines = run("sweep", "case:epidemic").splitlines()
    assert "k \\ m       0       1       2       3       4     5–7" in lines
    assert "  1–2  -38.00  -38.00  -38.00  -38.00  -38.00  -38.00" in lines
    assert "    3  -38.00  -37.11  -37.11  -37.11  -37.11  -37.11" in lines
    assert "k = 7 with m = 1–7" in words("sweep", "case:epidemic")


def test_a_table_that_is_too_wide_goes_on_below():
    text = run("sweep", "case:grid-world", width=50)
    assert text.count("k \\ m") == 3
    wide = run("sweep", "case:grid-world", width=150)
    assert wide.count("k \\ m") == 1
    for value in ("-897.00", "374.72", "548.12"):
        assert text.split().count(value) == wide.split().count(value) > 0


def test_a_table_of_tethers_that_gain_nothing():
    assert "None of these tethers gains anything." in words("sweep", "case:epidemic", "-k", "1-2")


@pytest.mark.parametrize(("m", "at_least"), [(2, -30.0), (1, -38.0), (1, 5.0)])
def test_choose_k(epidemic, m, at_least):
    k = epidemic.choose_k(m, at_least)
    code = 1 if k is None else 0
    assert json_of("choose-k", "case:epidemic", "-m", m, "--at-least", at_least, code=code)["k"] == k
    text = words("choose-k", "case:epidemic", "-m", m, "--at-least", at_least, code=code)
    assert text.startswith("No k reaches 5 with 1 change" if k is None else f"k = {k} is the smallest")


def test_choose_k_says_when_the_tether_is_off():
    assert "k = 8 (no tether) is the smallest" in words("choose-k", "case:epidemic", "-m", 1, "--at-least", -2)


# ---- why, evaluate, sample --------------------------------------------------------------------------------------


def test_why_answers_for_each_action(epidemic):
    answer = json_of("why", "case:epidemic", "-t", 0, "-k", 3)
    assert answer["state"] == {"S": 9, "I": 1, "V": 20}
    for one in answer["answers"]:
        why = epidemic.why(0, (9, 1, 20), one["action"], k=3)
        assert (one["allowed"], one["needed"], one["reason"], one["nearest"], one["sentence"]) == (
            why.allowed, why.needed, why.reason, why.nearest, why.sentence,
        )  # fmt: skip
        assert [(step["t"], step["action"]) for step in one["path"]] == [(t, action) for t, _, action in why.path]
    assert [one["action"] for one in answer["answers"]] == ["NIL", "V_I", "V_S"]
    text = words("why", "case:epidemic", "-t", 0, "-k", 3)
    assert "NIL allowed: it is known ground itself." in text
    assert "V_I not allowed: no path from here ever comes back to known ground. It takes k ≥ 8." in text


def test_why_of_one_state_and_action(epidemic):
    call = ("why", "case:epidemic", "-t", 2, "-k", 1, "--state", "(7,3,20)", "--action", "V_I")
    assert json_of(*call)["answers"][0]["sentence"] == epidemic.why(2, (7, 3, 20), "V_I", k=1).sentence
    late = ("why", "case:epidemic", "-t", 6, "-k", 2, "--state", "(1, 8, 19)", "--action", "NIL", "--rule", "assured")
    assured = json_of(*late, "--uninfluenced", 1)["answers"][0]["sentence"]
    assert assured == epidemic.why(6, (1, 8, 19), "NIL", k=2, rule="assured", uninfluenced=1).sentence


@pytest.mark.parametrize("policy", ["optimal", "observed", "random"])
def test_evaluate(grid, policy):
    answer = json_of("evaluate", "case:grid-world", "--policy", policy, "--influence", "effective:0")
    given = {"optimal": grid.mdp.solve(11), "observed": lambda t, _: grid.path.actions[t], "random": "random"}[policy]
    outlook = grid.evaluate(given, influence=tether.effective(0))
    assert (answer["value"], answer["std"]) == (outlook.value, outlook.std)
    assert answer["gain"] == outlook.value + 897
    assert [step["changed"] for step in answer["steps"][:-1]] == outlook.changed.tolist()
    assert [step["influenced"] for step in answer["steps"][:-1]] == outlook.tailoring.influenced.tolist()
    assert sum(step["gain"] for step in answer["steps"]) == pytest.approx(answer["gain"])
    assert answer["tailoring"]["expected_influenced_steps"] == outlook.tailoring.expected_influenced_steps
    text = words("evaluate", "case:grid-world", "--policy", policy)
    assert "of the 11 actions on average." in text


def test_evaluate_a_file(grid, tmp_path):
    file = tmp_path / "policy.csv"
    file.write_text("s,action\n" + "".join(f"{state},down\n" for state in range(16)))
    answer = json_of("evaluate", "case:grid-world", "--policy", file, "--policy-column", "state=s")
    assert answer["value"] == grid.evaluate(lambda _: "down").value


def test_samples_are_those_of_the_plan(epidemic, tmp_path):
    file = tmp_path / "log.csv"
    answer = json_of("sample", "case:epidemic", "-k", 6, "-m", 4, "-n", 20, "--seed", 3, "-o", file)
    drawn = epidemic.plan(6, 4).sample(20, 3)
    assert [one["value"] for one in answer["trajectories"]] == drawn.returns.tolist()
    assert answer["mean"] == drawn.returns.mean()
    assert answer["trajectories"][0]["actions"] == list(drawn.paths[0].actions)
    assert answer["trajectories"][0]["states"][0] == {"S": 9, "I": 1, "V": 20}
    log = read_episodes(file)
    assert log[7].states == tuple(str(state) for state in drawn.paths[7].states)
    assert log.rewards(7).sum() == drawn.returns[7]
    text = words("sample", "case:epidemic", "-k", 6, "-m", 4, "-n", 20, "--seed", 3)
    assert "20 outbreaks drawn" in text
    assert "… and 15 more" in text


def test_report_writes_a_page(tmp_path, epidemic):
    file = tmp_path / "page.html"
    answer = json_of("report", "case:epidemic", "-k", 6, "-m", 4, "-o", file, "--title", "An outbreak")
    assert answer["value"] == epidemic.plan(6, 4).value
    assert answer["bytes"] == file.stat().st_size
    page = file.read_text(encoding="utf-8")
    assert "An outbreak" in page
    assert "case:epidemic" in page
    assert "Written to" in words("report", "case:epidemic", "-k", 6, "-o", file, "--features", "I")


# ---- demo -------------------------------------------------------------------------------------------------------


@pytest.mark.compiled
def test_demo_as_json(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = json_of("demo")
    ward, patient = answer["stories"]
    case = tether.cases.ward()
    cf = tether.counterfactual(case.mdp, case.path)
    assert [one["value"] for one in ward["explanations"]] == [cf.plan(k, 1).value for k in (1, 2)]
    assert ward["explanations"][0]["steps"][0]["state"] == "sick"
    assert len(patient["explanations"]) == 1
    assert list(tmp_path.iterdir()) == []  # only the text of the demonstration is also left in a file


def test_what_if_by_step_and_by_the_log_s_own_hours(tmp_path):
    ward = tether.cases.ward()
    asked = tether.counterfactual(ward.mdp, ward.path).what_if({3: "treat"}, best_from=None)
    answer = json_of("what-if", "case:ward", "--at", "3=treat")
    assert (answer["value"], answer["needed_k"], answer["outcomes"]) == (asked.value, asked.needed_k, asked.outcomes())
    log = tmp_path / "log.csv"
    rows = zip((20.0, 22.1, 24.2, 26.3, 28), ward.path.states, (*ward.path.actions, ""), strict=True)
    log.write_text(
        "patient,hour,state,action\nx,1,sick,treat\nx,2,well,\n" + "".join(f"a,{h},{s},{a}\n" for h, s, a in rows)
    )
    read = ("--path-column", "episode=patient", "--time", "hour", "--step-name", "hour")
    text = run("what-if", "case:ward", f"{log}#a", *read, "--at", "26.3=treat")
    assert text.startswith("hour 26.3 (step 3):\n")
    assert "26.3  worse → wait" in text
    assert json_of("what-if", "case:ward", f"{log}#a", *read, "--at", "26.3=treat")["value"] == asked.value
    for wrong, why in (
        ("9=treat", "there is no step 9"),
        ("treat", "is not of the form"),
        ("1.5=treat", "no step 1.5"),
    ):
        done = CliRunner().invoke(main, ["what-if", "case:ward", "--at", wrong])
        assert (done.exit_code, why in done.stderr) == (2, True)
    assert CliRunner().invoke(main, ["what-if", "case:ward"]).exit_code == 2


def test_long_episodes_are_folded():
    grid = tether.cases.grid_world()
    path = tether.Path([0] * 61, ["up"] * 60)
    explanation = tether.counterfactual(grid.mdp, path).plan(k=1, m=0).explain(certificate=False)
    from tether.cli.steps_table import steps_table

    assert steps_table(explanation.steps).row_count == 3  # the first, 59 alike, the last


# ---- certify and robust -----------------------------------------------------------------------------------------


def test_certify_tells_what_the_library_certifies(epidemic):
    answer = json_of("certify", "case:epidemic", "-k", 6, "-m", 4)
    found = epidemic.plan(6, 4).certify()
    assert (answer["k"], answer["m"], answer["policy"]) == (6, 4, None)
    assert answer["certificate"] == as_data(found)
    assert answer["certificate"]["verdict"] == "holds"
    shown = words("certify", "case:epidemic", "-k", 6, "-m", 4)
    assert found.sentence in shown
    by_name = json_of("certify", "case:epidemic", "--policy", "random")
    assert (by_name["policy"], by_name["certificate"]) == ("random", as_data(tether.certify(epidemic, "random")))
    assert "k" not in by_name
    over = json_of("certify", "case:epidemic", "--policy", "random", "--objective", "reach over")
    assert over["objective"] == "reach over"
    assert over["certificate"] == as_data(tether.certify(epidemic, "random", objective=tether.reach("over")))


def test_certify_a_policy_from_a_file(tmp_path):
    case, file = tether.cases.grid_world(), tmp_path / "policy.csv"
    rows = [f"{t},{s},{action}\n" for t, action in enumerate(case.path.actions) for s in case.mdp.states]
    file.write_text("t,state,action\n" + "".join(rows))
    certificate = json_of("certify", "case:grid-world", "--policy", file)["certificate"]
    assert certificate["nothing"]["worst"] == certificate["nothing"]["best"] == -897.0
    assert "Every causal model that agrees with the model and the episode gives the observed return." in words(
        "certify", "case:grid-world", "--policy", file
    )


def test_policies_that_do_not_fit_are_refused(tmp_path):
    grid = tether.cases.grid_world()
    file = tmp_path / "policy.csv"
    file.write_text("state,action\n" + "".join(f"{s},up\n" for s in grid.mdp.states))
    refused = CliRunner().invoke(main, ["certify", "case:epidemic", "--policy", str(file)])
    assert refused.exit_code == 2
    assert "policy.csv" in refused.stderr
    file.write_text("state,action\n0,up\n")
    partly = CliRunner().invoke(main, ["certify", "case:grid-world", "--policy", str(file)])
    assert partly.exit_code == 2
    assert "the policy says nothing for state" in partly.stderr
    both = CliRunner().invoke(main, ["certify", "case:grid-world", "--policy", "random", "-k", "3"])
    assert both.exit_code == 2
    assert "with --policy there is none to make" in both.stderr


def test_robust_tells_what_the_library_guarantees(tmp_path):
    case = tether.cases.epidemic()
    sure = tether.robust(case.mdp, case.path, assume="nothing")
    plan = sure.plan(6, 4)
    answer = json_of("robust", "case:epidemic", "-k", 6, "-m", 4, "--assume", "nothing", "--export", tmp_path / "o.drn")
    assert (answer["value"], answer["best_case"], answer["assume"]) == (plan.value, plan.best_case, "nothing")
    assert answer["expected_value"] == plan.evaluate().value
    assert (answer["confidence"], answer["gain"]) == (None, plan.gain)
    assert answer["export"] == as_data(sure.write(tmp_path / "o.drn", 6, 4))
    default = json_of("robust", "case:epidemic", "-k", 6, "-m", 4)
    assert (default["assume"], default["export"]) == ("stability", None)
    shown = words("robust", "case:epidemic", "-k", 6, "-m", 4, "--export", tmp_path / "o.nm")
    assert 'R{"reward"}maxmin=? [ F "done" ] is the guaranteed return plus 72.' in shown
    shown = words("robust", "case:epidemic", "-k", 6, "-m", 4, "--export", tmp_path / "o.drn")
    assert "is the guaranteed return plus 72, if Storm resolves the uncertainty robustly." in shown
    shown = words(
        "robust", "case:epidemic", "-k", 6, "-m", 4, "--objective", "reach over", "--export", tmp_path / "o.drn"
    )
    assert shown.endswith("is the guaranteed probability, if Storm resolves the uncertainty robustly.")
    exported = (tmp_path / "o.drn").read_text()
    assert sure.write(tmp_path / "over.drn", 6, 4, objective="reach over").shift == 0
    assert (tmp_path / "over.drn").read_text() == exported
    refused = CliRunner().invoke(main, ["robust", "case:epidemic", "--minimise", "--export", str(tmp_path / "o.drn")])
    assert "leave out --minimise" in " ".join(refused.output.split())


def test_robust_on_a_learned_model(tmp_path):
    seen = {("treat", "well"): 80, ("treat", "dead"): 2, ("wait", "well"): 20, ("wait", "dead"): 30}
    paths = [tether.Path(["sick", after], [did]) for (did, after), times in seen.items() for _ in range(times)]
    mdp = learn(paths).with_objective(final_reward={"well": 1.0})
    mdp.save(tmp_path / "learned")
    path = tether.Path(["sick", "dead"], ["wait"])
    write_path(path, tmp_path / "path.csv")
    asked = "robust", tmp_path / "learned", tmp_path / "path.csv", "-k", 1, "--confidence", 0.95
    answer = json_of(*asked)
    assert answer["value"] == tether.robust(mdp, path, "nothing", confidence=0.95).plan(1).value
    assert (answer["assume"], answer["confidence"]) == ("nothing", 0.95)
    assert "all transition probabilities that the log allows (jointly, with 95 % confidence)" in words(*asked)
    refused = CliRunner().invoke(main, [*map(str, asked), "--assume", "stability"])
    assert refused.exit_code == 2
    assert "go with assume='nothing' alone, not 'stability'" in refused.stderr
    refused = CliRunner().invoke(main, ["robust", "case:epidemic", "--confidence", "0.95"])
    assert "was not learned from episodes" in refused.stderr


def test_the_model_of_an_episode_and_its_plan_are_exported(tmp_path):
    """Both are about the same question; the answer is the value that is printed."""
    model, plan = tmp_path / "episode.drn", tmp_path / "best.json"
    about = "explain", "case:grid-world", "-k", 6, "-m", 2, "--no-certificate"
    found = json_of(*about, "--export", model, "--export", plan)
    assert [one["file"] for one in found["export"]] == [str(model), str(plan)]
    assert found["export"][0]["question"] == 'R{"reward"}max=? [ C<=12 ]'
    assert found["export"][1]["question"] is None
    read = tether.io.read_model(model)
    assert read.n_states == found["export"][0]["states"]
    assert read.evaluate(tether.io.open_policy(plan, read), 12).value == pytest.approx(found["value"])
    assert json_of(*about)["export"] == []
    printed = words(*about, "--export", model)
    assert printed.endswith(f'Written to {model}: R{{"reward"}}max=? [ C<=12 ]'.replace("  ", " "))
    printed = words(*about, "--export", tmp_path / "episode.tra")
    assert printed.endswith("episode.tra: Rmax=? [ C<=12 ], less 1,200")
    refused = CliRunner().invoke(main, [*map(str, about), "--never", "0", "--export", str(model)])
    assert refused.exit_code == 2
    assert "leave out --subject-to, --only, --never or --cost" in " ".join(refused.output.split())
